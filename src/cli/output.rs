//! The one place that writes to standard output: colours for a terminal only, `NO_COLOR`
//! honoured, and the executors' output made harmless before a terminal can obey it.

use std::io::{self, IsTerminal, Write};

use anstyle::Style;
use serde::Serialize;

use super::table::{self, Column};
use super::text::{harmless, harmless_json};

/// Where a verb prints.
pub struct Output {
    stream: Box<dyn Write>,
    /// Whether the verb was asked for JSON.
    pub json: bool,
    /// Whether standard output is a terminal.
    pub terminal: bool,
    colours: bool,
    /// Of a table's rows, in cells of the terminal; `None`: unlimited.
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

    /// To a stream that is not a terminal.
    pub fn to(stream: Box<dyn Write>, json: bool) -> Self {
        Self { stream, json, terminal: false, colours: false, width: None }
    }

    /// Takes the output over, and leaves one that discards everything.
    pub fn take(&mut self) -> Self {
        let json = self.json;
        std::mem::replace(self, Self::to(Box::new(io::sink()), json))
    }

    /// A line of text, whoever wrote it.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.stream, "{}", harmless(text))
    }

    /// Lines that are harmless already: painted ones, for example.
    pub fn painted(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.stream, "{text}")
    }

    /// Text as it is; never an executor's to a terminal.
    pub fn raw(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())
    }

    /// Prints the value if JSON was asked for; returns whether it was.
    pub fn as_json(&mut self, value: &impl Serialize) -> io::Result<bool> {
        if self.json {
            self.json(value)?;
        }
        Ok(self.json)
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

    /// An item of a stream: always one line of JSON.
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
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> io::Result<()> {
        let bold = Style::new().bold();
        let columns: Vec<Column> = columns.iter().map(|column| (*column).into()).collect();
        let lines = table::lines(&columns, &rows.into_iter().collect::<Vec<_>>(), self.width);
        for (index, line) in lines.iter().enumerate() {
            let line = if index == 0 { self.paint(bold, line) } else { line.clone() };
            self.painted(&line)?;
        }
        Ok(())
    }

    /// A table, or a sentence where it would be empty.
    pub fn list<C: Copy + Into<Column>>(
        &mut self,
        columns: &[C],
        rows: impl IntoIterator<Item = Vec<String>>,
        when_empty: &str,
    ) -> io::Result<()> {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() { self.line(when_empty) } else { self.table(columns, rows) }
    }
}

/// How many cells wide a line may be: as `COLUMNS` says, else as wide as the terminal.
fn width(stdout: &io::Stdout) -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(stdout).map(|(width, _)| width.0.into());
    given.or_else(terminal).filter(|width| *width > 0)
}
