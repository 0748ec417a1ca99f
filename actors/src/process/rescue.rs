//! Replaces a shim that has died. Neither its executor nor the log notices the change.
//!
//! The daemon holds a duplicate of each pipe, so no pipe breaks. The daemon is a subreaper (prctl(2)), so the
//! orphans become its children, and it learns how the leader ended. It sends all of that to a new shim:
//!
//! ```text
//!  connection closed ─▶ wait until the shim is dead ─▶ adopt(dir)
//!                                                        │
//!     Live, NeverStarted ◀───────────────────────────────┤ another shim is there, or nothing ran
//!     Ended, and no process of the tree is left ◀────────┤
//!     else: lock ─▶ claim orphans ─▶ send_takeover ─▶ launch "__shim rescue" ─▶ adopt(dir) again
//!                                                        (RESCUE_TRIES times: it can be killed too, or fail)
//! ```
//!
//! The descriptor of the lock travels with the takeover, so no third process can take the folder in between.
//! If the daemon died too, the pipes are gone. The next daemon then sweeps: it kills the leftovers and
//! records the end as unknown.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::sys::prctl;
use nix::unistd::getsid;

use super::attach::{AdoptError, DEADLINE, PipeHandles, Takeover, send_takeover};
use super::child_registry::{attempt_of, claim, known, reap_leader, reap_stray};
use super::control::Control;
use super::identity::{PidFd, Process};
use super::kill::{KillReport, kill_tree};
use super::proc::{self, ARGUMENT, RESCUE, Stat};
use super::records::{self, ExitRecord, Manifest, Started, lock_soon};
use super::shims::{Adopted, Shims, SpawnError};
use super::tree::{Marker, Tree};
use crate::blocking::blocking;
use crate::event::Stream;
use crate::failpoint;
use crate::log::spool::write::SpoolWriter;
use crate::retry::Backoff;

/// How often a rescue is tried: a rescue shim can die before it has taken over, and a machine can lack
/// descriptors or processes for a while. With the pauses of [`Backoff`] that is half a minute at least, if
/// all tries fail.
const RESCUE_TRIES: u32 = 10;

/// The reason in the exit record of a process whose shim and daemon both died.
pub const LOST: &str = "the supervising process and the daemon died while it ran";

const DELETED: &str = "the folder with its output and its records was deleted while it ran";

/// The result of a sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// The record on disk: the one that was there, else one that the sweep wrote. Of a folder that was
    /// deleted, the record is here alone.
    pub record: ExitRecord,
    /// What the sweep killed.
    pub report: KillReport,
}

/// What the daemon holds of a process whose shim has died. The handles keep the pipes open.
type Hold = (PipeHandles, Takeover);

/// Makes this process the parent of its descendants' orphans. The daemon must call this before it starts or
/// adopts any shim. Otherwise the executor of a shim that dies would become another process's child.
pub fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

impl Shims {
    /// Finds out why the connection behind `control` closed, and starts another shim while a process of the
    /// tree is left. Waits about 5 s for the old shim's death, and again for each `adopt`. A try that fails
    /// keeps the pipes for the next one. After `RESCUE_TRIES` the pipes are closed, and the result is what
    /// [`Self::adopt`] finds: mostly `Lost` or `Ended`.
    pub async fn rescue(&self, dir: &Path, control: Control) -> Result<Adopted, AdoptError> {
        let stdin_sequence = control.stdin_sequence();
        let mut lifeline = control.take_lifeline();
        drop(control);
        if let Some(dead) = lifeline.shim.take() {
            // The kernel gives us the shim's children only once it is dead.
            blocking(move || io::Result::Ok(dead.wait_dead(DEADLINE))).await?;
        }
        let takeover = Takeover { stdin_sequence, ..Takeover::default() };
        let mut hold = (lifeline, takeover);
        let mut backoff = Backoff::default();
        for _ in 0..RESCUE_TRIES {
            match self.try_rescue(dir, &mut hold).await {
                Ok(Some(settled)) => return Ok(settled),
                // The next try shows whether the new shim supervises the process.
                Ok(None) | Err(SpawnError::Died) => {}
                Err(error) => {
                    backoff.wait(format!("rescuing the process of {}", dir.display()), error).await;
                }
            }
        }
        self.adopt(dir).await
    }

    /// One try of a rescue. `None`: another shim was started. An error leaves what `hold` has.
    async fn try_rescue(&self, dir: &Path, hold: &mut Hold) -> Result<Option<Adopted>, SpawnError> {
        let (is_recorded, started) = match self.adopt(dir).await? {
            Adopted::Lost { leader } => (false, leader),
            Adopted::Ended(record) => {
                let folder = dir.to_owned();
                let leftovers = blocking(move || {
                    let is_gone = read_tree(&folder)?.1.is_gone();
                    if is_gone { Ok(None) } else { records::read(&folder, Started::FILE) }
                });
                match leftovers.await.map_err(AdoptError::Io)? {
                    Some(started) => (true, started),
                    None => return Ok(Some(Adopted::Ended(record))),
                }
            }
            settled => return Ok(Some(settled)),
        };
        self.hand_over(dir, started.process(), is_recorded, hold).await.map(|()| None)
    }

    /// Kills what is left of a process without a shim, syncs its spool, and records its end as unknown for
    /// this reason, unless there is a record. Output that was still in the pipes is lost. Fails with
    /// `Unresponsive` if a shim still holds the lock after about 5 s.
    pub async fn sweep(&self, dir: &Path, reason: &'static str) -> Result<Swept, AdoptError> {
        let (shims, dir) = (self.clone(), dir.to_owned());
        blocking(move || {
            let Some(_lock) = lock_soon(&dir)? else { return Err(AdoptError::Unresponsive) };
            let (manifest, tree) = read_tree(&dir)?;
            let report = kill_tree(&tree, &mut || shims.reap_strays());
            if let Some(cgroup) = &manifest.cgroup {
                cgroup.remove();
            }
            failpoint::hit("sweep", "killed");
            let mut spool = SpoolWriter::open(&dir, manifest.spool_max_bytes)?;
            spool.sync()?;
            spool.trim();
            if let Some(record) = records::read(&dir, ExitRecord::FILE)? {
                return Ok(Swept { record, report });
            }
            let record = ExitRecord {
                stdout_bytes: spool.len(Stream::Stdout),
                stderr_bytes: spool.len(Stream::Stderr),
                ..ExitRecord::unknown(reason)
            };
            records::write_durably(&dir, ExitRecord::FILE, &record)?;
            Ok(Swept { record, report })
        })
        .await
    }

    /// Kills a process whose folder has been deleted, and its shim. Finds both by the marker in
    /// environments and by the shim's working folder. The record is returned only: there is no folder to
    /// write it to. A shim below which something survives is left: it leads the next sweep there.
    pub async fn sweep_deleted(&self, marker: Marker) -> io::Result<Swept> {
        let shims = self.clone();
        blocking(move || {
            let tree = Tree::without_shim(marker);
            let mut survivors = Vec::new();
            for shim in tree.shims() {
                // First all processes below the shim: after its death nothing leads to those that have
                // removed the marker from their environment.
                let below = Tree { below: Some(shim.pid), ..tree.clone() };
                let report = kill_tree(&below, &mut || {});
                if !report.survivors.is_empty() {
                    survivors.extend(report.survivors);
                    continue;
                }
                shim.signal(libc::SIGKILL);
                if let Some(dying) = shim.open() {
                    dying.wait_dead(DEADLINE);
                }
            }
            let mut report = kill_tree(&tree, &mut || shims.reap_strays());
            report.survivors.extend(survivors);
            tracing::error!(attempt = %marker.attempt, ?report, "{DELETED}");
            Ok(Swept { record: ExitRecord::unknown(DELETED), report })
        })
        .await
    }

    /// Reaps dead orphans that no task waits for. `daemon/chores.rs` calls this at intervals.
    pub fn reap_strays(&self) {
        for pid in strays() {
            if let Some(stat) = Stat::of(pid).filter(Stat::is_dead) {
                reap_stray(Process { pid, start_time: stat.start_time });
            }
        }
    }

    /// Starts a rescue shim with all that `hold` has, which keeps it. While the leader's status is unknown, a
    /// task waits for the leader's end and reports it to the new shim.
    async fn hand_over(
        &self,
        dir: &Path,
        leader: Process,
        is_recorded: bool,
        hold: &mut Hold,
    ) -> Result<(), SpawnError> {
        // Before anything else, so that `reap_strays` does not reap the leader and lose its status.
        known().waited_for.insert(leader.pid);
        let (folder, mut held) = (dir.to_owned(), std::mem::take(hold));
        let gathered = blocking(move || {
            let gathered = gather(&folder, leader, is_recorded, &mut held);
            io::Result::Ok((held, gathered))
        });
        let launched = async {
            let (held, gathered) = gathered.await.map_err(SpawnError::Prepare)?;
            *hold = held;
            failpoint::hit("rescue", "gathered");
            let (theirs, watched) = gathered.map_err(SpawnError::Prepare)?;
            let launched =
                self.launch(dir, &[ARGUMENT, RESCUE], OwnedFd::from(theirs).into()).await;
            failpoint::hit("rescue", "launched");
            launched.map(|()| watched)
        };
        match launched.await {
            Ok(Some(handle)) => {
                tokio::spawn(self.clone().report_leader_end(dir.to_owned(), leader, handle));
                Ok(())
            }
            other => {
                known().waited_for.remove(&leader.pid);
                other.map(drop)
            }
        }
    }

    /// Waits for a leader that has become our child, reaps it, and sends the status to the rescue shim,
    /// which is not its parent. Kernels before Linux 6.15 don't keep the status of a reaped process for the
    /// shim.
    async fn report_leader_end(self, dir: PathBuf, leader: Process, handle: PidFd) {
        if handle.dead().await.is_ok()
            && let Some(status) = reap_leader(leader)
            && let Ok(Adopted::Live(shim)) = self.adopt(&dir).await
        {
            let control: Control = shim.control;
            // The shim may have got the status from the kernel, and may have ended.
            let _ = control.leader_ended(status.into_raw()).await;
            let _ = control.ping().await;
        }
        known().waited_for.remove(&leader.pid);
    }
}

/// Fills a socket pair with the takeover, and returns the end that becomes the next shim's standard input.
/// Also returns a handle on the leader if its status is not known yet. Blocks for the lock.
fn gather(
    dir: &Path,
    leader: Process,
    is_recorded: bool,
    hold: &mut Hold,
) -> io::Result<(UnixStream, Option<PidFd>)> {
    let lock = lock_soon(dir)?.ok_or(io::ErrorKind::WouldBlock)?;
    let (lifeline, takeover) = hold;
    takeover.roots.extend(claim_orphans(dir)?);
    let mut watched = None;
    if !is_recorded {
        let learn = || reap_leader(leader).map(ExitStatusExt::into_raw);
        takeover.status = takeover.status.or_else(learn);
        let handle = lifeline.leader.as_ref().filter(|_| takeover.status.is_none());
        watched = handle.map(|handle| handle.0.try_clone().map(PidFd)).transpose()?;
    }
    let (ours, theirs) = UnixStream::pair()?;
    // A descriptor in a socket's queue keeps the file open, and so the lock held.
    send_takeover(&ours, takeover, &lock, lifeline)?;
    ours.shutdown(Shutdown::Write)?;
    Ok((theirs, watched))
}

/// The living orphans that this folder's rescue takes: those with its marker, and those without any marker
/// (a program may clear its environment) that no other rescue has claimed yet.
fn claim_orphans(dir: &Path) -> io::Result<Vec<Process>> {
    let (_, tree) = read_tree(dir)?;
    let may_be_ours = |orphan: &Process| {
        let environ = proc::environ(orphan.pid);
        tree.marker.claims(&environ) || !Marker::is_in(&environ)
    };
    let orphans = strays().into_iter().filter_map(Process::of).filter(may_be_ours);
    Ok(claim(orphans.collect(), attempt_of(dir)))
}

/// Our children in another session than ours. These are shims and orphans: both call setsid(2), and what the
/// daemon runs for itself does not.
fn strays() -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let own_session = getsid(None).map_or(own, nix::unistd::Pid::as_raw);
    let is_stray =
        |pid: &i32| Stat::of(*pid).is_some_and(|s| s.ppid == own && s.session != own_session);
    proc::children(own).into_iter().filter(is_stray).collect()
}

/// The manifest, and the tree as far as the folder's records describe it without a shim.
fn read_tree(dir: &Path) -> io::Result<(Manifest, Tree)> {
    let manifest: Manifest = records::read(dir, Manifest::FILE)?.ok_or(io::ErrorKind::NotFound)?;
    let started: Option<Started> = records::read(dir, Started::FILE)?;
    let leader = started.and_then(|started| started.of_this_boot());
    let tree = Tree {
        roots: leader.into_iter().collect(),
        session_of: leader,
        cgroup: manifest.cgroup.clone(),
        ..Tree::without_shim(manifest.marker())
    };
    Ok((manifest, tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_takeover_that_can_not_be_made_keeps_the_pipes() {
        let dir = tempfile::tempdir().unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        let handles = PipeHandles { stdout: Some(reader.into()), ..PipeHandles::default() };
        let mut hold = (handles, Takeover::default());
        // The folder has no manifest.
        let leader = Process { pid: i32::MAX, start_time: 0 };
        let shims = Shims::new("/proc/self/exe".into());
        let failed = shims.hand_over(dir.path(), leader, false, &mut hold).await;
        assert!(matches!(failed, Err(SpawnError::Prepare(_))), "{failed:?}");
        assert!(hold.0.stdout.is_some());
    }
}
