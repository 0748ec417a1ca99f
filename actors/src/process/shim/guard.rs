//! Enforces a process's limits. [`Bounds`] sets those that the kernel enforces, in the child before its exec.
//! [`Guard`] takes samples for the others, and says when the tree has to end:
//!
//! ```text
//!  watching ──Terminate──▶ SIGTERM was sent ──grace over, or the leader ended──▶ Kill
//!     │  └─────Kill──────────────────────────────────────────────────────────────▶ Kill
//!     └─the leader ended──▶ only memory and processes are watched ──exceeded──▶ Kill
//! ```

use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::getuid;
use rustix::process::nice;

use crate::limits::{Applied, Hold, Limits, SoftLimits};
use crate::process::cgroup::Cgroup;
use crate::process::proc::{self, Stat};
use crate::process::records::Manifest;
use crate::process::tree::Tree;
use crate::process::watch::{LimitWatch, Measure, Sample};

/// The kernel counts tasks, and every thread is a task. Agents have a dozen threads each, so the kernel's
/// limit is this many tasks for each process, and [`TASKS_MORE`]. The exact limit of processes is watched.
const TASKS_EACH: u64 = 16;
const TASKS_MORE: u64 = 64;

/// Watches the limits of one tree for the supervisor.
pub struct Guard {
    limits: Limits,
    pub cgroup: Option<Cgroup>,
    /// From SIGTERM to SIGKILL.
    grace: Duration,
    /// The leader's start, moved by the time in which the tree was frozen.
    began: Instant,
    watch: LimitWatch,
    /// When the next sample is due. `None`: none is needed, or a measure was taken.
    look_at: Option<Instant>,
    /// Why the shim has ended the tree, for the exit record. The fence sets it too.
    pub reason: Option<String>,
    /// When the grace of a SIGTERM is over.
    kill_at: Option<Instant>,
    /// The leader has ended.
    is_over: bool,
}

impl Guard {
    /// `age`: how long the leader has run; above zero after a rescue.
    pub fn new(manifest: &Manifest, age: Duration) -> Self {
        let now = Instant::now();
        let watch = LimitWatch::new(manifest.limits, Sample { at: age, ..Sample::default() });
        let pause = watch.pause(age);
        Self {
            limits: manifest.limits,
            cgroup: manifest.cgroup.clone(),
            grace: Duration::from_millis(manifest.grace_ms),
            began: now.checked_sub(age).unwrap_or(now),
            watch,
            look_at: pause.map(|pause| now + pause),
            reason: None,
            kill_at: None,
            is_over: false,
        }
    }

    /// When [`Self::look`] is due. While the tree is frozen no sample is due, only a kill.
    pub fn due(&self, is_frozen: bool) -> Option<Instant> {
        self.look_at.filter(|_| !is_frozen).or(self.kill_at)
    }

    /// The tree was frozen for this long. That time does not count for the limits of time.
    pub fn stood_still(&mut self, pause: Duration) {
        self.began += pause;
        self.look_at = self.look_at.map(|at| at + pause);
    }

    /// The leader has ended. For what it left behind, only the limits of memory and processes remain. Later
    /// calls do nothing.
    pub fn leader_ended(&mut self) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        let sample = self.sample(0, false, None);
        // The kernel may have killed it for lack of memory: then that is the reason for the record.
        if self.reason.is_none() && sample.out_of_memory {
            self.reason = self.watch.look(sample).map(|(_, reason)| reason);
        }
        self.watch.turn_ended();
        self.look_at = self.watch.pause(sample.at).map(|pause| Instant::now() + pause);
    }

    /// Ends the grace early, since the leader has ended. `true`: there was one, and the caller has to kill
    /// now.
    pub fn hurry(&mut self) -> bool {
        self.kill_at.take().is_some()
    }

    /// Takes a sample if one is due, and returns what to do to the tree now. `bytes`: of both streams so far.
    /// `stalled`: the spool takes no output.
    pub fn look(
        &mut self,
        now: Instant,
        bytes: u64,
        stalled: bool,
        tree: &Tree,
    ) -> Option<Measure> {
        if self.look_at.is_some_and(|at| at <= now) {
            let tree = self.watch.needs_tree().then_some(tree);
            let sample = self.sample(bytes, stalled, tree);
            let Some((measure, reason)) = self.watch.look(sample) else {
                self.look_at = self.watch.pause(sample.at).map(|pause| now + pause);
                return None;
            };
            self.look_at = None;
            if self.is_over {
                return Some(Measure::Kill);
            }
            self.reason = Some(reason);
            self.kill_at = (measure == Measure::Terminate).then(|| now + self.grace);
            return Some(measure);
        }
        self.kill_at.take_if(|at| *at <= now).map(|_| Measure::Kill)
    }

    /// `tree`: `None` where no limit needs the usage of its members, which a search would cost.
    fn sample(&self, bytes: u64, stalled: bool, tree: Option<&Tree>) -> Sample {
        let members = tree.map(Tree::members).unwrap_or_default();
        let held = self.cgroup.as_ref().filter(|_| self.limits.memory_bytes > 0);
        Sample {
            at: self.began.elapsed(),
            bytes,
            stalled,
            cpu: members.iter().filter_map(|it| Stat::of(it.pid)).map(|stat| stat.cpu).sum(),
            memory: members.iter().filter_map(|it| proc::private_memory(it.pid)).sum(),
            processes: members.len() as u64,
            out_of_memory: held.is_some_and(Cgroup::was_out_of_memory),
        }
    }
}

/// The limits that the child of the fork sets for itself.
pub struct Bounds {
    limits: Limits,
    /// The cgroup, which exists, or why there is none, in a sentence.
    cgroup: Result<Cgroup, String>,
    /// The tasks that the user may have in all (`RLIMIT_NPROC` counts by user); 0: no such limit is set.
    /// Root is exempt from it.
    tasks: u64,
    soft: SoftLimits,
}

impl Bounds {
    /// Does what must be done before the fork: makes the cgroup, and counts the user's tasks.
    pub fn prepare(manifest: &Manifest) -> Self {
        let limits = manifest.limits;
        let none = || "there is no cgroup v2 that may be used".to_owned();
        let cgroup = manifest.cgroup.clone().ok_or_else(none).and_then(|cgroup| {
            cgroup.make().map_err(|error| format!("its cgroup can't be made: {error}"))?;
            Ok(cgroup)
        });
        let uid = getuid();
        let is_counted = limits.processes > 0 && !uid.is_root();
        let tasks =
            if is_counted { proc::tasks_of(uid.as_raw()) + tasks(limits.processes) } else { 0 };
        Self { limits, cgroup, tasks, soft: manifest.soft_limits }
    }

    /// Sets the limits for the calling process, except that of open files. Returns how each one is
    /// enforced, for the record `started.json`. A limit that can't be set is no error.
    pub fn apply(&self) -> Vec<Applied> {
        let entered = self.cgroup.as_ref().map_err(Clone::clone).and_then(|cgroup| {
            cgroup.enter().map_err(|error| format!("its cgroup can't be entered: {error}"))?;
            Ok(cgroup)
        });
        // The kernel enforces a limit by a file of the cgroup. Without it the guard watches.
        let set = |file: &str, value| {
            let cgroup = entered.as_ref().map_err(Clone::clone);
            let set = cgroup.and_then(|cgroup| {
                cgroup.set(file, value).map_err(|error| format!("{file} can't be set: {error}"))
            });
            held(set, Hold::Watched)
        };
        let apply = |(limit, value): (&str, u64)| {
            let (hold, reason) = match limit {
                "memory_bytes" => set("memory.max", value),
                "processes" => match set("pids.max", tasks(value)) {
                    (Hold::Watched, _) if self.tasks > 0 => {
                        let set = setrlimit(Resource::RLIMIT_NPROC, self.tasks, self.tasks);
                        held(set.map_err(Errno::desc), Hold::Watched)
                    }
                    done => done,
                },
                "open_files" => held(may_open(value), Hold::No),
                "nice" => held(nice(i32::try_from(value).unwrap_or(19)), Hold::No),
                _ => (Hold::Watched, None),
            };
            Applied { limit: limit.to_owned(), value, hold, reason }
        };
        self.limits.set().map(apply).collect()
    }

    /// Sets the limit of open files, or restores the soft limit that the daemon has raised for itself. To
    /// be called as one of the last steps before the exec: earlier steps may need more descriptors.
    pub fn limit_open_files(&self) -> io::Result<()> {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let (soft, hard) = match (self.limits.open_files, self.soft.open_files) {
            (0, None) => return Ok(()),
            (0, Some(soft)) => (soft.min(hard), hard),
            (limit, _) if may_open(limit).is_ok() => (limit, limit),
            _ => (hard, hard),
        };
        Ok(setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?)
    }

    /// Restores the soft limit of core dumps that the daemon was started with; the daemon and the shim set
    /// 0 for themselves.
    pub fn allow_core_dumps(&self) -> io::Result<()> {
        let Some(soft) = self.soft.core_bytes else { return Ok(()) };
        let (_, hard) = getrlimit(Resource::RLIMIT_CORE)?;
        Ok(setrlimit(Resource::RLIMIT_CORE, soft.min(hard), hard)?)
    }
}

/// Gives this shim real-time priority over the tree that it watches, if it may and if processes are
/// limited: a tree that forks without end leaves other processes no time. Children get normal priority
/// (sched(7)).
pub fn raise_own_priority(limits: &Limits) {
    if limits.processes > 0 {
        let priority = libc::sched_param { sched_priority: 1 };
        // SAFETY: the call is about this process, and only reads one struct. Without the privilege it fails.
        // Then this user is not root, and RLIMIT_NPROC holds the limit.
        unsafe {
            libc::sched_setscheduler(
                0,
                libc::SCHED_RR | libc::SCHED_RESET_ON_FORK,
                &raw const priority,
            )
        };
    }
}

/// The tasks that the kernel allows for a limit of processes.
fn tasks(processes: u64) -> u64 {
    processes.saturating_mul(TASKS_EACH).saturating_add(TASKS_MORE)
}

/// How a limit is enforced: by the kernel if it could be set, else `otherwise`, with the reason.
fn held<T, E: ToString>(set: Result<T, E>, otherwise: Hold) -> (Hold, Option<String>) {
    match set {
        Ok(_) => (Hold::Kernel, None),
        Err(error) => (otherwise, Some(error.to_string())),
    }
}

/// Whether a limit of open files can be set: it can't be above the hard limit.
fn may_open(value: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if value > hard {
        return Err(io::Error::other(format!("the hard limit is {hard} already")));
    }
    Ok(())
}
