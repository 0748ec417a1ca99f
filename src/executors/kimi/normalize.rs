//! Kimi Code's stream-json to entries: the messages of a chat, and some of its
//! own. That a turn failed is told on stderr only.

use provost_actors::event::{Event, Timestamp, ToolStatus};
use provost_actors::executor::{Normalizer, Observed, TurnEnded};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::executors::json::{Dialect, Json, plain, system, text};
use crate::executors::streamed::Kind;
use crate::executors::words;

/// Reads one process.
pub fn normalizer() -> Box<dyn Normalizer> {
    Json::reader(Kimi::default())
}

#[derive(Default, Serialize, Deserialize)]
struct Kimi {
    has_ended: bool,
}

impl Dialect for Kimi {
    fn message(&mut self, message: &Value, _: Timestamp, out: &mut Vec<Observed>) -> bool {
        match (text(message, "role"), text(message, "type")) {
            ("assistant", _) => assistant(message, out),
            ("tool", _) => out.push(Observed::Entry(Event::ToolResult {
                text: plain(&message["content"]),
                tool_call_id: text(message, "tool_call_id").to_owned(),
                // It tells nothing else.
                status: ToolStatus::Success,
                exit_code: None,
            })),
            ("meta", "system.version") => {
                out.push(system(format!("begins: {}", text(message, "version"))));
            }
            ("meta", "turn.step.retrying") => {
                let seconds = message["delay_ms"].as_f64().unwrap_or_default() / 1000.0;
                let (error, next) = (text(message, "error_message"), &message["next_attempt"]);
                let most = &message["max_attempts"];
                let notice = format!(
                    "the model's answer: {error}; attempt {next} of {most} follows in {seconds:.1} s"
                );
                out.extend([Observed::Retrying(notice.clone()), system(notice)]);
            }
            ("meta", "session.resume_hint") => {
                self.has_ended = true;
                let session = message["session_id"].as_str().filter(|id| !id.is_empty());
                out.extend(session.map(|id| Observed::ExecutorSession(id.to_owned())));
                out.push(Observed::TurnEnded(TurnEnded::default()));
            }
            _ => return false,
        }
        true
    }

    fn stderr(&mut self, line: &str, at: Timestamp, out: &mut Vec<Observed>) {
        match line.strip_prefix("error: ") {
            Some(error) if !self.has_ended => {
                self.has_ended = true;
                words::fail(error.to_owned(), None, None, at, out);
            }
            _ => out.push(system(line.to_owned())),
        }
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        if !self.has_ended {
            out.push(words::unended());
        }
    }
}

fn assistant(message: &Value, out: &mut Vec<Observed>) {
    let thought = plain(&message["reasoning_content"]);
    if !thought.is_empty() {
        out.push(Kind::Thinking.entry(thought));
    }
    let said = plain(&message["content"]);
    if !said.is_empty() {
        out.push(Kind::Message.entry(said));
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let (name, arguments) = (text(&call["function"], "name"), &call["function"]["arguments"]);
        let input = match arguments.as_str() {
            Some(arguments) => serde_json::from_str(arguments).unwrap_or_default(),
            None => arguments.clone(),
        };
        out.push(words::tool_use(text(call, "id"), name, words::action(name, &input)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executors::transcripts::{assert_paired, hold_laws, observe, read, scenarios, told};

    #[test]
    fn transcripts_are_read() {
        for scenario in scenarios("kimi") {
            let observed = observe(normalizer(), &read("kimi", &scenario));
            assert_paired(&observed);
            insta::assert_json_snapshot!(scenario, told(&observed));
        }
        hold_laws("kimi", normalizer);
    }
}
