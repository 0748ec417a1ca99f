//! A session that is lost: the agent says that it does not know it. Its turn came to
//! nothing, and the same prompt is given again in a new session, once.

use crate::event::{ProcessStatus, Timestamp};
use crate::executor::Executor;
use crate::ids::{ProcessId, QueueId};
use crate::journal::{Attempt, FollowUp, Next, Outcome};
use crate::world::World;

use super::recap;
use super::run::State;

impl State {
    /// The turn that takes the place of one whose session was lost.
    pub(super) fn again(&mut self, process: ProcessId, outcome: &Outcome) -> Option<Next> {
        let is_lost = outcome.status == ProcessStatus::Failed
            && self.turn(process).is_some_and(|turn| turn.lost_its_session());
        let process = &self.attempt.process;
        let (prompt, variant) = (process.prompt.clone(), process.variant.clone());
        let queued_at = Timestamp::now();
        let again = FollowUp { queue_id: QueueId::new(), prompt, variant, queued_at };
        let mut next = is_lost.then(|| self.next(again, true))?;
        next.process.executor_session_id = None;
        Some(next)
    }
}

/// What the attempt's newest turn is to be told where that is more than its prompt: it
/// has no session to go on with. `Err` is a sentence.
pub async fn recap(
    world: &World,
    attempt: &Attempt,
    executor: &dyn Executor,
) -> Result<Option<String>, String> {
    let process = &attempt.process;
    if process.turn == 1 || process.executor_session_id.is_some() || !executor.keeps_sessions() {
        return Ok(None);
    }
    let past = world.journal.past(attempt.attempt_id, process.process_id).await;
    let past = past.map_err(|refusal| refusal.message)?;
    let told = recap::prompt(&past, &process.prompt);
    Ok(Some(told).filter(|told| *told != process.prompt))
}
