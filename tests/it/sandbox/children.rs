//! What an attempt starts beside its agent: setup, dev server, cleanup and checks are in boxes of
//! their own if the agent has one.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{can_hold, outside, provost};
use crate::cleanup::collected;
use crate::harness::{Attempt, Board, Provost, wait_until};

/// What each of them tries: it works without a box.
const WAYS: [(&str, &str); 8] = [
    ("read a key", "cat {person}/.ssh/id"),
    ("write outside", "echo x > {out}/$0"),
    ("write a hook", "echo x > {repo}/.git/hooks/post-$0"),
    ("configure the repository", "git config --file {repo}/.git/config escape.$0 x"),
    ("move another branch", "git rev-parse HEAD > {repo}/.git/refs/heads/raw-$0"),
    ("read the database", "cat {home}/provost.db"),
    ("signal the daemon", "kill -0 {daemon}"),
    ("read the main checkout", "cat {repo}/README.md"),
];
/// What a check tries besides: the worktree that it judges is not its own.
const OF_CHECKS: [(&str, &str); 2] = [
    ("write the worktree that it judges", "echo x > $(cat path.txt)/judged"),
    ("write the git of the worktree", "echo x > $(cat name.txt)/judged"),
];
/// What each of them has to be able to do.
const WORK: &str = "echo x > made && git status --short > /dev/null && git log -1 > /dev/null && \
    f=$(mktemp) && echo x > $f && rm $f made";

/// A script that prints for each way whether it leads out; a check ends with their number. Its
/// argument says who runs it.
fn script(provost: &Provost, board: &Board<'_>, out: &str) -> String {
    let tried = |(name, way): &(&str, &str)| {
        format!(
            "sh -c '{way}' $who > /dev/null 2>&1 && out '{name}' || echo \"$who: held: {name}\"\n"
        )
    };
    let [all, of_checks] =
        [&WAYS[..], &OF_CHECKS[..]].map(|ways| ways.iter().map(tried).collect::<String>());
    let text = format!(
        "who=$1; n=0\nout() {{ n=$((n+1)); echo \"$who: out: $1\"; }}\n\
         {{ {WORK}; }} && echo \"$who: works\" || exit 99\n{all}\
         if [ $who = check ]; then\n{of_checks}fi\n\
         echo \"$who: $n\"\n[ $who != check ] || exit $n\n"
    );
    [
        ("{person}", provost.path("person").display().to_string()),
        ("{out}", out.to_owned()),
        ("{repo}", board.repo().path.display().to_string()),
        ("{home}", provost.home().display().to_string()),
        ("{daemon}", provost.pid().to_string()),
    ]
    .iter()
    .fold(text, |text, (key, value)| text.replace(key, value))
}

/// What a script printed, of those that are in the attempt's log.
fn printed(attempt: &Attempt, who: &str) -> Vec<String> {
    let said = attempt.said("system_message");
    let begin = format!("{who}: ");
    said.iter().filter_map(|line| line.strip_prefix(&begin)).map(str::to_owned).collect()
}

fn finished(provost: &Provost, attempt: &Attempt) -> Value {
    let merge = json!({"attempt_id": attempt.id, "action": "merge", "timeout_ms": 60_000});
    provost.call("finish_attempt", &merge)
}

#[test]
fn scripts_dev_servers_and_checks_are_in_boxes_if_the_agent_is() {
    if !can_hold() {
        return;
    }
    let keys = "[projects.scratch.repos.app]\n\
        setup = { run = 'sh ways.sh setup' }\n\
        cleanup = { run = 'sh ways.sh cleanup' }\n\
        dev_server = { run = 'sh ways.sh server; exec sleep 600' }\n\
        [projects.scratch.checks]\nways = 'sh ways.sh check'";
    let provost = provost().config(keys).started();
    let board = provost.board();
    for (executor, is_boxed) in [("boxed", true), ("free", false)] {
        let out = outside(&provost, executor);
        let text = script(&provost, &board, &out.display().to_string());
        board.repo().commit("ways.sh", &text);
        let prompt = "run pwd > path.txt; git rev-parse --git-dir > name.txt";
        let attempt = board.start(executor, prompt);
        let status = attempt.settled();
        assert_eq!(status["state"], "completed", "{status}");
        let worktree = PathBuf::from(status["worktree"].as_str().unwrap());
        let serve = json!({"attempt_id": attempt.id, "action": "preview"});
        provost.call("follow_up", &serve);
        wait_until("the server has tried", || printed(&attempt, "server").len() > WAYS.len() + 1);
        provost.call("follow_up", &json!({"attempt_id": attempt.id, "action": "end_preview"}));

        let done = finished(&provost, &attempt);
        let all = WAYS.len() + OF_CHECKS.len();
        let (state, code) = if is_boxed { ("done", 0) } else { ("checks_failed", all) };
        assert_eq!(
            (&done["state"], &done["checks"][0]["exit_code"]),
            (&json!(state), &json!(code)),
            "{done}"
        );
        let receipt = &done["checks"][0]["sandbox"];
        assert_eq!(receipt["level"] == "workspace", is_boxed, "{done}");
        assert_eq!(worktree.join("judged").exists(), !is_boxed);
        if is_boxed {
            collected(&provost, &attempt);
        }

        let scripts: &[&str] =
            if is_boxed { &["setup", "server", "cleanup"] } else { &["setup", "server"] };
        for who in scripts {
            let said = printed(&attempt, who);
            let out = if is_boxed { 0 } else { WAYS.len() };
            assert_eq!(said.last(), Some(&out.to_string()), "{executor} {who}: {said:?}");
            assert_eq!(said[0], "works", "{said:?}");
        }
        let notices = attempt.said("system_message");
        let notices = notices.iter().filter(|text| text.contains("runs in a sandbox")).count();
        assert_eq!(notices, if is_boxed { 1 + scripts.len() } else { 0 });
        assert_eq!(fs::read_dir(&out).unwrap().count(), if is_boxed { 5 } else { 8 });
    }
    let held = provost.rows(
        "SELECT run_reason || ' ' || json_extract(sandbox, '$.level') FROM processes
         WHERE sandbox IS NOT NULL ORDER BY run_reason",
    );
    let reasons = ["cleanup_script", "coding_agent", "dev_server", "setup_script"];
    assert_eq!(held, reasons.map(|reason| format!("{reason} workspace")));
}

#[test]
fn where_the_box_can_not_be_had_scripts_and_checks_do_not_run_either() {
    if !can_hold() {
        return;
    }
    let keys = "[projects.scratch.repos.app]\ndev_server = { run = 'echo served > ran' }\n\
        [projects.scratch.checks]\nways = 'true'";
    let provost = provost().config(keys).started();
    let board = provost.board();
    let attempt = board.start("boxed", "write a a");
    attempt.settled();
    let worktree = PathBuf::from(attempt.status()["worktree"].as_str().unwrap());
    provost.kill();
    provost.start_by(&["env", "PROVOST_TEST_LANDLOCK_ABI=2"]);
    let done = finished(&provost, &attempt);
    assert_eq!(done["state"], "checks_failed", "{done}");
    let receipt = &done["checks"][0];
    assert_eq!(receipt["outcome"], "not_run", "{done}");
    assert!(receipt["reason"].as_str().unwrap().contains("none can be had"), "{done}");
    let serve = json!({"attempt_id": attempt.id, "action": "preview"});
    provost.call("follow_up", &serve);
    let entry = &attempt
        .until("it has failed", |it| it["provision"]["dev_server"]["state"] == "failed")["provision"]
        ["dev_server"];
    assert!(entry["reason"].as_str().unwrap().contains("none can be had"), "{entry}");
    assert!(!worktree.join("ran").exists());
}
