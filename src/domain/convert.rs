//! Between the domain's words and the wire's: total, without a wildcard, so that
//! a new word on either side is an error of the compiler.

use provost_actors::journal::{Phase, Priority, State, TaskStatus};
use provost_actors::limits::{Applied, Hold};

use crate::api::attempts::{AttemptLimit, AttemptPhase, AttemptState};
use crate::api::tasks as wire;

pub fn state(state: State) -> AttemptState {
    match state {
        State::Idle => AttemptState::Idle,
        State::Running => AttemptState::Running,
        State::Failed => AttemptState::Failed,
        State::Completed => AttemptState::Completed,
    }
}

pub fn phase(phase: Phase) -> AttemptPhase {
    match phase {
        Phase::Queued => AttemptPhase::Queued,
        Phase::Preparing => AttemptPhase::Preparing,
        Phase::Running => AttemptPhase::Running,
        Phase::Stopping => AttemptPhase::Stopping,
        Phase::Idle => AttemptPhase::Idle,
        Phase::Settled => AttemptPhase::Settled,
    }
}

pub fn limit(applied: Applied) -> AttemptLimit {
    let Applied { limit, value, hold, reason } = applied;
    let hold = match hold {
        Hold::Kernel => "kernel",
        Hold::Watched => "watched",
        Hold::No => "no",
    };
    AttemptLimit { limit, value, hold: hold.to_owned(), reason }
}

pub fn priority(priority: Priority) -> wire::Priority {
    match priority {
        Priority::Low => wire::Priority::Low,
        Priority::Medium => wire::Priority::Medium,
        Priority::High => wire::Priority::High,
        Priority::Critical => wire::Priority::Critical,
    }
}

pub fn priority_in(priority: wire::Priority) -> Priority {
    match priority {
        wire::Priority::Low => Priority::Low,
        wire::Priority::Medium => Priority::Medium,
        wire::Priority::High => Priority::High,
        wire::Priority::Critical => Priority::Critical,
    }
}

pub fn task_status(status: TaskStatus) -> wire::TaskStatus {
    match status {
        TaskStatus::Todo => wire::TaskStatus::Todo,
        TaskStatus::InProgress => wire::TaskStatus::InProgress,
        TaskStatus::InReview => wire::TaskStatus::InReview,
        TaskStatus::Done => wire::TaskStatus::Done,
        TaskStatus::Cancelled => wire::TaskStatus::Cancelled,
    }
}

pub fn task_status_in(status: wire::TaskStatus) -> TaskStatus {
    match status {
        wire::TaskStatus::Todo => TaskStatus::Todo,
        wire::TaskStatus::InProgress => TaskStatus::InProgress,
        wire::TaskStatus::InReview => TaskStatus::InReview,
        wire::TaskStatus::Done => TaskStatus::Done,
        wire::TaskStatus::Cancelled => TaskStatus::Cancelled,
    }
}
