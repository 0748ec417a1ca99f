//! What the protocols' modules import.

pub use provost_actors::event::{
    Action, ActionKind, ErrorType, Event, RawEntry, Stream, Timestamp, ToolStatus,
};
pub use provost_actors::executor::{
    Launch, Message, Normalizer, Observed, Request, Stdin, Turn, TurnEnded, Verdict,
};
pub use serde::{Deserialize, Serialize};
pub use serde_json::{Map, Value, json};

pub use super::call::Call;
pub use super::json::*;
pub use super::streamed::{StreamKind, Streamed};
pub(super) use super::vocabulary;
pub use super::vocabulary::{Tokens, inner_message};
