//! What tests are written with: a home of their own with a daemon on it,
//! scratch repositories, clients, and handles on attempts. Whatever a test
//! starts or makes is gone when it ends, however it ends.
//!
//! ```text
//!  Provost::new().config("…").executor("agent", PLAIN, "script").started()
//!     ├─ verb(["ps"]) ─────────▶ Done { code, stdout, stderr }
//!     ├─ call(tool, json) ─────▶ the structured result
//!     ├─ connect() / bridge() ─▶ Client: requests by id, answers in any order
//!     └─ board() ─▶ Board: a project with one repository
//!                     └─ start(executor, prompt) ─▶ Attempt
//! ```

mod attempt;
mod board;
mod client;
pub mod disk;
mod locked;
pub mod native;
pub mod postgres;
pub mod processes;
mod provost;
mod published;
mod repo;
mod web;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

pub use attempt::{Attempt, texts};
pub use board::Board;
pub use client::{Answer, Client};
pub use locked::Locked;
pub use provost::{Done, EVENTS, PLAIN, Provost};
pub use repo::Repo;
pub use web::Web;

/// How long anything may take before a test gives up on it.
pub const TIMEOUT: Duration = Duration::from_secs(90);

/// Between two looks at something that is to come true.
const PAUSE: Duration = Duration::from_millis(10);

/// A line for the fake executor: wait until a file is there.
pub fn run_until(gate: &Path) -> String {
    format!("run until [ -e {} ]; do sleep 0.02; done", gate.display())
}

/// Waits until there is something.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: it did not come true");
        pause();
    }
}

/// Waits until something holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

#[expect(clippy::disallowed_methods, reason = "between two looks at a condition")]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// Whether root runs the tests; where a fault takes root to bring about, and there
/// is none, that is said.
pub fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("not tested: it takes root");
    }
    is_root
}

/// Whether these programs are there. If one is not, that is said, and the test has to end; where
/// `PROVOST_TEST_ALL` is set, it fails.
pub fn needs(programs: &[(&str, &str)]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let missing: Vec<String> = programs
        .iter()
        .filter(|(name, _)| !is_there(name))
        .map(|(name, package)| format!("{name} (Debian: apt-get install {package})"))
        .collect();
    missing.is_empty() || left_out(&format!("it takes {}", missing.join(" and ")))
}

/// Says why a test is left out, and returns false; where `PROVOST_TEST_ALL` is set, it fails.
pub fn left_out(why: &str) -> bool {
    assert!(std::env::var_os("PROVOST_TEST_ALL").is_none(), "not tested: {why}");
    eprintln!("not tested: {why}");
    false
}

/// Whether Python is there, in which some agents of the tests are written.
pub fn has_python() -> bool {
    needs(&[("python3", "python3")])
}

/// The answer of a small HTTP server; `None`: no server answers.
pub fn get(url: &str) -> Option<String> {
    let (authority, path) = url.strip_prefix("http://")?.split_once('/')?;
    let mut stream = TcpStream::connect(authority).ok()?;
    write!(stream, "GET /{path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    (!answer.is_empty()).then_some(answer)
}

/// The one place where tests spawn programs.
#[expect(clippy::disallowed_methods, reason = "a test is no daemon")]
pub fn program(name: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    std::process::Command::new(name)
}
