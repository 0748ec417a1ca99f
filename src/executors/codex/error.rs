//! Codex's errors: their message and kind. Each is reported once, also where Codex sends it both as a
//! notification and with the end of the turn.

use crate::executors::prelude::*;

/// The errors of a turn.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Errors {
    /// The message of the last reported error.
    pub reported: Option<String>,
    /// When the limits end that are reached, if Codex said so in `account/rateLimits/updated`.
    pub limited_until: Option<Timestamp>,
}

impl Errors {
    /// Reports an error, unless the last report was the same. Returns its kind, and when the limit ends that
    /// caused it. `info` is the protocol's `codexErrorInfo`.
    pub fn report(
        &mut self,
        message: &str,
        info: &Value,
        at: Timestamp,
        out: &mut Out,
    ) -> (ErrorType, Option<Timestamp>) {
        let error_type = type_of(info, message);
        let limit = self.limited_until.or_else(|| vocabulary::resume_at(message, at));
        let resume_at = limit.filter(|_| error_type == ErrorType::Quota);
        if self.reported.as_deref() != Some(message) {
            let text = inner_message(message);
            out.push(Observed::Entry(Event::ErrorMessage { text, error_type, resume_at }));
            self.reported = Some(message.to_owned());
        }
        (error_type, resume_at)
    }

    /// Ends the turn with an error, which is reported unless it was already.
    pub fn fail(&mut self, message: &str, info: &Value, at: Timestamp, out: &mut Out) {
        let (error_type, resume_at) = self.report(message, info, at, out);
        out.push(Observed::TurnEnded(TurnEnded {
            failed: true,
            error: Some(inner_message(message)),
            error_type: Some(error_type),
            resume_at,
        }));
    }
}

/// The type of an error: by its `codexErrorInfo`, else by the HTTP status in that, else by its words.
fn type_of(info: &Value, message: &str) -> ErrorType {
    let variant = info.as_object().and_then(|variants| variants.iter().next());
    let status = variant.and_then(|(_, detail)| detail["httpStatusCode"].as_u64());
    match info.as_str().or(variant.map(|(kind, _)| kind.as_str())).unwrap_or_default() {
        "unauthorized" => ErrorType::Auth,
        "usageLimitExceeded" | "rateLimitExceeded" | "sessionBudgetExceeded" => ErrorType::Quota,
        "serverOverloaded"
        | "internalServerError"
        | "flexUnavailable"
        | "policyCapacityUnavailable" => ErrorType::Overloaded,
        "modelNotFound" => ErrorType::Setup,
        _ => vocabulary::error_type(status.and_then(|status| u16::try_from(status).ok()), message),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_sorted_by_their_kind_then_status_then_words() {
        let connection =
            |status: Value| json!({"httpConnectionFailed": {"httpStatusCode": status}});
        for (info, message, expected) in [
            (json!("serverOverloaded"), "it can't", ErrorType::Overloaded),
            (json!("usageLimitExceeded"), "", ErrorType::Quota),
            (connection(json!(401)), "", ErrorType::Auth),
            (connection(Value::Null), "last status: 429 Too Many Requests", ErrorType::Quota),
            (Value::Null, "unexpected status 503 Service Unavailable", ErrorType::Overloaded),
            (Value::Null, "You've hit your usage limit.", ErrorType::Quota),
            (json!("other"), "Missing environment variable: `OPENAI_API_KEY`.", ErrorType::Auth),
            (Value::Null, "Selected model is at capacity.", ErrorType::Overloaded),
            (json!("modelNotFound"), "", ErrorType::Setup),
            (json!("other"), "stream disconnected before completion", ErrorType::Other),
            (json!({}), "something broke", ErrorType::Other),
        ] {
            assert_eq!(type_of(&info, message), expected, "{info} {message}");
        }
    }

    #[test]
    fn a_model_servers_answer_is_classified_by_its_text() {
        let answer = r#"{"error": {"message": "bad request", "code": null}}"#;
        assert_eq!(inner_message(answer), "bad request");
        assert_eq!(inner_message("it broke"), "it broke");
        assert_eq!(inner_message("[1]"), "[1]");
    }
}
