//! `plain`: any program that writes text. stdout is what it says, stderr what
//! it reports, exit 0 is success.

mod normalize;

use provost_actors::executor::{Launch, Normalizer, Turn};
use serde_json::Value;

use super::adapter::{Abilities, Adapter, Call};

/// The protocol.
pub struct Plain;

impl Adapter for Plain {
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn launch(&self, turn: &Turn, call: Call) -> Result<Launch, String> {
        call.with_prompt(&turn.prompt)
    }

    fn normalizer(&self, _: &Value) -> Box<dyn Normalizer> {
        normalize::normalizer()
    }
}
