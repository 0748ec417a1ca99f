//! The orchestrator's loop as an agent goes through it: over the bridge, with
//! nothing but tools.

use serde_json::{Value, json};

use crate::harness::{Client, Provost};

struct Agent(Client);

impl Agent {
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.0.call(tool, arguments).output()
    }

    /// Waits by token until the attempt is what it is waited for.
    fn wait(&mut self, attempt: &Value, until: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut after = Value::Null;
        loop {
            let wait = json!({"attempt_ids": [attempt], "until": until, "after": after});
            let waited = self.call("wait_for_attempts", &wait);
            if holds(&waited["attempts"][0]) {
                return waited["attempts"][0].clone();
            }
            after = waited["after"].clone();
        }
    }

    /// The texts of the log after an index, up to one with this text; and the
    /// index to go on from.
    fn tail(&mut self, attempt: &Value, mut after: i64, up_to: &str) -> (Vec<String>, i64) {
        let mut texts = Vec::new();
        while !texts.iter().any(|text| text == up_to) {
            let tail = json!({"attempt_id": attempt, "after_entry_index": after});
            let page = self.call("tail_attempt_logs", &tail);
            for entry in page["entries"].as_array().unwrap() {
                assert_eq!(entry["entry_index"], after + 1, "nothing is missed or told twice");
                after += 1;
                texts.push(entry["text"].as_str().unwrap().to_owned());
            }
        }
        (texts, after)
    }
}

#[test]
fn the_closed_loop_works_with_no_call_outside_the_tools() {
    let provost = Provost::running();
    let repo = provost.repo("app");
    let mut agent = Agent(provost.bridge());
    agent.0.initialize();

    let project = json!({"name": "p", "repos": [{"path": repo.path}]});
    let project = agent.call("create_project", &project)["project_id"].clone();
    let task = json!({"project_id": project, "title": "greet", "request_id": "task"});
    let task = agent.call("create_task", &task)["task_id"].clone();
    let start = json!({"task_id": task, "executor": "fake", "request_id": "start",
        "prompt": "write hello.txt hello\nrun git add -A && git commit -qm hello\nwrite new.txt new\nsay done"});
    let attempt = agent.call("start_task_attempt", &start)["attempt_id"].clone();

    let done = agent.wait(&attempt, "all_settled", |status| status["phase"] == "settled");
    assert_eq!(done["state"], "completed");
    let (_, last) = agent.tail(&attempt, -1, "done");

    let changes = agent.call("get_attempt_changes", &json!({"attempt_id": attempt}));
    let paths: Vec<&Value> =
        changes["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["app/hello.txt", "app/new.txt"]);
    let file = json!({"attempt_id": attempt, "path": "app/new.txt"});
    let file = agent.call("get_attempt_file", &file);
    assert_eq!((&file["content"], &file["blocked"]), (&json!("new\n"), &json!(false)));
    let patch = agent.call("get_attempt_patch", &json!({"attempt_id": attempt, "paths": paths}));
    repo.git_with_input(&["apply", "--check", "-"], patch["patch"].as_str().unwrap());

    let send = json!({"attempt_id": attempt, "action": "send", "prompt": "say going on\nhang"});
    agent.call("follow_up", &send);
    let (_, last) = agent.tail(&attempt, last, "going on");
    let queue = json!({"attempt_id": attempt, "action": "queue", "prompt": "say delivered"});
    assert_eq!(agent.call("follow_up", &queue)["queue"]["length"], 1);
    // A stop ends the turn and holds what waits; the next prompt lets it go on.
    assert_eq!(agent.call("stop_attempt", &json!({"attempt_id": attempt}))["survivors"], 0);
    let again = json!({"attempt_id": attempt, "action": "queue", "prompt": "say up\nhang"});
    assert_eq!(agent.call("follow_up", &again)["queue"]["status"], "started");
    let (said, _) = agent.tail(&attempt, last, "up");
    assert!(said.contains(&"delivered".to_owned()), "{said:?}");
    let stopped = agent.call("stop_attempt", &json!({"attempt_id": attempt, "force": true}));
    assert_eq!((&stopped["stopped"], &stopped["state"]), (&json!(true), &json!("failed")));
    assert!(provost.said().lines().all(|line| !line.contains("ERROR")), "{}", provost.said());
}
