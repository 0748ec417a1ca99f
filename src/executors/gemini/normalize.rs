//! Gemini CLI's stream-json to entries.

use provost_actors::event::{Event, Timestamp, ToolStatus};
use provost_actors::executor::{Normalizer, Observed, TurnEnded};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::executors::json::{Dialect, Json, count, plain, system, text};
use crate::executors::streamed::{Kind, Streamed};
use crate::executors::words::{self, Tokens};

/// Reads one process.
pub fn normalizer() -> Box<dyn Normalizer> {
    Json::reader(Gemini::default())
}

#[derive(Default, Serialize, Deserialize)]
struct Gemini {
    /// The message has no end of its own: what is no part of it ends it.
    streamed: Streamed,
    has_ended: bool,
}

impl Dialect for Gemini {
    fn message(&mut self, message: &Value, at: Timestamp, out: &mut Vec<Observed>) -> bool {
        let kind = text(message, "type");
        if kind == "message" && message["delta"] == true && !message["content"].is_null() {
            self.streamed.add(Kind::Message, &plain(&message["content"]), out);
            return true;
        }
        self.streamed.flush(out);
        match kind {
            "init" => {
                let session = message["session_id"].as_str().filter(|id| !id.is_empty());
                out.extend(session.map(|id| Observed::ExecutorSession(id.to_owned())));
                out.push(system(format!("begins: {}", text(message, "model"))));
            }
            // The prompt, said back.
            "message" if message["role"] == "user" => {}
            "message" if message["role"] == "assistant" && !message["content"].is_null() => {
                out.push(Kind::Message.entry(plain(&message["content"])));
            }
            "tool_use" => {
                let name = text(message, "tool_name");
                let action = words::action(name, &message["parameters"]);
                out.push(words::tool_use(text(message, "tool_id"), name, action));
            }
            "tool_result" => out.push(Observed::Entry(tool_result(message))),
            "error" => {
                let severity = message["severity"].as_str().unwrap_or("error");
                out.push(system(format!("{severity}: {}", plain(&message["message"]))));
            }
            "result" => {
                tokens(&message["stats"]).tell(out);
                end_turn(message, at, out);
                self.has_ended = true;
            }
            _ => return false,
        }
        true
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        self.streamed.flush(out);
        if !self.has_ended {
            out.push(words::unended());
        }
    }
}

fn tool_result(message: &Value) -> Event {
    let error = text(&message["error"], "message");
    let output = plain(&message["output"]);
    let kind = text(&message["error"], "type");
    let status = match text(message, "status") {
        "success" => ToolStatus::Success,
        _ if kind.contains("denied") || kind.contains("permission") => ToolStatus::Denied,
        _ => ToolStatus::Failed,
    };
    Event::ToolResult {
        text: if output.is_empty() { error.to_owned() } else { output },
        tool_call_id: text(message, "tool_id").to_owned(),
        status,
        exit_code: None,
    }
}

fn tokens(stats: &Value) -> Tokens {
    Tokens {
        input: count(stats, "input_tokens"),
        output: count(stats, "output_tokens"),
        cached: count(stats, "cached"),
        cost_usd: None,
    }
}

fn end_turn(result: &Value, at: Timestamp, out: &mut Vec<Observed>) {
    if text(result, "status") == "success" {
        out.push(Observed::TurnEnded(TurnEnded::default()));
        return;
    }
    let error = &result["error"];
    let told = [text(error, "message"), text(error, "type"), "the turn failed"];
    let told = told.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    words::fail(told.to_owned(), None, None, at, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executors::transcripts::{assert_paired, hold_laws, observe, read, scenarios, told};

    #[test]
    fn transcripts_are_read() {
        for scenario in scenarios("gemini") {
            let observed = observe(normalizer(), &read("gemini", &scenario));
            assert_paired(&observed);
            insta::assert_json_snapshot!(scenario, told(&observed));
        }
        hold_laws("gemini", normalizer);
    }
}
