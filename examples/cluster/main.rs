//! The cluster under faults: hosts with a daemon each, on one board on PostgreSQL, in network
//! namespaces that can be cut off. Hosts, their links, daemons and servers are killed, cut or halted
//! while executors write a ledger outside of the database; after each fault the ledger says what ran
//! when. Nothing may run twice, nothing may be lost, nothing may stay unfinished; and where the fence
//! is switched off, the check has to find an overlap.
//!
//! ```text
//! cargo build --bin provost --example cluster
//! target/debug/examples/cluster faults [--short] [--only FAULT,…]
//! target/debug/examples/cluster rates [--short]
//! ```
//!
//! - `network`, `engine`, `host`: a machine, a server, a daemon. `cluster`: all of them. `init`: the
//!   first process of the namespaces.
//! - `tick`: what the executors do. `oracle`: what their ledger proves. Pure.
//! - `faults`: the table of faults, and what has to follow from each; `inject`: how they are caused; `relay`: a way
//!   to the board that takes its time. `rates`: how fast it is; `store_rates`:
//!   how fast the store alone.

mod cluster;
mod engine;
mod faults;
mod host;
#[path = "../crash_matrix/init.rs"]
mod init;
mod inject;
mod network;
mod oracle;
mod rates;
mod relay;
#[expect(dead_code, reason = "the crash matrix uses all of it")]
#[path = "../crash_matrix/session.rs"]
mod session;
mod store_rates;
mod tick;

use std::error::Error;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_mins(3);
/// Set in the first process of the namespaces, and in that which does the work.
const FIRST: &str = "PROVOST_CLUSTER_FIRST";
const INNER: &str = "PROVOST_CLUSTER_INNER";

#[derive(Parser)]
#[command(about = "Hosts on one board under faults")]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Breaks what can break, and checks what has followed.
    Faults {
        /// The faults that need no long wait, and the one that must be found.
        #[arg(long)]
        short: bool,
        /// Their names, as the table has them.
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// The binary; the one that was built beside this program if left out.
        #[arg(long)]
        provost: Option<PathBuf>,
        /// How long a lease lasts, in seconds.
        #[arg(long, default_value_t = 10)]
        lease: u64,
    },
    /// Measures what the hosts do in a second.
    Rates {
        #[arg(long)]
        short: bool,
        #[arg(long)]
        provost: Option<PathBuf>,
    },
    #[command(hide = true)]
    Tick { ledger: PathBuf },
    #[command(hide = true)]
    Relay { to: Ipv4Addr, delay_ms: u64 },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.what {
        What::Tick { ledger } => tick::run(ledger),
        What::Relay { to, delay_ms } => relay::run(*to, Duration::from_millis(*delay_ms)),
        _ if std::env::var_os(FIRST).is_none() => Err(enter()),
        _ if std::env::var_os(INNER).is_none() => return init::run(INNER),
        What::Faults { short, only, provost, lease } => {
            let lease = Duration::from_secs(*lease);
            program(provost.as_deref()).and_then(|it| faults::run(&it, *short, only, lease))
        }
        What::Rates { short, provost } => {
            program(provost.as_deref()).and_then(|it| rates::run(&it, *short))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Becomes a process with a network and processes of its own: all that it starts ends with it. As an
/// ordinary user it gets them by a user namespace (user_namespaces(7)). Returns only if that fails.
fn enter() -> Box<dyn Error> {
    let mut inner = command("unshare");
    if !nix::unistd::geteuid().is_root() {
        inner.args(["--user", "--map-root-user"]);
    }
    inner.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return error.into(),
    };
    inner.arg(own).args(std::env::args_os().skip(1)).env(FIRST, "1");
    format!("unshare(1) of util-linux, which makes the namespaces: {}", inner.exec()).into()
}

/// The binary to prove. This file is `target/<profile>/examples/cluster`.
fn program(given: Option<&Path>) -> Result<PathBuf> {
    let built = || Some(std::env::current_exe().ok()?.ancestors().nth(2)?.join("provost"));
    let path = given.map(Path::to_owned).or_else(built).ok_or("where is provost?")?;
    if !path.exists() {
        return Err(format!("{} is not there: cargo build --bin provost", path.display()).into());
    }
    Ok(std::path::absolute(path)?)
}

fn wait_until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !holds()? {
        if Instant::now() > deadline {
            return Err(format!("{what}: it did not come true").into());
        }
        pause(Duration::from_millis(100));
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "for how long something is broken is what this is about"
)]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[expect(clippy::disallowed_methods, reason = "this is no daemon")]
fn command(program: impl AsRef<OsStr>) -> std::process::Command {
    std::process::Command::new(program)
}

/// Runs a program that has to work.
fn run(command: &mut std::process::Command) -> Result<()> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}: {said}", output.status).into())
}
