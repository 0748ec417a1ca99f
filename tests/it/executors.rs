//! Executors: how they are launched, what they are given, how their end is told.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Attempt, EVENTS, PLAIN, Provost};

#[test]
fn the_list_is_true_and_all_of_it_can_be_started() {
    let provost = Provost::new()
        .executor("plain-one", PLAIN, "exit 0")
        .config("default_variant = \"slow\"\nsupports_mcp = true")
        .config("[executors.plain-one.variants.fast]\n[executors.plain-one.variants.slow]")
        .config("[executors.absent]\nprotocol = \"plain\"\ncommand = [\"no-such-agent\"]")
        .started();
    let board = provost.board();
    let listed = provost.call("list_executors", &json!({}))["executors"].clone();
    let find = |name: &str| -> Value {
        let mut all = listed.as_array().unwrap().iter();
        all.find(|executor| executor["executor"] == name).unwrap().clone()
    };
    assert_eq!(
        find("plain-one"),
        json!({"executor": "plain-one", "protocol": "plain", "version": null,
            "variants": ["fast", "slow"], "default_variant": "slow", "supports_mcp": true,
            "available": true, "unavailable_reason": null, "install": null,
            "supports_resume": true, "supports_interrupt": false,
            "supports_approvals": false, "note": null, "stand_in": false})
    );
    let last = listed.as_array().unwrap().last().unwrap();
    assert_eq!((&last["executor"], &last["stand_in"]), (&json!("fake"), &json!(true)));
    let absent = find("absent");
    assert_eq!(absent["available"], false);
    assert!(absent["unavailable_reason"].as_str().unwrap().contains("no-such-agent"));
    let start = json!({"task_id": board.task("x"), "executor": "absent"});
    let refusal = provost.refusal("start_task_attempt", &start);
    assert_eq!(refusal["code"], "executor_unavailable");
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains("the daemon's PATH; ") && message.contains("`provost shutdown`"));

    let stand_in = board.start("fake", "say hi");
    stand_in.settled();
    assert_eq!(stand_in.said("process_start"), ["fake"], "how it is done concerns nobody");

    for executor in listed.as_array().unwrap().iter().filter(|each| each["available"] == true) {
        let variants = executor["variants"].as_array().unwrap().iter().cloned();
        for variant in variants.chain([Value::Null]) {
            let attempt = board
                .start_with(executor["executor"].as_str().unwrap(), &json!({"variant": variant}));
            assert_eq!(attempt.settled()["state"], "completed", "{executor}");
            assert_eq!(attempt.status()["variant"], variant);
        }
    }
}

#[test]
fn the_list_tells_versions_and_runs_nobodys_own_program_for_it() {
    let provost = Provost::new()
        .executor("known", "codex", "echo \"agent 3.2.1\"; echo x >> \"$0.ran\"")
        .executor("own", PLAIN, "echo own 1; echo x >> \"$0.ran\"")
        .config("[executors.absent]\nprotocol = \"codex\"\ncommand = [\"no-such-agent\"]")
        .started();
    for _ in 0..2 {
        let listed = provost.call("list_executors", &json!({}))["executors"].clone();
        let find = |name: &str| -> Value {
            let mut all = listed.as_array().unwrap().iter();
            all.find(|executor| executor["executor"] == name).unwrap().clone()
        };
        let known = find("known");
        assert_eq!(
            (&known["version"], &known["protocol"]),
            (&json!("agent 3.2.1"), &json!("codex"))
        );
        assert_eq!((&known["supports_approvals"], &known["install"]), (&json!(true), &Value::Null));
        assert_eq!(find("own")["version"], Value::Null);
        assert!(find("absent")["install"].as_str().unwrap().starts_with("npm install"));
    }
    let known = provost.script("known.probe", "");
    let ran = |name: &str| std::fs::read_to_string(known.with_file_name(name)).ok();
    assert_eq!(ran("known.ran").as_deref(), Some("x\n"), "asked once");
    assert_eq!(ran("own.ran"), None);

    let table = provost.verb(["executors"]);
    assert_eq!(table.code, 0);
    let line = |name: &str| table.stdout.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("known").contains("agent 3.2.1"), "{}", table.stdout);
    assert!(line("absent").contains("missing"), "{}", table.stdout);
    assert!(
        table
            .stdout
            .contains("no-such-agent is not on the daemon's PATH  npm install -g @openai/codex")
    );
    assert_eq!(
        provost.verb(["executors", "--json"]).json(),
        provost.call("list_executors", &json!({}))
    );
}

#[test]
fn the_prompt_comes_on_standard_input_which_is_then_closed() {
    let provost = Provost::new().executor("cat", PLAIN, "cat; echo; echo end").started();
    let attempt = provost.board().start("cat", "two lines,\nno newline");
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(attempt.lines("stdout"), ["two lines,", "no newline", "end"]);
}

#[test]
fn the_prompt_comes_as_the_last_argument_if_so_configured() {
    let script = "for argument; do echo \"<$argument>\"; done; cat; echo end";
    let provost = Provost::new();
    let path = provost.script("show", script);
    let provost = provost
        .config(&format!("[executors.show]\nprotocol = \"plain\"\nprompt = \"arg\"\ncommand = [{path:?}, \"--batch\"]"))
        .config("[executors.show.variants.fast]\nargs = [\"--fast\"]")
        .started();
    let board = provost.board();
    let attempt = board.start_with("show", &json!({"prompt": "--do  it", "variant": "fast"}));
    attempt.settled();
    assert_eq!(attempt.lines("stdout"), ["<--batch>", "<--fast>", "<--do  it>", "end"]);
}

#[test]
fn without_a_prompt_title_and_description_are_it() {
    let provost = Provost::new().executor("cat", PLAIN, "cat").started();
    let board = provost.board();
    let task = board.task_with("the title", &json!({"description": "and more"}));
    let attempt = board.start_at(&task, "cat", &json!({}));
    attempt.settled();
    assert_eq!(attempt.lines("stdout"), ["the title", "", "and more"]);
    assert_eq!(attempt.said("user_message"), ["the title\n\nand more"]);
}

#[test]
fn an_executor_gets_exactly_the_environment_that_is_made_for_it() {
    let provost = Provost::new()
        .variable("SECRET", "not for it")
        .variable("AGENT_KEY", "passed")
        .variable("AGENT_MODE", "overridden")
        .variable("LC_TIME", "C")
        .variable("https_proxy", "http://proxy.invalid")
        .variable("XDG_RUNTIME_DIR", "/tmp")
        .variable("SSH_AUTH_SOCK", "/tmp/agent")
        .executor("env", PLAIN, "exec env -0")
        .config("env_pass = [\"AGENT_*\", \"ABSENT\"]\nenv = { OWN = \"1\", AGENT_MODE = \"own\" }")
        .config("[executors.env.variants.fast]\nenv = { OWN = \"2\" }")
        .started();
    let board = provost.board();
    let attempt = board.start_with("env", &json!({"variant": "fast", "prompt": "go"}));
    attempt.settled();
    let status = attempt.status();
    let variables: BTreeMap<String, String> = attempt.lines("stdout")[0]
        .split_terminator('\0')
        .map(|variable| variable.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let task = provost.call("get_task", &json!({"task_id": status["task_id"]}))["task"].clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let expected = [
        ("AGENT_KEY", "passed".to_owned()),
        ("AGENT_MODE", "own".to_owned()),
        ("HOME", provost.path("person").display().to_string()),
        ("LANG", "C.UTF-8".to_owned()),
        ("LC_TIME", "C".to_owned()),
        ("OWN", "2".to_owned()),
        ("PATH", std::env::var("PATH").unwrap()),
        ("PROVOST_ATTEMPT_ID", attempt.id.clone()),
        ("PROVOST_BRANCH", text(&status["workspace_branch"])),
        ("PROVOST_HOME", provost.home().display().to_string()),
        ("PROVOST_PROCESS_ID", text(&status["latest_execution_process_id"])),
        ("PROVOST_PROJECT_ID", text(&task["project_id"])),
        ("PROVOST_PROJECT_NAME", "scratch".to_owned()),
        ("PROVOST_PROMPT", "go".to_owned()),
        ("PROVOST_SESSION_ID", text(&status["latest_session_id"])),
        ("PROVOST_TASK_ID", text(&status["task_id"])),
        ("SSH_AUTH_SOCK", "/tmp/agent".to_owned()),
        ("XDG_RUNTIME_DIR", "/tmp".to_owned()),
        ("https_proxy", "http://proxy.invalid".to_owned()),
    ];
    // `sh` itself sets PWD.
    let passed = variables.into_iter().filter(|(name, _)| name != "PWD");
    assert_eq!(passed.collect::<BTreeMap<_, _>>(), expected.map(|(n, v)| (n.to_owned(), v)).into());
}

#[test]
fn a_prompt_too_long_for_an_environment_is_left_out_of_it() {
    let script = "read line; echo ${#line}; echo ${PROVOST_PROMPT-none}";
    let provost = Provost::new().executor("long", PLAIN, script).started();
    let attempt = provost.board().start("long", &"x".repeat(300_000));
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(attempt.lines("stdout"), ["300000", "none"]);
}

#[test]
fn lines_of_events_are_entries_and_anything_else_is_a_system_message() {
    let lines = [
        r#"{"kind":"session","id":"its own"}"#,
        r#"{"kind":"thinking","text":"hm"}"#,
        r#"{"kind":"tool_use","tool_call_id":"1","tool_name":"sh","action":{"type":"command","command":"ls"}}"#,
        r#"{"kind":"tool_result","tool_call_id":"1","status":"denied","text":"no"}"#,
        r#"{"kind":"token_usage","input_tokens":10,"output_tokens":20,"cost_usd":0.5}"#,
        r#"{"kind":"error_message","error_type":"quota","text":"no more"}"#,
        r#"{"kind":"assistant_message"}"#,
        "not an event",
        r#"{"kind":"assistant_message","text":"done"}"#,
    ];
    let script = format!("cat <<'END'\n{}\nEND\necho aside >&2; exit 3", lines.join("\n"));
    let provost = Provost::new().executor("agent", EVENTS, &script).started();
    let attempt = provost.board().start("agent", "go");
    let status = attempt.settled();
    assert_eq!(status["usage"], json!({"input_tokens": 10, "output_tokens": 20, "cost_usd": 0.5}));
    assert_eq!(status["final_message"], "done");
    let summary = status["failure_summary"].as_str().unwrap();
    assert!(summary.contains("exit code 3") && summary.contains("no more"), "{summary}");
    let system = attempt.said("system_message");
    assert_eq!(system.len(), 3, "{system:?}");
    assert!(["aside", "not an event", lines[6]].iter().all(|l| system.contains(&l.to_string())));
    let kinds: Vec<Value> = attempt
        .normalized()
        .iter()
        .map(|entry| entry["kind"].clone())
        .filter(|kind| kind != "system_message")
        .collect();
    assert_eq!(
        kinds,
        [
            "user_message",
            "process_start",
            "thinking",
            "tool_use",
            "tool_result",
            "token_usage",
            "error_message",
            "assistant_message",
            "process_end"
        ]
    );
}

#[test]
fn how_a_process_ended_decides_the_state() {
    let provost = Provost::new()
        .executor("end", PLAIN, "read how; eval \"$how\"")
        .executor("slow", PLAIN, "exit 0")
        .started();
    let board = provost.board();
    let ends = [
        ("exit 0", "completed", json!(0), Value::Null, ""),
        ("exit 1", "failed", json!(1), Value::Null, "exit code 1"),
        ("exit 255", "failed", json!(255), Value::Null, "exit code 255"),
        ("kill -TERM $$", "failed", Value::Null, json!(15), "SIGTERM"),
        ("kill -SEGV $$", "failed", Value::Null, json!(11), "SIGSEGV"),
    ];
    let attempts: Vec<Attempt> = ends.iter().map(|end| board.start("end", end.0)).collect();
    for (attempt, (how, state, code, signal, summary)) in attempts.iter().zip(ends) {
        let status = attempt.settled();
        assert_eq!(status["state"], state, "{how}");
        assert_eq!((&status["exit_code"], &status["exit_signal"]), (&code, &signal), "{how}");
        let reason = status["failure_summary"].as_str().unwrap_or_default();
        assert!(reason.contains(summary) && reason.is_empty() == summary.is_empty(), "{reason}");
        let end = attempt.normalized().pop().unwrap();
        assert_eq!((&end["kind"], &end["status"]), (&json!("process_end"), &json!(state)));
        assert_eq!((&end["exit_code"], &end["exit_signal"]), (&code, &signal));
    }
}

#[test]
fn a_program_that_can_not_be_run_fails_the_attempt_with_the_reason() {
    let provost = Provost::new().executor("broken", PLAIN, "").started();
    // It is there and executable, so only the kernel can tell.
    std::fs::write(provost.path("broken"), "#!/no/such/interpreter\n").unwrap();
    let attempt = provost.board().start("broken", "x");
    let status = attempt.settled();
    assert_eq!(status["state"], "failed");
    assert!(status["failure_summary"].as_str().unwrap().contains("broken"), "{status}");
    assert_eq!(attempt.said("error_message").len(), 1);
}

#[test]
fn last_activity_moves_with_every_byte() {
    let gate = "read gate; printf a; until [ -e $gate ]; do sleep 0.02; done; printf b; sleep 1000";
    let provost = Provost::new().executor("quiet", PLAIN, gate).started();
    let gate = provost.path("gate");
    let attempt = provost.board().start("quiet", &gate.to_string_lossy());
    let first = attempt.until("it was active", |status| !status["last_activity_at"].is_null());
    std::fs::write(gate, "").unwrap();
    attempt.until("it was active again", |status| {
        status["last_activity_at"] != first["last_activity_at"]
    });
}

#[test]
fn a_program_that_remembers_nothing_gets_a_recap_and_another_resumes_by_its_arguments() {
    let provost = Provost::new()
        .config("[executors.forgets]\nprotocol = 'plain'\ncommand = ['cat']")
        .executor("told", EVENTS, "read -r line; echo \"{\\\"kind\\\":\\\"assistant_message\\\",\\\"text\\\":\\\"$line\\\"}\"")
        .executor("alone", PLAIN, "cat")
        .config("[executors.resumes]\nprotocol = 'plain'\ncommand = ['sh', '-c', 'echo \"$@\"; cat', 'sh']")
        .config("resume_args = ['--again', 'of-{attempt}']")
        .started();
    let board = provost.board();
    let later = |executor: &str| {
        let attempt = board.start(executor, "first words");
        attempt.settled();
        let more = json!({"attempt_id": attempt.id, "action": "send", "prompt": "second words"});
        provost.call("follow_up", &more);
        attempt.saved(2);
        let said = attempt.said("assistant_message");
        (said[1..].join("\n"), attempt)
    };
    for executor in ["forgets", "told"] {
        let (said, attempt) = later(executor);
        assert!(said.contains("You go on with work"), "{said}");
        // The one reads a line alone.
        if executor == "forgets" {
            assert!(said.contains("first words") && said.ends_with("second words"), "{said}");
        }
        // So is a fork.
        let fork = json!({"from_attempt_id": attempt.id, "prompt": "third words"});
        let fork = board.start_with(executor, &fork);
        fork.settled();
        let said = fork.said("assistant_message").join("\n");
        assert!(said.contains("You go on with work"), "{said}");
    }
    let (said, attempt) = later("resumes");
    assert!(said.contains(&format!("--again of-{}", attempt.id)), "{said}");
    assert!(said.ends_with("second words") && !said.contains("You go on"), "{said}");
    assert!(!later("alone").0.contains("You go on"));
    let can = |name: &str| {
        let listed = provost.call("list_executors", &json!({}))["executors"].clone();
        let all = listed.as_array().unwrap().clone();
        all.into_iter().find(|it| it["executor"] == name).unwrap()["supports_resume"].clone()
    };
    assert_eq!(["forgets", "resumes", "alone"].map(can), [false, true, true]);
}

#[test]
fn a_table_that_leaves_the_sandbox_unsaid_has_that_said_in_list_and_log() {
    let provost = Provost::new()
        .executor("says", PLAIN, "echo done")
        .config("[executors.unsaid]\nprotocol = 'plain'\ncommand = ['echo', 'done']")
        .started();
    let board = provost.board();
    let listed = provost.verb(["executors"]).stdout;
    let notes = |name: &str| {
        listed.lines().any(|line| line.starts_with(name) && line.contains("without a sandbox"))
    };
    assert!(notes("unsaid") && !notes("says"), "{listed}");
    let log = |name: &str| {
        let attempt = board.start(name, "x");
        attempt.settled();
        attempt.said("system_message").join("\n")
    };
    assert!(log("unsaid").contains("run without a sandbox"));
    assert!(!log("says").contains("sandbox"));
}

#[test]
fn an_executor_is_tried_and_nothing_of_the_trial_stays() {
    let provost = Provost::new()
        .executor("greets", PLAIN, "echo \"hello to $(cat)\"")
        .executor("fails", PLAIN, "echo no key; exit 3")
        .started();
    let projects = || provost.call("list_projects", &json!({}));
    let tried = provost.verb(["executors", "--try", "greets"]);
    assert_eq!(tried.code, 0, "{tried:?}");
    assert!(tried.stdout.contains("hello to say hello"), "{tried:?}");
    let failed = provost.verb(["executors", "--try", "fails"]);
    assert_eq!(failed.code, 7, "{failed:?}");
    assert!(failed.stdout.contains("failure: ") && failed.stdout.contains("no key"), "{failed:?}");
    let refused = provost.verb(["executors", "--try", "none"]);
    assert!(refused.code != 0 && refused.stderr.contains("none"), "{refused:?}");
    assert_eq!(projects()["projects"], json!([]));
}
