//! `provost wait`: waits until attempts have settled and no finish of them is under way, for any length
//! of time. Each call passes the revision of the last answer, so no change is missed, even across a
//! restart of the daemon.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::prelude::*;

/// The longest wait of one call.
const LONGEST_CALL: Duration = Duration::from_secs(50);

#[derive(clap::Args, Debug)]
pub struct WaitArgs {
    /// The attempts' ids, or 8 or more characters of their starts or ends
    #[arg(required = true, num_args = 1..=50, value_name = "ATTEMPT")]
    attempts: Vec<String>,
    /// Wait until one of them has settled
    #[arg(long)]
    any: bool,
    /// Wait until all of them have settled [default]
    #[arg(long, conflicts_with = "any")]
    all: bool,
    /// Give up after S seconds, with exit code 6 [default: wait forever]
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,
}

/// `provost wait`: prints each attempt when it has settled. Exit code 6 if the time is over, and 7 if one
/// of them has failed.
pub async fn wait(context: &mut Context, args: &WaitArgs) -> Result<Exit, Failure> {
    let mut ids = Vec::with_capacity(args.attempts.len());
    for piece in &args.attempts {
        ids.push(context.attempt(piece).await?);
    }
    // A time limit that is too far away to be represented counts as none.
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut arguments = json!({"attempt_ids": ids, "until": "any_settled"});
    let mut printed = BTreeSet::new();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let sleep = left.map_or(LONGEST_CALL, |left| left.min(LONGEST_CALL)).as_millis().max(1);
        arguments["timeout_ms"] = json!(u64::try_from(sleep).unwrap_or(u64::MAX));
        let answer = context.call::<WaitForAttemptsOutput>(arguments.clone()).await?;
        let attempts = &answer.attempts;
        for attempt in attempts.iter().filter(|attempt| has_settled(attempt)) {
            if printed.insert(attempt.attempt_id) && !context.out.json {
                context.out.line(&line(attempt))?;
            }
        }
        context.out.flush()?;
        let is_done = is_done(attempts, args.any);
        if is_done || left.is_some_and(|left| left.is_zero()) {
            let attempts_json = &answer.json["attempts"];
            context.out.as_json(&json!({"attempts": attempts_json, "timed_out": !is_done}))?;
            return Ok(exit(attempts, is_done));
        }
        arguments["after"] = json!(answer.after);
        // `any_settled` does not end when a finish ends, so a wait for a finish asks for any change.
        let finishing = attempts.iter().any(|attempt| attempt.finishing);
        arguments["until"] = json!(if finishing { "any_change" } else { "any_settled" });
    }
}

/// Seconds, possibly with a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Whether neither a turn nor a finish of the attempt is under way.
fn has_settled(attempt: &WaitedAttempt) -> bool {
    matches!(attempt.phase, AttemptPhase::Settled | AttemptPhase::Idle) && !attempt.finishing
}

fn is_done(attempts: &[WaitedAttempt], any: bool) -> bool {
    let mut settled = attempts.iter().map(has_settled);
    if any { settled.any(|settled| settled) } else { settled.all(|settled| settled) }
}

/// With `--any`, a failed attempt decides only if it has settled by now.
fn exit(attempts: &[WaitedAttempt], is_done: bool) -> Exit {
    let failed = |it: &WaitedAttempt| has_settled(it) && it.state == AttemptState::Failed;
    match is_done {
        false => Exit::TimedOut,
        true if attempts.iter().any(failed) => Exit::AttemptFailed,
        true => Exit::Done,
    }
}

/// `456789ab failed (exit 3): exit code 3`.
fn line(attempt: &WaitedAttempt) -> String {
    let why = attempt.failure_summary.as_deref().unwrap_or_default();
    let state = if attempt.stopped { "stopped".to_owned() } else { word(&attempt.state) };
    let how = ended(&state, attempt.exit_code, None);
    let why = if why.is_empty() { String::new() } else { format!(": {}", for_person(why)) };
    format!("{} {how}{why}", attempt.attempt_id.short())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(phase: &str, state: &str) -> WaitedAttempt {
        let attempt = json!({"attempt_id": "0192f0c1-2345-7abc-8def-0123456789ab", "phase": phase,
            "state": state, "exit_code": 3, "failure_summary": "exit code 3", "changed": true,
            "queued_follow_ups": 0, "latest_entry_index": {}});
        serde_json::from_value(attempt).unwrap()
    }

    #[test]
    fn it_ends_when_any_or_all_have_settled_and_reports_failures() {
        let (runs, failed) = (attempt("running", "running"), attempt("settled", "failed"));
        let well = attempt("settled", "completed");
        // Its latest turn failed, and the next one runs.
        let again = attempt("preparing", "failed");
        let finishing = WaitedAttempt { finishing: true, ..well.clone() };
        let cases = [
            (vec![runs.clone(), failed.clone()], true, Exit::AttemptFailed),
            (vec![runs.clone(), failed.clone()], false, Exit::TimedOut),
            (vec![well.clone(), failed.clone()], false, Exit::AttemptFailed),
            (vec![well.clone(), again], true, Exit::Done),
            (vec![well], false, Exit::Done),
            (vec![runs], true, Exit::TimedOut),
            (vec![finishing.clone()], false, Exit::TimedOut),
            (vec![finishing], true, Exit::TimedOut),
        ];
        for (attempts, any, expected) in cases {
            assert_eq!(exit(&attempts, is_done(&attempts, any)), expected, "{attempts:?} {any}");
        }
    }

    #[test]
    fn seconds_may_have_fractions() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("30"), Ok(Duration::from_secs(30)));
        for wrong in ["", "-1", "NaN", "1e99", "5s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_says_how_it_ended() {
        let line = line(&attempt("settled", "failed"));
        assert_eq!(line, "456789ab failed (exit 3): exit code 3");
    }
}
