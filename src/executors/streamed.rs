//! Texts that stream in: shown while they come, and kept, so that they become entries if the stream ends
//! before the whole text comes.
//!
//! ```text
//!  begin, add, add_to ─▶ open ─ whole, whole_of: the CLI sent the whole text ─▶ its entry
//!                          └─── flush: no more will come ─▶ an entry of what came
//! ```

use provost_actors::event::Event;
use provost_actors::executor::{InProgress, Observed};
use serde::{Deserialize, Serialize};

use crate::executors::json::Out;

/// How much of a text's end is shown while it streams, in bytes.
const SHOWN: usize = 4096;

/// Which kind of entry a text becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    Message,
    Thinking,
}

impl StreamKind {
    /// The text as an entry.
    pub fn entry(self, text: String) -> Observed {
        Observed::Entry(match self {
            Self::Message => Event::AssistantMessage { text, continued: false },
            Self::Thinking => Event::Thinking { text },
        })
    }
}

/// Texts that have begun and are not entries yet, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Streamed(Vec<Text>);

#[derive(Debug, Serialize, Deserialize)]
struct Text {
    kind: StreamKind,
    /// The CLI's id of the text; `None`: the CLI gives none.
    id: Option<String>,
    so_far: String,
}

impl Streamed {
    /// Begins a new text.
    pub fn begin(&mut self, kind: StreamKind) {
        self.0.push(Text { kind, id: None, so_far: String::new() });
    }

    /// Adds to the newest text, or to a new one if the newest is of another kind. For CLIs without ids.
    pub fn add(&mut self, kind: StreamKind, delta: &str, out: &mut Out) {
        if self.0.last().is_none_or(|last| last.kind != kind) {
            self.begin(kind);
        }
        self.grow(self.0.len() - 1, delta, out);
    }

    /// Adds to the text with this id, which begins if there is none.
    pub fn add_to(&mut self, id: &str, kind: StreamKind, delta: &str, out: &mut Out) {
        let at = self.0.iter().position(|text| text.id.as_deref() == Some(id));
        let at = at.unwrap_or_else(|| {
            self.0.push(Text { kind, id: Some(id.to_owned()), so_far: String::new() });
            self.0.len() - 1
        });
        self.grow(at, delta, out);
    }

    fn grow(&mut self, at: usize, delta: &str, out: &mut Out) {
        let Text { kind, so_far: text, .. } = &mut self.0[at];
        text.push_str(delta);
        let tail = text.ceil_char_boundary(text.len().saturating_sub(SHOWN));
        let kind = match kind {
            StreamKind::Message => "assistant_message",
            StreamKind::Thinking => "thinking",
        };
        let shown = InProgress { kind: kind.to_owned(), text: text[tail..].to_owned() };
        out.push(Observed::InProgress(Some(shown)));
    }

    /// Removes the oldest text of `kind`, because its whole has come, and returns what had streamed of it.
    pub fn whole(&mut self, kind: StreamKind, out: &mut Out) -> Option<String> {
        self.take(|text| text.kind == kind, out).map(|text| text.so_far)
    }

    /// Removes the text with this id, and returns it as an entry.
    pub fn whole_of(&mut self, id: &str, out: &mut Out) -> Option<Observed> {
        let text = self.take(|text| text.id.as_deref() == Some(id), out)?;
        Some(text.kind.entry(text.so_far))
    }

    fn take(&mut self, is_it: impl Fn(&Text) -> bool, out: &mut Out) -> Option<Text> {
        let at = self.0.iter().position(is_it)?;
        out.push(Observed::InProgress(None));
        Some(self.0.remove(at))
    }

    /// Makes entries of all texts, because no more will come of them.
    pub fn flush(&mut self, out: &mut Out) {
        if !self.0.is_empty() {
            out.push(Observed::InProgress(None));
        }
        let texts = self.0.drain(..).filter(|text| !text.so_far.is_empty());
        out.extend(texts.map(|text| text.kind.entry(text.so_far)));
    }
}
