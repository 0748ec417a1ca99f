//! The audit log of a home: who changed what, when and from where. It is a file of JSON lines that the
//! daemon only appends to. Each change has two lines, so that a change that was cut off is visible: it
//! has no second line. The log names tools and ids, never texts or secrets. Provost keeps every line: a
//! full file is renamed with its time.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use provost_actors::blocking::lock;
use provost_actors::event::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The log's name in the home.
pub const FILE: &str = "audit.jsonl";
/// A file that has reached this size, in bytes, is renamed, and a new one begins.
const FULL: u64 = 64 * 1024 * 1024;

/// True if a file name in a home is one of a full log: `audit-<milliseconds since 1970>.jsonl`.
pub fn is_full_log(name: &str) -> bool {
    name.strip_prefix("audit-").and_then(|rest| rest.strip_suffix(".jsonl")).is_some()
}

/// A line of the log. `change` joins the two lines of one change.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Line {
    Begin {
        at: Timestamp,
        change: Uuid,
        /// A user of the HTTP face, an attempt, or the name that the client gave itself.
        who: String,
        /// How the caller is connected: the socket with its process, a network address, or another host.
        from: String,
        /// The tool or the method.
        what: String,
        /// The ids among its arguments.
        #[serde(default)]
        of: serde_json::Map<String, serde_json::Value>,
    },
    End {
        at: Timestamp,
        change: Uuid,
        /// `done`, or the code of its refusal.
        outcome: String,
    },
}

/// The log of one home. The file is opened with the first line, and again after each renaming.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl AuditLog {
    /// Opens nothing yet.
    pub fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE), file: Mutex::default() }
    }

    /// Appends a line. The kernel has the line when this returns, so the line outlives the daemon, but
    /// not a loss of power. An error does not stop the change: it goes to the daemon's own log.
    pub fn append(&self, line: &Line) {
        if let Err(error) = self.write(line) {
            tracing::error!(%error, ?line, "the audit log can't be written");
        }
    }

    /// Writes one line. A file that is full is renamed first; the next line opens a new one.
    fn write(&self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let mut held = lock(&self.file);
        let is_full = |file: &File| file.metadata().is_ok_and(|it| it.len() >= FULL);
        if held.as_ref().is_some_and(is_full) {
            *held = None;
            let at = Timestamp::now().millis();
            std::fs::rename(&self.path, self.path.with_file_name(format!("audit-{at}.jsonl")))?;
        }
        if held.is_none() {
            *held = Some(open(&self.path)?);
        }
        // One write for the whole line, so that lines of two writers never mix.
        let written = held.as_mut().map_or(Ok(()), |file| file.write_all(&bytes));
        // A full disk may have taken half of the line. The next line opens the file again, which ends it.
        if written.is_err() {
            *held = None;
        }
        written
    }
}

/// Opens the log, or makes it with the mode 0600. A line that was cut off is ended, so that the next line
/// is not glued to it.
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    let mut options = File::options();
    options.read(true).append(true).create(true).mode(0o600);
    let mut file = options.open(path)?;
    let mut last = [b'\n'];
    if let Some(at) = file.metadata()?.len().checked_sub(1) {
        file.read_exact_at(&mut last, at)?;
    }
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back_and_the_file_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let log = AuditLog::of(home.path());
        let (at, change) = (Timestamp::now(), Uuid::now_v7());
        let lines = [
            Line::Begin {
                at,
                change,
                who: "ana".into(),
                from: "127.0.0.1:9".into(),
                what: "stop_attempt".into(),
                of: serde_json::Map::from_iter([("attempt_id".into(), "x".into())]),
            },
            Line::End { at, change, outcome: "done".into() },
        ];
        for line in &lines {
            log.append(line);
        }
        let path = home.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        let read: Vec<Line> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!(read, lines);
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_line_after_one_that_a_full_disk_cut_stands_by_itself() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(FILE);
        let log = AuditLog::of(home.path());
        let line = |outcome: &str| Line::End {
            at: Timestamp::now(),
            change: Uuid::now_v7(),
            outcome: outcome.to_owned(),
        };
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        log.append(&line("lost"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "{\"at\":").unwrap();
        let whole = line("done");
        log.append(&whole);
        let text = std::fs::read_to_string(path).unwrap();
        let (cut, rest) = text.split_once('\n').unwrap();
        assert_eq!((cut, serde_json::from_str::<Line>(rest).unwrap()), ("{\"at\":", whole));
    }
}
