//! What the tools ask for, brought about: changes and starts go to the gateway,
//! reads to the store and the logs. Each method is one call and a conversion;
//! nothing is decided here.

mod approvals;
mod artifacts;
mod attempts;
mod bare;
mod board;
mod clarify;
mod collect;
mod convert;
mod follow_up;
mod import;
mod logs;
mod messages;
mod reach;
mod sessions;
mod short;
mod waits;
mod work;
mod worktrees;

use std::path::PathBuf;
use std::sync::Arc;

use artifacts::Artifacts;
pub use artifacts::Guards;
use async_trait::async_trait;
use provost_actors::checks;
use provost_actors::gateway;
use provost_actors::refusal::{Code, Refusal};
use provost_actors::world::World;
use ractor::{ActorRef, RpcReplyPort};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::mcp::ask::{Access, Answer, Ask, CustomError, Key, RecentAttempt, Session};
use crate::mcp::tools::approvals::{
    ListApprovalsInput, ListApprovalsOutput, RespondApprovalInput, RespondApprovalOutput,
};
use crate::mcp::tools::artifacts::{
    GetAttemptChangesInput, GetAttemptChangesOutput, GetAttemptFileInput, GetAttemptFileOutput,
    GetAttemptPatchInput, GetAttemptPatchOutput,
};
use crate::mcp::tools::attempts::{
    AttemptStatusOutput, GetAttemptStatusInput, ListTaskAttemptsInput, ListTaskAttemptsOutput,
    StartTaskAttemptInput, StartTaskAttemptOutput, StopAttemptInput, StopAttemptOutput,
};
use crate::mcp::tools::context::{GetContextInput, GetContextOutput};
use crate::mcp::tools::executors::{ListExecutorsInput, ListExecutorsOutput};
use crate::mcp::tools::follow_up::{FollowUpInput, FollowUpOutput};
use crate::mcp::tools::logs::{TailAttemptLogsInput, TailAttemptLogsOutput};
use crate::mcp::tools::projects::{
    AddRepoInput, AddRepoOutput, CreateProjectInput, CreateProjectOutput, ListProjectsInput,
    ListProjectsOutput, ListReposInput, ListReposOutput,
};
use crate::mcp::tools::sessions::{TailSessionMessagesInput, TailSessionMessagesOutput};
use crate::mcp::tools::tasks::{
    CreateTaskInput, CreateTaskOutput, DeleteTaskInput, DeleteTaskOutput, GetTaskInput,
    GetTaskOutput, ListTasksInput, ListTasksOutput, TaskOutput, UpdateTaskInput,
};
use crate::mcp::tools::waits::{WaitForAttemptsInput, WaitForAttemptsOutput};
use crate::store::Store;
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

/// Who answers what the plans don't say, and how much a question may hold.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Empty: nobody but the orchestrator and people.
    pub executor: String,
    /// Empty: one that only reads, if the executor has any.
    pub variant: String,
    /// How long a call waits for it.
    pub timeout_secs: u64,
    /// How long after that a late answer is taken; then the executor is stopped.
    pub grace_secs: u64,
    /// Question and context may be 80 % of it.
    pub token_limit: u64,
}

impl Answers {
    fn is_configured(&self) -> bool {
        !self.executor.is_empty()
    }
}

/// How many questions are looked up in plans at once: fewer than there are connections to
/// read by.
const SEARCHES: usize = 2;

/// Everything behind the tools.
pub struct Domain {
    store: Store,
    gateway: ActorRef<gateway::GatewayMessage>,
    checks: ActorRef<checks::ChecksMessage>,
    world: Arc<World>,
    artifacts: Artifacts,
    answers: Answers,
    /// Where the home's data lies, to be told.
    data_dir: PathBuf,
    /// Questions that are looked up at once.
    searches: Semaphore,
    /// Ends the daemon.
    ending: CancellationToken,
}

/// The actors that it asks.
pub struct Owners {
    pub gateway: ActorRef<gateway::GatewayMessage>,
    pub checks: ActorRef<checks::ChecksMessage>,
}

impl Domain {
    pub fn new(
        store: Store,
        owners: Owners,
        world: Arc<World>,
        guards: Guards,
        answers: Answers,
        data_dir: PathBuf,
        ending: CancellationToken,
    ) -> Self {
        let Owners { gateway, checks } = owners;
        let artifacts = Artifacts::new(guards);
        let searches = Semaphore::new(SEARCHES);
        Self { store, gateway, checks, world, artifacts, answers, data_dir, searches, ending }
    }

    /// Asks the gateway. The port is answered by whoever owns what is asked for.
    async fn gateway<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<Result<T, Refusal>>) -> gateway::GatewayMessage,
    ) -> Result<T, Refusal> {
        ractor::call!(self.gateway, message)
            .unwrap_or_else(|_| Err(Refusal::new(Code::ShuttingDown, "the daemon is ending")))
    }
}

/// An answer in the tools' own terms.
fn answered<T, U>(answer: Answer<T>, convert: impl FnOnce(T) -> U) -> Answer<U> {
    Answer { value: convert(answer.value), deduplicated: answer.deduplicated }
}

#[async_trait]
impl Ask for Domain {
    async fn list_projects(
        &self,
        _: &Session,
        input: ListProjectsInput,
    ) -> Result<ListProjectsOutput, Refusal> {
        self.projects(input).await
    }

    async fn list_repos(
        &self,
        _: &Session,
        input: ListReposInput,
    ) -> Result<ListReposOutput, Refusal> {
        self.repos(input).await
    }

    async fn create_project(
        &self,
        _: &Session,
        key: Option<Key>,
        input: CreateProjectInput,
    ) -> Result<Answer<CreateProjectOutput>, Refusal> {
        self.new_project(key, input).await
    }

    async fn add_repo(
        &self,
        _: &Session,
        key: Option<Key>,
        input: AddRepoInput,
    ) -> Result<Answer<AddRepoOutput>, Refusal> {
        self.new_repo(key, input).await
    }

    async fn list_executors(
        &self,
        _: &Session,
        _: ListExecutorsInput,
    ) -> Result<ListExecutorsOutput, Refusal> {
        self.executors().await
    }

    async fn list_tasks(
        &self,
        _: &Session,
        input: ListTasksInput,
    ) -> Result<ListTasksOutput, Refusal> {
        self.tasks(input).await
    }

    async fn get_task(&self, _: &Session, input: GetTaskInput) -> Result<GetTaskOutput, Refusal> {
        self.task(input.task_id).await
    }

    async fn create_task(
        &self,
        _: &Session,
        key: Option<Key>,
        input: CreateTaskInput,
    ) -> Result<Answer<CreateTaskOutput>, Refusal> {
        self.new_task(key, input).await
    }

    async fn update_task(
        &self,
        _: &Session,
        key: Option<Key>,
        input: UpdateTaskInput,
    ) -> Result<Answer<TaskOutput>, Refusal> {
        self.changed_task(key, input).await
    }

    async fn delete_task(
        &self,
        _: &Session,
        key: Option<Key>,
        input: DeleteTaskInput,
    ) -> Result<Answer<DeleteTaskOutput>, Refusal> {
        self.deleted_task(key, input).await
    }

    async fn start_task_attempt(
        &self,
        session: &Session,
        key: Option<Key>,
        input: StartTaskAttemptInput,
    ) -> Result<Answer<StartTaskAttemptOutput>, Refusal> {
        self.start(session, key, input).await
    }

    async fn list_task_attempts(
        &self,
        _: &Session,
        input: ListTaskAttemptsInput,
    ) -> Result<ListTaskAttemptsOutput, Refusal> {
        self.attempts(input).await
    }

    async fn get_attempt_status(
        &self,
        _: &Session,
        input: GetAttemptStatusInput,
    ) -> Result<AttemptStatusOutput, Refusal> {
        self.statuses(input).await
    }

    async fn wait_for_attempts(
        &self,
        _: &Session,
        input: WaitForAttemptsInput,
    ) -> Result<WaitForAttemptsOutput, Refusal> {
        self.wait(input).await
    }

    async fn tail_attempt_logs(
        &self,
        _: &Session,
        input: TailAttemptLogsInput,
    ) -> Result<TailAttemptLogsOutput, Refusal> {
        self.tail(input).await
    }

    async fn follow_up(
        &self,
        _: &Session,
        key: Option<Key>,
        input: FollowUpInput,
    ) -> Result<Answer<FollowUpOutput>, Refusal> {
        self.continued(key, input).await
    }

    async fn tail_session_messages(
        &self,
        _: &Session,
        input: TailSessionMessagesInput,
    ) -> Result<TailSessionMessagesOutput, Refusal> {
        self.messages(input).await
    }

    async fn get_attempt_changes(
        &self,
        _: &Session,
        input: GetAttemptChangesInput,
    ) -> Result<GetAttemptChangesOutput, Refusal> {
        self.changes(input).await
    }

    async fn get_attempt_file(
        &self,
        _: &Session,
        input: GetAttemptFileInput,
    ) -> Result<GetAttemptFileOutput, Refusal> {
        self.file(input).await
    }

    async fn get_attempt_patch(
        &self,
        _: &Session,
        input: GetAttemptPatchInput,
    ) -> Result<GetAttemptPatchOutput, Refusal> {
        self.patch(input).await
    }

    async fn stop_attempt(
        &self,
        _: &Session,
        key: Option<Key>,
        input: StopAttemptInput,
    ) -> Result<Answer<StopAttemptOutput>, Refusal> {
        self.stop(key, input).await
    }

    async fn list_approvals(
        &self,
        _: &Session,
        input: ListApprovalsInput,
    ) -> Result<ListApprovalsOutput, Refusal> {
        self.approvals(input).await
    }

    async fn respond_approval(
        &self,
        _: &Session,
        key: Option<Key>,
        input: RespondApprovalInput,
    ) -> Result<Answer<RespondApprovalOutput>, Refusal> {
        self.responded(key, input).await
    }

    async fn get_context(
        &self,
        session: &Session,
        _: GetContextInput,
    ) -> Result<GetContextOutput, Refusal> {
        self.context(session).await
    }

    async fn report_task_done(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskDoneInput,
    ) -> Result<Answer<ReportTaskDoneOutput>, Refusal> {
        self.task_done(session, key, input).await
    }

    async fn report_test_failure(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTestFailureInput,
    ) -> Result<Answer<ReportTestFailureOutput>, Refusal> {
        self.test_failure(session, key, input).await
    }

    async fn report_verification_result(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportVerificationResultInput,
    ) -> Result<Answer<ReportVerificationResultOutput>, Refusal> {
        self.verification_result(session, key, input).await
    }

    async fn report_task_completed(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskCompletedInput,
    ) -> Result<Answer<ReportTaskCompletedOutput>, Refusal> {
        self.task_completed(session, key, input).await
    }

    async fn report_task_status(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskStatusInput,
    ) -> Result<Answer<ReportTaskStatusOutput>, Refusal> {
        self.task_status(session, key, input).await
    }

    async fn get_next_task(
        &self,
        session: &Session,
        key: Option<Key>,
        input: GetNextTaskInput,
    ) -> Result<Answer<GetNextTaskOutput>, Refusal> {
        self.next(session, key, input).await
    }

    async fn report_observation(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportObservationInput,
    ) -> Result<Answer<ReportObservationOutput>, Refusal> {
        self.observation(session, key, input).await
    }

    async fn report_issue(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportIssueInput,
    ) -> Result<Answer<ReportIssueOutput>, Refusal> {
        self.issue(session, key, input).await
    }

    async fn list_questions(
        &self,
        _: &Session,
        input: ListQuestionsInput,
    ) -> Result<ListQuestionsOutput, Refusal> {
        self.questions(input).await
    }

    async fn answer_question(
        &self,
        session: &Session,
        key: Option<Key>,
        input: AnswerQuestionInput,
    ) -> Result<Answer<AnswerQuestionOutput>, Refusal> {
        self.answered_question(session, key, input).await
    }

    async fn ask_question(
        &self,
        session: &Session,
        input: AskQuestionInput,
    ) -> Result<AskQuestionOutput, Refusal> {
        self.asked(session, input).await
    }

    async fn get_immediate_answer(
        &self,
        session: &Session,
        input: GetImmediateAnswerInput,
    ) -> Result<GetImmediateAnswerOutput, Refusal> {
        self.answered_now(session, input).await
    }

    async fn call_coe_agent(
        &self,
        session: &Session,
        input: CallCoeAgentInput,
    ) -> Result<CallCoeAgentOutput, Refusal> {
        self.consulted(session, input).await
    }

    async fn create_ticket(
        &self,
        session: &Session,
        key: Option<Key>,
        input: CreateTicketInput,
    ) -> Result<Answer<CreateTicketOutput>, Refusal> {
        self.new_ticket(session, key, input).await
    }

    async fn permit(
        &self,
        session: &Session,
        tool: &'static str,
        access: Access,
        arguments: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        self.within_reach(session, tool, access, arguments).await
    }

    async fn recent_attempts(&self, most: usize) -> Result<Vec<RecentAttempt>, Refusal> {
        self.recent(most).await
    }

    async fn clarify(&self, tool: &'static str, arguments: &Value, refusal: Refusal) -> Refusal {
        self.name_the_id(tool, arguments, refusal).await
    }

    async fn task_id(
        &self,
        session: &Session,
        handle: &str,
        project: Option<&str>,
    ) -> Result<String, Refusal> {
        self.task_of_handle(session, handle, project).await.map(|task| task.to_string())
    }

    async fn custom(
        &self,
        session: &Session,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, CustomError> {
        self.bare(session, method, params).await
    }
}
