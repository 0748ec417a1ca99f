//! `provost resume`: goes on with an attempt's session by hand, in its executor's own terminal
//! interface. That runs below this process, which then has a renewed token taken back.

use provost_actors::process::by_hand::Prepared;
use tokio::signal::unix::{SignalKind, signal};

use super::prelude::*;

/// Variables that the program gets from this terminal.
const OF_TERMINAL: [&str; 4] = ["TERM", "COLORTERM", "TERM_PROGRAM", "NO_COLOR"];

#[derive(clap::Args, Debug)]
pub struct ResumeArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
}

pub async fn resume(context: &mut Context, args: &ResumeArgs) -> Result<Exit, Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    let ByHand(mut by_hand) = context.call::<ByHand>(json!({"attempt_id": attempt})).await?.output;
    let terminal = OF_TERMINAL.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)));
    by_hand.env.extend(terminal.map(|(name, value)| (name.to_owned(), value)));
    let shown = json!({
        "attempt_id": attempt, "program": by_hand.program, "args": by_hand.args,
        "cwd": by_hand.cwd, "sandboxed": by_hand.sandbox.is_some(),
    });
    if context.out.as_json(&shown)? {
        return Ok(Exit::Done);
    }
    context.out.flush()?;
    let Some(prepared) = by_hand.command(&std::env::current_exe()?)? else {
        let message = "its session is open in another terminal";
        let hint = "End it there, then run this again.";
        let refusal = Refusal::new(Code::TurnActive, message).hint(hint);
        return Err(Failure::Refused(Box::new(refusal)));
    };
    let code = run(prepared).await?;
    context.call::<EndedByHand>(json!({"attempt_id": attempt})).await?;
    std::process::exit(code);
}

/// The exit code of the program, as a shell tells it.
async fn run(prepared: Prepared) -> Result<i32, Failure> {
    use std::os::unix::process::ExitStatusExt;
    // They are the program's. Its own handlers begin as usual, for it is executed anew.
    let _kept = [signal(SignalKind::interrupt())?, signal(SignalKind::quit())?];
    let Prepared { command, kept } = prepared;
    let status = tokio::process::Command::from(command).status().await?;
    drop(kept);
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}
