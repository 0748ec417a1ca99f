//! The changed files of a review: their list, and each file with its rows, pictures and comments.
//! Pure.

use std::collections::HashSet;
use std::ops::Range;

use maud::{Markup, html};
use provost_actors::workspace::changes::Status;
use provost_actors::workspace::quote;
use serde::Deserialize;

use super::threads::{OfFile, Reader, Span};
use crate::api::artifacts::ChangedFile;
use crate::api::comments::Comment;
use crate::http::page::colours::Colours;
use crate::http::page::line;
use crate::http::page::parts::encoded;
use crate::http::page::patch::{FilePatch, Side, View, side_by_side, unified};

/// Rows of one file that are shown at once; a button shows the next ones.
pub const ROWS: usize = 1000;

/// Whether both sides are in one column or in two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    #[default]
    Unified,
    Split,
}

impl Layout {
    /// The word in the query.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::Split => "split",
        }
    }
}

/// What is compared, and how it is shown.
pub struct Shown<'s> {
    pub reader: Reader<'s>,
    pub span: Span,
    pub layout: Layout,
}

/// A changed file. Without patches, `missing` says why.
pub struct File<'f> {
    pub changed: &'f ChangedFile,
    /// Usually one. Git writes two where the type changed, such as from a symbolic link to a file.
    pub patches: Vec<(FilePatch, Colours)>,
    /// Why there is no patch.
    pub missing: Option<Missing>,
    pub comments: Option<&'f OfFile<'f>>,
}

/// Why a file has no patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The batch was full: the file has a button that asks for it alone.
    Later,
    /// It does not even fit alone: the file has a link to its text.
    TooLong,
}

/// Whether a patch belongs to a listed file. A listed path begins with the repository's name, and a
/// patch of a single repository has paths without it.
pub fn is_of(patch: &FilePatch, listed: &str) -> bool {
    let (listed, path) = (quote::read(listed), quote::read(patch.path()));
    let below = listed.iter().position(|byte| *byte == b'/').map(|at| &listed[at + 1..]);
    listed == path || below == Some(path.as_slice())
}

/// The list of all files, with links to their places on the page; those of later batches work once the
/// batch is there. `drafts` counts the comments on a path.
pub fn list(files: &[ChangedFile], drafts: impl Fn(&str) -> usize) -> Markup {
    html! {
        nav.panel.tree-of-files aria-label="Changed files" {
            ul {
                @for (number, file) in files.iter().enumerate() {
                    li {
                        a href={ "#file-" (number) } title=(file.path) {
                            (letter(file.status))
                            span.path { bdi { (line::plain(&file.path)) } }
                            @let count = drafts(&file.path);
                            @if count > 0 { span.tag { (count) span aria-hidden="true" { " ✎" } span.unseen { " comments" } } }
                            span.small { (counts(file)) }
                        }
                    }
                }
            }
        }
    }
}

fn letter(status: Status) -> Markup {
    let (letter, word) = match status {
        Status::Added => ("A", "added"),
        Status::Modified => ("M", "modified"),
        Status::Deleted => ("D", "deleted"),
        Status::Renamed => ("R", "renamed"),
    };
    html! { span.tag title=(word) { span aria-hidden="true" { (letter) } span.unseen { (word) } } }
}

fn counts(file: &ChangedFile) -> Markup {
    html! {
        @if file.added > 0 { span.plus { "+" (file.added) } }
        @if file.added > 0 && file.deleted > 0 { " " }
        @if file.deleted > 0 { span.minus { "−" (file.deleted) } }
    }
}

impl Shown<'_> {
    /// The address of a part of the review.
    pub fn path(&self, part: &str) -> String {
        let Self { reader, span, layout } = self;
        let (id, query, layout) = (reader.attempt, span.query(), layout.word());
        format!("/attempts/{id}/review{part}?{query}&layout={layout}")
    }

    /// The address of a part of one file. `number` names the element that the answer replaces.
    fn file_path(&self, part: &str, file: &str, number: usize) -> String {
        format!("{}&path={}&number={number}", self.path(part), encoded(file))
    }

    /// A file with its head. The script reloads it after a form in it was sent (`data-topic`).
    pub fn file(&self, file: &File<'_>, number: usize) -> Markup {
        let changed = file.changed;
        let path = self.file_path("/file", &changed.path, number);
        html! {
            section.file id={ "file-" (number) } data-item tabindex="-1" data-path=(changed.path)
                data-topic="this-file" hx-get=(path) hx-trigger="changed" hx-swap="outerHTML"
                aria-labelledby={ "file-" (number) "-name" } {
                div.item-head {
                    (letter(changed.status))
                    h3 id={ "file-" (number) "-name" } { (names(file)) }
                    span.end { (counts(changed)) }
                }
                (self.body(file, number, 0..ROWS))
            }
        }
    }

    /// The rows in a range, and a button for those after it. Notes, comments without a line and pictures
    /// come with the first range only.
    pub fn body(&self, file: &File<'_>, number: usize, rows: Range<usize>) -> Markup {
        html! {
            @if rows.start == 0 {
                (self.notes(file, number))
                (self.apart(file))
                @if is_picture(&file.changed.path) { (self.pictures(file)) }
            }
            @for (patch, colours) in &file.patches {
                @if patch.row_count() > rows.start { (self.table(file, patch, colours, &rows)) }
            }
            @let left = file.patches.iter().map(|it| it.0.row_count()).max().unwrap_or_default();
            @if left > rows.end {
                @let path = self.file_path("/rows", &file.changed.path, number);
                @let more = format!("{path}&from_row={}", rows.end);
                a.more href=(more) hx-get=(more) hx-swap="outerHTML" { "Show " (left - rows.end) " more rows" }
            }
        }
    }

    fn table(
        &self,
        file: &File<'_>,
        patch: &FilePatch,
        colours: &Colours,
        rows: &Range<usize>,
    ) -> Markup {
        let below = |side: Side, line: u64| {
            self.reader.thread(file.comments.map_or(&[], |it| it.below(side, line)))
        };
        let view = View { file: patch, colours, rows: rows.clone(), below: &below };
        let table = if self.layout == Layout::Split { side_by_side(&view) } else { unified(&view) };
        html! { div.diff-box { (table) } }
    }

    /// What the rows do not show: a changed mode, binary content, or why there is no patch.
    fn notes(&self, file: &File<'_>, number: usize) -> Markup {
        let later = self.file_path("/file", &file.changed.path, number);
        html! {
            @for (patch, _) in &file.patches {
                @if let (Some(old), Some(new)) = (&patch.old_mode, &patch.new_mode) {
                    @if old != new { p.note.muted { "Mode " code { (old) } " became " code { (new) } } }
                }
                @if patch.is_binary { p.note.muted { "A binary file." } }
                @else if patch.hunks.is_empty() { p.note.muted { "No lines changed." } }
            }
            @match file.missing {
                None => {}
                Some(Missing::Later) => p.note {
                    a.button href=(later) hx-get=(later) hx-target="closest .file" hx-swap="outerHTML" { "Show the changes" }
                },
                Some(Missing::TooLong) => p.note.muted { "The changes of this file are too long to be shown. "
                    a href=(self.file_path("/text", &file.changed.path, number)) { "Read the file" } },
            }
        }
    }

    /// The comments whose lines are in no hunk.
    fn apart(&self, file: &File<'_>) -> Markup {
        let Some(comments) = file.comments else { return html! {} };
        let rows = file.patches.iter().flat_map(|(patch, _)| &patch.hunks).flat_map(|it| &it.rows);
        let there: HashSet<(Side, u64)> = rows
            .flat_map(|row| [(Side::Old, row.old), (Side::New, row.new)])
            .filter_map(|(side, line)| Some((side, line?)))
            .collect();
        self.list_of(&comments.without_line(|side, line| there.contains(&(side, line))))
    }

    /// Comments, each with the lines that it quotes; nothing if there are none.
    pub fn list_of(&self, comments: &[&Comment]) -> Markup {
        html! {
            @if !comments.is_empty() {
                div.note { @for it in comments { (self.reader.comment(it, true)) } }
            }
        }
    }

    fn pictures(&self, file: &File<'_>) -> Markup {
        let path = &file.changed.path;
        let query = format!("{}&path={}", self.span.query(), encoded(path));
        let blob = |side: &str| {
            format!("/attempts/{}/review/blob?{query}&side={side}", self.reader.attempt)
        };
        html! {
            div.pictures {
                @if file.changed.status != Status::Added {
                    figure { figcaption.muted { "Before" } img src=(blob("old")) alt={ (path) ", before" } loading="lazy"; }
                }
                @if file.changed.status != Status::Deleted {
                    figure { figcaption.muted { "After" } img src=(blob("new")) alt={ (path) ", after" } loading="lazy"; }
                }
            }
        }
    }
}

/// The file's path; of a renamed file, the old one before it.
fn names(file: &File<'_>) -> Markup {
    let renamed = file.patches.iter().map(|it| &it.0).find(|it| it.old_path != it.new_path);
    let old = renamed.filter(|_| file.changed.status == Status::Renamed).map(|it| &it.old_path);
    html! {
        @if let Some(old) = old { span.muted { (line::plain(old)) " → " } }
        (line::plain(&file.changed.path))
    }
}

/// The media type of a picture, by the name of its file; `None`: not a kind that browsers show.
pub fn picture_type(path: &str) -> Option<&'static str> {
    let (_, end) = path.rsplit_once('.')?;
    Some(match end.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "bmp" => "image/bmp",
        "ico" => "image/x-icon",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

fn is_picture(path: &str) -> bool {
    picture_type(path).is_some()
}
