//! The attempts of one task side by side: the outcome and cost of each, and which files several of
//! them changed.

use std::collections::BTreeMap;

use axum::extract::Path;
use futures_util::future::join_all;
use maud::{Markup, html};
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, TaskId};

use super::parts::{self, Tone, ago, amount, attempt_badge, badge, dollars, span, visible, word};
use super::shell::{self, Live, NavItem};
use super::task::{Newest, attempts};
use crate::api::artifacts::{GetAttemptChangesInput, GetAttemptChangesOutput};
use crate::api::attempts::AttemptStatus;
use crate::api::tasks::GetTaskInput;
use crate::api::window::{CompareInput, Outcome};
use crate::http::RequestContext;
use crate::http::page::Problem;

/// Most attempts side by side.
const SIDE_BY_SIDE: usize = 6;

/// Most files of the table by file.
const FILES_MAX: usize = 200;

/// An attempt, which is one column.
pub struct Side {
    status: AttemptStatus,
    outcome: Option<Outcome>,
    /// `None`: the changes could not be read.
    changes: Option<GetAttemptChangesOutput>,
}

/// The whole page, with the table in it.
pub async fn page(desk: RequestContext, Path(task_id): Path<TaskId>) -> Result<Markup, Problem> {
    let task = desk.service.get_task(&desk.caller, GetTaskInput { task_id }).await?.task.task;
    let title = format!("Compare {}", task.summary.handle);
    let table = fragment(desk.clone(), Path(task_id)).await?;
    let body = html! {
        p.crumbs { a href="/board" { "Board" } " / " a href={"/tasks/" (task_id)} { (task.summary.handle) } }
        div.head { h1 { "Compare: " (task.summary.title) } }
        (table)
    };
    Ok(shell::page(&title, Some(NavItem::Board), desk.as_of, &body))
}

/// The table alone, which the browser reloads when an attempt or a task changes.
pub async fn fragment(
    desk: RequestContext,
    Path(task_id): Path<TaskId>,
) -> Result<Markup, Problem> {
    let Newest { mut statuses, has_more } = attempts(&desk, task_id).await?;
    let total = statuses.len();
    statuses.truncate(SIDE_BY_SIDE);
    let outcomes = desk.service.outcomes(&desk.caller, CompareInput { task_id }).await?;
    let changes = join_all(statuses.iter().map(|it| changes(&desk, it.attempt_id))).await;
    let sides = statuses.into_iter().zip(changes).map(|(status, changes)| {
        let outcome = outcomes.iter().find(|it| it.attempt_id == status.attempt_id).cloned();
        Side { status, outcome, changes }
    });
    let sides: Vec<Side> = sides.collect();
    Ok(compared(task_id, &sides, (total, has_more), Timestamp::now()))
}

async fn changes(desk: &RequestContext, attempt_id: AttemptId) -> Option<GetAttemptChangesOutput> {
    let input = GetAttemptChangesInput { attempt_id, force: true, from_turn: None, to_turn: None };
    desk.service.get_attempt_changes(&desk.caller, input).await.ok()
}

/// A file, and how each attempt changed it.
#[derive(Debug, PartialEq, Eq)]
struct Shared<'a> {
    path: &'a str,
    /// Lines added and deleted, one item for each column; `None`: that attempt did not change the file.
    by: Vec<Option<(u64, u64)>>,
}

impl Shared<'_> {
    fn count(&self) -> usize {
        self.by.iter().flatten().count()
    }
}

/// All files that an attempt changed; those that most attempts changed come first, then by path.
fn overlap(sides: &[Side]) -> Vec<Shared<'_>> {
    let mut files: BTreeMap<&str, Vec<Option<(u64, u64)>>> = BTreeMap::new();
    for (at, side) in sides.iter().enumerate() {
        for file in side.changes.iter().flat_map(|it| &it.files) {
            let by = files.entry(&file.path).or_insert_with(|| vec![None; sides.len()]);
            by[at] = Some((file.added, file.deleted));
        }
    }
    let mut shared: Vec<_> = files.into_iter().map(|(path, by)| Shared { path, by }).collect();
    shared.sort_by_key(|it| std::cmp::Reverse(it.count()));
    shared
}

/// `total`: how many attempts were found, and whether the task has more.
fn compared(task: TaskId, sides: &[Side], total: (usize, bool), now: Timestamp) -> Markup {
    let (total, has_more) = total;
    let content = html! {
        @if sides.is_empty() && !has_more { div.empty { p { "The task has no attempts yet." } } }
        @else {
            div.panel {
                div.scroll tabindex="0" role="region" aria-label="Attempts side by side" { (table(sides, now)) }
                @if has_more || total > sides.len() {
                    p.small.muted {
                        "The newest " (sides.len()) " of " @if has_more { "more than " } (total) "."
                    }
                }
            }
            (files(sides))
        }
    };
    let path = format!("/compare/{task}/live");
    Live { id: "compare", path: &path, topics: "attempt task", of: None }.wrap(&content)
}

/// A row of the table, with one cell for each attempt.
fn row(name: &str, sides: &[Side], cell: impl Fn(&Side) -> Markup) -> Markup {
    html! { tr { th scope="row" { (name) } @for side in sides { td { (cell(side)) } } } }
}

fn table(sides: &[Side], now: Timestamp) -> Markup {
    html! {
        table.compare {
            thead {
                tr {
                    td { span.unseen { "What" } }
                    @for side in sides {
                        th scope="col" {
                            a href={"/attempts/" (side.status.attempt_id)} { (side.status.executor) }
                            @if let Some(variant) = &side.status.variant { " · " (variant) }
                            div.small.muted { (ago(side.status.created_at, now)) }
                        }
                    }
                }
            }
            tbody {
                (row("Outcome", sides, outcome))
                (row("Checks", sides, checks))
                (row("Changes", sides, lines))
                (row("Conflicts", sides, conflicts))
                (row("Tokens", sides, tokens))
                (row("Cost", sides, cost))
                (row("Time", sides, time))
                (row("Last words", sides, words))
                (row("Review", sides, |side| html! {
                    a.button href={"/attempts/" (side.status.attempt_id) "/review"} { "Review" }
                }))
            }
        }
    }
}

fn unknown() -> Markup {
    html! { span.muted { "–" } }
}

fn outcome(side: &Side) -> Markup {
    let it = &side.status;
    let finish = side.outcome.as_ref().and_then(|it| it.finish.zip(it.finish_state));
    html! {
        (attempt_badge(it.state, it.phase, it.waiting_on))
        @if let Some((action, state)) = finish {
            div.small.muted { (word(&action).replace('_', " ")) ": " (word(&state).replace('_', " ")) }
        }
        @if let Some(why) = &it.failure_summary { div.reason.small { (visible(why)) } }
    }
}

fn checks(side: &Side) -> Markup {
    let checks = side.outcome.as_ref().map(|it| it.checks.as_slice()).unwrap_or_default();
    html! {
        @if checks.is_empty() { (unknown()) }
        @for check in checks {
            @let tone = if check.outcome == "passed" { Tone::Good } else { Tone::Bad };
            (badge(tone, &check.name)) " "
            @if tone == Tone::Bad { span.unseen { (check.outcome.replace('_', " ")) } }
        }
    }
}

fn lines(side: &Side) -> Markup {
    let Some(changes) = &side.changes else { return unknown() };
    let summary = &changes.summary;
    html! {
        (parts::files(summary.file_count)) " "
        span.good-text { "+" (summary.added) } " " span.bad-text { "−" (summary.deleted) }
    }
}

fn conflicts(side: &Side) -> Markup {
    html! {
        @if side.status.conflicts_with.is_empty() { "none" }
        @for it in &side.status.conflicts_with {
            div {
                @match (&it.attempt_id, &it.target_branch) {
                    (Some(other), _) => { "attempt " (other.short()) }
                    (None, branch) => (branch.as_deref().unwrap_or("the target")),
                }
                ": " (it.path_count) @if it.path_count == 1 { " path" } @else { " paths" }
            }
        }
    }
}

fn tokens(side: &Side) -> Markup {
    let Some(usage) = &side.status.usage else { return unknown() };
    html! { (amount(usage.input_tokens)) " in, " (amount(usage.output_tokens)) " out" }
}

fn cost(side: &Side) -> Markup {
    let cost = side.status.usage.as_ref().and_then(|usage| usage.cost_usd);
    cost.map_or_else(unknown, |cost| html! { (dollars(cost)) })
}

fn time(side: &Side) -> Markup {
    let Some(it) = side.outcome.as_ref().filter(|it| it.turns > 0) else { return unknown() };
    html! { (span(it.turns_ms / 1000)) " in " (it.turns) @if it.turns == 1 { " turn" } @else { " turns" } }
}

fn words(side: &Side) -> Markup {
    let Some(words) = &side.status.final_message else { return unknown() };
    html! { div.said { (words) } }
}

fn files(sides: &[Side]) -> Markup {
    let shared = overlap(sides);
    let by_all = shared.iter().filter(|it| it.count() > 1).count();
    html! {
        section.panel {
            h2 { "Files" }
            @if shared.is_empty() { p.muted { "No attempt has changed a file." } }
            @else {
                p.small.muted { (by_all) " of " (shared.len()) " changed by more than one attempt." }
                div.scroll tabindex="0" role="region" aria-label="Files by attempt" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "File" }
                                @for side in sides {
                                    th.number scope="col" { (side.status.executor) " " (side.status.attempt_id.short()) }
                                }
                            }
                        }
                        tbody.marks {
                            @for it in shared.iter().take(FILES_MAX) {
                                tr {
                                    th scope="row" { (visible(it.path)) }
                                    @for by in &it.by {
                                        td.number {
                                            @match by {
                                                Some((added, deleted)) => {
                                                    span.good-text { "+" (added) } " " span.bad-text { "−" (deleted) }
                                                }
                                                None => span.muted { "·" },
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                @if shared.len() > FILES_MAX { p.small.muted { "… and " (shared.len() - FILES_MAX) " more" } }
            }
        }
    }
}

#[cfg(test)]
mod tests;
