//! Readers for the values of an executor's table. Pure.

use provost_actors::sandbox::Level;
use provost_actors::sandbox::allowed_destinations::AllowedHost;

use super::Result;
use super::allowed::HOSTS;
use super::reader::Item;

/// What a command is, in words.
pub const COMMAND: &str = "the program and its arguments, such as [\"/usr/bin/agent\", \"-b\"]";

/// A program and its arguments; the program is not empty.
pub fn read_command(item: &Item<'_>) -> Result<Vec<String>> {
    let command = item.texts().ok();
    let command = command.filter(|words| words.first().is_some_and(|program| !program.is_empty()));
    command.ok_or_else(|| item.invalid(COMMAND))
}

/// A whole number from 0 to `most`.
pub fn read_whole(item: &Item<'_>, most: u64) -> Result<u64> {
    let value = item.integer().filter(|value| *value <= most);
    value.ok_or_else(|| item.invalid(&format!("a whole number from 0 to {most}")))
}

/// Names of variables, each as `NAME` or `PREFIX_*`.
pub fn read_env_pass(item: &Item<'_>) -> Result<Vec<String>> {
    let names = item.texts()?;
    let is_good = |name: &String| {
        let stem = name.strip_suffix('*').unwrap_or(name);
        !stem.is_empty() && !stem.contains(['*', '='])
    };
    if names.iter().all(is_good) {
        Ok(names)
    } else {
        Err(item.invalid("an array of \"NAME\" or \"PREFIX_*\""))
    }
}

/// The level of a sandbox.
pub fn read_level(item: &Item<'_>) -> Result<Level> {
    item.one_of(&[
        ("none", Level::None),
        ("workspace", Level::Workspace),
        ("strict", Level::Strict),
    ])
}

/// Absolute paths, or paths in the person's home (`~/`).
pub fn read_paths(item: &Item<'_>) -> Result<Vec<String>> {
    let paths = item.texts()?;
    if paths.iter().all(|path| path.starts_with('/') || path.starts_with("~/")) {
        Ok(paths)
    } else {
        Err(item.invalid("an array of paths that begin with \"/\" or \"~/\""))
    }
}

/// An array of hosts, as an allow-list has them.
pub fn read_hosts(item: &Item<'_>) -> Result<Vec<String>> {
    let hosts = item.texts()?;
    if hosts.iter().all(|host| host.parse::<AllowedHost>().is_ok()) {
        Ok(hosts)
    } else {
        Err(item.invalid(HOSTS))
    }
}
