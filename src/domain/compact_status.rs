//! Fits many statuses into an answer of bounded size: whole while they fit, else each in its short form.
//! Pure.

use serde::Serialize;

use crate::api::attempts::{AttemptStatus, AttemptStatuses, ShortStatus, StatusView};

/// Statuses in an answer of at most `max_bytes`. If they do not fit, each has its short form of about 300
/// bytes, and the rest is shared by the failure summaries. The answer is longer than `max_bytes` if the
/// short forms alone are.
pub fn fitting(statuses: &[AttemptStatus], max_bytes: usize) -> AttemptStatuses {
    let answer = |attempts, truncated| AttemptStatuses { attempts, truncated };
    let whole = statuses.iter().cloned().map(|status| StatusView::Whole(Box::new(status)));
    let whole = answer(whole.collect(), false);
    if size(&whole) <= max_bytes {
        return whole;
    }
    let failures = statuses.iter().filter(|status| status.failure_summary.is_some()).count();
    let shorts = |most: usize| {
        let shorts = statuses.iter().map(|status| StatusView::Short(short(status, most)));
        answer(shorts.collect(), true)
    };
    let room = max_bytes.saturating_sub(size(&shorts(0)));
    shorts(room / failures.max(1))
}

/// The short form, with at most `failure_max` bytes of the failure summary.
fn short(status: &AttemptStatus, failure_max: usize) -> ShortStatus {
    let failure = status.failure_summary.as_deref();
    ShortStatus {
        attempt_id: status.attempt_id,
        handle: status.handle.clone(),
        state: status.state,
        phase: status.phase,
        waiting_on: status.waiting_on,
        exit_code: status.exit_code,
        exit_signal: status.exit_signal,
        failure_summary: failure.map(|text| beginning(text, failure_max)),
        queued_follow_ups: status.queued_follow_ups,
        latest_entry_index: status.latest_entry_index.clone(),
    }
}

/// The longest beginning of a text that takes at most `most` bytes as JSON, without the quotes.
fn beginning(text: &str, most: usize) -> String {
    let mut left = most;
    let fits = |letter: &char| {
        let bytes = size(letter) - 2;
        let fits = bytes <= left;
        left -= bytes.min(left);
        fits
    };
    text.chars().take_while(fits).collect()
}

fn size(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |json| json.len())
}

#[cfg(test)]
mod tests {
    use provost_actors::ids::{AttemptId, TaskId};
    use serde_json::json;

    use super::*;

    /// A process ends by a code or by a signal, not by both.
    fn worst(text: &str) -> AttemptStatus {
        let at = "2026-01-31T12:00:00.000Z";
        let status = json!({
            "attempt_id": AttemptId::new(), "task_id": TaskId::new(), "handle": "TASK-VERIFY-100000",
            "workspace_branch": text, "state": "completed", "phase": "preparing", "worktree": text,
            "waiting_on": "a running slot", "resume_at": at, "executor": text, "variant": text,
            "host": text,
            "created_at": at, "updated_at": at, "last_activity_at": at, "latest_session_id": null,
            "latest_execution_process_id": null, "exit_code": i32::MIN, "exit_signal": null,
            "failure_summary": text, "queued_follow_ups": u32::MAX, "queue_held": true,
            "usage": null, "limits": [], "conflicts_with": [], "final_message": text, "next_action": text,
            "latest_entry_index": {"normalized": u64::MAX, "raw": u64::MAX},
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn fifty_attempts_fit_whatever_their_texts_are() {
        for text in ["x".repeat(2000), "\u{1}\u{1f600}\"".repeat(700), "ß".repeat(2000)] {
            let answer = fitting(&vec![worst(&text); 50], 16 * 1024);
            let size = size(&answer);
            assert!(answer.truncated && size < 16 * 1024, "{size} bytes");
            assert_eq!(answer.attempts.len(), 50);
        }
    }

    #[test]
    fn few_are_shown_whole_and_a_larger_answer_holds_more() {
        let answer = fitting(&vec![worst("short"); 3], 16 * 1024);
        assert!(!answer.truncated && matches!(answer.attempts[0], StatusView::Whole(_)));
        let many = vec![worst(&"x".repeat(500)); 50];
        assert!(!fitting(&many, 1 << 20).truncated);
        let StatusView::Short(short) = &fitting(&many, 20_000).attempts[0] else { panic!() };
        assert!(short.failure_summary.as_ref().is_some_and(|text| text.len() > 20));
    }
}
