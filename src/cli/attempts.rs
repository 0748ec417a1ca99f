//! `provost ps`, `status` and `stop`: attempts as people see them.

use provost_actors::event::Timestamp;
use serde_json::{Value, json};

use super::context::{Context, short_of, text};
use super::exit::{Exit, Failure};
use super::output::{Output, harmless, headline, short};
use super::render::ended;

#[derive(clap::Args, Debug)]
pub struct PsArgs {
    /// All attempts, not only what runs or waits and the newest 20
    #[arg(short, long)]
    all: bool,
}

#[derive(clap::Args, Debug)]
pub struct StatusArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
}

#[derive(clap::Args, Debug)]
pub struct StopArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// SIGKILL at once, without asking first
    #[arg(long)]
    force: bool,
}

pub async fn ps(context: &mut Context, args: &PsArgs) -> Result<Exit, Failure> {
    let params = json!({"all": args.all});
    let listed = context.client().await?.method("provost/attempts", params).await?;
    if context.out.is_json() {
        context.out.json(&listed)?;
        return Ok(Exit::Done);
    }
    let attempts = listed["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<String>> = attempts.iter().map(|each| row(each, Timestamp::now())).collect();
    context.out.table(&["ID", "STATE", "EXECUTOR", "TASK", "AGE", "BRANCH"], &rows)?;
    Ok(Exit::Done)
}

fn row(attempt: &Value, now: Timestamp) -> Vec<String> {
    let variant = text(attempt, "variant");
    let executor = text(attempt, "executor");
    vec![
        short_of(attempt, "attempt_id").to_owned(),
        standing(attempt),
        if variant.is_empty() { executor.to_owned() } else { format!("{executor}/{variant}") },
        headline(text(attempt, "task_title"), 40),
        age(text(attempt, "created_at"), now),
        text(attempt, "workspace_branch").to_owned(),
    ]
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
        print_status(&mut context.out, &status)?;
    }
    Ok(Exit::Done)
}

/// The fields of a status, in the order in which people ask for them. Those
/// that say nothing are left out.
fn status_lines(status: &Value) -> Vec<(&'static str, String)> {
    let given = |key: &str| text(status, key).to_owned();
    let usage = &status["usage"];
    let spent = usage["input_tokens"].as_u64().map(|input| {
        let cost = usage["cost_usd"].as_f64().map(|cost| format!(", ${cost:.4}"));
        let output = usage["output_tokens"].as_u64().unwrap_or_default();
        format!("{input} tokens in, {output} out{}", cost.unwrap_or_default())
    });
    let queued = status["queued_follow_ups"].as_u64().filter(|count| *count > 0);
    let held = if status["queue_held"] == json!(true) { ", held since the stop" } else { "" };
    let executor = match text(status, "variant") {
        "" => given("executor"),
        variant => format!("{}/{variant}", text(status, "executor")),
    };
    let lines = [
        ("attempt", given("attempt_id")),
        ("task", given("task_id")),
        (
            "state",
            ended(
                &json!({"state": standing(status), "exit_code": status["exit_code"],
            "exit_signal": status["exit_signal"]}),
                "state",
            ),
        ),
        ("failure", given("failure_summary")),
        ("executor", executor),
        ("branch", given("workspace_branch")),
        ("session", given("latest_session_id")),
        ("active", given("last_activity_at")),
        ("queued", queued.map(|count| format!("{count}{held}")).unwrap_or_default()),
        ("limits", limits(&status["limits"])),
        ("usage", spent.unwrap_or_default()),
        ("said", given("final_message")),
    ];
    lines.into_iter().filter(|(_, value)| !value.is_empty()).collect()
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

fn print_status(out: &mut Output, status: &Value) -> Result<(), Failure> {
    for (label, value) in status_lines(status) {
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

pub async fn stop(context: &mut Context, args: &StopArgs) -> Result<Exit, Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    let arguments = json!({"attempt_id": attempt, "force": args.force});
    let stopped = context.tool("stop_attempt", arguments).await?;
    if context.out.is_json() {
        context.out.json(&stopped)?;
    } else {
        context.out.line(&format!("{} {}", short(&attempt), stop_line(&stopped)))?;
    }
    match stopped["survivors"].as_u64().unwrap_or_default() {
        0 => Ok(Exit::Done),
        survivors => Err(Failure::Fault(format!("{survivors} of its processes are still alive"))),
    }
}

/// `stopped with SIGINT, SIGTERM: failed (signal 15)`.
fn stop_line(stopped: &Value) -> String {
    let sent = stopped["signals"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sent = sent.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let what = match stopped["stopped"].as_bool() {
        Some(true) if sent.is_empty() => "stopped".to_owned(),
        Some(true) => format!("stopped with {sent}"),
        _ => "nothing ran".to_owned(),
    };
    let later = if stopped["unrecorded"] == true { ", not written down yet" } else { "" };
    format!("{what}: {}{later}", ended(stopped, "state"))
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
        insta::assert_snapshot!(row(&attempt, now).join(" | "));
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
        insta::assert_snapshot!(
            status_lines(&status)
                .iter()
                .map(|(k, v)| format!("{k}: {v:?}"))
                .collect::<Vec<_>>()
                .join("\n")
        );
    }

    #[test]
    fn a_stop_says_what_it_took() {
        let stopped = json!({"stopped": true, "signals": ["SIGINT", "SIGTERM"], "state": "failed",
            "exit_signal": 15});
        assert_eq!(stop_line(&stopped), "stopped with SIGINT, SIGTERM: failed (signal 15)");
        let unrecorded = json!({"stopped": true, "signals": ["SIGKILL"], "state": "failed",
            "exit_signal": 9, "unrecorded": true});
        let line = "stopped with SIGKILL: failed (signal 9), not written down yet";
        assert_eq!(stop_line(&unrecorded), line);
        let idle = json!({"stopped": false, "signals": [], "state": "completed", "exit_code": 0});
        assert_eq!(stop_line(&idle), "nothing ran: completed (exit 0)");
    }
}
