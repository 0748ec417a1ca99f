//! What is configured for the worktrees of one repository: by the repository's own `provost.toml` and
//! `.worktreeinclude`, and by the person's configuration, which wins key by key. Pure data; each value
//! carries the file and line that it comes from. This crate knows no file format: [`RepoConfig::read`] is
//! given by `src/config`.
//!
//! What the repository's own files say comes from whoever can commit there. Commands, credentials and odd
//! variables from such a file take effect only once a person has approved exactly these
//! ([`RepoSettings::commands_hash`]).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::environment::Given;
use crate::journal::checks::CheckCommand;
use crate::text::hex;
use crate::workspace::copy::credential_lines;

/// The file at the root of a repository that may say what its worktrees need.
pub const REPO_FILE: &str = "provost.toml";
/// The list of files to copy, at the root of a repository. Other tools read the same file.
pub const INCLUDE_FILE: &str = ".worktreeinclude";
/// Bytes of all commands that a person is asked to approve at once: more could not be read with care.
const COMMANDS_MAX: usize = 8192;
/// Bytes of the longest pattern or path.
const PATTERN_MAX: usize = 4096;
/// Most patterns, paths or checks of a repository, for each kind.
pub const LIST_MAX: usize = 1000;

/// A value, and where it is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sourced<T> {
    pub value: T,
    /// File and line, as `provost.toml:3`, for messages.
    pub origin: String,
    /// Whether it comes from the repository's own files: a command among them runs only once a person has
    /// approved it.
    pub is_repos: bool,
}

/// `None`: the key is not set.
type Key<T> = Option<Sourced<T>>;

/// A command that Provost runs in each worktree: the setup before the first turn, or the cleanup before
/// the removal. The keys of the cache belong to the setup alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScriptSettings {
    pub run: Key<CheckCommand>,
    /// Seconds that it may take; unset: the default of setups or of cleanups.
    pub timeout_secs: Key<u64>,
    /// Files of the worktree on whose content the result of the setup depends.
    pub cache_key: Key<Vec<String>>,
    /// What the setup makes: paths in the worktree that later worktrees with the same key get copies of.
    pub cache: Key<Vec<String>>,
    /// Whether the setup still runs in a worktree that has got such copies.
    pub after_restore: Key<AfterRestore>,
}

/// What follows when a worktree has got the result of an earlier setup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterRestore {
    /// The setup does not run: the copies are all that it would make.
    #[default]
    Skip,
    /// The setup runs, and repairs what holds the path of the worktree that it was made in.
    Run,
}

/// The ports that Provost reserves for an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortSettings {
    /// Names of variables; each gets a free port of the attempt's own as its value.
    pub names: Key<Vec<String>>,
}

/// The server that a person starts to try an attempt's work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DevServerSettings {
    pub run: Key<CheckCommand>,
    /// One of [`PortSettings::names`]: the port at which the server listens.
    pub port: Key<String>,
    /// A URL, with the port as `$NAME` or `${NAME}`, that answers once the server is ready.
    pub ready: Key<String>,
}

/// All that can be configured for a repository. The default is "nothing".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepoSettings {
    /// Patterns (gitignore(5)) of ignored files that a new worktree gets copies of.
    pub copy: Key<Vec<String>>,
    /// The patterns of the repository's [`INCLUDE_FILE`]. They come before those of `copy`, so `copy` can
    /// exclude what they include.
    pub worktreeinclude: Key<Vec<String>>,
    pub setup: ScriptSettings,
    pub cleanup: ScriptSettings,
    pub ports: PortSettings,
    pub dev_server: DevServerSettings,
    /// The checks of a report, by name.
    pub checks: BTreeMap<String, Sourced<CheckCommand>>,
}

impl ScriptSettings {
    /// Each key of `over`, else that of `self`.
    fn under(self, over: Self) -> Self {
        Self {
            run: over.run.or(self.run),
            timeout_secs: over.timeout_secs.or(self.timeout_secs),
            cache_key: over.cache_key.or(self.cache_key),
            cache: over.cache.or(self.cache),
            after_restore: over.after_restore.or(self.after_restore),
        }
    }
}

impl RepoSettings {
    /// Each key of `over`, else that of `self`. Lists are not joined, but checks are: a check of `over`
    /// replaces only the one of the same name.
    #[must_use]
    pub fn under(mut self, over: Self) -> Self {
        self.checks.extend(over.checks);
        Self {
            copy: over.copy.or(self.copy),
            worktreeinclude: over.worktreeinclude.or(self.worktreeinclude),
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

    /// Whether nothing is configured at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Every key that is set, by its dotted path (`setup.run`), sorted: for showing it.
    pub fn entries(&self) -> BTreeMap<String, Sourced<Value>> {
        let mut entries = BTreeMap::new();
        collect("", json!(self), &mut entries);
        entries
    }

    /// All lines that say which ignored files are copied. In gitignore(5) a later line wins.
    pub fn patterns(&self) -> Vec<String> {
        let lists = self.worktreeinclude.iter().chain(&self.copy);
        lists.flat_map(|list| list.value.iter().cloned()).collect()
    }

    /// By dotted path, what the repository's own files ask for and a person must approve: commands,
    /// credentials to be copied, and variables that do not look like ports. A list is kept as the words
    /// of a command.
    fn foreign(&self) -> BTreeMap<String, CheckCommand> {
        let named = [
            ("setup.run", &self.setup.run),
            ("cleanup.run", &self.cleanup.run),
            ("dev_server.run", &self.dev_server.run),
        ];
        let named =
            named.into_iter().filter_map(|(key, run)| Some((key.to_owned(), run.as_ref()?)));
        let checks = self.checks.iter().map(|(name, command)| (format!("checks.{name}"), command));
        let all = named.chain(checks).filter(|(_, command)| command.is_repos);
        let all = all.map(|(key, command)| (key, command.value.clone()));
        all.chain(self.foreign_lists()).collect()
    }

    /// The same without the commands: patterns that name credentials, and names of variables such as
    /// `PATH`.
    fn foreign_lists(&self) -> BTreeMap<String, CheckCommand> {
        let own = |list: &Key<Vec<String>>| {
            list.iter().filter(|it| it.is_repos).flat_map(|it| it.value.clone()).collect::<Vec<_>>()
        };
        let odd = own(&self.ports.names).into_iter().filter(|name| !is_port_name(name));
        let lists = [
            ("copy", credential_lines(&own(&self.copy))),
            ("ports.names", odd.collect()),
            (INCLUDE_FILE, credential_lines(&own(&self.worktreeinclude))),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        lists.map(|(key, list)| (key.to_owned(), CheckCommand::Words(list))).collect()
    }

    /// Whether a person has to approve something before any file is copied into a worktree. Commands
    /// alone do not keep the files from being copied.
    pub fn asks_first(&self) -> bool {
        !self.foreign_lists().is_empty()
    }

    /// Identifies what a person approves: the SHA-256, in hexadecimal digits, of all that
    /// [`Self::commands_text`] shows. An approval is of this hash, so any change needs another one.
    /// `None`: there is nothing to approve.
    pub fn commands_hash(&self) -> Option<String> {
        let commands = self.foreign();
        let text = (!commands.is_empty()).then(|| json!(commands).to_string())?;
        Some(hex(&Sha256::digest(text)))
    }

    /// What a person approves, as text: a line for each key. The further lines of a command are indented,
    /// so that they can't pass for another key.
    pub fn commands_text(&self) -> String {
        let lines = self.foreign().into_iter();
        let lines = lines.map(|(key, it)| format!("{key}: {it}").replace('\n', "\n    "));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// A sentence, with file, line and key, about the first fault that only shows when the keys are seen
    /// together; `None`: there is none. Faults of a single value are found by [`RepoConfig::read`].
    pub fn fault(&self) -> Option<String> {
        let Self { setup, dev_server, .. } = self;
        let lacks = |name: &str| {
            let mut ports = self.ports.names.iter().flat_map(|it| &it.value);
            let what = format!("names {name}, which `ports.names` does not have: add it there");
            (!ports.any(|port| port == name)).then_some(what)
        };
        let port = dev_server.port.as_ref();
        let port = port.and_then(|it| Some(fault(it, "dev_server.port", &lacks(&it.value)?)));
        let ready = dev_server.ready.as_ref();
        let ready =
            ready.and_then(|it| Some(fault(it, "dev_server.ready", &lacks(variable(&it.value)?)?)));
        let cache = match (&setup.cache, &setup.cache_key, &setup.run) {
            (Some(it), None, _) => Some(fault(it, "setup.cache", "needs `setup.cache_key`")),
            (None, Some(it), _) => Some(fault(it, "setup.cache_key", "needs `setup.cache`")),
            (Some(it), Some(_), None) => Some(fault(it, "setup.cache", "needs `setup.run`")),
            (None, None, _) => setup.after_restore.as_ref().map(|it| {
                fault(it, "setup.after_restore", "needs `setup.cache` and `setup.cache_key`")
            }),
            _ => None,
        };
        let is_long = self.commands_text().len() > COMMANDS_MAX;
        let long = is_long.then(|| format!(
            "{REPO_FILE}: its commands have more than {COMMANDS_MAX} bytes together: put some in \
             files that they run"
        ));
        port.or(ready).or(cache).or(long)
    }
}

/// A fault as a sentence: the file and line of the value, its key, what is wrong.
fn fault<T>(it: &Sourced<T>, key: &str, what: &str) -> String {
    format!("{}: `{key}` {what}", it.origin)
}

/// The variable in place of a URL's port, without `$` and braces; `None`: the port is a number or
/// missing.
fn variable(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (_, name) = rest.split(['/', '?']).next()?.split_once(":$")?;
    Some(name.trim_matches(['{', '}']))
}

/// Whether a variable's name says that its value is a port. A number in such a variable does no harm,
/// while in `PATH` or `LD_PRELOAD` it would.
fn is_port_name(name: &str) -> bool {
    name.ends_with("PORT") && !name.contains(|letter: char| letter.is_ascii_lowercase())
}

/// Whether a text can be a pattern, or a path, below a folder: one line of at most 4096 bytes, without
/// `..`.
pub fn is_pattern(text: &str) -> bool {
    !text.trim().is_empty()
        && text.len() <= PATTERN_MAX
        && !text.contains(char::is_control)
        && text.split('/').all(|part| part != "..")
}

/// Reads the text of an [`INCLUDE_FILE`]: one pattern a line, `#` begins a comment. `Ok(None)`: it has no
/// pattern. `Err` is a sentence with the line.
pub fn read_include(text: &str) -> Result<Key<Vec<String>>, String> {
    let is_said = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let lines = text.lines().enumerate().filter(|(_, line)| is_said(line));
    let lines: Vec<(usize, &str)> = lines.collect();
    if lines.len() > LIST_MAX {
        return Err(format!("{INCLUDE_FILE}: it has more than {LIST_MAX} patterns"));
    }
    if let Some((at, line)) = lines.iter().find(|(_, line)| !is_pattern(line)) {
        let line = line.escape_debug();
        return Err(format!(
            "{INCLUDE_FILE}:{}: `{line}` must be a pattern as in .gitignore, without `..`",
            at + 1
        ));
    }
    Ok(lines.first().map(|(first, _)| Sourced {
        value: lines.iter().map(|(_, line)| (*line).to_owned()).collect(),
        origin: format!("{INCLUDE_FILE}:{}", first + 1),
        is_repos: true,
    }))
}

/// Walks down to the values that have an origin; `path` is the dotted path so far.
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

/// The configuration of all repositories, as the daemon was started with.
#[derive(Clone, Debug)]
pub struct RepoConfig {
    /// The person's own settings: by project (its name or its id), then by the repository's name.
    pub projects: BTreeMap<String, BTreeMap<String, RepoSettings>>,
    /// The variables that the person gives to scripts: by project, by repository, then by the name of the
    /// script's table (`setup`). They may be secrets, so no record has them.
    pub given: BTreeMap<String, BTreeMap<String, BTreeMap<&'static str, Given>>>,
    /// Reads the text of a [`REPO_FILE`]. `Err` is a sentence with line and key.
    pub read: fn(&str) -> Result<RepoSettings, String>,
}

impl Default for RepoConfig {
    fn default() -> Self {
        let read = |_: &str| Ok(RepoSettings::default());
        Self { projects: BTreeMap::new(), given: BTreeMap::new(), read }
    }
}

impl RepoConfig {
    /// The variables that the person gives to one script of a repository. Those under the project's id,
    /// if there are any, replace those under its name.
    pub fn given(&self, (id, name): (&str, &str), repo: &str, script: &str) -> Given {
        let under = |project: &str| self.given.get(project)?.get(repo)?.get(script).cloned();
        under(id).or_else(|| under(name)).unwrap_or_default()
    }

    /// The person's settings of a repository. Those under the project's id win over those under its name,
    /// key by key.
    pub fn of(&self, project_id: &str, project_name: &str, repo: &str) -> RepoSettings {
        let under = |project: &str| self.projects.get(project)?.get(repo).cloned();
        let by_name = under(project_name).unwrap_or_default();
        by_name.under(under(project_id).unwrap_or_default())
    }
}

/// Why the repositories of an attempt can't have their ports: two of them use the same name, which can
/// have one value only. `None`: all names differ. The items are the repositories' names and settings.
pub fn port_clash<'a>(all: impl Iterator<Item = (&'a str, &'a RepoSettings)>) -> Option<String> {
    let mut owners: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for (repo, names) in all.filter_map(|(repo, it)| Some((repo, it.ports.names.as_ref()?))) {
        for name in &names.value {
            let owner = owners.insert(name, (repo, &names.origin));
            if let Some((other, origin)) = owner.filter(|(other, _)| *other != repo) {
                return Some(format!(
                    "`ports.names` of {other} ({origin}) and of {repo} ({}) both have {name}: \
                     give one of them another name, in its provost.toml or in config.toml",
                    names.origin
                ));
            }
        }
    }
    None
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

    #[test]
    fn credentials_and_odd_variables_of_its_own_files_are_approved_too() {
        let with = |copy: &[&str], names: &[&str], is_repos| {
            let list = |texts: &[&str]| {
                Some(sourced(texts.iter().map(|&text| text.to_owned()).collect(), is_repos))
            };
            let ports = PortSettings { names: list(names) };
            RepoSettings { copy: list(copy), ports, ..RepoSettings::default() }
        };
        assert!(!with(&["node_modules/", "*.env"], &["WEB_PORT"], true).asks_first());
        let own = with(&["x", "/.env", "a b/.env"], &["WEB_PORT", "CODEX_HOME"], true);
        assert_eq!(own.commands_text(), "copy: /.env 'a b/.env'\nports.names: CODEX_HOME");
        assert!(own.asks_first() && own.commands_hash().is_some());
        assert!(!with(&["/.env"], &["CODEX_HOME"], false).asks_first(), "the person's own");
        let include = RepoSettings {
            worktreeinclude: read_include("# all\n\n*.tmp\n.env\n").unwrap(),
            ..RepoSettings::default()
        };
        assert_eq!(include.commands_text(), ".worktreeinclude: .env");
        assert_eq!(include.patterns(), ["*.tmp", ".env"]);
        assert_eq!(include.entries()["worktreeinclude"].origin, ".worktreeinclude:3");
    }

    #[test]
    fn a_line_of_an_include_file_that_is_no_pattern_is_named() {
        assert_eq!(read_include("\n# x\n"), Ok(None));
        for (text, expected) in
            [("a\n../b", ".worktreeinclude:2: `../b`"), ("a\tb", "`a\\tb` must be")]
        {
            let error = read_include(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(read_include(&"x\n".repeat(LIST_MAX + 1)).unwrap_err().contains("more than 1000"));
    }

    #[test]
    fn two_repositories_with_one_name_of_a_port_are_distinguished() {
        let with = |names: &[&str]| {
            let names = sourced(names.iter().map(|&name| name.to_owned()).collect(), true);
            let ports = PortSettings { names: Some(names) };
            RepoSettings { ports, ..RepoSettings::default() }
        };
        let (app, web, api) =
            (with(&["PORT", "PORT"]), with(&["WEB_PORT"]), with(&["API_PORT", "PORT"]));
        assert_eq!(port_clash([("app", &app), ("web", &web)].into_iter()), None);
        let clash = port_clash([("app", &app), ("api", &api)].into_iter()).unwrap();
        assert!(
            clash.contains("of app (provost.toml:1) and of api") && clash.contains("have PORT")
        );
    }

    #[test]
    fn a_command_of_several_lines_can_not_look_like_another_key() {
        let mut settings = RepoSettings::default();
        let command = line("true\nsetup.run: true", true).unwrap();
        settings.checks.insert("a".to_owned(), command);
        assert_eq!(settings.commands_text(), "checks.a: true\n    setup.run: true");
    }

    #[test]
    fn faults_between_keys_name_file_line_and_key() {
        let text = |value: &str| Some(sourced(value.to_owned(), true));
        let list = |value: &str| Some(sourced(vec![value.to_owned()], false));
        let mut settings = RepoSettings::default();
        let expect = |settings: &RepoSettings, expected: &str| {
            assert!(
                settings.fault().is_some_and(|fault| fault.starts_with(expected)),
                "{expected}"
            );
        };
        settings.ports.names = list("API_PORT");
        settings.dev_server.ready = text("http://localhost:${WEB_PORT}/");
        expect(&settings, "provost.toml:1: `dev_server.ready` names WEB_PORT, which");
        settings.dev_server.ready = text("http://localhost:$API_PORT/?$x=1");
        settings.dev_server.port = text("WEB_PORT");
        expect(&settings, "provost.toml:1: `dev_server.port` names WEB_PORT, which");
        settings.dev_server.port = text("API_PORT");
        settings.setup.cache = list("node_modules");
        expect(&settings, "config.toml:9: `setup.cache` needs `setup.cache_key`");
        settings.setup.cache_key = list("package-lock.json");
        expect(&settings, "config.toml:9: `setup.cache` needs `setup.run`");
        settings.setup.run = line("npm ci", true);
        assert_eq!(settings.fault(), None);
        settings.setup.cache = None;
        expect(&settings, "config.toml:9: `setup.cache_key` needs `setup.cache`");
        settings.setup.cache_key = None;
        settings.setup.after_restore = Some(sourced(AfterRestore::Run, true));
        expect(&settings, "provost.toml:1: `setup.after_restore` needs `setup.cache` and");
        settings.setup.after_restore = None;
        settings.cleanup.run = line(&"x".repeat(COMMANDS_MAX), true);
        expect(&settings, "provost.toml: its commands have more than 8192 bytes");
    }
}
