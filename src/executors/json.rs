//! What all dialects of JSON lines share: whole lines from raw entries, a checkpoint that is the
//! dialect's own state, and a system message for each line that the dialect does not know.

use provost_actors::event::{Event, RawEntry, Stream, Timestamp};
use provost_actors::executor::{Message, Normalizer, Observed, TurnEnded};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::lenient;

/// What a reader makes of its lines, in their order. Readers append to it.
pub type Out = Vec<Observed>;

/// Longest line that is parsed as one, in bytes. A longer line is read in pieces, which are no JSON.
const LINE_MAX: usize = 16 * 1024 * 1024;

/// If a line can't be read and no output follows for so many seconds, the line is assumed to have been
/// the one that ends the turn. A tool may work for minutes without output.
const GARBLED_SECS: u64 = 600;

/// Reads the messages of one process. A daemon that restarts has only the serialized state, so a field
/// that is not serialized is lost.
pub trait Dialect: Serialize + DeserializeOwned + Send {
    /// Called once, before the process starts: a two-way dialect says its first messages.
    fn begin(&mut self, _out: &mut Out) {}

    /// A line of standard output, without its line break. A dialect of JSON implements `message` instead.
    fn line(&mut self, line: String, at: Timestamp, out: &mut Out) {
        let message = lenient::read(line.as_bytes());
        let is_garbled = message.is_none() && line.starts_with('{');
        let is_known = message.is_some_and(|message| self.message(&message, at, out));
        if !is_known && !line.is_empty() {
            out.push(system(line));
        }
        if is_garbled {
            let error = "a line of its output can't be read, and nothing has followed it";
            let ended =
                TurnEnded { failed: true, error: Some(error.into()), ..TurnEnded::default() };
            out.push(Observed::EndsIfQuiet(Some((GARBLED_SECS, ended))));
        }
    }

    /// A line that is JSON. `false`: the dialect does not know it and made nothing of it, so the line
    /// becomes a system message.
    fn message(&mut self, _message: &Value, _at: Timestamp, _out: &mut Out) -> bool {
        false
    }

    /// The process has ended: what is open becomes entries, and a turn without its end is ended.
    fn end(&mut self, out: &mut Out);
}

/// A normalizer that puts lines together and gives them to a dialect.
pub struct Json<D> {
    dialect: D,
    /// The beginning of a line of standard output whose end has not come yet.
    open: String,
}

impl<D: Dialect + 'static> Json<D> {
    /// The dialect as a normalizer at the beginning of a process.
    pub fn reader(dialect: D) -> Box<dyn Normalizer> {
        Box::new(Self { dialect, open: String::new() })
    }
}

impl<D: Dialect + 'static> Normalizer for Json<D> {
    fn begin(&mut self, out: &mut Out) {
        self.dialect.begin(out);
    }

    fn raw(&mut self, RawEntry { at, stream, text, continued, .. }: RawEntry, out: &mut Out) {
        if stream == Stream::Stderr {
            out.push(system(text));
        } else if self.open.is_empty() && !continued {
            self.dialect.line(text, at, out);
        } else {
            self.open.push_str(&text);
            if !continued || self.open.len() > LINE_MAX {
                self.dialect.line(std::mem::take(&mut self.open), at, out);
            }
        }
    }

    fn end(&mut self, out: &mut Out) {
        // The process ended within a line, which is therefore no message.
        if !self.open.is_empty() {
            out.push(system(std::mem::take(&mut self.open)));
        }
        self.dialect.end(out);
    }

    fn checkpoint(&self) -> Value {
        json!({ "open": self.open, "dialect": self.dialect })
    }

    fn restore(&mut self, checkpoint: &Value) {
        checkpoint["open"].as_str().unwrap_or_default().clone_into(&mut self.open);
        if let Ok(dialect) = serde::Deserialize::deserialize(&checkpoint["dialect"]) {
            self.dialect = dialect;
        }
    }
}

/// A line for the program. The key must be unique within the process: a second message with it is never
/// sent.
pub fn message(key: impl Into<String>, line: &Value) -> Message {
    Message { key: key.into(), line: line.to_string() }
}

/// A system message: output that is neither the agent's words nor a tool call.
pub fn system(text: String) -> Observed {
    Observed::Entry(Event::SystemMessage { text })
}

/// A member that is a string; empty if it is none.
pub fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The items of a member that is an array; no items if it is none.
pub fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// A member that is a count; 0 if it is none.
pub fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_default()
}

/// The steps of a plan, one in each line: `[x]` done, `[>]` in progress. `list` is the member with the
/// steps, `name` that with a step's text; the protocols spell the status in two ways.
pub fn steps(plan: &Value, list: &str, name: &str) -> String {
    let line = |step: &Value| {
        let mark = match text(step, "status") {
            "completed" => 'x',
            "inProgress" | "in_progress" => '>',
            _ => ' ',
        };
        format!("[{mark}] {}", text(step, name))
    };
    items(plan, list).map(line).collect::<Vec<_>>().join("\n")
}

/// The text of a message's or result's content; a part that is no text becomes its type in brackets.
pub fn plain(content: &Value) -> String {
    let part = |part: &Value| match part["text"].as_str().or(part.as_str()) {
        Some(text) => text.to_owned(),
        None => format!("[{}]", part["type"].as_str().unwrap_or("part")),
    };
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(part).collect::<Vec<_>>().join("\n"),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
