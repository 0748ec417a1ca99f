//! The daemon's side of shims: starts one, and finds out after a restart what became of one.
//! All state is in the folders.

use std::fs::{DirBuilder, File};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::blocking::blocking;
use crate::failpoint;
use crate::sandbox::Level;
use crate::secret::Secrets;

use super::attach::{self, AdoptError, SOCKET, attach};
use super::child_registry::{known, learn_leader, spawn_known};
use super::control::Shim;
use super::identity::Process;
use super::lease::Lease;
use super::network;
use super::proc::{ARGUMENT, RESCUE};
use super::records::{
    self, AGAIN, ExitRecord, Manifest, STDIN_FILE, Started, StdinSource, try_lock,
};

/// How long a shim may take from its spawn to its report that the executor runs.
const START: Duration = Duration::from_secs(30);
/// The reason in the record of a process that was abandoned before it started.
pub const NEVER_STARTED: &str = "it was never started: the daemon died while it was starting it";

/// Starts and finds shims. Clones share their lease.
#[derive(Clone, Debug)]
pub struct Shims {
    program: PathBuf,
    /// Of this host; unset: it has none.
    lease: Arc<OnceLock<Lease>>,
}

/// Why no process was started. Unless stated otherwise none runs.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("can't write down what to run: {0}")]
    Prepare(io::Error),
    #[error("can't start a shim: {0}")]
    Shim(io::Error),
    /// The shim's own message: the program can't be run, the folder is not fit.
    #[error("{0}")]
    Refused(String),
    /// It died before it reported: something may run. To be followed by [`Shims::sweep`].
    #[error("the shim died while it was starting")]
    Died,
    /// To be followed by [`Shims::adopt`].
    #[error("it was started and can't be reached: {0}")]
    Unreachable(#[from] AdoptError),
}

#[derive(Debug)]
pub enum Adopted {
    /// Its shim runs; the leader may have ended.
    Live(Shim),
    /// It has ended, and no shim is left.
    Ended(ExitRecord),
    /// It was not started, and can't be until the folder is [reopened](Shims::reopen).
    NeverStarted,
    /// Its shim is dead; whether and how it ended is unknown.
    Lost { leader: Started },
}

impl Shims {
    /// `program` must call [`shim::enter`](super::shim::enter) first in its `main`; normally
    /// `/proc/self/exe`, which is this program even after its file has been replaced.
    pub fn new(program: PathBuf) -> Self {
        Self { program, lease: Arc::default() }
    }

    /// What is started from now on is started under this lease. To be called once.
    pub fn start_under(&self, lease: Lease) {
        let is_first = self.lease.set(lease).is_ok();
        debug_assert!(is_first, "a host has one lease");
    }

    /// The lease of this host, if it has one.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.get()
    }

    /// Starts an execution process in a folder of its own, which is created if it is missing, once
    /// the lease of this host is good. `stdin` goes with [`StdinSource::File`].
    pub async fn spawn(
        &self,
        dir: &Path,
        manifest: &Manifest,
        stdin: Option<&[u8]>,
        secrets: &Secrets,
    ) -> Result<Shim, SpawnError> {
        let lease = self.lease();
        if let Some(lease) = lease {
            lease.good().await;
        }
        let intent = Manifest { lease: lease.map(Lease::under), ..manifest.clone() };
        let (folder, stdin) = (dir.to_owned(), stdin.map(<[u8]>::to_vec));
        blocking(move || prepare(&folder, &intent, stdin.as_deref()))
            .await
            .map_err(SpawnError::Prepare)?;
        failpoint::hit("manifest", "written");
        // The shim of an earlier try may be there already, with its proxy.
        let is_strict = manifest.sandbox.as_ref().is_some_and(|it| it.level == Level::Strict);
        if is_strict && !dir.join(Started::FILE).exists() {
            self.launch(dir, &[network::ARGUMENT], Stdio::null()).await?;
        }
        let handed = in_memfd(secrets).map_err(SpawnError::Shim)?;
        let refused = match self.launch(dir, &[ARGUMENT], handed).await {
            Ok(()) => None,
            // Perhaps because another came first.
            Err(SpawnError::Refused(reason)) => Some(reason),
            Err(error) => return Err(error),
        };
        failpoint::hit("shim", "started");
        match self.adopt(dir).await? {
            Adopted::Live(shim) => Ok(shim),
            Adopted::Ended(record) if refused.is_none() || record.is_known() => {
                let folder = dir.to_owned();
                let started = blocking(move || records::read(&folder, Started::FILE)).await;
                let started = started.map_err(AdoptError::Io)?.ok_or(SpawnError::Died)?;
                Ok(Shim::ended(record, started).map_err(AdoptError::Io)?)
            }
            _ => Err(refused.map_or(SpawnError::Died, SpawnError::Refused)),
        }
    }

    /// Makes a folder that was [closed](Adopted::NeverStarted) fit for a start again. A dead
    /// daemon's shim may arrive late: before this it is refused, and this waits until it has let
    /// go of the lock; after this it may run, and `spawn` attaches to it.
    pub async fn reopen(&self, dir: &Path) -> io::Result<()> {
        let deadline = Instant::now() + attach::DEADLINE;
        loop {
            let folder = dir.to_owned();
            if blocking(move || try_reopen(&folder)).await? {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            sleep(AGAIN).await;
        }
    }

    /// Finds out what became of the process of a folder. Takes some 5 s at most.
    pub async fn adopt(&self, dir: &Path) -> Result<Adopted, AdoptError> {
        let deadline = Instant::now() + attach::DEADLINE;
        loop {
            let folder = dir.to_owned();
            if let Some(found) = blocking(move || look(&folder)).await? {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                return Err(AdoptError::Unresponsive);
            }
            sleep(AGAIN).await;
        }
    }

    /// Why the level `strict` can't be had here; `None`: it can.
    pub async fn network_obstacle(&self) -> Option<String> {
        let program = self.program.clone();
        let found = blocking(move || io::Result::Ok(network::obstacle(&program))).await;
        found.unwrap_or_else(|error| Some(error.to_string()))
    }

    /// Starts a shim, or its proxy, and waits for its report.
    pub(super) async fn launch(
        &self,
        dir: &Path,
        arguments: &[&str],
        stdin: Stdio,
    ) -> Result<(), SpawnError> {
        // The process whose death a test may request.
        let kind = match arguments {
            [.., RESCUE] => RESCUE,
            [ARGUMENT, ..] => "shim",
            _ => "proxy",
        };
        // Nothing here makes the standard library fork: it does not copy a daemon's memory.
        #[expect(clippy::disallowed_methods, reason = "this is where shims are spawned")]
        let mut command = Command::new(&self.program);
        command
            .arg0("provost")
            .args(arguments)
            .env_clear()
            .envs(failpoint::pass_on(kind).map(|place| (failpoint::VARIABLE, place)))
            .current_dir(dir)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = spawn_known(&mut command, dir).map_err(SpawnError::Shim)?;
        failpoint::hit("shim", "spawned");
        let pid = child.id().map_or(0, u32::cast_signed);
        let mut word = String::new();
        if let Some(mut stdout) = child.stdout.take()
            && timeout(START, stdout.read_to_string(&mut word)).await.is_err()
        {
            let _ = child.start_kill();
        }
        tokio::spawn(async move {
            let _ = child.wait().await;
            known().waited_for.remove(&pid);
        });
        match word.trim_end().split_once(' ') {
            None if word == "ok\n" => Ok(()),
            Some(("err", reason)) => Err(SpawnError::Refused(reason.to_owned())),
            _ => Err(SpawnError::Died),
        }
    }
}

/// `false`: the folder is closed, and its lock is held.
fn try_reopen(dir: &Path) -> io::Result<bool> {
    let is_closed = || -> io::Result<bool> {
        let record: Option<ExitRecord> = records::read(dir, ExitRecord::FILE)?;
        Ok(record.is_some_and(|record| record.reason.as_deref() == Some(NEVER_STARTED)))
    };
    if !is_closed()? {
        return Ok(true);
    }
    let Some(_lock) = try_lock(dir)? else { return Ok(false) };
    if is_closed()? {
        std::fs::remove_file(dir.join(ExitRecord::FILE))?;
    }
    Ok(true)
}

/// `None`: a shim holds the lock and does not listen, for it is starting or ending.
fn look(dir: &Path) -> Result<Option<Adopted>, AdoptError> {
    if !dir.join(Manifest::FILE).exists() {
        return Ok(Some(Adopted::NeverStarted));
    }
    let Some((stream, hello, mut lifeline)) = attach(dir)? else {
        // Until the lock is dropped no shim can start here.
        let lock = try_lock(dir)?;
        return Ok(lock.map(|_lock| judge(dir)).transpose()?);
    };
    let Some(started) = records::read::<Started>(dir, Started::FILE)? else { return Ok(None) };
    lifeline.leader = started.of_this_boot().and_then(Process::open);
    learn_leader(&started, dir);
    let attached = (stream, hello, lifeline);
    Ok(Some(Adopted::Live(Shim::connected(attached, started)?)))
}

/// The state of a folder without a shim. The caller holds its lock.
fn judge(dir: &Path) -> io::Result<Adopted> {
    // A killed shim leaves it; best effort, for no shim listens there any more.
    let _ = std::fs::remove_file(dir.join(SOCKET));
    let record: Option<ExitRecord> = records::read(dir, ExitRecord::FILE)?;
    let manifest: Option<Manifest> = records::read(dir, Manifest::FILE).unwrap_or_default();
    if let Some(cgroup) = manifest.and_then(|manifest| manifest.cgroup) {
        cgroup.remove();
    }
    let started: Option<Started> = records::read(dir, Started::FILE)?;
    Ok(match (record, started) {
        (Some(record), _) if record.reason.as_deref() == Some(NEVER_STARTED) => {
            Adopted::NeverStarted
        }
        (Some(record), _) => Adopted::Ended(record),
        (None, Some(started)) => Adopted::Lost { leader: started },
        (None, None) => {
            // A shim on its way may still arrive; with a record here it won't start.
            let record = ExitRecord::unknown(NEVER_STARTED);
            records::write_durably(dir, ExitRecord::FILE, &record)?;
            Adopted::NeverStarted
        }
    })
}

fn prepare(dir: &Path, manifest: &Manifest, stdin: Option<&[u8]>) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // A second try: the first try's shim may be reading these files.
    if records::read(dir, Manifest::FILE)?.as_ref() == Some(manifest) {
        return Ok(());
    }
    if manifest.stdin == StdinSource::File {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(dir.join(STDIN_FILE))?;
        file.write_all(stdin.unwrap_or_default())?;
        file.sync_all()?;
    }
    records::write_durably(dir, Manifest::FILE, manifest)?;
    match dir.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// A shim's standard input: its secrets in a memfd, which no file or environment shows.
fn in_memfd(secrets: &Secrets) -> io::Result<Stdio> {
    if secrets.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = File::from(memfd_create(c"provost-secrets", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&serde_json::to_vec(secrets)?)?;
    file.rewind()?;
    Ok(file.into())
}
