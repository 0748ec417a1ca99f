//! How people see log entries: a label for each kind, further lines indented below the first. Pure.

use anstyle::{AnsiColor, Style};
use provost_actors::event::{ErrorType, Event, ProcessStatus, RunReason, ToolStatus};
use serde::Deserialize;
use serde_json::Value;

use super::text::harmless;
use crate::work::labels::word;

/// Columns before the text, for the label.
const INDENT: usize = 9;

/// The most lines of a tool's result that are shown.
const RESULT_LINES: usize = 12;

/// The printed lines of a normalized entry, harmless to a terminal; `paint` colours the label. An entry
/// of a kind that only a newer daemon knows gets its kind as label.
pub fn normalized(entry: &Value, paint: impl Fn(Style, &str) -> String) -> Vec<String> {
    let (label, style, body) = match Event::deserialize(entry) {
        Ok(event) => parts(event),
        Err(_) => (entry["kind"].as_str().unwrap_or("entry"), Style::new(), text(entry).to_owned()),
    };
    let label = paint(style, &format!("{:<width$}", harmless(label), width = INDENT - 1));
    let line = |(index, line): (usize, &str)| {
        let line = harmless(line.trim_end_matches('\r'));
        let before = if index == 0 { format!("{label} ") } else { " ".repeat(INDENT) };
        format!("{before}{line}").trim_end().to_owned()
    };
    body.trim_end_matches('\n').split('\n').enumerate().map(line).collect()
}

/// An entry's label, the label's style, and the body.
fn parts(event: Event) -> (&'static str, Style, String) {
    let dimmed = Style::new().dimmed();
    match event {
        Event::UserMessage { text } => ("you", AnsiColor::Cyan.on_default().bold(), text),
        Event::AssistantMessage { text, .. } => {
            ("agent", AnsiColor::Green.on_default().bold(), text)
        }
        Event::Thinking { text } => ("think", dimmed, text),
        Event::ToolUse { text, tool_name, action, .. } => {
            // The most exact description that is known: `Bash: cargo test`.
            let keys = ["command", "path", "query", "url", "description"];
            let detail = keys.iter().find_map(|key| action.detail.get(*key)?.as_str());
            let body = match detail.unwrap_or(&text) {
                "" => tool_name,
                detail => format!("{tool_name}: {detail}"),
            };
            ("tool", AnsiColor::Blue.on_default(), body)
        }
        Event::ToolResult { text, status, exit_code, .. } => {
            let is_well = status == ToolStatus::Success;
            let style = if is_well { dimmed } else { AnsiColor::Yellow.on_default() };
            ("result", style, tool_result(ended(&word(&status), exit_code, None), &text))
        }
        Event::TokenUsage { input_tokens, output_tokens, cached_tokens, cost_usd, .. } => {
            let cached = cached_tokens.map(|cached| format!(", {cached} cached"));
            let cost = cost_usd.map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
            let cached = cached.unwrap_or_default();
            ("usage", dimmed, format!("{input_tokens} in, {output_tokens} out{cached}{cost}"))
        }
        Event::ErrorMessage { text, error_type, .. } => {
            let body = match error_type {
                ErrorType::Other => text,
                kind => format!("{}: {text}", word(&kind)),
            };
            ("error", AnsiColor::Red.on_default().bold(), body)
        }
        Event::SystemMessage { text } => ("system", dimmed, text),
        Event::ProcessStart { command, run_reason, .. } => {
            let body = match (run_reason, program(&command)) {
                (RunReason::CodingAgent, command) => command,
                (reason, command) => format!("{}: {command}", word(&reason)),
            };
            ("start", AnsiColor::Magenta.on_default(), body)
        }
        Event::ProcessEnd { exit_code, exit_signal, status, .. } => {
            let status = match status {
                ProcessStatus::Killed => "stopped".to_owned(),
                other => word(&other),
            };
            let body = ended(&status, exit_code, exit_signal);
            ("end", AnsiColor::Magenta.on_default(), body)
        }
    }
}

/// The text of an entry of either channel; empty if it has none.
pub fn text(entry: &Value) -> &str {
    entry["text"].as_str().unwrap_or_default()
}

fn tool_result(ended: String, text: &str) -> String {
    let mut body = vec![ended];
    let shown: Vec<&str> = text.trim_end().lines().collect();
    body.extend(shown.iter().take(RESULT_LINES).map(|line| (*line).to_owned()));
    if shown.len() > RESULT_LINES {
        body.push(format!("… {} more lines", shown.len() - RESULT_LINES));
    }
    body.join("\n")
}

/// A failure's summary in words for a person, who does not know the tools' names.
pub fn for_person(summary: &str) -> String {
    summary.replace("stopped by stop_attempt", "stopped on request")
}

/// How a process or attempt ended: `completed (exit 0)`, `stopped (signal 9)`, or the status alone.
pub fn ended(status: &str, code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("{status} (exit {code})"),
        (None, Some(signal)) => format!("{status} (signal {signal})"),
        (None, None) => status.to_owned(),
    }
}

/// A command line. The scripted executor is this program with an internal argument, whose name is shown
/// instead.
fn program(command: &[String]) -> String {
    match command {
        [program, name] if program == "/proc/self/exe" => name.trim_start_matches('_').to_owned(),
        words => words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn show(entries: &[Value], paint: impl Fn(Style, &str) -> String + Copy) -> String {
        let lines = entries.iter().flat_map(|entry| normalized(entry, paint));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn entries() -> Vec<Value> {
        let long: Vec<String> = (0..15).map(|n| format!("line {n}")).collect();
        vec![
            json!({"kind": "process_start", "command": ["agent", "-p"], "run_reason": "coding_agent"}),
            json!({"kind": "process_start", "command": ["make"], "run_reason": "setup_script"}),
            json!({"kind": "user_message", "text": "fix the\nbug\n"}),
            json!({"kind": "thinking", "text": "hm"}),
            json!({"kind": "tool_use", "tool_call_id": "1", "tool_name": "Bash", "action": {"type": "command", "command": "ls\n-la"}}),
            json!({"kind": "tool_use", "tool_call_id": "1", "tool_name": "Odd", "action": {"type": "other"}}),
            json!({"kind": "tool_result", "tool_call_id": "1", "status": "success", "exit_code": 0, "text": "a\n\u{1b}]0;evil\u{7}b"}),
            json!({"kind": "tool_result", "tool_call_id": "1", "status": "failed", "text": long.join("\n")}),
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
