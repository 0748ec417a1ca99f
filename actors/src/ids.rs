//! The ids of everything that Provost names: UUIDv7 newtypes. Later ids are larger, even if
//! the clock goes back.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use uuid::{ContextV7, Timestamp, Uuid};

use crate::blocking::lock;

/// Continues from the largest time seen, so that ids keep growing while the clock is set back (RFC 9562,
/// section 6.2).
static CLOCK: Mutex<ContextV7> = Mutex::new(ContextV7::new());

fn make(timestamp: impl FnOnce(&ContextV7) -> Timestamp) -> Uuid {
    let clock = lock(&CLOCK);
    Uuid::new_v7(timestamp(&clock))
}

/// Makes later ids larger than this one: the clock may have been set back since it was made. The store
/// calls it at its opening with its largest id; a text that is no id changes nothing.
pub fn go_on_after(latest: &str) {
    let latest = Uuid::parse_str(latest).ok().and_then(|latest| latest.get_timestamp());
    if let Some((seconds, nanos)) = latest.map(|latest| latest.to_unix()) {
        // Within a millisecond a counter orders ids, and begins at random below its half. So take the next
        // millisecond: there any id is larger.
        let next = std::time::Duration::new(seconds, nanos) + std::time::Duration::from_millis(1);
        make(|clock| Timestamp::from_unix(clock, next.as_secs(), next.subsec_nanos()));
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id. UUIDv7 (RFC 9562): sorts by the order of their making.
            #[must_use]
            #[expect(clippy::new_without_default, reason = "every call gives another value")]
            pub fn new() -> Self {
                Self(make(|clock| Timestamp::now(clock)))
            }

            /// The last 8 characters, for people. The first ones are the time, and equal for ids of one
            /// moment.
            pub fn short(&self) -> String {
                self.0.simple().to_string().split_off(24)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    )*};
}

ids! {
    /// A project: a board of tasks over one or more repositories.
    ProjectId,
    /// A repository registered with a project.
    RepoId,
    /// A task on a project's board.
    TaskId,
    /// One run of a task in its own worktrees and branch.
    AttemptId,
    /// One conversation with one executor.
    SessionId,
    /// One OS process run for a session (`execution_process_id` outside).
    ProcessId,
    /// A follow-up that waits in a session's queue.
    QueueId,
    /// A permission that an executor asked for.
    ApprovalId,
    /// A ticket for a person.
    TicketId,
    /// An observation or issue that a worker reported.
    NoteId,
    /// A worker's report on its work.
    ReportId,
    /// A question that the plan does not answer.
    QuestionId,
    /// A test that failed, as a worker reported it.
    FailureId,
    /// The checks on one report of completion, or on the result of a finish.
    CheckRunId,
    /// What becomes of an attempt's work, as one call asked for.
    FinishId,
    /// A comment on lines that an attempt changed.
    CommentId,
    /// Comments that one follow-up carries.
    ReviewId,
}

/// For shims, each run of checks is an attempt of its own.
impl From<CheckRunId> for AttemptId {
    fn from(run: CheckRunId) -> Self {
        Self(run.0)
    }
}

/// A task as callers name it: by its id, or by its handle in its project (`TASK-001`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TaskRef {
    Id(TaskId),
    /// In capitals, whatever the caller wrote.
    Handle(String),
}

impl TryFrom<String> for TaskRef {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        if let Ok(id) = name.parse() {
            return Ok(Self::Id(id));
        }
        let is_letters = |text: &str| text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-');
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty();
        match name.rsplit_once('-') {
            Some((kind, number)) if is_letters(kind) && !kind.is_empty() && is_number(number) => {
                Ok(Self::Handle(name.to_ascii_uppercase()))
            }
            _ => Err("neither a UUID nor a handle such as TASK-001"),
        }
    }
}

impl From<TaskRef> for String {
    fn from(name: TaskRef) -> Self {
        name.to_string()
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Handle(handle) => f.write_str(handle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_on_behind_one_of_a_clock_that_was_ahead() {
        let before = AttemptId::new();
        let (seconds, nanos) = before.0.get_timestamp().unwrap().to_unix();
        let ahead = Timestamp::from_unix_time(seconds + 60, nanos, u128::MAX >> 54, 74);
        let ahead = Uuid::new_v7(ahead);
        go_on_after("nonsense");
        go_on_after(&ahead.to_string());
        let ids: Vec<AttemptId> = (0..1000).map(|_| AttemptId::new()).collect();
        assert!(ids[0].0 > ahead && ids.is_sorted());
        go_on_after(&before.to_string());
        assert!(AttemptId::new() > ids[999]);
    }

    #[test]
    fn a_task_goes_by_its_id_or_its_handle() {
        let named = |name: &str| TaskRef::try_from(name.to_owned());
        let id = TaskId::new();
        assert_eq!(named(&id.to_string().to_uppercase()), Ok(TaskRef::Id(id)));
        assert_eq!(named("task-001"), Ok(TaskRef::Handle("TASK-001".to_owned())));
        assert_eq!(named("TASK-VERIFY-12"), Ok(TaskRef::Handle("TASK-VERIFY-12".to_owned())));
        for wrong in ["", "TASK", "TASK-", "-1", "TASK-1x", "TÄSK-1", "1-1", "0192f0c1-2345"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }
}
