//! The process that leads out of an executor's own network: an HTTP proxy that allows or refuses by the
//! name of the host. It accepts connections in the executor's namespace and makes connections in the daemon's
//! (`process/network.rs` draws that). Its only input from the daemon is its working folder, the process's
//! folder:
//!
//! ```text
//!  reads   manifest.json     the lists of allowed and refused hosts, once
//!          ../allow_hosts    what a person has allowed since for the attempt, at each request that needs it
//!  writes  network.json      the counts and the newest refusals, which the daemon watches
//!          network.log       every decision; network.log.1 has older ones
//! ```

mod record;
mod serve;

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use nix::unistd::setsid;
use provost_actors::process::network::{self, Network};
use provost_actors::process::records::{self, Manifest};
use provost_actors::process::{forbid_core_dumps, set_name};
use provost_actors::sandbox::ALLOWED_FILE;
use provost_actors::sandbox::allowed_destinations::{Allowed, Target};
use record::Record;

/// The process's folder is the working folder.
const HERE: &str = ".";

/// What all connections share.
struct Proxy {
    /// The manifest's list.
    allowed: Allowed,
    /// Hosts that stay refused, and for which no person is asked.
    refused: Allowed,
    /// The file with the hosts that a person has allowed for the attempt.
    asked: PathBuf,
    record: Mutex<Record>,
}

impl Proxy {
    /// The list that decides about a target: the manifest's if it allows the target, else together with the
    /// file. The file is read each time, so that an approval takes effect at once.
    fn list(&self, target: &Target) -> Cow<'_, Allowed> {
        if self.allowed.judge(target).is_ok() {
            return Cow::Borrowed(&self.allowed);
        }
        let more = fs::read_to_string(&self.asked).unwrap_or_default();
        Cow::Owned(self.allowed.with(more.lines()))
    }
}

/// Runs as a proxy if the command line says so, until its namespace has no process; `None`: the command
/// line says something else. To be called while the process has one thread, since [`network::probe`] needs
/// that.
pub fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != network::ARGUMENT {
        return None;
    }
    set_name(c"provost-proxy");
    let is_probe = arguments.next().is_some_and(|argument| argument == network::PROBE);
    let ended = if is_probe { network::probe() } else { run() };
    Some(if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails without a manifest or a box in it, and if no shim connects in time.
fn run() -> io::Result<()> {
    // A session of its own, so that signals of the daemon's terminal do not reach the proxy.
    setsid()?;
    let _ = forbid_core_dumps();
    let manifest: Option<Manifest> = records::read(Path::new(HERE), Manifest::FILE)?;
    let sandbox = manifest.and_then(|it| it.sandbox).ok_or(io::ErrorKind::InvalidData)?;
    let network = Network::receive()?;
    let proxy = Proxy {
        allowed: Allowed::default().with(sandbox.hosts.iter().map(String::as_str)),
        refused: Allowed::default().with(sandbox.refused.iter().map(String::as_str)),
        asked: Path::new(HERE).join("..").join(ALLOWED_FILE),
        record: Mutex::new(Record::new(HERE.into())),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (listener, proxy) = (network.listener.try_clone()?, Arc::new(proxy));
        for listener in &network.passed {
            tokio::spawn(serve::pass(listener.try_clone()?, Arc::clone(&proxy)));
        }
        tokio::select! {
            served = serve::serve(listener, proxy) => served,
            gone = network.gone() => gone,
        }
    })?;
    runtime.shutdown_background();
    Ok(())
}
