//! JSON: each object or array is a section named by its path, and each value is a passage. Pure.
//!
//! `serde_json` reads the text level by level: a [`RawValue`] borrows from the text, so the position of its
//! value in the text is known.

use std::collections::HashSet;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::lines::{Lines, QUOTE_MAX, floor, sentences};
use super::{LEAD_MAX, ParseError, Passage, Section};

/// Values below this depth are quoted as they are: each level reads everything below it again.
const DEPTH_MAX: usize = 48;

/// An array of short values is one passage if it is no longer than this, in bytes.
const SHORT_ARRAY: usize = 200;

/// An array with more lines is not quoted as a whole.
const LIST_LINES: usize = 14;

/// Members whose value names the object they are in; case does not matter.
const NAMES: [&str; 6] = ["name", "title", "id", "key", "label", "type"];

/// The sections of a JSON document; empty for an empty text. Fails if the text is not JSON, or if one object
/// has a name twice.
pub(super) fn sections(text: &str) -> Result<Vec<Section>, ParseError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let root: &RawValue =
        serde_json::from_str(text).map_err(|error| ParseError::NotJson(error.to_string()))?;
    let mut reader = Reader { text, lines: Lines::of(text), sections: Vec::new() };
    if let Some(parts) = parts(root.get()) {
        reader.group(&PathStep::default(), &parts)?;
    } else {
        let passages = reader.passages("", None, root);
        reader.push(&PathStep::default(), passages);
    }
    Ok(reader.sections)
}

/// A member of an object, or an element of an array, which has no name.
struct Part<'a> {
    name: Option<String>,
    value: &'a RawValue,
}

/// Where the reader is in the document.
#[derive(Clone, Default)]
struct PathStep {
    /// The path so far: `design.colors[2]`.
    path: String,
    /// The last name of the path, and the values by which the object names itself.
    heading: String,
    /// The names above the last one.
    above: String,
    depth: usize,
}

struct Reader<'a> {
    text: &'a str,
    lines: Lines<'a>,
    sections: Vec<Section>,
}

impl Reader<'_> {
    /// Refuses an object that has a name twice, because it is unclear which value counts.
    fn check(&self, parts: &[Part<'_>]) -> Result<(), ParseError> {
        let mut seen = HashSet::new();
        let again = parts.iter().find(|part| part.name.as_ref().is_some_and(|it| !seen.insert(it)));
        let Some(Part { name: Some(name), value }) = again else { return Ok(()) };
        let line = self.lines.number(self.begin(value));
        Err(ParseError::SameName { name: name.clone(), line })
    }

    /// The byte at which a value begins, with its name if it has one.
    fn begin(&self, value: &RawValue) -> usize {
        let start = value.get().as_ptr().addr() - self.text.as_ptr().addr();
        key_of(self.text, start).unwrap_or(start)
    }

    /// Reads an object or an array: first its own values, then the sections below it.
    fn group(&mut self, place: &PathStep, parts: &[Part<'_>]) -> Result<(), ParseError> {
        self.check(parts)?;
        let mut place = place.clone();
        for part in parts {
            let says = |name: &String| NAMES.contains(&name.to_lowercase().as_str());
            if part.name.as_ref().is_some_and(says) && place.depth > 0 {
                place.heading = joined(&place.heading, &scalar(part.value));
            }
        }
        let (values, deeper): (Vec<_>, Vec<_>) =
            parts.iter().enumerate().partition(|(_, part)| !place.is_above(part.value));
        let passages = values.iter().flat_map(|(at, part)| {
            let path = format!("{}{}", place.path, part.step(*at, &place.path));
            self.passages(part.name.as_deref().unwrap_or_default(), Some(&path), part.value)
        });
        let passages = passages.collect();
        self.push(&place, passages);
        for (at, part) in deeper {
            let Some(parts) = self::parts(part.value.get()) else { continue };
            let place = place.deeper(part, at);
            if part.value.get().starts_with('[') && is_flat(part.value.get()) {
                self.whole(&place, part.value);
            }
            self.group(&place, &parts)?;
        }
        Ok(())
    }

    fn push(&mut self, place: &PathStep, passages: Vec<Passage>) {
        if !passages.is_empty() {
            let breadcrumb =
                if place.path.is_empty() { "$".to_owned() } else { place.path.clone() };
            let (heading, above) = (place.heading.clone(), place.above.clone());
            self.sections.push(Section { breadcrumb, heading, above, passages });
        }
    }

    /// Adds an array of plain values as one passage, which answers a question about the array's name.
    fn whole(&mut self, place: &PathStep, value: &RawValue) {
        let end = value.get().as_ptr().addr() - self.text.as_ptr().addr() + value.get().len();
        let whole = self.lines.quote(self.begin(value)..end);
        let text = scalar(value);
        if whole.last_line - whole.first_line < LIST_LINES && !text.is_empty() {
            let asked = Some(place.heading.clone());
            self.push(place, vec![Passage { asked, text, is_whole: true, ..whole }]);
        }
    }

    /// The passages of a value: one for each sentence of a long text.
    fn passages(&self, key: &str, path: Option<&str>, value: &RawValue) -> Vec<Passage> {
        let start = value.get().as_ptr().addr() - self.text.as_ptr().addr();
        let whole = self.begin(value)..start + value.get().len();
        let (key, said) = (words(key), scalar(value));
        let ranges = sentences(&said);
        let mut passages = Vec::new();
        // Sentences follow each other in the text, so the search for one begins where the last one ended.
        let mut read = 0;
        for range in &ranges {
            let sentence = said[range.clone()].trim();
            let is_long = ranges.len() > 1 && whole.len() > QUOTE_MAX;
            let written = is_long.then(|| written(&value.get()[read..], sentence)).flatten();
            let written = written.map(|at| read + at.start..read + at.end);
            read = written.as_ref().map_or(read, |at| at.end);
            let written = written.map(|at| start + at.start..start + at.end);
            let is_phrase = sentence.split_whitespace().nth(2).is_some();
            let named = format!("{key}: {sentence}");
            passages.push(Passage {
                text: if key.is_empty() || is_phrase { sentence.to_owned() } else { named.clone() },
                asked: (is_phrase && !key.is_empty()).then_some(named),
                path: path.map(str::to_owned),
                ..self.lines.quote(written.unwrap_or(whole.clone()))
            });
        }
        passages
    }
}

/// Where a sentence is in the JSON text, where some characters are escaped.
fn written(json: &str, sentence: &str) -> Option<std::ops::Range<usize>> {
    let escaped = serde_json::to_string(sentence).ok()?;
    let escaped = escaped.trim_matches('"');
    let at = json.find(escaped)?;
    Some(at..at + escaped.len())
}

impl PathStep {
    /// Whether a value becomes a section of its own instead of a passage.
    fn is_above(&self, value: &RawValue) -> bool {
        let text = value.get();
        let is_list_of_words = || {
            text.len() <= SHORT_ARRAY
                && parts(text).is_some_and(|parts| parts.iter().all(|part| is_word(part.value)))
        };
        self.depth < DEPTH_MAX
            && text.starts_with(['{', '['])
            && !(text.starts_with('[') && is_list_of_words())
    }

    /// The place of a member or an element of this place.
    fn deeper(&self, part: &Part<'_>, at: usize) -> Self {
        let mut place = Self {
            path: format!("{}{}", self.path, part.step(at, &self.path)),
            heading: self.heading.clone(),
            above: self.above.clone(),
            depth: self.depth + 1,
        };
        // An element of an array has no name; it keeps the heading of the array.
        if let Some(key) = &part.name {
            place.above = joined(&self.above, &self.heading);
            place.heading = words(&key[..floor(key, LEAD_MAX)]);
        }
        place
    }
}

impl Part<'_> {
    /// What a part adds to the path.
    fn step(&self, at: usize, path: &str) -> String {
        match &self.name {
            Some(name) if path.is_empty() => name.clone(),
            Some(name) => format!(".{name}"),
            None => format!("[{at}]"),
        }
    }
}

fn joined(one: &str, other: &str) -> String {
    format!("{one} {other}").trim().to_owned()
}

/// A name as words: `navigationStyle` and `nav_style` are two words each.
fn words(key: &str) -> String {
    let mut words = String::new();
    let mut before = ' ';
    for char in key.chars() {
        if char == '_' || char == '-' {
            words.push(' ');
        } else {
            if char.is_uppercase() && before.is_lowercase() {
                words.push(' ');
            }
            words.push(char);
        }
        before = char;
    }
    words
}

/// A value as text: the content of a string, the elements of a flat array, else the JSON text.
fn scalar(value: &RawValue) -> String {
    let text = value.get();
    match text.bytes().next() {
        Some(b'"') => serde_json::from_str(text).unwrap_or_default(),
        Some(b'[') if is_flat(text) => {
            let parts = parts(text).unwrap_or_default();
            parts.iter().map(|part| scalar(part.value)).collect::<Vec<_>>().join(", ")
        }
        // A value below the depth that is read: its JSON text.
        Some(b'[' | b'{') => text[..floor(text, QUOTE_MAX)].to_owned(),
        Some(b'n') | None => String::new(),
        Some(_) => text.to_owned(),
    }
}

/// Whether an array contains neither arrays nor objects.
fn is_flat(text: &str) -> bool {
    let is_plain = |part: &Part<'_>| !part.value.get().starts_with(['{', '[']);
    parts(text).is_some_and(|parts| parts.iter().all(is_plain))
}

/// Whether a value is short: at most three words.
fn is_word(value: &RawValue) -> bool {
    let text = value.get();
    !text.starts_with(['{', '[']) && text.split_whitespace().nth(3).is_none()
}

/// The byte at which the name of a value begins; `value` is the byte at which the value begins. `None`: no
/// name.
fn key_of(text: &str, value: usize) -> Option<usize> {
    let before = text[..value].trim_end().strip_suffix(':')?.trim_end().strip_suffix('"')?;
    let mut end = before.len();
    loop {
        let quote = before[..end].rfind('"')?;
        let escapes = before[..quote].bytes().rev().take_while(|byte| *byte == b'\\').count();
        if escapes % 2 == 0 {
            return Some(quote);
        }
        end = quote;
    }
}

/// The members or elements of a value; `None`: it is neither an object nor an array.
fn parts(text: &str) -> Option<Vec<Part<'_>>> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_any(PartsVisitor).ok()
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Vec<Part<'de>>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            parts.push(Part { name: Some(name), value });
        }
        Ok(parts)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(value) = elements.next_element::<&RawValue>()? {
            parts.push(Part { name: None, value });
        }
        Ok(parts)
    }
}
