//! `fake`: an executor built into this binary and scripted by its prompt. It needs no
//! key and no network, and speaks the `events` protocol.

mod script;

pub use script::enter;

use std::path::PathBuf;

use provost_actors::executor::{Launch, Stdin, Turn};

use super::call::Call;

/// Its name.
pub const NAME: &str = "fake";

/// The command line of a turn: the shim that runs it is this same binary, also after an
/// upgrade.
pub fn launch(turn: &Turn, call: Call) -> Launch {
    let program = PathBuf::from("/proc/self/exe");
    let call = Call { program, args: vec![script::ARGUMENT.to_owned()], ..call };
    let launch = call.launch(Stdin::Bytes(turn.prompt.clone().into_bytes()));
    Launch { shown_as: Some(NAME.to_owned()), ..launch }
}
