//! The records of checks: what a report of completion refers to, what ran on it, and the verdict.
//!
//! ```text
//!  planned ─keep_receipt, for each check─▶ all receipts ─conclude_checks─▶ verdict ─close_checks─▶ closed
//! ```
//!
//! `concluded` and `closed` differ so that what follows a verdict, such as a message to the worker, is done
//! again after a crash.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::{AttemptId, CheckRunId, FinishId, ProcessId, TaskId};
use crate::refusal::Refusal;
use crate::sandbox;
use crate::text::shell_word;

/// The command of a check, as the configuration gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CheckCommand {
    /// A line for `/bin/sh -c`.
    Line(String),
    /// A program, looked up in `PATH`, and its arguments.
    Words(Vec<String>),
}

impl CheckCommand {
    /// The arguments of `/bin/sh`. Words are run through the shell too (`exec "$@"`), so that both forms
    /// look the program up in the same way.
    pub fn shell_arguments(&self) -> Vec<String> {
        let (line, words): (_, &[String]) = match self {
            Self::Line(line) => (line.as_str(), &[]),
            Self::Words(words) => (r#"exec "$@""#, words),
        };
        let name = (!words.is_empty()).then_some("sh");
        let arguments = ["-c", line].into_iter().chain(name).map(str::to_owned);
        arguments.chain(words.iter().cloned()).collect()
    }
}

impl fmt::Display for CheckCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => f.write_str(line),
            Self::Words(words) => {
                let words: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
                f.write_str(&words.join(" "))
            }
        }
    }
}

/// A check of a run, as it was configured at the time of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCheck {
    pub name: String,
    pub command: CheckCommand,
    /// The id of its process, and the name of its folder within the run's.
    pub process_id: ProcessId,
    /// The repository in whose checkout it runs; `None`: in the folder above all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The attempt on whose work it runs, if any: it runs in a sandbox if that attempt's agent does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_of: Option<AttemptId>,
    /// The project under which the configuration gives it variables, if any. Their values are not written
    /// down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
}

/// A repository as it was at the report: the checks run in a checkout of `commit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedRepo {
    pub name: String,
    /// The repository that has the commit.
    pub path: String,
    pub commit: String,
    /// The commit was made from the worktree's files, and is in no branch.
    pub includes_uncommitted: bool,
}

/// What a report of completion refers to, and the run that is planned for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The host that has the commits, and so runs the checks.
    pub host: String,
    pub run_id: CheckRunId,
    /// The attempt that reported.
    pub attempt_id: Option<AttemptId>,
    pub repos: Vec<CheckedRepo>,
    /// The work is the same as the merge base; `None`: unknown.
    pub is_empty_diff: Option<bool>,
    pub checks: Vec<PlannedCheck>,
}

/// A run of the checks for a report, or for a finish.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CheckRun {
    pub run_id: CheckRunId,
    /// The finish whose result is checked: then the verdict changes no task.
    pub finish_id: Option<FinishId>,
    pub task_id: TaskId,
    pub task_handle: String,
    pub task_title: String,
    /// The attempt that reported.
    pub attempt_id: Option<AttemptId>,
    pub repos: Vec<CheckedRepo>,
    pub checks: Vec<PlannedCheck>,
    /// The work is the same as the merge base; `None`: unknown.
    pub is_empty_diff: Option<bool>,
    /// The report says that its tests passed.
    pub claims_passed: bool,
    /// Of the checks that have run, in the order of `checks`.
    pub receipts: Vec<Receipt>,
    /// `None` until all checks have been run.
    pub verdict: Option<CheckVerdict>,
}

/// The verdict on all receipts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    /// All passed: the task is done, or the result may be merged.
    Verified,
    /// A check did not pass: the task goes back to its worker, or the finish ends.
    Rework,
    /// The task was changed or reported on again meanwhile, and is left as it is.
    Overruled,
}

/// How one check ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    Passed,
    Failed,
    /// It ran for longer than its limit, and was killed.
    TimedOut,
    /// It could not be started, or its end is unknown. That proves nothing about the work.
    #[default]
    NotRun,
}

/// What one check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub name: String,
    pub command: String,
    pub outcome: CheckOutcome,
    /// Why it was not run, or which limit it exceeded.
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// From its start to its end; 0 if it was not run.
    pub duration_ms: u64,
    /// The folder of its output; `None`: it was not run.
    pub log: Option<String>,
    /// What its sandbox enforced; `None`: it had none, or was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<sandbox::Receipt>,
    pub at: Timestamp,
}

impl fmt::Display for Receipt {
    /// What happened, as the middle of a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, reason, .. } = self;
        match (self.outcome, self.exit_code, self.exit_signal) {
            (CheckOutcome::NotRun, ..) => write!(f, "check `{name}` could not be run")?,
            (_, Some(code), _) => write!(f, "check `{name}` exited with {code}")?,
            (_, None, Some(signal)) => write!(f, "check `{name}` was killed by signal {signal}")?,
            (_, None, None) => write!(f, "check `{name}` ended unseen")?,
        }
        reason.as_ref().map_or(Ok(()), |reason| write!(f, " ({reason})"))
    }
}

/// Whether every check passed; also without checks.
pub fn all_passed(receipts: &[Receipt]) -> bool {
    receipts.iter().all(|receipt| receipt.outcome == CheckOutcome::Passed)
}

/// The sentence that says which receipts contradict the report's claim that its tests passed; `None`: none
/// does. A check that was not run proves nothing.
pub fn contradiction(claims_passed: bool, receipts: &[Receipt]) -> Option<String> {
    let is_proof = |receipt: &&Receipt| {
        matches!(receipt.outcome, CheckOutcome::Failed | CheckOutcome::TimedOut)
    };
    let against: Vec<String> = receipts.iter().filter(is_proof).map(ToString::to_string).collect();
    (claims_passed && !against.is_empty())
        .then(|| format!("The report says that all tests passed; {}.", against.join("; ")))
}

/// The rows of check runs.
#[async_trait]
pub trait Checks {
    /// This host's runs that are not closed, in the order of their reports.
    async fn open_checks(&self) -> Result<Vec<CheckRun>, Refusal>;

    /// Writes the receipt of a check. The first one counts; another has no effect.
    async fn keep_receipt(&self, run: CheckRunId, receipt: &Receipt) -> Result<(), Refusal>;

    /// Decides a run that has all receipts. Unless the run is a finish's, changes its task in the same
    /// transaction. Idempotent: returns the verdict that there is.
    async fn conclude_checks(&self, run: CheckRunId) -> Result<CheckVerdict, Refusal>;

    /// Writes that nothing is left to do for a run that has a verdict.
    async fn close_checks(&self, run: CheckRunId) -> Result<(), Refusal>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(name: &str, outcome: CheckOutcome, exit_code: Option<i32>) -> Receipt {
        Receipt {
            name: name.to_owned(),
            command: "true".to_owned(),
            outcome,
            reason: None,
            exit_code,
            exit_signal: None,
            duration_ms: 1,
            log: None,
            sandbox: None,
            at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn only_a_claim_that_a_receipt_disproves_is_a_contradiction() {
        let passed = receipt("fmt", CheckOutcome::Passed, Some(0));
        let failed = receipt("test", CheckOutcome::Failed, Some(101));
        let not_run = receipt("lint", CheckOutcome::NotRun, None);
        let all = [passed.clone(), failed.clone(), not_run.clone()];
        assert_eq!(
            contradiction(true, &all).as_deref(),
            Some("The report says that all tests passed; check `test` exited with 101.")
        );
        assert_eq!(contradiction(false, &all), None);
        assert_eq!(contradiction(true, std::slice::from_ref(&passed)), None);
        assert_eq!(contradiction(true, &[passed.clone(), not_run.clone()]), None);
        assert!(all_passed(&[]) && all_passed(std::slice::from_ref(&passed)));
        assert!(!all_passed(&[passed, not_run]) && !all_passed(&[failed]));
    }

    #[test]
    fn a_receipt_tells_what_happened() {
        let timed_out = Receipt {
            exit_signal: Some(15),
            reason: Some("it ran for longer than its limit of 1 s (wall_secs)".to_owned()),
            ..receipt("test", CheckOutcome::TimedOut, None)
        };
        assert_eq!(
            timed_out.to_string(),
            "check `test` was killed by signal 15 (it ran for longer than its limit of 1 s (wall_secs))"
        );
    }
}
