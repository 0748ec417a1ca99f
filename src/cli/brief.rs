//! A task's brief as a person reads it: its members under their names, lists as lists.

use serde_json::{Map, Value};

const INDENT: &str = "  ";

/// The lines of a brief. What the worker API calls the detailed prompt is told like the
/// rest of it.
pub fn lines(brief: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if let Value::Object(members) = brief {
        tell(members, "", &mut lines);
    }
    lines
}

fn tell(members: &Map<String, Value>, indent: &str, lines: &mut Vec<String>) {
    for (name, value) in members {
        match (name.as_str(), value) {
            (_, Value::Null) => {}
            ("superDetailedPrompt", Value::Object(prompt)) => tell(prompt, indent, lines),
            _ => tell_one(&title(name), value, indent, lines),
        }
    }
}

fn tell_one(name: &str, value: &Value, indent: &str, lines: &mut Vec<String>) {
    let inner = format!("{indent}{INDENT}");
    match value {
        Value::Array(items) if items.is_empty() => {}
        Value::Array(items) => {
            lines.push(format!("{indent}{name}:"));
            lines.extend(items.iter().map(|item| format!("{inner}- {}", plain(item))));
        }
        Value::Object(members) if members.is_empty() => {}
        Value::Object(members) => {
            lines.push(format!("{indent}{name}:"));
            tell(members, &inner, lines);
        }
        Value::String(text) if text.contains('\n') => {
            lines.push(format!("{indent}{name}:"));
            lines.extend(text.lines().map(|line| format!("{inner}{line}")));
        }
        _ => lines.push(format!("{indent}{name}: {}", plain(value))),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `acceptanceCriteria` becomes `Acceptance criteria`.
fn title(name: &str) -> String {
    let mut title = String::new();
    for (number, letter) in name.chars().enumerate() {
        if number == 0 {
            title.extend(letter.to_uppercase());
        } else if letter.is_uppercase() {
            title.push(' ');
            title.extend(letter.to_lowercase());
        } else {
            title.push(letter);
        }
    }
    title
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_brief_reads_like_a_page() {
        let brief = json!({
            "superDetailedPrompt": {
                "context": "The linter\nwaits for it.",
                "acceptanceCriteria": ["It parses", "It tells where it fails"],
                "files": {"readFrom": ["grammar.md"], "writeTo": []},
                "estimatedHours": 2.5,
            },
            "planReference": {"planId": "app", "version": "1.0"},
            "relatedTasks": [],
        });
        insta::assert_snapshot!(lines(&brief).join("\n"), @r"
        Context:
          The linter
          waits for it.
        Acceptance criteria:
          - It parses
          - It tells where it fails
        Files:
          Read from:
            - grammar.md
        Estimated hours: 2.5
        Plan reference:
          Plan id: app
          Version: 1.0
        ");
    }
}
