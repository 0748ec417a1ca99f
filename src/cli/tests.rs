//! The command line as it is written and as it is explained.

use super::*;

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
        "provost stop --force 12345678",
        "provost stop --all --json",
        "provost stop all",
        "provost path 12345678 app --json",
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
        "provost stop --all 12345678",
        "provost task add t --priority soon",
        "provost wait",
        "provost wait --any --all 12345678",
        "provost wait --timeout soon 12345678",
        "provost gc --empty-trash --snapshot",
        "provost gc --older-than soon",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn help_says_what_there_is() {
    let mut command = Cli::command();
    command.build();
    insta::assert_snapshot!("help", command.render_long_help().to_string());
    for name in [
        "daemon", "mcp", "init", "run", "logs", "diff", "stop", "wait", "call", "tools",
        "shutdown", "doctor", "gc",
    ] {
        let verb = command.find_subcommand_mut(name).unwrap();
        insta::assert_snapshot!(format!("help_{name}"), verb.render_long_help().to_string());
    }
}
