//! The entries of a log as markup: messages as Markdown, tool calls and their results folded, and raw
//! lines of output. Each is one element with its index (`data-index`). Pure.

use maud::{Markup, html};
use provost_actors::event::{
    Action, Event, NormalizedEntry, ProcessStatus, RawEntry, Stream, ToolStatus,
};
use serde_json::Value;

use super::parts::{Tone, amount, badge, dollars, headline, word};
use super::{ansi, line, markdown};
use crate::api::logs::LogEntry;

/// Longest headline of a folded entry, in characters.
const HEADLINE: usize = 140;

/// The entry's place in its channel; it never changes.
pub fn index(entry: &LogEntry) -> u64 {
    match entry {
        LogEntry::Raw(entry) => entry.entry_index,
        LogEntry::Normalized(entry) => entry.entry_index,
    }
}

/// An entry as a list item.
pub fn entry(entry: &LogEntry) -> Markup {
    match entry {
        LogEntry::Raw(entry) => raw(entry),
        LogEntry::Normalized(entry) => normalized(entry),
    }
}

/// Whether an entry is shown under "Errors only".
pub fn is_error(entry: &LogEntry) -> bool {
    match entry {
        LogEntry::Raw(entry) => entry.stream == Stream::Stderr,
        LogEntry::Normalized(entry) => match &entry.event {
            Event::ErrorMessage { .. } => true,
            Event::ToolResult { status, .. } => *status != ToolStatus::Success,
            Event::ProcessEnd { status, .. } => *status != ProcessStatus::Completed,
            _ => false,
        },
    }
}

fn raw(entry: &RawEntry) -> Markup {
    let class = if entry.stream == Stream::Stderr { "entry raw stderr" } else { "entry raw" };
    html! {
        li class=(class) data-index=(entry.entry_index) title=(entry.at) {
            @if entry.stream == Stream::Stderr { span.unseen { "stderr: " } }
            (ansi::show(&entry.text))
            @if entry.lossy { span.ctl { "not all UTF-8" } }
        }
    }
}

fn normalized(entry: &NormalizedEntry) -> Markup {
    let (class, content) = event(&entry.event);
    html! {
        li class={ "entry " (class) } data-index=(entry.entry_index) title=(entry.at) { (content) }
    }
}

fn event(event: &Event) -> (&'static str, Markup) {
    match event {
        Event::UserMessage { text } => ("prompt", prompt(text)),
        Event::AssistantMessage { text, .. } => {
            ("message", html! { div.md { (markdown::render(text)) } })
        }
        Event::Thinking { text } => (
            "thinking",
            folded(&html! { "Thinking: " (line::plain(&headline(text, HEADLINE))) }, &output(text)),
        ),
        Event::ToolUse { tool_name, action, .. } => ("tool", tool(tool_name, action)),
        Event::ToolResult { text, status, exit_code, .. } => {
            ("result", result(text, *status, *exit_code))
        }
        Event::TokenUsage { input_tokens, output_tokens, cost_usd, .. } => (
            "usage",
            html! { p.muted.small { (tokens(*input_tokens, *output_tokens, *cost_usd)) } },
        ),
        Event::ErrorMessage { text, error_type, resume_at } => {
            let said = html! {
                p { (badge(Tone::Bad, &word(error_type))) }
                div.reason { (ansi::show(text)) }
                @if let Some(at) = resume_at { p.muted { "The limit ends at " time { (at) } "." } }
            };
            ("error", said)
        }
        Event::SystemMessage { text } => ("system", html! { div.muted { (ansi::show(text)) } }),
        Event::ProcessStart { command, run_reason, .. } => {
            let what = html! { (word(run_reason).replace('_', " ")) " started" };
            ("process", folded(&what, &output(&command.join(" "))))
        }
        Event::ProcessEnd { status, exit_code, exit_signal, .. } => {
            ("process", html! { p { (ended(*status, *exit_code, *exit_signal)) } })
        }
    }
}

/// A prompt as it was written: not as Markdown, so that nothing of it is hidden.
pub fn prompt(text: &str) -> Markup {
    html! { div.said { (line::plain(text)) } }
}

/// Tokens in and out; the cost in US dollars, if it is known.
pub fn tokens(input: u64, output: u64, cost: Option<f64>) -> Markup {
    html! {
        (amount(input)) " tokens in, " (amount(output)) " out"
        @if let Some(cost) = cost { ", " (dollars(cost)) }
    }
}

/// A badge with how a process ended, or that it is planned or running.
pub fn ended(status: ProcessStatus, exit_code: Option<i32>, exit_signal: Option<i32>) -> Markup {
    let tone = match status {
        ProcessStatus::Planned => Tone::Waits,
        ProcessStatus::Running => Tone::Busy,
        ProcessStatus::Completed => Tone::Good,
        ProcessStatus::Failed => Tone::Bad,
        ProcessStatus::Killed => Tone::Quiet,
    };
    let how = match (status, exit_code, exit_signal) {
        (ProcessStatus::Failed, Some(code), _) => format!("failed: exit code {code}"),
        (ProcessStatus::Failed, None, Some(signal)) => format!("failed: signal {signal}"),
        (ProcessStatus::Killed, ..) => "stopped".to_owned(),
        _ => word(&status),
    };
    badge(tone, &how)
}

/// A tool call: its name and the argument that says most, and all arguments behind a fold.
fn tool(name: &str, action: &Action) -> Markup {
    let about = ["command", "path", "query", "url", "description", "tool"];
    let about = about.iter().find_map(|name| action.detail.get(*name)?.as_str());
    let what = html! {
        span.tool-name { (line::plain(&headline(name, 60))) }
        @if let Some(about) = about { " " code { (line::plain(&headline(about, HEADLINE))) } }
    };
    let details = html! {
        dl.detail {
            @for (name, value) in &action.detail {
                dt { (name) }
                dd {
                    @match value {
                        Value::String(text) => pre { (ansi::show(text)) }
                        other => pre { (ansi::show(&format!("{other:#}"))) }
                    }
                }
            }
        }
    };
    if action.detail.is_empty() {
        html! { p { (what) } }
    } else {
        folded(&what, &details)
    }
}

fn result(text: &str, status: ToolStatus, exit_code: Option<i32>) -> Markup {
    let tone = match status {
        ToolStatus::Success => Tone::Good,
        ToolStatus::Failed => Tone::Bad,
        ToolStatus::Denied => Tone::Asks,
    };
    let what = html! {
        (badge(tone, &word(&status)))
        @if let Some(code) = exit_code.filter(|code| *code != 0) { " exit code " (code) }
        " " span.muted { (line::plain(&headline(text, HEADLINE))) }
    };
    if text.trim().is_empty() {
        html! { p { (what) } }
    } else {
        folded(&what, &output(text))
    }
}

fn folded(summary: &Markup, content: &Markup) -> Markup {
    html! { details { summary { (summary) } (content) } }
}

fn output(text: &str) -> Markup {
    html! { pre tabindex="0" { (ansi::show(text)) } }
}

#[cfg(test)]
mod tests {
    use provost_actors::event::{ActionKind, ErrorType, RunReason, Timestamp};
    use provost_actors::ids::ProcessId;
    use serde_json::json;

    use super::*;

    const HOSTILE: &str = "\u{1b}[31m<script>\"'&</script>\u{1b}[0m";

    fn events() -> Vec<Event> {
        let text = || HOSTILE.to_owned();
        let detail = json!({"command": HOSTILE, "<b>": {"x": HOSTILE}});
        let Value::Object(detail) = detail else { unreachable!("it is an object") };
        let action = Action { kind: ActionKind::Command, detail };
        let (tool_call_id, status) = (text(), ToolStatus::Failed);
        vec![
            Event::UserMessage { text: text() },
            Event::AssistantMessage { text: text(), continued: false },
            Event::Thinking { text: text() },
            Event::ToolUse { text: text(), tool_call_id: text(), tool_name: text(), action },
            Event::ToolResult { text: text(), tool_call_id, status, exit_code: Some(2) },
            Event::TokenUsage {
                text: text(),
                input_tokens: 12_345,
                output_tokens: 67,
                cached_tokens: None,
                cost_usd: Some(0.5),
            },
            Event::ErrorMessage {
                text: text(),
                error_type: ErrorType::Quota,
                resume_at: Some(Timestamp::from_millis(0)),
            },
            Event::SystemMessage { text: text() },
            Event::ProcessStart {
                text: text(),
                command: vec![text(), "--x".to_owned()],
                run_reason: RunReason::CodingAgent,
            },
            Event::ProcessEnd {
                text: text(),
                exit_code: None,
                exit_signal: Some(9),
                status: ProcessStatus::Failed,
            },
        ]
    }

    #[test]
    fn every_kind_of_entry_is_text_whatever_it_says() {
        let mut shown = String::new();
        for (number, event) in events().into_iter().enumerate() {
            let entry = NormalizedEntry {
                entry_index: number as u64,
                at: Timestamp::from_millis(0),
                execution_process_id: ProcessId::new(),
                turn: 1,
                event,
            };
            shown.push_str(&normalized(&entry).into_string());
            shown.push('\n');
        }
        assert!(!shown.contains("<script") && !shown.contains('\u{1b}'), "{shown}");
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn a_line_of_output_keeps_its_colours_and_nothing_else() {
        let entry = RawEntry {
            entry_index: 7,
            at: Timestamp::from_millis(0),
            execution_process_id: ProcessId::new(),
            stream: Stream::Stderr,
            text: HOSTILE.to_owned(),
            continued: false,
            lossy: true,
        };
        insta::assert_snapshot!(raw(&entry).into_string());
        assert!(is_error(&LogEntry::Raw(entry)));
    }

    #[test]
    fn failures_are_errors() {
        let entry = |event| {
            LogEntry::Normalized(NormalizedEntry {
                entry_index: 0,
                at: Timestamp::from_millis(0),
                execution_process_id: ProcessId::new(),
                turn: 1,
                event,
            })
        };
        let errors = events().into_iter().map(entry).filter(is_error).count();
        assert_eq!(errors, 3);
    }
}
