//! Finishes: a call is checked, and every default is resolved, before the attempt's owner gets it. What is
//! resolved is written with the call, so that a repetition after a crash does exactly the same. Reads only.

use std::path::Path;
use std::sync::Arc;

use ractor::ActorRef;
use serde::Serialize;

use crate::attempt::finish::compose;
use crate::attempt::{self, AttemptMessage};
use crate::ids::{AttemptId, FinishId, ProcessId};
use crate::journal::{
    Attempt, AttemptRepo, FinishAction, FinishRequest, Idempotent, Key, MovedFrom, OntoRepo,
    RepoRequest, remembered,
};
use crate::refusal::{Code, Refusal};
use crate::workspace::git;
use crate::workspace::merge::{Signature, Strategy};
use crate::world::World;

use super::calls::detached;
use super::message::GatewayMessage;
use super::moved::bring_here;
use super::owners::{ask_owner, not_found};
use super::push::{self, PushCall, unreadable};
use super::signature::signature;

/// What a caller asks for; `None` is a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FinishCall {
    pub attempt_id: AttemptId,
    pub action: FinishAction,
    pub strategy: Strategy,
    /// The branch that gets the work, or the base of a pull request; by default each repository's target
    /// branch.
    pub into: Option<String>,
    /// The commit message; by default made of the task's title and the agent's last words. Trailers that
    /// name the attempt and its agent are added.
    pub message: Option<String>,
    /// For `ApplyTo`: the attempt whose branch gets the work.
    pub onto: Option<AttemptId>,
    /// A person wants the attempt's branch to be deleted with its worktrees.
    pub deletes_branch: bool,
    /// The remote to push to, and the branch there.
    pub remote: Option<String>,
    pub branch: Option<String>,
    /// Overwrites commits that the remote's branch has, if it does not move meanwhile.
    pub forces: bool,
}

/// Begins a finish. Returns when its row is written; the row has the result once the finish has ended.
pub async fn finish(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    key: Option<Key>,
    call: FinishCall,
) -> Result<Idempotent<FinishId>, Refusal> {
    let (gateway, world) = (gateway.clone(), Arc::clone(world));
    // The hash is that of the call without how long the caller waits: that makes no other call.
    let key = key.map(|key| key.resolved(&call));
    detached(async move {
        if let Some(begun) = remembered(&*world.journal, key.as_ref()).await? {
            return Ok(begun);
        }
        let request = request(&gateway, &world, &call).await?;
        ask_owner(&gateway, call.attempt_id, false, |_, port| {
            AttemptMessage::Finish(key.clone(), Box::new(request.clone()), port)
        })
        .await
    })
    .await
}

/// Checks a call and resolves what it leaves open.
async fn request(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    call: &FinishCall,
) -> Result<FinishRequest, Refusal> {
    let Some(attempt) = world.journal.attempt(call.attempt_id).await? else {
        return Err(not_found(call.attempt_id));
    };
    world.host.require(&attempt)?;
    has_repositories(world, &attempt, call.action).await?;
    let id = attempt.attempt_id;
    // A discard of what was discarded before is answered, and its branch may still exist.
    let is_over = call.action == FinishAction::Discard
        && matches!(attempt::was_collected(world, id).await, Ok(true));
    if !is_over {
        has_work(world, &attempt).await?;
    }
    let onto = match call.onto {
        Some(onto) => Some(other(gateway, world, &attempt, onto).await?),
        None => None,
    };
    let mut repos = Vec::with_capacity(attempt.repos.len());
    for repo in &attempt.repos {
        repos.push(repo_request(world, &attempt, repo, onto.as_ref(), call).await?);
    }
    let (message, by) = match (call.action, &call.message) {
        (FinishAction::Discard, _) => (String::new(), None),
        (_, Some(given)) => {
            let message = compose::signed(given, id, &attempt.executor);
            (message, signatures(&attempt, &mut repos).await?)
        }
        _ => (message(world, &attempt).await?, signatures(&attempt, &mut repos).await?),
    };
    let proposal = match call.action {
        FinishAction::CreatePr => {
            let run = world.journal.last_checks(id).await?;
            let receipts = run.map(|run| run.receipts).unwrap_or_default();
            Some(compose::proposal(&message, &receipts))
        }
        _ => None,
    };
    let FinishCall { action, strategy, onto, deletes_branch, .. } = *call;
    Ok(FinishRequest { action, strategy, message, by, repos, onto, deletes_branch, proposal })
}

/// Who commits in the first repository. Where another identity commits in a further repository, that one's
/// request says so. All commits have the same time.
async fn signatures(
    attempt: &Attempt,
    repos: &mut [RepoRequest],
) -> Result<Option<Signature>, Refusal> {
    let mut first: Option<Signature> = None;
    for (repo, request) in attempt.repos.iter().zip(repos) {
        let own = signature(repo).await?;
        let Some(first) = &first else {
            first = Some(own);
            continue;
        };
        let own = Signature { date: first.date.clone(), ..own };
        request.by = Some(own).filter(|own| own != first);
    }
    Ok(first)
}

/// Checks that this host has the repositories whose branches change, and no mirrors: a mirror is no
/// repository of a person.
async fn has_repositories(
    world: &World,
    attempt: &Attempt,
    action: FinishAction,
) -> Result<(), Refusal> {
    if !matches!(action, FinishAction::Merge | FinishAction::Push | FinishAction::CreatePr) {
        return Ok(());
    }
    let is_mirror =
        |repo: &&AttemptRepo| world.settings.worktrees.places.is_mirror(Path::new(&repo.path));
    let Some(repo) = attempt.repos.iter().find(is_mirror) else { return Ok(()) };
    let hosts = world.journal.hosts_with(repo.repo_id).await?;
    let message = format!(
        "this host has no repository at {}, whose branches are to be changed; those that have it \
         are not there: {}",
        repo.board_path,
        hosts.join(", ")
    );
    Err(Refusal::new(Code::DaemonUnavailable, message)
        .hint("Call the tool again when the daemon of a host that has the repository runs.")
        .detail("hosts", hosts))
}

/// What the finish does in one repository.
async fn repo_request(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    onto: Option<&Attempt>,
    call: &FinishCall,
) -> Result<RepoRequest, Refusal> {
    let head = match call.action {
        FinishAction::Discard => {
            let tip = git::branch_tip(Path::new(&repo.path), &attempt.branch).await;
            tip.map_err(|error| unreadable(repo, &error))?.unwrap_or_default()
        }
        _ => tip(repo, &attempt.branch, "attempt_id").await?,
    };
    let into = match (call.action, onto) {
        (FinishAction::Merge, _) => Some(target(world, attempt, repo, call).await?),
        (FinishAction::ApplyTo, Some(onto)) => {
            // An attempt of another host looks for its branch itself.
            if onto.host == world.host.id {
                tip(repo, &onto.branch, "into").await?;
            }
            Some(onto.branch.clone())
        }
        _ => None,
    };
    let push = match call.action {
        FinishAction::Push | FinishAction::CreatePr => {
            let pushed = PushCall {
                remote: call.remote.as_deref(),
                branch: call.branch.as_deref(),
                forces: call.forces,
                is_proposed: call.action == FinishAction::CreatePr,
                base: call.into.as_deref(),
            };
            Some(push::request(world, attempt, repo, &pushed).await?)
        }
        _ => None,
    };
    let same =
        onto.and_then(|onto| onto.repos.iter().find(|its| its.board_path == repo.board_path));
    let onto = same.map(|its| OntoRepo { repo_id: its.repo_id, name: its.name.clone() });
    Ok(RepoRequest { name: repo.name.clone(), head, into, push, onto, by: None })
}

/// The attempt whose branch gets the work. It has to work on the same repositories. If its host is lost, it
/// is moved to this one first.
async fn other(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    attempt: &Attempt,
    onto: AttemptId,
) -> Result<Attempt, Refusal> {
    let refuse = |message: String| {
        Refusal::new(Code::InvalidArgument, message)
            .hint("Call the tool again with into, the id of another attempt at these repositories.")
            .detail("path", "into")
    };
    if onto == attempt.attempt_id {
        return Err(refuse("an attempt has its own work already".to_owned()));
    }
    let missing = || {
        not_found(onto)
            .hint("Call the tool again with into, the id of an attempt that exists.")
            .detail("path", "into")
    };
    let mut other = world.journal.attempt(onto).await?.ok_or_else(missing)?;
    let has = |repo: &AttemptRepo| other.repos.iter().any(|its| its.board_path == repo.board_path);
    if let Some(repo) = attempt.repos.iter().find(|repo| !has(repo)) {
        return Err(refuse(format!("attempt {onto} does not work on {}", repo.board_path)));
    }
    if other.host.is_empty() {
        return Err(refuse(format!("attempt {onto} waits for a host")));
    }
    if other.host != world.host.id {
        if world.journal.is_there(&other.host).await {
            return Ok(other);
        }
        bring_here(gateway, world, onto, MovedFrom::Lost(other.host)).await?;
        other = world.journal.attempt(onto).await?.ok_or_else(missing)?;
    }
    // Its files change: its worktrees have to be its own, and no links.
    attempt::real_worktrees(world, &other).await.map_err(refuse).map(|()| other)
}

/// Checks that the attempt has worktrees, and that they are no links.
async fn has_work(world: &World, attempt: &Attempt) -> Result<(), Refusal> {
    let id = attempt.attempt_id;
    let refuse = |message: String| Refusal::new(Code::WorkspaceFailed, message);
    let has = attempt::has_worktrees(world, id).await;
    if !has.map_err(|error| refuse(format!("the folder of attempt {id}: {error}")))? {
        let why = match attempt::was_collected(world, id).await {
            Ok(true) => "they were collected or discarded",
            _ => "nothing has run in it",
        };
        let message = format!("attempt {id} has no worktrees: {why}");
        return Err(refuse(message).hint(
            "Call follow_up with action = \"send\" and prompt = \"Go on.\", then the tool again. It \
             makes the worktrees and runs the agent; the branch has what was committed also without.",
        ));
    }
    attempt::real_worktrees(world, attempt).await.map_err(refuse)
}

/// The branch that gets the work of a merge. It has to exist, and no attempt with worktrees may work on it.
async fn target(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    call: &FinishCall,
) -> Result<String, Refusal> {
    let into = call.into.as_ref().unwrap_or(&repo.target_branch).clone();
    tip(repo, &into, "into").await?;
    let owner = world.journal.attempt_with_branch(repo.repo_id, &into).await?;
    let has_worktrees = match owner {
        Some(owner) if owner != attempt.attempt_id => {
            attempt::has_worktrees(world, owner).await.unwrap_or(true)
        }
        owner => owner.is_some(),
    };
    if into == attempt.branch || has_worktrees {
        let message = format!("{into} is the branch of an attempt, whose files it would change");
        return Err(Refusal::new(Code::InvalidArgument, message)
            .hint("Call the tool again with into, a branch that no attempt works on.")
            .detail("path", "into"));
    }
    Ok(into)
}

/// The commit at the tip of a branch, or the refusal that names `field`, the argument that chose the branch.
async fn tip(repo: &AttemptRepo, branch: &str, field: &str) -> Result<String, Refusal> {
    let tip = git::branch_tip(Path::new(&repo.path), branch).await;
    tip.map_err(|error| unreadable(repo, &error))?.ok_or_else(|| {
        let message = format!("{} has no branch {branch:?} with a commit on it", repo.path);
        let refusal = Refusal::new(Code::BranchNotFound, message).detail("path", field);
        match field {
            "into" => refusal.hint("Call the tool again with into, a branch that exists."),
            _ => refusal.hint("Make the attempt's branch again, then call the tool again."),
        }
    })
}

/// The default commit message.
async fn message(world: &World, attempt: &Attempt) -> Result<String, Refusal> {
    let id = attempt.attempt_id;
    // The turns before an id that is made now: all of them.
    let past = world.journal.past(id, ProcessId::new()).await?;
    let last = past.last().and_then(|past| past.final_message.as_deref());
    Ok(compose::message(&attempt.task_title, last, id, &attempt.executor))
}
