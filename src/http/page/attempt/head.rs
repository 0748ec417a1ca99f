//! What an attempt's page says about the attempt as a whole: task and state, why it waits, its limits,
//! its worktrees, and the receipts of checks and finishes. Pure.

use maud::{Markup, html};
use provost_actors::event::Timestamp;
use provost_actors::ids::AttemptId;
use provost_actors::journal::checks::{CheckOutcome, CheckVerdict, Receipt};
use provost_actors::process::process_list::Member;
use serde_json::Value;

use crate::api::attempts::{AttemptPhase, AttemptStatus, Worktree};
use crate::api::finish::{FinishAction, FinishState, FinishedRepo};
use crate::api::timeline::{CheckRecord, FinishRecord, Timeline};
use crate::http::page::entries::tokens;
use crate::http::page::form::{Button, Call, Forms, Look};
use crate::http::page::line;
use crate::http::page::parts::{Tone, ago, attempt_badge, badge, span, word};

/// The task, the state, and what a person can do about it.
pub fn head(status: &AttemptStatus, timeline: &Timeline, forms: &Forms, now: Timestamp) -> Markup {
    let id = status.attempt_id;
    html! {
        div.head {
            div {
                p.crumbs {
                    (timeline.project_name) " / "
                    a href={ "/tasks/" (status.task_id) } { (status.handle) }
                }
                h1 { (line::plain(&timeline.task_title)) }
            }
            div.end {
                (attempt_badge(status.state, status.phase, status.waiting_on))
                a.button href={ "/attempts/" (id) "/review" } data-key="v" { "Review changes" kbd aria-hidden="true" { "v" } }
                @if is_busy(status) || status.phase == AttemptPhase::Waiting { (stop(id, forms)) }
            }
        }
        ul.facts {
            li { (status.executor) @if let Some(variant) = &status.variant { " (" (variant) ")" } }
            @if let Some(host) = status.host.as_ref().filter(|_| timeline.has_hosts) { li { "On " (host) } }
            li { code { (status.workspace_branch) } }
            li { "Begun " (ago(status.created_at, now)) }
            @if let Some(at) = status.last_activity_at { li { "Last output " (ago(at, now)) } }
            @if let Some(usage) = &status.usage {
                li { (tokens(usage.input_tokens, usage.output_tokens, usage.cost_usd)) }
            }
        }
        (why(status))
    }
}

/// Whether a turn runs or is going to. An attempt that waits for an approval is not busy.
pub fn is_busy(status: &AttemptStatus) -> bool {
    status.phase.is_busy()
}

fn stop(id: AttemptId, forms: &Forms) -> Markup {
    let stop = Call::new("stop_attempt").with("attempt_id", id);
    let gently = Button::new("Stop").look(Look::Danger).confirm("Stop this attempt?");
    stop.button(forms, gently)
}

/// Why the attempt failed, what it waits for, and with what its work conflicts.
fn why(status: &AttemptStatus) -> Markup {
    html! {
        @if let Some(reason) = &status.failure_summary {
            p.reason { (line::plain(reason)) }
        }
        @if let Some(at) = status.resume_at { p.muted { "The limit ends at " time datetime=(at) { (at) } "." } }
        @if status.queue_held {
            p.muted { "Since it was stopped, what is queued waits for the next prompt." }
        }
        @for conflict in &status.conflicts_with {
            p.reason {
                "Conflicts with "
                @match (&conflict.attempt_id, &conflict.target_branch) {
                    (Some(other), _) => a href={ "/attempts/" (other) } { "attempt " (other.short()) },
                    (None, target) => code { (target.as_deref().unwrap_or_default()) },
                }
                " in " (files(conflict.path_count)) ": " (conflict.paths.join(", "))
            }
        }
    }
}

/// Receipts, worktrees and limits.
pub fn facts(status: &AttemptStatus, timeline: &Timeline, forms: &Forms, now: Timestamp) -> Markup {
    html! {
        section.panel {
            h2 { "Receipts" }
            @if timeline.finishes.is_empty() && timeline.checks.is_empty() && status.provision.is_none() {
                p.muted { "Nothing yet." }
            }
            @for finish in &timeline.finishes { (finished(finish, now)) }
            @for run in &timeline.checks { (checked(run, now)) }
            @if let Some(provision) = &status.provision { (provisioned(status.attempt_id, provision, forms)) }
        }
        section.panel {
            h2 { "Place and limits" }
            dl.pairs {
                @for (name, path) in places(status.worktree.as_ref()) {
                    dt { "Worktree" @if let Some(name) = name { " " (name) } }
                    dd { code { (line::plain(path)) } }
                }
                @for limit in &status.limits {
                    dt { code { (limit.limit) } }
                    dd {
                        (limit.value) " (" (hold(&limit.hold)) ")"
                        @if let Some(reason) = &limit.reason { ": " (reason) }
                    }
                }
            }
        }
    }
}

fn files(count: u64) -> String {
    format!("{count} {}", if count == 1 { "file" } else { "files" })
}

fn places(worktree: Option<&Worktree>) -> Vec<(Option<&str>, &str)> {
    match worktree {
        None => Vec::new(),
        Some(Worktree::One(path)) => vec![(None, path)],
        Some(Worktree::Each(paths)) => {
            paths.iter().map(|(name, path)| (Some(name.as_str()), path.as_str())).collect()
        }
    }
}

/// How a limit is enforced.
fn hold(hold: &str) -> &str {
    match hold {
        "kernel" => "held by the kernel",
        "watched" => "watched",
        _ => "not enforced",
    }
}

/// The receipt of a finish, also in the bar of a review.
pub fn finished(finish: &FinishRecord, now: Timestamp) -> Markup {
    let tone = match finish.state {
        FinishState::Open => Tone::Busy,
        FinishState::Done => Tone::Good,
        FinishState::Conflicts | FinishState::ChecksFailed | FinishState::Refused => Tone::Bad,
    };
    let what = match finish.action {
        FinishAction::Commit => "Commit",
        FinishAction::Merge => "Merge",
        FinishAction::ApplyTo => "Apply to another attempt",
        FinishAction::Push => "Push",
        FinishAction::CreatePr => "Pull request",
        FinishAction::Discard => "Discard",
    };
    let state = if finish.state == FinishState::Open {
        "running".to_owned()
    } else {
        word(&finish.state).replace('_', " ")
    };
    html! {
        div.receipt {
            p { strong { (what) } " " (badge(tone, &state)) " " (ago(finish.created_at, now)) }
            @for repo in &finish.repos { (finished_repo(repo)) }
            @if let Some(error) = &finish.error { p.reason { (line::plain(error)) } }
            @if !finish.conflicts.is_empty() {
                details { summary { (files(finish.conflicts.len() as u64)) " in conflict" }
                    ul { @for path in &finish.conflicts { li { code { (line::plain(path)) } } } }
                }
            }
        }
    }
}

fn finished_repo(repo: &FinishedRepo) -> Markup {
    html! {
        p.small {
            (repo.repo_name)
            @if repo.merged { @if let Some(target) = &repo.target_branch { " is in " code { (target) } } }
            @if let Some(commit) = repo.target_after.as_ref().or(repo.commit.as_ref()) {
                " at " code { (commit.get(..10).unwrap_or(commit)) }
            }
            @if let Some(why) = &repo.unsigned { ", not signed: " (line::plain(why)) }
            @if let Some(to) = &repo.pushed_to { ", pushed to " code { (to) } }
            @if let Some(pull) = &repo.pull_request {
                ", pull request " (request(pull.number, &pull.url))
            }
            @if repo.branch_deleted { ", branch deleted" }
        }
    }
}

/// A pull request. It is a link only if the forge's answer has an HTTP address.
fn request(number: u64, url: &str) -> Markup {
    let is_link = ["https://", "http://"].iter().any(|scheme| url.starts_with(scheme));
    html! {
        @if is_link { a href=(url) rel="noopener noreferrer nofollow" { "#" (number) } }
        @else { "#" (number) }
    }
}

/// The receipt of a check run. Without a verdict it still runs.
pub fn checked(run: &CheckRecord, now: Timestamp) -> Markup {
    let (tone, verdict) = match run.verdict {
        None => (Tone::Busy, "running"),
        Some(CheckVerdict::Verified) => (Tone::Good, "passed"),
        Some(CheckVerdict::Rework) => (Tone::Bad, "failed"),
        Some(CheckVerdict::Overruled) => (Tone::Quiet, "overruled"),
    };
    let of = if run.finish_id.is_some() { "Checks of the merge" } else { "Checks" };
    html! {
        div.receipt {
            p { strong { (of) } " " (badge(tone, verdict)) " " (ago(run.planned_at, now)) }
            ul { @for receipt in &run.receipts { (check(receipt)) } }
        }
    }
}

fn check(receipt: &Receipt) -> Markup {
    let tone = match receipt.outcome {
        CheckOutcome::Passed => Tone::Good,
        CheckOutcome::Failed | CheckOutcome::TimedOut => Tone::Bad,
        CheckOutcome::NotRun => Tone::Asks,
    };
    let outcome = word(&receipt.outcome).replace('_', " ");
    html! {
        li {
            (badge(tone, &outcome)) " " (receipt.name) " " code { (line::plain(&receipt.command)) }
            span.muted { " " (span(receipt.duration_ms / 1000)) }
            @if let Some(code) = receipt.exit_code.filter(|code| *code != 0) { " exit code " (code) }
            @if let Some(reason) = &receipt.reason { span.muted { " " (reason) } }
            @if let Some(log) = &receipt.log { div.small.muted { "Output in " code { (log) } } }
        }
    }
}

/// What the setup did for the worktrees, the ports, and the dev server with a button. The server's
/// address comes from the repository's settings, so it is a link only if it is an HTTP address.
fn provisioned(id: AttemptId, provision: &Value, forms: &Forms) -> Markup {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let server = &provision["dev_server"];
    let state = server["state"].as_str().unwrap_or_default();
    html! {
        div.receipt {
            p { strong { "Worktree setup" } }
            @for (name, repo) in members(&provision["repos"]) {
                p.small {
                    (name)
                    @if let Some(files) = repo["copied"]["files"].as_u64() { ": " (files) " files copied" }
                    @if let Some(state) = repo["setup"]["state"].as_str() { ", setup " (state) }
                    @if let Some(reason) = repo["setup"]["reason"].as_str() { " (" (reason) ")" }
                    @if let Some(state) = repo["cache"]["state"].as_str() { ", cache " (state) }
                }
            }
            @for (name, port) in members(&provision["ports"]) {
                p.small { "Port " code { (name) "=" (port) } }
            }
            @if server.is_object() {
                p.small {
                    "Dev server " (badge(if state == "ready" { Tone::Good } else { Tone::Quiet }, state))
                    @if let Some(url) = server["url"].as_str().filter(|url| url.starts_with("http://") || url.starts_with("https://")) {
                        " " a href=(url) rel="noopener noreferrer" { (url) }
                    }
                    @if let Some(reason) = server["reason"].as_str() { " " (reason) }
                }
                @if matches!(state, "starting" | "ready") {
                    (Call::new("follow_up").with("attempt_id", id).with("action", "end_preview")
                        .button(forms, Button::new("End the dev server")))
                } @else {
                    (Call::new("follow_up").with("attempt_id", id).with("action", "preview")
                        .button(forms, Button::new("Start the dev server")))
                }
            }
        }
    }
}

/// The attempt's living processes as a tree. `members` has each process after its parent.
pub fn processes(members: &[Member]) -> Markup {
    html! {
        @if members.is_empty() { p.muted { "Nothing runs." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Processes" { table.processes {
                thead { tr { th scope="col" { "Process" } th.number scope="col" { "Pid" } th.number scope="col" { "CPU" } th.number scope="col" { "Memory" } th.number scope="col" { "Age" } } }
                tbody {
                    @for it in members {
                        tr {
                            td { span.tree aria-hidden="true" { (indent(it.depth)) } (line::plain(&it.name)) }
                            td.number { (it.pid) }
                            td.number { (span(it.cpu.as_secs())) }
                            td.number { (it.memory / (1024 * 1024)) " MiB" }
                            td.number { (span(it.age.as_secs())) }
                        }
                    }
                }
            } }
        }
    }
}

/// The lines before a process's name, at most 12 levels, so that a deep tree stays within the column.
fn indent(depth: usize) -> String {
    if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth.min(12) - 1)) }
}
