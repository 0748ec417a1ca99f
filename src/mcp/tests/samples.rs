//! Sample data: arguments for each tool, and log entries of every kind.

use provost_actors::event::{
    Action, ActionKind, ErrorType, Event, NormalizedEntry, ProcessStatus, RawEntry, RunReason,
    Stream, Timestamp, ToolStatus,
};
use serde_json::{Map, Value, json};

use crate::api::logs::LogEntry;

/// An id of any kind that was never issued.
pub const ID: &str = "01936d5e-5f7a-7c3e-8f00-0123456789ab";

/// Arguments that a tool takes.
pub fn arguments(tool: &str) -> Value {
    match tool {
        "list_repos" => json!({"project_id": ID}),
        "create_project" => json!({"name": "n", "repos": [{"path": "/r"}]}),
        "add_repo" => json!({"project_id": ID, "path": "/r", "target_branch": "main"}),
        "getNextTask" => json!({"filter": "ready", "claim": true}),
        "reportObservation" => json!({"observation": "o", "category": "other", "priority": 2}),
        "reportIssue" => json!({"issue_description": "i", "severity": 1}),
        "reportTaskDone" => json!({
            "taskId": "TASK-001", "status": "done",
            "statusDetails": {"progressPercent": 100},
            "testing": {"testsAdded": true, "testsPassed": true, "testsFailed": 0},
            "acceptanceCriteriaVerification": {"0": {"text": "t", "status": "passed"}},
            "followUpTasks": [{"title": "t", "why": "w", "estimatedHours": 1}],
        }),
        "reportTestFailure" => json!({
            "taskId": "TASK-001", "testName": "t", "testFile": "t.rs",
            "failureDetails": {"error": "e", "expectedValue": 1}, "previousStatus": "flaky",
            "needsInvestigation": true, "actionNeeded": "a",
        }),
        "reportVerificationResult" => json!({
            "verificationTaskId": "TASK-VERIFY-001", "originalTaskId": "TASK-001",
            "verificationStatus": "needs-manual-review", "originalTaskStatus": "needs_rework",
            "verification": {"checklist": [{"item": "i", "status": "skipped"}], "summary": "s"},
        }),
        "reportTaskCompleted" => json!({
            "task_id": "TASK-001", "status": "success", "test_results": {"passed": 1, "failed": 0},
        }),
        "reportTaskStatus" => {
            json!({"task_id": "TASK-001", "status": "in_progress", "metrics": {"time_seconds": 1.5}})
        }
        "list_inbox" => json!({"attempt_id": ID, "status": "open", "limit": 5}),
        "askQuestion" => json!({
            "question": "q", "context_summary": "c", "current_file": "f",
            "relevant_snippets": [{"file": "f", "content": "c"}], "task_id": "TASK-001",
            "confidence_level": 5, "priority_level": 1, "possible_options": ["o"],
        }),
        "getImmediateAnswer" => json!({"query": "q", "context_bundle": {}, "max_wait_seconds": 1}),
        "callCOEAgent" => json!({
            "query": "q", "context": "c", "task_id": "TASK-001", "max_wait_seconds": 1,
        }),
        "createTicket" => json!({"title": "t", "type": "blocker"}),
        "create_task" => json!({"project_id": ID, "title": "t"}),
        "list_tasks" => json!({"project_id": ID, "updated_since": "2026-01-31T12:00:00Z"}),
        "get_task" | "delete_task" | "list_task_attempts" => json!({"task_id": ID}),
        "update_task" => json!({"task_id": ID, "status": "done"}),
        "start_task_attempt" => {
            json!({"task_id": ID, "executor": "fake", "repos": [{"repo_id": ID}]})
        }
        "answer" => {
            json!({"approval_id": ID, "decision": "deny", "reason": "no"})
        }
        "follow_up" => json!({"attempt_id": ID, "action": "send", "prompt": "go on"}),
        "comment_on_changes" => json!({
            "attempt_id": ID, "action": "add", "path": "r/f", "line": 1, "last_line": 2,
            "side": "old", "turn": 1, "text": "t",
        }),
        "wait_for_attempts" => json!({"attempt_ids": [ID], "until": "any_change"}),
        "finish_attempt" => json!({
            "attempt_id": ID, "action": "merge", "strategy": "squash", "into": "main",
            "message": "m", "timeout_ms": 1000,
        }),
        "get_attempt_status"
        | "tail_attempt_logs"
        | "tail_session_messages"
        | "get_attempt_changes"
        | "stop_attempt" => json!({"attempt_id": ID}),
        "get_attempt_file" => json!({"attempt_id": ID, "path": "r/f"}),
        "get_attempt_patch" => json!({"attempt_id": ID, "paths": ["r/f"]}),
        _ => json!({}),
    }
}

/// Every kind of normalized entry.
fn events() -> Vec<Event> {
    let text = || "text".to_owned();
    vec![
        Event::UserMessage { text: text() },
        Event::AssistantMessage { text: text(), continued: true },
        Event::Thinking { text: text() },
        Event::ToolUse {
            text: text(),
            tool_call_id: text(),
            tool_name: text(),
            action: Action { kind: ActionKind::Command, detail: Map::new() },
        },
        Event::ToolResult {
            text: text(),
            tool_call_id: text(),
            status: ToolStatus::Failed,
            exit_code: Some(1),
        },
        Event::TokenUsage {
            text: text(),
            input_tokens: 1,
            output_tokens: 2,
            cached_tokens: Some(3),
            cost_usd: Some(0.5),
        },
        Event::ErrorMessage { text: text(), error_type: ErrorType::Quota, resume_at: None },
        Event::SystemMessage { text: text() },
        Event::ProcessStart {
            text: text(),
            command: vec![text()],
            run_reason: RunReason::CodingAgent,
        },
        Event::ProcessEnd {
            text: text(),
            exit_code: None,
            exit_signal: Some(9),
            status: ProcessStatus::Killed,
        },
    ]
}

/// Entries of both channels, of every kind.
pub fn entries() -> Vec<LogEntry> {
    let raw = RawEntry {
        entry_index: 0,
        at: Timestamp::from_millis(1_700_000_000_000),
        execution_process_id: ID.parse().unwrap(),
        stream: Stream::Stdout,
        text: "line".to_owned(),
        continued: true,
        lossy: true,
    };
    let normalized = events().into_iter().map(|event| {
        LogEntry::Normalized(NormalizedEntry {
            entry_index: 1,
            at: Timestamp::from_millis(1_700_000_000_000),
            execution_process_id: ID.parse().unwrap(),
            turn: 1,
            event,
        })
    });
    std::iter::once(LogEntry::Raw(raw)).chain(normalized).collect()
}
