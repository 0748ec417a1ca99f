//! A task's brief as a person reads it: each member under its name. Pure.

use serde_json::{Map, Value};

const INDENT: &str = "  ";

/// The lines of a brief, or of a report. The members of `superDetailedPrompt` are shown like those of
/// the brief itself; empty members are left out.
pub fn lines(brief: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if let Value::Object(members) = brief {
        add_all(members, "", &mut lines);
    }
    lines
}

fn add_all(members: &Map<String, Value>, indent: &str, lines: &mut Vec<String>) {
    for (name, value) in members {
        let inner = format!("{indent}{INDENT}");
        let title = format!("{indent}{}:", title(name));
        match value {
            Value::Object(prompt) if name == "superDetailedPrompt" => {
                add_all(prompt, indent, lines);
            }
            Value::Array(items) if !items.is_empty() => {
                lines.push(title);
                lines.extend(items.iter().map(|item| format!("{inner}- {}", plain(item))));
            }
            Value::Object(members) if !members.is_empty() => {
                lines.push(title);
                add_all(members, &inner, lines);
            }
            Value::String(text) if text.contains('\n') => {
                lines.push(title);
                lines.extend(text.lines().map(|line| format!("{inner}{line}")));
            }
            Value::Null | Value::Array(_) | Value::Object(_) => {}
            _ => lines.push(format!("{title} {}", plain(value))),
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `acceptanceCriteria` becomes `Acceptance criteria`.
fn title(name: &str) -> String {
    let mut title = String::new();
    for (number, letter) in name.chars().enumerate() {
        match (number, letter) {
            (0, letter) => title.extend(letter.to_uppercase()),
            (_, letter) if letter.is_uppercase() => {
                title.push(' ');
                title.extend(letter.to_lowercase());
            }
            (_, letter) => title.push(letter),
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
