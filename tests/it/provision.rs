//! Ready worktrees: what is configured for a repository, copied files, setup, ports and trust.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use crate::cleanup::collected;
use crate::harness::{Attempt, Board, Provost, Repo, wait_until};

/// A daemon with settings of the person for the repository `app` of the board's project.
fn configured(keys: &str) -> Provost {
    Provost::new().config(&format!("[projects.scratch.repos.app]\n{keys}")).started()
}

fn ignore(repo: &Repo, patterns: &str) {
    repo.commit(".gitignore", patterns);
}

fn write(repo: &Repo, path: &str, text: &str) {
    let path = repo.path.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn worktree(attempt: &Attempt) -> PathBuf {
    PathBuf::from(attempt.status()["worktree"].as_str().unwrap())
}

fn of_app(status: &Value) -> Value {
    status["provision"]["repos"]["app"].clone()
}

/// The reasons of failed starts, as a client sees them.
fn failure(attempt: &Attempt) -> String {
    let status = attempt.settled();
    assert_eq!(status["state"], "failed", "{status}");
    status["failure_summary"].as_str().unwrap().to_owned()
}

#[test]
fn ignored_files_are_copied_and_their_credentials_are_hidden() {
    let provost = configured("copy = ['/.env', 'node_modules/']");
    let board = provost.board();
    ignore(board.repo(), ".env\nnode_modules/\nbuild/\n");
    write(board.repo(), ".env", "DB_URL=postgres://u:hunter22@host/db\n");
    write(board.repo(), "node_modules/a/index.js", "module");
    write(board.repo(), "build/out", "not asked for");
    let attempt = board.start("fake", "run cat .env node_modules/a/index.js; ls -A");
    let status = attempt.settled();
    assert_eq!(status["state"], "completed", "{status}");
    let said = attempt.said("tool_result").concat();
    assert!(said.contains("module") && said.contains("node_modules"), "{said}");
    assert!(!said.contains("hunter22") && !said.contains("build"), "{said}");
    let copied = &of_app(&status)["copied"];
    assert_eq!((&copied["files"], &copied["left_out_count"]), (&json!(2), &json!(0)), "{copied}");
    assert_eq!(copied["bytes"], 43);
    // No commit has what was lent, staged or not.
    let send = |prompt: &str| {
        let send = json!({"action": "send", "attempt_id": attempt.id, "prompt": prompt});
        provost.call("follow_up", &send);
    };
    send("run printf 'A_TOKEN=https://evil.example\\n' >> .env; git add -f .env");
    attempt.saved(2);
    let commit = json!({"attempt_id": attempt.id, "action": "commit", "timeout_ms": 60_000});
    let ended = provost.call("finish_attempt", &commit);
    assert_eq!(ended["state"], "done", "{ended}");
    let all = board.repo().git(&["log", "--all", "--format=", "--name-only"]);
    assert!(!all.contains(".env"), "{all}");
    // What the agent wrote there is not taken out of what a person reads.
    send("run cat .env; git add -f .env; git -c user.name=a -c user.email=a@b commit -q -m mine");
    attempt.saved(3);
    let said = attempt.said("tool_result").concat();
    assert!(said.contains("evil.example") && !said.contains("hunter22"), "{said}");
    let merge = json!({"attempt_id": attempt.id, "action": "merge", "timeout_ms": 60_000});
    let refused = provost.refusal("finish_attempt", &merge);
    assert!(refused["message"].as_str().unwrap().contains("a file of credentials"), "{refused}");
    for file in ["manifest.json", "raw.idx"] {
        let text = fs::read(attempt.dir().join(file)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains("hunter22"), "{file}");
    }
    assert_eq!(board.repo().git(&["status", "--porcelain"]), "", "the checkout is as it was");
}

#[test]
fn a_worktreeinclude_file_is_an_allow_list_over_ignored_files() {
    let provost = Provost::running();
    let board = provost.board();
    ignore(board.repo(), "*.tmp\nsecret.pem\n.env\n");
    board.repo().commit(".worktreeinclude", "# all\n*\n../../*\n");
    let reason = failure(&board.start("fake", "say never"));
    assert!(reason.contains(".worktreeinclude:3: `../../*` must be a pattern"), "{reason}");
    board.repo().commit(".worktreeinclude", "# all\n*\n!keep.tmp\n.env\n");
    write(board.repo(), ".env", "A=b");
    write(board.repo(), "a.tmp", "ignored");
    write(board.repo(), "keep.tmp", "ignored");
    write(board.repo(), "new.txt", "git would add it");
    write(board.repo(), "secret.pem", "-----BEGIN PRIVATE KEY-----");
    fs::write(board.repo().path.join("README.md"), "changed, not committed").unwrap();
    let attempt = board.start("fake", "say done");
    // Credentials that the repository's own file names are a person's to give.
    attempt.in_phase("waiting");
    let there = worktree(&attempt);
    assert!(!there.join(".env").exists() && !there.join("a.tmp").exists());
    let shown = provost.verb(["trust", &attempt.id, "--yes"]);
    assert!(shown.stdout.contains(".worktreeinclude: .env"), "{shown:?}");
    let status = attempt.settled();
    assert!(there.join("a.tmp").exists() && there.join(".env").exists());
    for missing in ["keep.tmp", "new.txt", "secret.pem"] {
        assert!(!there.join(missing).exists(), "{missing}");
    }
    assert_eq!(fs::read_to_string(there.join("README.md")).unwrap(), "a scratch repository\n");
    let copied = &of_app(&status)["copied"];
    assert_eq!((&copied["files"], &copied["left_out_count"]), (&json!(2), &json!(1)), "{copied}");
    let reason = copied["left_out"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("add the line `/secret.pem`"), "{reason}");
}

#[test]
fn links_pipes_and_files_outside_are_never_followed() {
    let provost = configured("copy = ['data', 'linked', '*.link']");
    let board = provost.board();
    ignore(board.repo(), "/data/\n/linked\n*.link\n");
    let outside = provost.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    write(board.repo(), "data/file", "ours");
    symlink(outside.join("secret"), board.repo().path.join("data/a.link")).unwrap();
    symlink(&outside, board.repo().path.join("linked")).unwrap();
    mkfifo(&board.repo().path.join("data/pipe"), Mode::S_IRWXU).unwrap();
    let attempt = board.start("fake", "run find . -type l -o -type p");
    let status = attempt.settled();
    assert_eq!(status["state"], "completed", "{status}");
    assert_eq!(attempt.said("tool_result").concat(), "");
    let copied = &of_app(&status)["copied"];
    assert_eq!((&copied["files"], &copied["left_out_count"]), (&json!(1), &json!(2)), "{copied}");
    let notices = attempt.said("system_message").concat();
    let named = "data/a.link (it is a link that leads out of the worktree)";
    assert!(
        notices.contains("some were left out: 2 in the worktree of app") && notices.contains(named),
        "{notices}"
    );
}

#[test]
fn the_programs_of_a_copied_node_modules_run() {
    let provost = configured("copy = ['node_modules/']");
    let board = provost.board();
    ignore(board.repo(), "node_modules/\n");
    write(board.repo(), "node_modules/tool/cli.sh", "#!/bin/sh\necho it ran\n");
    let tool = board.repo().path.join("node_modules/tool/cli.sh");
    fs::set_permissions(tool, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(board.repo().path.join("node_modules/.bin")).unwrap();
    symlink("../tool/cli.sh", board.repo().path.join("node_modules/.bin/tool")).unwrap();
    let attempt = board.start("fake", "run node_modules/.bin/tool");
    let copied = of_app(&attempt.settled())["copied"].clone();
    assert_eq!(attempt.said("tool_result"), ["it ran"]);
    assert_eq!((&copied["links"], &copied["left_out_count"]), (&json!(1), &json!(0)), "{copied}");
    assert!(!attempt.said("system_message").concat().contains("left out"));
}

#[test]
fn a_checkout_that_became_a_link_fails_the_attempt() {
    let provost = configured("copy = ['*.tmp']");
    let board = provost.board();
    ignore(board.repo(), "*.tmp\n");
    write(board.repo(), "a.tmp", "x");
    let away = provost.path("away");
    fs::rename(&board.repo().path, &away).unwrap();
    symlink(&away, &board.repo().path).unwrap();
    let failure = failure(&board.start("fake", "say never"));
    assert!(failure.starts_with("setup of app: "), "{failure}");
    assert!(failure.contains("a link stands on the way there"), "{failure}");
}

#[test]
fn a_setup_runs_before_the_agent_with_a_log_and_a_process_of_its_own() {
    let provost = configured("setup = { run = 'echo made > made.txt; echo one; echo two >&2' }");
    let board = provost.board();
    let attempt = board.start("fake", "run cat made.txt");
    let status = attempt.settled();
    assert_eq!(status["state"], "completed", "{status}");
    assert_eq!(attempt.said("tool_result"), ["made"]);
    assert_eq!(of_app(&status)["setup"]["state"], "done");
    let entries = attempt.normalized();
    let starts: Vec<&Value> =
        entries.iter().filter(|entry| entry["kind"] == "process_start").collect();
    let reasons: Vec<&Value> = starts.iter().map(|entry| &entry["run_reason"]).collect();
    assert_eq!(reasons, ["setup_script", "coding_agent"]);
    let process = &of_app(&status)["setup"]["process_id"];
    assert_eq!(starts[0]["execution_process_id"], *process);
    assert_ne!(status["latest_execution_process_id"], *process);
    assert_eq!(attempt.lines("stderr"), ["two"]);
    let indices: Vec<i64> =
        entries.iter().map(|entry| entry["entry_index"].as_i64().unwrap()).collect();
    assert_eq!(indices, (0..i64::try_from(entries.len()).unwrap()).collect::<Vec<_>>());
    assert_eq!(provost.verb(["replay", &attempt.id]).code, 0);
    // Once for a worktree.
    provost.call(
        "follow_up",
        &json!({"action": "send", "attempt_id": attempt.id, "prompt": "run cat made.txt"}),
    );
    wait_until("the second turn", || attempt.said("tool_result").len() == 2);
    attempt.settled();
    let starts = attempt.normalized();
    let setups = starts.iter().filter(|entry| entry["run_reason"] == "setup_script");
    assert_eq!(setups.count(), 1);
}

#[test]
fn a_setup_that_fails_fails_the_attempt_and_a_follow_up_runs_it_again() {
    let provost = Provost::new();
    let gate = provost.path("gate");
    let run = format!("echo looking; echo the gate is missing; test -e {}", gate.display());
    let provost =
        provost.config(&format!("[projects.scratch.repos.app.setup]\nrun = '{run}'")).started();
    let board = provost.board();
    let attempt = board.start("fake", "say begun");
    let failure = failure(&attempt);
    assert!(failure.starts_with("setup of app ("), "{failure}");
    assert!(
        failure.ends_with("exit code 1; its last lines: looking | the gate is missing"),
        "{failure}"
    );
    assert_eq!(of_app(&attempt.status())["setup"]["state"], "failed");
    assert!(attempt.said("assistant_message").is_empty());
    let session = provost.call("tail_session_messages", &json!({"attempt_id": attempt.id}));
    assert_eq!(session["messages"].as_array().unwrap().len(), 1, "a script is no turn: {session}");
    fs::write(gate, "").unwrap();
    let again = json!({"action": "send", "attempt_id": attempt.id, "prompt": "say begun"});
    provost.call("follow_up", &again);
    let status = attempt.until("it works", |status| status["state"] == "completed");
    assert_eq!(of_app(&status)["setup"]["state"], "done");
}

#[test]
fn a_setup_that_takes_too_long_is_ended() {
    let provost = configured("setup = { run = 'sleep 600', timeout_secs = 1 }");
    let board = provost.board();
    let attempt = board.start("fake", "say never");
    let failure = failure(&attempt);
    assert!(failure.contains("limit of 1 s (wall_secs)"), "{failure}");
    attempt.leaves_no_process();
}

#[test]
fn a_stop_ends_a_setup_with_all_that_it_started() {
    let provost = configured("setup = { run = 'setsid sleep 600 & echo ready; sleep 600' }");
    let board = provost.board();
    let attempt = board.start("fake", "say never");
    attempt.has_said("ready");
    let stopped = attempt.stop();
    attempt.leaves_no_process();
    assert_eq!((&stopped["stopped"], &stopped["state"]), (&json!(true), &json!("failed")));
    assert!(failure(&attempt).starts_with("stopped by stop_attempt"), "{stopped}");
    assert!(attempt.said("assistant_message").is_empty());
}

#[test]
fn a_stop_of_a_setup_that_a_killed_daemon_began_waits_for_its_end() {
    let provost = Provost::new();
    let ready = provost.path("ready");
    let run = format!("trap : TERM; touch {}; while true; do sleep 600; done", ready.display());
    let config = format!(
        "[daemon]\nstop_grace_ms = 100\n[projects.scratch.repos.app]\nsetup = {{ run = '{run}' }}"
    );
    let provost = provost.config(&config).started();
    let board = provost.board();
    let attempt = board.start("fake", "say never");
    wait_until("the setup runs", || ready.exists());
    provost.kill_and_start();
    let stopped = attempt.stop();
    assert_eq!(attempt.processes(), Vec::<i32>::new(), "{stopped}");
    assert_eq!((&stopped["stopped"], &stopped["survivors"]), (&json!(true), &json!(0)));
    assert!(failure(&attempt).starts_with("stopped by stop_attempt"), "{stopped}");
}

#[test]
fn a_daemon_goes_on_with_the_setup_of_a_killed_one() {
    let provost = Provost::new();
    let (gate, count) = (provost.path("gate"), provost.path("count"));
    let run = format!(
        "echo x >> {}; until [ -e {} ]; do sleep 0.02; done; echo made > made.txt",
        count.display(),
        gate.display()
    );
    let provost =
        provost.config(&format!("[projects.scratch.repos.app.setup]\nrun = '{run}'")).started();
    let board = provost.board();
    let attempt = board.start("fake", "run cat made.txt");
    wait_until("the setup runs", || count.exists());
    provost.kill_and_start();
    fs::write(gate, "").unwrap();
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(attempt.said("tool_result"), ["made"]);
    assert_eq!(fs::read_to_string(count).unwrap(), "x\n", "it ran once");
}

#[test]
fn a_daemon_killed_at_any_step_provides_once() {
    let steps =
        ["ports.taken", "copy.next", "copy.made", "setup.next", "script.committed", "setup.ended"];
    for step in steps {
        let keys = "copy = ['*.tmp']\nports = { names = ['PORT'] }\n\
                    setup = { run = 'echo once >> made.txt' }";
        let provost = Provost::new().config(&format!("[projects.scratch.repos.app]\n{keys}"));
        provost.start_to_die_at(step);
        let board = provost.board();
        ignore(board.repo(), "*.tmp\n");
        write(board.repo(), "a.tmp", "copied");
        let start = json!({"task_id": board.task("x"), "executor": "fake", "request_id": "one",
            "prompt": "run cat made.txt a.tmp"});
        let mut client = provost.connect();
        let call = client.begin("start_task_attempt", &start);
        // The daemon may die before it answers.
        let _ = client.outcome(call);
        provost.ended();
        provost.start();
        let attempt = Attempt::new(&provost, provost.call("start_task_attempt", &start));
        assert_eq!(attempt.settled()["state"], "completed", "{step}");
        assert_eq!(attempt.said("tool_result"), ["once\ncopied"], "{step}");
    }
}

#[test]
fn ten_attempts_have_ten_blocks_of_ports() {
    let provost = configured("ports = { names = ['WEB_PORT', 'API_PORT'] }");
    let board = provost.board();
    let attempts: Vec<Attempt> =
        (0..10).map(|_| board.start("fake", "run echo $API_PORT $WEB_PORT")).collect();
    let mut blocks = BTreeSet::new();
    for attempt in &attempts {
        let status = attempt.settled();
        let ports = &status["provision"]["ports"];
        let first = ports["API_PORT"].as_u64().unwrap();
        assert_eq!(ports["WEB_PORT"], first + 1);
        assert!((24000..31999).contains(&first), "{ports}");
        assert_eq!(attempt.said("tool_result"), [format!("{first} {}", first + 1)]);
        assert!(blocks.insert(first / 10), "handed out twice: {ports}");
    }
    // They are free again once the worktrees are gone, also those of which a daemon that was
    // killed left only a part.
    let there: Vec<PathBuf> = attempts.iter().map(worktree).collect();
    attempts[0].saved(1);
    let folder = provost.home().join("attempts").join(&attempts[0].id);
    fs::remove_file(folder.join("worktrees.json")).unwrap();
    wait_until("all worktrees are collected", || {
        assert_eq!(provost.verb(["gc", "--yes"]).code, 0);
        !there.iter().any(|path| path.exists())
    });
    assert!(!folder.join("collected.json").exists(), "it counts as never made");
    let status = board.start("fake", "say more").settled();
    let first = status["provision"]["ports"]["API_PORT"].as_u64().unwrap();
    assert!(blocks.contains(&(first / 10)), "{first}");
}

#[test]
fn more_ports_than_an_attempt_has_fail_it_and_leave_nothing() {
    let names = |first: u32| -> Vec<String> {
        (first..first + 6).map(|number| format!("'P{number}_PORT'")).collect()
    };
    let ports = |repo: &str, first: u32| {
        let names = names(first).join(", ");
        format!("[projects.scratch.repos.{repo}]\nports = {{ names = [{names}] }}\n")
    };
    let config = ports("front", 0) + &ports("back", 6);
    let provost = Provost::new().config(&config).started();
    let board = Board::new(&provost, vec![provost.repo("front"), provost.repo("back")]);
    let attempt = board.start("fake", "say never");
    let status = attempt.settled();
    let why = status["failure_summary"].as_str().unwrap();
    for part in ["12 names", "ports.names of back (", "ports.names of front ("] {
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(fs::read_dir(provost.home().join("worktrees")).unwrap().count(), 0);
    assert_eq!(board.repos[0].worktrees().len(), 1, "git knows of none either");
}

#[test]
fn a_command_of_the_repository_waits_for_a_person() {
    let provost = Provost::running();
    let board = provost.board();
    board.repo().commit("provost.toml", "[setup]\nrun = 'echo made > made.txt'\n");
    let attempt = board.start("fake", "run cat made.txt");
    let status = attempt.in_phase("waiting");
    assert_eq!(status["waiting_on"], "approval");
    let command = format!("`provost trust {}", &attempt.id[attempt.id.len() - 8..]);
    assert!(status["next_action"].as_str().unwrap().contains(&command), "{status}");
    let there = worktree(&attempt);
    assert!(!there.join("made.txt").exists());
    let pending = provost.call("list_inbox", &json!({"attempt_id": attempt.id}));
    let approval = &pending["approvals"][0];
    assert!(approval["text"].as_str().unwrap().contains("setup.run: echo made"), "{approval}");
    // An agent has no say in it.
    let mut agent = provost.bridge();
    agent.initialize();
    let answer = json!({"approval_id": approval["approval_id"], "decision": "approve"});
    let refused = agent.call("answer", &answer).refusal();
    assert_eq!(refused["code"], "not_permitted", "{refused}");
    assert!(!there.join("made.txt").exists());
    let shown = provost.verb(["trust", "scratch", "--show"]);
    assert!(shown.stdout.contains("setup.run: echo made") && shown.stdout.contains("--yes"));
    assert_eq!(attempt.status()["phase"], "waiting");
    // What the attempt has counts, not what its branch says by now.
    board.repo().commit("provost.toml", "[setup]\nrun = 'echo changed > made.txt'\n");
    let other = board.start("fake", "run cat made.txt");
    other.in_phase("waiting");
    let trusted = provost.verb(["trust", &attempt.id, "--yes"]);
    assert!(trusted.stdout.contains("setup.run: echo made") && trusted.stdout.contains("goes on"));
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(attempt.said("tool_result"), ["made"]);
    assert_eq!(other.status()["phase"], "waiting", "for commands of its own");
    // An approval counts for all attempts that wait for the same.
    let third = board.start("fake", "run cat made.txt");
    third.in_phase("waiting");
    let pending = provost.call("list_inbox", &json!({"attempt_id": other.id}));
    let approval = pending["approvals"][0]["approval_id"].as_str().unwrap().to_owned();
    assert_eq!(provost.verb(["approve", &approval]).code, 0);
    for attempt in [&other, &third] {
        assert_eq!(attempt.settled()["state"], "completed");
        assert_eq!(attempt.said("tool_result"), ["changed"]);
    }
    let long = format!("[setup]\nrun = '{}'\n", "true;".repeat(300));
    board.repo().commit("provost.toml", &long);
    let changed = board.start("fake", "run cat made.txt");
    changed.in_phase("waiting");
    let pending = provost.call("list_inbox", &json!({"attempt_id": changed.id}));
    let approval = pending["approvals"][0]["approval_id"].as_str().unwrap().to_owned();
    let refused = provost.verb(["approve", &approval]);
    assert!(refused.code != 0 && refused.stderr.contains("too long to be shown"), "{refused:?}");
    assert_eq!(provost.verb(["deny", &approval, "--reason", "not today"]).code, 0);
    let failure = failure(&changed);
    assert!(failure.contains("was not approved (not today)"), "{failure}");
    assert!(!worktree(&changed).join("made.txt").exists());
}

#[test]
fn an_agent_has_no_say_in_the_settings_of_its_repository() {
    let provost = Provost::running();
    let board = provost.board();
    ignore(board.repo(), "*.env\n*.tmp\n");
    board.repo().commit("provost.toml", "copy = ['*.tmp']\nports.names = ['WEB_PORT']\n");
    write(board.repo(), "a.tmp", "copied");
    write(board.repo(), "secret.env", "A=b");
    let mine = "run printf \"copy = ['/secret.env']\" > provost.toml\n\
                run git add provost.toml && git -c user.name=a -c user.email=a@b commit -q -m mine";
    let agent = board.start("fake", mine);
    agent.settled();
    agent.saved(1);
    let is_right = |attempt: &Attempt| {
        let status = attempt.settled();
        assert_eq!(status["state"], "completed", "{status}");
        assert!(status["provision"]["ports"]["WEB_PORT"].is_u64(), "{status}");
        let there = worktree(attempt);
        assert!(there.join("a.tmp").exists() && !there.join("secret.env").exists());
        assert!(fs::read_to_string(there.join("provost.toml")).unwrap().contains("/secret.env"));
    };
    let from = json!({"from_attempt_id": agent.id, "prompt": "say forked", "executor": "fake"});
    is_right(&board.start_with("fake", &from));
    // Worktrees that are made anew begin with the agent's branch.
    collected(&provost, &agent);
    let again = json!({"action": "send", "attempt_id": agent.id, "prompt": "say again"});
    provost.call("follow_up", &again);
    agent.has_said("again");
    is_right(&agent);
}

#[test]
fn an_attempt_that_waits_for_trust_can_be_stopped_and_survives_a_daemon() {
    let provost = Provost::running();
    let board = provost.board();
    board.repo().commit("provost.toml", "[setup]\nrun = 'echo made > made.txt'\n");
    let attempt = board.start("fake", "run cat made.txt");
    attempt.in_phase("waiting");
    provost.kill_and_start();
    attempt.in_phase("waiting");
    let pending = provost.call("list_inbox", &json!({"attempt_id": attempt.id}));
    assert_eq!(pending["approvals"].as_array().unwrap().len(), 1, "{pending}");
    assert_eq!(attempt.stop()["stopped"], true);
    attempt.settled();
    let pending = provost.call("list_inbox", &json!({"attempt_id": attempt.id}));
    assert_eq!(pending["approvals"].as_array().unwrap().len(), 0, "{pending}");
    assert!(!worktree(&attempt).join("made.txt").exists());
}

#[test]
fn an_attempt_that_waits_for_its_credentials_survives_a_daemon_and_gets_them_once_approved() {
    let provost = Provost::running();
    let board = provost.board();
    ignore(board.repo(), "*.env\n");
    board.repo().commit("provost.toml", "copy = ['/secret.env']\n");
    write(board.repo(), "secret.env", "A=b");
    let attempt = board.start("fake", "run test -s secret.env && echo there");
    let is_shown = || {
        let shown = provost.verb(["trust", &attempt.id, "--show"]);
        assert!(shown.stdout.contains("copy: /secret.env"), "{shown:?}");
    };
    attempt.in_phase("waiting");
    // A daemon that makes the worktree anew does so as well.
    fs::remove_file(worktree(&attempt).join("provost.toml")).unwrap();
    is_shown();
    for _ in 0..2 {
        provost.kill_and_start();
        is_shown();
        attempt.in_phase("waiting");
    }
    assert!(!worktree(&attempt).join("secret.env").exists());
    let pending = provost.call("list_inbox", &json!({"attempt_id": attempt.id}));
    assert_eq!(pending["approvals"].as_array().unwrap().len(), 1, "{pending}");
    assert_eq!(provost.verb(["trust", &attempt.id, "--yes"]).code, 0);
    let status = attempt.settled();
    assert_eq!(status["state"], "completed", "{status}");
    assert_eq!(attempt.said("tool_result"), ["there"]);
    let copied = &of_app(&status)["copied"];
    assert_eq!((&copied["files"], &copied["left_out_count"]), (&json!(1), &json!(0)), "{copied}");
    assert_eq!(board.repo().worktrees().len(), 2, "one worktree, however often it was begun");
}

#[test]
fn the_persons_settings_win_and_need_no_approval() {
    let provost = configured("setup = { run = 'echo mine > made.txt' }");
    let board = provost.board();
    let text = "copy = ['*.tmp']\n[setup]\nrun = 'echo theirs > made.txt'\ntimeout_secs = 60\n";
    board.repo().commit("provost.toml", text);
    let attempt = board.start("fake", "run cat made.txt");
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(attempt.said("tool_result"), ["mine"]);
    let shown = provost.verb(["--json", "repo", "show", "app", "--project", "scratch"]).json();
    let settings = shown["repos"][0]["settings"].as_array().unwrap();
    let origin = |key: &str| {
        let found = settings.iter().find(|it| it["key"] == key).unwrap();
        found["origin"].as_str().unwrap().to_owned()
    };
    assert!(origin("setup.run").ends_with("config.toml:2"), "{shown}");
    assert_eq!(origin("setup.timeout_secs"), "provost.toml:4");
    assert_eq!(origin("copy"), "provost.toml:1");
    assert_eq!(shown["repos"][0]["is_trusted"], true, "no command is the repository's");
    let text = provost.verb(["repo", "show", "--project", "scratch"]).stdout;
    assert!(text.contains("setup.timeout_secs") && text.contains("provost.toml:4"), "{text}");
}

#[test]
fn a_faulty_or_hostile_provost_toml_fails_the_attempt_and_runs_nothing() {
    let provost = Provost::running();
    let board = provost.board();
    let outside = provost.path("outside.toml");
    let canary = provost.path("canary");
    fs::write(&outside, format!("[setup]\nrun = 'touch {}'\n", canary.display())).unwrap();
    let file = board.repo().path.join("provost.toml");
    let long = format!("# {}\n", "x".repeat(70_000));
    for (text, expected) in [
        ("[setup]\nrum = 'x'\n", "provost.toml:2: unknown key `setup.rum`"),
        ("[setup]\ncache = ['../../x']\n", "provost.toml:2: `setup.cache` must be"),
        (&*long, "shorten it"),
    ] {
        board.repo().commit("provost.toml", text);
        let failure = failure(&board.start("fake", "say never"));
        assert!(failure.starts_with("setup of app: ") && failure.contains(expected), "{failure}");
    }
    fs::remove_file(&file).unwrap();
    symlink(&outside, &file).unwrap();
    board.repo().git(&["add", "--all"]);
    board.repo().git(&["commit", "--quiet", "--message", "link"]);
    let failure = failure(&board.start("fake", "say never"));
    assert!(failure.contains("it is a link or a folder"), "{failure}");
    assert!(!canary.exists());
}

#[test]
fn a_relative_hooks_path_works_for_the_agent_and_provosts_own_git_runs_no_hook() {
    let provost = Provost::running();
    let board = provost.board();
    let ran = provost.path("ran");
    let hook = format!("#!/bin/sh\necho $0 >> {}\n", ran.display());
    fs::create_dir(board.repo().path.join(".hooks")).unwrap();
    for name in ["pre-commit", "post-checkout", "reference-transaction", "post-index-change"] {
        board.repo().commit(&format!(".hooks/{name}"), &hook);
        let path = board.repo().path.join(".hooks").join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    board.repo().git(&["commit", "--quiet", "--all", "--message", "executable"]);
    board.repo().git(&["config", "core.hooksPath", ".hooks"]);
    let attempt = board.start("fake", "write a.txt a\nsay done");
    attempt.settled();
    attempt.saved(1);
    let commit = json!({"attempt_id": attempt.id, "action": "commit", "timeout_ms": 60_000});
    assert_eq!(provost.call("finish_attempt", &commit)["state"], "done");
    assert!(!ran.exists(), "{}", fs::read_to_string(&ran).unwrap_or_default());
    let prompt = "write b.txt b\nrun git add --all && git commit --quiet -m b";
    let send = json!({"action": "send", "attempt_id": attempt.id, "prompt": prompt});
    provost.call("follow_up", &send);
    wait_until("the agent has committed", || ran.exists());
    attempt.settled();
    assert!(fs::read_to_string(&ran).unwrap().contains(".hooks/pre-commit"));
}

/// A `git` that notes each of its calls, before the real one.
fn counting(provost: Provost) -> (Provost, PathBuf) {
    let (bin, calls) = (provost.path("bin"), provost.path("calls"));
    fs::create_dir(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let real = path.split(':').map(|dir| PathBuf::from(dir).join("git")).find(|it| it.exists());
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}\nexec {} \"$@\"\n",
        calls.display(),
        real.unwrap().display()
    );
    fs::write(bin.join("git"), script).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{path}", bin.display());
    (provost.variable("PATH", &path).started(), calls)
}

#[test]
fn a_start_with_nothing_configured_runs_git_five_times() {
    let (provost, calls) = counting(Provost::new());
    let board = Board::new(&provost, vec![provost.repo("app")]);
    fs::remove_file(&calls).unwrap();
    // As its executor finds it: what comes after its end is no part of the start.
    let attempt = board.start("fake", &format!("run cp {} {0}.then", calls.display()));
    attempt.settled();
    let calls = fs::read_to_string(calls.with_extension("then")).unwrap();
    assert_eq!(calls.lines().count(), CALLS_OF_A_START, "{calls}");
    assert!(!provost.home().join("attempts").join(&attempt.id).join("provision.json").exists());
}

/// One to find the branch, one to make the attempt's, one each to read the person's settings and
/// references, and one to write the files.
const CALLS_OF_A_START: usize = 5;
