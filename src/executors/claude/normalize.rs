//! Reads Claude Code's stream-json: messages become entries, and permission requests become requests.
//!
//! ```text
//!  begin ─initialize, the prompt─▶ `system/init` ─▶ messages, tools, requests ─▶ `result`
//!                                       ▲                                           │
//!                                       │      work in the background: RoundEnded ◀─┤
//!                                       └── the CLI begins another round itself     │
//!                 quiet after the end of that work: TurnEnded                       ▼
//!                 the process ends during that work: failed              TurnEnded, or failed
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::control;
use crate::executors::action::{action, title};
use crate::executors::call::is_tool_of;
use crate::executors::prelude::*;

/// The reader of one process. It talks to the process only if the dialogue has a prompt.
pub fn normalizer(dialogue: &Value) -> Box<dyn Normalizer> {
    let prompt = dialogue["prompt"].as_str().map(ToOwned::to_owned);
    Json::reader(StreamJson {
        is_two_way: prompt.is_some(),
        prompt,
        own_server: dialogue["own_server"].as_str().map(ToOwned::to_owned),
        ..StreamJson::default()
    })
}

/// The state of the conversation with one process.
#[derive(Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
struct StreamJson {
    is_two_way: bool,
    /// The turn of our prompt has ended; the CLI may still begin others by itself.
    is_answered: bool,
    /// The prompt, until it is sent.
    prompt: Option<String>,
    /// The name of our own MCP server, whose tools need no permission.
    #[serde(default)]
    own_server: Option<String>,
    session: String,
    streamed: Streamed,
    turn: Turn,
    /// Descriptions of what the agent has begun in the background and what has not ended, by their ids.
    #[serde(default)]
    background: BTreeMap<String, String>,
    /// The CLI lists all that runs in the background (since 2.1.3xx), so notices about single tasks are
    /// ignored.
    #[serde(default)]
    lists_background: bool,
    /// The CLI has answered, and begins another round when its work in the background has ended.
    #[serde(default)]
    is_between: bool,
    /// The cost that the last result named, in US dollars, where results name the sum of the process.
    #[serde(default)]
    cost_before: f64,
}

/// The newest turn.
#[derive(Default, Serialize, Deserialize)]
struct Turn {
    has_ended: bool,
    /// The assistant has written a message.
    has_spoken: bool,
    /// An interrupt was confirmed.
    is_cancelled: bool,
    /// Denied tool calls whose results are still to come.
    denied: BTreeSet<String>,
    /// The CLI's own message about an error. It waits for the result, which says more.
    error: Option<String>,
    /// When the limit ends by which a request was refused.
    limit: Option<Timestamp>,
}

impl Dialect for StreamJson {
    fn begin(&mut self, out: &mut Out) {
        if let Some(prompt) = self.prompt.take() {
            out.push(Observed::Say(control::initialize()));
            out.push(Observed::Say(control::prompt(&prompt)));
        }
    }

    fn message(&mut self, message: &Value, at: Timestamp, out: &mut Out) -> bool {
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
            "control_request" => self.control_request(message, out),
            "control_response" => self.control_response(&message["response"], out),
            "control_cancel_request" => withdraw(message, out),
            "keep_alive" | "tool_progress" => true,
            _ => false,
        }
    }

    fn end(&mut self, out: &mut Out) {
        self.flush(out);
        if self.is_between && !self.background.is_empty() {
            out.push(vocabulary::cut_off(self.background.values()));
        } else if !self.turn.has_ended && !self.is_answered {
            out.push(vocabulary::unended());
        }
    }
}

impl StreamJson {
    /// Makes entries of open texts and of an open error, because nothing will complete them.
    fn flush(&mut self, out: &mut Out) {
        self.streamed.flush(out);
        if let Some(text) = self.turn.error.take() {
            let error_type = vocabulary::error_type(None, &text);
            let resume_at = self.turn.limit;
            out.push(Observed::Entry(Event::ErrorMessage { text, error_type, resume_at }));
        }
    }

    /// A message of the CLI itself. `false`: it is unknown.
    fn system(&mut self, message: &Value, out: &mut Out) -> bool {
        let notice = match text(message, "subtype") {
            "init" => {
                self.flush(out);
                self.turn = Turn::default();
                if std::mem::take(&mut self.is_between) {
                    out.push(Observed::EndsIfQuiet(None));
                }
                // The CLI accepts an interrupt only after `init`.
                if self.is_two_way {
                    out.push(Observed::Interrupt(Some(control::interrupt())));
                }
                introduction(message)
            }
            "status" if text(message, "status") == "compacting" => {
                "compacting the conversation".to_owned()
            }
            "status" | "thinking_tokens" | "session_state_changed" | "task_progress" => {
                return true;
            }
            "background_tasks_changed" => {
                self.lists_background = true;
                self.background = items(message, "tasks").map(task).collect();
                self.may_end(out);
                return true;
            }
            "task_started" | "task_updated" | "task_notification" => {
                return self.task(message, out);
            }
            "api_retry" => {
                let status = &message["error_status"];
                let cause = match status.as_u64() {
                    Some(status) => format!("{status} {}", text(message, "error")),
                    None => text(message, "error").to_owned(),
                };
                let seconds = message["retry_delay_ms"].as_f64().unwrap_or_default() / 1000.0;
                let (attempt, most) = (&message["attempt"], &message["max_retries"]);
                let notice = format!(
                    "the model's answer: {cause}; attempt {attempt} of {most} follows in {seconds:.1} s"
                );
                out.push(Observed::Retrying(notice.clone()));
                notice
            }
            "permission_denied" => {
                self.turn.denied.insert(text(message, "tool_use_id").to_owned());
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

    /// A notice about one background task. Only tasks of the main agent keep the turn open: a subagent waits
    /// for its own.
    fn task(&mut self, message: &Value, out: &mut Out) -> bool {
        let (id, described) = task(message);
        let status = match text(message, "subtype") {
            "task_started" => {
                let is_agents = message["owned_by_subagent"] != true
                    && message["is_backgrounded"] != false
                    && !message["parent_task_id"].is_string();
                if is_agents && !self.lists_background {
                    self.background.insert(id, described);
                }
                return true;
            }
            "task_updated" => text(&message["patch"], "status"),
            _ => text(message, "status"),
        };
        // The task's report is for the agent, which will say what matters of it. So it is no entry.
        if !matches!(status, "" | "pending" | "running") && !self.lists_background {
            self.background.remove(&id);
            self.may_end(out);
        }
        true
    }

    /// If all work in the background has ended after an answer, the CLI begins another round by itself, or
    /// the turn has ended: then it stays quiet.
    fn may_end(&self, out: &mut Out) {
        if self.is_between && self.background.is_empty() {
            let ended = TurnEnded::default();
            out.push(Observed::EndsIfQuiet(Some((vocabulary::QUIET_SECS, ended))));
        }
    }

    /// A piece of a message that streams. Those of subagents are not shown.
    fn stream_event(&mut self, message: &Value, out: &mut Out) -> bool {
        let event = &message["event"];
        let is_subagents = message["parent_tool_use_id"].is_string();
        match text(event, "type") {
            _ if is_subagents => {}
            // A text that is still open belongs to a message that the CLI gave up.
            "message_start" => self.flush(out),
            "content_block_start" => match text(&event["content_block"], "type") {
                "text" => self.streamed.begin(StreamKind::Message),
                "thinking" => self.streamed.begin(StreamKind::Thinking),
                _ => {}
            },
            "content_block_delta" => {
                let delta = &event["delta"];
                match text(delta, "type") {
                    "text_delta" => {
                        self.streamed.add(StreamKind::Message, text(delta, "text"), out);
                    }
                    "thinking_delta" => {
                        self.streamed.add(StreamKind::Thinking, text(delta, "thinking"), out);
                    }
                    // Arguments of tools and signatures come whole with the message.
                    _ => {}
                }
            }
            "content_block_stop" | "message_delta" | "message_stop" | "ping" => {}
            _ => return false,
        }
        true
    }

    /// A whole message of the model, or, if it is synthetic, of the CLI itself.
    fn assistant(&mut self, message: &Value, out: &mut Out) -> bool {
        let is_subagents = message["parent_tool_use_id"].is_string();
        let is_synthetic = message["message"]["model"] == "<synthetic>";
        let content = &message["message"]["content"];
        if is_synthetic {
            let said = plain(content);
            if message["error"].is_string() || message["isApiErrorMessage"] == true {
                self.flush(out);
                self.turn.error = Some(said);
            } else {
                out.push(system(said));
            }
            return true;
        }
        let Value::Array(blocks) = content else { return false };
        for block in blocks {
            let kind = match text(block, "type") {
                "text" => Some((StreamKind::Message, text(block, "text"))),
                "thinking" => Some((StreamKind::Thinking, text(block, "thinking"))),
                "redacted_thinking" => Some((StreamKind::Thinking, "[redacted]")),
                _ => None,
            };
            match kind {
                Some((_, said)) if is_subagents => out.push(system(format!("subagent: {said}"))),
                Some((kind, said)) => {
                    let streamed = self.streamed.whole(kind, out).unwrap_or_default();
                    let said = if said.is_empty() { streamed } else { said.to_owned() };
                    self.turn.has_spoken |= kind == StreamKind::Message;
                    if !said.is_empty() {
                        out.push(kind.entry(said));
                    }
                }
                None => self.block(block, message, out),
            }
        }
        true
    }

    /// Results of tools, and what the CLI writes in the user's name.
    fn user(&mut self, message: &Value, out: &mut Out) -> bool {
        // The CLI echoes the user's message, which the log has already.
        if message["isReplay"] == true {
            return true;
        }
        let content = &message["message"]["content"];
        match content {
            Value::String(text) => out.push(system(text.clone())),
            Value::Array(blocks) => {
                for block in blocks {
                    // The CLI wrote this text in the user's name.
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

    /// A content block: a tool call, or a result.
    fn block(&mut self, block: &Value, message: &Value, out: &mut Out) {
        let kind = text(block, "type");
        out.push(match (kind, block["id"].as_str(), block["tool_use_id"].as_str()) {
            ("tool_use" | "server_tool_use" | "mcp_tool_use", Some(id), _) => {
                let tool_name = text(block, "name");
                vocabulary::tool_use(id, tool_name, action(tool_name, &block["input"]))
            }
            (_, _, Some(id)) if kind.ends_with("tool_result") => {
                let text = plain(&block["content"]);
                let is_refused = self.turn.denied.remove(id)
                    || is_rejected(message, id)
                    || (block["is_error"] == true && text.contains("but you haven't granted it"));
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

    fn rate_limit(&mut self, info: &Value, out: &mut Out) -> bool {
        let until = info["resetsAt"].as_i64().and_then(vocabulary::from_epoch);
        let window = text(info, "rateLimitType");
        let resets = until.map(|at| format!(", it resets at {at}")).unwrap_or_default();
        match text(info, "status") {
            "allowed" => {}
            "allowed_warning" => {
                out.push(system(format!("the {window} limit is nearly reached{resets}")));
            }
            "rejected" => {
                self.turn.limit = until;
                out.push(system(format!("the {window} limit is reached{resets}")));
            }
            _ => return false,
        }
        true
    }

    /// A request of the CLI. Only permissions are supported.
    fn control_request(&self, message: &Value, out: &mut Out) -> bool {
        let (id, request) = (text(message, "request_id"), &message["request"]);
        let subtype = text(request, "subtype");
        if subtype != "can_use_tool" {
            out.push(system(format!("asked for {subtype}, which is not supported")));
            out.push(Observed::Say(control::unsupported(id, subtype)));
            return true;
        }
        let (tool_name, input) = (text(request, "tool_name"), &request["input"]);
        let action = action(tool_name, input);
        let text = title(tool_name, &action);
        let asked = Request {
            key: id.to_owned(),
            tool_call_id: request["tool_use_id"].as_str().map(ToOwned::to_owned),
            tool_name: tool_name.to_owned(),
            text,
            action,
            question: None,
            context: serde_json::json!({ "input": input }),
        };
        // Our own tools need no permission: they act for the attempt, not on the machine.
        if self.own_server.as_ref().is_some_and(|server| is_tool_of(server, tool_name)) {
            out.push(Observed::Say(control::verdict(&asked, &Verdict::Approve)));
        } else {
            out.push(system(format!("asks for permission: {}", asked.text)));
            out.push(Observed::Ask(asked));
        }
        true
    }

    /// The answer to a request of ours; only that to an interrupt says something.
    fn control_response(&mut self, response: &Value, out: &mut Out) -> bool {
        let what = &response["response"];
        self.turn.is_cancelled |= what["subtype"] == "interrupt" || what["still_queued"].is_array();
        if text(response, "subtype") == "error" {
            let id = text(response, "request_id");
            out.push(system(format!("{id} was refused: {}", text(response, "error"))));
        }
        true
    }

    /// The end of a turn or round. The order of the checks matters: an interrupted turn is also an error, and
    /// work in the background only keeps a turn open that has not failed.
    fn result(&mut self, message: &Value, at: Timestamp, out: &mut Out) -> bool {
        let subtype = text(message, "subtype");
        let noted = self.turn.error.take();
        let is_error = message["is_error"] == true
            || subtype.starts_with("error")
            || message["is_error"].is_null() && noted.is_some();
        self.flush(out);
        let said = text(message, "result");
        let tokens = self.tokens(message);
        if !is_error && !self.turn.has_spoken && !said.is_empty() {
            // Without tokens, one of the CLI's own commands answered, and not the model.
            let is_models = tokens != Tokens::default();
            let said = said.to_owned();
            out.push(if is_models { StreamKind::Message.entry(said) } else { system(said) });
        }
        tokens.report(out);
        let was_aborted = text(message, "terminal_reason").starts_with("aborted");
        if was_aborted || is_error && self.turn.is_cancelled {
            out.push(vocabulary::stopped("interrupted"));
        } else if !is_error && self.is_two_way && !self.background.is_empty() {
            self.is_between = true;
            out.push(vocabulary::goes_on(self.background.values()));
            out.push(Observed::RoundEnded);
        } else if !is_error {
            out.push(Observed::TurnEnded(TurnEnded::default()));
        } else {
            let error = error(message).or(noted).unwrap_or_else(|| subtype.replace('_', " "));
            let status = message["api_error_status"].as_u64().and_then(|n| n.try_into().ok());
            if vocabulary::is_lost_session(&error) {
                out.push(Observed::SessionLost);
            }
            vocabulary::fail(error, status, self.turn.limit, at, out);
        }
        self.turn = Turn { has_ended: true, ..Turn::default() };
        self.is_answered = self.is_two_way && !self.is_between;
        true
    }

    /// The tokens of the round that this result ends, of all models and subagents.
    fn tokens(&mut self, result: &Value) -> Tokens {
        let mut tokens = tokens(result);
        // A result without counts since the last one names the cost of the whole process.
        if result["model_usage_since_last_result"].is_null()
            && let Some(cost) = &mut tokens.cost_usd
        {
            let whole = *cost;
            *cost = (whole - self.cost_before).max(0.0);
            self.cost_before = whole;
        }
        tokens
    }
}

/// The id and the description of a task; without a description, the id twice.
fn task(task: &Value) -> (String, String) {
    let id = text(task, "task_id").to_owned();
    let described = Some(text(task, "description")).filter(|text| !text.is_empty());
    let described = described.unwrap_or(&id).to_owned();
    (id, described)
}

/// The CLI no longer waits for a permission.
fn withdraw(message: &Value, out: &mut Out) -> bool {
    let key = text(message, "request_id").to_owned();
    out.push(system("no longer asks for permission".to_owned()));
    out.push(Observed::Withdraw { key });
    true
}

/// Version, model, mode and MCP servers in one line.
fn introduction(init: &Value) -> String {
    let facts =
        ["claude_code_version", "model", "permissionMode"].map(|it| text(init, it).to_owned());
    let servers = items(init, "mcp_servers")
        .map(|server| format!("MCP {} {}", text(server, "name"), text(server, "status")));
    let facts = facts.into_iter().chain(servers).filter(|fact| !fact.is_empty());
    format!("begins: {}", facts.collect::<Vec<_>>().join(", "))
}

/// Whether the message's metadata says that permission for this call was refused.
fn is_rejected(message: &Value, id: &str) -> bool {
    items(message, "tool_result_meta")
        .any(|result| result["id"] == id && result["permission_decision"]["decision"] == "reject")
}

/// The exit code in a line `Exit code N` of a failed command's output.
fn exit_code(text: &str) -> Option<i32> {
    let code = |line: &str| {
        let (name, rest) = line.split_at_checked("Exit code".len())?;
        let is_code = name.eq_ignore_ascii_case("Exit code");
        is_code.then(|| rest.trim_start_matches(':').trim().parse().ok())?
    };
    text.lines().find_map(code)
}

/// The tokens as the result names them: by model since the last result, or in older versions as one sum.
fn tokens(result: &Value) -> Tokens {
    const MODEL: [&str; 4] =
        ["inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens"];
    const ALL: [&str; 4] =
        ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
    let of = |usage: &Value, names: [&str; 4], cost_usd: Option<f64>| {
        let [fresh, created, cached, output] = names.map(|name| count(usage, name));
        Tokens { input: fresh + created + cached, output, cached, cost_usd }
    };
    match result["model_usage_since_last_result"].as_object() {
        Some(models) => {
            let models = models.values().map(|usage| of(usage, MODEL, usage["costUSD"].as_f64()));
            models.fold(Tokens::default(), Tokens::plus)
        }
        None => of(&result["usage"], ALL, result["total_cost_usd"].as_f64()),
    }
}

/// The error's text; `None`: the result has none.
fn error(result: &Value) -> Option<String> {
    let errors = items(result, "errors").filter_map(Value::as_str);
    let errors = errors.collect::<Vec<_>>().join("; ");
    let texts = [text(result, "result"), &errors];
    texts.into_iter().find(|text| !text.is_empty()).map(ToOwned::to_owned)
}
