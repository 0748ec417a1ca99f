//! The events of Copilot CLI to entries.

use provost_actors::event::{Action, Event, Timestamp, ToolStatus};
use provost_actors::executor::{Normalizer, Observed, TurnEnded};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::executors::json::{Dialect, Json, count, plain, system, text};
use crate::executors::streamed::{Kind, Streamed};
use crate::executors::words::{self, Tokens};

/// Reads one process, whose conversation may have been given its id.
pub fn normalizer(dialogue: &Value) -> Box<dyn Normalizer> {
    let session = text(dialogue, "session").to_owned();
    Json::reader(Copilot { chosen: session, ..Copilot::default() })
}

#[derive(Default, Serialize, Deserialize)]
struct Copilot {
    /// The conversation's id, where it was chosen.
    chosen: String,
    /// The conversation's id, once told.
    session: String,
    streamed: Streamed,
    /// The newest thought that an entry tells: it comes twice.
    thought: String,
    tokens: Option<Tokens>,
    /// What went wrong, with the status of the model's answer: the end tells it.
    error: Option<(String, Option<u16>)>,
    is_aborted: bool,
    has_ended: bool,
}

impl Dialect for Copilot {
    fn message(&mut self, message: &Value, at: Timestamp, out: &mut Vec<Observed>) -> bool {
        let data = &message["data"];
        let kind = text(message, "type");
        if message["agentId"].is_string() || data["parentToolCallId"].is_string() {
            match kind {
                "assistant.message" => return subagent(&data["content"], out),
                // Those of its message: it comes whole.
                "assistant.message_delta" | "assistant.reasoning_delta" => return true,
                // The turn's thoughts, and its end, are others'.
                "assistant.reasoning" | "abort" => return false,
                _ => {}
            }
        }
        match kind {
            "assistant.turn_start" => self.tell_session(&self.chosen.clone(), out),
            "assistant.message_delta" => {
                self.streamed.add(Kind::Message, text(data, "deltaContent"), out);
            }
            "assistant.reasoning_delta" => {
                self.streamed.add(Kind::Thinking, text(data, "deltaContent"), out);
            }
            "assistant.message" => {
                self.think(text(data, "reasoningText"), out);
                let streamed = self.streamed.whole(Kind::Message, out).unwrap_or_default();
                let said = Some(plain(&data["content"])).filter(|said| !said.is_empty());
                let said = said.unwrap_or(streamed);
                if !said.is_empty() {
                    out.push(Kind::Message.entry(said));
                }
            }
            "assistant.reasoning" => self.think(text(data, "content"), out),
            "tool.execution_start" => {
                let name = text(data, "toolName");
                out.push(words::tool_use(text(data, "toolCallId"), name, action(name, data)));
            }
            "tool.execution_complete" => out.push(Observed::Entry(tool_result(data))),
            "assistant.usage" => self.add_tokens(data),
            "model.call_failure" => {
                let (failure, status) = failure(data);
                let retried = count(data, "retryAttempt");
                let notice = format!("the model's answer: {failure} (retry {retried})");
                out.extend([Observed::Retrying(notice.clone()), system(notice)]);
                self.error = Some((failure, status));
            }
            "model.call_final_result" if data["result"] == "success" => self.error = None,
            "session.error" => {
                let status = data["statusCode"].as_u64().and_then(|code| code.try_into().ok());
                self.error = Some((text(data, "message").to_owned(), status));
            }
            "session.info" | "session.warning" => {
                let kind = text(data, "infoType").to_owned() + text(data, "warningType");
                out.push(system(format!("{kind}: {}", text(data, "message"))));
            }
            "session.mcp_server_status_changed" => {
                let (name, status) = (text(data, "serverName"), text(data, "status"));
                out.push(system(format!("MCP {name} {status}")));
            }
            "abort" | "agent.interrupted" => self.is_aborted = true,
            "result" => self.result(message, at, out),
            // The prompt said back; beginnings and parts of what comes whole.
            "user.message"
            | "assistant.message_start"
            | "assistant.tool_call_delta"
            | "assistant.turn_retry"
            | "assistant.turn_end"
            | "assistant.idle"
            | "model.call_start"
            | "model.call_finished"
            | "model.call_final_result"
            | "session.background_tasks_changed"
            | "session.skills_loaded"
            | "session.tools_updated"
            | "session.mcp_server_tools_loaded"
            | "session.mcp_servers_loaded"
            | "tool.shell_output"
            | "tool.execution_partial_result" => {}
            _ => return false,
        }
        true
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        self.flush(out);
        if let Some((text, status)) = self.error.take() {
            let error_type = words::error_type(status, &text);
            let resume_at = None;
            out.push(Observed::Entry(Event::ErrorMessage { text, error_type, resume_at }));
        }
        if !self.has_ended {
            out.push(words::unended());
        }
    }
}

impl Copilot {
    fn tell_session(&mut self, id: &str, out: &mut Vec<Observed>) {
        if !id.is_empty() && id != self.session {
            id.clone_into(&mut self.session);
            out.push(Observed::ExecutorSession(id.to_owned()));
        }
    }

    fn think(&mut self, thought: &str, out: &mut Vec<Observed>) {
        self.streamed.whole(Kind::Thinking, out);
        if !thought.is_empty() && thought != self.thought {
            thought.clone_into(&mut self.thought);
            out.push(Kind::Thinking.entry(thought.to_owned()));
        }
    }

    fn add_tokens(&mut self, used: &Value) {
        let answer = Tokens {
            input: count(used, "inputTokens"),
            output: count(used, "outputTokens"),
            cached: count(used, "cacheReadTokens"),
            cost_usd: None,
        };
        self.tokens = Some(self.tokens.unwrap_or_default().plus(answer));
    }

    fn flush(&mut self, out: &mut Vec<Observed>) {
        self.streamed.flush(out);
        if let Some(tokens) = self.tokens.take() {
            tokens.tell(out);
        }
    }

    fn result(&mut self, message: &Value, at: Timestamp, out: &mut Vec<Observed>) {
        self.has_ended = true;
        self.tell_session(text(message, "sessionId"), out);
        self.flush(out);
        match (self.is_aborted, message["exitCode"].as_i64(), self.error.take()) {
            (true, _, _) => out.push(words::interrupted()),
            (_, Some(0), error) => {
                // It went on in spite of that.
                out.extend(error.map(|(text, _)| system(text)));
                out.push(Observed::TurnEnded(TurnEnded::default()));
            }
            (_, _, Some((text, status))) => words::fail(text, status, None, at, out),
            (_, Some(code), None) => {
                words::fail(format!("it ended with exit code {code}"), None, None, at, out);
            }
            (_, None, None) => out.push(Observed::TurnEnded(TurnEnded::default())),
        }
    }
}

/// What a sub-agent said.
fn subagent(content: &Value, out: &mut Vec<Observed>) -> bool {
    let said = plain(content);
    if !said.is_empty() {
        out.push(system(format!("subagent: {said}")));
    }
    true
}

fn action(name: &str, call: &Value) -> Action {
    match (call["mcpServerName"].as_str(), call["mcpToolName"].as_str()) {
        (Some(server), Some(tool)) => words::mcp(server, tool, &call["arguments"]),
        _ => words::action(name, &call["arguments"]),
    }
}

fn tool_result(data: &Value) -> Event {
    let error = &data["error"];
    let exit_code: Option<i32> =
        data["shellExecution"]["exitCode"].as_i64().and_then(|code| code.try_into().ok());
    let status = match (data["success"] == true, text(error, "code")) {
        (false, "denied" | "rejected") => ToolStatus::Denied,
        (false, _) => ToolStatus::Failed,
        (true, _) if exit_code.is_some_and(|code| code != 0) => ToolStatus::Failed,
        (true, _) => ToolStatus::Success,
    };
    let output = plain(&data["result"]["content"]);
    let text = if output.is_empty() { plain(&error["message"]) } else { output };
    let tool_call_id = data["toolCallId"].as_str().unwrap_or_default().to_owned();
    Event::ToolResult { text, tool_call_id, status, exit_code }
}

/// What the model's server said, and the status of its answer.
fn failure(data: &Value) -> (String, Option<u16>) {
    let status = data["statusCode"].as_u64().and_then(|code| code.try_into().ok());
    let told = text(data, "errorMessage");
    let message: Option<Value> = serde_json::from_str(told).ok();
    let message = message.and_then(|error| error["message"].as_str().map(ToOwned::to_owned));
    let message = message.unwrap_or_else(|| told.to_owned());
    (status.map_or(message.clone(), |status: u16| format!("{status} {message}")), status)
}

#[cfg(test)]
mod tests {
    use provost_actors::event::Stream;
    use serde_json::json;

    use super::*;
    use crate::executors::transcripts::{
        assert_paired, hold_laws, observe, raw, read, scenarios, told,
    };

    fn of(lines: &[Value]) -> Vec<Value> {
        let text = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        told(&observe(normalizer(&Value::Null), &raw(Stream::Stdout, text.as_bytes())))
    }

    #[test]
    fn an_error_is_told_however_the_turn_ends() {
        let error = json!({ "type": "session.error", "data": { "message": "it broke" } });
        let told = of(&[error.clone(), json!({ "type": "result", "exitCode": 0 })]);
        assert_eq!(told[0], json!({ "kind": "system_message", "text": "it broke" }));
        assert_eq!(told[1]["turn_ended"]["failed"], false);
        let told = of(&[error, json!({ "type": "result" })]);
        assert_eq!(told[1]["turn_ended"]["error"], "it broke");
    }

    #[test]
    fn what_a_subagent_says_is_not_the_agents_word() {
        let said =
            json!({ "type": "assistant.message", "agentId": "a", "data": { "content": "seen" } });
        assert_eq!(of(&[said])[0], json!({ "kind": "system_message", "text": "subagent: seen" }));
    }

    #[test]
    fn transcripts_are_read() {
        let reader = || normalizer(&Value::Null);
        for cli in ["copilot", "copilot_bin"] {
            for scenario in scenarios(cli) {
                let observed = observe(reader(), &read(cli, &scenario));
                assert_paired(&observed);
                insta::assert_json_snapshot!(format!("{cli}_{scenario}"), told(&observed));
            }
            hold_laws(cli, reader);
        }
    }
}
