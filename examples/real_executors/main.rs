//! Runs the real coding-agent CLIs under Provost, against a model server on
//! loopback, and prints how each fares as a table in Markdown, the one of the
//! README. It fails if a CLI that is installed fails a check.
//!
//! ```text
//! cargo build
//! cargo run --example real_executors -- [--only claude,codex] [--keep]
//! ```
//!
//! The CLIs are installed from the npm registry into `target/real-executors`, and
//! kept there. Everything else is scratch: home, repository, daemon, environment.

mod checks;
mod clis;
mod install;
mod lab;
mod processes;
mod report;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use model_server::ModelServer;

use crate::clis::Cli;
use crate::install::Shelf;
use crate::lab::Lab;
use crate::report::Row;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What takes longer has failed. CLIs try again for minutes when a model fails.
const PATIENCE: Duration = Duration::from_mins(6);

/// Between two looks at something that nobody announces.
const GLANCE: Duration = Duration::from_millis(100);

/// Runs the real coding-agent CLIs under Provost.
#[derive(Parser)]
struct Options {
    /// Only these CLIs, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these checks, separated by commas.
    #[arg(long, value_delimiter = ',')]
    checks: Vec<String>,
    /// Where the CLIs are, or are installed.
    #[arg(long, default_value = "target/real-executors")]
    clis: PathBuf,
    /// The program that is tried; default: the one that Cargo built.
    #[arg(long)]
    provost: Option<PathBuf>,
    /// Keep what is scratch, logs among it.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    tokio::select! {
        passed = run(&options) => Ok(if passed? { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    }
}

/// Whether all went well.
async fn run(options: &Options) -> Result<bool> {
    let known: Vec<&str> = clis::ALL.iter().map(|cli| cli.name).collect();
    if let Some(stranger) = options.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("{stranger} is none of {}", known.join(", ")).into());
    }
    let shelf = Shelf::open(&options.clis)?;
    let mut rows = Vec::new();
    for cli in &clis::ALL {
        if options.only.is_empty() || options.only.iter().any(|name| name == cli.name) {
            rows.push(row(options, &shelf, cli).await?);
        }
    }
    println!("{}", report::table(&rows));
    Ok(rows.iter().all(Row::passed))
}

async fn row(options: &Options, shelf: &Shelf, cli: &'static Cli) -> Result<Row> {
    let version = match shelf.get(cli) {
        Ok(version) => version,
        Err(reason) => return Ok(Row::missing(cli.name, &reason.to_string())),
    };
    eprintln!("{} {version}", cli.name);
    let mut dir = shelf.scratch(cli)?;
    if options.keep {
        dir.disable_cleanup(true);
        eprintln!("  kept: {}", dir.path().display());
    }
    let server = ModelServer::start(0, Some(dir.path().join("model.jsonl"))).await?;
    let setup = (cli.setup)(&server.url());
    let mut lab = Lab::make(cli.name, &setup, shelf.path(cli), provost(options)?, dir)?;
    let is_wanted =
        |check: &&str| options.checks.is_empty() || options.checks.iter().any(|name| name == check);
    let wanted: Vec<&str> = checks::CHECKS.into_iter().filter(is_wanted).collect();
    let client = lab.client().await?;
    let cells = checks::all(&mut lab, &client, &wanted).await;
    Ok(Row::new(cli.name, &version, cells))
}

fn provost(options: &Options) -> Result<PathBuf> {
    if let Some(given) = &options.provost {
        return Ok(std::path::absolute(given)?);
    }
    // This file is target/debug/examples/real_executors.
    let folder = std::env::current_exe()?.ancestors().nth(2).map(Path::to_owned);
    Ok(folder.ok_or("an unknown layout of target")?.join("provost"))
}

fn command(program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    #[expect(clippy::disallowed_methods, reason = "a client may start programs")]
    std::process::Command::new(program)
}
