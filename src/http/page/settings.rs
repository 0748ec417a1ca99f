//! Settings: the daemon, the executors, and what applies to the worktrees of each project. The page
//! only shows them; they are changed in the configuration.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::parts::{Tone, badge, visible, word};
use super::projects;
use super::shell::{self, NavItem};
use crate::api::commands::{CheckStatus, Finding, Info, ShownRepo, ShownRepos};
use crate::api::executors::{ExecutorSummary, ListExecutorsInput};
use crate::api::projects::ListReposInput;
use crate::api::window::LoginsInput;
use crate::http::RequestContext;
use crate::http::page::Problem;

/// The page without its slow sections, each of which the browser asks for ([`later`]).
pub async fn page(desk: RequestContext) -> Result<Markup, Problem> {
    let info = ask(&desk, "provost/info", None).await;
    Ok(shell::page("Settings", Some(NavItem::Settings), desk.as_of, &whole(&info)))
}

/// The table of executors. It takes a while: each program is started to ask for its version and login.
pub async fn executors(desk: RequestContext) -> Result<Markup, Problem> {
    let found = desk.service.list_executors(&desk.caller, ListExecutorsInput {});
    let logins = desk.service.logins(&desk.caller, LoginsInput {});
    let (found, logins) = tokio::try_join!(found, logins)?;
    Ok(executor_table(&found.executors, &logins))
}

/// The findings of `provost doctor`.
pub async fn findings(desk: RequestContext) -> Result<Markup, Problem> {
    Ok(finding_list(ask(&desk, "provost/doctor", None).await))
}

/// The projects with their repositories, and what new worktrees of these get.
pub async fn of_projects(desk: RequestContext) -> Result<Markup, Problem> {
    let mut shown = Vec::new();
    for project in projects::of(&desk).await?.0 {
        let input = ListReposInput { project_id: project.project_id };
        let repos = desk.service.list_repos(&desk.caller, input).await?.repos;
        let params = json!({"project_id": project.project_id});
        let provisioned = ask(&desk, "provost/repo_settings", Some(params)).await;
        let provisioned = provisioned.map(|it: ShownRepos| it.repos);
        let repos =
            repos.into_iter().map(|repo| (repo.repo_name, repo.path, repo.default_target_branch));
        shown.push(Project { name: project.name, repos: repos.collect(), provisioned });
    }
    Ok(project_list(&shown))
}

/// The answer of a method that only the daemon's own user may call.
type Asked<T> = Result<T, NoAnswer>;

/// Why there is none; `None`: the reader is another user.
type NoAnswer = Option<String>;

async fn ask<T: DeserializeOwned>(
    desk: &RequestContext,
    method: &str,
    params: Option<Value>,
) -> Asked<T> {
    let found = desk.service.call_method(&desk.caller, method, params).await;
    let found = found.map_err(|error| (!error.is_unknown_method()).then_some(error.message))?;
    serde_json::from_value(found).map_err(|error| Some(error.to_string()))
}

struct Project {
    name: String,
    /// Name, path and default branch of each.
    repos: Vec<(String, String, String)>,
    provisioned: Asked<Vec<ShownRepo>>,
}

fn whole(info: &Asked<Info>) -> Markup {
    html! {
        div.head { h1 { "Settings" } }
        section.panel {
            h2 { "Daemon" }
            @match info {
                Ok(info) => (daemon(info)),
                Err(Some(why)) => p.reason { (visible(why)) },
                Err(None) => p.muted { "Only the daemon's own user sees where it runs." },
            }
        }
        (later("executors", "Executors"))
        (later("projects", "Projects"))
        (later("doctor", "Findings"))
    }
}

/// A section whose content the browser asks for after the page has loaded.
fn later(name: &str, title: &str) -> Markup {
    let path = format!("/settings/{name}");
    html! {
        section.panel aria-labelledby={"title-" (name)} {
            h2 #{"title-" (name)} { (title) }
            div hx-get=(path) hx-trigger="load" { a href=(path) { "Show" } }
        }
    }
}

fn daemon(info: &Info) -> Markup {
    html! {
        dl.pairs {
            dt { "Version" } dd { (info.version) }
            dt { "Process" } dd { (info.pid) }
            dt { "Home" } dd.mono { (visible(&info.home.to_string_lossy())) }
            @if let Some(path) = &info.path { dt { "PATH" } dd.mono { (visible(path)) } }
            dt { "Attempts" } dd { (info.running) " running, " (info.queued) " queued" }
        }
    }
}

fn executor_table(executors: &[ExecutorSummary], logins: &BTreeMap<String, bool>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of executors" {
            table {
                thead {
                    tr {
                        th scope="col" { "Executor" } th scope="col" { "State" }
                        th scope="col" { "Version" } th scope="col" { "Protocol" }
                        th scope="col" { "Variants" } th scope="col" { "Can" }
                    }
                }
                tbody { @for it in executors { (executor(it, logins.get(&it.executor))) } }
            }
        }
    }
}

fn executor(it: &ExecutorSummary, is_logged_in: Option<&bool>) -> Markup {
    let can = [
        (it.supports_resume, "resume"),
        (it.supports_interrupt, "interrupt"),
        (it.supports_approvals, "approvals"),
        (it.supports_mcp, "MCP"),
    ];
    let can: Vec<_> = can.into_iter().filter(|(can, _)| *can).map(|(_, name)| name).collect();
    html! {
        tr {
            th scope="row" { (it.executor) @if it.stand_in { div.small.muted { "stand-in for tests" } } }
            td {
                @if it.available { (badge(Tone::Good, "installed")) }
                @else {
                    (badge(Tone::Bad, "not available"))
                    @if let Some(why) = &it.unavailable_reason { div.small { (visible(why)) } }
                    @if let Some(install) = &it.install { div.small { code { (visible(install)) } } }
                }
                @match is_logged_in {
                    Some(true) => { " " (badge(Tone::Good, "logged in")) }
                    Some(false) => { " " (badge(Tone::Asks, "not logged in")) }
                    None if it.available && !it.stand_in => {
                        div.small.muted { "It does not say whether it is logged in." }
                    }
                    None => {}
                }
                @if let Some(note) = &it.note { div.small.muted { (visible(note)) } }
            }
            td { @match &it.version { Some(version) => (visible(version)), None => span.muted { "–" } } }
            td { (it.protocol) }
            td {
                @if it.variants.is_empty() { span.muted { "–" } }
                @for variant in &it.variants {
                    (variant) @if it.default_variant.as_ref() == Some(variant) { span.muted { " (default)" } } br;
                }
            }
            td { (can.join(", ")) }
        }
    }
}

fn project_list(projects: &[Project]) -> Markup {
    html! {
        @if projects.is_empty() { p.muted { "There is no project yet." } }
        @for project in projects {
            h3 { (project.name) }
            ul {
                @for (name, path, branch) in &project.repos {
                    li { strong { (name) } " " code { (visible(path)) } " " span.muted { "at " (branch) } }
                }
            }
            @match &project.provisioned {
                Err(Some(why)) => p.small.muted { (visible(why)) },
                Err(None) => p.small.muted { "Only the daemon's own user sees what its worktrees get." },
                Ok(repos) => @for repo in repos { (applies(repo)) },
            }
        }
    }
}

/// Findings that are not `ok` come first, the others are folded.
fn finding_list(found: Asked<Vec<Finding>>) -> Markup {
    let findings = match found {
        Ok(findings) => findings,
        Err(Some(why)) => return html! { p.reason { (visible(&why)) } },
        Err(None) => {
            return html! {
                p.muted { "Only the daemon's own user sees them; " code { "provost doctor" } " prints them." }
            };
        }
    };
    let (good, noteworthy): (Vec<Finding>, Vec<_>) =
        findings.into_iter().partition(|it| it.status == CheckStatus::Ok);
    html! {
        @if noteworthy.is_empty() { p { "Everything is in order." } }
        ul { @for it in &noteworthy { (finding(it)) } }
        details { summary { (good.len()) " checks passed" } ul { @for it in &good { (finding(it)) } } }
    }
}

fn finding(it: &Finding) -> Markup {
    let tone = match it.status {
        CheckStatus::Ok => Tone::Good,
        CheckStatus::Note => Tone::Quiet,
        CheckStatus::Warn => Tone::Asks,
        CheckStatus::Fail => Tone::Bad,
    };
    html! {
        li {
            (badge(tone, &word(&it.status))) " " strong { (visible(&it.name)) } " " (visible(&it.message))
            @if let Some(hint) = &it.hint { div.small.muted { (visible(hint)) } }
        }
    }
}

/// What new worktrees of a repository get.
fn applies(repo: &ShownRepo) -> Markup {
    if repo.settings.is_empty() {
        return html! { p.small.muted { (repo.repo_name) ": nothing is configured for its worktrees." } };
    }
    html! {
        details {
            summary {
                (repo.repo_name) ": " (repo.settings.len()) " settings "
                @if !repo.is_trusted { (badge(Tone::Asks, "commands not approved")) }
            }
            dl.pairs {
                @for it in &repo.settings {
                    dt { code { (it.key) } }
                    dd { (visible(&word(&it.value))) " " span.small.muted { (visible(&it.origin)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
