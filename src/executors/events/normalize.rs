//! Lines of `{"kind": …}` to entries; whatever else comes is a system message
//! with the line.

use provost_actors::event::{Event, RawEntry, Stream};
use provost_actors::executor::{Normalizer, Observed};
use serde_json::{Value, json};

/// Longest line parsed as one, in bytes; a longer one is passed on in pieces.
const LINE_MAX: usize = 16 * 1024 * 1024;

/// Reads the output of a program that writes entries.
pub fn normalizer() -> Box<dyn Normalizer> {
    Box::new(Events::default())
}

#[derive(Default)]
struct Events {
    /// The line of stdout whose end is still to come.
    open: String,
}

impl Normalizer for Events {
    fn raw(&mut self, entry: &RawEntry, out: &mut Vec<Observed>) {
        if entry.stream == Stream::Stderr {
            out.push(message(entry.text.clone()));
            return;
        }
        self.open.push_str(&entry.text);
        if !entry.continued || self.open.len() > LINE_MAX {
            out.push(read(std::mem::take(&mut self.open)));
        }
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        if !self.open.is_empty() {
            out.push(read(std::mem::take(&mut self.open)));
        }
    }

    fn checkpoint(&self) -> Value {
        json!({ "open": self.open })
    }

    fn restore(&mut self, checkpoint: &Value) {
        checkpoint["open"].as_str().unwrap_or_default().clone_into(&mut self.open);
    }
}

fn read(line: String) -> Observed {
    let Ok(value) = serde_json::from_str::<Value>(&line) else { return message(line) };
    if value["kind"] == "session"
        && let Some(id) = value["id"].as_str()
    {
        return Observed::ExecutorSession(id.to_owned());
    }
    match serde_json::from_value(value) {
        // These two are the supervisor's to tell.
        Ok(Event::ProcessStart { .. } | Event::ProcessEnd { .. }) | Err(_) => message(line),
        Ok(event) => Observed::Entry(event),
    }
}

fn message(text: String) -> Observed {
    Observed::Entry(Event::SystemMessage { text })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use provost_actors::event::Timestamp;
    use provost_actors::ids::ProcessId;

    use super::*;

    fn raw(text: &str, continued: bool) -> RawEntry {
        RawEntry {
            entry_index: 0,
            at: Timestamp::from_millis(0),
            execution_process_id: ProcessId::new(),
            stream: Stream::Stdout,
            text: text.to_owned(),
            continued,
            lossy: false,
        }
    }

    fn observe(lines: &[&str]) -> Vec<Observed> {
        let mut events = Events::default();
        let mut out = vec![];
        for line in lines {
            events.raw(&raw(line, false), &mut out);
        }
        events.end(&mut out);
        out
    }

    #[test]
    fn every_documented_kind_is_read() {
        let lines = [
            r#"{"kind":"session","id":"abc"}"#,
            r#"{"kind":"assistant_message","text":"hello"}"#,
            r#"{"kind":"thinking","text":"hm"}"#,
            r#"{"kind":"tool_use","tool_call_id":"1","tool_name":"sh","action":{"type":"command","command":"ls"}}"#,
            r#"{"kind":"tool_result","tool_call_id":"1","status":"success","exit_code":0,"text":"a"}"#,
            r#"{"kind":"token_usage","input_tokens":1,"output_tokens":2,"cost_usd":0.5}"#,
            r#"{"kind":"error_message","error_type":"quota","text":"later"}"#,
            r#"{"kind":"system_message","text":"note"}"#,
        ];
        insta::assert_json_snapshot!(
            observe(&lines)
                .iter()
                .map(|one| match one {
                    Observed::Entry(event) => serde_json::to_value(event).unwrap(),
                    other => json!(format!("{other:?}")),
                })
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn what_is_not_understood_is_a_system_message_with_the_line() {
        for line in [
            "plain text",
            "",
            "{",
            "[1]",
            r#"{"kind":"assistant_message"}"#,
            r#"{"kind":"assistant_message","text":7}"#,
            r#"{"kind":"unheard_of","text":"x"}"#,
            r#"{"kind":"session"}"#,
            r#"{"kind":"process_end","exit_code":0,"exit_signal":null,"status":"completed"}"#,
        ] {
            assert_eq!(observe(&[line]), [message(line.to_owned())]);
        }
    }

    proptest! {
        #[test]
        fn a_line_in_parts_reads_as_the_whole_line(line in "[^\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..4)) {
            let chars: Vec<char> = line.chars().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut < chars.len()).collect();
            cuts.sort_unstable();
            let mut events = Events::default();
            let (mut out, mut from) = (vec![], 0);
            for cut in cuts {
                events.raw(&raw(&chars[from..cut].iter().collect::<String>(), true), &mut out);
                let mut other = Events::default();
                other.restore(&events.checkpoint());
                events = other;
                from = cut;
            }
            events.raw(&raw(&chars[from..].iter().collect::<String>(), false), &mut out);
            prop_assert_eq!(out, observe(&[&line]));
        }
    }
}
