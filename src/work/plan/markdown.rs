//! Markdown: each heading begins a section; each sentence, item, row and block of code is a passage. Pure.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::lines::{Lines, floor, sentences, trimmed};
use super::{LEAD_MAX, Passage, Section};

/// A list or table with more lines is not quoted as a whole.
const LIST_LINES: usize = 14;

/// A paragraph with more lines is not quoted as a whole, and a longer block of code not at all.
const BLOCK_LINES: usize = 12;

/// The length to which a column's name is cut, in bytes, because each cell repeats the name.
const COLUMN_MAX: usize = 100;

/// The sections of a Markdown document that have passages.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let (lines, sections) = (Lines::of(text), vec![Section::default()]);
    let mut reader = Reader { lines, sections, ..Reader::default() };
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        reader.take(event, range);
    }
    reader.sections.retain(|section| !section.passages.is_empty());
    reader.sections
}

/// The plain text of a paragraph, a cell, an item or a block of code, while it is being read.
#[derive(Default)]
struct Block {
    plain: String,
    /// Where each piece of `plain` begins, and the range of the document that it comes from.
    pieces: Vec<(usize, Range<usize>)>,
}

impl Block {
    fn push(&mut self, text: &str, range: Range<usize>) {
        // If the text between two spaces was struck out, one of the spaces is dropped.
        let more = if self.plain.ends_with(' ') { text.trim_start_matches(' ') } else { text };
        let start = (range.start + text.len() - more.len()).min(range.end);
        self.pieces.push((self.plain.len(), start..range.end));
        self.plain.push_str(more);
    }

    /// The range of the document that a range of `plain` comes from. It may be a little larger, where its
    /// first and last pieces contain escaped characters.
    fn source(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let first = self.pieces.partition_point(|(at, _)| *at <= range.start).checked_sub(1)?;
        let last = self.pieces.partition_point(|(at, _)| *at < range.end.max(1)).checked_sub(1)?;
        let (at, piece) = &self.pieces[first];
        // Plain text has the same length in both; escaped text is longer in the document.
        let start = (piece.start + (range.start - at)).min(piece.end);
        let (at, piece) = &self.pieces[last.max(first)];
        let end = (piece.start + (range.end - at)).min(piece.end);
        Some(start..end.max(start))
    }
}

/// A list that is being read.
struct List {
    /// The item or sentence that introduces the list.
    lead: String,
    /// Where the list begins, including its introduction.
    start: usize,
    items: Vec<String>,
}

#[derive(Default)]
struct Table {
    head: Vec<String>,
    row: Vec<String>,
    rows: Vec<String>,
}

#[derive(Default)]
struct Reader<'a> {
    lines: Lines<'a>,
    sections: Vec<Section>,
    headings: Vec<(usize, String)>,
    is_heading: bool,
    /// How deeply nested the current text is in struck-out text, which is dropped.
    struck: usize,
    block: Option<Block>,
    /// The items that are open: their text so far, and where they begin.
    items: Vec<(String, usize)>,
    /// The lists that are open, from the outermost to the innermost.
    lists: Vec<List>,
    table: Option<Table>,
    code: Option<String>,
    /// A last sentence that ends with a colon and introduces what follows, and where the sentence begins.
    lead: Option<(String, usize)>,
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            // In a heading the marks are kept: `weigh` then sees that everything below is struck out.
            Event::Start(Tag::Strikethrough) | Event::End(TagEnd::Strikethrough)
                if self.is_heading =>
            {
                self.say("~~", range);
            }
            Event::Start(Tag::Strikethrough) => self.struck += 1,
            Event::End(TagEnd::Strikethrough) => self.struck -= 1,
            Event::Start(tag) => self.start(&tag, range),
            Event::End(tag) => self.end(tag, range),
            Event::Text(text) | Event::Code(text) => self.say(&text, range),
            Event::SoftBreak | Event::HardBreak => self.say(" ", range),
            _ => {}
        }
    }

    fn say(&mut self, text: &str, range: Range<usize>) {
        if let Some(block) = self.block.as_mut().filter(|_| self.struck == 0) {
            block.push(text, range);
        }
    }

    fn start(&mut self, tag: &Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Heading { .. } | Tag::Paragraph | Tag::TableCell => {
                self.flush_item();
                self.is_heading = matches!(tag, Tag::Heading { .. });
                self.block = Some(Block::default());
            }
            Tag::CodeBlock(kind) => {
                self.flush_item();
                self.code = Some(match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                });
                self.block = Some(Block::default());
            }
            Tag::Item => {
                self.items.push((String::new(), range.start));
                self.block = Some(Block::default());
            }
            Tag::List(_) => {
                self.flush_item();
                let before = self.lead.take();
                let lead = self.items.last().cloned().or(before);
                let (lead, start) = lead.unwrap_or_else(|| (String::new(), range.start));
                self.lists.push(List { lead, start, items: Vec::new() });
            }
            Tag::Table(_) => self.table = Some(Table::default()),
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.row.clear();
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: Range<usize>) {
        match tag {
            TagEnd::Heading(level) => {
                let heading = short(self.block.take().unwrap_or_default().plain.trim());
                self.is_heading = false;
                self.head(level as usize, heading);
            }
            TagEnd::Paragraph if self.items.is_empty() => {
                if let Some(block) = self.block.take() {
                    self.speak(&block, "");
                }
            }
            TagEnd::Paragraph => self.flush_item(),
            TagEnd::Item => {
                self.flush_item();
                self.items.pop();
            }
            TagEnd::List(_) => self.list(range.end),
            TagEnd::CodeBlock => self.code(range),
            TagEnd::TableCell => {
                let cell = self.block.take().unwrap_or_default().plain;
                if let Some(table) = &mut self.table {
                    table.row.push(cell.trim().to_owned());
                }
            }
            TagEnd::TableHead => {
                if let Some(table) = &mut self.table {
                    let head = std::mem::take(&mut table.row);
                    table.head = head.iter().map(|cell| cut(cell, COLUMN_MAX)).collect();
                }
            }
            TagEnd::TableRow => self.row(range),
            TagEnd::Table => self.table(range),
            _ => {}
        }
    }

    /// Ends the text that an item has had so far: it becomes a block of its own.
    fn flush_item(&mut self) {
        if self.items.is_empty() || self.code.is_some() {
            return;
        }
        let Some(block) = self.block.take().filter(|block| !block.plain.trim().is_empty()) else {
            return;
        };
        let said = block.plain.trim().to_owned();
        let lead = self.lists.last().map(|list| list.lead.clone()).unwrap_or_default();
        if let Some(list) = self.lists.last_mut() {
            list.items.push(said.clone());
        }
        if let Some((item, _)) = self.items.last_mut() {
            *item = short(&said);
        }
        self.speak(&block, &lead);
    }

    /// Adds a block's sentences as passages, and the whole block if it has several. A last sentence that ends
    /// with a colon is only kept as the introduction of what follows.
    fn speak(&mut self, block: &Block, lead: &str) {
        self.lead = None;
        let said: Vec<_> = sentences(&block.plain)
            .into_iter()
            .map(|range| trimmed(&block.plain, range))
            .map(|range| (&block.plain[range.clone()], block.source(&range)))
            .filter_map(|(text, source)| Some((text, source?)))
            .filter(|(text, _)| text.chars().any(char::is_alphanumeric))
            .collect();
        if let (2.., Some((_, first)), Some((_, last))) = (said.len(), said.first(), said.last()) {
            let mut whole = self.lines.quote(first.start..last.end);
            if whole.last_line - whole.first_line < BLOCK_LINES {
                block.plain.trim().clone_into(&mut whole.text);
                whole.asked = Some(String::new());
                whole.is_whole = true;
                lead.clone_into(&mut whole.lead);
                self.push(whole);
            }
        }
        for (at, (text, source)) in said.iter().enumerate() {
            if text.ends_with(':') && at + 1 == said.len() {
                self.lead = Some((short(text), source.start));
                continue;
            }
            let passage = self.lines.quote(source.clone());
            let (text, lead) = ((*text).to_owned(), lead.to_owned());
            self.push(Passage { text, lead, ..passage });
        }
    }

    /// Adds a whole list as a passage, which answers a question about its introduction or heading.
    fn list(&mut self, end: usize) {
        let Some(list) = self.lists.pop() else { return };
        let mut whole = self.lines.quote(list.start..end);
        if list.items.len() > 1 && whole.last_line - whole.first_line < LIST_LINES {
            let items = list.items.join("; ");
            let said = format!("{} {items}", list.lead);
            said.trim().clone_into(&mut whole.text);
            whole.asked = Some(list.lead);
            whole.is_whole = true;
            self.push(whole);
        }
    }

    /// Adds a row as a passage, in which each cell follows its column's name.
    fn row(&mut self, range: Range<usize>) {
        let Some(table) = &mut self.table else { return };
        let (head, row) = (short(&table.head.join(" ")), std::mem::take(&mut table.row));
        let cells = table.head.iter().zip(&row).filter(|(_, cell)| !cell.is_empty());
        let cells = cells.map(|(head, cell)| match head.as_str() {
            "" => cell.clone(),
            head => format!("{head}: {cell}"),
        });
        let text = cells.collect::<Vec<_>>().join(", ");
        if !text.is_empty() {
            table.rows.push(text.clone());
            let passage = self.lines.quote(range);
            self.push(Passage { text, asked: Some(row.join(" ")), lead: head, ..passage });
        }
    }

    /// Adds a whole table as a passage, which answers a question about its head.
    fn table(&mut self, range: Range<usize>) {
        let Some(Table { head, rows, .. }) = self.table.take() else { return };
        let whole = self.lines.quote(range);
        if rows.len() > 1 && whole.last_line - whole.first_line < LIST_LINES {
            let (text, asked) = (rows.join("; "), Some(head.join(" ")));
            self.push(Passage { text, asked, is_whole: true, ..whole });
        }
    }

    /// Adds a block of code as a passage, unless it is long.
    fn code(&mut self, range: Range<usize>) {
        let (language, block) = (self.code.take(), self.block.take().unwrap_or_default());
        let lead = self.lead.take().map(|(lead, _)| lead).unwrap_or_default();
        let passage = self.lines.quote(range);
        let is_short = passage.last_line - passage.first_line <= BLOCK_LINES;
        if is_short && !block.plain.trim().is_empty() {
            let text = block.plain.trim_end().to_owned();
            self.push(Passage { text, lead, code: language, ..passage });
        }
    }

    /// Begins the section of a heading; its breadcrumb has the headings of lower levels above it.
    fn head(&mut self, level: usize, heading: String) {
        self.lead = None;
        self.headings.retain(|(other, _)| *other < level);
        let above: Vec<&str> = self.headings.iter().map(|(_, text)| text.as_str()).collect();
        let mut breadcrumb = above.join(" > ");
        if !breadcrumb.is_empty() {
            breadcrumb.push_str(" > ");
        }
        breadcrumb.push_str(&heading);
        let above = above.join(" ");
        self.sections.push(Section {
            breadcrumb,
            heading: heading.clone(),
            above,
            passages: Vec::new(),
        });
        self.headings.push((level, heading));
    }

    fn push(&mut self, passage: Passage) {
        if let Some(section) = self.sections.last_mut() {
            section.passages.push(passage);
        }
    }
}

fn short(text: &str) -> String {
    cut(text, LEAD_MAX)
}

fn cut(text: &str, most: usize) -> String {
    text[..floor(text, most)].to_owned()
}
