//! What turns leave, also on a remote of the project: pushed, fetched by another host, and removed
//! there. They need a server, which `.ci/postgres COMMAND` gives them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::harness::postgres::{database, rows, run};
use crate::harness::{Attempt, Board, Provost, Repo, wait_until};
use crate::hosts_relocation::{MIRRORS, WORK, follow_up, goes_on, lose};

fn host(url: &str, name: &str, remote: &str, more: &str) -> Provost {
    let config = format!(
        "[engine]\nurl = \"{url}\"\ndurability = \"single\"\nsnapshot_remote = \"{remote}\"\n\
         [worktrees]\nsnapshot_days = 0\n[host]\nname = \"{name}\"\nlease_secs = 30\n{more}"
    );
    Provost::new().config(&config).started()
}

/// A project whose repository has the remote `origin`, which has its branch.
pub fn with_remote(of: &Provost) -> (Board<'_>, Repo) {
    let (repo, remote) = (of.repo("app"), of.empty_repo("remote"));
    remote.git(&["config", "receive.denyCurrentBranch", "ignore"]);
    repo.git(&["remote", "add", "origin", &remote.path.to_string_lossy()]);
    repo.git(&["push", "--quiet", "origin", "main"]);
    (Board::new(of, vec![repo]), remote)
}

/// What the rows say of the remote.
fn pushed(url: &str) -> Vec<String> {
    let sql = "SELECT pushed || coalesce(' ' || remote, '') FROM turn_bundles ORDER BY attempt_id";
    rows(url, sql)
}

/// What the remote keeps.
fn kept(remote: &Repo) -> Vec<String> {
    let listed = remote.git(&["for-each-ref", "--format=%(refname)", "refs/provost"]);
    listed.lines().map(str::to_owned).collect()
}

/// What it keeps of a turn.
fn of_turn(attempt: &Attempt, turn: u32) -> Vec<String> {
    let below = format!("refs/provost/{}/{turn}", attempt.id);
    vec![format!("{below}/head"), format!("{below}/snapshot")]
}

fn works(board: &Board<'_>, prompt: &str) -> String {
    let attempt = board.start("fake", prompt);
    assert_eq!(attempt.settled()["state"], "completed");
    attempt.saved(1);
    attempt.id
}

#[test]
fn what_is_too_large_for_the_board_moves_by_the_remote_that_has_it() {
    let Some(url) = database("pushed_large") else { return };
    let (a, b) = (host(&url, "a", "origin", MIRRORS), host(&url, "b", "origin", ""));
    let (board, remote) = with_remote(&b);
    let large = "run head -c 70000000 /dev/urandom > large\n\
                 run git add large && git commit --quiet -m large";
    let attempt = board.start("fake", &format!("{large}\n{WORK}"));
    attempt.settled();
    attempt.saved(1);
    wait_until("the remote has it", || pushed(&url) == ["there origin"]);
    assert_eq!(rows(&url, "SELECT coalesce(sha256, 'none') FROM turn_bundles"), ["none"]);
    assert_eq!(kept(&remote), of_turn(&attempt, 1));
    let repo = board.repo().path.clone();
    lose(&url, &b, "b");
    fs::remove_dir_all(b.home()).unwrap();
    fs::rename(&repo, repo.with_extension("gone")).unwrap();
    goes_on(&a, "a", &url, &attempt.id);
    // The next turn takes its place, from a mirror.
    let there = Attempt::new(&a, attempt.started.clone());
    there.saved(2);
    wait_until("the remote has the next turn alone", || kept(&remote) == of_turn(&there, 2));
    let seen = format!("refs/provost/{}/2/snapshot:seen.txt", there.id);
    assert!(remote.git(&["show", &seen]).contains("?? new.txt"));
    let branch = format!("refs/provost/{}/2/head:kept.txt", there.id);
    assert_eq!(remote.git(&["show", &branch]), "committed");
}

#[test]
fn a_remote_that_is_away_costs_a_warning_and_gets_the_snapshot_later() {
    let Some(url) = database("pushed_away") else { return };
    let a = host(&url, "a", "origin", "");
    let (board, remote) = with_remote(&a);
    let away = remote.path.with_extension("away");
    fs::rename(&remote.path, &away).unwrap();
    let attempt = board.start("fake", "write new.txt text");
    assert_eq!(attempt.settled()["state"], "completed");
    attempt.saved(1);
    wait_until("the push has failed", || pushed(&url) == ["failed origin"]);
    let notice_count = || {
        let said = attempt.said("system_message");
        said.iter().filter(|text| text.contains("is not on the remote origin yet")).count()
    };
    wait_until("the log says so", || notice_count() == 1);
    let warned = || a.said().matches("a snapshot is not pushed").count();
    assert_eq!(warned(), 1, "{}", a.said());
    a.kill_and_start();
    wait_until("it is tried again", || warned() == 2);
    assert_eq!(notice_count(), 1);

    // A push that is cut off is made again.
    fs::rename(&away, &remote.path).unwrap();
    a.kill();
    a.start_to_die_at("snapshot.pushed");
    assert_eq!(a.ended(), None, "killed by a signal");
    assert_eq!((pushed(&url), kept(&remote)), (vec!["failed origin".into()], of_turn(&attempt, 1)));
    a.start();
    wait_until("it is written down", || pushed(&url) == ["there origin"]);
    assert_eq!(kept(&remote), of_turn(&attempt, 1));

    // One that fails is made up for by the next turn.
    fs::rename(&remote.path, &away).unwrap();
    follow_up(&a, &attempt.id, "write new.txt more");
    attempt.saved(2);
    wait_until("the push has failed", || pushed(&url) == ["failed origin"]);
    fs::rename(&away, &remote.path).unwrap();
    follow_up(&a, &attempt.id, "write new.txt most");
    attempt.saved(3);
    wait_until("the third turn is there alone", || kept(&remote) == of_turn(&attempt, 3));
}

#[test]
fn nothing_is_pushed_without_the_setting_and_nothing_of_the_repository_runs_with_it() {
    let Some(url) = database("pushed_off") else { return };
    let a = host(&url, "a", "", "");
    let (board, remote) = with_remote(&a);
    let repo = board.repo();
    let (ran, elsewhere) = (a.path("ran"), a.empty_repo("elsewhere"));
    let touch = format!("touch {}", ran.display());
    for hook in ["pre-push", "reference-transaction", "post-update"] {
        let path = repo.path.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{touch}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let there = elsewhere.path.to_string_lossy().into_owned();
    let attempt = board.start("fake", "write new.txt text");
    for (key, value) in [
        ("remote.origin.pushurl", there.as_str()),
        (&format!("url.{there}.insteadOf"), &*remote.path.to_string_lossy()),
        ("credential.helper", &format!("!{touch}")),
        ("core.sshCommand", &touch),
        ("core.hooksPath", &*repo.path.join(".git/hooks").to_string_lossy()),
    ] {
        repo.git(&["config", key, value]);
    }
    attempt.settled();
    attempt.saved(1);
    follow_up(&a, &attempt.id, "write new.txt more");
    attempt.saved(2);
    assert_eq!((pushed(&url), kept(&remote).len()), (vec!["due".to_owned()], 0));

    let config = a.home().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let configure = |name: &str| {
        let to = format!("snapshot_remote = \"{name}\"");
        fs::write(&config, text.replace("snapshot_remote = \"\"", &to)).unwrap();
        a.kill_and_start();
    };
    // A remote of another name is none of this project's.
    configure("upstream");
    follow_up(&a, &attempt.id, "write new.txt most");
    attempt.saved(3);
    assert_eq!((pushed(&url), kept(&remote).len()), (vec!["due".to_owned()], 0));
    configure("origin");
    wait_until("it is pushed", || pushed(&url) == ["there origin"]);
    assert_eq!(kept(&remote), of_turn(&attempt, 3));
    assert!(kept(&elsewhere).is_empty() && !ran.exists());
}

#[test]
fn what_is_not_kept_any_more_is_removed_from_the_remote() {
    let Some(url) = database("pushed_removed") else { return };
    let a = host(&url, "a", "origin", "");
    let (board, remote) = with_remote(&a);
    works(&board, "write new.txt text");
    wait_until("it is there", || pushed(&url).contains(&"there origin".to_owned()));
    assert_eq!(kept(&remote).len(), 2);
    wait_until("gc removes it", || {
        a.verb(["gc", "--yes", "--snapshot"]);
        kept(&remote).is_empty()
    });
    wait_until("that is written down", || pushed(&url) == ["removed origin"]);

    let second = works(&board, "write new.txt text");
    wait_until("it is there", || pushed(&url).contains(&"there origin".to_owned()));
    assert_eq!(kept(&remote).len(), 2);
    run(&url, "UPDATE tasks SET status = 'done'; UPDATE attempts SET updated_at = 1");
    let state = || {
        let sql = format!("SELECT pushed FROM turn_bundles WHERE attempt_id = '{second}'");
        rows(&url, &sql)[0].clone()
    };
    a.kill_and_start();
    wait_until("it is kept for long enough", || state() != "there");
    // The start looks for both at once.
    a.kill_and_start();
    wait_until("it is removed", || kept(&remote).is_empty() && state() == "removed");

    let third = works(&board, "write new.txt text");
    wait_until("it is there", || pushed(&url).contains(&"there origin".to_owned()));
    assert_eq!(kept(&remote).len(), 2);
    wait_until("its project is removed", || {
        a.verb(["project", "rm", "scratch", "--yes"]).code == 0
    });
    wait_until("it is removed with its project", || kept(&remote).is_empty());
    let task = json!({"attempt_id": third});
    assert_eq!(a.call("get_attempt_status", &task)["phase"], "settled");
}

#[test]
fn work_whose_commits_have_copied_credentials_is_not_pushed() {
    let Some(url) = database("pushed_secret") else { return };
    let a = host(&url, "a", "origin", "[projects.scratch.repos.app]\ncopy = ['/.env']\n");
    let (board, remote) = with_remote(&a);
    let repo = board.repo();
    fs::write(repo.path.join(".git/info/exclude"), ".env\n").unwrap();
    fs::write(repo.path.join(".env"), "TOKEN=a-long-secret\n").unwrap();
    let attempt = board.start("fake", "run git add --force .env && git commit --quiet -m env");
    attempt.settled();
    attempt.saved(1);
    wait_until("it is refused", || pushed(&url) == ["failed origin"]);
    wait_until("the log says why", || {
        attempt.said("system_message").iter().any(|text| text.contains("a file of credentials"))
    });
    assert!(kept(&remote).is_empty());
    follow_up(&a, &attempt.id, "run git reset --quiet --soft HEAD~1 && git reset --quiet");
    attempt.saved(2);
    wait_until("what has none is pushed", || kept(&remote) == of_turn(&attempt, 2));
    assert!(!remote.git(&["ls-tree", "--name-only", &kept(&remote)[1]]).contains(".env"));
}
