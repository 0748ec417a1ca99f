//! What workers reported can be read: with its task, and of a whole project.

use serde_json::{Value, json};

use super::desk::{self, ask};
use crate::harness::Provost;

/// A report of a task that is not done, with all that it may say.
fn blocked() -> Value {
    json!({
        "taskId": "TASK-001",
        "status": "blocked",
        "statusDetails": {"blockedReason": "the key is missing", "partiallyDone": "half of it"},
        "acceptanceCriteriaVerification": {"0": {"text": "It runs", "status": "failed"}},
        "observations": ["Found that HSL is better than HEX for theme switching"],
        "followUpTasks": [{"title": "Make it faster", "why": "It takes nine seconds"}],
    })
}

fn reports(provost: &Provost, project: &str) -> Vec<Value> {
    let listed = json!({"project_id": project, "status": "reports"});
    provost.call("list_inbox", &listed)["questions"].as_array().unwrap().clone()
}

#[test]
fn a_task_shows_what_was_reported_on_it_by_tool_and_by_verb() {
    let provost = desk::provost();
    let board = desk::board(&provost, []);
    let task = board.task("one");
    let mut worker = desk::worker(&board);
    let answer = ask(&mut worker, "reportTaskDone", &blocked());
    let observed = &answer["observationsProcessed"][0];
    assert_eq!(
        observed["suggestedFollowUp"],
        "Document that HSL is better than HEX for theme switching"
    );
    let quiet = json!({"taskId": "TASK-001", "observation": "It is slow", "type": "issue",
        "severity": "low"});
    ask(&mut worker, "reportObservation", &quiet);

    let shown = provost.call("get_task", &json!({"task_id": task}))["task"].clone();
    assert_eq!(shown["reports_total"], 2);
    let (newest, first) = (&shown["reports"][0], &shown["reports"][1]);
    assert_eq!(
        (&newest["tool"], &newest["handles"], &newest["task_id"]),
        (&json!("reportObservation"), &json!(["OBS-002"]), &json!("TASK-001"))
    );
    assert_eq!((&first["status"], &first["handles"]), (&json!("blocked"), &json!(["OBS-001"])));
    let body = &first["report"];
    for field in ["blockedReason", "partiallyDone"] {
        assert_eq!(body["statusDetails"][field], blocked()["statusDetails"][field]);
    }
    assert_eq!(body["acceptanceCriteriaVerification"], blocked()["acceptanceCriteriaVerification"]);

    let plain = provost.verb(["task", "show", "TASK-001"]).stdout;
    for said in [
        "Reports, newest first (2 of 2):",
        "OBS-001",
        "Blocked reason: the key is missing",
        "Status: failed",
        "It is slow",
    ] {
        assert!(plain.contains(said), "{said}: {plain}");
    }
}

#[test]
fn a_report_that_is_too_long_is_shortened_and_says_so() {
    let provost = desk::provost();
    let board = desk::board(&provost, []);
    let task = board.task("one");
    let mut worker = desk::worker(&board);
    for status in ["partial", "blocked"] {
        let long = json!({"taskId": "TASK-001", "status": status,
            "implementationNotes": "x".repeat(20_000), "observations": vec!["y".repeat(2000); 50]});
        ask(&mut worker, "reportTaskDone", &long);
    }
    let shown = provost.call("get_task", &json!({"task_id": task}))["task"].clone();
    assert_eq!(
        (&shown["reports_total"], &shown["reports"][0]["truncated"]),
        (&json!(2), &json!(true))
    );
    assert!(shown["reports"].to_string().len() <= 16_384);
    assert_eq!(shown["reports"][0]["status"], "blocked");
}

#[test]
fn a_project_shows_what_was_reported_and_waits_for_no_one() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let mut worker = desk::worker(&board);
    ask(&mut worker, "reportObservation", &json!({"observation": "only this"}));
    let issue = json!({"issue_description": "it smells", "severity": 3, "task_id": "TASK-001"});
    ask(&mut worker, "reportIssue", &issue);
    let failure = json!({"taskId": "TASK-001", "testName": "t", "testFile": "t.rs",
        "failureDetails": {"error": "boom"}, "previousStatus": "flaky",
        "needsInvestigation": false, "actionNeeded": "look"});
    ask(&mut worker, "reportTestFailure", &failure);
    let listed = reports(&provost, &board.project_id);
    let rows: Vec<[&Value; 4]> = listed
        .iter()
        .map(|it| [&it["handle"], &it["kind"], &it["status"], &it["task_id"]])
        .collect();
    let (noted, task) = (json!("noted"), json!("TASK-001"));
    assert_eq!(
        rows,
        [
            [&json!("FAIL-001"), &json!("failure"), &noted, &task],
            [&json!("ISSUE-001"), &json!("issue"), &noted, &task],
            [&json!("OBS-001"), &json!("observation"), &noted, &Value::Null],
        ]
    );
    assert!(listed[0]["context"].as_str().unwrap().contains("boom"));
    assert_eq!(provost.call("list_inbox", &json!({"status": "all"}))["questions"], json!([]));
    let plain = provost.verb(["inbox", "--reports"]).stdout;
    for said in ["FAIL-001", "it smells", "only this"] {
        assert!(plain.contains(said), "{said}: {plain}");
    }
    assert_eq!(provost.verb(["inbox"]).code, 0);
}

#[test]
fn a_failure_that_needs_a_person_is_in_the_inbox_once_until_it_is_seen() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let mut worker = desk::worker(&board);
    let failure = json!({"taskId": "TASK-001", "testName": "t", "testFile": "t.rs",
        "failureDetails": {"error": "boom"}, "previousStatus": "passing_before",
        "needsInvestigation": false, "actionNeeded": "look"});
    for _ in 0..2 {
        let answer = ask(&mut worker, "reportTestFailure", &failure);
        assert_eq!(answer["dashboardAlert"]["requiresHumanAttention"], true, "{answer}");
        assert_eq!(answer["alertTicket"], "TK-001", "one that waits is enough");
    }
    let open = provost.call("list_inbox", &json!({}))["questions"].clone();
    assert_eq!(open.as_array().unwrap().len(), 1, "{open}");
    assert_eq!((&open[0]["kind"], &open[0]["task_id"]), (&json!("alert"), &json!("TASK-001")));
    assert!(provost.verb(["inbox"]).stdout.contains("t fails in TASK-001."));
    assert_eq!(provost.verb(["answer", "TK-001", "seen"]).code, 0);
    assert_eq!(provost.call("list_inbox", &json!({}))["questions"], json!([]));
    let answer = ask(&mut worker, "reportTestFailure", &failure);
    assert_eq!(answer["alertTicket"], "TK-002", "it is back");
}

#[test]
fn the_reason_of_a_follow_up_reaches_whoever_does_it() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let mut worker = desk::worker(&board);
    ask(&mut worker, "reportTaskDone", &blocked());
    let listed = provost.call("list_tasks", &json!({"project_id": board.project_id}));
    let made =
        listed["tasks"].as_array().unwrap().iter().find(|it| it["title"] == "Make it faster");
    let made = made.unwrap()["task_id"].as_str().unwrap();
    let shown = provost.call("get_task", &json!({"task_id": made}))["task"].clone();
    assert_eq!(shown["reason"], "It takes nine seconds");
    assert!(provost.verb(["task", "show", made]).stdout.contains("Why: It takes nine seconds"));
    let attempt = board.start_at(made, "fake", &json!({}));
    attempt.settled();
    let messages = provost.call("tail_session_messages", &json!({"attempt_id": attempt.id}));
    assert_eq!(messages["messages"][0]["text"], "Make it faster\n\nWhy: It takes nine seconds");
}
