//! Between enums of the same words: the journal's and the wire's. Total, so that a new word
//! on either side is an error of the compiler.

use provost_actors::journal;

use crate::api::{approvals, attempts, follow_up, tasks};

macro_rules! same_words {
    ($from:ty => $to:ty: $($word:ident)*) => {
        impl From<$from> for $to {
            fn from(word: $from) -> Self {
                match word {
                    $(<$from>::$word => Self::$word,)*
                }
            }
        }
    };
}

same_words!(journal::State => attempts::AttemptState: Idle Running Failed Completed);
same_words!(journal::Phase => attempts::AttemptPhase:
    Queued Preparing Running Stopping Idle Settled);
same_words!(tasks::Priority => journal::Priority: Low Medium High Critical);
same_words!(journal::ApprovalStatus => approvals::ApprovalStatus:
    Pending Approved Denied Withdrawn);
same_words!(journal::FollowUpAction => follow_up::FollowUpAction: Send Queue Cancel);
same_words!(follow_up::FollowUpAction => journal::FollowUpAction: Send Queue Cancel);
