//! Observations and issues: what their answers share, and the trait behind their tools.

use super::issue::{ReportIssueInput, ReportIssueOutput};
use super::observation::{ReportObservationInput, ReportObservationOutput};
use crate::api::{Key, Once, Refusable, Session};
use async_trait::async_trait;
use provost_actors::journal::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A task that was made of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewTaskCreated {
    /// What it is called: TASK-001.
    pub task_id: String,
    /// What is to be done.
    pub title: String,
    /// critical, high, medium or low.
    #[schemars(with = "String")]
    pub priority: Priority,
    /// true.
    pub added_to_queue: bool,
    /// Its place among the ready tasks.
    pub position: String,
}

/// What the tools about observations and issues ask of the daemon.
#[async_trait]
pub trait NoteTools: Send + Sync {
    async fn report_observation(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportObservationInput,
    ) -> Refusable<Once<ReportObservationOutput>>;

    async fn report_issue(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportIssueInput,
    ) -> Refusable<Once<ReportIssueOutput>>;
}
