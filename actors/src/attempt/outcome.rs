//! How a turn ended, decided from the facts in their order of trust: the executor's own
//! terminal event (unless it answers an interrupt), its exit code, our own stop. Pure.
//!
//! ```text
//!  executor's report   exit             a stop   status
//!  ended well (*)      any              any      Completed
//!  ended, otherwise    any              yes/no   Killed/Failed
//!  none                0, no limit      any      Completed
//!  none                other, or none   yes/no   Killed/Failed
//! ```
//!
//! `*` and its model was asked, and the turn was not interrupted by a message.

use std::time::Duration;

use nix::libc::SIGKILL;

use crate::event::{ErrorType, Event, ProcessStatus, Timestamp};
use crate::executor::OnQuota;
use crate::journal::{Outcome, Quota};
use crate::process::records::StopKind;

use super::lifecycle::{Ending, INTERRUPT, StopFacts};
use super::turn_summary::TurnSummary;

/// The prompt of a turn by which an attempt resumes by itself after a limit. A turn with this prompt is known
/// by it (`state.rs`).
pub const RESUME_PROMPT: &str =
    "The limit that ended your last turn is over. Go on where you were.";
/// The least time from the end of such a turn to the next one: an agent may report a limit of one second.
const PAUSE: Duration = Duration::from_mins(1);

/// Delays the next resumption after a turn that was one itself, so that they do not follow each other at
/// once.
pub fn pause(outcome: &mut Outcome) {
    let earliest = outcome.at.plus(PAUSE);
    if let Some(Quota { resume_at: Some(at), .. }) = &mut outcome.quota {
        *at = (*at).max(earliest);
    }
}

/// Why a turn has failed although its executor says that it went well.
const NOT_ASKED: &str = "the agent ended its turn without asking its model: no message, no thought, \
                         no tool call and no tokens";

/// The outcome of a turn. `policy` says what a rate limit means; `now` is used if no exit record has a time.
pub fn decide(ending: &Ending, summary: &TurnSummary, policy: OnQuota, now: Timestamp) -> Outcome {
    let exit = ending.exit.as_ref();
    let stopped = stopped(ending);
    let interrupted = stopped.as_ref().is_some_and(|stop| stop.signals.contains(&INTERRUPT));
    let completed = match (&summary.turn_ended, exit) {
        (Some(ended), _) => !ended.failed && summary.model_asked && !interrupted,
        // A process that was ended for its limit has failed, whatever its exit code.
        (None, Some(exit)) => exit.exit_code == Some(0) && exit.limit.is_none(),
        (None, None) => false,
    };
    let status = match (completed, &stopped) {
        (true, _) => ProcessStatus::Completed,
        (false, Some(_)) => ProcessStatus::Killed,
        (false, None) => ProcessStatus::Failed,
    };
    Outcome {
        status,
        exit_code: exit.and_then(|exit| exit.exit_code),
        exit_signal: exit.and_then(|exit| exit.exit_signal),
        failure_summary: (!completed).then(|| failure_summary(ending, stopped.as_ref(), summary)),
        error_type: summary.last_error_type.filter(|_| !completed),
        final_message: summary.answer(),
        usage: summary.usage,
        quota: quota(summary, policy).filter(|_| status == ProcessStatus::Failed),
        at: exit.map_or(now, |exit| exit.at),
    }
}

/// How the process was stopped: as this daemon knows it, else as the shim has recorded it.
fn stopped(ending: &Ending) -> Option<StopFacts> {
    let of_shim = || {
        let forced = ending.exit.as_ref()?.stopped? == StopKind::Forced;
        Some(StopFacts { forced, ..StopFacts::default() })
    };
    ending.stopped.clone().or_else(of_shim)
}

/// The rate limit that the executor reported last, unless the policy ignores limits. It resumes by itself
/// only if the executor said when the limit ends.
fn quota(summary: &TurnSummary, policy: OnQuota) -> Option<Quota> {
    let counts = summary.last_error_type == Some(ErrorType::Quota) && policy != OnQuota::Never;
    let resume_at = summary.resume_at;
    counts.then(|| Quota { resume_at, resumes: policy == OnQuota::Auto && resume_at.is_some() })
}

/// The entry that a process's log ends with.
pub fn process_end(ending: &Ending, outcome: &Outcome) -> Event {
    let exit = ending.exit.as_ref();
    let mut text = ended(outcome.exit_code, outcome.exit_signal);
    if let Some(limit) = exit.and_then(|exit| exit.limit.as_ref()) {
        text = format!("{limit}: {text}");
    }
    if stopped(ending).is_some() {
        text = format!("stopped: {text}");
    }
    Event::ProcessEnd {
        text,
        exit_code: outcome.exit_code,
        exit_signal: outcome.exit_signal,
        status: outcome.status,
    }
}

/// How a process ended, without a reason.
fn ended(exit_code: Option<i32>, exit_signal: Option<i32>) -> String {
    match (exit_code, exit_signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by {}", signal_name(signal)),
        (None, None) => "its exit status is not known".to_owned(),
    }
}

/// One sentence about a turn that has not completed. It begins with the cause, which is the limit, whoever
/// stopped it, or the executor's own last error; then it says how the process ended.
fn failure_summary(ending: &Ending, stopped: Option<&StopFacts>, summary: &TurnSummary) -> String {
    let exit = ending.exit.as_ref();
    let mut text = match exit {
        Some(exit) => match (exit.exit_code, exit.exit_signal, &exit.reason) {
            (None, Some(SIGKILL), _) if stopped.is_none() && exit.limit.is_none() => {
                format!(
                    "killed by {}, not by Provost; the kernel does so when memory runs out",
                    signal_name(SIGKILL)
                )
            }
            (None, None, Some(reason)) => reason.clone(),
            (code, signal, _) => ended(code, signal),
        },
        None => match (&ending.reason, stopped) {
            (Some(reason), _) => reason.clone(),
            (None, Some(_)) => "its process had not been started".to_owned(),
            (None, None) => "it ended without a trace".to_owned(),
        },
    };
    if let Some(limit) = exit.and_then(|exit| exit.limit.as_ref()) {
        text = format!("{limit}: {text}");
    }
    if let Some(stop) = stopped {
        text = format!("{}: {text}", by_whom(stop));
        if let Some(fault) = &summary.retrying {
            text = format!("{text}; it was trying again after a fault: {fault}");
        }
    }
    let ended = summary.turn_ended.as_ref();
    let error = ended.and_then(|ended| ended.error.as_ref()).or(summary.last_error.as_ref());
    if let Some(error) = error {
        let is_limit = exit.is_some_and(|exit| exit.limit.is_some());
        if stopped.is_some() || is_limit {
            format!("{text}; last error: {error}")
        } else if exit.is_some_and(|exit| exit.exit_code == Some(0)) {
            // Exit code 0 explains no failure.
            error.clone()
        } else {
            format!("{error}; {text}")
        }
    } else if stopped.is_some() {
        // A stopped turn has no failure of its own to report.
        text
    } else if ended.is_some_and(|ended| !ended.failed) && !summary.model_asked {
        format!("{text}; {NOT_ASKED}")
    } else if summary.stderr.is_empty() {
        text
    } else {
        let lines: Vec<&str> = summary.stderr.iter().map(String::as_str).collect();
        format!("{text}; its last lines on stderr: {}", lines.join(" | "))
    }
}

/// The beginning of the sentence about a stop, with the signals that were sent.
fn by_whom(stop: &StopFacts) -> String {
    let force = if stop.forced { " (force)" } else { "" };
    let with = if stop.signals.is_empty() { "" } else { " with " };
    format!("stopped by stop_attempt{force}{with}{}", stop.signals.join(", "))
}

/// `SIGKILL (signal 9)`; only the number for a signal without a name here, such as a real-time signal.
fn signal_name(signal: i32) -> String {
    nix::sys::signal::Signal::try_from(signal)
        .map_or_else(|_| format!("signal {signal}"), |name| format!("{name} (signal {signal})"))
}

#[cfg(test)]
mod tests {
    use super::super::lifecycle::StopFacts;
    use super::*;
    use crate::executor::TurnEnded;
    use crate::process::records::ExitRecord;

    fn exit(code: Option<i32>, signal: Option<i32>) -> ExitRecord {
        ExitRecord {
            v: 1,
            exit_code: code,
            exit_signal: signal,
            reason: None,
            limit: None,
            stopped: None,
            at: Timestamp::from_millis(7),
            stdout_bytes: 0,
            stderr_bytes: 0,
        }
    }

    fn ended(exit: impl Into<Option<ExitRecord>>, stopped: Option<StopFacts>) -> Ending {
        Ending { exit: exit.into(), reason: None, stopped }
    }

    fn decide_now(ending: &Ending, summary: &TurnSummary) -> Outcome {
        decide(ending, summary, OnQuota::Auto, Timestamp::from_millis(9))
    }

    #[test]
    fn the_executors_own_word_outranks_its_exit_code_both_ways() {
        let failed = TurnSummary {
            turn_ended: Some(TurnEnded {
                failed: true,
                error: Some("HTTP 400".into()),
                ..TurnEnded::default()
            }),
            ..TurnSummary::default()
        };
        let outcome = decide_now(&ended(exit(Some(0), None), None), &failed);
        assert_eq!(outcome.status, ProcessStatus::Failed);
        assert_eq!(outcome.failure_summary.as_deref(), Some("HTTP 400"));

        let turn_ended = Some(TurnEnded::default());
        let fine = TurnSummary { turn_ended, model_asked: true, ..TurnSummary::default() };
        let outcome = decide_now(&ended(exit(Some(1), None), None), &fine);
        assert_eq!(outcome.status, ProcessStatus::Completed);
        assert_eq!(outcome.failure_summary, None);
    }

    #[test]
    fn a_turn_that_never_asked_its_model_has_failed() {
        let silent =
            TurnSummary { turn_ended: Some(TurnEnded::default()), ..TurnSummary::default() };
        let outcome = decide_now(&ended(exit(Some(0), None), None), &silent);
        assert_eq!(outcome.status, ProcessStatus::Failed);
        let summary = outcome.failure_summary.unwrap();
        assert!(summary.starts_with("exit code 0; the agent ended its turn without"), "{summary}");
        // Of a program that has no word for the end of its turn nothing is expected.
        let outcome = decide_now(&ended(exit(Some(0), None), None), &TurnSummary::default());
        assert_eq!(outcome.status, ProcessStatus::Completed);
    }

    #[test]
    fn a_failure_without_a_reason_is_reported_with_the_last_lines_on_stderr() {
        let died = TurnSummary { stderr: ["no such flag".into()].into(), ..TurnSummary::default() };
        let summary =
            |summary| decide_now(&ended(exit(Some(1), None), None), summary).failure_summary;
        let expected = "exit code 1; its last lines on stderr: no such flag";
        assert_eq!(summary(&died).as_deref(), Some(expected));
        let with_error = TurnSummary { last_error: Some("HTTP 400".into()), ..died.clone() };
        assert_eq!(summary(&with_error).as_deref(), Some("HTTP 400; exit code 1"));
    }

    #[test]
    fn a_failure_always_says_why_and_who() {
        let stop = Some(StopFacts { forced: true, signals: vec!["SIGKILL"] });
        let outcome = decide_now(&ended(exit(None, Some(9)), stop), &TurnSummary::default());
        assert_eq!(outcome.status, ProcessStatus::Killed);
        assert_eq!(
            outcome.failure_summary.as_deref(),
            Some("stopped by stop_attempt (force) with SIGKILL: killed by SIGKILL (signal 9)")
        );
        let outcome = decide_now(&ended(None, None), &TurnSummary::default());
        assert!(outcome.failure_summary.is_some());
        assert_eq!(outcome.at, Timestamp::from_millis(9));
    }

    #[test]
    fn a_kill_is_laid_to_the_kernel_only_if_it_was_not_for_a_limit() {
        let summary = |exit| {
            let outcome = decide_now(&ended(exit, None), &TurnSummary::default());
            outcome.failure_summary.unwrap()
        };
        let killed = exit(None, Some(9));
        assert!(summary(killed.clone()).contains("not by Provost"));
        let limit = Some("it ran for longer than its limit of 1 s (wall_secs)".to_owned());
        let expected =
            "it ran for longer than its limit of 1 s (wall_secs): killed by SIGKILL (signal 9)";
        assert_eq!(summary(ExitRecord { limit, ..killed }), expected);
    }

    #[test]
    fn a_process_that_ends_well_in_spite_of_a_stop_has_completed() {
        let stop = Some(StopFacts { forced: false, signals: vec!["SIGINT"] });
        let outcome = decide_now(&ended(exit(Some(0), None), stop), &TurnSummary::default());
        assert_eq!(outcome.status, ProcessStatus::Completed);
        assert_eq!(outcome.failure_summary, None, "it has not failed");
    }

    #[test]
    fn an_answer_to_an_interrupt_is_no_end_of_the_executors_own() {
        let turn_ended = Some(TurnEnded::default());
        let ended_well = TurnSummary { turn_ended, model_asked: true, ..TurnSummary::default() };
        let decide = |signals: &[&'static str]| {
            let stop = Some(StopFacts { forced: false, signals: signals.to_vec() });
            decide_now(&ended(exit(Some(0), None), stop), &ended_well)
        };
        let interrupted = decide(&["interrupt"]);
        assert_eq!(interrupted.status, ProcessStatus::Killed);
        let summary = interrupted.failure_summary.as_deref();
        assert_eq!(summary, Some("stopped by stop_attempt with interrupt: exit code 0"));
        // It had told of its end before it was stopped: there was nothing to interrupt.
        assert_eq!(decide(&["SIGINT"]).status, ProcessStatus::Completed);
    }

    #[test]
    fn a_stop_that_only_the_shim_remembers_is_reported_too() {
        let exit = ExitRecord { stopped: Some(StopKind::Forced), ..exit(None, Some(9)) };
        let ending = ended(exit, None);
        let outcome = decide_now(&ending, &TurnSummary::default());
        assert_eq!(outcome.status, ProcessStatus::Killed);
        let summary = outcome.failure_summary.as_deref();
        assert_eq!(summary, Some("stopped by stop_attempt (force): killed by SIGKILL (signal 9)"));
        let Event::ProcessEnd { text, .. } = process_end(&ending, &outcome) else { panic!() };
        assert_eq!(text, "stopped: killed by SIGKILL (signal 9)");
    }

    #[test]
    fn a_stop_names_the_fault_after_which_the_executor_tried_again() {
        let summary =
            TurnSummary { retrying: Some("429 rate limited".into()), ..TurnSummary::default() };
        let stop = Some(StopFacts { forced: false, signals: vec!["SIGINT"] });
        let outcome = decide_now(&ended(exit(None, Some(2)), stop), &summary);
        let failure = outcome.failure_summary.unwrap();
        assert!(failure.ends_with("trying again after a fault: 429 rate limited"), "{failure}");
        let outcome = decide_now(&ended(exit(Some(1), None), None), &summary);
        assert_eq!(outcome.failure_summary.as_deref(), Some("exit code 1"));
    }

    #[test]
    fn a_turn_that_a_limit_ended_waits_for_it_unless_on_quota_is_never() {
        let limited = TurnSummary {
            last_error_type: Some(ErrorType::Quota),
            resume_at: Some(Timestamp::from_millis(50)),
            ..TurnSummary::default()
        };
        let ended = ended(exit(Some(1), None), None);
        let resume_at = limited.resume_at;
        let decide = |summary, policy| decide(&ended, summary, policy, Timestamp::from_millis(9));
        let quota = |resumes| Some(Quota { resume_at, resumes });
        assert_eq!(decide(&limited, OnQuota::Auto).quota, quota(true));
        assert_eq!(decide(&limited, OnQuota::Ask).quota, quota(false));
        assert_eq!(decide(&limited, OnQuota::Never).quota, None);
        // Nobody knows when: somebody has to.
        let unreported = TurnSummary { resume_at: None, ..limited.clone() };
        let unreported = decide(&unreported, OnQuota::Auto).quota;
        assert_eq!(unreported, Some(Quota { resume_at: None, resumes: false }));
        assert_eq!(decide(&TurnSummary::default(), OnQuota::Auto).quota, None);
    }

    #[test]
    fn a_turn_that_went_on_by_itself_is_not_followed_by_another_at_once() {
        let at = Timestamp::from_millis;
        let resumes_at = |resume_at| Some(Quota { resume_at, resumes: true });
        let ended = ended(exit(Some(1), None), None);
        let mut outcome = decide_now(&ended, &TurnSummary::default());
        for (soon, then) in [(Some(at(50)), Some(at(60_007))), (Some(at(90_000)), Some(at(90_000)))]
        {
            outcome.quota = resumes_at(soon);
            pause(&mut outcome);
            assert_eq!(outcome.quota, resumes_at(then));
        }
    }
}
