//! The entries made of recorded streams of Claude Code.

use provost_actors::event::{ErrorType, Stream, Timestamp};
use provost_actors::executor::{Normalizer, Observed, TurnEnded};
use serde_json::{Value, json};

use super::normalize::normalizer;
use crate::config::Protocol;
use crate::executors::tests::launches;
use crate::executors::tests::transcripts::{
    assert_paired, hold_laws, observe, raw, read, scenarios, shown,
};

fn reader(scenario: &str) -> Box<dyn Normalizer> {
    let dialogue = json!({ "prompt": "Please do the mock task." });
    normalizer(if scenario.starts_with("live-") { &dialogue } else { &Value::Null })
}

#[test]
fn transcripts_are_read() {
    for scenario in scenarios("claude") {
        let observed = observe(reader(&scenario), &read("claude", &scenario));
        assert_paired(&observed);
        insta::assert_json_snapshot!(format!("claude_{scenario}"), shown(&observed));
    }
    hold_laws("claude", || reader("live-"));
}

fn observe_lines(lines: &[Value]) -> Vec<Observed> {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let entries = raw(Stream::Stdout, lines.join("\n").as_bytes());
    observe(normalizer(&Value::Null), &entries)
}

fn ended(observed: &[Observed]) -> TurnEnded {
    let ended = observed.iter().find_map(|one| match one {
        Observed::TurnEnded(ended) => Some(ended.clone()),
        _ => None,
    });
    ended.expect("a turn that ended")
}

#[test]
fn a_refused_request_tells_when_the_limit_ends() {
    let info =
        json!({ "status": "rejected", "resetsAt": 1_900_000_000, "rateLimitType": "five_hour" });
    let synthetic = json!({
        "type": "assistant", "error": "rate_limit",
        "message": { "model": "<synthetic>", "content": [{ "type": "text", "text": "You've hit your session limit" }] }
    });
    let result = json!({
        "type": "result", "subtype": "success", "is_error": true, "api_error_status": 429,
        "result": "You've hit your session limit"
    });
    let lines = [json!({ "type": "rate_limit_event", "rate_limit_info": info }), synthetic, result];
    let observed = observe_lines(&lines);
    let ended = ended(&observed);
    assert_eq!(ended.error_type, Some(ErrorType::Quota));
    assert_eq!(ended.resume_at, Some(Timestamp::from_millis(1_900_000_000_000)));
    let errors = shown(&observed).iter().filter(|one| one["kind"] == "error_message").count();
    assert_eq!(errors, 1, "it is shown once");
    assert_eq!(shown(&observe_lines(&lines[..2]))[1]["kind"], "error_message", "also when cut");
}

#[test]
fn requests_that_are_not_known_are_answered() {
    let hook = json!({ "type": "control_request", "request_id": "h1", "request": { "subtype": "hook_callback" } });
    let observed = observe_lines(&[hook]);
    let shown = shown(&observed);
    assert_eq!(shown[1]["say"], "answer:h1");
    assert_eq!(shown[1]["line"]["response"]["subtype"], "error");
}

#[test]
fn a_fault_after_which_it_tries_again_gives_an_entry() {
    let retry = json!({"type": "system", "subtype": "api_retry", "attempt": 6, "max_retries": 10,
        "retry_delay_ms": 9000, "error_status": 429, "error": "rate_limit"});
    let observed = observe_lines(&[retry]);
    let shown = |one: &Observed| matches!(one, Observed::Retrying(fault) if fault.contains("429"));
    assert!(observed.iter().any(shown), "{observed:?}");
}

#[test]
fn a_cancelled_request_is_withdrawn() {
    let cancel = json!({ "type": "control_cancel_request", "request_id": "p1" });
    let observed = observe_lines(&[cancel]);
    assert!(observed.contains(&Observed::Withdraw { key: "p1".to_owned() }));
}

#[test]
fn what_a_subagent_says_is_not_the_assistants_word() {
    let content = json!([{ "type": "text", "text": "found it" }, { "type": "tool_use", "id": "t2", "name": "Read", "input": {} }]);
    let line = json!({ "type": "assistant", "parent_tool_use_id": "t1", "message": { "content": content } });
    let kinds: Vec<Value> =
        shown(&observe_lines(&[line])).iter().map(|one| one["kind"].clone()).collect();
    assert_eq!(kinds[..2], ["system_message", "tool_use"]);
}

#[test]
fn a_stream_that_is_cut_leaves_what_came() {
    let event = |event: Value| json!({ "type": "stream_event", "event": event });
    let delta = |text: &str| {
        event(
            json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": text } }),
        )
    };
    let observed =
        observe_lines(&[event(json!({ "type": "message_start" })), delta("Hel"), delta("lo")]);
    let shown = shown(&observed);
    assert_eq!(shown[0], json!({ "kind": "assistant_message", "text": "Hello" }));
    assert!(ended(&observed).failed, "it never came to its end");
}

#[test]
fn a_turn_that_it_begins_by_itself_does_not_change_how_ours_ended() {
    let init = json!({ "type": "system", "subtype": "init", "session_id": "s" });
    let lines = [
        init.clone(),
        json!({ "type": "result", "subtype": "success", "is_error": false, "result": "done" }),
        init,
    ];
    let text = lines.each_ref().map(Value::to_string).join("\n");
    let entries = raw(Stream::Stdout, text.as_bytes());
    let observed = observe(reader("live-"), &entries);
    let ends = observed.iter().filter(|one| matches!(one, Observed::TurnEnded(_))).count();
    assert_eq!((ends, ended(&observed).failed), (1, false));
}

#[test]
fn an_aborted_turn_is_no_success_whatever_else_is_said_of_it() {
    let result = json!({
        "type": "result", "subtype": "success", "is_error": false,
        "terminal_reason": "aborted_streaming"
    });
    assert!(ended(&observe_lines(&[result])).failed);
}

#[test]
fn a_turn_is_launched_and_a_later_one_resumes_it() {
    let options = [("model", "m"), ("permission_mode", "default"), ("approvals", "yes")];
    insta::assert_json_snapshot!(launches(Protocol::Claude, &options));
}

#[test]
fn only_our_own_tools_need_no_permission() {
    let asks = |tool: &str| {
        let request = json!({ "subtype": "can_use_tool", "tool_name": tool, "input": { "a": 1 } });
        let line = json!({ "type": "control_request", "request_id": "p1", "request": request });
        let dialogue = json!({ "prompt": "do it", "own_server": "provost" });
        let entries = raw(Stream::Stdout, line.to_string().as_bytes());
        shown(&observe(normalizer(&dialogue), &entries))
    };
    let own = asks("mcp__provost__get_context");
    assert_eq!(own[2]["line"]["response"]["response"]["behavior"], "allow");
    assert!(own.iter().all(|one| one["ask"].is_null()), "{own:?}");
    for tool in ["Bash", "mcp__other__get_context", "mcp__provost__x__y", "mcp__provosted__x"] {
        assert!(asks(tool).iter().any(|one| one["ask"]["tool_name"] == tool), "{tool}");
    }
}

#[test]
fn what_a_command_of_its_own_answers_is_no_word_of_the_model() {
    let answer = |usage: Value| {
        let result = json!({ "type": "result", "subtype": "success", "is_error": false,
            "result": "Unknown slash command: x", "usage": usage });
        shown(&observe_lines(&[result]))[0]["kind"].clone()
    };
    assert_eq!(answer(json!({ "input_tokens": 0, "output_tokens": 0 })), "system_message");
    assert_eq!(answer(json!({ "input_tokens": 3, "output_tokens": 5 })), "assistant_message");
}
