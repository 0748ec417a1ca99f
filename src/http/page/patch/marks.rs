//! What differs within a line: the words of a deleted line are compared with those of the added line
//! that replaces it. Pure; the work for one file is bounded.

use std::ops::Range;

use super::{Change, FilePatch, Row};

/// Most pairs of words that are compared for one file: time and memory grow with the pairs.
const PAIRS_MAX: usize = 2_000_000;

/// Longest line whose words are compared, in bytes.
const LINE_MAX: usize = 1000;

/// Marks what differs in the lines of a file.
pub fn mark(file: &mut FilePatch) {
    let mut pairs_left = PAIRS_MAX;
    for hunk in &mut file.hunks {
        let mut rest = hunk.rows.as_mut_slice();
        while let Some(start) = rest.iter().position(|row| row.change == Change::Deleted) {
            rest = &mut rest[start..];
            let deleted = rest.iter().take_while(|row| row.change == Change::Deleted).count();
            let (old, after) = rest.split_at_mut(deleted);
            let added = after.iter().take_while(|row| row.change == Change::Added).count();
            let (new, after) = after.split_at_mut(added);
            // With unequal numbers, nothing says which added line replaces which deleted one.
            if old.len() == new.len() {
                for (old, new) in old.iter_mut().zip(new) {
                    mark_pair(old, new, &mut pairs_left);
                }
            }
            rest = after;
        }
    }
}

/// Compares two lines by their words, first without what is equal at both ends, which is usually
/// most. Where no pairs are left, all words between the equal ends count as different.
fn mark_pair(old: &mut Row, new: &mut Row, pairs_left: &mut usize) {
    if old.text.len() > LINE_MAX || new.text.len() > LINE_MAX {
        return;
    }
    let (a, b) = (words(&old.text), words(&new.text));
    let is_same =
        |(a, b): &(&Range<usize>, &Range<usize>)| old.text[(*a).clone()] == new.text[(*b).clone()];
    let start = a.iter().zip(&b).take_while(is_same).count();
    let (a, b) = (&a[start..], &b[start..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(is_same).count();
    let (a, b) = (&a[..a.len() - end], &b[..b.len() - end]);
    let pairs = a.len() * b.len();
    let common = if pairs <= *pairs_left {
        *pairs_left -= pairs;
        common(a, b, |a, b| old.text[a.clone()] == new.text[b.clone()])
    } else {
        vec![]
    };
    let marks = |words: &[Range<usize>], kept: Vec<usize>| {
        let mut is_kept = vec![false; words.len()];
        for at in kept {
            is_kept[at] = true;
        }
        let differ = words.iter().zip(is_kept).filter(|(_, is_kept)| !is_kept);
        joined(differ.map(|(word, _)| word.clone()))
    };
    let (kept_old, kept_new) = common.into_iter().unzip();
    let (old_marks, new_marks) = (marks(a, kept_old), marks(b, kept_new));
    // Marks over most of a line say no more than the line's own colour.
    if is_mostly(&old.text, &old_marks) && is_mostly(&new.text, &new_marks) {
        return;
    }
    (old.marks, new.marks) = (old_marks, new_marks);
}

fn is_mostly(text: &str, marks: &[Range<usize>]) -> bool {
    let marked: usize = marks.iter().map(Range::len).sum();
    marked * 10 >= text.trim().len() * 7
}

/// The byte ranges of words, runs of blanks, and single other characters.
fn words(text: &str) -> Vec<Range<usize>> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 1,
        c if c.is_whitespace() => 2,
        _ => 0,
    };
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut last = 0;
    for (at, c) in text.char_indices() {
        let (end, this) = (at + c.len_utf8(), kind(c));
        match words.last_mut() {
            Some(word) if this == last && this != 0 => word.end = end,
            _ => words.push(at..end),
        }
        last = this;
    }
    words
}

/// A longest common subsequence: the indices of its items on both sides.
fn common<T>(a: &[T], b: &[T], is_same: impl Fn(&T, &T) -> bool) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    // For each pair of indices, the length of the longest common subsequence from there on. It fits
    // into 16 bits because a line has at most `LINE_MAX` words.
    let mut lengths = vec![0_u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            let at = i * width + j;
            lengths[at] = if is_same(&a[i], &b[j]) {
                lengths[at + width + 1] + 1
            } else {
                lengths[at + width].max(lengths[at + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        let at = i * width + j;
        if is_same(&a[i], &b[j]) {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[at + width] >= lengths[at + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// Merges ranges that touch.
fn joined(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(old: &str, new: &str) -> (Vec<String>, Vec<String>) {
        let row = |change, text: &str| Row {
            change,
            old: None,
            new: None,
            text: text.to_owned(),
            is_unended: false,
            marks: Vec::new(),
        };
        let (mut old, mut new) = (row(Change::Deleted, old), row(Change::Added, new));
        mark_pair(&mut old, &mut new, &mut PAIRS_MAX.clone());
        let of = |row: &Row| row.marks.iter().map(|it| row.text[it.clone()].to_owned()).collect();
        (of(&old), of(&new))
    }

    #[test]
    fn words_that_differ_are_marked_and_not_those_of_another_line() {
        let marks = |old: &[&str], new: &[&str]| {
            let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            (own(old), own(new))
        };
        assert_eq!(marked("let a = 1;", "let a = 12;"), marks(&["1"], &["12"]));
        assert_eq!(marked("call(a, b)", "call(a, x, b)"), marks(&[], &["x, "]));
        assert_eq!(marked("größe = 1 # x", "größe = 2 # y"), marks(&["1", "x"], &["2", "y"]));
        assert_eq!(marked("one two", "three four"), marks(&[], &[]));
        assert_eq!(marked("", "new"), marks(&[], &[]));
    }
}
