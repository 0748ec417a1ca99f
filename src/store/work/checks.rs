//! The checks that a project holds its tasks against.

use provost_actors::ids::ReportId;
use provost_actors::refusal::Refusal;

use super::scope::WorkTask;
use crate::store::Writing;

/// Plans the checks of a task that was reported as done; `false`: the project has none.
#[expect(clippy::unused_async, reason = "no project has checks yet")]
pub async fn plan(
    _writing: Writing<'_>,
    _task: &WorkTask,
    _report: ReportId,
) -> Result<bool, Refusal> {
    Ok(false)
}
