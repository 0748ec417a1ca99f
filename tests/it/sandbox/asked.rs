//! Programs that Provost runs to ask them about themselves: nothing that an agent wrote in its box
//! runs outside of one by that.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{can_hold, ran};
use crate::harness::{Board, Provost, Web};

/// An agent that may write `~/state/`, and a program of the same executor's kind that reads it.
const CONFIG: &str = "
[executors.planter]
protocol = 'fake'
sandbox = 'workspace'
sandbox_write = ['~/state/']
[executors.asked]
protocol = 'codex'
sandbox = 'workspace'
sandbox_write = ['~/state/']
login_status = ['login', 'status']
";

/// Says how it is held, and tries to leave a trace where no box lets it.
const PLANTED: &str = r#"held=$(grep -E 'NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\n\t ')
for place in "$HOME/state" "$HOME"; do echo "$held" >> "$place/ran-by-provost"; done 2>/dev/null
cat "$HOME/.ssh/id" 2>/dev/null && held="$held and it read the key"
"#;

/// Everything by which a person looks at executors.
fn look(provost: &Provost) -> String {
    let doctor = provost.verb(["doctor"]).stdout;
    let executors = provost.verb(["executors"]).stdout;
    let listed = provost.call("list_executors", &json!({})).to_string();
    let page = Web::of(provost).get("/settings/executors").body;
    [doctor, executors, listed, page].join("\n")
}

/// Whether a planted program could write outside of its box.
fn left_a_trace(provost: &Provost) -> bool {
    let person = ["state/ran-by-provost", "ran-by-provost"];
    person.iter().any(|file| provost.path("person").join(file).exists())
}

fn provost() -> Provost {
    let provost = Provost::new();
    fs::create_dir_all(provost.path("person/.ssh")).unwrap();
    fs::write(provost.path("person/.ssh/id"), "a key").unwrap();
    provost
}

fn plant(board: &Board<'_>, file: &str, text: &str) {
    let file = board.provost.path("person").join(file);
    // The agent finds the text in its repository.
    if !board.repo().path.join("planted").exists() {
        board.repo().commit("planted", text);
    }
    let command = format!(
        "mkdir -p {0} && cp planted {1} && chmod +x {1}",
        file.parent().unwrap().display(),
        file.display()
    );
    let results = ran(board, "planter", &[command]);
    assert_eq!(results[0].0, 0, "{results:?}");
}

#[test]
fn a_program_that_is_asked_reads_what_an_agent_planted_in_a_box_alone() {
    if !can_hold() {
        return;
    }
    // It runs what its state says, as Claude Code did by LD_PRELOAD.
    let program = "[ -e \"$HOME/state/settings.sh\" ] && . \"$HOME/state/settings.sh\"\n\
                   echo \"asked $held\"; exit 0";
    let provost = provost();
    let path = provost.script("asked", program);
    let command = format!("command = ['{}']", path.display());
    let provost = provost.config(CONFIG).config(&command);
    let provost = provost.started();
    let board = provost.board();
    plant(&board, "state/settings.sh", PLANTED);
    let said = look(&provost);
    assert!(said.contains("asked NoNewPrivs:1Seccomp:2"), "{said}");
    assert!(!said.contains("read the key"), "{said}");
    assert!(!provost.path("person/state/ran-by-provost").exists(), "its state is only read");
}

#[test]
fn a_program_that_an_agent_could_replace_is_not_run() {
    if !can_hold() {
        return;
    }
    let provost = provost();
    let home = provost.path("person");
    fs::create_dir_all(home.join("state/bin")).unwrap();
    fs::create_dir_all(home.join("bin")).unwrap();
    for (name, file) in [("direct", "state/bin/direct"), ("linked", "state/bin/linked")] {
        let at = provost.script(name, "echo honest 1");
        fs::rename(at, home.join(file)).unwrap();
    }
    symlink(home.join("state/bin/linked"), home.join("bin/linked")).unwrap();
    symlink(home.join("state"), home.join("way")).unwrap();
    let scripted = provost.script("scripted", "");
    let text = format!("#!{}/state/bin/direct\n", home.display());
    fs::write(&scripted, text).unwrap();
    let commands = [
        ("direct", home.join("state/bin/direct")),
        ("linked", home.join("bin/linked")),
        ("way", home.join("way/bin/direct")),
        ("scripted", scripted),
    ];
    let mut provost = provost.config(CONFIG.split("[executors.asked]").next().unwrap());
    for (name, path) in &commands {
        let path = path.display();
        provost = provost.config(&format!(
            "[executors.{name}]\nprotocol = 'codex'\nlogin_status = ['x']\ncommand = ['{path}']"
        ));
    }
    let provost = provost.started();
    let board = provost.board();
    let planted = format!("#!/bin/sh\n{PLANTED}echo planted 1\n");
    for file in ["state/bin/direct", "state/bin/linked"] {
        plant(&board, file, &planted);
    }
    let said = look(&provost);
    assert!(!said.contains("planted 1") && !left_a_trace(&provost), "{said}");
    let task = board.task("a task");
    for (name, _) in &commands {
        let start = json!({"task_id": task, "executor": name, "prompt": "x"});
        let refusal = provost.refusal("start_task_attempt", &start);
        assert_eq!(refusal["code"], "executor_unavailable", "{refusal}");
        let message = refusal["message"].as_str().unwrap();
        let way_out =
            "install it elsewhere, or name narrower paths in sandbox_write of executor planter";
        assert!(message.contains("state") && message.contains(way_out), "{message}");
        assert!(said.contains(&format!("executor {name}")), "doctor names it: {said}");
    }
    assert!(!left_a_trace(&provost), "nothing has run");
}

#[test]
fn where_no_box_can_be_had_only_what_needs_none_is_asked() {
    let provost = provost()
        .executor("boxed", "codex", "echo boxed 1; : > \"$HOME/boxed-ran\"")
        .config("sandbox = 'workspace'\nlogin_status = ['login', 'status']")
        .executor("open", "codex", "echo open 1")
        .variable("PROVOST_TEST_LANDLOCK_ABI", "2")
        .started();
    let listed = provost.call("list_executors", &json!({}))["executors"].clone();
    let find = |name: &str| -> Value {
        let mut all = listed.as_array().unwrap().iter();
        all.find(|executor| executor["executor"] == name).unwrap().clone()
    };
    assert_eq!(find("open")["version"], "open 1");
    let boxed = find("boxed");
    assert_eq!(boxed["version"], Value::Null);
    assert!(boxed["note"].as_str().unwrap().contains("Landlock is of version 2"), "{boxed}");
    let said = look(&provost);
    assert!(said.contains("outside of its sandbox"), "{said}");
    assert!(!provost.path("person/boxed-ran").exists());
}

#[test]
fn an_agent_that_may_only_read_writes_nothing_of_its_worktree() {
    if !can_hold() {
        return;
    }
    let provost = provost()
        .config("[executors.reader]\nprotocol = 'fake'\nsandbox = 'workspace'")
        .config("default_variant = 'reads'\n[executors.reader.variants.reads]")
        .config("sandbox_read_only = true")
        .started();
    let board = provost.board();
    let commands = [
        "cat README.md && git status --short && git log --oneline && git diff",
        "echo x > $TMPDIR/x && cat $TMPDIR/x",
        "echo x > new",
        "echo x >> README.md",
        "rm README.md",
        "git commit --quiet --allow-empty -m x",
        "cat $HOME/.ssh/id",
    ];
    let results = ran(&board, "reader", &commands.map(str::to_owned));
    let ended: Vec<bool> = results.iter().map(|(code, _)| *code == 0).collect();
    assert_eq!(ended, [true, true, false, false, false, false, false], "{results:?}");
    assert!(results[2].1.contains("denied"), "{results:?}");
}
