//! Boxes from turn to turn: what an agent wrote in one runs in no less, whatever the variant of a
//! later turn is.

use std::fs;
use std::path::PathBuf;
use std::thread;

use serde_json::json;

use super::{can_hold, provost, results};
use crate::cleanup::collected;
use crate::harness::{Attempt, Provost, eventually, processes, wait_until};

/// Sends a prompt in a variant, and waits until its turn is saved.
fn ran(provost: &Provost, attempt: &Attempt<'_>, variant: &str, prompt: &str, turn: u32) {
    send(provost, attempt, variant, prompt);
    attempt.saved(turn);
}

fn send(provost: &Provost, attempt: &Attempt<'_>, variant: &str, prompt: &str) {
    let send =
        json!({"attempt_id": attempt.id, "action": "send", "variant": variant, "prompt": prompt});
    provost.call("follow_up", &send);
}

fn preview(provost: &Provost, attempt: &Attempt<'_>) {
    provost.call("follow_up", &json!({"attempt_id": attempt.id, "action": "preview"}));
}

/// What each process ran for, and the level of its box.
fn held(provost: &Provost) -> Vec<String> {
    provost.rows(
        "SELECT run_reason || ' ' || coalesce(json_extract(sandbox, '$.level'), 'none') AS held
         FROM processes ORDER BY held",
    )
}

#[test]
fn what_was_written_in_a_box_runs_in_one_also_after_a_turn_without() {
    if !can_hold() {
        return;
    }
    let keys = "[projects.scratch.repos.app]\nsetup = { run = 'true' }\ncleanup = { run = 'true' }\n\
        dev_server = { run = 'exec sleep 600' }\n[projects.scratch.checks]\nways = 'true'";
    let provost = provost().config(keys).started();
    let attempt = provost.board().start("boxed", "write a a");
    attempt.saved(1);
    let key = provost.path("person/.ssh/id");
    ran(&provost, &attempt, "unsafe", &format!("run cat {}", key.display()), 2);
    assert_eq!(results(&attempt)[0].0, 0, "the second turn has no box");
    // The next daemon has it from the rows.
    provost.kill_and_start();
    preview(&provost, &attempt);
    wait_until("its dev server runs", || {
        held(&provost).iter().any(|it| it == "dev_server workspace")
    });
    provost.call("follow_up", &json!({"attempt_id": attempt.id, "action": "end_preview"}));
    let merge = json!({"attempt_id": attempt.id, "action": "merge", "timeout_ms": 60_000});
    let done = provost.call("finish_attempt", &merge);
    assert_eq!(done["checks"][0]["sandbox"]["level"], "workspace", "{done}");
    collected(&provost, &attempt);
    // The worktrees are made and set up once more.
    ran(&provost, &attempt, "unsafe", "say x", 3);
    let turns = ["none", "none", "workspace"].map(|level| format!("coding_agent {level}"));
    let scripts = ["cleanup_script", "dev_server", "setup_script", "setup_script"];
    let scripts = scripts.map(|reason| format!("{reason} workspace"));
    assert_eq!(held(&provost), [&scripts[..1], &turns[..], &scripts[1..]].concat());
}

#[test]
fn what_runs_with_less_is_ended_before_a_turn_that_holds_more() {
    if !can_hold() {
        return;
    }
    let keys = "[projects.scratch.repos.app]\n\
        dev_server = { run = 'echo $$ > served; exec sleep 600' }";
    let provost = provost().config(keys).started();
    let leave = |file: &str| {
        format!(
            "run setsid -f sh -c 'echo $$ > {file}.new; mv {file}.new {file}; exec sleep 600' \
             > /dev/null 2>&1\n\
             run until [ -s {file} ]; do sleep 0.02; done"
        )
    };
    let attempt =
        provost.board().start_with("boxed", &json!({"prompt": leave("left"), "variant": "unsafe"}));
    let folder = attempt.saved(1)["worktree"].as_str().map(PathBuf::from).unwrap();
    preview(&provost, &attempt);
    let pid = |file: &str| -> Option<i32> {
        fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
    };
    let (left, served) =
        (pid("left").unwrap(), eventually("the dev server runs", || pid("served")));
    // The next daemon finds both, and ends them too.
    provost.kill_and_start();
    assert!(processes::is_alive(left) && processes::is_alive(served));
    let gone = format!("run ! [ -e /proc/{left} ] && ! [ -e /proc/{served} ]\n{}", leave("held"));
    ran(&provost, &attempt, "held", &gone, 2);
    assert!(results(&attempt).iter().all(|(code, _)| *code == 0), "{:?}", results(&attempt));
    let said = attempt.said("system_message");
    for what in ["What an earlier turn had left running was ended", "The dev server was stopped"] {
        assert!(said.iter().any(|text| text.starts_with(what)), "{said:?}");
    }
    assert_eq!(attempt.status()["provision"]["dev_server"]["state"], "stopped");

    // What is held as much goes on beside the next turn, and so does what begins beside it.
    send(&provost, &attempt, "held", "hang");
    attempt.in_phase("running");
    preview(&provost, &attempt);
    wait_until("it runs", || held(&provost).iter().any(|it| it == "dev_server workspace"));
    let all = held(&provost);
    assert_eq!(all.iter().filter(|it| *it == "dev_server none").count(), 1, "{all:?}");
    assert!(processes::is_alive(pid("held").unwrap()));
    attempt.stop();
    provost.call("follow_up", &json!({"attempt_id": attempt.id, "action": "end_preview"}));

    // So does one that has only just been asked for.
    preview(&provost, &attempt);
    ran(&provost, &attempt, "held", "say x", 4);
    wait_until("it is ready", || attempt.status()["provision"]["dev_server"]["state"] == "ready");
    let stops = attempt.said("system_message");
    let stops = stops.iter().filter(|it| it.starts_with("The dev server was stopped")).count();
    assert_eq!(stops, 1);
    provost.call("follow_up", &json!({"attempt_id": attempt.id, "action": "end_preview"}));
}

#[test]
fn a_dev_server_that_was_asked_for_before_a_turn_has_the_box_of_that_turn() {
    if !can_hold() {
        return;
    }
    let setup = "until [ -e go ]; do sleep 0.02; done";
    let keys = format!(
        "[projects.scratch.repos.app]\ndev_server = {{ run = 'exec sleep 600' }}\n\
         setup = {{ run = '{setup}' }}"
    );
    let provost = provost().config(&keys).started();
    let attempt =
        provost.board().start_with("boxed", &json!({"prompt": "hang", "variant": "held"}));
    let folder = attempt.until("it is made", |it| it["worktree"].is_string())["worktree"].clone();
    let folder = PathBuf::from(folder.as_str().unwrap());
    wait_until("its setup runs", || held(&provost).iter().any(|it| it.starts_with("setup_script")));
    thread::scope(|scope| {
        // It waits for the worktrees, which the setup has; the call shows its first state.
        scope.spawn(|| preview(&provost, &attempt));
        attempt.in_phase("preparing");
        fs::write(folder.join("go"), "").unwrap();
        attempt.in_phase("running");
    });
    wait_until("it runs", || held(&provost).iter().any(|it| it == "dev_server workspace"));
    attempt.stop();
    provost.call("follow_up", &json!({"attempt_id": attempt.id, "action": "end_preview"}));
}
