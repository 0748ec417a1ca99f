//! `provost doctor`: what it finds, what it mends, and what it leaves alone.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Attempt, Done, PLAIN, Provost, processes, wait_until};

fn doctor(provost: &Provost) -> Vec<Value> {
    checks(&provost.verb(["doctor", "--json"]))
}

fn fix(provost: &Provost) -> Vec<Value> {
    checks(&provost.verb(["doctor", "--fix", "--json"]))
}

/// What it printed; its exit code says whether anything fails.
#[track_caller]
fn checks(done: &Done) -> Vec<Value> {
    let checks: Vec<Value> =
        serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    let fails = checks.iter().any(|check| check["status"] == "fail");
    assert_eq!(done.code, i32::from(fails), "{done:?}");
    for check in &checks {
        assert!(check["fixable"] == false || check["hint"].is_string(), "{check}");
        assert!(check["status"] != "fail" || check["hint"].is_string(), "{check}");
    }
    checks
}

/// The checks of a name that are not ok.
fn wrong<'c>(checks: &'c [Value], name: &str) -> Vec<&'c Value> {
    let of_name = checks.iter().filter(|check| check["name"] == name);
    of_name.filter(|check| check["status"] != "ok").collect()
}

#[track_caller]
fn one<'c>(checks: &'c [Value], name: &str, status: &str, text: &str) -> &'c Value {
    let found = wrong(checks, name);
    let is_it = |check: &&&Value| {
        check["status"] == status && check["message"].as_str().unwrap().contains(text)
    };
    found.iter().find(is_it).unwrap_or_else(|| panic!("no {name} {status} {text}: {checks:#?}"))
}

/// Every path below a folder with its mode and length.
fn tree(dir: &Path) -> Vec<(PathBuf, u32, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let meta = entry.metadata().unwrap();
        found.push((entry.path(), meta.permissions().mode(), meta.len()));
        if meta.is_dir() {
            found.extend(tree(&entry.path()));
        }
    }
    found.sort();
    found
}

fn worktree(provost: &Provost, attempt: &Attempt) -> PathBuf {
    let branch = attempt.started["workspace_branch"].as_str().unwrap();
    provost.home().join("worktrees").join(branch.strip_prefix("provost/").unwrap()).join("app")
}

/// Waits until its rows say that nothing of it is alive.
fn rests(provost: &Provost, attempt: &Attempt) {
    attempt.settled();
    wait_until("nothing of it is alive", || {
        let report = provost.verb(["gc", "--json"]).json();
        report["attempts"].as_array().unwrap().iter().all(|it| {
            it["attempt_id"] != attempt.id || it["reason"] != "something that it started is alive"
        })
    });
}

#[test]
fn a_home_in_good_order_is_so_with_and_without_its_daemon() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say hello\nwrite a b");
    rests(&provost, &attempt);
    let with = doctor(&provost);
    let wrongs = |checks: &[Value]| {
        let bad = checks.iter().filter(|it| it["status"] == "warn" || it["status"] == "fail");
        bad.filter(|it| !["disk", "limits"].contains(&it["name"].as_str().unwrap())).count()
    };
    assert_eq!(wrongs(&with), 0, "{with:#?}");
    let entry = with.iter().find(|check| check["name"] == "daemon").unwrap();
    assert!(entry["message"].as_str().unwrap().contains(&provost.pid().to_string()), "{entry}");
    assert_eq!(provost.verb(["shutdown"]).code, 0);
    provost.ended();
    let without = doctor(&provost);
    assert_eq!(wrongs(&without), 0, "{without:#?}");
    assert_eq!(provost.processes(), [] as [i32; 0], "it starts no daemon");
    let shown = provost.verb(["doctor"]);
    assert!(shown.stdout.contains("git version"), "{shown:?}");
}

#[test]
fn a_home_that_is_not_there_is_reported_and_not_made() {
    let provost = Provost::new();
    fs::remove_dir(provost.home()).unwrap();
    one(&doctor(&provost), "home", "note", "does not exist");
    one(&fix(&provost), "home", "note", "does not exist");
    assert!(!provost.home().exists());
}

#[test]
fn nonsense_in_the_configuration_does_not_keep_it_from_the_rest() {
    let provost = Provost::running().config("[daemon]\nmax_runing = 3\n[[[");
    let checks = doctor(&provost);
    one(&checks, "configuration", "fail", "config.toml");
    assert_eq!(wrong(&checks, "database"), [] as [&Value; 0]);
    assert!(checks.iter().any(|check| check["name"] == "git"));
}

#[test]
fn executors_tell_their_version_without_secrets_and_a_hanging_one_is_not_waited_for() {
    let provost = Provost::new()
        .executor("tells", PLAIN, "echo \"agent 1.2.3 ${TOKEN:-none}\"")
        .executor("hangs", PLAIN, "sleep 987654 & wait")
        .config("[executors.absent]\nprotocol = 'plain'\ncommand = ['no-such-agent']")
        .variable("TOKEN", "hush");
    let checks = doctor(&provost);
    let entry = checks.iter().find(|check| check["name"] == "executor tells").unwrap();
    assert!(entry["message"].as_str().unwrap().contains("agent 1.2.3 none"), "{entry}");
    one(&checks, "executor absent", "warn", "not on the daemon's PATH");
    let hangs = checks.iter().find(|check| check["name"] == "executor hangs").unwrap();
    assert!(hangs["message"].as_str().unwrap().contains("version unknown"), "{hangs}");
    assert!(!format!("{checks:?}").contains("hush"));
    wait_until("what it started is gone", || {
        processes::with_variable("LANG", "C.UTF-8").iter().all(|pid| {
            !fs::read(format!("/proc/{pid}/cmdline"))
                .unwrap_or_default()
                .starts_with(b"sleep\x00987654")
        })
    });
}

#[test]
fn a_socket_that_a_killed_daemon_left_is_removed_once() {
    let provost = Provost::running();
    provost.kill();
    let socket = provost.home().join("run/daemon.sock");
    let check = doctor(&provost);
    assert_eq!(one(&check, "daemon", "warn", "killed")["fixable"], true);
    assert!(socket.exists(), "only told");
    let fixed = fix(&provost);
    assert!(fixed.iter().any(|check| check["name"] == "daemon" && check["fixed"] == true));
    assert!(!socket.exists());
    assert!(fix(&provost).iter().all(|check| check["fixed"] == false));
}

#[test]
fn what_is_open_to_others_is_closed() {
    let provost = Provost::running();
    let attempts = provost.home().join("attempts");
    let mode = || fs::metadata(&attempts).unwrap().permissions().mode() & 0o777;
    let open = || fs::set_permissions(&attempts, Permissions::from_mode(0o755)).unwrap();
    open();
    wait_until("the daemon has closed it", || mode() == 0o700);
    provost.kill();
    open();
    fix(&provost);
    assert_eq!(mode(), 0o700);
}

#[test]
fn looking_changes_nothing() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say hello");
    rests(&provost, &attempt);
    provost.kill();
    fs::set_permissions(provost.home().join("attempts"), Permissions::from_mode(0o755)).unwrap();
    let seen = || {
        let all = tree(provost.home()).into_iter();
        // The index of the write-ahead log is made anew by any reader.
        all.filter(|(path, ..)| !path.ends_with("provost.db-shm")).collect::<Vec<_>>()
    };
    let before = seen();
    doctor(&provost);
    assert_eq!(seen(), before);
}

#[test]
fn a_damaged_database_and_one_of_another_version_are_reported_and_not_touched() {
    let provost = Provost::running();
    provost.board();
    assert_eq!(provost.verb(["shutdown"]).code, 0);
    provost.ended();
    let path = provost.home().join("provost.db");
    let good = fs::read(&path).unwrap();
    provost.sql(&[
        "INSERT INTO _sqlx_migrations
        (version, description, success, checksum, execution_time) VALUES (9999, 'x', 1, x'00', 0)",
    ]);
    one(&fix(&provost), "schema", "fail", "newer version");
    provost.sql(&[
        "DELETE FROM _sqlx_migrations",
        "INSERT INTO _sqlx_migrations
        (version, description, success, checksum, execution_time) VALUES (35, 'x', 1, x'00', 0)",
    ]);
    one(&fix(&provost), "schema", "fail", "before the first release");
    let refused = provost.fails_to_start();
    assert!(refused.stderr.contains("migrations/0036_turn_facts.sql"), "{refused:?}");
    let mut bad = good.clone();
    for byte in bad.iter_mut().skip(4096).step_by(7) {
        *byte ^= 0x5a;
    }
    for damaged in [bad, b"no database at all, whatever its name says".to_vec()] {
        fs::write(&path, &damaged).unwrap();
        let checks = fix(&provost);
        assert_eq!(wrong(&checks, "database")[0]["status"], "fail", "{checks:#?}");
        assert!(checks.iter().any(|check| check["name"] == "git"));
        assert!(fs::read(&path).unwrap() == damaged, "not touched");
    }
}

#[test]
fn what_disk_and_rows_disagree_about_is_reported() {
    let provost = Provost::running();
    let board = provost.board();
    let [no_folder, no_worktree, spoiled, unbranched] = [(); 4].map(|()| {
        let attempt = board.start("fake", "lines 50");
        rests(&provost, &attempt);
        attempt
    });
    let index = spoiled.dir().join("spool.idx");
    let dir = provost.home().join("attempts");
    fs::remove_dir_all(dir.join(&no_folder.id)).unwrap();
    fs::create_dir(dir.join("0192f0c1-2345-7abc-8def-0123456789ab")).unwrap();
    fs::remove_dir_all(worktree(&provost, &no_worktree)).unwrap();
    let mut bytes = fs::read(&index).unwrap();
    bytes[3] ^= 1;
    fs::write(&index, bytes).unwrap();
    let branch = unbranched.started["workspace_branch"].as_str().unwrap();
    board.repo().git(&["update-ref", "-d", &format!("refs/heads/{branch}")]);
    let checks = doctor(&provost);
    one(&checks, "attempts", "warn", &no_folder.id);
    one(&checks, "attempts", "warn", "belongs to no attempt");
    one(&checks, "worktrees", "warn", "moved or deleted by hand");
    one(&checks, "spools", "warn", &spoiled.id);
    one(&checks, "worktrees", "warn", branch);
    fs::rename(&board.repo().path, provost.path("away")).unwrap();
    one(&doctor(&provost), "repositories", "warn", "app");
}

#[test]
fn a_lock_that_a_dead_git_left_is_removed_and_one_of_a_live_git_is_not() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "say hello");
    rests(&provost, &attempt);
    let tree = worktree(&provost, &attempt);
    let git_dir = board.repo().git(&["-C", tree.to_str().unwrap(), "rev-parse", "--git-dir"]);
    let lock = Path::new(&git_dir).join("index.lock");
    let held = fs::File::create(&lock).unwrap();
    provost.kill();
    assert_eq!(wrong(&fix(&provost), "worktrees"), [] as [&Value; 0], "this test holds it");
    assert!(lock.exists());
    drop(held);
    assert_eq!(one(&doctor(&provost), "worktrees", "warn", "no process holds")["fixable"], true);
    fix(&provost);
    assert!(!lock.exists());
}

#[test]
fn an_orphan_of_an_attempt_that_is_over_is_killed_and_no_other_process() {
    let provost = Provost::running();
    let board = provost.board();
    let over = board.start("fake", "say hello");
    rests(&provost, &over);
    let runs = board.start("fake", "say up\nhang");
    runs.has_said("up");
    let orphan = |attempt: &str, home: &Path| {
        let mut command = provost.command(&[]);
        command.env("PROVOST_HOME", home).env("PROVOST_ATTEMPT_ID", attempt);
        sleep_with(&command)
    };
    let other_home = provost.path("other");
    let mut ours = orphan(&over.id, provost.home());
    let mut bystanders = [
        orphan(&runs.id, provost.home()),
        orphan(&over.id, &other_home),
        orphan("0192f0c1-2345-7abc-8def-0123456789ab", provost.home()),
    ];
    provost.kill();
    let checks = doctor(&provost);
    one(&checks, "processes", "warn", &format!("{} (sleep)", ours.id()));
    one(&checks, "processes", "warn", "not on record");
    fix(&provost);
    assert!(!ours.wait().unwrap().success());
    let leader = runs.processes();
    assert!(bystanders.iter_mut().all(|it| it.try_wait().unwrap().is_none()));
    assert!(leader.len() > 1, "what runs, runs on: {leader:?}");
    for mut bystander in bystanders {
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "a process that looks like an attempt's")]
fn sleep_with(command: &std::process::Command) -> std::process::Child {
    let mut sleep = std::process::Command::new("sleep");
    sleep.arg("600").env_clear();
    sleep.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    sleep.spawn().unwrap()
}

#[test]
fn a_daemon_that_is_stopped_is_reported_and_does_not_hang_the_doctor() {
    let provost = Provost::running();
    processes::signal(provost.pid(), nix::sys::signal::Signal::SIGSTOP);
    // Its threads stop one by one, when each is next scheduled.
    wait_until("it is stopped", || processes::state(provost.pid()) == Some('T'));
    let checks = doctor(&provost);
    processes::signal(provost.pid(), nix::sys::signal::Signal::SIGCONT);
    one(&checks, "lock", "fail", "is stopped");
    one(&checks, "daemon", "fail", "does not answer");
    provost.call("list_projects", &json!({}));
}

#[test]
fn a_daemon_that_looks_elsewhere_for_programs_is_reported_by_all() {
    let provost = Provost::new()
        .config("[executors.late]\nprotocol = 'plain'\ncommand = ['late-agent']")
        .started();
    fs::create_dir(provost.path("late")).unwrap();
    provost.script("late/late-agent", "exit 0");
    let folder = provost.path("late").display().to_string();
    let doctor = || {
        let mut command = provost.command(&["doctor", "--json"]);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{path}:{folder}"));
        checks(&Provost::done(command))
    };
    let found = doctor();
    let lacks = format!("lacks {folder}: it does not find late");
    let entry = one(&found, "PATH", "warn", &lacks);
    assert!(entry["hint"].as_str().unwrap().contains("`provost shutdown`"), "{entry}");
    one(&found, "executor late", "warn", "late-agent is not on the daemon's PATH");
    let table = provost.verb(["executors"]).stdout;
    assert!(table.contains("late-agent is not on the daemon's PATH"), "{table}");
    assert!(table.contains("`provost shutdown`"), "{table}");

    assert_eq!(provost.verb(["shutdown"]).code, 0);
    provost.ended();
    let found = doctor();
    assert!(wrong(&found, "PATH").is_empty() && wrong(&found, "executor late").is_empty());
}
