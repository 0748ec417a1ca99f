//! Restarts a daemon whose host was given up: it executes itself again under the same pid. A start does
//! all that is needed then: it ends stale executors, registers the host, and adopts attempts.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use provost_actors::limits::SoftLimits;

/// Replaces this process. It returns only if that fails.
#[expect(clippy::disallowed_methods, reason = "it is this very process")]
pub fn start(soft_limits: SoftLimits) -> io::Error {
    // The soft limits are restored, because the next image reads from them what its executors get.
    let former = [
        (Resource::RLIMIT_NOFILE, soft_limits.open_files),
        (Resource::RLIMIT_CORE, soft_limits.core_bytes),
    ];
    for (limit, soft) in former {
        if let (Some(soft), Ok((_, hard))) = (soft, getrlimit(limit)) {
            let _ = setrlimit(limit, soft.min(hard), hard);
        }
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "provost".into());
    // `/proc/self/exe` is this program also after its file was replaced by another version.
    Command::new("/proc/self/exe").arg0(name).args(arguments).exec()
}
