//! The daemon's side of shims: starts one, and finds out after a restart what became of one. All state is in
//! the folders of the execution processes:
//!
//! ```text
//!  manifest  started  exit   a shim answers  the folder is
//!     –         –      –          –          NeverStarted
//!     x         –      –          –          closed: `look` writes exit.json (NEVER_STARTED)
//!     x         –      x          –          NeverStarted if that is its reason, else Ended
//!     x         x      –          x          Live
//!     x         x      x          x          Live: the rest of the tree still runs
//!     x         x      –          –          Lost: rescue or sweep
//!     x         x      x          –          Ended
//! ```
//!
//! A shim that starts refuses a folder with started.json or exit.json, so the record of a closed folder keeps
//! out a late shim of a dead daemon. `reopen` removes that record.

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
/// The reason in the exit record that closes the folder of a process that never started.
pub const NEVER_STARTED: &str = "it was never started: the daemon died while it was starting it";

/// Starts and finds shims. Clones share the lease. What it knows of children is global to the process
/// (`child_registry`).
#[derive(Clone, Debug)]
pub struct Shims {
    program: PathBuf,
    /// The lease of this host. Unset: the daemon does not share its board with other hosts.
    lease: Arc<OnceLock<Lease>>,
}

/// Why [`Shims::spawn`] returned no shim. No process runs, unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("can't write down what to run: {0}")]
    Prepare(io::Error),
    #[error("can't start a shim: {0}")]
    Shim(io::Error),
    /// The shim refused, with this sentence: for example, the program can't be run, or the folder was used.
    #[error("{0}")]
    Refused(String),
    /// The shim died, or took longer than `START`, before it reported: something may run. The caller has to
    /// call [`Shims::sweep`].
    #[error("the shim died while it was starting")]
    Died,
    /// The process runs. The caller has to call [`Shims::adopt`] again.
    #[error("it was started and can't be reached: {0}")]
    Unreachable(#[from] AdoptError),
}

/// What became of the process of a folder.
#[derive(Debug)]
pub enum Adopted {
    /// Its shim runs. The leader may have ended: then the first event is its record.
    Live(Shim),
    /// It has ended, and no shim is left.
    Ended(ExitRecord),
    /// It was not started, and can't be started until the folder is [reopened](Shims::reopen).
    NeverStarted,
    /// Its shim is dead and left no exit record. The leader may still run.
    Lost { leader: Started },
}

impl Shims {
    /// `program` must call [`shim::enter`](super::shim::enter) first in its `main`; normally
    /// `/proc/self/exe`, which is this program even after its file has been replaced.
    pub fn new(program: PathBuf) -> Self {
        Self { program, lease: Arc::default() }
    }

    /// Sets the lease that later spawns name in their manifests. To be called once.
    pub fn start_under(&self, lease: Lease) {
        let is_first = self.lease.set(lease).is_ok();
        debug_assert!(is_first, "a host has one lease");
    }

    /// The lease of this host; `None`: it has none.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.get()
    }

    /// Starts an execution process in a folder of its own, which is created if it is missing. Waits until the
    /// lease of this host is good, without a limit of time. `stdin` is used only with [`StdinSource::File`].
    ///
    /// The call may be repeated for a folder with the same manifest: then it attaches to the shim that an
    /// earlier try has started, or returns the end of its process.
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
        // If the process was started before, its shim has its proxy already.
        let is_strict = manifest.sandbox.as_ref().is_some_and(|it| it.level == Level::Strict);
        if is_strict && !dir.join(Started::FILE).exists() {
            network::warn_of_left_out(manifest.sandbox.as_ref());
            self.launch(dir, &[network::ARGUMENT], Stdio::null()).await?;
        }
        let handed = in_memfd(secrets).map_err(SpawnError::Shim)?;
        let refused = match self.launch(dir, &[ARGUMENT], handed).await {
            Ok(()) => None,
            // The shim may have refused because one of an earlier try came first: `adopt` finds that one.
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

    /// Makes a folder that was [closed](Adopted::NeverStarted) fit for a start again. A late shim of a dead
    /// daemon may still come. Before this call it finds the folder closed, and this waits until it has
    /// released the lock. After this call it may start the process, and `spawn` attaches to it. Fails with
    /// `ResourceBusy` if the lock is held for about 5 s.
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

    /// Finds out what became of the process of a folder. Fails with [`AdoptError::Unresponsive`] if a shim
    /// holds the lock for about 5 s and does not listen, or takes longer for one of its first messages.
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

    /// Why this machine can't provide the network namespace of the level `strict`, as a sentence without
    /// its full stop; `None`: it can.
    pub async fn network_obstacle(&self) -> Option<String> {
        let program = self.program.clone();
        let found = blocking(move || io::Result::Ok(network::obstacle(&program))).await;
        found.unwrap_or_else(|error| Some(error.to_string()))
    }

    /// Starts a shim, or its proxy, in the folder, and waits for its report, `START` at most: then it is
    /// killed, and the result is `Died`. `stdin` carries the secrets, or the takeover.
    pub(super) async fn launch(
        &self,
        dir: &Path,
        arguments: &[&str],
        stdin: Stdio,
    ) -> Result<(), SpawnError> {
        // The name by which a test requests this process's death (`failpoint`).
        let kind = match arguments {
            [.., RESCUE] => RESCUE,
            [ARGUMENT, ..] => "shim",
            _ => "proxy",
        };
        // Without `pre_exec` the standard library uses posix_spawn(3), which does not copy the page tables of
        // a large daemon as fork(2) does.
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

/// `false`: the folder is closed, and another process holds its lock, so the record must stay.
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

/// One look at a folder. `None`: a shim holds the lock and does not listen, because it is starting or ending.
fn look(dir: &Path) -> Result<Option<Adopted>, AdoptError> {
    if !dir.join(Manifest::FILE).exists() {
        return Ok(Some(Adopted::NeverStarted));
    }
    let Some((stream, hello, mut lifeline)) = attach(dir)? else {
        // While this holds the lock, no shim can start here.
        let lock = try_lock(dir)?;
        return Ok(lock.map(|_lock| judge(dir)).transpose()?);
    };
    let Some(started) = records::read::<Started>(dir, Started::FILE)? else { return Ok(None) };
    lifeline.leader = started.of_this_boot().and_then(Process::open);
    learn_leader(&started, dir);
    let attached = (stream, hello, lifeline);
    Ok(Some(Adopted::Live(Shim::connected(attached, started)?)))
}

/// The state of a folder without a shim. The caller holds its lock. Also cleans up: removes the socket and
/// the cgroup.
fn judge(dir: &Path) -> io::Result<Adopted> {
    // A killed shim leaves its socket behind. Best effort: a stale socket only refuses connections.
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
            // A shim that was spawned may not have taken the lock yet. With this record it refuses to start.
            let record = ExitRecord::unknown(NEVER_STARTED);
            records::write_durably(dir, ExitRecord::FILE, &record)?;
            Adopted::NeverStarted
        }
    })
}

/// Writes what the shim needs, durably: the folder, standard input, and the manifest last.
fn prepare(dir: &Path, manifest: &Manifest, stdin: Option<&[u8]>) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // A second try with the same manifest leaves the files alone: the first try's shim may be reading them.
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

/// A shim's standard input: the secrets as JSON in a memfd (memfd_create(2)), so that they are in no file and
/// in no environment.
fn in_memfd(secrets: &Secrets) -> io::Result<Stdio> {
    if secrets.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = File::from(memfd_create(c"provost-secrets", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&serde_json::to_vec(secrets)?)?;
    file.rewind()?;
    Ok(file.into())
}
