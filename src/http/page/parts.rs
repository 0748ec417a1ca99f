//! Small parts of pages: badges, times, amounts, and text whose characters are all visible. Pure.

use std::fmt::Write as _;

use maud::{Markup, html};
use provost_actors::event::Timestamp;
use provost_actors::journal::WaitingOn;
use provost_actors::text::is_unseen;

use crate::api::attempts::{AttemptPhase, AttemptState};
use crate::api::tasks::Priority;
pub use crate::work::labels::{headline, word};

/// What a badge means. Each tone has its own shape, for readers who can't tell the colours apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    /// A person is needed.
    Asks,
    /// Work is under way.
    Busy,
    /// It waits, and continues without a person.
    Waits,
    /// Nothing to do, and nothing wrong.
    Quiet,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Good => "badge good",
            Self::Bad => "badge bad",
            Self::Asks => "badge asks",
            Self::Busy => "badge busy",
            Self::Waits => "badge waits",
            Self::Quiet => "badge quiet",
        }
    }

    fn shape(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Bad => "✕",
            Self::Asks => "◆",
            Self::Busy => "●",
            Self::Waits => "◔",
            Self::Quiet => "○",
        }
    }
}

/// A short label. The shape is hidden from screen readers, which read the text.
pub fn badge(tone: Tone, text: &str) -> Markup {
    html! { span class=(tone.class()) { span.shape aria-hidden="true" { (tone.shape()) } (text) } }
}

/// The state of an attempt in a word, and what it waits for. The phase comes first: while a turn runs,
/// it says more than the state.
pub fn attempt_badge(
    state: AttemptState,
    phase: AttemptPhase,
    waiting_on: Option<WaitingOn>,
) -> Markup {
    let (tone, text) = match (phase, state) {
        (AttemptPhase::Queued, _) => (Tone::Waits, "queued"),
        (AttemptPhase::Preparing, _) => (Tone::Busy, "preparing"),
        (AttemptPhase::Running, _) => (Tone::Busy, "running"),
        (AttemptPhase::Stopping, _) => (Tone::Busy, "stopping"),
        (AttemptPhase::Waiting, _) => (Tone::Asks, "waiting"),
        (_, AttemptState::Failed) => (Tone::Bad, "failed"),
        (_, AttemptState::Completed) => (Tone::Good, "completed"),
        (_, AttemptState::Running) => (Tone::Busy, "running"),
        (_, AttemptState::Idle) => (Tone::Quiet, "idle"),
    };
    let on = waiting_on.map(|on| match on {
        WaitingOn::Host => "its host drains".to_owned(),
        other => word(&other),
    });
    let on = on.map(|on| format!("{text}: {on}"));
    badge(tone, on.as_deref().unwrap_or(text))
}

/// A priority; nothing for `medium`, which is the default.
pub fn priority(priority: Priority) -> Markup {
    let (class, mark) = match priority {
        Priority::Critical => ("priority critical", "‼"),
        Priority::High => ("priority high", "↑"),
        Priority::Medium => return html! {},
        Priority::Low => ("priority low", "↓"),
    };
    html! { span class=(class) { span aria-hidden="true" { (mark) } (word(&priority)) } }
}

/// The time since a moment. The script keeps the text up to date (`data-ago`).
pub fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let seconds = now.since(at).as_secs();
    let text = if seconds < 10 { "now".to_owned() } else { format!("{} ago", span(seconds)) };
    html! { time datetime=(at) title=(at) data-ago { (text) } }
}

/// A number of seconds in its largest unit, rounded down: 90 is `1m`.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number in a few characters, rounded down: 12345 is `12.3k`.
pub fn amount(number: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    let unit = UNITS.iter().find(|(size, _)| number >= *size);
    let Some((size, name)) = unit else { return number.to_string() };
    let tenths = number / (size / 10);
    if tenths >= 1000 {
        return format!("{}{name}", tenths / 10);
    }
    format!("{}.{}{name}", tenths / 10, tenths % 10)
}

/// So many files, in words.
pub fn files(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// US dollars to a cent; a cost above zero and below a cent is `< $0.01`.
pub fn dollars(cost: f64) -> String {
    if cost > 0.0 && cost < 0.01 { "< $0.01".to_owned() } else { format!("${cost:.2}") }
}

/// Text whose control, reordering and invisible characters are escaped: a command that a person
/// approves must look like what runs. Line breaks and tabs stay.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A value in a path or query: everything but unreserved characters (RFC 3986) is escaped.
pub fn encoded(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_short() {
        let shown = [0, 999, 1000, 12_345, 999_999, 1_000_000, 3_456_000_000].map(amount);
        assert_eq!(shown, ["0", "999", "1.0k", "12.3k", "999k", "1.0M", "3.4G"]);
    }

    #[test]
    fn times_are_in_their_largest_unit() {
        assert_eq!(
            [0, 59, 60, 3599, 3600, 86_400].map(span),
            ["0s", "59s", "1m", "59m", "1h", "1d"]
        );
    }

    #[test]
    fn every_tone_has_its_own_shape() {
        let tones = [Tone::Good, Tone::Bad, Tone::Asks, Tone::Busy, Tone::Waits, Tone::Quiet]
            .map(Tone::shape);
        let different: std::collections::BTreeSet<_> = tones.iter().collect();
        assert_eq!(different.len(), tones.len());
    }

    #[test]
    fn a_command_can_not_hide_what_it_does() {
        assert_eq!(visible("rm \u{202e}x\u{1b}[8m"), "rm \\u{202e}x\\u{1b}[8m");
        assert_eq!(visible("a\u{ad}b\u{200d}c\u{2063}"), "a\\u{ad}b\\u{200d}c\\u{2063}");
        assert_eq!(visible("a\n\tb"), "a\n\tb");
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_plain_and_says_the_same(text in any::<String>()) {
            let encoded = encoded(&text);
            prop_assert!(encoded.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)));
            let form = format!("value={encoded}");
            let back: Vec<(String, String)> = serde_urlencoded_pairs(&form);
            prop_assert_eq!(&back[0].1, &text);
        }
    }

    /// As a server reads a query.
    fn serde_urlencoded_pairs(query: &str) -> Vec<(String, String)> {
        let uri: axum::http::Uri = format!("/?{query}").parse().unwrap();
        axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).unwrap().0
    }
}
