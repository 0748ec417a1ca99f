//! Ships the logs that have grown: one batch for all attempts of the host, every few seconds and when a
//! process has ended. A round is limited in bytes; what an attempt writes beyond that is shipped by later
//! rounds from the disk.
//!
//! ```text
//!  start: lagging() ─▶ noted ─┐
//!  log grows ─────────────────┴▶ Grown ─every 5 s, or a process ended─▶ ship() ─▶ done
//!                                  ▲                                      │
//!                                  └───── has more, or the store failed ──┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::{AttemptLog, Logs};
use crate::blocking::blocking;
use crate::event::Channel;
use crate::ids::AttemptId;
use crate::log::LogError;
use crate::log::normalized::{Mark, end_offset};
use crate::log::page::{MAX_LIMIT, PagePosition, Query};
use crate::log::shipped::{CHUNK_BYTES, Chunk, Grown, Shipment, Shipped, ShippedLogs};
use crate::refusal::Refusal;
use crate::retry::until_done;

/// The longest time that output is on this host alone, unless a round is full.
const SHIP_EVERY: Duration = Duration::from_secs(5);
/// Most compressed bytes of a round, of all attempts …
const ROUND_BYTES: usize = 4 * 1024 * 1024;
/// … and of one channel.
const CHANNEL_BYTES: usize = 1024 * 1024;

/// Where logs are copied to, and which of them have grown.
pub(super) struct Copying {
    pub rows: Arc<dyn ShippedLogs>,
    pub grown: Arc<Grown>,
}

/// What a channel has from an entry on, as far as a round takes it.
struct Cut {
    chunks: Vec<Chunk>,
    oldest: u64,
    next: Mark,
    has_more: bool,
}

impl Logs {
    /// Ships what the logs of this host's attempts have and the rows lack, and then what they grow by. Never
    /// returns, except at once where logs are not copied.
    pub async fn keep_shipping(&self) {
        let Some(copying) = &self.copying else { return };
        let left = until_done("looking for logs to ship", || self.lagging(&*copying.rows)).await;
        copying.grown.note(left);
        loop {
            tokio::select! {
                () = tokio::time::sleep(SHIP_EVERY) => {}
                () = copying.grown.ended.notified() => {}
            }
            self.ship_grown().await;
        }
    }

    /// One round: ships what has grown. What could not be shipped is noted again.
    pub(in crate::log) async fn ship_grown(&self) {
        let Some(copying) = &self.copying else { return };
        let grown = copying.grown.take();
        if grown.is_empty() {
            return;
        }
        match self.ship(&*copying.rows, &grown).await {
            Ok(left) => copying.grown.note(left),
            Err(refusal) => {
                tracing::warn!(%refusal, "logs are shipped later");
                copying.grown.note(grown);
            }
        }
    }

    /// The attempts of this host whose logs have more than the rows: their daemon ended before it shipped
    /// that.
    async fn lagging(&self, rows: &dyn ShippedLogs) -> Result<Vec<AttemptId>, Refusal> {
        let attempts = rows.of_this_host().await?;
        let standing = rows.standing(&attempts).await?;
        let known = attempts.into_iter().map(|attempt| {
            let copy = standing.of(attempt, Channel::Normalized);
            (attempt, self.dir(attempt), copy.map_or(0, |copy| copy.next_offset))
        });
        let known: Vec<_> = known.collect();
        let looked = blocking(move || {
            let has_more = |(attempt, dir, shipped): (AttemptId, _, u64)| {
                end_offset(dir).ok().flatten().is_some_and(|end| end > shipped).then_some(attempt)
            };
            let lagging = known.iter().map(|(attempt, dir, end)| (*attempt, &**dir, *end));
            Ok::<_, std::io::Error>(lagging.filter_map(has_more).collect())
        });
        looked.await.map_err(|error| Refusal::internal(error.to_string()))
    }

    /// Ships what these attempts' logs have. Returns the attempts that have more, or failed for now.
    async fn ship(
        &self,
        rows: &dyn ShippedLogs,
        attempts: &[AttemptId],
    ) -> Result<Vec<AttemptId>, Refusal> {
        let standing = rows.standing(attempts).await?;
        let (mut shipments, mut left, mut bytes) = (Vec::new(), Vec::new(), 0);
        let share = (ROUND_BYTES / attempts.len().max(1)).min(CHANNEL_BYTES);
        for attempt in attempts {
            if !standing.here.contains(attempt) {
                // Another host continues this log. The open log is closed: if the attempt is moved back,
                // `get` has to bring the copy first.
                self.open.lock().await.remove(attempt);
                continue;
            }
            if bytes >= ROUND_BYTES {
                left.push(*attempt);
                continue;
            }
            for channel in [Channel::Normalized, Channel::Raw] {
                let before = standing.of(*attempt, channel);
                // The copy is of another home's log: only `bring` may take it over.
                if before.is_some_and(|copy| copy.home != standing.home) {
                    continue;
                }
                match self.cut(*attempt, channel, before, share).await {
                    Ok((cut, shipment)) => {
                        bytes += cut;
                        shipments.extend(shipment);
                    }
                    Err(error) => {
                        tracing::warn!(%attempt, %error, "its log is not shipped now");
                        // Damage stays: another try would fail in the same way every five seconds.
                        if !matches!(error, LogError::Damaged(_)) {
                            left.push(*attempt);
                        }
                    }
                }
            }
        }
        let with_more = shipments.iter().filter(|(_, has_more)| *has_more);
        left.extend(with_more.map(|(shipment, _)| shipment.attempt_id));
        let shipments: Vec<Shipment> = shipments.into_iter().map(|(it, _)| it).collect();
        if !shipments.is_empty() {
            rows.ship(&shipments).await?;
        }
        Ok(left)
    }

    /// What the copy of a channel lacks, with its compressed length, and whether there is more.
    /// `None`: the copy lacks nothing.
    async fn cut(
        &self,
        attempt: AttemptId,
        channel: Channel,
        before: Option<&Shipped>,
        room: usize,
    ) -> Result<(usize, Option<(Shipment, bool)>), LogError> {
        let log = self.get(attempt).await?;
        let from = before.map_or(Mark::default(), Shipped::end);
        let oldest = before.map_or(0, |copy| copy.oldest);
        let (cut, last_activity_at) = blocking(move || {
            let cut = match channel {
                Channel::Normalized => log.cut_normalized(from, room)?,
                Channel::Raw => log.cut_raw(from, oldest, room)?,
            };
            Ok::<_, LogError>((cut, log.tip().last_activity_at))
        })
        .await?;
        let Cut { chunks, oldest, next, has_more } = cut;
        if chunks.is_empty() {
            return Ok((0, None));
        }
        let shipment = Shipment {
            attempt_id: attempt,
            channel,
            before: before.cloned(),
            oldest,
            next,
            last_activity_at,
            chunks,
        };
        let bytes = shipment.chunks.iter().map(|chunk| chunk.data.len()).sum();
        Ok((bytes, Some((shipment, has_more))))
    }
}

impl AttemptLog {
    /// Lines of the normalized channel as they are on file, with their origins. Where retention removed what
    /// the copy lacks, the cut begins at the oldest line held.
    fn cut_normalized(&self, from: Mark, room: usize) -> Result<Cut, LogError> {
        let end = self.live.tip().normalized.map_or(0, |latest| latest + 1);
        let oldest = self.normalized.oldest_mark()?.unwrap_or(from);
        let mut at = if from.entry < oldest.entry { oldest } else { from };
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        let mut lines = self.normalized.lines(at.offset);
        while at.entry < end && bytes < room {
            let (first, mut text) = (at, Vec::new());
            while at.entry < end
                && text.len() < CHUNK_BYTES
                && let Some(line) = lines.next_line()?
            {
                text.extend_from_slice(line);
                text.push(b'\n');
                at.entry += 1;
            }
            if text.is_empty() {
                break;
            }
            at.offset += text.len() as u64;
            let chunk = Chunk::of(first, at.entry - first.entry, &text)?;
            bytes += chunk.data.len();
            chunks.push(chunk);
        }
        Ok(Cut { chunks, oldest: oldest.entry, next: at, has_more: at.entry < end })
    }

    /// Raw entries as JSON, cut from the spool; offsets count the text that was shipped, because no file
    /// has it. `oldest` is the copy's: it may have entries of another host, from before this log begins.
    fn cut_raw(&self, from: Mark, oldest: u64, room: usize) -> Result<Cut, LogError> {
        let begin = self.raw.begin()?.unwrap_or(oldest);
        let mut cut = Cut { chunks: Vec::new(), oldest, next: from, has_more: true };
        let mut bytes = 0;
        while cut.has_more && bytes < room {
            let after = i64::try_from(cut.next.entry).unwrap_or(i64::MAX) - 1;
            let place = PagePosition::After(after);
            let query = Query { limit: MAX_LIMIT, max_bytes: CHUNK_BYTES, place };
            let page = self.page(Channel::Raw, &query)?;
            cut.oldest = page.flags.oldest.filter(|held| *held > begin).unwrap_or(oldest);
            cut.has_more = page.flags.has_more;
            let Some((first, last)) = page.entries.first().zip(page.entries.last()) else { break };
            let text: String = page.entries.iter().flat_map(|entry| [entry.json(), "\n"]).collect();
            let first = Mark { entry: first.index, offset: cut.next.offset };
            let chunk = Chunk::of(first, last.index + 1 - first.entry, text.as_bytes())?;
            bytes += chunk.data.len();
            cut.next = chunk.end();
            cut.chunks.push(chunk);
        }
        Ok(cut)
    }
}
