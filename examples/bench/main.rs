//! What a thousand live attempts, or gigabytes of log, cost the daemon. Prints a
//! table in Markdown, the one of `docs/scale.md`; home and repository are scratch.
//!
//! ```text
//! cargo build --release
//! cargo run --release --example scale -- live  [ATTEMPTS]
//! cargo run --release --example scale -- flood [ATTEMPTS] [MEGABYTES]
//! cargo run --release --example scale -- worktree [FILES]
//! ```

mod flood;
mod live;
mod memory;
mod scratch;
mod worktree;

use std::error::Error;
use std::io::Write;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| -> Result<usize> {
        args.get(at).map_or(Ok(default), |text| text.parse().map_err(Into::into))
    };
    match args.first().map(String::as_str) {
        // What the executors are: this program again.
        Some("tick") => tick(),
        Some("pour") => flood::pour(number(1, 0)?),
        Some("live") => run(live::measure(number(1, 1000)?)),
        Some("flood") => run(flood::measure(number(1, 50)?, number(2, 200)?)),
        Some("worktree") => run(worktree::measure(number(1, 20_000)?)),
        _ => {
            Err("say `live [ATTEMPTS]`, `flood [ATTEMPTS] [MEGABYTES]` or `worktree [FILES]`"
                .into())
        }
    }
}

fn run(measure: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            done = measure => done,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        }
    })
}

/// A line a second, for ever.
#[expect(clippy::disallowed_methods, reason = "it has nothing to wait for")]
fn tick() -> Result<()> {
    let mut stdout = std::io::stdout();
    for number in 1_u64.. {
        writeln!(stdout, "line {number}")?;
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
