//! The only place that writes to standard output. Colours go to a terminal only, and not with
//! `NO_COLOR`; text of executors is made harmless before a terminal could obey it.

use std::io::{self, IsTerminal, Write};

use anstyle::Style;
use serde::Serialize;

use super::table::{self, Column};
use super::text::{harmless, harmless_json};

/// Where a verb prints.
pub struct Output {
    stream: Box<dyn Write>,
    /// Whether `--json` was given.
    pub json: bool,
    /// Whether standard output is a terminal.
    pub terminal: bool,
    colours: bool,
    /// The width of a table's rows, in cells of the terminal; `None`: unlimited.
    width: Option<usize>,
}

impl Output {
    /// Buffered standard output: callers flush before they write to standard error, wait or end.
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

    /// Output to a stream that is treated as no terminal: for tests, and for questions on standard error.
    pub fn to(stream: Box<dyn Write>, json: bool) -> Self {
        Self { stream, json, terminal: false, colours: false, width: None }
    }

    /// Moves the output out, and leaves one that discards everything.
    pub fn take(&mut self) -> Self {
        let json = self.json;
        std::mem::replace(self, Self::to(Box::new(io::sink()), json))
    }

    /// Prints a line of any text, made harmless.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.stream, "{}", harmless(text))
    }

    /// Prints lines that are harmless already, such as painted ones.
    pub fn painted(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.stream, "{text}")
    }

    /// Prints text unchanged. Text of an executor must not come here if this is a terminal.
    pub fn raw(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())
    }

    /// With `--json`, prints the value. Returns whether `--json` was given: if so, the verb prints nothing
    /// else.
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

    /// Prints an item of a stream (JSON Lines), also for a terminal in one line.
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

    /// Prints a table that fits the terminal. The last column wraps unless it is to be cut.
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

    /// Prints a table, or the sentence `when_empty` if there are no rows.
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

/// The width of a line in cells: `COLUMNS`, else the terminal's. `None`: standard output is no terminal.
fn width(stdout: &io::Stdout) -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(stdout).map(|(width, _)| width.0.into());
    given.or_else(terminal).filter(|width| *width > 0)
}
