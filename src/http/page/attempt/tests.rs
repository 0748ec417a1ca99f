use provost_actors::event::{Event, NormalizedEntry, Timestamp};
use provost_actors::ids::ProcessId;
use provost_actors::journal::checks::{CheckOutcome, CheckVerdict, Receipt};
use provost_actors::process::process_list::Member;

use super::*;
use crate::api::timeline::{CheckRecord, FinishRecord, TurnProcess, WaitingPrompt};
use crate::http::page::form::Forms;

pub const ATTEMPT: &str = "0191d8a0-0000-7000-8000-00000000000a";
const OTHER: &str = "0191d8a0-0000-7000-8000-00000000000b";
const HOSTILE: &str = "<script>alert(1)</script>\"'";

pub fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn at(seconds_ago: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 - seconds_ago * 1000)
}

pub fn sample_status() -> AttemptStatus {
    serde_json::from_value(json!({
        "attempt_id": ATTEMPT, "task_id": OTHER, "handle": "TASK-001",
        "workspace_branch": "provost/x", "worktree": {"app": "/w/app", "web": "/w/<web>"},
        "provision": {
            "repos": {"app": {"copied": {"files": 3}, "setup": {"state": "done"}}},
            "ports": {"PORT": 4100},
            "dev_server": {"state": "ready", "url": "javascript:alert(1)", "repo": "app"},
        },
        "state": "running", "phase": "waiting", "waiting_on": "approval", "resume_at": null,
        "executor": "claude", "variant": "opus", "host": "local", "created_at": at(7200), "updated_at": at(60),
        "last_activity_at": at(5), "latest_session_id": null, "latest_execution_process_id": null,
        "exit_code": null, "exit_signal": null, "failure_summary": HOSTILE,
        "queued_follow_ups": 1, "queue_held": true, "latest_snapshot_turn": 2,
        "conflicts_with": [{
            "attempt_id": null, "target_branch": "main", "repo_name": "app",
            "paths": ["app/x"], "path_count": 1, "tree_id": "t",
        }],
        "usage": {"input_tokens": 12345, "output_tokens": 67, "cost_usd": 0.25},
        "limits": [{"limit": "wall_secs", "value": 60, "hold": "watched", "reason": null}],
        "final_message": null, "latest_entry_index": {"normalized": 9, "raw": 99},
        "next_action": null,
    }))
    .unwrap()
}

fn process(reason: &str, status: &str, message: Option<&str>) -> TurnProcess {
    serde_json::from_value(json!({
        "process_id": OTHER, "run_reason": reason, "status": status, "variant": "opus",
        "created_at": at(600), "ended_at": (status != "running").then_some(at(540)),
        "exit_code": (status == "failed").then_some(2), "exit_signal": null,
        "failure_summary": (status == "failed").then_some(HOSTILE), "final_message": message,
        "usage": {"input_tokens": 100, "output_tokens": 5, "cost_usd": null},
    }))
    .unwrap()
}

pub fn sample_timeline() -> Timeline {
    let turn = |number, prompt: &str, processes| Turn {
        number,
        prompt: prompt.to_owned(),
        prompt_length: prompt.len() as u64 + u64::from(number == 1),
        has_snapshot: number < 3,
        processes,
    };
    let mut setup = process("setup_script", "failed", None);
    setup.process_id = ProcessId::new();
    Timeline {
        task_title: format!("Fix {HOSTILE}"),
        task_status: provost_actors::journal::TaskStatus::InProgress,
        project_id: OTHER.parse().unwrap(),
        project_name: "demo".to_owned(),
        has_hosts: false,
        turns: vec![
            turn(1, HOSTILE, vec![setup, process("coding_agent", "completed", Some("**Done**"))]),
            turn(3, &"long ".repeat(300), vec![process("coding_agent", "running", None)]),
        ],
        has_earlier: true,
        waiting: vec![WaitingPrompt {
            queue_id: serde_json::from_value(json!(OTHER)).unwrap(),
            prompt: HOSTILE.to_owned(),
            variant: None,
            queued_at: at(30),
        }],
        finishes: vec![sample_finish()],
        checks: vec![CheckRecord {
            finish_id: None,
            verdict: Some(CheckVerdict::Rework),
            receipts: vec![Receipt {
                name: "test".to_owned(),
                command: HOSTILE.to_owned(),
                outcome: CheckOutcome::Failed,
                exit_code: Some(1),
                duration_ms: 65_000,
                log: Some("/home/log".to_owned()),
                ..Receipt::default()
            }],
            planned_at: at(500),
        }],
    }
}

fn sample_finish() -> FinishRecord {
    FinishRecord {
        finish_id: serde_json::from_value(json!(OTHER)).unwrap(),
        action: crate::api::finish::FinishAction::Merge,
        strategy: provost_actors::workspace::merge::Strategy::Squash,
        state: crate::api::finish::FinishState::Conflicts,
        error: Some(HOSTILE.to_owned()),
        repos: vec![
            serde_json::from_value(json!({
                "repo_name": "app", "commit": "0123456789abcdef", "committed": true,
                "target_branch": "main", "target_before": null, "target_after": null, "tree": null,
                "merged": false, "snapshot": null, "branch_deleted": false, "pushed_to": null,
                "pull_request": {"url": "javascript:alert(1)", "number": 7},
            }))
            .unwrap(),
        ],
        conflicts: vec![format!("app/{HOSTILE}")],
        created_at: at(400),
        ended_at: Some(at(390)),
    }
}

/// Markup with a line for each element, and the names of files without what is in them.
pub fn lines(markup: &Markup) -> String {
    let mut text = markup.clone().into_string().replace("><", ">\n<");
    for name in ["attempt.css", "attempt.js", "colours.css"] {
        text = text.replace(&assets::path(name), &format!("/assets/{name}"));
    }
    text
}

pub fn require_harmless(markup: &str) {
    assert!(!markup.contains("<script>") && !markup.contains("href=\"javascript"), "{markup}");
    assert!(!markup.contains(" style=") && !markup.contains(" onclick"), "{markup}");
}

#[test]
fn the_page_of_an_attempt() {
    let (status, timeline, forms) = (sample_status(), sample_timeline(), Forms::fixed("/x"));
    let markup = lines(&body(&status, &timeline, &html! {}, &forms, now()));
    require_harmless(&markup);
    insta::assert_snapshot!(markup);
}

#[test]
fn a_turn_that_began_since_stands_before_the_others() {
    let id = ATTEMPT.parse().unwrap();
    let newer = turns::newer(id, &sample_timeline(), 1, now()).into_string();
    assert!(
        newer.contains("turns?after=3") && newer.contains("turn-3") && !newer.contains("turn-1\"")
    );
    let same = turns::newer(id, &sample_timeline(), 3, now()).into_string();
    assert!(!same.contains("<section"), "{same}");
    let older = turns::older(id, &sample_timeline(), now()).into_string();
    assert!(older.contains("before=1") && !older.contains(" open"), "{older}");
}

fn entry(index: u64) -> LogEntry {
    LogEntry::Normalized(NormalizedEntry {
        entry_index: index,
        at: now(),
        execution_process_id: ProcessId::new(),
        turn: 2,
        event: Event::AssistantMessage { text: HOSTILE.to_owned(), continued: false },
    })
}

#[test]
fn entries_of_a_turn_lead_to_those_before_and_after_them() {
    let (id, entries) = (ATTEMPT.parse().unwrap(), [entry(4), entry(5)]);
    let shown =
        turns::Entries { id, turn: 2, those: &entries, has_earlier: true, live_after: Some(5) };
    let last = shown.last().into_string();
    require_harmless(&last);
    assert!(last.contains("entries?before=4") && last.contains("entries?after=5"), "{last}");
    assert!(!shown.earlier().into_string().contains("after="));
    assert!(!shown.newer().into_string().contains("before="));
}

#[test]
fn a_window_of_the_log_says_what_it_is_of_the_whole() {
    let window = Window {
        entries: vec![entry(4)],
        looked: Some((3, 7)),
        oldest: Some(0),
        latest: Some(2_000_000),
        in_progress: None,
        lost_host: None,
    };
    let markup = window.markup().into_string();
    for attribute in
        ["first=\"3\"", "last=\"7\"", "oldest=\"0\"", "latest=\"2000000\"", "index=\"4\""]
    {
        assert!(markup.contains(&format!("data-{attribute}")), "{attribute}: {markup}");
    }
    let whole = log::whole(ATTEMPT.parse().unwrap(), WindowQuery::default(), &window).into_string();
    assert!(whole.contains("before=3") && whole.contains("after=7"), "{whole}");
    assert!(!Window::default().markup().into_string().contains("data-"));
}

#[test]
fn processes_are_a_tree_that_stays_within_its_column() {
    let member = |pid, depth| Member {
        pid,
        depth,
        name: HOSTILE.to_owned(),
        state: 'S',
        cpu: std::time::Duration::from_secs(61),
        memory: 5 << 20,
        age: std::time::Duration::from_hours(1),
    };
    let markup = lines(&head::processes(&[member(1, 0), member(2, 1), member(3, 99)]));
    require_harmless(&markup);
    insta::assert_snapshot!(markup);
    assert!(head::processes(&[]).into_string().contains("Nothing runs"));
}
