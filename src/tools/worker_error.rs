//! The errors of the worker API: one error schema for all its tools, and the numbers of its bare methods.
//! Every code of a refusal has a line here. Pure.

use provost_actors::event::Timestamp;
use provost_actors::refusal::{Code, Refusal};
use rmcp::model::ErrorCode;
use serde_json::{Value, json};

/// Members of a refusal's details that go beside the error and not into it.
const BESIDE: [&str; 2] = ["cascaded", "timeout"];
/// The fields that name the task of a call; the tools have different ones.
const TASK_FIELDS: [&str; 6] =
    ["taskId", "task_id", "currentTaskId", "verificationTaskId", "originalTaskId", "relatedToTask"];

/// What an error says in addition to its message.
struct ErrorKind {
    code: &'static str,
    /// The number of the JSON-RPC error, for a worker tool that is called as a method: one of JSON-RPC's
    /// own, or one with the meaning of an HTTP status.
    number: i32,
    severity: &'static str,
    priority_impact: &'static str,
    log_level: &'static str,
    /// In seconds; used if the refusal names no time itself.
    retry_after: Option<u64>,
    /// True if another way, such as a ticket, is better than another try.
    fallback: bool,
}

/// The row of a code. Its numbers and words are part of the worker API: clients depend on them.
#[rustfmt::skip]
fn kind(refusal: Code) -> ErrorKind {
    let (code, number, severity, priority_impact, log_level, retry_after, fallback) = match refusal {
        Code::MissingRequired | Code::UnknownField =>
            ("INVALID_PARAM", ErrorCode::INVALID_PARAMS.0, "LOW", "NONE", "INFO", None, false),
        Code::InvalidArgument | Code::AmbiguousTarget | Code::MixedPagination
        | Code::DependencyCycle =>
            ("INVALID_PARAM", 400, "LOW", "NONE", "INFO", None, false),
        Code::ProjectNotFound | Code::RepoNotFound | Code::TaskNotFound | Code::AttemptNotFound
        | Code::SessionNotFound | Code::TurnNotFound | Code::TicketNotFound | Code::QuestionNotFound
        | Code::FileNotFound | Code::ExecutorNotFound | Code::VariantNotFound
        | Code::ExecutorUnavailable | Code::BranchNotFound =>
            ("RESOURCE_NOT_FOUND", 404, "MEDIUM", "P2_DELAYED", "WARN", None, false),
        Code::InvalidState | Code::NoSessionYet | Code::TurnActive | Code::AttemptRunning
        | Code::CheckoutInTheWay | Code::SandboxUnavailable | Code::Elsewhere =>
            ("INVALID_STATE", 409, "MEDIUM", "P2_DELAYED", "WARN", None, false),
        Code::IdempotencyConflict =>
            ("IDEMPOTENCY_CONFLICT", 409, "MEDIUM", "P2_DELAYED", "WARN", None, false),
        Code::NotPermitted => ("NOT_PERMITTED", 403, "MEDIUM", "P2_DELAYED", "WARN", None, false),
        Code::RateLimited => ("RATE_LIMIT", 429, "MEDIUM", "P2_DELAYED", "WARN", Some(1), false),
        Code::TokenLimitExceeded =>
            ("TOKEN_LIMIT_EXCEEDED", 400, "HIGH", "P2_DELAYED", "WARN", None, true),
        Code::Timeout => ("TIMEOUT", 503, "HIGH", "P1_BLOCKED", "WARN", Some(10), true),
        Code::DbLocked => ("DB_LOCKED", 503, "MEDIUM", "P2_DELAYED", "WARN", Some(2), false),
        Code::DbUnavailable | Code::StorageFull =>
            ("RESOURCE_NOT_FOUND", 503, "CRITICAL", "P1_BLOCKED", "ERROR", Some(10), true),
        Code::DaemonUnavailable | Code::DaemonRestarting | Code::ShuttingDown =>
            ("SERVICE_UNAVAILABLE", 503, "MEDIUM", "P2_DELAYED", "WARN", Some(2), false),
        // The agent has left its worktree, or the repository, in a state that can't be read.
        Code::WorkspaceFailed => ("WORKSPACE_FAILED", 409, "HIGH", "P1_BLOCKED", "WARN", None, false),
        Code::SpawnFailed | Code::Internal =>
            ("INTERNAL_ERROR", 500, "CRITICAL", "P1_BLOCKED", "ERROR", None, false),
    };
    ErrorKind { code, number, severity, priority_impact, log_level, retry_after, fallback }
}

/// The error as the result of a tool. `agent` is the caller, `arguments` are those of the call.
pub fn envelope(refusal: &Refusal, agent: &str, arguments: &Value) -> Value {
    let kind = kind(refusal.code);
    // The refusal's facts in this API's words: the field at fault, and why.
    let mut details = refusal.details.clone();
    if let Some(path) = details.remove("path") {
        details.insert("field".to_owned(), path);
        let reason = match refusal.code {
            Code::MissingRequired => "required",
            Code::UnknownField => "unknown",
            _ => "invalid",
        };
        details.entry("reason").or_insert_with(|| json!(reason));
    }
    let beside: Vec<_> =
        BESIDE.iter().filter_map(|name| Some((*name, details.remove(*name)?))).collect();
    let given = details.remove("retry_after_seconds");
    let retryable = match details.remove("retryable") {
        Some(said) => said == true,
        None => refusal.code.retryable(),
    };
    let retry_after = given.or(kind.retry_after.map(Value::from)).filter(|_| retryable);
    let mut envelope = json!({
        "success": false,
        "error": {
            "code": kind.code,
            "message": refusal.message,
            "details": details,
            "severity": kind.severity,
            "retryable": retryable,
            "retry_after_seconds": retry_after,
            "fallback_suggested": kind.fallback,
            "priority_impact": kind.priority_impact,
            "log_level": kind.log_level,
            "hint": refusal.hint,
        },
        "fallback_suggested": kind.fallback,
        "context": {
            "task_id": TASK_FIELDS.iter().find_map(|field| arguments.get(field)?.as_str()),
            "agent_name": agent,
            "timestamp": Timestamp::now(),
        },
    });
    for (name, value) in beside {
        envelope[name] = value;
    }
    envelope
}

/// The number and the data of the JSON-RPC error for a worker tool that was called as a method. The data
/// is the whole error of [`envelope`], with the hint also as `suggestion`.
pub fn numbered(refusal: &Refusal, agent: &str, arguments: &Value) -> (i32, Value) {
    let mut data = envelope(refusal, agent, arguments);
    let task = data["context"]["task_id"].clone();
    if kind(refusal.code).number == 404 && !task.is_null() {
        data["taskId"] = task;
    }
    data["suggestion"] = json!(refusal.hint);
    (kind(refusal.code).number, data)
}

/// The part of every worker tool's output schema that describes an error.
pub fn schema() -> Value {
    let text = |means: &str| json!({"type": "string", "description": means});
    json!({
        "success": {"type": "boolean", "description": "Whether it succeeded."},
        "error": {
            "type": "object",
            "description": "On failure: the error.",
            "properties": {
                "code": text("A stable code such as INVALID_PARAM."),
                "message": text("What failed, in a sentence."),
                "details": {"type": "object", "description": "Facts such as field and reason."},
                "severity": text("LOW, MEDIUM, HIGH or CRITICAL."),
                "retryable": {"type": "boolean", "description": "Whether it may work later."},
                "retry_after_seconds": {
                    "type": ["integer", "null"],
                    "description": "When to try again, in seconds.",
                },
                "fallback_suggested": {
                    "type": "boolean",
                    "description": "Whether to go another way, such as createTicket.",
                },
                "priority_impact": text("NONE, P3_IGNORABLE, P2_DELAYED or P1_BLOCKED."),
                "log_level": text("DEBUG, INFO, WARN or ERROR."),
                "hint": text("The next call that helps."),
            },
        },
        "context": {"type": "object", "description": "On failure: task, agent and time."},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(refusal: &Refusal) -> Value {
        envelope(refusal, "an-agent", &json!({"taskId": "TASK-001"}))
    }

    #[test]
    fn a_missing_field_is_named_with_its_reason() {
        let refusal = Refusal::new(Code::MissingRequired, "no title").detail("path", "title");
        let answer = of(&refusal);
        assert_eq!(answer["success"], false);
        assert_eq!(answer["error"]["code"], "INVALID_PARAM");
        assert_eq!(answer["error"]["details"], json!({"field": "title", "reason": "required"}));
        assert_eq!(answer["error"]["retryable"], false);
        assert_eq!(answer["context"]["task_id"], "TASK-001");
        assert_eq!(answer["context"]["agent_name"], "an-agent");
    }

    #[test]
    fn what_may_pass_tells_when_to_try_again() {
        let locked = of(&Refusal::new(Code::DbLocked, "locked"));
        assert_eq!(locked["error"]["retry_after_seconds"], 2);
        let limited = Refusal::new(Code::RateLimited, "slow").detail("retry_after_seconds", 7);
        assert_eq!(of(&limited)["error"]["retry_after_seconds"], 7);
        let gone = of(&Refusal::new(Code::TaskNotFound, "gone"));
        assert_eq!(gone["error"]["retry_after_seconds"], Value::Null);
    }

    #[test]
    fn a_request_id_used_for_another_payload_is_a_conflict_by_name() {
        let answer =
            of(&Refusal::new(Code::IdempotencyConflict, "used").detail("path", "request_id"));
        assert_eq!(answer["error"]["code"], "IDEMPOTENCY_CONFLICT");
        assert_eq!(answer["error"]["details"]["field"], "request_id");
    }

    #[test]
    fn a_bare_method_adds_the_number_the_task_and_a_suggestion() {
        let gone = Refusal::new(Code::TaskNotFound, "gone").hint("Call getNextTask instead.");
        let (number, data) = numbered(&gone, "an-agent", &json!({"taskId": "TASK-999"}));
        assert_eq!(number, 404);
        assert_eq!(data["taskId"], "TASK-999");
        assert_eq!(data["suggestion"], "Call getNextTask instead.");
    }

    #[test]
    fn facts_beside_the_error_are_lifted_out_of_it() {
        let zeros = json!({"ticketsResolved": 0, "tasksUnblocked": 0});
        let answer = of(&Refusal::internal("no").detail("cascaded", zeros.clone()));
        assert_eq!(answer["cascaded"], zeros);
        assert_eq!(answer["error"]["code"], "INTERNAL_ERROR");
        assert!(answer["error"]["details"].as_object().unwrap().is_empty());
    }
}
