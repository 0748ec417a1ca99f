//! The model server by itself, to try a CLI by hand.
//!
//! ```text
//! cargo run -p model-server -- PORT [LOG]
//! ```

use std::error::Error;

use model_server::ModelServer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let port = args.next().ok_or("say `model-server PORT [LOG]`")?.parse()?;
    let server = ModelServer::start(port, args.next().map(Into::into)).await?;
    println!("{}", server.url());
    tokio::select! {
        ended = server.wait() => ended?,
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(())
}
