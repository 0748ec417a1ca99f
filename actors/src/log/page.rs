//! Which entries a page holds: the cursor logic of both channels. Pure.
//!
//! A channel holds the entries `oldest..next`. A page without a position has the newest of them; a page
//! with a cursor has the entries before it. Both are filled from their new end. A page after an entry is
//! filled from its old end. Entries are in ascending order on every page.
//!
//! [`plan`] chooses the numbers by the count alone; [`collect`] reads them, and stops at the byte limit.

use std::ops::Range;

use super::LogError;
use super::ring::Entry;

/// Most entries of one page; a larger limit is lowered to it.
pub const MAX_LIMIT: usize = 1000;

/// What a caller wants of a channel: where, how many entries, how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// At most so many entries; taken as 1 to [`MAX_LIMIT`].
    pub limit: usize,
    /// At most so many bytes of compact JSON, counted as one array of the entries; a page
    /// holds one entry even when that alone is larger.
    pub max_bytes: usize,
    pub place: PagePosition,
}

/// Which end of the channel, or which side of an entry, a page begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePosition {
    Newest,
    /// Before this entry: the cursor of an earlier page. A cursor beyond the newest entry gives an empty
    /// page.
    Before(u64),
    /// After this entry; -1 is before the first.
    After(i64),
}

/// What a page says of its channel beside the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The cursor of the page before this one; `None` when nothing older is held.
    pub next_cursor: Option<u64>,
    /// More entries are held: newer ones for [`PagePosition::After`], older ones for the other positions.
    pub has_more: bool,
    /// Entries before `oldest` existed and are not held: retention removed them.
    pub history_truncated: bool,
    /// Number of the oldest entry held; `None` when none is held.
    pub oldest: Option<u64>,
    /// Number of the newest entry there ever was; `None` before the first.
    pub latest: Option<u64>,
}

/// The numbers that a page may hold by its position and limit, of a channel that holds `held`. Empty where
/// the position is outside of that.
pub fn plan(held: &Range<u64>, query: &Query) -> Range<u64> {
    let limit = query.limit.clamp(1, MAX_LIMIT) as u64;
    let before = |end: u64| {
        let end = end.max(held.start);
        end.saturating_sub(limit).max(held.start)..end
    };
    match query.place {
        PagePosition::Newest => before(held.end),
        PagePosition::Before(cursor) if cursor <= held.end => before(cursor),
        PagePosition::Before(_) => before(held.start),
        PagePosition::After(after) => {
            let start = u64::try_from(after.saturating_add(1)).unwrap_or(0);
            let start = start.clamp(held.start, held.end);
            start..start.saturating_add(limit).min(held.end)
        }
    }
}

/// Reads the entries of the planned `range` that fit into the query's bytes. `block(entry, wanted)` gives
/// a run of consecutive entries that contains `entry`; it may leave out entries that are not `wanted`.
///
/// # Errors
/// `Outrun` when a block has none of the entries that are left: retention removed them since `plan`.
pub fn collect(
    block: impl Fn(u64, &Range<u64>) -> Result<Vec<Entry>, LogError>,
    held: &Range<u64>,
    range: Range<u64>,
    query: &Query,
) -> Result<(Vec<Entry>, Flags), LogError> {
    let is_forward = matches!(query.place, PagePosition::After(_));
    let (mut page, start, mut left) = (Vec::<Entry>::new(), range.start, range);
    // One byte for the array's bracket; each entry counts with its comma.
    let mut room = query.max_bytes.saturating_sub(1);
    'page: while !left.is_empty() {
        let mut entries = block(if is_forward { left.start } else { left.end - 1 }, &left)?;
        entries.retain(|entry| left.contains(&entry.index));
        if !is_forward {
            entries.reverse();
        }
        let last = entries.last().ok_or(LogError::Outrun)?.index;
        left = if is_forward { last + 1..left.end } else { left.start..last };
        for entry in entries {
            let size = entry.json().len() + 1;
            if !page.is_empty() && size > room {
                break 'page;
            }
            room = room.saturating_sub(size);
            page.push(entry);
        }
    }
    if !is_forward {
        page.reverse();
    }
    let taken = match (page.first(), page.last()) {
        (Some(first), Some(last)) => first.index..last.index + 1,
        _ => start..start,
    };
    let is_older_held = !taken.is_empty() && taken.start > held.start;
    let flags = Flags {
        next_cursor: (is_older_held && !is_forward).then_some(taken.start),
        has_more: if is_forward { taken.end < held.end } else { is_older_held },
        history_truncated: held.start > 0,
        oldest: (!held.is_empty()).then_some(held.start),
        latest: held.end.checked_sub(1),
    };
    Ok((page, flags))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A channel whose entries have these sizes, in blocks of 7.
    #[derive(Debug)]
    struct Sizes {
        held: Range<u64>,
        sizes: Vec<usize>,
    }

    impl Sizes {
        fn json(&self, index: u64) -> String {
            let at = usize::try_from(index).unwrap() % self.sizes.len();
            format!("\"{}\"", "x".repeat(self.sizes[at]))
        }

        fn page(&self, query: &Query) -> (Vec<u64>, Flags) {
            let range = plan(&self.held, query);
            let block = |entry, wanted: &Range<u64>| self.block(entry, wanted.end);
            let (page, flags) = collect(block, &self.held, range.clone(), query).unwrap();
            let indexes: Vec<u64> = page.iter().map(|entry| entry.index).collect();
            let has_hole = indexes.windows(2).any(|pair| pair[0] + 1 != pair[1]);
            assert!(!has_hole, "{indexes:?}");
            assert!(indexes.len() <= query.limit);
            assert_eq!(indexes.is_empty(), range.is_empty(), "one entry always fits");
            let json = serde_json::to_string(&page).unwrap();
            assert!(indexes.len() <= 1 || json.len() <= query.max_bytes);
            (indexes, flags)
        }
    }

    impl Sizes {
        fn block(&self, entry: u64, below: u64) -> Result<Vec<Entry>, LogError> {
            assert!(self.held.contains(&entry));
            let first = entry / 7 * 7;
            (first..below.min(first + 7))
                .map(|index| Ok(Entry::from_json(index, self.json(index))?))
                .collect()
        }
    }

    fn query(limit: usize, max_bytes: usize, place: PagePosition) -> Query {
        Query { limit, max_bytes, place }
    }

    fn channel() -> impl Strategy<Value = Sizes> {
        (0..60_u64, 0..60_u64, prop::collection::vec(0..80_usize, 1..20))
            .prop_map(|(oldest, count, sizes)| Sizes { held: oldest..oldest + count, sizes })
    }

    proptest! {
        #[test]
        fn walking_back_from_the_newest_sees_all_that_is_held_once(
            channel in channel(), limit in 1..30_usize, max_bytes in 1..500_usize,
        ) {
            let mut seen: Vec<u64> = Vec::new();
            let mut place = PagePosition::Newest;
            loop {
                let (page, flags) = channel.page(&query(limit, max_bytes, place));
                seen.splice(0..0, page);
                prop_assert_eq!(flags.has_more, flags.next_cursor.is_some());
                prop_assert_eq!(flags.history_truncated, channel.held.start > 0);
                match flags.next_cursor {
                    Some(cursor) => place = PagePosition::Before(cursor),
                    None => break,
                }
            }
            prop_assert!(seen.into_iter().eq(channel.held.clone()));
        }

        #[test]
        fn polling_after_the_latest_sees_each_entry_once_while_they_arrive(
            mut channel in channel(),
            polls in prop::collection::vec((0..12_u64, 0..3_u64, 1..30_usize, 1..500_usize), 1..40),
        ) {
            let first = channel.held.start;
            let mut seen: Vec<u64> = Vec::new();
            let mut after = -1;
            let mut is_all_seen = false;
            for (arrived, removed, limit, max_bytes) in polls {
                channel.held.end += arrived;
                // Retention may take what was seen already.
                let oldest = (channel.held.start + removed).min(u64::try_from(after + 1).unwrap());
                channel.held.start = channel.held.start.max(oldest);
                let (page, flags) = channel.page(&query(limit, max_bytes, PagePosition::After(after)));
                seen.extend(page);
                prop_assert_eq!(flags.next_cursor, None);
                is_all_seen = !flags.has_more;
                after = seen.last().map_or(after, |last| i64::try_from(*last).unwrap());
            }
            let end = if is_all_seen { channel.held.end } else { first + seen.len() as u64 };
            prop_assert!(seen.into_iter().eq(first..end));
        }
    }

    #[test]
    fn a_place_out_of_range_is_an_empty_page() {
        let channel = Sizes { held: 5..10, sizes: vec![1] };
        for place in [
            PagePosition::Before(0),
            PagePosition::Before(5),
            PagePosition::Before(11),
            PagePosition::Before(u64::MAX),
            PagePosition::After(9),
            PagePosition::After(10),
            PagePosition::After(i64::MAX),
        ] {
            let (page, flags) = channel.page(&query(3, 1000, place));
            assert_eq!(page, [0; 0], "{place:?}");
            assert_eq!((flags.next_cursor, flags.has_more), (None, false), "{place:?}");
            assert_eq!((flags.oldest, flags.latest), (Some(5), Some(9)));
        }
    }

    #[test]
    fn what_lies_before_the_history_begins_with_its_oldest_entry() {
        let channel = Sizes { held: 5..10, sizes: vec![1] };
        for after in [i64::MIN, -1, 0, 4] {
            let (page, flags) = channel.page(&query(3, 1000, PagePosition::After(after)));
            assert_eq!((page, flags.has_more), (vec![5, 6, 7], true));
        }
        assert_eq!(channel.page(&query(3, 1000, PagePosition::Before(7))).0, [5, 6]);
    }

    #[test]
    fn an_empty_channel_says_so() {
        let (page, flags) =
            Sizes { held: 0..0, sizes: vec![1] }.page(&query(3, 1000, PagePosition::Newest));
        let nothing = Flags {
            next_cursor: None,
            has_more: false,
            history_truncated: false,
            oldest: None,
            latest: None,
        };
        assert_eq!((page, flags), (vec![], nothing));
    }
}
