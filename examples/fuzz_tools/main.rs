//! Calls every tool with arguments that a seed makes from the published schemas: right
//! ones, and wrong ones of every kind; and sends lines that are not calls at all. Each
//! request must have exactly one answer of the promised form, and the daemon must live.
//!
//! ```text
//! cargo build --release --bin provost
//! cargo run --release --example fuzz_tools -- --calls 30000 --seed 1
//! ```
//!
//! - `generate`: arguments from a schema, and what makes them wrong. Pure.
//! - `judge`: whether an answer has the promised form. Pure.
//! - `scratch`: a home, a repository, a daemon, and a connection to it.

mod generate;
mod judge;
mod scratch;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use fastrand::Rng;
use serde_json::{Value, json};

use generate::{Ids, Request};
use judge::Judge;
use scratch::{Connection, Scratch};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Requests that are sent before their answers are read.
const IN_FLIGHT: usize = 16;

/// Calls every tool with right and wrong arguments, and checks each answer.
#[derive(Parser)]
struct Options {
    /// How many requests to send.
    #[arg(long, default_value_t = 1000)]
    calls: usize,
    /// What all choices follow from; a random one if left out.
    #[arg(long)]
    seed: Option<u64>,
    /// The binary to try; the one that was built beside this program if left out.
    #[arg(long)]
    provost: Option<PathBuf>,
    /// Falsify an answer, to see that it is found: `envelope`, `output` or `silence`.
    #[arg(long = "break")]
    falsify: Option<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    match run(&options, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fuzz_tools: {error}");
            eprintln!("again: fuzz_tools --seed {seed} --calls {}", options.calls);
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options, seed: u64) -> Result<()> {
    let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("../provost"));
    let program = options.provost.clone().map_or_else(beside, Ok)?;
    let mut scratch = Scratch::start(&program.canonicalize()?)?;
    let mut rng = Rng::with_seed(seed);
    let mut board = scratch.connect("orchestrator")?;
    let mut all = scratch.connect("all")?;
    let tools = tools_of(&mut board)?.into_iter().chain(tools_of(&mut all)?).collect();
    let mut ids = scratch.board(&mut board)?;
    let mut judge = Judge::new(&tools, options.falsify.as_deref())?;
    let mut sent = 0;
    while sent < options.calls {
        let count = IN_FLIGHT.min(options.calls - sent);
        let requests: Vec<Request> =
            (0..count).map(|_| generate::request(&mut rng, &tools, &ids)).collect();
        exchange(&mut all, &requests, &mut judge, &mut ids)?;
        sent += count;
    }
    scratch.is_well(&mut board)?;
    judge.report(seed, sent);
    Ok(())
}

/// The definitions by name.
fn tools_of(connection: &mut Connection) -> Result<BTreeMap<String, Value>> {
    let listed = connection.ask("tools/list", &json!({}))?;
    let tools = listed["result"]["tools"].as_array().ok_or("no list of tools")?;
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    Ok(tools.iter().map(|tool| (name(tool), tool.clone())).collect())
}

/// Sends requests and judges their answers, which come in any order.
fn exchange(
    connection: &mut Connection,
    requests: &[Request],
    judge: &mut Judge,
    ids: &mut Ids,
) -> Result<()> {
    let mut waiting = BTreeMap::new();
    let mut without_id = 0;
    for request in requests {
        match connection.send(request)? {
            Some(id) => drop(waiting.insert(id, request)),
            None => without_id += 1,
        }
    }
    while !waiting.is_empty() || without_id > 0 {
        let answer = connection.next().map_err(|error| {
            let calls: Vec<String> = waiting.values().map(ToString::to_string).collect();
            format!("{error}; without an answer: {}", calls.join("\n"))
        })?;
        let Some(id) = answer["id"].as_u64() else {
            judge.unnumbered(&answer)?;
            without_id -= 1;
            continue;
        };
        let request = waiting.remove(&id).ok_or_else(|| format!("answered twice: {answer}"))?;
        judge.answer(request, answer.clone()).map_err(|fault| {
            format!("{fault}\nthe request was {request}\nthe answer was {answer}")
        })?;
        ids.learn(&answer);
    }
    Ok(())
}
