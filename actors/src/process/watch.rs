//! Decides from samples of a tree's usage when it has exceeded a limit. Pure: `shim/guard.rs` takes the
//! samples and carries the decision out.

use std::time::Duration;

use crate::limits::Limits;

/// A tree that uses less than 1/100 of the time between two samples is idle: timers run in idle programs too.
const IDLE_SHARE: u32 = 100;
/// The time between two samples while memory or the number of processes is limited.
const CLOSE_LOOK: Duration = Duration::from_millis(100);
/// Bounds of the time between two samples for idleness, which is a tenth of `idle_secs`.
const IDLE_LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// What a tree used at one moment. Fields that no limit needs may be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time since the leader's start, without the time in which the tree was frozen.
    pub at: Duration,
    /// Bytes of both streams spooled so far.
    pub bytes: u64,
    /// Processor time of all living members, and of their dead children that they have waited for. It can
    /// become smaller when a member dies.
    pub cpu: Duration,
    /// Bytes of private memory of all members.
    pub memory: u64,
    pub processes: u64,
    /// The spool can't take its output, so it may have to wait. This counts as work.
    pub stalled: bool,
    /// The kernel has killed a member for lack of memory in its cgroup.
    pub out_of_memory: bool,
}

/// How to end a tree that has exceeded a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// SIGTERM and the end of standard input, then SIGKILL after the grace.
    Terminate,
    /// SIGKILL at once: memory or processes grow during a grace.
    Kill,
}

/// The limits of one tree, and the samples that the next decision needs.
pub struct LimitWatch {
    limits: Limits,
    /// The last sample that showed work.
    busy: Sample,
    last: Sample,
}

impl LimitWatch {
    /// Idleness counts from `now`, also after a rescue.
    pub fn new(limits: Limits, now: Sample) -> Self {
        Self { limits, busy: now, last: now }
    }

    /// How long no sample is needed. `None`: no limit that is set needs one. `now`: as in [`Sample::at`].
    pub fn pause(&self, now: Duration) -> Option<Duration> {
        let Limits { wall_secs, idle_secs, memory_bytes, processes, .. } = self.limits;
        let wall = (wall_secs > 0).then(|| Duration::from_secs(wall_secs).saturating_sub(now));
        let idle = (idle_secs > 0)
            .then(|| (Duration::from_secs(idle_secs) / 10).clamp(IDLE_LOOK.0, IDLE_LOOK.1));
        let close = (memory_bytes > 0 || processes > 0).then_some(CLOSE_LOOK);
        [wall, idle, close].into_iter().flatten().min()
    }

    /// Whether a sample needs `cpu`, `memory` or `processes`, for which the whole tree is searched.
    pub fn needs_tree(&self) -> bool {
        let Limits { idle_secs, memory_bytes, processes, .. } = self.limits;
        idle_secs > 0 || memory_bytes > 0 || processes > 0
    }

    /// The leader has ended: from now on only memory and the number of processes are limited.
    pub fn turn_ended(&mut self) {
        (self.limits.wall_secs, self.limits.idle_secs) = (0, 0);
    }

    /// Takes the next sample. `Some`: how to end the tree, and a sentence without its full stop that names
    /// the limit. If several limits are exceeded, those that are ended by a kill come first.
    pub fn look(&mut self, now: Sample) -> Option<(Measure, String)> {
        let slice = now.at.saturating_sub(self.last.at);
        let used = now.cpu.saturating_sub(self.last.cpu);
        if now.stalled || now.bytes != self.last.bytes || used * IDLE_SHARE > slice {
            self.busy = now;
        }
        self.last = now;
        let Limits { wall_secs, idle_secs, memory_bytes, processes, .. } = self.limits;
        let over = |limit: u64, value: u64| limit > 0 && value >= limit;
        let (measure, reason) = if processes > 0 && now.processes > processes {
            let limit = format!("{processes} (processes)");
            (Measure::Kill, format!("it had more processes than its limit of {limit}"))
        } else if memory_bytes > 0 && (now.out_of_memory || now.memory > memory_bytes) {
            let limit = format!("{memory_bytes} bytes (memory_bytes)");
            (Measure::Kill, format!("it took more memory than its limit of {limit}"))
        } else if over(wall_secs, now.at.as_secs()) {
            let limit = format!("{wall_secs} s (wall_secs)");
            (Measure::Terminate, format!("it ran for longer than its limit of {limit}"))
        } else if over(idle_secs, now.at.saturating_sub(self.busy.at).as_secs()) {
            let limit = format!("{idle_secs} s (idle_secs)");
            (Measure::Terminate, format!("it did nothing for its limit of {limit}"))
        } else {
            return None;
        };
        Some((measure, reason))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(secs: u64) -> Sample {
        Sample { at: Duration::from_secs(secs), processes: 1, ..Sample::default() }
    }

    fn reason(watch: &mut LimitWatch, sample: Sample) -> Option<String> {
        watch.look(sample).map(|(_, reason)| reason)
    }

    #[test]
    fn each_limit_is_passed_by_its_own_measure() {
        let limits = Limits {
            wall_secs: 100,
            idle_secs: 10,
            memory_bytes: 1000,
            processes: 3,
            ..Limits::default()
        };
        let mut watch = LimitWatch::new(limits, at(0));
        assert_eq!(watch.look(Sample { memory: 1000, processes: 3, ..at(1) }), None);
        assert!(
            reason(&mut watch, Sample { processes: 4, ..at(2) }).unwrap().contains("processes")
        );
        assert!(reason(&mut watch, Sample { memory: 1001, ..at(3) }).unwrap().contains("memory"));
        assert_eq!(watch.look(at(9)), None);
        assert!(reason(&mut watch, at(10)).unwrap().contains("idle_secs"));
        assert_eq!(watch.look(Sample { bytes: 1, ..at(99) }), None);
        assert!(reason(&mut watch, Sample { bytes: 2, ..at(100) }).unwrap().contains("wall_secs"));
    }

    #[test]
    fn bytes_and_processor_time_are_work_and_a_ticking_timer_is_none() {
        let limits = Limits { idle_secs: 10, ..Limits::default() };
        let mut watch = LimitWatch::new(limits, at(0));
        let cpu = |at: Sample, millis| Sample { cpu: Duration::from_millis(millis), ..at };
        assert_eq!(watch.look(cpu(at(5), 100)), None);
        assert_eq!(watch.look(cpu(at(14), 150)), None);
        assert!(watch.look(cpu(at(15), 155)).is_some());
        // Whoever waits for the disk is not idle.
        assert_eq!(watch.look(Sample { stalled: true, ..cpu(at(100), 155) }), None);
        assert_eq!(watch.look(cpu(at(109), 155)), None);
        assert!(watch.look(cpu(at(110), 155)).is_some());
        // Members may die, and their time with them.
        assert_eq!(watch.look(Sample { bytes: 9, ..cpu(at(116), 0) }), None);
    }

    #[test]
    fn without_limits_nothing_wakes_it() {
        let watch = LimitWatch::new(Limits { open_files: 9, nice: 3, ..Limits::default() }, at(0));
        assert_eq!(watch.pause(Duration::ZERO), None);
        assert!(!watch.needs_tree());
    }

    proptest! {
        #[test]
        fn a_process_that_writes_is_never_idle_and_one_that_does_nothing_always_is(
            idle_secs in 1..50_u64,
            steps in prop::collection::vec(1..5_u64, 1..100),
        ) {
            let limits = Limits { idle_secs, ..Limits::default() };
            let (mut busy, mut lazy) = (LimitWatch::new(limits, at(0)), LimitWatch::new(limits, at(0)));
            let mut now = 0;
            for (step, bytes) in steps.iter().zip(1..) {
                now += step;
                prop_assert_eq!(busy.look(Sample { bytes, ..at(now) }), None);
                prop_assert_eq!(lazy.look(at(now)).is_some(), now >= idle_secs);
            }
        }

        #[test]
        fn a_pause_never_sleeps_past_the_wall(wall_secs in 1..1000_u64, idle_secs in 0..1000_u64, now in 0..2000_u64) {
            let watch = LimitWatch::new(Limits { wall_secs, idle_secs, ..Limits::default() }, at(0));
            let pause = watch.pause(Duration::from_secs(now)).unwrap();
            prop_assert!(pause <= Duration::from_secs(wall_secs.saturating_sub(now)));
        }
    }
}
