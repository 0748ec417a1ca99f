//! A board with tasks and a worker at it, as the tests of reports want them.

use serde_json::{Value, json};

use crate::harness::{Board, Client, Provost};

/// A daemon that limits nobody.
pub fn provost() -> Provost {
    let limits = "[worker]\nagent_per_minute = 0\nall_per_minute = 0\nburst_per_second = 0";
    Provost::new().config(limits).started()
}

/// A project whose tasks have these titles, TASK-001 and on.
pub fn board<'p, const N: usize>(provost: &'p Provost, titles: [&str; N]) -> Board<'p> {
    let board = provost.board();
    for title in titles {
        board.task(title);
    }
    board
}

/// A worker in the board's repository.
pub fn worker(board: &Board) -> Client {
    board.provost.worker(&board.repo().path)
}

/// What a bare method gives.
pub fn ask(worker: &mut Client, method: &str, params: &Value) -> Value {
    let answer = worker.ask(method, params);
    assert!(answer.get("error").is_none(), "{method} was refused: {answer}");
    answer["result"].clone()
}

/// Why a bare method refuses: the number, and the error schema's error.
pub fn refused(worker: &mut Client, method: &str, params: &Value) -> (i64, Value) {
    let answer = worker.ask(method, params);
    assert!(answer.get("result").is_none(), "{method} was not refused: {answer}");
    (answer["error"]["code"].as_i64().unwrap(), answer["error"]["data"]["error"].clone())
}

/// Reports a task as done.
pub fn done(worker: &mut Client, task: &str) -> Value {
    ask(worker, "reportTaskDone", &json!({"taskId": task, "status": "done"}))
}

/// The titles on the board with their statuses, the oldest first.
pub fn statuses(board: &Board) -> Vec<(String, String)> {
    let listed = board.provost.call("list_tasks", &json!({"project_id": board.project_id}));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let tasks = listed["tasks"].as_array().unwrap().iter().rev();
    tasks.map(|task| (text(&task["title"]), text(&task["status"]))).collect()
}

/// The status of the task of a title.
pub fn status(board: &Board, title: &str) -> String {
    let found = statuses(board).into_iter().find(|(known, _)| known == title);
    found.unwrap_or_else(|| panic!("no task is called {title}")).1
}
