//! `provost completions`: prints a completion script for a shell, made from the definitions of the verbs.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use super::prelude::*;

pub fn completions(context: &mut Context, shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "provost", &mut script);
    context.out.raw(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
