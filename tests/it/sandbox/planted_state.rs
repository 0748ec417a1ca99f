//! What an agent in a box plants where each built-in CLI reads settings, servers, hooks, plugins, tokens or its own
//! program: by the rows of builtin.toml, whose state a scripted executor has here. It reaches nothing but the
//! boxes of the same attempt. Without a box, the same plant reaches the person.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{can_hold, results};
use crate::harness::{Attempt, Provost};

const BUILT_IN: &str = include_str!("../../../src/config/builtin.toml");
const CLIS: [&str; 7] = ["claude", "codex", "gemini", "opencode", "qwen", "copilot", "kimi"];

/// What CLIs of this kind read, whatever the rows name.
const USUAL: [&str; 9] = [
    ".env",
    "settings.json",
    "settings.local.json",
    "config.toml",
    "mcp.json",
    "hooks/start",
    "plugins/evil/hook",
    "extensions/evil/index",
    "bin/cli",
];

/// Comments, also in git's configuration.
const THEIRS: &str = "#theirs";
const PLANTED: &str = "#planted";

const SCRIPTED: &str = "protocol = 'fake'\nsandbox = 'workspace'\n";
const UNBOXED: &str = "sandbox = 'none'\n";

/// The tables of the state of a CLI, for a scripted executor of its name.
fn config(cli: &str) -> String {
    let mut is_state = false;
    let of_state = BUILT_IN.lines().filter(|line| {
        if line.starts_with('[') && !line.starts_with("[\"") {
            is_state = line.starts_with(&format!("[[{cli}.state"));
        }
        is_state && !line.starts_with('#')
    });
    let tables = of_state
        .collect::<Vec<_>>()
        .join("\n")
        .replace(&format!("[[{cli}."), &format!("[[executors.as-{cli}."));
    format!(
        "[executors.as-{cli}]\n{SCRIPTED}[executors.as-{cli}.variants.held]\n\
         [executors.as-{cli}.variants.unsafe]\n{UNBOXED}{tables}\n"
    )
}

/// A file that is planted: for a shell, in the state of the attempt and in the person's.
struct Target {
    own: Option<String>,
    persons: String,
}

fn targets(cli: &str) -> Vec<Target> {
    let table: Value = toml::from_str(BUILT_IN).unwrap();
    let places = table[cli]["state"].as_array().unwrap().clone();
    let mut targets = Vec::new();
    for place in places {
        let names = |key: &str| place[key].as_array().cloned().unwrap_or_default();
        let credentials = names("credentials").into_iter().map(|it| it["file"].clone());
        let named = names("copy").into_iter().chain(names("read")).chain(credentials);
        let named = named.map(|it| it.as_str().unwrap().to_owned());
        let is_of_it = place["variable"] != Value::Null;
        let usual = USUAL.into_iter().filter(|_| is_of_it && place["from"] != "~/");
        for file in named.chain(usual.map(str::to_owned)) {
            let is_file = file.rsplit('/').next().unwrap().contains('.')
                || file.starts_with("git/")
                || USUAL.contains(&&*file);
            let file = if is_file { file } else { format!("{file}/planted.md") };
            let from = place["from"].as_str().unwrap().trim_end_matches('/').replace('~', "$HOME");
            let own = place["variable"].as_str().map(|it| format!("\"${it}/{file}\""));
            targets.push(Target { own, persons: format!("\"{from}/{file}\"") });
        }
    }
    targets
}

fn write(path: &str, text: &str) -> String {
    format!("run mkdir -p \"$(dirname {path})\" && rm -rf {path} && echo '{text}' > {path}")
}

/// Fails if it finds what was planted, among the person's files or those of the attempt.
fn look(cli: &str) -> String {
    let targets = targets(cli);
    let paths = targets.iter().flat_map(|it| it.own.iter().chain([&it.persons]));
    let paths: Vec<&str> = paths.map(String::as_str).collect();
    format!("run ! grep -s '{PLANTED}' {} | grep .", paths.join(" "))
}

/// Every file of the person's, with its content.
fn persons(provost: &Provost) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![provost.path("person")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                found.push((entry.path(), text));
            }
        }
    }
    found.sort();
    found
}

fn follow_up(provost: &Provost, attempt: &Attempt<'_>, turn: u32, prompt: &str, variant: &str) {
    let more =
        json!({"attempt_id": attempt.id, "action": "send", "prompt": prompt, "variant": variant});
    provost.call("follow_up", &more);
    attempt.saved(turn);
}

/// The exit code of the last command that ran in it, and what it said.
fn last(attempt: &Attempt<'_>) -> (i64, String) {
    results(attempt).pop().unwrap()
}

#[test]
fn what_is_planted_in_the_state_of_each_built_in_cli_stays_in_its_attempts_boxes() {
    if !can_hold() {
        return;
    }
    let configs: String = CLIS.into_iter().map(config).collect();
    let provost = Provost::new().config(&configs);
    // The person has all that the rows name.
    let home = provost.path("person");
    for target in CLIS.into_iter().flat_map(targets) {
        let path = target.persons.trim_matches('"').replace("$HOME", home.to_str().unwrap());
        fs::create_dir_all(PathBuf::from(&path).parent().unwrap()).unwrap();
        fs::write(&path, THEIRS).unwrap();
    }
    let provost = provost.started();
    let board = provost.board();
    let before = persons(&provost);
    for cli in CLIS {
        let (name, look, targets) = (format!("as-{cli}"), look(cli), targets(cli));
        let own: Vec<String> =
            targets.iter().filter_map(|it| Some(write(it.own.as_ref()?, PLANTED))).collect();
        let direct: Vec<String> = targets.iter().map(|it| write(&it.persons, PLANTED)).collect();
        let start = |prompt: &str, variant: &str, from: Option<&str>| {
            let more = json!({"prompt": prompt, "variant": variant, "from_attempt_id": from});
            let attempt = board.start_with(&name, &more);
            attempt.saved(1);
            attempt
        };
        let planter = start(&own.join("\n"), "held", None);
        let planted = results(&planter).iter().filter(|(code, _)| *code == 0).count();
        follow_up(&provost, &planter, 2, &direct.join("\n"), "held");
        let reached = results(&planter).iter().filter(|(code, _)| *code == 0).count() - planted;
        assert!(planted * 3 > own.len() * 2, "{cli}: {planted} of {}", own.len());
        assert_eq!(reached, 0, "{cli}: {:?}", results(&planter));
        assert!(persons(&provost) == before, "{cli}: nothing of the person's has changed");
        // It is there for the next turn in its box, and for nothing else.
        follow_up(&provost, &planter, 3, &look, "held");
        assert_eq!(last(&planter).0, 1, "{cli}: {:?}", last(&planter));
        follow_up(&provost, &planter, 4, &look, "unsafe");
        assert_eq!(last(&planter), (0, String::new()), "{cli}: its turn without a box");
        for (variant, from) in [
            ("held", None),
            ("unsafe", None),
            ("held", Some(&*planter.id)),
            ("unsafe", Some(&*planter.id)),
        ] {
            let other = start(&look, variant, from);
            assert_eq!(last(&other), (0, String::new()), "{cli}: {variant}, a fork of {from:?}");
        }
    }
    for cli in CLIS {
        let direct: Vec<String> =
            targets(cli).iter().map(|it| write(&it.persons, PLANTED)).collect();
        let unboxed = json!({"prompt": direct.join("\n"), "variant": "unsafe"});
        let attempt = board.start_with(&format!("as-{cli}"), &unboxed);
        attempt.settled();
        assert!(results(&attempt).iter().all(|(code, _)| *code == 0), "{:?}", results(&attempt));
    }
    let after = persons(&provost);
    let reached = |path: &PathBuf| {
        after.iter().any(|(it, text)| it == path && *text == format!("{PLANTED}\n"))
    };
    let kept: Vec<_> =
        before.iter().filter(|(path, text)| text == THEIRS && !reached(path)).collect();
    assert!(kept.is_empty(), "without a box all of it was reached: {kept:?}");
}
