//! One tool call: what an agent reports about it step by step, and the entries made of it.
//!
//! ```text
//!  new ─merge─▶ reported step by step ─is_clear, or ended─▶ report: `tool_use`, once
//!                    └─ask: a permission─▶ report ─merge─▶ ended ─▶ result: `tool_result`
//! ```

use agent_client_protocol_schema::v1::{
    ContentBlock, Diff, EmbeddedResourceResource, Meta, ToolCall, ToolCallContent, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};

use super::conversation::Quirks;
use crate::executors::action::{self, is_empty, mcp, title};
use crate::executors::call::is_tool_of;
use crate::executors::prelude::*;

/// How much of the end of a call's terminal output is kept, in bytes.
const TERMINAL_MAX: usize = 256 * 1024;

/// A call that has no result yet.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    /// All that the agent has reported, merged.
    pub known: ToolCall,
    pub name: String,
    /// The `tool_use` entry has been made.
    reported: bool,
    /// The agent has asked for permission.
    pub asked: bool,
    /// The agent has reported on the call since it asked; if it does not, the permission was denied.
    pub heard: bool,
    /// The end of what the call wrote to its terminal.
    terminal: String,
    exit_code: Option<i32>,
    /// The size of `known` as JSON, in bytes.
    #[serde(default)]
    size: usize,
}

impl Call {
    /// A call about which nothing is known but its id and name; the caller merges the update.
    pub fn new(update: &ToolCallUpdate) -> Self {
        Self {
            name: name(update),
            known: ToolCall::new(update.tool_call_id.clone(), String::new()),
            reported: false,
            asked: false,
            heard: false,
            terminal: String::new(),
            exit_code: None,
            size: 0,
        }
    }

    /// Whether the call has this id.
    pub fn is(&self, id: &str) -> bool {
        &*self.known.tool_call_id.0 == id
    }

    /// Adds what an update reports.
    pub fn merge(&mut self, update: ToolCallUpdate) {
        self.heard = true;
        let meta = update.meta.as_ref();
        let of_terminal = |name: &str| meta.and_then(|meta| meta.get(name)).unwrap_or(&Value::Null);
        if let Some(text) = of_terminal("terminal_output_delta")["data"].as_str() {
            self.terminal.push_str(text);
            let over = self.terminal.len().saturating_sub(TERMINAL_MAX);
            self.terminal.drain(..self.terminal.ceil_char_boundary(over));
        }
        let exit = of_terminal("terminal_exit")["exit_code"].as_i64();
        self.exit_code = exit.and_then(|code| i32::try_from(code).ok()).or(self.exit_code);
        // Some agents call tools of servers through another tool; then only the title has the tool's name.
        if let Some(name) = update.fields.title.as_deref().and_then(of_server) {
            self.name = name;
        }
        self.update(update.fields);
    }

    /// The agent asks for permission. What it reports about the call now is what it will do, so it replaces
    /// what was reported before. Its texts are for the person who decides, and are no output.
    pub fn ask(&mut self, fields: &ToolCallUpdateFields) {
        (self.asked, self.heard) = (true, false);
        let is_diff = |content: &ToolCallContent| matches!(content, ToolCallContent::Diff(_));
        let mut diffs = fields.content.clone().unwrap_or_default();
        diffs.retain(is_diff);
        let diffs = Some(diffs).filter(|diffs| !diffs.is_empty());
        let has_input = fields.raw_input.as_ref().is_some_and(|input| !is_empty(input));
        let mut asked = fields.clone();
        // An edit that was announced before may differ from the one asked for now.
        let is_other = has_input || diffs.is_some();
        asked.content = diffs.or_else(|| {
            let mut others = self.known.content.clone();
            others.retain(|content| !is_diff(content));
            is_other.then_some(others)
        });
        asked.raw_input = asked.raw_input.filter(|_| has_input);
        asked.title = asked.title.filter(|title| !title.is_empty());
        asked.locations = asked.locations.filter(|locations| !locations.is_empty());
        asked.status = None;
        self.update(asked);
    }

    /// The memory that it takes, in bytes.
    pub fn weight(&self) -> usize {
        self.size + self.terminal.len()
    }

    fn update(&mut self, fields: ToolCallUpdateFields) {
        let is_resized = fields.content.is_some()
            || fields.raw_input.is_some()
            || fields.raw_output.is_some()
            || fields.title.is_some()
            || fields.locations.is_some();
        self.known.update(fields);
        if is_resized {
            self.size = serde_json::to_vec(&self.known).map_or(0, |json| json.len());
        }
    }

    /// Whether the agent has reported what the call does, and not only that it prepares the call.
    pub fn is_clear(&self, is_new: bool) -> bool {
        let input = match &self.known.raw_input {
            Some(Value::Object(input)) if !input.is_empty() => input,
            // A call without input that is in progress at once has no more to report.
            _ => return is_new && self.known.status == ToolCallStatus::InProgress,
        };
        self.known.kind != ToolKind::Execute
            || ["command", "cmd"].iter().any(|name| input.contains_key(*name))
            || self.known.status != ToolCallStatus::Pending
    }

    /// The `tool_use` entry the first time, then `None`.
    pub fn report(&mut self, quirks: &Quirks) -> Option<Event> {
        if std::mem::replace(&mut self.reported, true) {
            return None;
        }
        let action = self.action(quirks);
        Some(Event::ToolUse {
            text: self.text(&action),
            tool_call_id: self.known.tool_call_id.to_string(),
            tool_name: self.name.clone(),
            action,
        })
    }

    /// A title made of the tool and what the call is about; the agent's own title where the former would
    /// only be the tool's name.
    pub fn text(&self, action: &Action) -> String {
        let title = title(&self.name, action);
        let is_vague = title == self.name && !self.known.title.is_empty();
        (if is_vague { &self.known.title } else { &title }).trim().to_owned()
    }

    /// The call's arguments, which some agents report only as a text.
    fn input(&self) -> Value {
        match &self.known.raw_input {
            Some(input) => input.clone(),
            None => serde_json::from_str(&self.content()).unwrap_or_default(),
        }
    }

    /// What the call does. In this order: the agent's kind where that is certain, a tool of a server that we
    /// gave it, the tool's name, a tool of another server, the agent's kind.
    pub fn action(&self, quirks: &Quirks) -> Action {
        let input = self.input();
        // The model may have written the name, but the agent itself sets the kind: a command must not
        // pass for something harmless.
        let sure = match self.known.kind {
            ToolKind::Execute if input["command"].is_string() => Some("bash"),
            ToolKind::Edit | ToolKind::Delete | ToolKind::Move => Some("edit"),
            _ => None,
        };
        if let Some(like) = sure {
            return self.completed(action::action(like, &input));
        }
        let own = |server| tool_of(server, &self.name);
        if let Some((server, tool)) = quirks.servers.iter().find_map(|server| own(server)) {
            return mcp(server, tool, &input);
        }
        let mut action = action::action(&self.name, &input);
        // No agent gives its own tools a name with a separator.
        let separator = quirks.mcp_separator.as_deref().unwrap_or("-");
        if action.kind == ActionKind::Other
            && (separator == "-" || self.known.kind == ToolKind::Other)
            && let Some((server, tool)) = self.name.split_once(separator)
        {
            return mcp(server, tool, &input);
        }
        if action.kind == ActionKind::Other {
            let like = match self.known.kind {
                ToolKind::Read => "read",
                ToolKind::Search => "grep",
                ToolKind::Execute => "bash",
                ToolKind::Fetch => "webfetch",
                ToolKind::SwitchMode => "exit_plan_mode",
                _ => return action,
            };
            action = action::action(like, &input);
        }
        self.completed(action)
    }

    /// Adds details that are not in the input: diffs, the path, the command. Cuts long texts.
    fn completed(&self, mut action: Action) -> Action {
        if action.kind == ActionKind::FileEdit {
            self.add_diffs(&mut action);
        }
        let missing = match action.kind {
            ActionKind::FileEdit | ActionKind::FileRead => self.path().map(|path| ("path", path)),
            ActionKind::Command => Some(("command", self.known.title.clone())),
            _ => None,
        };
        if let Some((name, value)) = missing
            && !action.detail.contains_key(name)
        {
            action.detail.insert(name.to_owned(), value.into());
        }
        action.bounded()
    }

    /// Replaces what the input says by the agent's own diffs, which are against the files' content.
    fn add_diffs(&self, action: &mut Action) {
        let files: Vec<_> = self
            .diffs()
            .map(|diff| {
                let path = diff.path.to_string_lossy().into_owned();
                (path, diff.old_text.as_deref(), diff.new_text.as_str())
            })
            .collect();
        if !files.is_empty() {
            action.detail.retain(|name, _| !matches!(name.as_str(), "diff" | "content"));
            action.detail.extend(action::of_files(&files));
        }
        let change = match self.known.kind {
            ToolKind::Delete => "delete",
            ToolKind::Move => "move",
            _ => return,
        };
        action.detail.insert("change".to_owned(), change.into());
    }

    fn diffs(&self) -> impl Iterator<Item = &Diff> {
        self.known.content.iter().filter_map(|content| match content {
            ToolCallContent::Diff(diff) => Some(diff),
            _ => None,
        })
    }

    fn path(&self) -> Option<String> {
        let in_content = self.diffs().next().map(|diff| &diff.path);
        let path = self.known.locations.first().map(|location| &location.path).or(in_content)?;
        Some(path.to_string_lossy().into_owned())
    }

    /// The `tool_result` entry: the first text that there is of output, content, terminal and changes.
    pub fn result(&self) -> Event {
        let output = self.known.raw_output.as_ref().unwrap_or(&Value::Null);
        let content = self.content();
        // Some agents format the content for a screen, and give the plain text as output.
        let is_bare = !content.starts_with("```");
        let mut texts = [words_of(output), content, self.terminal.clone(), self.changes()];
        if output.is_string() && is_bare && !texts[1].is_empty() {
            texts.swap(0, 1);
        }
        let text = texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let exit_code = self.exit_code.or(exit(output));
        let status = match self.known.status {
            ToolCallStatus::Failed if self.is_denied(&text) => ToolStatus::Denied,
            ToolCallStatus::Failed => ToolStatus::Failed,
            // Some agents report a failed command as a call that succeeded.
            _ if exit_code.is_some_and(|code| code != 0) => ToolStatus::Failed,
            _ => ToolStatus::Success,
        };
        let tool_call_id = self.known.tool_call_id.to_string();
        Event::ToolResult { text, tool_call_id, status, exit_code }
    }

    /// Whether a failed call was denied: the protocol has one status for both, so the words decide.
    fn is_denied(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let words = ["reject", "refuse", "denied", "declined", "canceled by the user"];
        self.asked && words.iter().any(|word| text.contains(word))
    }

    /// The number of lines that it changed in each file, for a call without any text.
    fn changes(&self) -> String {
        let lines = |text: &str| text.lines().count();
        let one = |diff: &Diff| {
            let before = diff.old_text.as_deref().map_or(0, lines);
            format!("{}: {before} lines, now {}", diff.path.display(), lines(&diff.new_text))
        };
        self.diffs().map(one).collect::<Vec<_>>().join("\n")
    }

    /// The texts of the call's content.
    fn content(&self) -> String {
        let texts = self.known.content.iter().filter_map(|content| match content {
            ToolCallContent::Content(content) => Some(text_of(&content.content)),
            _ => None,
        });
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// The tool's own name where the agent reports it; else a title of one word, or the tool's kind.
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

/// Reads the title `get_context (provost MCP Server): {}` as `mcp__provost__get_context`.
fn of_server(title: &str) -> Option<String> {
    let (tool, rest) = title.split_once(" (")?;
    let (server, _) = rest.split_once(" MCP Server)")?;
    let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    (is_word(tool) && is_word(server)).then(|| format!("mcp__{server}__{tool}"))
}

/// The server and its tool, in a name such as `server-tool` or `mcp__server__tool`.
fn tool_of<'a>(server: &'a str, name: &'a str) -> Option<(&'a str, &'a str)> {
    let name = name.strip_prefix("mcp").map_or(name, |rest| rest.trim_start_matches('_'));
    let rest = name.strip_prefix(server)?;
    let tool = rest.trim_start_matches(['_', '-', '.', '/', ':']);
    (tool.len() < rest.len() && !tool.is_empty()).then_some((server, tool))
}

/// Whether a request is for a tool of our own server, which is allowed without asking. Only the field
/// counts that the agent itself fills with the tool's name (`own_tools`): the model may have written the
/// others to get its permission.
pub fn is_own(request: &ToolCallUpdate, quirks: &Quirks) -> bool {
    let fields = &request.fields;
    let is_harmless = matches!(fields.kind, None | Some(ToolKind::Other));
    let title = fields.title.as_deref().unwrap_or_default();
    let in_meta = || request.meta.as_ref()?.get("toolName")?.as_str();
    let names = |server: &String| match quirks.own_tools.as_deref() {
        Some("meta") => in_meta().is_some_and(|name| is_tool_of(server, name)),
        Some("title") => is_tool_of(server, title),
        Some("id") => title.strip_suffix(&format!(" ({server} MCP Server)")).is_some_and(|tool| {
            request.tool_call_id.0.starts_with(&format!("mcp_{server}_{tool}__"))
        }),
        _ => false,
    };
    is_harmless && quirks.servers.iter().any(names)
}

/// The text of a content block; a name or an address for content of another kind.
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

/// The text in an output of any shape, empty if there is none.
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
    let in_parts = items(output, "contents");
    let mut places = [output, &output["metadata"]].into_iter().chain(in_parts);
    let code = places.find_map(|place| NAMES.iter().find_map(|name| place[*name].as_i64()))?;
    i32::try_from(code).ok()
}
