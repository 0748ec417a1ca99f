//! Reports: what their answers share, and the trait behind their tools.

use super::completed::{ReportTaskCompletedInput, ReportTaskCompletedOutput};
use super::done::{ReportTaskDoneInput, ReportTaskDoneOutput};
use super::failure::{ReportTestFailureInput, ReportTestFailureOutput};
use super::status::{ReportTaskStatusInput, ReportTaskStatusOutput};
use super::verification::{ReportVerificationResultInput, ReportVerificationResultOutput};
use crate::api::{Key, Once, Refusable, Session};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a project is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dashboard {
    /// Tasks that are done; verifications and investigations don't count.
    pub completed_count: u32,
    /// All such tasks but the cancelled ones.
    pub total_count: u32,
    /// The one of the other, to one decimal.
    pub percent_complete: f64,
    /// Tasks of any kind that something stands in the way of.
    pub blocked_count: u32,
    /// Verifications that are not done.
    pub verification_pending_count: u32,
}

/// A task that a report put on the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskMade {
    /// What it is called: TASK-001.
    pub task_id: String,
    /// What is to be done.
    pub title: String,
}

/// What the tools that report ask of the daemon.
#[async_trait]
pub trait ReportTools: Send + Sync {
    async fn report_task_done(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskDoneInput,
    ) -> Refusable<Once<ReportTaskDoneOutput>>;

    async fn report_task_completed(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskCompletedInput,
    ) -> Refusable<Once<ReportTaskCompletedOutput>>;

    async fn report_task_status(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskStatusInput,
    ) -> Refusable<Once<ReportTaskStatusOutput>>;

    async fn report_test_failure(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTestFailureInput,
    ) -> Refusable<Once<ReportTestFailureOutput>>;

    async fn report_verification_result(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportVerificationResultInput,
    ) -> Refusable<Once<ReportVerificationResultOutput>>;
}
