//! Values that no log and no file of the home may hold.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::{Attempt, PLAIN, Provost, processes, wait_until};

/// Given by the configuration, by the daemon's environment, by a variant.
const TOKEN: &str = "sesame-0123456789-open";
const KEY: &str = "passed\"on\\by-the-daemon";
const PASSWORD: &str = "-----first of two lines\nand the second one-----";
/// The daemon's own, that no executor is given.
const MASTER: &str = "master-of-the-house";

/// Prints its secrets in every way there is; continues when it sees the files
/// in the folder that its prompt names.
const TELLTALE: &str = r#"
read folder
until_told() { until [ -e "$folder/$1" ]; do sleep 0.02; done; }
half=$(printf %s "$A_TOKEN" | cut -c1-9)
rest=${A_TOKEN#$half}
env
env >&2
cat "$folder/master" "$folder/json"
printf 'half %s' "$half"
printf 'half %s' "$half" >&2
until_told go
echo "$rest"
echo "$rest" >&2
text="byte by byte $A_TOKEN"
while [ -n "$text" ]; do
    tail=${text#?}
    printf %s "${text%"$tail"}"
    printf %s "${text%"$tail"}" >&2
    text=$tail
done
echo
echo >&2
number=0
while [ $number -lt 6000 ]; do
    number=$((number + 1))
    echo "line $number $A_TOKEN"
    echo "line $number $A_TOKEN" >&2
done
until_told end
printf 'last %s' "$A_TOKEN"
printf 'last %s' "$A_TOKEN" >&2
"#;

/// The soft limit of a core dump that a process has (proc_pid_limits(5)).
fn core_limit(pid: i32) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    line["Max core file size".len()..].split_whitespace().next().unwrap().to_owned()
}

/// Their memory holds secrets; what they run keeps its own limit.
#[test]
fn neither_daemon_nor_shim_dumps_core_and_an_executor_has_the_limit_of_who_started_the_daemon() {
    let provost = Provost::new().executor("agent", PLAIN, "echo up; exec sleep 1000");
    provost.start_by(&["/bin/sh", "-c", "ulimit -Sc 4096; exec \"$@\"", "sh"]);
    let attempt = provost.board().start("agent", "x");
    attempt.has_said("up");
    assert_eq!([core_limit(provost.pid()), core_limit(attempt.shim())], ["0", "0"]);
    let own = core_limit(attempt.leader());
    assert_ne!(own, "0", "it has what the daemon was started with");
    // One that takes over from another has none either.
    let shim = attempt.shim();
    processes::kill_hard(shim);
    wait_until("another shim goes on", || attempt.shim() != shim);
    assert_eq!((core_limit(attempt.shim()), core_limit(attempt.leader())), ("0".to_owned(), own));
    attempt.stop();
}

/// The library that speaks MCP would log each message whole.
#[test]
fn the_daemons_log_holds_no_message_however_much_it_is_to_tell() {
    const VALUE: &str = "a-value-that-a-patch-shows";
    let provost = Provost::new().variable("PROVOST_LOG", "trace").started();
    let attempt = provost.board().start("fake", &format!("write file {VALUE}"));
    assert_eq!(attempt.settled()["state"], "completed");
    let patch = json!({"attempt_id": attempt.id, "paths": ["app/file"]});
    let patch = provost.call("get_attempt_patch", &patch);
    assert!(patch["patch"].as_str().unwrap().contains(VALUE), "{patch}");
    let said = provost.said();
    let line = said.lines().find(|line| line.contains(VALUE) && line.contains("+a-value"));
    assert_eq!(line, None);
}

fn telltale() -> Provost {
    let provost = Provost::new()
        .config("[secrets]\nnames = ['*_TOKEN', '*_API_KEY', 'DB_*', 'MASTER']")
        // Segments of 64 KiB.
        .config("[logs]\nspool_max_bytes = 1048576")
        .variable("MY_API_KEY", KEY)
        .variable("MASTER", MASTER)
        .executor("telltale", PLAIN, TELLTALE)
        .config(&format!(
            "env_pass = ['MY_*']\nenv = {{ A_TOKEN = '{TOKEN}', URL = 'me:{TOKEN}@host' }}"
        ))
        .config(&format!(
            "[executors.telltale.variants.v]\nenv = {{ DB_PASSWORD = '''{PASSWORD}''' }}"
        ));
    fs::create_dir(provost.path("told")).unwrap();
    fs::write(provost.path("told/master"), format!("{MASTER}\n")).unwrap();
    fs::write(provost.path("told/json"), format!("{}\n", json!([KEY, PASSWORD]))).unwrap();
    provost
}

fn start(provost: &Provost) -> Attempt<'_> {
    let prompt = provost.path("told").to_string_lossy().into_owned();
    provost.board().start_with("telltale", &json!({"variant": "v", "prompt": prompt}))
}

/// The bytes that a process's streams hold on disk.
fn spooled(dir: &Path) -> String {
    let mut paths: Vec<PathBuf> =
        files(dir).into_iter().filter(|p| p.extension().is_some_and(|e| e == "log")).collect();
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

fn secrets() -> Vec<&'static str> {
    [TOKEN, KEY, MASTER].into_iter().chain(PASSWORD.lines()).collect()
}

/// Checks that no file of the home but its configuration, and nothing that the
/// daemon said, holds a secret.
#[track_caller]
fn home_holds_none(provost: &Provost) {
    let files = files(provost.home());
    assert!(files.iter().any(|path| path.ends_with("manifest.json")));
    let files = files.iter().filter(|path| !path.ends_with("config.toml"));
    for path in files.chain([&provost.path("stderr")]) {
        let bytes = fs::read(path).unwrap_or_default();
        for secret in secrets() {
            let shows = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!shows, "{} shows {secret:?}", path.display());
        }
    }
}

/// Lets the executor go on to its end, and checks all that it wrote.
fn is_whole_and_redacted(provost: &Provost, attempt: &Attempt<'_>) {
    fs::write(provost.path("told/end"), "").unwrap();
    assert_eq!(attempt.settled()["state"], "completed");
    for stream in ["stdout", "stderr"] {
        let lines = attempt.lines(stream);
        for line in [
            "A_TOKEN=[redacted:A_TOKEN]",
            "MY_API_KEY=[redacted:MY_API_KEY]",
            "DB_PASSWORD=[redacted:DB_PASSWORD]",
            "URL=me:[redacted:A_TOKEN]@host",
        ] {
            assert!(lines.iter().any(|shown| shown == line), "{line} in {lines:?}");
        }
        let from = lines.iter().position(|line| line.starts_with("half")).unwrap();
        let mut rest = lines[from..].iter();
        assert_eq!(rest.next().unwrap(), "half [redacted:A_TOKEN]");
        assert_eq!(rest.next().unwrap(), "byte by byte [redacted:A_TOKEN]");
        for number in 1..=6000 {
            assert_eq!(*rest.next().unwrap(), format!("line {number} [redacted:A_TOKEN]"));
        }
        assert_eq!(rest.collect::<Vec<_>>(), ["last [redacted:A_TOKEN]"]);
    }
    let stdout = attempt.lines("stdout");
    assert!(stdout.contains(&"[redacted:MASTER]".to_owned()));
    assert!(stdout.contains(&r#"["[redacted:MY_API_KEY]","[redacted:DB_PASSWORD]"]"#.to_owned()));
    home_holds_none(provost);
}

#[test]
fn a_secret_that_an_executor_prints_is_in_no_file_of_the_home() {
    let provost = telltale().started();
    let attempt = start(&provost);
    let dir = attempt.dir();
    wait_until("half of it is out", || spooled(&dir).matches("half ").count() == 2);
    let environ = fs::read(format!("/proc/{}/environ", attempt.leader())).unwrap();
    let shims = fs::read(format!("/proc/{}/environ", attempt.shim())).unwrap();
    let shows = |bytes: &[u8]| bytes.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes());
    assert!(shows(&environ) && !shows(&shims));
    home_holds_none(&provost);
    fs::write(provost.path("told/go"), "").unwrap();
    is_whole_and_redacted(&provost, &attempt);
}

#[test]
fn a_secret_is_redacted_over_the_deaths_of_shims_and_daemons() {
    let provost = telltale().started();
    let attempt = start(&provost);
    let dir = attempt.dir();
    wait_until("half of it is out", || spooled(&dir).matches("half ").count() == 2);
    for _ in 0..3 {
        processes::kill_hard(attempt.shim());
        wait_until("another shim goes on", || processes::is_alive(attempt.shim()));
        provost.kill_and_start();
    }
    fs::write(provost.path("told/go"), "").unwrap();
    for round in 1..=5 {
        wait_until("it goes on", || spooled(&dir).len() >= round * 60_000);
        processes::kill_hard(attempt.shim());
        if round % 2 == 0 {
            attempt.has_said(&format!("line {} ", round * 500));
            provost.kill_and_start();
        }
    }
    is_whole_and_redacted(&provost, &attempt);
}

#[test]
fn no_secret_is_shown_by_config_show_or_by_an_error_in_the_file() {
    let provost = telltale();
    for args in [&["config", "show"][..], &["config", "show", "--json"]] {
        let done = Provost::done(provost.command(args));
        assert_eq!(done.code, 0, "{done:?}");
        let hides = secrets().iter().all(|secret| !done.stdout.contains(secret));
        assert!(hides && done.stdout.contains("***"), "{}", done.stdout);
    }
    for broken in [
        format!("[executors.b]\nprotocol = 'plain'\nenv = {{ A_TOKEN = ['{TOKEN}'] }}"),
        format!("[executors.b]\nprotocol = 'plain'\ncommand = ['x']\nenv = '{TOKEN}'"),
        format!("[executors.b]\nprotocol = 'plain'\nenv = {{ A_TOKEN = {TOKEN} }}"),
        format!("[executors.b]\nprotocol = 'plain'\nenv = {{ A_TOKEN = '{TOKEN} }}"),
    ] {
        let other = telltale().config(&broken);
        let done = other.verb(["config", "show"]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(!done.stderr.contains(TOKEN), "{}", done.stderr);
    }
}

#[test]
fn no_caller_adds_to_an_environment() {
    let provost = Provost::running();
    let board = provost.board();
    let start = json!({"task_id": board.task("x"), "executor": "fake", "env": {"A_TOKEN": TOKEN}});
    let refusal = provost.refusal("start_task_attempt", &start);
    assert_eq!(refusal["code"], "unknown_field");
    assert!(!refusal.to_string().contains(TOKEN));
}
