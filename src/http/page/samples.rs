//! What pages are tested with: a task and its attempt, and markup as a snapshot shows it.

use maud::Markup;
use provost_actors::event::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::window::{AttemptCard, TaskLine};

pub const TASK: &str = "0192f0c1-2345-7abc-8def-0123456789ab";
pub const ATTEMPT: &str = "0192f0c1-2345-7abc-8def-00000000000a";
pub const OTHER: &str = "0192f0c1-2345-7abc-8def-00000000000b";
pub const PROJECT: &str = "0192f0c1-2345-7abc-8def-0000000000cc";

/// What would run if it became markup, and would mislead if it were shown as it is.
pub const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'\u{202e}";

pub fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

pub fn before(seconds: i64) -> Timestamp {
    Timestamp::from_millis(now().millis() - seconds * 1000)
}

pub fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub fn task(title: &str) -> TaskLine {
    read(json!({
        "task_id": TASK, "handle": "TASK-001", "title": title, "status": "inreview",
        "priority": "high", "project_id": PROJECT, "project_name": "app",
        "blocked_reason": null, "waits_for": [], "attempts": 1,
    }))
}

pub fn attempt(state: &str) -> AttemptCard {
    let failure = (state == "failed").then_some("exit code 3: out of luck");
    read(json!({
        "attempt_id": ATTEMPT, "executor": "claude", "variant": "fast", "state": state,
        "phase": "settled", "waiting_on": null, "resume_at": null, "created_at": before(4000),
        "updated_at": before(100), "failure_summary": failure,
        "final_message": "All tests pass now.\nSee the README.",
    }))
}

/// A status of the attempt with other members.
pub fn status(id: &str, members: &Value) -> Value {
    let mut status = json!({
        "attempt_id": id, "task_id": TASK, "handle": "TASK-001",
        "workspace_branch": "provost/1a2b-fix", "state": "completed", "phase": "settled",
        "waiting_on": null, "resume_at": null, "executor": "claude", "variant": null, "host": "local",
        "created_at": before(4000), "updated_at": before(100), "last_activity_at": before(100),
        "latest_session_id": null, "latest_execution_process_id": null, "exit_code": 0,
        "exit_signal": null, "failure_summary": null, "queued_follow_ups": 0,
        "queue_held": false, "latest_snapshot_turn": 1, "conflicts_with": [], "usage": null,
        "limits": [], "final_message": "Done.",
        "latest_entry_index": {"normalized": null, "raw": null}, "next_action": null,
    });
    let members = members.as_object().unwrap().clone();
    status.as_object_mut().unwrap().extend(members);
    status
}

/// A line for each element.
pub fn lines(markup: Markup) -> String {
    markup.into_string().replace("><", ">\n<")
}

/// No text of others became markup.
pub fn assert_harmless(markup: &str) {
    for bad in
        ["<script>alert", "<img src=x", "onerror=alert(1)>", "style=", " onclick", "javascript:"]
    {
        assert!(!markup.contains(bad), "{bad} in {markup}");
    }
}
