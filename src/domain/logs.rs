//! Pages of an attempt's log.

use crate::api::{Caller, Code, Refusable, Refusal};
use async_trait::async_trait;
use std::sync::Arc;

use provost_actors::event::Timestamp;
use provost_actors::ids::AttemptId;
use provost_actors::log::{AttemptLog, LogError, Page, Query, Tip};

use super::{Domain, blocking};
use crate::api::logs::{LogTools, TailAttemptLogsInput, TailAttemptLogsOutput};

#[async_trait]
impl LogTools for Domain {
    async fn tail_attempt_logs(
        &self,
        _: &Caller,
        input: TailAttemptLogsInput,
    ) -> Refusable<TailAttemptLogsOutput> {
        let (attempt, channel) = (input.attempt_id, input.channel);
        let status = self.store.status(attempt).await?;
        let query =
            Query { limit: input.limit(), max_bytes: input.max_bytes.get(), place: input.page() };
        let page = match self.log(attempt).await? {
            Some(log) => {
                blocking(move || log.page(channel, &query)).await?.map_err(|error| fault(&error))?
            }
            None => Page::default(),
        };
        let Page { entries, flags, in_progress } = page;
        Ok(TailAttemptLogsOutput {
            attempt_id: attempt,
            execution_process_id: status.latest_execution_process_id,
            channel,
            entries,
            next_cursor: flags.next_cursor,
            has_more: flags.has_more,
            history_truncated: flags.history_truncated,
            oldest_entry_index: flags.oldest,
            latest_entry_index: flags.latest,
            in_progress,
        })
    }
}

impl Domain {
    async fn log(&self, attempt: AttemptId) -> Result<Option<Arc<AttemptLog>>, Refusal> {
        self.world.logs.find(attempt).await.map_err(|error| fault(&error))
    }

    /// What a status has from the log. One that can't be read hides no status.
    pub(super) async fn log_facts(&self, attempt: AttemptId) -> (Tip, Option<Timestamp>) {
        let facts = async {
            let Some(log) = self.log(attempt).await? else { return Ok((Tip::default(), None)) };
            let tip = log.tip();
            if let Some(active_at) = log.known_activity_at() {
                return Ok((tip, active_at));
            }
            let active_at = blocking(move || log.last_activity_at()).await?;
            let active_at = active_at.map_err(|error| fault(&error))?;
            Ok::<_, Refusal>((tip, active_at))
        };
        facts.await.unwrap_or_else(|refusal| {
            tracing::warn!(%attempt, %refusal, "a status without its log");
            (Tip::default(), None)
        })
    }

    /// Where the log ends. One that can't be read hides no attempt.
    pub(super) async fn log_tip(&self, attempt: AttemptId) -> Tip {
        match self.log(attempt).await {
            Ok(log) => log.map(|log| log.tip()).unwrap_or_default(),
            Err(refusal) => {
                tracing::warn!(%attempt, %refusal, "an attempt without its log");
                Tip::default()
            }
        }
    }
}

fn fault(error: &LogError) -> Refusal {
    match error {
        LogError::Io(io) if io.kind() == std::io::ErrorKind::StorageFull => {
            Refusal::new(Code::StorageFull, error.to_string())
        }
        _ => Refusal::internal(error.to_string()),
    }
}
