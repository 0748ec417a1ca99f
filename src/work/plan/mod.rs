//! Plan documents taken apart: sections with a breadcrumb, and in them the
//! passages that can be quoted, each with the lines on which it stands. Pure.
//!
//! A passage says one thing: a sentence, an item of a list, a row of a table, a
//! value of a JSON document. Whatever it says only because of what stands around it
//! is kept apart, since a question is answered by what is said, not by what is near.

mod json;
mod lines;
mod markdown;
mod text;

use serde::{Deserialize, Serialize};
use serde_json::json;

/// Most passages of a section, so that one is read quickly: a longer section is cut
/// into several with the same breadcrumb.
pub const PASSAGES_MAX: usize = 60;

/// Most bytes of what introduces a passage, and of a heading: each is repeated with
/// every passage or section below it.
const LEAD_MAX: usize = 300;

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Markdown,
    Json,
    Text,
}

impl Format {
    /// The file name endings of plan documents, and what they mean.
    pub const ENDINGS: [(&'static str, Self); 4] = [
        (".md", Self::Markdown),
        (".markdown", Self::Markdown),
        (".json", Self::Json),
        (".txt", Self::Text),
    ];

    /// Tells the format by a file's name; any other ending means text.
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

/// A part of a document under one heading or JSON path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Where it stands, as answers show it: `Navigation > Mobile`, `design.colors`.
    pub breadcrumb: String,
    pub heading: String,
    pub above: String,
    pub passages: Vec<Passage>,
}

/// What can be quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// First and last line in the document, counted from 1.
    pub first_line: usize,
    pub last_line: usize,
    /// Verbatim what stands there: these lines joined by `\n`, or, where they are too
    /// long to be quoted, a piece of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub quote: String,
    pub text: String,
    /// The words that a question is compared with, when they are others. Of a passage as a
    /// whole, what introduces it: what is in it are passages too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// A list, a table or a paragraph as a whole; what is in it are passages too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole: bool,
    /// What introduces it: the item above, the sentence before its list, a table's head.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lead: String,
    /// Its own path, where that is longer than its section's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The language of a block of code; empty if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl Passage {
    /// The words that a question is compared with.
    pub fn said(&self) -> &str {
        self.asked.as_deref().unwrap_or(&self.text)
    }
}

/// The text of a file, without a byte order mark. A lone carriage return ends a line
/// where nothing else does.
///
/// # Errors
/// [`ParseError::NotUtf8`] with the first byte that is none.
pub fn decode(bytes: Vec<u8>) -> Result<String, ParseError> {
    let text = String::from_utf8(bytes)
        .map_err(|error| ParseError::NotUtf8(error.utf8_error().valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    Ok(if text.contains('\n') { text } else { text.replace('\r', "\n") })
}

/// Takes a document apart. Sections without anything to quote are left out.
///
/// # Errors
/// [`ParseError::NotJson`] where the format is JSON and the text is not, and
/// [`ParseError::SameName`] where one of its objects says two things under one name.
pub fn sections(format: Format, text: &str) -> Result<Vec<Section>, ParseError> {
    let sections = match format {
        Format::Markdown => markdown::sections(text),
        Format::Json => json::sections(text)?,
        Format::Text => text::sections(text),
    };
    Ok(sections.into_iter().flat_map(pieces).collect())
}

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

/// Passages of a section as JSON, in which a quote that several in a row share stands once.
pub fn pack(passages: &[Passage]) -> String {
    let mut last = None;
    let packed = passages.iter().map(|passage| {
        let is_again = last.replace(&passage.quote) == Some(&passage.quote);
        let quote = if is_again { String::new() } else { passage.quote.clone() };
        Passage { quote, ..passage.clone() }
    });
    json!(packed.collect::<Vec<_>>()).to_string()
}

/// The passages that [`pack`] packed.
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
