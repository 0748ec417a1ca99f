//! `provost gc`: what goes, what stays, and that nothing of a person's is lost.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Attempt, Board, Provost, Repo, wait_until};

/// Leaves a commit on the attempt's branch.
const COMMITS: &str = "write new.txt text\nrun git add --all && git commit --quiet -m new";

/// The steps of a collection.
const STEPS: &[&str] =
    &["collect.examined", "collect.marked", "collect.moved", "collect.forgotten"];

fn gc<const N: usize>(provost: &Provost, args: [&str; N]) -> Value {
    let mut command = provost.command(&["gc", "--json"]);
    command.args(args);
    Provost::done(command).json()
}

fn of<'t>(report: &'t Value, attempt: &Attempt) -> &'t Value {
    let mut attempts = report["attempts"].as_array().unwrap().iter();
    attempts.find(|it| it["attempt_id"] == attempt.id).unwrap_or(&Value::Null)
}

fn verdict<'t>(report: &'t Value, attempt: &Attempt) -> &'t str {
    of(report, attempt)["verdict"].as_str().unwrap_or("not listed")
}

#[track_caller]
fn is_kept(provost: &Provost, attempt: &Attempt, why: &str) {
    let report = gc(provost, ["--yes"]);
    let reason = of(&report, attempt)["reason"].as_str().unwrap_or_default();
    assert_eq!(verdict(&report, attempt), "kept", "{report}");
    assert!(reason.contains(why), "{report}");
    assert!(folder(provost, attempt).symlink_metadata().is_ok());
}

/// Waits until nothing of it is alive: for a moment its settled turn still is.
fn rests(provost: &Provost, attempt: &Attempt) {
    attempt.settled();
    wait_until("nothing of it is alive", || {
        of(&gc(provost, []), attempt)["reason"] != "something that it started is alive"
    });
}

fn folder(provost: &Provost, attempt: &Attempt) -> PathBuf {
    let short = &attempt.id[attempt.id.len() - 8..];
    let title = attempt.started["workspace_branch"].as_str().unwrap();
    let slug = title.split_once(short).unwrap().1;
    provost.home().join("worktrees").join(format!("{short}{slug}"))
}

fn worktree(provost: &Provost, attempt: &Attempt) -> PathBuf {
    folder(provost, attempt).join("app")
}

fn branch<'a>(attempt: &'a Attempt) -> &'a str {
    attempt.started["workspace_branch"].as_str().unwrap()
}

fn merge(repo: &Repo, attempt: &Attempt) {
    repo.git(&["merge", "--quiet", "--no-edit", branch(attempt)]);
}

fn trash(provost: &Provost) -> Vec<PathBuf> {
    let entries = fs::read_dir(provost.home().join("trash"));
    entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Runs git in an attempt's worktree, as a person would.
fn git_in(provost: &Provost, repo: &Repo, attempt: &Attempt, args: &[&str]) -> String {
    let worktree = worktree(provost, attempt);
    repo.git(&[&["-C", worktree.to_str().unwrap()], args].concat())
}

#[test]
fn a_merged_worktree_goes_to_the_trash_and_comes_back_with_a_follow_up() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", COMMITS);
    rests(&provost, &attempt);
    assert_eq!(attempt.status()["state"], "completed");
    is_kept(&provost, &attempt, "1 of its commits is not merged into main");
    merge(board.repo(), &attempt);

    let report = gc(&provost, []);
    assert_eq!(
        (report["dry_run"].as_bool(), verdict(&report, &attempt)),
        (Some(true), "collectable")
    );
    assert!(worktree(&provost, &attempt).join("new.txt").exists(), "only shown");
    assert_eq!(verdict(&gc(&provost, ["--yes"]), &attempt), "collected");

    assert!(!folder(&provost, &attempt).exists());
    assert!(trash(&provost)[0].join("app/new.txt").exists());
    assert_eq!(board.repo().worktrees().len(), 1, "git has forgotten it");
    assert_eq!(board.repo().attempt_branches(), [branch(&attempt)]);
    assert_eq!(verdict(&gc(&provost, ["--yes"]), &attempt), "not listed");

    assert_eq!(attempt.status()["state"], "completed");
    assert!(!attempt.normalized().is_empty());
    let refusal = provost.refusal("get_attempt_changes", &json!({"attempt_id": attempt.id}));
    assert!(refusal["message"].as_str().unwrap().contains("collected"), "{refusal}");
    let hint = refusal["hint"].as_str().unwrap();
    let command = hint.split('`').nth(1).unwrap().strip_prefix("git ").unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    assert!(board.repo().git(&words).contains("+text"), "{hint}");

    provost.kill_and_start();
    let more = json!({"action": "send", "attempt_id": attempt.id, "prompt": "run cat new.txt"});
    provost.call("follow_up", &more);
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(attempt.said("tool_result").last().unwrap(), "text");
    rests(&provost, &attempt);
    let changes = provost.call("get_attempt_changes", &json!({"attempt_id": attempt.id}));
    assert_eq!(changes["summary"]["file_count"], 0);
}

#[test]
fn an_attempt_that_changed_nothing_goes_and_what_git_ignores_is_counted() {
    let provost = Provost::running();
    let board = provost.board();
    board.repo().commit(".gitignore", "*.log\n");
    let attempt = board.start("fake", "write a.log noise\nwrite b.log noise");
    rests(&provost, &attempt);
    let report = gc(&provost, ["--yes"]);
    assert_eq!(verdict(&report, &attempt), "collected", "{report}");
    assert_eq!(of(&report, &attempt)["ignored"], 2);
    assert!(trash(&provost)[0].join("app/a.log").exists());
}

#[test]
fn what_is_not_committed_stays() {
    let provost = Provost::running();
    let board = provost.board();
    let not_committed = "changes that are not committed";
    for prompt in [
        "write untracked.txt precious",
        "write README.md changed",
        "run rm README.md",
        // In the index alone: the file itself is as it was.
        "run echo staged >README.md; git add README.md; git show HEAD:README.md >README.md",
        "run git update-index --assume-unchanged README.md; echo hidden >README.md",
        "run git update-index --skip-worktree README.md; echo hidden >README.md",
    ] {
        let attempt = board.start("fake", prompt);
        rests(&provost, &attempt);
        is_kept(&provost, &attempt, not_committed);
    }
    assert_eq!(trash(&provost), [] as [PathBuf; 0]);
}

#[test]
fn what_only_the_worktree_knows_stays() {
    let provost = Provost::running();
    let board = provost.board();
    for (prompt, why) in [
        (
            "run git commit --quiet --allow-empty -m x; git checkout --quiet --detach; \
          git commit --quiet --allow-empty -m y; git checkout --quiet -",
            "commits that no branch holds",
        ),
        ("run git init --quiet nested; cd nested; touch x", "another repository"),
        (
            "run git commit --quiet --allow-empty -m x; git update-ref refs/worktree/mine HEAD; \
          git reset --quiet --hard HEAD~1; git reflog expire --expire=now --all",
            "commits that no branch holds",
        ),
        ("run echo more >../beside.txt", "beside.txt lies beside"),
        ("run mkdir \"$(git rev-parse --git-dir)/modules\"", "submodules"),
    ] {
        let attempt = board.start("fake", prompt);
        rests(&provost, &attempt);
        is_kept(&provost, &attempt, why);
    }
}

#[test]
fn a_stash_stays_or_goes_into_the_snapshot() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "write README.md stashed\nrun git stash --quiet");
    rests(&provost, &attempt);
    is_kept(&provost, &attempt, "commits that no branch holds");
    assert_eq!(verdict(&gc(&provost, ["--snapshot", "--yes"]), &attempt), "collected");
    let saved = format!("refs/provost/snapshots/{}", attempt.id);
    let held = board.repo().git(&["log", "-p", "-m", "--format=%s", &saved]);
    assert!(held.contains("+stashed"), "{held}");
}

#[test]
fn what_runs_or_waits_or_is_worked_in_stays() {
    let provost = Provost::running();
    let board = provost.board();
    let runs = board.start("fake", "say up\nhang");
    runs.has_said("up");
    is_kept(&provost, &runs, "not settled");
    let queue = json!({"action": "queue", "attempt_id": runs.id, "prompt": "say more"});
    provost.call("follow_up", &queue);
    runs.stop();
    is_kept(&provost, &runs, "wait in its queue");
    provost.call("follow_up", &json!({"action": "cancel", "attempt_id": runs.id}));
    rests(&provost, &runs);

    let mut shell = shell_in(&worktree(&provost, &runs));
    let pid = shell.id().to_string();
    let report = gc(&provost, ["--yes"]);
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert_eq!(verdict(&report, &runs), "kept");
    assert!(of(&report, &runs)["reason"].as_str().unwrap().contains(&pid), "{report}");
    assert_eq!(verdict(&gc(&provost, ["--yes"]), &runs), "collected");
}

#[expect(clippy::disallowed_methods, reason = "a person's shell")]
fn shell_in(folder: &std::path::Path) -> std::process::Child {
    Command::new("sleep").arg("600").current_dir(folder).spawn().unwrap()
}

#[test]
fn a_link_in_its_place_is_left_alone_and_one_that_is_gone_is_no_obstacle() {
    let provost = Provost::running();
    let board = provost.board();
    let person = provost.path("person");
    fs::write(person.join("precious"), "x").unwrap();
    let [linked, inner, gone] = [(); 3].map(|()| {
        let attempt = board.start("fake", "say done");
        rests(&provost, &attempt);
        attempt
    });
    let folder_of = |attempt| folder(&provost, attempt);
    fs::rename(folder_of(&linked), provost.path("aside")).unwrap();
    symlink(&person, folder_of(&linked)).unwrap();
    fs::rename(folder_of(&inner).join("app"), provost.path("aside2")).unwrap();
    symlink(&person, folder_of(&inner).join("app")).unwrap();
    fs::remove_dir_all(folder_of(&gone)).unwrap();
    for yes in [&[][..], &["--yes"]] {
        let mut command = provost.command(&["gc", "--json", "--snapshot"]);
        command.args(yes);
        let report = Provost::done(command).json();
        for attempt in [&linked, &inner] {
            assert_eq!(verdict(&report, attempt), "kept", "{report}");
        }
        let went = if yes.is_empty() { "collectable" } else { "collected" };
        assert_eq!(verdict(&report, &gone), went, "{report}");
    }
    assert!(person.join("precious").exists());
    assert_eq!(trash(&provost).len(), 1, "its own repository");
}

#[test]
fn of_several_repositories_all_go_or_none() {
    let provost = Provost::running();
    let board = Board::new(&provost, vec![provost.repo("front"), provost.repo("back")]);
    let attempt = board.start("fake", "write front/new.txt text");
    rests(&provost, &attempt);
    is_kept(&provost, &attempt, "front: it has changes");
    let front = folder(&provost, &attempt).join("front");
    fs::remove_file(front.join("new.txt")).unwrap();
    assert_eq!(verdict(&gc(&provost, ["--yes"]), &attempt), "collected");
    for repo in &board.repos {
        assert_eq!(repo.worktrees().len(), 1);
        assert_eq!(repo.attempt_branches(), [branch(&attempt)]);
    }
}

#[test]
fn a_snapshot_holds_all_that_would_be_lost() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let prompt = format!(
        "{COMMITS}\nrun git checkout --quiet --detach; git commit --quiet --allow-empty -m stray; \
         git checkout --quiet -\nrun echo staged >README.md; git add README.md\n\
         write README.md unstaged\nwrite untracked.txt precious"
    );
    let attempt = board.start("fake", &prompt);
    rests(&provost, &attempt);
    let stray = git_in(&provost, repo, &attempt, &["log", "-g", "--format=%H %s"]);
    let stray = stray.lines().find_map(|line| line.strip_suffix(" stray")).unwrap().to_owned();
    let hook = provost.script("hook", "touch \"$0.ran\"; exit 1");
    let hooks = repo.path.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    fs::copy(&hook, hooks.join("reference-transaction")).unwrap();
    let head = git_in(&provost, repo, &attempt, &["rev-parse", "HEAD"]);

    let report = gc(&provost, ["--snapshot"]);
    assert_eq!(verdict(&report, &attempt), "collectable");
    assert!(
        of(&report, &attempt)["reason"].as_str().unwrap().contains("not committed"),
        "{report}"
    );
    let report = gc(&provost, ["--snapshot", "--yes"]);
    assert_eq!(verdict(&report, &attempt), "collected", "{report}");
    let saved = format!("refs/provost/snapshots/{}", attempt.id);
    assert_eq!(of(&report, &attempt)["snapshots"][0]["reference"], saved.as_str());
    assert!(!hooks.join("reference-transaction.ran").exists());

    let show = |file: &str| repo.git(&["show", &format!("{saved}:{file}")]);
    assert_eq!((show("README.md"), show("untracked.txt")), ("unstaged".into(), "precious".into()));
    let held = repo.git(&["rev-list", &saved]);
    assert!(held.contains(&head) && held.contains(&stray), "{held}");
    let indexes = repo.git(&["log", "--format=%H", "--grep=What was staged", &saved]);
    assert_eq!(repo.git(&["show", &format!("{indexes}:README.md")]), "staged");
    assert_eq!(repo.git(&["rev-parse", branch(&attempt)]), head, "the branch is as it was");

    // What is kept a second time does not put out the first.
    let more = json!({"action": "send", "attempt_id": attempt.id, "prompt": "write b.txt b"});
    let first = repo.git(&["rev-parse", &saved]);
    provost.call("follow_up", &more);
    wait_until("the follow-up has run", || worktree(&provost, &attempt).join("b.txt").exists());
    rests(&provost, &attempt);
    assert_eq!(verdict(&gc(&provost, ["--snapshot", "--yes"]), &attempt), "collected");
    assert!(repo.git(&["rev-list", &saved]).contains(&first));
    assert_eq!(show("b.txt"), "b");
}

#[test]
fn a_daemon_killed_at_any_step_leaves_it_whole_or_collected_and_the_next_one_ends_it() {
    for follows_up in [false, true] {
        for step in STEPS {
            let provost = Provost::new();
            provost.start_to_die_at(step);
            let board = provost.board();
            let attempt = board.start("fake", "say done");
            rests(&provost, &attempt);
            let mut command = provost.command(&["gc", "--yes"]);
            command.stdin(std::process::Stdio::null());
            assert_ne!(Provost::done(command).code, 0, "{step}: the daemon died");
            provost.ended();
            provost.start();
            let (folder, repo) = (folder(&provost, &attempt), board.repo());
            let is_whole = folder.join("app/README.md").exists();
            assert!(is_whole || trash(&provost)[0].join("app/README.md").exists(), "{step}");
            if follows_up {
                let more = json!({"action": "send", "attempt_id": attempt.id,
                    "prompt": "run git status --short; cat README.md; touch again"});
                provost.call("follow_up", &more);
                wait_until("it has run", || folder.join("app/again").exists());
                rests(&provost, &attempt);
                assert_eq!(attempt.status()["state"], "completed", "{step}");
                fs::remove_file(folder.join("app/again")).unwrap();
                assert_eq!(repo.worktrees().len(), 2, "{step}");
            }
            gc(&provost, ["--yes"]);
            assert!(!folder.exists(), "{step}");
            assert_eq!(repo.worktrees().len(), 1, "{step}");
            assert_eq!(repo.attempt_branches(), [branch(&attempt)], "{step}");
            assert_eq!(gc(&provost, ["--yes"])["attempts"], json!([]), "{step}");
        }
    }
}

#[test]
fn the_trash_is_emptied_of_what_is_old_enough_and_only_on_a_word() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say done");
    rests(&provost, &attempt);
    gc(&provost, ["--yes"]);
    let verdicts = |report: Value| report["trash"][0]["verdict"].clone();
    assert_eq!(verdicts(gc(&provost, ["--empty-trash", "--yes"])), "kept");
    assert_eq!(verdicts(gc(&provost, ["--empty-trash", "--older-than", "0"])), "removable");
    assert_eq!(trash(&provost).len(), 1);
    let report = gc(&provost, ["--empty-trash", "--older-than", "0", "--yes"]);
    assert_eq!(verdicts(report), "removed");
    assert_eq!(trash(&provost).len(), 0);
}

#[test]
fn only_what_is_asked_for_is_looked_at() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "say done");
    rests(&provost, &attempt);
    assert_eq!(gc(&provost, ["--older-than", "1h"])["attempts"], json!([]));
    let done = provost.verb(["gc", "--project", "no-such-project"]);
    assert_eq!(done.code, 4, "{done:?}");
    assert_eq!(verdict(&gc(&provost, ["--project", "scratch"]), &attempt), "collectable");
    let done = provost.verb(["gc"]);
    assert!(done.stdout.contains("1 would be moved to the trash"), "{done:?}");
}
