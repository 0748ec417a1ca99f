//! `askQuestion` over standard input and output: both forms, the reference's examples as
//! they are printed, and its rows of errors.

use std::fs;

use serde_json::{Value, json};

use super::plans::{PLAN, SOURCE, with_plan};
use crate::harness::{Client, Provost};

/// The reference's request.
fn example() -> Value {
    json!({
        "question": "Should sidebar collapse on mobile?",
        "context": "Working on Navigation component, unsure about responsive behavior",
        "currentTaskId": "TASK-003",
        "searchInPlan": "responsive-design|mobile",
        "includeRelatedDecisions": true,
    })
}

/// A worker of a project with a plan and three tasks.
pub fn at_work(provost: &Provost) -> Client {
    let board = provost.board();
    for title in ["one", "two", "three"] {
        board.task(title);
    }
    with_plan(provost, &board.repo().path, SOURCE, PLAN);
    provost.worker(&board.repo().path)
}

fn data(answer: &Value) -> &Value {
    assert!(answer.get("result").is_none(), "not refused: {answer}");
    &answer["error"]["data"]
}

#[test]
fn ask_question_as_printed_is_answered_with_the_quote_at_its_lines() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let answer = worker.ask("askQuestion", &example())["result"].clone();
    assert_eq!((&answer["success"], &answer["question"]), (&json!(true), &example()["question"]));
    assert!(answer["confidence"].as_f64().unwrap() >= 0.9, "{answer}");
    assert!(answer["answerFromPlan"].as_str().unwrap().contains("hamburger menu"));
    let evidence = &answer["evidence"];
    assert_eq!((&evidence["source"], &evidence["planVersion"]), (&json!(SOURCE), &json!("1.0.0")));
    assert_eq!(evidence["section"], "designChoices.navigationStyle");
    let [first, last] =
        [0, 1].map(|at| usize::try_from(evidence["lineNumbers"][at].as_u64().unwrap()).unwrap());
    let lines: Vec<&str> = PLAN.lines().collect();
    assert_eq!(evidence["exactQuote"], lines[first - 1..last].join("\n"));
    assert!(!answer["relatedDesignChoices"].as_array().unwrap().is_empty());
    assert!(answer.get("uncertainty").is_none() && answer.get("questionId").is_none());
    let open = provost.call("list_inbox", &json!({}));
    assert_eq!(open["questions"], json!([]));
}

#[test]
fn what_the_plan_does_not_say_has_low_confidence_and_is_passed_on_once() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let ask =
        json!({"question": "What animation library should I use?", "currentTaskId": "TASK-001"});
    for _ in 0..2 {
        let answer = worker.ask("askQuestion", &ask)["result"].clone();
        assert!(answer["confidence"].as_f64().unwrap() < 0.5, "{answer}");
        assert!(answer.get("answerFromPlan").is_none());
        assert!(answer["uncertainty"].as_str().unwrap().contains("passed on as Q-001"), "{answer}");
        assert_eq!(answer["questionId"], "Q-001");
    }
    let open = provost.call("list_inbox", &json!({}));
    assert_eq!(open["questions"].as_array().unwrap().len(), 1);
    assert_eq!(open["questions"][0]["task_id"], "TASK-001");
}

#[test]
fn the_form_of_v1_2_is_answered_in_its_own_form() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    worker.initialize();
    let ask = json!({
        "question": "Should sidebar collapse on mobile?", "context_summary": "the navigation",
        "current_file": null, "task_id": "TASK-003", "confidence_level": 40, "priority_level": 1,
        "relevant_snippets": [{"file": "src/nav.ts", "content": "nav()"}], "possible_options": ["yes", "no"],
    });
    let answer = worker.call("askQuestion", &ask).output();
    assert!(answer["confidence"].as_u64().unwrap() >= 90, "{answer}");
    assert_eq!(answer["follow_up_needed"], false);
    assert_eq!(answer["escalated_to_user"], false);
    assert!(answer["source"].as_str().unwrap().starts_with(SOURCE));
    let mut unknown = ask.clone();
    unknown["question"] = json!("Which animation library should I use?");
    let answer = worker.call("askQuestion", &unknown).output();
    assert!(answer["confidence"].as_u64().unwrap() < 70);
    assert_eq!(
        (&answer["follow_up_needed"], &answer["escalated_to_user"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(answer["source"], Value::Null);
    let mut both = ask;
    both["currentTaskId"] = json!("TASK-003");
    let refused = worker.call("askQuestion", &both).refusal();
    assert_eq!(refused["error"]["code"], "INVALID_PARAM", "{refused}");
}

#[test]
fn the_newest_version_of_a_plan_is_what_is_asked() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let repo = provost.path("app");
    let path = fs::read_dir(&repo).ok().map(|_| repo.join(SOURCE)).unwrap();
    fs::write(&path, PLAN.replace("768px breakpoint", "900px breakpoint")).unwrap();
    let path = path.to_str().unwrap();
    provost.verb(["plan", "add", path, "--name", "my-app", "--version", "1.1.0"]);
    let answer = worker.ask("askQuestion", &example())["result"].clone();
    assert_eq!(answer["evidence"]["planVersion"], "1.1.0");
    assert!(answer["evidence"]["exactQuote"].as_str().unwrap().contains("900px"));
}

#[test]
fn ask_question_error_400_for_an_empty_question() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    for empty in ["", "  \n"] {
        let answer = worker.ask("askQuestion", &json!({"question": empty}));
        assert_eq!(data(&answer)["error"]["code"], "INVALID_PARAM", "{answer}");
        assert_eq!(data(&answer)["error"]["details"]["field"], "question");
        assert_eq!(answer["error"]["code"], 400);
    }
}

#[test]
fn ask_question_error_404_for_a_task_that_is_not_there() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let ask = json!({"question": "Should sidebar collapse?", "currentTaskId": "TASK-999"});
    let answer = worker.ask("askQuestion", &ask);
    assert_eq!(answer["error"]["code"], 404);
    assert_eq!(data(&answer)["error"]["code"], "RESOURCE_NOT_FOUND");
    let ask = json!({"question": "Should sidebar collapse?", "context": {"taskId": "TASK-999"}});
    assert_eq!(worker.ask("askQuestion", &ask)["error"]["code"], 404);
}

#[test]
fn ask_question_token_limit_is_exceeded_by_a_context_above_80_percent() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let ask = |characters| json!({"question": "Why?", "context": "x".repeat(characters)});
    assert!(worker.ask("askQuestion", &ask(25_000)).get("result").is_some());
    let answer = worker.ask("askQuestion", &ask(26_000));
    let error = &data(&answer)["error"];
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("TOKEN_LIMIT_EXCEEDED"), &json!(false))
    );
    assert_eq!(error["fallback_suggested"], true);
}

#[test]
fn ask_question_invalid_for_a_message_that_is_malformed() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    for params in [json!({"question": 7}), json!({"question": "Why?", "context": 7}), json!({})] {
        let answer = worker.ask("askQuestion", &params);
        assert_eq!(data(&answer)["error"]["code"], "INVALID_PARAM", "{answer}");
        assert_eq!(data(&answer)["error"]["retryable"], false);
    }
    worker.send_bytes(b"{\"jsonrpc\":\"2.0\",\"method\":\"askQuestion\",\"params\":{\"question\"");
    assert_eq!(worker.next().unwrap()["error"]["code"], -32700);
}

#[test]
fn ask_question_v1_2_holds_its_lengths_and_its_required_fields() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let whole = json!({"question": "Why?", "context_summary": "c", "task_id": "TASK-001"});
    for (field, value) in [
        ("question", json!("x".repeat(301))),
        ("context_summary", Value::Null),
        ("task_id", Value::Null),
        ("confidence_level", json!(101)),
        ("priority_level", json!(4)),
        ("relevant_snippets", json!([{"file": "a", "content": "x".repeat(2001)}])),
    ] {
        let mut ask = whole.clone();
        ask["possible_options"] = json!([]);
        ask[field] = value;
        let answer = worker.ask("askQuestion", &ask);
        assert_eq!(data(&answer)["error"]["details"]["field"], field, "{answer}");
    }
}
