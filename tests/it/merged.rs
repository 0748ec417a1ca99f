//! What was merged of an attempt is remembered as long as the target has it, whatever the strategy:
//! by the next merge, by what shows changes, by the conflict radar, and by what asks whether the
//! work is merged.

use std::fs;

use serde_json::{Value, json};

use crate::finish::{finish, refused, tip, worktree};
use crate::harness::{Attempt, Board, Provost, Repo, wait_until};

/// A turn that did this; `turn` is its number.
fn turn(provost: &Provost, attempt: &Attempt, turn: u32, prompt: &str) {
    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": prompt});
    provost.call("follow_up", &send);
    attempt.saved(turn);
    attempt.settled();
}

fn started<'p>(board: &Board<'p>, prompt: &str) -> Attempt<'p> {
    let attempt = board.start("fake", prompt);
    attempt.saved(1);
    attempt
}

#[track_caller]
fn merged(provost: &Provost, attempt: &Attempt, strategy: &str) -> Value {
    let done = finish(provost, attempt, "merge", &json!({"strategy": strategy}));
    assert_eq!(done["state"], "done", "{done}");
    done
}

fn changes(provost: &Provost, attempt: &Attempt) -> Value {
    provost.call("get_attempt_changes", &json!({"attempt_id": attempt.id}))
}

fn paths(changes: &Value) -> Vec<&str> {
    let files = changes["files"].as_array().unwrap().iter();
    files.map(|file| file["path"].as_str().unwrap()).collect()
}

fn has(repo: &Repo, file: &str) -> String {
    fs::read_to_string(repo.path.join(file)).unwrap()
}

fn commits(repo: &Repo) -> usize {
    repo.git(&["rev-list", "--count", "main"]).parse().unwrap()
}

/// Edits line after line, and merges after each, while others commit.
fn merge_thrice(strategies: [&str; 3]) {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    repo.commit("a.txt", "one\ntwo\nthree\n");
    let attempt = started(&board, "run sed -i s/two/TWO-1/ a.txt");
    repo.commit("other.txt", "1\n");
    merged(&provost, &attempt, strategies[0]);
    turn(&provost, &attempt, 2, "run sed -i s/TWO-1/TWO-2/ a.txt");
    let answer = changes(&provost, &attempt);
    assert_eq!((paths(&answer), &answer["merged"]), (vec!["app/a.txt"], &Value::Null));
    assert_eq!(attempt.status()["conflicts_with"], json!([]));
    repo.commit("other.txt", "2\n");
    let before = commits(repo);
    merged(&provost, &attempt, strategies[1]);
    assert_eq!(has(repo, "a.txt"), "one\nTWO-2\nthree\n");
    if strategies[1] != "merge" {
        assert_eq!(commits(repo), before + 1, "only what is new");
    }
    turn(&provost, &attempt, 3, "run sed -i s/TWO-2/TWO-3/ a.txt; git commit -qam third");
    repo.commit("other.txt", "3\n");
    merged(&provost, &attempt, strategies[2]);
    assert_eq!(
        (has(repo, "a.txt"), has(repo, "other.txt")),
        ("one\nTWO-3\nthree\n".into(), "3\n".into())
    );
    // There is nothing more to merge.
    let after = tip(repo, "main");
    merged(&provost, &attempt, strategies[2]);
    assert_eq!(tip(repo, "main"), after);
}

#[test]
fn work_that_was_squashed_is_not_in_its_own_way() {
    merge_thrice(["squash", "squash", "squash"]);
}

#[test]
fn work_that_was_replayed_is_not_replayed_again() {
    merge_thrice(["rebase", "rebase", "rebase"]);
}

#[test]
fn strategies_may_follow_each_other() {
    merge_thrice(["squash", "merge", "rebase"]);
}

#[test]
fn commits_that_were_amended_after_a_merge_are_merged_as_they_are_now() {
    for strategy in ["squash", "rebase", "merge"] {
        let provost = Provost::running();
        let board = provost.board();
        let repo = board.repo();
        let commit = "write a.txt first\nrun git add -A; git commit -qm work";
        let attempt = started(&board, commit);
        repo.commit("other.txt", "1\n");
        merged(&provost, &attempt, strategy);
        turn(&provost, &attempt, 2, "write a.txt second\nrun git commit -qa --amend -m work");
        merged(&provost, &attempt, strategy);
        assert_eq!(has(repo, "a.txt"), "second\n", "{strategy}");
    }
}

/// An attempt at a target whose last commit, with a key, a person takes back.
fn amended<'p>(board: &Board<'p>) -> Attempt<'p> {
    let repo = board.repo();
    repo.commit("key.txt", "SECRET\n");
    let attempt = started(board, "write w.txt w\nrun git add -A; git commit -qm work");
    repo.git(&["rm", "--quiet", "key.txt"]);
    repo.git(&["commit", "--quiet", "--amend", "--allow-empty", "--message", "without the key"]);
    attempt
}

#[test]
fn what_a_person_took_back_is_no_work_of_an_attempt_that_began_from_it() {
    for strategy in ["merge", "squash", "rebase"] {
        let provost = Provost::running();
        let board = provost.board();
        let repo = board.repo();
        let attempt = amended(&board);
        assert_eq!(paths(&changes(&provost, &attempt)), ["app/w.txt"]);
        let refusal = refused(&provost, &attempt, "merge", &json!({"strategy": "fast_forward"}));
        let hint = refusal["hint"].as_str().unwrap();
        assert!(hint.contains("strategy = "), "{refusal}");
        merged(&provost, &attempt, strategy);
        let files = repo.git(&["log", "--format=", "--name-only", "main"]);
        assert!(files.contains("w.txt") && !files.contains("key.txt"), "{strategy}: {files}");
        assert!(!repo.path.join("key.txt").exists());
        assert_eq!(repo.git(&["status", "--porcelain"]), "");
        // The second time as well.
        turn(&provost, &attempt, 2, "write x.txt x");
        assert_eq!(paths(&changes(&provost, &attempt)), ["app/x.txt"]);
        merged(&provost, &attempt, strategy);
        let files = repo.git(&["log", "--format=", "--name-only", "main"]);
        assert!(files.contains("x.txt") && !files.contains("key.txt"), "{strategy}: {files}");
    }
}

#[test]
fn a_merge_that_would_bring_back_what_a_person_took_back_is_refused_with_a_way_out() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let attempt = amended(&board);
    // What is not linear can't be replayed.
    let side = "run git checkout -qb side HEAD~1 && git commit -q --allow-empty -m side \
                && git checkout -q - && git merge -q --no-edit side";
    turn(&provost, &attempt, 2, side);
    let before = tip(repo, "main");
    let refusal = refused(&provost, &attempt, "merge", &json!({"strategy": "merge"}));
    let hint = refusal["hint"].as_str().unwrap();
    assert!(hint.contains("strategy = \"squash\""), "{refusal}");
    assert_eq!(tip(repo, "main"), before);
    merged(&provost, &attempt, "squash");
    assert_eq!(repo.git(&["ls-tree", "--name-only", "main"]), "README.md\nw.txt");
}

#[test]
fn a_target_that_lost_what_was_merged_gets_all_of_it_again() {
    for strategy in ["squash", "rebase", "merge"] {
        let provost = Provost::running();
        let board = provost.board();
        let repo = board.repo();
        let attempt = started(&board, "write a.txt a");
        repo.commit("other.txt", "1\n");
        let before = tip(repo, "main");
        merged(&provost, &attempt, strategy);
        assert_eq!(changes(&provost, &attempt)["merged"].as_array().unwrap().len(), 1);
        turn(&provost, &attempt, 2, "write b.txt b");
        assert_eq!(paths(&changes(&provost, &attempt)), ["app/b.txt"]);
        repo.git(&["reset", "--quiet", "--hard", &before]);
        let answer = changes(&provost, &attempt);
        assert_eq!(
            (paths(&answer), &answer["merged"]),
            (vec!["app/a.txt", "app/b.txt"], &Value::Null)
        );
        merged(&provost, &attempt, strategy);
        assert_eq!(
            repo.git(&["ls-tree", "--name-only", "main"]),
            "README.md\na.txt\nb.txt\nother.txt"
        );
    }
}

#[test]
fn the_changes_of_merged_work_are_those_that_were_merged() {
    for strategy in ["squash", "rebase", "merge", "fast_forward"] {
        let provost = Provost::running();
        let board = provost.board();
        let repo = board.repo();
        let attempt = started(&board, "write a.txt a\nwrite README.md changed");
        if strategy != "fast_forward" {
            repo.commit("other.txt", "1\n");
        }
        let before = changes(&provost, &attempt);
        assert_eq!(before["merged"], Value::Null);
        merged(&provost, &attempt, strategy);
        let after = changes(&provost, &attempt);
        assert_eq!((&after["files"], &after["summary"]), (&before["files"], &before["summary"]));
        let merge = &after["merged"][0];
        assert_eq!(
            (&merge["branch"], &merge["merged_as"]),
            (&json!("main"), &json!(tip(repo, "main")))
        );
        let shown = provost.verb(["diff", &attempt.id]);
        assert!(
            shown.stdout.contains("+changed") && shown.stderr.contains("merge into main"),
            "{shown:?}"
        );
        let table = provost.verb(["diff", "--stat", &attempt.id]);
        assert!(table.stdout.contains("2 files changed"), "{table:?}");
        // Others go on.
        repo.commit("README.md", "and on\n");
        assert_eq!(changes(&provost, &attempt)["files"], before["files"]);
        // The second merge is the last one then.
        turn(&provost, &attempt, 2, "write b.txt b");
        assert_eq!(changes(&provost, &attempt)["merged"], Value::Null);
        merged(&provost, &attempt, if strategy == "fast_forward" { "rebase" } else { strategy });
        let answer = changes(&provost, &attempt);
        assert_eq!(
            (paths(&answer), answer["merged"].as_array().unwrap().len()),
            (vec!["app/b.txt"], 1)
        );
        // Also once the worktree is gone.
        let gone = provost.verb(["rm", &attempt.id, "--branch"]);
        assert_eq!(gone.code, 0, "{gone:?}");
        assert!(!worktree(&attempt).exists());
        assert_eq!(paths(&changes(&provost, &attempt)), ["app/b.txt"]);
        let shown = provost.verb(["diff", &attempt.id]).stdout;
        assert!(shown.contains("+b"), "{shown}");
    }
}

#[test]
fn merged_work_is_collected_and_its_branch_is_kept_nowhere_else() {
    for strategy in ["squash", "rebase"] {
        let provost = Provost::running();
        let board = provost.board();
        let repo = board.repo();
        let [one, other] =
            ["a.txt", "b.txt"].map(|file| started(&board, &format!("write {file} x")));
        repo.commit("other.txt", "1\n");
        merged(&provost, &one, strategy);
        merged(&provost, &other, strategy);
        // No snapshot is needed.
        wait_until("it is collected", || {
            provost.verb(["gc", "--yes"]);
            !worktree(&one).exists()
        });
        let refs = [
            "for-each-ref",
            "--format=%(refname)",
            "refs/provost/snapshots",
            "refs/provost/branches",
        ];
        assert_eq!(repo.git(&refs), "");
        let removed = provost.verb(["rm", &other.id, "--branch"]);
        assert_eq!(removed.code, 0, "{removed:?}");
        assert_eq!(repo.git(&refs), "");
        // What the target lost is not merged.
        let third = started(&board, "write c.txt x");
        let before = tip(repo, "main");
        merged(&provost, &third, strategy);
        repo.git(&["reset", "--quiet", "--hard", &before]);
        provost.verb(["rm", &third.id, "--branch"]);
        assert_ne!(repo.git(&refs), "");
    }
}

#[test]
fn the_radar_knows_what_was_squashed() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    repo.commit("a.txt", "one\ntwo\nthree\n");
    let one = started(&board, "run sed -i s/two/TWO-1/ a.txt");
    repo.commit("other.txt", "1\n");
    merged(&provost, &one, "squash");
    // It began with what was merged, and is at the same file.
    let other = started(&board, "run sed -i s/three/THREE/ a.txt; sed -i s/one/ONE/ a.txt");
    turn(&provost, &one, 2, "run sed -i s/TWO-1/TWO-2/ a.txt");
    let said = provost.verb(["conflicts", "--json"]).json();
    let all: Vec<&Value> = said["attempts"].as_array().unwrap().iter().collect();
    assert_eq!(all.len(), 2, "{said}");
    for attempt in all {
        let with = attempt["conflicts_with"].as_array().unwrap();
        let target = with.iter().any(|it| it["attempt_id"].is_null());
        assert!(!target, "{said}");
    }
    // Lines beside each other conflict, as in any merge; that is of the two of them.
    let conflict = &one.status()["conflicts_with"][0];
    let marked = format!("{}:a.txt", conflict["tree_id"].as_str().unwrap());
    assert!(!repo.git(&["show", &marked]).contains("TWO-1\n=======\n"), "{conflict}");
    merged(&provost, &one, "squash");
    merged(&provost, &one, "squash");
    drop(other);
}

#[test]
fn a_deleted_or_renamed_target_branch_does_not_lock_work_in() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let attempt = started(&board, "write a.txt a");
    repo.git(&["branch", "--move", "main", "trunk"]);
    assert_eq!(paths(&changes(&provost, &attempt)), ["app/a.txt"]);
    assert_eq!(finish(&provost, &attempt, "commit", &json!({}))["state"], "done");
    let refusal = refused(&provost, &attempt, "merge", &json!({}));
    assert!(refusal["hint"].as_str().unwrap().contains("into"), "{refusal}");
    let done = finish(&provost, &attempt, "merge", &json!({"into": "trunk"}));
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(repo.git(&["ls-tree", "--name-only", "trunk"]), "README.md\na.txt");
}

#[test]
fn an_attempt_brings_only_its_own_work_to_a_branch_that_is_behind() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    repo.git(&["branch", "release"]);
    repo.commit("next.txt", "not released\n");
    let attempt = started(&board, "write fix.txt fix");
    for strategy in ["merge", "squash"] {
        let into = json!({"strategy": strategy, "into": "release"});
        assert_eq!(finish(&provost, &attempt, "merge", &into)["state"], "done");
        assert_eq!(repo.git(&["ls-tree", "--name-only", "release"]), "README.md\nfix.txt");
        repo.git(&["branch", "--force", "release", "main~1"]);
    }
    merged(&provost, &attempt, "squash");
}

#[test]
fn a_fork_does_not_conflict_with_what_was_merged_of_its_source() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    repo.commit("a.txt", "one\ntwo\nthree\n");
    let source = started(&board, "run sed -i s/two/TWO-1/ a.txt; git commit -qam one");
    repo.commit("other.txt", "1\n");
    merged(&provost, &source, "squash");
    let fork = board.start_with(
        "fake",
        &json!({"prompt": "run sed -i s/TWO-1/TWO-2/ a.txt", "from_attempt_id": source.id}),
    );
    fork.saved(1);
    assert_eq!(paths(&changes(&provost, &fork)), ["app/a.txt"]);
    merged(&provost, &fork, "squash");
    assert_eq!(has(repo, "a.txt"), "one\nTWO-2\nthree\n");
}

#[test]
fn a_commit_of_any_date_is_replayed() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let commit = |n: u32, date: &str| {
        format!("run echo {n} >{n}; git add -A; GIT_AUTHOR_DATE='{date}' git commit -qm {n}")
    };
    let dates = ["@0 +0000", "@86400 +0000", "@99999999 -1130", "@4102444800 +1400"];
    let prompt: Vec<String> = (0..).zip(dates).map(|(n, date)| commit(n, date)).collect();
    let attempt = started(&board, &prompt.join("\n"));
    repo.commit("other.txt", "1\n");
    merged(&provost, &attempt, "rebase");
    let dates_of = repo.git(&["log", "--reverse", "-4", "--format=@%ad", "--date=raw", "main"]);
    assert_eq!(dates_of.lines().collect::<Vec<_>>(), dates);
}
