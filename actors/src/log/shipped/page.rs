//! Pages of a copy, by the same rules as those of a log on file; and pages of a log that continues the copy
//! of another host.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Shipped, ShippedLogs};
use crate::log::page::{Query, collect, plan};
use crate::log::ring::Entry;
use crate::log::{LogError, Page, PagePosition};
use crate::refusal::Refusal;

/// A page of a copy. Reads about as many chunks as the page needs.
///
/// # Errors
/// `internal` if the copy lacks an entry that it should have, or is damaged.
pub async fn page(rows: &dyn ShippedLogs, copy: &Shipped, query: &Query) -> Result<Page, Refusal> {
    let mut oldest = copy.oldest;
    loop {
        let held = oldest.min(copy.next_entry)..copy.next_entry;
        let entry = match page_of(rows, copy, held, query).await? {
            Ok(page) => return Ok(page),
            Err(missing) => missing,
        };
        // Entries may have been removed since the copy was looked up. Try again only if the copy begins
        // later now: else the entry is missing for good.
        let standing = rows.standing(&[copy.attempt_id]).await?;
        let now = standing.of(copy.attempt_id, copy.channel).map_or(0, |copy| copy.oldest);
        if now <= oldest {
            return Err(Refusal::internal(format!("the copy of the log lacks entry {entry}")));
        }
        oldest = now;
    }
}

/// The page, or the number of the entry that the rows lack. Reads chunks until `cut` is satisfied.
async fn page_of(
    rows: &dyn ShippedLogs,
    copy: &Shipped,
    held: Range<u64>,
    query: &Query,
) -> Result<Result<Page, u64>, Refusal> {
    let range = plan(&held, query);
    let is_forward = matches!(query.place, PagePosition::After(_));
    let mut read = BTreeMap::new();
    loop {
        let missing = match cut(&read, &held, &range, query) {
            Ok(page) => return Ok(Ok(page)),
            Err(Missing::Entry(entry)) => entry,
            Err(Missing::Other(error)) => return Err(Refusal::internal(error.to_string())),
        };
        let wanted = if is_forward { missing..range.end } else { range.start..missing + 1 };
        let chunks = rows.chunks(copy.attempt_id, copy.channel, wanted, !is_forward).await?;
        for chunk in chunks {
            let entries = chunk.entries().map_err(|error| Refusal::internal(error.to_string()))?;
            read.extend(entries.into_iter().map(|entry| (entry.index, entry)));
        }
        if !read.contains_key(&missing) {
            return Ok(Err(missing));
        }
    }
}

/// A page of a log that continues the log of another host. `here` is the page that the log on this host
/// gives; the copy has the entries before its oldest. Never mixes both: a page ends at the boundary.
pub async fn joined(
    rows: &dyn ShippedLogs,
    copy: &Shipped,
    here: Page,
    query: &Query,
) -> Result<Page, Refusal> {
    let latest = here.flags.latest;
    let begin = here.flags.oldest.or(latest.map(|latest| latest + 1)).unwrap_or(0);
    if copy.oldest >= begin {
        return Ok(here);
    }
    let is_forward = matches!(query.place, PagePosition::After(_));
    let is_earlier = match query.place {
        PagePosition::After(after) => {
            after.saturating_add(1) < i64::try_from(begin).unwrap_or(i64::MAX)
        }
        PagePosition::Before(cursor) => cursor <= begin,
        PagePosition::Newest => here.entries.is_empty(),
    };
    if is_earlier {
        let earlier = Shipped { next_entry: copy.next_entry.min(begin), ..copy.clone() };
        let mut there = page(rows, &earlier, query).await?;
        there.flags.has_more |= is_forward && latest.is_some_and(|latest| latest >= begin);
        there.flags.latest = latest;
        return Ok(there);
    }
    let mut page = here;
    let first = page.entries.first().map(|entry| entry.index).filter(|_| !is_forward);
    page.flags.next_cursor = first.filter(|first| *first > copy.oldest);
    page.flags.has_more =
        if is_forward { page.flags.has_more } else { page.flags.next_cursor.is_some() };
    page.flags.history_truncated = copy.oldest > 0;
    page.flags.oldest = Some(copy.oldest);
    Ok(page)
}

/// Why a page can't be cut yet.
enum Missing {
    Entry(u64),
    Other(LogError),
}

/// The page, if the entries read so far suffice; else the number of the entry that is needed next.
fn cut(
    read: &BTreeMap<u64, Entry>,
    held: &Range<u64>,
    range: &Range<u64>,
    query: &Query,
) -> Result<Page, Missing> {
    let is_forward = matches!(query.place, PagePosition::After(_));
    let missing = std::cell::Cell::new(None);
    let block = |entry: u64, _: &Range<u64>| {
        let mut run: Vec<Entry> = if is_forward {
            let run = read.range(entry..).zip(entry..);
            run.take_while(|((index, _), due)| *index == due)
                .map(|((_, it), _)| it.clone())
                .collect()
        } else {
            let run = read.range(..=entry).rev().zip((0..=entry).rev());
            run.take_while(|((index, _), due)| *index == due)
                .map(|((_, it), _)| it.clone())
                .collect()
        };
        if run.is_empty() {
            missing.set(Some(entry));
            return Err(LogError::Outrun);
        }
        if !is_forward {
            run.reverse();
        }
        Ok(run)
    };
    match collect(block, held, range.clone(), query) {
        Ok((entries, flags)) => Ok(Page { entries, flags, in_progress: None }),
        Err(error) => Err(missing.get().map_or(Missing::Other(error), Missing::Entry)),
    }
}
