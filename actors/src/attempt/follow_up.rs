//! Follow-ups: the queue decides, the journal records it in one transaction, and only then
//! a turn begins.

use ractor::RpcReplyPort;

use crate::event::ProcessStatus;
use crate::journal::{
    FollowUp, FollowUpAction, FollowedUp, Once, Phase, Turnover, Waiting, remembered,
};
use crate::refusal::{Code, Refusal};
use crate::text::cut;

use super::AttemptEvent;
use super::message::FollowUpCall;
use super::queue::{Queue, QueueEvent};
use super::state::AttemptState;

/// Most waiting follow-ups in an answer, and most characters of each.
const LISTED_MAX: usize = 50;
const PROMPT_MAX: usize = 300;

impl AttemptState {
    pub async fn follow_up(
        &mut self,
        call: FollowUpCall,
        port: RpcReplyPort<Result<Once<FollowedUp>, Refusal>>,
    ) {
        let (has_slot, epoch) = (call.has_slot, self.attempt.epoch);
        let answer = self.followed_up(call).await;
        if has_slot && self.attempt.epoch == epoch {
            self.slot_unused().await;
        }
        let _ = port.send(answer);
    }

    /// No turn began with the slot: a turn that waits for one gets it, else it is freed.
    async fn slot_unused(&mut self) {
        if !self.queue.is_active() {
            self.notify(AttemptEvent::SlotFreed(self.attempt.attempt_id));
        } else if self.attempt.phase == Phase::Queued {
            self.granted().await;
        }
    }

    async fn followed_up(&mut self, call: FollowUpCall) -> Result<Once<FollowedUp>, Refusal> {
        let FollowUpCall { key, action, follow_up, has_slot, unless_stopped } = call;
        // The first call may have begun the turn with which this one would collide.
        if let Some(answer) = remembered(&*self.world.journal, key.as_ref()).await? {
            return Ok(answer);
        }
        // Earlier changes have to be written first.
        if let Some(refusal) = &self.refused {
            return Err(refusal.clone());
        }
        if unless_stopped && self.is_stopped() {
            return Err(Refusal::new(Code::NotPermitted, "the attempt was stopped"));
        }
        let mut queue = self.queue.clone();
        let step = queue.step(match (action, follow_up) {
            (FollowUpAction::Send, Some(follow_up)) => QueueEvent::Send(follow_up),
            (FollowUpAction::Queue, Some(follow_up)) => QueueEvent::Queue(follow_up),
            (FollowUpAction::Cancel, _) => QueueEvent::Cancel,
            (_, None) => return Err(Refusal::internal("a follow-up without a prompt")),
        })?;
        let next = step.begin.map(|follow_up| self.next(follow_up, has_slot));
        let turnover = Turnover {
            added: step.added,
            taken: step.taken,
            held: queue.is_held(),
            begun: next.clone(),
        };
        let answer = FollowedUp {
            action,
            attempt_id: self.attempt.attempt_id,
            session_id: self.attempt.session_id,
            execution_process_id: next.as_ref().map(|next| next.process.process_id),
            held: queue.is_held() && !queue.waiting().is_empty(),
            length: queue.waiting().len(),
            waiting: summary(&queue),
        };
        let journal = &self.world.journal;
        let answer =
            journal.record_follow_up(key.as_ref(), &self.attempt, &turnover, &answer).await?;
        if answer.deduplicated {
            return Ok(answer);
        }
        self.queue = queue;
        if let Some(next) = next {
            self.go_on(next);
        }
        Ok(answer)
    }

    /// A stop was the last event.
    fn is_stopped(&self) -> bool {
        let was_killed = self.attempt.process.status == ProcessStatus::Killed;
        self.queue.is_held() || (was_killed && !self.queue.is_active())
    }
}

fn summary(queue: &Queue) -> Vec<Waiting> {
    let waiting = |it: &FollowUp| Waiting {
        queue_id: it.queue_id,
        prompt: cut(it.prompt.clone(), PROMPT_MAX),
        queued_at: it.queued_at,
    };
    queue.waiting().iter().take(LISTED_MAX).map(waiting).collect()
}
