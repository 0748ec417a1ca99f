//! Done is checked, not believed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::desk::{self, ask, refused};
use crate::harness::{Attempt, Board, Done, Provost, eventually, processes, wait_until};

/// A home whose project `scratch` has one check, a script that leaves a line for each
/// time it begins.
fn home(script: &str) -> Provost {
    let provost = Provost::new();
    let counted = format!("echo x >> {}\n{script}", provost.path("ran").display());
    let check = provost.script("check.sh", &counted);
    provost.config(&format!("[projects.scratch.checks]\ntest = '{}'", check.display()))
}

fn runs(provost: &Provost) -> usize {
    fs::read_to_string(provost.path("ran")).unwrap_or_default().lines().count()
}

/// A script's line that waits for a file in the scratch folder.
const WAIT: &str = r#"until [ -e "$(dirname "$0")/gate" ]; do sleep 0.02; done"#;

fn open_gate(provost: &Provost) {
    fs::write(provost.path("gate"), "").unwrap();
}

fn task(provost: &Provost, task: &str) -> Value {
    provost.call("get_task", &json!({"task_id": task}))["task"].clone()
}

/// The task once its checks have been run.
fn checked(provost: &Provost, id: &str) -> Value {
    eventually("its checks have been run", || {
        let task = task(provost, id);
        (task["standing"] != "reported").then_some(task)
    })
}

/// Reports a task as done from outside of any attempt.
fn report(board: &Board, task: &str) -> Value {
    desk::done(&mut desk::worker(board), task)
}

/// Reports from within an attempt, whose worktree this is, that its tests passed.
fn claim(provost: &Provost, worktree: &Path, task: &str) -> Value {
    let claimed = json!({"testsAdded": true, "testsPassed": true, "testsFailed": 0});
    let params = json!({"taskId": task, "status": "done", "testing": claimed});
    ask(&mut provost.worker(worktree), "reportTaskDone", &params)
}

/// An attempt that has done what its prompt says, its task, and its worktree.
fn attempt<'p>(board: &Board<'p>, prompt: &str) -> (Attempt<'p>, String, PathBuf) {
    let task = board.task("do something");
    let prompt = format!("{prompt}\nrun pwd");
    let attempt = board.start_at(&task, "fake", &json!({"prompt": prompt}));
    attempt.saved(1);
    let worktree = attempt.said("tool_result").last().unwrap().trim().into();
    (attempt, task, worktree)
}

/// What is closed leaves nothing but records: no checkout, no process.
fn leaves_nothing(provost: &Provost) {
    let checks = provost.home().join("checks");
    wait_until("nothing is left of a checkout", || {
        let runs = fs::read_dir(&checks).unwrap().map(|run| run.unwrap().path());
        runs.into_iter().all(|run| !run.join("work").exists() && !run.join("objects").exists())
    });
    assert_eq!(processes::working_below(&checks), Vec::<i32>::new());
}

#[test]
fn what_passes_is_verified_and_only_then_unblocks_what_waited() {
    let provost = home(WAIT).started();
    let board = provost.board();
    let first = board.task("first");
    let second = board.task_with("second", &json!({"depends_on": [first]}));
    let answer = report(&board, "TASK-001");
    assert!(answer["message"].as_str().unwrap().contains("its checks run"), "{answer}");
    wait_until("it is run", || runs(&provost) == 1);
    let reported = task(&provost, &first);
    assert_eq!(
        (&reported["status"], &reported["standing"]),
        (&json!("inreview"), &json!("reported"))
    );
    let start = json!({"task_id": second, "executor": "fake", "prompt": "say on"});
    assert!(provost.answer("start_task_attempt", &start).is_error);
    let (_, why) = refused(
        &mut desk::worker(&board),
        "reportTaskDone",
        &json!({"taskId": "TASK-001", "status": "done"}),
    );
    assert!(why["message"].as_str().unwrap().contains("its checks run"), "{why}");
    open_gate(&provost);
    let verified = checked(&provost, &first);
    assert_eq!((&verified["status"], &verified["standing"]), (&json!("done"), &json!("verified")));
    let receipt = &verified["receipts"][0];
    assert_eq!(receipt["name"], "test");
    assert_eq!((&receipt["outcome"], &receipt["exit_code"]), (&json!("passed"), &json!(0)));
    assert_eq!(receipt["commit"], board.repo().git(&["rev-parse", "HEAD"]));
    assert_eq!(receipt["includes_uncommitted"], false);
    assert_eq!(verified["contradiction"], Value::Null);
    provost.call("start_task_attempt", &start);
    leaves_nothing(&provost);
}

#[test]
fn a_claimed_task_whose_report_did_not_hold_is_given_to_its_worker_again() {
    let provost = home("exit 1").started();
    let board = provost.board();
    board.task("claimed");
    let mut worker = desk::worker(&board);
    let next = json!({"claim": true});
    assert_eq!(ask(&mut worker, "getNextTask", &next)["task"]["taskId"], "TASK-001");
    let id =
        provost.call("list_tasks", &json!({"project_id": board.project_id}))["tasks"][0]["task_id"]
            .clone();
    desk::done(&mut worker, "TASK-001");
    assert_eq!(checked(&provost, id.as_str().unwrap())["standing"], "rework");
    let again = ask(&mut worker, "getNextTask", &next)["task"].clone();
    assert_eq!((&again["taskId"], &again["claimed"]), (&json!("TASK-001"), &json!(true)));
}

#[test]
fn a_lie_is_reported_with_its_receipt_and_the_worker_is_to_fix_it() {
    let provost = home("cat answer; grep -q 42 answer || { seq 100; exit 7; }").started();
    let board = provost.board();
    let (attempt, task, worktree) = attempt(&board, "write answer 41");
    claim(&provost, &worktree, "TASK-001");
    let rework = checked(&provost, &task);
    assert_eq!((&rework["status"], &rework["standing"]), (&json!("todo"), &json!("rework")));
    let sentence = "The report says that all tests passed; check `test` exited with 7.";
    assert_eq!(rework["contradiction"], sentence);
    let receipt = &rework["receipts"][0];
    assert_eq!((&receipt["outcome"], &receipt["exit_code"]), (&json!("failed"), &json!(7)));
    attempt.until("it was told", |_| attempt.said("user_message").len() == 2);
    let prompt = attempt.said("user_message").pop().unwrap();
    assert!(prompt.contains(sentence) && prompt.contains("\n100\n"), "{prompt}");
    assert!(prompt.contains("\n61\n") && !prompt.contains("\n60\n"), "{prompt}");
    attempt.settled();

    fs::write(worktree.join("answer"), "42\n").unwrap();
    claim(&provost, &worktree, "TASK-001");
    let verified = checked(&provost, &task);
    assert_eq!((&verified["status"], &verified["standing"]), (&json!("done"), &json!("verified")));
    assert_eq!(verified["contradiction"], Value::Null);
    leaves_nothing(&provost);
    assert_eq!(attempt.said("user_message").len(), 2, "a check that passes sends no message");
}

#[test]
fn what_is_checked_is_the_work_as_it_lies_there_and_nothing_of_the_users_is_changed() {
    let provost = home("ls -A; git status --porcelain; cat new staged").started();
    let board = provost.board();
    board.repo().commit(".gitignore", "ignored\n");
    let (_, task, worktree) =
        attempt(&board, "write new one\nwrite staged two\nwrite ignored x\nrun git add staged");
    let repo = board.repo();
    let looks = || {
        let objects = repo.git(&["count-objects", "-v"]);
        let admin =
            repo.git(&["-C", worktree.to_str().unwrap(), "rev-parse", "--absolute-git-dir"]);
        let index = fs::read(Path::new(&admin).join("index")).unwrap();
        let refs = repo.git(&["for-each-ref"]);
        (objects, index, refs, repo.worktrees(), repo.git(&["status", "--porcelain"]))
    };
    let before = looks();
    claim(&provost, &worktree, "TASK-001");
    let receipt = checked(&provost, &task)["receipts"][0].clone();
    assert_eq!(receipt["outcome"], "passed", "{receipt}");
    assert_eq!(receipt["includes_uncommitted"], true);
    assert_eq!(looks(), before);
    let done = provost.verb(["checks", "TASK-001", "--log", "test"]);
    assert_eq!(done.stdout, ".git\n.gitignore\nREADME.md\nnew\nstaged\none\ntwo\n", "{done:?}");
    leaves_nothing(&provost);
}

#[test]
fn a_check_that_takes_too_long_is_ended_with_all_that_it_started() {
    let script = "setsid sleep 1000 & trap '' TERM\nsleep 1000";
    let provost =
        home(script).config("[checks]\nwall_secs = 1\n[daemon]\nstop_grace_ms = 100").started();
    let board = provost.board();
    let id = board.task("slow");
    report(&board, "TASK-001");
    let task = checked(&provost, &id);
    assert_eq!(
        (&task["standing"], &task["receipts"][0]["outcome"]),
        (&json!("rework"), &json!("timed_out"))
    );
    assert!(task["receipts"][0]["reason"].as_str().unwrap().contains("wall_secs"), "{task}");
    leaves_nothing(&provost);
}

#[test]
fn what_a_check_leaves_behind_is_ended() {
    let provost = home("setsid sh -c 'sleep 1000 & sleep 1000' & exit 0").started();
    let board = provost.board();
    let id = board.task("forks");
    report(&board, "TASK-001");
    assert_eq!(checked(&provost, &id)["standing"], "verified");
    leaves_nothing(&provost);
}

#[test]
fn a_check_has_an_environment_of_its_own() {
    let words = "[projects.scratch.checks]\ntest = ['sh', '-c', 'env; cat; exit 3']\nlast = 'true'";
    let provost = Provost::new().config(words).variable("MY_TOKEN", "do-not-tell").started();
    let board = provost.board();
    let id = board.task("environment");
    report(&board, "TASK-001");
    let task = checked(&provost, &id);
    let outcomes: Vec<&Value> =
        task["receipts"].as_array().unwrap().iter().map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, ["passed", "failed"], "all are run, in the order of their names");
    let log = provost.verb(["checks", "task-001", "--log", "test"]).stdout;
    assert!(log.contains("CI=1\n") && log.contains("HOME="), "{log}");
    for absent in ["PROVOST_HOME", "PROVOST_TASK_ID", "do-not-tell"] {
        assert!(!log.contains(absent), "{log}");
    }
    let shown = provost.verb(["checks", &id]).stdout;
    assert!(shown.contains("sh -c 'env; cat; exit 3'") && shown.contains("rework"), "{shown}");
    let json = provost.verb(["--json", "checks", &id]).json();
    assert_eq!(json["receipts"][1]["exit_code"], 3);
    let missing = provost.verb(["checks", "TASK-001", "--log", "none"]);
    assert_ne!(missing.code, 0);
}

#[test]
fn the_repositories_of_a_project_lie_side_by_side() {
    let script = "cat one/README.md two/README.md one/mine";
    let provost = home(script).started();
    let board = Board::new(&provost, vec![provost.repo("one"), provost.repo("two")]);
    let task = board.task("both");
    let attempt = board.start_at(&task, "fake", &json!({"prompt": "write one/mine x\nrun pwd"}));
    attempt.settled();
    let folder: PathBuf = attempt.said("tool_result").last().unwrap().trim().into();
    claim(&provost, &folder, "TASK-001");
    let receipt = checked(&provost, &task)["receipts"][0].clone();
    assert_eq!(receipt["outcome"], "passed", "{receipt}");
    let commit = receipt["commit"].as_str().unwrap();
    assert!(commit.starts_with("one@") && commit.contains(" two@"), "{commit}");
}

#[test]
fn a_task_that_somebody_has_changed_meanwhile_is_left_as_it_is() {
    let provost = home(&format!("{WAIT}\nexit 1")).started();
    let board = provost.board();
    let (attempt, task, worktree) = attempt(&board, "write new x");
    claim(&provost, &worktree, "TASK-001");
    wait_until("it is run", || runs(&provost) == 1);
    provost.call("update_task", &json!({"task_id": task, "status": "cancelled"}));
    open_gate(&provost);
    let found = eventually("there is a receipt", || {
        let found = self::task(&provost, &task);
        (!found["receipts"].as_array().unwrap().is_empty()).then_some(found)
    });
    leaves_nothing(&provost);
    assert_eq!((&found["status"], &found["standing"]), (&json!("cancelled"), &Value::Null));
    assert_eq!(attempt.said("user_message").len(), 1, "it is not told to go on");
}

#[test]
fn a_worker_that_was_stopped_is_not_asked_to_go_on() {
    let provost = home(&format!("{WAIT}\nexit 1")).started();
    let board = provost.board();
    let task = board.task("stopped");
    let attempt = board.start_at(&task, "fake", &json!({"prompt": "run pwd\nhang"}));
    let worktree = eventually("it tells where it is", || attempt.said("tool_result").pop());
    claim(&provost, Path::new(worktree.trim()), "TASK-001");
    wait_until("it is run", || runs(&provost) == 1);
    attempt.stop();
    open_gate(&provost);
    assert_eq!(checked(&provost, &task)["standing"], "rework");
    leaves_nothing(&provost);
    let status = attempt.status();
    assert_eq!((&status["phase"], &status["queued_follow_ups"]), (&json!("settled"), &json!(0)));
    assert_eq!(attempt.said("user_message").len(), 1);
}

#[test]
fn a_report_from_outside_is_of_the_latest_worktree_and_sets_no_agent_to_work() {
    let provost = home("cat new; exit 1").started();
    let board = provost.board();
    let (attempt, task, _) = attempt(&board, "write new x");
    report(&board, "TASK-001");
    let task = checked(&provost, &task);
    assert_eq!(task["standing"], "rework");
    assert_eq!(task["receipts"][0]["includes_uncommitted"], true);
    assert_eq!(provost.verb(["checks", "TASK-001", "--log", "test"]).stdout, "x\n");
    leaves_nothing(&provost);
    assert_eq!(attempt.said("user_message").len(), 1);
    assert_eq!(attempt.status()["phase"], "settled");
}

#[test]
fn further_runs_wait() {
    let provost = home(WAIT).started();
    let board = provost.board();
    let ids = ["one", "two", "three"].map(|title| board.task(title));
    for number in 1..=3 {
        report(&board, &format!("TASK-00{number}"));
    }
    wait_until("one is run", || runs(&provost) == 1);
    provost.kill_and_start();
    assert_eq!(runs(&provost), 1, "it was taken up, and no other begun");
    open_gate(&provost);
    for id in &ids {
        assert_eq!(checked(&provost, id)["standing"], "verified");
    }
    assert_eq!(runs(&provost), 3);
    leaves_nothing(&provost);
}

#[test]
fn nothing_changed_is_flagged_with_checks_and_without() {
    for provost in [home("true").started(), Provost::running()] {
        let board = provost.board();
        let (_, empty, worktree) = attempt(&board, "say nothing to do");
        let answer = claim(&provost, &worktree, "TASK-001");
        assert!(
            answer["warnings"][0].as_str().unwrap().contains("nothing was changed"),
            "{answer}"
        );
        assert_eq!(checked(&provost, &empty)["flags"], json!(["empty_diff"]));
        let (_, full, worktree) = attempt(&board, "write new x");
        let handle = full.as_str();
        let answer = claim(&provost, &worktree, handle);
        assert_eq!(answer.get("warnings"), None, "{answer}");
        assert_eq!(checked(&provost, &full)["flags"], json!([]));
        assert_eq!(checked(&provost, &full)["status"], "done");
    }
}

/// The steps from a report to the end of its run.
const STEPS: &[&str] = &[
    "delivery.taken",
    "reportTaskDone.written",
    "reportTaskDone.committed",
    "checkout.made",
    "checkout.whole",
    "check.next",
    "manifest.written",
    "shim.spawned",
    "shim.started",
    "check.ended",
    "receipt.written",
    "receipt.committed",
    "concluded.written",
    "concluded.committed",
    "checked.written",
    "checked.committed",
];

#[test]
fn a_run_that_is_cut_off_between_any_two_steps_comes_to_its_verdict_once() {
    let provost = home("[ $(cat README.md | wc -l) = 1 ]").started();
    let board = provost.board();
    for (n, step) in STEPS.iter().enumerate() {
        let id = board.task(step);
        let params = json!({"taskId": id, "status": "done", "request_id": step});
        provost.kill();
        provost.start_to_die_at(step);
        let mut client = provost.connect();
        client.begin("reportTaskDone", &params);
        assert_eq!(provost.ended(), None, "{step}: killed by a signal");
        provost.start();
        assert!(!provost.answer("reportTaskDone", &params).is_error, "{step}");
        let task = checked(&provost, &id);
        assert_eq!(task["standing"], "verified", "{step}: {task}");
        assert_eq!(task["receipts"].as_array().unwrap().len(), 1, "{step}");
        assert_eq!(runs(&provost), n + 1, "{step}: it was run once");
        leaves_nothing(&provost);
    }
}

/// Those at which the worker gets a message.
const TELLING: &[&str] = &[
    "concluded.committed",
    "follow_up.written",
    "follow_up.committed",
    "checked.written",
    "checked.committed",
];

#[test]
fn a_worker_is_notified_once_wherever_the_daemon_dies() {
    let provost = home("[ -e mended ]").started();
    let board = provost.board();
    for step in TELLING {
        let (attempt, id, worktree) = attempt(&board, "write new x");
        provost.kill();
        provost.start_to_die_at(step);
        let mut worker = provost.worker(&worktree);
        worker.request(
            "reportTaskDone",
            &json!({"taskId": id, "status": "done", "request_id": step}),
        );
        assert_eq!(provost.ended(), None, "{step}: killed by a signal");
        drop(worker);
        provost.start();
        assert_eq!(checked(&provost, &id)["standing"], "rework", "{step}");
        leaves_nothing(&provost);
        attempt.until("it was told", |status| {
            status["phase"] == "settled" && attempt.said("user_message").len() == 2
        });
    }
}

#[test]
fn a_check_whose_daemon_and_shim_are_killed_is_run_again_and_leaves_no_process() {
    let provost = home(&format!("setsid sleep 1000 &\n{WAIT}")).started();
    let board = provost.board();
    let id = board.task("lost");
    report(&board, "TASK-001");
    wait_until("it is run", || runs(&provost) == 1);
    let checks = provost.home().join("checks");
    provost.kill();
    let is_shim = |pid: &i32| processes::name(*pid) == "provost-shim";
    let before = processes::working_below(&checks);
    let shims: Vec<i32> = before.iter().copied().filter(is_shim).collect();
    assert_eq!(shims.len(), 1, "{before:?}");
    processes::kill_hard(shims[0]);
    provost.start();
    wait_until("it is run anew", || runs(&provost) == 2);
    for pid in before {
        wait_until("what was lost is dead", || !processes::is_alive(pid));
    }
    open_gate(&provost);
    assert_eq!(checked(&provost, &id)["standing"], "verified");
    leaves_nothing(&provost);
}

#[test]
fn a_stop_of_everything_ends_a_check_and_the_next_daemon_runs_it_again() {
    let provost = home(WAIT).started();
    let board = provost.board();
    let id = board.task("stopped");
    report(&board, "TASK-001");
    wait_until("it is run", || runs(&provost) == 1);
    let Done { code, .. } = provost.verb(["shutdown", "--stop-all"]);
    assert_eq!((code, provost.ended()), (0, Some(0)));
    assert_eq!(processes::working_below(&provost.home().join("checks")), Vec::<i32>::new());
    provost.start();
    wait_until("it is run anew", || runs(&provost) == 2);
    open_gate(&provost);
    assert_eq!(checked(&provost, &id)["standing"], "verified");
    leaves_nothing(&provost);
}
