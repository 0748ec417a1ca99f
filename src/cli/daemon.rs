//! `provost daemon`, `provost shutdown` and `provost config show`.

use std::time::Duration;

use provost_actors::process::identity::Process;

use super::prelude::*;
use crate::config::{Config, Flag};
use crate::home::Home;
use crate::{daemon, telemetry};

/// How long `shutdown` waits for the daemon to end: longer than the longest grace period of a stop.
const SHUTDOWN_LIMIT: Duration = Duration::from_mins(11);

#[derive(clap::Args, Debug)]
pub struct DaemonArgs {
    /// The most attempts that run at once; further ones are queued [default: 8]
    #[arg(long, value_name = "N")]
    max_running_attempts: Option<String>,
    /// Milliseconds from a stop's SIGINT to its SIGKILL; SIGTERM is half-way [default: 5000]
    #[arg(long, value_name = "MS")]
    stop_grace_ms: Option<String>,
    /// Where the page and the API listen: an address and a port, or off [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The PostgreSQL database of the board, without a password [default: a file of the home]
    #[arg(long, value_name = "URL")]
    engine: Option<String>,
    /// What it does on a board that hosts share: all, gateway or worker [default: all]
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Leave the caller's session: another verb starts this daemon
    #[arg(long, hide = true)]
    background: bool,
}

#[derive(clap::Subcommand, Debug)]
pub enum ConfigCommand {
    /// Print every setting with its origin
    Show,
}

/// Prepares this process and runs the daemon in it, until the daemon ends.
pub fn daemon(args: &DaemonArgs, home: &Home) -> Result<Exit, Failure> {
    // Fails on Linux before 5.9, where the daemon then keeps inherited descriptors open.
    let _ = provost_actors::process::close_inherited();
    if args.background {
        // Fails only for the leader of a process group, which its parent has set apart already.
        let _ = nix::unistd::setsid();
    }
    telemetry::start(telemetry::DAEMON_DEFAULT)?;
    let config = Config::load(&home.config_file(), &flags(args))?;
    daemon::run(home, &config)?;
    Ok(Exit::Done)
}

/// The given flags as settings, which override the file and the environment.
fn flags(args: &DaemonArgs) -> Vec<Flag> {
    let flags = [
        ("daemon.max_running_attempts", &args.max_running_attempts),
        ("daemon.stop_grace_ms", &args.stop_grace_ms),
        ("http.listen", &args.listen),
        ("engine.url", &args.engine),
        ("host.role", &args.role),
    ];
    flags.into_iter().filter_map(|(path, text)| Some((path, text.clone()?))).collect()
}

/// `provost shutdown`. With `--stop-all`, a daemon that could not stop every attempt keeps running; the
/// verb then names those attempts and fails.
pub async fn shutdown(context: &mut Context, stop_all: bool) -> Result<Exit, Failure> {
    let (pid, done) = end(context, stop_all).await?;
    let Shutdown { alive, unrecorded } = &done.output;
    let json = json!({"pid": pid, "ended": alive.is_empty(), "alive": done.json["alive"],
        "unrecorded": unrecorded});
    if !context.out.as_json(&json)? && alive.is_empty() {
        for attempt in unrecorded {
            let short = attempt.short();
            context.out.line(&format!("{short} was stopped; the next daemon records it"))?;
        }
        context.out.line(&format!("the daemon (pid {pid}) has ended"))?;
    }
    if alive.is_empty() { Ok(Exit::Done) } else { Err(Failure::Fault(still_alive(pid, alive))) }
}

/// The message for a shutdown that left something alive.
fn still_alive(pid: u32, alive: &[Survivor]) -> String {
    let each = alive.iter().map(|it| {
        let name = it.attempt_id.map_or("a check".to_owned(), |id| id.short());
        format!("  {name} ({})\n", it.reason)
    });
    format!(
        "not stopped:\n{}The daemon (pid {pid}) keeps running. Try `provost stop --force \
         ATTEMPT`, or leave them alive with `provost shutdown`",
        each.collect::<String>(),
    )
}

/// Ends the running daemon, and waits until its process is gone; returns the daemon's pid and its answer.
/// If the answer names something alive, the daemon goes on. Fails if no daemon runs.
pub async fn end(
    context: &mut Context,
    stop_all: bool,
) -> Result<(u32, Answer<Shutdown>), Failure> {
    let mut client = Context::running(context.home()?).await?;
    let pid = client.welcome.pid;
    let process = Process::of(pid.cast_signed()).and_then(Process::open);
    let done = client.call::<Shutdown>(json!({"stop_all": stop_all})).await?;
    if !done.alive.is_empty() {
        return Ok((pid, done));
    }
    let gone = async {
        client.closed().await;
        match process {
            Some(process) => process.dead().await,
            None => Ok(()),
        }
    };
    match tokio::time::timeout(SHUTDOWN_LIMIT, gone).await {
        Ok(gone) => Ok(gone.map(|()| (pid, done))?),
        Err(_) => Err(Failure::Fault(format!("the daemon (pid {pid}) has not ended yet"))),
    }
}

/// `provost config show`: the settings of the file and the environment, without a daemon. Flags of a
/// running daemon are not part of them.
pub fn config(context: &mut Context, command: &ConfigCommand) -> Result<Exit, Failure> {
    let ConfigCommand::Show = command;
    let file = context.home()?.config_file();
    let shown = Config::load(&file, &[])?.show();
    let plain = |value: &Value| if value.is_null() { "-".to_owned() } else { value.to_string() };
    let rows = shown.iter().map(|it| vec![it.key.clone(), plain(&it.value), it.origin.clone()]);
    let columns = [Wrapped("KEY"), Wrapped("VALUE"), Whole("ORIGIN")];
    context.list(&json!({"file": file, "values": shown}), &columns, rows, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_shutdown_names_what_is_alive_and_what_can_be_done() {
        let alive = json!([{"attempt_id": "0192f0c1-2345-7abc-8def-0123456789ab",
            "reason": "2 of its processes can't be killed"}, {"reason": "it hangs"}]);
        let alive: Vec<Survivor> = serde_json::from_value(alive).unwrap();
        insta::assert_snapshot!(still_alive(7, &alive), @r"
        not stopped:
          456789ab (2 of its processes can't be killed)
          a check (it hangs)
        The daemon (pid 7) keeps running. Try `provost stop --force ATTEMPT`, or leave them alive with `provost shutdown`
        ");
    }

    #[test]
    fn flags_become_settings() {
        let args = DaemonArgs {
            max_running_attempts: None,
            listen: None,
            engine: None,
            role: None,
            stop_grace_ms: Some("7".to_owned()),
            background: false,
        };
        let dir = tempfile::tempdir().unwrap();
        let config = Config::load(&dir.path().join("none"), &flags(&args)).unwrap();
        assert_eq!(config.settings.daemon.stop_grace_ms, 7);
    }
}
