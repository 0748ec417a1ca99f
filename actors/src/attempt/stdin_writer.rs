//! The durable writer of an executor's standard input, for two-way protocols. Each message
//! is on file before it is sent, one per line, and its line number is its sequence number
//! with the shim. So each message is sent once even if the daemon dies: a key on file is not
//! written again, and lines that the shim has not received are sent.
//!
//! ```text
//!  write(message) ─▶ said.jsonl ─▶ queue.lines ─ send_to, from the shim's sequence number ─▶ stdin
//!     the key is known: nothing
//! ```

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::blocking::{blocking, if_there, lock};
use crate::executor::Message;
use crate::failpoint;
use crate::process::{Control, ControlError};

/// The file in the process's folder.
const FILE: &str = "said.jsonl";

/// Writes messages to the process of a folder. Clones share the queue, so one may write while another sends.
#[derive(Clone)]
pub struct StdinWriter {
    file: Arc<PathBuf>,
    queue: Arc<Mutex<StdinQueue>>,
    changed: watch::Sender<()>,
}

/// What is on file, in memory. `lines` has the messages in the order of the file.
#[derive(Default)]
struct StdinQueue {
    is_read: bool,
    /// Opened by the first write.
    file: Option<File>,
    keys: HashSet<String>,
    lines: Vec<Arc<str>>,
    is_closed: bool,
}

impl StdinWriter {
    /// For the process of this folder. Nothing is read or opened yet.
    pub fn new(dir: &Path) -> Self {
        let (changed, _) = watch::channel(());
        Self { file: Arc::new(dir.join(FILE)), queue: Arc::default(), changed }
    }

    /// Puts a message on file and in the queue. `false`: its key is on file already, and nothing is sent.
    ///
    /// # Errors
    /// The file can't be read or written; the message is not in the queue then.
    pub async fn write(&self, message: Message) -> io::Result<bool> {
        let writer = self.clone();
        let is_new = blocking(move || writer.open()?.append(&writer.file, message)).await?;
        self.changed.send_replace(());
        Ok(is_new)
    }

    /// Ends the input once all messages are sent.
    pub fn close(&self) {
        lock(&self.queue).is_closed = true;
        self.changed.send_replace(());
    }

    /// Sends the messages that the shim has not received, and later ones, until the input is closed or the
    /// connection ends.
    pub async fn send_to(self, control: Control) -> Result<(), ControlError> {
        let mut changed = self.changed.subscribe();
        let writer = self.clone();
        // If the file can't be read now, the next message tries again.
        let _ = blocking(move || writer.open().map(drop)).await;
        let mut sent = usize::try_from(control.stdin_received()).unwrap_or(usize::MAX);
        loop {
            let (next, is_closed) = {
                let queue = lock(&self.queue);
                (queue.lines.get(sent).cloned(), queue.is_closed)
            };
            match next {
                Some(line) => {
                    control.write_stdin(format!("{line}\n").into_bytes()).await?;
                    sent += 1;
                }
                None if is_closed => return control.close_stdin().await,
                // Can't fail: `self` holds a sender.
                None => drop(changed.changed().await),
            }
        }
    }

    /// The queue. The first call that succeeds reads the file.
    fn open(&self) -> io::Result<MutexGuard<'_, StdinQueue>> {
        let mut queue = lock(&self.queue);
        if !queue.is_read {
            queue.read(&self.file)?;
            queue.is_read = true;
        }
        Ok(queue)
    }
}

impl StdinQueue {
    /// Reads the messages of an earlier daemon, all or none, and cuts off a line that is not whole.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        let Some(text) = if_there(fs::read(path))? else { return Ok(()) };
        // A line without its end was never sent.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        open(path)?.set_len(whole as u64)?;
        // None if one can't be read: the next call reads again, and each has its number from its place.
        let lines = text[..whole].split_inclusive(|byte| *byte == b'\n');
        let messages: Result<Vec<Message>, _> = lines.map(serde_json::from_slice).collect();
        for message in messages? {
            self.keys.insert(message.key);
            self.lines.push(message.line.into());
        }
        Ok(())
    }

    /// Appends a message. A line that could be written in part only is taken back.
    fn append(&mut self, path: &Path, message: Message) -> io::Result<bool> {
        if self.keys.contains(&message.key) {
            return Ok(false);
        }
        let mut line = serde_json::to_vec(&message)?;
        line.push(b'\n');
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(path)?),
        };
        let before = file.metadata()?.len();
        if let Err(error) = file.write_all(&line) {
            // A part of this line would damage the next one.
            file.set_len(before)?;
            return Err(error);
        }
        failpoint::hit("said", "written");
        self.keys.insert(message.key);
        self.lines.push(message.line.into());
        Ok(true)
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(key: &str) -> Message {
        Message { key: key.to_owned(), line: format!("{{\"key\":\"{key}\"}}") }
    }

    fn lines(writer: &StdinWriter) -> Vec<String> {
        writer.open().unwrap().lines.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn a_key_is_written_once_also_by_the_writer_of_a_later_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let writer = StdinWriter::new(dir.path());
        assert!(writer.write(message("a")).await.unwrap());
        assert!(!writer.write(message("a")).await.unwrap());
        assert!(writer.write(message("b")).await.unwrap());
        let later = StdinWriter::new(dir.path());
        assert!(!later.write(message("b")).await.unwrap());
        assert!(!later.write(message("a")).await.unwrap());
        assert_eq!(lines(&later), lines(&writer));
    }

    #[tokio::test]
    async fn a_torn_line_is_as_if_it_had_never_been_written() {
        let dir = tempfile::tempdir().unwrap();
        let writer = StdinWriter::new(dir.path());
        writer.write(message("a")).await.unwrap();
        writer.write(message("b")).await.unwrap();
        let path = dir.path().join(FILE);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 3]).unwrap();
        let later = StdinWriter::new(dir.path());
        assert_eq!(lines(&later).len(), 1);
        assert!(later.write(message("b")).await.unwrap());
        assert_eq!(fs::read(&path).unwrap(), text);
    }

    #[tokio::test]
    async fn a_line_that_can_not_be_read_leaves_no_message_in_the_queue_twice() {
        let dir = tempfile::tempdir().unwrap();
        let writer = StdinWriter::new(dir.path());
        for key in ["a", "b"] {
            writer.write(message(key)).await.unwrap();
        }
        let path = dir.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap();
        let mut text = whole.clone();
        text[first + 1] = b'x';
        fs::write(&path, &text).unwrap();
        let later = StdinWriter::new(dir.path());
        for _ in 0..2 {
            assert!(later.write(message("c")).await.is_err());
            assert!(lock(&later.queue).lines.is_empty());
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(lines(&later), lines(&writer));
    }
}
