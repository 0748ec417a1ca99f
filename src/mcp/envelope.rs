//! Makes all tool results, of success and of failure, so that they have one shape for clients. Pure.
//!
//! Every result is written twice, as `structuredContent` and as the same compact JSON in one text: some
//! clients show their model the one, some the other.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Map, Value, json};

use crate::api::Idempotent;

/// `_meta` key: this is the answer of an earlier call with the same key.
const DEDUPLICATED: &str = "provost/deduplicated";

/// The result of a call that was answered.
pub fn success(answer: Idempotent<Value>) -> CallToolResult {
    let meta = answer
        .deduplicated
        .then(|| MetaObject(Map::from_iter([(DEDUPLICATED.to_owned(), json!(true))])));
    // serde_json writes the text directly: rmcp would go through `fmt`, which takes several times as
    // long.
    let mut result = CallToolResult::success(vec![ContentBlock::text(compact(&answer.value))]);
    result.structured_content = Some(answer.value);
    result.with_meta(meta)
}

fn compact(value: &Value) -> String {
    // This can't fail: all keys of a value are strings.
    serde_json::to_string(value).unwrap_or_default()
}

/// The result of a call that was refused.
pub fn failure(envelope: Value) -> CallToolResult {
    CallToolResult::structured_error(envelope)
}

#[cfg(test)]
mod tests {
    use provost_actors::refusal::{Code, Refusal};

    use super::*;

    #[test]
    fn a_refusal_is_the_same_json_twice_in_a_fixed_order() {
        let refusal = Refusal::new(Code::TurnActive, "a turn runs").detail("attempt_id", "x");
        let result = failure(refusal.envelope());
        assert_eq!(result.is_error, Some(true));
        let text = &result.content[0].as_text().unwrap().text;
        assert_eq!(*text, result.structured_content.unwrap().to_string());
        assert!(
            text.starts_with(r#"{"error":"A turn runs.","code":"turn_active","message":"A turn"#)
        );
        assert!(text.ends_with(r#""details":{"attempt_id":"x"}}"#));
    }

    #[test]
    fn every_code_says_whether_to_retry_and_what_to_do() {
        for code in Code::ALL {
            let envelope = Refusal::new(*code, "no").envelope();
            assert_eq!(envelope["code"], code.as_str());
            assert_eq!(envelope["retryable"], code.retryable());
            assert!(envelope["hint"].as_str().is_some_and(|hint| hint.ends_with('.')), "{code:?}");
            assert!(envelope.get("details").is_none());
        }
    }

    #[test]
    fn only_a_deduplicated_answer_says_so() {
        let of = |deduplicated| success(Idempotent { value: json!({}), deduplicated }).meta;
        assert!(of(false).is_none());
        assert_eq!(of(true).unwrap().0["provost/deduplicated"], true);
    }
}
