//! What a report makes of its task: the rule that all reporting tools share. Pure.
//!
//! ```text
//!  the worker says       status        review state   its claim
//!  done, with checks     inreview      reported       ends
//!  done                  done          none           ends
//!  failed                inreview      failed         ends
//!  blocked               todo          blocked        ends
//!  paused                inprogress    paused         stays
//!  partial, in progress  inprogress    none           stays
//! ```

use super::ReviewState;
use provost_actors::journal::TaskStatus;
use serde_json::Value;

/// What a worker says about a task, in terms that all tools share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Done,
    Failed,
    Blocked,
    /// A part of the work is there, and no other worker should continue yet.
    Partial,
    InProgress,
    Paused,
}

/// A report on a task, in terms that all tools share.
#[derive(Clone, Debug)]
pub struct TaskReport<'a> {
    /// The task, as the report names it.
    pub task: &'a str,
    /// The tool's own word for `said`.
    pub status: Value,
    pub said: Said,
    /// Why the task is blocked, failed or not complete.
    pub reason: Option<&'a str>,
    /// In percent.
    pub progress: Option<i64>,
    pub notes: Option<&'a str>,
    /// The files that the report says were changed.
    pub files: Vec<&'a str>,
    /// The acceptance criteria that the report mentions, each with its number, counted from 0.
    pub criteria: Vec<(usize, &'a str)>,
    /// The report says that the tests have passed.
    pub claims_passed: bool,
    /// Where the report contradicts itself, in sentences.
    pub contradictions: Vec<String>,
}

/// The state of a task after a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Becomes {
    pub status: TaskStatus,
    pub review: Option<ReviewState>,
    /// The claim on the task ends.
    pub is_let_go: bool,
}

/// The state of a task after a report. If the project has checks, a task that is reported as done waits for
/// them.
pub fn becomes(said: Said, has_checks: bool) -> Becomes {
    let (status, review) = match said {
        Said::Done if has_checks => (TaskStatus::InReview, Some(ReviewState::Reported)),
        Said::Done => (TaskStatus::Done, None),
        // The orchestrator decides what to do about a failure.
        Said::Failed => (TaskStatus::InReview, Some(ReviewState::Failed)),
        // Any worker may continue once nothing blocks the task.
        Said::Blocked => (TaskStatus::Todo, Some(ReviewState::Blocked)),
        Said::Paused => (TaskStatus::InProgress, Some(ReviewState::Paused)),
        Said::Partial | Said::InProgress => (TaskStatus::InProgress, None),
    };
    let is_let_go = matches!(said, Said::Done | Said::Failed | Said::Blocked);
    Becomes { status, review, is_let_go }
}

/// Why no report on a task is accepted any more, as the end of "task X …"; `None`: reports are accepted.
pub fn closed(status: TaskStatus, review: Option<ReviewState>) -> Option<&'static str> {
    match (status, review) {
        (TaskStatus::Done, _) => Some("is done already"),
        (TaskStatus::Cancelled, _) => Some("was cancelled"),
        (_, Some(ReviewState::Reported)) => {
            Some("was reported as done already, and its checks run")
        }
        _ => None,
    }
}

/// The done share of all tasks, in percent with one decimal; 0 if there are none.
pub fn percent(completed: u32, total: u32) -> f64 {
    if total == 0 { 0.0 } else { (f64::from(completed) * 1000.0 / f64::from(total)).round() / 10.0 }
}

/// The result of a report and the state of the board, in a sentence.
pub fn message(
    said: Said,
    checks_run: bool,
    ready: usize,
    blocked: u32,
    is_verified_next: bool,
) -> String {
    let task = match said {
        Said::Done if checks_run => "Task reported as done, and its checks run.",
        Said::Done => "Task marked complete.",
        Said::Failed => "Task marked failed; the orchestrator decides what becomes of it.",
        Said::Blocked => "Task marked blocked.",
        Said::Partial | Said::InProgress => "Task stays in progress.",
        Said::Paused => "Task marked paused.",
    };
    let created = if is_verified_next { ", 1 verification task created" } else { "" };
    format!("{task} {}, {blocked} blocked{created}", counted(ready, "ready task"))
}

/// A number with its noun: `2 things`, `1 thing`.
pub fn counted(number: usize, thing: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{s}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAID: [Said; 6] =
        [Said::Done, Said::Failed, Said::Blocked, Said::Partial, Said::InProgress, Said::Paused];

    #[test]
    fn only_a_task_that_is_done_without_checks_is_done() {
        for said in SAID {
            for has_checks in [false, true] {
                let becomes = becomes(said, has_checks);
                let is_done = said == Said::Done;
                assert_eq!(becomes.status == TaskStatus::Done, is_done && !has_checks);
                assert_eq!(becomes.review == Some(ReviewState::Reported), is_done && has_checks);
                assert_eq!(closed(becomes.status, becomes.review).is_some(), is_done);
            }
        }
    }

    #[test]
    fn what_is_done_cancelled_or_being_checked_takes_no_report() {
        assert!(closed(TaskStatus::Done, Some(ReviewState::Verified)).is_some());
        assert!(closed(TaskStatus::Cancelled, None).is_some());
        assert!(closed(TaskStatus::InReview, Some(ReviewState::Reported)).is_some());
        for review in
            [ReviewState::Rework, ReviewState::Failed, ReviewState::Blocked, ReviewState::Paused]
        {
            assert_eq!(closed(TaskStatus::InReview, Some(review)), None);
        }
    }

    #[test]
    fn percents_have_one_decimal() {
        assert_eq!(percent(1, 35).to_string(), "2.9");
        assert_eq!(percent(0, 0).to_string(), "0");
        assert_eq!(percent(8, 8).to_string(), "100");
    }

    proptest! {
        #[test]
        fn a_share_is_never_more_than_the_whole(total in 0_u32.., part in 0.0..=1.0_f64) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a u32")]
            let completed = (f64::from(total) * part) as u32;
            prop_assert!((0.0..=100.0).contains(&percent(completed, total)));
        }
    }
}
