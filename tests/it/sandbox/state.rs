//! The state that an agent has of its own in a box: what it writes there is read by nothing outside
//! of the boxes of its attempt; a renewed token and a session for a fork alone leave it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::can_hold;
use crate::harness::{Attempt, Board, Provost};

const AGENT: &str = include_str!("../agents/stateful.py");

const CREDENTIALS: &str = r#"{"token":{"access":"old","expires":1000},"account":"me"}"#;
const RENEWED: &str = r#"{"token":{"access":"new","expires":2000},"account":"me"}"#;

/// A person who uses the agent, which keeps its state in ~/.agent.
fn provost() -> Provost {
    let provost = Provost::new();
    let agent = provost.path("agent.py");
    fs::write(&agent, AGENT).unwrap();
    let script = provost.script("agent", &format!("exec python3 {} \"$@\"", agent.display()));
    for (file, text) in [
        (".ssh/id", "a key"),
        (".agent/settings.json", r#"{"by":"person"}"#),
        (".agent/commands/hello.md", "Say hello."),
        (".agent/auth.json", CREDENTIALS),
        (".agent/history", "what the person did"),
    ] {
        let path = provost.path("person").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let (script, agent) = (script.display(), agent.display());
    provost.config(&format!(
        "[executors.agent]
        protocol = 'acp'
        command = ['{script}', 'acp']
        sandbox = 'workspace'
        sandbox_read = ['{script}', '{agent}']
        fork = true
        resume = ['--resume', '{{session}}']
        [[executors.agent.state]]
        variable = 'AGENT_HOME'
        from = '~/.agent'
        folder = 'agent'
        copy = ['.env', 'commands', 'hooks', 'mcp.json', 'settings.json']
        credentials = [{{ file = 'auth.json', renewed = ['token.access', 'token.expires'], newer = 'token.expires' }}]
        sessions = ['sessions/{{cwd}}/{{id}}.jsonl']
        [executors.agent.variants.held]
        [executors.agent.variants.unsafe]
        sandbox = 'none'"
    ))
}

/// Every file below the person's state, with its content.
fn persons(provost: &Provost) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![provost.path("person/.agent")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.clone(), fs::read_to_string(path).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}

fn said(attempt: &Attempt<'_>) -> String {
    attempt.settled()["final_message"].as_str().unwrap_or_default().to_owned()
}

fn begin<'a>(board: &Board<'a>, prompt: &str) -> Attempt<'a> {
    board.start_with("agent", &json!({"prompt": prompt, "variant": "held"}))
}

fn follow_up(provost: &Provost, attempt: &Attempt<'_>, prompt: &str, variant: &str) -> String {
    let turn = attempt.status()["latest_snapshot_turn"].as_u64().unwrap_or(1);
    let call =
        json!({"attempt_id": attempt.id, "action": "send", "prompt": prompt, "variant": variant});
    provost.call("follow_up", &call);
    attempt.saved(u32::try_from(turn).unwrap() + 1);
    said(attempt)
}

#[test]
fn what_an_agent_writes_into_its_state_is_read_by_nothing_outside_of_its_attempts_boxes() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let before = persons(&provost);
    let planted =
        ["settings.json", "hooks/start", "mcp.json", ".env", "bin/agent", "commands/x.md"];
    let plant: Vec<String> = planted
        .iter()
        .map(|file| {
            format!("run mkdir -p $(dirname $AGENT_HOME/{file}); echo planted > $AGENT_HOME/{file}")
        })
        .collect();
    let direct = planted.map(|file| {
        format!("run mkdir -p ~/.agent/bin ~/.agent/hooks; echo planted > ~/.agent/{file}")
    });
    let attempt = begin(&board, &plant.join("\n"));
    let output = said(&attempt);
    assert_eq!(output.matches("[0]").count(), planted.len(), "{output}");
    let output = follow_up(&provost, &attempt, &direct.join("\n"), "held");
    assert!(output.matches("denied").count() >= planted.len(), "{output}");
    assert_eq!(persons(&provost), before);
    // What it left is there for itself alone.
    let look = "run cat $AGENT_HOME/settings.json ~/.agent/settings.json; ls -a $AGENT_HOME";
    assert!(follow_up(&provost, &attempt, look, "held").contains("planted"));
    attempt.saved(3);
    let other = begin(&board, look);
    let fork = json!({"prompt": look, "variant": "held", "from_attempt_id": attempt.id});
    let fork = board.start_with("agent", &fork);
    let free = board.start_with("agent", &json!({"prompt": look, "variant": "unsafe"}));
    for output in
        [said(&other), said(&fork), said(&free), follow_up(&provost, &attempt, look, "unsafe")]
    {
        assert!(output.contains(r#"{"by":"person"}"#), "{output}");
        for wrong in ["planted", "mcp.json", ".env", "bin"] {
            assert!(!output.contains(wrong), "{wrong}: {output}");
        }
    }
    let receipt = &other.status()["sandbox"]["enforced"];
    assert!(receipt.as_array().unwrap().contains(&json!("state")), "{receipt}");
}

#[test]
fn the_state_begins_as_the_persons_settings_and_nothing_else_of_theirs() {
    if !can_hold() {
        return;
    }
    let provost = provost();
    let elsewhere = provost.path("dotfiles");
    fs::create_dir(&elsewhere).unwrap();
    let settings = provost.path("person/.agent/settings.json");
    fs::rename(&settings, elsewhere.join("settings.json")).unwrap();
    symlink(elsewhere.join("settings.json"), &settings).unwrap();
    let provost = provost.started();
    let board = provost.board();
    let look =
        "run cd $AGENT_HOME; cat settings.json commands/hello.md auth.json; ls; stat -c %a .";
    let output = said(&begin(&board, look));
    for wanted in [r#"{"by":"person"}"#, "Say hello.", CREDENTIALS] {
        assert!(output.contains(wanted), "{output}");
    }
    assert!(!output.contains("history") && output.contains("700"), "{output}");
    let output = said(&begin(
        &board,
        "run cat ~/.agent/commands/hello.md; cat ~/.agent/history ~/.agent/auth.json",
    ));
    assert!(output.contains("Say hello.") && output.matches("denied").count() == 2, "{output}");
}

#[test]
fn a_session_is_found_by_a_resume_and_by_a_fork_and_only_in_a_box() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let attempt = begin(&board, "say first");
    attempt.saved(1);
    assert!(follow_up(&provost, &attempt, "recall", "held").contains("I know: You work"));
    let fork = |variant: &str| {
        let from = json!({"prompt": "recall", "variant": variant, "from_attempt_id": attempt.id});
        let fork = board.start_with("agent", &from);
        fork.settled();
        let output = fork.said("assistant_message").concat();
        (output, fork.said("system_message").concat())
    };
    let (output, notice) = fork("held");
    assert!(
        output.contains("say first") && notice.contains("a copy of the agent's own session"),
        "{output}"
    );
    // Without a box an agent's own session is not read.
    let (output, notice) = fork("unsafe");
    assert!(
        output.contains("I know: nothing") && notice.contains("a new one begins"),
        "{output} {notice}"
    );
    assert!(follow_up(&provost, &attempt, "recall", "unsafe").contains("I know: nothing"));
    assert_eq!(attempt.status()["state"], "completed");
}

#[test]
fn a_session_of_a_turn_without_a_box_is_found_in_one() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let attempt = board.start_with("agent", &json!({"prompt": "say first", "variant": "unsafe"}));
    attempt.saved(1);
    let sessions = provost.path("person/.agent/sessions");
    assert!(sessions.exists());
    let before = persons(&provost);
    let output = follow_up(&provost, &attempt, "recall", "held");
    assert!(output.contains("I know: say first"), "{output}");
    assert_eq!(persons(&provost), before);
}

#[test]
fn a_renewed_token_comes_back_and_a_forged_one_does_not() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let auth = provost.path("person/.agent/auth.json");
    let theirs = || fs::read_to_string(&auth).unwrap();
    let more = RENEWED.replace("\"me\"", "\"me\",\"hooks\":1");
    let forged = [
        "run rm $AGENT_HOME/auth.json; ln -s ~/.ssh/id $AGENT_HOME/auth.json".to_owned(),
        format!("run echo '{more}' > $AGENT_HOME/auth.json"),
        "run head -c 100000 /dev/zero > $AGENT_HOME/auth.json".to_owned(),
        format!("run echo '{}' > $AGENT_HOME/auth.json", RENEWED.replace("2000", "1")),
    ];
    for forge in &forged {
        // What is due at a turn's end is done by the next turn's start at the latest.
        let attempt = begin(&board, forge);
        attempt.saved(1);
        follow_up(&provost, &attempt, "run true", "held");
        assert_eq!(theirs(), CREDENTIALS, "{forge}");
    }
    let renew = format!("run echo '{RENEWED}' > $AGENT_HOME/auth.json");
    let attempt = begin(&board, &renew);
    attempt.saved(1);
    follow_up(&provost, &attempt, "run true", "held");
    let value: Value = serde_json::from_str(&theirs()).unwrap();
    assert_eq!(value, serde_json::from_str::<Value>(RENEWED).unwrap());
    // The next attempt has it.
    let output = said(&begin(&board, "run cat $AGENT_HOME/auth.json"));
    assert!(output.contains("\"new\""), "{output}");
    // What the person has changed meanwhile stays, and goes to the attempt.
    let attempt = begin(
        &board,
        &format!("run echo '{}' > $AGENT_HOME/auth.json", RENEWED.replace("2000", "4000")),
    );
    attempt.saved(1);
    // The end of the turn may have taken it.
    fs::write(&auth, RENEWED.replace("\"new\"", "\"mine\"").replace("2000", "3000")).unwrap();
    let output = follow_up(&provost, &attempt, "run cat $AGENT_HOME/auth.json", "held");
    assert!(output.contains("\"mine\"") && theirs().contains("\"mine\""), "{output}");
}

#[test]
fn two_at_once_begin_on_an_empty_home() {
    if !can_hold() {
        return;
    }
    let provost = provost();
    fs::remove_dir_all(provost.path("person/.agent")).unwrap();
    let provost = provost.started();
    let board = provost.board();
    // As an agent that makes its database at its first start.
    let make = "run mkdir $AGENT_HOME/database && echo made";
    let both = [begin(&board, make), begin(&board, make)];
    for attempt in &both {
        assert!(said(attempt).contains("made"), "{:?}", attempt.status());
    }
    assert!(!provost.path("person/.agent").exists());
}

#[test]
fn the_credentials_of_an_attempt_go_with_its_worktree() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let attempt = begin(&board, "say first");
    attempt.saved(1);
    let copy = provost.home().join(format!("attempts/{}/state/agent/auth.json", attempt.id));
    assert!(copy.exists());
    assert_eq!(provost.verb(["rm", &attempt.id]).code, 0);
    crate::harness::wait_until("it has gone", || !copy.exists());
    // The session stays, and a prompt resumes it.
    assert!(follow_up(&provost, &attempt, "recall", "held").contains("say first"));
    assert!(copy.exists());
}

#[test]
fn a_person_goes_on_with_a_session_by_hand_in_the_box_and_no_turn_begins_meanwhile() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let attempt = begin(&board, "say first");
    attempt.saved(1);
    let done = provost.verb(["resume", &attempt.id]);
    assert_eq!(done.code, 7, "the agent's own exit code: {}", done.stderr);
    assert!(done.stdout.contains("say first"), "{}", done.stdout);
    assert!(done.stdout.contains("no key: Permission denied"), "{}", done.stdout);
    // The next turn knows what was done by hand.
    assert!(follow_up(&provost, &attempt, "recall", "held").contains("by hand"));

    let lock = provost.home().join(format!("attempts/{}/by-hand.lock", attempt.id));
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    let refused = provost.verb(["resume", &attempt.id]);
    assert!(refused.code == 5 && refused.stderr.contains("another terminal"), "{}", refused.stderr);
    let call = json!({"attempt_id": attempt.id, "action": "send", "prompt": "say x"});
    provost.call("follow_up", &call);
    let status = attempt.until("it was not begun", |it| it["state"] == "failed");
    let why = status["failure_summary"].as_str().unwrap();
    assert!(why.contains("provost resume"), "{why}");
    drop(held);
}

#[test]
fn what_can_not_be_gone_on_with_by_hand_says_the_way_out() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let refused = |attempt: &Attempt<'_>, code: i32, wanted: &[&str]| {
        let done = provost.verb(["resume", &attempt.id]);
        assert_eq!(done.code, code, "{} {}", done.stdout, done.stderr);
        for text in wanted {
            assert!(done.stderr.contains(text), "{text}: {}", done.stderr);
        }
    };
    let attempt = begin(&board, "run until [ -e go ]; do sleep 0.02; done");
    attempt.in_phase("running");
    refused(&attempt, 5, &["a turn that runs", "provost wait"]);
    let worktree = PathBuf::from(attempt.status()["worktree"].as_str().unwrap());
    fs::write(worktree.join("go"), "").unwrap();
    attempt.saved(1);
    assert_eq!(provost.verb(["rm", &attempt.id]).code, 0);
    refused(&attempt, 1, &["worktree", "is gone", "provost send"]);
    let fake = board.start("fake", "say x");
    fake.saved(1);
    refused(&fake, 1, &["terminal interface", "provost shell"]);
}
