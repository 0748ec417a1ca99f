//! How often agents may call: in a second, in a minute, and all agents together in a minute. These are
//! token buckets; those of agents that do not call any more are removed.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use provost_actors::blocking::lock;
use provost_actors::refusal::{Code, Refusal};
use ratelimit::{Ratelimiter, TryWaitError};

/// After this time without a call, an agent's buckets are full again, so they need not be kept.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(2);
/// With more agents than this, each call removes the agents that have not called for [`FORGOTTEN_AFTER`].
const AGENTS_KEPT: usize = 256;

/// The limits of `[worker]` in the configuration; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub agent_per_minute: u64,
    pub all_per_minute: u64,
    pub burst_per_second: u64,
}

/// What the limit leaves to an agent, as HTTP headers say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Calls that it may make in a minute.
    pub limit: u64,
    /// Calls that it may make right now.
    pub remaining: u64,
    /// When `remaining` is `limit` again, in seconds of Unix time.
    pub reset: u64,
}

/// The buckets of all agents. A daemon has one such set for all its connections.
pub struct Rates {
    rate: Rate,
    all: Ratelimiter,
    agents: Mutex<HashMap<String, Agent>>,
}

/// The buckets of one agent, and when it last called.
struct Agent {
    burst: Ratelimiter,
    minute: Ratelimiter,
    seen: Instant,
}

impl Rates {
    /// All buckets are full at first.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            all: bucket(rate.all_per_minute, Duration::from_mins(1)),
            agents: Mutex::default(),
        }
    }

    /// Takes a token of each bucket for one call.
    ///
    /// # Errors
    /// `rate_limited`, with the seconds to wait. Tokens that were taken before the empty bucket are not
    /// given back.
    pub fn take(&self, agent: &str) -> Result<(), Refusal> {
        let now = Instant::now();
        let mut agents = lock(&self.agents);
        if agents.len() > AGENTS_KEPT {
            agents.retain(|_, agent| now.duration_since(agent.seen) < FORGOTTEN_AFTER);
        }
        let own = agents.entry(agent.to_owned()).or_insert_with(|| Agent {
            burst: bucket(self.rate.burst_per_second, Duration::from_secs(1)),
            minute: bucket(self.rate.agent_per_minute, Duration::from_mins(1)),
            seen: now,
        });
        own.seen = now;
        let Rate { agent_per_minute, all_per_minute, burst_per_second } = self.rate;
        let limits = [
            (&own.burst, burst_per_second, "calls a second of one agent"),
            (&own.minute, agent_per_minute, "calls a minute of one agent"),
            (&self.all, all_per_minute, "calls a minute of all agents"),
        ];
        for (bucket, limit, what) in limits {
            bucket.try_wait().map_err(|wait| refusal(&wait, limit, what))?;
        }
        Ok(())
    }
}

impl Rates {
    /// What is left to an agent. `None`: no limit, or the agent has not called yet.
    pub fn left(&self, agent: &str) -> Option<Left> {
        let limit = self.rate.agent_per_minute;
        let remaining = lock(&self.agents).get(agent)?.minute.available().min(limit);
        let seconds = ((limit - remaining) * 60).checked_div(limit)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Some(Left { limit, remaining, reset: now.as_secs() + seconds })
    }
}

/// A full bucket. The library also takes a limit of 0 as no limit.
fn bucket(limit: u64, period: Duration) -> Ratelimiter {
    let built = Ratelimiter::builder(limit).period(period).initial_available(limit).build();
    #[expect(clippy::expect_used, reason = "it refuses only a period of zero")]
    built.expect("the period is a second or a minute")
}

fn refusal(wait: &TryWaitError, limit: u64, what: &str) -> Refusal {
    let wait = match wait {
        TryWaitError::Insufficient(wait) => *wait,
        _ => Duration::from_mins(1),
    };
    // Rounded up to whole seconds, so that the next call does not come too early.
    let seconds = wait.as_millis().div_ceil(1000).max(1);
    let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
    Refusal::new(Code::RateLimited, format!("more than {limit} {what}"))
        .hint(format!("Call the tool again when {seconds} s have passed."))
        .detail("limit", limit)
        .detail("retry_after_seconds", seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(agent_per_minute: u64, all_per_minute: u64, burst_per_second: u64) -> Rates {
        Rates::new(Rate { agent_per_minute, all_per_minute, burst_per_second })
    }

    #[test]
    fn an_agent_is_refused_beyond_its_own_limit_and_learns_how_long() {
        let rates = rates(3, 0, 0);
        for _ in 0..3 {
            rates.take("a").unwrap();
        }
        let refusal = rates.take("a").unwrap_err();
        assert_eq!(refusal.code, Code::RateLimited);
        let seconds = refusal.details["retry_after_seconds"].as_u64().unwrap();
        assert!((1..=20).contains(&seconds), "{seconds}");
        rates.take("b").unwrap();
    }

    #[test]
    fn what_is_left_to_an_agent_is_shown() {
        let rates = rates(3, 0, 0);
        assert_eq!(rates.left("a"), None);
        rates.take("a").unwrap();
        let left = rates.left("a").unwrap();
        assert_eq!((left.limit, left.remaining), (3, 2));
        assert!(left.reset > 1_700_000_000, "{left:?}");
        let unlimited = self::rates(0, 0, 0);
        unlimited.take("a").unwrap();
        assert_eq!(unlimited.left("a"), None);
    }

    #[test]
    fn all_agents_share_the_limit_of_all() {
        let rates = rates(0, 4, 0);
        for agent in ["a", "b", "c", "d"] {
            rates.take(agent).unwrap();
        }
        assert!(rates.take("e").is_err());
    }

    #[test]
    fn none_is_no_limit_and_agents_that_have_gone_are_forgotten() {
        let rates = rates(0, 0, 0);
        for number in 0..2 * AGENTS_KEPT {
            rates.take(&number.to_string()).unwrap();
        }
        for agent in rates.agents.lock().unwrap().values_mut() {
            agent.seen -= FORGOTTEN_AFTER;
        }
        rates.take("another").unwrap();
        assert_eq!(rates.agents.lock().unwrap().len(), 1);
    }
}
