//! The page of an attempt: what it was asked, what it did and does, and the form for the next prompt.
//! Each part of the page has an address, from which the browser reloads it.
//!
//! ```text
//!  page ┬ head, approvals, queue, facts    live: reloaded when the attempt changes
//!       ├ processes                        every 5 seconds
//!       ├ turns ┬ turns_part               newer turns when one begins; earlier ones by a button
//!       │       ├ turn_part                a turn's outcome, until the turn is over
//!       │       └ entries_part             what the agent did: by index, every 2 s while it may grow
//!       └ log_part                         windows of either channel, by index
//! ```

mod head;
mod log;
mod turns;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{Markup, html};
use provost_actors::event::{Channel, Timestamp};
use provost_actors::ids::AttemptId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::colours;
use super::entries;
use super::form::Forms;
use super::need;
use super::shell::{self, Live, NavItem};
use crate::api::approvals::ApprovalSummary;
use crate::api::attempts::{AttemptPhase, AttemptStatus, AttemptStatusOutput};
use crate::api::logs::LogEntry;
use crate::api::timeline::{Timeline, Turn};
use crate::api::{Code, Refusable, Refusal};
use crate::http::page::Problem;
use crate::http::{HttpState, RequestContext, assets};
pub use head::finished;
use log::{Window, WindowQuery};

/// Entries of a turn in one answer.
const ENTRIES: usize = 60;

/// The addresses of the page and its parts.
pub fn routes() -> Router<Arc<HttpState>> {
    Router::new()
        .route("/attempts/{id}", get(page))
        .route("/attempts/{id}/head", get(head_part))
        .route("/attempts/{id}/approvals", get(approvals_part))
        .route("/attempts/{id}/facts", get(facts_part))
        .route("/attempts/{id}/queue", get(queue_part))
        .route("/attempts/{id}/processes", get(processes_part))
        .route("/attempts/{id}/turns", get(turns_part))
        .route("/attempts/{id}/turns/{turn}", get(turn_part))
        .route("/attempts/{id}/turns/{turn}/entries", get(entries_part))
        .route("/attempts/{id}/log", get(log_part))
}

/// The typed input of a method; `invalid_argument` if a value of the address does not fit.
pub fn input<T: DeserializeOwned>(value: Value) -> Refusable<T> {
    serde_json::from_value(value).map_err(|error| {
        Refusal::new(Code::InvalidArgument, format!("the address has a wrong value: {error}"))
    })
}

/// The status of one attempt.
pub async fn status(desk: &RequestContext, id: AttemptId) -> Refusable<AttemptStatus> {
    let asked = input(json!({ "attempt_id": id }))?;
    match desk.service.get_attempt_status(&desk.caller, asked).await? {
        AttemptStatusOutput::One(status) => Ok(*status),
        AttemptStatusOutput::Many(_) => Err(Refusal::internal("many statuses answer one id")),
    }
}

fn forms(desk: &RequestContext, id: AttemptId) -> Forms {
    Forms::new(&desk.caller, format!("/attempts/{id}"))
}

/// The attempt's open approvals, at most 20. An attempt can have some and not wait for them.
async fn asked(desk: &RequestContext, status: &AttemptStatus) -> Refusable<Vec<ApprovalSummary>> {
    let inbox = input(json!({ "attempt_id": status.attempt_id, "limit": 20 }))?;
    Ok(desk.service.list_inbox(&desk.caller, inbox).await?.approvals)
}

fn asks(approvals: &[ApprovalSummary], forms: &Forms, now: Timestamp) -> Markup {
    html! { div.items { @for it in approvals { (need::approval(it, forms, now)) } } }
}

async fn page(desk: RequestContext, Path(id): Path<AttemptId>) -> Result<Markup, Problem> {
    // The review, which needs the syntaxes, is a likely next page.
    colours::prepare();
    let status = status(&desk, id).await?;
    let timeline = desk.service.attempt_timeline(id, None).await?;
    let (forms, now) = (forms(&desk, id), Timestamp::now());
    let approvals = asks(&asked(&desk, &status).await?, &forms, now);
    let body = body(&status, &timeline, &approvals, &forms, now);
    Ok(shell::page(&timeline.task_title, Some(NavItem::Board), desk.as_of, &body))
}

/// A part of the page that the browser reloads when this attempt changes.
fn live(id: AttemptId, part: &str, content: &Markup) -> Markup {
    let (path, of) = (format!("/attempts/{id}/{part}"), id.to_string());
    let name = format!("attempt-{part}");
    Live { id: &name, path: &path, topics: "attempt", of: Some(&of) }.wrap(content)
}

fn body(
    status: &AttemptStatus,
    timeline: &Timeline,
    approvals: &Markup,
    forms: &Forms,
    now: Timestamp,
) -> Markup {
    let id = status.attempt_id;
    let queue = turns::queue(id, &timeline.waiting, status.queue_held, forms, now);
    html! {
        link rel="stylesheet" href=(assets::path("colours.css"));
        link rel="stylesheet" href=(assets::path("attempt.css"));
        (shell::script("attempt.js"))
        div.wide {
            (live(id, "head", &head::head(status, timeline, forms, now)))
            (live(id, "approvals", approvals))
            div.attempt {
                div.timeline {
                    @if forms.may_write { section.panel {
                        h2.unseen { "Next prompt" }
                        (turns::prompt_box(id, forms))
                        (live(id, "queue", &queue))
                    } }
                    (turns::list(status, timeline, now))
                }
                div.beside {
                    (log::panel(id, status.phase != AttemptPhase::Settled))
                    section.panel {
                        h2 { "Processes" }
                        div hx-get={ "/attempts/" (id) "/processes" } hx-trigger="load, every 5s" {}
                    }
                    (live(id, "facts", &head::facts(status, timeline, forms, now)))
                }
            }
        }
    }
}

async fn head_part(desk: RequestContext, Path(id): Path<AttemptId>) -> Result<Markup, Problem> {
    let status = status(&desk, id).await?;
    let timeline = desk.service.attempt_timeline(id, None).await?;
    let head = head::head(&status, &timeline, &forms(&desk, id), Timestamp::now());
    Ok(live(id, "head", &head))
}

async fn approvals_part(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
) -> Result<Markup, Problem> {
    let status = status(&desk, id).await?;
    let asks = asks(&asked(&desk, &status).await?, &forms(&desk, id), Timestamp::now());
    Ok(live(id, "approvals", &asks))
}

async fn facts_part(desk: RequestContext, Path(id): Path<AttemptId>) -> Result<Markup, Problem> {
    let status = status(&desk, id).await?;
    let timeline = desk.service.attempt_timeline(id, None).await?;
    let facts = head::facts(&status, &timeline, &forms(&desk, id), Timestamp::now());
    Ok(live(id, "facts", &facts))
}

async fn queue_part(desk: RequestContext, Path(id): Path<AttemptId>) -> Result<Markup, Problem> {
    let status = status(&desk, id).await?;
    let waiting = desk.service.attempt_timeline(id, None).await?.waiting;
    let (forms, now) = (forms(&desk, id), Timestamp::now());
    Ok(live(id, "queue", &turns::queue(id, &waiting, status.queue_held, &forms, now)))
}

async fn processes_part(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
) -> Result<Markup, Problem> {
    Ok(head::processes(&desk.service.attempt_processes(id).await?))
}

/// `after`: only turns that began after this one. `before`: the last turns before this one.
#[derive(Deserialize)]
struct TurnsQuery {
    after: Option<u32>,
    before: Option<u32>,
}

async fn turns_part(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
    Query(query): Query<TurnsQuery>,
) -> Result<Markup, Problem> {
    let now = Timestamp::now();
    let timeline = desk.service.attempt_timeline(id, query.before).await?;
    Ok(match query.after {
        Some(after) => turns::newer(id, &timeline, after, now),
        None => turns::older(id, &timeline, now),
    })
}

/// A turn's head, prompt and outcome. The timeline ends with this turn, which is why it is asked for
/// the turns before the next one.
async fn turn_part(
    desk: RequestContext,
    Path((id, number)): Path<(AttemptId, u32)>,
) -> Result<Markup, Problem> {
    let timeline = desk.service.attempt_timeline(id, number.checked_add(1)).await?;
    let turn = timeline.turns.into_iter().find(|turn: &Turn| turn.number == number);
    let message = || format!("attempt {id} has no turn {number}");
    let turn = turn.ok_or_else(|| Refusal::new(Code::TurnNotFound, message()))?;
    Ok(turns::outcome(id, &turn, Timestamp::now()))
}

/// The entries of one turn: its last ones, those before an index, or those after one. A page of the
/// log is cut without regard to turns, so entries of other turns are dropped here; they also show
/// whether the turn has more entries in that direction.
async fn entries_part(
    desk: RequestContext,
    Path((id, turn)): Path<(AttemptId, u32)>,
    Query(query): Query<WindowQuery>,
) -> Result<Response, Problem> {
    let log = NormalizedLog { desk: &desk, id };
    let place = match (query.before, query.after) {
        (None, None) => (log.end_of(turn).await?, None),
        given => given,
    };
    let page = log.read(place, ENTRIES).await?;
    let reaches_newest = page.entries.last().map(entries::index) == page.latest_entry_index;
    let has_other_before = page.entries.first().is_some_and(|it| turn_of(it) < turn);
    let has_later = page.entries.iter().any(|it| turn_of(it) > turn);
    let last = page.entries.last().map(entries::index);
    let of_turn = page.entries.into_iter().filter(|it| turn_of(it) == turn);
    let of_turn: Vec<LogEntry> = of_turn.collect();
    let is_forward = query.before.is_none();
    let may_come = is_forward && !has_later && (reaches_newest || query.after.is_some());
    if query.after.is_some() && of_turn.is_empty() && may_come {
        // htmx replaces nothing on 204: the element that asked stays on the page and asks again.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let after = last.and_then(|it| i64::try_from(it).ok()).or(query.after).unwrap_or(-1);
    let shown = turns::Entries {
        id,
        turn,
        has_earlier: query.after.is_none() && page.has_more && !has_other_before,
        live_after: may_come.then_some(after),
        those: &of_turn,
    };
    let markup = match (query.before, query.after) {
        (Some(_), _) => shown.earlier(),
        (None, Some(_)) => shown.newer(),
        (None, None) => shown.last(),
    };
    Ok(markup.into_response())
}

/// Entries before an index, or after one; the newest ones if neither is given.
type At = (Option<u64>, Option<i64>);

/// The normalized channel of one attempt. Only its entries know their turns.
struct NormalizedLog<'d> {
    desk: &'d RequestContext,
    id: AttemptId,
}

impl NormalizedLog<'_> {
    async fn read(&self, place: At, limit: usize) -> Refusable<log::ReadPage> {
        let RequestContext { service, caller, .. } = self.desk;
        log::page(&**service, caller, self.id, Channel::Normalized, place, limit).await
    }

    /// The index of the first entry after a turn; `None`: the turn has the newest entry. Turn numbers
    /// never decrease along the log, so a binary search finds it.
    async fn end_of(&self, turn: u32) -> Refusable<Option<u64>> {
        let newest = self.read((None, None), 1).await?;
        let ends = newest.oldest_entry_index.zip(newest.latest_entry_index);
        let Some((mut low, mut high)) = ends else { return Ok(None) };
        if newest.entries.last().is_none_or(|it| turn_of(it) <= turn) {
            return Ok(None);
        }
        // The first entry of a later turn is in `low..=high`.
        while low < high {
            let middle = low + (high - low) / 2;
            let after = i64::try_from(middle).unwrap_or(i64::MAX) - 1;
            let page = self.read((None, Some(after)), 1).await?;
            match page.entries.first() {
                Some(entry) if turn_of(entry) > turn => high = middle,
                Some(_) => low = middle + 1,
                None => return Ok(None),
            }
        }
        Ok(Some(low))
    }
}

/// The entry's turn. Raw entries do not occur here.
fn turn_of(entry: &LogEntry) -> u32 {
    match entry {
        LogEntry::Normalized(entry) => entry.turn,
        LogEntry::Raw(_) => 0,
    }
}

/// A window of the log: its rows for the script (`x-part`), else a page.
async fn log_part(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
    Query(query): Query<WindowQuery>,
    headers: HeaderMap,
) -> Result<Markup, Problem> {
    let window = Window::read(&*desk.service, &desk.caller, id, query).await?;
    if headers.contains_key("x-part") {
        return Ok(window.markup());
    }
    let body = html! {
        link rel="stylesheet" href=(assets::path("attempt.css"));
        (log::whole(id, query, &window))
    };
    Ok(shell::page("Log", Some(NavItem::Board), desk.as_of, &body))
}

#[cfg(test)]
pub mod tests;
