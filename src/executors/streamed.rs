//! Text that streams in: shown while it does, and kept for the case that the
//! stream is cut before the whole message comes.

use provost_actors::event::Event;
use provost_actors::executor::{InProgress, Observed};
use serde::{Deserialize, Serialize};

/// How much of the end is shown while it streams, in bytes.
const SHOWN: usize = 4096;

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Message,
    Thinking,
}

impl Kind {
    /// The text as an entry.
    pub fn entry(self, text: String) -> Observed {
        Observed::Entry(match self {
            Self::Message => Event::AssistantMessage { text, continued: false },
            Self::Thinking => Event::Thinking { text },
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Message => "assistant_message",
            Self::Thinking => "thinking",
        }
    }
}

/// Texts that have begun, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Streamed(Vec<(Kind, String)>);

impl Streamed {
    /// A new text begins.
    pub fn begin(&mut self, kind: Kind) {
        self.0.push((kind, String::new()));
    }

    /// More of the text that began last, or of a new one if that is no `kind`.
    pub fn add(&mut self, kind: Kind, delta: &str, out: &mut Vec<Observed>) {
        if self.0.last().is_none_or(|(last, _)| *last != kind) {
            self.begin(kind);
        }
        let Some((_, text)) = self.0.last_mut() else { return };
        text.push_str(delta);
        let tail = text.ceil_char_boundary(text.len().saturating_sub(SHOWN));
        let shown = InProgress { kind: kind.name().to_owned(), text: text[tail..].to_owned() };
        out.push(Observed::InProgress(Some(shown)));
    }

    /// The whole text of the oldest one of `kind` has come; its text so far.
    pub fn whole(&mut self, kind: Kind, out: &mut Vec<Observed>) -> Option<String> {
        let at = self.0.iter().position(|(open, _)| *open == kind)?;
        out.push(Observed::InProgress(None));
        Some(self.0.remove(at).1)
    }

    /// No more will come: what came becomes entries.
    pub fn flush(&mut self, out: &mut Vec<Observed>) {
        if !self.0.is_empty() {
            out.push(Observed::InProgress(None));
        }
        let texts = self.0.drain(..).filter(|(_, text)| !text.is_empty());
        out.extend(texts.map(|(kind, text)| kind.entry(text)));
    }
}
