//! What a tool is apart from its fields: name, audience, effect and description. Pure.

use std::borrow::Cow;

use rmcp::model::ToolAnnotations;

use crate::api::field_rules::FieldRule;
use crate::api::inside::Inside;
use crate::api::placed::Placed;
use crate::api::{Access, Caller, Role};

/// Which callers a tool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Those who run the board: orchestrators and persons. The value says how far the tool reaches for an
    /// orchestrator that runs inside an attempt.
    Board(Inside),
    /// Agents that take work from the board, in the words of the worker API.
    Worker,
    /// Callers inside an attempt.
    Attempts,
}

/// What a tool does. MCP's annotations and the access that a call needs follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing.
    Reads,
    /// Answers, and may have a small effect: a question is passed on, a task is claimed.
    Asks,
    /// Adds something; two calls add two things.
    Adds,
    /// Starts an agent, which may reach anything.
    Starts,
    /// Starts an agent's next turn, or drops queued prompts.
    Steers,
    /// Overwrites or ends something; a second call changes nothing more.
    Replaces,
    /// Like `Replaces`, also on other machines: remotes and forges.
    Publishes,
    /// Deletes something for good.
    Removes,
}

/// When a client's model sees the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// At once.
    Always,
    /// When it searches for tools, with clients that defer them.
    Search,
}

/// How a call is run. It decides the room that the call takes and how long it may outlive its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    Read,
    /// Reads, and waits until there is news.
    Wait,
    /// Reads, and may answer with megabytes.
    Bulk,
    /// Has an effect, so it also takes `request_id`.
    Change,
}

/// One line of the table of tools.
pub struct Row {
    pub kind: RunKind,
    pub name: &'static str,
    pub title: &'static str,
    pub audience: Audience,
    pub effect: Effect,
    pub load: Load,
    /// The command with the same effect, as hints for persons name it; empty if hints never do.
    pub verb: &'static str,
    /// On which host a call is carried out, if several share the board.
    pub placed: Placed,
    /// The description: one line for each heading. The lines that follow from the schema are added to it.
    pub description: Cow<'static, str>,
    /// Which fields go together, beyond what a schema says.
    pub rules: &'static [FieldRule],
}

impl Row {
    /// The access that a call needs; it follows from the effect.
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

    /// True if the caller may see and call the tool. Its access is checked separately.
    pub fn is_for(&self, caller: &Caller) -> bool {
        let is_there = self.audience != Audience::Attempts || caller.attempt.is_some();
        is_there && self.is_for_role(caller.role)
    }

    /// True if the role may see the tool at all.
    pub fn is_for_role(&self, role: Role) -> bool {
        match self.audience {
            Audience::Board(_) => role != Role::Worker,
            Audience::Worker => role != Role::Orchestrator,
            Audience::Attempts => true,
        }
    }

    /// True for the worker API's tools, which are also JSON-RPC methods of their own.
    pub fn is_workers(&self) -> bool {
        self.audience == Audience::Worker
    }

    /// True if a call may end or overwrite something.
    pub fn is_destructive(&self) -> bool {
        use Effect::{Publishes, Removes, Replaces, Steers};
        matches!(self.effect, Replaces | Publishes | Removes | Steers)
    }

    /// MCP's annotations, by which clients decide whether to ask a person before a call.
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
