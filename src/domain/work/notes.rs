//! `reportObservation` and `reportIssue`.

use crate::api::Refusable;
use crate::api::worker::tools::NoteTools;
use async_trait::async_trait;

use crate::api::worker::issue::{ReportIssueInput, ReportIssueOutput};
use crate::api::worker::observation::{ReportObservationInput, ReportObservationOutput};
use crate::api::{Key, Once, Session};
use crate::domain::Domain;

#[async_trait]
impl NoteTools for Domain {
    async fn report_observation(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportObservationInput,
    ) -> Refusable<Once<ReportObservationOutput>> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        self.store.report_observation(key.as_ref(), &worker, &input).await
    }

    async fn report_issue(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportIssueInput,
    ) -> Refusable<Once<ReportIssueOutput>> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        self.store.report_issue(key.as_ref(), &worker, &input).await
    }
}
