//! Attempts: started, listed, shown, stopped.

use std::collections::BTreeMap;

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::gateway::{self, GatewayMessage, StartRequest};
use provost_actors::ids::AttemptId;
use provost_actors::journal::{AttemptRepo, AttemptStopped, Phase, State};
use provost_actors::refusal::{Code, Refusal};
use provost_actors::text::{cut, cut_front};

use super::short::fitting;
use super::{Domain, answered, cursor};
use crate::api::attempts::{
    AttemptPhase, AttemptStatus, AttemptStatusOutput, AttemptSummary, AttemptTools,
    GetAttemptStatusInput, GetContextInput, GetContextOutput, LatestEntryIndex,
    ListTaskAttemptsInput, ListTaskAttemptsOutput, StartTaskAttemptInput, StartTaskAttemptOutput,
    StopAttemptInput, StopAttemptOutput, WorkspaceRepo, Worktree,
};
use crate::api::{Key, Once, Refusable, Session};
use crate::store::{self, AttemptOverview, Quota};

const FINAL_MESSAGE_MAX: usize = 2000;

/// Longest final message in an answer about many attempts, in characters.
const FINAL_MESSAGE_OF_MANY_MAX: usize = 200;

#[async_trait]
impl AttemptTools for Domain {
    async fn start_task_attempt(
        &self,
        session: &Session,
        key: Option<Key>,
        input: StartTaskAttemptInput,
    ) -> Refusable<Once<StartTaskAttemptOutput>> {
        let repos = input.repos.map(|repos| {
            let repos = repos.into_iter();
            repos.map(|repo| (repo.repo_id, repo.target_branch.map(Into::into))).collect()
        });
        let request = StartRequest {
            task_id: input.task_id,
            executor: input.executor.into(),
            variant: input.variant.map(Into::into),
            repos,
            prompt: input.prompt.map(Into::into),
            ignore_dependencies: input.ignore_dependencies,
            parent: session.place.attempt(),
        };
        let task = request.task_id;
        let answer = gateway::start(&self.gateway, &self.world, key, request).await?;
        let handle = self.store.handle_of(task).await?;
        let worktree = self.worktree(answer.value.attempt_id).await;
        Ok(answered(answer, |started| StartTaskAttemptOutput {
            attempt_id: started.attempt_id,
            task_id: started.task_id,
            handle,
            workspace_branch: started.workspace_branch,
            worktree,
            session_id: started.session_id,
            execution_process_id: started.execution_process_id,
            state: started.state,
            phase: started.phase.into(),
        }))
    }

    async fn list_task_attempts(
        &self,
        _: &Session,
        input: ListTaskAttemptsInput,
    ) -> Refusable<ListTaskAttemptsOutput> {
        let task = input.task_id;
        let after = cursor(input.cursor, "list_task_attempts", read_cursor)?;
        let latest = self.store.attempts(task, 1, None).await?.items.pop();
        let page = self.store.attempts(task, input.limit.get(), after).await?;
        let ids: Vec<AttemptId> = page.items.iter().map(|attempt| attempt.attempt_id).collect();
        let mut worktrees = self.worktrees(&ids).await?;
        Ok(ListTaskAttemptsOutput {
            next_cursor: page.next(|it| format!("{}_{}", it.created_at.millis(), it.attempt_id)),
            has_more: page.has_more,
            latest_attempt_id: latest.as_ref().map(|attempt| attempt.attempt_id),
            latest_session_id: latest.and_then(|attempt| attempt.latest_session_id),
            attempts: page
                .items
                .into_iter()
                .map(|attempt| AttemptSummary {
                    attempt_id: attempt.attempt_id,
                    workspace_branch: attempt.workspace_branch,
                    worktree: worktrees
                        .remove(&attempt.attempt_id)
                        .unwrap_or_else(|| Worktree::Each(BTreeMap::new())),
                    state: attempt.state,
                    created_at: attempt.created_at,
                    updated_at: attempt.updated_at,
                    latest_session_id: attempt.latest_session_id,
                    latest_session_executor: attempt.latest_session_executor,
                })
                .collect(),
        })
    }

    async fn get_attempt_status(
        &self,
        _: &Session,
        input: GetAttemptStatusInput,
    ) -> Refusable<AttemptStatusOutput> {
        if let Some(attempt) = input.attempt_id {
            let status = self.store.status(attempt).await?;
            let mut status = self.to_output(status, FINAL_MESSAGE_MAX).await?;
            status.worktree = Some(self.worktree(attempt).await);
            return Ok(AttemptStatusOutput::One(Box::new(status)));
        }
        let ids: Vec<AttemptId> = input.attempt_ids.into_iter().flatten().collect();
        let mut attempts = Vec::with_capacity(ids.len());
        for status in self.store.statuses(&ids).await? {
            attempts.push(self.to_output(status, FINAL_MESSAGE_OF_MANY_MAX).await?);
        }
        Ok(AttemptStatusOutput::Many(fitting(&attempts, input.max_bytes.get())))
    }

    async fn stop_attempt(
        &self,
        _: &Session,
        key: Option<Key>,
        input: StopAttemptInput,
    ) -> Refusable<Once<StopAttemptOutput>> {
        let (attempt, force) = (input.attempt_id, input.force);
        let stop = |port| GatewayMessage::Stop(key, attempt, force, port);
        let answer = gateway::ask(&self.gateway, stop).await?;
        let worktree = self.worktree(attempt).await;
        Ok(answered(answer, |it| stopped(it, worktree)))
    }

    async fn recent_attempts(&self, most: usize) -> Refusable<Vec<(AttemptId, String)>> {
        self.store.newest_attempts(most).await
    }

    async fn get_context(
        &self,
        session: &Session,
        _: GetContextInput,
    ) -> Refusable<GetContextOutput> {
        let attempt = session.attempt.ok_or_else(|| {
            Refusal::new(Code::NotPermitted, "this connection does not come from inside an attempt")
        })?;
        let overview = self.store.status(attempt).await?.overview;
        let repos = self.store.workspace(attempt).await?.repos.into_iter();
        Ok(GetContextOutput {
            project_id: overview.project_id,
            project_name: overview.project_name,
            task_id: overview.task_id,
            handle: overview.handle,
            task_title: overview.task_title,
            task_status: overview.task_status,
            attempt_id: attempt,
            workspace_branch: overview.workspace_branch,
            worktree: self.worktree(attempt).await,
            workspace_repos: repos
                .map(|AttemptRepo { repo_id, name: repo_name, target_branch, .. }| WorkspaceRepo {
                    repo_id,
                    repo_name,
                    target_branch,
                })
                .collect(),
        })
    }
}

impl Domain {
    async fn to_output(
        &self,
        status: store::AttemptStatus,
        final_message_max: usize,
    ) -> Result<AttemptStatus, Refusal> {
        let (tip, last_activity_at) = self.log_facts(status.overview.attempt_id).await;
        let next = next_action(&status);
        let (phase, waiting_on) = (phase(&status.overview), waiting_on(&status.overview));
        let overview = status.overview;
        let executor = self.world.executors.get(&overview.executor);
        let in_lines = executor.is_some_and(|executor| executor.answers_in_lines());
        let shorten = if in_lines { cut_front } else { cut };
        Ok(AttemptStatus {
            attempt_id: overview.attempt_id,
            task_id: overview.task_id,
            handle: overview.handle,
            next_action: Some(next),
            workspace_branch: overview.workspace_branch,
            worktree: None,
            state: overview.state,
            phase,
            waiting_on,
            resume_at: overview.resume_at,
            executor: overview.executor,
            variant: overview.variant,
            created_at: overview.created_at,
            updated_at: overview.updated_at,
            last_activity_at,
            latest_session_id: overview.latest_session_id,
            latest_execution_process_id: status.latest_execution_process_id,
            exit_code: status.exit_code,
            exit_signal: status.exit_signal,
            failure_summary: status.failure_summary,
            queued_follow_ups: status.queued_follow_ups,
            queue_held: status.queue_held && status.queued_follow_ups > 0,
            usage: status.usage,
            limits: status.limits,
            final_message: status.final_message.map(|it| shorten(it, final_message_max)),
            latest_entry_index: LatestEntryIndex { normalized: tip.normalized, raw: tip.raw },
        })
    }
}

fn stopped(stopped: AttemptStopped, worktree: Worktree) -> StopAttemptOutput {
    StopAttemptOutput {
        attempt_id: stopped.attempt_id,
        worktree,
        execution_process_id: stopped.execution_process_id,
        stopped: stopped.stopped,
        state: stopped.state,
        phase: stopped.phase.into(),
        forced: stopped.forced,
        signals: stopped.signals,
        exit_code: stopped.exit_code,
        exit_signal: stopped.exit_signal,
        survivors: stopped.survivors,
        unrecorded: stopped.unrecorded,
    }
}

/// The phase for callers: an attempt that waits for an answer does not run.
pub(super) fn phase(overview: &AttemptOverview) -> AttemptPhase {
    match overview.phase {
        Phase::Running if overview.pending_approvals > 0 => AttemptPhase::Waiting,
        phase => phase.into(),
    }
}

pub(super) fn waiting_on(overview: &AttemptOverview) -> Option<String> {
    let what = match overview.phase {
        _ if overview.waits_for_disk.is_some() => "disk",
        Phase::Queued => "a running slot",
        Phase::Running if overview.pending_approvals > 0 => "approval",
        Phase::Settled if overview.quota.is_some() => "quota",
        _ => return None,
    };
    Some(what.to_owned())
}

fn next_action(status: &store::AttemptStatus) -> String {
    let (overview, id) = (&status.overview, status.overview.attempt_id);
    if let Some(reason) = &overview.waits_for_disk {
        return format!(
            "It waits for the disk ({reason}), and goes on once PROVOST_HOME can be written; call \
             wait_for_attempts with attempt_ids [{id}]."
        );
    }
    if let Some(quota) = overview.quota {
        return after_quota(quota, overview.resume_at, id);
    }
    match (overview.state, overview.phase) {
        (State::Running, Phase::Running) if overview.pending_approvals > 0 => format!(
            "It waits for a permission: call list_approvals with attempt_id {id}, then \
             respond_approval."
        ),
        (_, Phase::Queued) => {
            format!("It waits for a running slot; call wait_for_attempts with attempt_ids [{id}].")
        }
        (State::Running, Phase::Stopping) => {
            format!("It is being stopped; call wait_for_attempts with attempt_ids [{id}].")
        }
        (State::Running, _) => format!(
            "Call wait_for_attempts with attempt_ids [{id}] to be woken when it ends, \
             tail_attempt_logs to see what it does, or stop_attempt to end it."
        ),
        _ if status.queue_held && status.queued_follow_ups > 0 => format!(
            "Follow-ups wait since it was stopped ({}): call follow_up with attempt_id {id} and \
             action send or queue to go on, or cancel to drop them.",
            status.queued_follow_ups
        ),
        (State::Failed, _) => format!(
            "Read failure_summary, then call tail_attempt_logs with attempt_id {id}; follow_up \
             goes on in the same session, start_task_attempt tries the task anew."
        ),
        (State::Completed, _) => format!(
            "Call get_attempt_changes with attempt_id {id} to see what it changed, or follow_up to \
             go on; its work is on branch {}.",
            overview.workspace_branch
        ),
        (State::Idle, _) => {
            format!(
                "Nothing has run: call follow_up with attempt_id {id} and a prompt to start it."
            )
        }
    }
}

fn after_quota(quota: Quota, resume_at: Option<Timestamp>, id: AttemptId) -> String {
    let when = resume_at.map(|at| format!(" until {at}")).unwrap_or_default();
    if quota == Quota::Auto {
        return format!(
            "A rate limit ended its turn{when}; it goes on by itself then. Call \
             wait_for_attempts with attempt_ids [{id}], or follow_up to go on now."
        );
    }
    format!(
        "A rate limit ended its turn{when}. Call follow_up with attempt_id {id} and a prompt when \
         it is over: the session goes on."
    )
}

fn read_cursor(text: &str) -> Option<(Timestamp, AttemptId)> {
    let (at, id) = text.split_once('_')?;
    Some((Timestamp::from_millis(at.parse().ok()?), id.parse().ok()?))
}
