//! What a proxy has decided. One small file has the counts and the newest refusals, and is replaced at each
//! decision. A log has all decisions; its oldest ones are dropped.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use provost_actors::event::Timestamp;
use provost_actors::sandbox::{Decisions, RefusedHost};
use serde_json::json;

/// The log in the process's folder. The previous one has the same name and `.1`.
const LOG: &str = "network.log";
/// Bytes of a log beyond which the next one begins.
const LOG_MAX: u64 = 1024 * 1024;
/// The most characters that are kept of a host: a program may ask for any text.
const HOST_MAX: usize = 300;

/// Why a connection was refused (the words that follow the host), and the line of a list that would allow it.
/// `allow` is `None` if no line would, or if no person is to be asked.
pub struct Refusal {
    pub reason: String,
    pub allow: Option<String>,
}

/// The decisions of one proxy, in memory and in its folder.
pub struct Record {
    folder: PathBuf,
    decisions: Decisions,
}

impl Record {
    /// Begins with no decisions, and writes no file before the first one.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, decisions: Decisions::default() }
    }

    /// Records a decision about a host with its port. Best effort: if the disk is full, connections still
    /// work.
    pub fn keep(&mut self, host: &str, decided: &Result<(), Refusal>) {
        let (at, host) = (Timestamp::now(), host.chars().take(HOST_MAX).collect::<String>());
        let refused = decided.as_ref().err();
        let line = json!({ "at": at, "host": host, "refused": refused.map(|it| &it.reason) });
        match decided {
            Ok(()) => self.decisions.allowed += 1,
            Err(Refusal { reason, allow }) => {
                self.decisions.refused += 1;
                let newest = &mut self.decisions.newest_refusals;
                let (reason, allow) = (reason.clone(), allow.clone());
                newest.insert(0, RefusedHost { at, host, reason, allow });
                newest.truncate(Decisions::NEWEST);
            }
        }
        let _ = self.append(&line.to_string()).and_then(|()| self.write());
    }

    /// Adds a line to the log. A full log takes the place of the previous one.
    fn append(&self, line: &str) -> io::Result<()> {
        let path = self.folder.join(LOG);
        if fs::metadata(&path).is_ok_and(|it| it.len() > LOG_MAX) {
            fs::rename(&path, self.folder.join(format!("{LOG}.1")))?;
        }
        let mut log = File::options().append(true).create(true).mode(0o600).open(path)?;
        log.write_all(format!("{line}\n").as_bytes())
    }

    /// Replaces the file by a rename, so that readers see it whole at any moment. The daemon also waits for
    /// the rename (inotify(7)) to learn of a refusal.
    fn write(&self) -> io::Result<()> {
        let path = self.folder.join(Decisions::FILE);
        let new = path.with_extension("new");
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&self.decisions)?)?;
        fs::rename(new, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_and_refusals_and_logs_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::new(folder.path().to_owned());
        record.keep("example.com:443", &Ok(()));
        let long = "x".repeat(10_000);
        for number in 0..5000 {
            let refusal = Refusal { reason: "is not allowed".to_owned(), allow: None };
            record.keep(&format!("{number}.{long}"), &Err(refusal));
        }
        let bytes = fs::read(folder.path().join(Decisions::FILE)).unwrap();
        let kept: Decisions = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((kept.allowed, kept.refused), (1, 5000));
        assert_eq!(kept.newest_refusals.len(), Decisions::NEWEST);
        assert!(kept.newest_refusals[0].host.starts_with("4999.x"));
        assert_eq!(kept.newest_refusals[0].host.len(), HOST_MAX);
        let sizes = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().metadata().unwrap());
        assert!(sizes.map(|it| it.len()).sum::<u64>() < 3 * LOG_MAX);
    }
}
