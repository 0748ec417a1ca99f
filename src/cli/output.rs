//! The one place that writes to standard output. It knows whether people or
//! programs read: colours for a terminal only, `NO_COLOR` honoured, and what
//! executors said is made harmless before a terminal can obey it.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstyle::Style;
use serde::Serialize;

use super::table::{self, Column};

/// Where a verb prints.
pub struct Output {
    stream: Box<dyn Write>,
    json: bool,
    terminal: bool,
    colours: bool,
    /// Of a table's rows, in cells of the terminal; `None` for as wide as they like.
    width: Option<usize>,
}

impl Output {
    pub fn stdout(json: bool) -> Self {
        let stdout = io::stdout();
        Self {
            json,
            terminal: stdout.is_terminal(),
            colours: anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
            width: width(&stdout),
            stream: Box::new(io::BufWriter::new(stdout)),
        }
    }

    /// For no terminal.
    pub fn to(stream: Box<dyn Write>, json: bool) -> Self {
        Self { stream, json, terminal: false, colours: false, width: None }
    }

    /// Whether the verb was asked for JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a terminal reads.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.stream, "{text}")
    }

    /// Bytes as they are; never what an executor said to a terminal.
    pub fn raw(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())
    }

    /// One line of JSON, or several for a terminal.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        if self.terminal {
            let text = serde_json::to_string_pretty(value)?;
            return writeln!(self.stream, "{}", harmless_json(&text));
        }
        serde_json::to_writer(&mut self.stream, value)?;
        writeln!(self.stream)
    }

    /// One line of JSON, whoever reads: an item of a stream.
    pub fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(value)?;
        let text = if self.terminal { harmless_json(&text) } else { text };
        writeln!(self.stream, "{text}")
    }

    /// Text in a style, if colours are wanted.
    pub fn paint(&self, style: Style, text: &str) -> String {
        if self.colours { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }

    /// A table that fits the terminal; its last column wraps.
    pub fn table<C: Copy + Into<Column>>(
        &mut self,
        columns: &[C],
        rows: &[Vec<String>],
    ) -> io::Result<()> {
        let bold = Style::new().bold();
        let columns: Vec<Column> = columns.iter().map(|column| (*column).into()).collect();
        let lines = table::lines(&columns, rows, self.width);
        for (index, line) in lines.iter().enumerate() {
            let line = if index == 0 { self.paint(bold, line) } else { line.clone() };
            self.line(&line)?;
        }
        Ok(())
    }

    /// A table, or a sentence where it would be empty.
    pub fn list<C: Copy + Into<Column>>(
        &mut self,
        columns: &[C],
        rows: &[Vec<String>],
        when_empty: &str,
    ) -> io::Result<()> {
        if rows.is_empty() { self.line(when_empty) } else { self.table(columns, rows) }
    }
}

/// How many cells wide a line may be: as `COLUMNS` says, else as wide as the terminal.
fn width(stdout: &io::Stdout) -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(stdout).map(|(width, _)| width.0.into());
    given.or_else(terminal).filter(|width| *width > 0)
}

/// One line of text that a terminal shows and doesn't obey: control
/// characters, and those that reorder text, are written out.
pub fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => safe.push(c),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            c if c.is_control() || is_reordering(c) => {
                // Writing to a string can't fail.
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe
}

/// JSON of the same value that a terminal shows and doesn't obey: what JSON leaves as it
/// is and a terminal may act on is escaped. Such characters occur in strings only.
pub fn harmless_json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && (c.is_control() || is_reordering(c)) {
            // Writing to a string can't fail; all of them fit into 16 bits.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// The bidirectional controls: marks, overrides and isolates (Unicode Standard Annex 9).
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The last 8 characters of an id: what people are shown.
pub fn short(id: &str) -> &str {
    let start = id.char_indices().rev().nth(7).map_or(0, |(index, _)| index);
    &id[start..]
}

/// The first line of a text, cut to a number of characters.
pub fn headline(text: &str, most: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    if line.chars().count() <= most {
        return line.to_owned();
    }
    let cut: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_headline_is_the_first_line_and_no_longer_than_asked() {
        assert_eq!(headline("  fix it \n\nmore", 80), "fix it");
        assert_eq!(headline("abcdef", 6), "abcdef");
        assert_eq!(headline("abcdefg", 6), "abcde…");
        assert_eq!(headline("", 6), "");
    }

    #[test]
    fn a_short_id_is_its_end() {
        assert_eq!(short("0192f0c1-2345-7abc-8def-0123456789ab"), "456789ab");
        assert_eq!(short("ab"), "ab");
    }

    proptest! {
        #[test]
        fn nothing_harmless_can_steer_a_terminal(text in any::<String>()) {
            let safe = harmless(&text);
            prop_assert!(safe.chars().all(|c| c == '\t' || !(c.is_control() || is_reordering(c))));
        }

        #[test]
        fn harmless_json_is_the_same_value_and_can_not_steer_a_terminal(text in any::<String>()) {
            let text = format!("{text}\u{9b}31m\u{202e}\u{7f}");
            let safe = harmless_json(&serde_json::to_string_pretty(&[&text]).unwrap());
            prop_assert!(safe.chars().all(|c| c == '\n' || !(c.is_control() || is_reordering(c))));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), vec![text]);
        }

        #[test]
        fn headlines_fit(text in any::<String>(), most in 1..100usize) {
            prop_assert!(headline(&text, most).chars().count() <= most);
        }
    }
}
