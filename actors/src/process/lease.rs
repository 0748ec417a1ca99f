//! The lease of this host, as its daemon and its shims share it: one record in a file of the home.
//!
//! ```text
//!  daemon: renews in the database ──renewed──▶ ┌ file: until, fences, boot, check ┐
//!          loses the host ──────────fence────▶ └──────────────┬───────────────────┘
//!                                                             ▼ read by every shim (`shim/fence.rs`)
//!               more fences than at the start ─▶ Fenced: kill
//!               this boot, and `until` to come ─▶ Good
//!               else ──────────────────────────▶ Late: freeze, kill or run on, as configured
//! ```
//!
//! Every shim reads the file by itself, so the fence also works while the daemon hangs or is dead. Times are
//! of CLOCK_BOOTTIME: it continues while the machine is suspended, and can't be set.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::proc;
use crate::blocking::lock;

/// Bytes of the record: five little-endian words of 8 bytes.
const SIZE: usize = 40;
/// Part of the check word, so that a file of zeros is no record.
const MAGIC: u64 = u64::from_le_bytes(*b"prov-lse");
/// How often a record is read again whose check word does not match: the daemon may be writing it.
const READS: u32 = 100;
/// The pause between two looks of [`Lease::good`] at a lease that is late.
const AGAIN: Duration = Duration::from_millis(20);

/// Until when the processes of this host may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// In nanoseconds of [`now`].
    pub until: u64,
    /// How often this home was fenced. The shims kill what was started before the last fence.
    pub fences: u64,
    /// The boot to whose clock `until` belongs.
    pub boot: u128,
}

/// The lease under which a process was started; part of its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedUnder {
    pub file: PathBuf,
    /// [`Record::fences`] at the start of the process.
    pub fences: u64,
}

/// What a record means for one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// It may run until then, in nanoseconds of [`now`].
    Good { until: u64 },
    /// The lease was not renewed in time; or the file can't be read, or is of another boot.
    Late,
    /// The home was fenced after the process had been started: another host may run its attempt.
    Fenced,
}

/// Nanoseconds since the boot, suspended time included.
pub fn now() -> u64 {
    nanoseconds(ClockId::Boottime)
}

/// For how many nanoseconds this machine was suspended since its boot.
pub fn suspended() -> u64 {
    // Read in this order, the difference is never too large.
    let boottime = nanoseconds(ClockId::Boottime);
    boottime.saturating_sub(nanoseconds(ClockId::Monotonic))
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let (secs, nanos) = (now.tv_sec.cast_unsigned(), now.tv_nsec.cast_unsigned());
    secs.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// The id of this boot as a number, as in [`Record::boot`]; 0: it can't be read.
pub fn boot() -> u128 {
    let id = proc::boot_id().unwrap_or_default().replace('-', "");
    u128::from_str_radix(&id, 16).unwrap_or_default()
}

impl Record {
    /// The record and a check word. The file is written in place, so a reader may see a part of a new record.
    fn encode(self) -> [u8; SIZE] {
        let [low, high] = halves(self.boot);
        let words = [self.until, self.fences, low, high, self.check()];
        let mut bytes = [0; SIZE];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None`: the check word does not match: the bytes are no record, or only a part of one was written yet.
    fn decode(bytes: &[u8; SIZE]) -> Option<Self> {
        let mut words = [0; 5];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [until, fences, low, high, check] = words;
        let record = Self { until, fences, boot: u128::from(low) | u128::from(high) << 64 };
        (record.check() == check).then_some(record)
    }

    fn check(self) -> u64 {
        let [low, high] = halves(self.boot);
        MAGIC ^ self.until.rotate_left(1) ^ self.fences.rotate_left(32) ^ low ^ high.rotate_left(7)
    }

    /// What the record that was found means for a process that was started after so many fences, at a time of
    /// this boot. A fence counts even if the record is of another boot. Pure.
    pub fn standing(found: Option<Self>, fences: u64, boot: u128, now: u64) -> LeaseState {
        match found {
            Some(record) if record.fences > fences => LeaseState::Fenced,
            Some(record) if record.boot == boot && record.until > now => {
                LeaseState::Good { until: record.until }
            }
            _ => LeaseState::Late,
        }
    }

    fn read(file: &File) -> Option<Self> {
        let mut bytes = [0; SIZE];
        (0..READS).find_map(|_| {
            file.read_exact_at(&mut bytes, 0).ok()?;
            Self::decode(&bytes)
        })
    }

    /// The record of a file; `None`: there is no file, or no whole record in it.
    pub fn of(file: &Path) -> Option<Self> {
        Self::read(&File::open(file).ok()?)
    }
}

fn halves(boot: u128) -> [u64; 2] {
    [boot, boot >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or_default())
}

impl StartedUnder {
    /// Reads the file, and tells what it means for this process now. `boot`: [`boot`], read once at the
    /// start.
    pub fn standing(&self, boot: u128) -> LeaseState {
        Record::standing(Record::of(&self.file), self.fences, boot, now())
    }
}

/// The daemon's side. Only one process writes the file: the daemon that holds the lock of the home.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    file: File,
    record: Mutex<Record>,
}

impl Lease {
    /// Opens or makes the file, without a change of its content. Keeps the count of fences that it finds.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path)?;
        let found = Record::read(&file).unwrap_or_default();
        let mine = Record { boot: boot(), ..found };
        // A time of another boot can't be compared.
        let until = if found.boot == mine.boot { found.until } else { 0 };
        Ok(Self { path, file, record: Mutex::new(Record { until, ..mine }) })
    }

    /// Writes that the database has renewed the lease for `length`. `asked`: the time ([`now`]) just before
    /// the request was sent, so that the record never ends after the database's lease. It ends one sixth
    /// earlier: that time is left to freeze or kill the trees.
    pub fn renewed(&self, asked: u64, length: Duration) -> io::Result<()> {
        let use_of_it = u64::try_from((length / 6 * 5).as_nanos()).unwrap_or(u64::MAX);
        self.change(|record| record.until = asked.saturating_add(use_of_it))
    }

    /// Makes all shims kill what was started until now. Processes that are started later name the new count.
    pub fn fence(&self) -> io::Result<()> {
        self.change(|record| (record.until, record.fences) = (0, record.fences + 1))
    }

    fn change(&self, change: impl FnOnce(&mut Record)) -> io::Result<()> {
        let mut record = lock(&self.record);
        change(&mut record);
        self.file.write_all_at(&record.encode(), 0)
    }

    /// For the manifest of a process that is started now.
    pub fn under(&self) -> StartedUnder {
        StartedUnder { file: self.path.clone(), fences: lock(&self.record).fences }
    }

    /// Waits until the lease is good, without a limit of time. Before that, a shim refuses to start its
    /// program.
    pub async fn good(&self) {
        while lock(&self.record).until <= now() {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_until_when_and_for_whom() {
        let record = Record { until: 100, fences: 2, boot: 7 };
        let standing = |fences, boot, now| Record::standing(Some(record), fences, boot, now);
        assert_eq!(standing(2, 7, 99), LeaseState::Good { until: 100 });
        assert_eq!(standing(2, 7, 100), LeaseState::Late);
        assert_eq!(standing(2, 8, 99), LeaseState::Late, "another boot's clock");
        // Also one that missed the fence, and sees only the lease after it.
        assert_eq!(standing(1, 7, 99), LeaseState::Fenced);
        // The file was lost, and a new one counts from the beginning.
        assert_eq!(standing(3, 7, 99), LeaseState::Good { until: 100 });
        assert_eq!(Record::standing(None, 0, 7, 0), LeaseState::Late);
    }

    #[test]
    fn half_a_record_is_none() {
        let record = Record { until: u64::MAX - 5, fences: 3, boot: u128::MAX / 3 };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        let later = Record { until: 17, ..record }.encode();
        let mut torn = bytes;
        torn[..4].copy_from_slice(&later[..4]);
        assert_eq!(Record::decode(&torn), None);
        assert_eq!(Record::decode(&[0; SIZE]), None);
    }

    #[test]
    fn a_lease_is_what_its_file_says_and_fences_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lease");
        let lease = Lease::open(path.clone()).unwrap();
        let (old, boot) = (lease.under(), boot());
        assert_eq!(old.standing(boot), LeaseState::Late);
        lease.renewed(now(), Duration::from_mins(1)).unwrap();
        assert!(matches!(old.standing(boot), LeaseState::Good { .. }));
        lease.fence().unwrap();
        let lease = Lease::open(path).unwrap();
        lease.renewed(now(), Duration::from_mins(1)).unwrap();
        assert_eq!(old.standing(boot), LeaseState::Fenced);
        assert!(matches!(lease.under().standing(boot), LeaseState::Good { .. }));
    }
}
