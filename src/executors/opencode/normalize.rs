//! The lines of `opencode run --format json` to entries. Each is a finished part
//! of a message; nothing streams.

use provost_actors::event::{Action, ActionKind, Event, Timestamp, ToolStatus};
use provost_actors::executor::{Normalizer, Observed, TurnEnded};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::executors::json::{Dialect, Json, count, plain, text};
use crate::executors::streamed::Kind;
use crate::executors::words::{self, Tokens};

/// Reads one process.
pub fn normalizer() -> Box<dyn Normalizer> {
    Json::reader(Opencode::default())
}

#[derive(Default, Serialize, Deserialize)]
struct Opencode {
    session: String,
    /// What the steps have used that no entry tells yet.
    tokens: Option<Tokens>,
    has_ended: bool,
}

impl Dialect for Opencode {
    fn message(&mut self, message: &Value, at: Timestamp, out: &mut Vec<Observed>) -> bool {
        let session = text(message, "sessionID");
        if !session.is_empty() && session != self.session {
            session.clone_into(&mut self.session);
            out.push(Observed::ExecutorSession(session.to_owned()));
        }
        let part = &message["part"];
        match text(message, "type") {
            "step_start" => {}
            "text" | "reasoning" if text(part, "text").is_empty() => {
                return part["text"].is_string();
            }
            "text" => out.push(Kind::Message.entry(text(part, "text").to_owned())),
            "reasoning" => out.push(Kind::Thinking.entry(text(part, "text").to_owned())),
            "tool_use" => tool_use(part, out),
            "step_finish" => self.step_finish(part, out),
            "error" => {
                self.tell_tokens(out);
                let data = &message["error"]["data"];
                let error = [text(data, "message"), text(&message["error"], "name"), "an error"];
                let error = error.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
                let status = data["statusCode"].as_u64().and_then(|code| code.try_into().ok());
                let seconds = text(&data["responseHeaders"], "retry-after");
                let limit = words::resume_at(&format!("retry-after: {seconds}"), at);
                words::fail(error.to_owned(), status, limit, at, out);
                self.has_ended = true;
            }
            _ => return false,
        }
        true
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        self.tell_tokens(out);
        if !self.has_ended {
            out.push(words::unended());
        }
    }
}

impl Opencode {
    fn step_finish(&mut self, part: &Value, out: &mut Vec<Observed>) {
        let used = &part["tokens"];
        let cached = count(&used["cache"], "read");
        let step = Tokens {
            input: count(used, "input") + cached + count(&used["cache"], "write"),
            output: count(used, "output") + count(used, "reasoning"),
            cached,
            cost_usd: part["cost"].as_f64(),
        };
        self.tokens = Some(self.tokens.unwrap_or_default().plus(step));
        // After these there is another step.
        if !matches!(text(part, "reason"), "tool-calls" | "unknown") {
            self.tell_tokens(out);
            out.push(Observed::TurnEnded(TurnEnded::default()));
            self.has_ended = true;
        }
    }

    fn tell_tokens(&mut self, out: &mut Vec<Observed>) {
        if let Some(tokens) = self.tokens.take() {
            tokens.tell(out);
        }
    }
}

/// A call and its result, which come as one.
fn tool_use(part: &Value, out: &mut Vec<Observed>) {
    let (id, name, state) = (text(part, "callID"), text(part, "tool"), &part["state"]);
    out.push(words::tool_use(id, name, action(name, &state["input"])));
    let exit_code = state["metadata"]["exit"].as_i64().and_then(|code| code.try_into().ok());
    let error = text(state, "error");
    let status = match text(state, "status") {
        "error" if error.contains("rejected permission") => ToolStatus::Denied,
        "error" => ToolStatus::Failed,
        _ if exit_code.is_some_and(|code: i32| code != 0) => ToolStatus::Failed,
        _ => ToolStatus::Success,
    };
    let output = plain(&state["output"]);
    let text = if output.is_empty() { error.to_owned() } else { output };
    let tool_call_id = id.to_owned();
    out.push(Observed::Entry(Event::ToolResult { text, tool_call_id, status, exit_code }));
}

/// A tool that is none of OpenCode's own is `SERVER_TOOL`.
fn action(name: &str, input: &Value) -> Action {
    let action = words::action(name, input);
    match name.split_once('_') {
        Some((server, tool)) if action.kind == ActionKind::Other => words::mcp(server, tool, input),
        _ => action,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executors::transcripts::{assert_paired, hold_laws, observe, read, scenarios, told};

    #[test]
    fn transcripts_are_read() {
        for scenario in scenarios("opencode") {
            let observed = observe(normalizer(), &read("opencode", &scenario));
            assert_paired(&observed);
            insta::assert_json_snapshot!(scenario, told(&observed));
        }
        hold_laws("opencode", normalizer);
    }
}
