//! States of a repository that a person makes in a second, and the way out of each: the refusal's
//! hint is followed word for word.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::finish::{attempt, finish, refused, rests, tip};
use crate::harness::{Board, Done, Provost, Repo, wait_until};

/// `provost ARGS` in a folder.
fn verb_in(provost: &Provost, folder: &Path, args: &[&str]) -> Done {
    let mut command = provost.command(args);
    command.current_dir(folder);
    Provost::done(command)
}

/// A verb that goes on while the test does something.
fn begun(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The command in a hint's first backquotes, and what follows it there.
fn commands(hint: &str) -> Vec<&str> {
    hint.split('`').skip(1).step_by(2).collect()
}

fn hint(refusal: &Value) -> &str {
    refusal["hint"].as_str().unwrap()
}

#[test]
fn a_tag_with_the_name_of_the_branch_changes_no_name() {
    let provost = Provost::running();
    let repo = provost.repo("app");
    repo.git(&["branch", "other"]);
    repo.git(&["tag", "other"]);
    repo.git(&["tag", "main"]);
    let done = verb_in(&provost, &repo.path, &["init"]);
    assert_eq!(done.code, 0, "{done:?}");
    let projects = provost.verb(["project", "list"]).stdout;
    assert!(projects.contains("app@main"), "{projects}");
    let done = verb_in(&provost, &repo.path, &["init", "--target-branch", "othr"]);
    assert!(done.code != 0 && done.stderr.contains("--target-branch other"), "{done:?}");
    let attempt = {
        let mut run = provost.command(&["--json", "run", "--executor", "fake", "say hi"]);
        run.current_dir(&repo.path);
        Provost::done(run).json()["attempt_id"].as_str().unwrap().to_owned()
    };
    assert_eq!(provost.verb(["wait", &attempt]).code, 0);
    let doctor = provost.verb(["doctor", "--json"]).stdout;
    assert!(doctor.contains("and their branches are there"), "{doctor}");
}

#[test]
fn the_branch_that_attempts_start_from_can_be_changed_after_the_old_one_was_renamed() {
    let provost = Provost::running();
    let repo = provost.repo("app");
    assert_eq!(verb_in(&provost, &repo.path, &["init"]).code, 0);
    repo.git(&["branch", "--move", "main", "trunk"]);
    let run = ["run", "--executor", "fake", "say hi"];
    let refused = verb_in(&provost, &repo.path, &run);
    assert!(refused.code != 0, "{refused:?}");
    let hint = refused.stderr.lines().last().unwrap();
    let way_out = commands(hint)[0].strip_prefix("provost ").unwrap_or_else(|| panic!("{hint}"));
    let changed = verb_in(&provost, &repo.path, &way_out.split(' ').collect::<Vec<_>>());
    assert!(changed.code == 0 && changed.stdout.contains("trunk (it was main)"), "{changed:?}");
    assert!(provost.verb(["project", "list"]).stdout.contains("app@trunk"));
    let started = verb_in(&provost, &repo.path, &run);
    assert_eq!(started.code, 0, "{started:?}");
    let again = verb_in(&provost, &repo.path, &["init", "--target-branch", "trunk"]);
    assert!(again.stdout.contains("already registered, with target branch trunk"), "{again:?}");
    let none = verb_in(&provost, &repo.path, &["init", "--target-branch", "none"]);
    assert!(none.code != 0 && none.stderr.contains("--target-branch trunk"), "{none:?}");
}

#[test]
fn a_branch_in_the_place_of_the_attempts_branches_is_named_before_anything_is_made() {
    let provost = Provost::running();
    let board = provost.board();
    board.repo().git(&["branch", "provost"]);
    let task = board.task("say hi");
    let start = json!({"task_id": task, "executor": "fake"});
    let refusal = provost.refusal("start_task_attempt", &start);
    assert_eq!(refusal["code"], "workspace_failed");
    let setting = commands(hint(&refusal)).into_iter().find(|it| it.contains(" = ")).unwrap();
    assert!(hint(&refusal).contains("[worktrees]"), "{refusal}");
    let status = provost.call("get_task", &json!({"task_id": task}))["task"]["status"].clone();
    assert_eq!(status, "todo");
    provost.kill();
    let config = provost.home().join("config.toml");
    fs::write(config, format!("[worktrees]\n{setting}\n")).unwrap();
    provost.start();
    let started = provost.call("start_task_attempt", &start);
    assert!(started["workspace_branch"].as_str().unwrap().starts_with("attempts/"), "{started}");
}

#[test]
fn a_checkout_whose_git_folder_lies_elsewhere_follows_a_merge() {
    let provost = Provost::running();
    let repo = provost.repo("app");
    let elsewhere = provost.path("app.git");
    repo.git(&["init", "--quiet", "--separate-git-dir", elsewhere.to_str().unwrap()]);
    let board = Board::new(&provost, vec![repo]);
    let attempt = attempt(&board, "write new.txt text");
    assert_eq!(finish(&provost, &attempt, "merge", &json!({}))["state"], "done");
    assert_eq!(board.repo().git(&["status", "--porcelain"]), "");
    assert!(board.repo().path.join("new.txt").exists());
    // What is in the way there is found, and named by the path that the person knows.
    let more = json!({"action": "send", "attempt_id": attempt.id, "prompt": "write new.txt more"});
    provost.call("follow_up", &more);
    attempt.saved(2);
    fs::write(board.repo().path.join("new.txt"), "mine").unwrap();
    let refusal = refused(&provost, &attempt, "merge", &json!({}));
    let shown = board.repo().path.canonicalize().unwrap();
    assert_eq!(refusal["details"]["checkout"], shown.to_str().unwrap(), "{refusal}");
}

#[test]
fn a_lock_that_another_git_holds_for_a_moment_is_waited_for() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = attempt(&board, "write new.txt text");
    let lock = board.repo().path.join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let mut merge = begun(provost.command(&["merge", &attempt.id]));
    let branch = attempt.started["workspace_branch"].as_str().unwrap();
    wait_until("its work is committed", || tip(board.repo(), branch) != tip(board.repo(), "main"));
    fs::remove_file(&lock).unwrap();
    assert!(merge.wait().unwrap().success());
    assert!(board.repo().path.join("new.txt").exists());
    // One that stays is in the way, and no hint asks to remove the lock of a git that lives.
    fs::write(&lock, "").unwrap();
    let more = json!({"action": "send", "attempt_id": attempt.id, "prompt": "write b.txt more"});
    provost.call("follow_up", &more);
    attempt.saved(2);
    let refusal = refused(&provost, &attempt, "merge", &json!({}));
    assert!(hint(&refusal).starts_with("Call finish_attempt again when the git command"));
    let named = commands(hint(&refusal))[0];
    assert_eq!(Path::new(named).canonicalize().unwrap(), lock.canonicalize().unwrap());
}

#[test]
fn what_is_under_way_in_a_checkout_is_ended_by_the_command_that_the_hint_names() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let attempt = attempt(&board, "write new.txt text");
    repo.git(&["bisect", "start"]);
    let refusal = refused(&provost, &attempt, "merge", &json!({}));
    let named = commands(hint(&refusal));
    assert_eq!(refusal["code"], "checkout_in_the_way");
    assert_eq!(Path::new(named[1]), repo.path.canonicalize().unwrap(), "{refusal}");
    repo.git(&named[0].split(' ').skip(1).collect::<Vec<_>>());
    assert_eq!(finish(&provost, &attempt, "merge", &json!({}))["state"], "done");
}

/// A remote that refuses what is pushed, with these lines in its hook.
fn with_remote(provost: &Provost, repo: &Repo, hook: &str) {
    let remote = provost.path("remote.git");
    repo.git(&["init", "--quiet", "--bare", remote.to_str().unwrap()]);
    repo.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    let script = provost.script("hook", hook);
    fs::create_dir_all(remote.join("hooks")).unwrap();
    fs::copy(script, remote.join("hooks/pre-receive")).unwrap();
}

#[test]
fn a_push_that_is_refused_has_the_hint_of_its_reason() {
    let provost = Provost::running();
    let board = provost.board();
    let pushed = attempt(&board, "write new.txt text");
    let none = refused(&provost, &pushed, "push", &json!({}));
    assert!(none["message"].as_str().unwrap().contains("has no remote that could"), "{none}");
    assert!(hint(&none).contains("`git remote add origin URL`"), "{none}");
    with_remote(&provost, board.repo(), "echo 'only by review'; exit 1");
    let recorded = provost.verb(["repo", "remotes", "--yes"]);
    assert_eq!(recorded.code, 0, "{recorded:?}");
    let other = refused(&provost, &pushed, "push", &json!({"remote": "upstream"}));
    assert!(other["message"].as_str().unwrap().contains("it has origin"), "{other}");
    let declined = refused(&provost, &pushed, "push", &json!({}));
    assert!(declined["message"].as_str().unwrap().contains("only by review"), "{declined}");
    assert!(hint(&declined).contains("own rules") && !hint(&declined).contains("Merge the remote"));
}

#[test]
fn a_merge_that_was_interrupted_is_joined_by_the_same_verb_and_waited_for() {
    let gate = "run.gate";
    let config = "[projects.scratch.checks]\nslow = \"until [ -e $GATE ]; do sleep 0.02; done\"";
    let provost = Provost::new();
    let gate = provost.path(gate);
    let provost = provost.config(&config.replace("$GATE", gate.to_str().unwrap())).started();
    let board = provost.board();
    let attempt = attempt(&board, "write new.txt text");
    let soon = |more: &Value| {
        let mut all = json!({"timeout_ms": 1});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let open = finish(&provost, &attempt, "merge", &soon(&json!({"request_id": "one"})));
    assert_eq!(open["state"], "open", "{open}");
    let joined = finish(&provost, &attempt, "merge", &soon(&json!({"request_id": "two"})));
    assert_eq!((&joined["state"], &joined["finish_id"]), (&json!("open"), &open["finish_id"]));
    let squash = soon(&json!({"strategy": "squash"}));
    let refusal = refused(&provost, &attempt, "merge", &squash);
    assert_eq!(refusal["code"], "attempt_running");
    assert!(hint(&refusal).starts_with("Call get_attempt_status until"), "{refusal}");
    // The hint says to wait, and that verb waits.
    let stderr = provost.verb(["merge", "--strategy", "squash", &attempt.id]).stderr;
    assert!(stderr.contains("provost wait"), "{stderr}");
    assert_eq!(provost.verb(["wait", "--timeout", "0.01", &attempt.id]).code, 6);
    let mut waiting = begun(provost.command(&["wait", &attempt.id]));
    let mut again = begun(provost.command(&["merge", &attempt.id]));
    fs::write(&gate, "").unwrap();
    assert!(waiting.wait().unwrap().success());
    assert_eq!(attempt.status()["finish"]["state"], "done");
    assert!(again.wait().unwrap().success());
    let after = finish(&provost, &attempt, "merge", &json!({"request_id": "two"}));
    assert_eq!((&after["state"], &after["finish_id"]), (&json!("done"), &open["finish_id"]));
    assert_eq!(provost.rows("SELECT finish_id FROM finishes").len(), 1);
}

/// The references that keep work, as `gc --kept` shows them.
fn kept(provost: &Provost, more: &[&str]) -> Vec<Value> {
    let mut command = provost.command(&["gc", "--json", "--kept"]);
    command.args(more);
    Provost::done(command).json()["kept"].as_array().unwrap().clone()
}

#[test]
fn work_that_references_keep_is_listed_counted_and_given_up_by_a_persons_word() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let commits = "run git add --all; git commit --quiet -m more";
    let attempt = attempt(&board, &format!("write a.txt text\n{commits}\nwrite b.txt text"));
    rests(&provost, &attempt);
    assert_eq!(kept(&provost, &["--older-than", "0"]), Vec::<Value>::new());
    assert_eq!(provost.verb(["rm", "--branch", &attempt.id]).code, 0);
    let foreign = "refs/provost/snapshots/0192f0c1-2345-7abc-8def-0123456789ab";
    repo.git(&["update-ref", foreign, "main"]);
    let all = "refs/provost/snapshots/ refs/provost/branches/".split(' ').collect::<Vec<_>>();
    let there = || repo.git(&[&["for-each-ref", "--format=%(refname)"], &*all].concat());
    assert_eq!(there().lines().count(), 3, "{}", there());

    assert!(kept(&provost, &["--yes"]).iter().all(|it| it["verdict"] == "kept"), "it is new");
    let doctor = provost.verb(["doctor"]).stdout;
    assert!(doctor.contains("2 references keep unmerged work"), "{doctor}");
    let done = provost.verb(["project", "rm", "scratch", "--yes"]);
    assert_eq!(done.code, 0, "{done:?}");
    let shown = kept(&provost, &["--older-than", "0"]);
    assert_eq!(shown.len(), 2, "{shown:?}");
    for it in &shown {
        assert_eq!(
            (&it["verdict"], &it["task_title"]),
            (&json!("removable"), &json!("do something"))
        );
        assert_eq!(it["attempt_id"], attempt.id);
    }
    assert_eq!(there().lines().count(), 3, "only shown");
    let gone = kept(&provost, &["--older-than", "0", "--yes"]);
    assert!(gone.iter().all(|it| it["verdict"] == "removed"), "{gone:?}");
    assert_eq!(there(), foreign, "what belongs to no attempt of this home stays");
}

#[test]
fn what_a_setup_changed_is_distinguished_from_the_agents_work() {
    let provost = Provost::new();
    let git = format!("git --git-dir={}", provost.path("app/.git").display());
    let keys =
        format!("setup.run = 'echo generated >>README.md; {git} config core.hooksPath .husky'");
    let provost = provost.config(&format!("[projects.scratch.repos.app]\n{keys}")).started();
    let board = provost.board();
    let attempt = attempt(&board, "write new.txt text");
    let setup = attempt.status()["provision"]["repos"]["app"]["setup"].clone();
    assert_eq!(setup["changed"], json!(["app/README.md"]), "{setup}");
    assert_eq!(setup["configured"], json!(["core.hookspath"]), "{setup}");
    let said = attempt.said("system_message").join("\n");
    assert!(said.contains("The setup changed tracked files") && said.contains("app/README.md"));
    assert!(said.contains("core.hookspath"), "{said}");
    let shown = provost.verb(["status", &attempt.id]).stdout;
    assert!(shown.contains("changed app/README.md; configured core.hookspath"), "{shown}");
    let changes = provost.call("get_attempt_changes", &json!({"attempt_id": attempt.id}));
    let by_setup = changes["files"].as_array().unwrap().iter();
    let by_setup: Vec<_> = by_setup.map(|it| (&it["path"], it["by_setup"] == true)).collect();
    let (readme, new) = (json!("app/README.md"), json!("app/new.txt"));
    assert_eq!(by_setup, [(&readme, true), (&new, false)]);
    board.repo().commit("README.md", "theirs\n");
    let merged = finish(&provost, &attempt, "merge", &json!({}));
    let conflict = &merged["conflicts"][0];
    assert_eq!((&conflict["path"], &conflict["by_setup"]), (&readme, &json!(true)), "{merged}");
}
