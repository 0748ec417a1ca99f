//! The actors' [`Journal`] over the store: each method is one of its resources'.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{ApprovalId, AttemptId, CheckRunId, ProcessId, ProjectId, TaskId};
use provost_actors::journal::{
    Answer, Approval, Attempt, AttemptStarted, Begun, Change, CheckRun, CheckVerdict, Decision,
    FollowedUp, Intent, Journal, Key, NewRepo, NewTask, Past, PlannedTask, ProjectCreated, Receipt,
    RepoAdded, StartContext, TaskChange, TaskMade, TaskView, Turnover,
};
use provost_actors::refusal::Refusal;
use serde_json::Value;

use super::Store;

#[async_trait]
impl Journal for Store {
    async fn create_project(
        &self,
        key: Option<&Key>,
        name: &str,
        repos: &[NewRepo],
    ) -> Result<Answer<ProjectCreated>, Refusal> {
        self.insert_project(key, name, repos).await
    }

    async fn add_repo(
        &self,
        key: Option<&Key>,
        project: ProjectId,
        repo: &NewRepo,
    ) -> Result<Answer<RepoAdded>, Refusal> {
        self.insert_repo(key, project, repo).await
    }

    async fn create_task(
        &self,
        key: Option<&Key>,
        task: &NewTask,
    ) -> Result<Answer<TaskId>, Refusal> {
        self.insert_task(key, task).await
    }

    async fn update_task(
        &self,
        key: Option<&Key>,
        task: TaskId,
        change: &TaskChange,
    ) -> Result<Answer<TaskView>, Refusal> {
        self.change_task(key, task, change).await
    }

    async fn import_tasks(
        &self,
        key: Option<&Key>,
        tasks: &[PlannedTask],
    ) -> Result<Answer<Vec<TaskMade>>, Refusal> {
        self.insert_planned(key, tasks).await
    }

    async fn delete_task(
        &self,
        key: Option<&Key>,
        task: TaskId,
    ) -> Result<Answer<TaskId>, Refusal> {
        self.remove_task(key, task).await
    }

    async fn start_context(&self, task: TaskId) -> Result<StartContext, Refusal> {
        self.load_start_context(task).await
    }

    async fn recall(&self, key: &Key) -> Result<Option<Value>, Refusal> {
        self.recall_answer(key).await
    }

    async fn record_start(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        answer: &AttemptStarted,
    ) -> Result<Answer<AttemptStarted>, Refusal> {
        self.insert_attempt(key, attempt, answer).await
    }

    async fn attempt(&self, attempt: AttemptId) -> Result<Option<Attempt>, Refusal> {
        self.load_attempt(attempt).await
    }

    async fn record_follow_up(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        turnover: &Turnover,
        answer: &FollowedUp,
    ) -> Result<Answer<FollowedUp>, Refusal> {
        self.insert_follow_up(key, attempt, turnover, answer).await
    }

    async fn past(&self, attempt: AttemptId, before: ProcessId) -> Result<Vec<Past>, Refusal> {
        self.load_past(attempt, before).await
    }

    async fn unsettled(&self) -> Result<Vec<Attempt>, Refusal> {
        self.load_unsettled().await
    }

    fn waits_for_disk(&self, attempt: AttemptId, reason: Option<&str>) {
        self.changes.wait_for_disk(attempt, reason);
    }

    async fn advance(
        &self,
        attempt: AttemptId,
        epoch: u64,
        process: ProcessId,
        change: &Change,
    ) -> Result<(), Refusal> {
        self.change_attempt(attempt, epoch, process, change).await
    }

    async fn ask(&self, approval: &Approval) -> Result<Approval, Refusal> {
        self.insert_approval(approval).await
    }

    async fn approval(&self, approval: ApprovalId) -> Result<Option<Approval>, Refusal> {
        self.load_approval(approval).await
    }

    async fn approvals_of(&self, process: ProcessId) -> Result<Vec<Approval>, Refusal> {
        self.load_approvals_of(process).await
    }

    async fn decide(
        &self,
        key: Option<&Key>,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<Answer<Approval>, Refusal> {
        self.decide_approval(key, approval, decision).await
    }

    async fn resumable(&self) -> Result<Vec<(AttemptId, ProcessId, Timestamp)>, Refusal> {
        self.load_resumable().await
    }

    async fn begin(&self, key: &Key, intent: &Intent) -> Result<Begun, Refusal> {
        self.begin_request(key, intent).await
    }

    async fn open_intents(&self) -> Result<Vec<(Key, Intent)>, Refusal> {
        self.load_open_intents().await
    }

    async fn complete(&self, key: &Key, answer: Value) -> Result<(), Refusal> {
        self.complete_request(key, &answer.to_string()).await
    }

    async fn abandon(&self, key: &Key) -> Result<(), Refusal> {
        self.abandon_request(key).await
    }

    async fn open_checks(&self) -> Result<Vec<CheckRun>, Refusal> {
        self.load_open_checks().await
    }

    async fn keep_receipt(&self, run: CheckRunId, receipt: &Receipt) -> Result<(), Refusal> {
        self.insert_receipt(run, receipt).await
    }

    async fn conclude_checks(&self, run: CheckRunId) -> Result<CheckVerdict, Refusal> {
        self.conclude_run(run).await
    }

    async fn close_checks(&self, run: CheckRunId) -> Result<(), Refusal> {
        self.close_run(run).await
    }
}
