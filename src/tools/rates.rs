//! How often agents may call: in a second, in a minute, and all agents together in a minute. These are
//! token buckets; those of agents that do not call any more are removed.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use provost_actors::blocking::lock;
use provost_actors::refusal::{Code, Refusal};

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
    /// Calls that it may make at once.
    pub remaining: u64,
    /// When `remaining` is `limit` again, in seconds of Unix time.
    pub reset: u64,
}

/// The buckets of all agents. A daemon has one such set for all its connections.
pub struct Rates {
    rate: Rate,
    buckets: Mutex<Buckets>,
}

struct Buckets {
    all: Bucket,
    agents: HashMap<String, Agent>,
}

/// The buckets of one agent, and when it last called.
struct Agent {
    burst: Bucket,
    minute: Bucket,
    seen: Instant,
}

impl Rates {
    /// All buckets are full at first.
    pub fn new(rate: Rate) -> Self {
        let all = Bucket::new(rate.all_per_minute, Duration::from_mins(1), Instant::now());
        Self { rate, buckets: Mutex::new(Buckets { all, agents: HashMap::new() }) }
    }

    /// Takes a token of each bucket for one call, or none at all if one of the buckets is empty.
    ///
    /// # Errors
    /// `rate_limited`, with the seconds to wait.
    pub fn take(&self, agent: &str) -> Result<(), Refusal> {
        let now = Instant::now();
        let mut buckets = lock(&self.buckets);
        let Buckets { all, agents } = &mut *buckets;
        if agents.len() > AGENTS_KEPT {
            agents.retain(|_, agent| now.duration_since(agent.seen) < FORGOTTEN_AFTER);
        }
        let own = agents.entry(agent.to_owned()).or_insert_with(|| Agent {
            burst: Bucket::new(self.rate.burst_per_second, Duration::from_secs(1), now),
            minute: Bucket::new(self.rate.agent_per_minute, Duration::from_mins(1), now),
            seen: now,
        });
        own.seen = now;
        let mut limits = [
            (&mut own.burst, "calls a second of one agent"),
            (&mut own.minute, "calls a minute of one agent"),
            (all, "calls a minute of all agents"),
        ];
        for (bucket, what) in &limits {
            let wait = bucket.wait(now);
            if !wait.is_zero() {
                return Err(refusal(wait, bucket.limit, what));
            }
        }
        for (bucket, _) in &mut limits {
            bucket.take(now);
        }
        Ok(())
    }
}

impl Rates {
    /// What was left to an agent after its last call. `None`: no limit, or the agent has not called yet.
    pub fn left(&self, agent: &str) -> Option<Left> {
        let limit = self.rate.agent_per_minute;
        let buckets = lock(&self.buckets);
        let own = buckets.agents.get(agent)?;
        let remaining = own.minute.tokens(own.seen)?;
        let seconds = ((limit - remaining) * 60).checked_div(limit)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Some(Left { limit, remaining, reset: now.as_secs() + seconds })
    }
}

/// A bucket of `limit` tokens, which are refilled evenly over a period. A limit of 0 is no limit.
struct Bucket {
    limit: u64,
    period: Duration,
    /// In this time one token is refilled. Zero: there is no limit.
    refill: Duration,
    /// When all tokens are there again.
    full_at: Instant,
}

impl Bucket {
    /// The bucket is full at first.
    fn new(limit: u64, period: Duration, now: Instant) -> Self {
        let refill = u32::try_from(limit).ok().and_then(|limit| period.checked_div(limit));
        Self { limit, period, refill: refill.unwrap_or_default(), full_at: now }
    }

    /// How long the next token takes. Zero: one is there.
    fn wait(&self, now: Instant) -> Duration {
        let refills = self.full_at.saturating_duration_since(now);
        (refills + self.refill).saturating_sub(self.period)
    }

    /// Takes a token that is there.
    fn take(&mut self, now: Instant) {
        self.full_at = self.full_at.max(now) + self.refill;
    }

    /// How many tokens are there. `None`: there is no limit.
    fn tokens(&self, now: Instant) -> Option<u64> {
        let filled = self.period.saturating_sub(self.full_at.saturating_duration_since(now));
        let tokens = filled.as_nanos().checked_div(self.refill.as_nanos())?;
        Some(u64::try_from(tokens).map_or(self.limit, |tokens| tokens.min(self.limit)))
    }
}

fn refusal(wait: Duration, limit: u64, what: &str) -> Refusal {
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
    fn a_refused_call_takes_no_token_of_the_other_buckets() {
        let rates = rates(3, 1, 0);
        rates.take("b").unwrap();
        for _ in 0..3 {
            let refusal = rates.take("a").unwrap_err();
            assert!(refusal.message.contains("of all agents"), "{}", refusal.message);
        }
        assert_eq!(rates.left("a").unwrap().remaining, 3);
    }

    #[test]
    fn a_bucket_refills_evenly_and_holds_no_more_than_its_limit() {
        let start = Instant::now();
        let mut bucket = Bucket::new(3, Duration::from_mins(1), start);
        for tokens in (0..3).rev() {
            assert!(bucket.wait(start).is_zero());
            bucket.take(start);
            assert_eq!(bucket.tokens(start), Some(tokens));
        }
        assert_eq!(bucket.wait(start), Duration::from_secs(20));
        let later = start + Duration::from_secs(19);
        assert_eq!((bucket.wait(later), bucket.tokens(later)), (Duration::from_secs(1), Some(0)));
        let later = start + Duration::from_hours(1);
        assert_eq!((bucket.wait(later), bucket.tokens(later)), (Duration::ZERO, Some(3)));
    }

    #[test]
    fn none_is_no_limit_and_agents_that_have_gone_are_forgotten() {
        let rates = rates(0, 0, 0);
        for number in 0..2 * AGENTS_KEPT {
            rates.take(&number.to_string()).unwrap();
        }
        for agent in rates.buckets.lock().unwrap().agents.values_mut() {
            agent.seen -= FORGOTTEN_AFTER;
        }
        rates.take("another").unwrap();
        assert_eq!(rates.buckets.lock().unwrap().agents.len(), 1);
    }
}
