//! What is an attempt's own in its boxes, and what of its repositories.
//!
//! An agent may write its worktrees, and of its own repositories what git needs for everyday work
//! ([`Own::written`]); of the person's repositories it may read the objects that are borrowed, the hooks
//! that its commits run, and nothing else. A script has the same. A check has a checkout of its own, and
//! none of this.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::blocking::blocking;
use crate::journal::Attempt;
use crate::sandbox::{Access, Rule};
use crate::workspace::own::{Own, held};
use crate::workspace::{git, settings_files};
use crate::world::{ActorSettings, World};

/// A repository of the attempt.
pub struct Repository {
    own: Own,
    /// What git reads of the person's for it.
    read: Vec<PathBuf>,
}

/// The attempt's repositories. `Err` is a sentence.
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

/// What is open for the agent beside what every process of the attempt has.
pub fn of_agent(
    settings: &ActorSettings,
    attempt: &Attempt,
    repos: &[Repository],
    temporary: &Path,
) -> Result<Vec<Rule>, String> {
    let mut rules = of_script(settings, attempt, repos, temporary)?;
    // Its files for the CLI, and the way back: its MCP server is this program.
    rules.extend([settings.cli_dir(attempt), settings.program.clone()].map(read));
    Ok(rules)
}

/// What is open for a setup or cleanup script or a dev server.
pub fn of_script(
    settings: &ActorSettings,
    attempt: &Attempt,
    repos: &[Repository],
    temporary: &Path,
) -> Result<Vec<Rule>, String> {
    private_folder(temporary)?;
    let own = [settings.worktrees_dir.join(&attempt.folder), temporary.to_owned()];
    let mut rules: Vec<Rule> = own.map(write).into();
    for Repository { own, read: persons } in repos {
        rules.push(read(own.common()));
        rules.extend(persons.iter().cloned().map(read));
        rules.extend(own.written().into_iter().map(write));
    }
    Ok(rules)
}

/// What is open for a check: its checkout, and the objects that this borrows of the repositories.
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

pub fn private_folder(path: &Path) -> Result<(), String> {
    made(path, 0o700)
}

/// Makes a folder and those above it, unless they are there.
fn made(path: &Path, mode: u32) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|error| format!("{}: {error}", path.display()))
}
