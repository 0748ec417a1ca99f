//! The `[projects.NAME]` tables: the checks that run when a task of the project is
//! reported done. Plain data: nothing here asks whether there is such a project.

use std::collections::BTreeMap;

use provost_actors::journal::checks::CheckCommand;

use super::Result;
use super::reader::Item;

/// The configuration of one project, under its name or its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectConfig {
    /// By name; they run in the order of their names.
    pub checks: BTreeMap<String, CheckCommand>,
    /// The line in `config.toml` where its table begins, from 1.
    pub line: usize,
}

/// Reads the table `[projects]`.
pub fn read(projects: Option<&Item<'_>>) -> Result<BTreeMap<String, ProjectConfig>> {
    let Some(projects) = projects else { return Ok(BTreeMap::new()) };
    let one = |(name, item): (&str, Item<'_>)| Ok((name.to_owned(), read_one(&item)?));
    projects.table()?.items().map(one).collect()
}

fn read_one(item: &Item<'_>) -> Result<ProjectConfig> {
    let table = item.table()?;
    table.only(&["checks"])?;
    let checks = match table.get("checks") {
        Some(checks) => checks.table()?.items().map(read_check).collect::<Result<_, _>>()?,
        None => BTreeMap::new(),
    };
    Ok(ProjectConfig { checks, line: item.line() })
}

fn read_check((name, item): (&str, Item<'_>)) -> Result<(String, CheckCommand)> {
    item.is_named_well(name)?;
    let expected = "a command line, or an array of a program and its arguments";
    let command = match (item.text(), item.texts()) {
        (Ok(line), _) if !line.trim().is_empty() => CheckCommand::Line(line),
        (_, Ok(words)) if words.first().is_some_and(|program| !program.is_empty()) => {
            CheckCommand::Words(words)
        }
        _ => return Err(item.invalid(expected)),
    };
    Ok((name.to_owned(), command))
}
