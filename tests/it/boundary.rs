//! The boundary around an attempt: who calls is what the kernel shows of the caller,
//! and from inside an attempt only so much can be called.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::conversations::{pending, with_agent};
use crate::harness::{Attempt, Board, Client, PLAIN, Provost, eventually, processes, wait_until};

/// An executor whose prompt is a shell script.
const SHELL: &str = "exec sh -c \"$(cat)\" 2>&1";

pub const GHOST: &str = include_str!("agents/ghost.py");

/// Provost with `agent`, which asks for permissions, `sh`, and `boss`: a shell too, which
/// is configured as an orchestrator. `None` without Python.
fn provost() -> Option<Provost> {
    let provost = with_agent("")?.executor("sh", PLAIN, SHELL).executor("boss", PLAIN, SHELL);
    fs::write(provost.path("ghost.py"), GHOST).unwrap();
    Some(provost.config("role = 'orchestrator'").started())
}

/// Runs a script in an attempt to its end; what it printed.
fn said(board: &Board<'_>, executor: &str, script: &str) -> String {
    let attempt = board.start(executor, script);
    attempt.settled();
    attempt.lines("stdout").join("\n")
}

fn path(provost: &Provost) -> String {
    provost.program().display().to_string()
}

/// The lines of a client: a hello, then these methods.
pub fn lines(hello: &Value, methods: &[(&str, Value)]) -> String {
    let requests = methods.iter().zip(1..).map(|((method, params), id)| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    });
    let lines: Vec<String> = std::iter::once(hello.to_string()).chain(requests).collect();
    format!("{}\n", lines.join("\n"))
}

/// A script that says these methods to the daemon's socket as a person's command line,
/// in one of the ghost's modes.
fn ghost(provost: &Provost, mode: &str, methods: &[(&str, Value)]) -> String {
    let hello = json!({"provost": "hello", "v": 1, "role": "all", "client": "cli"});
    let file = provost.path(&format!("requests-{mode}"));
    fs::write(&file, lines(&hello, methods)).unwrap();
    let (ghost, socket) = (provost.path("ghost.py"), provost.home().join("run/daemon.sock"));
    let [ghost, socket, file] =
        [ghost, socket, file].map(|path: PathBuf| path.display().to_string());
    format!("python3 '{ghost}' {mode} '{socket}' < '{file}'")
}

pub fn tool(name: &str, arguments: &Value) -> (&'static str, Value) {
    ("tools/call", json!({"name": name, "arguments": arguments}))
}

fn status_of(provost: &Provost, asked: &Value) -> Value {
    let all = json!({"attempt_id": asked["attempt_id"], "status": "all"});
    provost.call("list_inbox", &all)["approvals"][0]["status"].clone()
}

#[test]
fn no_way_from_inside_an_attempt_leads_to_an_approval() {
    let Some(provost) = provost() else { return };
    let board = provost.board();
    let asking = board.start("agent", "ask make");
    let asked = pending(&provost, &asking);
    let id = asked["approval_id"].as_str().unwrap();
    let (p, home) = (path(&provost), provost.home().display().to_string());
    let bare = format!("env -i PATH=\"$PATH\" PROVOST_HOME='{home}' '{p}' approve {id}");
    let respond = json!({"approval_id": id, "decision": "approve"});
    let ways = [
        format!("'{p}' approve {id}"),
        bare.clone(),
        format!("cd / && PROVOST_ATTEMPT_ID='{}' '{p}' approve {id}", asking.id),
        // What looks like a shim, also in a folder of shims.
        format!("mkdir z && cd z && printf '%s\\n' \"{}\" > __shim && bash __shim", quoted(&bare)),
        format!(
            "cd '{}' && printf '%s\\n' \"{}\" > __shim && bash __shim",
            asking.dir().display(),
            quoted(&bare)
        ),
        // A process that leaves its parents, its session and its environment.
        format!(
            "(setsid -f sh -c \"{} > out 2>&1; echo end >> out\") ; \
             until grep -qs end out; do sleep 0.02; done; cat out",
            quoted(&bare)
        ),
        ghost(&provost, "alive", &[tool("answer", &respond)]),
        ghost(&provost, "gone", &[tool("answer", &respond)]),
        format!("'{p}' call answer '{respond}'"),
        format!("'{p}' answer Q-001 yes"),
        format!("'{p}' plan add --help > /dev/null; '{p}' plan list"),
    ];
    for way in ways {
        let said = said(&board, "sh", &way);
        assert!(said.contains("not permitted") || said.contains("not_permitted"), "{way}: {said}");
        assert_eq!(status_of(&provost, &asked), "pending", "{way}");
    }
    // A shell of another person, in a worktree's folder and with an attempt's environment.
    let mut approve = provost.command(&["approve", id]);
    approve.env("PROVOST_ATTEMPT_ID", &asking.id).current_dir(worktree(&provost));
    assert_eq!(Provost::done(approve).code, 0);
    assert_eq!(asking.settled()["state"], "completed");
}

/// A text within double quotes of a shell.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$")
}

/// Some folder of a worktree.
fn worktree(provost: &Provost) -> PathBuf {
    let first = |dir: &Path| fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    first(&first(&provost.home().join("worktrees")))
}

#[test]
fn an_agent_has_the_workers_tools_whatever_it_says_it_is() {
    let Some(provost) = provost() else { return };
    let board = provost.board();
    let other = board.start("fake", "hang");
    other.in_phase("running");
    let p = path(&provost);
    let list = lines(
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        &[("tools/list", json!({}))],
    );
    for role in ["all", "orchestrator", "worker"] {
        let script =
            format!("env -u PROVOST_ATTEMPT_ID '{p}' mcp --role {role} <<'END'\n{list}END");
        let said = said(&board, "sh", &script);
        assert!(said.contains("\"getNextTask\"") && said.contains("\"get_context\""), "{said}");
        assert!(!said.contains("\"list_projects\""), "{role}: {said}");
    }
    let pid = provost.pid();
    let stop = json!({"attempt_id": other.id});
    let start = json!({"task_id": board.task("another"), "executor": "fake", "prompt": "say hi"});
    let methods = [
        ("provost/shutdown", json!({"stop_all": true})),
        ("provost/gc", json!({})),
        ("provost/hosts", json!({})),
        ("provost/change_host", json!({"host": "local", "change": "drain"})),
        ("provost/attempts", json!({"all": true})),
        ("provost/add_plan", json!({})),
        tool("stop_attempt", &stop),
        tool("start_task_attempt", &start),
        tool("create_project", &json!({"name": "x", "repos": [{"path": "/"}]})),
    ];
    for mode in ["alive", "gone"] {
        let said = said(&board, "sh", &ghost(&provost, mode, &methods));
        let answers: Vec<Value> =
            said.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), methods.len(), "{said}");
        for answer in answers {
            let refusal = match answer.get("error") {
                Some(error) => &error["data"],
                None => &answer["result"]["structuredContent"],
            };
            assert_eq!(refusal["code"], "not_permitted", "{mode}: {answer}");
            assert!(refusal["hint"].as_str().is_some_and(|hint| hint.len() > 20), "{answer}");
        }
    }
    assert_eq!(provost.pid(), pid);
    assert_eq!(other.status()["phase"], "running");
    let shown = provost.call("list_projects", &json!({}));
    assert_eq!(shown["projects"].as_array().unwrap().len(), 1, "{shown}");
}

#[test]
fn an_agent_is_of_its_own_attempt_whatever_its_environment_and_folder_say() {
    let Some(provost) = provost() else { return };
    let (board, elsewhere) = (provost.board(), Board::new(&provost, vec![provost.repo("other")]));
    let other = elsewhere.start("fake", "hang");
    other.in_phase("running");
    let p = path(&provost);
    let there = elsewhere.repo().path.display().to_string();
    let theirs = other.status()["task_id"].clone();
    let unset = "env -u PROVOST_ATTEMPT_ID -u PROVOST_PROJECT_ID -u PROVOST_TASK_ID";
    let script = format!(
        "cd '{there}'\n\
         PROVOST_ATTEMPT_ID='{other}' '{p}' call get_context '{{}}'\n\
         {unset} '{p}' call get_context '{{}}'\n\
         {unset} '{p}' call reportTaskStatus '{report}'\n\
         {unset} '{p}' call getNextTask '{{\"project_id\": \"{project}\"}}'\n",
        other = other.id,
        report = json!({"task_id": theirs, "status": "done"}),
        project = elsewhere.project_id,
    );
    let attempt = board.start("sh", &script);
    attempt.settled();
    let said = attempt.lines("stdout").join("\n");
    let own = format!("\"attempt_id\":\"{}\"", attempt.id);
    assert_eq!(said.matches(&own).count(), 2, "get_context tells its own: {said}");
    assert!(!said.contains(&other.id), "{said}");
    assert_eq!(said.matches("NOT_PERMITTED").count(), 2, "{said}");
    assert_eq!(other.status()["phase"], "running");
    let theirs = provost.call("get_task", &json!({"task_id": theirs}));
    assert_eq!(theirs["task"]["status"], "inprogress", "{theirs}");
}

#[test]
fn a_worker_holds_up_no_task_that_is_not_its_own() {
    let Some(provost) = provost() else { return };
    let board = provost.board();
    let theirs = board.task("somebody else's");
    let p = path(&provost);
    let failure = json!({"taskId": theirs, "testFile": "t.rs", "testName": "t",
        "previousStatus": "passing_before", "context": "c", "causePossibility": ["x"],
        "needsInvestigation": true, "actionNeeded": "look", "failureDetails": {"error": "boom",
        "expectedValue": 1, "actualValue": 2, "failedAssertion": "a"}});
    let ticket = |kind: &str| json!({"type": kind, "task_id": theirs, "title": "x"});
    let script = format!(
        "'{p}' call reportTestFailure '{failure}'\n\
         '{p}' call createTicket '{}'\n\
         '{p}' call createTicket '{}'\n",
        ticket("blocker"),
        ticket("ticket"),
    );
    let said = said(&board, "sh", &script);
    assert_eq!(said.matches("neither this attempt's nor claimed").count(), 2, "{said}");
    assert_eq!(said.matches("\"TK-001\"").count(), 1, "a ticket holds nothing up: {said}");
    let ready = provost.worker(&board.repo().path).ask("getNextTask", &json!({}));
    assert_eq!(ready["result"]["task"]["uuid"], json!(theirs), "{ready}");
}

/// A script that tries to approve each time that another gate is there.
fn at_gates(provost: &Provost, approval: &str, gates: u32) -> String {
    let (p, home) = (path(provost), provost.home().display().to_string());
    let gate = provost.path("gate").display().to_string();
    (1..=gates)
        .map(|number| {
            format!(
                "until [ -e '{gate}{number}' ]; do sleep 0.02; done\n\
                 env -i PATH=\"$PATH\" PROVOST_HOME='{home}' '{p}' approve {approval}\n\
                 echo tried {number}\n"
            )
        })
        .collect::<Vec<_>>()
        .concat()
}

#[test]
fn a_killed_daemon_and_a_killed_shim_let_no_process_out() {
    let Some(provost) = provost() else { return };
    let board = provost.board();
    let asking = board.start("agent", "ask make");
    let asked = pending(&provost, &asking);
    let script = at_gates(&provost, asked["approval_id"].as_str().unwrap(), 4);
    let attempt = board.start("sh", &script);
    attempt.in_phase("running");
    let mut tries = 0;
    let mut tries_again = |attempt: &Attempt<'_>| {
        tries += 1;
        fs::write(provost.path(&format!("gate{tries}")), "").unwrap();
        attempt.has_said(&format!("tried {tries}"));
    };
    provost.kill_and_start();
    tries_again(&attempt);
    // The shim is the first daemon's child: no daemon owns its orphans.
    processes::kill_hard(attempt.shim());
    wait_until("another shim goes on", || processes::working_in(&attempt.dir()).len() == 1);
    tries_again(&attempt);
    provost.kill_and_start();
    tries_again(&attempt);
    processes::kill_hard(attempt.shim());
    tries_again(&attempt);
    attempt.settled();
    let said = attempt.lines("stdout").join("\n");
    assert_eq!(said.matches("inside attempt").count(), 4, "{said}");
    assert!(said.matches(&attempt.id).count() >= 4, "{said}");
    assert_eq!(status_of(&provost, &asked), "pending");
}

#[test]
fn the_orphans_of_a_killed_shim_are_inside() {
    let Some(provost) = provost() else { return };
    let board = provost.board();
    let asking = board.start("agent", "ask make");
    let asked = pending(&provost, &asking);
    let way = at_gates(&provost, asked["approval_id"].as_str().unwrap(), 1);
    let out = provost.path("out");
    // It leaves its session, its parents and its environment first.
    let script = format!(
        "setsid -f env -i PATH=\"$PATH\" sh -c \"{}\" > '{}' 2>&1; hang() {{ sleep 600; }}; hang",
        quoted(&way),
        out.display()
    );
    let attempt = board.start("sh", &script);
    attempt.in_phase("running");
    wait_until("the orphan is there", || out.exists());
    let shim = attempt.shim();
    processes::kill_hard(shim);
    wait_until("another shim goes on", || {
        processes::working_in(&attempt.dir()).iter().any(|pid| *pid != shim)
    });
    fs::write(provost.path("gate1"), "").unwrap();
    let said = eventually("it has tried", || {
        fs::read_to_string(&out).ok().filter(|said| said.contains("tried 1"))
    });
    assert!(said.contains("inside attempt") || said.contains("counts as inside"), "{said}");
    assert_eq!(status_of(&provost, &asked), "pending");
    attempt.stop_by_force();
}

#[test]
fn no_daemon_is_started_inside_an_attempt_of_its_home() {
    let Some(provost) = provost() else { return };
    let board = provost.board();
    let (p, gate) = (path(&provost), provost.path("gate").display().to_string());
    let home = provost.home().display().to_string();
    let script = format!(
        "until [ -e '{gate}' ]; do sleep 0.02; done\n\
         env -i PATH=\"$PATH\" PROVOST_HOME='{home}' '{p}' ps\n"
    );
    let attempt = board.start("sh", &script);
    attempt.in_phase("running");
    provost.kill();
    fs::write(&gate, "").unwrap();
    wait_until("the script has ended", || attempt_is_over(&provost, &attempt.id));
    provost.start();
    attempt.settled();
    let said = attempt.lines("stdout").join("\n");
    assert!(said.contains(&format!("part of attempt {}", attempt.id)), "{said}");
}

/// Whether an attempt's process has an exit record.
fn attempt_is_over(provost: &Provost, attempt: &str) -> bool {
    let dir = provost.home().join("attempts").join(attempt);
    let mut folders = fs::read_dir(dir).unwrap().flatten();
    folders.any(|folder| folder.path().join("exit.json").exists())
}

#[test]
fn an_orchestrator_inside_reaches_its_own_children_and_its_project() {
    let Some(provost) = provost() else { return };
    let (board, elsewhere) = (provost.board(), Board::new(&provost, vec![provost.repo("other")]));
    let task = board.task("for a child");
    let others = board.start("agent", "ask make");
    let asked = pending(&provost, &others);
    let p = path(&provost);
    let call =
        |tool: &str, arguments: &Value| format!("'{p}' call {tool} '{arguments}'; echo \"= $?\"\n");
    let start = json!({"task_id": task, "executor": "agent", "prompt": "ask make"});
    let permitted = [
        ("get_context", json!({})),
        ("list_tasks", json!({"project_id": board.project_id})),
        ("get_task", json!({"task_id": task})),
        ("create_task", json!({"project_id": board.project_id, "title": "one more"})),
        ("list_executors", json!({})),
        ("getNextTask", json!({})),
    ];
    let refused = [
        ("list_projects", json!({})),
        ("list_tasks", json!({"project_id": elsewhere.project_id})),
        ("create_task", json!({"project_id": elsewhere.project_id, "title": "x"})),
        ("get_attempt_status", json!({"attempt_id": others.id})),
        ("stop_attempt", json!({"attempt_id": others.id})),
        ("follow_up", json!({"attempt_id": others.id, "action": "queue", "prompt": "x"})),
        ("list_inbox", json!({})),
        ("list_inbox", json!({"attempt_id": others.id})),
        ("answer", json!({"approval_id": asked["approval_id"], "decision": "approve"})),
        ("create_project", json!({"name": "x", "repos": [{"path": "/"}]})),
        ("delete_task", json!({"task_id": task})),
        ("comment_on_changes", json!({"attempt_id": others.id, "action": "submit"})),
        ("finish_attempt", json!({"attempt_id": others.id, "action": "commit"})),
    ];
    let calls = |calls: &[(&str, Value)]| -> String {
        calls.iter().map(|(tool, arguments)| call(tool, arguments)).collect()
    };
    // A child's approval is its parent's to give; an own child is its to stop.
    let child = format!(
        "child=$('{p}' call start_task_attempt '{start}' | tr ',' '\\n' | \
             sed -n 's/.*\"attempt_id\": *\"\\([^\"]*\\)\".*/\\1/p' | head -1)\n\
         echo \"child $child\"\n\
         list() {{ '{p}' call list_inbox \"{{\\\"attempt_id\\\": \\\"$child\\\"}}\"; }}\n\
         until list | grep -q approval_id; do sleep 0.05; done\n\
         id=$(list | tr ',' '\\n' | sed -n 's/.*\"approval_id\": *\"\\([^\"]*\\)\".*/\\1/p' | head -1)\n\
         '{p}' call answer \"{{\\\"approval_id\\\": \\\"$id\\\", \\\"decision\\\": \\\"approve\\\"}}\" > /dev/null\n\
         echo \"approved $?\"\n\
         '{p}' call wait_for_attempts \"{{\\\"attempt_ids\\\": [\\\"$child\\\"]}}\" > /dev/null\n\
         echo \"waited $?\"\n\
         '{p}' call stop_attempt \"{{\\\"attempt_id\\\": \\\"$child\\\"}}\" > /dev/null\n\
         echo \"stopped $?\"\n"
    );
    let own = "'PROVOST' call update_task \"{\\\"task_id\\\": \\\"$PROVOST_TASK_ID\\\", \\\"status\\\": \\\"done\\\"}\"; echo \"= $?\"\n";
    let script = format!(
        "{}echo ---\n{}{}echo ---\n{child}'{p}' shutdown; echo \"shutdown $?\"\n",
        calls(&permitted),
        calls(&refused),
        own.replace("PROVOST'", &format!("{p}'")).replace("''", "'"),
    );
    let said = said(&board, "boss", &script);
    let parts: Vec<&str> = said.split("---").collect();
    assert_eq!(parts[0].matches("= 0").count(), permitted.len(), "{}", parts[0]);
    assert_eq!(parts[1].matches("= 1").count(), refused.len() + 1, "{}", parts[1]);
    assert_eq!(
        parts[1].matches("\"code\":\"not_permitted\"").count(),
        refused.len() + 1,
        "{}",
        parts[1]
    );
    for word in ["approved 0", "waited 0", "stopped 0", "shutdown 1"] {
        assert!(parts[2].contains(word), "{word}: {}", parts[2]);
    }
    let child = parts[2].lines().find_map(|line| line.strip_prefix("child ")).unwrap();
    let child = provost.call("get_attempt_status", &json!({"attempt_id": child}));
    assert_eq!(child["task_id"], json!(task), "{child}");
    assert_eq!(status_of(&provost, &asked), "pending");
}

#[test]
fn outside_the_environment_and_the_folder_only_choose_the_default() {
    let Some(provost) = provost() else { return };
    let attempt = provost.board().start("fake", "hang");
    attempt.in_phase("running");
    let tools = |client: &mut Client| {
        let listed = client.ask("tools/list", &json!({}))["result"]["tools"].clone();
        let names = listed.as_array().unwrap().iter();
        names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let has = |names: &[String], name: &str| names.iter().any(|it| it == name);
    for folder in [worktree(&provost), provost.path("")] {
        let inside = |args: &[&str]| {
            let mut command = provost.command(args);
            command.current_dir(&folder).env("PROVOST_ATTEMPT_ID", &attempt.id);
            Client::over_bridge(command)
        };
        let worker = tools(&mut inside(&["mcp"]));
        assert!(has(&worker, "getNextTask") && !has(&worker, "stop_attempt"), "{worker:?}");
        let all = tools(&mut inside(&["mcp", "--role", "all"]));
        assert!(has(&all, "getNextTask") && has(&all, "stop_attempt"), "{all:?}");
        let mut person = provost.command(&["ps"]);
        person.current_dir(&folder).env("PROVOST_ATTEMPT_ID", &attempt.id);
        assert_eq!(Provost::done(person).code, 0);
    }
    let mut stop = provost.command(&["stop", &attempt.id]);
    stop.current_dir(worktree(&provost));
    assert_eq!(Provost::done(stop).code, 0);
}

#[test]
fn a_check_is_no_way_out_of_an_attempt() {
    let Some(provost) = with_agent("") else { return };
    let provost = provost.executor("sh", PLAIN, SHELL);
    let tried = provost.path("tried");
    let (p, file) = (path(&provost), tried.display().to_string());
    let home = provost.home().display().to_string();
    let script =
        format!("env PROVOST_HOME='{home}' '{p}' ps > '{file}' 2>&1; echo code $? >> '{file}'");
    let script = provost.script("check", &script).display().to_string();
    let checks = format!("[projects.scratch.checks]\nsneak = '{script}'");
    let provost = provost.config(&checks).started();
    let board = provost.board();
    let done = json!({"task_id": "TASK-001", "status": "done"});
    said(&board, "sh", &format!("echo x > x; '{p}' call reportTaskStatus '{done}'"));
    let said = eventually("the check has run", || {
        fs::read_to_string(&tried).ok().filter(|said| said.contains("code"))
    });
    assert!(said.contains("not permitted") && said.contains("code 1"), "{said}");
}
