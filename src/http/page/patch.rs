//! A patch as git writes it, read into files, hunks and rows with their line numbers. Any text is
//! accepted: text that is no patch has no files. Pure.
//!
//! `header` reads the lines before a file's hunks, `marks` finds what differs within a line, `view`
//! writes the rows as tables.

mod header;
mod marks;
mod view;

use std::ops::Range;

use header::Header;
pub use view::{Side, View, side_by_side, unified};

/// A file of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePatch {
    /// Paths without the `a/` and `b/` of the patch; one that is not UTF-8 is in quotes.
    pub old_path: String,
    pub new_path: String,
    pub kind: Kind,
    /// Modes, such as 100755. `None`: the patch does not name that side's mode.
    pub old_mode: Option<String>,
    pub new_mode: Option<String>,
    /// Ids of the blobs, perhaps abbreviated; zeros on the side that has no file. `None`: no content
    /// changed.
    pub old_blob: Option<String>,
    pub new_blob: Option<String>,
    /// How similar both sides of a renamed or copied file are, in percent.
    pub similarity: Option<u8>,
    /// Its content is not text.
    pub is_binary: bool,
    pub hunks: Vec<Hunk>,
}

/// What happened to a file. A change of mode alone is `Modified`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    Added,
    Deleted,
    #[default]
    Modified,
    Renamed,
    Copied,
}

/// Changed lines with the unchanged ones around them. Lines count from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    pub old_start: u64,
    pub old_count: u64,
    pub new_start: u64,
    pub new_count: u64,
    /// The line that git shows as context, such as a function's head; often empty.
    pub heading: String,
    pub rows: Vec<Row>,
}

/// On which sides a row's line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Same,
    Added,
    Deleted,
}

/// A line of a hunk, without its sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub change: Change,
    /// The line's numbers, from 1, on the sides that have it.
    pub old: Option<u64>,
    pub new: Option<u64>,
    pub text: String,
    /// The file ends with this line, without a newline.
    pub is_unended: bool,
    /// The byte ranges that differ from the line on the other side. Empty: the line has no counterpart,
    /// most of it differs, or it is too long to be compared.
    pub marks: Vec<Range<usize>>,
}

/// The files of a patch, with what differs within lines marked.
pub fn parse(patch: &str) -> Vec<FilePatch> {
    let mut files: Vec<FilePatch> = Vec::new();
    let mut lines = patch.split('\n').peekable();
    while let Some(line) = lines.next() {
        let Some(names) = line.strip_prefix("diff --git ") else { continue };
        let mut header = Header::of(names);
        while let Some(line) = lines.next_if(|line| header.takes(line)) {
            header.take(line);
        }
        let mut file = header.file();
        while let Some(mut hunk) = lines.peek().and_then(|line| Hunk::head(line)) {
            lines.next();
            hunk.read(&mut lines);
            file.hunks.push(hunk);
        }
        marks::mark(&mut file);
        files.push(file);
    }
    files
}

impl FilePatch {
    /// The file's path: the new one, or the old one of a deleted file.
    pub fn path(&self) -> &str {
        if self.kind == Kind::Deleted { &self.old_path } else { &self.new_path }
    }

    /// The number of rows in all hunks, in which [`View::rows`] counts.
    pub fn row_count(&self) -> usize {
        self.hunks.iter().map(|hunk| hunk.rows.len()).sum()
    }
}

impl Hunk {
    /// Reads `@@ -1,2 +3,4 @@ heading`; `None`: the line begins no hunk.
    fn head(line: &str) -> Option<Self> {
        let (numbers, heading) = line.strip_prefix("@@ -")?.split_once(" @@")?;
        let (old, new) = numbers.split_once(" +")?;
        let ((old_start, old_count), (new_start, new_count)) = (span(old)?, span(new)?);
        let heading = heading.trim_start().to_owned();
        Some(Self { old_start, old_count, new_start, new_count, heading, rows: Vec::new() })
    }

    /// Reads as many rows as the head says. Only the counts tell where a hunk ends: a deleted line
    /// `-- x` looks like the header `--- x` of a next file.
    fn read<'l>(&mut self, lines: &mut std::iter::Peekable<impl Iterator<Item = &'l str>>) {
        let (mut old, mut new) = (self.old_start, self.new_start);
        let (old_end, new_end) = (end(old, self.old_count), end(new, self.new_count));
        while let Some(line) = lines.peek() {
            if line.starts_with("\\ ") {
                if let Some(last) = self.rows.last_mut() {
                    last.is_unended = true;
                }
                lines.next();
                continue;
            }
            let (change, text) = match line.as_bytes().first() {
                Some(b'+') if new < new_end => (Change::Added, &line[1..]),
                Some(b'-') if old < old_end => (Change::Deleted, &line[1..]),
                Some(b' ') if old < old_end && new < new_end => (Change::Same, &line[1..]),
                // Some programs remove the space that is all of an empty unchanged line.
                None if old < old_end && new < new_end => (Change::Same, ""),
                _ => return,
            };
            let (has_old, has_new) = (change != Change::Added, change != Change::Deleted);
            self.rows.push(Row {
                change,
                old: has_old.then_some(old),
                new: has_new.then_some(new),
                text: text.to_owned(),
                is_unended: false,
                marks: Vec::new(),
            });
            old += u64::from(has_old);
            new += u64::from(has_new);
            lines.next();
        }
    }
}

/// The line after the last one. The numbers come from the patch, so they may be of any size.
fn end(start: u64, count: u64) -> u64 {
    start.saturating_add(count)
}

/// `12,3`, or `12` for one line.
fn span(text: &str) -> Option<(u64, u64)> {
    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
    Some((start.parse().ok()?, count.parse().ok()?))
}

#[cfg(test)]
mod tests;
