//! `reportTestFailure`: the alert about a failed test, and the description of its investigation.

use crate::api::worker::failure::{
    FailureAlert, PreviousStatus, ReportTestFailureInput, RootCause,
};
use provost_actors::event::Timestamp;
use serde_json::Value;

impl ReportTestFailureInput {
    /// The alert on the dashboard, for a test that passed before, or one that needs an investigation; `None`:
    /// for all others. It asks for a person if the failure is back after an investigation, or has none.
    pub fn alert(
        &self,
        task: &str,
        is_back: bool,
        has_investigation: bool,
        timestamp: Timestamp,
    ) -> Option<FailureAlert> {
        let is_news =
            self.needs_investigation || self.previous_status == PreviousStatus::PassingBefore;
        is_news.then(|| FailureAlert {
            kind: "critical".to_owned(),
            message: format!("{} fails in {task}.", &*self.test_name),
            timestamp,
            requires_human_attention: is_back || !has_investigation,
        })
    }

    /// The description of the investigation, in Markdown.
    pub fn details(&self, handle: &str, task: &str, cause: &RootCause) -> String {
        let failure = &self.failure_details;
        let mut parts = vec![format!(
            "{handle}: {} in {} fails in {task}.\n\n```\n{}\n```",
            &*self.test_name, &*self.test_file, &*failure.error
        )];
        let values = [
            ("Failed assertion", failure.failed_assertion.as_deref().map(str::to_owned)),
            ("Expected", failure.expected_value.as_ref().map(Value::to_string)),
            ("Actual", failure.actual_value.as_ref().map(Value::to_string)),
            ("Failing value", failure.failing_color.as_ref().map(Value::to_string)),
            ("Context", self.context.as_deref().map(str::to_owned)),
            ("Action needed", Some(self.action_needed.to_string())),
            ("Likeliest cause", Some(cause.likeliest_cause.clone())),
        ];
        let given = values.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let given = given.filter(|(_, value)| !value.is_empty());
        parts.extend(given.map(|(name, value)| format!("{name}: {value}")));
        let steps = cause.suggested_investigation.iter();
        parts.push(steps.map(|step| format!("- {step}")).collect::<Vec<_>>().join("\n"));
        parts.join("\n\n")
    }
}
