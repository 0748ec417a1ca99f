//! `fake`: an executor built into this binary, scripted by its prompt, without
//! keys or network. It speaks the `events` protocol.

mod script;

pub use script::enter;

use std::collections::BTreeMap;
use std::path::PathBuf;

use provost_actors::executor::{Description, Executor, Launch, Normalizer, Stdin, Turn};

use super::events;

/// Its name.
pub const NAME: &str = "fake";

/// The executor.
pub struct Fake;

impl Executor for Fake {
    fn describe(&self) -> Description {
        Description {
            name: NAME.to_owned(),
            variants: vec![],
            default_variant: None,
            supports_mcp: false,
            supports_resume: true,
            supports_interrupt: false,
            unavailable_reason: None,
        }
    }

    fn launch(&self, turn: &Turn) -> Result<Launch, String> {
        Ok(Launch {
            // The shim that runs it is this very binary, also after an upgrade.
            program: PathBuf::from("/proc/self/exe"),
            args: vec![script::ARGUMENT.to_owned()],
            env: BTreeMap::new(),
            stdin: Stdin::Bytes(turn.prompt.clone().into_bytes()),
        })
    }

    fn normalizer(&self) -> Box<dyn Normalizer> {
        events::normalizer()
    }
}
