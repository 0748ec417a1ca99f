//! `finish_attempt` and its verbs: what becomes of an attempt's work. All of it reaches its
//! branch, or nothing has changed, also when the daemon dies in between.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Answer, Attempt, Board, Provost, Repo, eventually, wait_until};

/// An attempt that did what its prompt says.
pub fn attempt<'p>(board: &Board<'p>, prompt: &str) -> Attempt<'p> {
    let attempt = board.start("fake", prompt);
    assert_eq!(attempt.settled()["state"], "completed");
    attempt
}

pub fn arguments(attempt: &Attempt, action: &str, more: &Value) -> Value {
    let mut arguments = json!({"attempt_id": attempt.id, "action": action});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

pub fn finish(provost: &Provost, attempt: &Attempt, action: &str, more: &Value) -> Value {
    provost.call("finish_attempt", &arguments(attempt, action, more))
}

pub fn refused(provost: &Provost, attempt: &Attempt, action: &str, more: &Value) -> Value {
    provost.refusal("finish_attempt", &arguments(attempt, action, more))
}

pub fn worktree(attempt: &Attempt) -> PathBuf {
    attempt.started["worktree"].as_str().unwrap().into()
}

pub fn tip(repo: &Repo, name: &str) -> String {
    repo.git(&["rev-parse", name])
}

/// A person's checkout, and that of the attempt, are as after a commit.
#[track_caller]
pub fn is_clean(repo: &Repo, attempt: &Attempt) {
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    let worktree = worktree(attempt);
    assert_eq!(repo.git(&["-C", worktree.to_str().unwrap(), "status", "--porcelain"]), "");
    is_unlocked(repo, &[&repo.path, &worktree]);
}

/// No lock or copy of an index is left in any checkout.
#[track_caller]
fn is_unlocked(repo: &Repo, checkouts: &[&PathBuf]) {
    for checkout in checkouts {
        let checkout = checkout.to_str().unwrap();
        let admin = repo.git(&["-C", checkout, "rev-parse", "--absolute-git-dir"]);
        for entry in fs::read_dir(&admin).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(name != "index.lock" && !name.starts_with("provost."), "{name} is left");
        }
    }
}

#[test]
fn a_commit_has_all_that_git_does_not_ignore_and_is_the_persons() {
    let provost = Provost::running();
    let board = provost.board();
    board.repo().commit(".gitignore", "*.log\n");
    let attempt = attempt(&board, "write new.txt text\nwrite a.log noise\nsay all is done");
    let done = finish(&provost, &attempt, "commit", &json!({}));
    assert_eq!((&done["state"], &done["hint"]), (&json!("done"), &Value::Null), "{done}");
    let (repo, receipt) = (board.repo(), &done["repos"][0]);
    let branch = attempt.started["workspace_branch"].as_str().unwrap();
    assert_eq!(
        (&receipt["committed"], &receipt["commit"]),
        (&json!(true), &json!(tip(repo, branch)))
    );
    assert_eq!((&receipt["target_branch"], &receipt["merged"]), (&Value::Null, &json!(false)));
    assert_eq!(repo.git(&["ls-tree", "--name-only", branch]), ".gitignore\nREADME.md\nnew.txt");
    let shown = repo.git(&["log", "-1", "--format=%an <%ae>%n%B", branch]);
    assert!(shown.starts_with("Test <test@example.invalid>\ndo something\n\n"), "{shown}");
    let trailers = format!("Provost-Attempt: {}\nAgent: fake", attempt.id);
    assert!(shown.contains("all is done") && shown.ends_with(&trailers), "{shown}");
    is_clean(repo, &attempt);

    let again = finish(&provost, &attempt, "commit", &json!({"message": "more"}));
    assert_eq!(again["repos"][0]["committed"], false, "there is nothing to commit");
    assert_eq!(again["repos"][0]["commit"], receipt["commit"]);
}

#[test]
fn a_lock_of_a_git_that_was_killed_is_set_aside_and_another_programs_is_not() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let attempt = attempt(&board, "write new.txt text");
    let worktree = worktree(&attempt);
    let admin = repo.git(&["-C", worktree.to_str().unwrap(), "rev-parse", "--absolute-git-dir"]);
    fs::write(PathBuf::from(admin).join("index.lock"), "").unwrap();
    assert_eq!(finish(&provost, &attempt, "commit", &json!({}))["state"], "done");
    is_clean(repo, &attempt);
    let lock = repo.path.join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let refusal = refused(&provost, &attempt, "merge", &json!({}));
    assert_eq!(refusal["code"], "checkout_in_the_way");
    assert!(refusal["message"].as_str().unwrap().contains("index.lock"), "{refusal}");
    fs::remove_file(lock).expect("it is not ours");
    assert_eq!(finish(&provost, &attempt, "merge", &json!({}))["state"], "done");
}

/// Merges work that is not committed, and looks at the result.
fn merge_by(strategy: &str) {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let attempt = attempt(&board, "write new.txt text");
    if strategy != "fast_forward" {
        repo.commit("other.txt", "other\n");
    }
    // What does not concern the merge stays.
    fs::write(repo.path.join("untracked.txt"), "mine").unwrap();
    let before = tip(repo, "main");
    let done =
        finish(&provost, &attempt, "merge", &json!({"strategy": strategy, "message": "Do it"}));
    assert_eq!(done["state"], "done", "{done}");
    let (receipt, after) = (&done["repos"][0], tip(repo, "main"));
    assert_eq!(
        (&receipt["target_before"], &receipt["target_after"]),
        (&json!(before), &json!(after))
    );
    assert_eq!(receipt["tree"], tip(repo, "main^{tree}"));
    assert_eq!((&receipt["merged"], &receipt["target_branch"]), (&json!(true), &json!("main")));
    let commit = receipt["commit"].as_str().unwrap();
    let shape = repo.git(&["log", "-1", "--format=%P|%s", "main"]);
    let expected = match strategy {
        "merge" => format!("{before} {commit}|Do it"),
        "squash" | "rebase" => format!("{before}|Do it"),
        _ => {
            assert_eq!(after, commit);
            format!("{before}|Do it")
        }
    };
    assert_eq!(shape, expected);
    assert_eq!(fs::read_to_string(repo.path.join("new.txt")).unwrap().trim(), "text");
    assert_eq!(repo.git(&["status", "--porcelain"]), "?? untracked.txt");
    fs::remove_file(repo.path.join("untracked.txt")).unwrap();
    is_clean(repo, &attempt);

    let more = json!({"strategy": strategy, "request_id": "again"});
    let again = finish(&provost, &attempt, "merge", &more);
    assert_eq!((&again["state"], &again["repos"][0]["merged"]), (&json!("done"), &json!(true)));
    assert_eq!(tip(repo, "main"), after, "the target has all of it");
}

#[test]
fn a_merge_makes_a_commit_with_both_as_parents() {
    merge_by("merge");
}

#[test]
fn a_squash_makes_one_commit() {
    merge_by("squash");
}

#[test]
fn a_rebase_replays_the_commits() {
    merge_by("rebase");
}

#[test]
fn a_fast_forward_moves_the_target_to_the_attempts_commit() {
    merge_by("fast_forward");
}

#[test]
fn a_target_with_commits_of_its_own_is_not_forwarded_and_another_strategy_is_named() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = attempt(&board, "write new.txt text");
    let theirs = board.repo().commit("other.txt", "other\n");
    let refusal = refused(&provost, &attempt, "merge", &json!({"strategy": "fast_forward"}));
    assert_eq!(refusal["code"], "invalid_argument");
    let hint = refusal["hint"].as_str().unwrap();
    assert!(hint.contains("finish_attempt again with strategy = \"rebase\""), "{refusal}");
    assert_eq!(tip(board.repo(), "main"), theirs);
    is_clean(board.repo(), &attempt);
    let done = finish(&provost, &attempt, "merge", &json!({"strategy": "rebase"}));
    assert_eq!(done["state"], "done");
}

#[test]
fn a_conflict_is_data_and_its_hint_leads_to_a_merge() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let attempt = attempt(&board, "write README.md mine");
    let theirs = repo.commit("README.md", "theirs\n");
    let once = json!({"request_id": "one"});
    let done = finish(&provost, &attempt, "merge", &once);
    assert_eq!(done["state"], "conflicts", "{done}");
    let conflict = &done["conflicts"][0];
    assert_eq!(
        (&conflict["path"], &conflict["kind"]),
        (&json!("app/README.md"), &json!("contents"))
    );
    let ours = format!("100644 {}", tip(repo, "main:README.md"));
    assert_eq!(conflict["ours"], ours);
    let hunks = conflict["hunks"].as_str().unwrap();
    assert!(hunks.contains("mine") && hunks.contains("theirs"), "{hunks}");
    assert_eq!(tip(repo, "main"), theirs);
    assert_eq!(done["repos"][0]["merged"], false);
    is_clean(repo, &attempt);
    assert_eq!(finish(&provost, &attempt, "merge", &once), done, "the same call");

    let hint = done["hint"].as_str().unwrap();
    assert!(hint.starts_with("Call follow_up with action = \"queue\""), "{hint}");
    assert!(hint.contains("main") && hint.contains("README.md"), "{hint}");
    let resolve = "run git merge --quiet main; echo both >README.md; git add --all; \
                   git commit --quiet --message resolved";
    let queue = json!({"attempt_id": attempt.id, "action": "queue", "prompt": resolve});
    provost.call("follow_up", &queue);
    attempt.until("it has resolved them", |status| {
        status["phase"] == "settled" && status["queued_follow_ups"] == 0
    });
    let done = finish(&provost, &attempt, "merge", &json!({"request_id": "two"}));
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(fs::read_to_string(repo.path.join("README.md")).unwrap(), "both\n");
    is_clean(repo, &attempt);
}

#[test]
fn a_checkout_in_the_way_is_named_and_left_alone_and_the_same_call_works_later() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let attempt = attempt(&board, "write README.md changed\nwrite new.txt text");
    let (before, readme) = (tip(repo, "main"), repo.path.join("README.md"));
    fs::write(&readme, "precious\n").unwrap();
    let once = json!({"request_id": "one"});
    let refusal = refused(&provost, &attempt, "merge", &once);
    assert_eq!(refusal["code"], "checkout_in_the_way");
    assert!(refusal["message"].as_str().unwrap().contains("README.md"), "{refusal}");
    assert_eq!(refusal["details"]["checkout"], repo.path.canonicalize().unwrap().to_str().unwrap());
    assert_eq!(tip(repo, "main"), before);
    assert_eq!(fs::read_to_string(&readme).unwrap(), "precious\n");
    assert_eq!(repo.git(&["status", "--porcelain"]), " M README.md");
    is_unlocked(repo, &[&repo.path]);
    repo.git(&["checkout", "--quiet", "README.md"]);
    assert_eq!(finish(&provost, &attempt, "merge", &once)["state"], "done");
    assert!(repo.path.join("new.txt").exists());
    is_clean(repo, &attempt);
}

/// A home whose git takes its time, as on a slow disk.
fn with_slow_git() -> Provost {
    let provost = Provost::new();
    let bin = provost.path("bin");
    fs::create_dir(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let real = path.split(':').map(|dir| PathBuf::from(dir).join("git")).find(|it| it.exists());
    provost.script("bin/git", &format!("sleep 0.3\nexec {} \"$@\"", real.unwrap().display()));
    provost.variable("PATH", &format!("{}:{path}", bin.display())).started()
}

#[test]
fn two_homes_merge_into_one_checkout_where_git_is_slow() {
    let homes = [with_slow_git(), with_slow_git()];
    let [one, other] = &homes;
    let board = one.board();
    let project = json!({"name": "the same", "repos": [{"path": board.repo().path}]});
    let project_id = other.call("create_project", &project)["project_id"].as_str().unwrap().into();
    let same = Board { provost: other, project_id, repo_ids: Vec::new(), repos: Vec::new() };
    let files = [0, 1, 2, 3].map(|at| format!("{at}.txt"));
    let started: Vec<Attempt> = (files.iter().enumerate())
        .map(|(at, file)| [&board, &same][at % 2].start("fake", &format!("write {file} {file}")))
        .collect();
    for attempt in &started {
        assert_eq!(attempt.settled()["state"], "completed");
    }
    std::thread::scope(|scope| {
        for (at, attempt) in started.iter().enumerate() {
            let asked = arguments(attempt, "merge", &json!({"request_id": format!("merge-{at}")}));
            let home = [one, other][at % 2];
            scope.spawn(move || {
                // A merge that finds the target moved too often, or locked, may be refused for now.
                let answer = eventually("it is merged", || answer_for_now(home, &asked));
                assert_eq!(answer["state"], "done", "{answer}");
            });
        }
    });
    let repo = board.repo();
    let listed = repo.git(&["ls-tree", "--name-only", "main"]);
    assert_eq!(listed, "0.txt\n1.txt\n2.txt\n3.txt\nREADME.md");
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    for file in &files {
        assert_eq!(fs::read_to_string(repo.path.join(file)).unwrap().trim_end(), file);
    }
    is_unlocked(repo, &[&repo.path]);
    repo.git(&["fsck", "--strict", "--no-dangling"]);
}

/// What a finish answers; `None`: it is refused for now.
fn answer_for_now(home: &Provost, asked: &Value) -> Option<Value> {
    let answer = home.answer("finish_attempt", asked);
    if !answer.is_error {
        return Some(answer.output());
    }
    let refusal = answer.refusal();
    assert_eq!(refusal["retryable"], true, "{refusal}");
    None
}

#[test]
fn a_file_in_git_lfs_keeps_its_content_when_its_worktree_is_gone() {
    let provost = Provost::new();
    // A box opens what the search path names.
    let tools = provost.path("tools");
    fs::create_dir(&tools).unwrap();
    let search = format!("{}:{}", std::env::var("PATH").unwrap(), tools.display());
    let provost = provost.variable("PATH", &search).started();
    // Stores the content where git-lfs does.
    let store = "store=$(git rev-parse --git-common-dir)/lfs/objects; mkdir -p \"$store\"";
    let clean = format!(
        "{store}; cat >\"$store/new\"; id=$(git hash-object --no-filters \"$store/new\"); \
         mv \"$store/new\" \"$store/$id\"; echo \"oid sha256:$id\""
    );
    let clean = provost.script("tools/clean", &clean);
    let smudge = format!("{store}; read -r _ id; cat \"$store/${{id#*:}}\"");
    let smudge = provost.script("tools/smudge", &smudge);
    let (clean, smudge) = (clean.display(), smudge.display());
    provost.person_configures(&format!(
        "[filter \"lfs\"]\n\tclean = {clean}\n\tsmudge = {smudge}\n\trequired = true\n"
    ));
    let board = provost.board();
    let repo = board.repo();
    repo.commit(".gitattributes", "*.bin filter=lfs\n");
    let other = attempt(&board, "write y.txt y");
    let attempt = attempt(&board, "write x.bin precious");
    let done = finish(&provost, &attempt, "apply_to", &json!({"into": other.id}));
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(fs::read_to_string(worktree(&other).join("x.bin")).unwrap(), "precious\n");
    let done = finish(&provost, &attempt, "merge", &json!({}));
    assert_eq!(done["state"], "done", "{done}");
    assert!(repo.git(&["show", "main:x.bin"]).starts_with("oid sha256:"));
    let there = || fs::read_to_string(repo.path.join("x.bin")).unwrap();
    assert_eq!(there(), "precious\n");
    is_clean(repo, &attempt);
    fs::remove_dir_all(worktree(&attempt)).unwrap();
    fs::remove_file(repo.path.join("x.bin")).unwrap();
    repo.git(&["checkout", "--quiet", "x.bin"]);
    assert_eq!(there(), "precious\n");
}

#[test]
fn a_filter_that_keeps_content_in_the_repository_is_named_and_nothing_is_committed() {
    let provost = Provost::running();
    let store = "store=$(git rev-parse --git-common-dir)/kept; mkdir -p \"$store\"";
    let clean = provost.script("clean", &format!("{store}; cat >\"$store/content\"; echo kept"));
    provost.person_configures(&format!("[filter \"keep\"]\n\tclean = {}\n", clean.display()));
    let board = provost.board();
    board.repo().commit(".gitattributes", "*.bin filter=keep\n");
    let attempt = attempt(&board, "write x.bin precious");
    let before = tip(board.repo(), "main");
    let refusal = refused(&provost, &attempt, "merge", &json!({}));
    assert!(refusal["message"].as_str().unwrap().contains("folder kept"), "{refusal}");
    assert_eq!(tip(board.repo(), "main"), before);
    assert_eq!(fs::read_to_string(worktree(&attempt).join("x.bin")).unwrap(), "precious\n");
}

#[test]
fn of_several_repositories_all_move_or_none() {
    let provost = Provost::running();
    let board = Board::new(&provost, vec![provost.repo("app"), provost.repo("lib")]);
    let attempt = attempt(&board, "write app/new.txt text\nwrite lib/README.md changed");
    let [app, lib] = &board.repos[..] else { panic!("there are two") };
    let before = [tip(app, "main"), tip(lib, "main")];
    fs::write(lib.path.join("README.md"), "precious\n").unwrap();
    let refusal = refused(&provost, &attempt, "merge", &json!({}));
    assert_eq!(refusal["code"], "checkout_in_the_way");
    assert_eq!([tip(app, "main"), tip(lib, "main")], before);
    assert_eq!(app.git(&["status", "--porcelain"]), "");
    lib.git(&["checkout", "--quiet", "README.md"]);
    let done = finish(&provost, &attempt, "merge", &json!({"strategy": "squash"}));
    assert_eq!(done["state"], "done", "{done}");
    assert!(app.path.join("new.txt").exists());
    assert_eq!(lib.git(&["status", "--porcelain"]), "");
}

/// A home whose project `scratch` has one check, a script.
fn with_check(script: &str) -> Provost {
    let provost = Provost::new();
    let check = provost.script("check.sh", script);
    provost.config(&format!("[projects.scratch.checks]\ntest = '{}'", check.display())).started()
}

#[test]
fn checks_run_on_exactly_the_result_and_if_they_fail_nothing_moves() {
    let provost =
        with_check("git rev-parse HEAD^{tree} > \"$(dirname \"$0\")/tree\"\n! test -e bad.txt");
    let board = provost.board();
    let repo = board.repo();
    let one = attempt(&board, "write bad.txt x");
    let theirs = repo.commit("other.txt", "other\n");
    let done = finish(&provost, &one, "merge", &json!({}));
    assert_eq!(done["state"], "checks_failed", "{done}");
    assert_eq!(done["checks"][0]["outcome"], "failed");
    let hint = done["hint"].as_str().unwrap();
    assert!(hint.contains("check `test` exited with 1"), "{hint}");
    assert_eq!(tip(repo, "main"), theirs);
    is_clean(repo, &one);
    let status = one.status();
    assert_eq!((&status["state"], &status["queued_follow_ups"]), (&json!("completed"), &json!(0)));

    let other = attempt(&board, "write good.txt x");
    let done = finish(&provost, &other, "merge", &json!({}));
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(done["checks"][0]["outcome"], "passed");
    let checked = fs::read_to_string(provost.path("tree")).unwrap();
    assert_eq!(done["repos"][0]["tree"], checked.trim());
    assert_eq!(checked.trim(), tip(repo, "main^{tree}"));
}

#[test]
fn a_finish_that_takes_longer_is_reported_as_open_and_a_turn_waits_for_it() {
    let gate = "until [ -e \"$(dirname \"$0\")/gate\" ]; do sleep 0.02; done";
    let provost = with_check(gate);
    let board = provost.board();
    let attempt = attempt(&board, "write new.txt text");
    let once = json!({"request_id": "one", "timeout_ms": 1});
    let open = finish(&provost, &attempt, "merge", &once);
    assert_eq!((&open["state"], &open["repos"][0]["merged"]), (&json!("open"), &json!(false)));
    assert!(open["hint"].as_str().unwrap().contains("wait_for_attempts"), "{open}");
    let other = refused(&provost, &attempt, "commit", &json!({}));
    assert_eq!(other["code"], "attempt_running");
    let hint = other["hint"].as_str().unwrap();
    assert!(hint.contains("get_attempt_status until its finish is not open"), "{other}");
    assert_eq!(attempt.status()["finish"]["state"], "open", "what the hint waits for");
    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": "write late.txt x"});
    provost.call("follow_up", &send);
    attempt.in_phase("preparing");
    provost.kill_and_start();
    attempt.in_phase("preparing");
    fs::write(provost.path("gate"), "").unwrap();
    let done = finish(&provost, &attempt, "merge", &json!({"request_id": "one"}));
    assert_eq!((&done["state"], &done["finish_id"]), (&json!("done"), &open["finish_id"]));
    attempt.settled();
    let listed = board.repo().git(&["ls-tree", "--name-only", "main"]);
    assert_eq!(listed, "README.md\nnew.txt", "the later turn's file is not in it");
}

#[test]
fn the_same_call_is_answered_the_same_and_another_payload_is_refused() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = attempt(&board, "write new.txt text");
    let merge = arguments(&attempt, "merge", &json!({"request_id": "one"}));
    let first = provost.answer("finish_attempt", &merge);
    assert!(!first.is_error && !first.is_deduplicated, "{}", first.text);
    let again = provost.answer("finish_attempt", &merge);
    assert!(again.is_deduplicated);
    assert_eq!(again.text, first.text);
    let patient = arguments(&attempt, "merge", &json!({"request_id": "one", "timeout_ms": 9000}));
    assert_eq!(provost.answer("finish_attempt", &patient).text, first.text);
    let other = arguments(&attempt, "merge", &json!({"request_id": "one", "strategy": "squash"}));
    assert_eq!(provost.refusal("finish_attempt", &other)["code"], "idempotency_conflict");
}

#[test]
fn what_can_not_be_finished_says_why() {
    let provost = Provost::running();
    let board = provost.board();
    let running = board.start("fake", "say up\nhang");
    running.has_said("up");
    let refusal = refused(&provost, &running, "commit", &json!({}));
    assert_eq!(refusal["code"], "attempt_running");
    assert!(refusal["hint"].as_str().unwrap().contains("wait_for_attempts"), "{refusal}");
    running.stop();
    let ended = attempt(&board, "write new.txt text");
    let none = refused(&provost, &ended, "merge", &json!({"into": "nowhere"}));
    assert_eq!(
        (&none["code"], &none["details"]["path"]),
        (&json!("branch_not_found"), &json!("into"))
    );
    for other in [&running, &ended] {
        let branch = other.started["workspace_branch"].as_str().unwrap();
        let refusal = refused(&provost, &ended, "merge", &json!({"into": branch}));
        assert_eq!(refusal["code"], "invalid_argument", "{refusal}");
        assert!(refusal["message"].as_str().unwrap().contains("branch of an attempt"));
    }
    let strategy = refused(&provost, &ended, "commit", &json!({"strategy": "merge"}));
    assert_eq!(strategy["details"]["path"], "strategy");
    board.repo().git(&["branch", "release"]);
    let done = finish(&provost, &ended, "merge", &json!({"into": "release"}));
    assert_eq!(done["repos"][0]["target_branch"], "release");
    assert!(board.repo().git(&["ls-tree", "--name-only", "release"]).contains("new.txt"));
    assert!(!board.repo().path.join("new.txt").exists(), "main is checked out, and stays");
}

/// The steps of a merge of work that is not committed. Its steps are written down in this
/// order: committed, computed, no checks, moved.
const STEPS: &[&str] = &[
    "finish.written",
    "finish.committed",
    "commit.locked",
    "commit.made",
    "commit.moved",
    "finish_step.written",
    "finish_step.committed",
    "finish_step.written@2",
    "finish_step.committed@2",
    "finish_step.written@3",
    "finish_step.committed@3",
    "advance.locked",
    "advance.switched",
    "advance.moved",
    "advance.kept",
    "finish_step.written@4",
    "finish_step.committed@4",
    "finish_end.written",
    "finish_end.committed",
    "finish_attempt.answering",
];

/// Makes a call whose daemon dies at a failpoint, and makes it twice again with another one.
pub fn cut_off(provost: &Provost, failpoint: &str, arguments: &Value) -> Answer {
    provost.kill();
    provost.start_to_die_at(failpoint);
    let mut client = provost.connect();
    let id = client.begin("finish_attempt", arguments);
    assert_eq!(provost.ended(), None, "{failpoint}: killed by a signal");
    let before = client.outcome(id);
    provost.start();
    let after = provost.answer("finish_attempt", arguments);
    assert!(!after.is_error, "{failpoint}: {}", after.text);
    let again = provost.answer("finish_attempt", arguments);
    assert!(again.is_deduplicated, "{failpoint}");
    for answer in before.iter().chain([&again]) {
        assert_eq!(answer.text, after.text, "{failpoint}");
    }
    after
}

#[test]
fn a_merge_cut_off_between_any_two_steps_is_completed_once() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    for (n, failpoint) in STEPS.iter().enumerate() {
        let attempt = attempt(&board, &format!("write file{n} text\nwrite README.md {n}"));
        let merge = arguments(&attempt, "merge", &json!({"request_id": failpoint}));
        let done = cut_off(&provost, failpoint, &merge).output();
        assert_eq!(done["state"], "done", "{failpoint}: {done}");
        let receipt = &done["repos"][0];
        assert_eq!(receipt["committed"], true, "{failpoint}");
        assert_eq!(receipt["target_after"], tip(repo, "main"), "{failpoint}");
        assert_eq!(repo.git(&["rev-list", "--count", "main"]), format!("{}", 2 * n + 3));
        assert!(repo.path.join(format!("file{n}")).exists(), "{failpoint}");
        is_clean(repo, &attempt);
    }
}

#[test]
fn a_merge_that_git_can_not_go_on_with_says_why_until_it_can() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let attempt = attempt(&board, "write new.txt text");
    let merge = arguments(&attempt, "merge", &json!({"request_id": "r", "timeout_ms": 1}));
    provost.kill();
    provost.start_to_die_at("advance.moved");
    provost.connect().begin("finish_attempt", &merge);
    assert_eq!(provost.ended(), None, "killed by a signal");
    let (git, away) = (repo.path.join(".git"), repo.path.join("away"));
    fs::rename(&git, &away).unwrap();
    provost.start();
    attempt.until("the reason", |status| {
        let next = status["next_action"].as_str().unwrap();
        next.contains("branch main can't be moved") && next.contains("it is tried again")
    });
    let open = provost.call("finish_attempt", &merge);
    assert_eq!(open["state"], "open", "{open}");
    assert!(open["waits_for"].as_str().unwrap().contains("not a git repository"), "{open}");
    fs::rename(&away, &git).unwrap();
    let done = eventually("the end", || {
        let answer = provost.call("finish_attempt", &merge);
        (answer["state"] != "open").then_some(answer)
    });
    assert_eq!((&done["state"], &done["waits_for"]), (&json!("done"), &Value::Null), "{done}");
    assert_eq!(done["repos"][0]["target_after"], tip(repo, "main"));
    is_clean(repo, &attempt);
}

#[test]
fn checks_cut_off_between_any_two_steps_are_run_for_the_finish_that_asked() {
    let provost = with_check("exit 0");
    let board = provost.board();
    for failpoint in [
        "finish_checks.written",
        "finish_checks.committed",
        "checkout.made",
        "check.ended",
        "receipt.committed",
        "concluded.written",
        "concluded.committed",
    ] {
        let attempt = attempt(&board, &format!("write {failpoint} text"));
        let merge = arguments(&attempt, "merge", &json!({"request_id": failpoint}));
        let done = cut_off(&provost, failpoint, &merge).output();
        assert_eq!(done["state"], "done", "{failpoint}: {done}");
        assert_eq!(done["checks"][0]["outcome"], "passed", "{failpoint}");
        is_clean(board.repo(), &attempt);
    }
}

#[test]
fn a_person_commits_and_merges_by_verbs() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let one = attempt(&board, "write new.txt text");
    let done = provost.verb(["commit", &one.id, "--message", "By hand"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.starts_with("app committed: "), "{done:?}");
    let branch = one.started["workspace_branch"].as_str().unwrap();
    assert_eq!(repo.git(&["log", "-1", "--format=%s", branch]), "By hand");
    let done = provost.verb(["merge", &one.id, "--strategy", "squash"]);
    assert_eq!(done.code, 0, "{done:?}");
    let expected = format!("app main is at {}", &tip(repo, "main")[..12]);
    assert!(done.stdout.contains(&expected), "{done:?}");
    let other = attempt(&board, "write README.md mine");
    repo.commit("README.md", "theirs\n");
    let output = provost.verb(["merge", &other.id]);
    assert_eq!(output.code, 5, "{output:?}");
    assert!(output.stdout.contains("conflict (contents) in app/README.md"), "{output:?}");
    let output = provost.verb(["merge", &other.id, "--into", "nowhere"]);
    assert_eq!(output.code, 4, "{output:?}");
    assert!(output.stderr.contains("--into"), "{output:?}");
}

/// The steps of a discard after those that every finish begins with.
const DISCARD: &[&str] = &[
    "finish.committed",
    "collect.examined",
    "collect.marked",
    "collect.moved",
    "collect.forgotten",
    "finish_step.written",
    "finish_end.committed",
];

/// Waits until nothing of it is alive: for a moment its settled turn still is.
pub fn rests(provost: &Provost, attempt: &Attempt) {
    wait_until("nothing of it is alive", || {
        let report = provost.verb(["gc", "--json"]).json();
        let mut listed = report["attempts"].as_array().unwrap().iter();
        let it = listed.find(|it| it["attempt_id"] == attempt.id);
        it.is_some_and(|it| it["reason"] != "something that it started is alive")
    });
}

#[test]
fn a_discard_cut_off_anywhere_takes_the_worktree_and_keeps_the_work() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    for (n, failpoint) in DISCARD.iter().enumerate() {
        let attempt = attempt(&board, &format!("write file{n} precious"));
        let discard = arguments(&attempt, "discard", &json!({"request_id": failpoint}));
        rests(&provost, &attempt);
        let done = cut_off(&provost, failpoint, &discard).output();
        assert_eq!(done["state"], "done", "{failpoint}: {done}");
        assert!(!worktree(&attempt).exists(), "{failpoint}");
        let snapshot = done["repos"][0]["snapshot"].as_str().unwrap();
        assert!(repo.git(&["show", &format!("{snapshot}:file{n}")]).contains("precious"));
        assert_eq!(repo.worktrees().len(), 1, "{failpoint}: git has forgotten it");
        assert_eq!(repo.attempt_branches().len(), n + 1, "{failpoint}: the branch stays");
    }
    let other = attempt(&board, "write new.txt text");
    rests(&provost, &other);
    let done = provost.verb(["rm", &other.id]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("went to the trash; commit "), "{done:?}");
    // Again it changes nothing more, and is answered with the snapshot that is there.
    let again = finish(&provost, &other, "discard", &json!({}));
    assert_eq!(again["state"], "done", "{again}");
    let snapshot = repo.git(&["rev-parse", &format!("refs/provost/snapshots/{}", other.id)]);
    assert_eq!(again["repos"][0]["snapshot"], snapshot.trim());
    let hint = refused(&provost, &other, "merge", &json!({}))["hint"].clone();
    assert!(hint.as_str().unwrap().contains("action = \"send\" and prompt = "), "{hint}");
}
