//! What a tool is besides its fields: name, audience, effect and description. Pure.

use std::borrow::Cow;

use rmcp::model::ToolAnnotations;

use crate::api::field_rules::FieldRule;
use crate::api::inside::Inside;
use crate::api::placed::Placed;
use crate::api::{Access, Caller, Role};

/// Who may use a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Those who run the board: orchestrators and persons. How far it reaches for one inside an attempt.
    Board(Inside),
    /// Agents that take work from the board, in the worker API's own words.
    Worker,
    /// Callers inside an attempt.
    Attempts,
}

/// What a tool does to the world, as MCP's annotations say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing.
    Reads,
    /// Answers, and may leave something behind: a question passed on, a task taken.
    Asks,
    /// Adds something; two calls add two.
    Adds,
    /// Sets an agent to work, which may reach anything.
    Starts,
    /// Sets an agent to work, or drops what was queued.
    Steers,
    /// Overwrites or ends something; a second call changes nothing more.
    Replaces,
    /// The same, also on other machines.
    Publishes,
    /// Deletes something for good.
    Removes,
}

/// When a client's model gets to see the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// At once.
    Always,
    /// When it searches, with clients that defer tools.
    Search,
}

/// How a call is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    Read,
    /// Reads, and sleeps until there is news.
    Wait,
    /// Reads, and may answer with megabytes.
    Bulk,
    /// Has an effect, and also takes `request_id`.
    Change,
}

/// A tool's line in the table.
pub struct Row {
    pub kind: RunKind,
    pub name: &'static str,
    pub title: &'static str,
    pub audience: Audience,
    pub effect: Effect,
    pub load: Load,
    /// What a person types for it, as hints name it; empty if hints do not.
    pub verb: &'static str,
    /// Where a call is carried out.
    pub placed: Placed,
    /// What guides a caller, a line a heading. Those that the schema says are added to it.
    pub description: Cow<'static, str>,
    pub rules: &'static [FieldRule],
}

impl Row {
    /// What a caller must be allowed to do.
    pub fn access(&self) -> Access {
        match self.effect {
            Effect::Reads | Effect::Asks => Access::Read,
            Effect::Adds
            | Effect::Starts
            | Effect::Steers
            | Effect::Replaces
            | Effect::Publishes => Access::Write,
            Effect::Removes => Access::Admin,
        }
    }

    /// Whether a connection may see and call the tool.
    pub fn is_for(&self, caller: &Caller) -> bool {
        let is_there = self.audience != Audience::Attempts || caller.attempt.is_some();
        is_there && self.is_for_role(caller.role)
    }

    /// Whether a role may ever see the tool.
    pub fn is_for_role(&self, role: Role) -> bool {
        match self.audience {
            Audience::Board(_) => role != Role::Worker,
            Audience::Worker => role != Role::Orchestrator,
            Audience::Attempts => true,
        }
    }

    /// Whether it is one of the worker API's, which are also there as bare methods.
    pub fn is_workers(&self) -> bool {
        self.audience == Audience::Worker
    }

    /// Whether a call may end or overwrite something.
    pub fn is_destructive(&self) -> bool {
        use Effect::{Publishes, Removes, Replaces, Steers};
        matches!(self.effect, Replaces | Publishes | Removes | Steers)
    }

    pub fn annotations(&self) -> ToolAnnotations {
        let adds = matches!(self.effect, Effect::Adds | Effect::Asks);
        let starts = matches!(self.effect, Effect::Starts | Effect::Steers);
        ToolAnnotations::with_title(self.title)
            .read_only(self.effect == Effect::Reads)
            .destructive(self.is_destructive())
            .idempotent(!adds && !starts)
            .open_world(starts || self.effect == Effect::Publishes)
    }
}
