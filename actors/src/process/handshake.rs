//! How a shim or a proxy reports its start to the daemon: one line on standard output. Both outlive the
//! daemon, so they leave its pipe and terminal right afterwards.

use std::fs::File;
use std::io::{self, Write as _};

use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

/// Writes `word` (`ok`, or `err` and a reason; with a line feed) to standard output. Then replaces all three
/// standard streams by `/dev/null`: the daemon reads up to the end of the pipe.
pub fn report_ready(word: &str) {
    // If the daemon has died, the next one learns the result from the folder.
    let _ = io::stdout().write_all(word.as_bytes()).and_then(|()| io::stdout().flush());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&null);
        let _ = dup2_stdout(&null);
        let _ = dup2_stderr(&null);
    }
}
