//! How log entries look to people: one prefix a kind, further lines indented
//! under the first. Works on the JSON of `tail_attempt_logs`, so that entries
//! of kinds yet unknown are shown too. Pure.

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use super::output::harmless;

/// Columns before the text.
const INDENT: usize = 9;

/// The most lines of a tool's result that are shown.
const RESULT_LINES: usize = 12;

/// An entry for people: the kind in a word, its style and its lines.
pub struct Rendered {
    pub label: String,
    pub style: Style,
    pub lines: Vec<String>,
}

impl Rendered {
    /// The lines as they are printed; `paint` colours the label.
    pub fn lines(&self, paint: impl Fn(Style, &str) -> String) -> Vec<String> {
        let label = paint(self.style, &format!("{:<width$}", self.label, width = INDENT - 1));
        let body = |(index, line): (usize, &String)| {
            let line = harmless(line);
            let printed = if index == 0 {
                format!("{label} {line}")
            } else {
                format!("{:INDENT$}{line}", "")
            };
            printed.trim_end().to_owned()
        };
        self.lines.iter().enumerate().map(body).collect()
    }
}

/// A normalized entry.
pub fn normalized(entry: &Value) -> Rendered {
    let text = entry["text"].as_str().unwrap_or_default();
    let plain = Style::new();
    let (label, style, body) = match entry["kind"].as_str().unwrap_or("entry") {
        "user_message" => ("you", colour(AnsiColor::Cyan).bold(), text.to_owned()),
        "assistant_message" => ("agent", colour(AnsiColor::Green).bold(), text.to_owned()),
        "thinking" => ("think", plain.dimmed(), text.to_owned()),
        "tool_use" => ("tool", colour(AnsiColor::Blue), tool_use(entry, text)),
        "tool_result" => ("result", tool_result_style(entry), tool_result(entry, text)),
        "token_usage" => ("usage", plain.dimmed(), token_usage(entry)),
        "error_message" => ("error", colour(AnsiColor::Red).bold(), error(entry, text)),
        "system_message" => ("system", plain.dimmed(), text.to_owned()),
        "process_start" => ("start", colour(AnsiColor::Magenta), process_start(entry)),
        "process_end" => ("end", colour(AnsiColor::Magenta), ended(entry, "status")),
        other => (other, plain, text.to_owned()),
    };
    Rendered { label: harmless(label), style, lines: lines(&body) }
}

/// A line of the raw channel.
pub fn raw(entry: &Value) -> String {
    harmless(entry["text"].as_str().unwrap_or_default())
}

fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(colour.into()))
}

fn lines(text: &str) -> Vec<String> {
    let lines: Vec<String> = text.trim_end_matches('\n').split('\n').map(str::to_owned).collect();
    lines.into_iter().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

/// What it does, as exactly as is known: `Bash: cargo test`.
fn tool_use(entry: &Value, text: &str) -> String {
    let name = entry["tool_name"].as_str().unwrap_or("tool");
    let action = &entry["action"];
    let detail = ["command", "path", "query", "url", "description"]
        .iter()
        .find_map(|key| action[*key].as_str())
        .unwrap_or(text);
    if detail.is_empty() { name.to_owned() } else { format!("{name}: {detail}") }
}

fn tool_result_style(entry: &Value) -> Style {
    match entry["status"].as_str() {
        Some("success") => Style::new().dimmed(),
        _ => colour(AnsiColor::Yellow),
    }
}

fn tool_result(entry: &Value, text: &str) -> String {
    let mut body = vec![ended(entry, "status")];
    let shown: Vec<&str> = text.trim_end().lines().collect();
    body.extend(shown.iter().take(RESULT_LINES).map(|line| (*line).to_owned()));
    if shown.len() > RESULT_LINES {
        body.push(format!("… {} more lines", shown.len() - RESULT_LINES));
    }
    body.join("\n")
}

/// Whether a failure's summary, or the end of a process, says that somebody stopped it.
pub fn is_stopped(summary: &str) -> bool {
    summary.starts_with("stopped") || summary.contains("; stopped by stop_attempt")
}

/// A failure's summary for whoever calls no tools.
pub fn for_person(summary: &str) -> String {
    summary.replace("stopped by stop_attempt", "stopped on request")
}

/// `completed (exit 0)`, `stopped (signal 9)`.
pub fn ended(entry: &Value, key: &str) -> String {
    let is_stopped =
        ["failure_summary", "text"].iter().any(|key| entry[*key].as_str().is_some_and(is_stopped));
    let status = match entry[key].as_str() {
        Some("failed" | "killed") if is_stopped => "stopped",
        status => status.unwrap_or("ended"),
    };
    match (entry["exit_code"].as_i64(), entry["exit_signal"].as_i64()) {
        (Some(code), _) => format!("{status} (exit {code})"),
        (None, Some(signal)) => format!("{status} (signal {signal})"),
        (None, None) => status.to_owned(),
    }
}

fn token_usage(entry: &Value) -> String {
    let count = |key: &str| entry[key].as_u64().unwrap_or_default();
    let cached = entry["cached_tokens"].as_u64().map(|cached| format!("{cached} cached"));
    let cost = entry["cost_usd"].as_f64().map(|cost| format!("${cost:.4}"));
    let tokens = format!("{} in, {} out", count("input_tokens"), count("output_tokens"));
    [Some(tokens), cached, cost].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn error(entry: &Value, text: &str) -> String {
    match entry["error_type"].as_str() {
        None | Some("other") => text.to_owned(),
        Some(kind) => format!("{kind}: {text}"),
    }
}

fn process_start(entry: &Value) -> String {
    let command = entry["command"].as_array().map(Vec::as_slice).unwrap_or_default();
    let words: Vec<&str> = command.iter().filter_map(Value::as_str).collect();
    // What runs is this very program, by a name for the inside.
    let words = match words.as_slice() {
        ["/proc/self/exe", name] => vec![name.trim_start_matches('_')],
        _ => words,
    };
    match entry["run_reason"].as_str() {
        None | Some("coding_agent") => words.join(" "),
        Some(reason) => format!("{reason}: {}", words.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn show(entries: &[Value], paint: impl Fn(Style, &str) -> String + Copy) -> String {
        let lines = entries.iter().flat_map(|entry| normalized(entry).lines(paint));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn entries() -> Vec<Value> {
        let long: Vec<String> = (0..15).map(|n| format!("line {n}")).collect();
        vec![
            json!({"kind": "process_start", "command": ["agent", "-p"], "run_reason": "coding_agent"}),
            json!({"kind": "process_start", "command": ["make"], "run_reason": "setup_script"}),
            json!({"kind": "user_message", "text": "fix the\nbug\n"}),
            json!({"kind": "thinking", "text": "hm"}),
            json!({"kind": "tool_use", "tool_name": "Bash", "action": {"type": "command", "command": "ls\n-la"}}),
            json!({"kind": "tool_use", "tool_name": "Odd", "action": {"type": "other"}}),
            json!({"kind": "tool_result", "status": "success", "exit_code": 0, "text": "a\n\u{1b}]0;evil\u{7}b"}),
            json!({"kind": "tool_result", "status": "failed", "text": long.join("\n")}),
            json!({"kind": "token_usage", "input_tokens": 12, "output_tokens": 3, "cached_tokens": 1, "cost_usd": 0.0123}),
            json!({"kind": "error_message", "error_type": "auth", "text": "log in"}),
            json!({"kind": "system_message", "text": ""}),
            json!({"kind": "assistant_message", "text": "done"}),
            json!({"kind": "process_end", "status": "killed", "exit_signal": 9, "exit_code": null}),
            json!({"kind": "of_tomorrow", "text": "x"}),
        ]
    }

    #[test]
    fn entries_are_compact_and_harmless() {
        insta::assert_snapshot!(show(&entries(), |_, text| text.to_owned()));
    }

    #[test]
    fn only_labels_are_coloured() {
        let shown = show(&entries()[..3], |style, text| format!("{style}<{text}>{style:#}"));
        assert!(shown.contains("<you     >"), "{shown}");
        assert!(shown.lines().all(|line| !line.ends_with("\u{1b}[0m")), "{shown}");
    }
}
