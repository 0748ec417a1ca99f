//! A domain that gives samples, and misbehaves where a test asks it to.

use crate::api::worker::ReportTools;
use crate::api::worker::completed::ReportTaskCompletedInput;
use crate::api::worker::completed::ReportTaskCompletedOutput;
use crate::api::worker::done::ReportTaskDoneInput;
use crate::api::worker::done::ReportTaskDoneOutput;
use crate::api::worker::failure::ReportTestFailureInput;
use crate::api::worker::failure::ReportTestFailureOutput;
use crate::api::worker::status::ReportTaskStatusInput;
use crate::api::worker::status::ReportTaskStatusOutput;
use crate::api::worker::verification::ReportVerificationResultInput;
use crate::api::worker::verification::ReportVerificationResultOutput;
use std::sync::Mutex;

use async_trait::async_trait;
use provost_actors::event::{
    Action, ActionKind, Channel, ErrorType, Event, NormalizedEntry, ProcessStatus, RawEntry,
    RunReason, Stream, Timestamp, ToolStatus,
};
use provost_actors::executor::{Description, InProgress};
use provost_actors::ids::AttemptId;
use provost_actors::journal::checks::CheckOutcome;
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::api::Clarify;
use crate::api::CliMethods;
use crate::api::Reach;
use crate::api::TaskNames;
use crate::api::approvals::ApprovalTools;
use crate::api::approvals::*;
use crate::api::artifacts::ChangesTool;
use crate::api::artifacts::FileTool;
use crate::api::artifacts::PatchTool;
use crate::api::artifacts::*;
use crate::api::attempts::AttemptTools;
use crate::api::attempts::*;
use crate::api::brief::Brief;
use crate::api::executors::ExecutorTools;
use crate::api::executors::*;
use crate::api::follow_up::FollowUpTools;
use crate::api::follow_up::*;
use crate::api::logs::LogTools;
use crate::api::logs::*;
use crate::api::projects::ProjectTools;
use crate::api::projects::*;
use crate::api::sessions::SessionTools;
use crate::api::sessions::*;
use crate::api::tasks::TaskTools;
use crate::api::tasks::*;
use crate::api::waits::WaitTools;
use crate::api::waits::*;
use crate::api::worker::inbox::InboxTools;
use crate::api::worker::inbox::*;
use crate::api::worker::issue::{ReportIssueInput, ReportIssueOutput};
use crate::api::worker::next::NextTools;
use crate::api::worker::next::{GetNextTaskInput, GetNextTaskOutput};
use crate::api::worker::observation::{ReportObservationInput, ReportObservationOutput};
use crate::api::worker::question::*;
use crate::api::worker::report::*;
use crate::api::worker::ticket::*;
use crate::api::{Access, Callee, Caller, CustomError, Key, Once, Refusable, Service};

use crate::work::ReviewState;

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
            standing: Some(ReviewState::Rework),
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
    fn answer<T>(&self, key: Option<Key>, output: T) -> Once<T> {
        let mut keys = self.keys.lock().unwrap();
        let deduplicated = key.as_ref().is_some_and(|key| keys.contains(key));
        keys.extend(key);
        Once { value: output, deduplicated }
    }
}

/// What a tool answers that no test here looks at.
const UNANSWERED: &str = "no test asks for this answer";

fn unanswered() -> Refusal {
    Refusal::internal(UNANSWERED)
}

/// Whether a call was taken, although this has no answer to it.
pub fn is_unanswered(refusal: &Refusal) -> bool {
    refusal.message.contains(UNANSWERED)
}

/// Methods that take everything and answer nothing.
macro_rules! stub {
    ($tools:ident { $($name:ident($($argument:ty),*) -> $output:ty;)* }) => {
        #[async_trait]
        impl $tools for Samples {
            $(async fn $name(&self, _: &Caller, $(_: $argument),*) -> Refusable<$output> {
                Err(unanswered())
            })*
        }
    };
}

stub! { SessionTools {
    tail_session_messages(TailSessionMessagesInput) -> TailSessionMessagesOutput;
} }

stub! { FollowUpTools {
    follow_up(Option<Key>, FollowUpInput) -> Once<FollowUpOutput>;
} }

stub! { ApprovalTools {
    list_approvals(ListApprovalsInput) -> ListApprovalsOutput;
    respond_approval(Option<Key>, RespondApprovalInput) -> Once<RespondApprovalOutput>;
} }

stub! { ChangesTool {
    get_attempt_changes(GetAttemptChangesInput) -> GetAttemptChangesOutput;
} }

stub! { FileTool {
    get_attempt_file(GetAttemptFileInput) -> GetAttemptFileOutput;
} }

stub! { PatchTool {
    get_attempt_patch(GetAttemptPatchInput) -> GetAttemptPatchOutput;
} }

#[async_trait]
impl ExecutorTools for Samples {
    async fn list_executors(
        &self,
        _: &Caller,
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
}

#[async_trait]
impl TaskTools for Samples {
    async fn create_task(
        &self,
        _: &Caller,
        key: Option<Key>,
        _: CreateTaskInput,
    ) -> Result<Once<CreateTaskOutput>, Refusal> {
        Ok(self.answer(key, CreateTaskOutput { task_id: id(), handle: "TASK-001".to_owned() }))
    }

    async fn list_tasks(
        &self,
        _: &Caller,
        input: ListTasksInput,
    ) -> Result<ListTasksOutput, Refusal> {
        // Tells the limit back by the number of tasks.
        let tasks = vec![task().summary; input.limit.get()];
        Ok(ListTasksOutput { tasks, next_cursor: Some("c".to_owned()), has_more: true })
    }

    async fn get_task(&self, _: &Caller, input: GetTaskInput) -> Result<GetTaskOutput, Refusal> {
        assert!(input.task_id.to_string() != PANICS, "asked to panic");
        Ok(GetTaskOutput {
            task: CheckedTask { task: task(), report: checked(), reported: reported() },
        })
    }

    async fn update_task(
        &self,
        _: &Caller,
        _: Option<Key>,
        _: UpdateTaskInput,
    ) -> Refusable<Once<TaskOutput>> {
        Err(unanswered())
    }

    async fn delete_task(
        &self,
        _: &Caller,
        key: Option<Key>,
        input: DeleteTaskInput,
    ) -> Result<Once<DeleteTaskOutput>, Refusal> {
        if input.task_id.to_string() == HANGS {
            let refusal = Refusal::new(Code::AttemptRunning, "An attempt of the task runs.");
            return Err(refusal.detail("attempt_id", ID));
        }
        let output =
            DeleteTaskOutput { deleted_task_id: input.task_id, handle: "TASK-001".to_owned() };
        Ok(self.answer(key, output))
    }
}

#[async_trait]
impl WaitTools for Samples {
    async fn wait_for_attempts(
        &self,
        _: &Caller,
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
}

#[async_trait]
impl ProjectTools for Samples {
    async fn list_projects(
        &self,
        _: &Caller,
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

    async fn list_repos(&self, _: &Caller, _: ListReposInput) -> Refusable<ListReposOutput> {
        Err(unanswered())
    }

    async fn create_project(
        &self,
        _: &Caller,
        _: Option<Key>,
        _: CreateProjectInput,
    ) -> Refusable<Once<CreateProjectOutput>> {
        Err(unanswered())
    }

    async fn add_repo(
        &self,
        _: &Caller,
        _: Option<Key>,
        _: AddRepoInput,
    ) -> Refusable<Once<AddRepoOutput>> {
        Err(unanswered())
    }
}

#[async_trait]
impl AttemptTools for Samples {
    async fn start_task_attempt(
        &self,
        _: &Caller,
        _: Option<Key>,
        _: StartTaskAttemptInput,
    ) -> Refusable<Once<StartTaskAttemptOutput>> {
        Err(unanswered())
    }

    async fn list_task_attempts(
        &self,
        _: &Caller,
        _: ListTaskAttemptsInput,
    ) -> Refusable<ListTaskAttemptsOutput> {
        Err(unanswered())
    }

    async fn get_attempt_status(
        &self,
        _: &Caller,
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

    async fn stop_attempt(
        &self,
        _: &Caller,
        _: Option<Key>,
        _: StopAttemptInput,
    ) -> Refusable<Once<StopAttemptOutput>> {
        Err(unanswered())
    }

    async fn get_context(
        &self,
        caller: &Caller,
        _: GetContextInput,
    ) -> Result<GetContextOutput, Refusal> {
        Ok(GetContextOutput {
            project_id: id(),
            project_name: "p".to_owned(),
            task_id: id(),
            handle: "TASK-001".to_owned(),
            task_title: "t".to_owned(),
            task_status: TaskStatus::Todo,
            attempt_id: caller.attempt.unwrap_or_else(id),
            workspace_branch: "provost/t".to_owned(),
            worktree: worktree(),
            workspace_repos: vec![WorkspaceRepo {
                repo_id: id(),
                repo_name: "r".to_owned(),
                target_branch: "main".to_owned(),
            }],
        })
    }

    async fn recent_attempts(&self, most: usize) -> Refusable<Vec<(AttemptId, String)>> {
        let attempt = (id(), "t".to_owned());
        Ok(vec![attempt; most.min(2)])
    }
}

#[async_trait]
impl LogTools for Samples {
    async fn tail_attempt_logs(
        &self,
        _: &Caller,
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
}

stub! { AskTools {
    ask_question(AskQuestionInput) -> AskQuestionOutput;
} }

stub! { ImmediateTools {
    get_immediate_answer(GetImmediateAnswerInput) -> GetImmediateAnswerOutput;
} }

stub! { ConsultTools {
    call_coe_agent(CallCoeAgentInput) -> CallCoeAgentOutput;
} }

stub! { ReportTools {
    report_task_done(Option<Key>, ReportTaskDoneInput) -> Once<ReportTaskDoneOutput>;
    report_task_completed(Option<Key>, ReportTaskCompletedInput) -> Once<ReportTaskCompletedOutput>;
    report_task_status(Option<Key>, ReportTaskStatusInput) -> Once<ReportTaskStatusOutput>;
    report_test_failure(Option<Key>, ReportTestFailureInput) -> Once<ReportTestFailureOutput>;
    report_verification_result(Option<Key>, ReportVerificationResultInput) -> Once<ReportVerificationResultOutput>;
    report_observation(Option<Key>, ReportObservationInput) -> Once<ReportObservationOutput>;
    report_issue(Option<Key>, ReportIssueInput) -> Once<ReportIssueOutput>;
    create_ticket(Option<Key>, CreateTicketInput) -> Once<CreateTicketOutput>;
} }

stub! { InboxTools {
    list_questions(ListQuestionsInput) -> ListQuestionsOutput;
    answer_question(Option<Key>, AnswerQuestionInput) -> Once<AnswerQuestionOutput>;
} }

stub! { NextTools {
    get_next_task(Option<Key>, GetNextTaskInput) -> Once<GetNextTaskOutput>;
} }

#[async_trait]
impl Reach for Samples {
    async fn permit(
        &self,
        _: &Caller,
        _: &'static str,
        _: Access,
        _: &Map<String, Value>,
    ) -> Refusable<()> {
        Ok(())
    }
}

#[async_trait]
impl TaskNames for Samples {
    async fn task_id(&self, _: &Caller, handle: &str, _: Option<&str>) -> Result<String, Refusal> {
        match handle {
            "TASK-001" => Ok(ID.to_owned()),
            _ => Err(Refusal::new(Code::TaskNotFound, "no such task")),
        }
    }
}

#[async_trait]
impl Clarify for Samples {
    async fn clarify(&self, _: &Callee<'_>, _: &Value, refusal: Refusal) -> Refusal {
        refusal
    }
}

#[async_trait]
impl CliMethods for Samples {
    async fn call_method(
        &self,
        _: &Caller,
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

impl Service for Samples {}
