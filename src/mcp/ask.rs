//! The one way from the tools into the rest of the daemon: a method a tool.
//! Whoever implements [`Ask`] sees parsed input and gives back typed output; it
//! sees nothing of MCP.

use std::path::PathBuf;

use async_trait::async_trait;
use provost_actors::ids::AttemptId;
pub use provost_actors::journal::{Key, Once as Answer};
pub use provost_actors::process::place::Place;
use provost_actors::refusal::{Code, Refusal};
use provost_actors::text::{NAME_TOLD, cut};
use serde_json::{Map, Value};

use super::tools::approvals::{
    ListApprovalsInput, ListApprovalsOutput, RespondApprovalInput, RespondApprovalOutput,
};
use super::tools::artifacts::{
    GetAttemptChangesInput, GetAttemptChangesOutput, GetAttemptFileInput, GetAttemptFileOutput,
    GetAttemptPatchInput, GetAttemptPatchOutput,
};
use super::tools::attempts::{
    AttemptStatusOutput, GetAttemptStatusInput, ListTaskAttemptsInput, ListTaskAttemptsOutput,
    StartTaskAttemptInput, StartTaskAttemptOutput, StopAttemptInput, StopAttemptOutput,
};
use super::tools::context::{GetContextInput, GetContextOutput};
use super::tools::executors::{ListExecutorsInput, ListExecutorsOutput};
use super::tools::follow_up::{FollowUpInput, FollowUpOutput};
use super::tools::logs::{TailAttemptLogsInput, TailAttemptLogsOutput};
use super::tools::projects::{
    AddRepoInput, AddRepoOutput, CreateProjectInput, CreateProjectOutput, ListProjectsInput,
    ListProjectsOutput, ListReposInput, ListReposOutput,
};
use super::tools::sessions::{TailSessionMessagesInput, TailSessionMessagesOutput};
use super::tools::tasks::{
    CreateTaskInput, CreateTaskOutput, DeleteTaskInput, DeleteTaskOutput, GetTaskInput,
    GetTaskOutput, ListTasksInput, ListTasksOutput, TaskOutput, UpdateTaskInput,
};
use super::tools::waits::{WaitForAttemptsInput, WaitForAttemptsOutput};
pub use crate::role::{Access, Role};
use crate::work::completed::{ReportTaskCompletedInput, ReportTaskCompletedOutput};
use crate::work::consult::{CallCoeAgentInput, CallCoeAgentOutput};
use crate::work::done::{ReportTaskDoneInput, ReportTaskDoneOutput};
use crate::work::failure::{ReportTestFailureInput, ReportTestFailureOutput};
use crate::work::immediate::{GetImmediateAnswerInput, GetImmediateAnswerOutput};
use crate::work::inbox::{
    AnswerQuestionInput, AnswerQuestionOutput, ListQuestionsInput, ListQuestionsOutput,
};
use crate::work::issue::{ReportIssueInput, ReportIssueOutput};
use crate::work::next::{GetNextTaskInput, GetNextTaskOutput};
use crate::work::observation::{ReportObservationInput, ReportObservationOutput};
use crate::work::question::{AskQuestionInput, AskQuestionOutput};
use crate::work::status::{ReportTaskStatusInput, ReportTaskStatusOutput};
use crate::work::ticket::{CreateTicketInput, CreateTicketOutput};
use crate::work::verification::{ReportVerificationResultInput, ReportVerificationResultOutput};

/// One connection: what is known of its caller for as long as it lasts.
#[derive(Clone, Debug)]
pub struct Session {
    pub role: Role,
    /// The attempt that the caller works in, if it does.
    pub attempt: Option<AttemptId>,
    /// Where its process is, as the kernel shows it: unlike the attempt above, it
    /// can't be made up.
    pub place: Place,
    /// A person's command line outside of all attempts: it has bare methods of its own.
    pub is_person: bool,
    /// Who calls, as far as limits and leases go: the attempt, or the bridge.
    pub agent: String,
    pub access: Access,
    /// The caller's working directory, if it said.
    pub cwd: Option<PathBuf>,
}

/// An attempt as a list of resources shows it.
#[derive(Clone, Debug)]
pub struct RecentAttempt {
    pub attempt_id: AttemptId,
    pub task_title: String,
}

/// Why a method outside MCP was refused, as JSON-RPC says it. Any code is allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomError {
    pub code: i32,
    pub message: String,
    pub data: Option<Value>,
}

impl CustomError {
    /// JSON-RPC 2.0 §5.1: the method does not exist.
    pub fn method_not_found(method: &str) -> Self {
        Self {
            code: rmcp::model::ErrorCode::METHOD_NOT_FOUND.0,
            message: format!("there is no method `{}`", cut(method.to_owned(), NAME_TOLD)),
            data: None,
        }
    }
}

type Refusable<T> = Result<T, Refusal>;

/// What the tools ask for. A future may be dropped at any await when its caller
/// cancels or goes away: a change must be in its owner's hands by then, or not
/// begun. `key` is `None` when nobody asked for idempotency.
#[async_trait]
pub trait Ask: Send + Sync + 'static {
    async fn list_projects(
        &self,
        session: &Session,
        input: ListProjectsInput,
    ) -> Refusable<ListProjectsOutput>;

    async fn list_repos(
        &self,
        session: &Session,
        input: ListReposInput,
    ) -> Refusable<ListReposOutput>;

    async fn create_project(
        &self,
        session: &Session,
        key: Option<Key>,
        input: CreateProjectInput,
    ) -> Refusable<Answer<CreateProjectOutput>>;

    async fn add_repo(
        &self,
        session: &Session,
        key: Option<Key>,
        input: AddRepoInput,
    ) -> Refusable<Answer<AddRepoOutput>>;

    async fn list_executors(
        &self,
        session: &Session,
        input: ListExecutorsInput,
    ) -> Refusable<ListExecutorsOutput>;

    async fn list_tasks(
        &self,
        session: &Session,
        input: ListTasksInput,
    ) -> Refusable<ListTasksOutput>;

    async fn get_task(&self, session: &Session, input: GetTaskInput) -> Refusable<GetTaskOutput>;

    async fn create_task(
        &self,
        session: &Session,
        key: Option<Key>,
        input: CreateTaskInput,
    ) -> Refusable<Answer<CreateTaskOutput>>;

    async fn update_task(
        &self,
        session: &Session,
        key: Option<Key>,
        input: UpdateTaskInput,
    ) -> Refusable<Answer<TaskOutput>>;

    async fn delete_task(
        &self,
        session: &Session,
        key: Option<Key>,
        input: DeleteTaskInput,
    ) -> Refusable<Answer<DeleteTaskOutput>>;

    async fn start_task_attempt(
        &self,
        session: &Session,
        key: Option<Key>,
        input: StartTaskAttemptInput,
    ) -> Refusable<Answer<StartTaskAttemptOutput>>;

    async fn list_task_attempts(
        &self,
        session: &Session,
        input: ListTaskAttemptsInput,
    ) -> Refusable<ListTaskAttemptsOutput>;

    async fn get_attempt_status(
        &self,
        session: &Session,
        input: GetAttemptStatusInput,
    ) -> Refusable<AttemptStatusOutput>;

    async fn wait_for_attempts(
        &self,
        session: &Session,
        input: WaitForAttemptsInput,
    ) -> Refusable<WaitForAttemptsOutput>;

    async fn tail_attempt_logs(
        &self,
        session: &Session,
        input: TailAttemptLogsInput,
    ) -> Refusable<TailAttemptLogsOutput>;

    async fn follow_up(
        &self,
        session: &Session,
        key: Option<Key>,
        input: FollowUpInput,
    ) -> Refusable<Answer<FollowUpOutput>>;

    async fn tail_session_messages(
        &self,
        session: &Session,
        input: TailSessionMessagesInput,
    ) -> Refusable<TailSessionMessagesOutput>;

    async fn get_attempt_changes(
        &self,
        session: &Session,
        input: GetAttemptChangesInput,
    ) -> Refusable<GetAttemptChangesOutput>;

    async fn get_attempt_file(
        &self,
        session: &Session,
        input: GetAttemptFileInput,
    ) -> Refusable<GetAttemptFileOutput>;

    async fn get_attempt_patch(
        &self,
        session: &Session,
        input: GetAttemptPatchInput,
    ) -> Refusable<GetAttemptPatchOutput>;

    async fn stop_attempt(
        &self,
        session: &Session,
        key: Option<Key>,
        input: StopAttemptInput,
    ) -> Refusable<Answer<StopAttemptOutput>>;

    async fn list_approvals(
        &self,
        session: &Session,
        input: ListApprovalsInput,
    ) -> Refusable<ListApprovalsOutput>;

    async fn respond_approval(
        &self,
        session: &Session,
        key: Option<Key>,
        input: RespondApprovalInput,
    ) -> Refusable<Answer<RespondApprovalOutput>>;

    async fn get_context(
        &self,
        session: &Session,
        input: GetContextInput,
    ) -> Refusable<GetContextOutput>;

    async fn report_task_done(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskDoneInput,
    ) -> Refusable<Answer<ReportTaskDoneOutput>>;

    async fn report_test_failure(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTestFailureInput,
    ) -> Refusable<Answer<ReportTestFailureOutput>>;

    async fn report_verification_result(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportVerificationResultInput,
    ) -> Refusable<Answer<ReportVerificationResultOutput>>;

    async fn report_task_completed(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskCompletedInput,
    ) -> Refusable<Answer<ReportTaskCompletedOutput>>;

    async fn report_task_status(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskStatusInput,
    ) -> Refusable<Answer<ReportTaskStatusOutput>>;

    async fn get_next_task(
        &self,
        session: &Session,
        key: Option<Key>,
        input: GetNextTaskInput,
    ) -> Refusable<Answer<GetNextTaskOutput>>;

    async fn report_observation(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportObservationInput,
    ) -> Refusable<Answer<ReportObservationOutput>>;

    async fn report_issue(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportIssueInput,
    ) -> Refusable<Answer<ReportIssueOutput>>;

    async fn list_questions(
        &self,
        session: &Session,
        input: ListQuestionsInput,
    ) -> Refusable<ListQuestionsOutput>;

    async fn answer_question(
        &self,
        session: &Session,
        key: Option<Key>,
        input: AnswerQuestionInput,
    ) -> Refusable<Answer<AnswerQuestionOutput>>;

    async fn ask_question(
        &self,
        session: &Session,
        input: AskQuestionInput,
    ) -> Refusable<AskQuestionOutput>;

    async fn get_immediate_answer(
        &self,
        session: &Session,
        input: GetImmediateAnswerInput,
    ) -> Refusable<GetImmediateAnswerOutput>;

    async fn call_coe_agent(
        &self,
        session: &Session,
        input: CallCoeAgentInput,
    ) -> Refusable<CallCoeAgentOutput>;

    async fn create_ticket(
        &self,
        session: &Session,
        key: Option<Key>,
        input: CreateTicketInput,
    ) -> Refusable<Answer<CreateTicketOutput>>;

    /// Refuses a call of one of the board's tools that a caller inside an attempt
    /// may not make. `access` is what the tool needs.
    async fn permit(
        &self,
        session: &Session,
        tool: &'static str,
        access: Access,
        arguments: &Map<String, Value>,
    ) -> Refusable<()> {
        let _ = (session, tool, access, arguments);
        Ok(())
    }

    /// The newest attempts of all projects, newest first.
    async fn recent_attempts(&self, most: usize) -> Refusable<Vec<RecentAttempt>>;

    /// A refusal of a call as its caller needs it, who may have cut an id short
    /// or taken one kind for another.
    async fn clarify(&self, tool: &'static str, arguments: &Value, refusal: Refusal) -> Refusal {
        let _ = (tool, arguments);
        refusal
    }

    /// The id of the task that a handle such as `TASK-001` names: in `project` if that is
    /// given, else in the caller's project, else where there is only one.
    async fn task_id(
        &self,
        session: &Session,
        handle: &str,
        project: Option<&str>,
    ) -> Refusable<String> {
        let _ = (session, project);
        Err(Refusal::new(Code::TaskNotFound, format!("there is no task {handle}")))
    }

    /// A JSON-RPC method that is not MCP's own.
    async fn custom(
        &self,
        session: &Session,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, CustomError> {
        let _ = (session, params);
        Err(CustomError::method_not_found(method))
    }
}
