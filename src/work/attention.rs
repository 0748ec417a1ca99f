//! What needs a person, and in which column of the board a task is: functions of the facts about a task and
//! its attempts. Pure.
//!
//! A person ends each need by an ordinary call: `answer`, `follow_up`, `finish_attempt`, or `update_task`
//! with `done`, `cancelled`, or `todo`, which puts the task back.
//!
//! The first line that is true decides the column ([`place`]):
//!
//! ```text
//!  the task is closed, and not by its checks          Done
//!  a question, a ticket or an approval is open        NeedsYou
//!  an attempt waits for the disk                      Waiting
//!  an attempt is active, or a finish is open          Working
//!  an attempt is queued                               Waiting
//!  it is reported as done, and its checks run         Working
//!  an attempt needs a person (`needs`)                the column of the most urgent need
//!  else (`of_rest`)                                   by what its newest attempt and the reports left
//! ```

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, TaskId};
use provost_actors::journal::{FinishAction, FinishState, Phase, Priority, State, TaskStatus};
use serde::Deserialize;

use super::ReviewState;
use crate::api::window::{Column, NeedKind, Why};

/// The facts about a task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TaskFacts {
    pub task_id: TaskId,
    pub priority: Priority,
    pub updated_at: Timestamp,
    pub status: TaskStatus,
    pub standing: Option<ReviewState>,
    /// Whether it depends on a task that is on the board and not done.
    pub waits: bool,
    /// Whether a question or a ticket about it is open.
    pub asks: bool,
}

/// The facts about an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "facts are independent of each other")]
pub struct AttemptFacts {
    pub attempt_id: AttemptId,
    pub task_id: TaskId,
    pub updated_at: Timestamp,
    /// When its last turn ended; if none has ended, the time of its last change.
    pub settled_at: Timestamp,
    pub phase: Phase,
    pub state: State,
    /// Whether its process waits for an approval.
    pub asks: bool,
    /// A limit of the executor ended its last turn, and a follow-up must resume it.
    pub quota_asks: bool,
    /// A limit of the executor ended its last turn, and the daemon resumes it.
    pub resumes: bool,
    /// The newest finish after its last turn; a refused one does not count.
    pub finish: Option<FinishAction>,
    pub finish_state: Option<FinishState>,
    /// A trial merge with its target branch had conflicts.
    pub conflicts: bool,
    /// A stop ended its last turn early.
    pub was_stopped: bool,
    #[serde(default)]
    pub waits_for_disk: bool,
    /// Its host is draining: no turn begins there.
    pub host_drains: bool,
}

impl TaskFacts {
    /// Whether a report closed it and its checks passed, and no later call has changed that.
    fn is_verified(&self) -> bool {
        self.status == TaskStatus::Done && self.standing == Some(ReviewState::Verified)
    }

    /// Whether a person, an orchestrator or an unchecked report closed it.
    fn is_closed(&self) -> bool {
        match self.status {
            TaskStatus::Cancelled => true,
            TaskStatus::Done => !self.is_verified(),
            TaskStatus::Todo | TaskStatus::InProgress | TaskStatus::InReview => false,
        }
    }

    /// Whether it has not been begun, or was put back on the board: what earlier attempts left does not count
    /// then.
    fn is_put_back(&self) -> bool {
        self.status == TaskStatus::Todo && self.standing.is_none()
    }
}

impl AttemptFacts {
    fn is_at_rest(&self) -> bool {
        matches!(self.phase, Phase::Settled | Phase::Idle) && !self.is_finishing()
    }

    fn is_finishing(&self) -> bool {
        self.finish_state == Some(FinishState::Open)
    }

    fn has(&self, action: FinishAction) -> bool {
        self.finish == Some(action) && self.finish_state == Some(FinishState::Done)
    }

    fn is_merged(&self) -> bool {
        self.has(FinishAction::Merge) && self.is_at_rest()
    }

    fn is_proposed(&self) -> bool {
        self.has(FinishAction::Push) || self.has(FinishAction::CreatePr)
    }

    /// Whether its last turn left work that was neither merged, proposed nor discarded.
    fn has_work(&self) -> bool {
        self.phase == Phase::Settled
            && self.state == State::Completed
            && !self.quota_asks
            && !self.resumes
            && !self.has(FinishAction::Merge)
            && !self.has(FinishAction::Discard)
            && !self.is_proposed()
    }
}

/// For each attempt of a task, oldest first: what it needs a person for; `None`: nothing. After a merge, only
/// the merged attempt can need something.
pub fn needs(task: &TaskFacts, attempts: &[AttemptFacts]) -> Vec<Option<NeedKind>> {
    if task.is_closed() || task.is_put_back() {
        return vec![None; attempts.len()];
    }
    let merged = attempts.iter().rposition(AttemptFacts::is_merged);
    let newest_work = attempts.iter().rposition(|it| it.is_at_rest() && it.has_work());
    let need = |(at, attempt): (usize, &AttemptFacts)| {
        if merged.is_some() {
            let is_it = merged == Some(at) && !task.is_verified();
            return is_it.then_some(NeedKind::Merged);
        }
        if attempt.is_finishing() && !attempt.phase.is_active() {
            return Some(NeedKind::Finishing);
        }
        if !attempt.is_at_rest() {
            return None;
        }
        if task.is_verified() {
            return (newest_work == Some(at)).then_some(NeedKind::Ready);
        }
        need(task, attempt, at + 1 == attempts.len())
    };
    attempts.iter().enumerate().map(need).collect()
}

/// The same for one attempt at rest, of an open task of which no work is merged.
fn need(task: &TaskFacts, attempt: &AttemptFacts, is_newest: bool) -> Option<NeedKind> {
    match attempt.finish_state {
        Some(FinishState::Conflicts) => return Some(NeedKind::Conflict),
        Some(FinishState::ChecksFailed) => return Some(NeedKind::ChecksFailed),
        _ if attempt.has(FinishAction::Discard) || attempt.is_proposed() => return None,
        _ => {}
    }
    match task.standing {
        Some(ReviewState::Rework) => return is_newest.then_some(NeedKind::ChecksFailed),
        Some(ReviewState::Failed) => return is_newest.then_some(NeedKind::Failed),
        // A blocked worker has a ticket, which asks; a reported task has checks, which run.
        Some(ReviewState::Blocked | ReviewState::Paused | ReviewState::Reported) => return None,
        Some(ReviewState::Verified) | None => {}
    }
    if attempt.phase == Phase::Idle || attempt.resumes {
        return None;
    }
    if attempt.quota_asks {
        return is_newest.then_some(NeedKind::Quota);
    }
    match attempt.state {
        State::Completed if attempt.conflicts => Some(NeedKind::Conflict),
        State::Completed => Some(NeedKind::Review),
        // A task in review shows the work of another attempt, or a person's decision.
        State::Failed => {
            let is_news = is_newest && !attempt.was_stopped && task.status != TaskStatus::InReview;
            is_news.then_some(NeedKind::Failed)
        }
        State::Idle | State::Running => None,
    }
}

/// The column of a task, and why; its attempts are given oldest first.
pub fn place(task: &TaskFacts, attempts: &[AttemptFacts]) -> (Column, Option<Why>) {
    if task.is_closed() {
        return (Column::Done, None);
    }
    let any = |is: fn(&AttemptFacts) -> bool| attempts.iter().any(is);
    if task.asks || any(|it| it.asks) {
        return (Column::NeedsYou, Some(Why::Asks));
    }
    if any(|it| it.waits_for_disk) {
        return (Column::Waiting, Some(Why::Disk));
    }
    if any(|it| it.phase.is_active()) {
        return (Column::Working, None);
    }
    if any(AttemptFacts::is_finishing) {
        return (Column::Working, Some(Why::Finish));
    }
    if any(|it| it.phase == Phase::Queued) {
        let is_held = any(|it| it.phase == Phase::Queued && it.host_drains);
        return (Column::Waiting, Some(if is_held { Why::Host } else { Why::Slot }));
    }
    if task.standing == Some(ReviewState::Reported) {
        return (Column::Working, Some(Why::Checks));
    }
    let needs = needs(task, attempts);
    let most_urgent = needs.into_iter().flatten().map(of_need).min_by_key(|(column, _)| *column);
    if let Some(placed) = most_urgent {
        return placed;
    }
    of_rest(task, attempts)
}

/// The column of a need.
fn of_need(need: NeedKind) -> (Column, Option<Why>) {
    match need {
        NeedKind::Approval | NeedKind::Question => (Column::NeedsYou, Some(Why::Asks)),
        NeedKind::ChecksFailed => (Column::NeedsYou, Some(Why::ChecksFailed)),
        NeedKind::Failed => (Column::NeedsYou, Some(Why::Failed)),
        NeedKind::Quota => (Column::NeedsYou, Some(Why::QuotaAsks)),
        NeedKind::Conflict => (Column::NeedsYou, Some(Why::Conflict)),
        NeedKind::Merged => (Column::NeedsYou, Some(Why::Merged)),
        NeedKind::Finishing => (Column::Working, Some(Why::Finish)),
        NeedKind::Review => (Column::ToReview, None),
        NeedKind::Ready => (Column::ReadyToMerge, None),
    }
}

/// The column of an open task that needs no person and on which nothing works now.
fn of_rest(task: &TaskFacts, attempts: &[AttemptFacts]) -> (Column, Option<Why>) {
    if task.is_verified() {
        return (Column::Done, None);
    }
    let newest = attempts.last().filter(|_| !task.is_put_back());
    if newest.is_some_and(|it| it.resumes) {
        return (Column::Waiting, Some(Why::Quota));
    }
    if newest.is_some_and(AttemptFacts::is_proposed) {
        return (Column::ReadyToMerge, Some(Why::Proposed));
    }
    if task.waits && task.status == TaskStatus::Todo {
        return (Column::Waiting, Some(Why::Dependencies));
    }
    match task.standing {
        Some(ReviewState::Failed) => return (Column::NeedsYou, Some(Why::Failed)),
        Some(ReviewState::Blocked) => return (Column::Waiting, Some(Why::Blocked)),
        Some(ReviewState::Paused) => return (Column::Waiting, Some(Why::Paused)),
        Some(ReviewState::Rework) => return (Column::Waiting, Some(Why::Rework)),
        Some(ReviewState::Reported | ReviewState::Verified) | None => {}
    }
    match (task.status, newest) {
        (_, Some(it)) if it.has(FinishAction::Discard) => (Column::Waiting, Some(Why::Discarded)),
        (TaskStatus::InProgress, Some(_)) => (Column::Waiting, Some(Why::Stopped)),
        // A worker outside of all attempts has it.
        (TaskStatus::InProgress, None) => (Column::Working, None),
        (TaskStatus::InReview, _) => (Column::ToReview, None),
        _ => (Column::Waiting, None),
    }
}

#[cfg(test)]
mod tests;
