//! The colours of code, as names of CSS classes (`assets/colours.css` has the colours). An agent can
//! write text for which a syntax takes very long, so files are bounded by size and time, and only
//! blocking threads read them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{LazyLock, Once};
use std::time::{Duration, Instant};

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};
use tokio::sync::Semaphore;

use super::patch::{Change, FilePatch, Hunk};

/// The largest text that gets colours, in bytes and lines, and its longest coloured line in bytes.
const BYTES_MAX: usize = 512 * 1024;
const LINES_MAX: usize = 8000;
const LINE_MAX: usize = 1000;

/// Time for all files of a page; lines that are not reached in it stay plain.
const TIME_MAX: Duration = Duration::from_millis(600);

/// Pages that are coloured at once. They are few, so that blocking threads are left for other work.
const AT_ONCE: usize = 2;

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// A part of a line, in bytes, and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coloured {
    pub range: Range<usize>,
    pub class: &'static str,
}

/// The coloured parts of one line, in ascending order; text without a class has no part.
pub type Line = Vec<Coloured>;

/// The colours of the rows of a file's hunks, by hunk and row; empty for a plain file.
#[derive(Debug, Default)]
pub struct Colours(Vec<Vec<Line>>);

impl Colours {
    /// The parts of one row; empty where nothing is coloured.
    pub fn row(&self, hunk: usize, row: usize) -> &[Coloured] {
        self.0.get(hunk).and_then(|rows| rows.get(row)).map_or(&[], Vec::as_slice)
    }
}

/// Colours the files of a page, one after the other within one time limit. Waits while other pages
/// are coloured; a file for which that fails is returned plain.
pub async fn of_patches(files: Vec<FilePatch>) -> Vec<(FilePatch, Colours)> {
    let plain = |files: Vec<FilePatch>| files.into_iter().map(|it| (it, Colours::default()));
    let Ok(_turn) = TURNS.acquire().await else { return plain(files).collect() };
    let kept = files.clone();
    let colour = move || {
        let until = Instant::now() + TIME_MAX;
        let colours: Vec<Colours> = files.iter().map(|file| patch(file, until)).collect();
        files.into_iter().zip(colours).collect()
    };
    // A panic in a syntax costs only the colours.
    tokio::task::spawn_blocking(colour).await.unwrap_or_else(|_| plain(kept).collect())
}

/// The colours of a text's lines. The path says which syntax; an empty result means a plain text.
pub async fn of_lines(path: String, text: String) -> Vec<Line> {
    let Ok(_turn) = TURNS.acquire().await else { return Vec::new() };
    let colour = move || {
        let lines: Vec<&str> = text.lines().collect();
        let Some(syntax) = by_path(&path).filter(|_| fits(&lines)) else { return Vec::new() };
        of_syntax(syntax, &lines, Instant::now() + TIME_MAX)
    };
    tokio::task::spawn_blocking(colour).await.unwrap_or_default()
}

fn patch(file: &FilePatch, until: Instant) -> Colours {
    let Some(syntax) = by_path(file.path()) else { return Colours::default() };
    let rows = file.hunks.iter().flat_map(|hunk| &hunk.rows);
    let texts: Vec<&str> = rows.map(|row| row.text.as_str()).collect();
    if !fits(&texts) {
        return Colours::default();
    }
    Colours(file.hunks.iter().map(|hunk| of_hunk(syntax, hunk, until)).collect())
}

/// Each side is read as a text of its own, so that a deleted quote, say, does not change how the new
/// lines are read. An unchanged row is in both texts and takes its colours from the new one.
fn of_hunk(syntax: &SyntaxReference, hunk: &Hunk, until: Instant) -> Vec<Line> {
    let side = |other: Change| {
        let rows = hunk.rows.iter().filter(|row| row.change != other);
        let texts: Vec<&str> = rows.map(|row| row.text.as_str()).collect();
        of_syntax(syntax, &texts, until).into_iter()
    };
    let (mut old, mut new) = (side(Change::Added), side(Change::Deleted));
    let line = |change| match change {
        Change::Deleted => old.next(),
        Change::Added => new.next(),
        Change::Same => old.next().and(new.next()),
    };
    hunk.rows.iter().map(|row| row.change).map(line).map(Option::unwrap_or_default).collect()
}

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// Begins to load the syntaxes in the background, once for the process. Pages call it from which a
/// review is likely to follow, because loading takes a noticeable time.
pub fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(tokio::task::spawn_blocking(|| LazyLock::force(&SYNTAXES))));
}

/// The syntax for a file's name, or for an ending of it after a dot, longest first. `None`: a plain
/// text.
fn by_path(path: &str) -> Option<&'static SyntaxReference> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ends = name.match_indices('.').map(|(at, _)| &name[at + 1..]);
    let found =
        std::iter::once(name).chain(ends).find_map(|end| SYNTAXES.find_syntax_by_extension(end));
    found.filter(|syntax| syntax.name != "Plain Text")
}

fn fits(lines: &[&str]) -> bool {
    lines.len() <= LINES_MAX && lines.iter().map(|line| line.len() + 1).sum::<usize>() <= BYTES_MAX
}

/// The colours of consecutive lines. The result is shorter than `lines` if the time was over or the
/// syntax failed. A line that is too long gets no colours and is skipped for the lines after it too.
fn of_syntax(syntax: &SyntaxReference, lines: &[&str], until: Instant) -> Vec<Line> {
    let (mut state, mut stack) = (ParseState::new(syntax), ScopeStack::new());
    let mut classes = HashMap::new();
    let mut coloured = Vec::with_capacity(lines.len());
    for line in lines {
        if Instant::now() > until {
            break;
        }
        if line.len() > LINE_MAX {
            coloured.push(Line::new());
            continue;
        }
        let Ok(changes) = state.parse_line(&format!("{line}\n"), &SYNTAXES) else { break };
        let (mut parts, mut from) = (Line::new(), 0);
        for (at, change) in &changes {
            push(&mut parts, from..(*at).min(line.len()), class(&stack, &mut classes));
            from = *at;
            if stack.apply(change).is_err() {
                return coloured;
            }
        }
        push(&mut parts, from..line.len(), class(&stack, &mut classes));
        coloured.push(parts);
    }
    coloured
}

/// Adds a part, or extends the last one if it has the same class.
fn push(parts: &mut Line, range: Range<usize>, class: Option<&'static str>) {
    let Some(class) = class.filter(|_| !range.is_empty()) else { return };
    match parts.last_mut() {
        Some(last) if last.class == class && last.range.end == range.start => {
            last.range.end = range.end;
        }
        _ => parts.push(Coloured { range, class }),
    }
}

/// Beginnings of scopes and their classes; the longest that matches counts. An empty class means plain.
const CLASSES: &[(&str, &str)] = &[
    ("comment", "hl-comment"),
    ("string", "hl-string"),
    ("constant", "hl-constant"),
    ("constant.character.escape", "hl-keyword"),
    ("keyword", "hl-keyword"),
    ("keyword.operator", ""),
    ("storage", "hl-keyword"),
    ("variable.language", "hl-keyword"),
    ("variable.function", "hl-function"),
    ("entity.name.function", "hl-function"),
    ("support.function", "hl-function"),
    ("support.macro", "hl-function"),
    ("entity.name", "hl-type"),
    ("entity.other.inherited-class", "hl-type"),
    ("entity.name.tag", "hl-keyword"),
    ("entity.other.attribute-name", "hl-type"),
    ("support.type", "hl-type"),
    ("support.class", "hl-type"),
    ("markup.heading", "hl-keyword"),
    ("markup.raw", "hl-string"),
    ("markup.inserted", "hl-string"),
    ("markup.deleted", "hl-constant"),
];

static SCOPES: LazyLock<Vec<(Scope, &str)>> = LazyLock::new(|| {
    let mut scopes: Vec<(Scope, &str)> = CLASSES
        .iter()
        .filter_map(|(scope, class)| Some((Scope::new(scope).ok()?, *class)))
        .collect();
    scopes.sort_by_key(|(scope, _)| std::cmp::Reverse(scope.len()));
    scopes
});

/// The class of the innermost scope that is on the list. `known` keeps what was looked up.
fn class(
    stack: &ScopeStack,
    known: &mut HashMap<Scope, Option<&'static str>>,
) -> Option<&'static str> {
    let mut of = |scope: &Scope| {
        *known.entry(*scope).or_insert_with(|| {
            SCOPES.iter().find(|(start, _)| start.is_prefix_of(*scope)).map(|(_, class)| *class)
        })
    };
    stack.as_slice().iter().rev().find_map(&mut of).filter(|class| !class.is_empty())
}

#[cfg(test)]
mod tests;
