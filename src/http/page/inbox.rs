//! The first page: everything that needs a person, newest first. Each item can be answered in place.

use axum::extract::{Path, Query};
use maud::{Markup, html};
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId};
use serde::Deserialize;

use super::colours;
use super::form::Forms;
use super::need;
use super::parts::{self, encoded, visible, word};
use super::projects::{self, Projects};
use super::shell::{self, Live, NavItem};
use crate::api::args::Limit;
use crate::api::artifacts::{GetAttemptChangesInput, GetAttemptChangesOutput};
use crate::api::window::{Attention, AttentionInput};
use crate::http::RequestContext;
use crate::http::page::Problem;

/// Most items of a page; older ones are on the next pages.
const ITEMS: usize = 30;
/// Files that an item lists.
const FILES_MAX: usize = 20;

/// The page's query.
#[derive(Debug, Default, Deserialize)]
pub struct Asked {
    project: Option<String>,
    cursor: Option<String>,
}

impl Asked {
    /// The chosen project; `None` also for an id that is none.
    fn project(&self) -> Option<ProjectId> {
        self.project.as_deref().and_then(|id| id.parse().ok())
    }

    /// The address of this list, as a whole page or as a part of it.
    fn path(&self, part: &str) -> String {
        let given = [("project", &self.project), ("cursor", &self.cursor)];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let given = given.filter(|(_, value)| !value.is_empty());
        let pairs: Vec<_> =
            given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        if pairs.is_empty() { part.to_owned() } else { format!("{part}?{}", pairs.join("&")) }
    }
}

/// The whole page. It also begins to load the syntaxes: a review is a likely next page.
pub async fn page(desk: RequestContext, Query(asked): Query<Asked>) -> Result<Markup, Problem> {
    colours::prepare();
    let projects = projects::of(&desk).await?;
    let list = list(&desk, &asked).await?;
    let body = whole(&projects, asked.project(), &list);
    Ok(shell::page("Inbox", Some(NavItem::Inbox), desk.as_of, &body))
}

/// The list alone, which the browser reloads when something changes.
pub async fn fragment(desk: RequestContext, Query(asked): Query<Asked>) -> Result<Markup, Problem> {
    list(&desk, &asked).await
}

async fn list(desk: &RequestContext, asked: &Asked) -> Result<Markup, Problem> {
    let cursor = asked.cursor.clone().filter(|cursor| !cursor.is_empty());
    let input = AttentionInput { project_id: asked.project(), cursor, limit: Limit::of(ITEMS) };
    let found = desk.service.attention(&desk.caller, input).await?;
    let forms = Forms::new(&desk.caller, asked.path("/"));
    Ok(items(&found, asked, &forms, Timestamp::now()))
}

/// The number beside the inbox's name: all items of all projects.
pub async fn waiting(desk: RequestContext) -> Result<Markup, Problem> {
    let limit = Limit::of(1);
    let input = AttentionInput { limit, ..AttentionInput::default() };
    let found = desk.service.attention(&desk.caller, input).await?;
    Ok(shell::waiting(Some(found.total)))
}

/// The changed files of an attempt, in short. An item asks for them when it is unfolded, because git
/// has to compare the worktree.
pub async fn files(
    desk: RequestContext,
    Path(attempt_id): Path<AttemptId>,
) -> Result<Markup, Problem> {
    let input = GetAttemptChangesInput { attempt_id, force: false, from_turn: None, to_turn: None };
    Ok(file_list(&desk.service.get_attempt_changes(&desk.caller, input).await?))
}

fn whole(projects: &Projects, chosen: Option<ProjectId>, list: &Markup) -> Markup {
    html! {
        div.head { h1 { "Inbox" } div.end { (projects.choice("/", chosen)) } }
        (list)
    }
}

fn items(found: &Attention, asked: &Asked, forms: &Forms, now: Timestamp) -> Markup {
    let content = html! {
        @if found.items.is_empty() {
            div.empty {
                p { strong { "Nothing needs you." } }
                p { "What agents ask, fail at or finish comes up here by itself." }
                p { a href="/board" { "Go to the board" } }
            }
        } @else {
            ul.items aria-label="What needs you" {
                @for it in &found.items { (need::item(it, forms, now)) }
            }
        }
        @if let Some(cursor) = &found.next_cursor {
            @let next = Asked { project: asked.project.clone(), cursor: Some(cursor.clone()) };
            a.more href=(next.path("/")) {
                "Older (" (found.total) " in all)"
            }
        }
    };
    let topics = "attempt task inbox project";
    Live { id: "inbox", path: &asked.path("/inbox"), topics, of: None }.wrap(&content)
}

fn file_list(changes: &GetAttemptChangesOutput) -> Markup {
    let summary = &changes.summary;
    html! {
        p.small {
            (parts::files(summary.file_count)) ", "
            span.good-text { "+" (summary.added) } " " span.bad-text { "−" (summary.deleted) }
        }
        ul.mono {
            @for file in changes.files.iter().take(FILES_MAX) {
                li {
                    (visible(&file.path)) " "
                    span.muted { (word(&file.status)) " +" (file.added) " −" (file.deleted) }
                }
            }
        }
        @if changes.files.len() > FILES_MAX { p.small.muted { "… and more" } }
        @if let Some(hint) = changes.hint.as_ref().filter(|_| changes.files.is_empty()) {
            p.small.muted { (hint) }
        }
    }
}

#[cfg(test)]
mod tests;
