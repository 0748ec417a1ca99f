//! Stacked bars, one for each day. Sizes are attributes, because the policy forbids inline styles.
//! Pure.

use maud::{Markup, html};
use provost_actors::event::Timestamp;

/// The number of colours (classes `s0` to `s6`); the last one stands for all further groups.
pub const COLOURS: usize = 7;

/// The coordinates of the drawing; the browser scales it to the page.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 200.0;
/// Space for the numbers at the left, the days below and the topmost number.
const LEFT: f64 = 56.0;
const BELOW: f64 = 22.0;
const ABOVE: f64 = 8.0;
/// Grid lines above the one at zero.
const LINES: u32 = 5;
/// Most days that have a label.
const NAMED: usize = 8;

/// A day's bar: its name, and the amount of each colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    name: String,
    parts: [f64; COLOURS],
}

impl Bar {
    pub fn new(name: String) -> Self {
        Self { name, parts: [0.0; COLOURS] }
    }

    /// Adds to a part of the bar. Colours beyond the last one count as the last one, and negative amounts
    /// as nothing.
    pub fn add(&mut self, colour: usize, amount: f64) {
        self.parts[colour.min(COLOURS - 1)] += amount.max(0.0);
    }

    fn total(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// The month and day (`MM-DD`, in UTC) of the day that follows the first one after `number` days.
pub fn day(first: Timestamp, number: usize) -> String {
    let millis = i64::try_from(number).unwrap_or_default() * 86_400_000;
    let date = Timestamp::from_millis(first.millis() + millis).to_string();
    date.get(5..10).unwrap_or_default().to_owned()
}

/// The top of the scale: the smallest of 1, 2, 2.5, 5 or 10 times a power of ten that is no less.
fn round_up(most: f64) -> f64 {
    if most <= 0.0 || !most.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(most.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|step| step * power >= most);
    step.unwrap_or(10.0) * power
}

/// The plot. `shown` writes an amount, both at the scale and in a bar's tooltip.
#[expect(clippy::cast_precision_loss, reason = "a plot")]
pub fn bars(title: &str, bars: &[Bar], shown: impl Fn(f64) -> String) -> Markup {
    let top = round_up(bars.iter().map(Bar::total).fold(0.0, f64::max));
    let scale = (HEIGHT - BELOW - ABOVE) / top;
    let y = |amount: f64| HEIGHT - BELOW - amount * scale;
    let pitch = (WIDTH - LEFT) / bars.len().max(1) as f64;
    let width = (pitch * 0.72).clamp(1.0, 48.0);
    let every = bars.len().div_ceil(NAMED).max(1);
    html! {
        svg.plot viewBox={"0 0 " (WIDTH) " " (HEIGHT)} role="img" aria-label=(title) {
            @for line in 0..=LINES {
                @let amount = top * f64::from(line) / f64::from(LINES);
                line.grid x1=(LEFT) x2=(WIDTH) y1=(at(y(amount))) y2=(at(y(amount))) {}
                text x=(LEFT - 6.0) y=(at(y(amount) + 4.0)) text-anchor="end" { (shown(amount)) }
            }
            @for (number, bar) in bars.iter().enumerate() {
                @let x = LEFT + pitch * number as f64 + (pitch - width) / 2.0;
                @if bar.total() > 0.0 {
                    g {
                        title { (bar.name) ": " (shown(bar.total())) }
                        @for (colour, below, amount) in stacked(&bar.parts) {
                            rect class={"s" (colour)} x=(at(x)) y=(at(y(below + amount)))
                                width=(at(width)) height=(at(amount * scale)) {}
                        }
                    }
                }
                @if number % every == 0 {
                    text x=(at(x + width / 2.0)) y=(HEIGHT - 6.0) text-anchor="middle" { (bar.name) }
                }
            }
        }
    }
}

/// The colours with an amount: the colour, the sum of the amounts below it, and its own.
fn stacked(parts: &[f64; COLOURS]) -> Vec<(usize, f64, f64)> {
    let mut below = 0.0;
    let mut stacked = Vec::new();
    for (colour, amount) in parts.iter().enumerate().filter(|(_, amount)| **amount > 0.0) {
        stacked.push((colour, below, *amount));
        below += amount;
    }
    stacked
}

/// A square of a colour, for the legend.
pub fn swatch(colour: usize) -> Markup {
    html! {
        svg.plot viewBox="0 0 10 10" aria-hidden="true" {
            rect class={"s" (colour.min(COLOURS - 1))} width="10" height="10" rx="2" {}
        }
    }
}

/// A coordinate with one decimal, which keeps the page small.
fn at(place: f64) -> String {
    format!("{place:.1}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_scale_holds_every_bar_and_is_at_most_two_and_a_half_times_too_high(most in 1e-6..1e12) {
            let top = round_up(most);
            prop_assert!(top >= most * 0.999_999 && top <= most * 2.500_001);
        }

        #[test]
        fn a_stack_is_as_high_as_its_parts(parts in prop::array::uniform7(0.0..1e6)) {
            let stacked = stacked(&parts);
            let (total, sum) = (stacked.last().map_or(0.0, |(_, below, it)| below + it), parts.iter().sum::<f64>());
            prop_assert!((total - sum).abs() < 1e-3);
        }
    }

    #[test]
    fn days_follow_each_other_over_the_end_of_a_month() {
        let first = Timestamp::from_millis(1_700_956_800_000);
        assert_eq!([0, 4, 5].map(|number| day(first, number)), ["11-26", "11-30", "12-01"]);
    }
}
