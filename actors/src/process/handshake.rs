//! The one word with which a process that outlives the daemon says that it has started.

use std::fs::File;
use std::io::{self, Write as _};

use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

/// Reports the result to the daemon, then leaves its pipe and terminal.
pub fn report_ready(word: &str) {
    // A daemon that is gone by now finds out from the folder.
    let _ = io::stdout().write_all(word.as_bytes()).and_then(|()| io::stdout().flush());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&null);
        let _ = dup2_stdout(&null);
        let _ = dup2_stderr(&null);
    }
}
