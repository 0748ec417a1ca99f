//! The steps of a finish that leave the attempt's own repositories and worktrees: a push, a pull
//! request, and the deletion of the attempt's branch, which only a person asks for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Stepped;
use super::task::FinishTask;
use crate::failpoint;
use crate::forge::{Forge, Proposal, place};
use crate::journal::{AttemptRepo, PushRequest};
use crate::refusal::{Code, Refusal};
use crate::workspace::checkouts_of;
use crate::workspace::git::{self, GitError};
use crate::workspace::parting;
use crate::workspace::push::{PushError, RemoteBranch, shown};

impl FinishTask {
    /// Deletes the attempt's branch in the person's repository, if it is where it was when the person
    /// asked for that and no checkout shows it. A reference keeps what its target branch lacks.
    pub(super) async fn delete_branch(&self, at: usize) -> Result<Stepped, Refusal> {
        let repo = &self.attempt.repos[at];
        let (path, target) = (PathBuf::from(&repo.path), repo.target_branch.clone());
        let keep = format!("refs/provost/branches/{}", self.attempt.attempt_id);
        let (head, branch) =
            (self.finish.request.repos[at].head.clone(), self.attempt.branch.clone());
        let history = self.world.history(self.attempt.attempt_id, repo).await?;
        let (repo, name) = (path.clone(), branch.clone());
        let deleting = async move {
            let is_shown = !checkouts_of(&repo, &name).await?.is_empty();
            let is_gone = match git::branch_tip(&repo, &name).await? {
                None => true,
                Some(tip) if tip == head && !is_shown => {
                    let since = parting::since(&repo, &target, &head, &history).await?;
                    if since.as_ref() != Some(&head) {
                        git::run(&repo, &["update-ref", "--no-deref", &keep, &head]).await?;
                    }
                    let reference = format!("refs/heads/{name}");
                    let delete = ["update-ref", "--no-deref", "-d", &reference, &head];
                    git::run(&repo, &delete).await?;
                    true
                }
                Some(_) => false,
            };
            Ok(Stepped::BranchDeleted(is_gone, git::ref_tip(&repo, &keep).await?))
        };
        let deleted = self.world.repositories.in_turn(&path, deleting).await;
        failpoint::hit("branch", "deleted");
        deleted.map_err(|error: GitError| {
            Refusal::new(Code::WorkspaceFailed, format!("{branch} can't be deleted: {error}"))
        })
    }

    /// A repository and what is to be pushed from it.
    fn pushed(&self, at: usize) -> Result<(&AttemptRepo, &PushRequest), Refusal> {
        let wanted = self.finish.request.repos[at].push.as_ref();
        let wanted = wanted.ok_or_else(|| Refusal::internal("a push has no remote"))?;
        Ok((&self.attempt.repos[at], wanted))
    }

    /// Pushes the attempt's commit to a branch of a remote, unless the branch is at that commit. With
    /// `forces`, the branch is overwritten only if it is where it was when the call was made.
    ///
    /// # Errors
    /// The remote can't be reached or rejects the push, or nothing could be proposed.
    pub(super) async fn push(&self, at: usize) -> Result<Stepped, Refusal> {
        let (repo, wanted) = self.pushed(at)?;
        let commit = self.finish.receipt.repos[at].commit.clone().unwrap_or_default();
        if wanted.base.is_some() && commit == repo.base_commit {
            if self.attempt.repos.len() > 1 {
                return Ok(Stepped::Pushed(false));
            }
            let message = "the attempt has changed nothing that could be proposed";
            return Err(Refusal::new(Code::WorkspaceFailed, message)
                .hint("Call follow_up with action = \"send\", then the tool again."));
        }
        let branch = RemoteBranch {
            repo: Path::new(&repo.path),
            scratch: &self.world.settings.folders.scratch,
            url: &wanted.url,
            branch: &wanted.branch,
        };
        let unreachable = |error: GitError| not_pushed(wanted, &error.to_string());
        let tip = branch.tip().await.map_err(unreachable)?;
        failpoint::hit("push", "next");
        if tip.as_ref() != Some(&commit) {
            let lease = wanted.forces.then(|| wanted.before.clone().unwrap_or_default());
            match branch.push(&commit, lease.as_deref()).await {
                Ok(()) => {}
                // An earlier daemon may have pushed the commit, and others may have pushed on top of it.
                Err(PushError::Rejected(_)) if branch.has(&commit).await.unwrap_or(false) => {}
                Err(PushError::Rejected(why)) => return Err(rejected(wanted, &why)),
                Err(PushError::Git(error)) => return Err(unreachable(error)),
            }
        }
        failpoint::hit("push", "done");
        Ok(Stepped::Pushed(true))
    }

    /// Opens a pull request for the branch that was pushed, or finds the one that is open.
    pub(super) async fn propose(&self, at: usize) -> Result<Stepped, Refusal> {
        let (repo, wanted) = self.pushed(at)?;
        let (forge, repository) = forge(&self.world.settings.forges, &wanted.url)?;
        let (title, text) = self.finish.request.proposal.clone().unwrap_or_default();
        let base = wanted.base.clone().unwrap_or_else(|| repo.target_branch.clone());
        let head = wanted.branch.clone();
        let proposal = Proposal { repository, head, base, title, text, mark: self.mark() };
        let api = forge.api.clone();
        let proposing = tokio::task::spawn_blocking(move || forge.propose(&proposal));
        let proposed = proposing.await.map_err(|error| Refusal::internal(error.to_string()))?;
        failpoint::hit("pull_request", "made");
        proposed.map(Stepped::Proposed).map_err(|error| {
            let message = format!("no pull request could be made at {}: {error}", shown(&api));
            let refusal = Refusal::new(Code::WorkspaceFailed, message);
            let hint = if error.is_of_token() {
                "Give the token in config.toml the right to open pull requests, restart the daemon, \
                 then call the tool again."
            } else {
                "Fix what the message says, then call the tool again. The branch is pushed."
            };
            refusal.hint(hint)
        })
    }
}

/// The configured forge of a remote's host, and the repository's name there.
///
/// # Errors
/// The URL names no repository of a host, or `config.toml` has no forge for that host.
pub fn forge(forges: &BTreeMap<String, Forge>, url: &str) -> Result<(Forge, String), Refusal> {
    let shown = shown(url);
    let Some(place) = place(url) else {
        let message = format!("the remote {shown} names no repository of a host");
        return Err(Refusal::new(Code::InvalidArgument, message)
            .hint("Call the tool again with remote, one on GitHub or GitLab.")
            .detail("path", "remote"));
    };
    let forge = forges.get(&place.host).cloned().ok_or_else(|| {
        let host = &place.host;
        let message = format!("config.toml has no [forges.\"{host}\"], so no pull request can be made");
        Refusal::new(Code::WorkspaceFailed, message).hint(format!(
            "Add `[forges.\"{host}\"]` with kind and token to config.toml and restart the daemon, then \
             call the tool again."
        ))
    })?;
    Ok((forge, place.repository))
}

/// The refusal of a push that failed before the remote judged it. A URL is shown without its secrets.
fn not_pushed(wanted: &PushRequest, why: &str) -> Refusal {
    let PushRequest { remote, url, .. } = wanted;
    let message = format!("{remote} ({}) can't be pushed to: {why}", shown(url));
    Refusal::new(Code::WorkspaceFailed, message.replace(url, &shown(url))).hint(
        "Fix what the message says: git in a terminal needs the same. Then call the tool again.",
    )
}

/// The refusal of a push that the remote has rejected.
fn rejected(wanted: &PushRequest, why: &str) -> Refusal {
    let PushRequest { remote, branch, .. } = wanted;
    let message = format!("{remote} does not take the commits for {branch}: {why}");
    Refusal::new(Code::WorkspaceFailed, message).hint(after_rejection(why))
}

/// The hint after a rejected push. `why` begins with git's summary (git-push(1)), up to the `)`.
fn after_rejection(why: &str) -> &'static str {
    let summary = why.split_once(')').map_or(why, |(summary, _)| summary);
    let says = |words: &[&str]| words.iter().any(|word| summary.contains(word));
    if says(&["stale info"]) {
        return "Call the tool again when you have seen what somebody else has pushed to that branch since. It \
                overwrites that then.";
    }
    if says(&["non-fast-forward", "fetch first", "needs force", "already exists"]) {
        return "Merge the remote's branch into the attempt's, then call the tool again. Or push to \
                another branch; force_with_lease = true overwrites what the remote's branch has.";
    }
    if says(&["protected", "declined", "denied", "prohibited", "not allowed", "not permitted"]) {
        return "Call the tool again with branch, another name. The remote's own rules refuse this push: a \
                person who may change them can allow it, or a pull request passes by them.";
    }
    "Fix what the remote says, then call the tool again. Or push to another branch."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_of_a_refused_push_fits_its_reason() {
        for (why, expected) in [
            ("[rejected] (non-fast-forward)", "Merge the remote's branch"),
            ("[rejected] (fetch first) hint declined", "Merge the remote's branch"),
            ("[rejected] (stale info)", "somebody else has pushed"),
            ("[remote rejected] (pre-receive hook declined) non-fast-forward?", "own rules"),
            ("[remote rejected] (protected branch hook declined)", "own rules"),
            ("[remote rejected] (branch is currently checked out)", "Fix what the remote says"),
            ("[remote rejected] (shallow update not allowed)", "own rules"),
            ("[remote rejected] (unpacker error)", "Fix what the remote says"),
            ("[remote failure] (remote failed to report status)", "Fix what the remote says"),
        ] {
            assert!(after_rejection(why).contains(expected), "{why}: {}", after_rejection(why));
        }
    }
}
