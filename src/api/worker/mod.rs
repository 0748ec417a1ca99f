//! The worker API: what the agent that does a task asks and is answered, in its own
//! words (camel case, and the field names of its specification).

pub mod completed;
pub mod consult;
pub mod done;
pub mod failure;
pub mod immediate;
pub mod inbox;
pub mod issue;
pub mod late;
pub mod next;
pub mod note;
pub mod observation;
pub mod path;
pub mod question;
pub mod receipt;
pub mod report;
pub mod reported;
pub mod status;
pub mod ticket;
pub mod verification;

/// All that a worker asks of the daemon, and the inbox of what workers ask.
pub trait WorkerTools:
    consult::ConsultTools
    + immediate::ImmediateTools
    + question::AskTools
    + inbox::InboxTools
    + next::NextTools
    + note::NoteTools
    + report::ReportTools
    + ticket::TicketTools
{
}

impl<T> WorkerTools for T where
    T: consult::ConsultTools
        + immediate::ImmediateTools
        + question::AskTools
        + inbox::InboxTools
        + next::NextTools
        + note::NoteTools
        + report::ReportTools
        + ticket::TicketTools
{
}
