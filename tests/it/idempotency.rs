//! `request_id`: the same call never acts twice.

use serde_json::{Value, json};

use crate::harness::{Answer, Board, Provost, wait_until};

#[test]
fn the_same_call_from_twenty_connections_at_once_makes_one_task() {
    let provost = Provost::running();
    let board = provost.board();
    let create = json!({"project_id": board.project_id, "title": "once", "request_id": "r"});
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let call = || provost.connect().call("create_task", &create);
        let calls: Vec<_> = (0..20).map(|_| scope.spawn(call)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let first = &answers[0];
    assert!(answers.iter().all(|answer| !answer.is_error && answer.text == first.text));
    assert_eq!(answers.iter().filter(|answer| !answer.is_deduplicated).count(), 1);
    let listed = provost.call("list_tasks", &json!({"project_id": board.project_id}));
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn the_same_start_from_twenty_connections_at_once_makes_one_attempt() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("x");
    let start = json!({"task_id": task, "executor": "fake", "prompt": "say hi", "request_id": "r"});
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let call = || provost.connect().call("start_task_attempt", &start);
        let calls: Vec<_> = (0..20).map(|_| scope.spawn(call)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| !answer.is_error && answer.text == answers[0].text));
    assert_eq!(answers.iter().filter(|answer| !answer.is_deduplicated).count(), 1);
    let listed = provost.call("list_task_attempts", &json!({"task_id": task}));
    assert_eq!(listed["attempts"].as_array().unwrap().len(), 1);
}

#[test]
fn every_changing_tool_gives_the_same_bytes_again_also_after_a_kill() {
    let provost = Provost::running();
    let board = provost.board();
    let (repo, more) = (provost.repo("other"), provost.repo("more"));
    let (task, doomed) = (board.task("x"), board.task("doomed"));
    let attempt = board.start("fake", "hang");
    let calls = [
        ("create_project", json!({"name": "p", "repos": [{"path": repo.path}]})),
        ("add_repo", json!({"project_id": board.project_id, "path": more.path})),
        ("create_task", json!({"project_id": board.project_id, "title": "t"})),
        ("update_task", json!({"task_id": task, "title": "new"})),
        ("delete_task", json!({"task_id": doomed})),
        ("start_task_attempt", json!({"task_id": task, "executor": "fake", "prompt": "say x"})),
        ("stop_attempt", json!({"attempt_id": attempt.id})),
        ("finish_attempt", json!({"attempt_id": attempt.id, "action": "commit"})),
    ];
    let with_id = |arguments: &Value| {
        let mut arguments = arguments.clone();
        arguments["request_id"] = json!("the same for all");
        arguments
    };
    let first: Vec<Answer> =
        calls.iter().map(|(tool, arguments)| provost.answer(tool, &with_id(arguments))).collect();
    for kill in [false, true] {
        if kill {
            provost.kill_and_start();
        }
        for ((tool, arguments), first) in calls.iter().zip(&first) {
            let again = provost.answer(tool, &with_id(arguments));
            assert_eq!(again.text, first.text, "{tool}");
            assert!(again.is_deduplicated && !first.is_deduplicated, "{tool}");
        }
    }
}

#[test]
fn what_means_the_same_is_the_same_payload() {
    let provost = Provost::running();
    let board = provost.board();
    let project = &board.project_id;
    let first = provost
        .answer("create_task", &json!({"project_id": project, "title": "t", "request_id": "r"}));
    let same = json!({"request_id": "r", "depends_on": [], "priority": "medium", "title": "t",
        "description": null, "project_id": project.to_uppercase()});
    let again = provost.answer("create_task", &same);
    assert_eq!(again.text, first.text);
    assert!(again.is_deduplicated);
}

#[test]
fn a_start_spelled_out_is_the_same_as_one_left_to_defaults() {
    let provost = Provost::running();
    let board = Board::new(&provost, vec![provost.repo("app"), provost.repo("lib")]);
    let task = board.task_with("title", &json!({"description": "say hi"}));
    let bare = json!({"task_id": task, "executor": "fake", "request_id": "r"});
    let first = provost.answer("start_task_attempt", &bare);
    assert!(!first.is_error && !first.is_deduplicated, "{}", first.text);
    let with = |more: Value| {
        let mut arguments = bare.clone();
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        provost.answer("start_task_attempt", &arguments)
    };
    let [app, lib] = [&board.repo_ids[0], &board.repo_ids[1]];
    let same = [
        json!({"prompt": "title\n\nsay hi"}),
        json!({"ignore_dependencies": false, "variant": null}),
        json!({"task_id": task.to_uppercase()}),
        json!({"repos": [{"repo_id": app}, {"repo_id": lib}]}),
        json!({"repos": [{"repo_id": lib, "target_branch": "main"}, {"repo_id": app.to_uppercase()}]}),
    ];
    for more in same {
        let again = with(more);
        assert_eq!(again.text, first.text);
        assert!(again.is_deduplicated);
    }
    let others = [
        json!({"prompt": "title"}),
        json!({"ignore_dependencies": true}),
        json!({"repos": [{"repo_id": app}]}),
        json!({"executor": "nobody"}),
        json!({"task_id": board.task("title")}),
    ];
    for more in others {
        assert_eq!(with(more).refusal()["code"], "idempotency_conflict");
    }
    // What the defaults came to at the first call need not be there any more.
    let repo = board.repo();
    repo.git(&["checkout", "--quiet", "-b", "other"]);
    repo.git(&["branch", "--quiet", "-D", "main"]);
    assert_eq!(with(json!({})).text, first.text);
}

#[test]
fn a_project_is_the_same_whether_its_branches_are_spelled_out_or_not() {
    let provost = Provost::running();
    let repo = provost.repo("app");
    let create = |repo: Value| {
        provost.answer("create_project", &json!({"name": "p", "repos": [repo], "request_id": "r"}))
    };
    let first = create(json!({"path": repo.path}));
    let again = create(json!({"path": repo.path.join("."), "target_branch": "main"}));
    assert_eq!(again.text, first.text);
    assert!(again.is_deduplicated);
}

#[test]
fn answers_are_forgotten_after_their_time_to_live_and_never_without_one() {
    for (seconds, is_forgotten) in [("1", true), ("0", false)] {
        let provost =
            Provost::new().variable("VK_IDEMPOTENCY_COMPLETED_TTL_SECS", seconds).started();
        let board = provost.board();
        let create = json!({"project_id": board.project_id, "title": "t", "request_id": "r"});
        provost.call("create_task", &create);
        // Old answers are looked for when the daemon starts.
        let again = || {
            provost.kill_and_start();
            provost.answer("create_task", &create)
        };
        if is_forgotten {
            wait_until("the answer is forgotten", || !again().is_deduplicated);
        } else {
            assert!(again().is_deduplicated);
        }
    }
}

#[test]
fn another_payload_is_a_conflict_and_another_tool_is_not() {
    let provost = Provost::running();
    let board = provost.board();
    let create =
        |title: &str| json!({"project_id": board.project_id, "title": title, "request_id": "r"});
    let task = provost.call("create_task", &create("one"))["task_id"].clone();
    let refusal = provost.refusal("create_task", &create("two"));
    assert_eq!(refusal["code"], "idempotency_conflict");
    assert!(refusal["hint"].as_str().unwrap().contains("request_id"));
    provost.call("update_task", &json!({"task_id": task, "title": "two", "request_id": "r"}));
}

#[test]
fn a_refused_call_does_not_use_up_its_id() {
    let provost = Provost::running();
    let board = provost.board();
    let start = |executor: &str| {
        json!({"task_id": board.task("x"), "executor": executor, "prompt": "say hi",
            "request_id": "r"})
    };
    assert_eq!(
        provost.refusal("start_task_attempt", &start("nobody"))["code"],
        "executor_not_found"
    );
    provost.call("start_task_attempt", &start("fake"));
}
