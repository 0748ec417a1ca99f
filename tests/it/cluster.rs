//! `provost cluster up`, with a server of its own. It needs the programs of PostgreSQL.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::postgres::has_programs;
use crate::harness::program;

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
