//! The rows of a file's hunks as a table: unified, or with both sides next to each other. A cell of
//! text names its side and line, to which a comment can be attached. Pure.

use std::ops::Range;

use maud::{Markup, html};

use super::{Change, FilePatch, Hunk, Row};
use crate::http::page::colours::Colours;
use crate::http::page::line;

/// A side of a comparison: before or after the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    Old,
    New,
}

impl Side {
    /// The name in `data-side`, which the script sends as a comment's `side`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }
}

/// What a table is made of.
pub struct View<'v> {
    pub file: &'v FilePatch,
    pub colours: &'v Colours,
    /// The rows that are shown, counted over all hunks of the file from 0.
    pub rows: Range<usize>,
    /// The comments below a line of a side; `None`: there are none.
    pub below: &'v dyn Fn(Side, u64) -> Option<Markup>,
}

/// Rows of a hunk with their number in it.
type Numbered<'v> = (usize, &'v Row);

/// Deleted and added lines one below the other, in one column of text.
pub fn unified(view: &View<'_>) -> Markup {
    table(view, "unified", &["Old line", "New line", "Change", "Text"], &|hunk, rows| {
        html! {
            @for (number, row) in rows {
                tr class=(class(row.change)) {
                    td.no { @if let Some(line) = row.old { (line) } }
                    td.no { @if let Some(line) = row.new { (line) } }
                    td.sign { (sign(row.change)) }
                    (text(view, hunk, (*number, row), side(row)))
                }
                (below(view, row.old, row.new))
            }
        }
    })
}

/// The old side in the left columns and the new side in the right ones.
pub fn side_by_side(view: &View<'_>) -> Markup {
    table(view, "beside", &["Old line", "Old text", "New line", "New text"], &|hunk, rows| {
        html! {
            @for (old, new) in pairs(rows) {
                tr {
                    (half(view, hunk, old, Side::Old))
                    (half(view, hunk, new, Side::New))
                }
                (below(view, old.and_then(|it| it.1.old), new.and_then(|it| it.1.new)))
            }
        }
    })
}

/// Writes the rows of a hunk, which it gets with the hunk's number.
type Body<'b> = &'b dyn Fn(usize, &[Numbered<'_>]) -> Markup;

fn table(view: &View<'_>, class: &str, heads: &[&str; 4], body: Body<'_>) -> Markup {
    let mut first = 0;
    html! {
        table class={ "diff " (class) } {
            colgroup { @for head in heads { col class=[head.ends_with("line").then_some("no")]; } }
            thead.unseen { tr { @for head in heads { th scope="col" { (head) } } } }
            @for (number, hunk) in view.file.hunks.iter().enumerate() {
                @let rows = shown(hunk, first, &view.rows);
                @if !rows.is_empty() {
                    tbody {
                        @if rows[0].0 == 0 { (head(hunk)) }
                        (body(number, &rows))
                    }
                }
                @let () = first += hunk.rows.len();
            }
        }
    }
}

/// The rows of a hunk that are within the range. `first` is the number of the hunk's first row in
/// the file.
fn shown<'h>(hunk: &'h Hunk, first: usize, range: &Range<usize>) -> Vec<Numbered<'h>> {
    let rows = hunk.rows.iter().enumerate();
    rows.filter(|(number, _)| range.contains(&(first + number))).collect()
}

fn head(hunk: &Hunk) -> Markup {
    let Hunk { old_start, old_count, new_start, new_count, heading, .. } = hunk;
    html! {
        tr.hunk {
            td colspan="4" {
                "@@ -" (old_start) "," (old_count) " +" (new_start) "," (new_count) " @@ "
                (line::plain(heading))
            }
        }
    }
}

fn half(view: &View<'_>, hunk: usize, row: Option<Numbered<'_>>, side: Side) -> Markup {
    let Some((number, row)) = row else { return html! { td.no.none {} td.none {} } };
    let line = if side == Side::Old { row.old } else { row.new };
    html! {
        td class={ "no " (class(row.change)) } { @if let Some(line) = line { (line) } }
        (text(view, hunk, (number, row), side))
    }
}

fn text(view: &View<'_>, hunk: usize, (number, row): Numbered<'_>, side: Side) -> Markup {
    let line = if side == Side::Old { row.old } else { row.new };
    html! {
        td class={ "text " (class(row.change)) } tabindex="-1" data-side=(side.word()) data-line=[line] {
            (line::show(&row.text, view.colours.row(hunk, number), &row.marks))
            @if row.is_unended { span.ctl { "no newline at the end" } }
        }
    }
}

fn below(view: &View<'_>, old: Option<u64>, new: Option<u64>) -> Markup {
    let sides = [(Side::Old, old), (Side::New, new)];
    let found = sides.into_iter().filter_map(|(side, line)| (view.below)(side, line?));
    html! {
        @for markup in found {
            tr.thread { td colspan="4" { (markup) } }
        }
    }
}

/// The side on which a comment on a row of the unified view is made: a line that is on both sides
/// counts as new.
fn side(row: &Row) -> Side {
    if row.change == Change::Deleted { Side::Old } else { Side::New }
}

fn class(change: Change) -> &'static str {
    match change {
        Change::Same => "same",
        Change::Added => "added",
        Change::Deleted => "deleted",
    }
}

fn sign(change: Change) -> &'static str {
    match change {
        Change::Same => "",
        Change::Added => "+",
        Change::Deleted => "−",
    }
}

/// The old and the new row of a line of the table; `None`: that half is empty.
type Pair<'v> = (Option<Numbered<'v>>, Option<Numbered<'v>>);

/// The lines of the table: an unchanged row is on both sides, and deleted rows are paired in order
/// with the added ones that follow them.
fn pairs<'v>(rows: &[Numbered<'v>]) -> Vec<Pair<'v>> {
    let mut pairs = Vec::new();
    let mut rest = rows;
    while let Some(first) = rest.first() {
        if first.1.change == Change::Same {
            pairs.push((Some(*first), Some(*first)));
            rest = &rest[1..];
            continue;
        }
        let run = |rows: &[Numbered<'_>], change| {
            rows.iter().take_while(|row| row.1.change == change).count()
        };
        let (old, after) = rest.split_at(run(rest, Change::Deleted));
        let (new, after) = after.split_at(run(after, Change::Added));
        let at = |rows: &[Numbered<'v>], number: usize| rows.get(number).copied();
        pairs.extend((0..old.len().max(new.len())).map(|it| (at(old, it), at(new, it))));
        rest = after;
    }
    pairs
}
