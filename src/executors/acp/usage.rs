//! The tokens and cost of a turn, in the different ways in which agents report them.

use agent_client_protocol_schema::v1::Usage;

use crate::executors::prelude::*;

/// What the agent has reported about this turn so far.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnUsage {
    #[serde(flatten)]
    used: Tokens,
    /// What the session had cost before this round, in US dollars; `None`: the agent did not say it.
    before_usd: Option<f64>,
    /// There is something that no entry has yet.
    is_news: bool,
    /// An earlier round of this turn has an entry.
    was_reported: bool,
}

impl TurnUsage {
    /// Notes what a resumed session had cost before this turn. Other currencies than US dollars are ignored.
    pub fn costed(&mut self, cost: &Value) {
        if cost["currency"] == "USD" {
            self.before_usd = cost["amount"].as_f64();
        }
    }

    /// Notes the session's cost so far. That of a resumed session includes earlier turns; if their cost
    /// is not known, neither is this turn's.
    pub fn costs(&mut self, usd: f64, is_resumed: bool) {
        let before = if is_resumed || self.was_reported { self.before_usd } else { Some(0.0) };
        self.used.cost_usd = before.map(|before| (usd - before).max(0.0));
        self.is_news |= self.used.cost_usd > Some(0.0);
    }

    /// Adds the usage of one request to the model.
    pub fn add(&mut self, usage: &Value, out: &mut Out) {
        let Some(more) = read(usage) else { return };
        self.used = self.used.plus(more);
        self.is_news |= more != Tokens::default();
        out.push(self.used.so_far());
    }

    /// Notes the turn's usage from the answer to its prompt, which replaces the sum of the requests.
    pub fn answer(&mut self, answer: &Value) {
        let found = read(&answer["usage"]).or_else(|| {
            let count = &answer["_meta"]["quota"]["token_count"];
            let (input, output) =
                (count["input_tokens"].as_u64()?, count["output_tokens"].as_u64()?);
            Some(Tokens { input, output, ..Tokens::default() })
        });
        if let Some(found) = found {
            self.is_news |= found != Tokens::default();
            self.used = Tokens { cost_usd: self.used.cost_usd, ..found };
        }
    }

    /// Makes an entry of what no entry has yet. What is reported afterwards belongs to another round, which
    /// gets an entry of its own.
    pub fn report(&mut self, out: &mut Out) {
        if std::mem::take(&mut self.is_news) {
            self.used.report(out);
            let cost = self.used.cost_usd;
            self.before_usd = cost.map(|cost| self.before_usd.unwrap_or_default() + cost);
            self.used = Tokens::default();
            self.was_reported = true;
        }
    }
}

/// Reads the protocol's usage. Agents differ in whether their input includes cached tokens; the total
/// shows which is the case.
fn read(usage: &Value) -> Option<Tokens> {
    let usage = Usage::deserialize(usage).ok()?;
    let (read, write) = (usage.cached_read_tokens, usage.cached_write_tokens);
    let (cached, write) = (read.unwrap_or_default(), write.unwrap_or_default());
    let all = usage.input_tokens.saturating_add(cached).saturating_add(write);
    let is_apart = usage.total_tokens == all.saturating_add(usage.output_tokens);
    let input = if is_apart { all } else { usage.input_tokens };
    Some(Tokens { input, output: usage.output_tokens, cached, cost_usd: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_costs_what_its_session_costs_more_than_before() {
        let cost = |before: Option<f64>, shown: &[f64]| {
            let mut used = TurnUsage::default();
            if let Some(usd) = before {
                used.costed(&serde_json::json!({ "amount": usd, "currency": "USD" }));
            }
            for usd in shown {
                used.costs(*usd, before.is_some());
            }
            used.used.cost_usd
        };
        assert_eq!(cost(None, &[0.5, 0.75]), Some(0.75));
        assert_eq!(cost(Some(0.75), &[1.0]), Some(0.25));
        let mut unreported = TurnUsage::default();
        unreported.costs(1.0, true);
        assert_eq!(
            unreported.used.cost_usd, None,
            "earlier turns are in it, and it is not known how much"
        );
    }
}
