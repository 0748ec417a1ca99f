//! Reads the settings of a repository from its own `provost.toml`, or from a table
//! `[projects.NAME.repos.REPO]` of `config.toml`; each error names file, line and key. The repository's
//! own file can come from an agent, so everything in it has a bound, and a person must be able to read
//! its commands. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use provost_actors::environment::Given;
use provost_actors::journal::checks::CheckCommand;
use provost_actors::ready_url::ReadyUrl;
use provost_actors::repo_settings::{
    AfterRestore, DevServerSettings, LIST_MAX, PortSettings, REPO_FILE, RepoSettings,
    ScriptSettings, Sourced, is_pattern,
};
use provost_actors::text::is_unseen;

use super::reader::{Item, Source, Table};
use super::{Result, read_command, read_given as given};

/// Longest timeout of a script, in seconds.
const TIMEOUT_MAX: u64 = 86_400;
/// Most ports of a repository: as many as the block of an attempt has.
const PORTS_MAX: usize = 10;
/// Longest command, in bytes: a person reads it before it runs.
const COMMAND_MAX: usize = 2048;
/// Longest URL, in bytes.
const URL_MAX: usize = 4096;

/// Reads the text of a `provost.toml`. `Err` is a sentence for a person.
pub fn read_repo_file(text: &str) -> std::result::Result<RepoSettings, String> {
    let source = Source { file: Path::new(REPO_FILE), text };
    let read = || {
        let document = source.parse()?;
        read(&Table::root(source, &document), true)
    };
    read().map_err(|error| error.to_string())
}

/// Reads a table. `is_repos`: it is from the repository's own file, whose commands a person has to trust.
pub(super) fn read(table: &Table<'_>, is_repos: bool) -> Result<RepoSettings> {
    table.only(&["copy", "setup", "cleanup", "ports", "dev_server", "checks"])?;
    let place = SourceLocation { is_repos };
    let check = |(name, item): (&str, Item<'_>)| -> Result<(String, Sourced<CheckCommand>)> {
        item.is_named_well(name)?;
        Ok((name.to_owned(), place.of(&item, command)?))
    };
    Ok(RepoSettings {
        copy: place.key(table, "copy", patterns)?,
        // It is not read here: `.worktreeinclude` is a file of its own.
        worktreeinclude: None,
        setup: table.value("setup", |item| {
            let known = ["run", "timeout_secs", "cache_key", "cache", "after_restore"];
            place.script(&item.table()?, &known)
        })?,
        cleanup: table
            .value("cleanup", |item| place.script(&item.table()?, &["run", "timeout_secs"]))?,
        ports: table.value("ports", |item| {
            let table = item.table()?;
            table.only(&["names"])?;
            Ok(PortSettings { names: place.key(&table, "names", names)? })
        })?,
        dev_server: table.value("dev_server", |item| {
            let table = item.table()?;
            place.only(&table, &["run", "port", "ready"])?;
            Ok(DevServerSettings {
                run: place.key(&table, "run", command)?,
                port: place.key(&table, "port", port)?,
                ready: place.key(&table, "ready", url)?,
            })
        })?,
        checks: table.value("checks", |item| {
            let table = item.table()?;
            if table.items().count() > LIST_MAX {
                return Err(item.invalid(&format!("a table of at most {LIST_MAX} checks")));
            }
            table.items().map(check).collect()
        })?,
    })
}

/// The tables of scripts, which a person may give variables to.
const SCRIPTS: [&str; 3] = ["setup", "cleanup", "dev_server"];

/// The variables that a person gives to the scripts of a repository, by script; scripts without any are
/// absent.
pub(super) fn read_given(table: &Table<'_>) -> Result<BTreeMap<&'static str, Given>> {
    let read = |name: &'static str| {
        Ok((name, table.value(name, |item| given(&item.table()?, ("env", "env_pass")))?))
    };
    let all = SCRIPTS.into_iter().map(read).collect::<Result<BTreeMap<_, _>>>()?;
    Ok(all.into_iter().filter(|(_, given)| !given.is_empty()).collect())
}

/// Whether the values are from the repository's own file.
#[derive(Clone, Copy)]
struct SourceLocation {
    is_repos: bool,
}

impl SourceLocation {
    /// A value with its place.
    fn of<T>(self, item: &Item<'_>, read: fn(&Item<'_>) -> Result<T>) -> Result<Sourced<T>> {
        Ok(Sourced { value: read(item)?, origin: item.origin(), is_repos: self.is_repos })
    }

    fn key<T>(
        self,
        table: &Table<'_>,
        key: &str,
        read: fn(&Item<'_>) -> Result<T>,
    ) -> Result<Option<Sourced<T>>> {
        table.get(key).map(|item| self.of(&item, read)).transpose()
    }

    /// Refuses unknown keys of a script's table. Variables are refused in the repository's own file: only
    /// a person gives them, in `config.toml`.
    fn only(self, table: &Table<'_>, known: &[&str]) -> Result<()> {
        const GIVEN: [&str; 2] = ["env", "env_pass"];
        if let Some(item) = GIVEN.iter().find_map(|key| table.get(key)).filter(|_| self.is_repos) {
            return Err(item.invalid(
                "in config.toml, below [projects.NAME.repos.REPO], where a person gives variables",
            ));
        }
        table.only(&[known, &GIVEN].concat())
    }

    /// The table of a script. `known` has the keys that this script takes.
    fn script(self, table: &Table<'_>, known: &[&str]) -> Result<ScriptSettings> {
        self.only(table, known)?;
        Ok(ScriptSettings {
            run: self.key(table, "run", command)?,
            timeout_secs: self.key(table, "timeout_secs", seconds)?,
            cache_key: self.key(table, "cache_key", paths)?,
            cache: self.key(table, "cache", paths)?,
            after_restore: self.key(table, "after_restore", after_restore)?,
        })
    }
}

fn after_restore(item: &Item<'_>) -> Result<AfterRestore> {
    item.one_of(&[("run", AfterRestore::Run), ("skip", AfterRestore::Skip)])
}

fn seconds(item: &Item<'_>) -> Result<u64> {
    let number = item.integer().filter(|number| (1..=TIMEOUT_MAX).contains(number));
    number.ok_or_else(|| item.invalid(&format!("a whole number from 1 to {TIMEOUT_MAX}")))
}

/// True if a list has at most `LIST_MAX` texts, each of them one line of plain text.
fn are_patterns(texts: &[String]) -> bool {
    texts.len() <= LIST_MAX && texts.iter().all(|text| is_pattern(text))
}

/// Patterns with the syntax of a line of `.gitignore`.
fn patterns(item: &Item<'_>) -> Result<Vec<String>> {
    let texts = item.texts().ok().filter(|texts| are_patterns(texts));
    texts.ok_or_else(|| {
        item.invalid("an array of patterns, one of .gitignore each, such as [\".env\", \"/data/\"]")
    })
}

/// Relative paths inside the worktree, outside of git's own folder.
fn paths(item: &Item<'_>) -> Result<Vec<String>> {
    let is_inside = |path: &String| {
        let is_name = |part: &str| !matches!(part, "" | ".");
        path.split('/').all(|part| is_name(part) && !part.eq_ignore_ascii_case(".git"))
    };
    let are_paths = |texts: &Vec<String>| are_patterns(texts) && texts.iter().all(is_inside);
    let texts = item.texts().ok().filter(are_paths);
    texts.ok_or_else(|| {
        item.invalid("an array of paths in the repository, such as [\"package-lock.json\"]")
    })
}

/// True if an attempt may have a variable with this name for a port. Names are refused that shells,
/// loaders, git or Provost read.
fn is_variable(name: &str) -> bool {
    // Variables that shells and other programs read.
    const READ_BY_ALL: [&str; 8] =
        ["PATH", "HOME", "SHELL", "USER", "PWD", "TMPDIR", "IFS", "BASH_ENV"];
    const READ_BY_ALL_THAT_BEGIN: [&str; 3] = ["PROVOST_", "LD_", "GIT_"];
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.len() <= 64
        && name.chars().all(is_plain)
        && !name.starts_with(|letter: char| letter.is_ascii_digit())
        && !name.is_empty()
        && !READ_BY_ALL.contains(&name)
        && !READ_BY_ALL_THAT_BEGIN.iter().any(|beginning| name.starts_with(beginning))
}

const VARIABLE: &str = "a variable of its own, of letters, digits and `_`, such as WEB_PORT";

fn names(item: &Item<'_>) -> Result<Vec<String>> {
    let is_right = |names: &Vec<String>| {
        names.len() <= PORTS_MAX && names.iter().all(|name| is_variable(name))
    };
    item.texts().ok().filter(is_right).ok_or_else(|| {
        item.invalid(&format!("an array of at most {PORTS_MAX} names, each {VARIABLE}"))
    })
}

fn port(item: &Item<'_>) -> Result<String> {
    let name = item.text().ok().filter(|name| is_variable(name));
    name.ok_or_else(|| item.invalid(&format!("a name of ports.names: {VARIABLE}")))
}

/// A URL of this machine. Others are refused, because a file of a repository must not make the daemon
/// call them.
fn url(item: &Item<'_>) -> Result<String> {
    let is_url = |text: &String| text.len() <= URL_MAX && ReadyUrl::parse(text).is_some();
    item.text().ok().filter(is_url).ok_or_else(|| {
        item.invalid("a URL of this machine, such as \"http://localhost:$WEB_PORT/\"")
    })
}

/// A command that a person can read before it runs: characters that are invisible or change the order of
/// text are refused.
fn command(item: &Item<'_>) -> Result<CheckCommand> {
    let command = read_command(item)?;
    let texts = match &command {
        CheckCommand::Line(line) => std::slice::from_ref(line),
        CheckCommand::Words(words) => words,
    };
    if texts.iter().any(|text| text.contains(is_unseen)) {
        return Err(item.invalid("a command without control characters"));
    }
    if texts.iter().map(String::len).sum::<usize>() > COMMAND_MAX {
        let what = format!("a command of at most {COMMAND_MAX} bytes: put more in a file");
        return Err(item.invalid(&what));
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_repositorys_file_is_read_with_its_line() {
        let text = "copy = [\".env\"]\n[setup]\nrun = 'npm ci'\ntimeout_secs = 60\n\
             cache_key = ['package-lock.json']\ncache = ['node_modules']\nafter_restore = 'run'\n[cleanup]\n\
             run = ['docker', 'rm', 'x']\n[ports]\nnames = ['PORT', 'API_PORT']\n[dev_server]\n\
             run = 'npm start'\nport = 'PORT'\nready = 'http://localhost:$PORT/'\n[checks]\n\
             test = 'npm test'\n";
        let entries = read_repo_file(text).unwrap().entries();
        let found: Vec<String> =
            entries.iter().map(|(key, entry)| format!("{key} {}", entry.origin)).collect();
        let expected = [
            "checks.test provost.toml:17",
            "cleanup.run provost.toml:9",
            "copy provost.toml:1",
            "dev_server.port provost.toml:14",
            "dev_server.ready provost.toml:15",
            "dev_server.run provost.toml:13",
            "ports.names provost.toml:11",
            "setup.after_restore provost.toml:7",
            "setup.cache provost.toml:6",
            "setup.cache_key provost.toml:5",
            "setup.run provost.toml:3",
            "setup.timeout_secs provost.toml:4",
        ];
        assert_eq!(found, expected);
        assert!(entries.values().all(|entry| entry.is_repos));
    }

    #[test]
    fn faults_name_the_file_the_line_and_the_key() {
        for (text, expected) in [
            (
                "[setup]\ncach_key = 'x'",
                "provost.toml:2: unknown key `setup.cach_key`; did you mean",
            ),
            ("\n[cleanup]\ncache = ['x']", "provost.toml:3: unknown key `cleanup.cache`"),
            ("copy = ''", "provost.toml:1: `copy` must be an array of patterns"),
            ("copy = ['a\\nb', \"a\\nb\"]", "provost.toml:1: `copy` must be"),
            ("[setup]\nrun = ''", "provost.toml:2: `setup.run` must be a command line"),
            ("[setup]\ntimeout_secs = 0", "`setup.timeout_secs` must be a whole number from 1"),
            ("[setup]\ncache = ['../x']", "`setup.cache` must be an array of paths"),
            (
                "[setup]\nenv_pass = ['NPM_TOKEN']",
                "provost.toml:2: `setup.env_pass` must be in config.toml, below [projects.NAME.repos",
            ),
            ("[setup]\ncache = ['/etc']", "`setup.cache` must be an array of paths"),
            ("[setup]\ncache_key = ['a/.GIT/b']", "`setup.cache_key` must be an array of paths"),
            ("[ports]\nnames = ['PATH']", "`ports.names` must be an array of at most 10 names"),
            ("[ports]\nnames = ['LD_PRELOAD']", "`ports.names` must be"),
            ("[dev_server]\nready = 'file:///etc'", "`dev_server.ready` must be a URL"),
            ("[dev_server]\nport = 'x y'", "`dev_server.port` must be a name of ports.names"),
            (
                "[setup]\nrun = \"x \\u00ad \\U000e0041\"",
                "provost.toml:2: `setup.run` must be a command without",
            ),
            ("[checks]\n'a b' = 'x'", "must be a name of 1 to 64 letters"),
            ("copy = ['../x']", "provost.toml:1: `copy` must be an array of patterns"),
            ("copy = [1]", "provost.toml:1: `copy` must be an array of patterns"),
            ("setup = 'x'", "provost.toml:1: `setup` must be"),
            ("[setup]\ncache = [\"a\\nb\"]", "provost.toml:2: `setup.cache` must be"),
            ("[setup]\ntimeout_secs = 99999999999", "provost.toml:2: `setup.timeout_secs` must be"),
            ("[setup]\ntimeout_secs = 1e9", "provost.toml:2: `setup.timeout_secs` must be"),
            (
                "[setup]\nrun = \"x \\u001b[2K\"",
                "provost.toml:2: `setup.run` must be a command without",
            ),
            (
                "[setup]\nrun = \"x \\u202e y\"",
                "provost.toml:2: `setup.run` must be a command without",
            ),
            (
                "[dev_server]\nready = 'http://example.com/'",
                "`dev_server.ready` must be a URL of this",
            ),
            ("[checks]\n\"a\\nb\" = 'x'", "must be a name of 1 to 64 letters"),
            ("[setup", "provost.toml:1: "),
        ] {
            let error = read_repo_file(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let long = format!("[setup]\nrun = '{}'", "x".repeat(COMMAND_MAX + 1));
        assert!(read_repo_file(&long).unwrap_err().contains("a command of at most 2048 bytes"));
        let many = format!("copy = [{}]", "'x',".repeat(LIST_MAX + 1));
        assert!(read_repo_file(&many).unwrap_err().contains("provost.toml:1: `copy` must be"));
    }
}
