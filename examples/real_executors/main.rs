//! Runs the real coding-agent CLIs under Provost, against a model server on
//! loopback, and prints the results as the Markdown table of `docs/executors.md`. It fails if an
//! installed CLI fails a check.
//!
//! ```text
//! cargo build
//! cargo run --example real_executors -- [--only claude,codex@0.149.0] [--sandbox strict] [--keep]
//! ```
//!
//! The CLIs are installed from the npm registry into `target/real-executors`, each
//! version in a folder of its own, and kept there. Everything else is scratch: home,
//! repository, daemon, environment. It is gone when the run ends, also by Ctrl-C.

mod checks;
mod clis;
mod install;
mod lab;
mod own_work;
mod processes;
mod report;

use std::error::Error;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use model_server::ModelServer;
use tokio::signal::unix::{SignalKind, signal};

use crate::clis::Pick;
use crate::install::Shelf;
use crate::lab::{Lab, Sandbox};
use crate::report::Row;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What takes longer has failed. CLIs try again for minutes when a model fails.
const TIMEOUT: Duration = Duration::from_mins(6);

/// A check that takes longer has failed.
const CHECK_MAX: Duration = Duration::from_mins(12);

/// Where the model server listens, as the servers of people's own models do.
const MODEL: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Between two looks at something that is not announced.
const GLANCE: Duration = Duration::from_millis(100);

/// Runs the real coding-agent CLIs under Provost.
#[derive(Parser)]
struct Options {
    /// Only these CLIs, separated by commas: `codex`, or `codex@0.149.0`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these checks, separated by commas.
    #[arg(long, value_delimiter = ',')]
    checks: Vec<String>,
    /// The sandbox that they run in; in `strict` with no host but the model server.
    #[arg(long, default_value = "workspace", value_parser = ["none", "workspace", "strict"])]
    sandbox: String,
    /// Where the CLIs are, or are installed.
    #[arg(long, default_value = "target/real-executors")]
    clis: PathBuf,
    /// The program to test; default: the one that Cargo built.
    #[arg(long)]
    provost: Option<PathBuf>,
    /// Keep scratch folders with their logs.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Err("terminated".into()),
        passed = run(&options) => Ok(if passed? { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    }
}

/// Whether all went well.
async fn run(options: &Options) -> Result<bool> {
    let newest = || clis::ALL.iter().map(|cli| Pick { cli, version: None }).collect();
    let named: std::result::Result<Vec<Pick>, String> =
        options.only.iter().map(|text| Pick::read(text)).collect();
    let picks = if options.only.is_empty() { newest() } else { named? };
    if let Some(unknown) = options.checks.iter().find(|it| !checks::CHECKS.contains(&it.as_str())) {
        return Err(format!("{unknown} is none of {}", checks::CHECKS.join(", ")).into());
    }
    let shelf = Shelf::open(&options.clis).await?;
    let mut rows = Vec::new();
    for pick in picks {
        rows.push(row(options, &shelf, pick).await?);
    }
    println!("{}", report::table(&rows));
    Ok(rows.iter().all(Row::passed))
}

async fn row(options: &Options, shelf: &Shelf, pick: Pick<'_>) -> Result<Row> {
    let cli = pick.cli;
    let version = match shelf.get(pick).await {
        Ok(version) => version,
        Err(reason) => return Ok(Row::missing(cli.name, &reason.to_string())),
    };
    eprintln!("{} {version}", cli.name);
    let mut dir = shelf.scratch(pick)?;
    if options.keep {
        dir.disable_cleanup(true);
        eprintln!("  kept: {}", dir.path().display());
    }
    let log = Some(dir.path().join("model.jsonl"));
    let server = ModelServer::start_at((MODEL, 0), log).await?;
    let setup = (cli.setup)(&server.url());
    let host = server.url().replace("http://", "");
    let sandbox = Sandbox { level: options.sandbox.clone(), host };
    let mut lab = Lab::make(cli.name, &setup, shelf.path(pick), provost(options)?, sandbox, dir)?;
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
