//! What is an attempt's own in its sandboxes, and what is of the person's repositories.
//!
//! An agent may write its worktrees and, in its own repositories, what git needs for everyday work
//! ([`Own::written`]). Of the person's repositories it may read git's configuration files, the objects that
//! are borrowed and the hooks that its commits run, and nothing else. A script has the same. A check has a
//! checkout of its own, may read the objects, and has none of the rest.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::blocking::blocking;
use crate::journal::Attempt;
use crate::sandbox::{Access, Rule};
use crate::workspace::own::{Own, held};
use crate::workspace::{git, settings_files};
use crate::world::{ActorSettings, World};

/// A repository of the attempt, with what of the person's it needs.
pub struct Repository {
    own: Own,
    /// What git reads of the person's repository: configuration files, hooks, and borrowed objects.
    read: Vec<PathBuf>,
}

/// The attempt's repositories, as the rules need them. `Err` is a sentence.
pub async fn repositories(world: &World, attempt: &Attempt) -> Result<Vec<Repository>, String> {
    let mut repos = Vec::new();
    for repo in &attempt.repos {
        let failed = |error: git::GitError| format!("{}: {error}", repo.path);
        let common = git::common_dir(repo.path.as_ref()).await.map_err(failed)?;
        let mut read = settings_files(&common).await.map_err(failed)?;
        read.push(common.join("hooks"));
        let objects = blocking(move || Ok::<_, std::io::Error>(held::lenders(&common))).await;
        read.extend(objects.map_err(|error| format!("{}: {error}", repo.path))?);
        repos.push(Repository { own: world.settings.own(attempt.attempt_id, &repo.name), read });
    }
    Ok(repos)
}

/// The rules for an agent: those of a script, and the files for its CLI. `Err` is a sentence.
pub fn of_agent(
    settings: &ActorSettings,
    attempt: &Attempt,
    repos: &[Repository],
    temporary: &Path,
) -> Result<Vec<Rule>, String> {
    let mut rules = of_script(settings, attempt, repos, temporary)?;
    // This program is readable because the agent starts it as its MCP server.
    rules.extend([settings.cli_dir(attempt), settings.launch.program.clone()].map(read));
    Ok(rules)
}

/// The rules for a setup, a cleanup or a dev server. Makes the temporary folder. `Err` is a sentence.
pub fn of_script(
    settings: &ActorSettings,
    attempt: &Attempt,
    repos: &[Repository],
    temporary: &Path,
) -> Result<Vec<Rule>, String> {
    private_folder(temporary)?;
    let own = [settings.folders.worktrees.join(&attempt.folder), temporary.to_owned()];
    let mut rules: Vec<Rule> = own.map(write).into();
    for Repository { own, read: persons } in repos {
        rules.push(read(own.common()));
        rules.extend(persons.iter().cloned().map(read));
        rules.extend(own.written().into_iter().map(write));
    }
    Ok(rules)
}

/// The rules for a check: its checkout, and the objects that the checkout borrows. Makes the temporary
/// folder. `Err` is a sentence.
pub fn of_check(
    checkout: PathBuf,
    objects: Vec<PathBuf>,
    temporary: &Path,
) -> Result<Vec<Rule>, String> {
    private_folder(temporary)?;
    let own = [checkout, temporary.to_owned()].map(write);
    Ok(own.into_iter().chain(objects.into_iter().map(read)).collect())
}

fn read(path: PathBuf) -> Rule {
    Rule { path, access: Access::Read }
}

fn write(path: PathBuf) -> Rule {
    Rule { path, access: Access::Write }
}

/// Makes a folder for its owner alone, and those above it. `Err` is a sentence.
pub fn private_folder(path: &Path) -> Result<(), String> {
    made(path, 0o700)
}

/// Makes a folder and those above it, unless they are there.
fn made(path: &Path, mode: u32) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|error| format!("{}: {error}", path.display()))
}
