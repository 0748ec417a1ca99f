//! `reportObservation` and `reportIssue`.

use provost_actors::refusal::Refusal;

use crate::domain::Domain;
use crate::mcp::ask::{Answer, Key, Session};
use crate::work::issue::{ReportIssueInput, ReportIssueOutput};
use crate::work::observation::{ReportObservationInput, ReportObservationOutput};

impl Domain {
    pub(in crate::domain) async fn observation(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportObservationInput,
    ) -> Result<Answer<ReportObservationOutput>, Refusal> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        self.store.report_observation(key.as_ref(), &worker, &input).await
    }

    pub(in crate::domain) async fn issue(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportIssueInput,
    ) -> Result<Answer<ReportIssueOutput>, Refusal> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        self.store.report_issue(key.as_ref(), &worker, &input).await
    }
}
