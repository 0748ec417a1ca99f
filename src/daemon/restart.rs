//! A daemon whose host was given up starts anew in place of itself: the start is what ends executors,
//! registers the host and takes up attempts. Its pid stays.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use provost_actors::limits::SoftLimits;

/// Replaces this process. It returns only if that fails.
#[expect(clippy::disallowed_methods, reason = "it is this very process")]
pub fn start(soft_limits: SoftLimits) -> io::Error {
    // The next image has to find what its executors are to get.
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
    // This program, also after its file was replaced.
    Command::new("/proc/self/exe").arg0(name).args(arguments).exec()
}
