//! What is said to an executor whose protocol is two-way: the only writer of its
//! standard input. Each message is on file before it is sent, one a line, and its
//! line's number is its sequence number with the shim. So over the death of a
//! daemon each is said once: one whose key is on file is not said again, and
//! those that the shim has not taken are sent.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::executor::Message;
use crate::process::{Control, ControlError};

/// What was said, as messages of JSON.
const FILE: &str = "said.jsonl";

/// The voice to one process. Clones are the same voice.
#[derive(Clone)]
pub struct Voice(Arc<Inner>);

struct Inner {
    dir: PathBuf,
    said: Mutex<Said>,
    changed: watch::Sender<()>,
}

/// What is on file.
#[derive(Default)]
struct Said {
    is_read: bool,
    /// Open once there is something to say.
    file: Option<File>,
    keys: HashSet<String>,
    lines: Vec<Arc<str>>,
    /// Nothing more will be said.
    is_over: bool,
}

impl Voice {
    /// To the process of this folder.
    pub fn new(dir: PathBuf) -> Self {
        let (changed, _) = watch::channel(());
        Self(Arc::new(Inner { dir, said: Mutex::default(), changed }))
    }

    /// Says a message, unless its key has been used. It is on file when this
    /// returns. Whether it is new.
    pub async fn say(&self, message: Message) -> io::Result<bool> {
        let inner = Arc::clone(&self.0);
        let said = tokio::task::spawn_blocking(move || {
            let mut said = inner.open()?;
            said.append(&inner.dir.join(FILE), message)
        });
        let is_new = said.await.map_err(io::Error::other)??;
        self.0.changed.send_replace(());
        Ok(is_new)
    }

    /// Whether something has been said under this key.
    pub async fn has_said(&self, key: String) -> io::Result<bool> {
        let inner = Arc::clone(&self.0);
        let known = tokio::task::spawn_blocking(move || Ok(inner.open()?.keys.contains(&key)));
        known.await.map_err(io::Error::other)?
    }

    /// The end of its input, after all that was said.
    pub fn close(&self) {
        self.0.lock().is_over = true;
        self.0.changed.send_replace(());
    }

    /// Sends what is on file and what is still to be said, for as long as the
    /// connection to the shim lives.
    pub async fn speak(self, control: Control) -> Result<(), ControlError> {
        let mut changed = self.0.changed.subscribe();
        let inner = Arc::clone(&self.0);
        // Nothing can be told from a file that can't be read: it is tried with
        // the next message.
        let _ = tokio::task::spawn_blocking(move || inner.open().map(drop)).await;
        let mut sent = usize::try_from(control.stdin_sequence()).unwrap_or(usize::MAX);
        loop {
            let (next, is_over) = {
                let said = self.0.lock();
                (said.lines.get(sent).cloned(), said.is_over)
            };
            match next {
                Some(line) => {
                    control.write_stdin(format!("{line}\n").into_bytes()).await?;
                    sent += 1;
                }
                None if is_over => return control.close_stdin().await,
                // Only the voice itself ends this.
                None if changed.changed().await.is_err() => return Ok(()),
                None => {}
            }
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is on file, read once.
    fn open(&self) -> io::Result<MutexGuard<'_, Said>> {
        let mut said = self.lock();
        if !said.is_read {
            said.read(&self.dir.join(FILE))?;
            said.is_read = true;
        }
        Ok(said)
    }
}

impl Said {
    fn read(&mut self, path: &Path) -> io::Result<()> {
        let text = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text?,
        };
        // A torn line was never sent.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        open(path)?.set_len(whole as u64)?;
        for line in text[..whole].split_inclusive(|byte| *byte == b'\n') {
            let message: Message = serde_json::from_slice(line)?;
            self.keys.insert(message.key);
            self.lines.push(message.line.into());
        }
        Ok(())
    }

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
            // What is there of it would spoil the next one.
            file.set_len(before)?;
            return Err(error);
        }
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

    fn lines(voice: &Voice) -> Vec<String> {
        voice.0.open().unwrap().lines.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn a_key_is_said_once_also_by_the_voice_of_a_later_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let voice = Voice::new(dir.path().to_owned());
        assert!(voice.say(message("a")).await.unwrap());
        assert!(!voice.say(message("a")).await.unwrap());
        assert!(voice.say(message("b")).await.unwrap());
        let later = Voice::new(dir.path().to_owned());
        assert!(!later.say(message("b")).await.unwrap());
        assert!(later.has_said("a".to_owned()).await.unwrap());
        assert_eq!(lines(&later), lines(&voice));
    }

    #[tokio::test]
    async fn a_torn_line_is_as_if_it_had_never_been_said() {
        let dir = tempfile::tempdir().unwrap();
        let voice = Voice::new(dir.path().to_owned());
        voice.say(message("a")).await.unwrap();
        voice.say(message("b")).await.unwrap();
        let path = dir.path().join(FILE);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 3]).unwrap();
        let later = Voice::new(dir.path().to_owned());
        assert_eq!(lines(&later).len(), 1);
        assert!(later.say(message("b")).await.unwrap());
        assert_eq!(fs::read(&path).unwrap(), text);
    }
}
