//! `reportTestFailure`.

use serde_json::{Value, json};

use super::desk::{self, ask, done, refused, status};
use crate::harness::Client;

fn failure(task: &str, more: &Value) -> Value {
    let mut failure = json!({
        "taskId": task,
        "testName": "colors › contrast of primary",
        "testFile": "src/styles/colors.test.ts",
        "failureDetails": {
            "error": "AssertionError: expected 3.9 to be at least 4.5",
            "failingColor": {"name": "primary", "hex": "#90CAF9"},
            "expectedValue": 4.5,
            "actualValue": 3.9,
            "failedAssertion": "expect(contrast).toBeGreaterThanOrEqual(4.5)",
        },
        "previousStatus": "passing_before",
        "context": "After the theme was switched",
        "causePossibility": ["the palette was changed"],
        "needsInvestigation": true,
        "actionNeeded": "Find out which color changed",
    });
    failure.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    failure
}

fn report(worker: &mut Client, task: &str, more: &Value) -> Value {
    ask(worker, "reportTestFailure", &failure(task, more))
}

#[test]
fn a_failure_makes_an_investigation_that_comes_first_and_blocks_its_task() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["theme", "other"]);
    let mut worker = desk::worker(&board);
    let changed = json!({"taskId": "TASK-001", "status": "partial", "filesModified": ["src/styles/colors.css"]});
    ask(&mut worker, "reportTaskDone", &changed);
    let answer = report(&mut worker, "TASK-001", &json!({}));
    let made = &answer["investigationTaskCreated"];
    let cause = &answer["suspectedRootCauseAnalysis"];
    assert_eq!(
        answer,
        json!({
            "success": true,
            "testFailureId": "FAIL-001",
            "testName": "colors › contrast of primary",
            "status": "failure_logged",
            "blockingTask": {
                "blockingTaskId": "TASK-003",
                "message": "TASK-001 is blocked until TASK-003 is done.",
            },
            "investigationTaskCreated": {
                "taskId": "TASK-003",
                "title": "Investigate: colors › contrast of primary fails",
                "priority": "critical",
                "blocker": true,
                "details": made["details"],
                "addedToQueue": true,
                "position": "immediate (highest priority)",
            },
            "suspectedRootCauseAnalysis": cause,
            "dashboardAlert": {
                "type": "critical",
                "message": "colors › contrast of primary fails in TASK-001.",
                "timestamp": answer["dashboardAlert"]["timestamp"],
                "requiresHumanAttention": false,
            },
        })
    );
    let likeliest = cause["likeliestCause"].as_str().unwrap();
    assert!(
        likeliest.contains("src/styles/colors.css") && likeliest.contains("3.9 instead of 4.5"),
        "{likeliest}"
    );
    let steps = cause["suggestedInvestigation"].as_array().unwrap();
    assert!(steps.contains(&json!("Rule out or prove: the palette was changed")), "{cause}");
    let details = made["details"].as_str().unwrap();
    for part in ["AssertionError", "FAIL-001", "#90CAF9", "After the theme was switched", likeliest]
    {
        assert!(details.contains(part), "{part}: {details}");
    }
    let next =
        ask(&mut worker, "reportTaskStatus", &json!({"task_id": "TASK-002", "status": "paused"}));
    assert_eq!(next["next_action"], "get_next_task");
    let answer = done(&mut worker, "TASK-002");
    assert_eq!(
        (&answer["nextTaskId"], &answer["dashboardUpdate"]["blockedCount"]),
        (&json!("TASK-003"), &json!(1))
    );
}

#[test]
fn the_same_failure_again_names_the_investigation_that_is_open() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one", "two"]));
    report(&mut worker, "TASK-001", &json!({}));
    let again = report(&mut worker, "TASK-001", &json!({}));
    assert_eq!(again["testFailureId"], "FAIL-002");
    assert!(again.get("investigationTaskCreated").is_none(), "{again}");
    assert_eq!(again["blockingTask"]["blockingTaskId"], "TASK-003");
    // Another task in which it fails waits for the same investigation.
    let elsewhere = report(&mut worker, "TASK-002", &json!({}));
    assert!(elsewhere.get("investigationTaskCreated").is_none(), "{elsewhere}");
    assert_eq!(elsewhere["blockingTask"]["message"], "TASK-002 is blocked until TASK-003 is done.");
    // The investigation itself does not wait for itself.
    let itself = report(&mut worker, "TASK-003", &json!({}));
    assert!(itself.get("blockingTask").is_none(), "{itself}");
    let over =
        ask(&mut worker, "reportTaskStatus", &json!({"task_id": "TASK-003", "status": "done"}));
    assert_eq!(over["cascaded"], json!({"ticketsResolved": 2, "tasksUnblocked": 2}));
}

#[test]
fn a_failure_that_is_back_asks_for_a_person_and_names_what_did_not_end_it() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one"]));
    report(&mut worker, "TASK-001", &json!({}));
    let solved =
        json!({"taskId": "TASK-002", "status": "done", "implementationNotes": "Darkened primary"});
    ask(&mut worker, "reportTaskDone", &solved);
    // The numbers differ; the failure is the same.
    let other =
        json!({"failureDetails": {"error": "AssertionError: expected 3.7 to be at least 4.5"}});
    let back = report(&mut worker, "TASK-001", &other);
    assert_eq!(back["investigationTaskCreated"]["taskId"], "TASK-003");
    assert_eq!(back["dashboardAlert"]["requiresHumanAttention"], true);
    let cause = back["suspectedRootCauseAnalysis"]["likeliestCause"].as_str().unwrap();
    assert!(cause.contains("FAIL-001") && cause.contains("TASK-002 (Darkened primary)"), "{cause}");
    // Another test with the same error is told of it too.
    let alike = json!({"testName": "another", "previousStatus": "never_passed"});
    let alike = report(&mut worker, "TASK-001", &alike);
    let steps = alike["suspectedRootCauseAnalysis"]["suggestedInvestigation"].to_string();
    assert!(steps.contains("FAIL-001"), "{steps}");
}

#[test]
fn what_ended_a_failure_may_be_reported_in_parts() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one"]));
    report(&mut worker, "TASK-001", &json!({}));
    done(&mut worker, "TASK-002");
    let seen = json!({
        "taskId": "TASK-002",
        "observation": "The palette changed",
        "type": "discovery",
        "severity": "low",
        "details": {"what": "It is darker", "impact": "Few", "suggestedAction": "None", "why": "Contrast"},
    });
    ask(&mut worker, "reportObservation", &seen);
    let back = report(&mut worker, "TASK-001", &json!({}));
    let cause = back["suspectedRootCauseAnalysis"]["likeliestCause"].as_str().unwrap();
    assert!(cause.contains("TASK-002") && cause.contains("It is darker"), "{cause}");
}

#[test]
fn what_needs_no_investigation_is_logged_and_blocks_nothing() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let mut worker = desk::worker(&board);
    let quiet = json!({"needsInvestigation": false, "previousStatus": "flaky"});
    let answer = report(&mut worker, "TASK-001", &quiet);
    for absent in ["blockingTask", "investigationTaskCreated", "dashboardAlert"] {
        assert!(answer.get(absent).is_none(), "{absent}: {answer}");
    }
    assert_eq!(answer["testFailureId"], "FAIL-001");
    let broke = json!({"needsInvestigation": false, "previousStatus": "passing_before"});
    let answer = report(&mut worker, "TASK-001", &broke);
    assert_eq!(answer["dashboardAlert"]["requiresHumanAttention"], true, "nobody looks into it");
    assert_eq!(status(&board, "one"), "todo");
}

#[test]
fn a_failure_in_a_task_that_is_done_is_investigated_and_blocks_nothing() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let mut worker = desk::worker(&board);
    done(&mut worker, "TASK-001");
    let answer = report(&mut worker, "TASK-001", &json!({}));
    assert_eq!(answer["investigationTaskCreated"]["blocker"], false);
    assert!(answer.get("blockingTask").is_none());
    assert_eq!(status(&board, "one"), "done");
}

#[test]
fn error_400_of_a_missing_field_a_wrong_status_or_a_path_outside() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one"]));
    let mut short = failure("TASK-001", &json!({}));
    short["failureDetails"].as_object_mut().unwrap().remove("error");
    let (number, error) = refused(&mut worker, "reportTestFailure", &short);
    assert_eq!((number, &error["details"]["field"]), (-32602, &json!("failureDetails.error")));
    for (field, value) in [("previousStatus", "broken"), ("testFile", "../../etc/passwd")] {
        let wrong = failure("TASK-001", &json!({field: value}));
        let (number, error) = refused(&mut worker, "reportTestFailure", &wrong);
        assert_eq!((number, &error["details"]["field"]), (400, &json!(field)));
    }
    let unknown = failure("TASK-999", &json!({}));
    assert_eq!(refused(&mut worker, "reportTestFailure", &unknown).0, 404);
}

#[test]
fn an_investigation_that_the_orchestrator_ends_frees_its_task_too() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one", "two"]);
    let mut worker = desk::worker(&board);
    let find = |title: &str| {
        let listed = provost.call("list_tasks", &json!({"project_id": board.project_id}));
        let tasks = listed["tasks"].as_array().unwrap().clone();
        tasks.into_iter().find(|task| task["title"] == title).unwrap()["task_id"].clone()
    };
    report(&mut worker, "TASK-001", &json!({"testName": "first"}));
    report(&mut worker, "TASK-001", &json!({"testName": "second"}));
    let over = json!({"task_id": find("Investigate: first fails"), "status": "done"});
    provost.call("update_task", &over);
    let answer =
        ask(&mut worker, "reportTaskDone", &json!({"taskId": "TASK-002", "status": "partial"}));
    assert_eq!(answer["dashboardUpdate"]["blockedCount"], 1);
    provost.call("delete_task", &json!({"task_id": find("Investigate: second fails")}));
    let answer =
        ask(&mut worker, "reportTaskDone", &json!({"taskId": "TASK-002", "status": "partial"}));
    assert_eq!(
        (&answer["dashboardUpdate"]["blockedCount"], &answer["nextTaskId"]),
        (&json!(0), &json!("TASK-001"))
    );
}
