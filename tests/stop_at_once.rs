//! Stopping agents that end at the first signal, many at a time: each shim ends
//! while it is still being asked to kill what is left.
#![expect(clippy::disallowed_methods, reason = "the tests start the program")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

const COUNT: usize = 8;

/// A home with a daemon, which ends with it.
struct Home(TempDir);

impl Home {
    fn provost(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provost"));
        command.arg("--json").args(args).env("PROVOST_HOME", self.0.path().join("home"));
        command
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let output = self.provost(&["call", tool, &arguments.to_string()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.provost(&["shutdown", "--stop-all"]).output();
    }
}

#[test]
fn nobody_survives_a_stop_that_was_obeyed() {
    let home = Home(tempfile::tempdir().unwrap());
    let repo = home.0.path().join("repo");
    let git = |args: &[&str]| {
        assert!(Command::new("git").arg("-C").arg(&repo).args(args).status().unwrap().success());
    };
    std::fs::create_dir(&repo).unwrap();
    git(&["init", "--quiet", "--initial-branch=main"]);
    let who = ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet"];
    git(&[&who[..], &["--allow-empty", "--message=first"]].concat());
    let project = home.call("create_project", &json!({"name": "p", "repos": [{"path": repo}]}));
    let task = json!({"project_id": project["project_id"], "title": "t"});
    let task = &home.call("create_task", &task)["task_id"];

    let start = json!({"task_id": task, "executor": "fake", "prompt": "hang"});
    let started: Vec<Value> =
        (0..COUNT).map(|_| home.call("start_task_attempt", &start)["attempt_id"].clone()).collect();
    let stops: Vec<_> = started
        .iter()
        .map(|attempt| {
            let mut stop = home.provost(&["stop", attempt.as_str().unwrap()]);
            stop.stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for stop in stops {
        let output = stop.wait_with_output().unwrap();
        let stopped: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&stopped["survivors"], &stopped["stopped"]), (&json!(0), &json!(true)));
    }
}
