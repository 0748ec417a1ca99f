//! Questions that the plan does not answer: passed on, answered, and the answers on their
//! way back.

use serde_json::{Value, json};

use super::question::at_work;
use crate::harness::{Client, Provost, eventually};

pub const UNKNOWN: &str = "Which animation library should I use?";

fn ask(worker: &mut Client, question: &str) -> Value {
    worker.ask("askQuestion", &json!({"question": question}))["result"].clone()
}

/// What an agent inside an attempt says to its worker tools: a line each, and waits for all.
pub fn agent(provost: &str, calls: &[(&str, Value)]) -> String {
    let lines: Vec<String> = calls
        .iter()
        .zip(1..)
        .map(|((method, params), id)| {
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
        })
        .collect();
    format!(
        "cat > /dev/null\nif [ -n \"$PROVOST_EXECUTOR_SESSION_ID\" ]; then exit 0; fi\n'{provost}' mcp <<'END'\n{}\nEND",
        lines.join("\n")
    )
}

#[test]
fn a_ruling_answers_the_same_question_again_and_shows_with_similar_ones() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    assert_eq!(ask(&mut worker, UNKNOWN)["questionId"], "Q-001");
    let shown = provost.verb(["inbox"]);
    assert!(shown.stdout.contains("Q-001") && shown.stdout.contains(UNKNOWN), "{}", shown.stdout);
    let answered = provost.verb(["answer", "q-001", "Use GSAP.", "--json"]).json();
    assert_eq!((&answered["handle"], &answered["status"]), (&json!("Q-001"), &json!("answered")));
    let again = ask(&mut worker, "which animation library should i use");
    assert_eq!(again["answerFromPlan"], "Use GSAP.");
    assert!(again["confidence"].as_f64().unwrap() >= 0.95);
    assert_eq!(again["evidence"]["source"], "ruling Q-001");
    assert!(again.get("answers").is_none(), "told by this already: {again}");
    let similar = ask(&mut worker, "Which animation library should the tests use?");
    assert_eq!(similar["relatedDecisions"][0]["answer"], "Use GSAP.");
    assert_eq!(similar["relatedDecisions"][0]["answeredBy"], "person");
    let twice = provost.refusal("answer", &json!({"question_id": "Q-001", "answer": "x"}));
    assert_eq!(twice["code"], "invalid_state");
    let gone = provost.refusal("answer", &json!({"question_id": "Q-099", "answer": "x"}));
    assert_eq!(gone["code"], "question_not_found");
}

#[test]
fn an_answer_comes_with_the_next_call_once_also_over_a_restart() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    ask(&mut worker, UNKNOWN);
    provost.call("answer", &json!({"question_id": "Q-001", "answer": "GSAP"}));
    provost.kill_and_start();
    let next = ask(&mut worker, "Should sidebar collapse on mobile?");
    assert_eq!(
        next["answers"],
        json!([{"questionId": "Q-001", "question": UNKNOWN,
        "answer": "GSAP", "answeredBy": "person"}])
    );
    assert!(ask(&mut worker, "Should sidebar collapse on mobile?").get("answers").is_none());
}

#[test]
fn an_answer_comes_with_whatever_call_is_next() {
    let provost = Provost::new().config("[worker]\nburst_per_second = 0").started();
    let mut worker = at_work(&provost);
    let next = [
        ("reportTaskStatus", json!({"task_id": "TASK-001", "status": "in_progress"})),
        ("reportObservation", json!({"observation": "slow", "category": "optimization"})),
        (
            "reportObservation",
            json!({"taskId": "TASK-001", "observation": "slow", "type": "improvement",
            "severity": "low"}),
        ),
        ("reportIssue", json!({"issue_description": "wrong", "severity": 3})),
        ("createTicket", json!({"title": "look"})),
        ("reportTaskCompleted", json!({"task_id": "TASK-001", "status": "partial"})),
        ("reportTaskDone", json!({"taskId": "TASK-001", "status": "done"})),
    ];
    for (number, (method, call)) in next.iter().enumerate() {
        let question = format!("Which library number {number} should the animals use?");
        let asked = ask(&mut worker, &question)["questionId"].clone();
        provost.call("answer", &json!({"question_id": asked, "answer": "GSAP"}));
        let answer = worker.ask(method, call);
        assert_eq!(answer["result"]["answers"][0]["questionId"], asked, "{method}: {answer}");
        assert!(ask(&mut worker, "Should sidebar collapse on mobile?").get("answers").is_none());
    }
}

#[test]
fn tickets_and_alerts_wait_in_the_same_inbox() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    worker.ask("createTicket", &json!({"title": "look", "type": "alert", "task_id": "TASK-001"}));
    ask(&mut worker, UNKNOWN);
    let listed = provost.call("list_inbox", &json!({"limit": 1}));
    assert_eq!(
        (&listed["has_more"], &listed["questions"][0]["handle"]),
        (&json!(true), &json!("Q-001"))
    );
    let cursor = listed["next_cursor"].clone();
    let rest = provost.call("list_inbox", &json!({"limit": 5, "cursor": cursor}));
    assert_eq!(rest["questions"][0]["kind"], "alert");
    provost.call("answer", &json!({"question_id": "TK-001", "answer": "seen"}));
    let open = provost.call("list_inbox", &json!({}));
    assert_eq!(open["questions"].as_array().unwrap().len(), 1);
    let all = provost.call("list_inbox", &json!({"status": "all"}));
    assert_eq!(all["questions"][1]["answer"], "seen");
}

#[test]
fn the_inbox_of_several_projects_says_whose_a_question_is() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    ask(&mut worker, UNKNOWN);
    assert!(!provost.verb(["inbox"]).stdout.contains("PROJECT"));
    let arguments = json!({"name": "lighthouse", "repos": [{"path": provost.repo("tower").path}]});
    let other = provost.call("create_project", &arguments)["project_id"].clone();
    let mut second = provost.worker(&provost.path("tower"));
    ask(&mut second, "Who lights the lamp?");
    let shown = provost.verb(["inbox"]).stdout;
    let line = shown.lines().find(|line| line.contains("lamp")).unwrap();
    assert!(line.starts_with("lighthouse") && line.contains("Q-001"), "{shown}");
    let listed = provost.call("list_inbox", &json!({"limit": 1}));
    assert_eq!(listed["questions"][0]["project_id"], other);
    let lost = provost.verb(["answer", "Q-001", "x"]);
    assert!(lost.code == 2 && lost.stderr.contains("--project"), "{}", lost.stderr);
    let of_one = provost.verb(["inbox", "--project", "lighthouse"]).stdout;
    assert!(!of_one.contains("PROJECT") && !of_one.contains(UNKNOWN), "{of_one}");
}

#[test]
fn get_immediate_answer_takes_the_plans_answer_or_waits_for_somebodys() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let known =
        worker.ask("getImmediateAnswer", &json!({"query": "Should sidebar collapse on mobile?"}));
    assert!(known["result"]["answer"].as_str().unwrap().contains("hamburger"), "{known}");
    assert_eq!(known["result"]["timeout"], false);
    let query = json!({"query": UNKNOWN, "max_wait_seconds": 600, "context_bundle": {"taskId": "TASK-001"}});
    let waiting = worker.request("getImmediateAnswer", &query);
    let is_open = || {
        let open = provost.call("list_inbox", &json!({}));
        open["questions"].as_array().unwrap().first().map(|question| question["handle"].clone())
    };
    assert_eq!(eventually("it is passed on", is_open), "Q-001");
    // The bridge sends the call again to the next daemon.
    provost.kill_and_start();
    provost.call("answer", &json!({"question_id": "Q-001", "answer": "GSAP"}));
    let answer = worker.answer(waiting).unwrap();
    assert_eq!(answer["result"]["answer"], "GSAP", "{answer}");
    assert!(answer["result"].get("answers").is_none());
    assert!(ask(&mut worker, "Should sidebar collapse on mobile?").get("answers").is_none());
}

#[test]
fn get_immediate_answer_times_out_with_high_severity_and_no_retry() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let answer =
        worker.ask("getImmediateAnswer", &json!({"query": UNKNOWN, "max_wait_seconds": 1}));
    let data = &answer["error"]["data"];
    assert_eq!(data["error"]["code"], "TIMEOUT", "{answer}");
    assert_eq!(
        (&data["error"]["severity"], &data["error"]["retryable"]),
        (&json!("HIGH"), &json!(false))
    );
    assert_eq!(
        (&data["timeout"], &data["error"]["fallback_suggested"]),
        (&json!(true), &json!(true))
    );
    provost.call("answer", &json!({"question_id": "Q-001", "answer": "GSAP"}));
    let late =
        worker.ask("getImmediateAnswer", &json!({"query": "Should sidebar collapse on mobile?"}));
    assert_eq!(late["result"]["answers"][0]["answer"], "GSAP", "{late}");
}

/// How many follow-ups brought an attempt the answer GSAP.
fn answered(provost: &Provost, attempt: &str) -> usize {
    let messages = provost.call("tail_session_messages", &json!({"attempt_id": attempt}));
    let messages = messages["messages"].as_array().unwrap().iter();
    let is_answer = |it: &&Value| {
        it["role"] == "user" && it["text"].as_str().unwrap_or_default().contains("GSAP")
    };
    messages.filter(is_answer).count()
}

#[test]
fn an_answer_reaches_an_attempt_though_the_store_fails_at_first() {
    let asks =
        agent(env!("CARGO_BIN_EXE_provost"), &[("askQuestion", json!({"question": UNKNOWN}))]);
    let provost = Provost::new().executor("asker", "plain", &asks).started();
    let attempt = provost.board().start("asker", "x");
    attempt.settled();
    provost.sql(&["CREATE TRIGGER no BEFORE UPDATE ON question_askers
                   WHEN NEW.delivery = 'sending'
                   BEGIN SELECT RAISE(ABORT, 'the disk is on fire'); END"]);
    provost.call("answer", &json!({"question_id": "Q-001", "answer": "GSAP"}));
    eventually("it fails", || provost.said().contains("the disk is on fire").then_some(()));
    assert_eq!(answered(&provost, &attempt.id), 0);
    provost.sql(&["DROP TRIGGER no"]);
    eventually("it is delivered", || (answered(&provost, &attempt.id) > 0).then_some(()));
    attempt.settled();
    assert_eq!(answered(&provost, &attempt.id), 1);
}

#[test]
fn an_answer_reaches_an_attempt_as_a_follow_up_once_wherever_the_daemon_dies() {
    let asks =
        agent(env!("CARGO_BIN_EXE_provost"), &[("askQuestion", json!({"question": UNKNOWN}))]);
    for failpoint in [
        "",
        "answer.committed",
        "answers_sending.committed",
        "follow_up.committed",
        "answer_delivery.written",
    ] {
        let provost = Provost::new().executor("asker", "plain", &asks).started();
        let board = provost.board();
        let attempt = board.start("asker", "x");
        attempt.settled();
        let answer = json!({"question_id": "Q-001", "answer": "GSAP", "request_id": "one"});
        if failpoint.is_empty() {
            provost.call("answer", &answer);
        } else {
            provost.kill();
            provost.start_to_die_at(failpoint);
            let mut client = provost.connect();
            client.begin("answer", &answer);
            assert_eq!(provost.ended(), None, "{failpoint}");
            provost.start();
            provost.connect().call("answer", &answer).output();
        }
        let prompts = || answered(&provost, &attempt.id);
        eventually("it is told", || (prompts() > 0).then_some(()));
        attempt.settled();
        provost.kill_and_start();
        let settled = attempt.settled();
        assert_eq!((prompts(), &settled["queued_follow_ups"]), (1, &json!(0)), "{failpoint}");
    }
}

#[test]
fn an_attempt_does_not_answer_its_own_question() {
    let provost_path = env!("CARGO_BIN_EXE_provost");
    let asks = agent(provost_path, &[("askQuestion", json!({"question": UNKNOWN}))]);
    let own = format!("{asks}\n'{provost_path}' answer Q-001 mine 2>&1 || echo refused");
    let provost = Provost::new().executor("asker", "plain", &own).started();
    let attempt = provost.board().start("asker", "x");
    attempt.settled();
    assert!(
        attempt.lines("stdout").iter().any(|line| line == "refused"),
        "{:?}",
        attempt.lines("stdout")
    );
    assert_eq!(provost.call("list_inbox", &json!({}))["questions"][0]["status"], "open");
}

#[test]
fn get_next_task_brings_late_answers_once_also_with_a_claim() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    for (claim, question) in [(false, "Q-001"), (true, "Q-002")] {
        ask(&mut worker, &format!("{UNKNOWN} And {question}?"));
        provost.call("answer", &json!({"question_id": question, "answer": "GSAP"}));
        let next = json!({"claim": claim});
        let answer = worker.ask("getNextTask", &next)["result"].clone();
        assert_eq!(answer["answers"][0]["questionId"], question, "{answer}");
        assert!(worker.ask("getNextTask", &next)["result"].get("answers").is_none());
    }
}
