//! An executor that answers questions: `callCOEAgent`, and `askQuestion` for what the plan
//! does not say.

use serde_json::{Value, json};

use super::question::at_work;
use crate::harness::{Attempt, Provost, eventually, wait_until};

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
    assert!(again["confidence"].as_f64().unwrap() < 0.7, "no one decided on it: {again}");
    assert!(again["uncertainty"].as_str().unwrap().contains("oracle"));
}

/// Quotes these words from the passage of the plan about the navigation's style.
fn citing(words: &str) -> String {
    format!(
        "id=$(sed -n 's/^\\[\\([0-9]*\\)\\].*navigationStyle.*/\\1/p' | head -n 1); \
         echo It does.; echo \"PASSAGE $id: {words}\""
    )
}

#[test]
fn an_executor_that_quotes_a_passage_verbatim_is_sure_and_one_that_invents_is_not() {
    let question = "What becomes of the navigation on a small display?";
    for (words, is_sure) in
        [("Sidebar collapses to hamburger menu", true), ("Sidebar moves to the top", false)]
    {
        let provost = Provost::new()
            .executor("oracle", "plain", &citing(words))
            .config("[answers]\nexecutor = 'oracle'\ntimeout_secs = 600")
            .started();
        let mut worker = at_work(&provost);
        // Asked again, the quote is verified again.
        for _ in 0..2 {
            let answer = worker.ask("askQuestion", &json!({"question": question}));
            let answer = &answer["result"];
            assert_eq!(answer["confidence"].as_f64().unwrap() >= 0.7, is_sure, "{answer}");
            assert!(answer["answerFromPlan"].as_str().unwrap().contains(words), "{answer}");
            assert_eq!(answer["evidence"]["section"] == "designChoices.navigationStyle", is_sure);
        }
    }
}

#[test]
fn ask_question_timeout_suggests_a_ticket_and_the_late_answer_is_recorded() {
    let gate = "until [ -e \"$PROVOST_HOME/gate\" ]; do sleep 0.05; done; echo Use GSAP.";
    let provost = with_answerer(gate);
    let mut worker = at_work(&provost);
    let ask = json!({"question": "Should we use X or Y?", "context": {"taskId": "TASK-001"}});
    let answer = worker.ask("askQuestion", &ask);
    let refusal = error(&answer);
    assert_eq!(
        (&refusal["code"], &refusal["retryable"]),
        (&json!("TIMEOUT"), &json!(true)),
        "{answer}"
    );
    assert_eq!(
        (&refusal["fallback_suggested"], &refusal["retry_after_seconds"]),
        (&json!(true), &json!(10))
    );
    assert!(refusal["message"].as_str().unwrap().contains("Create ticket"));
    assert_eq!(provost.call("list_inbox", &json!({}))["questions"][0]["handle"], "Q-001");
    provost.kill_and_start();
    std::fs::write(provost.home().join("gate"), "").unwrap();
    eventually("it is answered", || {
        let all = provost.call("list_inbox", &json!({"status": "all"}));
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
    assert_eq!(provost.call("list_inbox", &json!({}))["questions"][0]["status"], "open");
    let asked = worker.ask("askQuestion", &json!({"question": UNKNOWN}));
    assert_eq!(asked["result"]["questionId"], "Q-001", "{asked}");
}

/// An executor that says that it is there and then hangs.
const HANGS: &str = "trap '' TERM; touch \"$PROVOST_HOME/asked-$PROVOST_ATTEMPT_ID\"; \
                     while :; do sleep 0.1; done";

/// How many executors were asked.
fn asked(provost: &Provost) -> usize {
    let names = std::fs::read_dir(provost.home()).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("asked-")).count()
}

/// The phases of all attempts of an executor.
fn phases(provost: &Provost, executor: &str) -> Vec<String> {
    let listed = provost.verb(["ps", "--all", "--json"]).json();
    let attempts = listed["attempts"].as_array().unwrap().iter();
    let its = attempts.filter(|attempt| attempt["executor"] == executor);
    its.map(|attempt| attempt["phase"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn whoever_is_asked_takes_no_slot_of_those_who_work_and_ends_with_a_ruling() {
    let provost = Provost::new()
        .executor("oracle", "plain", HANGS)
        .config(
            "[answers]\nexecutor = 'oracle'\ntimeout_secs = 600\n[daemon]\nmax_running_attempts = 1\n\
             stop_grace_ms = 200",
        )
        .started();
    let mut worker = at_work(&provost);
    let first = worker.request("askQuestion", &json!({"question": UNKNOWN}));
    let second = worker.request("askQuestion", &json!({"question": "Who lights the lamp?"}));
    wait_until("both are asked", || asked(&provost) == 2);
    let listed = provost.call("list_projects", &json!({}))["projects"][0]["project_id"].clone();
    let task = json!({"project_id": listed, "title": "work"});
    let task = provost.call("create_task", &task)["task_id"].clone();
    let work = json!({"task_id": task, "executor": "fake", "prompt": "say done"});
    let work = Attempt::new(&provost, provost.call("start_task_attempt", &work));
    assert_eq!(work.settled()["state"], "completed", "answers hold no slot of its");
    for question in ["Q-001", "Q-002"] {
        provost.call("answer", &json!({"question_id": question, "answer": "GSAP"}));
    }
    // Whoever waits for the executor is told the ruling.
    for call in [first, second] {
        let answer = worker.answer(call).unwrap();
        assert_eq!(answer["result"]["answerFromPlan"], "GSAP", "{answer}");
        assert!(answer["result"]["confidence"].as_f64().unwrap() > 0.9);
    }
    wait_until("they are stopped", || {
        phases(&provost, "oracle").iter().all(|phase| phase == "settled")
    });
    let tasks = provost.call("list_tasks", &json!({"project_id": listed}));
    let titles: Vec<&Value> =
        tasks["tasks"].as_array().unwrap().iter().map(|task| &task["title"]).collect();
    assert_eq!(titles, ["work", "three", "two", "one"], "what is asked is no task of the board");
}

#[test]
fn an_asker_that_holds_the_only_slot_is_answered() {
    let asks = json!({"jsonrpc": "2.0", "id": 1, "method": "askQuestion",
        "params": {"question": UNKNOWN}});
    let script =
        format!("cat > /dev/null\n'{}' mcp <<'END'\n{asks}\nEND", env!("CARGO_BIN_EXE_provost"));
    let provost = Provost::new()
        .executor("asker", "plain", &script)
        .executor("oracle", "plain", "echo Use GSAP.")
        .config(
            "[answers]\nexecutor = 'oracle'\ntimeout_secs = 600\n[daemon]\nmax_running_attempts = 1",
        )
        .started();
    let attempt = provost.board().start("asker", "x");
    attempt.settled();
    let lines = attempt.lines("stdout");
    assert!(lines.iter().any(|line| line.contains("Use GSAP.")), "{lines:?}");
}

#[test]
fn an_executor_that_hangs_is_stopped_when_its_time_is_over_also_after_a_restart() {
    let provost = Provost::new()
        .executor("oracle", "plain", HANGS)
        .config(
            "[answers]\nexecutor = 'oracle'\ntimeout_secs = 1\ngrace_secs = 1\n[daemon]\n\
             stop_grace_ms = 200",
        )
        .started();
    let mut worker = at_work(&provost);
    let answer = worker.ask("askQuestion", &json!({"question": UNKNOWN}));
    assert_eq!(error(&answer)["code"], "TIMEOUT", "{answer}");
    provost.kill_and_start();
    wait_until("it is stopped", || phases(&provost, "oracle") == ["settled"]);
    assert_eq!(provost.call("list_inbox", &json!({}))["questions"][0]["status"], "open");
}

#[test]
fn a_ruling_replaces_what_an_executor_answered_and_reaches_whoever_got_that() {
    let provost = Provost::new()
        .executor("oracle", "plain", "echo Use GSAP.")
        .config("[answers]\nexecutor = 'oracle'\ntimeout_secs = 600")
        .started();
    let mut worker = at_work(&provost);
    let answer = worker.ask("askQuestion", &json!({"question": UNKNOWN}))["result"].clone();
    assert_eq!(
        (&answer["answerFromPlan"], &answer["questionId"]),
        (&json!("Use GSAP."), &json!("Q-001")),
        "{answer}"
    );
    let open = provost.call("list_inbox", &json!({}))["questions"].clone();
    assert_eq!((&open[0]["status"], &open[0]["answer"]), (&json!("unruled"), &json!("Use GSAP.")));
    let shown = provost.verb(["inbox"]).stdout;
    assert!(shown.contains("answered by oracle, unruled"), "{shown}");
    // Asked again, it is the same question.
    let again = worker.ask("askQuestion", &json!({"question": UNKNOWN}))["result"].clone();
    assert_eq!((&again["questionId"], again.get("answers")), (&json!("Q-001"), None), "{again}");
    let coe = worker.ask("callCOEAgent", &json!({"query": UNKNOWN}))["result"].clone();
    assert_eq!(coe["answer"], "Use GSAP.", "{coe}");

    assert_eq!(provost.verb(["answer", "Q-001", "Use Motion."]).code, 0);
    let next =
        worker.ask("askQuestion", &json!({"question": "Should sidebar collapse on mobile?"}));
    let late = &next["result"]["answers"][0];
    assert_eq!(
        (&late["questionId"], &late["answer"], &late["answeredBy"]),
        (&json!("Q-001"), &json!("Use Motion."), &json!("person")),
        "{next}"
    );
    let ruled = worker.ask("askQuestion", &json!({"question": UNKNOWN}))["result"].clone();
    assert_eq!(ruled["answerFromPlan"], "Use Motion.");
    assert!(ruled["confidence"].as_f64().unwrap() > 0.9, "{ruled}");
    assert_eq!(provost.call("list_inbox", &json!({}))["questions"], json!([]));
    let twice = provost.verb(["answer", "Q-001", "Use nothing."]);
    assert_ne!(twice.code, 0, "a ruling is not overruled: {}", twice.stdout);
}
