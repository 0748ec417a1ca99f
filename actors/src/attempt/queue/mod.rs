//! A session's turns and the follow-ups that wait for them: one turn at a time,
//! first in, first out. Pure; what a step changes is a [`Turnover`], written as a whole
//! before it takes effect.
//!
//! ```text
//!           send, queue                     turn ended, one waits
//!   idle ───────────────▶ active ◀───────────────────────────────┐
//!    ▲                      │ │                                   │
//!    │                      │ └── queue: it waits ────────────────┘
//!    └──────────────────────┘
//!      turn ended, none waits, or a stop holds them
//! ```

use std::collections::VecDeque;

use crate::ids::QueueId;
use crate::journal::FollowUp;
use crate::refusal::{Code, Refusal};

/// Most follow-ups that wait in one session.
pub const WAITING_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub enum QueueEvent {
    Send(FollowUp),
    /// A prompt to run after all waiting ones.
    Queue(FollowUp),
    Cancel,
    Stop,
    /// A stop took the turn out of the queue for a slot; its prompt waits again.
    Unqueued(Option<FollowUp>),
    TurnEnded,
}

/// The result of a step: the turn that begins, and the changes of the queue's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    pub begin: Option<FollowUp>,
    pub added: Option<FollowUp>,
    pub taken: Vec<QueueId>,
    /// To be put before all others.
    pub returned: Option<FollowUp>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// A turn runs, or waits for its slot.
    pub active: bool,
    pub waiting: VecDeque<FollowUp>,
    /// A stop holds the waiting follow-ups, or would, until the next send or queue.
    pub held: bool,
}

impl Queue {
    pub fn new(active: bool, waiting: Vec<FollowUp>, held: bool) -> Self {
        Self { active, waiting: waiting.into(), held }
    }

    /// Takes one step. A refused one changes nothing.
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
                // What begins at once never gets a row.
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
