//! Writes normalized entries as the JSON that serde makes of them. What the entries of a batch have in
//! common is written once and copied, because each line of output becomes an entry. Pure.

use std::io::{self, Write};

use serde::Serialize;

use crate::event::{NormalizedEntry, Timestamp};
use crate::ids::ProcessId;

/// What neighbouring entries have in common, in the order of the fields of [`NormalizedEntry`].
#[derive(Clone, Copy, PartialEq, Serialize)]
struct Common {
    at: Timestamp,
    execution_process_id: ProcessId,
    turn: u32,
}

/// Writes entries one after the other, and keeps what the last one had in common with the next.
#[derive(Default)]
pub struct EntryText {
    common: Option<Common>,
    /// Its JSON, with a comma in place of the first brace and without the last one.
    text: Vec<u8>,
}

impl EntryText {
    /// Appends the entry's JSON, the same as `serde_json::to_writer` does.
    pub fn write(&mut self, entry: &NormalizedEntry, out: &mut Vec<u8>) -> io::Result<()> {
        let NormalizedEntry { entry_index, at, execution_process_id, turn, ref event } = *entry;
        let common = Common { at, execution_process_id, turn };
        if self.common != Some(common) {
            self.text = serde_json::to_vec(&common)?;
            self.text[0] = b',';
            self.text.pop();
            self.common = Some(common);
        }
        write!(out, "{{\"entry_index\":{entry_index}")?;
        out.extend_from_slice(&self.text);
        let event_at = out.len();
        serde_json::to_writer(&mut *out, event)?;
        // serde writes an event as an object that is not empty, and flattens it: its fields follow the
        // others, so its opening brace becomes a comma.
        out[event_at] = b',';
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    #[test]
    fn an_entry_is_written_as_serde_writes_it() {
        let (first, second) = (ProcessId::new(), ProcessId::new());
        let text = "a \"word\"\n".to_owned();
        let usage = Event::TokenUsage {
            text: String::new(),
            input_tokens: 1,
            output_tokens: 2,
            cached_tokens: None,
            cost_usd: Some(0.5),
        };
        let mut writer = EntryText::default();
        for (entry_index, process, millis, turn, event) in [
            (0, first, 0, 1, Event::UserMessage { text: text.clone() }),
            (1, first, 0, 1, Event::AssistantMessage { text: text.clone(), continued: true }),
            (u64::MAX, first, 1, 1, usage),
            (3, second, 1, 1, Event::SystemMessage { text: text.clone() }),
            (4, second, 1, u32::MAX, Event::Thinking { text }),
        ] {
            let at = Timestamp::from_millis(millis);
            let entry =
                NormalizedEntry { entry_index, at, execution_process_id: process, turn, event };
            let mut out = b"before ".to_vec();
            writer.write(&entry, &mut out).unwrap();
            let written = String::from_utf8(out).unwrap();
            assert_eq!(written, format!("before {}", serde_json::to_string(&entry).unwrap()));
        }
    }
}
