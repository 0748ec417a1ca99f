use serde_json::{Value, json};

use super::*;
use crate::http::page::samples::{
    ATTEMPT, HOSTILE, OTHER, PROJECT, TASK, assert_harmless, before, lines, now, read, status,
};

fn task(text: &str) -> CheckedTask {
    read(json!({
        "task_id": TASK, "handle": "TASK-001", "title": text, "status": "inreview",
        "priority": "high", "standing": null, "created_at": before(9000),
        "updated_at": before(100), "latest_attempt_id": ATTEMPT, "latest_workspace_branch": "b",
        "latest_session_id": null, "latest_session_executor": null,
        "has_in_progress_attempt": false, "last_attempt_failed": false, "project_id": PROJECT,
        "description": text, "depends_on": [OTHER], "brief": null, "last_report": null,
        "contradiction": null, "flags": [], "reason": null, "reports": [], "reports_total": 0,
        "receipts": [],
    }))
}

fn attempts(text: &str) -> Newest {
    let failed = json!({"state": "failed", "failure_summary": text, "final_message": text});
    let statuses = [status(ATTEMPT, &json!({})), status(OTHER, &failed)].map(read).into();
    Newest { statuses, has_more: false }
}

fn executors() -> Vec<ExecutorSummary> {
    let of = |name: &str, available: bool| -> Value {
        json!({
            "executor": name, "protocol": "claude", "version": "1.2", "variants": ["fast"],
            "default_variant": null, "supports_mcp": true, "available": available,
            "unavailable_reason": null, "install": null, "supports_resume": true,
            "supports_interrupt": true, "supports_approvals": true, "note": null,
            "stand_in": false,
        })
    };
    read(json!([of("claude", true), of("codex", false)]))
}

#[test]
fn a_task_shows_its_attempts() {
    let shown = whole(&task("Mend the roof"), &attempts("exit code 3"), true, now());
    insta::assert_snapshot!(lines(shown));
}

#[test]
fn a_page_that_has_not_all_attempts_says_so() {
    let shown = |statuses, has_more| {
        whole(&task("x"), &Newest { statuses, has_more }, false, now()).into_string()
    };
    let (none, further) = ("None yet.", "The task has further attempts, which are not shown.");
    let says = |page: String| (page.contains(none), page.contains(further));
    assert_eq!(says(shown(Vec::new(), false)), (true, false));
    assert_eq!(says(shown(Vec::new(), true)), (false, true));
    assert_eq!(says(shown(attempts("x").statuses, true)), (false, true));
    assert_eq!(says(shown(attempts("x").statuses, false)), (false, false));
}

#[test]
fn a_task_is_started_moved_and_edited_by_forms() {
    let shown = all_tools(&task("Mend the roof"), &executors(), &Forms::fixed("/board"));
    insta::assert_snapshot!(lines(shown));
}

#[test]
fn what_others_write_stays_text() {
    let task = task(HOSTILE);
    assert_harmless(&lines(whole(&task, &attempts(HOSTILE), true, now())));
    assert_harmless(&lines(all_tools(&task, &executors(), &Forms::fixed("/"))));
}
