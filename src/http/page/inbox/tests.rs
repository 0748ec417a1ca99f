use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::window::{Need, NeedDetail, NeedKind};
use crate::http::page::samples::{
    ATTEMPT, HOSTILE, OTHER, PROJECT, assert_harmless, attempt, before, lines, now, read, task,
};

fn need(kind: NeedKind, detail: NeedDetail) -> Need {
    let state = match kind {
        NeedKind::Failed | NeedKind::Quota => "failed",
        _ => "completed",
    };
    let is_question = kind == NeedKind::Question;
    Need {
        id: format!("{}-{ATTEMPT}", kind.prefix()),
        kind,
        at: before(100),
        task: (!is_question).then(|| task("Mend the roof")),
        attempt: (!is_question).then(|| attempt(state)),
        detail,
    }
}

fn approval(action: &Value) -> Need {
    let approval = json!({
        "approval_id": OTHER, "attempt_id": ATTEMPT, "execution_process_id": OTHER,
        "status": "pending", "text": "Run a command", "tool_name": "Bash",
        "tool_call_id": null, "action": action, "reason": null, "asked_at": before(100),
        "expires_at": before(-300), "decided_at": null,
    });
    need(NeedKind::Approval, NeedDetail::Approval(read(approval)))
}

fn question(text: &str) -> Need {
    let question = json!({
        "question_id": OTHER, "handle": "Q-001", "project_id": PROJECT, "kind": "question",
        "status": "open", "priority": "critical", "question": text,
        "context": "{\"file\":\"src/a.rs\",\"tried\":[\"b\"]}", "task_id": "TASK-001",
        "answer": null, "answered_by": null, "asked_at": before(100),
    });
    need(NeedKind::Question, NeedDetail::Question(read(question)))
}

fn shown(items: Vec<Need>) -> String {
    let found = Attention { total: items.len(), items, next_cursor: None };
    lines(super::items(&found, &Asked::default(), &Forms::fixed("/"), now()))
}

#[test]
fn an_empty_inbox_says_so() {
    insta::assert_snapshot!(shown(vec![]));
}

#[test]
fn an_approval_shows_what_would_run_and_is_decided_in_place() {
    insta::assert_snapshot!(shown(vec![approval(
        &json!({"type": "command", "command": "rm -rf target"})
    )]));
}

#[test]
fn an_edit_shows_its_patch() {
    let edit =
        json!({"type": "file_edit", "path": "/w/a.rs", "diff": "@@ -1 +1 @@\n-old\n+new\n same"});
    let shown = shown(vec![approval(&edit)]);
    for line in
        ["class=\"hunk\"", "class=\"removed\">-old", "class=\"added\">+new", "class=\"same\"> same"]
    {
        assert!(shown.contains(line), "{line} in {shown}");
    }
}

#[test]
fn a_question_is_answered_in_place() {
    insta::assert_snapshot!(shown(vec![question("Which colour?")]));
}

#[test]
fn work_is_merged_or_closed_by_a_key() {
    insta::assert_snapshot!(shown(vec![need(NeedKind::Review, NeedDetail::Attempt)]));
}

#[test]
fn a_failure_says_why_and_offers_another_turn() {
    insta::assert_snapshot!(shown(vec![need(NeedKind::Failed, NeedDetail::Attempt)]));
}

#[test]
fn checks_and_conflicts_say_what_is_in_the_way() {
    let checks = json!([{"name": "test", "command": "make test", "outcome": "failed",
        "exit_code": 2, "reason": null}]);
    let checks = need(NeedKind::ChecksFailed, NeedDetail::Checks(read(checks)));
    let conflict = NeedDetail::Conflict(vec!["app/src/main.rs".to_owned()]);
    insta::assert_snapshot!(shown(vec![checks, need(NeedKind::Conflict, conflict)]));
}

/// Each item can be ended without another page: by one key, or by words.
#[test]
fn every_need_has_its_way_out() {
    let of_attempts = [
        NeedKind::ChecksFailed,
        NeedKind::Failed,
        NeedKind::Quota,
        NeedKind::Conflict,
        NeedKind::Review,
        NeedKind::Ready,
        NeedKind::Finishing,
        NeedKind::Merged,
    ];
    for kind in of_attempts {
        let shown = shown(vec![need(kind, NeedDetail::Attempt)]);
        assert!(shown.contains("data-key=\"e\""), "{kind:?}");
        assert!(shown.contains("name=\"status\" value=\"done\""), "{kind:?}");
    }
    let approval = shown(vec![approval(&json!({"type": "command", "command": "ls"}))]);
    assert!(approval.contains("data-key=\"a\"") && approval.contains("data-key=\"d\""));
    assert!(shown(vec![question("?")]).contains("data-key=\"r\""));
}

/// One key never means two things in one item.
#[test]
fn the_keys_of_an_item_are_all_different() {
    for need in [
        need(NeedKind::Review, NeedDetail::Attempt),
        need(NeedKind::Failed, NeedDetail::Attempt),
        approval(&json!({"type": "other"})),
    ] {
        let shown = shown(vec![need]);
        let mut keys: Vec<_> = shown.split("data-key=\"").skip(1).map(|it| &it[..1]).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count, "{keys:?}");
    }
}

#[test]
fn a_reader_sees_everything_and_can_change_nothing() {
    let found = Attention {
        total: 1,
        items: vec![need(NeedKind::Review, NeedDetail::Attempt)],
        next_cursor: None,
    };
    let mut forms = Forms::fixed("/");
    forms.may_write = false;
    let shown = items(&found, &Asked::default(), &forms, now()).into_string();
    assert!(!shown.contains("<form") && shown.contains("Mend the roof"));
}

#[test]
fn what_agents_write_stays_text() {
    let mut items = vec![
        approval(&json!({"type": "command", "command": HOSTILE})),
        approval(&json!({"type": "file_edit", "path": HOSTILE, "diff": HOSTILE})),
        approval(&json!({"type": "mcp", "server": HOSTILE, "input": {"a": HOSTILE}})),
        question(HOSTILE),
        need(NeedKind::Failed, NeedDetail::Attempt),
        need(NeedKind::Conflict, NeedDetail::Conflict(vec![HOSTILE.to_owned()])),
    ];
    for item in &mut items {
        if let (Some(task), Some(attempt)) = (&mut item.task, &mut item.attempt) {
            (task.title, task.project_name) = (HOSTILE.to_owned(), HOSTILE.to_owned());
            attempt.failure_summary = Some(HOSTILE.to_owned());
            attempt.final_message = Some(HOSTILE.to_owned());
        }
    }
    assert_harmless(&shown(items));
}

proptest! {
    #[test]
    fn a_command_is_shown_whole_and_as_text(command in any::<String>()) {
        let shown = shown(vec![approval(&json!({"type": "command", "command": command}))]);
        let inside = shown.split("<code>").nth(1).and_then(|it| it.split("</code>").next());
        prop_assert!(inside.is_some_and(|inside| !inside.contains('<')));
    }

    #[test]
    fn the_address_of_a_page_gives_the_same_page(project in any::<Option<String>>(), cursor in any::<Option<String>>()) {
        let asked = Asked { project, cursor };
        let uri: axum::http::Uri = asked.path("/").parse().unwrap();
        let back = Query::<Asked>::try_from_uri(&uri).unwrap().0;
        let given = |text: &Option<String>| text.clone().filter(|it| !it.is_empty());
        prop_assert_eq!(back.project, given(&asked.project));
        prop_assert_eq!(back.cursor, given(&asked.cursor));
    }
}
