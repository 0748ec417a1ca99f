//! Who commits what Provost makes of an attempt's work: whoever git says in the person's
//! repository, and with the signature that their own commit would have.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::finish::{arguments, attempt, cut_off, finish, refused, tip};
use crate::harness::{Board, Provost, Repo, needs, program};

const WHO: &str = "--format=%an <%ae> %cn <%ce>";

/// Settings of a person, of which each test case has some.
const PLACES: [&str; 5] = ["include", "xdg", "local", "author", "committer"];

fn configure(provost: &Provost, repo: &Repo, place: &str) {
    match place {
        "include" => {
            let file = provost.path("person/work.inc");
            fs::write(&file, "[user]\nemail = ann@work.invalid\n").unwrap();
            provost.person_configures(&format!(
                "[includeIf \"gitdir:{}/\"]\npath = {}\n",
                repo.path.display(),
                file.display()
            ));
        }
        // The other file of the person, which `git config --global` passes over.
        "xdg" => {
            let text = "[user]\nname = Of the other file\n[author]\nname = Xdg\n";
            fs::create_dir_all(provost.path("person/.config/git")).unwrap();
            fs::write(provost.path("person/.config/git/config"), text).unwrap();
        }
        "local" => drop(repo.git(&["config", "user.name", "Local <Name>"])),
        "author" => drop(repo.git(&["config", "author.email", "author@repo.invalid"])),
        _ => provost.person_configures("[committer]\nname = Bot\n"),
    }
}

#[test]
fn a_commit_has_the_identity_that_git_itself_would_use_there() {
    for places in [0_u32, 1, 2, 4, 8, 16, 3, 12, 21, 31] {
        let provost = Provost::running();
        let board = provost.board();
        let repo = board.repo();
        let chosen = PLACES.iter().enumerate().filter(|(at, _)| places & (1 << at) != 0);
        chosen.for_each(|(_, place)| configure(&provost, repo, place));
        repo.commit("plain", "by git\n");
        let who = repo.git(&["log", "-1", WHO]);
        let attempt = attempt(&board, "write new new");
        let done = finish(&provost, &attempt, "merge", &json!({}));
        assert_eq!(done["state"], "done", "{done}");
        for commit in ["main", "main^2"] {
            assert_eq!(repo.git(&["log", "-1", WHO, commit]), who, "{commit}, {places:b}");
        }
    }
}

#[test]
fn an_agent_that_hides_the_persons_configuration_commits_as_them_too() {
    let provost = Provost::new()
        .config("[executors.hides]\nprotocol = 'fake'\nenv = { GIT_CONFIG_GLOBAL = '/dev/null' }")
        .started();
    let board = provost.board();
    let repo = board.repo();
    configure(&provost, repo, "committer");
    repo.commit("plain", "by git\n");
    let who = repo.git(&["log", "-1", WHO]);
    let attempt =
        board.start("hides", &format!("run git commit --allow-empty -qm x && git log -1 '{WHO}'"));
    attempt.settled();
    let said = attempt.normalized().iter().map(Value::to_string).collect::<String>();
    assert!(said.contains(who.trim()), "{who}: {said}");
}

#[test]
fn each_repository_has_its_own_identity_and_one_without_is_named() {
    let provost = Provost::running();
    let board = Board::new(&provost, vec![provost.repo("app"), provost.repo("lib")]);
    let [app, lib] = &board.repos[..] else { panic!("two repositories") };
    lib.git(&["config", "user.email", "lib@example.invalid"]);
    let attempt = attempt(&board, "write app/a a\nwrite lib/b b");
    finish(&provost, &attempt, "commit", &json!({}));
    let branch = attempt.started["workspace_branch"].as_str().unwrap();
    let email = |repo: &Repo| repo.git(&["log", "-1", "--format=%ae", branch]);
    assert_eq!((&*email(app), &*email(lib)), ("test@example.invalid", "lib@example.invalid"));
    // The person's own says no address any more, and git is not to guess one.
    let own = "[user]\nname = Test\nuseConfigOnly = true\n";
    fs::write(provost.path("person/.gitconfig"), own).unwrap();
    app.git(&["config", "user.email", "app@example.invalid"]);
    lib.git(&["config", "--unset", "user.email"]);
    let refusal = refused(&provost, &attempt, "merge", &json!({}));
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains(lib.path.to_str().unwrap()), "{refusal}");
    assert!(refusal["hint"].as_str().unwrap().contains("git config --global user.email"));
}

/// A key, and the configuration by which commits are signed with it.
fn key(provost: &Provost, passphrase: &str) {
    let path = provost.path("person/key");
    // One of which no two signatures are the same.
    let made = program("ssh-keygen")
        .args(["-q", "-t", "ecdsa", "-N", passphrase, "-f"])
        .arg(&path)
        .status()
        .unwrap();
    assert!(made.success());
    provost.person_configures(&format!(
        "[gpg]\nformat = ssh\n[user]\nsigningKey = {}.pub\n[commit]\ngpgSign = true\n",
        path.display()
    ));
}

fn is_signed(repo: &Repo, commit: &str) -> bool {
    repo.git(&["cat-file", "commit", commit]).contains("\ngpgsig ")
}

fn merged_by(provost: &Provost, board: &Board<'_>, strategy: &str) -> Value {
    let attempt = attempt(board, &format!("write {strategy} x"));
    board.repo().commit(&format!("beside-{strategy}"), "x");
    let done = finish(provost, &attempt, "merge", &json!({"strategy": strategy}));
    assert_eq!(done["state"], "done", "{done}");
    done["repos"][0].clone()
}

#[test]
fn commits_are_signed_as_the_person_signs_theirs() {
    if !needs(&[("ssh-keygen", "openssh-client")]) {
        return;
    }
    let provost = Provost::new();
    key(&provost, "");
    let provost = provost.started();
    let board = provost.board();
    for (strategy, commits) in
        [("merge", &["main", "main^2"][..]), ("squash", &["main"]), ("rebase", &["main"])]
    {
        let done = merged_by(&provost, &board, strategy);
        assert_eq!(done.get("unsigned"), None, "{done}");
        for commit in commits {
            assert!(is_signed(board.repo(), commit), "{strategy}: {commit}");
        }
    }
    let source = attempt(&board, "write kept x");
    source.saved(1);
    let fork = board.start_with("fake", &json!({"prompt": "say x", "from_attempt_id": source.id}));
    fork.settled();
    let base = fork.started["workspace_branch"].as_str().unwrap();
    assert!(is_signed(board.repo(), base), "what a fork begins from");
}

#[test]
fn a_key_that_would_have_to_be_asked_for_is_said_and_the_work_is_merged() {
    if !needs(&[("ssh-keygen", "openssh-client")]) {
        return;
    }
    let provost = Provost::new();
    let provost = provost.started();
    let board = provost.board();
    let later = attempt(&board, "write later x");
    let work = attempt(&board, "write work x");
    key(&provost, "a secret");
    let done = finish(&provost, &work, "merge", &json!({}))["repos"][0].clone();
    assert!(done["unsigned"].as_str().is_some_and(|why| !why.is_empty()), "{done}");
    assert!(!is_signed(board.repo(), "main"));
    assert_eq!(board.repo().git(&["show", "main:work"]), "x");
    let output = provost.verb(["merge", &later.id]);
    assert!(output.code == 0 && output.stdout.contains("not signed: "), "{output:?}");
}

#[test]
fn a_finish_that_is_taken_up_commits_once_whatever_its_signature_is() {
    if !needs(&[("ssh-keygen", "openssh-client")]) {
        return;
    }
    let provost = Provost::new();
    key(&provost, "");
    let provost = provost.started();
    let board = provost.board();
    let repo = board.repo();
    for failpoint in ["commit.made", "commit.moved", "finish_step.committed@2"] {
        let work = attempt(&board, &format!("write {failpoint} x"));
        let before = tip(repo, "main");
        let merge = arguments(&work, "merge", &json!({"request_id": failpoint}));
        let done = cut_off(&provost, failpoint, &merge).output();
        assert_eq!(done["state"], "done", "{failpoint}: {done}");
        let range = format!("{before}..main");
        assert_eq!(repo.git(&["rev-list", "--count", &range]), "2", "{failpoint}");
        assert!(is_signed(repo, "main") && is_signed(repo, "main^2"), "{failpoint}");
    }
}

#[test]
fn an_openpgp_key_signs_without_asking() {
    if !needs(&[("gpg", "gnupg"), ("gpgconf", "gnupg")]) {
        return;
    }
    let provost = Provost::new();
    let folder = provost.path("person/.gnupg");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let folder = folder.to_str().unwrap();
    let made = program("gpg")
        .args(["--homedir", folder, "--batch", "--quiet", "--passphrase", "", "--quick-gen-key"])
        .args(["Test <test@example.invalid>", "default", "default", "never"])
        .status();
    assert!(made.unwrap().success());
    provost.person_configures("[commit]\ngpgSign = true\n");
    let provost = provost.started();
    let board = provost.board();
    let done = merged_by(&provost, &board, "merge");
    let is_signed = is_signed(board.repo(), "main");
    let _ = program("gpgconf").args(["--homedir", folder, "--kill", "all"]).status();
    assert!(is_signed, "{done}");
}
