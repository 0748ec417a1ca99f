//! `reportObservation`, in both forms, and `reportIssue`.

use serde_json::{Value, json};

use crate::harness::{Client, Provost};

/// A worker in the repository of a board with a task, TASK-001.
fn at_work(provost: &Provost) -> Client {
    let board = provost.board();
    board.task("a task");
    provost.worker(&board.repo().path)
}

/// The request that the specification prints.
fn example() -> Value {
    json!({
        "taskId": "TASK-001",
        "observation": "Found that HSL color format is better for theme switching than HEX",
        "type": "discovery",
        "severity": "medium",
        "details": {
            "what": "HSL colors allow easier manipulation of lightness for dark mode",
            "why": "Current implementation uses HEX, making theme switching complex",
            "impact": "More maintainable theming system if we switch to HSL",
            "suggestedAction": "Refactor color system to use HSL format"
        },
        "createNewTask": true,
        "newTaskDetails": {
            "title": "Refactor color format from HEX to HSL",
            "priority": "medium",
            "estimatedHours": 3
        },
        "references": ["https://developer.mozilla.org/en-US/docs/Web/CSS/color_value"]
    })
}

fn with(mut request: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

/// What is refused as a parameter that is wrong, and which it was.
fn wrong_field(answer: &Value) -> &Value {
    let error = &answer["error"]["data"]["error"];
    assert_eq!(error["code"], "INVALID_PARAM", "{answer}");
    &error["details"]["field"]
}

#[test]
fn report_observation_answers_the_printed_request_in_the_printed_shape() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let answer = worker.ask("reportObservation", &example())["result"].clone();
    let timestamp = answer["dashboardAlert"]["timestamp"].clone();
    assert!(timestamp.is_string(), "{answer}");
    let observation = &example()["observation"];
    let expected = json!({
        "success": true,
        "observationId": "OBS-001",
        "observation": observation,
        "type": "discovery",
        "severity": "medium",
        "status": "task-created",
        "newTaskCreated": {
            "taskId": "TASK-002",
            "title": "Refactor color format from HEX to HSL",
            "priority": "medium",
            "addedToQueue": true,
            "position": "number 2 of 2 ready tasks"
        },
        "dashboardAlert": {
            "message": format!("New observation: {}", observation.as_str().unwrap()),
            "timestamp": timestamp,
            "visible": true
        }
    });
    assert_eq!(answer, expected);
    worker.ask("getNextTask", &json!({"claim": true}));
    let made = worker.ask("getNextTask", &json!({}))["result"]["task"].clone();
    assert_eq!((&made["taskId"], &made["estimatedHours"]), (&json!("TASK-002"), &json!(3)));
    assert_eq!(&made["reason"], observation);
    let description = made["description"].as_str().unwrap();
    assert!(description.ends_with("Suggested: Refactor color system to use HSL format"));
}

#[test]
fn report_observation_v1_1_is_recognized_by_its_fields_and_answered_in_its_own_form() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let mut ask = |params: Value| worker.ask("reportObservation", &params)["result"].clone();
    let logged = |number: u32| json!({"logged": true, "observation_id": format!("OBS-00{number}")});
    let short = json!({
        "observation": "o", "category": "potential_bug", "priority": 3, "task_id": "TASK-001",
        "file_path": "src/main.rs",
    });
    assert_eq!(ask(short), logged(1));
    assert_eq!(ask(json!({"observation": "only this"})), logged(2));
    assert_eq!(ask(json!({"observation": "o", "priority": 1, "file_path": null})), logged(3));
    let ticket = worker.ask("createTicket", &json!({"title": "Test"}));
    assert_eq!(ticket["result"]["ticket"]["id"], "TK-002", "the urgent one raised an alert");
}

#[test]
fn report_observation_that_is_critical_alerts_a_person() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let quiet =
        json!({"taskId": "TASK-001", "observation": "o", "type": "issue", "severity": "low"});
    let answer = worker.ask("reportObservation", &quiet)["result"].clone();
    assert_eq!((&answer["status"], answer.get("dashboardAlert")), (&json!("logged"), None));
    let loud = with(quiet, &json!({"severity": "critical"}));
    let answer = worker.ask("reportObservation", &loud)["result"].clone();
    assert_eq!(
        (&answer["alertTicket"], &answer["dashboardAlert"]["visible"]),
        (&json!("TK-001"), &json!(true))
    );
}

#[test]
fn report_observation_refuses_what_does_not_go_together_or_leads_out() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let full =
        json!({"taskId": "TASK-001", "observation": "o", "type": "issue", "severity": "low"});
    for (more, field) in [
        (json!({"task_id": "TASK-001"}), "task_id"),
        (json!({"createNewTask": true}), "newTaskDetails"),
        (json!({"attachedFiles": ["ok", "../x"]}), "attachedFiles[1]"),
        (json!({"severity": "huge"}), "severity"),
        (json!({"observation": "x".repeat(1001)}), "observation"),
        (json!({"type": null}), "type"),
    ] {
        let answer = worker.ask("reportObservation", &with(full.clone(), &more));
        assert_eq!(wrong_field(&answer), field, "{answer}");
    }
    let out = json!({"observation": "o", "file_path": "/etc/passwd"});
    assert_eq!(wrong_field(&worker.ask("reportObservation", &out)), "file_path");
    let unknown = with(full, &json!({"taskId": "TASK-999"}));
    let answer = worker.ask("reportObservation", &unknown);
    assert_eq!(answer["error"]["code"], 404, "{answer}");
    let next = worker.ask("reportObservation", &json!({"observation": "o"}));
    assert_eq!(next["result"]["observation_id"], "OBS-001", "nothing was kept of the refused");
}

#[test]
fn report_issue_is_escalated_by_its_severity() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    for (severity, immediate, escalated) in
        [(1, false, true), (2, false, false), (2, true, true), (3, true, false)]
    {
        let issue = json!({
            "issue_description": "it burns", "severity": severity, "task_id": "TASK-001",
            "file_path": "src/main.rs", "repro_steps": "look", "immediate": immediate,
        });
        let answer = worker.ask("reportIssue", &issue)["result"].clone();
        assert_eq!((&answer["logged"], &answer["escalated"]), (&json!(true), &json!(escalated)));
        assert_eq!(answer["alert_ticket"].is_string(), escalated);
    }
    let next = worker.ask("reportIssue", &json!({"issue_description": "i", "severity": 3}));
    assert_eq!(next["result"]["issue_id"], "ISSUE-005");
}

#[test]
fn report_issue_invalid_param_for_each_field() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let good = json!({"issue_description": "i", "severity": 1});
    for (more, field) in [
        (json!({"issue_description": "x".repeat(801)}), "issue_description"),
        (json!({"severity": 4}), "severity"),
        (json!({"severity": null}), "severity"),
        (json!({"file_path": "../../secret"}), "file_path"),
    ] {
        let answer = worker.ask("reportIssue", &with(good.clone(), &more));
        assert_eq!(wrong_field(&answer), field, "{answer}");
    }
}
