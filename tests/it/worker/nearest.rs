//! The passages that every answer shows, and that looking them up does not delay other calls.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::plans::with_plan;
use crate::harness::Provost;

const TEXT: &str = "# Interface\n\nPages meet WCAG 2.2 level AA.\n\n# Parts\n\nSearch runs on \
                    OpenSearch.\n\n## Look\n\nThe caf\u{e9} page is green.\n";

#[test]
fn the_best_passages_are_shown_verbatim_with_their_places() {
    let provost = Provost::running();
    let board = provost.board();
    board.task("one");
    with_plan(&provost, &board.repo().path, "plan.md", TEXT);
    let mut worker = provost.worker(&board.repo().path);
    let question = "Which accessibility standard must the pages satisfy?";
    let answer = worker.ask("askQuestion", &json!({"question": question}))["result"].clone();
    assert!(answer["confidence"].as_f64().unwrap() < 0.7, "{answer}");
    let passage = json!({"document": "plan.md", "version": "1.0.0", "section": "Interface",
        "lines": [3, 3], "quote": "Pages meet WCAG 2.2 level AA."});
    let shown = |answer: &Value| answer.as_array().is_some_and(|all| all.contains(&passage));
    assert!(shown(&answer["nearest"]), "{answer}");
    assert!(answer["nearest"].as_array().unwrap().len() <= 5);
    let short = json!({"question": question, "context_summary": "s", "task_id": "TASK-001"});
    let answer = worker.ask("askQuestion", &short)["result"].clone();
    assert!(shown(&answer["nearest"]), "{answer}");
    let wait = json!({"query": question, "max_wait_seconds": 1});
    let answer = worker.ask("getImmediateAnswer", &wait);
    assert!(shown(&answer["error"]["data"]["error"]["details"]["nearest"]), "{answer}");
    let sure = json!({"question": "What does search run on?"});
    let answer = worker.ask("askQuestion", &sure)["result"].clone();
    assert!(answer["confidence"].as_f64().unwrap() >= 0.7, "{answer}");
    assert_eq!(answer["nearest"][0]["quote"], "Search runs on OpenSearch.", "{answer}");
    // Whatever normal form the words come in.
    let answer = worker.ask("askQuestion", &json!({"question": "Is the cafe\u{301} page green?"}));
    assert!(answer["result"]["confidence"].as_f64().unwrap() >= 0.7, "{answer}");
    let named = json!({"question": "Who lights the lamp?", "searchInPlan": "look"});
    let answer = worker.ask("askQuestion", &named)["result"].clone();
    assert_eq!(answer["nearest"][0]["section"], "Parts > Look", "{answer}");
}

#[test]
fn plans_of_an_older_daemon_are_looked_up_too() {
    let provost = Provost::running();
    let board = provost.board();
    with_plan(&provost, &board.repo().path, "plan.md", TEXT);
    provost.kill();
    provost.sql(&["DELETE FROM plan_passages", "UPDATE plans SET index_version = 0"]);
    provost.start();
    let mut worker = provost.worker(&board.repo().path);
    let question = json!({"question": "Which accessibility standard must the pages satisfy?"});
    crate::harness::eventually("it is indexed anew", || {
        let answer = worker.ask("askQuestion", &question)["result"].clone();
        let nearest = answer["nearest"].as_array()?;
        nearest.iter().any(|passage| passage["section"] == "Interface").then_some(())
    });
}

#[test]
fn reads_are_answered_while_many_questions_are_looked_up() {
    const QUESTIONS: usize = 40;
    const SECTIONS: usize = 3000;
    let limits = "[worker]\nagent_per_minute = 0\nall_per_minute = 0\nburst_per_second = 0";
    let provost = Provost::new().config(limits).started();
    let board = provost.board();
    let mut text = String::new();
    for number in 0..SECTIONS {
        let _ = write!(text, "# Part {number}\n\nThe sidebar of page {number} keeps a cache.\n\n");
    }
    with_plan(&provost, &board.repo().path, "plan.md", &text);
    let mut askers = provost.worker(&board.repo().path);
    let asked: Vec<u64> = (0..QUESTIONS)
        .map(|number| {
            let question =
                format!("Why does the sidebar of every page number {number} need a cache?");
            askers.request("askQuestion", &json!({"question": question}))
        })
        .collect();
    // The first answer says that they are being looked up.
    let first = askers.next().unwrap();
    let projects = provost.connect().call("list_projects", &json!({})).output();
    assert_eq!(projects["projects"].as_array().unwrap().len(), 1);
    let open = |status: &str| {
        let listed = provost.call("list_inbox", &json!({"status": status, "limit": 200}));
        listed["questions"].as_array().unwrap().len()
    };
    assert!(open("all") < QUESTIONS, "it was answered before the last question was");
    let answers: Vec<Value> = std::iter::once(first)
        .chain(std::iter::from_fn(|| askers.next()).take(QUESTIONS - 1))
        .collect();
    assert!(asked.iter().all(|id| answers.iter().any(|answer| answer["id"] == *id)));
}
