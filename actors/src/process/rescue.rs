//! Goes on when a shim has died: neither its executor nor the log must notice.
//!
//! The daemon holds a duplicate of each pipe, so none breaks; it is a subreaper (prctl(2)), so
//! the orphans become its children and it learns how the leader ended. It hands all of that
//! to a new shim. If the daemon died too, the next one kills the leftovers and records the
//! end as unknown.

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

/// How many shims are started one after another while each is killed on its way.
const RESCUE_TRIES: u32 = 10;

/// The reason in the record of a process whose shim and daemon died.
pub const LOST: &str = "the supervising process and the daemon died while it ran";

const DELETED: &str = "the folder with its output and its records was deleted while it ran";

/// The result of a sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// Written now, unless there was one.
    pub record: ExitRecord,
    pub report: KillReport,
}

/// What the daemon holds of a process whose shim has died; the lifeline keeps the pipes whole.
type Hold = (PipeHandles, Takeover);

/// Makes this process the parent of its descendants' orphans. The daemon's first step:
/// without it a dead shim's executor would become another process's child.
pub fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

impl Shims {
    /// Finds out why the connection behind `control` closed, and starts another shim as long as
    /// anything of the process's tree is left.
    pub async fn rescue(&self, dir: &Path, control: Control) -> Result<Adopted, AdoptError> {
        let stdin_sequence = control.stdin_sequence();
        let mut lifeline = control.take_lifeline();
        drop(control);
        if let Some(dead) = lifeline.shim.take() {
            // Its children become ours only once it is dead.
            blocking(move || io::Result::Ok(dead.wait_dead(DEADLINE))).await?;
        }
        let takeover = Takeover { stdin_sequence, ..Takeover::default() };
        let mut hold = (lifeline, takeover);
        // A rescuing shim can be killed as well: then another goes on.
        for _ in 0..RESCUE_TRIES {
            let (record, started) = match self.adopt(dir).await? {
                Adopted::Lost { leader } => (None, leader),
                Adopted::Ended(record) => {
                    let folder = dir.to_owned();
                    let leftovers = blocking(move || {
                        let is_gone = read_tree(&folder)?.1.is_gone();
                        if is_gone { Ok(None) } else { records::read(&folder, Started::FILE) }
                    });
                    match leftovers.await? {
                        Some(started) => (Some(record), started),
                        None => return Ok(Adopted::Ended(record)),
                    }
                }
                settled => return Ok(settled),
            };
            match self.hand_over(dir, started.process(), record.is_some(), &mut hold).await {
                // The next look shows who goes on.
                Ok(()) | Err(SpawnError::Died) => {}
                Err(error) => {
                    tracing::error!(%error, dir = %dir.display(), "can't rescue a process");
                    return Ok(record.map_or(Adopted::Lost { leader: started }, Adopted::Ended));
                }
            }
        }
        self.adopt(dir).await
    }

    /// Kills what is left of an orphan, reads its last output, and records its end as unknown
    /// for this reason, unless it is known. Fails while a shim supervises it.
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

    /// Sweeps a process whose folder has been deleted; also kills its shim.
    pub async fn sweep_deleted(&self, marker: Marker) -> io::Result<ExitRecord> {
        let shims = self.clone();
        blocking(move || {
            let tree = Tree::without_shim(marker);
            for shim in tree.shims_above() {
                // First all below it: nothing else leads to processes that removed the marker.
                kill_tree(&Tree { below: Some(shim.pid), ..tree.clone() }, &mut || {});
                shim.signal(libc::SIGKILL);
                if let Some(dying) = shim.open() {
                    dying.wait_dead(DEADLINE);
                }
            }
            let report = kill_tree(&tree, &mut || shims.reap_strays());
            tracing::error!(attempt = %marker.attempt, ?report, "{DELETED}");
            Ok(ExitRecord::unknown(DELETED))
        })
        .await
    }

    /// Reaps dead orphans that no task waits for. To be called now and then.
    pub fn reap_strays(&self) {
        for pid in strays() {
            if let Some(stat) = Stat::of(pid).filter(Stat::is_dead) {
                reap_stray(Process { pid, start_time: stat.start_time });
            }
        }
    }

    /// Starts a shim that takes over, and reports the leader's end to it.
    async fn hand_over(
        &self,
        dir: &Path,
        leader: Process,
        is_recorded: bool,
        hold: &mut Hold,
    ) -> Result<(), SpawnError> {
        known().waited_for.insert(leader.pid);
        let (folder, mut held) = (dir.to_owned(), std::mem::take(hold));
        let gathered = blocking(move || {
            let (theirs, watched) = gather(&folder, leader, is_recorded, &mut held)?;
            io::Result::Ok((held, theirs, watched))
        });
        let launched = async {
            let gathered = gathered.await.map_err(SpawnError::Prepare);
            failpoint::hit("rescue", "gathered");
            let (held, theirs, watched) = gathered?;
            *hold = held;
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

    /// Reaps a leader that has become our child: not every kernel keeps the status.
    async fn report_leader_end(self, dir: PathBuf, leader: Process, handle: PidFd) {
        if handle.dead().await.is_ok()
            && let Some(status) = reap_leader(leader)
            && let Ok(Adopted::Live(shim)) = self.adopt(&dir).await
        {
            let control: Control = shim.control;
            // The shim may have learnt it from the kernel, and ended.
            let _ = control.leader_ended(status.into_raw()).await;
            let _ = control.ping().await;
        }
        known().waited_for.remove(&leader.pid);
    }
}

/// Sends the next shim what it needs. Also returns a handle on a leader still to be reaped.
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
    // A descriptor on its way keeps the lock held.
    send_takeover(&ours, takeover, &lock, lifeline)?;
    ours.shutdown(Shutdown::Write)?;
    Ok((theirs, watched))
}

/// The living orphans of this folder's shim: those with its marker, and those without any
/// that no rescue has claimed yet.
fn claim_orphans(dir: &Path) -> io::Result<Vec<Process>> {
    let (_, tree) = read_tree(dir)?;
    let may_be_ours = |orphan: &Process| {
        let environ = proc::environ(orphan.pid);
        tree.marker.claims(&environ) || !Marker::is_in(&environ)
    };
    let orphans = strays().into_iter().filter_map(Process::of).filter(may_be_ours);
    Ok(claim(orphans.collect(), attempt_of(dir)))
}

/// Our children in another session than ours: shims, and orphans.
fn strays() -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let own_session = getsid(None).map_or(own, nix::unistd::Pid::as_raw);
    let is_stray =
        |pid: &i32| Stat::of(*pid).is_some_and(|s| s.ppid == own && s.session != own_session);
    proc::children(own).into_iter().filter(is_stray).collect()
}

/// A process's tree as far as it is known without its shim.
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
