//! Follow-ups: the queue decides on a copy of itself, the journal records the decision in one
//! transaction, and only then a turn begins. A call that was cut off anywhere is answered from that
//! record when it comes again.

use crate::event::{ProcessStatus, Timestamp};
use crate::journal::{
    FollowUp, FollowUpAction, FollowedUp, Idempotent, Key, Review, Turnover, remembered,
};
use crate::refusal::{Code, Refusal};
use crate::text::cut;

use super::AttemptEvent;
use super::message::{FollowUpPort, FollowUpRequest};
use super::queue::QueueEvent;
use super::state::AttemptActorState;

/// How many waiting follow-ups an answer lists, and how many characters of each.
const LISTED_MAX: usize = 50;
const PROMPT_MAX: usize = 300;

impl AttemptActorState {
    /// Sends, queues or cancels follow-ups. `has_slot`: the gateway has taken a slot in case a turn begins.
    pub async fn follow_up(
        &mut self,
        key: Option<Key>,
        request: FollowUpRequest,
        has_slot: bool,
        port: FollowUpPort,
    ) {
        let epoch = self.attempt.epoch;
        let answer = self.followed_up(key.as_ref(), request, has_slot).await;
        // An epoch that has not changed means that no turn has begun. The slot then goes to the turn that
        // waits for one, or back to the gateway.
        let is_unused = has_slot && self.attempt.epoch == epoch;
        if is_unused && !self.queue.active {
            self.notify(AttemptEvent::SlotFreed(self.attempt.attempt_id));
        } else if is_unused {
            self.granted().await;
        }
        let _ = port.send(answer);
    }

    async fn followed_up(
        &mut self,
        key: Option<&Key>,
        request: FollowUpRequest,
        has_slot: bool,
    ) -> Result<Idempotent<FollowedUp>, Refusal> {
        let FollowUpRequest { queue_id, action, prompt, variant, unless_stopped, review, .. } =
            request;
        // Before the queue decides: an earlier call with this key may have begun the very turn that would
        // now refuse this one.
        if let Some(answer) = remembered(&*self.world.journal, key).await? {
            return Ok(answer);
        }
        // Changes are written in order, and earlier ones wait for the store.
        if let Some(refusal) = &self.refused {
            return Err(refusal.clone());
        }
        if unless_stopped && self.is_stopped() {
            return Err(Refusal::new(Code::NotPermitted, "the attempt was stopped"));
        }
        let follow_up = FollowUp { queue_id, prompt, variant, queued_at: Timestamp::now() };
        let mut queue = self.queue.clone();
        let step = queue.step(match action {
            FollowUpAction::Send => QueueEvent::Send(follow_up),
            FollowUpAction::Queue => QueueEvent::Queue(follow_up),
            FollowUpAction::Cancel => QueueEvent::Cancel,
        })?;
        let next = step.begin.map(|follow_up| self.next(follow_up, has_slot));
        let turnover = Turnover {
            added: step.added,
            review,
            taken: step.taken,
            held: queue.held,
            begun: next.clone(),
        };
        let answer = FollowedUp {
            action,
            attempt_id: self.attempt.attempt_id,
            session_id: self.attempt.session_id,
            execution_process_id: next.as_ref().map(|next| next.process.process_id),
            held: queue.held && !queue.waiting.is_empty(),
            length: queue.waiting.len(),
            waiting: queue.waiting.iter().take(LISTED_MAX).map(shortened).collect(),
            review: turnover.review.as_ref().map(Review::submitted),
        };
        let journal = &self.world.journal;
        let answer = journal.record_follow_up(key, &self.attempt, &turnover, &answer).await?;
        if answer.deduplicated {
            return Ok(answer);
        }
        self.queue = queue;
        if let Some(next) = next {
            self.go_on(next);
        }
        Ok(answer)
    }

    /// A stop was the last event of the attempt.
    fn is_stopped(&self) -> bool {
        let was_killed = self.attempt.process.status == ProcessStatus::Killed;
        self.queue.held || (was_killed && !self.queue.active)
    }
}

/// As an answer shows it.
fn shortened(waiting: &FollowUp) -> FollowUp {
    FollowUp { prompt: cut(waiting.prompt.clone(), PROMPT_MAX), ..waiting.clone() }
}
