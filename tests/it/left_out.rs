//! What lies in a worktree and no commit of it can hold is refused by its name, and nothing is merged without it.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Attempt, Provost};

fn merge(attempt: &Attempt<'_>) -> Value {
    json!({"attempt_id": attempt.id, "action": "merge", "timeout_ms": 120_000})
}

fn refused(provost: &Provost, attempt: &Attempt<'_>, word: &str) {
    let refusal = provost.refusal("finish_attempt", &merge(attempt));
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains(word), "{refusal}");
}

#[test]
fn a_repository_in_the_worktree_is_named_and_taken_along_once_it_is_none() {
    let provost = Provost::running();
    let board = provost.board();
    let commit = "git add --all && git -c user.name=a -c user.email=a@b commit --quiet -m x";
    for (name, more) in [("web", String::new()), ("lib", format!(" && {commit}"))] {
        let prompt = format!(
            "run mkdir {name} && cd {name} && git init --quiet && echo code > main.js{more}"
        );
        let attempt = board.start("fake", &prompt);
        let status = attempt.settled();
        attempt.saved(1);
        let named = format!("{name} is a git repository of its own");
        refused(&provost, &attempt, &named);
        let changes = provost.call("get_attempt_changes", &json!({"attempt_id": attempt.id}));
        assert!(changes["hint"].as_str().unwrap().contains(&named), "{changes}");
        assert!(attempt.said("system_message").concat().contains(&named));
        let worktree = PathBuf::from(status["worktree"].as_str().unwrap());
        fs::remove_dir_all(worktree.join(name).join(".git")).unwrap();
        let done = provost.call("finish_attempt", &merge(&attempt));
        assert_eq!(done["state"], "done", "{done}");
        let listed = board.repo().git(&["ls-tree", "-r", "--name-only", "main"]);
        assert!(listed.contains(&format!("{name}/main.js")), "{listed}");
    }
}

#[test]
fn a_commit_of_a_submodule_that_exists_nowhere_else_is_not_merged() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let lib = provost.repo("lib");
    let path = lib.path.to_str().unwrap();
    let allow = ["-c", "protocol.file.allow=always"];
    repo.git(&[&allow[..], &["submodule", "--quiet", "add", path, "sub"]].concat());
    repo.git(&["commit", "--quiet", "-m", "sub"]);
    let deep = "run git -c protocol.file.allow=always submodule update --quiet --init && cd sub && \
        git checkout --quiet -b w && echo deep > deep.txt && git add --all && \
        git -c user.name=a -c user.email=a@b commit --quiet -m deep && git rev-parse HEAD";
    let attempt = board.start("fake", deep);
    assert_eq!(attempt.settled()["state"], "completed");
    attempt.saved(1);
    refused(&provost, &attempt, "the submodule sub is at commit");
    // Once the person's submodule has it, it is merged.
    let said = attempt.said("tool_result");
    let commit = said.last().unwrap().lines().last().unwrap();
    let worktree = PathBuf::from(attempt.status()["worktree"].as_str().unwrap());
    let from = worktree.join("sub");
    let sub = repo.path.join("sub");
    let fetch = ["-C", sub.to_str().unwrap(), "fetch", "--quiet", from.to_str().unwrap(), commit];
    repo.git(&[&allow[..], &fetch].concat());
    let done = provost.call("finish_attempt", &merge(&attempt));
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(repo.git(&["rev-parse", "main:sub"]), commit);
}
