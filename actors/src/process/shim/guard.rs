//! Enforces a process's limits: sets those that the kernel enforces, watches the others, and
//! decides when the tree has to end.

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

/// Tasks beyond a limit of processes: threads are tasks, and agents have a dozen each.
const TASKS_EACH: u64 = 16;
const TASKS_MORE: u64 = 64;

pub struct Guard {
    limits: Limits,
    pub cgroup: Option<Cgroup>,
    grace: Duration,
    began: Instant,
    watch: LimitWatch,
    look_at: Option<Instant>,
    /// Why the tree has to end.
    pub reason: Option<String>,
    kill_at: Option<Instant>,
    is_over: bool,
}

impl Guard {
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

    /// While the tree is frozen only a kill is due.
    pub fn due(&self, is_frozen: bool) -> Option<Instant> {
        self.look_at.filter(|_| !is_frozen).or(self.kill_at)
    }

    /// The tree was frozen for so long, which counts for no limit of time.
    pub fn stood_still(&mut self, pause: Duration) {
        self.began += pause;
        self.look_at = self.look_at.map(|at| at + pause);
    }

    /// The leader has ended: leftovers only obey the limits of memory and processes.
    pub fn leader_ended(&mut self) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        let sample = self.sample(0, false, None);
        // Lack of memory may have killed it.
        if self.reason.is_none() && sample.out_of_memory {
            self.reason = self.watch.look(sample).map(|(_, reason)| reason);
        }
        self.watch.turn_ended();
        self.look_at = self.watch.pause(sample.at).map(|pause| Instant::now() + pause);
    }

    /// Ends the grace of a tree once the leader has ended; `false` if there is none.
    pub fn hurry(&mut self) -> bool {
        self.kill_at.take().is_some()
    }

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

pub struct Bounds {
    limits: Limits,
    /// The created cgroup, or why there is none.
    cgroup: Result<Cgroup, String>,
    /// Tasks that the user may have in all.
    tasks: u64,
    soft: SoftLimits,
}

impl Bounds {
    /// Prepares before the fork.
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

    /// Sets them for the calling process, except open files. Returns how each is enforced.
    pub fn apply(&self) -> Vec<Applied> {
        let entered = self.cgroup.as_ref().map_err(Clone::clone).and_then(|cgroup| {
            cgroup.enter().map_err(|error| format!("its cgroup can't be entered: {error}"))?;
            Ok(cgroup)
        });
        // Enforced by a file of the cgroup, else watched.
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

    /// To be called last before the program runs: earlier steps may need more.
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

    /// Restores the core dump limit of the daemon's parent.
    pub fn allow_core_dumps(&self) -> io::Result<()> {
        let Some(soft) = self.soft.core_bytes else { return Ok(()) };
        let (_, hard) = getrlimit(Resource::RLIMIT_CORE)?;
        Ok(setrlimit(Resource::RLIMIT_CORE, soft.min(hard), hard)?)
    }
}

/// Gives this process priority over the tree that it watches, if it may: a tree that forks
/// without end leaves no time to others. Children get normal priority (sched(7)).
pub fn raise_own_priority(limits: &Limits) {
    if limits.processes > 0 {
        let priority = libc::sched_param { sched_priority: 1 };
        // SAFETY: the calling process, one struct that is only read. Without the
        // privilege it fails, and the kernel holds the limit for such a user.
        unsafe {
            libc::sched_setscheduler(
                0,
                libc::SCHED_RR | libc::SCHED_RESET_ON_FORK,
                &raw const priority,
            )
        };
    }
}

fn tasks(processes: u64) -> u64 {
    processes.saturating_mul(TASKS_EACH).saturating_add(TASKS_MORE)
}

/// How a limit is held that was `set` in the kernel, or `otherwise`.
fn held<T, E: ToString>(set: Result<T, E>, otherwise: Hold) -> (Hold, Option<String>) {
    match set {
        Ok(_) => (Hold::Kernel, None),
        Err(error) => (otherwise, Some(error.to_string())),
    }
}

/// Whether a limit of open files can be set: none beyond the hard one.
fn may_open(value: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if value > hard {
        return Err(io::Error::other(format!("the hard limit is {hard} already")));
    }
    Ok(())
}
