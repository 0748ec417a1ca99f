//! A domain that gives samples, and misbehaves where a test asks it to.

use std::sync::Mutex;

use async_trait::async_trait;
use provost_actors::event::{
    Action, ActionKind, Channel, ErrorType, Event, NormalizedEntry, ProcessStatus, RawEntry,
    RunReason, Stream, Timestamp, ToolStatus,
};
use provost_actors::executor::{Description, InProgress};
use provost_actors::journal::check::CheckOutcome;
use provost_actors::journal::{self, LastReport};
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::mcp::ask::{Answer, Ask, CustomError, Key, RecentAttempt, Session};
use crate::mcp::tools::approvals::*;
use crate::mcp::tools::artifacts::*;
use crate::mcp::tools::attempts::*;
use crate::mcp::tools::context::*;
use crate::mcp::tools::executors::*;
use crate::mcp::tools::follow_up::*;
use crate::mcp::tools::logs::*;
use crate::mcp::tools::projects::*;
use crate::mcp::tools::sessions::*;
use crate::mcp::tools::tasks::*;
use crate::mcp::tools::waits::*;
use crate::work::Standing;
use crate::work::brief::Brief;
use crate::work::completed::*;
use crate::work::consult::*;
use crate::work::done::*;
use crate::work::failure::*;
use crate::work::immediate::*;
use crate::work::inbox::*;
use crate::work::issue::{ReportIssueInput, ReportIssueOutput};
use crate::work::next::{GetNextTaskInput, GetNextTaskOutput, TaskPreview};
use crate::work::observation::{ReportObservationInput, ReportObservationOutput, ShortOutput};
use crate::work::question::*;
use crate::work::receipt::*;
use crate::work::reply::{Known, Outcome};
use crate::work::report::Dashboard;
use crate::work::reported::{Reported, TaskReport};
use crate::work::status::*;
use crate::work::ticket::*;
use crate::work::verification::*;

/// An id of any kind.
pub const ID: &str = "01936d5e-5f7a-7c3e-8f00-0123456789ab";
/// `get_task` panics on it.
pub const PANICS: &str = "01936d5e-5f7a-7c3e-8f00-00000000dead";
/// `get_attempt_status` never ends on it.
pub const HANGS: &str = "01936d5e-5f7a-7c3e-8f00-00000000ffff";

#[derive(Default)]
pub struct Samples {
    /// The keys of the changes that were asked for.
    pub keys: Mutex<Vec<Key>>,
    /// Cancelled when a hanging call has begun.
    pub hanging: CancellationToken,
    /// Cancelled when a hanging call has been dropped.
    pub dropped: CancellationToken,
}

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
        "answer_question" => json!({"question_id": "Q-001", "answer": "a", "project_id": ID}),
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
        "respond_approval" => json!({"approval_id": ID, "decision": "deny", "reason": "no"}),
        "follow_up" => json!({"attempt_id": ID, "action": "send", "prompt": "go on"}),
        "wait_for_attempts" => json!({"attempt_ids": [ID], "until": "any_change"}),
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

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>() -> T {
    ID.parse().unwrap()
}

fn worktree() -> Worktree {
    Worktree::One("/worktrees/t/app".to_owned())
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn task() -> Task {
    Task {
        summary: TaskSummary {
            task_id: id(),
            handle: "TASK-001".to_owned(),
            title: "t".to_owned(),
            status: TaskStatus::InProgress,
            priority: Priority::Medium,
            standing: Some(Standing::Rework),
            created_at: now(),
            updated_at: now(),
            latest_attempt_id: Some(id()),
            latest_workspace_branch: None,
            latest_session_id: None,
            latest_session_executor: None,
            has_in_progress_attempt: true,
            last_attempt_failed: false,
        },
        project_id: id(),
        description: None,
        depends_on: vec![id()],
        brief: Brief::kept(r#"{"relatedTasks":["TASK-002"]}"#),
        last_report: Some(LastReport {
            status: Some("done".to_owned()),
            at: now(),
            summary: None,
            warnings: Vec::new(),
        }),
    }
}

fn reported() -> Reported {
    Reported {
        reason: Some("it is slow".to_owned()),
        reports: vec![TaskReport {
            at: Timestamp::from_millis(0),
            tool: "reportTaskDone".to_owned(),
            by: "an-agent".to_owned(),
            task_id: "TASK-001".to_owned(),
            status: Some("done".to_owned()),
            handles: vec!["OBS-001".to_owned()],
            warnings: Vec::new(),
            report: json!({"status": "done"}),
            truncated: false,
        }],
        reports_total: 1,
    }
}

fn checked() -> CheckedReport {
    CheckedReport {
        receipts: vec![CheckReceipt {
            name: "test".to_owned(),
            command: "cargo test".to_owned(),
            commit: "c".to_owned(),
            includes_uncommitted: true,
            outcome: CheckOutcome::Failed,
            reason: None,
            exit_code: Some(101),
            exit_signal: None,
            duration_ms: 1,
            log: Some("/l".to_owned()),
            at: now(),
        }],
        contradiction: Some("c".to_owned()),
        flags: vec![Flag::EmptyDiff],
    }
}

fn changed_file() -> ChangedFile {
    ChangedFile { path: "r/f".to_owned(), status: ChangeStatus::Renamed, added: 1, deleted: 2 }
}

fn status() -> AttemptStatus {
    AttemptStatus {
        attempt_id: id(),
        task_id: id(),
        handle: "TASK-001".to_owned(),
        workspace_branch: "provost/t".to_owned(),
        worktree: Some(worktree()),
        state: AttemptState::Failed,
        phase: AttemptPhase::Settled,
        waiting_on: None,
        resume_at: None,
        executor: "fake".to_owned(),
        variant: None,
        created_at: now(),
        updated_at: now(),
        last_activity_at: None,
        latest_session_id: Some(id()),
        latest_execution_process_id: Some(id()),
        exit_code: Some(1),
        exit_signal: None,
        failure_summary: Some("exit code 1".to_owned()),
        queued_follow_ups: 0,
        queue_held: false,
        usage: Some(AttemptUsage { input_tokens: 1, output_tokens: 2, cost_usd: None }),
        limits: vec![AttemptLimit {
            limit: "nice".to_owned(),
            value: 3,
            hold: "kernel".to_owned(),
            reason: None,
        }],
        final_message: None,
        latest_entry_index: LatestEntryIndex { normalized: Some(3), raw: None },
        next_action: None,
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
        at: now(),
        execution_process_id: id(),
        stream: Stream::Stdout,
        text: "line".to_owned(),
        continued: true,
        lossy: true,
    };
    let normalized = events().into_iter().map(|event| {
        LogEntry::Normalized(NormalizedEntry {
            entry_index: 1,
            at: now(),
            execution_process_id: id(),
            turn: 1,
            event,
        })
    });
    std::iter::once(LogEntry::Raw(raw)).chain(normalized).collect()
}

impl Samples {
    /// The same key again is a deduplicated answer.
    fn answer<T>(&self, key: Option<Key>, output: T) -> Answer<T> {
        let mut keys = self.keys.lock().unwrap();
        let deduplicated = key.as_ref().is_some_and(|key| keys.contains(key));
        keys.extend(key);
        Answer { value: output, deduplicated }
    }
}

#[async_trait]
impl Ask for Samples {
    async fn list_projects(
        &self,
        _: &Session,
        _: ListProjectsInput,
    ) -> Result<ListProjectsOutput, Refusal> {
        let project = ProjectSummary {
            project_id: id(),
            name: "p".to_owned(),
            created_at: now(),
            updated_at: now(),
        };
        Ok(ListProjectsOutput { projects: vec![project], next_cursor: None, has_more: false })
    }

    async fn list_repos(&self, _: &Session, _: ListReposInput) -> Result<ListReposOutput, Refusal> {
        let repo = RepoSummary {
            repo_id: id(),
            repo_name: "r".to_owned(),
            path: "/r".to_owned(),
            default_target_branch: "main".to_owned(),
        };
        Ok(ListReposOutput { repos: vec![repo] })
    }

    async fn create_project(
        &self,
        _: &Session,
        key: Option<Key>,
        _: CreateProjectInput,
    ) -> Result<Answer<CreateProjectOutput>, Refusal> {
        Ok(self.answer(key, CreateProjectOutput { project_id: id(), repo_ids: vec![id()] }))
    }

    async fn add_repo(
        &self,
        _: &Session,
        key: Option<Key>,
        _: AddRepoInput,
    ) -> Result<Answer<AddRepoOutput>, Refusal> {
        Ok(self.answer(key, AddRepoOutput { project_id: id(), repo_id: id() }))
    }

    async fn list_executors(
        &self,
        _: &Session,
        _: ListExecutorsInput,
    ) -> Result<ListExecutorsOutput, Refusal> {
        let description = Description {
            name: "fake".to_owned(),
            protocol: "fake",
            variants: vec!["fast".to_owned()],
            default_variant: None,
            supports_mcp: false,
            supports_resume: true,
            supports_interrupt: true,
            supports_approvals: true,
            stand_in: true,
            unavailable_reason: None,
            install: None,
            note: None,
        };
        Ok(ListExecutorsOutput { executors: vec![ExecutorSummary::new(description, None)] })
    }

    async fn list_tasks(
        &self,
        _: &Session,
        input: ListTasksInput,
    ) -> Result<ListTasksOutput, Refusal> {
        // Tells the limit back by the number of tasks.
        let tasks = vec![task().summary; input.limit.get()];
        Ok(ListTasksOutput { tasks, next_cursor: Some("c".to_owned()), has_more: true })
    }

    async fn get_task(&self, _: &Session, input: GetTaskInput) -> Result<GetTaskOutput, Refusal> {
        assert!(input.task_id.to_string() != PANICS, "asked to panic");
        Ok(GetTaskOutput {
            task: CheckedTask { task: task(), report: checked(), reported: reported() },
        })
    }

    async fn create_task(
        &self,
        _: &Session,
        key: Option<Key>,
        _: CreateTaskInput,
    ) -> Result<Answer<CreateTaskOutput>, Refusal> {
        Ok(self.answer(key, CreateTaskOutput { task_id: id(), handle: "TASK-001".to_owned() }))
    }

    async fn update_task(
        &self,
        _: &Session,
        key: Option<Key>,
        _: UpdateTaskInput,
    ) -> Result<Answer<TaskOutput>, Refusal> {
        Ok(self.answer(key, TaskOutput { task: task() }))
    }

    async fn delete_task(
        &self,
        _: &Session,
        key: Option<Key>,
        input: DeleteTaskInput,
    ) -> Result<Answer<DeleteTaskOutput>, Refusal> {
        if input.task_id.to_string() == HANGS {
            let refusal = Refusal::new(Code::AttemptRunning, "An attempt of the task runs.");
            return Err(refusal.detail("attempt_id", ID));
        }
        let output =
            DeleteTaskOutput { deleted_task_id: input.task_id, handle: "TASK-001".to_owned() };
        Ok(self.answer(key, output))
    }

    async fn start_task_attempt(
        &self,
        _: &Session,
        key: Option<Key>,
        _: StartTaskAttemptInput,
    ) -> Result<Answer<StartTaskAttemptOutput>, Refusal> {
        let output = StartTaskAttemptOutput {
            attempt_id: id(),
            task_id: id(),
            handle: "TASK-001".to_owned(),
            workspace_branch: "provost/t".to_owned(),
            worktree: worktree(),
            session_id: id(),
            execution_process_id: None,
            state: AttemptState::Idle,
            phase: AttemptPhase::Queued,
        };
        Ok(self.answer(key, output))
    }

    async fn list_task_attempts(
        &self,
        _: &Session,
        _: ListTaskAttemptsInput,
    ) -> Result<ListTaskAttemptsOutput, Refusal> {
        let attempt = AttemptSummary {
            attempt_id: id(),
            workspace_branch: "provost/t".to_owned(),
            worktree: worktree(),
            state: AttemptState::Completed,
            created_at: now(),
            updated_at: now(),
            latest_session_id: None,
            latest_session_executor: None,
        };
        Ok(ListTaskAttemptsOutput {
            attempts: vec![attempt],
            latest_attempt_id: Some(id()),
            latest_session_id: None,
            next_cursor: None,
            has_more: false,
        })
    }

    async fn get_attempt_status(
        &self,
        _: &Session,
        input: GetAttemptStatusInput,
    ) -> Result<AttemptStatusOutput, Refusal> {
        match (input.attempt_id, input.attempt_ids) {
            (Some(attempt), _) if attempt.to_string() == HANGS => {
                let _guard: DropGuard = self.dropped.clone().drop_guard();
                self.hanging.cancel();
                std::future::pending().await
            }
            (Some(_), _) => Ok(AttemptStatusOutput::One(Box::new(status()))),
            (None, attempts) => {
                let attempts = attempts.iter().flat_map(|ids| ids.iter()).map(|_| status());
                let attempts = attempts.map(|status| ToldStatus::Whole(Box::new(status)));
                Ok(AttemptStatusOutput::Many(AttemptStatuses {
                    attempts: attempts.collect(),
                    truncated: false,
                }))
            }
        }
    }

    async fn wait_for_attempts(
        &self,
        _: &Session,
        input: WaitForAttemptsInput,
    ) -> Result<WaitForAttemptsOutput, Refusal> {
        if input.attempt_ids.iter().any(|attempt| attempt.to_string() == HANGS) {
            let _guard: DropGuard = self.dropped.clone().drop_guard();
            self.hanging.cancel();
            std::future::pending::<()>().await;
        }
        let attempts = input.attempt_ids.iter().map(|attempt| WaitedAttempt {
            attempt_id: *attempt,
            state: AttemptState::Failed,
            phase: AttemptPhase::Settled,
            waiting_on: None,
            changed: false,
            latest_execution_process_id: Some(id()),
            exit_code: Some(-100),
            failure_summary: Some("x".repeat(60)),
            queued_follow_ups: 10,
            latest_entry_index: LatestEntryIndex {
                normalized: Some(100_000),
                raw: Some(1_000_000),
            },
        });
        Ok(WaitForAttemptsOutput {
            attempts: attempts.collect(),
            timed_out: false,
            after: "r1".to_owned(),
        })
    }

    async fn tail_session_messages(
        &self,
        _: &Session,
        _: TailSessionMessagesInput,
    ) -> Result<TailSessionMessagesOutput, Refusal> {
        let message = |role, text: &str, message_index| SessionMessage {
            message_index,
            turn: 1,
            role,
            text: text.to_owned(),
            at: now(),
        };
        Ok(TailSessionMessagesOutput {
            session_id: id(),
            messages: vec![
                message(MessageRole::User, "prompt", 2),
                message(MessageRole::Assistant, "answer", 3),
            ],
            next_cursor: Some(2),
            has_more: true,
        })
    }

    async fn recent_attempts(&self, most: usize) -> Result<Vec<RecentAttempt>, Refusal> {
        let attempt = RecentAttempt { attempt_id: id(), task_title: "t".to_owned() };
        Ok(vec![attempt; most.min(2)])
    }

    async fn tail_attempt_logs(
        &self,
        _: &Session,
        input: TailAttemptLogsInput,
    ) -> Result<TailAttemptLogsOutput, Refusal> {
        Ok(TailAttemptLogsOutput {
            attempt_id: input.attempt_id,
            execution_process_id: None,
            channel: Channel::Raw,
            entries: entries(),
            next_cursor: None,
            has_more: false,
            history_truncated: false,
            oldest_entry_index: Some(0),
            latest_entry_index: Some(1),
            in_progress: Some(InProgress { kind: "thinking".to_owned(), text: "…".to_owned() }),
        })
    }

    async fn follow_up(
        &self,
        _: &Session,
        key: Option<Key>,
        input: FollowUpInput,
    ) -> Result<Answer<FollowUpOutput>, Refusal> {
        let message =
            QueuedMessage { queue_id: id(), prompt: "then this".to_owned(), queued_at: now() };
        let output = FollowUpOutput {
            action: input.action,
            worktree: worktree(),
            attempt_id: id(),
            session_id: id(),
            execution_process_id: Some(id()),
            queue: FollowUpQueue {
                status: QueueStatus::Started,
                length: 1,
                held: false,
                messages: vec![message],
            },
        };
        Ok(self.answer(key, output))
    }

    async fn get_attempt_changes(
        &self,
        _: &Session,
        input: GetAttemptChangesInput,
    ) -> Result<GetAttemptChangesOutput, Refusal> {
        Ok(GetAttemptChangesOutput {
            summary: ChangesSummary::default(),
            blocked: !input.force,
            blocked_reason: (!input.force).then_some(BlockedReason::ThresholdExceeded),
            files: vec![changed_file()],
            truncated: false,
            hint: None,
        })
    }

    async fn get_attempt_file(
        &self,
        _: &Session,
        input: GetAttemptFileInput,
    ) -> Result<GetAttemptFileOutput, Refusal> {
        Ok(GetAttemptFileOutput {
            path: input.path.into(),
            content: "text".to_owned(),
            encoding: Encoding::Utf8,
            size_bytes: 4,
            start_line: Some(1),
            end_line: Some(1),
            offset: Some(0),
            next_offset: None,
            blocked: false,
            blocked_reason: None,
            truncated: false,
            hint: Some("hint".to_owned()),
        })
    }

    async fn get_attempt_patch(
        &self,
        _: &Session,
        _: GetAttemptPatchInput,
    ) -> Result<GetAttemptPatchOutput, Refusal> {
        Ok(GetAttemptPatchOutput {
            patch: "diff".to_owned(),
            files: vec![changed_file()],
            blocked: false,
            blocked_reason: None,
            truncated: true,
            omitted: vec!["r/g".to_owned()],
            hint: None,
        })
    }

    async fn stop_attempt(
        &self,
        _: &Session,
        key: Option<Key>,
        input: StopAttemptInput,
    ) -> Result<Answer<StopAttemptOutput>, Refusal> {
        let output = StopAttemptOutput {
            attempt_id: input.attempt_id,
            worktree: worktree(),
            execution_process_id: None,
            stopped: true,
            state: AttemptState::Failed,
            phase: AttemptPhase::Settled,
            forced: input.force,
            signals: vec!["SIGINT".to_owned()],
            exit_code: None,
            exit_signal: Some(2),
            survivors: 0,
            unrecorded: false,
        };
        Ok(self.answer(key, output))
    }

    async fn list_approvals(
        &self,
        _: &Session,
        _: ListApprovalsInput,
    ) -> Result<ListApprovalsOutput, Refusal> {
        let action = Action { kind: ActionKind::Command, detail: Map::new() };
        let approval = ApprovalSummary {
            approval_id: id(),
            attempt_id: id(),
            execution_process_id: id(),
            status: ApprovalStatus::Pending,
            text: "run ls".to_owned(),
            tool_name: "Bash".to_owned(),
            tool_call_id: Some("t1".to_owned()),
            action,
            reason: None,
            asked_at: now(),
            expires_at: Some(now()),
            decided_at: None,
        };
        Ok(ListApprovalsOutput { approvals: vec![approval], next_cursor: None, has_more: false })
    }

    async fn respond_approval(
        &self,
        _: &Session,
        key: Option<Key>,
        input: RespondApprovalInput,
    ) -> Result<Answer<RespondApprovalOutput>, Refusal> {
        let output = RespondApprovalOutput {
            approval_id: input.approval_id,
            attempt_id: id(),
            status: ApprovalStatus::Denied,
            reason: Some("no".to_owned()),
            decided_at: Some(now()),
        };
        Ok(self.answer(key, output))
    }

    async fn get_context(
        &self,
        session: &Session,
        _: GetContextInput,
    ) -> Result<GetContextOutput, Refusal> {
        Ok(GetContextOutput {
            project_id: id(),
            project_name: "p".to_owned(),
            task_id: id(),
            handle: "TASK-001".to_owned(),
            task_title: "t".to_owned(),
            task_status: TaskStatus::Todo,
            attempt_id: session.attempt.unwrap_or_else(id),
            workspace_branch: "provost/t".to_owned(),
            worktree: worktree(),
            workspace_repos: vec![WorkspaceRepo {
                repo_id: id(),
                repo_name: "r".to_owned(),
                target_branch: "main".to_owned(),
            }],
        })
    }

    async fn get_next_task(
        &self,
        _: &Session,
        key: Option<Key>,
        _: GetNextTaskInput,
    ) -> Result<Answer<GetNextTaskOutput>, Refusal> {
        let output = GetNextTaskOutput {
            success: true,
            task: None,
            queue_length: 0,
            next_tasks_preview: vec![TaskPreview {
                id: "TASK-002".to_owned(),
                title: "t".to_owned(),
                priority: journal::Priority::Medium,
            }],
            answers: Vec::new(),
        };
        Ok(self.answer(key, output))
    }

    async fn report_observation(
        &self,
        _: &Session,
        key: Option<Key>,
        _: ReportObservationInput,
    ) -> Result<Answer<ReportObservationOutput>, Refusal> {
        let short =
            ShortOutput { logged: true, observation_id: "OBS-001".to_owned(), answers: Vec::new() };
        Ok(self.answer(key, ReportObservationOutput::Short(short)))
    }

    async fn report_issue(
        &self,
        _: &Session,
        key: Option<Key>,
        _: ReportIssueInput,
    ) -> Result<Answer<ReportIssueOutput>, Refusal> {
        let output = ReportIssueOutput {
            answers: Vec::new(),
            logged: true,
            escalated: false,
            issue_id: "ISSUE-001".to_owned(),
            alert_ticket: None,
        };
        Ok(self.answer(key, output))
    }

    async fn report_task_done(
        &self,
        _: &Session,
        key: Option<Key>,
        input: ReportTaskDoneInput,
    ) -> Result<Answer<ReportTaskDoneOutput>, Refusal> {
        Ok(self.answer(
            key,
            ReportTaskDoneOutput {
                answers: Vec::new(),
                success: true,
                task_id: input.task_id.into(),
                status: input.status,
                message: "Task marked complete.".to_owned(),
                verification_task_created: Some(VerificationTask {
                    task_id: "TASK-VERIFY-001".to_owned(),
                    title: "t".to_owned(),
                    why: "w".to_owned(),
                    automation_level: "a".to_owned(),
                }),
                observations_processed: Some(vec![ObservationProcessed {
                    observation_id: "OBS-001".to_owned(),
                    observation: "o".to_owned(),
                    status: "noted".to_owned(),
                    suggested_follow_up: "Do it".to_owned(),
                }]),
                next_task_id: None,
                next_task_preview: None,
                dashboard_update: Some(Dashboard {
                    completed_count: 1,
                    total_count: 35,
                    percent_complete: 2.9,
                    blocked_count: 2,
                    verification_pending_count: 1,
                }),
                follow_up_tasks_created: None,
                warnings: Vec::new(),
            },
        ))
    }

    async fn report_test_failure(
        &self,
        _: &Session,
        key: Option<Key>,
        input: ReportTestFailureInput,
    ) -> Result<Answer<ReportTestFailureOutput>, Refusal> {
        Ok(self.answer(
            key,
            ReportTestFailureOutput {
                alert_ticket: Some("TK-001".to_owned()),
                answers: Vec::new(),
                success: true,
                test_failure_id: "FAIL-001".to_owned(),
                test_name: input.test_name.into(),
                status: "failure_logged".to_owned(),
                blocking_task: None,
                investigation_task_created: None,
                suspected_root_cause_analysis: Some(RootCause {
                    likeliest_cause: "c".to_owned(),
                    suggested_investigation: vec!["s".to_owned()],
                }),
                dashboard_alert: Some(FailureAlert {
                    kind: "critical".to_owned(),
                    message: "m".to_owned(),
                    timestamp: now(),
                    requires_human_attention: false,
                }),
            },
        ))
    }

    async fn report_verification_result(
        &self,
        _: &Session,
        key: Option<Key>,
        input: ReportVerificationResultInput,
    ) -> Result<Answer<ReportVerificationResultOutput>, Refusal> {
        Ok(self.answer(
            key,
            ReportVerificationResultOutput {
                answers: Vec::new(),
                success: true,
                verification_status: input.verification_status,
                original_task_status: input.original_task_status,
                original_task_marked: input.verdict(),
                verification_task_id: input.verification_task_id.into(),
                message: "m".to_owned(),
                issues_found: None,
                follow_up_tasks_created: None,
                blocker_cleared: false,
                dashboard_update: None,
                review_ticket_id: None,
                warnings: vec!["w".to_owned()],
            },
        ))
    }

    async fn report_task_completed(
        &self,
        _: &Session,
        key: Option<Key>,
        _: ReportTaskCompletedInput,
    ) -> Result<Answer<ReportTaskCompletedOutput>, Refusal> {
        Ok(self.answer(
            key,
            ReportTaskCompletedOutput {
                answers: Vec::new(),
                acknowledged: true,
                next_task_suggested: None,
                warnings: Vec::new(),
            },
        ))
    }

    async fn report_task_status(
        &self,
        _: &Session,
        key: Option<Key>,
        _: ReportTaskStatusInput,
    ) -> Result<Answer<ReportTaskStatusOutput>, Refusal> {
        Ok(self.answer(
            key,
            ReportTaskStatusOutput {
                answers: Vec::new(),
                acknowledged: true,
                next_action: Some(NextAction::Continue),
                cascaded: Cascaded { tickets_resolved: 1, tasks_unblocked: 1 },
                warnings: Vec::new(),
            },
        ))
    }

    async fn list_questions(
        &self,
        _: &Session,
        _: ListQuestionsInput,
    ) -> Result<ListQuestionsOutput, Refusal> {
        let question = QuestionSummary {
            question_id: ID.to_owned(),
            handle: "Q-001".to_owned(),
            project_id: ID.to_owned(),
            kind: InboxKind::Question,
            status: QuestionStatus::Open,
            priority: Urgency::Medium,
            question: "q".to_owned(),
            context: Some("{}".to_owned()),
            task_id: None,
            answer: None,
            answered_by: None,
            asked_at: now(),
        };
        Ok(ListQuestionsOutput { questions: vec![question], next_cursor: None, has_more: false })
    }

    async fn answer_question(
        &self,
        _: &Session,
        key: Option<Key>,
        _: AnswerQuestionInput,
    ) -> Result<Answer<AnswerQuestionOutput>, Refusal> {
        Ok(self.answer(
            key,
            AnswerQuestionOutput {
                question_id: ID.to_owned(),
                handle: "Q-001".to_owned(),
                status: QuestionStatus::Answered,
            },
        ))
    }

    async fn ask_question(
        &self,
        _: &Session,
        input: AskQuestionInput,
    ) -> Result<AskQuestionOutput, Refusal> {
        let answer = crate::work::answer::Answer { confidence: 0.2, ..Default::default() };
        let known = Known { answer, is_ruled: false, decisions: Vec::new(), nearest: Vec::new() };
        Ok(input.reply(known, &Outcome::PassedOn("Q-001".to_owned()), Vec::new()))
    }

    async fn get_immediate_answer(
        &self,
        _: &Session,
        _: GetImmediateAnswerInput,
    ) -> Result<GetImmediateAnswerOutput, Refusal> {
        Ok(GetImmediateAnswerOutput {
            answer: "a".to_owned(),
            source: None,
            timeout: false,
            answers: Vec::new(),
        })
    }

    async fn call_coe_agent(
        &self,
        _: &Session,
        _: CallCoeAgentInput,
    ) -> Result<CallCoeAgentOutput, Refusal> {
        Ok(CallCoeAgentOutput {
            success: true,
            answer: "a".to_owned(),
            source: "fake".to_owned(),
            question_id: Some("Q-001".to_owned()),
        })
    }

    async fn create_ticket(
        &self,
        _: &Session,
        key: Option<Key>,
        input: CreateTicketInput,
    ) -> Result<Answer<CreateTicketOutput>, Refusal> {
        Ok(self.answer(
            key,
            CreateTicketOutput {
                answers: Vec::new(),
                success: true,
                ticket: TicketMade {
                    id: "TK-001".to_owned(),
                    ticket_id: id(),
                    title: input.title.into(),
                    status: TicketStatus::Open,
                    priority: input.priority,
                    task_id: None,
                },
            },
        ))
    }

    async fn task_id(&self, _: &Session, handle: &str, _: Option<&str>) -> Result<String, Refusal> {
        match handle {
            "TASK-001" => Ok(ID.to_owned()),
            _ => Err(Refusal::new(Code::TaskNotFound, "no such task")),
        }
    }

    async fn custom(
        &self,
        _: &Session,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, CustomError> {
        match method {
            "echo" => Ok(json!({"params": params})),
            "missing" => Err(CustomError {
                code: 404,
                message: "not found".to_owned(),
                data: Some(json!({"id": 1})),
            }),
            "panic" => panic!("asked to panic"),
            _ => Err(CustomError::method_not_found(method)),
        }
    }
}
