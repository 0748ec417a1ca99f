//! A task: its description, its attempts, and what can be done with it.

use axum::extract::Path;
use maud::{Markup, html};
use provost_actors::event::Timestamp;
use provost_actors::ids::TaskId;

use super::board::priorities;
use super::form::{Button, Call, Forms, Look};
use super::parts::{Tone, ago, attempt_badge, badge, priority, span, visible, word};
use super::shell::{self, Live, NavItem};
use crate::api::attempts::{AttemptStatus, AttemptStatusOutput, StatusView};
use crate::api::executors::{ExecutorSummary, ListExecutorsInput};
use crate::api::tasks::{CheckedTask, GetTaskInput, TaskStatus};
use crate::api::worker::report::CheckedReport;
use crate::http::RequestContext;
use crate::http::page::Problem;

/// Most attempts of a task that are shown.
pub const ATTEMPTS_MAX: usize = 20;

/// The whole page. The section with the forms loads by itself.
pub async fn page(desk: RequestContext, Path(task): Path<TaskId>) -> Result<Markup, Problem> {
    let has_tools = Forms::new(&desk.caller, "/").may_write;
    let (body, title) = read(&desk, task, has_tools).await?;
    Ok(shell::page(&title, Some(NavItem::Board), desk.as_of, &body))
}

/// The page's live part, which the browser reloads when something changes.
pub async fn fragment(desk: RequestContext, Path(task): Path<TaskId>) -> Result<Markup, Problem> {
    // The forms are outside of the live part: a reload would discard what a person types.
    Ok(read(&desk, task, false).await?.0)
}

/// The forms of a task, for its page and for its card on the board.
pub async fn tools(desk: RequestContext, Path(task_id): Path<TaskId>) -> Result<Markup, Problem> {
    let task = desk.service.get_task(&desk.caller, GetTaskInput { task_id }).await?.task;
    let executors = desk.service.list_executors(&desk.caller, ListExecutorsInput {}).await?;
    let forms = Forms::new(&desk.caller, format!("/tasks/{task_id}"));
    Ok(all_tools(&task, &executors.executors, &forms))
}

/// The live part and the page's title. `has_tools` adds the section for the forms.
async fn read(
    desk: &RequestContext,
    task_id: TaskId,
    has_tools: bool,
) -> Result<(Markup, String), Problem> {
    let task = desk.service.get_task(&desk.caller, GetTaskInput { task_id }).await?.task;
    let attempts = attempts(desk, task_id).await?;
    let summary = &task.task.summary;
    let title = format!("{} {}", summary.handle, summary.title);
    Ok((whole(&task, &attempts, has_tools, Timestamp::now()), title))
}

/// The newest attempts of a task, newest first.
#[derive(Default)]
pub struct Newest {
    pub statuses: Vec<AttemptStatus>,
    /// The task has attempts that are not among them.
    pub has_more: bool,
}

/// The newest attempts of a task, at most [`ATTEMPTS_MAX`]. A status that the service shortened, because the
/// answer was too large, is left out.
pub async fn attempts(desk: &RequestContext, task: TaskId) -> Result<Newest, Problem> {
    use crate::api::args::{Limit, List};
    use crate::api::attempts::{GetAttemptStatusInput, ListTaskAttemptsInput};
    let listed =
        ListTaskAttemptsInput { task_id: task, limit: Limit::of(ATTEMPTS_MAX), cursor: None };
    let listed = desk.service.list_task_attempts(&desk.caller, listed).await?;
    let ids: Vec<_> = listed.attempts.iter().map(|it| it.attempt_id).collect();
    let Ok(attempt_ids) = List::try_from(ids) else { return Ok(Newest::default()) };
    let input = GetAttemptStatusInput {
        attempt_id: None,
        attempt_ids: Some(attempt_ids),
        max_bytes: Limit::of(1_048_576),
    };
    let AttemptStatusOutput::Many(found) =
        desk.service.get_attempt_status(&desk.caller, input).await?
    else {
        return Ok(Newest::default());
    };
    let has_more = listed.has_more || found.truncated;
    let whole = found.attempts.into_iter().filter_map(|view| match view {
        StatusView::Whole(status) => Some(*status),
        StatusView::Short(_) => None,
    });
    Ok(Newest { statuses: whole.collect(), has_more })
}

/// A task's status as a badge.
pub fn status_badge(status: TaskStatus) -> Markup {
    let (tone, text) = match status {
        TaskStatus::Todo => (Tone::Quiet, "to do"),
        TaskStatus::InProgress => (Tone::Busy, "in progress"),
        TaskStatus::InReview => (Tone::Asks, "in review"),
        TaskStatus::Done => (Tone::Good, "done"),
        TaskStatus::Cancelled => (Tone::Quiet, "cancelled"),
    };
    badge(tone, text)
}

fn whole(task: &CheckedTask, newest: &Newest, has_tools: bool, now: Timestamp) -> Markup {
    let Newest { statuses: attempts, has_more } = newest;
    let (summary, task_id) = (&task.task.summary, task.task.summary.task_id.to_string());
    let content = html! {
        p.crumbs { a href={"/board?project=" (task.task.project_id)} { "Board" } " / " (summary.handle) }
        div.head {
            h1 { (summary.title) }
            (status_badge(summary.status)) (priority(summary.priority))
            @if let Some(standing) = summary.standing { span.muted.small { (word(&standing)) } }
            div.end { span.muted.small { "updated " (ago(summary.updated_at, now)) } }
        }
        @if let Some(description) = task.task.description.as_ref().filter(|it| !it.is_empty()) {
            section.panel aria-label="Description" { p.text { (visible(description)) } }
        }
        @if let Some(report) = &task.task.last_report {
            section.panel {
                h2 { "Last report" }
                (pairs(&serde_json::to_value(report).unwrap_or_default()))
            }
        }
        @if !task.report.receipts.is_empty() || task.report.contradiction.is_some() {
            section.panel { h2 { "Checks" } (checks(&task.report)) }
        }
        section.panel {
            div.head {
                h2 { "Attempts" }
                @if attempts.len() > 1 { a href={"/compare/" (task_id)} { "Compare" } }
            }
            @if !attempts.is_empty() { (list(attempts, now)) }
            @if *has_more { p.small.muted { "The task has further attempts, which are not shown." } }
            @else if attempts.is_empty() { p.muted { "None yet." } }
        }
    };
    let path = format!("/tasks/{task_id}/live");
    html! {
        (Live { id: "task", path: &path, topics: "task attempt", of: None }.wrap(&content))
        @if has_tools {
            section.panel #tools {
                h2 { "Actions" }
                @let path = format!("/tasks/{task_id}/tools");
                div hx-get=(path) hx-trigger="load" { a href=(path) { "Show what can be done" } }
            }
        }
    }
}

fn checks(report: &CheckedReport) -> Markup {
    html! {
        @if let Some(contradiction) = &report.contradiction { p.reason { (visible(contradiction)) } }
        ul {
            @for it in &report.receipts {
                @let outcome = word(&it.outcome);
                @let tone = if outcome == "passed" { Tone::Good } else { Tone::Bad };
                li {
                    (badge(tone, &it.name)) " " code { (visible(&it.command)) } " "
                    span.muted.small {
                        (outcome.replace('_', " ")) ", " (span(it.duration_ms / 1000))
                        @if let Some(code) = it.exit_code { ", exit code " (code) }
                        @if let Some(reason) = &it.reason { ": " (visible(reason)) }
                    }
                }
            }
        }
    }
}

fn list(attempts: &[AttemptStatus], now: Timestamp) -> Markup {
    html! {
        ul.items {
            @for it in attempts {
                li.item #{"attempt-" (it.attempt_id)} data-item tabindex="-1" {
                    div.item-head {
                        (attempt_badge(it.state, it.phase, it.waiting_on))
                        h3.title { a.title data-open href={"/attempts/" (it.attempt_id)} { (it.workspace_branch) } }
                        span.muted.small { (it.executor) @if let Some(variant) = &it.variant { " · " (variant) } }
                        (ago(it.created_at, now))
                    }
                    @if let Some(why) = &it.failure_summary { p.reason { (visible(why)) } }
                    @if let Some(words) = &it.final_message { p.said { (words) } }
                }
            }
        }
    }
}

/// The members of a report that are not null.
fn pairs(value: &serde_json::Value) -> Markup {
    let members = value.as_object().into_iter().flatten();
    html! {
        dl.pairs {
            @for (name, value) in members.filter(|(_, value)| !value.is_null()) {
                dt { (name) } dd.said { (visible(&word(value))) }
            }
        }
    }
}

fn all_tools(task: &CheckedTask, executors: &[ExecutorSummary], forms: &Forms) -> Markup {
    html! {
        div.tools {
            (start(task, executors, forms))
            (move_to(task, forms))
            (edit(task, forms))
        }
    }
}

/// The form that starts an attempt. The list of variants has those of all available executors, because
/// without a script it can't follow the chosen one.
fn start(task: &CheckedTask, executors: &[ExecutorSummary], forms: &Forms) -> Markup {
    let summary = &task.task.summary;
    let variants = executors.iter().filter(|it| it.available);
    let variants: std::collections::BTreeSet<&str> =
        variants.flat_map(|it| it.variants.iter().map(String::as_str)).collect();
    let list = format!("variants-{}", summary.task_id);
    let content = html! {
        div.fields {
            label {
                "Executor"
                select name="executor" required {
                    @for it in executors {
                        option value=(it.executor) disabled[!it.available] {
                            (it.executor) @if !it.available { " (not available)" }
                        }
                    }
                }
            }
            label {
                "Variant"
                input type="text" name="variant" list=(list) placeholder="default" size="10";
                datalist #(list) { @for it in variants { option value=(it) {} } }
            }
            @if !task.task.depends_on.is_empty() {
                label.row { input type="checkbox" name="ignore_dependencies" value="true"; "Ignore dependencies" }
            }
        }
        label { "Prompt" textarea name="prompt" rows="2" placeholder="The task's title and description" {} }
        div.actions { (Button::new("Start attempt").key("t").look(Look::Primary).markup()) }
    };
    Call::new("start_task_attempt")
        .with("task_id", summary.task_id)
        .form(forms, "stack", None, &content)
}

fn move_to(task: &CheckedTask, forms: &Forms) -> Markup {
    const ALL: [(TaskStatus, &str); 5] = [
        (TaskStatus::Todo, "to do"),
        (TaskStatus::InProgress, "in progress"),
        (TaskStatus::InReview, "in review"),
        (TaskStatus::Done, "done"),
        (TaskStatus::Cancelled, "cancelled"),
    ];
    let summary = &task.task.summary;
    let content = html! {
        label {
            "Status"
            select name="status" data-key="v" {
                @for (status, name) in ALL {
                    option value=(word(&status)) selected[status == summary.status] { (name) }
                }
            }
        }
        label { "Priority" (priorities(summary.priority)) }
        (Button::new("Save").markup())
    };
    Call::new("update_task").with("task_id", summary.task_id).form(forms, "fields", None, &content)
}

fn edit(task: &CheckedTask, forms: &Forms) -> Markup {
    let summary = &task.task.summary;
    let description = task.task.description.as_deref().unwrap_or_default();
    let content = html! {
        label { "Title" input type="text" name="title" value=(summary.title) required maxlength="1000"; }
        label { "Description" textarea name="description" rows="5" { (description) } }
        div.actions { (Button::new("Save").markup()) }
    };
    let update = Call::new("update_task").with("task_id", summary.task_id);
    let delete = Call::new("delete_task").with("task_id", summary.task_id);
    let button = Button::new("Delete task").look(Look::Danger);
    html! {
        details #{"edit-" (summary.task_id)} {
            summary { "Edit" }
            (update.form(forms, "stack", None, &content))
            (delete.button(forms, button.confirm("Delete this task? Its attempts stay readable.")))
        }
    }
}

#[cfg(test)]
mod tests;
