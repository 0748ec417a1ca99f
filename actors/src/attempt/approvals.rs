//! The permissions that an attempt's executors, setups and proxies ask for. A request is written down
//! before a client sees it, and decided by the first answer, or denied when its time is over. Nothing is
//! approved without an answer.
//!
//! ```text
//!  asked ─▶ pending ─ a client's verdict ──────────▶ approved, denied or answered ─▶ whoever asked
//!              ├──── `approval_timeout` is over ───▶ denied ─────────────────────▶ whoever asked
//!              └──── the executor waits no longer ─▶ withdrawn
//! ```
//!
//! Whoever asked is the executor (a message on its stdin), the task of the setup (`turn.setup`), or the
//! attempt's proxies (a file in the attempt's folder).

use std::time::Duration;

use tokio::sync::oneshot;

use crate::blocking::blocking;
use crate::event::{Event, Timestamp};
use crate::executor::{Request, Verdict};
use crate::ids::{ApprovalId, ProcessId};
use crate::journal::{Approval, ApprovalStatus, Decision, Idempotent, Key};
use crate::refusal::{Code, Refusal};
use crate::task::spawn;

use super::message::{DiskWriter, TurnEvent};
use super::network_approvals;
use super::provision;
use super::state::AttemptActorState;

impl AttemptActorState {
    /// Writes a request down and arms its timer. `done` is used when the row is there; until then the request
    /// is tried again each second. One that can never be written down is denied: no client sees it.
    pub(super) async fn asked(
        &mut self,
        process: ProcessId,
        request: Box<Request>,
        done: oneshot::Sender<()>,
    ) {
        let asked_at = Timestamp::now();
        let of_attempt = network_approvals::asked_for(&request).is_some();
        // No process waits for this answer, so it has no time limit: a person may take their time.
        let timeout = self.world.settings.approval_timeout.filter(|_| !of_attempt);
        let approval = Approval {
            approval_id: ApprovalId::new(),
            attempt_id: self.attempt.attempt_id,
            process_id: process,
            request: (*request).clone(),
            of_attempt,
            status: ApprovalStatus::Pending,
            reason: None,
            asked_at,
            expires_at: timeout.map(|timeout| asked_at.plus(timeout)),
            decided_at: None,
        };
        match self.world.journal.ask(&approval).await {
            Ok(approval) => {
                self.disk(process, DiskWriter::Row, None);
                self.go_on_with(process, &approval);
                let _ = done.send(());
            }
            Err(refusal) if !refusal.code.retryable() => {
                tracing::error!(%process, %refusal, "a request for permission can't be written down; it is denied");
                let (status, reason) = (ApprovalStatus::Denied, Some(refusal.message));
                self.go_on_with(process, &Approval { status, reason, ..approval });
                let _ = done.send(());
            }
            Err(refusal) => {
                tracing::error!(%process, %refusal, "a request for permission is not on file yet; it is tried again");
                if refusal.code == Code::StorageFull {
                    self.disk(process, DiskWriter::Row, Some(refusal.message));
                }
                self.again(process, || TurnEvent::Asked(request, done));
            }
        }
    }

    /// The executor no longer waits for the answer to this request: an approval that is still pending is
    /// withdrawn.
    pub(super) async fn withdrawn(
        &mut self,
        process: ProcessId,
        key: String,
        done: oneshot::Sender<()>,
    ) {
        let journal = &self.world.journal;
        // The journal refuses this for an approval that was decided meanwhile, which stays as it is.
        let withdraw = async {
            let approvals = journal.approvals_of(process).await?;
            let is_meant = |it: &&Approval| it.request.key == key && !it.of_attempt;
            for approval in approvals.iter().filter(is_meant) {
                journal.decide(None, approval.approval_id, &Decision::Withdrawn).await?;
            }
            Ok::<(), Refusal>(())
        };
        match withdraw.await {
            Err(refusal) if refusal.code.retryable() => {
                self.again(process, || TurnEvent::Withdrawn(key, done));
            }
            _ => drop(done.send(())),
        }
    }

    /// Approves what a setup asks for, because a person has approved the same commands elsewhere.
    pub(super) async fn trusted(
        &mut self,
        process: ProcessId,
        key: String,
        done: oneshot::Sender<()>,
    ) {
        let approve = Decision::Verdict(Verdict::Approve);
        let approvals = self.world.journal.approvals_of(process).await;
        let mut may_pass = approvals.as_ref().is_err_and(|refusal| refusal.code.retryable());
        let is_meant = |it: &Approval| {
            it.request.key == key
                && it.status == ApprovalStatus::Pending
                && provision::trusted_by(&it.request).is_some()
        };
        for approval in approvals.into_iter().flatten().filter(is_meant) {
            let decided = self.decide(None, approval.approval_id, &approve).await;
            may_pass |= decided.is_err_and(|refusal| refusal.code.retryable());
        }
        if may_pass {
            self.again(process, || TurnEvent::Trusted(key, done));
        } else {
            let _ = done.send(());
        }
    }

    /// Continues with the process's approvals after a restart: arms the timers of those that are pending, and
    /// sends the decisions again. An executor that had its answer before does not get it twice.
    pub(super) async fn approvals_again(&mut self, process: ProcessId) {
        match self.world.journal.approvals_of(process).await {
            Ok(approvals) => approvals.iter().for_each(|one| self.go_on_with(process, one)),
            Err(refusal) => {
                tracing::error!(%process, %refusal, "the approvals of a process can't be read");
            }
        }
    }

    /// The time of a request is over, which was so long: denies it, unless it was decided before.
    pub(super) async fn expired(
        &mut self,
        process: ProcessId,
        approval: ApprovalId,
        timeout: Duration,
    ) {
        let reason = format!("no one answered within {} s", timeout.as_secs());
        let denied = Decision::Verdict(Verdict::Deny { reason });
        // Any other refusal means that it was decided before.
        if let Err(refusal) = self.decide(None, approval, &denied).await
            && refusal.code.retryable()
        {
            self.again(process, move || TurnEvent::Expired(approval, timeout));
        }
    }

    /// Writes a decision down, and passes it on to whoever asked.
    ///
    /// # Errors
    /// Another decision was taken before, or the store does not take this one.
    pub(super) async fn decide(
        &mut self,
        key: Option<&Key>,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<Idempotent<Approval>, Refusal> {
        let decided = self.world.journal.decide(key, approval, decision).await?;
        self.go_on_with(decided.value.process_id, &decided.value);
        Ok(decided)
    }

    /// Tells the attempt's proxies of an approved host, by a file. The refusal that the agent got has
    /// said that it may try again.
    fn host_decided(&self, process: ProcessId, host: &str, verdict: Verdict) {
        let dir = self.world.settings.attempt_dir(self.attempt.attempt_id);
        let host = host.to_owned();
        spawn(async move {
            let name = host.clone();
            let kept = blocking(move || network_approvals::decided(&dir, &host, &verdict)).await;
            if let Err(error) = kept {
                tracing::error!(%process, %error, host = name, "a host can't be allowed");
            }
        });
    }

    /// Arms the timer of a pending approval, or passes a decision on to whoever asked: the setup, the proxies
    /// or the executor. Passing it on twice changes nothing.
    pub(super) fn go_on_with(&mut self, process: ProcessId, approval: &Approval) {
        if let (ApprovalStatus::Pending, Some(at)) = (approval.status, approval.expires_at) {
            let (id, left) = (approval.approval_id, at.since(Timestamp::now()));
            // The time that the request got: `approval_timeout` may be another one after a restart.
            let timeout = at.since(approval.asked_at);
            let expire = move || TurnEvent::Expired(id, timeout);
            self.with(process, |turn| turn.handle.send_after(left, expire));
        }
        let Some(verdict) = approval.verdict() else { return };
        if provision::trusted_by(&approval.request).is_some() {
            let key = approval.request.key.clone();
            return self.with(process, |turn| {
                turn.setup.send_modify(|word| drop(word.verdicts.insert(key, verdict)));
            });
        }
        if let Some(host) = network_approvals::asked_for(&approval.request) {
            return self.host_decided(process, host, verdict);
        }
        let executor = self.world.executors.get(&self.attempt.executor);
        let answer = executor.and_then(|executor| executor.answer(&approval.request, &verdict));
        let Some(answer) = answer else { return };
        let asked = &approval.request.text;
        let text = match &verdict {
            Verdict::Approve => format!("approved: {asked}"),
            Verdict::Deny { reason } => format!("denied: {asked} ({reason})"),
            Verdict::Answer { text } => format!("answered: {asked}: {text}"),
        };
        let entry = Event::SystemMessage { text };
        self.with(process, |turn| turn.send_verdict(approval.clone(), entry, answer));
    }
}
