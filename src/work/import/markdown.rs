//! Tasks as Markdown. A heading of the second level begins a task, and headings of the third level begin its
//! sections. A list below the heading may hold fields.
//!
//! ```text
//! ## TASK-001: Make the parser            the id may be missing, or be in [brackets]
//! - Priority: high
//! - Depends on: TASK-000, lexer           ids in the file, or handles of the board
//! - Estimate: 2.5h                        also: Complexity, Skills
//! All other text is the description.
//! ### Acceptance criteria                 a list; Requirements too
//! - It parses
//! ### Files                               by kind; a path without a kind is one to write
//! - Read: grammar.md
//! - src/parser.rs
//! ### Context                             a text
//! ```

use std::ops::Range;

use provost_actors::nearest::nearest;
use pulldown_cmark::{Event, HeadingLevel, OffsetIter, Options, Parser, Tag, TagEnd};
use serde_json::{Map, Value, json};

use super::{Draft, Faults};

/// A heading, or a block below it, with its range of bytes; a list also has the ranges of its items.
#[derive(Debug)]
enum Block {
    Heading(HeadingLevel, Range<usize>),
    List(Range<usize>, Vec<Range<usize>>),
    Other(Range<usize>),
}

/// The tasks of a Markdown text, or all its faults.
pub fn drafts(text: &str) -> Result<Vec<Draft>, Faults> {
    let blocks = blocks(text);
    let mut faults = Faults::new();
    let mut drafts = Vec::new();
    let mut rest = blocks.as_slice();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let Block::Heading(HeadingLevel::H2, heading) = first else { continue };
        let ends =
            |block: &Block| matches!(block, Block::Heading(HeadingLevel::H1 | HeadingLevel::H2, _));
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        let (body, next) = rest.split_at(length);
        rest = next;
        let (id, title) = name(&text[heading.clone()]);
        let line = text[..heading.start].matches('\n').count() + 1;
        let place = format!("line {line} ({title:?})");
        match members(text, body) {
            Ok(mut members) => {
                members.insert("title".to_owned(), json!(title));
                members.extend(id.map(|id| ("id".to_owned(), json!(id))));
                drafts.push(Draft { place, members });
            }
            Err(fault) => faults.push(format!("{place}: {fault}")),
        }
    }
    if drafts.is_empty() && faults.is_empty() {
        faults.push("there is no task in it: `## Title` begins one".to_owned());
    }
    if faults.is_empty() { Ok(drafts) } else { Err(faults) }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    while let Some((event, range)) = events.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                blocks.push(Block::Heading(level, inside(&mut events, range.start)));
            }
            Event::Start(Tag::List(_)) => blocks.push(Block::List(range, items(&mut events))),
            Event::Start(_) => {
                inside(&mut events, range.start);
                blocks.push(Block::Other(range));
            }
            _ => blocks.push(Block::Other(range)),
        }
    }
    blocks
}

/// Reads to the end of the element that has begun. Returns the range of its contents.
fn inside(events: &mut OffsetIter<'_>, start: usize) -> Range<usize> {
    let mut depth = 1;
    let mut contents: Option<Range<usize>> = None;
    for (event, range) in events {
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        let begin = contents.as_ref().map_or(range.start, |contents| contents.start);
        let end = contents.as_ref().map_or(range.end, |contents| contents.end.max(range.end));
        contents = Some(begin..end);
    }
    contents.unwrap_or(start..start)
}

/// Reads to the end of a list. Returns the range of each item's contents.
fn items(events: &mut OffsetIter<'_>) -> Vec<Range<usize>> {
    let mut items = Vec::new();
    while let Some((event, range)) = events.next() {
        match event {
            Event::Start(Tag::Item) => items.push(inside(events, range.start)),
            Event::End(TagEnd::List(_)) => break,
            _ => {}
        }
    }
    items
}

/// The id and title in `[ID] Title`, `ID: Title` or `Title`. An id before a colon must have a digit and no
/// blank, so that `Fix: the parser` is a title.
fn name(heading: &str) -> (Option<&str>, &str) {
    let heading = heading.trim();
    if let Some((id, title)) = heading.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && !title.trim().is_empty()
    {
        return (Some(id.trim()), title.trim_start_matches(':').trim());
    }
    let is_id = |id: &str| {
        !id.contains(char::is_whitespace) && id.contains(|letter: char| letter.is_ascii_digit())
    };
    match heading.split_once(": ") {
        Some((id, title)) if is_id(id) => (Some(id), title.trim()),
        _ => (None, heading),
    }
}

/// The members of a task, from the blocks below its heading.
fn members(text: &str, body: &[Block]) -> Result<Map<String, Value>, String> {
    let is_heading = |block: &Block| matches!(block, Block::Heading(HeadingLevel::H3, _));
    let mut members = Map::new();
    let mut description = String::new();
    let mut parts = body.chunk_by(|_, next| !is_heading(next)).peekable();
    let own = parts.next_if(|part| part.first().is_some_and(|first| !is_heading(first)));
    // Lists of fields are removed from the description, wherever they are.
    for block in own.unwrap_or_default() {
        let is_read = match block {
            Block::List(_, items) => {
                fields(items.iter().map(|item| &text[item.clone()]), &mut members)?
            }
            _ => false,
        };
        if !is_read {
            append(&mut description, slice(text, std::slice::from_ref(block)));
        }
    }
    for part in parts {
        let Some((Block::Heading(_, heading), body)) = part.split_first() else { continue };
        let items = body.iter().flat_map(|block| match block {
            Block::List(_, items) => items.as_slice(),
            _ => &[],
        });
        let items: Vec<&str> = items.map(|item| unticked(&text[item.clone()])).collect();
        match text[heading.clone()].trim().to_lowercase().as_str() {
            "acceptance criteria" => members.insert("acceptanceCriteria".into(), json!(items)),
            "requirements" => members.insert("requirements".into(), json!(items)),
            "files" => members.insert("files".into(), files(&items)),
            "context" => members.insert("context".into(), json!(slice(text, body))),
            _ => {
                append(&mut description, slice(text, part));
                None
            }
        };
    }
    members.insert("description".to_owned(), json!(description));
    Ok(members)
}

fn append(description: &mut String, more: &str) {
    if !description.is_empty() && !more.is_empty() {
        description.push_str("\n\n");
    }
    description.push_str(more);
}

/// An item without the box of a task list.
fn unticked(item: &str) -> &str {
    let item = item.trim();
    let boxes = ["[ ]", "[x]", "[X]"];
    boxes.iter().find_map(|it| item.strip_prefix(it)).unwrap_or(item).trim()
}

/// The text of adjacent blocks.
fn slice<'t>(text: &'t str, blocks: &[Block]) -> &'t str {
    let range = |block: &Block| match block {
        // The range of a heading covers its text only, so the line's beginning is added.
        Block::Heading(_, range) => {
            text[..range.start].rfind('\n').map_or(0, |at| at + 1)..range.end
        }
        Block::List(range, _) | Block::Other(range) => range.clone(),
    };
    match (blocks.first(), blocks.last()) {
        (Some(first), Some(last)) => text[range(first).start..range(last).end].trim(),
        _ => "",
    }
}

const FIELDS: [&str; 6] =
    ["priority", "depends on", "dependencies", "estimate", "complexity", "skills"];

/// Reads a list of fields. `false`: the list has no field, so it belongs to the description.
fn fields<'t>(
    items: impl Iterator<Item = &'t str> + Clone,
    members: &mut Map<String, Value>,
) -> Result<bool, String> {
    let is_field = |item: &str| item.contains(':') && FIELDS.contains(&&*field(item).0);
    if !items.clone().any(is_field) {
        return Ok(false);
    }
    for item in items {
        let (name, value) = field(item);
        let (member, value) = match name.as_str() {
            "priority" => ("priority", json!(value)),
            "depends on" | "dependencies" => ("depends_on", json!(listed(value))),
            "estimate" => ("estimatedHours", hours(value)?),
            "complexity" => ("complexityLevel", json!(value.to_lowercase())),
            "skills" => ("skillsRequired", json!(listed(value))),
            other => {
                let near = nearest(other, FIELDS).map(|near| format!("; did you mean {near}?"));
                let near = near.unwrap_or_default();
                return Err(format!("{other:?} is not one of {}{near}", FIELDS.join(", ")));
            }
        };
        members.insert(member.to_owned(), value);
    }
    Ok(true)
}

fn field(item: &str) -> (String, &str) {
    let (name, value) = item.split_once(':').unwrap_or((item, ""));
    (name.replace('*', "").trim().to_lowercase(), value.trim())
}

fn listed(value: &str) -> Vec<&str> {
    let items = value.split(',').map(str::trim);
    items.filter(|item| !item.is_empty() && !item.eq_ignore_ascii_case("none")).collect()
}

/// A number of hours such as `2.5h`, or the fault.
fn hours(value: &str) -> Result<Value, String> {
    let number = value.trim_end_matches(|letter: char| letter.is_alphabetic() || letter == ' ');
    let unit = value[number.len()..].trim();
    let is_hours = unit.is_empty() || unit.starts_with('h');
    let hours = number.trim().parse::<f64>().ok().filter(|hours| is_hours && *hours >= 0.0);
    match hours {
        Some(hours) => Ok(json!(hours)),
        None => Err(format!("Estimate must be a number of hours such as 2.5h, not {value:?}")),
    }
}

fn files(items: &[&str]) -> Value {
    let mut files = json!({"readFrom": [], "writeTo": [], "referencedIn": []});
    for item in items {
        // What is before the colon is a kind, or a path with a remark.
        let kind = item.split_once(':').filter(|(kind, _)| !kind.contains(['.', '/', '`']));
        let (kind, paths) = kind.unwrap_or(("write", item));
        let kind = match kind.trim().to_lowercase().as_str() {
            "read" | "read from" => "readFrom",
            "used in" | "referenced in" => "referencedIn",
            _ => "writeTo",
        };
        if let Value::Array(list) = &mut files[kind] {
            list.extend(self::paths(paths).map(|path| json!(path)));
        }
    }
    files
}

/// The paths of an item, separated by commas; text after ` - ` or `: ` is a remark.
fn paths(item: &str) -> impl Iterator<Item = &str> {
    let named = item.split(" - ").next().unwrap_or(item);
    let named = named.split(": ").next().unwrap_or(named);
    listed(named).into_iter().map(|path| path.trim_matches('`'))
}
