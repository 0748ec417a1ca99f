//! The newest entries of a channel in memory, so that following an attempt needs no file.
//! Pure.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

/// An entry of either channel, in the compact JSON that clients get. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Entry {
    pub index: u64,
    /// Shared by entries that were written together.
    text: Arc<String>,
    /// Where its JSON is in `text`.
    place: Range<usize>,
}

impl Entry {
    /// An entry of a value, written as compact JSON.
    pub fn new<T: Serialize>(index: u64, entry: &T) -> io::Result<Self> {
        Ok(Self::whole(index, serde_json::to_string(entry)?))
    }

    /// An entry of JSON that is taken as it is.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn from_json(index: u64, json: String) -> io::Result<Self> {
        serde_json::from_str::<&RawValue>(&json)?;
        Ok(Self::whole(index, json))
    }

    /// Entries from number `first` on. Their JSON is at these places of `lines`, which all of them share:
    /// one allocation for a batch.
    pub fn of_lines(first: u64, mut lines: String, places: Vec<Range<usize>>) -> Vec<Self> {
        lines.shrink_to_fit();
        let text = Arc::new(lines);
        let entries = (first..).zip(places);
        entries.map(|(index, place)| Self { index, text: Arc::clone(&text), place }).collect()
    }

    fn whole(index: u64, json: String) -> Self {
        Self { index, place: 0..json.len(), text: Arc::new(json) }
    }

    /// The entry as clients get it, without a line ending.
    pub fn json(&self) -> &str {
        &self.text[self.place.clone()]
    }

    /// Reads the JSON as a value of another form, such as one without the event.
    pub fn parse<T: de::DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.json())
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json: &RawValue = serde_json::from_str(self.json()).map_err(ser::Error::custom)?;
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Index {
            entry_index: u64,
        }
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let Index { entry_index: index } =
            serde_json::from_str(json.get()).map_err(de::Error::custom)?;
        Ok(Self::whole(index, String::from(Box::<str>::from(json))))
    }
}

/// Entries are equal whose JSON is the same, byte for byte.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

/// The newest entries of a channel, consecutive, and within two limits.
pub struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Number of the next entry, also while the ring is empty.
    pub next: u64,
    max_entries: usize,
    max_bytes: usize,
}

impl Ring {
    /// An empty ring before entry `next`, with two limits; `max_bytes` counts JSON.
    pub fn new(next: u64, max_entries: usize, max_bytes: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, next, max_entries, max_bytes }
    }

    /// Makes `next` the number of the next entry. Unless it is that already, the entries are dropped: those
    /// before a jump do not belong to the run that follows.
    pub fn reset(&mut self, next: u64) {
        if next != self.next {
            self.entries.clear();
            self.bytes = 0;
            self.next = next;
        }
    }

    /// Adds the newest entry, and drops the oldest ones that are beyond the limits: all, if this one alone
    /// is.
    pub fn push(&mut self, entry: Entry) {
        self.reset(entry.index);
        self.next += 1;
        self.bytes += entry.json().len();
        self.entries.push_back(entry);
        while self.entries.len() > self.max_entries || self.bytes > self.max_bytes {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.json().len();
        }
    }

    /// The entries with these numbers; `None` unless all of them are held. An empty range at the end is
    /// held.
    pub fn get(&self, range: &Range<u64>) -> Option<Vec<Entry>> {
        let first = self.next - self.entries.len() as u64;
        let start = usize::try_from(range.start.checked_sub(first)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(first)?).ok()?;
        let is_here = start <= end && end <= self.entries.len();
        is_here.then(|| self.entries.range(start..end).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(entries: Range<u64>, max_entries: usize, max_bytes: usize) -> Ring {
        let mut ring = Ring::new(entries.start, max_entries, max_bytes);
        entries.for_each(|index| ring.push(Entry::new(index, &"12345678").unwrap()));
        ring
    }

    fn held(ring: &Ring, range: Range<u64>) -> Option<Vec<u64>> {
        ring.get(&range).map(|entries| entries.iter().map(|entry| entry.index).collect())
    }

    #[test]
    fn a_ring_holds_the_newest_entries_within_both_limits() {
        let by_entries = ring(5..100, 3, 1000);
        assert_eq!(held(&by_entries, 97..100), Some(vec![97, 98, 99]));
        assert_eq!(held(&by_entries, 96..100), None);
        let by_bytes = ring(5..100, 1000, 25);
        assert_eq!(held(&by_bytes, 98..100), Some(vec![98, 99]));
        assert_eq!(held(&by_bytes, 97..99), None);
        assert_eq!(held(&by_bytes, 99..101), None);
        assert_eq!(by_bytes.next, 100);
    }

    #[test]
    fn an_entry_larger_than_the_ring_leaves_it_empty() {
        let ring = ring(0..3, 10, 5);
        assert_eq!((held(&ring, 2..3), held(&ring, 3..3), ring.next), (None, Some(vec![]), 3));
    }

    #[test]
    fn numbers_left_out_empty_the_ring() {
        let mut ring = ring(0..3, 10, 1000);
        ring.push(Entry::new(7, &"after").unwrap());
        assert_eq!((held(&ring, 2..3), held(&ring, 7..8)), (None, Some(vec![7])));
    }
}
