//! What concerns attempts of several hosts at once: the removal of a project, trust, work that is applied to
//! an attempt of another host, and forks. They need a server, which `.ci/postgres COMMAND` gives them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::postgres::{database, rows, run};
use crate::harness::{Attempt, Board, Provost, eventually, wait_until};
use crate::hosts_relocation::{MIRRORS, follow_up, give_origin, host, lose, start_at, worktree};

/// Starts an attempt at a host and waits until it is at rest, with its snapshot.
fn rested<'p>(board: &Board<'_>, host: &'p Provost, prompt: &str) -> Attempt<'p> {
    let attempt = start_at(board, host, prompt);
    assert_eq!(attempt.settled()["state"], "completed");
    attempt.saved(1);
    attempt
}

fn remove<const N: usize>(host: &Provost, more: [&str; N]) -> Value {
    let args = [&["project", "rm", "scratch", "--json"], &more[..]].concat();
    let done = Provost::done(host.command(&args));
    assert_eq!(done.code, 0, "{done:?}");
    done.json()
}

#[test]
fn a_project_goes_with_the_worktrees_of_all_hosts_also_when_that_is_cut_off() {
    let Some(url) = database("across_removal") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", ""));
    let board = a.board();
    let one = rested(&board, &a, "write one.txt x");
    let two = rested(&board, &b, "write two.txt x");
    let folders = [worktree(&a, &url, &one.id), worktree(&b, &url, &two.id)];
    let plan = remove(&a, []);
    assert_eq!((&plan["removed"], &plan["left"]), (&json!(false), &json!([])), "{plan}");
    assert_eq!(plan["attempts"][0]["attempt_id"], json!(one.id), "{plan}");
    let other = &plan["others"][0];
    assert_eq!((&other["host"], &other["dry_run"]), (&json!("b"), &json!(true)), "{plan}");
    assert_eq!(other["attempts"][0]["attempt_id"], json!(two.id), "{plan}");
    let output = a.verb(["project", "rm", "scratch"]).stdout;
    assert!(output.contains("on host b:") && output.contains("with --yes"), "{output}");
    assert!(folders.iter().all(|folder| folder.exists()));
    // What runs on another host is not taken away.
    let runs = start_at(&board, &b, "say up\nhang");
    runs.has_said("up");
    let refused = a.verb(["project", "rm", "scratch", "--yes"]);
    assert!(refused.code != 0 && refused.stderr.contains("is queued or running"), "{refused:?}");
    runs.stop();
    a.kill();
    a.start_to_die_at("remove_project.written");
    assert_ne!(a.verb(["project", "rm", "scratch", "--yes"]).code, 0);
    assert_eq!(a.ended(), None, "killed by a signal");
    assert!(!folders.iter().any(|folder| folder.exists()), "both hosts had done their part");
    a.start();
    let done = remove(&a, ["--yes"]);
    assert_eq!(done["removed"], true, "{done}");
    assert!(!b.verb(["project", "list"]).stdout.contains("scratch"));
    let snapshot = format!("refs/provost/snapshots/{}", two.id);
    assert!(board.repo().git(&["show", &format!("{snapshot}:two.txt")]).contains('x'));
}

#[test]
fn a_host_that_is_away_holds_up_a_removal_and_one_that_is_lost_keeps_its_files() {
    let Some(url) = database("across_lost") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", ""));
    let board = a.board();
    let one = rested(&board, &a, "write one.txt x");
    let two = rested(&board, &b, "write two.txt x");
    let folders = [worktree(&a, &url, &one.id), worktree(&b, &url, &two.id)];
    b.kill();
    let refused = std::thread::scope(|scope| {
        let asking = scope.spawn(|| a.verb(["project", "rm", "scratch", "--yes"]));
        wait_until("the other host is asked", || {
            rows(&url, "SELECT host FROM host_calls") == ["b"]
        });
        lease_ends(&url, "b");
        asking.join().unwrap()
    });
    assert_ne!(refused.code, 0, "{refused:?}");
    for expected in ["worktrees on host b", "does not answer", "Run the command again"] {
        assert!(refused.stderr.contains(expected), "{expected}: {refused:?}");
    }
    assert!(folders.iter().all(|folder| folder.exists()), "nothing was taken away");
    let output = a.verb(["project", "rm", "scratch"]).stdout;
    assert!(
        output.contains("host b is lost: what it has of 1 attempt stays on its disk"),
        "{output}"
    );
    let done = remove(&a, ["--yes"]);
    assert_eq!(done["removed"], true, "{done}");
    assert_eq!(done["left"], json!([{"host": "b", "attempts": [two.id]}]));
    assert!(!folders[0].exists() && folders[1].exists());
    // It comes back.
    b.start();
    let collected = b.verb(["gc", "--snapshot", "--yes"]);
    assert!(collected.code == 0 && !folders[1].exists(), "{collected:?}");
}

/// Ends the lease of a host whose daemon was killed.
fn lease_ends(url: &str, name: &str) {
    run(url, "UPDATE cluster SET no_sweep_before = 9000000000000000");
    run(url, &format!("UPDATE hosts SET lease_until = 1 WHERE host_id = '{name}'"));
}

#[test]
fn what_is_trusted_goes_on_on_all_hosts() {
    let Some(url) = database("across_trust") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", MIRRORS));
    let c = host(&url, "c", MIRRORS);
    let board = a.board();
    board.repo().commit("provost.toml", "[setup]\nrun = 'echo made > made.txt'\n");
    let waits = |host| {
        let attempt = start_at(&board, host, "run cat made.txt");
        attempt.in_phase("waiting");
        attempt
    };
    let [one, two] = [waits(&a), waits(&b)];
    // The daemon of another host shows exactly what an attempt wants.
    let shown = c.verb(["trust", &one.id, "--show"]);
    assert!(shown.stdout.contains("setup.run: echo made"), "{shown:?}");
    let done = c.verb(["trust", &two.id, "--yes", "--json"]).json();
    let mut released: Vec<&str> =
        done["released"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    released.sort_unstable();
    assert_eq!((released, &done["later"]), (vec![&*one.id, &two.id], &json!([])), "{done}");
    for attempt in [&one, &two] {
        assert_eq!(attempt.settled()["state"], "completed");
        assert_eq!(attempt.said("tool_result"), ["made"]);
        let decided = a.call("list_inbox", &json!({"attempt_id": attempt.id, "status": "all"}));
        assert_eq!(decided["approvals"][0]["status"], "approved", "{decided}");
    }
    // An approval of one counts for those of all hosts. One whose daemon is away goes on when it is back.
    board.repo().commit("provost.toml", "[setup]\nrun = 'echo again > made.txt'\n");
    let [one, two, three] = [waits(&a), waits(&b), waits(&c)];
    c.kill();
    let asked = a.call("list_inbox", &json!({"attempt_id": two.id}));
    let approval = asked["approvals"][0]["approval_id"].as_str().unwrap();
    let approved = a.verb(["approve", approval]);
    assert_eq!(approved.code, 0, "{approved:?}");
    for attempt in [&one, &two] {
        assert_eq!(attempt.settled()["state"], "completed");
        assert_eq!(attempt.said("tool_result"), ["again"]);
    }
    assert_eq!(a.call("get_attempt_status", &json!({"attempt_id": three.id}))["phase"], "waiting");
    c.start();
    assert_eq!(three.settled()["state"], "completed");
    // A host without the repository shows what a project's repositories want.
    let shown = b.verb(["trust", "scratch", "--show"]);
    assert!(shown.stdout.contains("app: approved"), "{shown:?}");
}

#[test]
fn a_trust_names_the_attempts_of_hosts_that_are_away() {
    let Some(url) = database("across_later") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", ""));
    let board = a.board();
    board.repo().commit("provost.toml", "[setup]\nrun = 'echo made > made.txt'\n");
    let waiting = start_at(&board, &b, "run cat made.txt");
    waiting.in_phase("waiting");
    b.kill();
    lease_ends(&url, "b");
    let output = a.verb(["trust", "scratch", "--yes"]);
    assert!(output.stdout.contains("goes on when the daemon of host b runs again"), "{output:?}");
    b.start();
    assert_eq!(waiting.settled()["state"], "completed");
    assert_eq!(waiting.said("tool_result"), ["made"]);
}

fn apply(host: &Provost, one: &Attempt, onto: &Attempt, request: &str) -> Value {
    host.call("finish_attempt", &applying(one, onto, request))
}

fn applying(one: &Attempt, onto: &Attempt, request: &str) -> Value {
    json!({"attempt_id": one.id, "action": "apply_to", "into": onto.id, "request_id": request})
}

/// What git says in a worktree.
fn git(board: &Board<'_>, worktree: &Path, args: &[&str]) -> String {
    board.repo().git(&[&["-C", worktree.to_str().unwrap()], args].concat())
}

#[test]
fn work_is_applied_to_an_attempt_of_another_host() {
    let Some(url) = database("across_apply") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", MIRRORS));
    let board = a.board();
    let work = "write kept.txt committed\nrun git add --all && git commit --quiet -m work\n\
        write new.txt untracked";
    let (one, other) = (rested(&board, &a, work), rested(&board, &b, "write b.txt b"));
    let (here, there) = (worktree(&a, &url, &one.id), worktree(&b, &url, &other.id));
    // Neither committed, nor in the snapshot of its turn.
    fs::write(here.join("late.txt"), "late\n").unwrap();
    let done = apply(&b, &one, &other, "r");
    assert_eq!(done["state"], "done", "{done}");
    let receipt = &done["repos"][0];
    assert_eq!((&receipt["committed"], &receipt["merged"]), (&json!(true), &json!(true)), "{done}");
    assert_eq!(receipt["target_branch"], other.started["workspace_branch"]);
    assert_eq!(receipt["target_after"], git(&board, &there, &["rev-parse", "HEAD"]));
    for (file, text) in [("kept.txt", "committed"), ("new.txt", "untracked"), ("late.txt", "late")]
    {
        assert_eq!(fs::read_to_string(there.join(file)).unwrap().trim(), text);
    }
    let status = git(&board, &there, &["status", "--porcelain"]);
    assert_eq!(status, "?? b.txt", "its own work stays as it was");
    assert_eq!(git(&board, &here, &["status", "--porcelain"]), "", "all is committed here");
    let status = a.call("get_attempt_status", &json!({"attempt_id": one.id}));
    assert_eq!(status["finish"]["state"], "done", "{status}");
    assert_eq!((&status["host"], &other.status()["host"]), (&json!("a"), &json!("b")));
    assert_eq!(apply(&a, &one, &other, "r")["finish_id"], done["finish_id"], "once");
    // Again there is nothing to apply, and the agents go on.
    let again = apply(&a, &one, &other, "s");
    assert_eq!((&again["state"], &again["repos"][0]["tree"]), (&json!("done"), &Value::Null));
    follow_up(&a, &one.id, "write README.md one");
    one.saved(2);
    follow_up(
        &a,
        &other.id,
        "write README.md other\nrun git add --all && git commit --quiet -m own",
    );
    other.saved(2);
    let applied = apply(&b, &one, &other, "t");
    assert_eq!(applied["state"], "conflicts", "{applied}");
    assert_eq!(applied["conflicts"][0]["path"], "app/README.md");
    let tip = git(&board, &there, &["rev-parse", "HEAD"]);
    let hint = applied["hint"].as_str().unwrap();
    assert!(hint.contains(&format!("Merge the commit {tip}")), "{hint}");
    // The agent can do that.
    follow_up(&a, &one.id, &format!("run git merge --quiet -X ours {tip}"));
    one.saved(3);
    let done = apply(&b, &one, &other, "u");
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(fs::read_to_string(there.join("README.md")).unwrap().trim(), "one");
    // A turn of the other attempt is not disturbed.
    follow_up(&b, &other.id, "say up\nhang");
    other.has_said("up");
    follow_up(&a, &one.id, "write more.txt x");
    one.saved(4);
    let refusal = a.refusal("finish_attempt", &applying(&one, &other, "v"));
    assert_eq!(refusal["code"], "attempt_running", "{refusal}");
    other.stop();
    assert_eq!(apply(&a, &one, &other, "v")["state"], "done", "a refused call leaves its key free");
}

#[test]
fn of_work_in_a_repository_with_a_remote_only_what_that_lacks_is_kept_for_other_hosts() {
    let Some(url) = database("across_remote") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", MIRRORS));
    let repo = a.repo("app");
    give_origin(&a, &repo);
    let base = repo.git(&["rev-parse", "main"]);
    let board = Board::new(&a, vec![repo]);
    let (one, other) = (rested(&board, &a, "write a.txt a"), rested(&board, &b, "write b.txt b"));
    let done = apply(&a, &one, &other, "r");
    assert_eq!(done["state"], "done", "{done}");
    assert!(worktree(&b, &url, &other.id).join("a.txt").exists());
    assert_eq!(rows(&url, "SELECT needs FROM base_bundles"), [&*base]);
    // A host that has nothing yet begins with these commits.
    lose(&url, &a, "a");
    let c = host(&url, "c", MIRRORS);
    let start = json!({"task_id": board_task(&b, &board), "executor": "fake",
        "from_attempt_id": one.id, "prompt": "run cat a.txt"});
    let there = Attempt::new(&c, c.call("start_task_attempt", &start));
    assert_eq!(there.settled()["state"], "completed");
    assert_eq!(there.said("tool_result"), ["a"]);
}

/// Makes a task by way of another host than that of the board.
fn board_task(host: &Provost, board: &Board<'_>) -> String {
    let task = json!({"project_id": board.project_id, "title": "go on"});
    host.call("create_task", &task)["task_id"].as_str().unwrap().to_owned()
}

#[test]
fn work_is_applied_on_another_host_once_also_when_a_daemon_is_killed() {
    let Some(url) = database("across_killed") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", MIRRORS));
    let board = a.board();
    let other = rested(&board, &b, "write b.txt b");
    let there = worktree(&b, &url, &other.id);
    for (n, (of_source, failpoint)) in [
        (true, "finish.committed"),
        (true, "commit.moved"),
        (true, "base_bundle.committed"),
        (true, "finish_step.committed"),
        (true, "finish_end.written"),
        (true, "finish_end.committed"),
        (false, "finish_applied.committed"),
        (false, "finish_step.committed"),
        (false, "advance.locked"),
        (false, "advance.moved"),
        (false, "finish_step.written@3"),
        (false, "finish_step.committed@3"),
        (false, "finish_applied.written@2"),
        (false, "finish_applied.committed@2"),
    ]
    .iter()
    .enumerate()
    {
        let one = rested(&board, &a, &format!("write file{n} text"));
        let (dies, asked) = if *of_source { (&a, &b) } else { (&b, &a) };
        dies.kill();
        dies.start_to_die_at(failpoint);
        let done = std::thread::scope(|scope| {
            let asking = scope.spawn(|| apply(asked, &one, &other, &format!("r{n}")));
            assert_eq!(dies.ended(), None, "{failpoint}: killed by a signal");
            dies.start();
            asking.join().unwrap()
        });
        assert_eq!(done["state"], "done", "{failpoint}: {done}");
        assert!(there.join(format!("file{n}")).exists(), "{failpoint}");
        assert_eq!(git(&board, &there, &["status", "--porcelain"]), "?? b.txt", "{failpoint}");
        let tip = git(&board, &there, &["rev-parse", "HEAD"]);
        assert_eq!(done["repos"][0]["target_after"], tip, "{failpoint}");
        let merges = git(&board, &there, &["rev-list", "--count", "--merges", "HEAD"]);
        assert_eq!(merges, (n + 1).to_string(), "{failpoint}: each is merged once");
    }
    follow_up(&a, &other.id, "write late.txt x");
    other.saved(2);
}

#[test]
fn work_is_applied_where_the_host_of_either_attempt_is_lost() {
    let Some(url) = database("across_apply_lost") else { return };
    let a = host(&url, "a", "");
    let board = a.board();
    for (n, is_source) in [true, false].into_iter().enumerate() {
        let name = format!("b{n}");
        let b = host(&url, &name, MIRRORS);
        let (of_b, of_a) =
            (rested(&board, &b, "write b.txt b"), rested(&board, &a, "write a.txt a"));
        lose(&url, &b, &name);
        fs::remove_dir_all(b.home()).unwrap();
        let (one, onto) = if is_source { (&of_b, &of_a) } else { (&of_a, &of_b) };
        let done = apply(&a, one, onto, &name);
        assert_eq!(done["state"], "done", "{done}");
        let there = worktree(&a, &url, &onto.id);
        assert!(there.join("a.txt").exists() && there.join("b.txt").exists());
        assert_eq!(a.call("get_attempt_status", &json!({"attempt_id": onto.id}))["host"], "a");
    }
}

#[test]
fn a_host_that_is_lost_before_it_applies_work_has_the_call_refused() {
    let Some(url) = database("across_refused") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", MIRRORS));
    let board = a.board();
    let (one, other) = (rested(&board, &a, "write a.txt a"), rested(&board, &b, "write b.txt b"));
    b.kill();
    let refusal = std::thread::scope(|scope| {
        let asking = scope.spawn(|| a.refusal("finish_attempt", &applying(&one, &other, "r")));
        wait_until("the work is committed", || {
            rows(&url, "SELECT receipt FROM finishes")
                .iter()
                .any(|receipt| receipt.contains("\"commit\":\""))
        });
        run(&url, "UPDATE cluster SET no_sweep_before = 0");
        run(&url, "UPDATE hosts SET lease_until = 1 WHERE host_id = 'b'");
        asking.join().unwrap()
    });
    assert_eq!(refusal["code"], "daemon_unavailable", "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("its host b is lost"), "{refusal}");
    // The way out that it names.
    let done = apply(&a, &one, &other, "r");
    assert_eq!(done["state"], "done", "{done}");
    assert!(worktree(&a, &url, &other.id).join("a.txt").exists());
}

#[test]
fn a_fork_begins_on_the_host_of_its_source_and_from_the_board_if_that_is_lost() {
    let Some(url) = database("across_fork") else { return };
    let (a, b) = (host(&url, "a", MIRRORS), host(&url, "b", ""));
    let board = b.board();
    let source = rested(&board, &b, "write a.txt one");
    follow_up(&b, &source.id, "write a.txt two\nrun git add a.txt\nwrite b.txt x");
    source.saved(2);
    let fork = |turn: Option<u32>| {
        json!({"task_id": board.task("go on"), "executor": "fake", "from_attempt_id": source.id,
               "from_turn": turn, "prompt": "run cat a.txt b.txt && git status --porcelain"})
    };
    let there = Attempt::new(&a, a.call("start_task_attempt", &fork(None)));
    assert_eq!(
        (&there.settled()["host"], &there.status()["state"]),
        (&json!("b"), &json!("completed"))
    );
    assert_eq!(there.said("tool_result"), ["two\nx"]);
    let of_lost = fork(None);
    let early = fork(Some(1));
    lose(&url, &b, "b");
    fs::remove_dir_all(b.home()).unwrap();
    let repo = board.repo().path.clone();
    fs::rename(&repo, repo.with_extension("gone")).unwrap();
    let here = Attempt::new(&a, a.call("start_task_attempt", &of_lost));
    assert_eq!(
        (&here.settled()["host"], &here.status()["state"]),
        (&json!("a"), &json!("completed"))
    );
    assert_eq!(here.said("tool_result"), ["two\nx"]);
    let refusal = a.refusal("start_task_attempt", &early);
    assert_eq!(refusal["code"], "workspace_failed", "{refusal}");
    assert_eq!(
        refusal["hint"],
        "Call start_task_attempt again without from_turn. The board has the \
        files of the last turn alone."
    );
}

#[test]
fn a_fork_at_a_gateway_goes_to_the_worker_of_its_source() {
    let Some(url) = database("across_fork_gateway") else { return };
    let front = host(&url, "front", "role = 'gateway'\n");
    let worker = |name| host(&url, name, &format!("role = 'worker'\n{MIRRORS}"));
    let board = front.board();
    let one = worker("one");
    let source = start_at(&board, &front, "write a.txt one");
    assert_eq!(source.settled()["host"], "one");
    source.saved(1);
    let other = worker("another");
    let fork = |prompt: &str| {
        json!({"task_id": board.task("go on"), "executor": "fake", "from_attempt_id": source.id,
               "prompt": prompt})
    };
    let there = Attempt::new(&front, front.call("start_task_attempt", &fork("run cat a.txt")));
    assert_eq!(there.settled()["host"], "one");
    assert_eq!(there.said("tool_result"), ["one"]);
    // Merged by the gateway, the source is there, where nothing runs.
    let done = front.call("finish_attempt", &json!({"attempt_id": source.id, "action": "merge"}));
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(source.status()["host"], "front");
    let there = Attempt::new(&front, front.call("start_task_attempt", &fork("run cat a.txt")));
    let settled = there.settled();
    assert_eq!(settled["state"], "completed", "{settled}");
    assert_eq!(there.said("tool_result"), ["one"]);
    // The worker that has it is lost.
    let source = eventually("one of the other worker", || {
        let attempt = start_at(&board, &front, "write c.txt three");
        (attempt.settled()["host"] == "another").then_some(attempt)
    });
    source.saved(1);
    lose(&url, &other, "another");
    let start = json!({"task_id": board.task("go on"), "executor": "fake",
        "from_attempt_id": source.id, "prompt": "run cat c.txt"});
    let there = Attempt::new(&front, front.call("start_task_attempt", &start));
    assert_eq!(
        (&there.settled()["host"], &there.status()["state"]),
        (&json!("one"), &json!("completed"))
    );
    assert_eq!(there.said("tool_result"), ["three"]);
    drop(one);
}
