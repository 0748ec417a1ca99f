//! The configuration. A flag overrides the environment, that overrides `config.toml`, and that overrides
//! the default; each value has its origin. One file is read; everything else here is pure.

mod allowed;
mod engine;
mod executors;
mod forges;
mod protocol;
mod reader;
mod repo_file;
mod settings;
mod show;
mod state;
mod values;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use allowed::Allowed;
pub use allowed::{listen, ports};
pub use executors::{ExecutorConfig, VariantConfig};
pub use forges::ForgeConfig;
pub use protocol::{PromptVia, Protocol};
use provost_actors::environment::Given;
use provost_actors::journal::checks::CheckCommand;
use provost_actors::repo_settings::RepoSettings;
use reader::{Item, Source, Table};
pub use repo_file::read_repo_file;
use serde_json::{Value, json};
pub use settings::{Answers, Checks, Engine, Guards, Http, Limits, Logs, Settings, Worker};
use settings::{Setting, TABLE};

/// Why the configuration can't be used, with the place of the fault. The command line ends with exit code
/// 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// A setting's `section.key`, and the text that the command line gives it.
pub type Flag = (&'static str, String);

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub settings: Settings,
    /// By name.
    pub executors: BTreeMap<String, ExecutorConfig>,
    /// By name or id.
    pub projects: BTreeMap<String, ProjectConfig>,
    /// Where pull requests are made, by host.
    pub forges: BTreeMap<String, ForgeConfig>,
    /// The origin of each setting, in the order of [`TABLE`]: `default`, a place in the file, a variable
    /// or a flag.
    origins: Vec<String>,
}

impl Config {
    /// Reads `file`, which may be missing; the environment and `flags` override it.
    ///
    /// # Errors
    /// The file can't be read, or it, a variable or a flag has an unknown key or a value that the key
    /// does not accept.
    pub fn load(file: &Path, flags: &[Flag]) -> Result<Self> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(ConfigError(format!("{} can't be read: {error}", file.display())));
            }
        };
        let environment = |name: &str| std::env::var(name).ok();
        Self::resolve(Source { file, text: &text }, &environment, flags)
    }

    /// What the processes of an executor may use: its own limits override those of `[limits]`.
    pub fn limits(&self, executor: &str) -> Limits {
        let mut settings = self.settings.clone();
        let own = self.executors.get(executor).map(|executor| &executor.limits);
        for (key, value) in own.into_iter().flatten() {
            let is_it = |setting: &&Setting| (setting.section, setting.key) == ("limits", *key);
            if let Some(setting) = TABLE.iter().find(is_it) {
                (setting.set)(&mut settings, json!(value));
            }
        }
        settings.limits
    }

    /// The pure part of [`load`](Self::load): the environment is a function, so that tests can give one.
    fn resolve(
        source: Source<'_>,
        environment: &dyn Fn(&str) -> Option<String>,
        flags: &[Flag],
    ) -> Result<Self> {
        let document = source.parse()?;
        let root = Table::root(source, &document);
        check_keys(&root)?;
        let mut config = Self {
            settings: Settings::default(),
            executors: executors::read(root.get("executors").as_ref())?,
            projects: root
                .value("projects", |item| item.table()?.items().map(read_project).collect())?,
            forges: root
                .value("forges", |item| item.table()?.items().map(forges::read).collect())?,
            origins: Vec::with_capacity(TABLE.len()),
        };
        for setting in TABLE {
            let given = given(setting, &root, environment, flags)?;
            config.origins.push(given.map_or_else(
                || "default".to_owned(),
                |(value, origin)| {
                    (setting.set)(&mut config.settings, value);
                    origin
                },
            ));
        }
        Ok(config)
    }
}

/// Refuses unknown sections and keys. The tables of executors, projects and forges check their keys
/// themselves.
fn check_keys(root: &Table<'_>) -> Result<()> {
    let sections: Vec<&[Setting]> = TABLE.chunk_by(|a, b| a.section == b.section).collect();
    let names = sections.iter().map(|section| section[0].section);
    root.only(&names.chain(["executors", "projects", "forges"]).collect::<Vec<_>>())?;
    for section in sections {
        let Some(item) = root.get(section[0].section) else { continue };
        let keys: Vec<&str> = section.iter().map(|setting| setting.key).collect();
        item.table()?.only(&keys)?;
    }
    Ok(())
}

/// The configuration of one project, whose table has its name or its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectConfig {
    /// The checks by name. They run in the order of their names.
    pub checks: BTreeMap<String, CheckCommand>,
    /// The settings of its repositories, by name.
    pub repos: BTreeMap<String, RepoSettings>,
    /// The variables that scripts of its repositories get: by repository, then by the table of the
    /// script.
    pub given: BTreeMap<String, BTreeMap<&'static str, Given>>,
    /// The variables that its checks get.
    pub checks_given: Given,
    /// The place in `config.toml` where its table begins.
    pub origin: String,
}

/// Reads the table of one project, whose key is its name or id.
fn read_project((name, item): (&str, Item<'_>)) -> Result<(String, ProjectConfig)> {
    let table = item.table()?;
    table.only(&["checks", "checks_env", "checks_env_pass", "repos"])?;
    let checks = table.value("checks", |item| item.table()?.items().map(read_check).collect())?;
    let repo = |(name, item): (&str, Item<'_>)| -> Result<(String, RepoSettings)> {
        Ok((name.to_owned(), repo_file::read(&item.table()?, false)?))
    };
    let given =
        |(name, item): (&str, Item<'_>)| -> Result<(String, BTreeMap<&'static str, Given>)> {
            Ok((name.to_owned(), repo_file::read_given(&item.table()?)?))
        };
    let repos = table.value("repos", |item| item.table()?.items().map(repo).collect())?;
    let given = table.value("repos", |item| item.table()?.items().map(given).collect())?;
    let checks_given = read_given(&table, ("checks_env", "checks_env_pass"))?;
    let origin = item.origin();
    Ok((name.to_owned(), ProjectConfig { checks, repos, given, checks_given, origin }))
}

/// The variables that a table gives to processes, under two keys: those with values, and those passed on
/// from the daemon's environment.
fn read_given(table: &Table<'_>, (set, pass): (&str, &str)) -> Result<Given> {
    let set = table.value(set, Item::environment)?;
    Ok(Given { set, pass: table.value(pass, values::read_env_pass)? })
}

fn read_check((name, item): (&str, Item<'_>)) -> Result<(String, CheckCommand)> {
    item.is_named_well(name)?;
    Ok((name.to_owned(), read_command(&item)?))
}

/// A command line for a shell, or a program with its arguments.
fn read_command(item: &Item<'_>) -> Result<CheckCommand> {
    match (item.text(), item.texts()) {
        (Ok(line), _) if !line.trim().is_empty() => Ok(CheckCommand::Line(line)),
        (_, Ok(words)) if words.first().is_some_and(|program| !program.is_empty()) => {
            Ok(CheckCommand::Words(words))
        }
        _ => Err(item.invalid("a command line, or an array of a program and its arguments")),
    }
}

type Result<T, E = ConfigError> = std::result::Result<T, E>;

/// The value that overrides the default, with its origin (a flag, a variable or the file). `None`:
/// nothing sets it.
fn given(
    setting: &Setting,
    root: &Table<'_>,
    environment: &dyn Fn(&str) -> Option<String>,
    flags: &[Flag],
) -> Result<Option<(Value, String)>> {
    let flag = flags.iter().find(|(path, _)| *path == setting.path());
    let flag = flag.map(|(_, text)| (setting.flag(), text.clone()));
    let names = [Some(setting.variable()), setting.alias.map(str::to_owned)];
    let variable = |name: String| environment(&name).map(|text| (name, text));
    if let Some((name, text)) = flag.or_else(|| names.into_iter().flatten().find_map(variable)) {
        let value = setting.parse(&text).ok_or_else(|| {
            let (key, expected) = (setting.path(), setting.expected());
            // Also a text that is no valid URL of a database may contain a password, so it is not shown.
            let text = if setting.allowed == Allowed::Engine { "…" } else { text.as_str() };
            ConfigError(format!("{name}={text}: `{key}` must be {expected}"))
        });
        return Ok(Some((value?, name)));
    }
    // `check_keys` has already refused a section that is no table.
    let section = root.get(setting.section).and_then(|section| section.table().ok());
    let Some(item) = section.and_then(|section| section.get(setting.key)) else { return Ok(None) };
    let value = item.integer().map(Value::from);
    let value = value.or_else(|| item.text().ok().map(Value::from));
    let value = value.or_else(|| item.texts().ok().map(Value::from));
    let value = value.filter(|value| setting.check(value));
    let value = value.ok_or_else(|| item.invalid(&setting.expected()))?;
    Ok(Some((value, item.origin())))
}

#[cfg(test)]
mod tests;
