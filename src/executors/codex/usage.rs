//! Tokens of a turn, out of what the app server tells: the totals of each thread
//! since it began, also over turns and processes long gone. A turn's own are what
//! its threads (its own and those of its sub-agents) have used since it began.

use std::collections::BTreeMap;

use provost_actors::event::{Event, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Counts the tokens of one turn after the other.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Meters(BTreeMap<String, Meter>);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Meter {
    total: Tokens,
    /// The total before the turn, where it is known.
    before: Option<Tokens>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tokens {
    input: u64,
    cached: u64,
    output: u64,
}

impl Meters {
    /// A turn begins.
    pub fn begin(&mut self) {
        for meter in self.0.values_mut() {
            meter.before = Some(meter.total);
        }
    }

    /// Takes note of a thread's `tokenUsage`; `is_of_turn`: of what it used just now.
    pub fn note(&mut self, thread: &str, usage: &Value, is_of_turn: bool) {
        let total = Tokens::read(&usage["total"]);
        let meter = self.0.entry(thread.to_owned()).or_default();
        if is_of_turn {
            meter.before.get_or_insert(total.less(Tokens::read(&usage["last"])));
        } else {
            meter.before = Some(total);
        }
        meter.total = total;
    }

    /// What the turn has used so far.
    pub fn usage(&self) -> Usage {
        let Tokens { input, output, .. } = self.of_turn();
        Usage { input_tokens: input, output_tokens: output, cost_usd: None }
    }

    /// The same as an entry; `None`: nothing.
    pub fn entry(&self) -> Option<Event> {
        let turn = self.of_turn();
        (turn != Tokens::default()).then(|| turn.entry())
    }

    fn of_turn(&self) -> Tokens {
        let used = self.0.values().map(|meter| meter.total.less(meter.before.unwrap_or_default()));
        used.fold(Tokens::default(), Tokens::plus)
    }
}

/// The `usage` of a turn that `codex exec` tells.
pub fn of_exec(usage: &Value) -> (Usage, Event) {
    let count = |key: &str| usage[key].as_u64().unwrap_or_default();
    let tokens = Tokens {
        input: count("input_tokens"),
        cached: count("cached_input_tokens"),
        output: count("output_tokens"),
    };
    let told = Usage { input_tokens: tokens.input, output_tokens: tokens.output, cost_usd: None };
    (told, tokens.entry())
}

impl Tokens {
    fn read(breakdown: &Value) -> Self {
        let count = |key: &str| breakdown[key].as_u64().unwrap_or_default();
        Self {
            input: count("inputTokens"),
            cached: count("cachedInputTokens"),
            output: count("outputTokens"),
        }
    }

    fn less(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            cached: self.cached.saturating_sub(other.cached),
            output: self.output.saturating_sub(other.output),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached: self.cached.saturating_add(other.cached),
            output: self.output.saturating_add(other.output),
        }
    }

    fn entry(self) -> Event {
        Event::TokenUsage {
            text: String::new(),
            input_tokens: self.input,
            output_tokens: self.output,
            cached_tokens: Some(self.cached),
            cost_usd: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(total: u64, last: u64) -> Value {
        let breakdown =
            |n: u64| json!({"inputTokens": n, "cachedInputTokens": 0, "outputTokens": n});
        json!({"total": breakdown(total), "last": breakdown(last)})
    }

    #[test]
    fn a_turn_is_told_its_own_tokens_and_not_the_threads() {
        let mut meters = Meters::default();
        meters.note("main", &told(300, 100), false);
        meters.begin();
        meters.note("main", &told(400, 100), true);
        meters.note("main", &told(500, 100), true);
        meters.note("child", &told(70, 70), true);
        assert_eq!(meters.usage().input_tokens, 270);
        meters.begin();
        meters.note("main", &told(550, 50), true);
        assert_eq!(meters.usage().output_tokens, 50);
    }

    #[test]
    fn a_total_from_before_needs_not_to_have_been_told() {
        let mut meters = Meters::default();
        meters.note("main", &told(400, 100), true);
        meters.note("main", &told(450, 50), true);
        assert_eq!(meters.usage().input_tokens, 150);
    }
}
