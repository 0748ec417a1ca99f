//! `plain` and `events`: programs that write lines. With `plain`, each line is a part of the agent's
//! answer. With `events`, each line is an entry as JSON, and any other line a system message. What
//! either writes to standard error is a system message. Exit code 0 is success.

use crate::executors::prelude::*;

/// Reads a program of the protocol `plain`.
pub struct PlainLines;

impl Normalizer for PlainLines {
    fn raw(&mut self, RawEntry { stream, text, continued, .. }: RawEntry, out: &mut Out) {
        out.push(Observed::Entry(match stream {
            Stream::Stdout => Event::AssistantMessage { text, continued },
            Stream::Stderr => Event::SystemMessage { text },
        }));
    }

    fn end(&mut self, _: &mut Out) {}
}

/// Reads a program of the protocol `events`.
pub fn normalizer() -> Box<dyn Normalizer> {
    Json::reader(EventLines {})
}

#[derive(Serialize, Deserialize)]
struct EventLines {}

impl Dialect for EventLines {
    fn line(&mut self, line: String, _: Timestamp, out: &mut Out) {
        out.push(read(&line).unwrap_or_else(|| system(line)));
    }

    fn end(&mut self, _: &mut Out) {}
}

/// An entry, or `{"kind": "session", "id": …}`, which names the session; `None`: neither.
fn read(line: &str) -> Option<Observed> {
    let value = crate::lenient::read(line.as_bytes())?;
    if value["kind"] == "session"
        && let Some(id) = value["id"].as_str()
    {
        return Some(Observed::ExecutorSession(id.to_owned()));
    }
    match serde_json::from_value(value).ok()? {
        // Only the daemon writes these two: a program must not invent starts and ends of processes.
        Event::ProcessStart { .. } | Event::ProcessEnd { .. } => None,
        event => Some(Observed::Entry(event)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use provost_actors::ids::ProcessId;
    use serde_json::json;

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
        let mut events = normalizer();
        let mut out = vec![];
        for line in lines {
            events.raw(raw(line, false), &mut out);
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
            assert_eq!(observe(&[line]), [system(line.to_owned())]);
        }
    }

    proptest! {
        #[test]
        fn a_line_in_parts_reads_as_the_whole_line(line in "[^\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..4)) {
            let chars: Vec<char> = line.chars().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut < chars.len()).collect();
            cuts.sort_unstable();
            let mut events = normalizer();
            let (mut out, mut from) = (vec![], 0);
            for cut in cuts {
                events.raw(raw(&chars[from..cut].iter().collect::<String>(), true), &mut out);
                let mut other = normalizer();
                other.restore(&events.checkpoint());
                events = other;
                from = cut;
            }
            events.raw(raw(&chars[from..].iter().collect::<String>(), false), &mut out);
            prop_assert_eq!(out, observe(&[&line]));
        }
    }
}
