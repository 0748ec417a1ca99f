//! What a call would do, for whoever permits it: beside what an action names, the
//! text that an edit would write, or the input of a tool that is not known. Pure.

use provost_actors::event::{Action, ActionKind};
use serde_json::{Map, Value};

/// Unchanged lines that a diff shows before and after what changes.
const CONTEXT: usize = 3;

/// The names under which the CLIs pass a patch, and a file's new content.
const PATCHES: [&str; 5] = ["diff", "patch", "patchText", "patch_text", "input"];
const CONTENTS: [&str; 5] = ["content", "contents", "file_text", "fileText", "new_source"];
/// And the text to be replaced with its replacement.
const REPLACED: [(&str, &str); 3] =
    [("old_string", "new_string"), ("oldString", "newString"), ("old_str", "new_str")];

/// Adds to an action what its call's input says of its effect.
pub fn add(action: &mut Action, input: &Value) {
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
}

/// What the edit of a file would write: a `diff`, or the whole `content`.
fn written(input: &Value) -> Option<(String, Value)> {
    let text = |names: &[&str]| names.iter().find_map(|name| input[*name].as_str());
    let patch = input.as_str().or_else(|| text(&PATCHES)).map(str::to_owned);
    let edits = input["edits"].as_array().map(|edits| edits.iter().filter_map(replaced).collect());
    if let Some(diff) = patch.or(edits).or_else(|| replaced(input)) {
        return Some(("diff".to_owned(), diff.into()));
    }
    text(&CONTENTS).map(|content| ("content".to_owned(), content.into()))
}

fn replaced(edit: &Value) -> Option<String> {
    let of = |(old, new): &(&str, &str)| Some(diff(edit[*old].as_str()?, edit[*new].as_str()?));
    REPLACED.iter().find_map(of)
}

fn is_empty(input: &Value) -> bool {
    match input {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// What would be written to these files, each with its text before (if it is known
/// and there is any) and after.
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

/// The lines between the first and the last that change, as a diff shows them. It
/// takes time in proportion to the texts, whatever they are.
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
        let mut action = Action { kind, detail: Map::new() };
        add(&mut action, input);
        Value::Object(action.detail)
    }

    #[test]
    fn an_edit_is_told_with_what_it_would_write_however_its_cli_spells_that() {
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
    fn a_tool_that_is_not_known_is_told_with_its_input() {
        let input = json!({"title": "x"});
        assert_eq!(effect(ActionKind::Mcp, &input), json!({"input": input}));
        assert_eq!(effect(ActionKind::Other, &json!({})), json!({}));
        assert_eq!(effect(ActionKind::Command, &input), json!({}));
    }

    #[test]
    fn a_diff_holds_all_that_changes_with_a_little_around_it() {
        let before: String = (0..20).map(|number| format!("{number}\n")).collect();
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
    fn a_long_text_is_cut_and_that_is_told() {
        let mut action = Action { kind: ActionKind::FileEdit, detail: Map::new() };
        let content = "é".repeat(Action::VALUE_MAX);
        add(&mut action, &json!({"content": content}));
        let action = action.bounded();
        assert_eq!(action.detail["content"].as_str().unwrap().len(), Action::VALUE_MAX);
        assert_eq!(action.detail["truncated"], true);
    }
}
