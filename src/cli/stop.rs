//! `provost stop`: stops one attempt, or all that run or wait.

use futures_util::StreamExt;

use super::prelude::*;

/// How many attempts are stopped at once, because each may take its whole grace period.
const AT_ONCE: usize = 16;

/// The longest title that is shown, in characters.
const TITLE: usize = 40;

type StopResult = Result<Answer<StopAttemptOutput>, ClientError>;

#[derive(clap::Args, Debug)]
pub struct StopArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    #[arg(required_unless_present = "all")]
    attempt: Option<String>,
    /// Stop all running and waiting attempts, of all projects
    #[arg(long, conflicts_with = "attempt")]
    all: bool,
    /// Send SIGKILL at once
    #[arg(long)]
    force: bool,
}

/// `provost stop`: fails if a process of an attempt is still alive afterwards.
pub async fn stop(context: &mut Context, args: &StopArgs) -> Result<Exit, Failure> {
    match args.attempt.as_deref() {
        None | Some("all") => all(context, args.force).await,
        Some(attempt) => {
            let attempt = context.attempt(attempt).await?;
            one(context, attempt, args.force).await
        }
    }
}

async fn one(context: &mut Context, attempt: AttemptId, force: bool) -> Result<Exit, Failure> {
    let stop = json!({"attempt_id": attempt, "force": force});
    let stopped = context.call::<StopAttemptOutput>(stop).await?;
    context.show(&stopped, |out, it| out.line(&format!("{} {}", attempt.short(), line(it))))?;
    match stopped.survivors {
        0 => Ok(Exit::Done),
        survivors => Err(Failure::Fault(format!("{survivors} of its processes are still alive"))),
    }
}

/// Stops all attempts, each by a connection of its own. Queued attempts are stopped first, because the
/// slots of stopped ones would go to them.
async fn all(context: &mut Context, force: bool) -> Result<Exit, Failure> {
    let listed = context.call::<Attempts>(json!({})).await?;
    let ended = [AttemptPhase::Settled, AttemptPhase::Idle];
    let alive = listed.attempts.iter().filter(|it| !ended.contains(&it.phase));
    let (queued, running): (Vec<_>, Vec<_>) =
        alive.partition(|it| it.phase == AttemptPhase::Queued);
    let mut stopped = Vec::new();
    for group in [queued, running] {
        let mut stops = Vec::new();
        for attempt in group {
            let home = context.home()?.clone();
            stops.push(async move {
                let stop = json!({"attempt_id": attempt.attempt_id, "force": force});
                let stopped = async { Context::running(&home).await?.call(stop).await };
                (attempt, stopped.await)
            });
        }
        let stops = futures_util::stream::iter(stops).buffered(AT_ONCE);
        stopped.extend(stops.collect::<Vec<_>>().await);
    }
    show_all(context, stopped)
}

/// Prints each outcome, and fails if an attempt could not be stopped.
fn show_all(
    context: &mut Context,
    stopped: Vec<(&AttemptLine, StopResult)>,
) -> Result<Exit, Failure> {
    let is_json = context.out.json;
    if stopped.is_empty() && !is_json {
        context.out.line("no attempt runs or waits")?;
    }
    let (mut failed, mut all) = (0, Vec::new());
    for (attempt, stopped) in stopped {
        let what = match &stopped {
            Ok(stopped) if stopped.survivors == 0 => line(stopped),
            Ok(stopped) => format!("{} of its processes are still alive", stopped.survivors),
            Err(error) => format!("was not stopped: {error}"),
        };
        failed += usize::from(!stopped.as_ref().is_ok_and(|it| it.survivors == 0));
        if !is_json {
            let title = headline(&attempt.task_title, TITLE);
            context.out.line(&format!("{} {what} ({title})", attempt.attempt_id.short()))?;
        }
        all.push(match stopped {
            Ok(stopped) => stopped.json,
            Err(ClientError::Refused(envelope)) => envelope.json,
            Err(error) => json!({"attempt_id": attempt.attempt_id, "error": error.to_string()}),
        });
    }
    context.out.as_json(&json!({ "attempts": Value::Array(all) }))?;
    match failed {
        0 => Ok(Exit::Done),
        1 => Err(Failure::Fault("1 attempt could not be stopped".to_owned())),
        _ => Err(Failure::Fault(format!("{failed} attempts could not be stopped"))),
    }
}

/// `stopped (signal 15) with SIGINT, SIGTERM`.
fn line(stopped: &StopAttemptOutput) -> String {
    let how = |state: &str| ended(state, stopped.exit_code, stopped.exit_signal);
    if !stopped.stopped {
        return format!("was not running: {}", how(&word(&stopped.state)));
    }
    let is_completed = stopped.state == AttemptState::Completed;
    let state = if is_completed { "stopped, completed" } else { "stopped" };
    let with = match stopped.signals.join(", ") {
        sent if sent.is_empty() => sent,
        sent => format!(" with {sent}"),
    };
    let later = if stopped.unrecorded { ", not recorded yet" } else { "" };
    format!("{}{with}{later}", how(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line of a stop by these signals.
    fn line_of(signals: &[&str], state: &str, end: (&str, i32), unrecorded: bool) -> String {
        let id = "0192f0c1-2345-7abc-8def-0123456789ab";
        let mut stopped = json!({"attempt_id": id, "worktree": "/w", "state": state,
            "stopped": !signals.is_empty(), "phase": "settled", "forced": false,
            "signals": signals, "survivors": 0, "unrecorded": unrecorded});
        stopped[end.0] = json!(end.1);
        line(&serde_json::from_value(stopped).unwrap())
    }

    #[test]
    fn a_stop_says_what_it_took() {
        let killed = line_of(&["SIGINT", "SIGTERM"], "failed", ("exit_signal", 15), false);
        assert_eq!(killed, "stopped (signal 15) with SIGINT, SIGTERM");
        let well = line_of(&["SIGINT"], "completed", ("exit_code", 0), false);
        assert_eq!(well, "stopped, completed (exit 0) with SIGINT");
        let unrecorded = line_of(&["SIGKILL"], "failed", ("exit_signal", 9), true);
        assert_eq!(unrecorded, "stopped (signal 9) with SIGKILL, not recorded yet");
        let idle = line_of(&[], "completed", ("exit_code", 0), false);
        assert_eq!(idle, "was not running: completed (exit 0)");
    }
}
