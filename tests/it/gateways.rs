//! Clients of a board with several hosts: whichever gateway they talk to, and whatever becomes of it,
//! they see and steer the same attempts. They need a server, which `.ci/postgres COMMAND` gives them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};

use serde_json::json;

use crate::harness::postgres::{database, rows};
use crate::harness::{
    Attempt, PLAIN, Provost, TIMEOUT, Web, left_out, program, run_until, wait_until,
};

/// A host of a board, which its workers have in mirrors.
fn of_host(url: &str, name: &str, role: &str) -> Provost {
    let repositories = if role == "worker" { "mirrors" } else { "paths" };
    let config = format!(
        "[engine]\nurl = \"{url}\"\ndurability = \"single\"\n[host]\nname = \"{name}\"\n\
         role = \"{role}\"\nrepositories = \"{repositories}\"\n[daemon]\nmax_running_attempts = 1"
    );
    Provost::new().config(&config)
}

/// Two gateways, and three workers with a slot each.
struct Hosts {
    gateways: [Provost; 2],
    workers: [Provost; 3],
}

impl Hosts {
    fn with(url: &str, more: &str) -> Self {
        let host = |name, role| of_host(url, name, role).config(more).started();
        Self {
            gateways: ["g1", "g2"].map(|name| host(name, "gateway")),
            workers: ["w1", "w2", "w3"].map(|name| host(name, "worker")),
        }
    }
}

/// An example of this package that Cargo has built beside the program; `None`, after a line that
/// says so: it is not there.
fn example(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_provost")).with_file_name("examples").join(name);
    let is_there = path.exists() || left_out(&format!("it takes `cargo build --example {name}`"));
    is_there.then_some(path)
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Follows a log by the command line until that ends; its lines.
fn followed(host: &Provost, attempt: &str, raw: bool) -> Vec<String> {
    let mut follow = host.command(&["logs", "-f", attempt]);
    if raw {
        follow.arg("--raw");
    }
    let follow = follow.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut follow = Running(follow.spawn().unwrap());
    let (sender, lines) = mpsc::channel();
    let stdout = BufReader::new(follow.0.stdout.take().unwrap());
    std::thread::spawn(move || {
        stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let mut all = Vec::new();
    loop {
        match lines.recv_timeout(TIMEOUT) {
            Ok(line) => all.push(line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                panic!("the followed log neither goes on nor ends: {all:?}")
            }
        }
    }
    assert!(follow.0.wait().unwrap().success());
    all
}

/// The numbers of the lines `line N` in a text.
fn numbers(lines: &[String]) -> Vec<u32> {
    let number = |line: &String| {
        let rest = &line[line.find("line ")? + 5..];
        rest.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
    };
    lines.iter().filter_map(number).collect()
}

#[test]
fn a_log_is_followed_from_other_hosts_to_its_end_also_where_it_waits_for_a_host() {
    let Some(url) = database("faces_followed") else { return };
    let counts = "for n in $(seq 1 200); do echo line $n; sleep 0.02; done";
    let host = |name, role| of_host(&url, name, role).executor("counts", PLAIN, counts).started();
    let (gateway, worker) = (host("g1", "gateway"), host("w1", "worker"));
    let board = gateway.board();
    let gate = gateway.path("gate");
    let before = board.start("fake", &run_until(&gate));
    before.until("it runs", |status| status["phase"] == "running");
    let attempt = board.start("counts", "count");
    assert!(attempt.status()["host"].is_null(), "no host has a slot for it");
    let (from_gateway, raw, from_worker) = std::thread::scope(|scope| {
        let attempt = &attempt;
        let follow = |host, raw| {
            let id = attempt.id.clone();
            scope.spawn(move || followed(host, &id, raw))
        };
        let following = (follow(&gateway, false), follow(&gateway, true), follow(&worker, false));
        fs::write(&gate, "").unwrap();
        (following.0.join().unwrap(), following.1.join().unwrap(), following.2.join().unwrap())
    });
    let all: Vec<u32> = (1..=200).collect();
    assert_eq!(numbers(&raw), all, "each line once, in order");
    assert_eq!((numbers(&from_gateway), numbers(&from_worker)), (all.clone(), all.clone()));
    assert_eq!(attempt.settled()["host"], "w1");
    // One that has ended is shown to its end, too.
    assert_eq!(numbers(&followed(&gateway, &attempt.id, true)), all);
}

/// A `provost` that serves the home of a gateway whatever home is asked for, and does not end it.
fn program_of(gateway: &Provost) -> PathBuf {
    gateway.script(
        "through",
        &format!(
            "[ \"$1\" = shutdown ] || PROVOST_HOME={} exec {} \"$@\"",
            gateway.home().display(),
            env!("CARGO_BIN_EXE_provost"),
        ),
    )
}

/// Runs the orchestrator's example as it is.
fn orchestrate(gateway: &Provost, example: &Path) -> String {
    let folder = gateway.path("orchestrator");
    fs::create_dir_all(&folder).unwrap();
    let mut run = program(example);
    run.arg(program_of(gateway)).env("TMPDIR", &folder).env("HOME", gateway.path("person"));
    let done = Provost::done(run);
    assert_eq!(done.code, 0, "{done:?}");
    done.stdout
}

#[test]
fn the_orchestrators_example_drives_attempts_on_several_hosts_through_either_gateway() {
    let Some(url) = database("faces_orchestrated") else { return };
    let (Some(orchestrator), Some(executor)) = (example("orchestrate"), example("fake_executor"))
    else {
        return;
    };
    let executor =
        format!("[executors.scripted]\nprotocol = \"events\"\ncommand = [{}]\n", json!(executor));
    let hosts = Hosts::with(&url, &executor);
    let board = hosts.gateways[0].board();
    let used = || {
        let sql = "SELECT DISTINCT host FROM attempts WHERE executor = 'scripted' ORDER BY host";
        rows(&url, sql)
    };
    // What the first run has used is occupied in the second one.
    let gate = hosts.gateways[0].path("gate");
    for (gateway, name) in hosts.gateways.iter().zip(["g1", "g2"]) {
        let printed = orchestrate(gateway, &orchestrator);
        let wrote = "completed: I wrote NOTES.md: and the bread";
        for part in [wrote, r#""status":"added""#, r#"stopped with ["SIGINT"], 0 survivors"#] {
            assert!(printed.contains(part), "{part} through {name}: {printed}");
        }
        let first = used();
        for _ in &hosts.workers {
            let running = rows(&url, "SELECT host FROM attempts WHERE phase = 'running'");
            if name == "g2" || first.iter().all(|host| running.contains(host)) {
                break;
            }
            let attempt = board.start("fake", &run_until(&gate));
            attempt.until("it runs", |status| status["phase"] == "running");
        }
    }
    assert!(used().len() >= 2, "{:?}", used());
    assert!(used().iter().all(|host| host.starts_with('w')), "{:?}", used());
    fs::write(&gate, "").unwrap();
}

#[test]
fn a_client_whose_gateway_is_killed_goes_on_through_either_and_nothing_is_doubled() {
    let Some(url) = database("faces_killed") else { return };
    let hosts = Hosts::with(&url, "");
    let [one, two] = &hosts.gateways;
    let board = two.board();
    let (task, gate) = (board.task("over two gateways"), one.path("gate"));
    // The first gateway dies once it has asked a worker for the start, before it gets an answer.
    one.kill();
    one.start_to_die_at("host_call.committed");
    let mut client = one.bridge();
    client.initialize();
    let prompt = format!("say up\nwrite made.txt text\n{}", run_until(&gate));
    let start =
        json!({"task_id": task, "executor": "fake", "prompt": prompt, "request_id": "start"});
    let starting = client.begin("start_task_attempt", &start);
    one.ended();
    // The client asks the other one for the same.
    let mut other = two.bridge();
    other.initialize();
    let again = other.call("start_task_attempt", &start);
    let attempt = Attempt::new(two, again.output());
    // What was asked through the first one is answered by the daemon that its bridge starts anew.
    let answer = client.outcome(starting).unwrap().output();
    assert_eq!(answer["attempt_id"], json!(attempt.id));
    attempt.has_said("up");
    let listed = rows(&url, &format!("SELECT attempt_id FROM attempts WHERE task_id = '{task}'"));
    assert_eq!(listed, [attempt.id.as_str()]);

    // Killed under a wait, and a follow-up.
    let waiting = client
        .begin("wait_for_attempts", &json!({"attempt_ids": [attempt.id], "timeout_ms": 80_000}));
    client.call("get_attempt_status", &json!({"attempt_id": attempt.id}));
    one.is_started();
    one.kill();
    let more = json!({
        "attempt_id": attempt.id, "action": "queue", "prompt": "say more", "request_id": "more",
    });
    let queued = other.call("follow_up", &more);
    assert!(!queued.is_deduplicated);
    fs::write(&gate, "").unwrap();
    assert_eq!(client.outcome(waiting).unwrap().output()["timed_out"], false);
    let again = client.call("follow_up", &more);
    assert!(again.is_deduplicated, "{again:?}");
    attempt.until("the second turn has ended", |status| {
        status["phase"] == "settled" && status["latest_snapshot_turn"] == 2
    });
    two.kill();
    let merge = json!({"attempt_id": attempt.id, "action": "merge", "request_id": "merge"});
    let done = client.call("finish_attempt", &merge).output();
    assert_eq!(done["state"], "done", "{done}");
    let again = other.call("finish_attempt", &merge);
    assert!(again.is_deduplicated, "the bridge of the other gateway has started its daemon anew");
    assert_eq!(again.output()["finish_id"], done["finish_id"]);
    let turns = "SELECT turn || ' ' || status FROM processes
                 WHERE run_reason = 'coding_agent' ORDER BY turn";
    assert_eq!(rows(&url, turns), ["1 completed", "2 completed"]);
    assert_eq!(board.repo().git(&["rev-list", "--count", "--first-parent", "main"]).trim(), "2");
}

/// A browser without scripts at a gateway's page.
struct Browser {
    web: Web,
    cookie: String,
}

impl Browser {
    fn at(gateway: &Provost) -> Self {
        let web = Web::of(gateway);
        let cookie = web.log_in(gateway);
        Self { web, cookie }
    }

    fn get(&self, path: &str) -> String {
        let page = self.web.send(&format!("GET {path}"), &[("cookie", &self.cookie)], "");
        assert_eq!(page.status, 200, "{path}: {page:?}");
        page.body
    }

    /// Sends a form of the page; it leads to another page.
    fn send(&self, tool: &str, fields: &[(&str, &str)]) {
        let fields: Vec<String> =
            fields.iter().map(|(name, text)| format!("{name}={}", encoded(text))).collect();
        let origin = format!("http://{}", self.web.address);
        let headers = [
            ("cookie", self.cookie.as_str()),
            ("origin", &origin),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let page = self.web.send(&format!("POST /do/{tool}"), &headers, &fields.join("&"));
        assert_eq!(page.status, 303, "{tool} {fields:?}: {page:?}");
    }

    fn shows(&self, path: &str, text: &str) {
        wait_until(&format!("{path} shows {text}"), || self.get(path).contains(text));
    }
}

fn encoded(text: &str) -> String {
    let encoded = text.bytes().map(|byte| format!("%{byte:02X}"));
    encoded.collect::<Vec<_>>().concat()
}

#[test]
fn the_page_of_each_gateway_drives_attempts_of_worker_hosts() {
    let Some(url) = database("faces_page") else { return };
    let hosts = Hosts::with(&url, "");
    let board = hosts.gateways[0].board();
    for (gateway, name) in hosts.gateways.iter().zip(["g1", "g2"]) {
        let browser = Browser::at(gateway);
        let task = board.task(&format!("By the page of {name}"));
        browser.shows("/board", &format!("By the page of {name}"));
        let path = format!("/tasks/{task}");
        browser.shows(&format!("{path}/tools"), "action=\"/do/start_task_attempt\"");
        let file = format!("{name}.txt");
        let prompt = format!("say up\nwrite {file} text\nrun sleep 600");
        let start = [("task_id", task.as_str()), ("executor", "fake"), ("prompt", &prompt)];
        let fields = [start[0], start[1], start[2], ("_request_id", name), ("_back", &path)];
        // A double click is one call.
        browser.send("start_task_attempt", &fields);
        browser.send("start_task_attempt", &fields);
        let id = rows(&url, &format!("SELECT attempt_id FROM attempts WHERE task_id = '{task}'"));
        let [id] = &id[..] else { panic!("one attempt: {id:?}") };
        let attempt = Attempt::new(gateway, json!({"attempt_id": id}));
        let page = format!("/attempts/{id}");
        browser.shows(&format!("{page}/turns/1/entries"), "up");
        browser.shows(&format!("{page}/log?tab=raw&before=1"), "data-index=\"0\"");
        let status = attempt.status();
        let host = status["host"].as_str().unwrap();
        assert!(host.starts_with('w'), "{status}");
        browser.shows(&page, host);
        browser.send("stop_attempt", &[("attempt_id", id), ("_back", &page)]);
        browser.shows(&format!("{page}/head"), "killed");
        let more = [("attempt_id", id.as_str()), ("action", "queue"), ("prompt", "say more")];
        browser.send("follow_up", &more);
        browser.shows(&format!("{page}/turns/2/entries"), "more");
        attempt.saved(2);
        browser.shows(&format!("{page}/review"), &file);
        browser.send("finish_attempt", &[("attempt_id", id), ("action", "merge")]);
        assert_eq!(board.repo().git(&["show", &format!("main:{file}")]).trim(), "text");
        browser.shows(&format!("{page}/facts"), "Merge");
        let other = Browser::at(&hosts.gateways[usize::from(name == "g1")]);
        assert!(other.get(&page).contains(&format!("By the page of {name}")));
    }
}
