//! Reports a wrong command line, with tips for words that are verbs of other programs.

use std::process::ExitCode;

use clap::ArgMatches;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use provost_actors::refusal::{Code, Refusal};

use super::Exit;

/// Verbs of other programs, and what to type here instead.
const MEANT: &[(&[&str], &str)] = &[
    (
        &["list", "ls"],
        "`provost ps` lists attempts, `provost task list` tasks, `provost project list` projects",
    ),
    (
        &["start", "launch", "begin"],
        "`provost run PROMPT` creates a task and starts it, `provost task start TASK` starts one \
         that exists, `provost daemon` starts the daemon",
    ),
    (
        &["rerun", "restart", "again"],
        "`provost retry ATTEMPT` starts another attempt at its task, `provost send ATTEMPT PROMPT` \
         continues it",
    ),
    (&["continue", "prompt"], "`provost send ATTEMPT PROMPT` continues an attempt"),
    (&["kill", "cancel", "abort", "interrupt"], "`provost stop ATTEMPT` stops an attempt"),
    (
        &["remove", "delete", "clean", "prune"],
        "`provost rm ATTEMPT` discards an attempt's worktrees, `provost gc` those of all that are \
         done, `provost task rm TASK` removes a task, `provost project rm` a project, `provost \
         plan remove` a plan",
    ),
    (
        &["cd", "sh", "edit", "editor", "worktree"],
        "`provost shell ATTEMPT` starts a shell in the attempt's worktree, `provost open --editor \
         ATTEMPT` your editor, `provost path ATTEMPT` prints its path, `provost task edit` changes a task",
    ),
    (
        &["attach", "watch", "follow", "tail", "log"],
        "`provost logs -f ATTEMPT` follows an attempt's log",
    ),
    (&["show", "info", "inspect", "get"], "`provost status ATTEMPT`, `provost task show TASK`"),
    (
        &["rename"],
        "`provost task edit TASK --title TITLE` changes a task's title; Provost does not rename \
         projects",
    ),
    (
        &["new", "add", "create"],
        "`provost task add TITLE` adds a task, `provost init` this repository as a project, \
         `provost run PROMPT` starts an agent at a new task",
    ),
    (
        &["ui", "web", "serve", "server", "dashboard", "open-ui"],
        "`provost open` opens the web page, `provost daemon` runs the supervisor, `provost mcp` is \
         the MCP server",
    ),
    (&["version"], "`provost --version`"),
    (&["man", "docs", "manual"], "`provost help` and `provost help VERB`"),
    (&["agents", "models"], "`provost executors`"),
    (
        &["done", "finish"],
        "`provost task done TASK` sets a task to done, `provost merge ATTEMPT` merges its work",
    ),
];

/// The typed verb, with its subcommand: `task add`. `hints` looks flags up by it.
pub fn verb(matches: &ArgMatches) -> String {
    let Some((name, below)) = matches.subcommand() else { return String::new() };
    match below.subcommand_name() {
        Some(second) => format!("{name} {second}"),
        None => name.to_owned(),
    }
}

/// Reports a wrong command line with exit code 2, or prints help or the version with exit code 0.
pub fn report(mut error: clap::Error) -> ExitCode {
    if let Some(tip) = tip(&error) {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    // The arguments could not be parsed, so `--json` is searched among them.
    let mut options = std::env::args_os().take_while(|argument| argument != "--");
    if error.use_stderr() && options.any(|argument| argument == "--json") {
        let text = error.render().to_string();
        let message = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
        let message = message.collect::<Vec<_>>().join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        let hint = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        let hint = hint.map_or(String::new(), |hint| format!("{hint}."));
        let refusal = Refusal::new(Code::InvalidArgument, message).hint(hint);
        anstream::eprintln!("{}", refusal.envelope());
    } else {
        // Fails only if the reader has gone.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8))
}

/// The tip for an unknown verb; `None`: clap's own suggestion stays.
fn tip(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let word = typed.to_lowercase();
    MEANT.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, tip)| *tip)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_word_from_elsewhere_leads_to_a_verb() {
        for (words, expected) in MEANT {
            for word in *words {
                let error = Cli::command().try_get_matches_from(["provost", word]).unwrap_err();
                assert_eq!(tip(&error), Some(*expected), "{word}");
            }
        }
    }

    #[test]
    fn every_verb_that_a_tip_names_is_there() {
        for (_, tip) in MEANT {
            for line in tip.split('`').skip(1).step_by(2).filter(|line| !line.contains("--version"))
            {
                let mut command = Cli::command();
                command.build();
                let mut words = line.split(' ').skip(1);
                let verb = words.next().unwrap();
                let below = command.find_subcommand(verb);
                let below = below.unwrap_or_else(|| panic!("{line}"));
                let second = words.next().filter(|word| word.chars().all(char::is_lowercase));
                let has_verbs = below.has_subcommands() && verb != "help";
                assert!(
                    !has_verbs || second.is_some_and(|it| below.find_subcommand(it).is_some()),
                    "{line}"
                );
            }
        }
    }
}
