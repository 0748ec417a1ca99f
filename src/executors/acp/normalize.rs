//! Reads what an agent writes. `conversation.rs` has what the client says.
//!
//! The states of a turn after its prompt:
//!
//! ```text
//!  Prompt ─stopReason, nothing in the background──────────▶ Over: TurnEnded
//!     ├───stopReason, work in the background ─▶ is_between: RoundEnded; the agent goes on by itself
//!     │         │ the agent reports its rounds     ├ end of a round, nothing left ─▶ Over: TurnEnded
//!     │         │                                  └ quiet after the last notice ──▶ TurnEnded
//!     │         └ it does not (`is_silent_between`) ─▶ one more prompt, "wait for it" ─▶ Prompt
//!     ├───error, refusal, limit ──────────────────────────▶ Over: failed
//!     └───the process ends ───────────────────────────────▶ failed
//! ```

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, ContentChunk, PROTOCOL_LEVEL_METHOD_NAMES, PermissionOptionKind,
    RequestPermissionRequest, SessionUpdate, ToolCallUpdate,
};

use super::background::Background;
use super::call::{is_own, text_of};
use super::conversation::{Conversation, Dialogue, DialogueStage, Quirks, Stuck};
use super::tools::Calls;
use super::usage::TurnUsage;
use super::{Choice, answer, not_found, question, respond};
use crate::executors::prelude::*;

/// Most permission requests that wait for an answer; further ones are denied, so that an agent can't fill
/// the memory with them.
const ASKED_MAX: usize = 100;

/// The reader of one process. With `None` it reads a recording of another client, and sends nothing.
pub fn normalizer(dialogue: Option<Dialogue>) -> Box<dyn Normalizer> {
    let conversation = Conversation::new(dialogue);
    Json::reader(Acp { conversation, ..Acp::default() })
}

/// The state of one turn.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Acp {
    conversation: Conversation,
    calls: Calls,
    streamed: Streamed,
    /// The text that is streaming: its kind, and the agent's id of the message.
    open: Option<(StreamKind, Option<String>)>,
    /// Permission requests that are open: the agent has not reported on their calls since.
    asked: Vec<OpenRequest>,
    /// The model has written a message since the last tool call.
    spoke: bool,
    /// The last notice of the agent itself, which is not from its model.
    notice: String,
    used: TurnUsage,
    plan: String,
    background: Background,
    /// The agent has answered, and begins another round when its work in the background has ended.
    is_between: bool,
    /// It was asked to wait for that work; it is asked once.
    was_asked_to_wait: bool,
}

/// A permission request that has no answer yet.
#[derive(Debug, Serialize, Deserialize)]
struct OpenRequest {
    /// The request's id.
    id: Value,
    tool_call_id: String,
}

impl Dialect for Acp {
    fn begin(&mut self, out: &mut Out) {
        self.conversation.begin(out);
    }

    fn message(&mut self, message: &Value, at: Timestamp, out: &mut Out) -> bool {
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => self.request(id, method, &message["params"], out),
            (Some(method), None) => self.notification(method, &message["params"], out),
            (None, Some(_)) => self.answer(message, at, out),
            (None, None) => false,
        }
    }

    fn end(&mut self, out: &mut Out) {
        self.close(out);
        self.calls.report(&self.quirks(), out);
        self.used.report(out);
        match (self.is_between, self.background.is_empty()) {
            (true, false) => out.push(vocabulary::cut_off(self.background.names())),
            // It ended between two rounds without work in the background: the answer was its last.
            (true, true) => out.push(Observed::TurnEnded(TurnEnded::default())),
            _ if self.conversation.stage == DialogueStage::Over => {}
            _ => out.push(vocabulary::unended()),
        }
    }
}

impl Acp {
    /// An answer to a request of ours. One with a `stopReason` answers the prompt, whatever its id: so
    /// recordings can be read too.
    fn answer(&mut self, message: &Value, at: Timestamp, out: &mut Out) -> bool {
        let (result, error) = (message.get("result"), message.get("error"));
        let step = match (result, error) {
            (Some(result), None) if result["stopReason"].is_string() => {
                self.stopped(result, at, out);
                return true;
            }
            (_, Some(error)) => {
                let status = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
                let text = reason(error);
                if matches!(self.conversation.stage, DialogueStage::Prompt | DialogueStage::Over) {
                    self.fail(text, status, at, out);
                    return true;
                }
                self.conversation.refused(&text, error["code"].as_i64(), out)
            }
            (Some(result), None) => self.conversation.answered(result, out),
            (None, None) => return false,
        };
        if let Err(Stuck { error, auth }) = step {
            self.conversation.stage = DialogueStage::Over;
            let kind = match vocabulary::error_type(None, &error) {
                _ if auth => ErrorType::Auth,
                ErrorType::Other => ErrorType::Setup,
                kind => kind,
            };
            vocabulary::fail_as(format!("the agent can't begin: {error}"), kind, None, out);
        }
        true
    }

    /// A request of the agent. Unknown methods get "method not found", as JSON-RPC demands.
    fn request(&mut self, id: &Value, method: &str, params: &Value, out: &mut Out) -> bool {
        if method == CLIENT_METHOD_NAMES.session_request_permission
            && let Ok(request) = RequestPermissionRequest::deserialize(params)
        {
            self.permission(id, &request, out);
            return true;
        }
        // Qwen Code asks whether it may begin another round after work in the background.
        if method == "_qwencode/start_turn" && self.is_between {
            out.push(Observed::EndsIfQuiet(None));
            out.push(Observed::Say(respond(id, &json!({ "accepted": true }))));
            return true;
        }
        if self.conversation.dialogue.is_some() {
            out.push(Observed::Say(not_found(id, method)));
        }
        // Qwen Code sends it after each tool call, too often for a system message.
        if method == "craft/drainMidTurnQueue" {
            return true;
        }
        out.push(system(format!("asks for {method}, which this client does not offer")));
        true
    }

    /// A request for permission. Our own tools are allowed at once; anything else waits for a verdict.
    fn permission(&mut self, id: &Value, request: &RequestPermissionRequest, out: &mut Out) {
        self.close(out);
        let quirks = self.quirks();
        let option = |kinds: [PermissionOptionKind; 2]| {
            let of_kind = |kind| request.options.iter().find(|option| option.kind == kind);
            kinds.into_iter().find_map(of_kind).map(|option| option.option_id.to_string())
        };
        let question = question::read(request);
        let choice = Choice {
            id: id.clone(),
            allow: option([PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways]),
            reject: option([PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways]),
            answers: question.as_ref().map(|it| it.answers.clone()).unwrap_or_default(),
            questions: question.as_ref().map_or(0, |it| it.questions),
        };
        let mut asked = self.calls.asks(id, json!(choice), &request.tool_call, &quirks, out);
        let tool_call_id = request.tool_call.tool_call_id.to_string();
        if is_own(&request.tool_call, &quirks) {
            self.calls.allowed(&tool_call_id);
            out.extend(answer(&asked, &Verdict::Approve).map(Observed::Say));
            return;
        }
        let what = if let Some(question) = question {
            (asked.text, asked.question) = (question.text, Some(question.question));
            "an answer"
        } else {
            "permission"
        };
        out.push(system(format!("asks for {what}: {}", asked.text)));
        if self.asked.len() >= ASKED_MAX {
            let denied = Verdict::Deny { reason: String::new() };
            out.push(system("denied: too many requests wait for an answer".to_owned()));
            out.extend(answer(&asked, &denied).map(Observed::Say));
            return;
        }
        self.asked.push(OpenRequest { id: id.clone(), tool_call_id });
        out.push(Observed::Ask(asked));
        self.report_interrupt(out);
    }

    fn notification(&mut self, method: &str, params: &Value, out: &mut Out) -> bool {
        if method == CLIENT_METHOD_NAMES.session_update {
            return self.updated(params, out);
        }
        if method == PROTOCOL_LEVEL_METHOD_NAMES.cancel_request {
            let id = &params["requestId"];
            out.push(Observed::Withdraw { key: id.to_string() });
            self.asked.retain(|asked| asked.id != *id);
            self.report_interrupt(out);
            return true;
        }
        if method == "_qwencode/end_turn" && self.is_between {
            self.close(out);
            self.used.report(out);
            self.round_ended(out);
            return true;
        }
        // Qwen Code sends this beside `current_mode_update`.
        method == "qwen/notify/session/mode-update"
    }

    /// An update of the session. `false`: no entry, or not a complete one, can be made of it.
    fn updated(&mut self, params: &Value, out: &mut Out) -> bool {
        let update = &params["update"];
        let is_early =
            !matches!(self.conversation.stage, DialogueStage::Prompt | DialogueStage::Over);
        // A replay of earlier turns: the log has them, and only the cost counts.
        if is_early && self.conversation.replays {
            if update["sessionUpdate"] == "usage_update" {
                self.used.costed(&update["cost"]);
            }
            return true;
        }
        if !is_early
            && self.conversation.session.is_none()
            && let Some(id) = params["sessionId"].as_str()
        {
            self.conversation.session = Some(id.to_owned());
            out.push(Observed::ExecutorSession(id.to_owned()));
        }
        match update["sessionUpdate"].as_str() {
            Some("tool_call" | "tool_call_update") => {
                let Ok(read) = ToolCallUpdate::deserialize(update) else { return false };
                let is_whole = is_whole(update, &read);
                self.called(read, out);
                is_whole
            }
            _ => match SessionUpdate::deserialize(update) {
                Ok(update) => self.update(update, is_early, out),
                Err(_) => false,
            },
        }
    }

    /// An update that is no tool call; `is_early`: it came before the prompt was sent. `false`: no entry can
    /// be made of it.
    fn update(&mut self, update: SessionUpdate, is_early: bool, out: &mut Out) -> bool {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) if is_early => {
                out.push(system(text_of(&chunk.content)));
            }
            SessionUpdate::AgentMessageChunk(chunk)
                if self.background.see_notice(chunk.meta.as_ref()) =>
            {
                self.noticed(&chunk, out);
            }
            SessionUpdate::AgentMessageChunk(chunk) => {
                if let Some(usage) = chunk.meta.as_ref().and_then(|meta| meta.get("usage")) {
                    self.used.add(usage, out);
                }
                self.chunk(StreamKind::Message, &chunk, out);
            }
            SessionUpdate::AgentThoughtChunk(chunk) => {
                self.chunk(StreamKind::Thinking, &chunk, out);
            }
            // The agent echoes the prompt, which the log has already.
            SessionUpdate::UserMessageChunk(chunk) => {
                let text = text_of(&chunk.content);
                let dialogue = self.conversation.dialogue.as_ref();
                return dialogue.is_some_and(|dialogue| dialogue.prompt.contains(&text));
            }
            SessionUpdate::Plan(plan) => {
                let plan = format!("plan:\n{}", steps(&json!(plan), "entries", "content"));
                if plan != self.plan {
                    self.close(out);
                    self.plan.clone_from(&plan);
                    out.push(system(plan));
                }
            }
            SessionUpdate::CurrentModeUpdate(mode) if !is_early => {
                self.close(out);
                out.push(system(format!("mode: {}", mode.current_mode_id)));
            }
            SessionUpdate::UsageUpdate(usage) => {
                if let Some(cost) = usage.cost.filter(|cost| cost.currency == "USD") {
                    self.used.costs(cost.amount, self.conversation.replays);
                }
            }
            // Lists of what can be chosen, and titles of the session.
            SessionUpdate::CurrentModeUpdate(_)
            | SessionUpdate::AvailableCommandsUpdate(_)
            | SessionUpdate::ConfigOptionUpdate(_)
            | SessionUpdate::SessionInfoUpdate(_) => {}
            SessionUpdate::Notice(notice) => {
                self.close(out);
                let description = notice.description.unwrap_or_default();
                out.push(system(format!("{}\n{description}", notice.title).trim_end().to_owned()));
            }
            _ => return false,
        }
        true
    }

    /// Work in the background has ended. Qwen Code says so twice, the second time when it begins another
    /// round; only the first becomes an entry.
    fn noticed(&mut self, chunk: &ContentChunk, out: &mut Out) {
        self.close(out);
        let source = chunk.meta.as_ref().and_then(|meta| meta.get("source"));
        if source == Some(&json!("background_task_completed")) {
            out.push(system(text_of(&chunk.content)));
            if self.is_between && self.background.is_empty() {
                let quiet = (vocabulary::QUIET_SECS, TurnEnded::default());
                out.push(Observed::EndsIfQuiet(Some(quiet)));
            }
        }
    }

    /// A piece of a message or thought. Pieces belong together while kind and id stay the same.
    fn chunk(&mut self, kind: StreamKind, chunk: &ContentChunk, out: &mut Out) {
        let text = text_of(&chunk.content);
        let quirks = self.quirks();
        let is_message = kind == StreamKind::Message;
        let mut of_agent = quirks.notice_prefix.iter().flat_map(|prefixes| prefixes.split('|'));
        if is_message && of_agent.any(|prefix| text.starts_with(prefix)) {
            self.close(out);
            self.notice.clone_from(&text);
            out.push(system(text));
            return;
        }
        let id = chunk.message_id.as_ref().map(ToString::to_string);
        let is_more = self.open.as_ref().is_some_and(|open| *open == (kind, id.clone()));
        if text.is_empty() || !is_more && !is_message && text.trim().is_empty() {
            return;
        }
        if !is_more || quirks.failure(&text).is_some() {
            self.close(out);
        }
        self.open = Some((kind, id));
        self.spoke |= is_message;
        self.streamed.add(kind, &text, out);
    }

    /// An update of a tool call, which also says that its permission is no longer waited for.
    fn called(&mut self, update: ToolCallUpdate, out: &mut Out) {
        let before = self.asked.len();
        self.asked.retain(|asked| asked.tool_call_id != *update.tool_call_id.0);
        let mut entries = Vec::new();
        self.calls.update(update, &self.quirks(), &mut entries);
        for entry in &entries {
            if let Observed::Entry(Event::ToolResult { text, .. }) = entry {
                self.background.see_result(text);
            }
        }
        if !entries.is_empty() {
            self.close(out);
            self.spoke = false;
            out.append(&mut entries);
        }
        if self.asked.len() < before {
            self.report_interrupt(out);
        }
    }

    fn quirks(&self) -> Quirks {
        let dialogue = self.conversation.dialogue.as_ref();
        dialogue.map(|dialogue| dialogue.quirks.clone()).unwrap_or_default()
    }

    /// Makes an entry of what was streamed: anything else follows it in the log.
    fn close(&mut self, out: &mut Out) {
        self.open = None;
        self.streamed.flush(out);
    }

    /// The interrupt names all open requests, so it changes with them.
    fn report_interrupt(&self, out: &mut Out) {
        if self.conversation.dialogue.is_some() {
            let asked: Vec<Value> = self.asked.iter().map(|asked| asked.id.clone()).collect();
            out.push(Observed::Interrupt(self.conversation.cancel(&asked)));
        }
    }

    /// The answer to the prompt: the end of the turn, or of a round.
    fn stopped(&mut self, result: &Value, at: Timestamp, out: &mut Out) {
        self.used.answer(result);
        let quirks = self.quirks();
        let reason = result["stopReason"].as_str().unwrap_or_default();
        if let Some(text) = self.streamed.whole(StreamKind::Message, out) {
            if let Some(failure) = quirks.failure(&text) {
                self.fail(failure, None, at, out);
                return;
            }
            out.push(StreamKind::Message.entry(text));
        }
        self.close(out);
        let silent = quirks.silence_is_failure && !self.spoke;
        let is_full = silent && self.notice.starts_with("Compact");
        if reason != "cancelled" {
            self.calls.end(&quirks, out);
        }
        self.used.report(out);
        if reason == "end_turn"
            && self.conversation.dialogue.is_some()
            && !self.background.is_empty()
        {
            self.round_ended(out);
            return;
        }
        self.over();
        let error = match reason {
            "end_turn" if is_full => {
                "the agent ended its turn without a message once it had made its context shorter: \
                 the context window is full"
            }
            "end_turn" if silent => {
                "the agent ended its turn without a message: its model failed or can't be reached"
            }
            "max_tokens" => "the model reached its limit of tokens",
            "max_turn_requests" => "the turn reached the agent's limit of requests to the model",
            "refusal" => "the model refused to continue",
            "cancelled" => return out.push(vocabulary::stopped("cancelled")),
            "end_turn" => return out.push(Observed::TurnEnded(TurnEnded::default())),
            other => {
                out.push(system(format!("the turn ended: {other}")));
                return out.push(Observed::TurnEnded(TurnEnded::default()));
            }
        };
        let kind = if is_full { ErrorType::Context } else { ErrorType::Other };
        vocabulary::fail_as(error.to_owned(), kind, None, out);
    }

    /// A round has ended. The turn goes on while the agent has work in the background.
    fn round_ended(&mut self, out: &mut Out) {
        self.spoke = false;
        if self.background.is_empty() {
            self.is_between = false;
            self.over();
            out.push(Observed::TurnEnded(TurnEnded::default()));
        } else if !self.quirks().is_silent_between {
            self.is_between = true;
            out.push(vocabulary::goes_on(self.background.names()));
            out.push(Observed::RoundEnded);
        } else if std::mem::replace(&mut self.was_asked_to_wait, true) {
            self.over();
            out.push(vocabulary::cut_off(self.background.names()));
        } else {
            let names: Vec<&str> = self.background.names().map(String::as_str).collect();
            self.conversation.wait_for_background(&names.join("; "), out);
        }
    }

    fn fail(&mut self, error: String, status: Option<u16>, at: Timestamp, out: &mut Out) {
        self.close(out);
        self.used.report(out);
        self.over();
        vocabulary::fail(error, status, None, at, out);
    }

    /// Notes that the turn has ended.
    fn over(&mut self) {
        self.conversation.stage = DialogueStage::Over;
        self.spoke = false;
        self.notice.clear();
        self.asked.clear();
    }
}

/// Whether the typed update has all that the message had: the types drop what they do not know.
fn is_whole(update: &Value, read: &ToolCallUpdate) -> bool {
    let given = update["content"].as_array().map_or(0, Vec::len);
    given == read.fields.content.as_ref().map_or(0, Vec::len)
        && update["status"].is_string() == read.fields.status.is_some()
}

/// The message of an error, with details, which agents put into different members.
fn reason(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or_default();
    let data = &error["data"];
    let places =
        [data, &data["details"], &data["message"], &data["error"], &data["error"]["message"]];
    let details = places.into_iter().find_map(Value::as_str).unwrap_or_default();
    // These messages are only JSON-RPC's names of codes, so the details say more.
    let names = ["Internal error", "Invalid params", "Invalid request", ""];
    let message = message.strip_prefix("Internal error: ").unwrap_or(message);
    match (names.contains(&message), details) {
        (_, "") if message.is_empty() => error.to_string(),
        (_, "") => inner_message(message),
        (true, details) => inner_message(details),
        (false, details) if message.contains(details) => inner_message(message),
        (false, details) => format!("{}: {details}", inner_message(message)),
    }
}
