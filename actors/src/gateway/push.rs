//! Where a finish pushes to: the remote, its recorded URL and the branch, resolved and checked
//! before anything is committed. Reads only.

use std::path::Path;

use crate::attempt::finish::publish::forge;
use crate::journal::{Attempt, AttemptRepo, PushRequest};
use crate::refusal::{Code, Refusal};
use crate::workspace::git::GitError;
use crate::workspace::push::{RemoteBranch, check_url, is_branch, remotes, shown};
use crate::world::World;

/// The remote that is used where the repository has several and the caller names none.
const USUAL: &str = "origin";

/// What a caller says of a push. `None` is a default.
pub struct PushCall<'c> {
    /// By default the only remote, or `origin`.
    pub remote: Option<&'c str>,
    /// The branch at the remote; by default the attempt's own name.
    pub branch: Option<&'c str>,
    /// Overwrites commits that the remote's branch has, if it does not move meanwhile.
    pub forces: bool,
    /// A pull request follows the push.
    pub is_proposed: bool,
    /// The branch that a pull request asks to merge into; by default the target branch.
    pub base: Option<&'c str>,
}

/// Resolves a push, or a pull request, of one repository, and reads where the remote's branch is now.
///
/// # Errors
/// The remote is unknown, not recorded or unreadable, or a branch has a wrong name.
pub async fn request(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    call: &PushCall<'_>,
) -> Result<PushRequest, Refusal> {
    let path = Path::new(&repo.path);
    let (remote, url) = recorded(world, repo, call.remote).await?;
    let branch = call.branch.unwrap_or(&attempt.branch).to_owned();
    if !is_branch(path, &branch).await.map_err(|error| unreadable(repo, &error))? {
        let message = format!("{branch:?} can't be the name of a branch");
        return Err(Refusal::new(Code::InvalidArgument, message)
            .hint("Call the tool again with branch, a name that git takes.")
            .detail("path", "branch"));
    }
    let base = call.is_proposed.then(|| call.base.unwrap_or(&repo.target_branch).to_owned());
    if base.is_some() {
        forge(&world.settings.forges, &url)?;
    }
    if base.as_ref() == Some(&branch) {
        let message = format!("a pull request of {branch} into itself makes no sense");
        return Err(Refusal::new(Code::InvalidArgument, message)
            .hint("Call the tool again with into, the branch to be merged into.")
            .detail("path", "into"));
    }
    let scratch = &world.settings.folders.scratch;
    let there = RemoteBranch { repo: path, scratch, url: &url, branch: &branch };
    let before = there.tip().await.map_err(|error| {
        let said = error.to_string().replace(&url, &shown(&url));
        let message = format!("the remote {remote} ({}) can't be read: {said}", shown(&url));
        Refusal::new(Code::WorkspaceFailed, message).hint(
            "Fix what the message says: git in a terminal needs the same. Then call the tool again.",
        )
    })?;
    Ok(PushRequest { remote, url, branch, before, forces: call.forces, base })
}

/// The remote's name and URL. The URL in the repository's configuration has to be the one that was recorded
/// for the project, because an agent can write the configuration.
async fn recorded(
    world: &World,
    repo: &AttemptRepo,
    given: Option<&str>,
) -> Result<(String, String), Refusal> {
    let found = remotes(Path::new(&repo.path)).await.map_err(|error| unreadable(repo, &error))?;
    let name = match given {
        None if found.len() == 1 => found.keys().next().cloned().unwrap_or_default(),
        given => given.unwrap_or(USUAL).to_owned(),
    };
    let Some(url) = found.get(&name) else {
        return Err(no_remote(repo, &name, found.keys().map(String::as_str).collect()));
    };
    check_url(url).map_err(|why| {
        let message = format!("the remote {name} of {} is not pushed to: {why}", repo.path);
        Refusal::new(Code::NotPermitted, message)
            .hint("Give the remote a URL that git itself speaks, then call the tool again.")
    })?;
    let recorded = world.journal.remotes(repo.repo_id).await?;
    if recorded.get(&name) != Some(url) {
        let was = recorded.get(&name).map_or_else(|| "none".to_owned(), |url| shown(url));
        let message = format!(
            "the remote {name} of {} leads to {}, and what was recorded for the project is {was}",
            repo.path,
            shown(url)
        );
        return Err(Refusal::new(Code::NotPermitted, message).hint(
            "Ask a person to look at it with `provost repo remotes`, and to record it with --yes.",
        ));
    }
    Ok((name, url.clone()))
}

/// The refusal of a push to a remote that the repository does not have.
fn no_remote(repo: &AttemptRepo, name: &str, names: Vec<&str>) -> Refusal {
    let path = &repo.path;
    if names.is_empty() {
        let message = format!("{path} has no remote that could be pushed to");
        return Refusal::new(Code::WorkspaceFailed, message).hint(format!(
            "Run `git remote add {USUAL} URL` in `{path}` and record it with `provost repo remotes \
             --yes`, then call the tool again."
        ));
    }
    let message = format!("{path} has no remote {name:?}; it has {}", names.join(", "));
    Refusal::new(Code::InvalidArgument, message)
        .hint("Call the tool again with remote, one that the repository has.")
        .detail("path", "remote")
        .detail("remotes", names)
}

/// The refusal where git can't read a repository of the attempt.
pub fn unreadable(repo: &AttemptRepo, error: &GitError) -> Refusal {
    Refusal::of_git(format!("{} can't be read: {error}", repo.path), error.is_shortage())
}
