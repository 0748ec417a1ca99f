//! From bytes to lines, and from lines to quotes. Pure.

use std::ops::Range;

use super::Passage;

/// The longest quote, in bytes; of longer lines only a piece is quoted.
pub(super) const QUOTE_MAX: usize = 1200;

/// A text, and the byte at which each of its lines begins.
#[derive(Default)]
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    /// The number of the line that contains a byte; the first line is 1.
    pub(super) fn number(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte)
    }

    /// The lines that contain a range of bytes, with a quote: the whole lines if they are short enough, else
    /// the range itself, cut to [`QUOTE_MAX`].
    pub(super) fn quote(&self, range: Range<usize>) -> Passage {
        let passage = |first_line, last_line, quote| Passage {
            first_line,
            last_line,
            quote,
            ..Passage::default()
        };
        let range = floor(self.text, range.start)..floor(self.text, range.end);
        let range = trimmed(self.text, range);
        let (first, last) = (self.number(range.start), self.number(range.end.max(1) - 1));
        let last = last.max(first);
        let end = match self.starts.get(last) {
            Some(next) if self.text[..next - 1].ends_with('\r') => next - 2,
            Some(next) => next - 1,
            None => self.text.len(),
        };
        let whole = self.starts[first - 1]..end;
        if whole.len() <= QUOTE_MAX {
            return passage(first, last, joined(&self.text[whole]));
        }
        let end = floor(self.text, range.end.min(range.start + QUOTE_MAX)).max(range.start);
        let quoted = joined(&self.text[range.start..end]);
        let last = first + quoted.bytes().filter(|byte| *byte == b'\n').count();
        passage(first, last, quoted)
    }
}

/// The range without white space at its ends.
pub(super) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let slice = &text[range.clone()];
    let start = range.end - slice.trim_start().len();
    start..start + slice.trim().len()
}

/// The lines of a text, as `str::lines` splits it, joined by `\n`.
fn joined(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("\n")
}

/// The last boundary of a character at or before a byte.
pub(super) fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The sentences of a text, as ranges of bytes that together cover the text, except for white space at its
/// end.
pub(super) fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let ends = match char {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' => {
                chars.peek().is_some_and(|(_, next)| next.is_whitespace())
                    && !is_abbreviated(&text[start..at])
            }
            _ => false,
        };
        if ends {
            let end = at + char.len_utf8();
            ranges.push(start..end);
            start = end;
        }
    }
    if !text[start..].trim().is_empty() {
        ranges.push(start..text.len());
    }
    ranges
}

/// Whether a full stop after this text belongs to an abbreviation.
fn is_abbreviated(before: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let word = word.to_lowercase();
    matches!(word.as_str(), "e.g" | "i.e" | "eg" | "ie" | "vs" | "approx" | "resp" | "cf" | "no")
}
