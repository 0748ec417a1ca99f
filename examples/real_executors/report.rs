//! The table.

use std::fmt::Write;

/// How one CLI fared.
pub struct Row {
    name: String,
    version: Option<String>,
    /// Why it could not be tried.
    missing: Option<String>,
    cells: Vec<Cell>,
}

/// A check that was made, and what is to be said of it; failed: why.
pub struct Cell {
    pub check: &'static str,
    pub outcome: Result<String, String>,
}

impl Row {
    pub fn new(name: &str, version: &str, cells: Vec<Cell>) -> Self {
        Self { name: name.to_owned(), version: Some(version.to_owned()), missing: None, cells }
    }

    pub fn missing(name: &str, reason: &str) -> Self {
        let missing = Some(reason.to_owned());
        Self { name: name.to_owned(), version: None, missing, cells: Vec::new() }
    }

    /// One that could not be installed has failed at nothing.
    pub fn passed(&self) -> bool {
        self.cells.iter().all(|cell| cell.outcome.is_ok())
    }
}

/// The rows, and below them why a check failed.
pub fn table(rows: &[Row]) -> String {
    let checks: Vec<&str> = rows
        .iter()
        .find(|row| !row.cells.is_empty())
        .map(|row| row.cells.iter().map(|cell| cell.check).collect())
        .unwrap_or_default();
    let mut text = format!("| executor | version | {} |\n", checks.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(checks.len() + 2));
    let mut notes = String::new();
    for row in rows {
        let version = row.version.as_deref().unwrap_or("not installed");
        let cells = row.cells.iter().map(|cell| match &cell.outcome {
            Ok(said) if said.is_empty() => "✓".to_owned(),
            Ok(said) => format!("✓ {said}"),
            Err(_) => "✗".to_owned(),
        });
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(text, "| `{}` | {version} | {} |", row.name, cells.join(" | "));
        let failed =
            row.cells.iter().filter_map(|cell| Some((cell.check, cell.outcome.as_ref().err()?)));
        for (check, reason) in failed {
            let first = reason.lines().next().unwrap_or_default();
            let _ = writeln!(notes, "\n{}, {check}: {first}", row.name);
        }
        if let Some(reason) = &row.missing {
            let _ = writeln!(notes, "\n{}: {reason}", row.name);
        }
    }
    text + &notes
}
