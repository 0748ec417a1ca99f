//! The names that a shim and the daemon agree on.

/// The first argument of a shim.
pub const ARGUMENT: &str = "__shim";
/// The second argument of one that takes over from a shim that has died.
pub const RESCUE: &str = "rescue";
/// The control socket's name in the process's folder.
pub const SOCKET: &str = "sock";
/// The file whose flock(2) a shim holds for life.
pub const LOCK: &str = "lock";
/// What standard input is read from with [`StdinSource::File`](super::manifest::StdinSource).
pub const STDIN_FILE: &str = "stdin";
