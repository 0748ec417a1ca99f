//! The process that leads out of an executor's own network: an HTTP proxy which allows by the
//! name of the host. It accepts in the executor's namespace and connects in its own
//! (`process/network.rs`), and takes no more than a shim from the daemon: a folder.

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

/// What all its connections share.
struct Proxy {
    allowed: Allowed,
    /// What no person is asked for.
    refused: Allowed,
    /// The file with what a person has allowed since, for the attempt.
    asked: PathBuf,
    record: Mutex<Record>,
}

impl Proxy {
    /// The list by which a target is judged.
    fn list(&self, target: &Target) -> Cow<'_, Allowed> {
        if self.allowed.judge(target).is_ok() {
            return Cow::Borrowed(&self.allowed);
        }
        let more = fs::read_to_string(&self.asked).unwrap_or_default();
        Cow::Owned(self.allowed.with(more.lines()))
    }
}

/// Runs as a proxy if the command line says so, until its namespace is empty; `None`: this is no
/// proxy.
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

fn run() -> io::Result<()> {
    // A signal of the daemon's terminal is not for it.
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
