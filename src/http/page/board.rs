//! The board: tasks in columns that the service derives from facts, a form for new tasks, and moves,
//! by drag or by form.

use axum::extract::Query;
use maud::{Markup, html};
use provost_actors::event::Timestamp;
use provost_actors::ids::ProjectId;
use serde::Deserialize;

use super::form::{Button, Call, Forms, Look};
use super::parts::{Tone, ago, attempt_badge, badge, encoded, headline, priority, word};
use super::projects::{self, Projects};
use super::shell::{self, Live, NavItem};
use crate::api::args::Limit;
use crate::api::attempts::{AttemptPhase, AttemptState};
use crate::api::tasks::{Priority, TaskStatus};
use crate::api::window::{Board, BoardColumn, BoardInput, Card, Column, Why};
use crate::http::RequestContext;
use crate::http::page::Problem;

/// Most cards of a column; further ones are on pages of that column alone.
const CARDS: usize = 30;

/// Longest reason on a card, in characters.
const REASON_MAX: usize = 160;

/// The page's query.
#[derive(Debug, Default, Deserialize)]
pub struct Asked {
    project: Option<String>,
    /// The only column to show; `None`: all.
    column: Option<Column>,
    #[serde(default)]
    skip: usize,
}

impl Asked {
    /// The chosen project; `None` also for an id that is none, so that an old link shows all projects.
    fn project(&self) -> Option<ProjectId> {
        self.project.as_deref().and_then(|id| id.parse().ok())
    }

    /// The address of this selection, as a whole page or as a part of it.
    fn path(&self, part: &str) -> String {
        let mut pairs = Vec::new();
        if let Some(project) = self.project() {
            pairs.push(format!("project={project}"));
        }
        if let Some(column) = self.column {
            pairs.push(format!("column={}&skip={}", encoded(&word(&column)), self.skip));
        }
        if pairs.is_empty() { part.to_owned() } else { format!("{part}?{}", pairs.join("&")) }
    }

    fn input(&self) -> BoardInput {
        BoardInput {
            project_id: self.project(),
            column: self.column,
            skip: self.skip,
            limit: Limit::of(CARDS),
        }
    }
}

/// The whole page: forms for new tasks, and the columns.
pub async fn page(desk: RequestContext, Query(asked): Query<Asked>) -> Result<Markup, Problem> {
    let projects = projects::of(&desk).await?;
    let board = desk.service.board(&desk.caller, asked.input()).await?;
    let forms = Forms::new(&desk.caller, asked.path("/board"));
    let body = whole(&projects, &board, &asked, &forms, Timestamp::now());
    Ok(shell::page("Board", Some(NavItem::Board), desk.as_of, &body))
}

/// The columns alone, which the browser reloads when something changes. The form for a new task is
/// outside of them: a reload would discard what a person types.
pub async fn fragment(desk: RequestContext, Query(asked): Query<Asked>) -> Result<Markup, Problem> {
    let board = desk.service.board(&desk.caller, asked.input()).await?;
    let forms = Forms::new(&desk.caller, asked.path("/board"));
    Ok(columns(&board, &asked, &forms, Timestamp::now()))
}

fn whole(
    projects: &Projects,
    board: &Board,
    asked: &Asked,
    forms: &Forms,
    now: Timestamp,
) -> Markup {
    html! {
        div.wide {
            div.head { h1 { "Board" } div.end { (projects.choice("/board", asked.project())) } }
            @if forms.may_write { (new_task(projects, asked.project(), forms)) (mover(forms)) }
            (columns(board, asked, forms, now))
        }
    }
}

fn new_task(projects: &Projects, chosen: Option<ProjectId>, forms: &Forms) -> Markup {
    if projects.0.is_empty() {
        return html! {
            div.empty { p { "There is no project yet." } p { code { "provost project add PATH" } } }
        };
    }
    let content = html! {
        div.fields {
            label.grow { "Title" input type="text" name="title" required maxlength="1000" data-key="n"; }
            label {
                "Project"
                select name="project_id" {
                    @for it in &projects.0 {
                        option value=(it.project_id) selected[chosen == Some(it.project_id)] { (it.name) }
                    }
                }
            }
            label { "Priority" (priorities(Priority::Medium)) }
            label { "Depends on" input type="text" name="depends_on" placeholder="TASK-001" size="10"; }
        }
        label { "Description" textarea name="description" rows="3" {} }
        div.actions { (Button::new("Create task").look(Look::Primary).markup()) }
    };
    html! {
        details.panel #new-task {
            summary { "New task " kbd aria-hidden="true" { "n" } }
            (Call::new("create_task").form(forms, "stack", None, &content))
        }
    }
}

/// A field for the priority, also of a task's page.
pub fn priorities(chosen: Priority) -> Markup {
    const ALL: [Priority; 4] =
        [Priority::Critical, Priority::High, Priority::Medium, Priority::Low];
    html! {
        select name="priority" {
            @for it in ALL { option value=(word(&it)) selected[it == chosen] { (word(&it)) } }
        }
    }
}

/// The hidden form of a drag and drop, which the script fills in: one for all cards.
fn mover(forms: &Forms) -> Markup {
    let content = html! { input type="hidden" name="task_id"; input type="hidden" name="status"; (Button::new("Move").markup()) };
    html! { div #mover hidden { (Call::new("update_task").form(forms, "inline", None, &content)) } }
}

fn columns(board: &Board, asked: &Asked, forms: &Forms, now: Timestamp) -> Markup {
    let content = html! {
        @if asked.column.is_some() {
            @let all = Asked { project: asked.project.clone(), ..Asked::default() };
            p.crumbs { a href=(all.path("/board")) { "All columns" } }
        }
        div.columns.alone[asked.column.is_some()] {
            @for it in &board.columns { (column(it, asked, forms, now)) }
        }
    };
    let topics = "task attempt inbox project";
    Live { id: "columns", path: &asked.path("/board/columns"), topics, of: None }.wrap(&content)
}

/// The column's heading.
pub fn title(column: Column) -> &'static str {
    match column {
        Column::Waiting => "Waiting",
        Column::Working => "Working",
        Column::NeedsYou => "Needs you",
        Column::ToReview => "To review",
        Column::ReadyToMerge => "Ready to merge",
        Column::Done => "Done",
    }
}

/// The status that a task gets when it is dropped on a column. `None`: no status leads to the column;
/// only facts do, such as a running attempt.
fn drop_status(column: Column) -> Option<TaskStatus> {
    match column {
        Column::Waiting => Some(TaskStatus::Todo),
        Column::ToReview => Some(TaskStatus::InReview),
        Column::Done => Some(TaskStatus::Done),
        Column::Working | Column::NeedsYou | Column::ReadyToMerge => None,
    }
}

fn column(it: &BoardColumn, asked: &Asked, forms: &Forms, now: Timestamp) -> Markup {
    let name = word(&it.column);
    let drop = drop_status(it.column).map(|status| word(&status));
    let end = it.skipped + it.cards.len();
    let page = |skip| Asked { project: asked.project.clone(), column: Some(it.column), skip };
    html! {
        section.column #{"column-" (name)} aria-labelledby={"title-" (name)} data-drop=[drop] {
            h2 #{"title-" (name)} { (title(it.column)) span.muted { (it.total) } }
            @if it.skipped > 0 {
                a.more href=(page(it.skipped.saturating_sub(CARDS)).path("/board")) { "Newer" }
            }
            ul.cards {
                @for it in &it.cards { (card(it, asked.project().is_none(), forms, now)) }
            }
            @if end < it.total {
                a.more href=(page(end).path("/board")) { (it.total - end) " more" }
            }
        }
    }
}

fn card(card: &Card, names_project: bool, forms: &Forms, now: Timestamp) -> Markup {
    let task = &card.task;
    html! {
        li.card #{"card-" (task.task_id)} data-item tabindex="-1" data-task=(task.task_id)
            draggable=[forms.may_write.then_some("true")] {
            a.title data-open href=(place(card)) { (task.title) }
            div.card-row {
                a.tag href={"/tasks/" (task.task_id)} { (task.handle) }
                @if names_project { span.clip { (task.project_name) } }
                (priority(task.priority))
                @if task.status == TaskStatus::Cancelled { (badge(Tone::Quiet, "cancelled")) }
            }
            @if let Some(attempt) = &card.attempt {
                div.card-row {
                    (attempt_badge(attempt.state, attempt.phase, attempt.waiting_on))
                    a href={"/attempts/" (attempt.attempt_id)} { (attempt.executor) }
                    @if task.attempts > 1 {
                        a href={"/compare/" (task.task_id)} { (task.attempts) " attempts" }
                    }
                    span.end { (ago(attempt.updated_at, now)) }
                }
            }
            (why(card))
            @if forms.may_write {
                details #{"tools-" (task.task_id)} hx-get={"/tasks/" (task.task_id) "/tools"}
                    hx-trigger="toggle once" hx-target="find div" hx-swap="innerHTML" {
                    summary data-key="o" { "Actions" }
                    div { a href={"/tasks/" (task.task_id)} { "Open the task" } }
                }
            }
        }
    }
}

/// Where a card leads: to the review of finished work, else to the attempt, else to the task.
fn place(card: &Card) -> String {
    match &card.attempt {
        Some(it) if it.phase == AttemptPhase::Settled && it.state == AttemptState::Completed => {
            format!("/attempts/{}/review", it.attempt_id)
        }
        Some(it) => format!("/attempts/{}", it.attempt_id),
        None => format!("/tasks/{}", card.task.task_id),
    }
}

/// Why the task is in this column, with the attempt's failure or the task's reason.
fn why(card: &Card) -> Markup {
    let Some(why) = card.why else { return html! {} };
    let failure = card.attempt.as_ref().and_then(|it| it.failure_summary.as_deref());
    let reason = failure.or(card.task.blocked_reason.as_deref());
    html! {
        p.why {
            (reason_of(why))
            @match why {
                Why::Dependencies => { ": " (card.task.waits_for.join(", ")) }
                Why::Failed | Why::ChecksFailed | Why::Blocked | Why::Rework | Why::Stopped => {
                    @if let Some(reason) = reason { ": " (headline(reason, REASON_MAX)) }
                }
                _ => {}
            }
        }
    }
}

fn reason_of(why: Why) -> &'static str {
    match why {
        Why::Dependencies => "Waits for",
        Why::Slot => "Waits for a running slot",
        Why::Host => "Its host drains",
        Why::Disk => "Waits for disk space",
        Why::Quota => "Rate limit; goes on by itself",
        Why::Stopped => "Stopped",
        Why::Discarded => "Its work was discarded",
        Why::Blocked => "Blocked",
        Why::Paused => "Paused by its worker",
        Why::Rework => "Needs rework",
        Why::Checks => "Checks run",
        Why::Finish => "Its work is being finished",
        Why::Proposed => "Pushed or proposed",
        Why::Asks => "Asks",
        Why::ChecksFailed => "Checks failed",
        Why::Failed => "Failed",
        Why::QuotaAsks => "Rate limit",
        Why::Conflict => "Does not merge",
        Why::Merged => "Merged; the task is open",
    }
}

#[cfg(test)]
mod tests;
