//! The box around an executor: nothing that an agent might try leads out of it, its work can be
//! done in it, and where it can't be had nothing starts.

mod asked;
mod children;
mod door;
mod escapes;
mod everyday;
mod modes;
mod network;
mod planted;
mod planted_state;
mod scripts;
mod state;
mod turns;

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Attempt, Board, Provost, has_python, left_out, native, needs, wait_until};
use escapes::{CALL, ESCAPES, TOOLS};

const EXECUTORS: &str = "
[executors.free]
protocol = 'fake'
[executors.boxed]
protocol = 'fake'
sandbox = 'workspace'
[executors.boxed.variants.unsafe]
sandbox = 'none'
[executors.boxed.variants.held]
args = []
[executors.mixed]
protocol = 'fake'
[executors.mixed.variants.boxed]
sandbox = 'workspace'
";

/// What the kernel says to one in a box.
const REFUSED: [&str; 5] =
    ["denied", "not permitted", "cross-device", "PermissionError", "insufficient permission"];

fn provost() -> Provost {
    let provost = Provost::new().config(EXECUTORS);
    for (file, text) in [
        ("person/.ssh/id", "a key"),
        ("person/.aws/credentials", "a secret"),
        ("person/.profile", ""),
        ("tools/tool", ""),
    ] {
        let path = provost.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let search = format!("{}:{}", std::env::var("PATH").unwrap(), provost.path("tools").display());
    provost.variable("PATH", &search)
}

/// Whether this machine can hold the whole box, and has what the escapes are written in.
pub fn can_hold() -> bool {
    let abi = doctor_abi(&Provost::new());
    let is_new =
        abi >= 6 || left_out(&format!("it takes Linux 6.12 with Landlock; this one has ABI {abi}"));
    is_new && has_python()
}

fn doctor_abi(provost: &Provost) -> u64 {
    let text = doctor(provost);
    let digits = text.split("ABI ").nth(1).unwrap_or("0");
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

/// What `provost doctor` says about boxes.
fn doctor(provost: &Provost) -> String {
    let checks: Value = serde_json::from_str(&provost.verb(["doctor", "--json"]).stdout).unwrap();
    let found = checks.as_array().unwrap().iter().find(|check| check["name"] == "sandbox");
    found.unwrap()["message"].as_str().unwrap().to_owned()
}

/// The exit code and the text of each command that it ran.
fn results(attempt: &Attempt) -> Vec<(i64, String)> {
    let entries = attempt.normalized().into_iter().filter(|it| it["kind"] == "tool_result");
    let result = |it: Value| {
        (it["exit_code"].as_i64().unwrap(), it["text"].as_str().unwrap_or_default().to_owned())
    };
    entries.map(result).collect()
}

/// Runs commands in an attempt to its end; how each of them ended.
fn ran(board: &Board<'_>, executor: &str, commands: &[String]) -> Vec<(i64, String)> {
    let lines: Vec<String> = commands.iter().map(|command| format!("run {command}")).collect();
    let attempt = board.start(executor, &lines.join("\n"));
    attempt.settled();
    let results = results(&attempt);
    assert_eq!(results.len(), commands.len(), "{:?}", attempt.normalized());
    results
}

fn outside(provost: &Provost, who: &str) -> PathBuf {
    let out = provost.path(&format!("out-{who}"));
    fs::create_dir(&out).unwrap();
    for file in ["file", "file2", "victim", "movable", "long"] {
        fs::write(out.join(file), "as it was").unwrap();
    }
    out
}

#[test]
fn what_works_without_a_box_fails_in_one() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    board.repo().commit("call.py", CALL);
    let other = board.start("boxed", "write secret x\nhang");
    other.in_phase("running");
    let folder = PathBuf::from(other.status()["worktree"].as_str().unwrap());
    wait_until("it has written", || folder.join("secret").exists());
    let name = format!("provost-it-{}", provost.pid());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();

    let commands = |who: &str| {
        let out = outside(&provost, who);
        let fill = |text: &str| {
            [
                ("{call}", "from call import *".to_owned()),
                ("{out}", out.display().to_string()),
                ("{who}", who.to_owned()),
                ("{person}", provost.path("person").display().to_string()),
                ("{tools}", provost.path("tools").display().to_string()),
                ("{repo}", board.repo().path.display().to_string()),
                ("{home}", provost.home().display().to_string()),
                ("{programs}", provost.program().parent().unwrap().display().to_string()),
                ("{other}", folder.display().to_string()),
                ("{attempt}", other.id.clone()),
                ("{branch}", other.started["workspace_branch"].as_str().unwrap().to_owned()),
                ("{daemon}", provost.pid().to_string()),
                ("{leader}", other.leader().to_string()),
                ("{abstract}", name.clone()),
            ]
            .iter()
            .fold(text.to_owned(), |text, (key, value)| text.replace(key, value))
        };
        TOOLS
            .iter()
            .copied()
            .chain(ESCAPES.iter().map(|it| it.command))
            .map(fill)
            .collect::<Vec<_>>()
    };
    let free = ran(&board, "free", &commands("free"));
    let boxed = ran(&board, "boxed", &commands("boxed"));
    // Else the box would only seem to hold.
    for (tool, both) in TOOLS.iter().zip(free.iter().zip(&boxed)) {
        assert!(both.0.0 == 0 && both.1.0 == 0, "{tool}: {both:?}");
    }
    let (free, boxed) = (&free[TOOLS.len()..], &boxed[TOOLS.len()..]);
    let (mut shown, mut wrong) = (0, Vec::new());
    for ((escape, free), (code, text)) in ESCAPES.iter().zip(free).zip(boxed) {
        if free.0 == 0 {
            shown += 1;
        } else if !escape.privileged {
            wrong.push(format!("{} does not work without a box: {free:?}", escape.name));
        } else {
            eprintln!("{}: not possible here: {}", escape.name, free.1);
        }
        if *code == 0 {
            wrong.push(format!("{} gets out: {text}", escape.name));
        } else if free.0 == 0 && !REFUSED.iter().any(|word| text.contains(word)) {
            wrong.push(format!("{} fails for another reason: {code} {text}", escape.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(shown >= 60, "only {shown} escapes are proven");
    let out = provost.path("out-boxed");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 5, "nothing came, nothing went");
    assert!(
        fs::read_dir(&out)
            .unwrap()
            .flatten()
            .all(|file| { fs::read_to_string(file.path()).is_ok_and(|text| text == "as it was") })
    );
}

#[test]
fn the_work_of_an_attempt_can_be_done_in_the_box() {
    if !can_hold() {
        return;
    }
    let provost = provost().config("[executors.cached]\nprotocol = 'fake'\nsandbox = 'workspace'\nsandbox_write = ['~/cache/']").started();
    let board = provost.board();
    let program = provost.program().display().to_string();
    let hello = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "get_context", "arguments": {}},
    });
    let commands = [
        "echo a > a && git add a && git commit --quiet -m one".to_owned(),
        "echo b > a && git commit --quiet -a -m two && git commit --quiet --amend -m three".into(),
        "git branch --show-current && git log --oneline -g | wc -l && git status --short".into(),
        "git rebase --quiet HEAD~1 && git reset --quiet --hard HEAD".into(),
        "mktemp && echo x > $TMPDIR/x && cat $TMPDIR/x && ! [ -e $TMPDIR/../manifest.json ]".into(),
        "mkdir d && mv a d/a && mv d/a a && ln a hard && rm hard && ln -s a soft && rm soft".into(),
        "printf '#!/bin/sh\\necho ran' > s && chmod +x s && ./s && rm s".into(),
        "echo x > /dev/null && head -c 1 /dev/urandom > /dev/null".into(),
        "python3 -c 'import pty; pty.openpty()'".into(),
        format!("echo kept > {}", provost.path("person/cache/kept").display()),
        // The way back, as an agent starts it.
        format!("printf '%s\\n%s\\n' '{hello}' '{call}' | '{program}' mcp --role worker"),
    ];
    let lines: Vec<String> = commands.iter().map(|it| format!("run {it}")).collect();
    let attempt = board.start("cached", &lines.join("\n"));
    let status = attempt.settled();
    let results = results(&attempt);
    for (command, (code, text)) in commands.iter().zip(&results) {
        assert_eq!(*code, 0, "{command}: {text}");
    }
    assert!(results[10].1.contains(&attempt.id), "{:?}", results[10]);
    assert!(provost.path("person/cache/kept").exists());
    let branch = attempt.started["workspace_branch"].as_str().unwrap();
    wait_until("the branch is taken over", || {
        board.repo().git(&["log", "-1", "--format=%s", branch]) == "three"
    });
    assert_eq!(board.repo().git(&["log", "-1", "--format=%s", "main"]), "README.md");
    // git packs the references, and a later turn can still commit.
    board.repo().git(&["pack-refs", "--all"]);
    let sandbox = &status["sandbox"];
    assert_eq!(
        (&sandbox["level"], &sandbox["mechanism"]),
        (&json!("workspace"), &json!("landlock+seccomp"))
    );
    let held = sandbox["enforced"].as_array().unwrap();
    for what in ["files", "privileges", "syscalls", "signals", "abstract_sockets"] {
        assert!(held.contains(&json!(what)), "{sandbox}");
    }
    assert!(sandbox["open"].as_array().unwrap().contains(&json!("network")), "{sandbox}");
    let notices = attempt.said("system_message");
    assert!(notices.iter().any(|text| text.contains("runs in a sandbox")), "{notices:?}");
    let next = json!({"session_id": status["latest_session_id"], "action": "send", "prompt": "run echo c > a && git commit --quiet -a -m four"});
    provost.call("follow_up", &next);
    attempt.until("the second turn is over", |it| {
        it["phase"] == "settled" && it["latest_snapshot_turn"] == 2
    });
    assert_eq!(board.repo().git(&["log", "-1", "--format=%s", branch]), "four");
}

#[test]
fn the_variant_decides_and_an_attempt_without_a_box_says_nothing_of_one() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let key = provost.path("person/.ssh/id").display().to_string();
    let run = |executor: &str, variant: Value| {
        let prompt = format!("run cat {key}");
        let attempt = board.start_with(executor, &json!({"prompt": prompt, "variant": variant}));
        let status = attempt.settled();
        (results(&attempt)[0].0, status["sandbox"].clone(), attempt)
    };
    for (executor, variant, is_boxed) in [
        ("boxed", Value::Null, true),
        ("boxed", json!("unsafe"), false),
        ("mixed", Value::Null, false),
        ("mixed", json!("boxed"), true),
        ("fake", Value::Null, false),
    ] {
        let (code, receipt, _) = run(executor, variant.clone());
        assert_eq!((code != 0, receipt.is_object()), (is_boxed, is_boxed), "{executor} {variant}");
    }
    // One that begins without its executor's box can go on in it.
    let (_, _, attempt) = run("boxed", json!("unsafe"));
    let prompt = format!("run cat {key}");
    let send =
        json!({"attempt_id": attempt.id, "action": "send", "variant": "held", "prompt": prompt});
    provost.call("follow_up", &send);
    attempt.saved(2);
    assert_ne!(results(&attempt)[1].0, 0);
    // So can one whose executor has none.
    let (_, _, attempt) = run("mixed", Value::Null);
    let session = attempt.status()["latest_session_id"].clone();
    let next =
        json!({"session_id": session, "prompt": prompt, "variant": "boxed", "action": "send"});
    provost.call("follow_up", &next);
    attempt.saved(2);
    assert_ne!(results(&attempt)[1].0, 0);
}

#[test]
fn where_no_box_can_be_had_nothing_starts() {
    let provost = provost().variable("PROVOST_TEST_LANDLOCK_ABI", "2").started();
    let board = provost.board();
    let task = board.task("a task");
    let start = |executor: &str| json!({"task_id": task, "executor": executor, "prompt": "say x"});
    let refusal = provost.refusal("start_task_attempt", &start("boxed"));
    assert_eq!(refusal["code"], "sandbox_unavailable", "{refusal}");
    let hint = refusal["hint"].as_str().unwrap();
    assert!(hint.contains("sandbox = \"none\"") && hint.contains("provost doctor"), "{hint}");
    assert_eq!(board.repo().attempt_branches(), [] as [&str; 0]);
    let free = Attempt::new(&provost, provost.call("start_task_attempt", &start("free")));
    assert_eq!(free.settled()["state"], "completed");
    let checks: Value = serde_json::from_str(&provost.verb(["doctor", "--json"]).stdout).unwrap();
    let entry = checks.as_array().unwrap().iter().find(|check| check["name"] == "sandbox").unwrap();
    assert!(entry["message"].as_str().unwrap().contains("none can be had"), "{entry}");
}

#[test]
fn a_box_that_would_open_the_home_of_provost_is_not_made() {
    if !can_hold() {
        return;
    }
    let provost = provost();
    let root = provost.path("").display().to_string();
    let wide = format!(
        "[executors.wide]\nprotocol = 'fake'\nsandbox = 'workspace'\nsandbox_read = ['{root}']"
    );
    let provost = provost.config(&wide).started();
    let board = provost.board();
    let attempt = board.start("wide", "say x");
    let status = attempt.settled();
    assert_eq!(status["state"], "failed");
    let why = status["failure_summary"].as_str().unwrap();
    assert!(why.contains("where a folder of Provost's home lies"), "{why}");
    assert_eq!(attempt.said("assistant_message"), [] as [&str; 0]);
}

#[test]
fn what_an_agent_is_made_to_load_is_in_its_box_and_never_in_its_shim() {
    if !can_hold() || !needs(&[("cc", "gcc")]) {
        return;
    }
    let provost = provost();
    let outside = provost.path("loaded");
    let define = format!("-DOUTSIDE=\"{}\"", outside.display());
    let library = provost.path("preload.so");
    native::build("preload", &library, &["-shared", "-fPIC", &define]);
    let library = library.display();
    let config = format!(
        "[executors.loads]\nprotocol = 'fake'\nenv = {{ LD_PRELOAD = '{library}' }}\n\
         sandbox_read = ['{library}']\n[executors.loads.variants.boxed]\nsandbox = 'workspace'"
    );
    let provost = provost.config(&config).started();
    let board = provost.board();
    for is_boxed in [true, false] {
        let variant = is_boxed.then_some("boxed");
        let attempt = board.start_with("loads", &json!({"prompt": "say x", "variant": variant}));
        assert_eq!(attempt.settled()["state"], "completed");
        let said = attempt.said("system_message");
        assert!(said.contains(&"preloaded".to_owned()), "{said:?}");
        let loaded = fs::read_to_string(&outside).unwrap_or_default();
        assert_eq!(loaded.is_empty(), is_boxed, "{loaded}");
        assert!(!loaded.contains("__shim"), "{loaded}");
    }
}

#[test]
fn a_late_child_is_in_the_box_after_the_daemon_and_the_shim_were_killed() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let key = provost.path("person/.ssh/id").display().to_string();
    let script = format!(
        "run until [ -e go ]; do sleep 0.02; done; cat {key}\n\
         run setsid sh -c 'cat {key}; kill -0 {}'",
        provost.pid()
    );
    let attempt = board.start("boxed", &script);
    let leader = attempt.leader();
    provost.kill_and_start();
    attempt.in_phase("running");
    let shim = attempt.shim();
    crate::harness::processes::kill_hard(shim);
    wait_until("another shim has it", || attempt.shim() != shim);
    let status = attempt.in_phase("running");
    assert_eq!(attempt.leader(), leader);
    assert_eq!(status["sandbox"]["level"], "workspace");
    let folder = PathBuf::from(status["worktree"].as_str().unwrap());
    fs::write(folder.join("go"), "").unwrap();
    attempt.settled();
    for (code, text) in results(&attempt) {
        assert!(code != 0 && text.to_lowercase().contains("permission denied"), "{code} {text}");
    }
}
