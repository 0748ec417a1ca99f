//! What differs between the engines, by name. All other statements of the store are one text for both.

pub mod postgres;
mod sqlite;

use std::borrow::Cow;

/// The statements and abilities that only one engine has.
#[derive(Debug)]
pub struct Dialect {
    /// Whether a text may contain U+0000.
    pub holds_nul: bool,
    /// The expression for the engine's clock, in milliseconds since 1970. Leases use it, because the clocks
    /// of the hosts may differ.
    pub now: &'static str,
    /// Begins a transaction that writes.
    pub begin_write: &'static str,
    /// Begins a transaction that reads, and whose statements all see the same commits.
    pub begin_snapshot: &'static str,
    /// Indexes the passages of a section of a plan: `$1` is the row id of the first one, `$2` the plan's
    /// word, `$3` the words of the headings, `$4` a JSON array with the words of each passage.
    pub index_passages: &'static str,
    /// The `$2` passages that match the words `$1` best, with their scores. A word in the headings weighs
    /// `$3`, one in the passage `$4`. A lower score is better.
    pub match_passages: &'static str,
    /// True if the passage with the row id `$2` does not match the words `$1`.
    pub lacks_words: &'static str,
    /// Writes a search in the query language of the engine.
    pub words: fn(&Words<'_>) -> String,
}

impl Dialect {
    /// A text of an agent or a script in a form that the engine can store. A refusal would lose the text,
    /// because its writer does not send it again in other words: U+0000 becomes U+FFFD instead.
    pub fn storable<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.holds_nul || !text.contains('\0') {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    }
}

/// A search in the passages of plans; an empty field admits all.
#[derive(Clone, Debug, Default)]
pub struct Words<'a> {
    /// The words of plans; one of them must match.
    pub plans: &'a [String],
    /// Words of the passage or of its headings.
    pub terms: Terms<'a>,
    /// Words of the headings; one of them must match.
    pub places: &'a [String],
}

impl<'a> Words<'a> {
    /// The same search, limited to passages below headings with one of these words.
    pub fn at(&self, places: &'a [String]) -> Self {
        Self { places, ..self.clone() }
    }
}

/// How many of the words a passage must contain.
#[derive(Clone, Copy, Debug, Default)]
pub enum Terms<'a> {
    #[default]
    None,
    Any(&'a [String]),
    All(&'a [String]),
}

/// The dialect of a board in a file.
pub static SQLITE: Dialect = sqlite::DIALECT;
/// The dialect of a board on a server.
pub static POSTGRES: Dialect = postgres::DIALECT;
