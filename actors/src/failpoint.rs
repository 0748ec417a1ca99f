//! Points at which a test has this process killed, between two steps that a crash may separate. Every build
//! has them, so that the tested binary is the one that is shipped.
//!
//! `PROVOST_FAILPOINT` names a point: `what.moment`, or `what.moment@3` for the third time it is reached.
//! `shim:what.moment` kills the first shim that the daemon starts, `rescue:…` the first rescue shim.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The environment variable that names a point.
pub const VARIABLE: &str = "PROVOST_FAILPOINT";

/// Kills this process with SIGKILL if [`VARIABLE`] names this point, and it is the time that it names.
#[inline]
pub fn hit(what: &str, moment: &str) {
    if ARMED.as_ref().is_some_and(|failpoint| failpoint.is_due(what, moment)) {
        die();
    }
}

/// The value of [`VARIABLE`] for the next child of a kind (`shim`, `rescue`). Only the first one gets a
/// value: a second one has to survive.
pub fn pass_on(kind: &str) -> Option<String> {
    ARMED.as_ref()?.pass_on(kind)
}

/// A point, and how often it is still to be reached before it kills.
struct Failpoint {
    /// The kind of child that dies; `None`: this process.
    whose: Option<String>,
    name: String,
    left: AtomicU64,
}

static ARMED: LazyLock<Option<Failpoint>> =
    LazyLock::new(|| std::env::var(VARIABLE).ok().map(|text| parse(&text)));

fn parse(text: &str) -> Failpoint {
    let (whose, place) = match text.split_once(':') {
        Some((whose, place)) => (Some(whose.to_owned()), place),
        None => (None, text),
    };
    let (name, times) = place.split_once('@').unwrap_or((place, "1"));
    Failpoint { whose, name: name.to_owned(), left: AtomicU64::new(times.parse().unwrap_or(1)) }
}

impl Failpoint {
    fn is_due(&self, what: &str, moment: &str) -> bool {
        self.whose.is_none()
            && self.name.split_once('.') == Some((what, moment))
            && self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    fn pass_on(&self, kind: &str) -> Option<String> {
        let is_for_it = self.whose.as_deref() == Some(kind);
        let times = if is_for_it { self.left.swap(0, Ordering::Relaxed) } else { 0 };
        (times > 0).then(|| format!("{}@{times}", self.name))
    }
}

fn die() -> ! {
    let _ = kill(Pid::this(), Signal::SIGKILL);
    // This thread takes no further step before the signal.
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_is_due_once_at_the_time_that_is_named() {
        let due = |text: &str| {
            let failpoint = parse(text);
            (0..5).map(|_| failpoint.is_due("a", "b")).collect::<Vec<_>>()
        };
        assert_eq!(due("a.b"), [true, false, false, false, false]);
        assert_eq!(due("a.b@3"), [false, false, true, false, false]);
        assert_eq!(due("b.b"), [false; 5]);
    }

    #[test]
    fn the_death_of_a_child_is_passed_on_to_the_first_of_its_kind() {
        let failpoint = parse("shim:a.b@2");
        assert!(!failpoint.is_due("a", "b") && !failpoint.is_due("a", "b"));
        assert_eq!(failpoint.pass_on("rescue"), None);
        assert_eq!(failpoint.pass_on("shim").as_deref(), Some("a.b@2"));
        assert_eq!(failpoint.pass_on("shim"), None);
        assert_eq!(parse("a.b").pass_on("shim"), None);
    }
}
