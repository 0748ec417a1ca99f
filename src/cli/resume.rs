//! `provost resume`: continues an attempt's session by hand, in the terminal interface of its executor.
//! The program runs below this process, because the daemon has to be told of its end: it then takes
//! back a token that the program may have renewed.

use provost_actors::process::by_hand::Prepared;
use tokio::signal::unix::{SignalKind, signal};

use super::prelude::*;

/// Variables that the program gets from this terminal; all others are those of the attempt's turns.
const OF_TERMINAL: [&str; 4] = ["TERM", "COLORTERM", "TERM_PROGRAM", "NO_COLOR"];

#[derive(clap::Args, Debug)]
pub struct ResumeArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
}

/// `provost resume`: ends this process with the program's exit code. `turn_active` if the session is open
/// in another terminal. With `--json` it only prints what it would run.
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

/// Runs the program; returns its exit code as a shell does: 128 and the signal's number for a signal.
async fn run(prepared: Prepared) -> Result<i32, Failure> {
    use std::os::unix::process::ExitStatusExt;
    // Ctrl-C and Ctrl-\ are for the program. With handlers of its own, this process survives them. The
    // program does not inherit handlers: exec resets them (execve(2)).
    let _kept = [signal(SignalKind::interrupt())?, signal(SignalKind::quit())?];
    let Prepared { command, kept } = prepared;
    let status = tokio::process::Command::from(command).status().await?;
    drop(kept);
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}
