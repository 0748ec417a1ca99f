//! The daemon is killed between every two steps of a change, and the client asks
//! again with the same `request_id`: one effect, one answer.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Answer, Attempt, Board, PLAIN, Provost};

/// An executor that leaves a line for each time it runs.
const COUNTED: &str = r#"echo "$PROVOST_ATTEMPT_ID" >> "$PROVOST_HOME/ran"; echo done"#;

/// The same, and stays until it is stopped.
const STAYING: &str =
    r#"echo "$PROVOST_ATTEMPT_ID" >> "$PROVOST_HOME/ran"; echo on; exec sleep 1000"#;

/// Does what its prompt says, and leaves a line for it.
const FROM_PROMPT: &str =
    r#"echo "$PROVOST_ATTEMPT_ID $PROVOST_PROMPT" >> "$PROVOST_HOME/told"; eval "$PROVOST_PROMPT""#;

/// The steps of a turn once its worktrees are there, in their order.
const TURN: &[&str] = &[
    "log.begun",
    "manifest.written",
    "shim.spawned",
    "shim.started",
    "running.written",
    "running.committed",
    "settled.written",
    "settled.committed",
    "closed.written",
    "closed.committed",
];

/// The steps of a start before them.
const START: &[&str] = &[
    "start.written",
    "start.committed",
    "start_task_attempt.answering",
    "worktree.next",
    "worktree.made",
    "worktrees.marked",
];

/// The steps of a stop.
const STOP: &[&str] = &[
    "intent.written",
    "intent.committed",
    "held.written",
    "held.committed",
    "stopping.written",
    "stopping.committed",
    "interrupt.sent",
    "settled.written",
    "settled.committed",
    "answer.next",
    "answer.kept",
    "stop_attempt.answering",
];

/// The steps of a stop that takes an attempt out of the queue.
const QUEUED_STOP: &[&str] = &[
    "intent.written",
    "intent.committed",
    "unqueued.written",
    "unqueued.committed",
    "answer.next",
    "answer.kept",
    "stop_attempt.answering",
];

/// Makes a call whose daemon dies at a failpoint, and makes it twice again with
/// another one. All that was answered was the same.
fn cut_off(provost: &Provost, failpoint: &str, tool: &str, arguments: &Value) -> Answer {
    provost.kill();
    provost.start_to_die_at(failpoint);
    let mut client = provost.connect();
    let id = client.begin(tool, arguments);
    assert_eq!(provost.ended(), None, "{failpoint}: killed by a signal");
    let before = client.outcome(id);
    provost.start();
    let after = provost.answer(tool, arguments);
    assert!(!after.is_error, "{failpoint}: {}", after.text);
    let again = provost.answer(tool, arguments);
    assert!(again.is_deduplicated, "{failpoint}");
    for answer in before.iter().chain([&again]) {
        assert_eq!(answer.text, after.text, "{failpoint}");
    }
    after
}

/// How often the executor ran for an attempt.
fn runs(provost: &Provost, attempt: &Attempt) -> usize {
    let ran = fs::read_to_string(provost.home().join("ran")).unwrap_or_default();
    ran.lines().filter(|line| *line == attempt.id).count()
}

fn one_attempt(board: &Board, task: &str) {
    let listed = board.provost.call("list_task_attempts", &json!({"task_id": task}));
    assert_eq!(listed["attempts"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn a_start_cut_off_between_any_two_steps_makes_one_attempt_that_runs_once() {
    let provost = Provost::new().executor("counted", PLAIN, COUNTED).started();
    let board = provost.board();
    for (n, failpoint) in START.iter().chain(TURN).enumerate() {
        let task = board.task(failpoint);
        let start = json!({"task_id": task, "executor": "counted", "request_id": failpoint});
        let answer = cut_off(&provost, failpoint, "start_task_attempt", &start);
        let attempt = Attempt::new(&provost, answer.output());
        assert_eq!(attempt.settled()["state"], "completed", "{failpoint}");
        assert_eq!(runs(&provost, &attempt), 1, "{failpoint}");
        assert_eq!(attempt.lines("stdout"), ["done"], "{failpoint}");
        one_attempt(&board, &task);
        assert_eq!(board.repo().attempt_branches().len(), n + 1, "{failpoint}");
        assert_eq!(board.repo().worktrees().len(), n + 2, "{failpoint}");
        attempt.leaves_no_process();
    }
}

/// The steps of a follow-up to an idle session before those of its turn.
const SEND: &[&str] = &["follow_up.written", "follow_up.committed", "follow_up.answering"];

#[test]
fn a_follow_up_cut_off_between_any_two_steps_runs_once() {
    let provost = Provost::new().executor("counted", PLAIN, COUNTED).started();
    let board = provost.board();
    let attempt = board.start("counted", "x");
    attempt.settled();
    for (n, failpoint) in SEND.iter().chain(TURN).enumerate() {
        let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": failpoint,
            "request_id": failpoint});
        cut_off(&provost, failpoint, "follow_up", &send);
        attempt.until("its turn has ended", |status| {
            status["phase"] == "settled" && runs(&provost, &attempt) == n + 2
        });
        assert_eq!(attempt.said("user_message").len(), n + 2, "{failpoint}");
        assert_eq!(attempt.said("assistant_message"), vec!["done"; n + 2], "{failpoint}");
        attempt.leaves_no_process();
    }
}

/// The steps from the end of one turn to the running of the next.
const DELIVERY: &[&str] = &[
    "settled.written",
    "settled.committed",
    "log.begun",
    "manifest.written",
    "shim.spawned",
    "shim.started",
    "running.written",
    "running.committed",
];

#[test]
fn a_queue_whose_delivery_is_cut_off_anywhere_delivers_each_prompt_once_and_in_order() {
    let provost = Provost::new().executor("told", PLAIN, FROM_PROMPT).started();
    let board = provost.board();
    for failpoint in DELIVERY {
        let gate = provost.path(failpoint);
        let attempt =
            board.start("told", &format!("until [ -e {} ]; do sleep 0.02; done", gate.display()));
        attempt.in_phase("running");
        for n in 0..3 {
            let queue =
                json!({"attempt_id": attempt.id, "action": "queue", "prompt": format!("echo {n}")});
            provost.call("follow_up", &queue);
        }
        provost.kill();
        provost.start_to_die_at(failpoint);
        fs::write(&gate, "").unwrap();
        assert_eq!(provost.ended(), None, "{failpoint}: killed by a signal");
        provost.start();
        attempt.until("all have run", |status| {
            status["phase"] == "settled" && status["queued_follow_ups"] == 0
        });
        let ran: Vec<String> = fs::read_to_string(provost.home().join("told"))
            .unwrap()
            .lines()
            .filter_map(|line| {
                line.strip_prefix(&format!("{} echo ", attempt.id)).map(str::to_owned)
            })
            .collect();
        assert_eq!(ran, ["0", "1", "2"], "{failpoint}");
        assert_eq!(attempt.said("assistant_message"), ["0", "1", "2"], "{failpoint}");
        assert_eq!(attempt.status()["state"], "completed", "{failpoint}");
    }
}

#[test]
fn a_stop_cut_off_between_any_two_steps_is_carried_through() {
    let provost = Provost::new().executor("staying", PLAIN, STAYING).started();
    let board = provost.board();
    for failpoint in STOP {
        let attempt = board.start("staying", "x");
        attempt.has_said("on");
        let stop = json!({"attempt_id": attempt.id, "request_id": failpoint});
        let answer = cut_off(&provost, failpoint, "stop_attempt", &stop).output();
        assert_eq!((&answer["phase"], &answer["survivors"]), (&json!("settled"), &json!(0)));
        assert_eq!(answer["stopped"], true, "{failpoint}");
        assert_eq!(attempt.settled()["state"], "failed", "{failpoint}");
        assert_eq!(runs(&provost, &attempt), 1, "{failpoint}");
        attempt.leaves_no_process();
    }
}

#[test]
fn a_stop_of_a_queued_attempt_cut_off_anywhere_takes_it_out_of_the_queue() {
    let provost = Provost::new()
        .config("[daemon]\nmax_running_attempts = 1")
        .executor("staying", PLAIN, STAYING)
        .started();
    let board = provost.board();
    board.start("staying", "x").has_said("on");
    for failpoint in QUEUED_STOP {
        let queued = board.start("staying", "x");
        assert_eq!(queued.started["phase"], "queued");
        let stop = json!({"attempt_id": queued.id, "request_id": failpoint});
        let answer = cut_off(&provost, failpoint, "stop_attempt", &stop).output();
        assert_eq!(answer["stopped"], true, "{failpoint}");
        assert_eq!((&answer["phase"], &answer["state"]), (&json!("idle"), &json!("idle")));
        assert_eq!(queued.status()["phase"], "idle", "{failpoint}");
        assert_eq!(runs(&provost, &queued), 0, "{failpoint}");
    }
    assert_eq!(board.repo().attempt_branches().len(), 1);
}

#[test]
fn a_turn_that_begins_after_a_stop_cut_off_is_not_its_victim() {
    let provost = Provost::new().executor("staying", PLAIN, STAYING).started();
    let attempt = provost.board().start("staying", "x");
    attempt.has_said("on");
    provost.kill();
    provost.start_to_die_at("settled.committed");
    let stop = json!({"attempt_id": attempt.id, "request_id": "stop"});
    let mut client = provost.connect();
    client.begin("stop_attempt", &stop);
    assert_eq!(provost.ended(), None);
    provost.start();
    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": "y"});
    let process = provost.call("follow_up", &send)["execution_process_id"].clone();
    attempt.until("it runs again", |_| runs(&provost, &attempt) == 2);
    assert_eq!(provost.call("stop_attempt", &stop)["stopped"], true);
    let status = attempt.in_phase("running");
    assert_eq!(status["latest_execution_process_id"], process);
    attempt.stop();
}

#[test]
fn a_stop_that_is_never_asked_about_again_is_carried_through_all_the_same() {
    let provost = Provost::new().executor("staying", PLAIN, STAYING).started();
    let board = provost.board();
    let attempt = board.start("staying", "x");
    attempt.has_said("on");
    provost.kill();
    provost.start_to_die_at("intent.committed");
    let stop = json!({"attempt_id": attempt.id, "request_id": "r"});
    provost.connect().begin("stop_attempt", &stop);
    provost.ended();
    provost.start();
    attempt.settled();
    let answer = provost.answer("stop_attempt", &stop);
    assert!(answer.is_deduplicated, "its answer was kept: {}", answer.text);
    assert_eq!(answer.value["stopped"], true);
}

#[test]
fn a_change_of_the_board_cut_off_at_its_commit_is_made_once() {
    let provost = Provost::running();
    let board = provost.board();
    let (project, kept) = (&board.project_id, board.task("kept"));
    let moments = ["written", "committed", "answering"];
    for moment in moments {
        let (doomed, repo) = (board.task("doomed"), provost.repo(moment));
        let calls = [
            ("create_project", json!({"name": moment, "repos": [{"path": repo.path}]})),
            ("add_repo", json!({"project_id": project, "path": repo.path})),
            ("create_task", json!({"project_id": project, "title": moment})),
            ("update_task", json!({"task_id": kept, "title": moment})),
            ("delete_task", json!({"task_id": doomed})),
        ];
        for (tool, mut arguments) in calls {
            arguments["request_id"] = json!(moment);
            cut_off(&provost, &format!("{tool}.{moment}"), tool, &arguments);
        }
    }
    let count = |tool: &str, list: &str, arguments: &Value| {
        provost.call(tool, arguments)[list].as_array().unwrap().len()
    };
    let of_project = json!({"project_id": project});
    assert_eq!(count("list_projects", "projects", &json!({})), 1 + moments.len());
    assert_eq!(count("list_repos", "repos", &of_project), 1 + moments.len());
    assert_eq!(count("list_tasks", "tasks", &of_project), 1 + moments.len());
}

/// The reports of workers, each with all that it brings about: tasks, observations,
/// failures, tickets.
#[test]
fn a_report_cut_off_at_its_commit_has_its_effects_once() {
    let provost = Provost::running();
    let board = provost.board();
    for (n, moment) in ["written", "committed", "answering"].into_iter().enumerate() {
        let [done, completed, stated] =
            ["done", "completed", "stated"].map(|said| board.task(said));
        let verification = format!("TASK-VERIFY-{:03}", 3 * n + 1);
        let calls = [
            (
                "reportTaskDone",
                json!({"taskId": done, "status": "done", "observations": ["seen"],
                "followUpTasks": [{"title": "follow-up", "why": "so"}]}),
            ),
            (
                "reportTestFailure",
                json!({"taskId": done, "testName": moment, "testFile": "t.rs",
                "failureDetails": {"error": "no"}, "previousStatus": "flaky",
                "needsInvestigation": true, "actionNeeded": "look"}),
            ),
            (
                "reportVerificationResult",
                json!({"verificationTaskId": verification,
                "originalTaskId": done, "verificationStatus": "failed",
                "originalTaskStatus": "needs_rework", "suggestedActions": ["mend"],
                "verification": {"checklist": [], "summary": "no"}}),
            ),
            ("reportTaskCompleted", json!({"task_id": completed, "status": "success"})),
            ("reportTaskStatus", json!({"task_id": stated, "status": "done"})),
        ];
        let answers = calls.map(|(tool, mut arguments)| {
            arguments["request_id"] = json!(moment);
            cut_off(&provost, &format!("{tool}.{moment}"), tool, &arguments).output()
        });
        let [reported, failed, verified, ..] = answers;
        assert_eq!(reported["verificationTaskCreated"]["taskId"], verification);
        assert_eq!(
            reported["observationsProcessed"][0]["observationId"],
            format!("OBS-{:03}", n + 1)
        );
        assert_eq!(failed["testFailureId"], format!("FAIL-{:03}", n + 1));
        assert_eq!(verified["originalTaskMarked"], "rework");
    }
    let of_project = json!({"project_id": board.project_id, "limit": 200});
    let listed = provost.call("list_tasks", &of_project);
    let titled = |title: &str| {
        let tasks = listed["tasks"].as_array().unwrap().iter();
        tasks.filter(|task| task["title"].as_str().unwrap().starts_with(title)).count()
    };
    for title in ["follow-up", "mend", "Investigate: ", "Verify: done", "Verify: stated"] {
        assert_eq!(titled(title), 3, "{title}");
    }
}
