//! The board on PostgreSQL: a daemon's work and its death, a server that goes away, and what is
//! refused. They need a server, which `.ci/postgres COMMAND` gives them.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::harness::postgres::{Server, database, rows, run};
use crate::harness::{Provost, processes, run_until, wait_until};

/// A home whose board is there.
fn on(url: &str) -> Provost {
    Provost::new().config(&engine(url, "single"))
}

fn engine(url: &str, durability: &str) -> String {
    format!("[engine]\nurl = \"{url}\"\ndurability = \"{durability}\"")
}

fn has_no_file(home: &Path) {
    assert!(!home.join("provost.db").exists(), "an SQLite file stands beside the board");
}

#[test]
fn an_attempt_and_its_board_outlive_a_killed_daemon_on_postgresql() {
    let Some(url) = database("outlives") else { return };
    let provost = on(&url).started();
    let board = provost.board();
    let kept = board.task("kept");
    let gate = provost.path("gate");
    let done = board.start("fake", "say done");
    assert_eq!(done.settled()["state"], "completed");
    let attempt = board.start("fake", &format!("say up\n{}\nsay over", run_until(&gate)));
    attempt.has_said("up");
    let leader = attempt.leader();

    provost.kill();
    provost.start();
    assert_eq!(attempt.leader(), leader);
    assert_eq!(attempt.status()["phase"], "running");
    provost.call("get_task", &json!({"task_id": kept}));
    fs::write(&gate, "").unwrap();
    assert_eq!(attempt.settled()["state"], "completed");
    attempt.has_said("over");
    assert_eq!(done.status()["state"], "completed");
    let states = rows(&url, "SELECT state FROM attempts ORDER BY attempt_id");
    assert_eq!(states, ["completed", "completed"]);

    let doctor = provost.verb(["doctor"]);
    assert!(doctor.stdout.contains("PostgreSQL"), "{doctor:?}");
    has_no_file(provost.home());
    provost.kill();
    let doctor = provost.verb(["doctor"]);
    assert!(doctor.stdout.contains("the board of this home is on PostgreSQL"), "{doctor:?}");
    has_no_file(provost.home());
}

#[test]
fn a_server_that_goes_away_loses_nothing_and_comes_back() {
    let Some(server) = Server::new() else { return };
    let provost = on(&server.url());
    server.crash();
    let refused = provost.fails_to_start();
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("can't be reached"), "{refused:?}");
    has_no_file(provost.home());

    server.start();
    provost.start();
    let board = provost.board();
    let gate = provost.path("gate");
    let attempt = board.start("fake", &format!("say up\n{}\nsay over", run_until(&gate)));
    attempt.has_said("up");
    let leader = attempt.leader();
    server.crash();
    // Its end is noted, and written when there is a server again.
    fs::write(&gate, "").unwrap();
    wait_until("its executor has ended", || !processes::is_alive(leader));
    let project = json!({"name": "late", "repos": [{"path": board.repo().path}]});
    let refusal = provost.refusal("create_project", &project);
    let code = refusal["code"].as_str().unwrap().to_owned();
    assert!(["db_unavailable", "db_locked"].contains(&code.as_str()), "{refusal}");
    server.start();
    wait_until("the board takes changes again", || {
        !provost.answer("create_project", &project).is_error
    });
    assert_eq!(attempt.settled()["state"], "completed");
}

#[test]
fn a_server_that_shows_no_durability_is_refused_unless_it_is_stated() {
    let Some(url) = database("durability") else { return };
    let provost = Provost::new().config(&engine(&url, "synchronous"));
    let refused = provost.fails_to_start();
    assert_eq!(refused.code, 1, "{refused:?}");
    for said in ["fsync is off", "synchronous_commit is off", "no synchronous standby", "single"] {
        assert!(refused.stderr.contains(said), "{said}: {refused:?}");
    }
    has_no_file(provost.home());
    let provost = provost.variable("PROVOST_ENGINE_DURABILITY", "managed");
    provost.start();
    provost.board();
}

#[test]
fn a_daemon_takes_its_host_again_after_its_connections_were_cut() {
    let Some(url) = database("cut") else { return };
    let one = on(&url).started();
    let board = one.board();
    let task = board.task("kept");
    let other = on(&url);
    let refused = other.fails_to_start();
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("in use by another daemon"), "{refused:?}");
    one.call("get_task", &json!({"task_id": task}));
    // It holds its host by its connection: without it, it takes the host again.
    run(
        &url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    board.task("after");
    assert_eq!(other.fails_to_start().code, 1);
}

#[test]
fn a_home_keeps_to_its_engine_and_no_password_is_shown() {
    let Some(url) = database("engines") else { return };
    assert!(url.contains("sesame"), "the password of tests");
    let provost = Provost::new().variable("PROVOST_ENGINE_DURABILITY", "single");
    let with = |url: &str| {
        let mut daemon = provost.command(&["daemon", "--engine", url]);
        daemon.env("PROVOST_LOG", "debug");
        Provost::done(daemon)
    };
    provost.start();
    let board = provost.board();
    board.task("in the file");
    provost.kill();
    let refused = with(&url);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("provost.db"), "{refused:?}");
    assert!(!refused.stderr.contains("sesame"), "{refused:?}");

    let provost = on(&url);
    provost.start();
    provost.board();
    let shown = [
        provost.verb(["config", "show"]).stdout,
        provost.verb(["doctor"]).stdout,
        fs::read_to_string(provost.home().join("provost.engine")).unwrap(),
        provost.said(),
    ];
    assert!(shown.iter().all(|text| !text.contains("sesame")), "{shown:?}");
    provost.kill();
    fs::write(provost.home().join("config.toml"), "").unwrap();
    let refused = provost.fails_to_start();
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("is on a server"), "{refused:?}");
    has_no_file(provost.home());
}

#[test]
fn a_text_that_postgresql_has_no_place_for_is_refused_by_name() {
    let Some(url) = database("texts") else { return };
    let provost = on(&url).started();
    let board = provost.board();
    let task = json!({"project_id": board.project_id, "title": "a\0b", "priority": "high"});
    let refusal = provost.refusal("create_task", &task);
    assert_eq!(refusal["code"], "invalid_argument", "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("U+0000"), "{refusal}");
    wait_until("nothing of it is left", || rows(&url, "SELECT title FROM tasks").is_empty());
}

#[test]
fn a_server_that_asks_for_no_password_is_refused() {
    let Some(server) = Server::new() else { return };
    let provost = on(&server.url());
    server.ask_for_no_password();
    let refused = provost.fails_to_start();
    assert_eq!(refused.code, 1, "{refused:?}");
    for said in ["without a password", "pg_hba.conf", "scram-sha-256", "password_file"] {
        assert!(refused.stderr.contains(said), "{said}: {refused:?}");
    }
    has_no_file(provost.home());
}

#[test]
fn what_begins_while_the_server_is_restarted_waits_and_does_not_fail() {
    let Some(server) = Server::new() else { return };
    let provost = on(&server.url()).config("[daemon]\nmax_running_attempts = 8").started();
    let board = provost.board();
    for round in 1..=3 {
        for _ in 0..4 {
            board.start("fake", "write made.txt text\nsay done");
        }
        server.crash();
        server.start();
        wait_until("all of them have ended", || {
            let open = "SELECT CAST(count(*) AS text) FROM attempts WHERE phase <> 'settled'";
            rows(&server.url(), open) == ["0"]
        });
        let ended = "SELECT DISTINCT state || coalesce(' ' || failure_summary, '')
             FROM attempts a JOIN processes p ON p.attempt_id = a.attempt_id";
        assert_eq!(rows(&server.url(), ended), ["completed"], "in round {round}");
    }
}
