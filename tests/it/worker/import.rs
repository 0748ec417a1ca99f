//! `provost task`: tasks from a file, listed and shown.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Done, Provost};

const MARKDOWN: &str = "\
# Plan

## TASK-010: Make the parser
- Priority: high
- Estimate: 2h

By hand.

### Acceptance criteria
- It parses

## [docs] Write it down
- Depends on: TASK-010, TASK-001
";

/// Runs `provost task` in a folder.
fn task(provost: &Provost, folder: &Path, args: &[&str]) -> Done {
    let mut command = provost.command(&[&["--json", "task"], args].concat());
    command.current_dir(folder);
    Provost::done(command)
}

#[test]
fn a_markdown_file_becomes_tasks_once() {
    let provost = Provost::running();
    let board = provost.board();
    board.task("there before");
    let folder = board.repo().path.clone();
    fs::write(provost.path("plan.md"), MARKDOWN).unwrap();
    let file = provost.path("plan.md").display().to_string();
    let made = task(&provost, &folder, &["import", &file]).json();
    assert_eq!(made["imported_before"], false);
    let names = |made: &Value, field: &str| -> Vec<Value> {
        made["tasks"].as_array().unwrap().iter().map(|task| task[field].clone()).collect()
    };
    assert_eq!(names(&made, "handle"), ["TASK-002", "TASK-003"]);
    assert_eq!(names(&made, "name"), ["TASK-010", "docs"]);
    let again = task(&provost, &folder, &["import", &file]).json();
    assert_eq!((&again["imported_before"], &again["tasks"]), (&json!(true), &made["tasks"]));
    let third = task(&provost, &folder, &["import", "--again", &file]).json();
    assert_eq!(names(&third, "handle"), ["TASK-004", "TASK-005"]);
    let listed = task(&provost, &folder, &["list"]).json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 5);
    let shown = task(&provost, &folder, &["show", "task-003"]).json()["task"].clone();
    let on = [&listed["tasks"][0]["task_id"], &made["tasks"][0]["task_id"]];
    assert_eq!(shown["depends_on"], json!(on));
    let parser = task(&provost, &folder, &["show", "TASK-002"]).json()["task"].clone();
    assert_eq!(parser["priority"], "high");
    assert_eq!(parser["brief"]["superDetailedPrompt"]["acceptanceCriteria"], json!(["It parses"]));
    let mut plain = provost.command(&["task", "show", "TASK-002"]);
    plain.current_dir(&folder);
    let plain = Provost::done(plain).stdout;
    assert!(plain.starts_with("TASK-002: Make the parser\ntodo; priority high\n"), "{plain}");
}

#[test]
fn nothing_is_imported_of_a_file_with_a_fault() {
    let provost = Provost::running();
    let board = provost.board();
    let folder = board.repo().path.clone();
    let unknown = json!([{"title": "A"}, {"title": "B", "dependencies": ["TASK-099"]}]);
    let circle = json!({"tasks": [
        {"id": "a", "title": "A", "dependencies": ["b"]},
        {"id": "b", "title": "B", "dependencies": ["a"]}]});
    let faulty = json!([{"title": "A"}, {"title": "B", "priority": "hihg"}]);
    for (text, code, said) in [
        (unknown.to_string(), 1, "There is no task TASK-099"),
        (circle.to_string(), 1, "a -> b -> a"),
        (faulty.to_string(), 1, "task 2"),
        ("[\n{\"title\": }]".to_owned(), 1, "line 2"),
    ] {
        let file = provost.path("tasks.json");
        fs::write(&file, text).unwrap();
        let done = task(&provost, &folder, &["import", file.to_str().unwrap()]);
        let envelope: Value = serde_json::from_str(&done.stderr).unwrap();
        assert!(envelope["message"].as_str().unwrap().contains(said), "{done:?}");
        assert_eq!(done.code, code, "{done:?}");
    }
    let listed = task(&provost, &folder, &["list"]).json();
    assert_eq!(listed["tasks"], json!([]));
    assert_eq!(task(&provost, &folder, &["show", "TASK-001"]).code, 4);
    assert_eq!(task(&provost, &folder, &["import", "/nowhere.md"]).code, 2);
}

#[test]
fn a_file_is_held_to_the_limits_of_the_tool() {
    let provost = Provost::running();
    let board = provost.board();
    let folder = board.repo().path.clone();
    let long = "x".repeat(1_000_001);
    let refused = provost.refusal(
        "create_task",
        &json!({"project_id": board.project_id, "title": "B", "description": long}),
    );
    assert_eq!(refused["code"], "invalid_argument");
    let documents = [
        ("tasks.json", json!([{"title": "A"}, {"title": "B", "description": long}]).to_string()),
        ("tasks.md", format!("## A\n\n## B\n\n{long}\n")),
    ];
    for (name, text) in documents {
        let file = provost.path(name);
        fs::write(&file, text).unwrap();
        let done = task(&provost, &folder, &["import", file.to_str().unwrap()]);
        assert_eq!(done.code, 1, "{name}");
        assert!(
            done.stderr.contains("`description`") && done.stderr.contains("1000000"),
            "{done:?}"
        );
        assert!(done.stderr.len() < 1000, "the text is not told back");
    }
    assert_eq!(task(&provost, &folder, &["list"]).json()["tasks"], json!([]));
}
