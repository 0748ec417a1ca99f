//! What a run of the measurements found: rows of figures with their budgets, as a table for people
//! and as JSON for programs. Pure.

use std::time::Duration;

use serde::Serialize;

use crate::counts::COUNTED;

/// In the unit that most rows have.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// One path, measured beside its floor in the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub path: String,
    /// What [`floor`](Self::floor) is of; empty where there is none.
    pub beside: String,
    /// The median, in `unit`.
    pub ours: f64,
    /// The median of the floor, in `unit`.
    pub floor: Option<f64>,
    /// The median of the rounds' ratios, ours to the floor's.
    pub ratio: Option<f64>,
    pub unit: Unit,
    pub budget: Budget,
    /// Whether the budget is met.
    pub is_met: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Microseconds,
    Milliseconds,
    PerSecond,
    Kibibytes,
    Megabytes,
    Count,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Ours to the floor's.
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// Ours to the floor's, where so much of the row's unit is allowed on top: that of a call.
    RatioWithCall(f64, f64),
    /// The median of the rounds' differences, ours less the floor's, in the row's unit.
    MoreAtMost(f64),
    /// Ours itself, in the row's unit.
    AtMost(f64),
}

impl Row {
    /// A path beside its floor: figures of each round side by side, which must not be empty.
    pub fn beside(
        path: &str,
        floor: &str,
        unit: Unit,
        rounds: &[[f64; 2]],
        budget: Budget,
    ) -> Self {
        let of = |which: usize| median(rounds.iter().map(|pair| pair[which]).collect());
        let ratio = median(rounds.iter().map(|[ours, floor]| ours / floor).collect());
        let more = median(rounds.iter().map(|[ours, floor]| ours - floor).collect());
        let row = Self::new((path, floor), of(0), Some(of(1)), Some(ratio), unit, budget);
        match budget {
            Budget::MoreAtMost(most) => Self { is_met: more <= most, ..row },
            _ => row,
        }
    }

    /// A path whose budget is a figure of its own.
    pub fn alone(path: &str, unit: Unit, ours: f64, most: f64) -> Self {
        Self::new((path, ""), ours, None, None, unit, Budget::AtMost(most))
    }

    /// The same beside a floor that only informs.
    pub fn informed(path: &str, floor: (&str, f64), unit: Unit, ours: f64, most: f64) -> Self {
        let ratio = ours / floor.1;
        Self::new((path, floor.0), ours, Some(floor.1), Some(ratio), unit, Budget::AtMost(most))
    }

    /// Counts of a path and of its floor, which say what its time is spent on. They have a budget of
    /// half as much again.
    pub fn counts(path: &str, floor: &str, of: [[f64; 2]; 2]) -> [Self; 2] {
        [0, 1].map(|which| {
            let path = format!("{path}: {} in daemon and bridge", COUNTED[which]);
            let (pair, budget) = ([of.map(|it| it[which])], Budget::RatioAtMost(1.5));
            Self::beside(&path, floor, Unit::Count, &pair, budget)
        })
    }

    fn new(
        (path, beside): (&str, &str),
        ours: f64,
        floor: Option<f64>,
        ratio: Option<f64>,
        unit: Unit,
        budget: Budget,
    ) -> Self {
        let is_met = match budget {
            Budget::RatioAtMost(most) => ratio.is_some_and(|ratio| ratio <= most),
            Budget::RatioAtLeast(least) => ratio.is_some_and(|ratio| ratio >= least),
            Budget::RatioWithCall(most, call) => {
                floor.is_some_and(|floor| ours <= most * floor + call)
            }
            Budget::MoreAtMost(most) => floor.is_some_and(|floor| ours <= floor + most),
            Budget::AtMost(most) => ours <= most,
        };
        let (path, beside) = (path.to_owned(), beside.to_owned());
        Self { path, beside, ours, floor, ratio, unit, budget, is_met }
    }

    /// Its line of the table in Markdown.
    pub fn line(&self) -> String {
        let figure = |value: Option<f64>| value.map(|it| self.unit.show(it)).unwrap_or_default();
        let ratio = self.ratio.map(|ratio| format!("{ratio:.2} ×")).unwrap_or_default();
        let met = if self.is_met { "" } else { " **missed**" };
        let [ours, floor] = [Some(self.ours), self.floor].map(figure);
        let budget = match self.budget {
            Budget::RatioAtMost(most) => format!("≤ {most} ×"),
            Budget::RatioAtLeast(least) => format!("≥ {least} ×"),
            Budget::RatioWithCall(most, call) => {
                format!("≤ {most} × + a call of {}", self.unit.show(call))
            }
            Budget::MoreAtMost(most) => format!("≤ {} more", self.unit.show(most)),
            Budget::AtMost(most) => format!("≤ {}", self.unit.show(most)),
        };
        let (path, beside) = (&self.path, &self.beside);
        format!("| {path} | {beside} | {ours} | {floor} | {ratio} | {budget}{met} |")
    }
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Microseconds => format!("{value:.0} µs"),
            Self::Milliseconds if value < 10.0 => format!("{value:.2} ms"),
            Self::Milliseconds => format!("{value:.0} ms"),
            Self::PerSecond => format!("{value:.0}/s"),
            Self::Kibibytes => format!("{value:.0} KiB"),
            Self::Megabytes => format!("{value:.1} MB"),
            Self::Count => format!("{}", (value * 10.0).round() / 10.0),
        }
    }
}

/// All rows, with their heads.
pub fn table(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| row.line() + "\n");
    [HEADS.to_owned() + "\n"].into_iter().chain(lines).collect()
}

/// The heads of [`Row::line`]s.
pub const HEADS: &str =
    "| path | beside | Provost | floor | ratio | budget |\n|---|---|--:|--:|--:|---|";

/// 0 for none.
pub fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_medians_and_the_median_of_the_ratios() {
        let rounds = [[2.0, 1.0], [30.0, 10.0], [40.0, 5.0]];
        let row =
            Row::beside("a call", "bare", Unit::Microseconds, &rounds, Budget::RatioAtMost(2.0));
        assert_eq!(row.line(), "| a call | bare | 30 µs | 5 µs | 3.00 × | ≤ 2 × **missed** |");
        assert!(Row::alone("memory", Unit::Megabytes, 7.5, 8.0).is_met);
    }

    #[test]
    fn a_difference_is_that_of_the_rounds() {
        let rounds = [[12.0, 10.0], [52.0, 50.0], [35.0, 30.0]];
        let row = Row::beside("a", "b", Unit::Milliseconds, &rounds, Budget::MoreAtMost(3.0));
        assert_eq!(row.line(), "| a | b | 35 ms | 30 ms | 1.17 × | ≤ 3.00 ms more |");
    }

    #[test]
    fn a_rate_has_to_reach_its_budget() {
        let rate = |ours| {
            let budget = Budget::RatioAtLeast(0.5);
            Row::beside("calls", "bare", Unit::PerSecond, &[[ours, 10.0]], budget).is_met
        };
        assert!(rate(5.0) && !rate(4.0));
    }
}
