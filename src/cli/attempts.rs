//! `provost ps` and `status`: attempts as people see them.

use std::collections::BTreeSet;

use provost_actors::event::Timestamp;
use serde_json::{Value, json};

use super::context::{Context, short_of, text};
use super::exit::{Exit, Failure};
use super::output::{Output, harmless};
use super::path::worktree;
use super::render::{ended, for_person, is_stopped};
use super::table::{cut, whole};
use crate::client::ClientError;

/// The most attempts that one call tells the status of.
const STATUSES_MAX: usize = 50;

#[derive(clap::Args, Debug)]
pub struct PsArgs {
    /// All attempts, not only running and waiting ones and the newest 20
    #[arg(short, long)]
    all: bool,
}

#[derive(clap::Args, Debug)]
pub struct StatusArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
}

pub async fn ps(context: &mut Context, args: &PsArgs) -> Result<Exit, Failure> {
    let params = json!({"all": args.all});
    let listed = context.client().await?.method("provost/attempts", params).await?;
    if context.out.is_json() {
        context.out.json(&listed)?;
        return Ok(Exit::Done);
    }
    let attempts = listed["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stopped = stopped_ones(context, attempts).await?;
    let projects: BTreeSet<&str> = attempts.iter().map(|it| text(it, "project_id")).collect();
    let mut columns = vec![whole("ID"), whole("STATE"), cut("EXECUTOR"), whole("AGE"), cut("TASK")];
    if projects.len() > 1 {
        columns.insert(4, cut("PROJECT"));
    }
    let row = |attempt: &Value| {
        let mut row = row(attempt, stopped.contains(text(attempt, "attempt_id")), Timestamp::now());
        if projects.len() > 1 {
            row.insert(4, text(attempt, "project_name").to_owned());
        }
        row
    };
    let rows: Vec<Vec<String>> = attempts.iter().map(row).collect();
    context.out.list(
        &columns,
        &rows,
        "there is no attempt yet; `provost run PROMPT` starts one",
    )?;
    let total = listed["total"].as_u64().unwrap_or_default();
    if total > attempts.len() as u64 {
        context.out.flush()?;
        anstream::eprintln!("{} of {total} attempts; `provost ps --all` lists all", attempts.len());
    }
    Ok(Exit::Done)
}

/// Which of those that failed did so because they were stopped.
async fn stopped_ones(
    context: &mut Context,
    attempts: &[Value],
) -> Result<BTreeSet<String>, Failure> {
    let failed = attempts.iter().filter(|attempt| text(attempt, "state") == "failed");
    let failed: Vec<&Value> = failed.map(|attempt| &attempt["attempt_id"]).collect();
    let mut stopped = BTreeSet::new();
    for ids in failed.chunks(STATUSES_MAX) {
        let told = context.read("get_attempt_status", &json!({"attempt_ids": ids})).await?;
        let told = told["attempts"].as_array().into_iter().flatten();
        let of_stops = told.filter(|status| is_stopped(text(status, "failure_summary")));
        stopped.extend(of_stops.map(|status| text(status, "attempt_id").to_owned()));
    }
    Ok(stopped)
}

fn row(attempt: &Value, is_stopped: bool, now: Timestamp) -> Vec<String> {
    vec![
        short_of(attempt, "attempt_id").to_owned(),
        if is_stopped {
            standing(attempt).replacen("failed", "stopped", 1)
        } else {
            standing(attempt)
        },
        executor(attempt),
        age(text(attempt, "created_at"), now),
        text(attempt, "task_title").lines().next().unwrap_or_default().to_owned(),
    ]
}

/// `claude`, `claude/plan`.
fn executor(attempt: &Value) -> String {
    match (text(attempt, "executor"), text(attempt, "variant")) {
        (executor, "") => executor.to_owned(),
        (executor, variant) => format!("{executor}/{variant}"),
    }
}

/// One word for state and phase: the phase while something happens or waits,
/// the state once it is over.
fn standing(attempt: &Value) -> String {
    match text(attempt, "phase") {
        "settled" | "" => match text(attempt, "waiting_on") {
            "quota" => format!("{}, waits for quota", text(attempt, "state")),
            _ => text(attempt, "state").to_owned(),
        },
        "waiting" => format!("waits for {}", text(attempt, "waiting_on")),
        phase if attempt["waiting_on"] == "disk" => format!("{phase}, waits for disk"),
        phase => phase.to_owned(),
    }
}

/// `12s`, `5m`, `3h`, `4d`; a clock that jumped back makes it `0s`.
fn age(created_at: &str, now: Timestamp) -> String {
    let Ok(created) = serde_json::from_value::<Timestamp>(json!(created_at)) else {
        return "?".to_owned();
    };
    let seconds = (now.millis() - created.millis()).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

pub async fn status(context: &mut Context, args: &StatusArgs) -> Result<Exit, Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    let status = context.tool("get_attempt_status", json!({"attempt_id": attempt})).await?;
    if context.out.is_json() {
        context.out.json(&status)?;
    } else {
        let of = belongs_to(context, text(&status, "task_id")).await?;
        let is_local = context.out.is_terminal();
        print_status(&mut context.out, &status_lines(&status, &of, is_local))?;
    }
    Ok(Exit::Done)
}

/// What an attempt is for.
struct For {
    /// `TASK-001 Title`; the task's id where it was deleted.
    task: String,
    /// The project's name; empty where the task was deleted.
    project: String,
}

async fn belongs_to(context: &mut Context, task: &str) -> Result<For, Failure> {
    let found = match context.read("get_task", &json!({"task_id": task})).await {
        Err(Failure::Client(ClientError::Refused(_))) => {
            return Ok(For { task: format!("{task} (deleted)"), project: String::new() });
        }
        found => found?["task"].take(),
    };
    let projects = context.all("list_projects", "projects").await?;
    let its = projects.iter().find(|project| project["project_id"] == found["project_id"]);
    let project = its.map_or("", |project| text(project, "name")).to_owned();
    Ok(For { task: format!("{} {}", text(&found, "handle"), text(&found, "title")), project })
}

/// The fields of a status, in the order in which people ask for them. Those
/// that say nothing are left out.
fn status_lines(status: &Value, of: &For, is_local: bool) -> Vec<(&'static str, String)> {
    let given = |key: &str| text(status, key).to_owned();
    let time = |key: &str| if is_local { local(text(status, key)) } else { given(key) };
    let usage = &status["usage"];
    let spent = usage["input_tokens"].as_u64().map(|input| {
        let cost = usage["cost_usd"].as_f64().map(|cost| format!(", ${cost:.4}"));
        let output = usage["output_tokens"].as_u64().unwrap_or_default();
        format!("{input} tokens in, {output} out{}", cost.unwrap_or_default())
    });
    let queued = status["queued_follow_ups"].as_u64().filter(|count| *count > 0);
    let held = if status["queue_held"] == json!(true) { ", held since the stop" } else { "" };
    let lines = [
        ("attempt", given("attempt_id")),
        ("task", of.task.clone()),
        ("project", of.project.clone()),
        ("state", state(status)),
        ("failure", for_person(text(status, "failure_summary"))),
        ("executor", executor(status)),
        ("branch", given("workspace_branch")),
        ("worktree", worktree(status, None).unwrap_or_default()),
        ("session", given("latest_session_id")),
        ("created", time("created_at")),
        ("active", time("last_activity_at")),
        ("resumes", time("resume_at")),
        ("queued", queued.map(|count| format!("{count}{held}")).unwrap_or_default()),
        ("limits", limits(&status["limits"])),
        ("usage", spent.unwrap_or_default()),
        ("said", given("final_message")),
    ];
    lines.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// How it stands, and how its latest process ended once it has.
fn state(status: &Value) -> String {
    let word = standing(status);
    let is_stopped = is_stopped(text(status, "failure_summary"));
    let word = if is_stopped { word.replacen("failed", "stopped", 1) } else { word };
    ended(
        &json!({"state": word, "exit_code": status["exit_code"],
            "exit_signal": status["exit_signal"]}),
        "state",
    )
}

/// A time of day where the person is; as it is where it can't be read.
fn local(time: &str) -> String {
    match chrono::DateTime::parse_from_rfc3339(time) {
        Ok(time) => time.with_timezone(&chrono::Local).format("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => time.to_owned(),
    }
}

/// `wall_secs 60, memory_bytes 1000 (watched: no cgroup …)`.
fn limits(limits: &Value) -> String {
    let one = |limit: &Value| {
        let set = format!("{} {}", text(limit, "limit"), limit["value"]);
        match (text(limit, "hold"), text(limit, "reason")) {
            (_, "") => set,
            ("no", reason) => format!("{set} (not held: {reason})"),
            (hold, reason) => format!("{set} ({hold}: {reason})"),
        }
    };
    let limits = limits.as_array().map(Vec::as_slice).unwrap_or_default();
    limits.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn print_status(out: &mut Output, lines: &[(&str, String)]) -> Result<(), Failure> {
    for (label, value) in lines {
        let label = out.paint(anstyle::Style::new().bold(), &format!("{label:<9}"));
        for (index, line) in value.lines().enumerate() {
            let line = harmless(line);
            out.line(&if index == 0 {
                format!("{label}{line}")
            } else {
                format!("{:9}{line}", "")
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_stands_and_for_how_long() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let attempt = json!({
            "attempt_id": "0192f0c1-2345-7abc-8def-0123456789ab", "state": "running",
            "phase": "stopping", "executor": "echo", "variant": "fast",
            "task_title": "A title that is much longer than any column should ever be",
            "created_at": Timestamp::from_millis(now.millis() - 61_000),
            "workspace_branch": "provost/456789ab-a-title",
        });
        insta::assert_snapshot!(row(&attempt, false, now).join(" | "));
        let failed = json!({"state": "failed", "phase": "settled"});
        assert_eq!(row(&failed, true, now)[1], "stopped");
    }

    #[test]
    fn ages_are_in_their_largest_unit() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let ago = |seconds: i64| {
            age(&Timestamp::from_millis(now.millis() - seconds * 1000).to_string(), now)
        };
        assert_eq!(
            [0, 59, 60, 3599, 3600, 86_399, 86_400, -5].map(ago),
            ["0s", "59s", "1m", "59m", "1h", "23h", "1d", "0s"]
        );
        assert_eq!(age("yesterday", now), "?");
    }

    #[test]
    fn a_status_shows_what_it_has() {
        let status = json!({
            "attempt_id": "a", "task_id": "t", "state": "failed", "phase": "settled",
            "executor": "fake", "variant": null, "exit_code": 3, "failure_summary": "exit code 3",
            "usage": {"input_tokens": 10, "output_tokens": 2, "cost_usd": null},
            "queued_follow_ups": 0, "final_message": "one\ntwo",
            "limits": [{"limit": "nice", "value": 3, "hold": "kernel", "reason": null},
                {"limit": "processes", "value": 9, "hold": "watched", "reason": "no cgroup"}],
        });
        let of = For { task: "TASK-001 Fix it".to_owned(), project: "app".to_owned() };
        insta::assert_snapshot!(
            status_lines(&status, &of, false)
                .iter()
                .map(|(k, v)| format!("{k}: {v:?}"))
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
}
