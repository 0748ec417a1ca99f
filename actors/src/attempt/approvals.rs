//! The permissions that an attempt's executors ask for: written down before
//! anybody is shown them, decided by whoever answers first, or denied when their
//! time is up. Never approved by itself.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::event::{Event, Timestamp};
use crate::executor::{Request, Verdict};
use crate::ids::{ApprovalId, ProcessId};
use crate::journal::{Approval, ApprovalStatus, Decision, Key, Once};
use crate::refusal::{Code, Refusal};

use super::message::{ApprovalPort, Happening, Writer};
use super::run::State;

/// Between tries to write down what is asked for or decided.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// A decision on an approval, checked.
pub struct RespondCall {
    pub key: Option<Key>,
    pub approval_id: ApprovalId,
    pub verdict: Verdict,
}

impl State {
    /// An executor waits for a permission.
    pub(super) async fn asked(
        &mut self,
        process: ProcessId,
        request: Box<Request>,
        done: oneshot::Sender<()>,
    ) {
        let asked_at = Timestamp::now();
        let patience = self.world.settings.approval_timeout;
        let approval = Approval {
            approval_id: ApprovalId::new(),
            attempt_id: self.attempt.attempt_id,
            process_id: process,
            request: (*request).clone(),
            status: ApprovalStatus::Pending,
            reason: None,
            asked_at,
            expires_at: patience.map(|patience| asked_at.plus(patience)),
            decided_at: None,
        };
        match self.world.journal.ask(&approval).await {
            Ok(approval) => {
                self.disk(process, Writer::Row, None);
                self.go_on_with(process, &approval);
                let _ = done.send(());
            }
            Err(refusal) => {
                tracing::error!(%process, %refusal, "a request for permission is not on file yet");
                if refusal.code == Code::StorageFull {
                    self.disk(process, Writer::Row, Some(refusal.message));
                }
                let again = move || Happening::Asked(request, done);
                self.with(process, |turn| turn.handle.tell_after(RETRY, again));
            }
        }
    }

    /// The executor waits no longer for the answer to a request.
    pub(super) async fn withdrawn(
        &mut self,
        process: ProcessId,
        key: String,
        done: oneshot::Sender<()>,
    ) {
        match self.withdraw(process, &key).await {
            Err(refusal) if refusal.code.retryable() => {
                let again = move || Happening::Withdrawn(key, done);
                self.with(process, |turn| turn.handle.tell_after(RETRY, again));
            }
            _ => drop(done.send(())),
        }
    }

    /// One that was decided meanwhile stays as it is.
    async fn withdraw(&self, process: ProcessId, key: &str) -> Result<(), Refusal> {
        let journal = &self.world.journal;
        let approvals = journal.approvals_of(process).await?;
        for approval in approvals.iter().filter(|approval| approval.request.key == key) {
            journal.decide(None, approval.approval_id, &Decision::Withdrawn).await?;
        }
        Ok(())
    }

    /// Goes on, after a restart, with what the process has asked for.
    pub(super) async fn approvals_again(&mut self, process: ProcessId) {
        match self.world.journal.approvals_of(process).await {
            Ok(approvals) => approvals.iter().for_each(|one| self.go_on_with(process, one)),
            Err(refusal) => tracing::error!(%process, %refusal, "its approvals can't be read"),
        }
    }

    pub(super) async fn respond(&mut self, call: RespondCall, port: ApprovalPort) {
        let decision = Decision::Verdict(call.verdict);
        let decided = self.decide(call.key.as_ref(), call.approval_id, &decision).await;
        let _ = port.send(decided);
    }

    /// Nobody has answered in time.
    pub(super) async fn expired(&mut self, process: ProcessId, approval: ApprovalId) {
        let patience = self.world.settings.approval_timeout.unwrap_or_default().as_secs();
        let reason = format!("no one answered within {patience} s");
        let denied = Decision::Verdict(Verdict::Deny { reason });
        match self.decide(None, approval, &denied).await {
            Err(refusal) if refusal.code.retryable() => {
                let again = move || Happening::Expired(approval);
                self.with(process, |turn| turn.handle.tell_after(RETRY, again));
            }
            // Denied now, or decided by somebody before.
            _ => {}
        }
    }

    async fn decide(
        &mut self,
        key: Option<&Key>,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<Once<Approval>, Refusal> {
        let decided = self.world.journal.decide(key, approval, decision).await?;
        self.go_on_with(decided.value.process_id, &decided.value);
        Ok(decided)
    }

    /// One that is pending has its time; of one that is decided the executor is told.
    pub(super) fn go_on_with(&mut self, process: ProcessId, approval: &Approval) {
        let Some(verdict) = approval.verdict() else {
            if approval.status == ApprovalStatus::Pending
                && let Some(expires_at) = approval.expires_at
            {
                let (id, left) = (approval.approval_id, expires_at.since(Timestamp::now()));
                let expire = move || Happening::Expired(id);
                self.with(process, |turn| turn.handle.tell_after(left, expire));
            }
            return;
        };
        let executor = self.world.executors.get(&self.attempt.executor);
        let answer = executor.and_then(|executor| executor.answer(&approval.request, &verdict));
        let Some(answer) = answer else { return };
        let entry = Event::SystemMessage { text: told(&approval.request, &verdict) };
        self.with(process, |turn| turn.tell_verdict(approval.clone(), entry, answer));
    }
}

fn told(request: &Request, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Approve => format!("approved: {}", request.text),
        Verdict::Deny { reason } => format!("denied: {} ({reason})", request.text),
    }
}
