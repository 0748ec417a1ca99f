//! The door between a box and Provost: whichever way a process in a box takes, it has the worker's
//! tools of its own attempt and nothing more.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{can_hold, provost, ran, results};
use crate::boundary::{GHOST, lines, tool};
use crate::harness::{Attempt, Board, Web, processes, wait_until};

/// Asks a shim for what its daemon asks it.
const SHIM: &str = "import os, socket, sys
os.chdir(sys.argv[1])
s = socket.socket(socket.AF_UNIX)
s.connect('sock')
try:
    sys.exit(0 if s.recv(99) else 'not permitted')
except ConnectionResetError:
    sys.exit('not permitted')
";

/// What the ways need, in the repository.
fn furnish(board: &Board<'_>, other: &Attempt<'_>) {
    let stop = json!({"attempt_id": other.id});
    let methods =
        [tool("list_projects", &json!({})), tool("stop_attempt", &stop), tool("gc", &json!({}))];
    for client in ["cli", "bridge"] {
        let hello = json!({"provost": "hello", "v": 1, "role": "all", "client": client});
        board.repo().commit(client, &lines(&hello, &methods));
    }
    board.repo().commit("ghost.py", GHOST);
    board.repo().commit("shim.py", SHIM);
}

#[test]
fn no_way_to_provost_gives_more_than_the_workers_tools() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let other = board.start("boxed", "hang");
    other.in_phase("running");
    furnish(&board, &other);
    let web = Web::of(&provost);
    let (p, home) = (provost.program().display(), provost.home().display());
    let socket = format!("{home}/run/daemon.sock");
    let bare = format!("env -i PATH=\"$PATH\" PROVOST_HOME={home} {p}");
    let call =
        format!("call stop_attempt {{\"attempt_id\":\"{}\"}}", other.id).replace('"', "\\\"");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let own = format!("{home}/attempts/$PROVOST_ATTEMPT_ID/$PROVOST_PROCESS_ID");
    let ways = [
        format!("python3 ghost.py alive {socket} < cli"),
        format!("python3 ghost.py gone {socket} < cli"),
        format!("python3 ghost.py alive {socket} < bridge"),
        format!("{p} {call}"),
        format!("{bare} {call}"),
        format!("cd / && PROVOST_ATTEMPT_ID={} PROVOST_PROCESS_ID= {p} {call}", other.id),
        format!("env PROVOST_ATTEMPT_ID=x PROVOST_SESSION_ID=x {p} shutdown --stop-all"),
        // It leaves its parents, its session and its environment.
        format!(
            "setsid -f sh -c '(setsid sh -c \"{bare} call list_projects {{}}\" > o 2>&1; echo end >> o) &'; \
             until grep -qs end o; do sleep 0.02; done; cat o"
        ),
        format!("echo '{list}' | {bare} mcp --role all"),
        format!("echo '{list}' | {bare} mcp --role orchestrator"),
        format!(
            "python3 -c 'import urllib.request as u; u.urlopen(u.Request(\"http://{}/api/v1/openapi.json\", headers={{\"Authorization\": \"{}\"}}))'",
            web.address,
            web.bearer()
        ),
        format!("python3 shim.py {own}"),
        format!("python3 shim.py {}", other.dir().display()),
    ];
    for (way, (_, said)) in ways.iter().zip(ran(&board, "boxed", &ways)) {
        let is_refused =
            ["not permitted", "not_permitted", "403"].iter().any(|it| said.contains(it));
        let is_workers = said.contains("\"getNextTask\"") && !said.contains("\"list_projects\"");
        assert!(is_refused || is_workers, "{way}: {said}");
    }
    assert_eq!(other.status()["phase"], "running", "nothing has stopped it");
    assert_eq!(provost.verb(["ps"]).code, 0, "the daemon lives, and serves a person");
}

#[test]
fn an_agent_in_a_box_starts_others_in_boxes_alone() {
    if !can_hold() {
        return;
    }
    let lead = "[executors.lead]\nprotocol = 'fake'\nsandbox = 'workspace'\nrole = 'orchestrator'";
    let provost = provost().config(lead).started();
    let board = provost.board();
    let (p, key) = (provost.program().display(), provost.path("person/.ssh/id"));
    let start = |executor: &str, variant: Value| {
        let start = json!({"task_id": board.task("another"), "executor": executor,
            "variant": variant, "prompt": format!("run cat {}", key.display())});
        format!("{p} call start_task_attempt '{start}'")
    };
    let ways = [
        start("free", Value::Null),
        start("boxed", json!("unsafe")),
        start("mixed", Value::Null),
        start("boxed", Value::Null),
    ];
    let said = ran(&board, "lead", &ways);
    for (code, said) in &said[..3] {
        assert!(*code != 0 && said.contains("runs in the sandbox"), "{said}");
    }
    let (code, started) = &said[3];
    assert_eq!(*code, 0, "{started}");
    let attempt = Attempt::new(&provost, serde_json::from_str(started).unwrap());
    assert_eq!(attempt.settled()["sandbox"]["level"], "workspace");
    let send =
        json!({"attempt_id": attempt.id, "action": "send", "variant": "unsafe", "prompt": "say x"});
    assert_eq!(provost.refusal("follow_up", &send)["code"], "not_permitted");
}

#[test]
fn a_late_child_has_the_workers_tools_alone_after_the_daemon_and_the_shim_were_killed() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let (p, home) = (provost.program().display(), provost.home().display());
    let attempt = board.start(
        "boxed",
        &format!(
            "run setsid -f sh -c 'until [ -e go ]; do sleep 0.02; done; \
             env -i PROVOST_HOME={home} {p} call list_projects {{}} > o 2>&1; echo end >> o'\nhang"
        ),
    );
    let leader = attempt.leader();
    provost.kill_and_start();
    attempt.in_phase("running");
    let shim = attempt.shim();
    processes::kill_hard(shim);
    wait_until("another shim has it", || attempt.shim() != shim);
    assert_eq!(attempt.leader(), leader);
    let folder = PathBuf::from(attempt.in_phase("running")["worktree"].as_str().unwrap());
    fs::write(folder.join("go"), "").unwrap();
    let said = || fs::read_to_string(folder.join("o")).unwrap_or_default();
    wait_until("it has tried", || said().contains("end"));
    assert!(said().contains("not permitted"), "{}", said());
}

#[test]
fn what_an_agent_in_a_box_starts_opens_no_more_than_its_own_lists() {
    if !can_hold() {
        return;
    }
    let boxed = "protocol = 'fake'\nsandbox = 'workspace'\nsandbox_write";
    let config = format!(
        "[executors.lead]\nrole = 'orchestrator'\n{boxed} = ['~/cache/']\n\
         [executors.alike]\n{boxed} = ['~/cache/']\n[executors.wide]\n{boxed} = ['~/other/']"
    );
    let provost = provost().config(&config).started();
    let board = provost.board();
    let p = provost.program().display();
    let ways = ["alike", "wide"].map(|executor| {
        let task = board.task("another");
        let start = json!({"task_id": task, "executor": executor, "prompt": "say x"});
        format!("{p} call start_task_attempt '{start}'")
    });
    let said = ran(&board, "lead", &ways);
    assert_eq!(said[0].0, 0, "{}", said[0].1);
    let (code, said) = &said[1];
    assert!(*code != 0 && said.contains("~/other/") && said.contains("[executors.lead]"), "{said}");
}

#[test]
fn a_question_of_an_agent_in_a_box_is_not_answered_with_less() {
    if !can_hold() {
        return;
    }
    let config = "[answers]\nexecutor = 'free'\nvariant = ''";
    let provost = provost().config(config).started();
    let board = provost.board();
    let attempts = || provost.rows("SELECT count(*) || '' FROM attempts");
    let attempt = board.start("boxed", "hang");
    attempt.in_phase("running");
    let mut worker = provost.inside(&attempt.id);
    worker.initialize();
    let ask = json!({"query": "Which library?", "max_wait_seconds": 600});
    let answer = worker.ask("callCOEAgent", &ask);
    assert!(answer.to_string().contains("holds less than yours"), "{answer}");
    assert_eq!(attempts(), ["1"], "nothing was started for it");
    let inbox = provost.call("list_inbox", &json!({}));
    assert!(inbox.to_string().contains("Which library?"), "{inbox}");
    attempt.stop();
    let free = board.start("free", "hang");
    free.in_phase("running");
    let mut worker = provost.inside(&free.id);
    worker.initialize();
    worker.ask("callCOEAgent", &json!({"query": "Which tool?", "max_wait_seconds": 600}));
    assert_eq!(attempts(), ["3"], "for one without a box it is");
    free.stop();
}

#[test]
fn a_question_of_who_hides_its_attempt_is_left_to_a_person() {
    if !can_hold() {
        return;
    }
    let provost = provost().config("[answers]\nexecutor = 'free'\nvariant = ''").started();
    let board = provost.board();
    let ask = json!({"query": "Which library?", "project_id": board.project_id,
        "max_wait_seconds": 600});
    let hello = json!({"provost": "hello", "v": 1, "role": "worker", "client": "bridge"});
    board.repo().commit("ask", &lines(&hello, &[tool("callCOEAgent", &ask)]));
    board.repo().commit("ghost.py", GHOST);
    let socket = format!("{}/run/daemon.sock", provost.home().display());
    let attempt = board.start(
        "boxed",
        &format!(
            "run until [ -e go ]; do sleep 0.02; done; python3 ghost.py gone {socket} gone < ask"
        ),
    );
    let folder = PathBuf::from(attempt.in_phase("running")["worktree"].as_str().unwrap());
    // The daemon looks at who has connected only after that process has ended.
    processes::signal(provost.pid(), Signal::SIGSTOP);
    fs::write(folder.join("go"), "").unwrap();
    wait_until("who connected is gone", || folder.join("gone").exists());
    processes::signal(provost.pid(), Signal::SIGCONT);
    attempt.settled();
    let said = &results(&attempt)[0].1;
    assert!(said.contains("it is not known which attempt asks"), "{said}");
    assert_eq!(provost.rows("SELECT count(*) || '' FROM attempts"), ["1"], "nothing was started");
    let inbox = provost.call("list_inbox", &json!({}));
    assert!(inbox.to_string().contains("Which library?"), "{inbox}");
}
