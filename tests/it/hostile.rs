//! What an agent may leave in its worktree and in the repository: nothing of it runs
//! outside the attempt, hangs a call, or costs more than a look.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use crate::harness::{Attempt, Provost, eventually, processes, wait_until};

/// Bytes of a file that no one can read to its end.
const HUGE: u64 = 1 << 42;

fn worktree(provost: &Provost, attempt: &Attempt) -> PathBuf {
    let branch = attempt.started["workspace_branch"].as_str().unwrap();
    let folder = branch.strip_prefix("provost/").unwrap();
    provost.home().join("worktrees").join(folder).join("app")
}

fn changes(attempt: &Attempt) -> Value {
    json!({"attempt_id": attempt.id})
}

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    mkfifo(path, Mode::S_IRWXU).unwrap();
}

#[test]
fn what_an_attempt_configures_runs_in_no_other_attempts_start() {
    let provost = Provost::new().variable("DAEMON_ONLY_TOKEN", "secret").started();
    let board = provost.board();
    let ran = provost.path("ran");
    let trap = provost.script("trap", &format!("env >> {}; cat", ran.display()));
    let seen = provost.path("seen");
    let own = provost.script("own", &format!("env >> {}; cat", seen.display()));
    provost.person_configures(&format!("[filter \"own\"]\n\tsmudge = {}\n", own.display()));
    board.repo().commit(".gitattributes", "README.md filter=own\n");
    let shared = board.repo().path.join(".git");
    let first = board.start(
        "fake",
        &format!(
            "run git config filter.ev.smudge {0}; git config filter.ev.process {0}; git config \
             core.fsmonitor {0}; mkdir -p {1}/info; echo '* filter=ev' > {1}/info/attributes",
            trap.display(),
            shared.display()
        ),
    );
    assert_eq!(first.settled()["state"], "completed");
    let config = fs::read_to_string(shared.join("config")).unwrap();
    assert!(!config.contains("filter \"ev\""), "{config}");
    for key in ["filter.ev.smudge", "filter.ev.process", "core.fsmonitor"] {
        board.repo().git(&["config", key, trap.to_str().unwrap()]);
    }
    let _ = fs::remove_file(&ran);
    let _ = fs::remove_file(&seen);
    // The person's own filter is asked where the repository names it.
    fs::write(shared.join("info/attributes"), "*.gitattributes filter=ev\n").unwrap();
    let second = board.start("fake", "write new.txt x");
    assert_eq!(second.settled()["state"], "completed");
    provost.call("get_attempt_changes", &changes(&second));
    assert!(!ran.exists(), "{}", fs::read_to_string(&ran).unwrap());
    let seen = fs::read_to_string(&seen).unwrap();
    assert!(seen.contains("HOME=") && !seen.contains("DAEMON_ONLY_TOKEN"), "{seen}");
}

#[test]
fn nothing_that_git_started_outlives_a_killed_daemon() {
    let provost = Provost::running();
    let repo = provost.repo("app");
    repo.commit(".gitattributes", "* filter=slow\n");
    let pid = provost.path("pid");
    let filter =
        provost.script("filter", &format!("sleep 1000 & echo $! >> {}; wait", pid.display()));
    provost.person_configures(&format!("[filter \"slow\"]\n\tsmudge = {}\n", filter.display()));
    let board = crate::harness::Board::new(&provost, vec![repo]);
    board.start("fake", "say never");
    let sleeper = eventually("the filter runs", || {
        fs::read_to_string(&pid).ok()?.lines().next()?.parse::<i32>().ok()
    });
    assert!(processes::is_alive(sleeper));
    provost.kill();
    wait_until("what git started has ended", || !processes::is_alive(sleeper));
}

#[test]
fn a_pipe_where_git_reads_hangs_neither_a_reading_nor_a_start() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "write d/new.txt x");
    attempt.settled();
    let worktree = worktree(&provost, &attempt);
    let patch = json!({"attempt_id": attempt.id, "paths": ["app/d/new.txt"]});
    for place in [".gitattributes", ".gitignore", "d/.gitignore"] {
        pipe(&worktree.join(place));
        let refusal = provost.refusal("get_attempt_changes", &changes(&attempt));
        assert_eq!(refusal["code"], "workspace_failed", "{place}: {refusal}");
        assert!(refusal["message"].as_str().unwrap().contains(place), "{place}: {refusal}");
        assert_eq!(provost.refusal("get_attempt_patch", &patch)["code"], "workspace_failed");
        fs::remove_file(worktree.join(place)).unwrap();
    }
    let shared = board.repo().path.join(".git");
    let elsewhere = provost.path("pipe");
    pipe(&elsewhere);
    let config = fs::read_to_string(shared.join("config")).unwrap();
    let task = board.task("x");
    let start = json!({"task_id": task, "executor": "fake", "prompt": "say here"});
    for setting in ["[include]\n\tpath", "[core]\n\texcludesFile"] {
        let named = format!("{config}{setting} = {}\n", elsewhere.display());
        fs::write(shared.join("config"), named).unwrap();
        let refusal = provost.refusal("get_attempt_changes", &changes(&attempt));
        assert_eq!(refusal["code"], "workspace_failed", "{setting}: {refusal}");
        if setting.contains("include") {
            let refusal = provost.refusal("start_task_attempt", &start);
            assert_eq!(refusal["code"], "workspace_failed", "{refusal}");
        }
    }
    fs::write(shared.join("config"), config).unwrap();
    // Starts go by what is shared alone, and take no notice of what they can leave out.
    for place in ["info/exclude", "info/attributes"] {
        pipe(&shared.join(place));
    }
    let again = board.start("fake", "say here");
    assert_eq!(again.settled()["state"], "completed");
    // So is one where git reads the attempt's own repository.
    let admin =
        board.repo().git(&["-C", worktree.to_str().unwrap(), "rev-parse", "--absolute-git-dir"]);
    let head = Path::new(&admin).join("HEAD");
    fs::remove_file(&head).unwrap();
    pipe(&head);
    let refusal = provost.refusal("get_attempt_changes", &changes(&attempt));
    assert_eq!(refusal["code"], "workspace_failed", "{refusal}");
}

#[test]
fn a_file_of_any_size_costs_a_look() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "write small.txt x");
    attempt.settled();
    let worktree = worktree(&provost, &attempt);
    File::create(worktree.join("huge")).unwrap().set_len(HUGE).unwrap();
    let answer = provost.call("get_attempt_changes", &changes(&attempt));
    assert_eq!(
        (&answer["blocked"], &answer["blocked_reason"]),
        (&json!(true), &json!("threshold_exceeded"))
    );
    assert_eq!(answer["summary"]["total_bytes"], HUGE + 2);
    let forced = json!({"attempt_id": attempt.id, "force": true});
    let answer = provost.call("get_attempt_changes", &forced);
    assert_eq!(
        answer["files"][0],
        json!({"path": "app/huge", "status": "added", "added": 0, "deleted": 0})
    );
    assert!(answer["hint"].as_str().unwrap().contains("app/huge"), "{answer}");
    let patch = |path: &str| {
        provost.call("get_attempt_patch", &json!({"attempt_id": attempt.id, "paths": [path]}))
    };
    assert!(patch("app/small.txt")["patch"].as_str().unwrap().contains("+x"));
    assert_eq!(patch("app/huge")["blocked_reason"], "size_exceeded");
    let done = json!({"taskId": "TASK-001", "status": "done"});
    let done = provost.worker(&worktree).ask("reportTaskDone", &done);
    assert_eq!(done["result"]["success"], true, "{done}");
}

#[test]
fn what_is_too_large_to_be_checked_is_refused_by_its_name() {
    let provost = Provost::new().config("[projects.scratch.checks]\ntest = 'true'").started();
    let attempt = provost.board().start("fake", "write small.txt x");
    attempt.settled();
    let worktree = worktree(&provost, &attempt);
    File::create(worktree.join("huge")).unwrap().set_len(HUGE).unwrap();
    let report = json!({"taskId": "TASK-001", "status": "done"});
    let mut worker = provost.worker(&worktree);
    let error = worker.ask("reportTaskDone", &report)["error"]["data"]["error"].clone();
    assert_eq!((&error["code"], &error["severity"]), (&json!("WORKSPACE_FAILED"), &json!("HIGH")));
    assert!(error["message"].as_str().unwrap().contains("huge"), "{error}");
    fs::remove_file(worktree.join("huge")).unwrap();
    assert_eq!(worker.ask("reportTaskDone", &report)["result"]["success"], true);
}

#[test]
fn readings_of_long_files_leave_room_for_all_else() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say ready\nhang");
    attempt.has_said("ready");
    File::create(worktree(&provost, &attempt).join("big")).unwrap().set_len(8 << 40).unwrap();
    let read = json!({"attempt_id": attempt.id, "path": "app/big", "start_line": 1_000_000});
    let mut clients: Vec<_> = (0..3).map(|_| provost.connect()).collect();
    for client in &mut clients {
        for _ in 0..173 {
            client.begin("get_attempt_file", &read);
        }
    }
    // A new connection, and a stop over it.
    assert_eq!(provost.verb(["ps"]).code, 0);
    assert_eq!(
        provost.connect().call("stop_attempt", &changes(&attempt)).output()["stopped"],
        true
    );
    drop(clients);
    let answer = provost.call("get_attempt_file", &read);
    assert_eq!(answer["blocked_reason"], "size_exceeded", "{answer}");
    let hint = answer["hint"].as_str().unwrap();
    assert!(hint.contains("offset = 67108864"), "{hint}");
    let at = json!({"attempt_id": attempt.id, "path": "app/big", "offset": 67_108_864});
    assert_eq!(provost.call("get_attempt_file", &at)["blocked"], false);
}

#[test]
fn only_branches_are_branches() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    repo.commit("second", "x");
    repo.git(&["tag", "v1"]);
    let other = provost.repo("other");
    other.commit("second", "x");
    let task = board.task("x");
    for name in ["main~1", "main^", "main@{0}", "refs/tags/v1", "v1", "HEAD", "-x"] {
        let create = json!({"name": "x", "repos": [{"path": other.path, "target_branch": name}]});
        let add =
            json!({"project_id": board.project_id, "path": other.path, "target_branch": name});
        let start = json!({"task_id": task, "executor": "fake",
            "repos": [{"repo_id": board.repo_ids[0], "target_branch": name}]});
        for (tool, arguments) in
            [("create_project", create), ("add_repo", add), ("start_task_attempt", start)]
        {
            let refusal = provost.refusal(tool, &arguments);
            assert_eq!(refusal["code"], "branch_not_found", "{tool} {name}: {refusal}");
        }
    }
}

#[test]
fn a_repository_with_a_line_feed_in_its_name_is_refused() {
    let provost = Provost::running();
    let board = provost.board();
    let odd = provost.repo("a\nb");
    let add = json!({"project_id": board.project_id, "path": odd.path});
    let create = json!({"name": "x", "repos": [{"path": odd.path}]});
    for (tool, arguments) in [("add_repo", add), ("create_project", create)] {
        let refusal = provost.refusal(tool, &arguments);
        assert_eq!(refusal["code"], "invalid_argument", "{refusal}");
        assert!(refusal["message"].as_str().unwrap().contains("control character"), "{refusal}");
    }
}
