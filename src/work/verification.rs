//! `reportVerificationResult`: whether a task was done as specified, and what its verification should know.

use super::report::{TaskReport, counted};
use crate::api::brief::{Brief, Prompt};
use crate::api::worker::verification::{
    ChecklistItem, FailedItem, ItemStatus, OriginalStatus, ReportVerificationResultInput,
    VerificationStatus, VerificationUpdate, VerificationVerdict,
};

impl VerificationUpdate {
    /// The update of the dashboard: a message with both numbers.
    pub fn new(message: &str, issues: usize, follow_ups: usize) -> Self {
        let (found, made) = (counted(issues, "issue"), counted(follow_ups, "follow-up task"));
        Self {
            message: format!("{message} {found} found, {made} made."),
            issues_count: issues,
            follow_up_tasks_count: follow_ups,
        }
    }
}

impl VerificationVerdict {
    /// What became of a task, in a sentence.
    pub fn says(self, task: &str) -> String {
        match self {
            Self::Verified => format!("{task} was done as it was to be."),
            Self::Done => format!("{task} stays done; not all of it was found good."),
            Self::Rework => format!("{task} is on the board again, for rework."),
        }
    }
}

impl ReportVerificationResultInput {
    /// What is wrong with the verified task: the failed items, or else the failed lines of the checklist.
    pub fn issues(&self) -> Vec<Issue> {
        let of_item = |it: &FailedItem| Issue {
            title: it.issue.to_string(),
            text: format!("{}: {}", &*it.item, &*it.why),
        };
        let ticked = |it: &ChecklistItem| Issue {
            title: it.note.as_deref().unwrap_or(&it.item).to_owned(),
            text: it.item.to_string(),
        };
        let failed =
            self.verification.checklist.iter().filter(|it| it.status == ItemStatus::Failed);
        match &self.verification.failed_items {
            Some(items) if !items.is_empty() => items.iter().map(of_item).collect(),
            _ => failed.map(ticked).collect(),
        }
    }

    /// The verdict on the verified task: the worst that the report says.
    pub fn verdict(&self) -> VerificationVerdict {
        match (self.verification_status, self.original_task_status) {
            (VerificationStatus::Failed, _)
            | (_, OriginalStatus::DoneButIncomplete | OriginalStatus::NeedsRework) => {
                VerificationVerdict::Rework
            }
            (VerificationStatus::Passed, _) if self.issues().is_empty() => {
                VerificationVerdict::Verified
            }
            _ => VerificationVerdict::Done,
        }
    }

    /// Where the report contradicts itself, in sentences.
    pub fn contradictions(&self) -> Vec<String> {
        let mut contradictions = Vec::new();
        if self.verification_status == VerificationStatus::Passed {
            if self.original_task_status != OriginalStatus::Done {
                contradictions.push(
                    "The verification is reported as passed, and the original as not done; it is \
                     put back on the board."
                        .to_owned(),
                );
            } else if !self.issues().is_empty() {
                contradictions.push(
                    "The verification is reported as passed, and items of it as failed; the \
                     original stays done and is not called verified."
                        .to_owned(),
                );
            }
        }
        contradictions
    }
}

/// Something that is wrong with the verified task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    pub title: String,
    /// What was checked, and why it is wrong.
    pub text: String,
}

/// The most files that the description of a verification lists.
const FILES_MAX: usize = 50;

impl TaskReport<'_> {
    /// What was done of a task and on which branch: the description of its verification.
    pub fn description(&self, task: &str, title: &str, branch: Option<&str>) -> String {
        let mut lines = vec![format!("{task} was reported as done: {title}")];
        lines.extend(branch.map(|branch| format!("It is on the branch {branch}.")));
        if !self.files.is_empty() {
            lines.push("\nChanged, as its report says:".to_owned());
            lines.extend(self.files.iter().take(FILES_MAX).map(|file| format!("- {file}")));
            let more = self.files.len().saturating_sub(FILES_MAX);
            lines.extend((more > 0).then(|| format!("- and {more} more")));
        }
        let notes = self.notes.filter(|notes| !notes.trim().is_empty());
        lines.extend(notes.map(|notes| format!("\nWhat its report says of it:\n{notes}")));
        lines.join("\n")
    }
}

/// The brief of a verification: the criteria of the task, and those that its report adds, as a checklist. A
/// number that the task has stands for the task's own criterion.
pub fn brief(of_task: Option<&str>, reported: &[(usize, &str)]) -> Brief {
    let task = of_task.and_then(Brief::kept).unwrap_or_default();
    let prompt = task.super_detailed_prompt.unwrap_or_default();
    let mut acceptance_criteria = prompt.acceptance_criteria;
    let known = acceptance_criteria.len();
    for (_, criterion) in reported.iter().filter(|(number, _)| *number >= known) {
        if !acceptance_criteria.iter().any(|known| known == criterion) {
            acceptance_criteria.push((*criterion).to_owned());
        }
    }
    let requirements = prompt.requirements;
    let prompt =
        Prompt { requirements, acceptance_criteria, files: prompt.files, ..Prompt::default() };
    Brief {
        super_detailed_prompt: Some(prompt),
        plan_reference: task.plan_reference,
        ..Brief::default()
    }
}

/// The reason for a verification, as the worker sees it.
pub fn why(task: &str, brief: &Brief) -> String {
    let criteria = brief.super_detailed_prompt.as_ref().map(|it| it.acceptance_criteria.len());
    match criteria.unwrap_or_default() {
        0 => format!("Make sure that what was asked for is there: {task}"),
        1 => format!("Hold the work against its acceptance criterion: {task}"),
        n => format!("Hold the work against its {n} acceptance criteria: {task}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::work::report::Said;

    fn report(status: &str, original: &str, items: &[&str]) -> ReportVerificationResultInput {
        let checklist: Vec<Value> =
            items.iter().map(|status| json!({"item": "it works", "status": status})).collect();
        serde_json::from_value(json!({
            "verificationTaskId": "TASK-VERIFY-001", "originalTaskId": "TASK-001",
            "verificationStatus": status, "originalTaskStatus": original,
            "verification": {"checklist": checklist, "summary": "s"},
        }))
        .unwrap()
    }

    #[test]
    fn the_worst_that_a_report_says_is_what_counts() {
        for (status, original, items, verdict) in [
            ("passed", "done", vec!["passed", "skipped"], VerificationVerdict::Verified),
            ("passed", "done", vec![], VerificationVerdict::Verified),
            ("passed", "done", vec!["passed", "failed"], VerificationVerdict::Done),
            ("passed", "needs_rework", vec!["passed"], VerificationVerdict::Rework),
            ("failed", "done", vec!["failed"], VerificationVerdict::Rework),
            ("failed", "needs_rework", vec!["failed"], VerificationVerdict::Rework),
            ("partial", "done", vec!["skipped"], VerificationVerdict::Done),
            ("partial", "done_but_incomplete", vec!["passed"], VerificationVerdict::Rework),
            ("needs-manual-review", "done", vec![], VerificationVerdict::Done),
            ("needs-manual-review", "needs_rework", vec![], VerificationVerdict::Rework),
        ] {
            assert_eq!(report(status, original, &items).verdict(), verdict, "{status} {original}");
        }
    }

    #[test]
    fn failed_items_of_the_checklist_are_issues_where_none_are_given() {
        let issues = report("failed", "needs_rework", &["passed", "failed"]).issues();
        assert_eq!(issues.len(), 1);
        assert_eq!(issues[0].title, "it works");
    }

    #[test]
    fn a_verification_tells_where_the_work_is_and_what_was_said_of_it() {
        let mut done = TaskReport {
            task: "TASK-001",
            status: json!("done"),
            said: Said::Done,
            reason: None,
            progress: None,
            notes: Some("It opens."),
            files: vec!["src/door.rs", "src/wall.rs"],
            criteria: vec![],
            claims_passed: false,
            contradictions: vec![],
        };
        let description =
            |done: &TaskReport<'_>, branch| done.description("TASK-001", "Add a door", branch);
        assert_eq!(
            description(&done, Some("provost/add-a-door")),
            "TASK-001 was reported as done: Add a door\nIt is on the branch provost/add-a-door.\n\n\
             Changed, as its report says:\n- src/door.rs\n- src/wall.rs\n\n\
             What its report says of it:\nIt opens."
        );
        (done.files, done.notes) = (vec![], Some(" "));
        assert_eq!(description(&done, None), "TASK-001 was reported as done: Add a door");
    }

    proptest! {
        #[test]
        fn only_what_passed_without_a_fault_is_verified(
            status in proptest::sample::select(vec!["passed", "failed", "partial", "needs-manual-review"]),
            original in proptest::sample::select(vec!["done", "done_but_incomplete", "needs_rework"]),
            items in proptest::collection::vec(
                proptest::sample::select(vec!["passed", "failed", "skipped"]), 0..5),
        ) {
            let report = report(status, original, &items);
            let is_good = status == "passed" && original == "done" && !items.contains(&"failed");
            prop_assert_eq!(report.verdict() == VerificationVerdict::Verified, is_good);
            prop_assert_eq!(report.verdict() == VerificationVerdict::Rework, status == "failed" || original != "done");
            prop_assert!(!is_good || report.contradictions().is_empty());
        }
    }
}
