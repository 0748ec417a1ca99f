//! The client's side of `codex app-server`, JSON-RPC without the member `jsonrpc`. The id of each request
//! of ours is its key. Answers are recognised by their shape, so that recordings of other clients can be
//! read too.
//!
//! ```text
//!  begin ─initialize─▶ ─initialized, thread/start | thread/resume | thread/fork─▶ ─turn/start─▶ turn
//!                                        │ refused                                               │
//!                    SessionLost if the thread is unknown, or was to be copied                   │
//!  turn:  items, deltas, usage, requests ─▶ turn/completed: completed | interrupted | failed ◀───┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::error::Errors;
use super::item::Items;
use super::requests;
use super::usage::Meters;
use crate::executors::prelude::*;

/// The reader of one process. With a null dialogue it only reads, and sends nothing.
pub fn normalizer(dialogue: &Value) -> Box<dyn Normalizer> {
    let dialogue = Deserialize::deserialize(dialogue).ok();
    Json::reader(AppServer { dialogue, ..AppServer::default() })
}

/// What the client has to say to a process. It is stored with the process, so that the next daemon can
/// continue the conversation.
#[derive(Debug, Serialize, Deserialize)]
pub struct Dialogue {
    pub prompt: String,
    pub cwd: PathBuf,
    /// The thread to resume.
    pub resume: Option<String>,
    /// The turn continues in a copy of that thread, which itself does not change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forks: bool,
    /// `model`, `effort`, `sandbox`, `approval_policy`.
    pub options: BTreeMap<String, String>,
    /// Configuration of the thread, which overrides the user's.
    pub config: Value,
}

/// The state of the conversation with one process.
#[derive(Debug, Default, Serialize, Deserialize)]
struct AppServer {
    dialogue: Option<Dialogue>,
    /// The main thread; all others belong to sub-agents.
    thread: Option<String>,
    turn: Option<String>,
    /// Codex has echoed the turn's prompt as an item; the log has it already.
    has_prompt: bool,
    items: Items,
    meters: Meters,
    /// The keys of requests that wait for a verdict.
    asked: BTreeSet<String>,
    errors: Errors,
    /// How many plans were reported, for their ids.
    plans: u32,
    has_ended: bool,
}

impl Dialect for AppServer {
    fn begin(&mut self, out: &mut Out) {
        if self.dialogue.is_some() {
            let client = json!({ "name": "provost", "title": "Provost", "version": env!("CARGO_PKG_VERSION") });
            // Codex 0.136 to 0.149 treat `thread/resume.excludeTurns` as experimental.
            let params =
                json!({ "clientInfo": client, "capabilities": { "experimentalApi": true } });
            out.push(Observed::Say(request("initialize", "initialize", &params)));
        }
    }

    fn message(&mut self, message: &Value, at: Timestamp, out: &mut Out) -> bool {
        let (id, params) = (&message["id"], &message["params"]);
        match (message["method"].as_str(), id.is_null()) {
            (Some(method), true) => self.notification(method, params, at, out),
            (Some(method), false) => {
                self.request(method, id, params, out);
                true
            }
            (None, false) => {
                self.answer(id, message, at, out);
                true
            }
            (None, true) => false,
        }
    }

    fn end(&mut self, out: &mut Out) {
        self.items.flush(out);
        if !self.has_ended {
            out.push(vocabulary::unended());
        }
    }
}

impl AppServer {
    /// An answer to one of our requests. Each step of the conversation follows from the answer before.
    fn answer(&mut self, id: &Value, answer: &Value, at: Timestamp, out: &mut Out) {
        let result = &answer["result"];
        if let Some(text) = answer["error"]["message"].as_str() {
            let is_vital = matches!(id.as_str(), Some("initialize" | "thread" | "turn"));
            let resumes = self.dialogue.as_ref().is_some_and(|it| it.resume.is_some());
            let forks = self.dialogue.as_ref().is_some_and(|it| it.forks);
            // After other errors, such as a full disk, the thread is still there, and the next turn tries
            // again. Where a thread can't be copied, also because Codex is too old for it, a new one
            // with a recap is as good.
            if *id == "thread" && resumes && (forks || vocabulary::is_lost_session(text)) {
                out.push(Observed::SessionLost);
            }
            if is_vital {
                self.fail(text, &Value::Null, at, out);
            } else {
                out.push(system(format!("{} was refused: {text}", requests::key(id))));
            }
        } else if let Some(thread) = result["thread"]["id"].as_str() {
            self.enter(thread, out);
            let turn = self.dialogue.as_ref().map(|dialogue| dialogue.turn(thread));
            out.extend(turn.map(Observed::Say));
        } else if let Some(turn) = result["turn"]["id"].as_str() {
            self.begin_turn(turn, out);
        } else if let Some(dialogue) = self.dialogue.as_ref().filter(|_| *id == "initialize") {
            out.push(Observed::Say(message("initialized", &json!({ "method": "initialized" }))));
            out.push(Observed::Say(dialogue.thread()));
        } else if *id == "thread" && self.dialogue.is_some() {
            self.fail("it can't open a thread", &Value::Null, at, out);
        }
    }

    /// Notes the main thread, and reports its id as that of the session.
    fn enter(&mut self, thread: &str, out: &mut Out) {
        if self.thread.as_deref() != Some(thread) {
            self.thread = Some(thread.to_owned());
            out.push(Observed::ExecutorSession(thread.to_owned()));
        }
    }

    /// A turn has begun. Both the answer and a notification say so, in either order; only the first counts.
    fn begin_turn(&mut self, turn: &str, out: &mut Out) {
        if self.turn.as_deref() == Some(turn) {
            return;
        }
        self.turn = Some(turn.to_owned());
        self.has_ended = false;
        self.has_prompt = false;
        self.errors.reported = None;
        self.meters.begin();
        let params = json!({ "threadId": self.thread, "turnId": turn });
        out.push(Observed::Interrupt(Some(request("interrupt", "turn/interrupt", &params))));
    }

    /// A request of Codex: a permission is passed on; anything else gets its answer at once, because no
    /// person is at a terminal.
    fn request(&mut self, method: &str, id: &Value, params: &Value, out: &mut Out) {
        match requests::read(method, id, params, &self.items) {
            Ok(request) => {
                out.push(system(format!("asks for permission: {}", request.text)));
                self.asked.insert(request.key.clone());
                out.push(Observed::Ask(request));
            }
            Err((answer, why)) => {
                out.push(system(format!("{why}: refused, because no person is there to answer")));
                let key = format!("answer:{}", requests::key(id));
                out.push(Observed::Say(message(key, &answer)));
            }
        }
    }

    /// A notification. `false`: it is unknown. Those of other threads belong to sub-agents.
    fn notification(&mut self, method: &str, params: &Value, at: Timestamp, out: &mut Out) -> bool {
        let text = |key: &str| params[key].as_str().unwrap_or_default();
        let is_main = match (&self.thread, params["threadId"].as_str()) {
            (Some(main), Some(thread)) => main == thread,
            _ => true,
        };
        match method {
            "thread/started" if self.thread.is_none() => {
                let Some(thread) = params["thread"]["id"].as_str() else { return false };
                self.enter(thread, out);
            }
            "turn/started" if is_main => {
                self.begin_turn(params["turn"]["id"].as_str().unwrap_or_default(), out);
            }
            "turn/completed" if is_main => self.end_turn(&params["turn"], at, out),
            "item/started" => return self.items.started(&params["item"], out),
            "item/completed" => return self.item(&params["item"], is_main, params, out),
            "item/agentMessage/delta" if is_main && is_delta(params) => {
                self.items.delta(text("itemId"), StreamKind::Message, text("delta"), out);
            }
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta"
                if is_main && is_delta(params) =>
            {
                self.items.delta(text("itemId"), StreamKind::Thinking, text("delta"), out);
            }
            "item/reasoning/summaryPartAdded" if params["summaryIndex"].as_u64() > Some(0) => {
                self.items.delta(text("itemId"), StreamKind::Thinking, "\n\n", out);
            }
            "thread/tokenUsage/updated" => {
                let is_of_turn = !is_main || params["turnId"].as_str() == self.turn.as_deref();
                self.meters.note(text("threadId"), &params["tokenUsage"], is_of_turn);
                if is_of_turn {
                    out.push(self.meters.of_turn().so_far());
                }
            }
            "account/rateLimits/updated" => self.limits(&params["rateLimits"]),
            "turn/plan/updated" => self.plan(params, out),
            "serverRequest/resolved" => {
                let key = requests::key(&params["requestId"]);
                if self.asked.remove(&key) {
                    out.push(Observed::Withdraw { key });
                }
            }
            "error" if is_main && params["willRetry"] != true => {
                let error = &params["error"];
                let message = error["message"].as_str().unwrap_or_default();
                self.errors.report(message, &error["codexErrorInfo"], at, out);
            }
            _ => return notice(method, params, out),
        }
        true
    }

    /// An item that is complete.
    fn item(&mut self, item: &Value, is_main: bool, params: &Value, out: &mut Out) -> bool {
        match item["type"].as_str() {
            // The log already has the turn's own prompt and the prompts of sub-agents.
            Some("userMessage") if !is_main || !self.has_prompt => {
                self.has_prompt |= is_main;
                true
            }
            Some("agentMessage") if !is_main => {
                let agent = params["threadId"].as_str().unwrap_or_default();
                let text = item["text"].as_str().unwrap_or_default();
                out.push(system(format!("agent {agent}: {text}")));
                true
            }
            _ => self.items.completed(item, out),
        }
    }

    /// Reports a plan as a call of the tool with which the model makes it, and its result.
    fn plan(&mut self, params: &Value, out: &mut Out) {
        self.plans += 1;
        let tool_call_id = format!("plan-{}", self.plans);
        let detail = Map::from_iter([("todos".to_owned(), params["plan"].clone())]);
        out.push(Observed::Entry(Event::ToolUse {
            text: params["explanation"].as_str().unwrap_or_default().to_owned(),
            tool_call_id: tool_call_id.clone(),
            tool_name: "update_plan".to_owned(),
            action: Action { kind: ActionKind::Todo, detail },
        }));
        out.push(Observed::Entry(Event::ToolResult {
            text: steps(params, "plan", "step"),
            tool_call_id,
            status: ToolStatus::Success,
            exit_code: None,
        }));
    }

    /// Notes when the used-up limits end: the latest of the windows that are at 100 %.
    fn limits(&mut self, limits: &Value) {
        let windows = [&limits["primary"], &limits["secondary"]];
        if windows.iter().all(|window| window.is_null()) {
            return;
        }
        let reached = windows.iter().filter(|window| window["usedPercent"].as_f64() >= Some(100.0));
        let ends = reached.filter_map(|window| window["resetsAt"].as_i64()).max();
        self.errors.limited_until =
            ends.map(|secs| Timestamp::from_millis(secs.saturating_mul(1000)));
    }

    /// The turn has ended: open texts become entries, and open requests are withdrawn.
    fn end_turn(&mut self, turn: &Value, at: Timestamp, out: &mut Out) {
        self.items.flush(out);
        let asked = std::mem::take(&mut self.asked);
        out.extend(asked.into_iter().map(|key| Observed::Withdraw { key }));
        let tokens = self.meters.of_turn();
        if tokens != Tokens::default() {
            tokens.report(out);
        }
        let error = &turn["error"];
        match turn["status"].as_str() {
            Some("interrupted") => {
                self.has_ended = true;
                out.push(vocabulary::stopped("interrupted"));
            }
            Some("completed") | None if error.is_null() => {
                self.has_ended = true;
                out.push(Observed::TurnEnded(TurnEnded::default()));
            }
            status => {
                let unsaid = format!("the turn ended: {}", status.unwrap_or("failed"));
                let text = error["message"].as_str().unwrap_or(&unsaid);
                self.fail(text, &error["codexErrorInfo"], at, out);
            }
        }
    }

    /// Ends the turn with an error.
    fn fail(&mut self, message: &str, info: &Value, at: Timestamp, out: &mut Out) {
        self.has_ended = true;
        self.errors.fail(message, info, at, out);
    }
}

impl Dialogue {
    /// The request that starts, resumes or copies the thread.
    fn thread(&self) -> Message {
        let mut params = json!({
            "cwd": self.cwd,
            "model": self.options.get("model"),
            "sandbox": self.options.get("sandbox"),
            "approvalPolicy": self.options.get("approval_policy"),
            "config": self.config,
        });
        let Some(thread) = &self.resume else { return request("thread", "thread/start", &params) };
        params["threadId"] = json!(thread);
        // The log has the earlier turns; the answer need not repeat them.
        params["excludeTurns"] = json!(true);
        let method = if self.forks { "thread/fork" } else { "thread/resume" };
        request("thread", method, &params)
    }

    /// The request that gives the prompt.
    fn turn(&self, thread: &str) -> Message {
        let params = json!({
            "threadId": thread,
            "input": [{ "type": "text", "text": self.prompt }],
            "effort": self.options.get("effort"),
        });
        request("turn", "turn/start", &params)
    }
}

fn request(key: &str, method: &str, params: &Value) -> Message {
    message(key, &json!({ "id": key, "method": method, "params": params }))
}

fn is_delta(params: &Value) -> bool {
    params["itemId"].is_string() && params["delta"].is_string()
}

/// Notifications without an entry: the items report the same, or they do not concern the conversation.
const SILENT: &str = "\
    account/updated app/list/updated item/commandExecution/outputDelta \
    item/fileChange/outputDelta item/fileChange/patchUpdated item/plan/delta \
    item/reasoning/summaryPartAdded mcpServer/startupStatus/updated \
    remoteControl/status/changed skills/changed thread/closed thread/compacted \
    thread/environment/connected thread/goal/cleared thread/name/updated \
    thread/prediction/updated thread/queue/changed thread/readState/changed \
    thread/settings/updated thread/started thread/status/changed turn/completed \
    turn/diff/updated turn/moderationMetadata turn/started";

/// Makes a system message of a notification that is worth one. `false`: it is unknown, or has no text.
fn notice(method: &str, params: &Value, out: &mut Out) -> bool {
    let text = |key: &str| params[key].as_str().unwrap_or_default();
    let line = match method {
        // Errors after which Codex retries, and errors of sub-agents: none of them ends the turn.
        "error" => {
            let error = &params["error"];
            let details = error["additionalDetails"].as_str();
            let message = error["message"].as_str().unwrap_or_default();
            let line = details.map_or(message.to_owned(), |it| format!("{message} ({it})"));
            if params["willRetry"] == true {
                out.push(Observed::Retrying(line.clone()));
            }
            line
        }
        "warning" | "guardianWarning" | "item/mcpToolCall/progress" => text("message").to_owned(),
        "configWarning" | "deprecationNotice" => match text("details") {
            "" => text("summary").to_owned(),
            details => format!("{}\n{details}", text("summary")),
        },
        "modelProvider/authRecoveryStarted" | "modelProvider/authRecoveryCompleted" => {
            text("message").to_owned()
        }
        "model/rerouted" => {
            format!("the model is {} instead of {}", text("toModel"), text("fromModel"))
        }
        "mcpServer/startupStatus/updated" if !text("error").is_empty() => {
            format!("MCP server {} {}: {}", text("name"), text("status"), text("error"))
        }
        "item/commandExecution/terminalInteraction" => format!("typed: {}", text("stdin")),
        _ if SILENT.split(' ').any(|silent| silent == method) => return true,
        // Deltas of sub-agents: their messages are reported when they are complete.
        "item/agentMessage/delta"
        | "item/reasoning/summaryTextDelta"
        | "item/reasoning/textDelta" => return is_delta(params),
        _ => return false,
    };
    let is_known = !line.is_empty();
    out.extend(is_known.then(|| system(line)));
    is_known
}
