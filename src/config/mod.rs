//! The configuration: flag > environment > `config.toml` > default, each value
//! with its origin. Reads one file; everything else here is pure.

mod executors;
mod projects;
mod reader;
mod settings;
mod show;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub use executors::{ExecutorConfig, PromptVia, Protocol, VariantConfig};
pub use projects::ProjectConfig;
use reader::{Source, Table};
pub use settings::{Answers, Checks, Guards, Limits, Settings, Worker};
use settings::{Setting, TABLE, Value};

/// Why the configuration can't be used. The CLI ends with exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{file} can't be read: {source}", file = .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{file}:{line}: {message}", file = .file.display())]
    Syntax { file: PathBuf, line: usize, message: String },
    #[error("{file}:{line}: unknown key `{key}`{}", did_you_mean(.nearest.as_deref()),
        file = .file.display())]
    UnknownKey { file: PathBuf, line: usize, key: String, nearest: Option<String> },
    /// `origin` is a place in the file, a variable or a flag.
    #[error("{origin}: `{key}` must be {expected}")]
    Invalid { origin: String, key: String, expected: String },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// The line of `config.toml`, from 1.
    File(usize),
    /// The name of the variable.
    Environment(String),
    /// The flag as it is written.
    Flag(String),
}

/// A setting given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// `section.key`.
    pub path: &'static str,
    /// The flag as it is written, for messages.
    pub flag: &'static str,
    pub text: String,
}

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub settings: Settings,
    /// By name.
    pub executors: BTreeMap<String, ExecutorConfig>,
    /// By name or id.
    pub projects: BTreeMap<String, ProjectConfig>,
    file: PathBuf,
    /// One for each line of [`TABLE`].
    origins: Vec<Origin>,
}

impl Config {
    /// Reads `file`, which may be missing; the environment and `flags` override it.
    pub fn load(file: &Path, flags: &[Override]) -> Result<Self, ConfigError> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(ConfigError::Read { file: file.to_owned(), source }),
        };
        let environment = |name: &str| std::env::var(name).ok();
        Self::resolve(Source { file, text: &text }, &environment, flags)
    }

    /// What the processes of an executor may use: its own limits override `[limits]`.
    pub fn limits(&self, executor: &str) -> Limits {
        let mut settings = self.settings.clone();
        let own = self.executors.get(executor).map(|executor| &executor.limits);
        for (key, value) in own.into_iter().flatten() {
            let is_it = |setting: &&Setting| (setting.section, setting.key) == ("limits", *key);
            if let Some(setting) = TABLE.iter().find(is_it) {
                (setting.set)(&mut settings, Value::Integer(*value));
            }
        }
        settings.limits
    }

    fn resolve(
        source: Source<'_>,
        environment: &dyn Fn(&str) -> Option<String>,
        flags: &[Override],
    ) -> Result<Self, ConfigError> {
        let document = source.parse()?;
        let root = Table::root(source, &document);
        check_keys(&root)?;
        let mut config = Self {
            settings: Settings::default(),
            executors: executors::read(root.get("executors").as_ref())?,
            projects: projects::read(root.get("projects").as_ref())?,
            file: source.file.to_owned(),
            origins: Vec::with_capacity(TABLE.len()),
        };
        for setting in TABLE {
            let given = match from_flag(setting, flags)? {
                Some(given) => Some(given),
                None => match from_environment(setting, environment)? {
                    Some(given) => Some(given),
                    None => from_file(setting, &root)?,
                },
            };
            let (value, origin) =
                given.unwrap_or_else(|| ((setting.get)(&config.settings), Origin::Default));
            (setting.set)(&mut config.settings, value);
            config.origins.push(origin);
        }
        Ok(config)
    }
}

/// Refuses unknown sections and keys. The tables of executors and projects check their
/// own keys.
fn check_keys(root: &Table<'_>) -> Result<(), ConfigError> {
    let mut sections: Vec<&str> = TABLE.iter().map(|setting| setting.section).collect();
    sections.dedup();
    let mut known = sections.clone();
    known.extend(["executors", "projects"]);
    root.only(&known)?;
    for section in sections {
        let Some(item) = root.get(section) else { continue };
        let in_section = TABLE.iter().filter(|setting| setting.section == section);
        let keys: Vec<&str> = in_section.map(|setting| setting.key).collect();
        item.table()?.only(&keys)?;
    }
    Ok(())
}

type Given = Option<(Value, Origin)>;

fn from_flag(setting: &Setting, flags: &[Override]) -> Result<Given, ConfigError> {
    let Some(given) = flags.iter().find(|flag| flag.path == setting.path()) else {
        return Ok(None);
    };
    parse(setting, &given.text, given.flag)
        .map(|value| Some((value, Origin::Flag(given.flag.to_owned()))))
}

fn from_environment(
    setting: &Setting,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Given, ConfigError> {
    let names = [Some(setting.variable()), setting.alias.map(str::to_owned)];
    for name in names.into_iter().flatten() {
        if let Some(text) = environment(&name) {
            let value = parse(setting, &text, &name)?;
            return Ok(Some((value, Origin::Environment(name))));
        }
    }
    Ok(None)
}

fn parse(setting: &Setting, text: &str, origin: &str) -> Result<Value, ConfigError> {
    setting.parse(text).ok_or_else(|| ConfigError::Invalid {
        origin: format!("{origin}={text}"),
        key: setting.path(),
        expected: setting.expected(),
    })
}

fn from_file(setting: &Setting, root: &Table<'_>) -> Result<Given, ConfigError> {
    let Some(section) = root.get(setting.section) else { return Ok(None) };
    let Some(item) = section.table()?.get(setting.key) else { return Ok(None) };
    let value = item.integer().map(Value::Integer);
    let value = value.or_else(|| item.text().ok().map(Value::Text));
    let value = value.or_else(|| item.texts().ok().map(Value::Texts));
    match value.filter(|value| setting.check(value)) {
        Some(value) => Ok(Some((value, Origin::File(item.line())))),
        None => Err(item.invalid(&setting.expected())),
    }
}

#[cfg(test)]
mod tests;
