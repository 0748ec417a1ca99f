//! Attempts that go on at another host than the one that began them: their repositories in mirrors,
//! and what their turns left in bundles on the board. They need a server, which
//! `.ci/postgres COMMAND` gives them.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::postgres::{database, rows, run};
use crate::harness::{Attempt, Board, Provost, Repo};

/// A turn that leaves something of each kind.
pub const WORK: &str = "write kept.txt committed\nrun git add --all && git commit --quiet -m work\n\
    write kept.txt changed\nwrite new.txt untracked\nrun rm README.md\n\
    run printf x > tool.sh && chmod +x tool.sh\nrun ln -s kept.txt link";
/// What the next one finds.
const SEEN: &str = "?? tool.sh\n?? new.txt\n?? link\n M kept.txt\n D README.md";

/// A host of a board, with more of its table.
pub fn host(url: &str, name: &str, more: &str) -> Provost {
    let config = format!(
        "[engine]\nurl = \"{url}\"\ndurability = \"single\"\n[host]\nname = \"{name}\"\n\
         lease_secs = 30\n{more}"
    );
    Provost::new().config(&config).started()
}

pub const MIRRORS: &str = "repositories = \"mirrors\"\n";

/// Starts an attempt at a new task of the board from a host.
pub fn start_at<'p>(board: &Board<'_>, host: &'p Provost, prompt: &str) -> Attempt<'p> {
    let task = board.task("do something");
    let start = json!({"task_id": task, "executor": "fake", "prompt": prompt});
    Attempt::new(host, host.call("start_task_attempt", &start))
}

/// Ends the daemon of a host whose attempts are at rest, and its lease.
pub fn lose(url: &str, host: &Provost, name: &str) {
    host.kill();
    // The first registration on a board gives each host the time of a lease.
    run(url, "UPDATE cluster SET no_sweep_before = 0");
    run(url, &format!("UPDATE hosts SET lease_until = 1 WHERE host_id = '{name}'"));
}

fn merge(host: &Provost, attempt: &str) -> Value {
    host.call("finish_attempt", &json!({"attempt_id": attempt, "action": "merge"}))
}

pub fn follow_up(host: &Provost, attempt: &str, prompt: &str) {
    let more = json!({"attempt_id": attempt, "action": "send", "prompt": prompt});
    host.call("follow_up", &more);
}

/// The worktree of an attempt on a host.
pub fn worktree(host: &Provost, url: &str, attempt: &str) -> PathBuf {
    let folder = rows(url, &format!("SELECT folder FROM attempts WHERE attempt_id = '{attempt}'"));
    let folder = host.home().join("worktrees").join(&folder[0]);
    let mut inside = fs::read_dir(&folder).unwrap();
    inside.next().unwrap().unwrap().path()
}

/// Checks that a follow-up from another host begins with what the work has left.
pub fn goes_on(host: &Provost, name: &str, url: &str, attempt: &str) {
    let look = "run all=$(git status --porcelain); printf '%s\\n' \"$all\" > seen.txt";
    follow_up(host, attempt, look);
    let there = Attempt::new(host, json!({"attempt_id": attempt}));
    assert_eq!(there.settled()["state"], "completed");
    assert_eq!(there.settled()["host"], name);
    let worktree = worktree(host, url, attempt);
    let seen = fs::read_to_string(worktree.join("seen.txt")).unwrap();
    let mut lines: Vec<&str> = seen.lines().collect();
    lines.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(lines.join("\n"), SEEN);
    assert_eq!(fs::read_to_string(worktree.join("link")).unwrap(), "changed\n");
}

#[test]
fn a_host_without_the_repository_starts_in_a_mirror_and_its_work_is_merged_where_that_is() {
    let Some(url) = database("moved_mirror") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", MIRRORS));
    let board = a.board();
    for from in [&b, &a] {
        let attempt = start_at(&board, &b, "write made.txt text\nrun date +%N >> made.txt");
        assert_eq!(attempt.settled()["host"], "b");
        attempt.saved(1);
        let asked = json!({"attempt_id": attempt.id});
        let changes = b.call("get_attempt_changes", &asked);
        assert_eq!(changes["summary"]["file_count"], 1, "{changes}");
        assert_eq!(changes, a.call("get_attempt_changes", &asked));
        assert!(a.verb(["diff", &attempt.id]).stdout.contains("made.txt"));
        let done = merge(from, &attempt.id);
        assert_eq!(done["state"], "done", "{done}");
        assert!(board.repo().git(&["show", "main:made.txt"]).starts_with("text"));
        assert_eq!(attempt.status()["host"], "a");
    }
    // The second base commit needs the first one only.
    assert_eq!(
        rows(&url, "SELECT count(*) || '' FROM base_bundles WHERE needs IS NOT NULL"),
        ["1"]
    );
    assert!(board.repo().git(&["for-each-ref", "refs/provost/attempts"]).lines().count() >= 2);
}

#[test]
fn what_a_lost_home_had_of_an_attempt_at_rest_is_there_on_another_host() {
    let Some(url) = database("moved_lost") else { return };
    let (a, b) = (host(&url, "a", MIRRORS), host(&url, "b", ""));
    let board = b.board();
    let attempt = board.start("fake", WORK);
    attempt.settled();
    attempt.saved(1);
    let asked = json!({"attempt_id": attempt.id});
    let mut changes = b.call("get_attempt_changes", &asked);
    changes.as_object_mut().unwrap().remove("hint");
    let repo = board.repo().path.clone();
    lose(&url, &b, "b");
    fs::remove_dir_all(b.home()).unwrap();
    fs::rename(&repo, repo.with_extension("gone")).unwrap();
    // Looking at it moves nothing.
    let mut there = a.call("get_attempt_changes", &asked);
    let hint = there.as_object_mut().unwrap().remove("hint").unwrap();
    assert!(hint.as_str().unwrap().contains("host b, which has this attempt, is away"), "{hint}");
    assert_eq!(there, changes);
    assert!(a.verb(["diff", &attempt.id]).stdout.contains("new.txt"));
    let patch = json!({"attempt_id": attempt.id, "paths": ["kept.txt"]});
    assert!(a.call("get_attempt_patch", &patch)["patch"].as_str().unwrap().contains("+changed"));
    let file =
        a.refusal("get_attempt_file", &json!({"attempt_id": attempt.id, "path": "kept.txt"}));
    assert_eq!(file["code"], "daemon_unavailable", "{file}");
    assert_eq!(rows(&url, "SELECT host FROM attempts"), ["b"]);
    goes_on(&a, "a", &url, &attempt.id);
    // No host with the repository is there.
    let merge = json!({"attempt_id": attempt.id, "action": "merge"});
    let refusal = a.refusal("finish_attempt", &merge);
    assert_eq!(refusal["code"], "daemon_unavailable", "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("has no repository at"), "{refusal}");
}

#[test]
fn an_attempt_of_a_lost_host_goes_on_in_the_clone_that_both_hosts_share() {
    let Some(url) = database("moved_shared") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", ""));
    let board = a.board();
    let attempt = start_at(&board, &b, WORK);
    attempt.settled();
    attempt.saved(1);
    let old = worktree(&b, &url, &attempt.id);
    lose(&url, &b, "b");
    // Somebody goes on there.
    fs::write(old.join("kept.txt"), "later\n").unwrap();
    goes_on(&a, "a", &url, &attempt.id);
    assert_eq!(fs::read_to_string(old.join("kept.txt")).unwrap(), "later\n");
    let done = merge(&a, &attempt.id);
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(board.repo().git(&["show", "main:new.txt"]), "untracked");
    // The former host has nothing to say of it.
    b.start();
    assert_eq!(b.call("get_attempt_status", &json!({"attempt_id": attempt.id}))["host"], "a");
    assert!(old.exists());
    let collected = b.verb(["gc", "--yes"]);
    assert!(collected.code == 0 && !old.exists(), "{collected:?}");
    assert!(worktree(&a, &url, &attempt.id).exists());
}

/// Gives a repository a remote that has all of it, as the repository knows.
pub fn give_origin(of: &Provost, repo: &Repo) {
    let remote = of.path("remote.git");
    let place = remote.to_string_lossy();
    repo.git(&["clone", "--quiet", "--bare", ".", &place]);
    repo.git(&["remote", "add", "origin", &place]);
    repo.git(&["fetch", "--quiet", "origin"]);
}

#[test]
fn what_a_remote_has_is_fetched_from_there() {
    let Some(url) = database("moved_remote") else { return };
    let (a, b) = (host(&url, "a", ""), host(&url, "b", MIRRORS));
    let repo = a.repo("app");
    give_origin(&a, &repo);
    let board = Board::new(&a, vec![repo]);
    let attempt = start_at(&board, &b, "write made.txt text");
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(rows(&url, "SELECT commit_id FROM base_bundles"), [""; 0]);
    // Only the remote is left.
    lose(&url, &a, "a");
    let start =
        json!({"task_id": attempt.started["task_id"], "executor": "fake", "prompt": "say x"});
    let second = Attempt::new(&b, b.call("start_task_attempt", &start));
    assert_eq!(second.settled()["state"], "completed");
}

#[test]
fn a_waiting_attempt_is_prepared_from_rows_alone_by_the_host_that_gets_it() {
    let Some(url) = database("moved_queued") else { return };
    let (a, b) = (host(&url, "a", MIRRORS), host(&url, "b", ""));
    let board = b.board();
    b.verb(["host", "drain", "b"]);
    let attempt = board.start("fake", "run cat README.md > copy.txt");
    lose(&url, &b, "b");
    fs::remove_dir_all(&board.repo().path).unwrap();
    run(&url, "UPDATE attempts SET host = 'a', epoch = epoch + 1");
    a.kill_and_start();
    let there = Attempt::new(&a, attempt.started.clone());
    assert_eq!(there.settled()["state"], "completed");
    let worktree = worktree(&a, &url, &attempt.id);
    assert_eq!(fs::read_to_string(worktree.join("copy.txt")).unwrap(), "a scratch repository\n");
}

#[test]
fn what_is_too_large_for_the_board_is_not_lost_and_named() {
    let Some(url) = database("moved_large") else { return };
    let (a, b) = (host(&url, "a", MIRRORS), host(&url, "b", ""));
    let board = b.board();
    let large =
        "run head -c 70000000 /dev/urandom > large\nrun git add large && git commit -qm large";
    let attempt = board.start("fake", large);
    attempt.settled();
    attempt.saved(1);
    assert_eq!(rows(&url, "SELECT coalesce(sha256, 'none') FROM turn_bundles"), ["none"]);
    assert_eq!(rows(&url, "SELECT count(*) || '' FROM bundle_parts"), ["1"], "the base commit");
    lose(&url, &b, "b");
    let more = json!({"attempt_id": attempt.id, "action": "send", "prompt": "say x"});
    let refusal = a.refusal("follow_up", &more);
    assert_eq!(refusal["code"], "workspace_failed", "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("at most are kept"), "{refusal}");
    assert_eq!(rows(&url, "SELECT host FROM attempts"), ["b"], "it stays where its work is");
    b.start();
    follow_up(&b, &attempt.id, "say on");
    attempt.saved(2);
}

#[test]
fn a_host_to_which_an_attempt_returns_has_what_it_left_elsewhere() {
    let Some(url) = database("moved_back") else { return };
    let (a, b) = (host(&url, "a", MIRRORS), host(&url, "b", ""));
    let board = b.board();
    let attempt = board.start("fake", WORK);
    attempt.settled();
    attempt.saved(1);
    lose(&url, &b, "b");
    goes_on(&a, "a", &url, &attempt.id);
    let there = Attempt::new(&a, attempt.started.clone());
    there.saved(2);
    lose(&url, &a, "a");
    b.start();
    let worktree = worktree(&b, &url, &attempt.id);
    assert!(!worktree.join("seen.txt").exists());
    fs::write(worktree.join("stale"), "").unwrap();
    let done = merge(&b, &attempt.id);
    assert_eq!(done["state"], "done", "{done}");
    assert!(worktree.join("seen.txt").exists() && !worktree.join("stale").exists());
    assert_eq!(board.repo().git(&["show", "main:kept.txt"]), "changed");
    let trash = fs::read_dir(b.home().join("trash")).unwrap();
    assert_eq!(trash.count(), 1, "what it had there is not deleted");
}

#[test]
fn a_gateway_that_has_merged_an_attempt_gives_its_next_turn_to_a_worker() {
    let Some(url) = database("moved_gateway") else { return };
    let gateway = host(&url, "front", "role = 'gateway'\n");
    let worker = host(&url, "back", &format!("role = 'worker'\n{MIRRORS}"));
    let board = gateway.board();
    let attempt = start_at(&board, &gateway, "write made.txt text");
    assert_eq!(attempt.settled()["host"], "back");
    let done = merge(&gateway, &attempt.id);
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(board.repo().git(&["show", "main:made.txt"]).trim(), "text");
    assert_eq!(attempt.status()["host"], "front");
    follow_up(&gateway, &attempt.id, "run cat made.txt");
    let settled = attempt.settled();
    assert_eq!((&settled["host"], &settled["state"]), (&json!("back"), &json!("completed")));
    attempt.has_said("text");
    drop(worker);
}
