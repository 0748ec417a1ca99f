//! Plain text: each paragraph is a section, below the last line before it that looks like a heading. Pure.

use std::ops::Range;

use super::lines::{Lines, floor, sentences};
use super::{LEAD_MAX, Passage, Section};

/// A line that stands alone counts as a heading if it has at most this many words.
const HEADING_WORDS: usize = 6;

/// The sections of a plain text. A section without a heading is named after its line.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let lines = Lines::of(text);
    let mut sections = Vec::new();
    let mut heading = String::new();
    for paragraph in paragraphs(text) {
        let mut body = paragraph.clone();
        if let Some((title, length)) = title(&text[paragraph]) {
            heading = title;
            body.start += length;
        }
        let passages = passages(&lines, text, body);
        if let Some(first) = passages.first() {
            let breadcrumb = match heading.as_str() {
                "" => format!("line {}", first.first_line),
                heading => heading.to_owned(),
            };
            let heading = heading.clone();
            sections.push(Section { breadcrumb, heading, above: String::new(), passages });
        }
    }
    sections
}

/// The ranges of the paragraphs, which blank lines separate.
fn paragraphs(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut at, mut start) = (0, None);
    for line in text.split_inclusive('\n') {
        if line.trim().is_empty() {
            found.extend(start.take().map(|start| start..at));
        } else {
            start.get_or_insert(at);
        }
        at += line.len();
    }
    found.extend(start.map(|start| start..text.len()));
    found
}

/// The heading at the beginning of a paragraph, and its length in bytes: a line that is underlined, in
/// capitals, or short and alone. `None`: the paragraph begins with none.
fn title(paragraph: &str) -> Option<(String, usize)> {
    let mut lines = paragraph.split_inclusive('\n');
    let (first, second) = (lines.next()?, lines.next());
    let words = first.trim().trim_end_matches(':');
    let is_rule = |line: &&str| {
        let line = line.trim();
        line.len() > 2 && (line.bytes().all(|b| b == b'=') || line.bytes().all(|b| b == b'-'))
    };
    let underline = second.filter(is_rule);
    let has_capitals = words.chars().any(char::is_uppercase)
        && !words.chars().any(char::is_lowercase)
        && second.is_some();
    let is_alone = second.is_none()
        && words.split_whitespace().count() <= HEADING_WORDS
        && !words.contains([':', '=', '.'])
        && !words.ends_with(['!', '?', ',', ';', '。'])
        && !begins_item(words);
    let is_title = underline.is_some() || has_capitals || is_alone;
    let length = first.len() + underline.map_or(0, str::len);
    (is_title && words.chars().any(char::is_alphanumeric)).then(|| (words.to_owned(), length))
}

/// Whether a line begins an item of a list.
fn begins_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with(['-', '*', '•', '+'])
        || number.len() < line.len() && number.starts_with([')', '.'])
}

/// The ranges of the items of a paragraph; a paragraph without items is one range.
fn items(text: &str, body: Range<usize>) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    let mut at = body.start;
    for line in text[body].split_inclusive('\n') {
        let end = at + line.len();
        match items.last_mut() {
            Some(item) if !begins_item(line) => item.end = end,
            _ => items.push(at..end),
        }
        at = end;
    }
    items
}

fn passages(lines: &Lines<'_>, text: &str, body: Range<usize>) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut lead = String::new();
    for item in items(text, body) {
        let said: Vec<_> = sentences(&text[item.clone()])
            .into_iter()
            .map(|said| item.start + said.start..item.start + said.end)
            .map(|said| (plain(&text[said.clone()]), said))
            .filter(|(words, _)| words.chars().any(char::is_alphanumeric))
            .collect();
        for (at, (words, range)) in said.iter().enumerate() {
            if words.ends_with(':') && at + 1 == said.len() {
                words[..floor(words, LEAD_MAX)].clone_into(&mut lead);
                continue;
            }
            let (text, lead) = (words.clone(), lead.clone());
            passages.push(Passage { text, lead, ..lines.quote(range.clone()) });
        }
    }
    passages
}

/// The text on one line, without the mark of an item.
fn plain(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.trim_start_matches(['-', '*', '•', '+', ' ']).to_owned()
}
