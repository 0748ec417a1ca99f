//! What is an attempt's own in its boxes, and what of its repositories.
//!
//! For an agent, of a repository is open for writing what a commit on the attempt's own branch
//! needs: the objects, the worktree's own folder, and the branch's own folder of references and of
//! their logs. A script needs only the worktree's own folder. A check has a checkout of its own and
//! none of this. The hooks, the configuration and all other references stay as they are for all.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::journal::Attempt;
use crate::sandbox::{Access, Rule};
use crate::workspace::{git, proof};
use crate::world::{ActorSettings, World};

/// An empty folder that keeps the branch's own folder from being removed when `git gc` packs the
/// references. git passes over names that begin with a point.
const KEEP: &str = ".keep";

/// A repository of the attempt, as git has it.
pub struct Registered {
    common: PathBuf,
    admin: PathBuf,
}

/// The attempt's repositories. `Err` is a sentence.
pub async fn registered(world: &World, attempt: &Attempt) -> Result<Vec<Registered>, String> {
    let mut repos = Vec::new();
    for repo in &attempt.repos {
        let worktree = world.settings.worktrees_dir.join(&attempt.folder).join(&repo.name);
        let path = Path::new(&repo.path);
        let common = git::common_dir(path).await.map_err(|error| error.to_string())?;
        let admin =
            proof::registration(path, &worktree).await.map_err(|error| error.to_string())?;
        let admin =
            admin.ok_or_else(|| format!("{} has no worktree {}", repo.path, worktree.display()))?;
        repos.push(Registered { common, admin });
    }
    Ok(repos)
}

/// Whether the attempt's branch has a folder of its own among the references. `Err` is a sentence.
pub fn fits(attempt: &Attempt) -> Result<(), String> {
    let folder = Path::new(&attempt.branch).parent().and_then(Path::file_name);
    if folder.is_some_and(|folder| *folder == *attempt.attempt_id.short()) {
        return Ok(());
    }
    Err(format!(
        "a sandbox can't hold this attempt: its branch {} shares its folder of references with \
         other branches, for the attempt began without a sandbox",
        attempt.branch
    ))
}

/// What is open for the agent beside what every process of the attempt has.
pub fn of_agent(
    settings: &ActorSettings,
    attempt: &Attempt,
    repos: &[Registered],
    temporary: &Path,
) -> Result<Vec<Rule>, String> {
    let mut rules = of_script(settings, attempt, repos, temporary)?;
    for Registered { common, .. } in repos {
        if common.join("reftable").exists() {
            return Err(format!(
                "a sandbox can't hold {}: its references are one file",
                common.display()
            ));
        }
        let branch = Path::new("refs/heads").join(&attempt.branch);
        let folder = branch.parent().unwrap_or(&branch);
        let (references, logs) = (common.join(folder), common.join("logs").join(folder));
        for folder in [references.join(KEEP), logs.clone()] {
            made(&folder, 0o777)?;
        }
        rules.extend([common.join("objects"), references, logs].map(write));
    }
    // Its files for the CLI, and the way back: its MCP server is this program.
    rules.extend([settings.cli_dir(attempt), settings.program.clone()].map(read));
    Ok(rules)
}

/// What is open for a setup or cleanup script or a dev server.
pub fn of_script(
    settings: &ActorSettings,
    attempt: &Attempt,
    repos: &[Registered],
    temporary: &Path,
) -> Result<Vec<Rule>, String> {
    private_folder(temporary)?;
    let own = [settings.worktrees_dir.join(&attempt.folder), temporary.to_owned()];
    let shared = repos.iter().map(|repo| read(repo.common.clone()));
    let admin = repos.iter().map(|repo| write(repo.admin.clone()));
    Ok(own.map(write).into_iter().chain(shared).chain(admin).collect())
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
