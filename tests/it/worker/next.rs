//! `getNextTask`: what it shows, in which order, and of what brief.

use serde_json::{Value, json};

use crate::harness::{Board, Client, Provost};

/// The task of the specification's example, as `create_task` takes it.
fn example() -> Value {
    json!({
        "title": "Implement color palette system",
        "description": "Create CSS variables and design tokens from design-system.json",
        "priority": "high",
        "brief": {
            "relatedTasks": ["TASK-002", "TASK-003"],
            "superDetailedPrompt": prompt(),
            "planReference": {
                "planId": "my-app",
                "version": "1.0.0",
                "affectedSections": ["Color & Theme", "Accessibility"],
            },
            "estimatedHours": 2.5,
        },
    })
}

fn prompt() -> Value {
    json!({
        "description": "Create CSS variables for the complete color palette",
        "context": "This is the foundation for theming - all components depend on this",
        "requirements": [
            "Define 12 primary colors with 3 variants each (light/medium/dark)",
            "Each color must support light AND dark theme auto-switching",
        ],
        "designReferences": {
            "fromPlan": "Docs/Plans/my-app/design-system.json colors section",
            "colorPalette": {"primary": {"light": "#E3F2FD", "medium": "#2196F3"}},
            "accessibilityNotes": "Avoid pure red/green",
        },
        "files": {
            "readFrom": ["Docs/Plans/my-app/design-system.json"],
            "writeTo": ["src/styles/colors.css", "src/styles/_variables.scss"],
            "referencedIn": ["src/App.vue", "tailwind.config.js"],
        },
        "acceptanceCriteria": ["All 12 colors defined with 3 variants each", "Dark mode works"],
        "estimatedHours": 2.5,
        "complexityLevel": "medium",
        "skillsRequired": ["CSS", "Color theory", "Accessibility (WCAG)"],
    })
}

/// What a worker is told that asks with these parameters.
fn next(worker: &mut Client, params: &Value) -> Value {
    let answer = worker.ask("getNextTask", params);
    assert!(answer.get("error").is_none(), "refused: {answer}");
    answer["result"].clone()
}

fn titles(worker: &mut Client, filter: &str) -> Vec<String> {
    let answer = next(worker, &json!({"filter": filter}));
    let rest = answer["nextTasksPreview"].as_array().unwrap().iter();
    let all: Vec<String> = std::iter::once(&answer["task"])
        .filter(|task| !task.is_null())
        .chain(rest)
        .map(|task| task["title"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(answer["queueLength"], all.len());
    all
}

fn worker(board: &Board<'_>) -> Client {
    board.provost.worker(&board.repo().path)
}

fn set(board: &Board<'_>, task: &str, status: &str) {
    board.provost.call("update_task", &json!({"task_id": task, "status": status}));
}

#[test]
fn get_next_task_answers_the_printed_request_in_the_printed_shape() {
    let provost = Provost::running();
    let board = provost.board();
    let mut worker = worker(&board);
    let request = json!({
        "filter": "ready",
        "priority": "high",
        "includeContext": true,
        "includeDetailedPrompt": true,
        "includeRelatedFiles": true,
    });
    let nothing = json!({"success": true, "task": null, "queueLength": 0, "nextTasksPreview": []});
    assert_eq!(next(&mut worker, &request), nothing, "as printed for an empty queue");
    assert_eq!(next(&mut worker, &json!({})), nothing);
    let task = board.task_with("", &example());
    board.task_with("Build page navigation component", &json!({"priority": "high"}));
    board.task_with("Create task list UI", &json!({"priority": "medium"}));
    let expected = json!({
        "success": true,
        "task": {
            "taskId": "TASK-001",
            "title": "Implement color palette system",
            "description": "Create CSS variables and design tokens from design-system.json",
            "priority": "high",
            "status": "ready",
            "dependencies": [],
            "blockedBy": [],
            "relatedTasks": ["TASK-002", "TASK-003"],
            "superDetailedPrompt": prompt(),
            "planReference": example()["brief"]["planReference"],
            "estimatedHours": 2.5,
            "uuid": task,
            "claimed": false,
        },
        "queueLength": 3,
        "nextTasksPreview": [
            {"id": "TASK-002", "title": "Build page navigation component", "priority": "high"},
            {"id": "TASK-003", "title": "Create task list UI", "priority": "medium"},
        ],
    });
    assert_eq!(next(&mut worker, &request), expected);
    worker.initialize();
    let called = worker.call("getNextTask", &request).output();
    assert_eq!(called, expected, "the tool says the same, and asking has changed nothing");
}

#[test]
fn get_next_task_leaves_out_what_is_not_asked_for() {
    let provost = Provost::running();
    let board = provost.board();
    board.task_with("", &example());
    let mut worker = worker(&board);
    let mut without = |field: &str| next(&mut worker, &json!({field: false}))["task"].clone();
    let task = without("includeContext");
    assert!(task["superDetailedPrompt"].get("context").is_none());
    assert!(task["superDetailedPrompt"].get("designReferences").is_none());
    assert!(task["superDetailedPrompt"].get("files").is_some());
    let task = without("includeRelatedFiles");
    assert!(task["superDetailedPrompt"].get("files").is_none());
    assert!(task["superDetailedPrompt"].get("context").is_some());
    let task = without("includeDetailedPrompt");
    assert_eq!(task["planReference"]["planId"], "my-app");
    assert!(task.get("superDetailedPrompt").is_none());
    assert_eq!(task["estimatedHours"], 2.5);
}

#[test]
fn a_task_that_names_no_plan_gets_the_newest() {
    let provost = Provost::running();
    let board = provost.board();
    board.task("a");
    let mut worker = worker(&board);
    let none = json!({"planId": "", "version": "", "affectedSections": []});
    let task = next(&mut worker, &json!({}))["task"].clone();
    assert_eq!((&task["planReference"], &task["estimatedHours"]), (&none, &json!(0)));
    let file = provost.path("plan.md");
    std::fs::write(&file, "# Plan\n\nThe cache is kept on disk.\n").unwrap();
    for version in ["1.0", "1.1"] {
        let file = file.to_str().unwrap();
        let added = provost.verb(["plan", "add", file, "--name", "plan", "--version", version]);
        assert_eq!(added.code, 0, "{added:?}");
    }
    let expected = json!({"planId": "plan", "version": "1.1", "affectedSections": []});
    assert_eq!(next(&mut worker, &json!({}))["task"]["planReference"], expected);
}

#[test]
fn get_next_task_error_400_for_an_invalid_filter_or_priority() {
    let provost = Provost::running();
    let mut worker = worker(&provost.board());
    for (params, field) in
        [(json!({"filter": "urgent"}), "filter"), (json!({"priority": "urgent"}), "priority")]
    {
        let answer = worker.ask("getNextTask", &params);
        assert_eq!(answer["error"]["code"], 400, "{answer}");
        let error = &answer["error"]["data"]["error"];
        assert_eq!(
            (&error["code"], &error["details"]["field"]),
            (&json!("INVALID_PARAM"), &json!(field))
        );
    }
}

#[test]
fn a_task_is_ready_when_all_that_it_depends_on_is_done() {
    let provost = Provost::running();
    let board = provost.board();
    let [a, b] = ["a", "b"].map(|title| board.task(title));
    let both = json!({"depends_on": ["task-001", b], "priority": "critical"});
    board.task_with("c", &both);
    let mut worker = worker(&board);
    assert_eq!(titles(&mut worker, "ready"), ["a", "b"]);
    assert_eq!(titles(&mut worker, "blocked"), ["c"]);
    assert_eq!(titles(&mut worker, "all"), ["c", "a", "b"]);
    let waiting = next(&mut worker, &json!({"filter": "blocked"}))["task"].clone();
    assert_eq!(waiting["status"], "blocked");
    assert_eq!(waiting["dependencies"], json!(["TASK-001", "TASK-002"]));
    assert_eq!(waiting["blockedBy"], json!(["TASK-001", "TASK-002"]));
    set(&board, &a, "done");
    set(&board, &b, "cancelled");
    assert_eq!(titles(&mut worker, "blocked"), ["c"], "what was cancelled never unblocks");
    set(&board, &b, "inreview");
    assert_eq!(titles(&mut worker, "blocked"), ["c"]);
    let waiting = next(&mut worker, &json!({"filter": "blocked"}))["task"].clone();
    assert_eq!(waiting["blockedBy"], json!(["TASK-002"]));
    set(&board, &b, "done");
    assert_eq!(titles(&mut worker, "ready"), ["c"]);
    worker.ask("createTicket", &json!({"title": "x", "type": "blocker", "task_id": "TASK-003"}));
    let stuck = next(&mut worker, &json!({"filter": "blocked"}))["task"].clone();
    assert_eq!(stuck["blockedBy"], json!(["TK-001"]));
}

#[test]
fn a_circle_of_dependencies_is_refused_with_its_path() {
    let provost = Provost::running();
    let board = provost.board();
    let a = board.task("a");
    let b = board.task_with("b", &json!({"depends_on": ["TASK-001"]}));
    let c = board.task_with("c", &json!({"depends_on": [b]}));
    let circle = json!({"task_id": a, "depends_on": ["TASK-003"]});
    let refusal = provost.refusal("update_task", &circle);
    assert_eq!(refusal["code"], "dependency_cycle");
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains("TASK-001 -> TASK-003 -> TASK-002 -> TASK-001"), "{message}");
    assert_eq!(refusal["details"]["cycle"], json!([a, c, b, a]));
    let unknown = json!({"task_id": a, "depends_on": ["TASK-099"]});
    let refusal = provost.refusal("update_task", &unknown);
    assert_eq!(
        (&refusal["code"], &refusal["details"]["path"]),
        (&json!("task_not_found"), &json!("depends_on[0]"))
    );
}

#[test]
fn the_agent_inside_an_attempt_gets_its_own_task_first() {
    let provost = Provost::running();
    let board = provost.board();
    board.task_with("urgent", &json!({"priority": "critical"}));
    let attempt = board.start("fake", "hang");
    attempt.in_phase("running");
    let mut inside = provost.inside(&attempt.id);
    for claim in [false, true] {
        let answer = next(&mut inside, &json!({"claim": claim}));
        assert_eq!(answer["task"]["title"], "do something");
        assert_eq!(
            (&answer["task"]["status"], &answer["task"]["claimed"]),
            (&json!("in-progress"), &json!(true))
        );
        assert_eq!(answer["nextTasksPreview"][0]["title"], "urgent");
    }
    let mut outside = worker(&board);
    assert_eq!(titles(&mut outside, "ready"), ["urgent"]);
    set(&board, attempt.status()["task_id"].as_str().unwrap(), "inreview");
    assert_eq!(next(&mut inside, &json!({}))["task"]["title"], "urgent");
}

#[test]
fn a_brief_is_given_back_replaced_removed_and_refused_with_its_path() {
    let provost = Provost::running();
    let board = provost.board();
    let flat = json!({"brief": {"acceptance_criteria": ["It works"], "estimatedHours": 3}});
    let task = board.task_with("a", &flat);
    let brief = |answer: &Value| answer["task"]["brief"].clone();
    let got = provost.call("get_task", &json!({"task_id": task}));
    assert_eq!(got["task"]["handle"], "TASK-001");
    assert_eq!(brief(&got)["superDetailedPrompt"]["acceptanceCriteria"], json!(["It works"]));
    let change = |brief: Value| json!({"task_id": task, "brief": brief});
    let replaced = provost.call("update_task", &change(json!({"context": "because"})));
    assert_eq!(brief(&replaced)["superDetailedPrompt"]["context"], "because");
    assert_eq!(brief(&replaced)["superDetailedPrompt"]["acceptanceCriteria"], json!([]));
    let misspelt = provost.refusal("update_task", &change(json!({"contxt": "x"})));
    assert_eq!(misspelt["code"], "unknown_field");
    assert_eq!(
        misspelt["hint"],
        "Call update_task again with brief.context instead of brief.contxt."
    );
    assert_eq!(brief(&provost.call("update_task", &change(json!({})))), Value::Null);
}

#[test]
fn an_attempts_own_prompt_holds_the_brief() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task_with(
        "say hello",
        &json!({"description": "say more", "brief": {
        "acceptanceCriteria": ["It says so"], "files": {"writeTo": ["a.txt"]}}}),
    );
    let attempt = board.start_at(&task, "fake", &json!({}));
    attempt.settled();
    let answer = provost.call("tail_session_messages", &json!({"attempt_id": attempt.id}));
    let expected = "say hello\n\nsay more\n\n## Files\nWrite: a.txt\n\n\
                    ## Acceptance criteria\n- 0: It says so";
    assert_eq!(answer["messages"][0]["text"], expected);
}
