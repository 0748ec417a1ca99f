//! A session's turns and the follow-ups that wait for them: one turn at a time,
//! first in, first out. Pure; what a step changes is a [`Step`], written as a whole
//! before it takes effect.
//!
//! ```text
//!  state    event         then
//!  idle     send          active: the prompt begins, before those that wait
//!  idle     queue         active: the first that waits begins, which is the prompt if none waited
//!  active   send          refused: `TurnActive`
//!  active   queue         the prompt waits; beyond `WAITING_MAX` refused: `RateLimited`
//!  active   turn ended    active: the next one begins. idle: none waits, or `held`
//!  active   stop          `held`: nothing begins when the turn ends
//!  active   unqueued      idle and `held`: the prompt waits again, before all others
//!  any      cancel        idle or active as before: those that wait are dropped
//! ```
//!
//! A send, a queue and a cancel end `held`.

use std::collections::VecDeque;

use crate::ids::QueueId;
use crate::journal::FollowUp;
use crate::refusal::{Code, Refusal};

/// Most follow-ups that wait in one session; one more is refused.
pub const WAITING_MAX: usize = 100;

/// What happens to a session.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueEvent {
    /// A prompt to run now.
    Send(FollowUp),
    /// A prompt to run after all that wait.
    Queue(FollowUp),
    /// Drops all prompts that wait. A turn that runs is left alone.
    Cancel,
    /// A stop of the turn that runs: nothing begins after it without another call.
    Stop,
    /// A stop took the turn that waited for a slot out of the gateway's queue. Its prompt waits again;
    /// `None`: it was the prompt of the attempt's start, which is dropped.
    Unqueued(Option<FollowUp>),
    /// The turn that ran is over.
    TurnEnded,
}

/// The result of a step: the turn that begins, and what changes in the rows of the queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The prompt of the turn that begins. `None`: none begins.
    pub begin: Option<FollowUp>,
    /// A new row, behind all others.
    pub added: Option<FollowUp>,
    /// Rows to delete: their prompts begin, or are cancelled.
    pub taken: Vec<QueueId>,
    /// A new row, before all others.
    pub returned: Option<FollowUp>,
}

/// Whether a turn is under way, and the follow-ups that wait for its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// A turn runs, or waits for its slot.
    pub active: bool,
    pub waiting: VecDeque<FollowUp>,
    /// A stop was the last event: what waits does not begin by itself. A send, a queue or a cancel ends
    /// this.
    pub held: bool,
}

impl Queue {
    /// The queue as the attempt's row has it. `waiting`: the next one first.
    pub fn new(active: bool, waiting: Vec<FollowUp>, held: bool) -> Self {
        Self { active, waiting: waiting.into(), held }
    }

    /// Takes one step.
    ///
    /// # Errors
    /// A send while a turn is active (`TurnActive`), or one prompt too many (`RateLimited`). Nothing has
    /// changed then.
    pub fn step(&mut self, input: QueueEvent) -> Result<Step, Refusal> {
        match input {
            QueueEvent::Send(_) if self.active => {
                let message = "a turn of this session is running or waits for its slot";
                let hint =
                    "Call the tool again with action = \"queue\". It runs when the turn has ended.";
                Err(Refusal::new(Code::TurnActive, message).hint(hint))
            }
            QueueEvent::Send(follow_up) => {
                self.active = true;
                self.held = false;
                Ok(Step { begin: Some(follow_up), ..Step::default() })
            }
            QueueEvent::Queue(_) if self.active && self.waiting.len() >= WAITING_MAX => Err(Refusal::new(
                Code::RateLimited,
                format!("{WAITING_MAX} follow-ups wait in this session already"),
            )
            .hint(
                "Call get_attempt_status until fewer queued_follow_ups wait, then the tool again.",
            )),
            QueueEvent::Queue(follow_up) => {
                self.held = false;
                self.waiting.push_back(follow_up.clone());
                let mut step = self.next();
                // A prompt that begins at once never gets a row.
                if step.begin.as_ref().is_some_and(|it| it.queue_id == follow_up.queue_id) {
                    step.taken.clear();
                } else {
                    step.added = Some(follow_up);
                }
                Ok(step)
            }
            QueueEvent::Cancel => {
                self.held = false;
                let taken = self.waiting.drain(..).map(|it| it.queue_id).collect();
                Ok(Step { taken, ..Step::default() })
            }
            QueueEvent::Stop => {
                self.held |= self.active;
                Ok(Step::default())
            }
            QueueEvent::Unqueued(returned) => {
                self.active = false;
                self.held = true;
                if let Some(follow_up) = &returned {
                    self.waiting.push_front(follow_up.clone());
                }
                Ok(Step { returned, ..Step::default() })
            }
            QueueEvent::TurnEnded => {
                self.active = false;
                Ok(self.next())
            }
        }
    }

    /// Begins the first that waits, unless a turn is active or a stop holds the queue.
    fn next(&mut self) -> Step {
        if self.active || self.held {
            return Step::default();
        }
        let begin = self.waiting.pop_front();
        self.active = begin.is_some();
        Step { taken: begin.iter().map(|it| it.queue_id).collect(), begin, ..Step::default() }
    }
}

#[cfg(test)]
mod tests;
