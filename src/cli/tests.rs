//! The command line as it is typed, and its help in docs/cli.md; and what the verbs' tests share.

use clap::CommandFactory;
use serde_json::{Value, json};

use super::*;
use crate::api::executors::ExecutorSummary;

/// The answer of `get_attempt_status` for an attempt that failed.
pub fn status() -> Value {
    let (id, time) = ("0192f0c1-2345-7abc-8def-0123456789ab", "2026-01-01T00:00:00Z");
    json!({"attempt_id": id, "task_id": id, "handle": "TASK-001", "workspace_branch": "b",
        "state": "failed", "phase": "settled", "executor": "fake", "host": "local", "created_at": time,
        "updated_at": time, "queued_follow_ups": 0, "queue_held": false, "limits": [],
        "conflicts_with": [],
        "latest_entry_index": {"normalized": null, "raw": null}})
}

/// An executor without any ability.
pub fn executor(name: &str, available: bool) -> ExecutorSummary {
    let executor = json!({"executor": name, "protocol": name, "variants": [],
        "available": available, "supports_mcp": false, "supports_resume": false,
        "supports_interrupt": false, "supports_approvals": false, "stand_in": false});
    serde_json::from_value(executor).unwrap()
}

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split(' '))
}

#[test]
fn the_commands_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_verb_is_there_with_its_flags() {
    for line in [
        "provost daemon --max-running-attempts 3 --stop-grace-ms 10",
        "provost daemon --background",
        "provost mcp",
        "provost mcp --role worker",
        "provost init",
        "provost init . --name n --target-branch b",
        "provost project add n --repo a --repo b@main",
        "provost project list --json",
        "provost run hello --project p --executor e --variant v --follow",
        "provost --json ps",
        "provost ps --all",
        "provost status 12345678",
        "provost logs -f --raw 12345678 --limit 5",
        "provost replay 12345678",
        "provost replay 12345678 --process 01998a52-0000-7000-8000-000000000000 --json",
        "provost diff 12345678 app/a app/b --json",
        "provost diff 12345678 --stat",
        "provost commit 12345678 --message done",
        "provost merge 12345678 --into main --strategy fast-forward -m done",
        "provost rm 12345678",
        "provost review add 12345678 app/a:1-2 text --side old --turn 1 --json",
        "provost review edit 12345678 12345679 text",
        "provost review list 12345678 --all",
        "provost review submit 12345678 -m done",
        "provost stop --force 12345678",
        "provost stop --all --json",
        "provost stop all",
        "provost path 12345678 app --json",
        "provost shell 12345678",
        "provost shell 12345678 app -c ls",
        "provost open --print",
        "provost open 12345678 --json",
        "provost open --editor 12345678 app --json",
        "provost hosts --json",
        "provost host drain local",
        "provost host resume local --json",
        "provost host remove local",
        "provost user add ana --access read",
        "provost user list",
        "provost user renew ana",
        "provost user revoke ana --json",
        "provost audit -n 5",
        "provost retry 12345678",
        "provost retry 12345678 --fresh --follow --ignore-dependencies",
        "provost retry 12345678 --session --json",
        "provost conflicts --project p --json",
        "provost project rm p --yes",
        "provost task edit TASK-001 --title t --description d --priority low --status done",
        "provost task edit TASK-001 --depends-on TASK-002 --depends-on TASK-003",
        "provost task edit TASK-001 --no-dependencies --project p",
        "provost logs",
        "provost task add title --description d --priority high --depends-on TASK-001 --project p",
        "provost task start TASK-001 --executor e --variant v --prompt p --follow --json",
        "provost task start TASK-001 --ignore-dependencies",
        "provost task done TASK-001 --project p",
        "provost task rm TASK-001",
        "provost wait 12345678",
        "provost wait --any --timeout 5 12345678 12345679 --json",
        "provost wait --all 12345678",
        "provost call list_projects",
        "provost call list_projects {}",
        "provost call list_projects -",
        "provost tools --role orchestrator --json --errors",
        "provost demo --json",
        "provost doctor --fix --json",
        "provost executors --json",
        "provost gc",
        "provost gc --yes --snapshot --older-than 7d --project p --json",
        "provost gc --empty-trash --older-than 0 --yes",
        "provost gc --kept --older-than 90d --project p --yes",
        "provost config show",
        "provost shutdown --stop-all",
        "provost completions bash",
    ] {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn nonsense_is_a_usage_error() {
    for line in [
        "provost",
        "provost fly",
        "provost project add n",
        "provost logs a --limit 0",
        "provost mcp --role king",
        "provost status",
        "provost stop",
        "provost merge 12345678 --strategy octopus",
        "provost stop --all 12345678",
        "provost review add 12345678 app/a text",
        "provost task add t --priority soon",
        "provost wait",
        "provost wait --any --all 12345678",
        "provost retry 12345678 --fresh --session",
        "provost retry 12345678 --session --follow",
        "provost task edit TASK-001",
        "provost task edit TASK-001 --status soon",
        "provost task edit TASK-001 --no-dependencies --depends-on TASK-002",
        "provost wait --timeout soon 12345678",
        "provost gc --empty-trash --snapshot",
        "provost gc --kept --snapshot",
        "provost gc --older-than soon",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

const PAGE: &str = "docs/cli.md";

#[test]
fn the_page_has_the_help_of_every_verb() {
    let mut command = Cli::command().term_width(90);
    command.build();
    let page = format!(
        "# The command line\n\nThe help of `provost` and of each verb; `UPDATE_DOCS=1 cargo test \
         --lib the_page` writes this page.\n{}",
        help(&mut command, "provost")
    );
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap();
    assert!(published == page, "{PAGE} is not current: run the test with UPDATE_DOCS=1");
}

/// The help of a verb and of those below it.
fn help(command: &mut clap::Command, name: &str) -> String {
    let text = command.render_long_help().to_string();
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    let own = format!("\n## {name}\n\n```text\n{}\n```\n", text.join("\n"));
    let below = command.get_subcommands_mut().filter(|it| it.get_name() != "help");
    let below = below.map(|verb| {
        let name = format!("{name} {}", verb.get_name());
        help(verb, &name)
    });
    own + &below.collect::<String>()
}
