//! `fake`: an executor built into this binary and scripted by its prompt. It needs no
//! key and no network, and speaks the `events` protocol.

mod script;

pub use script::enter;

use std::path::PathBuf;

use provost_actors::executor::{Launch, Normalizer, Stdin, Turn};
use serde_json::Value;

use super::adapter::{Abilities, Adapter, Call};
use super::lines;

/// Its name.
pub const NAME: &str = "fake";

/// The executor.
pub struct Fake;

impl Adapter for Fake {
    fn abilities(&self) -> Abilities {
        Abilities { resume: true, ..Abilities::default() }
    }

    fn launch(&self, turn: &Turn, call: Call) -> Result<Launch, String> {
        // The shim that runs it is this same binary, also after an upgrade.
        let program = PathBuf::from("/proc/self/exe");
        let call = Call { program, args: vec![script::ARGUMENT.to_owned()], ..call };
        let launch = call.launch(Stdin::Bytes(turn.prompt.clone().into_bytes()));
        Ok(Launch { shown_as: Some(NAME.to_owned()), ..launch })
    }

    fn normalizer(&self, _: &Value) -> Box<dyn Normalizer> {
        lines::normalizer()
    }
}
