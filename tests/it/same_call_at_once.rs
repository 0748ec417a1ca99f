//! Twenty clients make the same call at once, the daemon is killed in the middle,
//! and all of them try again: one effect, one answer.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::harness::{Answer, Attempt, Board, Client, PLAIN, Provost, processes, wait_until};

const CLIENTS: usize = 20;

/// Leaves a line for each time it runs.
const COUNTED: &str = r#"echo ran >> "$PROVOST_HOME/ran"; echo done"#;

/// How the daemon ends.
#[derive(Clone, Copy)]
enum Death {
    At(&'static str),
    /// Killed by its pid when so many of the calls have been sent.
    After(usize),
}

/// Calls until the answer is more than "try again".
fn persist(client: &mut Client, tool: &str, arguments: &Value) -> Answer {
    loop {
        let answer = client.call(tool, arguments);
        if !answer.is_error || answer.value["retryable"] == false {
            return answer;
        }
    }
}

/// Makes the call from all clients, each over a bridge of its own, and once more
/// from each when it has its answer. Returns what all of them were told.
fn call_from_all(provost: &Provost, death: Death, tool: &str, arguments: &Value) -> Value {
    provost.kill();
    // Each of the bridges may have set a daemon going; the slowest may not have come
    // to the lock yet.
    processes::kill_all_with("PROVOST_HOME", &provost.home().to_string_lossy());
    match death {
        Death::At(failpoint) => provost.start_to_die_at(failpoint),
        Death::After(_) => provost.start(),
    }
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|_| {
            let mut client = provost.bridge();
            client.initialize();
            client
        })
        .collect();
    let sent = AtomicUsize::new(0);
    let call = |mut client: Client| {
        let id = client.begin(tool, arguments);
        sent.fetch_add(1, Ordering::Relaxed);
        let first = client.outcome(id).filter(|answer| answer.value["retryable"] != true);
        let first = first.unwrap_or_else(|| persist(&mut client, tool, arguments));
        [first, persist(&mut client, tool, arguments)]
    };
    let call = &call;
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let calls: Vec<_> =
            clients.into_iter().map(|client| scope.spawn(move || call(client))).collect();
        if let Death::After(enough) = death {
            wait_until("enough calls are sent", || sent.load(Ordering::Relaxed) >= enough);
            processes::signal(provost.pid(), nix::sys::signal::Signal::SIGKILL);
        }
        provost.ended();
        calls.into_iter().flat_map(|call| call.join().unwrap()).collect()
    });
    let text = &answers[0].text;
    assert!(answers.iter().all(|answer| !answer.is_error && answer.text == *text), "{answers:?}");
    assert!(answers.iter().filter(|answer| !answer.is_deduplicated).count() <= 1);
    answers[0].value.clone()
}

fn one_of_each(task_death: Death, start_death: Death) {
    let provost = Provost::new().executor("counted", PLAIN, COUNTED).started();
    let board: Board = provost.board();
    let create = json!({"project_id": board.project_id, "title": "once", "request_id": "r"});
    let made = call_from_all(&provost, task_death, "create_task", &create);
    let listed = provost.call("list_tasks", &json!({"project_id": board.project_id}));
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);

    let task = &made["task_id"];
    let start = json!({"task_id": task, "executor": "counted", "request_id": "r"});
    let started = call_from_all(&provost, start_death, "start_task_attempt", &start);
    let listed = provost.call("list_task_attempts", &json!({"task_id": task}));
    assert_eq!(listed["attempts"].as_array().unwrap().len(), 1);
    let attempt = Attempt::new(&provost, started);
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(fs::read_to_string(provost.home().join("ran")).unwrap(), "ran\n");
    assert_eq!(board.repo().attempt_branches().len(), 1);
    assert_eq!(board.repo().worktrees().len(), 2);
}

#[test]
fn twenty_clients_and_a_daemon_that_dies_before_its_commit_make_one_of_each() {
    one_of_each(Death::At("create_task.written"), Death::At("start.written"));
}

#[test]
fn twenty_clients_and_a_daemon_that_dies_after_its_commit_make_one_of_each() {
    one_of_each(Death::At("create_task.committed"), Death::At("start.committed"));
}

#[test]
fn twenty_clients_and_a_daemon_killed_at_random_make_one_of_each() {
    for enough in [1, CLIENTS] {
        one_of_each(Death::After(enough), Death::After(enough));
    }
}
