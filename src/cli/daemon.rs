//! `provost daemon` up to where the daemon itself begins, `provost
//! shutdown`, and `provost config show`.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::output::{Output, short};
use super::table::{whole, wrapped};
use crate::config::{Config, Override};
use crate::daemon;
use crate::home::Home;
use crate::telemetry;

/// How long `shutdown` waits for the daemon's end; stopping all its attempts
/// may take the longest grace there is.
const SHUTDOWN_LIMIT: Duration = Duration::from_mins(11);

#[derive(clap::Args, Debug)]
pub struct DaemonArgs {
    /// Attempts that may run at once; further starts wait [default: 8]
    #[arg(long, value_name = "N")]
    max_running_attempts: Option<String>,
    /// Milliseconds from a stop's SIGINT to its SIGKILL, with SIGTERM half-way [default: 5000]
    #[arg(long, value_name = "MS")]
    stop_grace_ms: Option<String>,
    /// Leave the caller's session: this daemon was started by another verb
    #[arg(long, hide = true)]
    background: bool,
}

#[derive(clap::Args, Debug)]
pub struct ShutdownArgs {
    /// Stop all attempts first [default: they keep running, and the next daemon finds them]
    #[arg(long)]
    stop_all: bool,
}

#[derive(clap::Subcommand, Debug)]
pub enum ConfigCommand {
    /// Print every setting with its origin
    Show,
}

/// Prepares the process and is the daemon until it ends.
pub fn daemon(args: &DaemonArgs, home: &Home) -> Result<Exit, Failure> {
    // Linux before 5.9 has no such call; a descriptor too many is no fault then.
    let _ = provost_actors::process::close_inherited();
    if args.background {
        // Fails only for the leader of a process group, which is a daemon in
        // nobody's way already.
        let _ = nix::unistd::setsid();
    }
    telemetry::start(telemetry::DAEMON_DEFAULT)?;
    let config = Config::load(&home.config_file(), &overrides(args))?;
    daemon::run(home, &config)?;
    Ok(Exit::Done)
}

fn overrides(args: &DaemonArgs) -> Vec<Override> {
    let flags = [
        ("daemon.max_running_attempts", "--max-running-attempts", &args.max_running_attempts),
        ("daemon.stop_grace_ms", "--stop-grace-ms", &args.stop_grace_ms),
    ];
    let given = flags
        .into_iter()
        .filter_map(|(path, flag, text)| text.clone().map(|text| Override { path, flag, text }));
    given.collect()
}

pub async fn shutdown(context: &mut Context, args: &ShutdownArgs) -> Result<Exit, Failure> {
    let ended = end(context, args.stop_all).await?;
    let Ended { pid, alive, unrecorded } = &ended;
    if context.out.is_json() {
        let has_ended = alive.is_empty();
        context.out.json(&json!({"pid": pid, "ended": has_ended, "alive": alive,
            "unrecorded": unrecorded}))?;
    } else if alive.is_empty() {
        for attempt in unrecorded {
            let attempt = short(attempt.as_str().unwrap_or_default());
            let line = format!("{attempt} was stopped; the next daemon writes it down");
            context.out.line(&line)?;
        }
        context.out.line(&format!("the daemon (pid {pid}) has ended"))?;
    }
    if alive.is_empty() { Ok(Exit::Done) } else { Err(Failure::Fault(still_alive(&ended))) }
}

/// Who is still alive, and what can be done. The daemon that knows of them goes on.
fn still_alive(ended: &Ended) -> String {
    let each = ended.alive.iter().map(|it| {
        let who = Some(short(text(it, "attempt_id"))).filter(|id| !id.is_empty());
        format!("  {} ({})\n", who.unwrap_or("a check"), text(it, "reason"))
    });
    format!(
        "not stopped:\n{}The daemon (pid {}) goes on. Try `provost stop --force ATTEMPT`, or leave \
         them alive with `provost shutdown`",
        each.collect::<String>(),
        ended.pid
    )
}

/// What an end of the daemon came to.
pub struct Ended {
    pub pid: u32,
    /// The attempts of which something is still alive, each with the reason. Unless
    /// there is none the daemon goes on.
    pub alive: Vec<Value>,
    /// The attempts whose stop is not written down yet.
    pub unrecorded: Vec<Value>,
}

/// Ends the daemon that runs, and waits until it is gone.
pub async fn end(context: &mut Context, stop_all: bool) -> Result<Ended, Failure> {
    let mut client = context.running().await?;
    let pid = client.welcome().pid;
    let process = Process::find(pid);
    let told = client.method("provost/shutdown", json!({"stop_all": stop_all})).await?;
    let list = |key: &str| told[key].as_array().cloned().unwrap_or_default();
    let ended = Ended { pid, alive: list("alive"), unrecorded: list("unrecorded") };
    if !ended.alive.is_empty() {
        return Ok(ended);
    }
    let deadline = Instant::now() + SHUTDOWN_LIMIT;
    let gone = async {
        client.closed().await;
        while process.as_ref().is_some_and(Process::is_alive) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout_at(deadline, gone).await.is_err() {
        return Err(Failure::Fault(format!("the daemon (pid {pid}) is still there")));
    }
    Ok(ended)
}

/// A process known by its id and its start, so that a later one with the same
/// id is not taken for it.
struct Process {
    pid: u32,
    start: String,
}

impl Process {
    fn find(pid: u32) -> Option<Self> {
        stat(pid).map(|(_, start)| Self { pid, start })
    }

    /// A zombie is dead: it is for its parent to notice.
    fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|(state, start)| start == self.start && state != "Z")
    }
}

/// State and start time, fields 3 and 22 of /proc/PID/stat (`proc_pid_stat(5)`).
fn stat(pid: u32) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, field 2, stands in parentheses and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.to_owned();
    Some((state, fields.nth(18)?.to_owned()))
}

pub fn config(out: &mut Output, home: &Home, command: &ConfigCommand) -> Result<Exit, Failure> {
    let ConfigCommand::Show = command;
    let shown = Config::load(&home.config_file(), &[])?.show();
    if out.is_json() {
        out.json(&json!({"file": home.config_file(), "values": shown}))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|value| vec![value.key.clone(), plain(&value.value), value.origin.clone()])
        .collect();
    out.table(&[wrapped("KEY"), wrapped("VALUE"), whole("ORIGIN")], &rows)?;
    Ok(Exit::Done)
}

fn plain(value: &Value) -> String {
    if value.is_null() { "-".to_owned() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_one_that_started_otherwise_is_another() {
        let mut process = Process::find(std::process::id()).unwrap();
        assert!(process.is_alive());
        process.start.push('0');
        assert!(!process.is_alive());
    }

    #[test]
    fn who_is_still_alive_is_named_with_what_can_be_done() {
        let alive = json!({"attempt_id": "0192f0c1-2345-7abc-8def-0123456789ab",
            "reason": "2 of its processes can't be killed"});
        let ended = Ended { pid: 7, alive: vec![alive], unrecorded: vec![] };
        insta::assert_snapshot!(still_alive(&ended), @r"
        not stopped:
          456789ab (2 of its processes can't be killed)
        The daemon (pid 7) goes on. Try `provost stop --force ATTEMPT`, or leave them alive with `provost shutdown`
        ");
    }

    #[test]
    fn flags_become_settings() {
        let args = DaemonArgs {
            max_running_attempts: None,
            stop_grace_ms: Some("7".to_owned()),
            background: false,
        };
        let dir = tempfile::tempdir().unwrap();
        let config = Config::load(&dir.path().join("none"), &overrides(&args)).unwrap();
        assert_eq!(config.settings.daemon.stop_grace_ms, 7);
    }
}
