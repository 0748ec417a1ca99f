//! What calls cost beside those of a bare server, and what a thousand live attempts, or gigabytes
//! of log, cost the daemon. Prints a table in Markdown, the one of `docs/scale.md`; home and
//! repository are scratch.
//!
//! ```text
//! cargo build --release
//! cargo run --release --example bench -- calls [ROUNDS]
//! cargo run --release --example bench -- live  [ATTEMPTS]
//! cargo run --release --example bench -- flood [ATTEMPTS] [MEGABYTES]
//! cargo run --release --example bench -- worktree [FILES]
//! ```

mod calls;
mod flood;
mod floor;
mod line_client;
mod live;
mod memory;
mod scratch;
mod worktree;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| -> Result<usize> {
        args.get(at).map_or(Ok(default), |text| text.parse().map_err(Into::into))
    };
    let path = |at: usize| args.get(at).map(Path::new).ok_or("a path is missing");
    match args.first().map(String::as_str) {
        // What the executors are: this program again.
        Some("tick") => tick(),
        Some("pour") => flood::pour(number(1, 0)?),
        Some("say") => say(number(1, 0)?),
        Some("floor-server") => floor::server(path(1)?, path(2)?),
        Some("floor-bridge") => floor::bridge(path(1)?),
        Some("calls") => run(calls::measure(number(1, 15)?)),
        Some("live") => run(live::measure(number(1, 1000)?)),
        Some("flood") => run(flood::measure(number(1, 50)?, number(2, 200)?)),
        Some("worktree") => run(worktree::measure(number(1, 20_000)?)),
        _ => {
            Err("say `calls [ROUNDS]`, `live [ATTEMPTS]`, `flood [ATTEMPTS] [MEGABYTES]` or `worktree [FILES]`"
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

/// So many lines, then the end.
fn say(lines: usize) -> Result<()> {
    let mut stdout = std::io::stdout();
    for number in 1..=lines {
        writeln!(stdout, "line {number} of a log that somebody reads")?;
    }
    Ok(())
}
