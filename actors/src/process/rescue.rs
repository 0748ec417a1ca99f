//! Going on when a shim has died: its executor must not notice, and neither may
//! the log.
//!
//! The daemon holds a duplicate of each pipe, so none breaks; it is a subreaper
//! (prctl(2)), so the orphans become its own children and it learns how the
//! leader ended. All that it hands to a new shim, so that afterwards it may die
//! in its turn. If the daemon died too, the leftovers are killed and the end is recorded
//! as unknown.

use std::collections::BTreeSet;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::sys::prctl;
use nix::unistd::getsid;

use super::attach::{DEADLINE, Lifeline};
use super::control::Control;
use super::identity::{Identity, Process};
use super::kill::{KillReport, kill_tree};
use super::lock::lock_soon;
use super::manifest::{self, ExitRecord, Manifest, Started};
use super::paths::RESCUE;
use super::pidfd::PidFd;
use super::proc::{self, Stat};
use super::roots::attempt_of;
use super::shim::takeover::{self, Ends, Takeover};
use super::shims::{AdoptError, Adopted, Shims, SpawnError};
use super::tree::{Marker, Tree};
use crate::blocking::blocking;
use crate::event::Stream;
use crate::failpoint;
use crate::log::spool::write::SpoolWriter;

/// How many shims are started one after another while each is killed on its way.
const RESCUE_TRIES: u32 = 10;

/// Why nothing is known of a process's end after its shim and the daemon died.
pub const LOST: &str = "the supervising process and the daemon died while it ran";

/// Why nothing is known of a process's end when its folder is not there any more.
pub const DELETED: &str = "the folder with its output and its records was deleted while it ran";

/// The result of a sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// Written now, unless there was one.
    pub record: ExitRecord,
    pub report: KillReport,
}

/// What the daemon holds of a process whose shim has died.
#[derive(Default)]
struct Hold {
    lifeline: Lifeline,
    /// How the leader ended, if we have learnt it.
    status: Option<i32>,
    /// The orphans of its tree so far.
    roots: Vec<Process>,
    stdin_sequence: u64,
}

/// What goes from a dead shim to the next, and stays with us as well: until that
/// one is seen to go on, our copies keep the pipes whole.
struct Handover {
    takeover: Takeover,
    ends: Ends,
    /// The leader, if its end is still to be waited for.
    watched: Option<PidFd>,
}

impl Handover {
    /// What is held again, the lock apart.
    fn back(self) -> Hold {
        let Ends { stdout, stderr, stdin, leader, stages, .. } = self.ends;
        Hold {
            lifeline: Lifeline { stdout, stderr, stdin, stages, leader, shim: None },
            status: self.takeover.status,
            roots: self.takeover.roots,
            stdin_sequence: self.takeover.stdin_sequence,
        }
    }
}

/// Makes this process the parent of its descendants' orphans. The daemon's
/// first step: without it a dead shim's executor would become another process's child.
///
/// # Errors
/// The kernel refuses.
pub fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

impl Shims {
    /// Finds out why a connection closed, and sees to it that the process has a
    /// shim as long as anything of its tree is left. `control` is that of the
    /// shim whose [`Closed`](super::control::ShimEvent::Closed) came.
    pub async fn rescue(&self, dir: &Path, control: Control) -> Result<Adopted, AdoptError> {
        let stdin_sequence = control.stdin_sequence();
        let mut lifeline = control.take_lifeline();
        drop(control);
        if let Some(dead) = lifeline.shim.take() {
            // Its children are ours only once it is quite dead.
            blocking(move || io::Result::Ok(dead.wait_dead(DEADLINE))).await?;
        }
        let mut hold = Hold { lifeline, stdin_sequence, ..Hold::default() };
        // A rescuing shim can be killed as well: then another goes on.
        for _ in 0..RESCUE_TRIES {
            let (record, started) = match self.adopt(dir).await? {
                Adopted::Lost { leader } => (None, leader),
                Adopted::Ended(record) => {
                    let folder = dir.to_owned();
                    match blocking(move || leftovers_of(&folder)).await? {
                        Some(started) => (Some(record), started),
                        None => return Ok(Adopted::Ended(record)),
                    }
                }
                settled => return Ok(settled),
            };
            let leader = Identity::from(&started).process;
            match self.hand_over(dir, leader, record.is_some(), &mut hold).await {
                // Who goes on is seen when it is looked for.
                Ok(()) | Err(SpawnError::Died) => {}
                Err(error) => {
                    tracing::error!(%error, dir = %dir.display(), "can't rescue a process");
                    return Ok(record.map_or(Adopted::Lost { leader: started }, Adopted::Ended));
                }
            }
        }
        self.adopt(dir).await
    }

    /// Kills what is left of an orphan, reads its last output, and records its end as
    /// unknown for this reason, unless it is known.
    ///
    /// # Errors
    /// A shim supervises it after all, or the folder can't be read or written.
    pub async fn sweep(&self, dir: &Path, reason: &'static str) -> Result<Swept, AdoptError> {
        let (shims, dir) = (self.clone(), dir.to_owned());
        blocking(move || shims.sweep_now(&dir, reason)).await
    }

    /// The same for a process whose folder has been deleted: its shim can't be
    /// reached any more and goes as well.
    ///
    /// # Errors
    /// The work panicked.
    pub async fn sweep_deleted(&self, marker: Marker) -> io::Result<ExitRecord> {
        let shims = self.clone();
        blocking(move || {
            let own = std::process::id().cast_signed();
            let tree = Tree {
                below: None,
                roots: Vec::new(),
                session_of: None,
                adopter: Some(own),
                cgroup: None,
                marker,
                spared: BTreeSet::from([own]),
            };
            for shim in tree.shims_above() {
                // Before it, all below it: once it is dead, nothing leads to those
                // that have shaken the marker off.
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
                self.reap_stray(Process { pid, start_time: stat.start_time });
            }
        }
    }

    fn sweep_now(&self, dir: &Path, reason: &str) -> Result<Swept, AdoptError> {
        let Some(_lock) = lock_soon(dir)? else { return Err(AdoptError::Unresponsive) };
        let (manifest, tree) = read_tree(dir)?;
        let report = kill_tree(&tree, &mut || self.reap_strays());
        if let Some(cgroup) = &manifest.cgroup {
            cgroup.remove();
        }
        failpoint::hit("sweep", "killed");
        let mut spool = SpoolWriter::open(dir, manifest.spool_max_bytes)?;
        spool.sync()?;
        spool.trim();
        if let Some(record) = manifest::read(dir, ExitRecord::FILE)? {
            return Ok(Swept { record, report });
        }
        let record = ExitRecord {
            stdout_bytes: spool.len(Stream::Stdout),
            stderr_bytes: spool.len(Stream::Stderr),
            ..ExitRecord::unknown(reason)
        };
        manifest::write_durably(dir, ExitRecord::FILE, &record)?;
        Ok(Swept { record, report })
    }

    /// Starts a shim that takes over, and reports the leader's end to it.
    async fn hand_over(
        &self,
        dir: &Path,
        leader: Process,
        is_recorded: bool,
        hold: &mut Hold,
    ) -> Result<(), SpawnError> {
        self.wait_for(leader.pid);
        let (shims, folder, held) = (self.clone(), dir.to_owned(), std::mem::take(hold));
        let gathered = blocking(move || shims.gather(&folder, leader, is_recorded, held)).await;
        failpoint::hit("rescue", "gathered");
        let launched = match gathered {
            Ok((mut handover, theirs)) => {
                let watched = handover.watched.take();
                let launched = self.launch(dir, &[RESCUE], OwnedFd::from(theirs).into()).await;
                failpoint::hit("rescue", "launched");
                *hold = handover.back();
                launched.map(|()| watched)
            }
            Err(error) => Err(SpawnError::Prepare(error)),
        };
        match launched {
            Ok(Some(handle)) => {
                tokio::spawn(self.clone().report_leader_end(dir.to_owned(), leader, handle));
                Ok(())
            }
            other => {
                self.no_longer_wait_for(leader.pid);
                other.map(drop)
            }
        }
    }

    /// Brings together what the next shim needs, and sends it on its way.
    fn gather(
        &self,
        dir: &Path,
        leader: Process,
        is_recorded: bool,
        hold: Hold,
    ) -> io::Result<(Handover, UnixStream)> {
        let lock = lock_soon(dir)?.ok_or(io::ErrorKind::WouldBlock)?;
        let Hold { lifeline, status, mut roots, stdin_sequence } = hold;
        roots.extend(self.claim_orphans(dir)?);
        let learn = || self.reap_leader(leader).map(ExitStatusExt::into_raw);
        let status = if is_recorded { None } else { status.or_else(learn) };
        let Lifeline { stdout, stderr, stdin, stages, leader: handle, .. } = lifeline;
        let watched = match &handle {
            Some(handle) if !is_recorded && status.is_none() => Some(handle.try_clone()?),
            _ => None,
        };
        let takeover = Takeover { leader, status, roots, stdin_sequence };
        let ends = Ends { lock, stdout, stderr, stdin, leader: handle, stages };
        let (ours, theirs) = UnixStream::pair()?;
        takeover::send(&ours, takeover.clone(), &ends)?;
        ours.shutdown(Shutdown::Write)?;
        Ok((Handover { takeover, ends, watched }, theirs))
    }

    /// The living orphans that became our children with the death of this folder's shim:
    /// those with its marker, and those without any marker that no rescued process has
    /// claimed. Our shims are our children too, and are known. Of
    /// two shims that die at once, the first rescue claims those without a marker.
    fn claim_orphans(&self, dir: &Path) -> io::Result<Vec<Process>> {
        let (_, tree) = read_tree(dir)?;
        let may_be_ours = |orphan: &Process| {
            let environ = proc::environ(orphan.pid);
            tree.marker.claims(&environ) || !Marker::is_in(&environ)
        };
        let orphans = strays().into_iter().filter_map(Process::of).filter(may_be_ours);
        Ok(self.claim(&orphans.collect::<Vec<_>>(), attempt_of(dir)))
    }

    /// Waits for a leader that has become our child, so that its end is known
    /// even where the kernel does not keep the status of what is reaped.
    async fn report_leader_end(self, dir: PathBuf, leader: Process, handle: PidFd) {
        if handle.dead().await.is_ok()
            && let Some(status) = self.reap_leader(leader)
            && let Ok(Adopted::Live(shim)) = self.adopt(&dir).await
        {
            let control: Control = shim.control;
            // It may have learnt it from the kernel, and ended.
            let _ = control.leader_ended(status.into_raw()).await;
            let _ = control.ping().await;
        }
        self.no_longer_wait_for(leader.pid);
    }
}

/// Our children that are in another session than ours: shims, and orphans. What
/// the daemon runs for itself stays in its session.
fn strays() -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let own_session = getsid(None).map_or(own, nix::unistd::Pid::as_raw);
    let is_stray =
        |pid: &i32| Stat::of(*pid).is_some_and(|s| s.ppid == own && s.session != own_session);
    proc::children(own).into_iter().filter(is_stray).collect()
}

/// Who led the tree of which something is left.
fn leftovers_of(dir: &Path) -> io::Result<Option<Started>> {
    let (_, tree) = read_tree(dir)?;
    let is_gone = tree.members().is_empty() && tree.marked().is_empty();
    if is_gone { Ok(None) } else { manifest::read(dir, Started::FILE) }
}

/// A process's tree as far as it is known without its shim.
fn read_tree(dir: &Path) -> io::Result<(Manifest, Tree)> {
    let manifest: Manifest = manifest::read(dir, Manifest::FILE)?.ok_or(io::ErrorKind::NotFound)?;
    let started: Option<Started> = manifest::read(dir, Started::FILE)?;
    let leader = started.as_ref().map(Identity::from).and_then(|leader| leader.of_this_boot());
    let own = std::process::id().cast_signed();
    let tree = Tree {
        below: None,
        roots: leader.into_iter().collect(),
        session_of: leader,
        adopter: Some(own),
        cgroup: manifest.cgroup.clone(),
        marker: Marker { attempt: manifest.attempt_id, process: manifest.process_id },
        spared: BTreeSet::from([own]),
    };
    Ok((manifest, tree))
}
