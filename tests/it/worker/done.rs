//! `reportTaskDone` and `reportTaskCompleted`.

use serde_json::{Value, json};

use super::desk::{self, ask, done, refused, status, statuses};
use crate::harness::Provost;

/// Spec 5's request, as printed.
fn example() -> Value {
    json!({
        "taskId": "TASK-001",
        "status": "done",
        "implementationNotes": "Created CSS variables for all colors. Implemented light/dark theme toggle using CSS custom properties.",
        "filesModified": ["src/styles/colors.css", "src/styles/_variables.scss"],
        "testing": {
            "testsAdded": true,
            "testFileCreated": "src/styles/colors.test.ts",
            "testsPassed": true,
            "testsFailed": 0,
            "testCoveragePercent": 92,
            "accessibilityTestsPassed": true
        },
        "acceptanceCriteriaVerification": {
            "0": {"text": "All 12 colors defined with 3 variants", "status": "passed"},
            "1": {"text": "CSS variables output correctly", "status": "passed"},
            "2": {"text": "WCAG AA contrast verified", "status": "passed"}
        },
        "observations": [
            "Found that HSL is better than HEX for theme switching",
            "Need to add color utility functions for blending"
        ],
        "followUpTasks": [{
            "title": "Test colors in real components",
            "why": "Need to verify colors work in actual component rendering",
            "estimatedHours": 1
        }]
    })
}

#[test]
fn the_example_as_printed_is_answered_in_the_printed_shape() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["Implement color palette system", "Build navigation"]);
    let mut worker = desk::worker(&board);
    let answer = ask(&mut worker, "reportTaskDone", &example());
    let verification = &answer["verificationTaskCreated"];
    assert_eq!(
        verification["why"],
        "Hold the work against its 3 acceptance criteria: Implement color palette system"
    );
    assert!(verification["automationLevel"].is_string());
    assert_eq!(
        answer,
        json!({
            "success": true,
            "taskId": "TASK-001",
            "status": "done",
            "message": "Task marked complete. 3 ready tasks, 0 blocked, 1 verification task created",
            "verificationTaskCreated": {
                "taskId": "TASK-VERIFY-001",
                "title": "Verify: Implement color palette system",
                "why": verification["why"],
                "automationLevel": verification["automationLevel"],
            },
            "observationsProcessed": [
                {"observationId": "OBS-001", "observation": example()["observations"][0], "status": "noted",
                 "suggestedFollowUp": "Document that HSL is better than HEX for theme switching"},
                {"observationId": "OBS-002", "observation": example()["observations"][1], "status": "noted",
                 "suggestedFollowUp": "Add color utility functions for blending"},
            ],
            "nextTaskId": "TASK-002",
            "nextTaskPreview": {"title": "Build navigation", "priority": "medium"},
            "dashboardUpdate": {
                "completedCount": 1, "totalCount": 3, "percentComplete": 33.3,
                "blockedCount": 0, "verificationPendingCount": 1,
            },
            "followUpTasksCreated": [
                {"taskId": "TASK-003", "title": "Test colors in real components"},
            ],
        })
    );
    let expected = [
        ("Implement color palette system", "done"),
        ("Build navigation", "todo"),
        ("Verify: Implement color palette system", "todo"),
        ("Test colors in real components", "todo"),
    ];
    assert_eq!(statuses(&board), expected.map(|(title, at)| (title.to_owned(), at.to_owned())));
}

#[test]
fn a_task_is_named_by_its_handle_in_any_case_or_by_its_id() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let id = board.task("two");
    let mut worker = desk::worker(&board);
    assert_eq!(done(&mut worker, "task-001")["taskId"], "TASK-001");
    assert_eq!(done(&mut worker, &id)["taskId"], "TASK-002");
}

#[test]
fn error_404_task_not_found() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one"]));
    for tool in ["reportTaskDone", "reportTaskCompleted"] {
        let params = match tool {
            "reportTaskDone" => json!({"taskId": "TASK-999", "status": "done"}),
            _ => json!({"task_id": "TASK-999", "status": "success"}),
        };
        let (number, error) = refused(&mut worker, tool, &params);
        assert_eq!((number, &error["code"]), (404, &json!("RESOURCE_NOT_FOUND")));
    }
}

#[test]
fn error_400_invalid_status_value() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one"]));
    let wrong = json!({"taskId": "TASK-001", "status": "finished!"});
    let (number, error) = refused(&mut worker, "reportTaskDone", &wrong);
    assert_eq!((number, &error["details"]["field"]), (400, &json!("status")));
    let nested = json!({"taskId": "TASK-001", "status": "done",
        "acceptanceCriteriaVerification": {"0": {"text": "t", "status": "maybe"}}});
    let (number, error) = refused(&mut worker, "reportTaskDone", &nested);
    assert_eq!(number, 400);
    assert_eq!(error["details"]["field"], "acceptanceCriteriaVerification[0].status");
}

#[test]
fn error_400_paths_that_lead_out_of_the_repository() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let mut worker = desk::worker(&board);
    for path in ["/etc/passwd", "../secret", "src/../../x", ".git/hooks/pre-commit"] {
        let escaping =
            json!({"taskId": "TASK-001", "status": "done", "filesModified": ["a", path]});
        let (number, error) = refused(&mut worker, "reportTaskDone", &escaping);
        assert_eq!(
            (number, &error["details"]["field"]),
            (400, &json!("filesModified[1]")),
            "{path}"
        );
    }
    assert_eq!(status(&board, "one"), "todo");
}

#[test]
fn error_409_task_already_marked_as_done() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one"]));
    done(&mut worker, "TASK-001");
    for said in ["done", "failed", "blocked", "partial"] {
        let again = json!({"taskId": "TASK-001", "status": said});
        let (number, error) = refused(&mut worker, "reportTaskDone", &again);
        assert_eq!((number, &error["code"]), (409, &json!("INVALID_STATE")), "{said}");
        assert_eq!(error["details"]["status"], "done");
    }
    let again = json!({"task_id": "TASK-001", "status": "success"});
    assert_eq!(refused(&mut worker, "reportTaskCompleted", &again).0, 409);
    let again = json!({"task_id": "TASK-001", "status": "in_progress"});
    assert_eq!(refused(&mut worker, "reportTaskStatus", &again).0, 409);
}

#[test]
fn error_500_internal_server_error_leaves_everything_as_it_was() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["Implement color palette system"]);
    let mut worker = desk::worker(&board);
    provost.sql(&["CREATE TRIGGER no_notes BEFORE INSERT ON notes \
                   BEGIN SELECT RAISE(ABORT, 'the disk is on fire'); END"]);
    let (number, error) = refused(&mut worker, "reportTaskDone", &example());
    assert_eq!((number, &error["code"]), (500, &json!("INTERNAL_ERROR")));
    let before = [("Implement color palette system".to_owned(), "todo".to_owned())];
    assert_eq!(statuses(&board), before);
    provost.sql(&["DROP TRIGGER no_notes"]);
    let answer = ask(&mut worker, "reportTaskDone", &example());
    assert_eq!(answer["observationsProcessed"][0]["observationId"], "OBS-001");
}

#[test]
fn error_409_a_task_that_another_worker_has_in_hand() {
    let provost = desk::provost();
    let board = provost.board();
    let attempt = board.start("fake", "hang");
    attempt.in_phase("running");
    let report = json!({"taskId": "TASK-001", "status": "done"});
    let (number, error) = refused(&mut desk::worker(&board), "reportTaskDone", &report);
    assert_eq!((number, &error["details"]["held_by"]), (409, &json!(attempt.id)));
    let mut own = provost.inside(&attempt.id);
    assert_eq!(done(&mut own, "TASK-001")["status"], "done");
}

#[test]
fn what_is_not_done_is_distinguished_and_stays_open() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["failed", "blocked", "partial", "free"]);
    let mut worker = desk::worker(&board);
    let cases = [
        ("TASK-001", "failed", json!({"failureReason": "no compiler"}), "inreview"),
        ("TASK-002", "blocked", json!({"blockedReason": "no key"}), "todo"),
        (
            "TASK-003",
            "partial",
            json!({"progressPercent": 40, "partiallyDone": "half"}),
            "inprogress",
        ),
    ];
    for (task, said, details, becomes) in cases {
        let report = json!({"taskId": task, "status": said, "statusDetails": details});
        let answer = ask(&mut worker, "reportTaskDone", &report);
        assert_eq!(answer["status"], said);
        assert!(answer.get("verificationTaskCreated").is_none());
        assert_eq!(answer["dashboardUpdate"]["completedCount"], 0);
        assert_eq!(status(&board, said), becomes);
    }
    let answer =
        ask(&mut worker, "reportTaskDone", &json!({"taskId": "TASK-004", "status": "blocked"}));
    assert_eq!(answer["dashboardUpdate"]["blockedCount"], 3, "the failed one waits for a decision");
    // Whoever reported it may go on with it all the same.
    assert_eq!(done(&mut worker, "TASK-002")["status"], "done");
}

#[test]
fn a_report_that_contradicts_itself_gets_warnings() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one", "two"]));
    let report = json!({
        "taskId": "TASK-001", "status": "done",
        "testing": {"testsAdded": false, "testsPassed": false, "testsFailed": 2,
            "failedTestNames": ["a", "b"]},
        "acceptanceCriteriaVerification": {"1": {"text": "it works", "status": "failed"}},
    });
    let answer = ask(&mut worker, "reportTaskDone", &report);
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2, "{answer}");
    assert!(warnings[0].as_str().unwrap().contains("2 of them (a, b)"));
    assert!(warnings[1].as_str().unwrap().contains("criterion 1"));
    let report = json!({"task_id": "TASK-002", "status": "success",
        "test_results": {"passed": 3, "failed": 1}});
    let answer = ask(&mut worker, "reportTaskCompleted", &report);
    assert_eq!(answer["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn what_depends_on_a_task_is_next_once_it_is_done() {
    let provost = desk::provost();
    let board = provost.board();
    let first = board.task("first");
    let second = board.task_with("second", &json!({"depends_on": [first]}));
    let third = json!({"depends_on": [second], "priority": "critical"});
    board.task_with("third", &third);
    let mut worker = desk::worker(&board);
    let answer = done(&mut worker, "TASK-001");
    assert_eq!(
        (&answer["nextTaskId"], &answer["dashboardUpdate"]["blockedCount"]),
        (&json!("TASK-002"), &json!(1))
    );
    // Before what it waits for: it is taken, and said.
    let answer = done(&mut worker, "TASK-003");
    assert!(answer["warnings"][0].as_str().unwrap().contains("TASK-002"), "{answer}");
}

#[test]
fn a_task_that_is_done_again_has_one_open_verification() {
    let provost = desk::provost();
    let board = provost.board();
    let task = board.task("one");
    let mut worker = desk::worker(&board);
    done(&mut worker, "TASK-001");
    provost.call("update_task", &json!({"task_id": task, "status": "todo"}));
    let again = json!({"taskId": "TASK-001", "status": "done", "filesModified": ["a.rs"],
        "implementationNotes": "Better now."});
    let answer = worker.ask("reportTaskDone", &again)["result"].clone();
    assert!(answer.get("verificationTaskCreated").is_none(), "{answer}");
    assert_eq!(answer["dashboardUpdate"]["verificationPendingCount"], 1);
    let next = worker.ask("getNextTask", &json!({}))["result"]["task"].clone();
    assert_eq!(
        (&next["taskId"], &next["description"]),
        (
            &json!("TASK-VERIFY-001"),
            &json!(
                "TASK-001 was reported as done: one\n\nChanged, as its report says:\n- a.rs\n\n\
                 What its report says of it:\nBetter now."
            )
        )
    );
}

#[test]
fn a_verification_that_is_reported_done_is_not_verified_itself() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one"]));
    done(&mut worker, "TASK-001");
    let answer = done(&mut worker, "TASK-VERIFY-001");
    assert!(answer.get("verificationTaskCreated").is_none());
    assert!(answer.get("nextTaskId").is_none(), "{answer}");
    assert_eq!(answer["dashboardUpdate"]["percentComplete"], 100.0);
    assert!(
        answer["warnings"][0].as_str().unwrap().contains("reportVerificationResult"),
        "{answer}"
    );
}

#[test]
fn report_task_completed_answers_in_its_own_form() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one", "two", "three"]);
    let mut worker = desk::worker(&board);
    let full = json!({
        "task_id": "TASK-001", "status": "success", "output_summary": "Done as asked",
        "files_modified": ["src/a.rs"], "coverage_percent": 91.5,
        "test_results": {"passed": 12, "failed": 0}, "priority_completed": 1,
    });
    assert_eq!(
        ask(&mut worker, "reportTaskCompleted", &full),
        json!({"acknowledged": true, "next_task_suggested": "TASK-002"})
    );
    assert_eq!(status(&board, "Verify: one"), "todo");
    let nulls = json!({"task_id": "TASK-002", "status": "partial", "coverage_percent": null});
    ask(&mut worker, "reportTaskCompleted", &nulls);
    assert_eq!(status(&board, "two"), "inprogress");
    ask(&mut worker, "reportTaskCompleted", &json!({"task_id": "TASK-003", "status": "failed"}));
    assert_eq!(status(&board, "three"), "inreview");
    done(&mut worker, "TASK-VERIFY-001");
    done(&mut worker, "TASK-002");
    let last = json!({"task_id": "TASK-VERIFY-002", "status": "success"});
    assert_eq!(ask(&mut worker, "reportTaskCompleted", &last)["next_task_suggested"], Value::Null);
    let long =
        json!({"task_id": "TASK-003", "status": "failed", "output_summary": "x".repeat(501)});
    assert_eq!(
        refused(&mut worker, "reportTaskCompleted", &long).1["details"]["field"],
        "output_summary"
    );
}

#[test]
fn an_orchestrator_sees_the_last_report_in_brief() {
    let provost = desk::provost();
    let board = provost.board();
    let task = json!({"task_id": board.task("one")});
    let last_report =
        |provost: &Provost| provost.call("get_task", &task)["task"]["last_report"].clone();
    assert_eq!(last_report(&provost), Value::Null);
    let mut worker = desk::worker(&board);
    let half = json!({"task_id": "TASK-001", "details": "half of it"});
    ask(&mut worker, "reportTaskStatus", &half);
    assert_eq!(last_report(&provost)["summary"], "half of it");
    let lie = json!({"taskId": "TASK-001", "status": "done", "implementationNotes": "All of it",
        "testing": {"testsAdded": false, "testsPassed": false, "testsFailed": 1}});
    let warnings = ask(&mut worker, "reportTaskDone", &lie)["warnings"].clone();
    let last = last_report(&provost);
    assert_eq!((&last["status"], &last["summary"]), (&json!("done"), &json!("All of it")));
    assert_eq!(last["warnings"], warnings);
}

#[test]
fn a_criterion_of_the_task_is_named_by_its_number() {
    let provost = desk::provost();
    let board = provost.board();
    board.task_with("one", &json!({"brief": {"acceptanceCriteria": ["It opens", "It shuts"]}}));
    let mut worker = desk::worker(&board);
    let report = |number: &str, text: &str| {
        json!({"taskId": "TASK-001", "status": "done", "acceptanceCriteriaVerification":
            {number: {"text": text, "status": "passed"}}})
    };
    for wrong in ["-1", "abc", ""] {
        let (code, refusal) = refused(&mut worker, "reportTaskDone", &report(wrong, "x"));
        assert_eq!((code, &refusal["code"]), (400, &json!("INVALID_PARAM")), "{wrong}");
    }
    worker.ask("reportTaskDone", &report("1", "it shuts indeed"));
    let next = worker.ask("getNextTask", &json!({}))["result"]["task"].clone();
    assert_eq!(
        next["superDetailedPrompt"]["acceptanceCriteria"],
        json!(["It opens", "It shuts"]),
        "{next}"
    );
}
