//! Deaths on demand: places at which a test lets this process be killed, between
//! two steps that a crash may part. Every build has them, so that the binary that
//! is proved is the one that runs; unarmed, a place costs one look at a flag.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Kills this process with SIGKILL if `PROVOST_FAILPOINT` names this place:
/// `what.moment`, or `what.moment@3` for the third time it is come by.
#[inline]
pub fn hit(what: &str, moment: &str) {
    if ARMED.as_ref().is_some_and(|failpoint| failpoint.is_due(what, moment)) {
        die();
    }
}

/// The place, and how often it is still come by before it kills.
struct Failpoint {
    name: String,
    left: AtomicU64,
}

static ARMED: LazyLock<Option<Failpoint>> =
    LazyLock::new(|| std::env::var("PROVOST_FAILPOINT").ok().map(|text| parse(&text)));

fn parse(text: &str) -> Failpoint {
    let (name, times) = text.split_once('@').unwrap_or((text, "1"));
    Failpoint { name: name.to_owned(), left: AtomicU64::new(times.parse().unwrap_or(1)) }
}

impl Failpoint {
    fn is_due(&self, what: &str, moment: &str) -> bool {
        self.name.split_once('.') == Some((what, moment))
            && self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

fn die() -> ! {
    let _ = kill(Pid::this(), Signal::SIGKILL);
    // No further step of this thread may be taken until the signal is.
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
}
