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
use serde_json::{Value, json};
pub use settings::{Answers, Checks, Guards, Limits, Settings, Worker};
use settings::{Setting, TABLE};

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
    pub fn load(file: &Path, flags: &[Override]) -> Result<Self> {
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
                (setting.set)(&mut settings, json!(value));
            }
        }
        settings.limits
    }

    fn resolve(
        source: Source<'_>,
        environment: &dyn Fn(&str) -> Option<String>,
        flags: &[Override],
    ) -> Result<Self> {
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
            let given = from_flag(setting, flags)
                .or_else(|| from_environment(setting, environment))
                .or_else(|| from_file(setting, &root))
                .transpose()?;
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
fn check_keys(root: &Table<'_>) -> Result<()> {
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

type Result<T, E = ConfigError> = std::result::Result<T, E>;
type Given = Result<(Value, Origin)>;

fn from_flag(setting: &Setting, flags: &[Override]) -> Option<Given> {
    let given = flags.iter().find(|flag| flag.path == setting.path())?;
    Some(parse(setting, &given.text, given.flag, Origin::Flag(given.flag.to_owned())))
}

fn from_environment(
    setting: &Setting,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Option<Given> {
    let names = [Some(setting.variable()), setting.alias.map(str::to_owned)];
    let found = |name: String| environment(&name).map(|text| (name, text));
    let (name, text) = names.into_iter().flatten().find_map(found)?;
    Some(parse(setting, &text, &name, Origin::Environment(name.clone())))
}

/// `name`: the variable or the flag, for the message of an error.
fn parse(setting: &Setting, text: &str, name: &str, origin: Origin) -> Given {
    let value = setting.parse(text).ok_or_else(|| ConfigError::Invalid {
        origin: format!("{name}={text}"),
        key: setting.path(),
        expected: setting.expected(),
    });
    Ok((value?, origin))
}

fn from_file(setting: &Setting, root: &Table<'_>) -> Option<Given> {
    // `check_keys` has refused a section that is no table.
    let item = root.get(setting.section)?.table().ok()?.get(setting.key)?;
    let value = item.integer().map(Value::from);
    let value = value.or_else(|| item.text().ok().map(Value::from));
    let value = value.or_else(|| item.texts().ok().map(Value::from));
    let value = value.filter(|value| setting.check(value));
    let value = value.ok_or_else(|| item.invalid(&setting.expected()));
    Some(value.map(|value| (value, Origin::File(item.line()))))
}

#[cfg(test)]
mod tests;
