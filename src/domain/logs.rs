//! Pages of an attempt's log.

use crate::api::{Caller, Code, Refusable, Refusal};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::event::{Channel, Timestamp};
use provost_actors::ids::AttemptId;
use provost_actors::log::{AttemptLog, LogError, Page, PagePosition, Query, Tip};
use tokio::time::{Instant, timeout_at};

use super::{Domain, blocking};
use crate::api::commands::NextLogPageParams;
use crate::api::logs::{LogTools, TailAttemptLogsInput, TailAttemptLogsOutput};

/// A caller asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

#[async_trait]
impl LogTools for Domain {
    async fn tail_attempt_logs(
        &self,
        caller: &Caller,
        input: TailAttemptLogsInput,
    ) -> Refusable<TailAttemptLogsOutput> {
        let there = self.by_its_host("tail_attempt_logs", Some(caller), input.attempt_id, &input);
        match there.await? {
            Some(there) => Ok(there),
            None => self.log_page(input).await,
        }
    }
}

impl Domain {
    /// A page, once there is an entry on it, something else of the attempt has changed, or the
    /// wait is over.
    pub(super) async fn next_log_page(
        &self,
        params: NextLogPageParams,
    ) -> Result<TailAttemptLogsOutput, Refusal> {
        let NextLogPageParams { page, wait_ms } = params;
        let deadline = Instant::now() + Duration::from_millis(wait_ms).min(LONGEST_WAIT);
        // Before the first look: what comes after it wakes us.
        let watch = self.store.watch(&[page.attempt_id]);
        if let Some(log) = self.log(page.attempt_id).await?
            && let PagePosition::After(after) = page.page()
        {
            let mut changed = log.changed();
            let latest = || match page.channel {
                Channel::Normalized => log.tip().normalized,
                Channel::Raw => log.tip().raw,
            };
            while latest().is_none_or(|latest| i64::try_from(latest).is_ok_and(|it| it <= after)) {
                tokio::select! {
                    grown = timeout_at(deadline, changed.changed()) => if grown.is_err() { break },
                    () = watch.changed() => break,
                    () = self.ending.cancelled() => break,
                }
            }
        } else {
            tokio::select! {
                _ = timeout_at(deadline, watch.changed()) => {}
                () = self.ending.cancelled() => {}
            }
        }
        self.log_page(page).await
    }

    async fn log_page(
        &self,
        input: TailAttemptLogsInput,
    ) -> Result<TailAttemptLogsOutput, Refusal> {
        let (attempt, channel) = (input.attempt_id, input.channel);
        let status = self.store.status(attempt).await?;
        self.require_here(attempt).await?;
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
