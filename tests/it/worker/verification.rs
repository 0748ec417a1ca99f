//! `reportVerificationResult`.

use serde_json::{Value, json};

use super::desk::{self, ask, done, refused, status};
use crate::harness::{Board, Client, Provost};

fn result(status: &str, original: &str, more: &Value) -> Value {
    let mut result = json!({
        "verificationTaskId": "TASK-VERIFY-001",
        "originalTaskId": "TASK-001",
        "verificationStatus": status,
        "verification": {
            "checklist": [
                {"item": "All colors are there", "status": "passed"},
                {"item": "Contrast in dark mode", "status": "skipped", "note": "no tool"},
            ],
            "summary": "Looked at in the browser",
        },
        "originalTaskStatus": original,
    });
    result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    result
}

fn report(worker: &mut Client, status: &str, original: &str, more: &Value) -> Value {
    ask(worker, "reportVerificationResult", &result(status, original, more))
}

/// A task that is done and has its verification, and one that builds on it.
fn to_verify(provost: &Provost) -> (Board<'_>, Client) {
    let board = provost.board();
    let first = board.task_with("palette", &json!({"priority": "high"}));
    board.task_with("theme", &json!({"depends_on": [first]}));
    let mut worker = desk::worker(&board);
    let report = json!({"taskId": "TASK-001", "status": "done", "filesModified": ["colors.css"]});
    ask(&mut worker, "reportTaskDone", &report);
    (board, worker)
}

#[test]
fn what_passed_is_confirmed() {
    let provost = desk::provost();
    let (board, mut worker) = to_verify(&provost);
    assert_eq!(
        report(&mut worker, "passed", "done", &json!({})),
        json!({
            "success": true,
            "verificationTaskId": "TASK-VERIFY-001",
            "verificationStatus": "passed",
            "originalTaskStatus": "done",
            "message": "TASK-001 was done as it was to be.",
            "originalTaskMarked": "verified",
            "blockerCleared": true,
            "dashboardUpdate": {
                "message": "TASK-001 was done as it was to be. 0 issues found, 0 follow-up tasks made.",
                "issuesCount": 0,
                "followUpTasksCount": 0,
            },
        })
    );
    assert_eq!(status(&board, "palette"), "done");
    assert_eq!(status(&board, "Verify: palette"), "done");
}

#[test]
fn what_failed_is_on_the_board_again_with_its_issues_and_follow_ups() {
    let provost = desk::provost();
    let (board, mut worker) = to_verify(&provost);
    let failed = json!({
        "verification": {
            "checklist": [{"item": "Contrast in dark mode", "status": "failed"}],
            "failedItems": [{"item": "Contrast in dark mode", "issue": "Only 3.9 of 4.5",
                "why": "WCAG AA asks for it"}],
            "summary": "Not readable in dark mode",
        },
        "suggestedActions": ["Darken primary", "Add a contrast test"],
    });
    assert_eq!(
        report(&mut worker, "failed", "needs_rework", &failed),
        json!({
            "success": true,
            "verificationTaskId": "TASK-VERIFY-001",
            "verificationStatus": "failed",
            "originalTaskStatus": "needs_rework",
            "message": "TASK-001 is on the board again, for rework.",
            "issuesFound": [{"issueId": "ISSUE-001", "title": "Only 3.9 of 4.5",
                "relatedComponents": ["colors.css"], "severity": "high"}],
            "followUpTasksCreated": [
                {"taskId": "TASK-003", "title": "Darken primary", "relatedTo": "TASK-001", "priority": "high"},
                {"taskId": "TASK-004", "title": "Add a contrast test", "relatedTo": "TASK-001", "priority": "high"},
            ],
            "originalTaskMarked": "rework",
            "blockerCleared": false,
            "dashboardUpdate": {
                "message": "TASK-001 is on the board again, for rework. 1 issue found, 2 follow-up tasks made.",
                "issuesCount": 1,
                "followUpTasksCount": 2,
            },
        })
    );
    assert_eq!(status(&board, "palette"), "todo");
    // What builds on it waits again, until it is done again, which is verified anew.
    let answer = done(&mut worker, "TASK-003");
    assert_eq!(
        (&answer["nextTaskId"], &answer["dashboardUpdate"]["blockedCount"]),
        (&json!("TASK-001"), &json!(1))
    );
    let answer = done(&mut worker, "TASK-001");
    assert_eq!(answer["verificationTaskCreated"]["taskId"], "TASK-VERIFY-003");
}

#[test]
fn what_is_incomplete_is_reopened_and_what_was_begun_upon_it_is_named() {
    let provost = desk::provost();
    let (board, mut worker) = to_verify(&provost);
    ask(&mut worker, "reportTaskStatus", &json!({"task_id": "TASK-002"}));
    let answer = report(&mut worker, "partial", "done_but_incomplete", &json!({}));
    assert_eq!(answer["originalTaskMarked"], "rework");
    assert_eq!(answer["warnings"], json!(["TASK-002 builds on TASK-001 and was begun."]));
    assert_eq!(status(&board, "palette"), "todo");
}

#[test]
fn what_was_verified_in_part_stays_done_and_its_faults_are_issues() {
    let provost = desk::provost();
    let (board, mut worker) = to_verify(&provost);
    let part = json!({"verification": {"checklist": [
        {"item": "Contrast", "status": "failed", "note": "3.9 of 4.5"}], "summary": "s"}});
    let answer = report(&mut worker, "partial", "done", &part);
    assert_eq!(
        (&answer["originalTaskMarked"], &answer["blockerCleared"]),
        (&json!("done"), &json!(true))
    );
    assert_eq!(answer["issuesFound"][0]["title"], "3.9 of 4.5");
    assert_eq!(answer["issuesFound"][0]["severity"], "medium");
    assert_eq!(status(&board, "palette"), "done");
}

#[test]
fn what_a_person_has_to_look_at_becomes_a_ticket_that_blocks_nothing() {
    let provost = desk::provost();
    let (board, mut worker) = to_verify(&provost);
    let answer = report(&mut worker, "needs-manual-review", "done", &json!({}));
    assert_eq!(answer["reviewTicketId"], "TK-001");
    assert_eq!(answer["originalTaskMarked"], "done");
    assert_eq!(status(&board, "Verify: palette"), "done");
    let answer = ask(&mut worker, "reportTaskStatus", &json!({"task_id": "TASK-002"}));
    assert_eq!(answer["next_action"], "continue");
}

#[test]
fn a_result_that_contradicts_itself_is_taken_at_its_worst_with_a_warning() {
    let provost = desk::provost();
    let (board, mut worker) = to_verify(&provost);
    let answer = report(&mut worker, "passed", "needs_rework", &json!({}));
    assert_eq!(answer["originalTaskMarked"], "rework");
    assert!(answer["warnings"][0].as_str().unwrap().contains("as passed"), "{answer}");
    assert_eq!(status(&board, "palette"), "todo");
}

#[test]
fn error_400_of_what_is_no_verification_or_of_another_task() {
    let provost = desk::provost();
    let (_, mut worker) = to_verify(&provost);
    for (field, wrong) in [
        ("verificationTaskId", json!({"verificationTaskId": "TASK-002"})),
        ("originalTaskId", json!({"originalTaskId": "TASK-002"})),
        ("verificationStatus", json!({"verificationStatus": "good"})),
        ("originalTaskStatus", json!({"originalTaskStatus": "good"})),
    ] {
        let wrong = result("passed", "done", &wrong);
        let (number, error) = refused(&mut worker, "reportVerificationResult", &wrong);
        assert_eq!((number, &error["details"]["field"]), (400, &json!(field)), "{error}");
        assert_eq!(error["code"], "INVALID_PARAM");
    }
}

#[test]
fn error_404_of_an_unknown_verification_or_original() {
    let provost = desk::provost();
    let (_, mut worker) = to_verify(&provost);
    for field in ["verificationTaskId", "originalTaskId"] {
        let unknown = result("passed", "done", &json!({field: "TASK-999"}));
        assert_eq!(refused(&mut worker, "reportVerificationResult", &unknown).0, 404, "{field}");
    }
}

#[test]
fn error_409_of_a_verification_that_is_over_or_comes_too_early() {
    let provost = desk::provost();
    let (board, mut worker) = to_verify(&provost);
    let early =
        provost.call("list_tasks", &json!({"project_id": board.project_id, "status": "done"}));
    let original = early["tasks"][0]["task_id"].clone();
    provost.call("update_task", &json!({"task_id": original, "status": "inprogress"}));
    let passed = result("passed", "done", &json!({}));
    let (number, error) = refused(&mut worker, "reportVerificationResult", &passed);
    assert_eq!((number, &error["details"]["task_id"]), (409, &json!("TASK-001")));
    provost.call("update_task", &json!({"task_id": original, "status": "done"}));
    ask(&mut worker, "reportVerificationResult", &passed);
    let (number, error) = refused(&mut worker, "reportVerificationResult", &passed);
    assert_eq!((number, &error["details"]["task_id"]), (409, &json!("TASK-VERIFY-001")));
}
