//! An executor that answers questions: `callCOEAgent`, and `askQuestion` for what the plan
//! does not say.

use serde_json::{Value, json};

use super::question::at_work;
use crate::harness::{Provost, eventually};

const UNKNOWN: &str = "Which animation library should I use?";

/// A daemon whose questions go to an executor with this script.
fn with_answerer(script: &str) -> Provost {
    Provost::new()
        .executor("oracle", "plain", script)
        .config("[answers]\nexecutor = 'oracle'\ntimeout_secs = 1")
        .started()
}

fn error(answer: &Value) -> &Value {
    assert!(answer.get("result").is_none(), "not refused: {answer}");
    &answer["error"]["data"]["error"]
}

#[test]
fn without_an_executor_for_answers_the_setting_is_named() {
    let provost = Provost::running();
    let answer = at_work(&provost).ask("callCOEAgent", &json!({"query": "Why?"}));
    assert_eq!(error(&answer)["code"], "RESOURCE_NOT_FOUND");
    assert!(error(&answer)["message"].as_str().unwrap().contains("[answers] executor"));
    assert!(error(&answer)["hint"].as_str().unwrap().contains("createTicket"));
}

#[test]
fn an_executor_answers_and_what_it_writes_is_its_own() {
    let provost = with_answerer("echo mine > README.md; echo Use GSAP.");
    let mut worker = at_work(&provost);
    let ask = json!({"query": UNKNOWN, "context": {"taskId": "TASK-001"}, "max_wait_seconds": 600});
    let answer = worker.ask("callCOEAgent", &ask)["result"].clone();
    assert_eq!(
        (&answer["success"], &answer["answer"]),
        (&json!(true), &json!("Use GSAP.")),
        "{answer}"
    );
    assert_eq!((&answer["source"], &answer["questionId"]), (&json!("oracle"), &json!("Q-001")));
    let readme = provost.path("app").join("README.md");
    assert_ne!(std::fs::read_to_string(readme).unwrap_or_default(), "mine\n");
    let again = worker.ask("askQuestion", &json!({"question": UNKNOWN}))["result"].clone();
    assert_eq!(again["answerFromPlan"], "Use GSAP.");
    assert!(again["confidence"].as_f64().unwrap() < 0.7, "nobody ruled on it: {again}");
    assert!(again["uncertainty"].as_str().unwrap().contains("oracle"));
}

#[test]
fn ask_question_timeout_suggests_a_ticket_and_the_late_answer_is_recorded() {
    let gate = "until [ -e \"$PROVOST_HOME/gate\" ]; do sleep 0.05; done; echo Use GSAP.";
    let provost = with_answerer(gate);
    let mut worker = at_work(&provost);
    let ask = json!({"question": "Should we use X or Y?", "context": {"taskId": "TASK-001"}});
    let answer = worker.ask("askQuestion", &ask);
    let told = error(&answer);
    assert_eq!((&told["code"], &told["retryable"]), (&json!("TIMEOUT"), &json!(true)), "{answer}");
    assert_eq!(
        (&told["fallback_suggested"], &told["retry_after_seconds"]),
        (&json!(true), &json!(10))
    );
    assert!(told["message"].as_str().unwrap().contains("Create ticket"));
    assert_eq!(provost.call("list_questions", &json!({}))["questions"][0]["handle"], "Q-001");
    provost.kill_and_start();
    std::fs::write(provost.home().join("gate"), "").unwrap();
    eventually("it is answered", || {
        let all = provost.call("list_questions", &json!({"status": "all"}));
        (all["questions"][0]["answer"] == "Use GSAP.").then_some(())
    });
    let next =
        worker.ask("askQuestion", &json!({"question": "Should sidebar collapse on mobile?"}));
    assert_eq!(next["result"]["answers"][0]["answeredBy"], "oracle", "{next}");
}

#[test]
fn an_executor_that_fails_leaves_the_question_to_people() {
    let provost = with_answerer("echo oh >&2; exit 3");
    let mut worker = at_work(&provost);
    let answer = worker.ask("callCOEAgent", &json!({"query": UNKNOWN, "max_wait_seconds": 600}));
    assert_eq!(error(&answer)["code"], "INTERNAL_ERROR", "{answer}");
    assert!(error(&answer)["message"].as_str().unwrap().contains("Q-001"));
    assert_eq!(provost.call("list_questions", &json!({}))["questions"][0]["status"], "open");
    let asked = worker.ask("askQuestion", &json!({"question": UNKNOWN}));
    assert_eq!(asked["result"]["questionId"], "Q-001", "{asked}");
}
