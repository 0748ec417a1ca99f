//! Comments on changed lines: where the lines are in a later version of their file, whether a turn has
//! changed them, and the prompt that an agent gets. Pure.
//!
//! Lines are followed from version to version by the differences between two versions. Lines that replaced
//! others, and the gap that deleted lines leave, are followed in the same way:
//!
//! ```text
//!   commented ──image──▶ as the review's turn found it ──is_touched?──▶ newest: addressed
//!       └───────────────────────moved────────────────────────────────▶ newest: outdated, now
//! ```

use std::fmt::Write;

use provost_actors::text::cut;
use provost_actors::workspace::file_versions::{Hunk, Span};
use provost_actors::workspace::quote;

use crate::api::comments::{Comment, Side};

/// How many lines and characters of the commented lines are quoted.
const QUOTED_LINES: usize = 40;
const QUOTED_CHARS: usize = 2000;

/// The differences between two versions of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The changed places, in their order.
    Lines(Vec<Hunk>),
    /// One of the versions does not exist, or the two can't be compared.
    All,
}

impl Difference {
    /// The versions are equal.
    pub const NONE: Self = Self::Lines(Vec::new());

    /// Where the lines are in the other version; `None`: at least one of them has changed.
    pub fn moved(&self, lines: Span) -> Option<Span> {
        (!self.is_touched(lines)).then(|| self.image(lines))
    }

    /// Whether one of the lines has changed, or something was inserted between them. For a gap (no lines):
    /// whether something was inserted there.
    pub fn is_touched(&self, lines: Span) -> bool {
        match self {
            Self::Lines(hunks) => hunks.iter().any(|hunk| touches(hunk, lines)),
            Self::All => true,
        }
    }

    /// What is in the other version instead of the lines: the unchanged ones among them, and all lines that
    /// replaced one of them.
    pub fn image(&self, lines: Span) -> Span {
        let Self::Lines(hunks) = self else { return Span { first: 1, count: 0 } };
        let is_before = |hunk: &&Hunk| hunk.old.end() <= lines.first && !touches(hunk, lines);
        let before = hunks.iter().rfind(is_before);
        let mut touching = hunks.iter().filter(|hunk| touches(hunk, lines));
        let Some(head) = touching.next() else {
            return Span { first: after(before, lines.first), ..lines };
        };
        let last = touching.next_back().unwrap_or(head);
        let (starts, ends) = (head.old.first <= lines.first, last.old.end() >= lines.end());
        let first = if starts { head.new.first } else { after(before, lines.first) };
        let end = if ends { last.new.end() } else { after(Some(last), lines.end()) };
        Span { first, count: end.saturating_sub(first) }
    }
}

/// Whether a change affects the lines, as [`Difference::is_touched`] counts it.
fn touches(hunk: &Hunk, lines: Span) -> bool {
    let old = hunk.old;
    match (lines.count, old.count) {
        (0, _) => old.first <= lines.first && lines.first <= old.end(),
        // Lines inserted before the first line or after the last one leave the commented lines as they are.
        (_, 0) => lines.first < old.first && old.first < lines.end(),
        _ => old.first < lines.end() && lines.first < old.end(),
    }
}

/// The number of a line in the other version; `hunk` is the last change before it.
fn after(hunk: Option<&Hunk>, line: u64) -> u64 {
    hunk.map_or(line, |hunk| hunk.new.end() + line.saturating_sub(hunk.old.end()))
}

/// The differences by which a comment is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// From the version that was commented on to the newest one.
    pub to_now: Difference,
    /// The commented lines, or those that replaced them, in the version after the changes that were commented
    /// on.
    pub changed: Span,
    /// From that version to the one that the review's turn found; then from that one to the newest snapshot,
    /// or `None` if the turn has no snapshot yet.
    pub to_turn: Difference,
    pub by_turns: Option<Difference>,
}

/// What has happened to commented lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePosition {
    /// Where the lines are now; `None`: at least one of them has changed.
    pub now: Option<Span>,
    /// The review's turn, or a later one, has changed the lines.
    pub is_addressed: bool,
}

impl Course {
    /// Judges a comment on these lines.
    pub fn standing(&self, lines: Span) -> LinePosition {
        let found = self.to_turn.image(self.changed);
        let is_addressed = self.by_turns.as_ref().is_some_and(|it| it.is_touched(found));
        LinePosition { now: self.to_now.moved(lines), is_addressed }
    }
}

/// The commented lines of a text, cut to what is quoted. The first line is 1.
///
/// # Errors
/// The text has fewer lines; the error is their number.
pub fn quoted(content: &[u8], lines: Span) -> Result<String, u64> {
    let content = String::from_utf8_lossy(content);
    let all = u64::try_from(content.lines().count()).unwrap_or(u64::MAX);
    if lines.end() > all.saturating_add(1) {
        return Err(all);
    }
    let first = usize::try_from(lines.first).unwrap_or(usize::MAX).saturating_sub(1);
    let count = usize::try_from(lines.count).unwrap_or(usize::MAX).min(QUOTED_LINES);
    let those: Vec<&str> = content.lines().skip(first).take(count).collect();
    Ok(cut(those.join("\n"), QUOTED_CHARS))
}

/// The prompt of a review: the message, then, file by file, each comment with its place and its lines.
pub fn prompt(message: Option<&str>, comments: &[Comment]) -> String {
    let message = message.unwrap_or("Please address these review comments on your changes.");
    let mut text = message.trim().to_owned();
    let mut sorted: Vec<&Comment> = comments.iter().collect();
    sorted.sort_by_key(|it| (&it.path, it.first_line, it.last_line, it.comment_id));
    let mut path = None;
    for comment in sorted {
        // Writing to a string can't fail.
        if path != Some(&comment.path) {
            let _ = write!(text, "\n\n## {}", on_a_line(&comment.path));
            path = Some(&comment.path);
        }
        let _ = write!(text, "\n\n### {}\n{}", place(comment), fenced(comment));
        let _ = write!(text, "\n{}", comment.text.trim());
    }
    text
}

/// `path:first-last`, and whether the lines are from an earlier version.
fn place(comment: &Comment) -> String {
    let at = |path: &str, first: u64, last: u64| {
        let last = if last > first { format!("-{last}") } else { String::new() };
        format!("{}:{first}{last}", on_a_line(path))
    };
    let Comment { path, first_line, last_line, .. } = comment;
    let commented = at(path, *first_line, *last_line);
    match (comment.side, &comment.now) {
        (Side::Old, _) => format!("{commented} (as it was before your changes)"),
        (Side::New, Some(now)) if comment.outdated => {
            let now = at(&now.path, now.first_line, now.last_line);
            format!("{now} (at the end of turn {}: {commented})", comment.turn)
        }
        (Side::New, None) if comment.outdated => {
            format!("{commented} (at the end of turn {}; changed since)", comment.turn)
        }
        (Side::New, _) => commented,
    }
}

/// The path on one line: quoted if it has control characters.
fn on_a_line(path: &str) -> String {
    let is_plain = !path.chars().any(char::is_control);
    if is_plain { path.to_owned() } else { quote::quoted(path.as_bytes()) }
}

/// The quoted lines between fences that are longer than any in the lines.
fn fenced(comment: &Comment) -> String {
    let quoted = &comment.quoted;
    let longest = quoted.split(|letter| letter != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat((longest + 1).max(3));
    let all = comment.last_line.saturating_sub(comment.first_line).saturating_add(1);
    let left = all.saturating_sub(u64::try_from(quoted.split('\n').count()).unwrap_or(u64::MAX));
    let more = if left > 0 { format!("\n(and {left} more lines)") } else { String::new() };
    format!("{fence}\n{quoted}\n{fence}{more}")
}

#[cfg(test)]
mod tests;
