//! What needs a person, and where a task stands on the board: functions of what is known of a
//! task and of its attempts. Pure.
//!
//! A person ends each need by an ordinary call: `answer`, `follow_up`, `finish_attempt`, or
//! `update_task` with `done`, `cancelled`, or `todo`, which puts the task back.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, TaskId};
use provost_actors::journal::{FinishAction, FinishState, Phase, Priority, State, TaskStatus};
use serde::Deserialize;

use super::ReviewState;
use crate::api::window::{Column, NeedKind, Why};

/// What is known of a task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TaskFacts {
    pub task_id: TaskId,
    pub priority: Priority,
    pub updated_at: Timestamp,
    pub status: TaskStatus,
    pub standing: Option<ReviewState>,
    /// Whether a task that it depends on is on the board and not done.
    pub waits: bool,
    /// Whether a question or a ticket about it is open.
    pub asks: bool,
}

/// What is known of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "facts are independent of each other")]
pub struct AttemptFacts {
    pub attempt_id: AttemptId,
    pub task_id: TaskId,
    pub updated_at: Timestamp,
    /// When its last turn ended; when it changed last, if none has.
    pub settled_at: Timestamp,
    pub phase: Phase,
    pub state: State,
    /// Whether it waits for an approval.
    pub asks: bool,
    /// A rate limit ended its last turn: a follow-up has to resume it.
    pub quota_asks: bool,
    /// A rate limit ended its last turn, and the daemon resumes it.
    pub resumes: bool,
    /// The newest finish after its last turn that was not refused.
    pub finish: Option<FinishAction>,
    pub finish_state: Option<FinishState>,
    /// Its work does not merge with its target branch.
    pub conflicts: bool,
    /// A stop ended its last turn before it was done.
    pub was_stopped: bool,
    #[serde(default)]
    pub waits_for_disk: bool,
    /// Nothing new begins on its host.
    pub host_drains: bool,
}

impl TaskFacts {
    /// A report closed it, and its checks passed; nobody has said so since.
    fn is_verified(&self) -> bool {
        self.status == TaskStatus::Done && self.standing == Some(ReviewState::Verified)
    }

    /// Somebody closed it.
    fn is_closed(&self) -> bool {
        match self.status {
            TaskStatus::Cancelled => true,
            TaskStatus::Done => !self.is_verified(),
            TaskStatus::Todo | TaskStatus::InProgress | TaskStatus::InReview => false,
        }
    }

    /// Nobody has begun it, or somebody has put it back: what its attempts left is dismissed.
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

    /// Its last turn left work that nothing has become of.
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

/// What each attempt of a task needs a person for, if it does. They come oldest first.
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

/// The same of one that is at rest, of an open task no work of which is merged.
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
        // A ticket asks where a worker is blocked; checks run where it has reported.
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
        // In review is what another attempt has left, or what somebody says.
        State::Failed => {
            let is_news = is_newest && !attempt.was_stopped && task.status != TaskStatus::InReview;
            is_news.then_some(NeedKind::Failed)
        }
        State::Idle | State::Running => None,
    }
}

/// Where a task stands, given its attempts, oldest first.
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

/// Where an open task stands that needs nobody, and that nothing works on.
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
