//! Plan documents taken apart: sections with a breadcrumb, and in them the passages that can be quoted, each
//! with its lines in the document. Pure.
//!
//! A passage says one thing: a sentence, an item of a list, a row of a table, a value of a JSON document.
//! What the surroundings add to its meaning is stored separately (`asked`, `lead`), because a question is
//! answered by what is said, not by what is near.

mod json;
mod lines;
mod markdown;
mod text;

use serde::{Deserialize, Serialize};
use serde_json::json;

/// The most passages of a section, so that a section is read quickly. A longer one is split into several with
/// the same breadcrumb.
pub const PASSAGES_MAX: usize = 60;

/// The length in bytes to which headings and introductions are cut, because every passage or section below
/// repeats them.
const LEAD_MAX: usize = 300;

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Markdown,
    Json,
    Text,
}

impl Format {
    /// The endings of plan documents' names, and the format of each.
    pub const ENDINGS: [(&'static str, Self); 4] = [
        (".md", Self::Markdown),
        (".markdown", Self::Markdown),
        (".json", Self::Json),
        (".txt", Self::Text),
    ];

    /// The format by a file's name; all other endings mean text.
    pub fn of(name: &str) -> Self {
        let name = name.to_lowercase();
        let known = Self::ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
        known.map_or(Self::Text, |(_, format)| *format)
    }
}

/// Why a document can't be taken apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("not valid UTF-8 (byte offset {0})")]
    NotUtf8(usize),
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("one object has the name {name:?} twice, again in line {line}")]
    SameName { name: String, line: usize },
}

/// The part of a document below one heading or JSON path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Where the section is, as answers show it: `Navigation > Mobile`, `design.colors`.
    pub breadcrumb: String,
    /// The last heading, and the headings above it, each as words.
    pub heading: String,
    pub above: String,
    pub passages: Vec<Passage>,
}

/// A piece of a document that can be quoted as an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The first and the last line in the document; the first line of a document is 1.
    pub first_line: usize,
    pub last_line: usize,
    /// The text of these lines, verbatim and joined by `\n`; a piece of it, where the lines are too long to
    /// be quoted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub quote: String,
    /// What the passage says, in plain words: the text of an answer.
    pub text: String,
    /// The words that a question is compared with, if they differ from `text`. For a whole, this is its
    /// introduction, because its parts are passages too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// It is a whole list, table or paragraph; its parts are passages too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole: bool,
    /// What introduces the passage: the item above, the sentence before the list, or a table's head.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lead: String,
    /// The JSON path of the passage, if it is longer than the section's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The language of a block of code, or empty if none is named; `None`: it is no code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl Passage {
    /// The words that a question is compared with.
    pub fn said(&self) -> &str {
        self.asked.as_deref().unwrap_or(&self.text)
    }
}

/// The text of a file, without a byte order mark. Where a text has no line feed, a lone carriage return ends
/// a line.
///
/// # Errors
/// [`ParseError::NotUtf8`] with the offset of the first invalid byte.
pub fn decode(bytes: Vec<u8>) -> Result<String, ParseError> {
    let text = String::from_utf8(bytes)
        .map_err(|error| ParseError::NotUtf8(error.utf8_error().valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    Ok(if text.contains('\n') { text } else { text.replace('\r', "\n") })
}

/// Takes a document apart. Sections without passages are left out.
///
/// # Errors
/// [`ParseError::NotJson`] if the format is JSON and the text is not; [`ParseError::SameName`] if an object
/// has a name twice.
pub fn sections(format: Format, text: &str) -> Result<Vec<Section>, ParseError> {
    let sections = match format {
        Format::Markdown => markdown::sections(text),
        Format::Json => json::sections(text)?,
        Format::Text => text::sections(text),
    };
    Ok(sections.into_iter().flat_map(pieces).collect())
}

/// Splits a section into sections with at most [`PASSAGES_MAX`] passages.
fn pieces(section: Section) -> Vec<Section> {
    let Section { breadcrumb, heading, above, passages } = section;
    let piece = |passages: &[Passage]| Section {
        breadcrumb: breadcrumb.clone(),
        heading: heading.clone(),
        above: above.clone(),
        passages: passages.to_vec(),
    };
    passages.chunks(PASSAGES_MAX).map(piece).collect()
}

/// The passages of a section as JSON. If several passages in a row have the same quote, only the first one
/// contains it.
pub fn pack(passages: &[Passage]) -> String {
    let mut last = None;
    let packed = passages.iter().map(|passage| {
        let is_again = last.replace(&passage.quote) == Some(&passage.quote);
        let quote = if is_again { String::new() } else { passage.quote.clone() };
        Passage { quote, ..passage.clone() }
    });
    json!(packed.collect::<Vec<_>>()).to_string()
}

/// The passages that [`pack`] has packed.
pub fn unpack(packed: &str) -> serde_json::Result<Vec<Passage>> {
    let mut passages: Vec<Passage> = serde_json::from_str(packed)?;
    let mut last = String::new();
    for passage in &mut passages {
        if passage.quote.is_empty() {
            passage.quote.clone_from(&last);
        } else {
            last.clone_from(&passage.quote);
        }
    }
    Ok(passages)
}

#[cfg(test)]
mod tests;
