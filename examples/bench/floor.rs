//! What calls are measured against: a server of bare rmcp behind a socket, which gives the answers
//! that Provost gave, and a bridge that copies bytes. Nothing of Provost is in them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Map, Value};
use tokio::net::UnixListener;

use crate::Result;

/// Answers by the names of tools.
#[derive(Clone)]
struct Bare(Arc<Map<String, Value>>);

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let answer = self.0.get(request.name.as_ref()).cloned().unwrap_or_default();
        Ok(CallToolResult::structured(answer).into())
    }
}

/// Serves the answers in the file until it is killed.
pub fn server(socket: &Path, answers: &Path) -> Result<()> {
    let bare = Bare(serde_json::from_slice(&std::fs::read(answers)?)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = UnixListener::bind(socket)?;
        loop {
            let (stream, _) = listener.accept().await?;
            let bare = bare.clone();
            tokio::spawn(async move {
                let running = bare.serve(stream).await?;
                running.waiting().await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            });
        }
    })
}

/// Copies the standard streams to a socket and back, each way in a thread.
pub fn bridge(socket: &Path) -> Result<()> {
    let up = UnixStream::connect(socket)?;
    let down = up.try_clone()?;
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    std::thread::spawn(move || copy(stdin, &up).and_then(|()| up.shutdown(Shutdown::Write)));
    Ok(copy(down, stdout)?)
}

/// Not the copy of the standard library, which waits for whole blocks where it splices.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            read => to.write_all(&bytes[..read])?,
        }
    }
}
