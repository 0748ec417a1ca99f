//! The ids of everything that Provost names: UUIDv7 newtypes, so that an
//! attempt id can't be passed where a session id goes. Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id. UUIDv7 (RFC 9562): sorts by the time of its making.
            #[must_use]
            #[expect(clippy::new_without_default, reason = "every call gives another value")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The last 8 characters: what people are shown. The start of a
            /// UUIDv7 is a clock and tells neighbours apart badly.
            #[must_use]
            pub fn short(&self) -> String {
                let text = self.0.simple().to_string();
                text[text.len() - 8..].to_owned()
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
    };
}

id!(
    /// A project: a board of tasks over one or more repositories.
    ProjectId
);
id!(
    /// A repository registered with a project.
    RepoId
);
id!(
    /// A task on a project's board.
    TaskId
);
id!(
    /// One run of a task in its own worktrees and branch.
    AttemptId
);
id!(
    /// One conversation with one executor.
    SessionId
);
id!(
    /// One OS process run for a session (`execution_process_id` outside).
    ProcessId
);
id!(
    /// A follow-up that waits in a session's queue.
    QueueId
);
