//! Checks of a repository and its branches, before anything is written. Reads only.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::journal::Repo;
use crate::nearest::nearest;
use crate::refusal::{Code, Refusal};
use crate::workspace::git::{self, GitError};
use crate::workspace::push::remotes;

use super::message::StartRequest;

/// A repository to be registered, after it was checked to be one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewRepo {
    /// The name of its folder.
    pub name: String,
    /// Absolute path of its root: a path below it was accepted, too.
    pub path: String,
    pub default_target_branch: String,
    /// The URLs of its remotes now, which are recorded as trusted. They do not count when two calls are
    /// compared.
    #[serde(skip)]
    pub remotes: BTreeMap<String, String>,
}

/// Checks a path for a project's repository. `field` is the argument that has it, such as `repos[0].path`,
/// for the hint. Without `target_branch` the default is the branch that is checked out.
///
/// # Errors
/// `invalid_argument` for a path without a repository, `branch_not_found` for a branch without a commit.
pub async fn repository(
    given: &str,
    target_branch: Option<&str>,
    field: &str,
) -> Result<NewRepo, Refusal> {
    let branch_field = field.replace("path", "target_branch");
    let refuse = |message: String| {
        Refusal::new(Code::InvalidArgument, message)
            .hint(format!(
                "Call the tool again with {field}, the absolute path of a git repository."
            ))
            .detail("path", field)
            .detail("repo_path", given)
    };
    let path = Path::new(given);
    if !path.is_absolute() {
        return Err(refuse(format!("{given:?} is not an absolute path")));
    }
    if given.contains(char::is_control) {
        return Err(refuse(format!("the path {given:?} has a control character")));
    }
    let root = git::root(path).await.map_err(|error| match error {
        GitError::Failed(said) => refuse(format!("{given} is not a git repository: {said}")),
        error => unusable(path, &error),
    })?;
    let shown = root.to_string_lossy();
    if shown.contains(char::is_control) {
        let message = format!("the path \"{}\" has a control character", shown.escape_debug());
        return Err(refuse(message));
    }
    let branch = match target_branch {
        Some(branch) => branch.to_owned(),
        None => git::current_branch(&root).await.ok_or_else(|| {
            refuse(format!("{} has no branch checked out", root.display())).hint(format!(
                "Call the tool again with {branch_field}, a branch of the repository."
            ))
        })?,
    };
    if tip(&root, &branch).await?.is_none() {
        let again = |other: &str| format!("{branch_field} = {other:?}");
        return Err(no_branch(&root, &branch, again).await);
    }
    let remotes = remotes(&root).await.map_err(|error| unusable(&root, &error))?;
    let name = root.file_name().unwrap_or(root.as_os_str()).to_string_lossy();
    let (name, path) = (name.into_owned(), shown.into_owned());
    Ok(NewRepo { name, path, default_target_branch: branch, remotes })
}

/// The commit at the tip of a branch; `None`: there is no such branch, or it has no commit.
pub(super) async fn tip(repo: &Path, branch: &str) -> Result<Option<String>, Refusal> {
    git::branch_tip(repo, branch).await.map_err(|error| unusable(repo, &error))
}

/// Checks that branches can begin with this prefix: git can't have the branches `a` and `a/b` at once.
pub(super) async fn has_room(repo: &Path, prefix: &str) -> Result<(), Refusal> {
    for (at, _) in prefix.match_indices('/') {
        let above = &prefix[..at];
        let there = git::has_branch(repo, above).await.map_err(|error| unusable(repo, &error))?;
        if there {
            let message = format!(
                "{} has a branch {above:?}, so that git can't have the attempts' branches below {prefix:?}",
                repo.display()
            );
            return Err(Refusal::new(Code::WorkspaceFailed, message).hint(
                "Set `branch_prefix` of `[worktrees]` in config.toml to another one, such as \
                 `branch_prefix = \"attempts/\"`, and restart the daemon, then call the tool again. Or \
                 rename that branch.",
            ));
        }
    }
    Ok(())
}

/// The refusal when git can't read a repository.
fn unusable(repo: &Path, error: &GitError) -> Refusal {
    let repo = repo.display().to_string();
    let message = format!("the repository at {repo} can't be used: {error}");
    let refusal = match error {
        GitError::Failed(_) => Refusal::new(Code::WorkspaceFailed, message)
            .hint("Put the repository back where it was, then call the tool again."),
        error if error.is_shortage() => Refusal::shortage(message),
        _ => Refusal::new(Code::WorkspaceFailed, message),
    };
    refusal.detail("repo_path", repo)
}

/// The refusal for a branch that does not exist. `again` spells out the argument that would name another
/// branch; the hint names the nearest one.
pub(super) async fn no_branch(
    repo: &Path,
    branch: &str,
    again: impl FnOnce(&str) -> String,
) -> Refusal {
    let branches = git::branches(repo, 20).await.unwrap_or_default();
    let near = nearest(branch, branches.iter().map(String::as_str));
    let current = git::current_branch(repo).await.filter(|name| branches.contains(name));
    let hint = match near.or(current.as_deref()).or(branches.first().map(String::as_str)) {
        Some(other) => format!("Call the tool again with {}.", again(other)),
        None => "Make a first commit in the repository, then call the tool again.".to_owned(),
    };
    Refusal::new(
        Code::BranchNotFound,
        format!("{} has no branch {branch:?} with a commit on it", repo.display()),
    )
    .hint(hint)
    .detail("target_branch", branch)
    .detail("branches", branches)
}

/// The argument, with its value, by which the n-th repository gets another branch. If the caller relied on
/// the default, also how that branch becomes the default.
pub(super) fn with_branch(
    request: &StartRequest,
    chosen: &[(&Repo, &str)],
    n: usize,
    branch: &str,
) -> String {
    let given = request.repos.as_ref().filter(|given| !given.is_empty());
    if given.is_some_and(|given| given[n].1.is_some()) {
        return format!("repos[{n}].target_branch = {branch:?}");
    }
    let path = &chosen[n].0.path;
    let lasting = format!(
        "Or run `provost init --target-branch {branch}` in `{path}`: attempts start from it then"
    );
    if given.is_some() {
        return format!("repos[{n}].target_branch = {branch:?}. {lasting}");
    }
    let spelled_out: serde_json::Value = chosen
        .iter()
        .enumerate()
        .map(|(m, (repo, own))| {
            let branch = if m == n { branch } else { own };
            json!({"repo_id": repo.repo_id, "target_branch": branch})
        })
        .collect();
    format!("repos = {spelled_out}. {lasting}")
}
