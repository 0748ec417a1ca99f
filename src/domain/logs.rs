//! Pages of an attempt's log: from the files of the host that has it; from the board's copy if that host
//! is lost, or for what was written before the attempt moved to this host.

use crate::api::placed::Needs;
use crate::api::{Caller, Code, Refusable, Refusal};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::event::{Channel, Timestamp};
use provost_actors::ids::AttemptId;
use provost_actors::log::shipped::{self, ShippedLogs as _};
use provost_actors::log::{AttemptLog, LogError, Page, PagePosition, Query, Tip};
use tokio::time::{Instant, timeout_at};

use super::{Domain, blocking};
use crate::api::commands::NextLogPageParams;
use crate::api::logs::{LogTools, TailAttemptLogsInput, TailAttemptLogsOutput};

/// Longest wait of one call; a caller that follows a log asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

#[async_trait]
impl LogTools for Domain {
    async fn tail_attempt_logs(
        &self,
        caller: &Caller,
        input: TailAttemptLogsInput,
    ) -> Refusable<TailAttemptLogsOutput> {
        let attempt = input.attempt_id.to_string();
        if self.lost_host_of(&attempt).await?.is_some() {
            return self.log_page(input).await;
        }
        let there = self.forward_read(
            "tail_attempt_logs",
            Needs::Host,
            Some(caller),
            input.attempt_id,
            &input,
        );
        match there.await {
            Ok(Some(there)) => Ok(there),
            Ok(None) => self.log_page(input).await,
            // The host may have been lost while the call waited for it.
            Err(refusal) if refusal.code != Code::DaemonUnavailable => Err(refusal),
            Err(refusal) => match self.lost_host_of(&attempt).await? {
                Some(_) => self.log_page(input).await,
                None => Err(refusal),
            },
        }
    }
}

impl Domain {
    /// A page of the log. Waits until an entry after the cursor is written, the attempt's row changes,
    /// the daemon ends, or the wait is over.
    pub(super) async fn next_log_page(
        &self,
        params: NextLogPageParams,
    ) -> Result<TailAttemptLogsOutput, Refusal> {
        let NextLogPageParams { page, wait_ms } = params;
        let deadline = Instant::now() + Duration::from_millis(wait_ms).min(LONGEST_WAIT);
        // Registered before the first read: a change after that read wakes the wait.
        let watch = self.store.watch(&[page.attempt_id]);
        let lost = self.lost_host_of(&page.attempt_id.to_string()).await?;
        let log = if lost.is_none() { self.log(page.attempt_id).await? } else { None };
        if let Some(log) = log
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

    /// A page as it is now.
    async fn log_page(
        &self,
        input: TailAttemptLogsInput,
    ) -> Result<TailAttemptLogsOutput, Refusal> {
        let (attempt, channel) = (input.attempt_id, input.channel);
        let status = self.store.status(attempt).await?;
        let mut lost_host = self.lost_host_of(&attempt.to_string()).await?;
        if lost_host.is_none() {
            self.require_here(attempt).await?;
        }
        let query =
            Query { limit: input.limit(), max_bytes: input.max_bytes.get(), place: input.page() };
        let log = match lost_host {
            Some(_) => None,
            None => self.log(attempt).await?,
        };
        let page = match log {
            Some(log) => {
                let page = if let Some(page) = log.page_in_memory(channel, &query) {
                    page
                } else {
                    let read = blocking(move || log.page(channel, &query)).await?;
                    read.map_err(|error| fault(&error))?
                };
                self.with_earlier(attempt, page, channel, &query).await?
            }
            // There is no log here: the copy has what was written on other hosts.
            None if self.store.is_shared() => {
                let copy = self.store.shipped(attempt, channel).await?;
                lost_host = lost_host.and_then(|lost| {
                    let shipper = copy.as_ref().map(|copy| copy.host.clone());
                    Some(lost).filter(|lost| !lost.is_empty()).or(shipper)
                });
                match copy {
                    Some(copy) => shipped::page(&self.store, &copy, &query).await?,
                    None => Page::default(),
                }
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
            lost_host,
        })
    }
}

impl Domain {
    /// The log of an attempt. `None`: this host has no files of it.
    async fn log(&self, attempt: AttemptId) -> Result<Option<Arc<AttemptLog>>, Refusal> {
        self.world.logs.find(attempt).await.map_err(|error| fault(&error))
    }

    /// Adds the lines that were written before the attempt moved here, which only the copy has. The
    /// normalized channel is complete in every log, so it needs nothing.
    async fn with_earlier(
        &self,
        attempt: AttemptId,
        page: Page,
        channel: Channel,
        query: &Query,
    ) -> Refusable<Page> {
        let is_cut = page.flags.history_truncated || page.flags.oldest.is_none();
        if channel == Channel::Normalized || !is_cut || !self.store.is_shared() {
            return Ok(page);
        }
        match self.store.shipped(attempt, channel).await? {
            Some(copy) => shipped::joined(&self.store, &copy, page, query).await,
            None => Ok(page),
        }
    }

    /// Where the copy of a log ends, and when the executor last wrote. Nothing if the board is not
    /// shared.
    async fn copied_facts(&self, attempt: AttemptId) -> Refusable<(Tip, Option<Timestamp>)> {
        if !self.store.is_shared() {
            return Ok((Tip::default(), None));
        }
        let standing = self.store.standing(&[attempt]).await?;
        let of = |channel| standing.of(attempt, channel);
        let latest = |channel| of(channel).and_then(|copy| copy.next_entry.checked_sub(1));
        let active = |channel| of(channel).and_then(|copy| copy.last_activity_at);
        let last_activity_at = active(Channel::Normalized).max(active(Channel::Raw));
        let (normalized, raw) = (latest(Channel::Normalized), latest(Channel::Raw));
        Ok((Tip { normalized, raw, last_activity_at }, last_activity_at))
    }

    /// Where the log ends and when the executor last wrote. An unreadable log must not hide the status:
    /// it is logged, and the facts are empty.
    pub(super) async fn log_facts(
        &self,
        attempt: AttemptId,
        host: Option<&str>,
    ) -> (Tip, Option<Timestamp>) {
        let facts = async {
            let Some(log) = self.log_at(attempt, host).await? else {
                return self.copied_facts(attempt).await;
            };
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

    /// Where the log ends. An unreadable log must not hide the attempt: it is logged, and the tip is
    /// empty.
    pub(super) async fn log_tip(&self, attempt: AttemptId, host: Option<&str>) -> Tip {
        let tip = async {
            match self.log_at(attempt, host).await? {
                Some(log) => Ok(log.tip()),
                None => Ok::<_, Refusal>(self.copied_facts(attempt).await?.0),
            }
        };
        tip.await.unwrap_or_else(|refusal| {
            tracing::warn!(%attempt, %refusal, "an attempt without its log");
            Tip::default()
        })
    }

    /// The log, if `host`, which has the attempt, is this one.
    async fn log_at(
        &self,
        attempt: AttemptId,
        host: Option<&str>,
    ) -> Refusable<Option<Arc<AttemptLog>>> {
        if host == Some(&self.world.host.id) { self.log(attempt).await } else { Ok(None) }
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
