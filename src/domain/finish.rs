//! `finish_attempt`, and `provost discard`: the call is given to the attempt's owner, and waits until the
//! row of the finish has an end or the call's time is over. The finish continues without the call.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use provost_actors::attempt::provision::Provision;
use provost_actors::gateway::{self, FinishCall};
use provost_actors::ids::{AttemptId, FinishId};
use provost_actors::journal::checks::CheckOutcome;
use provost_actors::journal::{
    ChecksReceipt, Ending, Finish, FinishAction, FinishState, Finishes, Receipt, RepoReceipt,
    RepoRequest, TargetState,
};
use provost_actors::workspace::merge::Strategy;
use provost_actors::workspace::merge::conflict::{Conflict, Side};
use tokio::time::{Instant, timeout_at};

use super::Domain;
use super::waits::cut_off;
use crate::api::finish::{
    FinishAttemptInput, FinishAttemptOutput, FinishTools, FinishedRepo, LastFinish, MergeConflict,
    PullRequest,
};
use crate::api::remotes::DiscardParams;
use crate::api::{Caller, Code, Idempotent, Key, Refusable, Refusal};
use crate::store;

/// Most conflicts in an answer, and most bytes of all their hunks.
const CONFLICTS_MAX: usize = 50;
const HUNKS_MAX: usize = 16 * 1024;
/// Longest wait of a call, in milliseconds. After it, the answer has the state `open`.
const TIMEOUT_MAX_MS: u64 = 600_000;
/// Most paths that a hint names.
const PATHS_SHOWN_MAX: usize = 10;

#[async_trait]
impl FinishTools for Domain {
    async fn finish_attempt(
        &self,
        _: &Caller,
        key: Option<Key>,
        input: FinishAttemptInput,
    ) -> Refusable<Idempotent<FinishAttemptOutput>> {
        let timeout = u64::try_from(input.timeout_ms.get()).unwrap_or(u64::MAX);
        let (mut into, mut onto): (Option<String>, _) = (input.into.map(Into::into), None);
        if input.action == FinishAction::ApplyTo {
            onto = into.take().map(|id| other_attempt(&id)).transpose()?;
        }
        let call = FinishCall {
            attempt_id: input.attempt_id,
            action: input.action,
            strategy: input.strategy.unwrap_or(Strategy::Merge),
            into,
            message: input.message.map(Into::into),
            onto,
            deletes_branch: false,
            remote: input.remote.map(Into::into),
            branch: input.branch.map(Into::into),
            forces: input.force_with_lease,
        };
        self.carry_out(key, call, timeout).await
    }
}

impl Domain {
    /// Discards an attempt's worktrees and its branch. This is a method and no tool: only a person gives
    /// work up.
    pub(super) async fn discard(&self, params: DiscardParams) -> Refusable<FinishAttemptOutput> {
        let DiscardParams { attempt_id, request_id, timeout_ms } = params;
        let call = FinishCall {
            attempt_id,
            action: FinishAction::Discard,
            strategy: Strategy::Merge,
            into: None,
            message: None,
            onto: None,
            deletes_branch: true,
            remote: None,
            branch: None,
            forces: false,
        };
        let key = Key::new("finish_attempt", format!("discard:{request_id}"), &attempt_id);
        Ok(self.carry_out(Some(key), call, timeout_ms).await?.value)
    }

    /// Begins a finish, or joins the one of the same key, and waits for its end.
    async fn carry_out(
        &self,
        key: Option<Key>,
        call: FinishCall,
        timeout_ms: u64,
    ) -> Refusable<Idempotent<FinishAttemptOutput>> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms.min(TIMEOUT_MAX_MS));
        let watch = self.store.watch(&[call.attempt_id]);
        let begun = gateway::finish(&self.gateway, &self.world, key, call).await?;
        loop {
            let finish = self.finish(begun.value).await?;
            if finish.state != FinishState::Open || Instant::now() >= deadline {
                let receipts = self.receipts(&finish).await?;
                let provision = self.provision(finish.attempt_id).await.unwrap_or_default();
                let value = answer(finish, receipts, &provision)?;
                return Ok(Idempotent { value, deduplicated: begun.deduplicated });
            }
            tokio::select! {
                // After either, the row is read again.
                _ = timeout_at(deadline, watch.changed()) => {}
                () = self.ending.cancelled() => return Err(cut_off()),
            }
        }
    }

    async fn finish(&self, id: FinishId) -> Result<Finish, Refusal> {
        let found = self.store.finish(id).await?;
        found.ok_or_else(|| Refusal::internal(format!("there is no finish {id}")))
    }

    /// What the checks of a merge found; empty if none have run.
    async fn receipts(&self, finish: &Finish) -> Result<Vec<Receipt>, Refusal> {
        let Some(ChecksReceipt { run_id: Some(run), .. }) = finish.receipt.checks else {
            return Ok(Vec::new());
        };
        let run = self.store.check_run(run).await?;
        Ok(run.map(|run| run.receipts).unwrap_or_default())
    }
}

/// The attempt that `into` names: with `apply_to` it is an id, with all other actions a branch.
fn other_attempt(id: &str) -> Refusable<AttemptId> {
    id.trim().parse().map_err(|_| {
        Refusal::new(Code::InvalidArgument, format!("`into` is not the id of an attempt: {id:?}"))
            .hint("Call finish_attempt again with into, the id of the attempt that gets the work.")
            .detail("path", "into")
    })
}

/// The answer of a finish: its refusal, or how far it is.
fn answer(
    finish: Finish,
    checks: Vec<Receipt>,
    provision: &Provision,
) -> Result<FinishAttemptOutput, Refusal> {
    if let Some(refusal) = &finish.error {
        return Err(refusal.clone());
    }
    let hint = hint(&finish, &checks);
    let repos = finish.request.repos.iter().zip(&finish.receipt.repos).map(repo).collect();
    let conflicts = match finish.receipt.ending {
        Some(Ending::Conflicts(found)) => {
            let by_setup = provision.changed_by_setup(&found.repo);
            conflicts(&found.repo, found.conflicts, by_setup)
        }
        _ => Vec::new(),
    };
    Ok(FinishAttemptOutput {
        attempt_id: finish.attempt_id,
        finish_id: finish.finish_id,
        action: finish.request.action,
        state: finish.state,
        repos,
        checks,
        conflicts,
        waits_for: finish.receipt.waits_for,
        hint,
    })
}

/// What a finish did in one repository, from what was asked for and the receipt. `merged` is true also if
/// the target already had the work.
pub(super) fn repo((request, receipt): (&RepoRequest, &RepoReceipt)) -> FinishedRepo {
    let merged = receipt.merged.as_ref();
    let pushed = request.push.as_ref().filter(|_| receipt.pushed == Some(true));
    FinishedRepo {
        branch_deleted: receipt.branch_deleted == Some(true),
        pushed_to: pushed.map(|it| format!("{}/{}", it.remote, it.branch)),
        pull_request: receipt
            .pull_request
            .clone()
            .map(|it| PullRequest { url: it.url, number: it.number }),
        repo_name: request.name.clone(),
        committed: receipt.commit.as_ref().is_some_and(|commit| *commit != request.head),
        commit: receipt.commit.clone(),
        target_branch: request.into.clone(),
        target_before: merged.map(|it| it.old.clone()),
        target_after: merged.map(|it| it.new.clone()),
        tree: merged.and_then(|it| it.tree.clone()),
        snapshot: receipt.snapshot.clone(),
        unsigned: receipt.unsigned.clone(),
        merged: merged.is_some_and(|it| it.place != TargetState::Old || !it.changes()),
    }
}

/// The first [`CONFLICTS_MAX`] conflicts. Hunks are left out once [`HUNKS_MAX`] bytes are used.
fn conflicts(repo: &str, found: Vec<Conflict>, by_setup: &[String]) -> Vec<MergeConflict> {
    let mut room = HUNKS_MAX;
    let side = |side: Option<Side>| side.map(|it| format!("{} {}", it.mode, it.object));
    let listed = found.into_iter().take(CONFLICTS_MAX).map(|it| {
        let hunks = it.hunks.filter(|hunks| hunks.len() <= room);
        room -= hunks.as_ref().map_or(0, String::len);
        let path = format!("{repo}/{}", it.path);
        MergeConflict {
            by_setup: by_setup.contains(&path),
            path,
            kind: it.kind,
            base: side(it.base),
            ours: side(it.ours),
            theirs: side(it.theirs),
            hunks,
        }
    });
    listed.collect()
}

/// The last finish, as the attempt's status shows it.
pub(super) fn last_finish(finish: store::LastFinish) -> LastFinish {
    let store::LastFinish { action, state, waits_for } = finish;
    LastFinish { action, state, waits_for }
}

fn tried_again(why: &str) -> String {
    format!("{}; it is tried again", why.trim_end_matches('.'))
}

/// The next action for an attempt, by its last finish. `None`: the finish says nothing, and the rest of
/// the status decides.
pub(super) fn after_finish(finish: &store::LastFinish, id: AttemptId) -> Option<String> {
    let then = match (finish.state, finish.action) {
        (FinishState::Open, _) => {
            let why = finish.waits_for.as_ref().map(|why| format!(" ({})", tried_again(why)));
            let why = why.unwrap_or_default();
            return Some(format!(
                "It is being finished{why}: call wait_for_attempts with attempt_ids [{id}] and until \
                 any_change."
            ));
        }
        (FinishState::Conflicts, _) => "Its merge has conflicts, which follow_up can have resolved",
        (FinishState::ChecksFailed, _) => "The checks of its merge failed, which follow_up can fix",
        (FinishState::Done, FinishAction::Merge) => "It is merged: call update_task, status done",
        (FinishState::Done, FinishAction::ApplyTo) => "Its work is on the other attempt's branch",
        (FinishState::Done, FinishAction::Push) => "It is pushed",
        (FinishState::Done, FinishAction::CreatePr) => "A pull request has its work",
        (FinishState::Done, FinishAction::Discard) => {
            let discarded = "Its worktrees were discarded; follow_up makes them again.";
            return Some(discarded.to_owned());
        }
        (FinishState::Done, FinishAction::Commit) | (FinishState::Refused, _) => return None,
    };
    Some(format!("{then}. Call get_attempt_changes with attempt_id {id} for what it changed."))
}

/// The next useful call.
fn hint(finish: &Finish, checks: &[Receipt]) -> Option<String> {
    let what = match (finish.state, &finish.receipt.ending) {
        (FinishState::Open, _) => {
            let until = "Call wait_for_attempts until it has ended, then finish_attempt again. Wait with \
                         until any_change; give the same arguments and the same request_id.";
            let why = finish.receipt.waits_for.as_ref();
            let why = why.map(|why| format!(" What it waits for: {}.", tried_again(why)));
            return Some(until.to_owned() + &why.unwrap_or_default());
        }
        (FinishState::Conflicts, Some(Ending::Conflicts(found))) => {
            let into = finish.request.repos.iter().find(|repo| repo.name == found.repo);
            let into = into.and_then(|repo| repo.into.as_deref()).unwrap_or_default();
            let paths: BTreeSet<&str> = found.conflicts.iter().map(|it| &*it.path).collect();
            let more = match paths.len().saturating_sub(PATHS_SHOWN_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let paths: Vec<&str> = paths.into_iter().take(PATHS_SHOWN_MAX).collect();
            let paths = paths.join(", ");
            let what = match &found.target {
                // The branch is in the repository of another host.
                Some(commit) => format!("the commit {commit} (of branch {into})"),
                None => format!("the branch {into}"),
            };
            format!("Merge {what} into yours, resolve the conflicts in {paths}{more}")
        }
        (FinishState::ChecksFailed, _) => {
            let failed = checks.iter().filter(|it| it.outcome != CheckOutcome::Passed);
            let failed: Vec<String> = failed.map(ToString::to_string).collect();
            format!("Merged with its target, your work fails: {}. Fix it", failed.join("; "))
        }
        _ => return None,
    };
    let left = finish.left();
    let merged = if left.is_empty() {
        "Nothing was merged".to_owned()
    } else {
        format!("Merged is only what could not go back ({})", left.join(", "))
    };
    Some(format!(
        "Call follow_up with action = \"queue\", then finish_attempt again. {merged}. A \
         prompt for attempt {}: \"{what}.\" The next finish_attempt, once that has settled, takes \
         a new request_id.",
        finish.attempt_id
    ))
}
