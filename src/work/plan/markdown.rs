//! Markdown: each heading a section; each sentence, item, row and block of code a passage. Pure.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::lines::{Lines, floor, sentences, trimmed};
use super::{LEAD_MAX, Passage, Section};

/// Most lines of a list that is quoted as a whole.
const LIST_LINES: usize = 14;

/// Most lines of a paragraph that is quoted as a whole, and of a block of code.
const BLOCK_LINES: usize = 12;

/// Most bytes of a column's name: it is repeated with every cell.
const COLUMN_MAX: usize = 100;

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

#[derive(Default)]
struct Block {
    plain: String,
    /// For pieces of `plain`: where they begin, and what range of the document they are.
    pieces: Vec<(usize, Range<usize>)>,
}

impl Block {
    fn push(&mut self, text: &str, range: Range<usize>) {
        // One space is left where what stood between two was struck out.
        let more = if self.plain.ends_with(' ') { text.trim_start_matches(' ') } else { text };
        let start = (range.start + text.len() - more.len()).min(range.end);
        self.pieces.push((self.plain.len(), start..range.end));
        self.plain.push_str(more);
    }

    /// The range of the document that a range of `plain` comes from; it may be larger by as
    /// much as its first and last pieces are longer.
    fn source(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let first = self.pieces.partition_point(|(at, _)| *at <= range.start).checked_sub(1)?;
        let last = self.pieces.partition_point(|(at, _)| *at < range.end.max(1)).checked_sub(1)?;
        let (at, piece) = &self.pieces[first];
        // Within a piece of plain text both count alike; what was escaped is shorter.
        let start = (piece.start + (range.start - at)).min(piece.end);
        let (at, piece) = &self.pieces[last.max(first)];
        let end = (piece.start + (range.end - at)).min(piece.end);
        Some(start..end.max(start))
    }
}

/// A list that is being read: what introduces it, and where it begins.
struct List {
    lead: String,
    /// Where the list begins, with what introduces it.
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
    /// How deep within what is struck out: that no longer says anything.
    struck: usize,
    block: Option<Block>,
    /// The items that are open: what they say, and where they begin.
    items: Vec<(String, usize)>,
    lists: Vec<List>,
    table: Option<Table>,
    code: Option<String>,
    /// A last sentence that introduces what follows, and where it begins.
    lead: Option<(String, usize)>,
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            // In a heading the marks stay: all below it is struck out.
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

    /// What an item says so far is a block of its own.
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

    /// A block's sentences, and the block as a whole where it has several. A last
    /// sentence that ends with a colon says nothing without what follows.
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

    /// A list as a whole answers what its introduction or its heading asks.
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

    /// A table as a whole answers what its head asks.
    fn table(&mut self, range: Range<usize>) {
        let Some(Table { head, rows, .. }) = self.table.take() else { return };
        let whole = self.lines.quote(range);
        if rows.len() > 1 && whole.last_line - whole.first_line < LIST_LINES {
            let (text, asked) = (rows.join("; "), Some(head.join(" ")));
            self.push(Passage { text, asked, is_whole: true, ..whole });
        }
    }

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
