//! Items: the tool calls and texts of a turn. An item starts, may stream text, and completes; one that
//! completes without a start is reported as if it had started too.

use std::collections::BTreeMap;

use heck::ToSnakeCase;

use crate::executors::prelude::*;

/// The items that have begun and not ended.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Items {
    /// Tool calls, by their ids.
    pub calls: BTreeMap<String, Call>,
    texts: Streamed,
}

/// A tool call that has begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    pub name: String,
    pub action: Action,
    /// Those of its arguments that are not in the action.
    text: String,
}

impl Items {
    /// An item has begun. `false`: its kind is unknown.
    pub fn started(&mut self, item: &Value, out: &mut Out) -> bool {
        if let Some(call) = call(item) {
            self.begin(item, call, out);
            return true;
        }
        is_text(item)
    }

    /// An item has ended. `false`: its kind is unknown.
    pub fn completed(&mut self, item: &Value, out: &mut Out) -> bool {
        let id = id(item);
        if let Some(call) = call(item) {
            if !self.calls.contains_key(id) {
                self.begin(item, call, out);
            }
            self.calls.remove(id);
            out.push(Observed::Entry(result(item)));
            return true;
        }
        let streamed = self.texts.whole_of(id, out);
        // An item that completes without its text has streamed the text before.
        let entry = entry(item).or(streamed);
        let is_silent = entry.is_none() && item["text"].is_null();
        out.extend(entry);
        is_text(item) && !(is_silent && item["type"] == "agentMessage")
    }

    /// More text of an item has come.
    pub fn delta(&mut self, id: &str, kind: StreamKind, delta: &str, out: &mut Out) {
        self.texts.add_to(id, kind, delta, out);
    }

    /// The turn has ended, so open items will not complete: what came of their texts becomes entries.
    pub fn flush(&mut self, out: &mut Out) {
        self.calls.clear();
        self.texts.flush(out);
    }

    fn begin(&mut self, item: &Value, call: Call, out: &mut Out) {
        out.push(Observed::Entry(Event::ToolUse {
            text: call.text.clone(),
            tool_call_id: id(item).to_owned(),
            tool_name: call.name.clone(),
            action: call.action.clone(),
        }));
        self.calls.insert(id(item).to_owned(), call);
    }
}

fn id(item: &Value) -> &str {
    text(item, "id")
}

/// The strings of an array as paragraphs.
fn paragraphs(item: &Value, list: &str) -> String {
    items(item, list).filter_map(Value::as_str).collect::<Vec<_>>().join("\n\n")
}

/// The kinds of items that are no tool calls, which [`entry`] knows.
const TEXTS: &str = "agentMessage reasoning error subAgentActivity contextCompaction \
    enteredReviewMode exitedReviewMode hookPrompt userMessage";

fn is_text(item: &Value) -> bool {
    TEXTS.split(' ').any(|kind| item["type"] == kind)
}

/// An item that is no tool call as an entry; `None`: it has no text, or its kind is unknown.
fn entry(item: &Value) -> Option<Observed> {
    let texts =
        |list| items(item, list).map(|part| text(part, "text")).collect::<Vec<_>>().join("\n");
    let line = match text(item, "type") {
        "agentMessage" => {
            let said = Some(text(item, "text")).filter(|text| !text.is_empty());
            return said.map(|text| StreamKind::Message.entry(text.to_owned()));
        }
        "reasoning" => {
            let parts = [paragraphs(item, "summary"), paragraphs(item, "content")];
            let whole = text(item, "text").to_owned();
            let mut said = parts.into_iter().chain([whole]).filter(|text| !text.is_empty());
            return said.next().map(|text| StreamKind::Thinking.entry(text));
        }
        "error" => text(item, "message").to_owned(),
        "subAgentActivity" => format!("agent {}: {}", text(item, "agentPath"), text(item, "kind")),
        "contextCompaction" => "the conversation was compacted".to_owned(),
        "enteredReviewMode" => format!("review: {}", text(item, "review")),
        "exitedReviewMode" => format!("the review: {}", text(item, "review")),
        "hookPrompt" => texts("fragments"),
        "userMessage" => texts("content"),
        _ => return None,
    };
    Some(system(line))
}

/// The tool call that an item is; `None`: it is none.
fn call(item: &Value) -> Option<Call> {
    let arguments = || match &item["arguments"] {
        Value::Null => String::new(),
        Value::Object(none) if none.is_empty() => String::new(),
        arguments => arguments.to_string(),
    };
    let (kind, detail, words) = match text(item, "type") {
        "commandExecution" => {
            (ActionKind::Command, json!({ "command": item["command"] }), String::new())
        }
        "fileChange" => (ActionKind::FileEdit, files(item), diffs(item)),
        "mcpToolCall" => {
            let input = Some(&item["arguments"]).filter(|_| !arguments().is_empty());
            let detail = json!({ "server": item["server"], "tool": item["tool"], "input": input });
            (ActionKind::Mcp, detail, arguments())
        }
        "dynamicToolCall" => (ActionKind::Other, json!({}), arguments()),
        "webSearch" => (ActionKind::WebFetch, web(item), String::new()),
        "collabAgentToolCall" => {
            let agents = json!({ "agents": item["receiverThreadIds"] });
            (ActionKind::Task, agents, text(item, "prompt").to_owned())
        }
        "plan" => (ActionKind::Plan, json!({}), text(item, "text").to_owned()),
        "imageView" => (ActionKind::FileRead, json!({ "path": item["path"] }), String::new()),
        "imageGeneration" => (ActionKind::Other, json!({}), text(item, "revisedPrompt").to_owned()),
        "sleep" => (ActionKind::Other, json!({ "ms": item["durationMs"] }), String::new()),
        _ => return None,
    };
    let action = Action { kind, detail: present(detail) }.bounded();
    Some(Call { name: name(item), action, text: words })
}

/// The fields of an object that are not null.
pub fn present(detail: Value) -> Map<String, Value> {
    let Value::Object(mut detail) = detail else { return Map::new() };
    detail.retain(|_, value| !value.is_null());
    detail
}

/// The tool's name as the model knows it, or else the item's kind.
fn name(item: &Value) -> String {
    match text(item, "type") {
        "mcpToolCall" => format!("mcp__{}__{}", text(item, "server"), text(item, "tool")),
        "dynamicToolCall" => match text(item, "namespace") {
            "" => text(item, "tool").to_owned(),
            namespace => format!("{namespace}__{}", text(item, "tool")),
        },
        "collabAgentToolCall" => text(item, "tool").to_snake_case(),
        kind => kind.to_snake_case(),
    }
}

fn changes(item: &Value) -> impl Iterator<Item = (&str, &str, &str)> {
    items(item, "changes").map(|change| {
        let kind = change["kind"].as_str().or(change["kind"]["type"].as_str());
        (text(change, "path"), kind.unwrap_or_default(), text(change, "diff"))
    })
}

fn files(item: &Value) -> Value {
    let all: Vec<Value> =
        changes(item).map(|(path, kind, _)| json!({ "path": path, "change": kind })).collect();
    let first = all.first().map(|change| change["path"].clone());
    let diff = Some(diffs(item)).filter(|diff| !diff.is_empty());
    json!({ "path": first, "changes": all, "diff": diff })
}

fn diffs(item: &Value) -> String {
    let of = |(path, kind, diff): (&str, &str, &str)| format!("{kind} {path}\n{diff}");
    changes(item).filter(|(_, _, diff)| !diff.is_empty()).map(of).collect()
}

fn web(item: &Value) -> Value {
    let query =
        Some(&item["query"]).filter(|query| !text(item, "query").is_empty() || query.is_null());
    let asked = query.filter(|query| !query.is_null()).unwrap_or(&item["action"]["query"]);
    json!({ "query": asked, "url": item["action"]["url"], "pattern": item["action"]["pattern"] })
}

/// The result of a completed tool call.
fn result(item: &Value) -> Event {
    let exit_code = item["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
    let failed = item["error"].is_object() || item["success"] == false;
    let refusal = text(&item["error"], "message");
    let status = match text(item, "status") {
        "declined" => ToolStatus::Denied,
        _ if refusal.contains("rejected MCP tool call")
            || refusal.contains("requires approval") =>
        {
            ToolStatus::Denied
        }
        "failed" | "interrupted" => ToolStatus::Failed,
        _ if failed || exit_code.is_some_and(|code| code != 0) => ToolStatus::Failed,
        _ => ToolStatus::Success,
    };
    Event::ToolResult { text: output(item), tool_call_id: id(item).to_owned(), status, exit_code }
}

/// The output of a tool call as text.
fn output(item: &Value) -> String {
    if let Some(error) = item["error"]["message"].as_str() {
        return error.to_owned();
    }
    match text(item, "type") {
        "commandExecution" => text(item, "aggregatedOutput").to_owned(),
        "mcpToolCall" => content(&item["result"], "content"),
        "dynamicToolCall" => content(item, "contentItems"),
        "collabAgentToolCall" => {
            let states = item["agentsStates"].as_object().into_iter().flatten();
            let lines = states.map(|(agent, state)| match text(state, "message") {
                "" => format!("{agent}: {}", text(state, "status")),
                message => format!("{agent}: {}: {message}", text(state, "status")),
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        "imageGeneration" => text(item, "savedPath").to_owned(),
        // What was searched is not known yet when the call begins.
        "webSearch" => {
            let asked = web(item);
            let parts = ["query", "url", "pattern"].map(|part| text(&asked, part).to_owned());
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

/// The texts of content blocks; a block without a text as JSON.
fn content(value: &Value, list: &str) -> String {
    let text = |block: &Value| block["text"].as_str().map_or(block.to_string(), str::to_owned);
    items(value, list).map(text).collect::<Vec<_>>().join("\n")
}
