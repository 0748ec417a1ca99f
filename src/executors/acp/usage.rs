//! The tokens of a turn, in the ways that agents report them.

use agent_client_protocol_schema::v1::Usage;
use provost_actors::event::Usage as Total;
use provost_actors::executor::Observed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::executors::json::Out;
use crate::executors::vocabulary::Tokens;

/// What was reported so far.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnUsage {
    input: u64,
    output: u64,
    cached: u64,
    cost_usd: Option<f64>,
    /// What a resumed session had cost before the turn, if the agent said so.
    before_usd: Option<f64>,
    /// No entry has it yet.
    is_news: bool,
}

impl TurnUsage {
    /// Notes what a resumed session had cost before.
    pub fn costed(&mut self, cost: &Value) {
        if cost["currency"] == "USD" {
            self.before_usd = cost["amount"].as_f64();
        }
    }

    /// Notes the session's cost so far, which includes earlier turns of a resumed one.
    pub fn costs(&mut self, usd: f64, is_resumed: bool) {
        let before = if is_resumed { self.before_usd } else { Some(0.0) };
        self.cost_usd = before.map(|before| (usd - before).max(0.0));
        self.is_news |= self.cost_usd > Some(0.0);
    }

    /// Adds a request to the model.
    pub fn add(&mut self, usage: &Value, out: &mut Out) {
        let Some(usage) = read(usage) else { return };
        self.input = self.input.saturating_add(usage.input);
        self.output = self.output.saturating_add(usage.output);
        self.cached = self.cached.saturating_add(usage.cached);
        self.is_news |= usage.is_news;
        let (input_tokens, output_tokens) = (self.input, self.output);
        out.push(Observed::Usage(Total { input_tokens, output_tokens, cost_usd: self.cost_usd }));
    }

    /// Notes the turn's usage from the answer to its prompt.
    pub fn answer(&mut self, answer: &Value) {
        let found = read(&answer["usage"]).or_else(|| {
            let count = &answer["_meta"]["quota"]["token_count"];
            let (input, output) =
                (count["input_tokens"].as_u64()?, count["output_tokens"].as_u64()?);
            Some(Self { input, output, is_news: input > 0, ..Self::default() })
        });
        if let Some(found) = found {
            let Self { cost_usd, before_usd, is_news, .. } = *self;
            *self = Self { cost_usd, before_usd, is_news: is_news || found.is_news, ..found };
        }
    }

    /// Makes an entry of it, once.
    pub fn report(&mut self, out: &mut Out) {
        if std::mem::take(&mut self.is_news) {
            let Self { input, output, cached, cost_usd, .. } = *self;
            Tokens { input, output, cached, cost_usd }.report(out);
        }
    }
}

/// Agents differ in whether their input count includes cached tokens; the total shows
/// which one it is.
fn read(usage: &Value) -> Option<TurnUsage> {
    let usage = Usage::deserialize(usage).ok()?;
    let (read, write) = (usage.cached_read_tokens, usage.cached_write_tokens);
    let (cached, write) = (read.unwrap_or_default(), write.unwrap_or_default());
    let all = usage.input_tokens.saturating_add(cached).saturating_add(write);
    let is_apart = usage.total_tokens == all.saturating_add(usage.output_tokens);
    let input = if is_apart { all } else { usage.input_tokens };
    let (output, is_news) = (usage.output_tokens, usage.total_tokens > 0);
    Some(TurnUsage { input, output, cached, is_news, ..TurnUsage::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_costs_what_its_session_costs_more_than_before() {
        let cost = |before: Option<f64>, told: &[f64]| {
            let mut used = TurnUsage::default();
            if let Some(usd) = before {
                used.costed(&serde_json::json!({ "amount": usd, "currency": "USD" }));
            }
            for usd in told {
                used.costs(*usd, before.is_some());
            }
            used.cost_usd
        };
        assert_eq!(cost(None, &[0.5, 0.75]), Some(0.75));
        assert_eq!(cost(Some(0.75), &[1.0]), Some(0.25));
        let mut untold = TurnUsage::default();
        untold.costs(1.0, true);
        assert_eq!(untold.cost_usd, None, "earlier turns are in it, and it is not known how much");
    }
}
