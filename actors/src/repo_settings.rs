//! What is configured for the worktrees of one repository: by its own `provost.toml` and by the
//! person's configuration, which wins key by key. Pure data; each value knows where it stands.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::journal::checks::CheckCommand;
use crate::text::hex;

/// The file at the root of a repository that may say what its worktrees need.
pub const REPO_FILE: &str = "provost.toml";

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sourced<T> {
    pub value: T,
    /// File and line.
    pub origin: String,
    /// From [`REPO_FILE`]: a command of it runs only once a person has approved it.
    pub is_repos: bool,
}

type Key<T> = Option<Sourced<T>>;

/// A command line that Provost runs in a worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScriptSettings {
    pub run: Key<CheckCommand>,
    /// Seconds that it may take.
    pub timeout_secs: Key<u64>,
    /// Files of the worktree on which its result depends.
    pub cache_key: Key<Vec<String>>,
    /// What it makes: paths in the worktree that later worktrees with the same key get.
    pub cache: Key<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortSettings {
    /// The variables that name an attempt's own ports.
    pub names: Key<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DevServerSettings {
    pub run: Key<CheckCommand>,
    /// One of the names of the ports.
    pub port: Key<String>,
    /// The URL that answers once it is ready.
    pub ready: Key<String>,
}

/// All of it; empty where nothing is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepoSettings {
    /// Patterns (gitignore(5)) of ignored files that a worktree gets a copy of.
    pub copy: Key<Vec<String>>,
    pub setup: ScriptSettings,
    pub cleanup: ScriptSettings,
    pub ports: PortSettings,
    pub dev_server: DevServerSettings,
    /// By name.
    pub checks: BTreeMap<String, Sourced<CheckCommand>>,
}

impl ScriptSettings {
    fn under(self, over: Self) -> Self {
        Self {
            run: over.run.or(self.run),
            timeout_secs: over.timeout_secs.or(self.timeout_secs),
            cache_key: over.cache_key.or(self.cache_key),
            cache: over.cache.or(self.cache),
        }
    }
}

impl RepoSettings {
    /// These settings where `over` has none of its own, key by key.
    #[must_use]
    pub fn under(mut self, over: Self) -> Self {
        self.checks.extend(over.checks);
        Self {
            copy: over.copy.or(self.copy),
            setup: self.setup.under(over.setup),
            cleanup: self.cleanup.under(over.cleanup),
            ports: PortSettings { names: over.ports.names.or(self.ports.names) },
            dev_server: DevServerSettings {
                run: over.dev_server.run.or(self.dev_server.run),
                port: over.dev_server.port.or(self.dev_server.port),
                ready: over.dev_server.ready.or(self.dev_server.ready),
            },
            checks: self.checks,
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Every key that is set, by its dotted path, in the order of the paths.
    pub fn entries(&self) -> BTreeMap<String, Sourced<Value>> {
        let mut entries = BTreeMap::new();
        collect("", json!(self), &mut entries);
        entries
    }

    /// The commands that come from the repository's own file, by their dotted paths.
    fn foreign_commands(&self) -> BTreeMap<String, &CheckCommand> {
        let named = [
            ("setup.run", &self.setup.run),
            ("cleanup.run", &self.cleanup.run),
            ("dev_server.run", &self.dev_server.run),
        ];
        let named =
            named.into_iter().filter_map(|(key, run)| Some((key.to_owned(), run.as_ref()?)));
        let checks = self.checks.iter().map(|(name, command)| (format!("checks.{name}"), command));
        let all = named.chain(checks).filter(|(_, command)| command.is_repos);
        all.map(|(key, command)| (key, &command.value)).collect()
    }

    /// What a person approves: the hash of every command of the repository's file, in
    /// hexadecimal digits; `None` if it has none.
    pub fn commands_hash(&self) -> Option<String> {
        let commands = self.foreign_commands();
        let text = (!commands.is_empty()).then(|| json!(commands).to_string())?;
        Some(hex(&Sha256::digest(text)))
    }

    /// The commands that a person approves, one in a line.
    pub fn commands_text(&self) -> String {
        let lines = self.foreign_commands().into_iter();
        lines.map(|(key, command)| format!("{key}: {command}")).collect::<Vec<_>>().join("\n")
    }
}

fn collect(path: &str, value: Value, entries: &mut BTreeMap<String, Sourced<Value>>) {
    if let Ok(found) = serde_json::from_value::<Sourced<Value>>(value.clone()) {
        entries.insert(path.to_owned(), found);
        return;
    }
    let Value::Object(table) = value else { return };
    for (key, value) in table {
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        collect(&path, value, entries);
    }
}

/// How the configuration of repositories is read: this crate knows no file format.
#[derive(Clone, Debug)]
pub struct RepoConfig {
    /// The person's own, by project (its name or its id) and by the repository's name.
    pub projects: BTreeMap<String, BTreeMap<String, RepoSettings>>,
    /// Reads the text of a [`REPO_FILE`]. `Err` is a sentence with line and key.
    pub read: fn(&str) -> Result<RepoSettings, String>,
}

impl Default for RepoConfig {
    fn default() -> Self {
        Self { projects: BTreeMap::new(), read: |_| Ok(RepoSettings::default()) }
    }
}

impl RepoConfig {
    /// The person's settings of a repository. Those under the project's id win over those under
    /// its name, key by key.
    pub fn of(&self, project_id: &str, project_name: &str, repo: &str) -> RepoSettings {
        let under = |project: &str| self.projects.get(project)?.get(repo).cloned();
        let by_name = under(project_name).unwrap_or_default();
        by_name.under(under(project_id).unwrap_or_default())
    }
}

/// The names of the ports of several repositories, each once, sorted.
pub fn port_names<'a>(all: impl Iterator<Item = &'a RepoSettings>) -> BTreeSet<String> {
    let names = all.filter_map(|settings| settings.ports.names.as_ref());
    names.flat_map(|names| names.value.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sourced<T>(value: T, is_repos: bool) -> Sourced<T> {
        let origin = if is_repos { "provost.toml:1" } else { "config.toml:9" };
        Sourced { value, origin: origin.to_owned(), is_repos }
    }

    #[expect(clippy::unnecessary_wraps, reason = "the settings hold options")]
    fn line(text: &str, is_repos: bool) -> Option<Sourced<CheckCommand>> {
        Some(sourced(CheckCommand::Line(text.to_owned()), is_repos))
    }

    #[test]
    fn the_persons_keys_win_one_by_one() {
        let setup = ScriptSettings {
            run: line("npm ci", true),
            timeout_secs: Some(sourced(5, true)),
            ..ScriptSettings::default()
        };
        let own = RepoSettings { setup, ..RepoSettings::default() };
        let setup = ScriptSettings { run: line("true", false), ..ScriptSettings::default() };
        let persons = RepoSettings { setup, ..RepoSettings::default() };
        let merged = own.under(persons);
        let entries = merged.entries();
        let origins: Vec<_> =
            entries.iter().map(|(key, entry)| (key.as_str(), entry.origin.as_str())).collect();
        let expected = [("setup.run", "config.toml:9"), ("setup.timeout_secs", "provost.toml:1")];
        assert_eq!(origins, expected);
        assert_eq!(entries["setup.run"].value, "true");
        assert_eq!(merged.commands_hash(), None, "no command is the repository's");
        assert!(RepoSettings::default().is_empty() && RepoSettings::default().entries().is_empty());
    }

    #[test]
    fn an_approval_is_for_exactly_these_commands() {
        let of = |setup: &str, timeout| RepoSettings {
            setup: ScriptSettings {
                run: line(setup, true),
                timeout_secs: Some(sourced(timeout, true)),
                ..ScriptSettings::default()
            },
            ..RepoSettings::default()
        };
        assert_eq!(of("make", 1).commands_hash(), of("make", 2).commands_hash());
        assert_ne!(of("make", 1).commands_hash(), of("make ", 1).commands_hash());
        let mut with_check = of("make", 1);
        with_check.checks.extend(line("true", true).map(|command| ("test".to_owned(), command)));
        assert_ne!(with_check.commands_hash(), of("make", 1).commands_hash());
        assert_eq!(of("make", 1).commands_text(), "setup.run: make");
    }

    #[test]
    fn the_name_of_a_check_is_no_other_key() {
        let settings = |key: &str| {
            let mut settings = RepoSettings::default();
            settings.checks.extend(line("x", true).map(|command| (key.to_owned(), command)));
            settings.commands_hash()
        };
        let setup = ScriptSettings { run: line("x", true), ..ScriptSettings::default() };
        let as_setup = RepoSettings { setup, ..RepoSettings::default() }.commands_hash();
        assert_ne!(settings("setup.run"), as_setup);
    }

    #[test]
    fn a_projects_id_goes_before_its_name() {
        let copy = |pattern: &str| RepoSettings {
            copy: Some(sourced(vec![pattern.to_owned()], false)),
            ..RepoSettings::default()
        };
        let project = |settings| BTreeMap::from([("app".to_owned(), settings)]);
        let projects = BTreeMap::from([
            ("scratch".to_owned(), project(copy("a"))),
            ("id".to_owned(), project(copy("b"))),
        ]);
        let config = RepoConfig { projects, ..RepoConfig::default() };
        assert_eq!(config.of("id", "scratch", "app"), copy("b"));
        assert_eq!(config.of("other", "scratch", "app"), copy("a"));
        assert!(config.of("other", "scratch", "web").is_empty());
    }
}
