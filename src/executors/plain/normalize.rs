//! Lines of stdout are assistant messages, lines of stderr system messages.

use provost_actors::event::{Event, RawEntry, Stream};
use provost_actors::executor::{Normalizer, Observed};

/// Reads the output of a plain program.
pub fn normalizer() -> Box<dyn Normalizer> {
    Box::new(Plain)
}

struct Plain;

impl Normalizer for Plain {
    fn raw(&mut self, entry: &RawEntry, out: &mut Vec<Observed>) {
        let text = entry.text.clone();
        out.push(Observed::Entry(match entry.stream {
            Stream::Stdout => Event::AssistantMessage { text, continued: entry.continued },
            Stream::Stderr => Event::SystemMessage { text },
        }));
    }

    fn end(&mut self, _: &mut Vec<Observed>) {}
}
