//! Runs a program in a child, and is the init of all that it starts: reaps what
//! the killed leave behind, since a kernel tells how a process ended once it has
//! been reaped, and ends whatever is left when the program ends or is interrupted.

use std::process::ExitCode;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::{Result, command};

/// `variable` is set for the child, so that it knows that it is one.
pub fn run(variable: &str) -> ExitCode {
    match supervise(variable) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            eprintln!("init: {error}");
            ExitCode::FAILURE
        }
    }
}

fn supervise(variable: &str) -> Result<i32> {
    nix::sys::prctl::set_child_subreaper(true)?;
    let signals = SigSet::from_iter([Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM]);
    // The standard library unblocks them in what it spawns.
    signals.thread_block()?;
    let child = command(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(variable, "1")
        .spawn()?;
    let matrix = Pid::from_raw(child.id().cast_signed());
    let mut code = None;
    loop {
        let signal = signals.wait()?;
        // Reaped, its number may be another's.
        if signal != Signal::SIGCHLD && code.is_none() {
            kill(matrix, Signal::SIGKILL)?;
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, status)) if pid == matrix => code = Some(status),
                Ok(WaitStatus::Signaled(pid, ..)) if pid == matrix => code = Some(1),
                Ok(WaitStatus::StillAlive) => break,
                Ok(_) => {}
                // Nobody is left at all.
                Err(_) => return Ok(code.unwrap_or(1)),
            }
        }
        if code.is_some() {
            kill_children()?;
        }
    }
}

/// What they have started falls to us in its turn.
fn kill_children() -> Result<()> {
    let pid = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    for child in children.split_whitespace() {
        // One that has ended meanwhile is reaped next.
        let _ = kill(Pid::from_raw(child.parse()?), Signal::SIGKILL);
    }
    Ok(())
}
