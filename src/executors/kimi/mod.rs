//! `kimi`: Kimi Code for one prompt, by its stream-json. It asks for nothing, and
//! reads MCP servers from its own files only: there is no way back.

mod normalize;

use provost_actors::executor::{Launch, Normalizer, Stdin, Turn};
use serde_json::Value;

use super::adapter::{Abilities, Adapter, Call, argument};

/// The protocol.
pub struct Kimi;

impl Adapter for Kimi {
    fn abilities(&self) -> Abilities {
        Abilities { resume: true, ..Abilities::default() }
    }

    fn launch(&self, turn: &Turn, mut call: Call) -> Result<Launch, String> {
        call.args.extend(["--output-format", "stream-json"].map(ToOwned::to_owned));
        call.option("model", "--model");
        if let Some(id) = &turn.executor_session_id {
            call.args.extend(["--session".to_owned(), id.clone()]);
        }
        // It reads no prompt from its standard input.
        call.args.push(format!("--prompt={}", argument(&turn.prompt)?));
        Ok(call.launch(Stdin::Empty))
    }

    fn normalizer(&self, _: &Value) -> Box<dyn Normalizer> {
        normalize::normalizer()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Protocol;
    use crate::executors::tests::launches;

    #[test]
    fn a_turn_is_launched_and_a_later_one_resumes_it() {
        let options = [("model", "m")];
        insta::assert_json_snapshot!(launches(Protocol::Kimi, &options));
    }
}
