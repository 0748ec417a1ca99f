//! The key `state` of an executor's table: where its program keeps its own state. A sandboxed attempt
//! gets a copy of the parts that it needs. Pure.

use std::path::{Component, Path};

use provost_actors::sandbox::{Credentials, StatePlace};

use super::Result;
use super::reader::{Item, Table};

/// The keys of one place.
const PLACE: [&str; 7] = ["variable", "from", "folder", "copy", "read", "credentials", "sessions"];

/// Reads the array of places. `from` is absolute or begins with `~/`, `folder` is a name, and all other
/// paths are relative and can't lead out of their folder.
pub fn read_state(item: &Item<'_>) -> Result<Vec<StatePlace>> {
    item.each()?.iter().map(read_place).collect()
}

/// One place: a folder of the person's that a program keeps state in.
fn read_place(item: &Item<'_>) -> Result<StatePlace> {
    let table = item.table()?;
    table.only(&PLACE)?;
    let from = table.value("from", Item::text)?;
    if !from.starts_with("~/") && !from.starts_with('/') {
        return Err(item.invalid("a table with `from`: a path that begins with \"/\" or \"~/\""));
    }
    let folder = one(item, &table, "folder")?;
    if folder.contains('/') {
        return Err(item.invalid("a table with `folder`: a name without \"/\""));
    }
    let credentials = |item: &Item<'_>| item.each()?.iter().map(read_credentials).collect();
    Ok(StatePlace {
        variable: table.value("variable", |item| item.text().map(Some))?,
        from,
        folder,
        copy: table.value("copy", read_below)?,
        read: table.value("read", read_below)?,
        credentials: table.value("credentials", credentials)?,
        sessions: table.value("sessions", read_below)?,
    })
}

/// Reads a file of credentials. A program renews its login while it runs, so `newer` names what decides
/// which of two copies is the newer one.
fn read_credentials(item: &Item<'_>) -> Result<Credentials> {
    let table = item.table()?;
    table.only(&["file", "renewed", "newer"])?;
    let renewed = table.value("renewed", Item::texts)?;
    let newer = table.value("newer", |item| item.text().map(Some))?;
    if newer.is_none() && !renewed.is_empty() {
        return Err(item.invalid("a table with `newer` where it has `renewed`"));
    }
    Ok(Credentials { file: one(item, &table, "file")?, renewed, newer })
}

/// A required relative path.
fn one(item: &Item<'_>, table: &Table<'_>, key: &str) -> Result<String> {
    let path = table.value(key, Item::text)?;
    let expected = format!("a table with `{key}`: {BELOW}");
    if is_below(&path) { Ok(path) } else { Err(item.invalid(&expected)) }
}

const BELOW: &str = "a relative path without \"..\"";

fn read_below(item: &Item<'_>) -> Result<Vec<String>> {
    let paths = item.texts()?;
    let is_good = paths.iter().all(|path| is_below(path));
    if is_good { Ok(paths) } else { Err(item.invalid(&format!("an array, each {BELOW}"))) }
}

/// True for a relative path without `..`: it stays below its folder.
fn is_below(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}
