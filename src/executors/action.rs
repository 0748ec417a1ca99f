//! What a tool call does, derived from the tool's name and input: its kind and what it is about; and,
//! for the person who permits it, what an edit would write, or the input of an unknown tool. Pure.

use provost_actors::event::{Action, ActionKind};
use serde_json::{Map, Value};

/// Unchanged lines in a diff, before and after the changed ones.
const CONTEXT: usize = 3;

/// The CLIs' names of the fields with a patch, and with a file's new content.
const PATCHES: [&str; 5] = ["diff", "patch", "patchText", "patch_text", "input"];
const CONTENTS: [&str; 5] = ["content", "contents", "file_text", "fileText", "new_source"];
/// Their names of the fields with a text and its replacement.
const REPLACED: [(&str, &str); 3] =
    [("old_string", "new_string"), ("oldString", "newString"), ("old_str", "new_str")];

/// The CLIs' names of tools, separated by blanks, and the field of [`SPELLINGS`] that says what a call is
/// about. Names differ in letter case between CLIs.
const TOOLS: &[(ActionKind, &str, &str)] = &[
    (ActionKind::FileEdit, "path", "Write Edit MultiEdit NotebookEdit write_file replace edit"),
    (ActionKind::FileEdit, "path", "notebook_edit write multiedit create str_replace"),
    (ActionKind::FileEdit, "path", "str_replace_editor apply_patch patch file_change editor"),
    (ActionKind::FileRead, "path", "Read NotebookRead ReadMediaFile read_file read_many_files"),
    (ActionKind::FileRead, "path", "read view view_image zoom_image"),
    (ActionKind::Command, "command", "Bash BashOutput exec_command run_shell_command shell bash"),
    (ActionKind::Command, "command", "local_shell run_commands write_stdin"),
    (ActionKind::Search, "query", "Grep grep_search search_file_content grep search_codebase rg"),
    (ActionKind::Search, "query", "codesearch Glob glob LS list_directory list ls"),
    (ActionKind::WebFetch, "query", "WebSearch web_search google_web_search websearch SearchWeb"),
    (ActionKind::WebFetch, "url", "WebFetch web_fetch webfetch FetchURL fetch_web_content fetch"),
    (ActionKind::Todo, "", "TodoWrite TaskCreate TaskUpdate TaskList TaskGet write_todos"),
    (ActionKind::Todo, "", "todo_write todowrite todoread TodoList update_plan"),
    (ActionKind::Plan, "", "EnterPlanMode ExitPlanMode enter_plan_mode exit_plan_mode plan_enter"),
    (ActionKind::Plan, "", "plan_exit"),
    (ActionKind::Task, "description", "Agent Task agent task spawn_agent invoke_agent"),
];

/// The CLIs' names of those fields; the first that a call has counts.
const SPELLINGS: [(&str, &str); 5] = [
    ("path", "path file_path filePath filepath notebook_path absolute_path file_name fileName"),
    ("command", "command cmd script"),
    ("query", "query pattern path"),
    ("url", "url prompt"),
    ("description", "description title prompt"),
];

/// What a tool call does, with the text that it would write. An unknown tool is `Other`, with its input.
/// Long texts are cut (`Action::bounded`).
pub fn action(tool_name: &str, input: &Value) -> Action {
    if let Some((server, tool)) = mcp_name(tool_name) {
        return mcp(server, tool, input);
    }
    // Some agents find tools by a search, and call a found one through the tool `tool_call`.
    if let ("tool_call", Some(name)) = (tool_name, input["name"].as_str()) {
        return action(name, &input["arguments"]);
    }
    let known = TOOLS.iter().find(|(_, _, names)| names.split(' ').any(|it| it == tool_name));
    let (kind, detail, _) = known.copied().unwrap_or((ActionKind::Other, "", ""));
    let names = SPELLINGS.iter().filter(|(name, _)| *name == detail);
    let mut names = names.flat_map(|(_, names)| names.split(' '));
    let value = names.find_map(|name| match &input[name] {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    });
    let detail = value.map(|value| (detail.to_owned(), Value::from(value)));
    with_effect(Action { kind, detail: detail.into_iter().collect() }, input)
}

/// A call of a tool of an MCP server.
pub fn mcp(server: &str, tool: &str, input: &Value) -> Action {
    let detail = [("server", server), ("tool", tool)];
    let detail = detail.map(|(name, value)| (name.to_owned(), Value::from(value)));
    with_effect(Action { kind: ActionKind::Mcp, detail: Map::from_iter(detail) }, input)
}

/// Server and tool in a name such as `mcp__server__tool` or `mcp_server_tool`.
fn mcp_name(name: &str) -> Option<(&str, &str)> {
    match name.strip_prefix("mcp__") {
        Some(rest) => rest.split_once("__"),
        // The server's name is assumed to have no `_`.
        None => name.strip_prefix("mcp_")?.split_once('_'),
    }
}

/// The short fields of an action's detail, in the order of a title.
const ABOUT: [&str; 7] = ["server", "tool", "path", "command", "query", "url", "description"];

/// What a call is about, in a few words: `Write /w/a.txt`, `provost get_context`.
pub fn title(tool_name: &str, action: &Action) -> String {
    let about = ABOUT.iter().filter_map(|name| action.detail.get(*name)?.as_str());
    let name = Some(tool_name).filter(|_| action.kind != ActionKind::Mcp);
    name.into_iter().chain(about).collect::<Vec<_>>().join(" ")
}

/// Adds what the call's input says about its effect, and cuts long texts.
fn with_effect(mut action: Action, input: &Value) -> Action {
    match action.kind {
        ActionKind::FileEdit => {
            action.detail.extend(written(input));
            if input["replace_all"] == true || input["replaceAll"] == true {
                action.detail.insert("replace_all".to_owned(), true.into());
            }
        }
        ActionKind::Mcp | ActionKind::Other if !is_empty(input) => {
            action.detail.insert("input".to_owned(), input.clone());
        }
        _ => {}
    }
    action.bounded()
}

/// The field that says what the edit of a file would write: a `diff`, or the whole `content`.
fn written(input: &Value) -> Option<(String, Value)> {
    let text = |names: &[&str]| names.iter().find_map(|name| input[*name].as_str());
    let patch = input.as_str().or_else(|| text(&PATCHES)).map(str::to_owned);
    let edits = input["edits"].as_array().map(|edits| edits.iter().filter_map(replaced).collect());
    if let Some(diff) = patch.or(edits).or_else(|| replaced(input)) {
        return Some(("diff".to_owned(), diff.into()));
    }
    text(&CONTENTS).map(|content| ("content".to_owned(), content.into()))
}

/// The diff of one replacement, from whichever pair of fields the call has.
fn replaced(edit: &Value) -> Option<String> {
    let of = |(old, new): &(&str, &str)| Some(diff(edit[*old].as_str()?, edit[*new].as_str()?));
    REPLACED.iter().find_map(of)
}

/// Whether a call's input has nothing in it.
pub fn is_empty(input: &Value) -> bool {
    match input {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// What a call would write to files, each with its path, its text before (`None`: not known) and after.
/// A single file without a text before is shown as its whole content.
pub fn of_files(files: &[(String, Option<&str>, &str)]) -> Map<String, Value> {
    let (name, text) = match files {
        [] => return Map::new(),
        [(_, None | Some(""), after)] => ("content", (*after).to_owned()),
        [(_, Some(before), after)] => ("diff", diff(before, after)),
        many => {
            let one = |(path, before, after): &(String, Option<&str>, &str)| {
                format!("--- {path}\n+++ {path}\n{}", diff(before.unwrap_or_default(), after))
            };
            ("diff", many.iter().map(one).collect())
        }
    };
    Map::from_iter([(name.to_owned(), text.into())])
}

/// A diff of one hunk, from the first to the last changed line, in linear time: an agent could give texts
/// for which a minimal diff takes very long.
fn diff(before: &str, after: &str) -> String {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let same = |(one, other): &(&&str, &&str)| one == other;
    let head = old.iter().zip(&new).take_while(same).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(same).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let parts = [
        (' ', &old[head.saturating_sub(CONTEXT)..head]),
        ('-', &old[head..old_end]),
        ('+', &new[head..new_end]),
        (' ', &old[old_end..old.len().min(old_end + CONTEXT)]),
    ];
    let line = |mark: char, line: &str| format!("{mark}{}\n", line.trim_end_matches('\n'));
    parts.iter().flat_map(|(mark, lines)| lines.iter().map(|text| line(*mark, text))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn effect(kind: ActionKind, input: &Value) -> Value {
        let action = with_effect(Action { kind, detail: Map::new() }, input);
        Value::Object(action.detail)
    }

    #[test]
    fn tools_are_known_by_the_names_that_the_clis_give_them() {
        let shown = |name: &str, input: Value| json!(action(name, &input));
        let path = json!({"type": "file_edit", "path": "/w/a"});
        let written = json!({"type": "file_edit", "path": "/w/a", "content": "x"});
        assert_eq!(shown("Write", json!({"file_path": "/w/a", "content": "x"})), written);
        assert_eq!(shown("edit", json!({"filePath": "/w/a"})), path);
        assert_eq!(
            shown("Bash", json!({"command": "ls"})),
            json!({"type": "command", "command": "ls"})
        );
        assert_eq!(
            shown("shell", json!({"command": ["ls", "-l"]})),
            json!({"type": "command", "command": "ls -l"})
        );
        assert_eq!(
            shown("glob", json!({"pattern": "*.rs", "path": "/w"})),
            json!({"type": "search", "query": "*.rs"})
        );
        let ping = json!({"type": "mcp", "server": "provost", "tool": "get_context"});
        assert_eq!(shown("mcp__provost__get_context", json!({})), ping);
        assert_eq!(shown("mcp_provost_get_context", json!({})), ping);
        assert_eq!(shown("tool_call", json!({"name": "mcp__provost__get_context"})), ping);
        let unheard = json!({"type": "other", "input": {"path": "/w"}});
        assert_eq!(shown("Unheard", json!({"path": "/w"})), unheard);
        assert_eq!(shown("Read", Value::Null), json!({"type": "file_read"}));
    }

    #[test]
    fn an_edit_shows_what_it_would_write_however_its_cli_spells_that() {
        let edit = |input: Value| effect(ActionKind::FileEdit, &input);
        for input in [json!({"content": "x"}), json!({"file_text": "x", "path": "/w/a"})] {
            assert_eq!(edit(input), json!({"content": "x"}));
        }
        for (old, new) in REPLACED {
            assert_eq!(edit(json!({old: "a", new: "b"})), json!({"diff": "-a\n+b\n"}));
        }
        let all = json!({"old_string": "a", "new_string": "b", "replace_all": true});
        assert_eq!(edit(all), json!({"diff": "-a\n+b\n", "replace_all": true}));
        let many = json!({"edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}]});
        assert_eq!(edit(many), json!({"diff": "-a\n+b\n-c\n"}));
        assert_eq!(edit(json!("*** Begin Patch")), json!({"diff": "*** Begin Patch"}));
        assert_eq!(edit(Value::Null), json!({}));
    }

    #[test]
    fn an_unknown_tool_is_shown_with_its_input() {
        let input = json!({"title": "x"});
        assert_eq!(effect(ActionKind::Mcp, &input), json!({"input": input}));
        assert_eq!(effect(ActionKind::Other, &json!({})), json!({}));
        assert_eq!(effect(ActionKind::Command, &input), json!({}));
    }

    #[test]
    fn a_diff_holds_all_that_changes_with_a_little_around_it() {
        let before = (0..20).map(|number| format!("{number}\n")).collect::<Vec<_>>().concat();
        let after = before.replace("10\n", "ten\n").replace("11\n", "");
        assert_eq!(diff(&before, &after), " 7\n 8\n 9\n-10\n-11\n+ten\n 12\n 13\n 14\n");
        assert_eq!(diff("a", "a\n"), "-a\n+a\n", "also the end of the last line");
        assert_eq!(diff("a\na\n", "a\n"), " a\n-a\n");
        let files = [("/w/a".to_owned(), Some("1\n"), "2\n"), ("/w/b".to_owned(), None, "3\n")];
        let expected = "--- /w/a\n+++ /w/a\n-1\n+2\n--- /w/b\n+++ /w/b\n+3\n";
        assert_eq!(of_files(&files)["diff"], expected);
        assert_eq!(of_files(&files[1..])["content"], "3\n");
    }

    #[test]
    fn a_long_text_is_cut_and_marked() {
        let action = Action { kind: ActionKind::FileEdit, detail: Map::new() };
        let content = "é".repeat(Action::VALUE_MAX);
        let action = with_effect(action, &json!({"content": content}));
        assert_eq!(action.detail["content"].as_str().unwrap().len(), Action::VALUE_MAX);
        assert_eq!(action.detail["truncated"], true);
    }
}
