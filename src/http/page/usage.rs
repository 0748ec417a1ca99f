//! Tokens and cost by day, project and executor, as tables and as plots that the server draws. It
//! works without a script.

use std::collections::BTreeMap;

use axum::extract::Query;
use maud::{Markup, html};
use serde::Deserialize;

use super::parts::{amount, dollars};
use super::shell::{self, NavItem};
use super::svg::{self, Bar};
use crate::api::args::Limit;
use crate::api::window::{Usage, UsageInput, UsageRow};
use crate::http::RequestContext;
use crate::http::page::Problem;

/// The periods of the page, in days.
const DAYS: [usize; 4] = [7, 30, 90, 365];

/// What one colour of the plots stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    #[default]
    Project,
    Executor,
}

impl By {
    fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Executor => "executor",
        }
    }

    /// The row's group.
    fn of(self, row: &UsageRow) -> &str {
        match self {
            Self::Project => &row.project_name,
            Self::Executor => &row.executor,
        }
    }
}

/// The page's query. Any other number of days than those of [`DAYS`] counts as 30.
#[derive(Debug, Default, Deserialize)]
pub struct Asked {
    days: Option<usize>,
    #[serde(default)]
    by: By,
}

/// The page. The days are those of UTC.
pub async fn page(desk: RequestContext, Query(asked): Query<Asked>) -> Result<Markup, Problem> {
    let days = asked.days.filter(|days| DAYS.contains(days)).unwrap_or(30);
    let input = UsageInput { days: Limit::of(days) };
    let usage = desk.service.usage(&desk.caller, input).await?;
    Ok(shell::page("Usage", Some(NavItem::Usage), desk.as_of, &whole(&usage, asked.by)))
}

/// The sum of a group, or of all rows.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    turns: u64,
    input: u64,
    output: u64,
    cost: f64,
    without_cost: u64,
}

impl Sum {
    fn add(&mut self, row: &UsageRow) {
        self.turns += row.turns;
        self.input += row.input_tokens;
        self.output += row.output_tokens;
        self.cost += row.cost_usd;
        self.without_cost += row.without_cost;
    }
}

/// The sum of each group, largest cost first, then most tokens: executors that report no cost come in
/// the order of their tokens.
fn sums(usage: &Usage, by: By) -> Vec<(&str, Sum)> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for row in &usage.rows {
        sums.entry(by.of(row)).or_default().add(row);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(_, a), (_, b)| {
        b.cost.total_cmp(&a.cost).then((b.input + b.output).cmp(&(a.input + a.output)))
    });
    sums
}

fn whole(usage: &Usage, by: By) -> Markup {
    let mut all = Sum::default();
    usage.rows.iter().for_each(|row| all.add(row));
    let groups = sums(usage, by);
    html! {
        div.head {
            h1 { "Usage" }
            div.end { (choices(usage, by)) }
        }
        @if usage.rows.is_empty() {
            div.empty { p { "No turn has ended in the last " (usage.days) " days." } }
        } @else {
            dl.totals {
                div { dt { "Cost" } dd { (dollars(all.cost)) } }
                div { dt { "Tokens read" } dd { (amount(all.input)) } }
                div { dt { "Tokens written" } dd { (amount(all.output)) } }
                div { dt { "Turns" } dd { (amount(all.turns)) } }
            }
            @if all.without_cost > 0 {
                p.small.muted { "The cost of " (all.without_cost) " of " (all.turns) " turns is not known." }
            }
            (plot("Cost by day, in US dollars", usage, by, &groups, |row| row.cost_usd, dollars))
            (plot("Tokens by day", usage, by, &groups, tokens, |it| amount(whole_number(it))))
            (table(by, &groups))
            (table(other(by), &sums(usage, other(by))))
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a plot")]
fn tokens(row: &UsageRow) -> f64 {
    (row.input_tokens + row.output_tokens) as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a plot")]
fn whole_number(amount: f64) -> u64 {
    amount.round() as u64
}

/// The other grouping, for the second table.
fn other(by: By) -> By {
    match by {
        By::Project => By::Executor,
        By::Executor => By::Project,
    }
}

fn choices(usage: &Usage, by: By) -> Markup {
    html! {
        form.fields method="get" action="/usage" {
            label {
                span.unseen { "Days" }
                select name="days" data-submit {
                    @for days in DAYS {
                        option value=(days) selected[usize::try_from(usage.days) == Ok(days)] { "Last " (days) " days" }
                    }
                }
            }
            label {
                span.unseen { "Colour by" }
                select name="by" data-submit {
                    @for it in [By::Project, By::Executor] {
                        option value=(it.word()) selected[it == by] { "By " (it.word()) }
                    }
                }
            }
            button.plain.unscripted type="submit" { "Show" }
        }
    }
}

/// A stacked plot. `groups` are in the order of their colours; those beyond the last colour share it.
fn plot(
    title: &str,
    usage: &Usage,
    by: By,
    groups: &[(&str, Sum)],
    value: impl Fn(&UsageRow) -> f64,
    shown: impl Fn(f64) -> String,
) -> Markup {
    let colours: Vec<&str> = groups.iter().map(|(name, _)| *name).collect();
    let colour = |name: &str| colours.iter().position(|it| *it == name).unwrap_or_default();
    let days = usage.days as usize;
    let mut bars: Vec<Bar> = (0..days).map(|day| Bar::new(svg::day(usage.from, day))).collect();
    for row in &usage.rows {
        if let Some(bar) = bars.get_mut(row.day as usize) {
            bar.add(colour(by.of(row)), value(row));
        }
    }
    html! {
        section.panel {
            h2 { (title) }
            (svg::bars(title, &bars, shown))
            ul.legend {
                @for (at, name) in colours.iter().enumerate().take(svg::COLOURS) {
                    li { (svg::swatch(at)) @if at + 1 == svg::COLOURS && colours.len() > at + 1 { "others" } @else { (name) } }
                }
            }
        }
    }
}

fn table(by: By, groups: &[(&str, Sum)]) -> Markup {
    html! {
        section.panel {
            h2 { "By " (by.word()) }
            div.scroll tabindex="0" role="region" aria-label={"Table by " (by.word())} {
                table {
                    thead {
                        tr {
                            th scope="col" { (by.word()) }
                            th.number scope="col" { "Turns" }
                            th.number scope="col" { "Tokens read" }
                            th.number scope="col" { "Tokens written" }
                            th.number scope="col" { "Cost" }
                        }
                    }
                    tbody {
                        @for (name, sum) in groups {
                            tr {
                                th scope="row" { (name) }
                                td.number { (sum.turns) }
                                td.number { (amount(sum.input)) }
                                td.number { (amount(sum.output)) }
                                td.number {
                                    @if sum.without_cost == sum.turns { span.muted { "not known" } }
                                    @else { (dollars(sum.cost)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
