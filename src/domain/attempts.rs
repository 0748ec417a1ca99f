//! The tools that start, list, show and stop attempts, and the advice of a status ("next action").

use std::time::Duration;

use async_trait::async_trait;
use provost_actors::attempt::provision::{trust_command, trusted_by};
use provost_actors::blocking::blocking;
use provost_actors::event::{ErrorType, Timestamp};
use provost_actors::gateway::{self, GatewayMessage, StartRequest};
use provost_actors::host::HostState;
use provost_actors::ids::{AttemptId, ProcessId};
use provost_actors::journal::{ApprovalStatus, AttemptRepo, AttemptStopped, Snapshots as _, State};
use provost_actors::process::records;
use provost_actors::sandbox::Decisions;
use provost_actors::text::{cut, cut_front};

use super::compact_status::fitting;
use super::conflicts::shortened;
use super::finish::{after_finish, last_finish};
use super::{Domain, answered, cursor};
use crate::api::args::ToTurn;
use crate::api::attempts::{
    AttemptPhase, AttemptStatus, AttemptStatusOutput, AttemptSummary, AttemptTools,
    GetAttemptStatusInput, GetContextInput, GetContextOutput, LatestEntryIndex,
    ListTaskAttemptsInput, ListTaskAttemptsOutput, StartTaskAttemptInput, StartTaskAttemptOutput,
    StopAttemptInput, StopAttemptOutput, WorkspaceRepo,
};
use crate::api::commands::AttemptLine;
use crate::api::{Caller, Code, Idempotent, Key, Refusable, Refusal};
use crate::store::{self, AttemptOverview, Quota};

/// Longest final message in the status of one attempt, in characters.
const FINAL_MESSAGE_MAX: usize = 2000;

/// Longest final message in an answer about many attempts, in characters.
const FINAL_MESSAGE_OF_MANY_MAX: usize = 200;

#[async_trait]
impl AttemptTools for Domain {
    async fn start_task_attempt(
        &self,
        caller: &Caller,
        key: Option<Key>,
        input: StartTaskAttemptInput,
    ) -> Refusable<Idempotent<StartTaskAttemptOutput>> {
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
            fork: input.from_attempt_id.map(|id| (id, input.from_turn.map(turn_number))),
            parent: caller.place.attempt(),
            is_carried: caller.origin.host.is_some(),
        };
        let task = request.task_id;
        self.have_mirrors(&request).await?;
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
        _: &Caller,
        input: ListTaskAttemptsInput,
    ) -> Refusable<ListTaskAttemptsOutput> {
        let task = input.task_id;
        let after = cursor(input.cursor, "list_task_attempts", read_cursor)?;
        // The latest attempt of the task, also if the page begins further back.
        let latest = self.store.attempts(task, 1, None).await?.items.pop();
        let page = self.store.attempts(task, input.limit.get(), after).await?;
        let ids: Vec<AttemptId> = page.items.iter().map(|it| it.line.attempt_id).collect();
        let mut worktrees = self.worktrees(&ids).await?;
        Ok(ListTaskAttemptsOutput {
            next_cursor: page
                .next(|it| format!("{}_{}", it.line.created_at.millis(), it.line.attempt_id)),
            has_more: page.has_more,
            latest_attempt_id: latest.as_ref().map(|it| it.line.attempt_id),
            latest_session_id: latest.and_then(|it| it.latest_session_id),
            attempts: page
                .items
                .into_iter()
                .map(
                    |AttemptOverview {
                         line, latest_session_id, latest_session_executor, ..
                     }| {
                        AttemptSummary {
                            attempt_id: line.attempt_id,
                            host: line.host,
                            workspace_branch: line.workspace_branch,
                            worktree: worktrees.remove(&line.attempt_id).unwrap_or_default(),
                            state: line.state,
                            created_at: line.created_at,
                            updated_at: line.updated_at,
                            latest_session_id,
                            latest_session_executor,
                        }
                    },
                )
                .collect(),
        })
    }

    async fn get_attempt_status(
        &self,
        _: &Caller,
        input: GetAttemptStatusInput,
    ) -> Refusable<AttemptStatusOutput> {
        if let Some(attempt) = input.attempt_id {
            let status = self.store.status(attempt).await?;
            self.watch_targets(std::slice::from_ref(&status));
            let found = self.conflicts_of(&[attempt]).await?.remove(&attempt);
            let mut status = self.to_output(status, FINAL_MESSAGE_MAX).await?;
            status.conflicts_with = shortened(found.unwrap_or_default());
            status.worktree = Some(self.worktree(attempt).await);
            let provision = self.provision(attempt).await;
            let preview = self.previewed(attempt).await;
            status.provision = provision.map(|it| it.receipt(preview.as_ref()));
            let process = status.latest_execution_process_id;
            if let (Some(receipt), Some(process)) = (&mut status.sandbox, process) {
                receipt.hosts = self.decisions(attempt, process).await;
            }
            return Ok(AttemptStatusOutput::One(Box::new(status)));
        }
        let ids: Vec<AttemptId> = input.attempt_ids.into_iter().flatten().collect();
        let mut attempts = Vec::with_capacity(ids.len());
        let statuses = self.store.statuses(&ids).await?;
        self.watch_targets(&statuses);
        let mut found = self.conflicts_of(&ids).await?;
        for status in statuses {
            let mut status = self.to_output(status, FINAL_MESSAGE_OF_MANY_MAX).await?;
            status.conflicts_with = shortened(found.remove(&status.attempt_id).unwrap_or_default());
            attempts.push(status);
        }
        Ok(AttemptStatusOutput::Many(fitting(&attempts, input.max_bytes.get())))
    }

    async fn stop_attempt(
        &self,
        _: &Caller,
        key: Option<Key>,
        input: StopAttemptInput,
    ) -> Refusable<Idempotent<StopAttemptOutput>> {
        let (attempt, force) = (input.attempt_id, input.force);
        let stop = |port| GatewayMessage::Stop(key, attempt, force, port);
        let answer = gateway::ask(&self.gateway, stop).await?;
        // With the snapshot written, the caller's next read agrees with this answer. A stop must work
        // without the store, so an error here is ignored.
        let _ = self.store.snapshot_stands(attempt, SNAPSHOT_TIMEOUT).await;
        let worktree = self.worktree(attempt).await;
        Ok(answered(answer, |stopped: AttemptStopped| StopAttemptOutput {
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
        }))
    }

    // For MCP resources: ids and the titles of their tasks, newest first.
    async fn recent_attempts(&self, most: usize) -> Refusable<Vec<(AttemptId, String)>> {
        self.store.newest_attempts(most).await
    }

    async fn get_context(
        &self,
        caller: &Caller,
        _: GetContextInput,
    ) -> Refusable<GetContextOutput> {
        let attempt = caller.attempt.ok_or_else(|| {
            Refusal::new(Code::NotPermitted, "this connection does not come from inside an attempt")
        })?;
        let AttemptOverview { line, handle, task_status, .. } =
            self.store.status(attempt).await?.overview;
        let repos = self.store.workspace(attempt).await?.repos.into_iter();
        Ok(GetContextOutput {
            project_id: line.project_id,
            project_name: line.project_name,
            task_id: line.task_id,
            handle,
            task_title: line.task_title,
            task_status,
            attempt_id: attempt,
            workspace_branch: line.workspace_branch,
            worktree: self.worktree(attempt).await,
            workspace_repos: repos
                .map(|AttemptRepo { repo_id, name: repo_name, target_branch, .. }| WorkspaceRepo {
                    repo_id,
                    repo_name,
                    target_branch,
                })
                .collect(),
            ports: self.provision(attempt).await.map(|it| it.ports).unwrap_or_default(),
        })
    }
}

impl Domain {
    /// True if the attempt waits for a person to trust the commands in a repository's own `provost.toml`.
    async fn waits_for_trust(&self, status: &store::AttemptRow) -> Result<bool, Refusal> {
        let AttemptLine { attempt_id, phase, .. } = &status.overview.line;
        if *phase != AttemptPhase::Waiting {
            return Ok(false);
        }
        let pending = Some(ApprovalStatus::Pending);
        let asked = self.store.approvals(Some(*attempt_id), pending, None, 1).await?;
        Ok(asked.items.iter().any(|approval| trusted_by(&approval.request).is_some()))
    }

    /// What the network proxy of a process has allowed and denied. `None`: it has decided nothing yet, or
    /// its file can't be read.
    async fn decisions(&self, attempt: AttemptId, process: ProcessId) -> Option<Decisions> {
        let folder = self.world.settings.attempt_dir(attempt).join(process.to_string());
        let read = blocking(move || records::read(&folder, Decisions::FILE)).await;
        read.ok().flatten()
    }

    /// The status as clients see it. The caller adds what only the status of one attempt has: worktree,
    /// provision, network decisions, conflicts.
    async fn to_output(
        &self,
        status: store::AttemptRow,
        final_message_max: usize,
    ) -> Result<AttemptStatus, Refusal> {
        let line = &status.overview.line;
        let (tip, last_activity_at) = self.log_facts(line.attempt_id, line.host.as_deref()).await;
        let is_for_trust = self.waits_for_trust(&status).await?;
        let snapshot_failed = status.overview.snapshot_failed().map(ToOwned::to_owned);
        let next = if is_for_trust { trust_action(&status) } else { next_action(&status) };
        let AttemptOverview {
            line,
            handle,
            resume_at,
            latest_session_id,
            latest_snapshot_turn,
            ..
        } = status.overview;
        let executor = self.world.executors.get(&line.executor);
        let in_lines = executor.is_some_and(|executor| executor.answers_in_lines());
        // An executor that answers in lines (a plain program) says the important part last.
        let shorten = if in_lines { cut_front } else { cut };
        Ok(AttemptStatus {
            attempt_id: line.attempt_id,
            task_id: line.task_id,
            handle,
            next_action: Some(next),
            workspace_branch: line.workspace_branch,
            worktree: None,
            provision: None,
            state: line.state,
            phase: line.phase,
            waiting_on: line.waiting_on,
            needs_trust: is_for_trust,
            resume_at,
            executor: line.executor,
            variant: line.variant,
            host: line.host,
            created_at: line.created_at,
            updated_at: line.updated_at,
            last_activity_at,
            latest_session_id,
            latest_execution_process_id: status.latest_execution_process_id,
            exit_code: status.exit_code,
            exit_signal: status.exit_signal,
            failure_summary: status.failure_summary,
            stopped: line.stopped,
            queued_follow_ups: status.queued_follow_ups,
            queue_held: status.queue_held && status.queued_follow_ups > 0,
            latest_snapshot_turn,
            snapshot_failed,
            conflicts_with: Vec::new(),
            finish: status.finish.map(last_finish),
            usage: status.usage,
            limits: status.limits,
            sandbox: status.sandbox,
            final_message: status.final_message.map(|it| shorten(it, final_message_max)),
            latest_entry_index: LatestEntryIndex { normalized: tip.normalized, raw: tip.raw },
        })
    }
}

/// How long a stop waits for the snapshot of the turn that it ended.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);

fn turn_number(turn: ToTurn) -> u32 {
    u32::try_from(turn.get()).unwrap_or(u32::MAX)
}

/// What the caller can do next, in a sentence. The order matters: a reason why nothing moves comes before
/// the result of a finish, and that before what state and phase say.
fn next_action(status: &store::AttemptRow) -> String {
    let overview = &status.overview;
    let AttemptLine { attempt_id: id, state, phase, workspace_branch, host, .. } = &overview.line;
    if let Some(reason) = &overview.waits_for_disk {
        return format!(
            "It waits for the disk ({reason}), and goes on once PROVOST_HOME can be written; call \
             wait_for_attempts with attempt_ids [{id}]."
        );
    }
    if let Some(other) = overview.waits_for_setup {
        return format!(
            "It waits for the setup of attempt {other}, whose result it can have; call \
             wait_for_attempts with attempt_ids [{id}]."
        );
    }
    if let Some(quota) = overview.quota {
        return after_quota(quota, overview.resume_at, *id);
    }
    let is_over = matches!(phase, AttemptPhase::Settled | AttemptPhase::Idle);
    if let Some(next) =
        status.finish.as_ref().filter(|_| is_over).and_then(|it| after_finish(it, *id))
    {
        return next;
    }
    match (state, phase) {
        _ if !is_over && overview.is_snapshot_pending() && *phase == AttemptPhase::Running => {
            format!(
                "Its turn has ended, and the snapshot of its files is being made; call \
             wait_for_attempts with attempt_ids [{id}]."
            )
        }
        (State::Running, AttemptPhase::Waiting) => {
            format!("It waits for a permission: call list_inbox with attempt_id {id}, then answer.")
        }
        (_, AttemptPhase::Queued) if overview.host_state == Some(HostState::Draining) => format!(
            "Its host drains, and a person lets it go on: `provost host resume {}`. Until then call \
             wait_for_attempts with attempt_ids [{id}].",
            host.as_deref().unwrap_or_default()
        ),
        (_, AttemptPhase::Queued) if host.is_none() => format!(
            "It waits for a host with a free running slot; call wait_for_attempts with attempt_ids \
             [{id}]."
        ),
        (_, AttemptPhase::Queued) => {
            format!("It waits for a running slot; call wait_for_attempts with attempt_ids [{id}].")
        }
        (State::Running, AttemptPhase::Stopping) => {
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
        (State::Failed, _) if status.error_type == Some(ErrorType::Context) => format!(
            "Its conversation does not fit the model any more, so a follow-up would fail again: call \
             start_task_attempt with from_attempt_id {id}, which goes on with its files in a new \
             session, with a summary of this one."
        ),
        (State::Failed, _) => format!(
            "Read failure_summary, then call tail_attempt_logs with attempt_id {id}; follow_up \
             goes on in the same session, start_task_attempt tries the task anew."
        ),
        (State::Completed, _) if status.was_denied => format!(
            "A permission was denied in its last turn, and some agents end there, or are not told the \
             reason: call follow_up with attempt_id {id} and what to do instead, or \
             get_attempt_changes to see what it did without."
        ),
        (State::Completed, _) => format!(
            "Call get_attempt_changes with attempt_id {id} to see what it changed, then \
             finish_attempt to merge it, or follow_up to go on; its work is on branch \
             {workspace_branch}."
        ),
        (State::Idle, _) => {
            format!(
                "Nothing has run: call follow_up with attempt_id {id} and a prompt to start it."
            )
        }
    }
}

/// The next action where only a person's trust lets the attempt continue.
fn trust_action(status: &store::AttemptRow) -> String {
    let line = &status.overview.line;
    format!(
        "A person has to approve what a repository's provost.toml wants: {} shows and approves \
         it; until then call wait_for_attempts with attempt_ids [{}].",
        trust_command(line.attempt_id),
        line.attempt_id
    )
}

/// The next action after a rate limit: with `Quota::Auto` the daemon resumes the attempt by itself.
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

/// Reads `<created_at in ms>_<attempt id>`, the position of the last attempt of a page.
fn read_cursor(text: &str) -> Option<(Timestamp, AttemptId)> {
    let (at, id) = text.split_once('_')?;
    Some((Timestamp::from_millis(at.parse().ok()?), id.parse().ok()?))
}
