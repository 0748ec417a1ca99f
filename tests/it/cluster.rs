//! `provost cluster`: hosts to try, and a board that was restored from a backup. It needs PostgreSQL.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::harness::postgres::{database, has_programs, rows};
use crate::harness::{Provost, program, run_until, wait_until};

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");

#[test]
fn hosts_are_set_up_on_one_board_and_leave_nothing() {
    if !has_programs() {
        return;
    }
    let mut up = program(PROVOST);
    let up = up.args(["cluster", "up", "--local", "2"]).stdin(Stdio::null());
    let mut up = up.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(up.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| !line.starts_with("Ctrl-C")).collect();
    let folder = said[0].rsplit_once(" in ").expect("it says where").1.to_owned();
    let mut hosts = program(PROVOST);
    hosts.args(["hosts", "--json"]).env("PROVOST_HOME", format!("{folder}/host-2"));
    let listed: Value = serde_json::from_slice(&hosts.output().unwrap().stdout).unwrap();
    let names: Vec<&Value> =
        listed["hosts"].as_array().unwrap().iter().map(|it| &it["host"]).collect();
    assert_eq!(names, ["host-1", "host-2"], "{said:?}");
    kill(Pid::from_raw(up.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(up.wait().unwrap().success());
    assert!(!Path::new(&folder).exists(), "{folder}");
}

/// The configuration of a host on a board.
fn of_host(url: &str) -> String {
    format!(
        "[engine]\nurl = \"{url}\"\ndurability = \"single\"\n[host]\nname = \"a\"\nlease_secs = 3\n"
    )
}

#[test]
fn what_ran_when_a_board_was_backed_up_ends_with_its_restoration_and_nothing_runs_twice() {
    let Some(url) = database("cluster_restored") else { return };
    let a = Provost::new().config(&of_host(&url)).started();
    let board = a.board();
    let attempt = board.start("fake", &format!("say up\n{}", run_until(&a.path("gate"))));
    attempt.has_said("up");
    let noted = a.verb(["cluster", "restored", "--json"]);
    assert_eq!(noted.json(), json!({"generation": 2, "attempts_ended": 1}), "{noted:?}");
    wait_until("the daemon has registered its host anew", || {
        rows(&url, "SELECT CAST(incarnation AS text) FROM hosts WHERE fenced_at IS NULL") == ["2"]
    });
    a.is_started();
    // Its connections are new.
    let mut client = a.connect();
    let ended = client.call("get_attempt_status", &json!({"attempt_id": attempt.id})).output();
    assert_eq!(ended["state"], "failed", "{ended}");
    let why = ended["failure_summary"].as_str().unwrap();
    assert!(why.contains("restored from a backup"), "{why}");
    assert_eq!(rows(&url, "SELECT status FROM processes"), ["killed"]);
    // The board takes new work.
    a.kill_and_start();
    board.start("fake", "say again").settled();
}

#[test]
fn a_home_is_not_opened_on_another_board() {
    let (Some(url), Some(other)) = (database("cluster_own"), database("cluster_other")) else {
        return;
    };
    let a = Provost::new().config(&of_host(&url)).started();
    a.kill();
    fs::write(a.home().join("config.toml"), of_host(&other)).unwrap();
    let refused = a.fails_to_start();
    assert!(refused.code == 1 && refused.stderr.contains("another board"), "{refused:?}");
    fs::write(a.home().join("config.toml"), of_host(&url)).unwrap();
    a.start();
    a.board();
}
