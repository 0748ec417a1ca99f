//! What Claude Code writes as stream-json (and Qwen Code, whose dialect it is)
//! to entries; what it asks for to requests.

use std::collections::BTreeSet;

use provost_actors::event::{Event, Timestamp, ToolStatus};
use provost_actors::executor::{Normalizer, Observed, Request, TurnEnded};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::control;
use crate::executors::json::{Dialect, Json, system};
use crate::executors::streamed::{Kind, Streamed};
use crate::executors::words::{self, Tokens};

/// Whose dialect it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flavour {
    Claude,
    /// Counts cached tokens as input; has no word for a turn that was cancelled.
    Qwen,
}

/// Reads one process, and talks to it if it was launched with a prompt to tell.
pub fn normalizer(flavour: Flavour, dialogue: &Value) -> Box<dyn Normalizer> {
    let prompt = dialogue["prompt"].as_str().map(ToOwned::to_owned);
    Json::reader(StreamJson {
        flavour,
        is_two_way: prompt.is_some(),
        prompt,
        session: String::new(),
        streamed: Streamed::default(),
        has_spoken: false,
        denied: BTreeSet::new(),
        error: None,
        limit: None,
        is_cancelled: false,
    })
}

#[derive(Serialize, Deserialize)]
struct StreamJson {
    flavour: Flavour,
    is_two_way: bool,
    /// Still to be told.
    prompt: Option<String>,
    session: String,
    streamed: Streamed,
    /// The assistant said something in this turn.
    has_spoken: bool,
    /// Tool calls that were refused and whose results are still to come.
    denied: BTreeSet<String>,
    /// The CLI's own word on an error, of which the turn's result will tell more.
    error: Option<String>,
    /// When the limit is over that refused a request.
    limit: Option<Timestamp>,
    /// An interrupt was confirmed.
    is_cancelled: bool,
}

impl Dialect for StreamJson {
    fn begin(&mut self, out: &mut Vec<Observed>) {
        if let Some(prompt) = self.prompt.take() {
            out.push(Observed::Say(control::initialize()));
            out.push(Observed::Say(control::prompt(&prompt)));
        }
    }

    fn message(&mut self, message: &Value, at: Timestamp, out: &mut Vec<Observed>) -> bool {
        let session = text(message, "session_id");
        if !session.is_empty() && session != self.session {
            session.clone_into(&mut self.session);
            out.push(Observed::ExecutorSession(session.to_owned()));
        }
        match text(message, "type") {
            "system" => self.system(message, out),
            "stream_event" => self.stream_event(message, out),
            "assistant" => self.assistant(message, out),
            "user" => self.user(message, out),
            "result" => self.result(message, at, out),
            "rate_limit_event" => self.rate_limit(&message["rate_limit_info"], out),
            "control_request" => control_request(message, out),
            "control_response" => self.control_response(&message["response"], out),
            "control_cancel_request" => withdraw(message, out),
            "keep_alive" | "tool_progress" => true,
            _ => false,
        }
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        self.flush(out);
    }
}

impl StreamJson {
    /// What is open will not be completed.
    fn flush(&mut self, out: &mut Vec<Observed>) {
        self.streamed.flush(out);
        if let Some(text) = self.error.take() {
            let error_type = words::error_type(None, &text);
            out.push(Observed::Entry(Event::ErrorMessage { text, error_type, resume_at: None }));
        }
    }

    fn system(&mut self, message: &Value, out: &mut Vec<Observed>) -> bool {
        let notice = match text(message, "subtype") {
            "init" => {
                // From here on there is a turn to be interrupted.
                if self.is_two_way {
                    out.push(Observed::Interrupt(Some(control::interrupt())));
                }
                introduction(message)
            }
            "status" if text(message, "status") == "compacting" => {
                "compacting the conversation".to_owned()
            }
            "status" | "thinking_tokens" | "session_state_changed" => return true,
            "api_retry" => {
                let status = &message["error_status"];
                let cause = match status.as_u64() {
                    Some(status) => format!("{status} {}", text(message, "error")),
                    None => text(message, "error").to_owned(),
                };
                retry(
                    &cause,
                    &message["attempt"],
                    &message["max_retries"],
                    &message["retry_delay_ms"],
                )
            }
            "retry" => {
                let data = &message["data"];
                retry("failed", &data["attempt"], &data["maxRetries"], &data["delayMs"])
            }
            "permission_denied" => {
                self.denied.insert(text(message, "tool_use_id").to_owned());
                format!("denied {}: {}", text(message, "tool_name"), text(message, "message"))
            }
            "compact_boundary" => {
                let trigger = text(&message["compact_metadata"], "trigger");
                format!("compacted the conversation ({trigger})")
            }
            _ => return false,
        };
        out.push(system(notice));
        true
    }

    fn stream_event(&mut self, message: &Value, out: &mut Vec<Observed>) -> bool {
        let event = &message["event"];
        let is_subagents = message["parent_tool_use_id"].is_string();
        match text(event, "type") {
            _ if is_subagents => {}
            // What is open now belongs to a message that was given up.
            "message_start" => self.flush(out),
            "content_block_start" => match text(&event["content_block"], "type") {
                "text" => self.streamed.begin(Kind::Message),
                "thinking" => self.streamed.begin(Kind::Thinking),
                _ => {}
            },
            "content_block_delta" => {
                let delta = &event["delta"];
                match text(delta, "type") {
                    "text_delta" => self.streamed.add(Kind::Message, text(delta, "text"), out),
                    "thinking_delta" => {
                        self.streamed.add(Kind::Thinking, text(delta, "thinking"), out);
                    }
                    // A tool's arguments and signatures come whole in the message.
                    _ => {}
                }
            }
            "content_block_stop" | "message_delta" | "message_stop" | "ping" | "goal_state" => {}
            _ => return false,
        }
        true
    }

    fn assistant(&mut self, message: &Value, out: &mut Vec<Observed>) -> bool {
        let is_subagents = message["parent_tool_use_id"].is_string();
        let is_synthetic = message["message"]["model"] == "<synthetic>";
        let content = &message["message"]["content"];
        if is_synthetic {
            let told = plain(content);
            if message["error"].is_string() || message["isApiErrorMessage"] == true {
                self.flush(out);
                self.error = Some(told);
            } else {
                out.push(system(told));
            }
            return true;
        }
        let Some(blocks) = content.as_array() else { return false };
        for block in blocks {
            let kind = match text(block, "type") {
                "text" => Some((Kind::Message, text(block, "text"))),
                "thinking" => Some((Kind::Thinking, text(block, "thinking"))),
                "redacted_thinking" => Some((Kind::Thinking, "[redacted]")),
                _ => None,
            };
            match kind {
                Some((_, said)) if is_subagents => out.push(system(format!("subagent: {said}"))),
                Some((kind, said)) => {
                    self.streamed.whole(kind, out);
                    self.has_spoken |= kind == Kind::Message;
                    if !said.is_empty() {
                        out.push(kind.entry(said.to_owned()));
                    }
                }
                None => self.block(block, message, out),
            }
        }
        true
    }

    fn user(&mut self, message: &Value, out: &mut Vec<Observed>) -> bool {
        // The user's own words, said back.
        if message["isReplay"] == true {
            return true;
        }
        let content = &message["message"]["content"];
        match content {
            Value::String(text) => out.push(system(text.clone())),
            Value::Array(blocks) => {
                for block in blocks {
                    // The CLI's words in the user's name.
                    match block["text"].as_str() {
                        Some(text) if block["type"] == "text" => out.push(system(text.to_owned())),
                        _ => self.block(block, message, out),
                    }
                }
            }
            _ => return false,
        }
        true
    }

    /// A call of a tool, or its result.
    fn block(&mut self, block: &Value, message: &Value, out: &mut Vec<Observed>) {
        let kind = text(block, "type");
        out.push(match (kind, block["id"].as_str(), block["tool_use_id"].as_str()) {
            ("tool_use" | "server_tool_use" | "mcp_tool_use", Some(id), _) => {
                let (tool_name, input) = (text(block, "name"), &block["input"]);
                Observed::Entry(tool_use(id, tool_name, input))
            }
            (_, _, Some(id)) if kind.ends_with("tool_result") => {
                let text = plain(&block["content"]);
                let is_refused = self.denied.remove(id) || is_rejected(message, id);
                let status = match (is_refused, block["is_error"] == true) {
                    (true, _) => ToolStatus::Denied,
                    (_, true) => ToolStatus::Failed,
                    _ => ToolStatus::Success,
                };
                let (exit_code, tool_call_id) = (exit_code(&text), id.to_owned());
                Observed::Entry(Event::ToolResult { text, tool_call_id, status, exit_code })
            }
            _ => system(block.to_string()),
        });
    }

    fn rate_limit(&mut self, info: &Value, out: &mut Vec<Observed>) -> bool {
        let until = info["resetsAt"].as_i64().and_then(words::from_epoch);
        let window = text(info, "rateLimitType");
        let resets = until.map(|at| format!(", it resets at {at}")).unwrap_or_default();
        match text(info, "status") {
            "allowed" => {}
            "allowed_warning" => {
                out.push(system(format!("the {window} limit is nearly reached{resets}")));
            }
            "rejected" => {
                self.limit = until;
                out.push(system(format!("the {window} limit is reached{resets}")));
            }
            _ => return false,
        }
        true
    }

    fn control_response(&mut self, response: &Value, out: &mut Vec<Observed>) -> bool {
        let what = &response["response"];
        self.is_cancelled |= what["subtype"] == "interrupt" || what["still_queued"].is_array();
        if text(response, "subtype") == "error" {
            let id = text(response, "request_id");
            out.push(system(format!("{id} was refused: {}", text(response, "error"))));
        }
        true
    }

    fn result(&mut self, message: &Value, at: Timestamp, out: &mut Vec<Observed>) -> bool {
        let subtype = text(message, "subtype");
        let is_error = message["is_error"] == true || subtype.starts_with("error");
        let noted = self.error.take();
        self.flush(out);
        let said = text(message, "result");
        if !is_error && !self.has_spoken && !said.is_empty() {
            // What a command of the CLI's own answered.
            out.push(Kind::Message.entry(said.to_owned()));
        }
        tokens(self.flavour, message).tell(out);
        let was_cancelled = std::mem::take(&mut self.is_cancelled)
            || text(message, "terminal_reason").starts_with("aborted");
        if !is_error {
            out.push(Observed::TurnEnded(TurnEnded::default()));
        } else if was_cancelled {
            let error = Some("the turn was interrupted".to_owned());
            let ended = TurnEnded { failed: true, error, ..TurnEnded::default() };
            out.push(Observed::TurnEnded(ended));
        } else {
            let error = error(message).or(noted).unwrap_or_else(|| subtype.replace('_', " "));
            let status = message["api_error_status"].as_u64().and_then(|n| n.try_into().ok());
            let kind = words::error_type(status, &error);
            let resume_at = self.limit.take().or_else(|| words::resume_at(&error, at));
            words::fail(error, kind, resume_at, out);
        }
        self.has_spoken = false;
        true
    }
}

fn control_request(message: &Value, out: &mut Vec<Observed>) -> bool {
    let (id, request) = (text(message, "request_id"), &message["request"]);
    let subtype = text(request, "subtype");
    if subtype != "can_use_tool" {
        out.push(system(format!("asked for {subtype}, which is not supported")));
        out.push(Observed::Say(control::unsupported(id, subtype)));
        return true;
    }
    let (tool_name, input) = (text(request, "tool_name"), &request["input"]);
    let action = words::action(tool_name, input);
    let text = words::title(tool_name, &action);
    out.push(system(format!("asks for permission: {text}")));
    out.push(Observed::Ask(Request {
        key: id.to_owned(),
        tool_call_id: request["tool_use_id"].as_str().map(ToOwned::to_owned),
        tool_name: tool_name.to_owned(),
        text,
        action,
        context: serde_json::json!({ "input": input }),
    }));
    true
}

fn withdraw(message: &Value, out: &mut Vec<Observed>) -> bool {
    let key = text(message, "request_id").to_owned();
    out.push(system("no longer asks for permission".to_owned()));
    out.push(Observed::Withdraw { key });
    true
}

/// Who works here, in a line.
fn introduction(init: &Value) -> String {
    let mode = text(init, "permissionMode").to_owned() + text(init, "permission_mode");
    let version = text(init, "claude_code_version").to_owned() + text(init, "qwen_code_version");
    let servers = init["mcp_servers"].as_array().into_iter().flatten();
    let servers =
        servers.map(|server| format!("MCP {} {}", text(server, "name"), text(server, "status")));
    let facts = [version, text(init, "model").to_owned(), mode].into_iter().chain(servers);
    let facts: Vec<String> = facts.filter(|fact| !fact.is_empty()).collect();
    format!("begins: {}", facts.join(", "))
}

fn retry(cause: &str, attempt: &Value, most: &Value, delay_ms: &Value) -> String {
    let seconds = delay_ms.as_f64().unwrap_or_default() / 1000.0;
    format!("the model's answer: {cause}; attempt {attempt} of {most} follows in {seconds:.1} s")
}

fn tool_use(id: &str, tool_name: &str, input: &Value) -> Event {
    let action = words::action(tool_name, input);
    Event::ToolUse {
        text: words::title(tool_name, &action),
        tool_call_id: id.to_owned(),
        tool_name: tool_name.to_owned(),
        action,
    }
}

/// Its permission was refused, as the message says of its results.
fn is_rejected(message: &Value, id: &str) -> bool {
    let results = message["tool_result_meta"].as_array();
    results
        .into_iter()
        .flatten()
        .any(|result| result["id"] == id && result["permission_decision"]["decision"] == "reject")
}

/// The code that a failed command's output begins with or tells in a line.
fn exit_code(text: &str) -> Option<i32> {
    let told = |line: &str| {
        let (name, rest) = line.split_at_checked("Exit code".len())?;
        let is_told = name.eq_ignore_ascii_case("Exit code");
        is_told.then(|| rest.trim_start_matches(':').trim().parse().ok())?
    };
    text.lines().find_map(told)
}

/// The tokens of a turn, those of its subagents included where they are told.
fn tokens(flavour: Flavour, result: &Value) -> Tokens {
    if let Some(models) = result["model_usage_since_last_result"].as_object() {
        return models.values().map(of_model).fold(Tokens::default(), sum);
    }
    let usage = &result["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    let cached = count("cache_read_input_tokens");
    let beside = match flavour {
        Flavour::Claude => cached + count("cache_creation_input_tokens"),
        Flavour::Qwen => 0,
    };
    let cost_usd = result["total_cost_usd"].as_f64();
    let input = count("input_tokens") + beside;
    Tokens { input, output: count("output_tokens"), cached, cost_usd }
}

fn of_model(usage: &Value) -> Tokens {
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    let cached = count("cacheReadInputTokens");
    Tokens {
        input: count("inputTokens") + count("cacheCreationInputTokens") + cached,
        output: count("outputTokens"),
        cached,
        cost_usd: usage["costUSD"].as_f64(),
    }
}

fn sum(one: Tokens, other: Tokens) -> Tokens {
    Tokens {
        input: one.input + other.input,
        output: one.output + other.output,
        cached: one.cached + other.cached,
        cost_usd: match (one.cost_usd, other.cost_usd) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        },
    }
}

/// What went wrong, as far as the result tells.
fn error(result: &Value) -> Option<String> {
    let errors = result["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let errors = errors.collect::<Vec<_>>().join("; ");
    let texts = [text(result, "result"), &errors, text(&result["error"], "message")];
    texts.into_iter().find(|text| !text.is_empty()).map(ToOwned::to_owned)
}

/// The text of a message's or a result's content; what is no text, by its name.
fn plain(content: &Value) -> String {
    let part = |part: &Value| match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[{}]", part["type"].as_str().unwrap_or("part")),
    };
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(part).collect::<Vec<_>>().join("\n"),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::executors::transcripts::{
        assert_paired, hold_laws, observe, raw, read, scenarios, told,
    };
    use provost_actors::event::{ErrorType, Stream};

    fn reader(flavour: Flavour, scenario: &str) -> Box<dyn Normalizer> {
        let dialogue = json!({ "prompt": "Please do the mock task." });
        normalizer(flavour, if scenario.starts_with("live-") { &dialogue } else { &Value::Null })
    }

    fn snapshots(flavour: Flavour, cli: &str) {
        for scenario in scenarios(cli) {
            let observed = observe(reader(flavour, &scenario), &read(cli, &scenario));
            assert_paired(&observed);
            insta::assert_json_snapshot!(format!("{cli}_{scenario}"), told(&observed));
        }
        hold_laws(cli, || reader(flavour, "live-"));
    }

    #[test]
    fn claude_transcripts_are_read() {
        snapshots(Flavour::Claude, "claude");
    }

    #[test]
    fn qwen_transcripts_are_read() {
        snapshots(Flavour::Qwen, "qwen");
    }

    fn observe_lines(lines: &[Value]) -> Vec<Observed> {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        let entries = raw(Stream::Stdout, lines.join("\n").as_bytes());
        observe(normalizer(Flavour::Claude, &Value::Null), &entries)
    }

    fn ended(observed: &[Observed]) -> TurnEnded {
        let ended = observed.iter().find_map(|one| match one {
            Observed::TurnEnded(ended) => Some(ended.clone()),
            _ => None,
        });
        ended.expect("a turn that ended")
    }

    #[test]
    fn a_refused_request_tells_when_the_limit_ends() {
        let info = json!({ "status": "rejected", "resetsAt": 1_900_000_000, "rateLimitType": "five_hour" });
        let synthetic = json!({
            "type": "assistant", "error": "rate_limit",
            "message": { "model": "<synthetic>", "content": [{ "type": "text", "text": "You've hit your session limit" }] }
        });
        let result = json!({
            "type": "result", "subtype": "success", "is_error": true, "api_error_status": 429,
            "result": "You've hit your session limit"
        });
        let lines =
            [json!({ "type": "rate_limit_event", "rate_limit_info": info }), synthetic, result];
        let observed = observe_lines(&lines);
        let ended = ended(&observed);
        assert_eq!(ended.error_type, Some(ErrorType::Quota));
        assert_eq!(ended.resume_at, Some(Timestamp::from_millis(1_900_000_000_000)));
        let errors = told(&observed).iter().filter(|one| one["kind"] == "error_message").count();
        assert_eq!(errors, 1, "it is told once");
        assert_eq!(told(&observe_lines(&lines[..2]))[1]["kind"], "error_message", "also when cut");
    }

    #[test]
    fn requests_that_are_not_known_are_answered() {
        let hook = json!({ "type": "control_request", "request_id": "h1", "request": { "subtype": "hook_callback" } });
        let observed = observe_lines(&[hook]);
        let told = told(&observed);
        assert_eq!(told[1]["say"], "answer:h1");
        assert_eq!(told[1]["line"]["response"]["subtype"], "error");
    }

    #[test]
    fn a_cancelled_request_is_withdrawn() {
        let cancel = json!({ "type": "control_cancel_request", "request_id": "p1" });
        let observed = observe_lines(&[cancel]);
        assert!(observed.contains(&Observed::Withdraw { key: "p1".to_owned() }));
    }

    #[test]
    fn what_a_subagent_says_is_not_the_assistants_word() {
        let content = json!([{ "type": "text", "text": "found it" }, { "type": "tool_use", "id": "t2", "name": "Read", "input": {} }]);
        let line = json!({ "type": "assistant", "parent_tool_use_id": "t1", "message": { "content": content } });
        let kinds: Vec<Value> =
            told(&observe_lines(&[line])).iter().map(|one| one["kind"].clone()).collect();
        assert_eq!(kinds, ["system_message", "tool_use"]);
    }

    #[test]
    fn a_stream_that_is_cut_leaves_what_came() {
        let event = |event: Value| json!({ "type": "stream_event", "event": event });
        let delta = |text: &str| {
            event(
                json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": text } }),
            )
        };
        let observed =
            observe_lines(&[event(json!({ "type": "message_start" })), delta("Hel"), delta("lo")]);
        assert_eq!(told(&observed), [json!({ "kind": "assistant_message", "text": "Hello" })]);
    }
}
