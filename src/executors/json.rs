//! What all dialects of JSON lines have in common: whole lines out of raw
//! entries, a checkpoint that is the dialect's own state, and a system message
//! for whatever is not understood.

use provost_actors::event::{Event, RawEntry, Stream, Timestamp};
use provost_actors::executor::{Normalizer, Observed};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Longest line parsed as one, in bytes; a longer one is passed on in pieces.
const LINE_MAX: usize = 16 * 1024 * 1024;

/// Reads the messages of one process. All of its state is what it serializes.
pub trait Dialect: Serialize + DeserializeOwned + Send {
    /// The process is about to start.
    fn begin(&mut self, _out: &mut Vec<Observed>) {}

    /// One line of stdout that is JSON. `false`: it is not understood, and
    /// nothing was made of it.
    fn message(&mut self, message: &Value, at: Timestamp, out: &mut Vec<Observed>) -> bool;

    /// The process has ended: flush what is open.
    fn end(&mut self, out: &mut Vec<Observed>);
}

/// The normalizer of a dialect.
pub struct Json<D> {
    dialect: D,
    /// The line of stdout whose end is still to come.
    open: String,
}

impl<D: Dialect + 'static> Json<D> {
    pub fn reader(dialect: D) -> Box<dyn Normalizer> {
        Box::new(Self { dialect, open: String::new() })
    }

    fn line(&mut self, at: Timestamp, out: &mut Vec<Observed>) {
        let line = std::mem::take(&mut self.open);
        let message: Option<Value> = serde_json::from_str(&line).ok();
        let is_known = message.is_some_and(|message| self.dialect.message(&message, at, out));
        if !is_known && !line.is_empty() {
            out.push(system(line));
        }
    }
}

impl<D: Dialect + 'static> Normalizer for Json<D> {
    fn begin(&mut self, out: &mut Vec<Observed>) {
        self.dialect.begin(out);
    }

    fn raw(&mut self, entry: &RawEntry, out: &mut Vec<Observed>) {
        if entry.stream == Stream::Stderr {
            out.push(system(entry.text.clone()));
            return;
        }
        self.open.push_str(&entry.text);
        if !entry.continued || self.open.len() > LINE_MAX {
            self.line(entry.at, out);
        }
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        // What was cut off in the middle is no message.
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

/// A system message as it is observed.
pub fn system(text: String) -> Observed {
    Observed::Entry(Event::SystemMessage { text })
}
