//! What Provost's paths cost, each beside a floor that is measured in the same run: `all` prints the
//! table of `docs/performance.md`. `live` and `flood` measure a thousand attempts and gigabytes of
//! log, and print the tables of `docs/scale.md`. Homes and repositories are scratch.
//!
//! ```text
//! cargo build --release --bin provost --example bench
//! cargo run --release --example bench -- all [--short] [--json FILE] [--keep DOCS] [SUITE]
//! cargo run --release --example bench -- curves FOLDER [--short]
//! cargo run --release --example bench -- live  [ATTEMPTS]
//! cargo run --release --example bench -- flood [ATTEMPTS] [MEGABYTES]
//! cargo run --release --example bench -- worktree [FILES]
//! ```

mod answer;
mod board;
mod board_data;
mod board_floor;
mod calls;
mod counts;
mod curves;
mod flood;
mod floor;
mod follow;
mod idle;
mod line_client;
mod live;
mod memory;
mod normalize;
mod plot;
mod record;
mod scratch;
mod start;
mod table;
mod transcripts;
mod transfer;
mod worktree;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use table::{HEADS, Row};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// What the table is made from.
    Full,
    /// Enough to see that each path and each floor works.
    Short,
}

impl Size {
    /// Rounds of a measurement that has so many.
    pub fn rounds(self, full: usize) -> usize {
        self.choose(full, 1)
    }

    pub fn choose<T>(self, full: T, short: T) -> T {
        if self == Self::Full { full } else { short }
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| -> Result<usize> {
        args.get(at).map_or(Ok(default), |text| text.parse().map_err(Into::into))
    };
    let path = |at: usize| args.get(at).map(Path::new).ok_or("a path is missing");
    match args.first().map(String::as_str) {
        // What the executors are: this program again.
        Some("tick") => tick(),
        // A variant's figure comes after the executor's.
        Some("pour") => flood::pour(number(args.len() - 1, 0)?),
        Some("say") => say(number(1, 0)?),
        Some("floor-server") => floor::server(path(1)?, path(2)?),
        Some("floor-bridge") => floor::bridge(path(1)?),
        Some("idle") => idle(),
        Some("started") => start::started(path(1)?, args.len() == 3 && args[2] == "stay"),
        Some("change") => transfer::change(path(1)?, number(2, 0)?, args.get(3).is_some_and(|it| it == "true")),
        Some("drip") => follow::drip(number(1, 0)?),
        Some("floor-open") => run(answer::open(path(1)?)),
        Some("all") => run(all(&args[1..])),
        Some("curves") => run(draw(path(1)?, args.get(2).map(String::as_str))),
        Some("live") => run(live::measure(number(1, 1000)?)),
        Some("flood") => run(flood::measure(number(1, 50)?, number(2, 200)?)),
        Some("worktree") => run(worktree::measure(number(1, 20_000)?)),
        _ => Err("say `all [--short] [--json FILE] [--keep DOCS] [SUITE]`, `curves FOLDER [--short]`, `live [ATTEMPTS]`, \
                  `flood [ATTEMPTS] [MEGABYTES]` or `worktree [FILES]`"
            .into()),
    }
}

/// The suites of the table, in its order.
const SUITES: [&str; 9] =
    ["calls", "board", "answer", "start", "transfer", "follow", "flood", "normalize", "idle"];

async fn suite(name: &str, size: Size) -> Result<Vec<Row>> {
    match name {
        "calls" => calls::measure(size).await,
        "answer" => answer::measure(size).await,
        "idle" => idle::measure(size).await,
        "start" => start::measure(size).await,
        "transfer" => transfer::measure(size).await,
        "follow" => follow::measure(size).await,
        "normalize" => normalize::measure(size),
        "flood" => flood::rows(size).await,
        "board" => board::measure(size).await,
        _ => Err(format!("no suite {name:?}: there are {}", SUITES.join(", ")).into()),
    }
}

/// Measures one suite or all of them.
async fn all(args: &[String]) -> Result<()> {
    let (mut size, mut json, mut docs, mut chosen) = (Size::Full, None, None, None);
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--short" => size = Size::Short,
            "--json" => json = Some(args.next().ok_or("--json needs a file")?),
            "--keep" => docs = Some(args.next().ok_or("--keep needs a folder")?),
            name => chosen = Some(name),
        }
    }
    let suites = chosen.map_or(SUITES.to_vec(), |name| vec![name]);
    let mut rows = Vec::new();
    println!("{HEADS}");
    for name in suites {
        for row in suite(name, size).await? {
            println!("{}", row.line());
            rows.push(row);
        }
    }
    if let Some(file) = json {
        std::fs::write(file, serde_json::to_vec_pretty(&rows)?)?;
    }
    docs.map_or(Ok(()), |docs| record::keep(Path::new(docs), &rows))
}

/// Draws the curves into a folder.
async fn draw(folder: &Path, size: Option<&str>) -> Result<()> {
    let size = if size == Some("--short") { Size::Short } else { Size::Full };
    curves::all(size).await?.iter().try_for_each(|curve| curve.draw(folder))
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

/// Nothing, for ever.
fn idle() -> Result<()> {
    loop {
        std::thread::park();
    }
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
