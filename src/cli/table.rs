//! Tables for people: aligned columns, and rows that fit the terminal's width. Widths are in cells,
//! because a character can take none or two. Pure.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::text::harmless;

/// Cells between two columns.
const GAP: usize = 2;

/// Least widths of cut and of wrapped columns. Columns are narrowed to the first pair; if the table is
/// still too wide, to the next one.
const NARROWEST: [(usize, usize); 3] = [(20, 28), (10, 16), (4, 8)];

/// A column's title, and what happens to cells for which the terminal is too narrow.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// Always shown in full: an id, a status.
    Whole(&'static str),
    /// Cut with an ellipsis: a title.
    Cut(&'static str),
    /// Continued on the next line, in its own column: a reason, a command.
    Wrapped(&'static str),
}

impl From<&'static str> for Column {
    fn from(title: &'static str) -> Self {
        Self::Whole(title)
    }
}

/// The lines of a table, the head first. The last column wraps unless it is to be cut. Without a width,
/// each row is one line. Cells are made harmless.
pub fn lines(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let mut columns = columns.to_vec();
    if let Some(last) = columns.last_mut()
        && let Column::Whole(title) = *last
    {
        *last = Column::Wrapped(title);
    }
    let title = |column: &Column| {
        let (Column::Whole(title) | Column::Cut(title) | Column::Wrapped(title)) = column;
        (*title).to_owned()
    };
    let head: Vec<String> = columns.iter().map(title).collect();
    let shown = |row: &Vec<String>| -> Vec<String> {
        row.iter().map(|cell| harmless(cell).replace('\t', " ")).collect()
    };
    let rows: Vec<Vec<String>> = std::iter::once(&head).chain(rows).map(shown).collect();
    let widest = |n: usize| rows.iter().filter_map(|row| row.get(n)).map(|cell| cell.width()).max();
    let mut widths: Vec<usize> = (0..columns.len()).map(|n| widest(n).unwrap_or(0)).collect();
    if let Some(width) = width {
        narrow(&mut widths, &columns, width);
    }
    rows.iter().flat_map(|row| row_lines(row, &widths, &columns)).collect()
}

/// Takes cells from the widest column that may become narrower, until the rows fit or no column may.
fn narrow(widths: &mut [usize], columns: &[Column], most: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    for (cut, wrapped) in NARROWEST {
        let least = |column: Column| match column {
            Column::Whole(_) => usize::MAX,
            Column::Cut(_) => cut,
            Column::Wrapped(_) => wrapped,
        };
        while widths.iter().sum::<usize>() + gaps > most {
            let may = (0..widths.len()).filter(|n| widths[*n] > least(columns[*n]));
            let Some(widest) = may.max_by_key(|n| widths[*n]) else { break };
            widths[widest] -= 1;
        }
    }
}

fn row_lines(row: &[String], widths: &[usize], columns: &[Column]) -> Vec<String> {
    let cells: Vec<Vec<String>> = row
        .iter()
        .zip(widths.iter().zip(columns))
        .map(|(cell, (width, column))| match column {
            Column::Whole(_) => vec![cell.clone()],
            Column::Cut(_) => vec![shortened(cell, *width)],
            Column::Wrapped(_) => folded(cell, *width),
        })
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(1);
    let line = |number: usize| {
        let mut line = String::new();
        for (lines, width) in cells.iter().zip(widths) {
            let cell = lines.get(number).map_or("", String::as_str);
            let fill = width.saturating_sub(cell.width()) + GAP;
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', fill));
        }
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// The text, cut to so many cells, with an ellipsis if something is missing.
fn shortened(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let (kept, _) = split_at_width(text, most.saturating_sub(1));
    format!("{}…", kept.trim_end())
}

/// The text in lines of at most so many cells, broken between words if possible.
fn folded(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().filter(|line| !line.is_empty());
        if let Some(line) = line {
            if line.width() + 1 + word.width() <= most {
                line.push(' ');
                line.push_str(word);
                continue;
            }
            lines.push(String::new());
        }
        let mut rest = word;
        while rest.width() > most {
            let (piece, left) = split_at_width(rest, most);
            lines.insert(lines.len() - 1, piece.to_owned());
            rest = left;
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(rest);
        }
    }
    lines
}

/// Splits a text after as much as fits. The first part has at least one character, so that callers
/// always get further.
fn split_at_width(text: &str, most: usize) -> (&str, &str) {
    let mut end = 0;
    for (start, cluster) in text.grapheme_indices(true) {
        let next = start + cluster.len();
        if end > 0 && text[..next].width() > most {
            break;
        }
        end = next;
    }
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Column::{Cut, Whole};
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned_and_cells_harmless() {
        let columns = ["ID", "STATE", "TASK"].map(Column::from);
        let rows = [row(&["1", "running\u{1b}[31m", "a"]), row(&["22", "ä", "b c"])];
        insta::assert_snapshot!(lines(&columns, &rows, None).join("\n"), @r"
        ID  STATE              TASK
        1   running\u{1b}[31m  a
        22  ä                  b c
        ");
    }

    #[test]
    fn wide_characters_take_two_cells() {
        let columns = [Cut("TITLE"), Whole("STATE")];
        let rows = [row(&["修复登录页面", "todo"]), row(&["🚀 launch", "done"])];
        insta::assert_snapshot!(lines(&columns, &rows, None).join("\n"), @"
        TITLE         STATE
        修复登录页面  todo
        🚀 launch     done
        ");
        insta::assert_snapshot!(lines(&columns, &rows, Some(15)).join("\n"), @"
        TITLE     STATE
        修复登…   todo
        🚀 laun…  done
        ");
    }

    #[test]
    fn titles_are_cut_and_reasons_wrapped_where_the_terminal_is_narrow() {
        let columns = [Whole("ID"), Cut("TASK"), Whole("WHY")];
        let rows = [row(&[
            "456789ab",
            "A title that is much longer than any terminal has room for",
            "it has changes that are not committed and commits that are not merged",
        ])];
        insta::assert_snapshot!(lines(&columns, &rows, Some(60)).join("\n"), @"
        ID        TASK                  WHY
        456789ab  A title that is muc…  it has changes that are not
                                        committed and commits that
                                        are not merged
        ");
    }

    proptest! {
        #[test]
        fn no_row_is_wider_than_the_terminal(
            cells in proptest::collection::vec(("[a-z0-9]{8}", any::<String>(), "\\PC{0,200}"), 0..5),
            width in 40..200usize,
        ) {
            let rows: Vec<_> = cells.iter().map(|(id, title, why)| row(&[id, title, why])).collect();
            for line in lines(&[Whole("ID"), Cut("TASK"), Whole("WHY")], &rows, Some(width)) {
                prop_assert!(line.width() <= width, "{line:?}");
            }
        }
    }
}
