//! Codex's errors, sorted: whose fault they are, and when a limit ends.

use chrono::TimeDelta;
use provost_actors::event::{ErrorType, Timestamp};
use serde_json::Value;

/// Sorts an error by its kind (the protocol's `codexErrorInfo`) or, where there
/// is none that tells, by its words.
pub fn sort(info: &Value, message: &str) -> ErrorType {
    let (kind, status) = match info {
        Value::String(kind) => (kind.as_str(), None),
        Value::Object(variant) => match variant.iter().next() {
            Some((kind, detail)) => (kind.as_str(), detail["httpStatusCode"].as_u64()),
            None => ("", None),
        },
        _ => ("", None),
    };
    match kind {
        "unauthorized" => ErrorType::Auth,
        "usageLimitExceeded" | "rateLimitExceeded" | "sessionBudgetExceeded" => ErrorType::Quota,
        "serverOverloaded"
        | "internalServerError"
        | "flexUnavailable"
        | "policyCapacityUnavailable" => ErrorType::Overloaded,
        "modelNotFound" => ErrorType::Setup,
        _ => match status.or_else(|| status_in(message)) {
            Some(status) => of_status(status),
            None => of_words(message),
        },
    }
}

fn of_status(status: u64) -> ErrorType {
    match status {
        401 | 403 => ErrorType::Auth,
        402 | 429 => ErrorType::Quota,
        404 => ErrorType::Setup,
        500..=599 => ErrorType::Overloaded,
        _ => ErrorType::Other,
    }
}

/// The HTTP status that a message such as "unexpected status 401 Unauthorized" tells.
fn status_in(message: &str) -> Option<u64> {
    let after = message.split("status").nth(1)?;
    let digits = after.trim_start_matches([':', ' ']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok().filter(|status| (100..600).contains(status))
}

fn of_words(message: &str) -> ErrorType {
    let message = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["usage limit", "rate limit", "quota", "out of credits"]) {
        ErrorType::Quota
    } else if has(&[
        "unauthorized",
        "api key",
        "log in",
        "login",
        "sign in",
        "missing environment variable",
    ]) {
        ErrorType::Auth
    } else if has(&["at capacity", "overloaded", "high demand"]) {
        ErrorType::Overloaded
    } else if has(&["config", "model_provider", "model not found", "does not exist"]) {
        ErrorType::Setup
    } else {
        ErrorType::Other
    }
}

/// What an error says: some are the model server's whole answer, in JSON.
pub fn sentence(message: &str) -> String {
    let answer: Option<Value> = serde_json::from_str(message).ok();
    let said = answer.as_ref().and_then(|answer| answer["error"]["message"].as_str());
    said.unwrap_or(message).to_owned()
}

/// When a limit ends of which the message says "try again in 1 hour 5 minutes".
pub fn resume_at(message: &str, at: Timestamp) -> Option<Timestamp> {
    let (_, wait) = message.split_once("try again in ")?;
    let mut rest = wait;
    let mut millis = 0.0;
    loop {
        let (count, unit) =
            split(rest.trim_start_matches([' ', ',']), |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(unit.trim_start(), |c| c.is_ascii_alphabetic());
        let (Ok(count), Some(unit)) = (count.parse::<f64>(), unit_millis(unit)) else { break };
        millis += count * unit;
        rest = after;
    }
    #[expect(clippy::cast_possible_truncation, reason = "`as` saturates, and so does the sum")]
    let wait = TimeDelta::try_milliseconds(millis.ceil() as i64)?.num_milliseconds();
    (wait > 0).then(|| Timestamp::from_millis(at.millis().saturating_add(wait)))
}

/// The longest beginning of such characters, and the rest.
fn split(text: &str, is_such: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_such(c)).unwrap_or(text.len()))
}

/// How long a unit is, in milliseconds.
fn unit_millis(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" => 1.0,
        "s" | "second" | "seconds" => 1e3,
        "m" | "minute" | "minutes" => 6e4,
        "h" | "hour" | "hours" => 3.6e6,
        "d" | "day" | "days" => 8.64e7,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_sorted_by_their_kind_then_status_then_words() {
        for (info, message, expected) in [
            (json!("serverOverloaded"), "at capacity", ErrorType::Overloaded),
            (json!("usageLimitExceeded"), "", ErrorType::Quota),
            (json!({"httpConnectionFailed": {"httpStatusCode": 401}}), "", ErrorType::Auth),
            (
                json!({"responseStreamDisconnected": {"httpStatusCode": null}}),
                "last status: 429 Too Many Requests",
                ErrorType::Quota,
            ),
            (json!(null), "unexpected status 503 Service Unavailable", ErrorType::Overloaded),
            (json!(null), "You've hit your usage limit.", ErrorType::Quota),
            (json!("other"), "Missing environment variable: `OPENAI_API_KEY`.", ErrorType::Auth),
            (json!("modelNotFound"), "", ErrorType::Setup),
            (json!({}), "something broke", ErrorType::Other),
        ] {
            assert_eq!(sort(&info, message), expected, "{info} {message}");
        }
    }

    #[test]
    fn a_model_servers_answer_is_told_as_what_it_says() {
        assert_eq!(
            sentence(r#"{"error": {"message": "bad request", "code": null}}"#),
            "bad request"
        );
        assert_eq!(sentence("it broke"), "it broke");
        assert_eq!(sentence("[1]"), "[1]");
    }

    #[test]
    fn the_end_of_a_limit_is_read_where_it_is_told() {
        let at = Timestamp::from_millis(1_000);
        for (message, millis) in [
            ("Upgrade to Pro or try again in 3 days 1 hour 5 minutes.", Some(263_100_000)),
            ("Rate limit reached. Please try again in 11.054s. Visit", Some(11_054)),
            ("try again in 20ms", Some(20)),
            ("try again in 1m30s", Some(90_000)),
            ("try again at 5:43 PM.", None),
            ("try again in a while", None),
            ("try again in 1e999 days", None),
        ] {
            let expected = millis.map(|millis| Timestamp::from_millis(1_000 + millis));
            assert_eq!(resume_at(message, at), expected, "{message}");
        }
    }
}
