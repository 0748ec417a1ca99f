//! Whether the write-ahead log is whole. SQLite reads the log up to the first frame with a wrong checksum
//! and silently forgets the rest. That is right for frames that a power cut tore, and wrong where answered
//! commits follow the broken frame.
//! The format is that of <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Whether SQLite would forget commits that were complete. One commit behind the first broken frame does
/// not count: it may be the last transaction, which a power cut tore before it was complete.
pub fn loses_commits(log: &[u8]) -> bool {
    let Some((header, frames)) = log.split_at_checked(HEADER) else { return false };
    // A header of zeros: a file system may leave this of a log that was just begun.
    if header.iter().all(|byte| *byte == 0) {
        return false;
    }
    let is_big_endian = header[3] & 1 == 1;
    let mut sum = checksum((0, 0), &header[..24], is_big_endian);
    let page = match number(header, 8) {
        1 => 65_536,
        size => size as usize,
    };
    if !(512..=65_536).contains(&page) || sum != (number(header, 24), number(header, 28)) {
        // SQLite reads no frame of a log with a broken header.
        return frames.len() >= FRAME_HEADER + 512;
    }
    let mut is_whole = true;
    let mut left_out = 0;
    for frame in frames.chunks_exact(FRAME_HEADER + page) {
        let is_of_this_log = frame[8..16] == header[16..24];
        if is_whole {
            sum = checksum(sum, &frame[..8], is_big_endian);
            sum = checksum(sum, &frame[FRAME_HEADER..], is_big_endian);
            is_whole = is_of_this_log && sum == (number(frame, 16), number(frame, 20));
        }
        // A frame that ends a commit carries the size of the database.
        if !is_whole && is_of_this_log && number(frame, 4) > 0 {
            left_out += 1;
        }
    }
    left_out > 1
}

/// Whether the write-ahead log beside a database loses commits. Blocks. No process may be writing the
/// database meanwhile.
pub fn is_damaged(database: &Path) -> bool {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    std::fs::read(log).is_ok_and(|log| loses_commits(&log))
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// SQLite's checksum: over pairs of words, each in the byte order that the log's magic number states.
fn checksum(seed: (u32, u32), bytes: &[u8], is_big_endian: bool) -> (u32, u32) {
    let word = |at: &[u8]| {
        let word = number(at, 0);
        if is_big_endian { word } else { word.swap_bytes() }
    };
    bytes.chunks_exact(8).fold(seed, |(one, two), pair| {
        let one = one.wrapping_add(word(&pair[..4])).wrapping_add(two);
        (one, two.wrapping_add(word(&pair[4..])).wrapping_add(one))
    })
}

#[cfg(test)]
mod tests {
    use sqlx::{ConnectOptions, Connection};

    use super::*;

    /// The log of ten commits, and the length of a frame.
    async fn log() -> (Vec<u8>, usize) {
        let dir = tempfile::tempdir().unwrap();
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(dir.path().join("db"))
            .create_if_missing(true)
            .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal);
        let mut connection = options.connect().await.unwrap();
        sqlx::query("CREATE TABLE t (n)").execute(&mut connection).await.unwrap();
        for n in 0..10 {
            sqlx::query("INSERT INTO t VALUES ($1)")
                .bind(n)
                .execute(&mut connection)
                .await
                .unwrap();
        }
        let log = std::fs::read(dir.path().join("db-wal")).unwrap();
        connection.close().await.unwrap();
        (log, FRAME_HEADER + 4096)
    }

    #[tokio::test]
    async fn a_whole_log_and_one_torn_at_its_end_lose_nothing() {
        let (log, frame) = log().await;
        assert!(!loses_commits(&log));
        for cut in [0, 1, HEADER, HEADER + 7, log.len() - frame, log.len() - 1] {
            assert!(!loses_commits(&log[..cut]), "{cut}");
        }
        let mut torn = log.clone();
        let last = torn.len() - 100;
        torn[last] ^= 1;
        assert!(!loses_commits(&torn));
        assert!(!loses_commits(&vec![0; log.len()]));
    }

    #[tokio::test]
    async fn a_byte_flipped_before_other_commits_is_seen_wherever_it_is() {
        let (log, frame) = log().await;
        let place = HEADER + frame * 3;
        for at in [0, 9, 25, HEADER, place, place + 5, place + 9, place + 17, place + 1000] {
            let mut flipped = log.clone();
            flipped[at] ^= 0x10;
            assert!(loses_commits(&flipped), "{at}");
        }
    }

    #[tokio::test]
    async fn what_an_earlier_round_left_behind_the_end_is_no_loss() {
        let (mut log, frame) = log().await;
        let end = HEADER + frame * 4;
        for stale in log[end..].chunks_exact_mut(frame) {
            stale[8] ^= 1;
        }
        assert!(!loses_commits(&log));
    }
}
