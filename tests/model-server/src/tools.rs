//! Finds among the tools that a request offers the one for a purpose, and makes
//! its arguments. Each CLI names both in its own way. Pure.

use serde_json::{Map, Value, json};

use crate::conversation::{Call, Input, Takes, Tool};

/// Names of tools that run a command in a shell.
const COMMAND: &[&str] = &["bash", "run_shell_command", "exec_command", "shell_command", "shell"];

/// Names of tools that begin a subagent.
const SUBAGENT: &[&str] = &["agent", "task"];

/// Names of tools that ask the person.
const QUESTION: &[&str] = &["askuserquestion", "ask_user_question", "ask_user", "question"];

/// Names of tools that write a whole file.
const WRITE: &[&str] = &["write", "write_file", "create"];

/// Codex's tool that applies a patch.
const PATCH: &str = "apply_patch";

/// Codex's tool that runs JavaScript, with all other tools as functions of `tools`.
const CODE: &str = "exec";

/// Names of tools that find tools which are not shown.
const SEARCH: &[&str] = &["toolsearch", "tool_search"];

/// Qwen's tool that calls a tool which is not shown.
const INDIRECT: &str = "tool_call";

/// Runs a command.
pub fn command(tools: &[Tool], command: &str) -> Option<Call> {
    if let Some(tool) = find(tools, COMMAND) {
        return Some(tool.with(&[
            (&["command", "cmd"], json!(command)),
            (&["description"], json!("Runs a command")),
        ]));
    }
    let code = format!(
        "const result = await tools.exec_command({{cmd: {}}}); text(result.output);",
        json!(command)
    );
    Some(text_tool(tools, CODE)?.with_text(code))
}

/// Runs a command of so many seconds in the background.
pub fn in_background(tools: &[Tool], seconds: &str) -> Option<Call> {
    let command = format!("sleep {seconds}; echo waited > waited.txt");
    Some(find(tools, COMMAND)?.with(&[
        (&["command", "cmd"], json!(command)),
        (&["description"], json!("Waits")),
        (&["runinbackground", "isbackground"], json!(true)),
    ]))
}

/// Has a subagent run a command of so many seconds.
pub fn subagent(tools: &[Tool], seconds: &str) -> Option<Call> {
    let tool = find(tools, SUBAGENT)?;
    let Takes::Arguments(schema) = &tool.takes else { return None };
    // Kimi Code has no agent for all purposes.
    let kinds = schema["properties"]["subagent_type"]["description"].as_str().unwrap_or_default();
    let kind = if kinds.contains("coder") { "coder" } else { "general-purpose" };
    Some(tool.with(&[
        (&["description"], json!("Waits")),
        (&["prompt"], json!(format!("Wait. [[wait:{seconds}]]"))),
        (&["subagenttype"], json!(kind)),
        (&["runinbackground", "isbackground"], json!(true)),
    ]))
}

/// Looks how the work is whose beginning a tool has told.
pub fn look_at(tools: &[Tool], begun: &str) -> Option<Call> {
    let (_, id) = begun.split_once("task_id: ")?;
    let id = id.split_whitespace().next()?;
    Some(find(tools, &["taskoutput"])?.with(&[(&["taskid"], json!(id))]))
}

/// Asks the person for a color: red or blue.
pub fn question(tools: &[Tool]) -> Option<Call> {
    let option =
        |label: &str| json!({"label": label, "description": format!("It becomes {label}")});
    Some(find(tools, QUESTION)?.with(&[(
        &["questions"],
        json!([{"question": "Which color?", "header": "Color",
            "options": [option("red"), option("blue")]}]),
    )]))
}

/// Writes a new file in `folder`, an absolute path.
pub fn write(tools: &[Tool], folder: &str, name: &str, content: &str) -> Option<Call> {
    if let Some(tool) = find(tools, WRITE) {
        let path = format!("{folder}/{name}");
        return Some(tool.with(&[
            (&["path", "filepath"], json!(path)),
            (&["content", "filetext"], json!(content)),
        ]));
    }
    let added = content.trim_end().replace('\n', "\n+");
    let patch = format!("*** Begin Patch\n*** Add File: {name}\n+{added}\n*** End Patch\n");
    if let Some(tool) = text_tool(tools, PATCH) {
        return Some(tool.with_text(patch));
    }
    if let Some(tool) = find(tools, &[PATCH]) {
        return Some(tool.with(&[(&["input", "patch", "patchtext"], json!(patch))]));
    }
    let code = format!("text(await tools.apply_patch({}));", json!(patch));
    Some(text_tool(tools, CODE)?.with_text(code))
}

/// Calls a tool without arguments of an MCP server, or looks for it first where
/// tools are hidden behind a search. `searched`: the search has been made.
pub fn mcp(tools: &[Tool], server: &str, name: &str, searched: bool) -> Option<Call> {
    let is_it = |tool: &&Tool| tool.name.ends_with(name);
    if let Some(tool) = tools.iter().find(is_it) {
        return Some(tool.with(&[]));
    }
    let full = format!("mcp__{server}__{name}");
    if searched {
        let tool = find(tools, &[INDIRECT])?;
        return Some(tool.with(&[(&["name"], json!(full)), (&["arguments"], json!({}))]));
    }
    if let Some(tool) = tools.iter().find(|tool| tool.takes == Takes::Search) {
        let input = Input::Search(json!({"query": name, "limit": 5}));
        return Some(Call { name: tool.name.clone(), namespace: None, input });
    }
    if let Some(tool) = find(tools, SEARCH) {
        return Some(tool.with(&[(&["query"], json!(format!("select:{full}")))]));
    }
    let code = format!("text(JSON.stringify(await tools.{full}({{}})));");
    Some(text_tool(tools, CODE)?.with_text(code))
}

/// An object or value that a JSON schema admits, as small as it goes.
#[must_use]
pub fn example(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    let kind = schema["type"].as_str().unwrap_or_default().to_lowercase();
    match kind.as_str() {
        "object" => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let required = properties.filter(|(name, _)| is_required(schema, name));
            required.map(|(name, schema)| (name.clone(), example(schema))).collect()
        }
        "array" => json!([]),
        "integer" | "number" => json!(1),
        "boolean" => json!(false),
        _ => json!("none"),
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|each| each == name))
}

/// The first tool with arguments that has one of these names.
fn find<'a>(tools: &'a [Tool], names: &[&str]) -> Option<&'a Tool> {
    let named = |name: &&str| {
        tools.iter().find(|tool| {
            matches!(tool.takes, Takes::Arguments(_)) && tool.name.eq_ignore_ascii_case(name)
        })
    };
    names.iter().find_map(named)
}

fn text_tool<'a>(tools: &'a [Tool], name: &str) -> Option<&'a Tool> {
    tools.iter().find(|tool| tool.takes == Takes::Text && tool.name == name)
}

impl Tool {
    /// A call with the values that its schema has a name for, of those given in
    /// lower case and without `_`; what else it requires is made up.
    fn with(&self, given: &[(&[&str], Value)]) -> Call {
        let Takes::Arguments(schema) = &self.takes else { return self.with_text(String::new()) };
        let value = |name: &str| {
            let plain = name.replace('_', "").to_lowercase();
            given.iter().find(|(names, _)| names.contains(&plain.as_str())).map(|(_, value)| value)
        };
        let mut arguments = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(value) = value(name) {
                arguments.insert(name.clone(), value.clone());
            } else if is_required(schema, name) {
                arguments.insert(name.clone(), example(property));
            }
        }
        let input = Input::Arguments(arguments.into());
        Call { name: self.name.clone(), namespace: self.namespace.clone(), input }
    }

    fn with_text(&self, text: String) -> Call {
        let input = Input::Text(text);
        Call { name: self.name.clone(), namespace: self.namespace.clone(), input }
    }
}
