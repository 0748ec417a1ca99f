//! `wait_for_attempts`. A wait registers, reads the rows, and sleeps until a commit wakes it or its time
//! is over; then it reads again. What it waits for is a pure function of what it reads, so a lost wake-up
//! costs time only.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use provost_actors::journal::FinishState;
use provost_actors::text::cut;
use tokio::time::{Instant, timeout_at};

use super::Domain;
use crate::api::attempts::{AttemptPhase, LatestEntryIndex};
use crate::api::waits::{
    ATTEMPTS_MAX, Until, WaitForAttemptsInput, WaitForAttemptsOutput, WaitTools, WaitedAttempt,
};
use crate::api::{Caller, Code, Refusable, Refusal};
use crate::store::AttemptRow;

/// Longest failure summary, in characters: of one attempt, and of all attempts of an answer together.
const FAILURE_MAX: usize = 300;
const FAILURES_MAX: usize = 3000;

#[async_trait]
impl WaitTools for Domain {
    async fn wait_for_attempts(
        &self,
        _: &Caller,
        input: WaitForAttemptsInput,
    ) -> Refusable<WaitForAttemptsOutput> {
        let after = input.after.as_deref().map(read_token).transpose()?;
        if let Some(after) = after
            && after.revision > self.store.newest_revision().await?
        {
            return Err(unknown_token());
        }
        let timeout = u64::try_from(input.timeout_ms.get()).unwrap_or(u64::MAX);
        let deadline = Instant::now() + Duration::from_millis(timeout);
        let mut asked = BTreeSet::new();
        let attempts: Vec<_> =
            input.attempt_ids.into_iter().filter(|attempt| asked.insert(*attempt)).collect();
        // Registered before the first read: a commit after that read wakes the wait.
        let watch = self.store.watch(&attempts);
        let mut began = None;
        loop {
            let is_over = Instant::now() >= deadline;
            let statuses = self.store.statuses(&attempts).await?;
            let now = Seen::of(&statuses);
            let began = *began.get_or_insert(now);
            let since = after.unwrap_or(began);
            let snapshots: Vec<WaitSnapshot> = (0..)
                .zip(&statuses)
                .map(|(at, status)| WaitSnapshot::of(status, since.differs(now, at)))
                .collect();
            let revision = after.map(|after| after.revision);
            let holds = holds(input.until, revision, began.revision, &snapshots);
            if holds || is_over {
                let newest = Seen { revision: now.revision.max(since.revision), ..now };
                return Ok(WaitForAttemptsOutput {
                    attempts: self.waited(statuses, &snapshots, since.revision).await,
                    timed_out: !holds,
                    after: write_token(newest),
                });
            }
            tokio::select! {
                // After either, the rows are read again.
                _ = timeout_at(deadline, watch.changed()) => {}
                () = self.ending.cancelled() => return Err(cut_off()),
            }
        }
    }
}

impl Domain {
    /// The attempts as the answer has them; `since` is the caller's revision.
    async fn waited(
        &self,
        statuses: Vec<AttemptRow>,
        snapshots: &[WaitSnapshot],
        since: i64,
    ) -> Vec<WaitedAttempt> {
        let mut waited = Vec::with_capacity(statuses.len());
        let most = FAILURE_MAX.min(FAILURES_MAX / statuses.len().max(1));
        for (status, snapshot) in statuses.into_iter().zip(snapshots) {
            let line = status.overview.line;
            let tip = self.log_tip(line.attempt_id, line.host.as_deref()).await;
            waited.push(WaitedAttempt {
                attempt_id: line.attempt_id,
                state: line.state,
                phase: line.phase,
                waiting_on: line.waiting_on,
                changed: snapshot.is_news(since),
                latest_execution_process_id: status.latest_execution_process_id,
                exit_code: status.exit_code,
                failure_summary: status.failure_summary.map(|it| cut(it, most)),
                stopped: line.stopped,
                queued_follow_ups: status.queued_follow_ups,
                finishing: status.finish.is_some_and(|it| it.state == FinishState::Open),
                latest_entry_index: LatestEntryIndex { normalized: tip.normalized, raw: tip.raw },
            });
        }
        waited
    }
}

/// The refusal of a wait when the daemon ends. The hint says to wait for another daemon: a client must
/// not start one only to continue a wait.
pub(super) fn cut_off() -> Refusal {
    Refusal::new(Code::DaemonRestarting, "The daemon is ending and stopped the wait.")
        .hint("Call the tool again when the daemon runs again.")
}

/// One attempt as the condition of a wait sees it.
#[derive(Clone, Copy, Debug)]
struct WaitSnapshot {
    revision: i64,
    /// The revision at which it last settled; 0 if it never has, or if its snapshot is still pending.
    settled_revision: i64,
    is_settled: bool,
    /// True if it began or stopped to wait for the disk since the caller's token.
    disk_changed: bool,
}

impl WaitSnapshot {
    fn is_news(&self, since: i64) -> bool {
        self.revision > since || self.disk_changed
    }

    fn of(status: &AttemptRow, disk_changed: bool) -> Self {
        let phase = status.overview.line.phase;
        Self {
            disk_changed,
            revision: status.revision,
            // It counts as settled once its snapshot is written, which is a change of its own.
            settled_revision: if status.overview.is_snapshot_pending() {
                0
            } else {
                status.settled_revision
            },
            is_settled: matches!(phase, AttemptPhase::Settled | AttemptPhase::Idle),
        }
    }
}

/// True when the wait's condition holds. `after` is the caller's last revision, if it gave one; `began`
/// is the newest revision when the call started.
fn holds(until: Until, after: Option<i64>, began: i64, attempts: &[WaitSnapshot]) -> bool {
    let has_settled =
        |attempt: &WaitSnapshot| after.is_some_and(|after| attempt.settled_revision > after);
    let all_are_settled = || attempts.iter().all(|attempt| attempt.is_settled);
    match (until, after) {
        (Until::AnyChange, _) => {
            attempts.iter().any(|attempt| attempt.is_news(after.unwrap_or(began)))
        }
        (Until::AnySettled, None) => attempts.iter().any(|attempt| attempt.is_settled),
        // If all are settled, nothing is left to wait for.
        (Until::AnySettled, Some(_)) => attempts.iter().any(has_settled) || all_are_settled(),
        (Until::AllSettled, _) => {
            attempts.iter().all(|attempt| attempt.is_settled || has_settled(attempt))
        }
    }
}

/// What a caller has seen, as a token. It consists of the newest revision, and of facts that no row has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    revision: i64,
    /// A bit for each attempt, in the order asked: it waits for the disk or for another attempt's setup.
    /// No row changes with this, so it has no revision.
    for_disk: u64,
    /// A hash of the attempts that the bits are of.
    asked: u32,
}

const _: () = assert!(ATTEMPTS_MAX <= u64::BITS as usize, "`Seen` has a bit for each attempt");

impl Seen {
    fn of(statuses: &[AttemptRow]) -> Self {
        let waits = |AttemptRow { overview: it, .. }: &AttemptRow| {
            u64::from(it.waits_for_disk.is_some() || it.waits_for_setup.is_some())
        };
        Self {
            revision: statuses.iter().map(|status| status.revision).max().unwrap_or_default(),
            for_disk: statuses.iter().rev().fold(0, |bits, status| bits << 1 | waits(status)),
            asked: statuses.iter().fold(0, |sum, status| {
                let short = status.overview.line.attempt_id.short();
                u32::rotate_left(sum, 5) ^ u32::from_str_radix(&short, 16).unwrap_or_default()
            }),
        }
    }

    /// True if the attempt at position `at` began or stopped to wait for the disk.
    fn differs(self, now: Self, at: u32) -> bool {
        // The bits of a token about other attempts say nothing about these.
        let seen = if self.asked == now.asked { self.for_disk } else { 0 };
        (seen ^ now.for_disk) >> at & 1 == 1
    }
}

/// `r42`, or `r42d5.8a` where the first and the third attempt wait for the disk.
fn write_token(seen: Seen) -> String {
    match seen {
        Seen { revision, for_disk: 0, .. } => format!("r{revision}"),
        Seen { revision, for_disk, asked } => format!("r{revision}d{for_disk:x}.{asked:x}"),
    }
}

/// Reads a token. Only the exact text that [`write_token`] makes is accepted.
fn read_token(token: &str) -> Result<Seen, Refusal> {
    let read = || {
        let hexadecimal = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let (revision, for_disk, asked) = match token.strip_prefix('r')?.split_once('d') {
            Some((revision, rest)) => {
                let (bits, asked) = rest.split_once('.')?;
                (revision, hexadecimal(bits)?, u32::try_from(hexadecimal(asked)?).ok()?)
            }
            None => (&token[1..], 0, 0),
        };
        let seen = Seen { revision: revision.parse().ok()?, for_disk, asked };
        Some(seen).filter(|seen| write_token(*seen) == token)
    };
    read().filter(|seen| seen.revision >= 0).ok_or_else(unknown_token)
}

fn unknown_token() -> Refusal {
    Refusal::new(Code::InvalidArgument, "`after` is not a token from wait_for_attempts")
        .hint("Call the tool again without after. What it answers has one to go on with.")
        .detail("path", "after")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn snapshot(revision: i64, settled_revision: i64, is_settled: bool) -> WaitSnapshot {
        WaitSnapshot { revision, settled_revision, is_settled, disk_changed: false }
    }

    #[test]
    fn a_first_call_looks_at_what_is_and_a_chained_one_at_what_is_new() {
        let (runs, ended) = (snapshot(4, 0, false), snapshot(3, 3, true));
        let runs_again = snapshot(6, 5, false);
        let cases = [
            (Until::AnySettled, None, vec![runs, ended], true),
            (Until::AnySettled, None, vec![runs, runs_again], false),
            (Until::AnySettled, Some(4), vec![runs, ended], false),
            (Until::AnySettled, Some(4), vec![runs, runs_again], true),
            (Until::AnySettled, Some(4), vec![ended], true),
            (Until::AllSettled, None, vec![runs, ended], false),
            (Until::AllSettled, None, vec![ended], true),
            (Until::AllSettled, None, vec![ended, runs_again], false),
            (Until::AllSettled, Some(4), vec![ended, runs_again], true),
            (Until::AllSettled, Some(5), vec![ended, runs_again], false),
            (Until::AnyChange, None, vec![runs, ended], false),
            (Until::AnyChange, Some(3), vec![runs, ended], true),
            (Until::AnyChange, Some(4), vec![runs, ended], false),
        ];
        for (until, after, attempts, expected) in cases {
            assert_eq!(holds(until, after, 4, &attempts), expected, "{until:?} {after:?}");
        }
        assert!(holds(Until::AnyChange, None, 3, &[runs, ended]));
        let stalled = WaitSnapshot { disk_changed: true, ..runs };
        assert!(holds(Until::AnyChange, Some(4), 4, &[stalled, ended]));
        assert!(!holds(Until::AnySettled, None, 4, &[stalled]));
    }

    #[test]
    fn a_wait_for_the_disk_is_news_to_whoever_has_not_seen_it() {
        let before = read_token("r7d2.8a").unwrap();
        let now = Seen { revision: 7, for_disk: 0b101, asked: 0x8a };
        let differ = [0, 1, 2, 3].map(|at| before.differs(now, at));
        assert_eq!(differ, [true, true, true, false]);
        // Of other attempts, or the same in another order.
        let others = Seen { asked: 0x8b, ..now };
        assert_eq!([0, 1, 2, 3].map(|at| before.differs(others, at)), [true, false, true, false]);
    }

    #[test]
    fn only_our_own_tokens_are_taken() {
        for (for_disk, asked) in [(0, 0), (1, 0), (0b101, 7), ((1 << 50) - 1, u32::MAX)] {
            let seen = Seen { revision: 42, for_disk, asked };
            assert_eq!(read_token(&write_token(seen)).unwrap(), seen);
        }
        for bad in [
            "",
            "r",
            "42",
            "r-1",
            "r1x",
            "r+1",
            "r01",
            "r99999999999999999999",
            "r1d",
            "r1d0",
            "r1d0.1",
            "r1d1",
            "r1d1.",
            "r1d1.1ffffffff",
            "r1dg.1",
            "d1",
        ] {
            assert_eq!(read_token(bad).unwrap_err().code, Code::InvalidArgument, "{bad}");
        }
    }

    /// Attempts that run and settle by turns, under one count of changes.
    #[derive(Debug)]
    struct Model {
        revision: i64,
        attempts: Vec<WaitSnapshot>,
    }

    impl Model {
        fn change(&mut self, attempt: usize, settles: bool) {
            self.revision += 1;
            let attempt = &mut self.attempts[attempt];
            attempt.revision = self.revision;
            attempt.is_settled = settles;
            if settles {
                attempt.settled_revision = self.revision;
            }
        }

        fn newest(&self) -> i64 {
            self.attempts.iter().map(|attempt| attempt.revision).max().unwrap_or_default()
        }
    }

    proptest! {
        /// A caller that looks at random moments and chains its calls by the
        /// token is told of every change, and of every settling.
        #[test]
        fn chained_calls_miss_nothing(
            steps in prop::collection::vec((0..4_usize, any::<bool>(), any::<bool>()), 1..60),
            until in prop::sample::select(vec![Until::AnySettled, Until::AnyChange]),
        ) {
            let mut model = Model { revision: 0, attempts: vec![snapshot(0, 0, false); 4] };
            let mut after = Some(0);
            // What the caller was told of each attempt: its last change, its last settling.
            let mut seen = [(0, 0); 4];
            let look = |model: &Model, after: &mut Option<i64>, seen: &mut [(i64, i64); 4]| {
                let is_over = holds(until, *after, 0, &model.attempts);
                if is_over {
                    for (seen, attempt) in seen.iter_mut().zip(&model.attempts) {
                        *seen = (attempt.revision, attempt.settled_revision);
                    }
                    *after = Some(model.newest());
                }
                is_over
            };
            for (attempt, settles, looks) in steps {
                model.change(attempt, settles);
                if looks {
                    look(&model, &mut after, &mut seen);
                }
            }
            look(&model, &mut after, &mut seen);
            for (seen, attempt) in seen.iter().zip(&model.attempts) {
                prop_assert_eq!(seen.1, attempt.settled_revision);
                if until == Until::AnyChange {
                    prop_assert_eq!(seen.0, attempt.revision);
                }
            }
            // And nothing is told twice, unless nothing is left to wait for.
            let all_are_settled = model.attempts.iter().all(|attempt| attempt.is_settled);
            let again = look(&model, &mut after, &mut seen);
            prop_assert_eq!(again, until == Until::AnySettled && all_are_settled);
        }
    }
}
