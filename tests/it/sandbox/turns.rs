//! Boxes from turn to turn: what an agent wrote in one runs in no less, whatever the variant of a
//! later turn is.

use serde_json::json;

use super::{can_hold, provost, results};
use crate::cleanup::collected;
use crate::harness::{Attempt, Provost, wait_until};

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
