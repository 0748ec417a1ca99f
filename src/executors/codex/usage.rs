//! The tokens of a turn. The app server reports totals of each thread since the thread began, over all
//! turns and processes. A turn's own tokens are what the main thread and its sub-agents' threads have used
//! since the turn began.

use std::collections::BTreeMap;

use crate::executors::prelude::*;

/// The meters of all threads, by their ids.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Meters(BTreeMap<String, Meter>);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Meter {
    total: Tokens,
    /// The total before the turn; `None` for a thread that has not been heard of in this process.
    before: Option<Tokens>,
}

impl Meters {
    /// A turn begins: what was used so far is not its own.
    pub fn begin(&mut self) {
        for meter in self.0.values_mut() {
            meter.before = Some(meter.total);
        }
    }

    /// Notes a thread's `tokenUsage`. `is_of_turn`: the last request to the model belongs to this turn, so a
    /// thread's total before the turn is the total without that request.
    pub fn note(&mut self, thread: &str, usage: &Value, is_of_turn: bool) {
        let total = read(&usage["total"]);
        let meter = self.0.entry(thread.to_owned()).or_default();
        if is_of_turn {
            meter.before.get_or_insert(less(total, read(&usage["last"])));
        } else {
            meter.before = Some(total);
        }
        meter.total = total;
    }

    /// What the turn has used so far.
    pub fn of_turn(&self) -> Tokens {
        let used = self.0.values().map(|meter| less(meter.total, meter.before.unwrap_or_default()));
        used.fold(Tokens::default(), Tokens::plus)
    }
}

fn read(breakdown: &Value) -> Tokens {
    Tokens {
        input: count(breakdown, "inputTokens"),
        cached: count(breakdown, "cachedInputTokens"),
        output: count(breakdown, "outputTokens"),
        cost_usd: None,
    }
}

/// The difference, never below zero.
fn less(all: Tokens, before: Tokens) -> Tokens {
    Tokens {
        input: all.input.saturating_sub(before.input),
        cached: all.cached.saturating_sub(before.cached),
        output: all.output.saturating_sub(before.output),
        cost_usd: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(total: u64, last: u64) -> Value {
        let breakdown =
            |n: u64| json!({"inputTokens": n, "cachedInputTokens": 0, "outputTokens": n});
        json!({"total": breakdown(total), "last": breakdown(last)})
    }

    #[test]
    fn a_turn_has_its_own_tokens_and_not_the_threads() {
        let mut meters = Meters::default();
        meters.note("main", &shown(300, 100), false);
        meters.begin();
        meters.note("main", &shown(400, 100), true);
        meters.note("main", &shown(500, 100), true);
        meters.note("child", &shown(70, 70), true);
        assert_eq!(meters.of_turn().input, 270);
        meters.begin();
        meters.note("main", &shown(550, 50), true);
        assert_eq!(meters.of_turn().output, 50);
    }

    #[test]
    fn a_total_from_before_may_be_unknown() {
        let mut meters = Meters::default();
        meters.note("main", &shown(400, 100), true);
        meters.note("main", &shown(450, 50), true);
        assert_eq!(meters.of_turn().input, 150);
    }
}
