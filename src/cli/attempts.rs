//! `provost ps` and `provost status`: attempts as people read them.

use std::collections::BTreeSet;
use std::path::Path;

use provost_actors::host::LOCAL;
use provost_actors::journal::WaitingOn;
use provost_actors::sandbox::Receipt;

use super::conflicts;
use super::path::worktree;
use super::prelude::*;

/// `provost ps`: the columns for the host and the project appear only where there are several.
pub async fn ps(context: &mut Context, all: bool) -> Result<Exit, Failure> {
    let listed = context.call::<Attempts>(json!({"all": all})).await?;
    if context.out.as_json(&listed)? {
        return Ok(Exit::Done);
    }
    let projects: BTreeSet<_> = listed.attempts.iter().map(|it| it.project_id).collect();
    let mut columns = vec![Whole("ID"), Whole("STATE"), Cut("EXECUTOR"), Whole("AGE"), Cut("TASK")];
    let row = |attempt: &AttemptLine| {
        let mut row = row(attempt, Timestamp::now());
        if projects.len() > 1 {
            row.insert(4, attempt.project_name.clone());
        }
        if listed.hosts > 1 {
            row.insert(3, attempt.host.clone().unwrap_or_else(|| "-".to_owned()));
        }
        row
    };
    if projects.len() > 1 {
        columns.insert(4, Cut("PROJECT"));
    }
    if listed.hosts > 1 {
        columns.insert(3, Cut("HOST"));
    }
    let none = "there is no attempt yet; `provost run PROMPT` starts one";
    context.out.list(&columns, listed.attempts.iter().map(row), none)?;
    let (shown, total) = (listed.attempts.len(), listed.total);
    if total > shown {
        context.out.flush()?;
        anstream::eprintln!("{shown} of {total} attempts; `provost ps --all` lists all");
    }
    Ok(Exit::Done)
}

fn row(attempt: &AttemptLine, now: Timestamp) -> Vec<String> {
    let AttemptLine { state, phase, waiting_on, stopped, .. } = *attempt;
    vec![
        attempt.attempt_id.short(),
        label(state, phase, waiting_on, stopped),
        executor(&attempt.executor, attempt.variant.as_deref()),
        age(attempt.created_at, now),
        headline(&attempt.task_title, usize::MAX),
    ]
}

/// `claude`, `claude/plan`.
fn executor(executor: &str, variant: Option<&str>) -> String {
    variant.map_or_else(|| executor.to_owned(), |variant| format!("{executor}/{variant}"))
}

/// State and phase in a few words: the phase while something runs or waits, afterwards the state.
fn label(
    state: AttemptState,
    phase: AttemptPhase,
    waiting_on: Option<WaitingOn>,
    was_stopped: bool,
) -> String {
    use WaitingOn::{Disk, Host, Quota, Setup};
    let state = if was_stopped { "stopped".to_owned() } else { word(&state) };
    match (phase, waiting_on) {
        (AttemptPhase::Settled, Some(Quota)) => format!("{state}, waits for quota"),
        (AttemptPhase::Settled, _) => state,
        (AttemptPhase::Waiting, Some(what)) => format!("waits for {}", word(&what)),
        (phase, Some(what @ (Disk | Setup))) => {
            format!("{}, waits for {}", word(&phase), word(&what))
        }
        (AttemptPhase::Queued, Some(Host)) => "queued, its host drains".to_owned(),
        (phase, _) => word(&phase),
    }
}

/// `12s`, `5m`, `3h`, `4d`; `0s` if the clock was set back.
fn age(created: Timestamp, now: Timestamp) -> String {
    let seconds = (now.millis() - created.millis()).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `provost status`: a line for each field that has a value; long values are indented.
pub async fn status(context: &mut Context, attempt: &str) -> Result<Exit, Failure> {
    let attempt = context.attempt(attempt).await?;
    let status = context.call::<AttemptStatus>(json!({"attempt_id": attempt})).await?;
    if !context.out.as_json(&status)? {
        let (task, project) = purpose(context, status.task_id).await?;
        let out = &mut context.out;
        for (label, value) in status_lines(&status, task, project, out.terminal) {
            let label = out.paint(anstyle::Style::new().bold(), &format!("{label:<9}"));
            for (index, line) in value.lines().enumerate() {
                let label = if index == 0 { label.as_str() } else { "         " };
                out.painted(&format!("{label}{}", harmless(line)))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// The attempt's task, as `TASK-001 Title`, and its project's name. Of a deleted task: its id, and an
/// empty name.
async fn purpose(context: &mut Context, task: TaskId) -> Result<(String, String), Failure> {
    let found = match context.call::<GetTaskOutput>(json!({"task_id": task})).await {
        Err(Failure::Client(ClientError::Refused(_))) => {
            return Ok((format!("{task} (deleted)"), String::new()));
        }
        found => found?,
    };
    let task = &found.task.task;
    let projects = context.all::<ProjectSummary>(json!({})).await?;
    let project = projects.iter().find(|project| project.project_id == task.project_id);
    let title = format!("{} {}", task.summary.handle, task.summary.title);
    Ok((title, project.map(|project| project.name.clone()).unwrap_or_default()))
}

/// The fields of a status that have a value, in the order in which people ask for them.
fn status_lines(
    status: &AttemptStatus,
    task: String,
    project: String,
    is_local: bool,
) -> Vec<(&'static str, String)> {
    let time = |time: Timestamp| if is_local { local(time) } else { time.to_string() };
    let why = status.failure_summary.as_deref().unwrap_or_default();
    let state = label(status.state, status.phase, status.waiting_on, status.stopped);
    let usage = status.usage.as_ref().map(|usage| {
        let cost = usage.cost_usd.map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
        format!("{} tokens in, {} out{cost}", usage.input_tokens, usage.output_tokens)
    });
    let held = if status.queue_held { ", held since the stop" } else { "" };
    let queued = Some(status.queued_follow_ups).filter(|count| *count > 0);
    let worktree = status.worktree.as_ref().and_then(|it| worktree(it, None).ok());
    // Before the first turn, the worktree is not there yet, and so it is not gone.
    let is_gone = |path: &String| status.last_activity_at.is_some() && !Path::new(path).exists();
    let worktree = worktree.map(|it| if is_gone(&it) { format!("{it} (gone)") } else { it });
    let lines = [
        ("attempt", Some(status.attempt_id.to_string())),
        ("task", Some(task)),
        ("project", Some(project)),
        ("state", Some(ended(&state, status.exit_code, status.exit_signal))),
        ("next", way_out(status)),
        ("failure", Some(for_person(why))),
        ("executor", Some(executor(&status.executor, status.variant.as_deref()))),
        ("host", status.host.clone().filter(|host| host != LOCAL)),
        ("sandbox", status.sandbox.as_ref().map(sandbox)),
        ("branch", Some(status.workspace_branch.clone())),
        ("worktree", worktree),
        ("copied", status.provision.as_ref().map(copied)),
        ("setup", status.provision.as_ref().map(setup)),
        ("ports", status.provision.as_ref().map(ports)),
        ("conflict", Some(conflicts::lines(&status.conflicts_with))),
        ("server", status.provision.as_ref().map(server)),
        ("finish", status.finish.as_ref().map(finish)),
        ("session", status.latest_session_id.map(|id| id.to_string())),
        ("created", Some(time(status.created_at))),
        ("active", status.last_activity_at.map(time)),
        ("resumes", status.resume_at.map(time)),
        ("queued", queued.map(|count| format!("{count}{held}"))),
        ("limits", Some(status.limits.iter().map(limit).collect::<Vec<_>>().join("; "))),
        ("usage", usage),
        ("said", status.final_message.clone()),
    ];
    let given = lines.into_iter().filter_map(|(label, value)| Some((label, value?)));
    given.filter(|(_, value)| !value.is_empty()).collect()
}

/// The command with which a person ends the attempt's wait; `None`: it does not wait for a person.
pub fn way_out(status: &AttemptStatus) -> Option<String> {
    match status.waiting_on? {
        WaitingOn::Approval if status.needs_trust => {
            Some(format!("provost trust {}", status.attempt_id.short()))
        }
        WaitingOn::Approval => Some("provost approvals".to_owned()),
        WaitingOn::Host => Some(format!("provost host resume {}", status.host.as_ref()?)),
        _ => None,
    }
}

/// `strict: files, … held; … open; 3 connections allowed, 1 refused, the last to example.com:443`.
fn sandbox(receipt: &Receipt) -> String {
    let (held, open) = (receipt.enforced.join(", "), receipt.open.join(", "));
    let held = format!("{}: {held} held; {open} open", word(&receipt.level)).replace('_', " ");
    let Some(hosts) = &receipt.hosts else { return held };
    let last = hosts.newest_refusals.first().map(|it| format!(", the last to {}", it.host));
    let (allowed, refused, last) = (hosts.allowed, hosts.refused, last.unwrap_or_default());
    format!("{held}; {allowed} connections allowed, {refused} refused{last}")
}

/// `merge done`, `merge open: …`.
fn finish(last: &LastFinish) -> String {
    let why = last.waits_for.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let did = format!("{} {}", word(&last.action), word(&last.state));
    did.replace('_', " ") + &why
}

/// The files that were copied into each repository's worktree: `app: 12 files, 3456 bytes, 1 left out`.
fn copied(provision: &Value) -> String {
    let repos = provision["repos"].as_object().into_iter().flatten();
    let copied = repos.filter(|(_, repo)| repo["copied"].is_object()).map(|(name, repo)| {
        let count = |key: &str| repo["copied"][key].as_u64().unwrap_or_default();
        let left_out = Some(count("left_out_count")).filter(|count| *count > 0);
        let left_out = left_out.map(|count| format!(", {count} left out")).unwrap_or_default();
        let files = match count("files") {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        format!("{name}: {files}, {} bytes{left_out}", count("bytes"))
    });
    copied.collect::<Vec<_>>().join("; ")
}

/// What setups changed beyond new files: tracked files, and git's configuration:
/// `changed app/a.txt; configured core.hookspath`.
fn setup(provision: &Value) -> String {
    let repos = provision["repos"].as_object().into_iter().flatten();
    let changed = repos.flat_map(|(_, repo)| {
        ["changed", "configured"].into_iter().filter_map(|what| {
            let names = repo["setup"][what].as_array()?.iter().filter_map(Value::as_str);
            Some(format!("{what} {}", names.collect::<Vec<_>>().join(", ")))
        })
    });
    changed.collect::<Vec<_>>().join("; ")
}

/// The dev server's state, with its URL while it is alive.
fn server(provision: &Value) -> String {
    let text = |key: &str| provision["dev_server"][key].as_str().unwrap_or_default();
    match text("state") {
        state @ ("starting" | "ready" | "stopping") => format!("{} {state}", text("url")),
        state => state.to_owned(),
    }
}

fn ports(provision: &Value) -> String {
    let ports = provision["ports"].as_object().into_iter().flatten();
    ports.map(|(name, port)| format!("{name}={port}")).collect::<Vec<_>>().join(" ")
}

/// The time in this machine's time zone.
fn local(time: Timestamp) -> String {
    let shown = chrono::DateTime::from_timestamp_millis(time.millis())
        .map(|time| time.with_timezone(&chrono::Local).format("%Y-%m-%d %H:%M:%S").to_string());
    shown.unwrap_or_else(|| time.to_string())
}

/// `wall_secs 60`, `memory_bytes 1000 (watched: no cgroup …)`.
fn limit(limit: &AttemptLimit) -> String {
    let set = format!("{} {}", limit.limit, limit.value);
    match (limit.hold.as_str(), &limit.reason) {
        (_, None) => set,
        ("no", Some(reason)) => format!("{set} (not enforced: {reason})"),
        (hold, Some(reason)) => format!("{set} ({hold}: {reason})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000)
    }

    #[test]
    fn a_row_shows_the_phase_and_the_age() {
        let line = |state: &str, phase: &str| -> AttemptLine {
            let attempt = json!({
                "attempt_id": "0192f0c1-2345-7abc-8def-0123456789ab", "state": state,
                "phase": phase, "executor": "echo", "variant": "fast", "host": "local",
                "task_title": "A title that is much longer than any column should ever be",
                "created_at": Timestamp::from_millis(now().millis() - 61_000),
                "updated_at": now(), "task_id": "0192f0c1-2345-7abc-8def-0123456789ab",
                "workspace_branch": "provost/a-title",
                "project_id": "0192f0c1-2345-7abc-8def-0123456789ab", "project_name": "app",
            });
            serde_json::from_value(attempt).unwrap()
        };
        insta::assert_snapshot!(row(&line("running", "stopping"), now()).join(" | "));
        let stopped = AttemptLine { stopped: true, ..line("failed", "settled") };
        assert_eq!(row(&stopped, now())[1], "stopped");
    }

    #[test]
    fn ages_are_in_their_largest_unit() {
        let ago =
            |seconds: i64| age(Timestamp::from_millis(now().millis() - seconds * 1000), now());
        assert_eq!(
            [0, 59, 60, 3599, 3600, 86_399, 86_400, -5].map(ago),
            ["0s", "59s", "1m", "59m", "1h", "23h", "1d", "0s"]
        );
    }

    #[test]
    fn a_status_shows_what_it_has() {
        let mut status: Value = crate::cli::tests::status();
        let own = json!({
            "state": "failed", "phase": "settled", "exit_code": 3,
            "failure_summary": "exit code 3", "final_message": "one\ntwo",
            "usage": {"input_tokens": 10, "output_tokens": 2, "cost_usd": null},
            "finish": {"action": "merge", "state": "open", "waits_for": "git fails"},
            "limits": [{"limit": "nice", "value": 3, "hold": "kernel", "reason": null},
                {"limit": "processes", "value": 9, "hold": "watched", "reason": "no cgroup"}],
        });
        status.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let status: AttemptStatus = serde_json::from_value(status).unwrap();
        let lines = status_lines(&status, "TASK-001 Fix it".to_owned(), "app".to_owned(), false);
        let lines: Vec<String> = lines.iter().map(|(k, v)| format!("{k}: {v:?}")).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn what_waits_for_a_person_names_the_verb() {
        let shown = |waiting_on: &str, needs_trust: bool| {
            let mut status: Value = crate::cli::tests::status();
            (status["waiting_on"], status["needs_trust"]) = (json!(waiting_on), json!(needs_trust));
            (status["host"], status["attempt_id"]) =
                (json!("a"), json!("0192f0c1-2345-7abc-8def-0123456789ab"));
            way_out(&serde_json::from_value(status).unwrap())
        };
        assert_eq!(shown("approval", true).as_deref(), Some("provost trust 456789ab"));
        assert_eq!(shown("approval", false).as_deref(), Some("provost approvals"));
        assert_eq!(shown("a running slot", false), None);
        assert_eq!(shown("host", false).as_deref(), Some("provost host resume a"));
    }
}
