//! The snapshots of turns: what each has, that none is missing or made twice whenever the daemon
//! is killed, and what changed between two of them.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::conversations::with_agent;
use crate::harness::{Attempt, Board, Provost, Repo, run_until, wait_until};

/// The steps of a snapshot.
const STEPS: &[&str] =
    &["snapshot.made", "snapshot.referred", "snapshot.written", "snapshot.committed"];

fn send(provost: &Provost, attempt: &Attempt, prompt: &str) {
    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": prompt});
    provost.call("follow_up", &send);
}

fn queue(provost: &Provost, attempt: &Attempt, prompt: &str) {
    let queue = json!({"attempt_id": attempt.id, "action": "queue", "prompt": prompt});
    provost.call("follow_up", &queue);
}

/// A read of the attempt with more arguments.
fn with(attempt: &Attempt, more: &Value) -> Value {
    let mut arguments = json!({"attempt_id": attempt.id});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

/// The changed files with their statuses.
fn changed(provost: &Provost, attempt: &Attempt, turns: &Value) -> Vec<String> {
    let answer = provost.call("get_attempt_changes", &with(attempt, turns));
    let files = answer["files"].as_array().unwrap().iter();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    files.map(|file| format!("{} {}", word(&file["status"]), word(&file["path"]))).collect()
}

/// The file in the snapshot of a turn.
fn file_at(repo: &Repo, attempt: &Attempt, path: &str, turn: u32) -> String {
    repo.git(&["show", &format!("refs/provost/attempts/{}/{turn}:{path}", attempt.id)])
}

/// The snapshots of the attempt in a repository: a line for each reference.
fn references(repo: &Repo, attempt: &Attempt) -> Vec<String> {
    let of_attempt = format!("refs/provost/attempts/{}", attempt.id);
    let listed = repo.git(&["for-each-ref", "--format=%(refname) %(objectname)", &of_attempt]);
    listed.lines().map(str::to_owned).collect()
}

fn worktree(attempt: &Attempt) -> PathBuf {
    PathBuf::from(attempt.started["worktree"].as_str().unwrap())
}

fn git_in(board: &Board, attempt: &Attempt, args: &[&str]) -> String {
    let worktree = worktree(attempt);
    let args = [&["-C", worktree.to_str().unwrap(), "--no-optional-locks"], args].concat();
    board.repo().git(&args)
}

#[test]
fn files_that_two_turns_changed_are_distinguished() {
    let provost = Provost::running();
    let board = provost.board();
    board.repo().commit(".gitignore", "*.log\n");
    let base = board.repo().git(&["rev-parse", "main"]);
    let attempt =
        board.start("fake", "write one.txt first\nwrite README.md changed\nwrite a.log x");
    attempt.saved(1);
    send(&provost, &attempt, "write two.txt second\nwrite one.txt again\nrun git add two.txt");
    attempt.saved(2);
    send(&provost, &attempt, "run rm two.txt\nexit 3");
    attempt.saved(3);

    let first = ["modified app/README.md", "added app/one.txt"];
    assert_eq!(changed(&provost, &attempt, &json!({"to_turn": 1})), first);
    assert_eq!(changed(&provost, &attempt, &json!({"from_turn": 0, "to_turn": 1})), first);
    let second = ["modified app/one.txt", "added app/two.txt"];
    assert_eq!(changed(&provost, &attempt, &json!({"from_turn": 1, "to_turn": 2})), second);
    let third = json!({"from_turn": 2, "to_turn": 3});
    assert_eq!(changed(&provost, &attempt, &third), ["deleted app/two.txt"], "a failed turn's too");
    let none = changed(&provost, &attempt, &json!({"from_turn": 3, "to_turn": 3}));
    assert_eq!(none, [""; 0]);
    // Without to_turn it is what is there now.
    fs::write(worktree(&attempt).join("by-hand.txt"), "x\n").unwrap();
    let since = ["added app/by-hand.txt", "modified app/one.txt"];
    assert_eq!(changed(&provost, &attempt, &json!({"from_turn": 1})), since);

    let one = json!({"paths": ["app/one.txt"], "from_turn": 1, "to_turn": 2});
    let patch = provost.call("get_attempt_patch", &with(&attempt, &one));
    assert!(patch["patch"].as_str().unwrap().contains("-first\n+again\n"), "{patch}");
    // The worktree is as the agent left it: HEAD, index and files.
    assert_eq!(git_in(&board, &attempt, &["rev-parse", "HEAD"]), base);
    let status = git_in(&board, &attempt, &["status", "--porcelain"]);
    assert_eq!(status, " M README.md\nAD two.txt\n?? by-hand.txt\n?? one.txt");
    assert_eq!(references(board.repo(), &attempt).len(), 3);
    assert_eq!(board.repo().git(&["status", "--porcelain"]), "", "the person's checkout");
}

#[test]
fn a_snapshot_that_is_cut_off_anywhere_is_made_once() {
    let provost = Provost::running();
    let board = provost.board();
    for failpoint in STEPS {
        provost.kill();
        provost.start_to_die_at(failpoint);
        let attempt = board.start("fake", "write new.txt text\nrun git commit --allow-empty -qm x");
        assert_eq!(provost.ended(), None, "{failpoint}: killed by a signal");
        let before = references(board.repo(), &attempt);
        provost.start();
        attempt.saved(1);
        let after = references(board.repo(), &attempt);
        assert_eq!(after.len(), 1, "{failpoint}");
        assert_eq!(before.is_empty(), *failpoint == "snapshot.made", "{failpoint}");
        assert!(before.is_empty() || before == after, "{failpoint}");
        let first = json!({"to_turn": 1});
        assert_eq!(changed(&provost, &attempt, &first), ["added app/new.txt"], "{failpoint}");
        provost.kill_and_start();
        assert_eq!(references(board.repo(), &attempt), after, "{failpoint}");
    }
}

#[test]
fn a_turn_that_follows_at_once_waits_for_the_snapshot_also_when_that_is_cut_off() {
    let provost = Provost::running();
    let board = provost.board();
    for failpoint in STEPS {
        provost.kill();
        provost.start_to_die_at(failpoint);
        let gate = provost.path(failpoint);
        let prompt = format!("{}\nwrite a.txt one", run_until(&gate));
        let attempt = board.start("fake", &prompt);
        queue(&provost, &attempt, "write a.txt two");
        fs::write(gate, "").unwrap();
        assert_eq!(provost.ended(), None, "{failpoint}: killed by a signal");
        provost.start();
        attempt.saved(2);
        let contents = [1, 2].map(|turn| file_at(board.repo(), &attempt, "a.txt", turn));
        assert_eq!(contents, ["one", "two"], "{failpoint}");
        assert_eq!(references(board.repo(), &attempt).len(), 2, "{failpoint}");
    }
}

#[test]
fn a_settlement_waits_for_the_snapshot_and_a_stop_does_not_wait_for_ever() {
    let provost = Provost::running();
    let gate = provost.path("gate");
    // A filter of the person's own, which git runs for the snapshot.
    provost.person_configures(&format!(
        "[filter \"slow\"]\n\tclean = \"until [ -e {} ]; do sleep 0.02; done; cat\"\n",
        gate.display()
    ));
    let board = provost.board();
    board.repo().commit(".gitattributes", "*.slow filter=slow\n");
    let attempt = board.start("fake", "write a.slow text");
    let status = attempt.until("its files are kept", |it| it["waiting_on"] == "snapshot");
    assert_eq!(
        (&status["phase"], &status["latest_snapshot_turn"]),
        (&json!("running"), &Value::Null)
    );
    queue(&provost, &attempt, "write a.slow more");
    let stopped = attempt.stop();
    assert_eq!(stopped["phase"], "settled", "{stopped}");
    assert_eq!(attempt.status()["latest_snapshot_turn"], Value::Null, "it still waits");
    fs::write(gate, "").unwrap();
    // The turn that was stopped had not begun.
    attempt.saved(2);
    assert_eq!(attempt.settled()["state"], "failed");
    assert_eq!(file_at(board.repo(), &attempt, "a.slow", 1), "text");
}

#[test]
fn each_repository_has_its_own_and_an_empty_turn_too() {
    let provost = Provost::running();
    let board = Board::new(&provost, vec![provost.repo("front"), provost.repo("back")]);
    let attempt = board.start("fake", "write front/f.txt x");
    attempt.saved(1);
    send(&provost, &attempt, "write back/b.txt x");
    attempt.saved(2);
    let turn = |from: u32, to: u32| json!({"from_turn": from, "to_turn": to});
    assert_eq!(changed(&provost, &attempt, &turn(0, 1)), ["added front/f.txt"]);
    assert_eq!(changed(&provost, &attempt, &turn(1, 2)), ["added back/b.txt"]);
    assert!(board.repos.iter().all(|repo| references(repo, &attempt).len() == 2));
    let paths = json!({"paths": ["back/b.txt"], "from_turn": 1, "to_turn": 2});
    let patch = provost.call("get_attempt_patch", &with(&attempt, &paths));
    assert!(patch["patch"].as_str().unwrap().contains("b/back/b.txt"), "{patch}");
}

#[test]
fn a_turn_without_a_snapshot_is_refused_with_those_that_there_are() {
    let provost = Provost::running();
    let board = provost.board();
    let gate = provost.path("gate");
    let attempt = board.start("fake", &run_until(&gate));
    let refused = |more: &Value| provost.refusal("get_attempt_changes", &with(&attempt, more));
    let refusal = refused(&json!({"from_turn": 1}));
    assert_eq!(refusal["code"], "turn_not_found");
    assert_eq!(refusal["hint"], "Call get_attempt_changes again without from_turn.");
    fs::write(gate, "").unwrap();
    attempt.saved(1);
    let refusal = refused(&json!({"to_turn": 7}));
    assert_eq!(refusal["code"], "turn_not_found");
    assert_eq!(refusal["details"]["turns"], json!([1]));
    assert_eq!(refusal["hint"], "Call get_attempt_changes again with to_turn = 1.");
    let refusal = refused(&json!({"from_turn": 2, "to_turn": 1}));
    assert_eq!(refusal["code"], "invalid_argument");
    assert_eq!(refusal["details"]["path"], "to_turn");
    let refusal = refused(&json!({"to_turn": 0}));
    assert_eq!(refusal["code"], "invalid_argument");
}

#[test]
fn a_snapshot_outlives_the_worktree_and_is_no_change_that_wakes() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "write new.txt text");
    let settled = json!({"attempt_ids": [attempt.id], "until": "all_settled"});
    let settled = provost.call("wait_for_attempts", &settled);
    attempt.saved(1);
    let next = json!({"attempt_ids": [attempt.id], "until": "any_change",
        "after": settled["after"], "timeout_ms": 1});
    assert_eq!(provost.call("wait_for_attempts", &next)["timed_out"], true);
    wait_until("it is collected", || {
        let report = provost.verb(["gc", "--json", "--yes", "--snapshot"]).json();
        report["attempts"][0]["verdict"] == "collected"
    });
    assert!(!worktree(&attempt).exists());
    let first = json!({"to_turn": 1});
    assert_eq!(changed(&provost, &attempt, &first), ["added app/new.txt"]);
    assert_eq!(file_at(board.repo(), &attempt, "new.txt", 1), "text");
}

#[test]
fn an_attempt_can_begin_from_the_end_of_a_turn_of_another_one() {
    let provost = Provost::running();
    let board = provost.board();
    let source = board.start("fake", "write a.txt one\nrun git add a.txt");
    source.saved(1);
    send(&provost, &source, "write a.txt two\nwrite b.txt x");
    source.saved(2);
    let fork = |prompt: &str, turn: Option<u32>| {
        let from = json!({"prompt": prompt, "from_attempt_id": source.id, "from_turn": turn});
        board.start_with("fake", &from)
    };
    let last = fork("run cat a.txt b.txt && git status --porcelain", None);
    last.settled();
    assert_eq!(last.said("tool_result"), ["two\nx"]);
    let first = fork("run cat a.txt; ls b.txt\nwrite a.txt forked", Some(1));
    first.saved(1);
    assert!(first.said("tool_result")[0].starts_with("one\n"), "{:?}", first.said("tool_result"));
    assert_ne!(first.started["workspace_branch"], source.started["workspace_branch"]);
    assert_eq!(changed(&provost, &first, &json!({})), ["added app/a.txt"]);
    // What a merge would bring to the target branch is the person's.
    for fork in [&first, &last] {
        let branch = fork.started["workspace_branch"].as_str().unwrap();
        let log = board.repo().git(&["log", "--format=%an %cn%n%b", branch]);
        assert!(!log.contains("Provost "), "{log}");
        assert!(log.contains(&format!("Provost-Attempt: {}", source.id)), "{log}");
    }
    // The other attempt is as it was.
    assert_eq!(fs::read_to_string(worktree(&source).join("a.txt")).unwrap(), "two\n");
    assert_eq!(references(board.repo(), &source).len(), 2);

    let start = |more: &Value| {
        let mut start = json!({"task_id": board.task("x"), "executor": "fake"});
        start.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        provost.refusal("start_task_attempt", &start)
    };
    let refusal = start(&json!({"from_attempt_id": source.id, "from_turn": 9}));
    assert_eq!(refusal["code"], "turn_not_found");
    assert_eq!(refusal["details"]["turns"], json!([1, 2]));
    assert_eq!(refusal["hint"], "Call start_task_attempt again with from_turn = 2.");
    assert_eq!(start(&json!({"from_turn": 1}))["code"], "missing_required");
    let unknown = json!({"from_attempt_id": "01900000-0000-7000-8000-000000000000"});
    assert_eq!(start(&unknown)["code"], "attempt_not_found");
}

/// Whether each process was told to go on in a session, and whether in a copy of it.
fn resumed(attempt: &Attempt) -> Vec<(bool, bool)> {
    let begun = attempt.said("process_start");
    let flags = begun.iter().map(|it| (it.contains("--resume s"), it.contains("--fork-session")));
    flags.collect()
}

#[test]
fn a_fork_has_a_copy_of_the_agents_own_session_if_that_is_as_it_was_and_else_a_recap() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let board = provost.board();
    let source = board.start("agent", "say first");
    source.saved(1);
    let fork = |turn: u32| {
        let from = json!({"prompt": "say more", "from_attempt_id": source.id, "from_turn": turn});
        let fork = board.start_with("agent", &from);
        assert_eq!(fork.settled()["final_message"], "more");
        fork
    };
    let copied = fork(1);
    assert_eq!(resumed(&copied), [(true, true)]);
    assert_eq!(copied.said("user_message"), ["say more"], "the agent knows the rest");
    send(&provost, &copied, "say again");
    assert_eq!(copied.saved(2)["final_message"], "again");
    assert_eq!(resumed(&copied), [(true, true), (true, false)], "now it has its own");

    send(&provost, &source, "say second");
    source.saved(2);
    assert_eq!(resumed(&source), [(false, false), (true, false)]);
    let last_prompt = |fork: &Attempt| fork.said("user_message").pop().unwrap();
    let recapped = fork(1);
    assert_eq!(resumed(&recapped), [(false, false)], "the session knows more than the files");
    assert!(
        last_prompt(&recapped).starts_with("You go on with work"),
        "{}",
        last_prompt(&recapped)
    );
    let other = json!({"prompt": "say more", "from_attempt_id": source.id});
    let other = board.start_with("fake", &other);
    other.settled();
    assert!(resumed(&other).iter().all(|flags| *flags == (false, false)), "another executor");

    send(&provost, &source, "forget");
    source.saved(3);
    let lost = fork(3);
    assert_eq!(resumed(&lost), [(true, true), (false, false)], "it could not be copied");
    let prompt = last_prompt(&lost);
    assert!(prompt.contains("say first") && prompt.ends_with("say more"), "{prompt}");
}

#[test]
fn old_snapshots_of_collected_attempts_go_when_gc_is_asked_to() {
    let provost = Provost::new().config("[worktrees]\nsnapshot_days = 0").started();
    let board = provost.board();
    let attempt = board.start("fake", "write new.txt text");
    attempt.saved(1);
    let kept = board.start("fake", "write new.txt text\nrun sleep 1000");
    let gc = || provost.verb(["gc", "--json", "--yes", "--snapshot"]).json();
    wait_until("its snapshots are gone", || {
        gc();
        references(board.repo(), &attempt).is_empty()
    });
    let read = with(&attempt, &json!({"to_turn": 1}));
    assert_eq!(provost.refusal("get_attempt_changes", &read)["code"], "turn_not_found");
    kept.stop();
    kept.saved(1);
    let dry = provost.verb(["gc", "--json"]).json();
    assert_eq!(dry["turns"], json!([]), "it has its worktree");
    assert_eq!(references(board.repo(), &kept).len(), 1);
}

#[test]
fn a_removal_of_old_snapshots_that_is_cut_off_anywhere_is_made_up_for() {
    let provost = Provost::new().config("[worktrees]\nsnapshot_days = 0").started();
    let board = provost.board();
    for failpoint in ["snapshot.forgotten", "snapshots_forgotten.written"] {
        let attempt = board.start("fake", "write new.txt text");
        attempt.saved(1);
        send(&provost, &attempt, "write new.txt more");
        attempt.saved(2);
        // Nothing of it may be alive, or it is kept.
        wait_until("it could be collected", || {
            let report = provost.verb(["gc", "--json", "--snapshot"]).json();
            report["attempts"][0]["verdict"] == "collectable"
        });
        provost.kill();
        provost.start_to_die_at(failpoint);
        provost.verb(["gc", "--yes", "--snapshot"]);
        assert_eq!(provost.ended(), None, "{failpoint}: killed by a signal");
        let left = references(board.repo(), &attempt).len();
        assert_eq!(left, usize::from(failpoint == "snapshot.forgotten"), "{failpoint}");
        provost.start();
        let gone = provost.verb(["gc", "--json", "--yes", "--snapshot"]).json();
        assert_eq!(gone["turns"][0]["turns"], json!([1, 2]), "{failpoint}");
        assert_eq!(references(board.repo(), &attempt).len(), 0, "{failpoint}");
        let again = provost.verb(["gc", "--json", "--yes", "--snapshot"]).json();
        assert_eq!(again["turns"], json!([]), "{failpoint}");
    }
}
