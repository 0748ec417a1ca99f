//! Tool calls: what an agent tells of one bit by bit becomes one `tool_use`, as
//! soon as it tells what it does, and one `tool_result`, when it is done.

use std::collections::BTreeSet;

use agent_client_protocol_schema::v1::{
    ContentBlock, Diff, EmbeddedResourceResource, Meta, ToolCall, ToolCallContent, ToolCallStatus,
    ToolCallUpdate, ToolKind,
};
use provost_actors::event::{Action, ActionKind, Event, ToolStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::executors::words;

/// The tool calls of a turn.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Calls {
    /// Those without a result, in the order they began.
    open: Vec<Call>,
    /// Those with one: what is told of them later is not told again.
    done: BTreeSet<String>,
}

/// One without a result.
#[derive(Debug, Serialize, Deserialize)]
struct Call {
    told_of: ToolCall,
    name: String,
    /// Its `tool_use` has been told.
    told: bool,
    /// A permission has been asked for.
    asked: bool,
    /// Something was heard of it since.
    heard: bool,
    /// What it wrote to its terminal.
    terminal: String,
    exit_code: Option<i32>,
}

impl Calls {
    /// What the agent tells of a call: a new one, or more of one.
    pub fn update(&mut self, update: ToolCallUpdate, servers: &[String], out: &mut Vec<Event>) {
        let id = update.tool_call_id.to_string();
        if self.done.contains(&id) {
            return;
        }
        let is_new = !self.open.iter().any(|call| call.is(&id));
        let call = self.call(&update);
        call.merge(update);
        let status = call.told_of.status;
        let ended = matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
        if ended || call.tells_enough(is_new) {
            out.extend(call.tell(servers));
        }
        if ended {
            out.push(call.result());
            self.open.retain(|call| !call.is(&id));
            self.done.insert(id);
        }
    }

    /// The agent waits for a permission for a call. What it does.
    pub fn asks(
        &mut self,
        update: &ToolCallUpdate,
        servers: &[String],
        out: &mut Vec<Event>,
    ) -> Asked {
        let call = self.call(update);
        if call.told_of.raw_input.is_none() {
            call.told_of.raw_input.clone_from(&update.fields.raw_input);
        }
        (call.asked, call.heard) = (true, false);
        out.extend(call.tell(servers));
        let action = call.action(servers);
        let text = call.text(&action);
        Asked { id: call.told_of.tool_call_id.to_string(), name: call.name.clone(), text, action }
    }

    /// Those that were only being prepared.
    pub fn tell(&mut self, servers: &[String], out: &mut Vec<Event>) {
        out.extend(self.open.iter_mut().filter_map(|call| call.tell(servers)));
    }

    /// The turn has ended by itself: what was asked for and not heard of again was
    /// denied, and of the rest there is nothing to tell.
    pub fn end(&mut self, servers: &[String], out: &mut Vec<Event>) {
        self.tell(servers, out);
        for call in std::mem::take(&mut self.open) {
            if call.asked && !call.heard {
                let tool_call_id = call.told_of.tool_call_id.to_string();
                let (text, status) = (String::new(), ToolStatus::Denied);
                out.push(Event::ToolResult { text, tool_call_id, status, exit_code: None });
            }
        }
        self.done.clear();
    }

    /// The open call that an update is about.
    fn call(&mut self, update: &ToolCallUpdate) -> &mut Call {
        let id = update.tool_call_id.to_string();
        let known = self.open.iter().position(|call| call.is(&id));
        let at = known.unwrap_or_else(|| {
            self.open.push(Call::new(update));
            self.open.len() - 1
        });
        &mut self.open[at]
    }
}

/// What a permission is asked for.
pub struct Asked {
    pub id: String,
    pub name: String,
    pub text: String,
    pub action: Action,
}

impl Call {
    fn new(update: &ToolCallUpdate) -> Self {
        let title = update.fields.title.clone().unwrap_or_default();
        let call = ToolCall::new(update.tool_call_id.clone(), title);
        let mut call = Self {
            name: name(update),
            told_of: call,
            told: false,
            asked: false,
            heard: false,
            terminal: String::new(),
            exit_code: None,
        };
        call.merge(update.clone());
        call
    }

    fn is(&self, id: &str) -> bool {
        &*self.told_of.tool_call_id.0 == id
    }

    fn merge(&mut self, update: ToolCallUpdate) {
        self.heard = true;
        let meta = update.meta.as_ref();
        let of_terminal = |name: &str| meta.and_then(|meta| meta.get(name)).unwrap_or(&Value::Null);
        if let Some(text) = of_terminal("terminal_output_delta")["data"].as_str() {
            self.terminal.push_str(text);
        }
        let exit = of_terminal("terminal_exit")["exit_code"].as_i64();
        self.exit_code = exit.and_then(|code| i32::try_from(code).ok()).or(self.exit_code);
        // A tool that was found by a search is called through another.
        if let Some(name) = update.fields.title.as_deref().and_then(of_server) {
            self.name = name;
        }
        self.told_of.update(update.fields);
    }

    /// It is told what it does, not only that it is being prepared.
    fn tells_enough(&self, is_new: bool) -> bool {
        let input = match &self.told_of.raw_input {
            Some(Value::Object(input)) if !input.is_empty() => input,
            // It begins with all that will be told.
            _ => return is_new && self.told_of.status == ToolCallStatus::InProgress,
        };
        self.told_of.kind != ToolKind::Execute
            || ["command", "cmd"].iter().any(|name| input.contains_key(*name))
            || self.told_of.status != ToolCallStatus::Pending
    }

    fn tell(&mut self, servers: &[String]) -> Option<Event> {
        if std::mem::replace(&mut self.told, true) {
            return None;
        }
        let action = self.action(servers);
        Some(Event::ToolUse {
            text: self.text(&action),
            tool_call_id: self.told_of.tool_call_id.to_string(),
            tool_name: self.name.clone(),
            action,
        })
    }

    fn text(&self, action: &Action) -> String {
        let is_vague = action.detail.is_empty() && !self.told_of.title.is_empty();
        let title =
            if is_vague { self.told_of.title.clone() } else { words::title(&self.name, action) };
        title.trim().to_owned()
    }

    /// Its arguments; some agents tell them only as a text.
    fn input(&self) -> Value {
        match &self.told_of.raw_input {
            Some(input) => input.clone(),
            None => serde_json::from_str(&self.content()).unwrap_or_default(),
        }
    }

    fn action(&self, servers: &[String]) -> Action {
        if let Some((server, tool)) = servers.iter().find_map(|server| tool_of(server, &self.name))
        {
            return words::mcp(server, tool);
        }
        let input = self.input();
        let mut action = words::action(&self.name, &input);
        if action.kind == ActionKind::Other
            && let Some((server, tool)) = self.name.split_once('-')
        {
            // No agent's own tools have such a name.
            return words::mcp(server, tool);
        }
        if action.kind == ActionKind::Other {
            let like = match self.told_of.kind {
                ToolKind::Read => "read",
                ToolKind::Edit | ToolKind::Delete | ToolKind::Move => "edit",
                ToolKind::Search => "grep",
                ToolKind::Execute => "bash",
                ToolKind::Fetch => "webfetch",
                ToolKind::SwitchMode => "exit_plan_mode",
                _ => return action,
            };
            action = words::action(like, &input);
        }
        let missing = match action.kind {
            ActionKind::FileEdit | ActionKind::FileRead => self.path().map(|path| ("path", path)),
            ActionKind::Command => Some(("command", self.told_of.title.clone())),
            _ => None,
        };
        if let Some((name, value)) = missing.filter(|_| action.detail.is_empty()) {
            action.detail = Map::from_iter([(name.to_owned(), value.into())]);
        }
        action
    }

    fn path(&self) -> Option<String> {
        let in_content = self.told_of.content.iter().find_map(|content| match content {
            ToolCallContent::Diff(diff) => Some(&diff.path),
            _ => None,
        });
        let path = self.told_of.locations.first().map(|location| &location.path).or(in_content)?;
        Some(path.to_string_lossy().into_owned())
    }

    fn result(&self) -> Event {
        let output = self.told_of.raw_output.as_ref().unwrap_or(&Value::Null);
        let content = self.content();
        // Some agents dress up for a screen what they give bare as the output.
        let is_bare = !content.starts_with("```");
        let mut texts = [words_of(output), content, self.terminal.clone(), self.changes()];
        if output.is_string() && is_bare && !texts[1].is_empty() {
            texts.swap(0, 1);
        }
        let text = texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let status = match self.told_of.status {
            ToolCallStatus::Failed if self.is_denied(&text) => ToolStatus::Denied,
            ToolCallStatus::Failed => ToolStatus::Failed,
            _ => ToolStatus::Success,
        };
        let tool_call_id = self.told_of.tool_call_id.to_string();
        Event::ToolResult { text, tool_call_id, status, exit_code: self.exit_code.or(exit(output)) }
    }

    /// The protocol has one status for what failed and what was denied.
    fn is_denied(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let told = ["reject", "refuse", "denied", "declined"];
        self.asked && told.iter().any(|word| text.contains(word))
    }

    /// What it changed, for want of words of its own.
    fn changes(&self) -> String {
        let diffs = self.told_of.content.iter().filter_map(|content| match content {
            ToolCallContent::Diff(diff) => Some(diff),
            _ => None,
        });
        let lines = |text: &str| text.lines().count();
        let one = |diff: &Diff| {
            let before = diff.old_text.as_deref().map_or(0, lines);
            format!("{}: {before} lines, now {}", diff.path.display(), lines(&diff.new_text))
        };
        diffs.map(one).collect::<Vec<_>>().join("\n")
    }

    /// The texts of its content.
    fn content(&self) -> String {
        let texts = self.told_of.content.iter().filter_map(|content| match content {
            ToolCallContent::Content(content) => Some(text_of(&content.content)),
            _ => None,
        });
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// The tool's own name, where it is told: else the word that is its title, or the
/// kind of tool that it is.
fn name(update: &ToolCallUpdate) -> String {
    let fields = &update.fields;
    let is_word = |name: &&str| !name.is_empty() && !name.contains([' ', '/', '…', '(']);
    let in_meta = |meta: &Meta| {
        let own = meta.get("toolName").or_else(|| meta.get("claudeCode")?.get("toolName"));
        own.and_then(Value::as_str).map(str::to_owned)
    };
    let in_id = update.tool_call_id.0.split_once("__").map(|(name, _)| name).filter(is_word);
    let kind = || serde_json::to_value(fields.kind.unwrap_or_default()).ok();
    (fields.name.clone())
        .or_else(|| update.meta.as_ref().and_then(in_meta))
        .or_else(|| fields.title.as_deref().and_then(of_server))
        .or_else(|| in_id.map(str::to_owned))
        .or_else(|| fields.title.as_deref().filter(is_word).map(str::to_owned))
        .or_else(|| kind()?.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// `get_context (provost MCP Server): {}`
fn of_server(title: &str) -> Option<String> {
    let (tool, rest) = title.split_once(" (")?;
    let (server, _) = rest.split_once(" MCP Server)")?;
    let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    (is_word(tool) && is_word(server)).then(|| format!("mcp__{server}__{tool}"))
}

/// The tool of a server that an agent calls `server-tool`, `mcp__server__tool` or
/// something in between.
fn tool_of<'a>(server: &'a str, name: &'a str) -> Option<(&'a str, &'a str)> {
    let name = name.strip_prefix("mcp").map_or(name, |rest| rest.trim_start_matches('_'));
    let rest = name.strip_prefix(server)?;
    let tool = rest.trim_start_matches(['_', '-', '.', '/', ':']);
    (tool.len() < rest.len() && !tool.is_empty()).then_some((server, tool))
}

/// The text of a block of content; what is no text is named.
pub fn text_of(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[image {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[audio {}]", audio.mime_type),
        ContentBlock::ResourceLink(link) => link.uri.clone(),
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => text.text.clone(),
            EmbeddedResourceResource::BlobResourceContents(blob) => blob.uri.clone(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// The text in an output of any shape.
fn words_of(output: &Value) -> String {
    const NAMES: [&str; 7] = ["output", "text", "content", "message", "error", "stdout", "result"];
    match output {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(words_of).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(fields) => {
            let texts = NAMES.iter().filter_map(|name| fields.get(*name)).map(words_of);
            texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// The exit code in an output of any shape.
fn exit(output: &Value) -> Option<i32> {
    const NAMES: [&str; 3] = ["exitCode", "exit_code", "exit"];
    let in_parts = output["contents"].as_array().into_iter().flatten();
    let mut places = [output, &output["metadata"]].into_iter().chain(in_parts);
    let code = places.find_map(|place| NAMES.iter().find_map(|name| place[*name].as_i64()))?;
    i32::try_from(code).ok()
}
