//! An agent's message as Markdown, made safe. Only a small set of tags is written, each from a
//! constant; raw HTML becomes text; a link leads to another host only with a scheme on a list; and
//! the browser loads nothing from other hosts. Size and nesting are bounded. Pure.

use std::fmt::Write;

use super::line;
use maud::{Markup, PreEscaped, Render};
use pulldown_cmark::{Alignment, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Longest text that is read, in bytes.
const TEXT_MAX: usize = 128 * 1024;

/// Most markup that is written, in bytes, except the end tags of what is open at that point. A short
/// text can become much markup, such as a table with many empty cells.
const MARKUP_MAX: usize = 1024 * 1024;

/// Deepest nesting; what is nested deeper is shown at this depth.
const DEPTH_MAX: usize = 24;

const LINK_END: &str = "</a>";

/// What a link may begin with, in any case.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// The message as markup; a message that is cut says so at its end.
pub fn render(text: &str) -> Markup {
    let read = &text[..text.floor_char_boundary(TEXT_MAX)];
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = Page::default();
    let mut is_whole = read.len() == text.len();
    for event in Parser::new_ext(read, options) {
        page.take(event);
        if page.markup.len() > MARKUP_MAX {
            is_whole = false;
            break;
        }
    }
    page.close_all();
    if !is_whole {
        page.markup.push_str("<p class=\"cut\">The message is longer than is shown here.</p>");
    }
    // Every tag in it is one of our constants; all other text went through `Page::text`, and the
    // address of a link was escaped.
    PreEscaped(page.markup)
}

/// An element that is open.
enum Open {
    /// Its end tag.
    Tag(&'static str),
    /// A link that is shown as text, followed by its target.
    Target(String),
    /// Nothing was written for it.
    Nothing,
}

/// The markup so far, and the elements that are open in it. Every start event of the parser pushes one
/// entry to `open`, and every end event pops one.
#[derive(Default)]
struct Page {
    markup: String,
    open: Vec<Open>,
    /// HTML has no links within links, so an inner one becomes text.
    is_in_link: bool,
    is_in_head: bool,
    /// The alignment of each column of the table that is open, and the next cell's column.
    columns: Vec<Alignment>,
    column: usize,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) | Event::InlineMath(code) | Event::DisplayMath(code) => {
                self.markup.push_str("<code>");
                self.text(&code);
                self.markup.push_str("</code>");
            }
            Event::Html(html) | Event::InlineHtml(html) => self.text(&html),
            Event::FootnoteReference(name) => self.text(&name),
            Event::SoftBreak => self.markup.push('\n'),
            Event::HardBreak => self.markup.push_str("<br>"),
            Event::Rule => self.markup.push_str("<hr>"),
            Event::TaskListMarker(is_done) => {
                self.markup.push_str(if is_done { "☑ " } else { "☐ " });
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Link { dest_url, .. } => self.link(&dest_url),
            Tag::Image { dest_url, .. } => self.image(&dest_url),
            Tag::List(Some(first)) if first != 1 => {
                if self.open("<ol start=\"", "</ol>") {
                    // Writing to a string can't fail.
                    let _ = write!(self.markup, "{first}\">");
                }
            }
            Tag::Table(columns) => {
                self.columns = columns;
                self.open("<div class=\"table\"><table>", "</table></div>");
            }
            Tag::TableHead => {
                (self.column, self.is_in_head) = (0, true);
                self.open("<thead><tr>", "</tr></thead>");
            }
            Tag::TableRow => {
                self.column = 0;
                self.open("<tr>", "</tr>");
            }
            Tag::TableCell => self.cell(),
            other => match tags(&other) {
                Some((begin, end)) => drop(self.open(begin, end)),
                None => self.open.push(Open::Nothing),
            },
        }
    }

    fn end(&mut self, tag: TagEnd) {
        self.is_in_head &= tag != TagEnd::TableHead;
        self.close();
    }

    /// Opens an element. `false`: it is nested too deep, and nothing was written.
    fn open(&mut self, begin: &'static str, end: &'static str) -> bool {
        let fits = self.open.len() < DEPTH_MAX;
        if fits {
            self.markup.push_str(begin);
        }
        self.open.push(if fits { Open::Tag(end) } else { Open::Nothing });
        fits
    }

    fn close(&mut self) {
        match self.open.pop() {
            Some(Open::Tag(end)) => {
                self.markup.push_str(end);
                self.is_in_link &= end != LINK_END;
            }
            Some(Open::Target(target)) => self.text(&target),
            Some(Open::Nothing) | None => {}
        }
    }

    fn close_all(&mut self) {
        while !self.open.is_empty() {
            self.close();
        }
    }

    fn link(&mut self, target: &str) {
        if self.is_in_link {
            self.open.push(Open::Nothing);
        } else if !leads_outside(target) {
            // Mostly a path in the repository. As text, also any other target is harmless.
            self.open.push(Open::Target(format!(" ({target})")));
        } else if self.open("<a rel=\"noopener noreferrer nofollow\" href=\"", LINK_END) {
            self.is_in_link = true;
            target.render_to(&mut self.markup);
            self.markup.push_str("\">");
        }
    }

    /// An image would be loaded from another host, so it becomes a link. The parser's next events are the
    /// image's description, which is the link's text.
    fn image(&mut self, target: &str) {
        let is_alone = !self.is_in_link;
        self.link(target);
        if is_alone {
            self.text("image: ");
        }
    }

    fn cell(&mut self) {
        let column = self.columns.get(self.column).copied().unwrap_or(Alignment::None);
        self.column += 1;
        let end = if self.is_in_head { "</th>" } else { "</td>" };
        let begin = match (self.is_in_head, column) {
            (true, Alignment::None | Alignment::Left) => "<th>",
            (true, Alignment::Center) => "<th class=\"centre\">",
            (true, Alignment::Right) => "<th class=\"right\">",
            (false, Alignment::None | Alignment::Left) => "<td>",
            (false, Alignment::Center) => "<td class=\"centre\">",
            (false, Alignment::Right) => "<td class=\"right\">",
        };
        self.open(begin, end);
    }

    fn text(&mut self, text: &str) {
        line::write(&mut self.markup, text);
    }
}

/// The tags of an element that needs no attributes; `None`: only its content is shown. Headings become
/// paragraphs, because the page around the message has an outline of its own.
fn tags(tag: &Tag<'_>) -> Option<(&'static str, &'static str)> {
    Some(match tag {
        Tag::Paragraph => ("<p>", "</p>"),
        Tag::Heading { level: HeadingLevel::H1 | HeadingLevel::H2, .. } => {
            ("<p class=\"heading\">", "</p>")
        }
        Tag::Heading { .. } => ("<p class=\"subheading\">", "</p>"),
        Tag::BlockQuote(_) => ("<blockquote>", "</blockquote>"),
        Tag::HtmlBlock => ("<pre>", "</pre>"),
        Tag::CodeBlock(_) => ("<pre class=\"code\"><code>", "</code></pre>"),
        Tag::List(None) => ("<ul>", "</ul>"),
        Tag::List(Some(_)) => ("<ol>", "</ol>"),
        Tag::Item => ("<li>", "</li>"),
        Tag::Emphasis => ("<em>", "</em>"),
        Tag::Strong => ("<strong>", "</strong>"),
        Tag::Strikethrough => ("<del>", "</del>"),
        _ => return None,
    })
}

/// Whether a target has a scheme on the list. A browser drops control characters from an address, so a
/// target with one could become another address, and counts as none.
fn leads_outside(target: &str) -> bool {
    let has_scheme = |scheme: &&str| {
        target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    SCHEMES.iter().any(has_scheme) && !target.chars().any(|c| c.is_control() || c.is_whitespace())
}

#[cfg(test)]
mod tests;
