//! `events`: programs that write normalized entries themselves, one JSON object
//! a line. This is what scripted executors speak.

mod normalize;

use provost_actors::executor::{Launch, Normalizer, Turn};
use serde_json::Value;

use super::adapter::{Abilities, Adapter, Call};

pub use normalize::normalizer;

/// The protocol.
pub struct Events;

impl Adapter for Events {
    fn abilities(&self) -> Abilities {
        // They are told the id of their earlier conversation and may use it.
        Abilities { resume: true, ..Abilities::default() }
    }

    fn launch(&self, turn: &Turn, call: Call) -> Result<Launch, String> {
        call.with_prompt(&turn.prompt)
    }

    fn normalizer(&self, _: &Value) -> Box<dyn Normalizer> {
        normalizer()
    }
}
