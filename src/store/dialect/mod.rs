//! What the engines do not have in common. The statements of the store are one text for both; here
//! is what differs, by name.

pub mod postgres;
mod sqlite;

use std::borrow::Cow;

/// What an engine has of its own.
#[derive(Debug)]
pub struct Dialect {
    /// Whether a text may contain U+0000.
    pub holds_nul: bool,
    /// The engine's clock, in milliseconds since 1970: that of leases.
    pub now: &'static str,
    /// Begins a transaction that writes.
    pub begin_write: &'static str,
    /// Begins a transaction that reads, and whose statements all see the same commits.
    pub begin_snapshot: &'static str,
    /// Indexes the passages of a section: from the row id `$1` on, of the plan with the word `$2`,
    /// with the words of the headings `$3` and those of each passage in the JSON array `$4`.
    pub index_passages: &'static str,
    /// The rows, with their scores, that match the words `$1` best: at most `$2`. A word in the
    /// headings weighs `$3`, one in the passage `$4`. A lower score is a better one.
    pub match_passages: &'static str,
    /// Whether the row `$2` does not match the words `$1`.
    pub lacks_words: &'static str,
    /// Writes what is searched for as the engine reads it.
    pub words: fn(&Words<'_>) -> String,
}

impl Dialect {
    /// A text that an agent or a script has written, as it can be stored: a refusal would lose it,
    /// since its writer does not send it again in other words.
    pub fn storable<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.holds_nul || !text.contains('\0') {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    }
}

/// What is searched for in the passages of plans.
#[derive(Clone, Debug, Default)]
pub struct Words<'a> {
    /// The words of the plans, of which one must match; empty: any plan.
    pub plans: &'a [String],
    /// Words of the passage or of its headings.
    pub terms: Terms<'a>,
    /// Words of the headings, of which one must match; empty: any headings.
    pub places: &'a [String],
}

impl<'a> Words<'a> {
    /// The same below headings with one of these words.
    pub fn at(&self, places: &'a [String]) -> Self {
        Self { places, ..self.clone() }
    }
}

/// Which of the words must be there.
#[derive(Clone, Copy, Debug, Default)]
pub enum Terms<'a> {
    #[default]
    None,
    Any(&'a [String]),
    All(&'a [String]),
}

pub static SQLITE: Dialect = sqlite::DIALECT;
pub static POSTGRES: Dialect = postgres::DIALECT;
