//! `provost stop`: one attempt, or all that run or wait.

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::context::{Context, short_of, text};
use super::exit::{Exit, Failure};
use super::output::{harmless, headline, short};
use super::render::ended;
use crate::client::ClientError;

/// How many attempts are stopped at once: each may take its whole grace period.
const AT_ONCE: usize = 16;

/// The longest title that is shown, in characters.
const TITLE: usize = 40;

#[derive(clap::Args, Debug)]
pub struct StopArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    #[arg(required_unless_present = "all")]
    attempt: Option<String>,
    /// Stop all attempts that run or wait, of all projects
    #[arg(long, conflicts_with = "attempt")]
    all: bool,
    /// SIGKILL at once, without asking first
    #[arg(long)]
    force: bool,
}

pub async fn stop(context: &mut Context, args: &StopArgs) -> Result<Exit, Failure> {
    match args.attempt.as_deref() {
        None | Some("all") => all(context, args.force).await,
        Some(attempt) => {
            let attempt = context.attempt(attempt).await?;
            one(context, &attempt, args.force).await
        }
    }
}

async fn one(context: &mut Context, attempt: &str, force: bool) -> Result<Exit, Failure> {
    let arguments = json!({"attempt_id": attempt, "force": force});
    let stopped = context.tool("stop_attempt", arguments).await?;
    if context.out.is_json() {
        context.out.json(&stopped)?;
    } else {
        context.out.line(&format!("{} {}", short(attempt), line(&stopped)))?;
    }
    match stopped["survivors"].as_u64().unwrap_or_default() {
        0 => Ok(Exit::Done),
        survivors => Err(Failure::Fault(format!("{survivors} of its processes are still alive"))),
    }
}

/// Those that wait for a place go first, so that none of them starts meanwhile.
async fn all(context: &mut Context, force: bool) -> Result<Exit, Failure> {
    let listed = context.client().await?.method("provost/attempts", json!({})).await?;
    let attempts = listed["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut alive: Vec<&Value> = attempts.iter().filter(|it| is_alive(it)).collect();
    alive.sort_by_key(|attempt| text(attempt, "phase") != "queued");
    let mut told = Vec::new();
    for phase in alive.chunk_by(|a, b| (a["phase"] == "queued") == (b["phase"] == "queued")) {
        let stops: Vec<_> = phase
            .iter()
            .map(|attempt| {
                let client = context.another();
                async move {
                    let arguments = json!({"attempt_id": attempt["attempt_id"], "force": force});
                    let stopped = match client.await {
                        Ok(mut client) => client.tool("stop_attempt", arguments).await,
                        Err(error) => Err(error),
                    };
                    (*attempt, stopped)
                }
            })
            .collect();
        told.extend(futures_util::stream::iter(stops).buffered(AT_ONCE).collect::<Vec<_>>().await);
    }
    show_all(context, told)
}

fn is_alive(attempt: &Value) -> bool {
    !matches!(text(attempt, "phase"), "settled" | "idle" | "")
}

fn show_all(
    context: &mut Context,
    told: Vec<(&Value, Result<Value, ClientError>)>,
) -> Result<Exit, Failure> {
    let is_json = context.out.is_json();
    if told.is_empty() && !is_json {
        context.out.line("no attempt runs or waits")?;
    }
    let (mut failed, mut all) = (0, Vec::new());
    for (attempt, stopped) in told {
        let id = short_of(attempt, "attempt_id");
        let survivors = stopped.as_ref().map(|it| it["survivors"].as_u64().unwrap_or_default());
        let what = match (&stopped, survivors) {
            (Ok(stopped), Ok(0)) => line(stopped),
            (_, Ok(survivors)) => format!("{survivors} of its processes are still alive"),
            (Err(error), _) => format!("was not stopped: {error}"),
            (Ok(_), Err(_)) => String::new(),
        };
        failed += usize::from(!matches!(survivors, Ok(0)));
        if !is_json {
            let title = headline(text(attempt, "task_title"), TITLE);
            context.out.line(&harmless(&format!("{id} {what} ({title})")))?;
        }
        all.push(match stopped {
            Ok(stopped) => stopped,
            Err(ClientError::Refused(envelope)) => envelope.json,
            Err(error) => json!({"attempt_id": attempt["attempt_id"], "error": error.to_string()}),
        });
    }
    if is_json {
        context.out.json(&json!({"attempts": all}))?;
    }
    match failed {
        0 => Ok(Exit::Done),
        1 => Err(Failure::Fault("1 attempt could not be stopped".to_owned())),
        _ => Err(Failure::Fault(format!("{failed} attempts could not be stopped"))),
    }
}

/// `stopped (signal 15) with SIGINT, SIGTERM`.
fn line(stopped: &Value) -> String {
    let sent = stopped["signals"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sent = sent.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    match stopped["stopped"].as_bool() {
        Some(true) => {
            let with = if sent.is_empty() { String::new() } else { format!(" with {sent}") };
            let word = if text(stopped, "state") == "completed" {
                "stopped, completed"
            } else {
                "stopped"
            };
            let how = json!({"state": word, "exit_code": stopped["exit_code"],
                "exit_signal": stopped["exit_signal"]});
            let later = if stopped["unrecorded"] == true { ", not written down yet" } else { "" };
            format!("{}{with}{later}", ended(&how, "state"))
        }
        _ => format!("was not running: {}", ended(stopped, "state")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_says_what_it_took() {
        let stopped = json!({"stopped": true, "signals": ["SIGINT", "SIGTERM"], "state": "failed",
            "exit_signal": 15});
        assert_eq!(line(&stopped), "stopped (signal 15) with SIGINT, SIGTERM");
        let well = json!({"stopped": true, "signals": ["SIGINT"], "state": "completed",
            "exit_code": 0});
        assert_eq!(line(&well), "stopped, completed (exit 0) with SIGINT");
        let unrecorded = json!({"stopped": true, "signals": ["SIGKILL"], "state": "failed",
            "exit_signal": 9, "unrecorded": true});
        assert_eq!(line(&unrecorded), "stopped (signal 9) with SIGKILL, not written down yet");
        let idle = json!({"stopped": false, "signals": [], "state": "completed", "exit_code": 0});
        assert_eq!(line(&idle), "was not running: completed (exit 0)");
    }
}
