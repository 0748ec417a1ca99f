//! The cache of setups: what one worktree's setup made, later worktrees get.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cleanup::collected;
use crate::harness::{Attempt, Board, Provost, wait_until};

/// A setup that counts its runs, and makes `deps` from `lock.txt`.
fn counting(provost: Provost, more: &str) -> (Provost, PathBuf) {
    let runs = provost.path("runs");
    let run = format!(
        "echo x >> {}; mkdir -p deps/bin; cp lock.txt deps/made.txt; ln -sf ../made.txt deps/bin/link",
        runs.display()
    );
    let config = format!(
        "{more}\n[projects.scratch.repos.app.setup]\nrun = '{run}'\n\
         cache_key = ['lock.txt']\ncache = ['deps']"
    );
    (provost.config(&config), runs)
}

fn count(runs: &PathBuf) -> usize {
    fs::read_to_string(runs).unwrap_or_default().lines().count()
}

fn cache_of(attempt: &Attempt) -> Value {
    let status = attempt.settled();
    assert_eq!(status["state"], "completed", "{status}");
    status["provision"]["repos"]["app"]["cache"].clone()
}

/// The radar has a folder there for as long as it tries a merge.
fn wait_until_nothing_half_is_left(provost: &Provost) {
    let left = || fs::read_dir(provost.home().join("scratch")).map_or(0, Iterator::count);
    wait_until("nothing half is left", || left() == 0);
}

#[test]
fn a_setup_is_spared_by_what_an_earlier_one_with_the_same_key_made() {
    let (provost, runs) = counting(Provost::new(), "");
    let provost = provost.started();
    let board = provost.board();
    board.repo().commit(".gitignore", "/deps/\n");
    board.repo().commit("lock.txt", "one\n");
    let first = board.start("fake", "run cat deps/bin/link; echo mine > deps/of-the-agent");
    let kept = cache_of(&first);
    assert_eq!((&kept["state"], &kept["files"]), (&json!("kept"), &json!(1)), "{kept}");
    let second = board.start("fake", "run cat deps/bin/link; ls deps");
    let restored = cache_of(&second);
    assert_eq!((&restored["state"], &restored["key"]), (&json!("restored"), &kept["key"]));
    assert_eq!(second.said("tool_result").concat(), "one\nbin\nmade.txt", "nothing of the agent's");
    assert_eq!(count(&runs), 1);
    // Another content, another key.
    board.repo().commit("lock.txt", "two\n");
    let third = board.start("fake", "run cat deps/made.txt");
    assert_eq!(cache_of(&third)["state"], "kept");
    assert_eq!((count(&runs), third.said("tool_result")), (2, vec!["two".to_owned()]));
    let doctor = provost.verb(["doctor", "--json"]);
    assert!(doctor.stdout.contains("2 setups are cached"), "{doctor:?}");
    // A person empties it.
    let report = provost.verb(["--json", "gc", "--empty-cache"]).json();
    assert_eq!(report["entries"][0]["verdict"], "removable", "{report}");
    let report = provost.verb(["--json", "gc", "--empty-cache", "--yes"]).json();
    assert_eq!(report["entries"].as_array().unwrap().len(), 2, "{report}");
    let report = provost.verb(["--json", "gc", "--empty-cache"]).json();
    assert_eq!(report["entries"], json!([]));
    assert_eq!(cache_of(&board.start("fake", "say done"))["state"], "kept");
    assert_eq!(count(&runs), 3);
}

#[test]
fn an_agents_files_never_get_into_the_cache() {
    let (provost, runs) = counting(Provost::new(), "");
    let provost = provost.started();
    let board = provost.board();
    board.repo().commit(".gitignore", "/deps/\n");
    board.repo().commit("lock.txt", "one\n");
    let entries = || provost.verb(["--json", "gc", "--empty-cache"]).json()["entries"].clone();
    cache_of(&board.start("fake", "say done"));
    provost.verb(["gc", "--empty-cache", "--yes"]);
    // A branch that anyone may have written.
    board.repo().git(&["branch", "proposed"]);
    board.repo().commit("more.txt", "x");
    board.repo().git(&["checkout", "--quiet", "proposed"]);
    board.repo().commit("theirs.txt", "x");
    board.repo().git(&["checkout", "--quiet", "main"]);
    let proposed = json!([{"repo_id": board.repo_ids[0], "target_branch": "proposed"}]);
    let cache = cache_of(&board.start_with("fake", &json!({"repos": proposed, "prompt": "say x"})));
    assert_eq!(cache["state"], "not_kept", "{cache}");
    assert!(cache["reason"].as_str().unwrap().contains("not on the default branch"), "{cache}");
    // A fork begins with an agent's files.
    let agent = board.start("fake", "write lock.txt evil\nsay done");
    agent.settled();
    agent.saved(1);
    provost.verb(["gc", "--empty-cache", "--yes"]);
    let fork = json!({"from_attempt_id": agent.id, "prompt": "say forked", "executor": "fake"});
    let fork = board.start_with("fake", &fork);
    let cache = cache_of(&fork);
    assert_eq!(cache["state"], "not_kept", "{cache}");
    assert!(cache["reason"].as_str().unwrap().contains("agents may have"), "{cache}");
    assert_eq!(entries(), json!([]));
    assert!(count(&runs) >= 2);
    // A worktree that is made anew begins with its agent's branch.
    collected(&provost, &agent);
    let again = json!({"action": "send", "attempt_id": agent.id, "prompt": "say again"});
    provost.call("follow_up", &again);
    agent.has_said("again");
    assert_eq!(cache_of(&agent)["state"], "not_kept");
    assert_eq!(entries(), json!([]));
}

#[test]
fn a_link_out_of_the_worktree_is_never_kept() {
    let provost = Provost::new();
    let secret = provost.path("secret");
    fs::write(&secret, "secret").unwrap();
    let run = format!("mkdir deps; ln -s {} deps/out; echo x > deps/x", secret.display());
    let config = format!(
        "[projects.scratch.repos.app.setup]\nrun = '{run}'\ncache_key = []\ncache = ['deps']"
    );
    let provost = provost.config(&config).started();
    let board = provost.board();
    board.repo().commit(".gitignore", "/deps/\n");
    for _ in 0..2 {
        let cache = cache_of(&board.start("fake", "say done"));
        assert_eq!(cache["state"], "not_kept", "{cache}");
        assert!(cache["reason"].as_str().unwrap().contains("leads out of the worktree"), "{cache}");
    }
    wait_until_nothing_half_is_left(&provost);
}

#[test]
fn a_link_in_the_worktree_leads_no_entry_out_of_it() {
    let (provost, _) = counting(Provost::new(), "");
    let provost = provost.started();
    let board = provost.board();
    let outside = provost.path("outside");
    fs::create_dir(&outside).unwrap();
    board.repo().commit("lock.txt", "one\n");
    cache_of(&board.start("fake", "say done"));
    // The commit has a link where the cached folder would be.
    symlink(&outside, board.repo().path.join("deps")).unwrap();
    board.repo().git(&["add", "deps"]);
    board.repo().git(&["commit", "--quiet", "--message", "link"]);
    let attempt = board.start("fake", "say done");
    let cache = cache_of(&attempt);
    assert_ne!(cache["state"], "restored", "{cache}");
}

#[test]
fn a_daemon_killed_at_any_step_keeps_and_restores_whole_entries() {
    for step in ["cache.made", "cache.kept", "cache.next", "cache.copied", "cache.restored"] {
        let (provost, runs) = counting(Provost::new(), "");
        provost.start();
        let board = provost.board();
        board.repo().commit(".gitignore", "/deps/\n");
        board.repo().commit("lock.txt", "one\n");
        let of_taking = ["cache.next", "cache.copied", "cache.restored"].contains(&step);
        if of_taking {
            cache_of(&board.start("fake", "say done"));
        }
        provost.kill();
        provost.start_to_die_at(step);
        let start = json!({"task_id": board.task("x"), "executor": "fake", "request_id": "one",
            "prompt": "run cat deps/bin/link; ls deps"});
        let mut client = provost.connect();
        let call = client.begin("start_task_attempt", &start);
        // The daemon may die before it answers.
        let _ = client.outcome(call);
        provost.ended();
        provost.start();
        let attempt = Attempt::new(&provost, provost.call("start_task_attempt", &start));
        let cache = cache_of(&attempt);
        let expected = if of_taking { "restored" } else { "kept" };
        assert_eq!(cache["state"], expected, "{step}: {cache}");
        assert_eq!(attempt.said("tool_result").concat(), "one\nbin\nmade.txt", "{step}");
        assert_eq!(count(&runs), 1, "{step}");
        wait_until_nothing_half_is_left(&provost);
    }
}

#[test]
fn without_room_nothing_is_cached() {
    let (provost, runs) = counting(Provost::new(), "[worktrees]\ncache_max_bytes = 0\n");
    let provost = provost.started();
    let board = provost.board();
    board.repo().commit("lock.txt", "one\n");
    for _ in 0..2 {
        assert_eq!(cache_of(&board.start("fake", "say done")), Value::Null);
    }
    assert_eq!(count(&runs), 2);
}

/// A setup that counts its runs, waits until a test opens the gate, and then runs `then`.
fn gated(then: &str) -> (Provost, PathBuf) {
    let provost = Provost::new();
    let (runs, gate) = (provost.path("runs"), provost.path("gate"));
    let run = format!(
        "echo x >> {}; until test -e {}; do sleep 0.05; done; {then}",
        runs.display(),
        gate.display()
    );
    let config = format!(
        "[projects.scratch.repos.app.setup]\nrun = \"\"\"{run}\"\"\"\n\
         cache_key = ['lock.txt']\ncache = ['deps']"
    );
    (provost.config(&config), runs)
}

/// As many attempts as there are, of which the first one runs its setup and the others wait for that.
fn first_and_waiting<'p, const N: usize>(board: &Board<'p>, runs: &PathBuf) -> [Attempt<'p>; N] {
    board.repo().commit(".gitignore", "/deps/\n");
    board.repo().commit("lock.txt", "one\n");
    let mut all = vec![board.start("fake", "run cat deps/made")];
    wait_until("the first setup runs", || count(runs) == 1);
    while all.len() < N {
        all.push(board.start("fake", "run cat deps/made"));
    }
    for attempt in &all[1..] {
        waits_for(attempt, &all[0]);
    }
    all.try_into().unwrap_or_else(|_| panic!("{N} attempts"))
}

fn waits_for(attempt: &Attempt, other: &Attempt) {
    let status = attempt.until("it waits for a setup", |it| it["waiting_on"] == "setup");
    assert_eq!(status["phase"], "preparing", "{status}");
    let next = status["next_action"].as_str().unwrap();
    assert!(next.contains(&format!("the setup of attempt {}", other.id)), "{next}");
}

fn open_the_gate(provost: &Provost) {
    fs::write(provost.path("gate"), "").unwrap();
}

#[test]
fn of_attempts_at_once_with_one_key_the_first_runs_the_setup_and_the_others_take_its_result() {
    let (provost, runs) = gated("mkdir deps; echo made > deps/made");
    let provost = provost.started();
    let board = provost.board();
    let all: [Attempt; 4] = first_and_waiting(&board, &runs);
    let ps = provost.verb(["ps"]);
    assert!(ps.stdout.contains("preparing, waits for setup"), "{ps:?}");
    open_the_gate(&provost);
    assert_eq!(cache_of(&all[0])["state"], "kept");
    for attempt in &all[1..] {
        let cache = cache_of(attempt);
        assert_eq!(
            (&cache["state"], &cache["waited_for"]),
            (&json!("restored"), &json!(all[0].id)),
            "{cache}"
        );
        assert_eq!(attempt.said("tool_result").concat().trim_end(), "made");
        assert_eq!(attempt.status()["waiting_on"], Value::Null);
    }
    assert_eq!(count(&runs), 1);
}

#[test]
fn when_the_first_one_is_stopped_the_next_one_runs_its_setup_for_the_others() {
    let (provost, runs) = gated("mkdir deps; echo made > deps/made");
    let provost = provost.started();
    let board = provost.board();
    let [first, second, third] = first_and_waiting(&board, &runs);
    // One that only waits is stopped at once.
    third.stop();
    let third = board.start("fake", "run cat deps/made");
    waits_for(&third, &first);
    first.stop();
    wait_until("the next setup runs", || count(&runs) == 2);
    let waiting = |it: &Attempt| it.status()["waiting_on"] == "setup";
    wait_until("one of them waits", || waiting(&second) != waiting(&third));
    open_the_gate(&provost);
    let states = [&second, &third].map(|it| cache_of(it)["state"].as_str().unwrap().to_owned());
    assert!(states.contains(&"kept".to_owned()) && states.contains(&"restored".to_owned()));
    assert_eq!(count(&runs), 2);
}

#[test]
fn a_killed_daemon_runs_no_second_setup_beside_the_one_that_goes_on() {
    let (provost, runs) = gated("mkdir deps; echo made > deps/made");
    let provost = provost.started();
    let board = provost.board();
    let [first, second, third] = first_and_waiting(&board, &runs);
    provost.kill_and_start();
    for attempt in [&second, &third] {
        waits_for(attempt, &first);
    }
    open_the_gate(&provost);
    assert_eq!(cache_of(&first)["state"], "kept");
    for attempt in [&second, &third] {
        assert_eq!(cache_of(attempt)["state"], "restored");
    }
    assert_eq!(count(&runs), 1);
}

#[test]
fn when_the_first_setup_fails_each_of_the_others_runs_its_own() {
    let first_fails =
        "if mkdir \"$HOME/first\"; then exit 1; fi; mkdir deps; echo made > deps/made";
    let (provost, runs) = gated(first_fails);
    let provost = provost.started();
    let board = provost.board();
    let [first, second, third] = first_and_waiting(&board, &runs);
    open_the_gate(&provost);
    assert_eq!(first.settled()["state"], "failed");
    let states = [&second, &third].map(|it| cache_of(it)["state"].clone());
    assert!(states.contains(&json!("kept")), "{states:?}");
    assert_eq!(count(&runs), 3);
    assert_eq!(cache_of(&board.start("fake", "run cat deps/made"))["state"], "restored");
}

#[test]
fn nothing_waits_for_a_setup_whose_result_can_not_be_kept() {
    let (provost, runs) = gated("mkdir deps; ln -s /etc/hosts deps/out; echo made > deps/made");
    let provost = provost.started();
    let board = provost.board();
    let [first, second] = first_and_waiting(&board, &runs);
    open_the_gate(&provost);
    let third = || board.start("fake", "run cat deps/made");
    for attempt in [first, second, third()] {
        let cache = cache_of(&attempt);
        assert_eq!(cache["state"], "not_kept", "{cache}");
        assert!(cache["reason"].as_str().unwrap().contains("leads out of the worktree"), "{cache}");
    }
    assert_eq!(count(&runs), 3);
    // The next ones run side by side.
    fs::remove_file(provost.path("gate")).unwrap();
    let both = [third(), third()];
    wait_until("both setups run", || count(&runs) == 5);
    open_the_gate(&provost);
    for attempt in both {
        assert_eq!(cache_of(&attempt)["state"], "not_kept");
    }
}
