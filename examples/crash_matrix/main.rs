//! The crash matrix: 20 scripted executors write numbered lines with checksums,
//! while daemon, shims and bridge are killed at instants and places that a seed
//! chooses. After each death everything is held against what was asked for:
//! every line once and in order, every exit status known, every request one
//! effect, no orphan, nothing left behind, nothing told that is not so.
//!
//! ```text
//! cargo build --release --bin provost
//! cargo run --release --example crash_matrix -- --rounds 1000 --seed 1
//! ```
//!
//! - `script` and `executor`: what the executors do, and doing it.
//! - `init`: the first process, to which everything falls that loses its parent.
//! - `scratch`, `session`, `processes`: a home, a client, and who is alive.
//! - `fleet` and `finishes`: what is asked for. `faults`: who dies. `inject`: their deaths.
//!   `judge` and `ending`: what is found after each round, and when a home is left.

mod ending;
mod executor;
mod faults;
mod finishes;
mod fleet;
mod init;
mod inject;
mod judge;
mod processes;
mod report;
mod scratch;
mod script;
mod session;
mod setups;

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use fastrand::Rng;

use faults::{FAULTS, Kind};
use fleet::{Fleet, LIVE};
use report::Table;
use scratch::Scratch;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Set in the process that runs the matrix; the first one is its init.
const INNER: &str = "CRASH_MATRIX_INNER";

/// Kills daemon, shims and bridge, again and again, and checks that nothing is lost.
#[derive(Parser)]
struct Options {
    /// How many faults to inject.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// What all choices follow from; a random one if left out.
    #[arg(long)]
    seed: Option<u64>,
    /// The binary to prove; the one that was built beside this program if left out.
    #[arg(long)]
    provost: Option<PathBuf>,
    /// Makes an executor skip or repeat a line, which has to be found.
    #[arg(long, hide = true, value_parser = executor::BREAKS)]
    r#break: Option<String>,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
#[command(hide = true)]
enum Role {
    #[command(hide = true)]
    Executor { witnesses: PathBuf },
    #[command(hide = true)]
    Leftover { millis: u64 },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.role {
        Some(Role::Executor { witnesses }) => executor::run(witnesses),
        Some(Role::Leftover { millis }) => executor::stay(Duration::from_millis(*millis)),
        None if std::env::var_os(INNER).is_none() => return init::run(INNER),
        None => run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crash_matrix: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let program = program(options.provost.as_deref())?;
    let seed = options.seed.unwrap_or_else(|| Rng::new().u64(..1 << 32));
    let began = Instant::now();
    let mut table = Table::new();
    let mut matrix = Matrix { program, rng: Rng::with_seed(seed), fleet: None, checks: 0, lost: 0 };
    let mut bag: Vec<usize> = Vec::new();
    for round in 1..=options.rounds {
        if bag.is_empty() {
            // Each fault once, in a new order.
            bag = (0..FAULTS.len()).collect();
            matrix.rng.shuffle(&mut bag);
        }
        let fault = bag.pop().unwrap_or_default();
        let result = matrix
            .round(fault, options, &mut table)
            .and_then(|()| if round == options.rounds { matrix.leave() } else { Ok(()) });
        table.checked(fault, matrix.take_checks(), u32::from(result.is_err()));
        if let Err(error) = result {
            println!("{table}\n");
            let kept = matrix.keep();
            println!("round {round} failed ({}): {error}\n", FAULTS[fault].name);
            println!("{kept}again: crash_matrix --seed {seed} --rounds {round}");
            return Err(format!("seed {seed}, round {round}").into());
        }
        if round % 50 == 0 {
            eprintln!("{round} rounds, {:.0?}", began.elapsed());
        }
    }
    println!("{table}\n");
    println!(
        "{} turns lost daemon and shim at once, or their shim at its start, and say so.\n\
         {} rounds in {:.0?}; again: crash_matrix --seed {seed} --rounds {}",
        matrix.lost,
        options.rounds,
        began.elapsed(),
        options.rounds
    );
    Ok(())
}

struct Matrix {
    program: PathBuf,
    rng: Rng,
    /// What goes on in the home of the moment.
    fleet: Option<Fleet>,
    checks: u64,
    lost: u64,
}

impl Matrix {
    fn round(&mut self, fault: usize, options: &Options, table: &mut Table) -> Result<()> {
        let kind = FAULTS[fault].kind;
        if matches!(kind, Kind::Migration) {
            self.leave()?;
        }
        if self.fleet.is_none() {
            let scratch = Scratch::make(&self.program, LIVE + 1)?;
            if matches!(kind, Kind::Migration) {
                self.migrate(&scratch)?;
            }
            let mut fleet = Fleet::launch(scratch, self.rng.fork())?;
            fleet.betrayal.clone_from(&options.r#break);
            let fleet = self.fleet.insert(fleet);
            fleet.act()?;
            fleet.finish()?;
        }
        let fleet = self.fleet.as_mut().ok_or("no home")?;
        let is_reached = fleet.inject(kind)?;
        table.injected(fault, is_reached);
        fleet.look()
    }

    /// Kills the daemon in its migrations, until one gets through them.
    fn migrate(&mut self, scratch: &Scratch) -> Result<()> {
        loop {
            let place = format!("migration.written@{}", self.rng.u32(1..5));
            let mut daemon = scratch.start_to_die_at(&place)?;
            if daemon.try_wait()?.is_none() {
                daemon.kill()?;
                daemon.wait()?;
                return Ok(());
            }
        }
    }

    /// Ends what goes on, and looks at what is left.
    fn leave(&mut self) -> Result<()> {
        if let Some(fleet) = &mut self.fleet {
            fleet.end()?;
            self.lost += fleet.lost;
            self.checks += fleet.checks;
            self.fleet = None;
        }
        Ok(())
    }

    /// How many checks were made since it was asked last.
    fn take_checks(&mut self) -> u64 {
        let fleet = self.fleet.as_mut().map_or(0, |fleet| std::mem::take(&mut fleet.checks));
        fleet + std::mem::take(&mut self.checks)
    }

    /// Leaves the home as it is found, and says where.
    fn keep(&mut self) -> String {
        let Some(mut fleet) = self.fleet.take() else { return String::new() };
        fleet.scratch.keep();
        format!("kept: {}\n", fleet.scratch.root().display())
    }
}

/// The binary to prove. This file is `target/<profile>/examples/crash_matrix`.
fn program(given: Option<&Path>) -> Result<PathBuf> {
    let built = || Some(std::env::current_exe().ok()?.ancestors().nth(2)?.join("provost"));
    let path = given.map(Path::to_owned).or_else(built).ok_or("where is provost?")?;
    if !path.exists() {
        let release = if cfg!(debug_assertions) { "" } else { " --release" };
        let path = path.display();
        return Err(format!("{path} is not there: cargo build{release} --bin provost").into());
    }
    Ok(std::path::absolute(path)?)
}

/// Counts a check.
fn check(checks: &mut u64, holds: bool, describe: impl FnOnce() -> String) -> Result<()> {
    *checks += 1;
    if holds { Ok(()) } else { Err(describe().into()) }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !holds()? {
        if Instant::now() > deadline {
            return Err(format!("{what}: it did not come true").into());
        }
        pause(Duration::from_millis(2));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "instants are what this is about")]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[expect(clippy::disallowed_methods, reason = "this is no daemon")]
fn command(program: impl AsRef<OsStr>) -> std::process::Command {
    std::process::Command::new(program)
}
