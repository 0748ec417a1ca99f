//! `provost cluster`: several hosts on one board on this machine, which a shell script sets up and ends;
//! and two commands for the database of a board.

use std::process::{ExitStatus, Stdio};

use futures_util::future::select_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::leftovers;
use super::prelude::*;
use crate::config::Config;
use crate::daemon;
use crate::home::{ATTEMPT_VARIABLES, HOME_VARIABLE};

const UP: &str = include_str!("up.sh");

#[derive(clap::Subcommand, Debug)]
pub enum ClusterCommand {
    /// Run a PostgreSQL server and a few hosts on this machine, until Ctrl-C
    ///
    /// Everything is in a new folder below /tmp, and is gone when it ends. It needs the programs of
    /// PostgreSQL, but no server that runs.
    Up {
        /// How many hosts
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
        local: u8,
    },
    /// Take note that the database of the board was restored from a backup
    ///
    /// Run it once, with the configuration of any host, before a daemon opens the restored database.
    /// All attempts that ran or waited at the time of the backup end as failed, and each daemon
    /// ends what runs on its host before it goes on: nothing runs twice.
    Restored,
    /// Bring the schema of the board up to date
    ///
    /// Run it with the configuration of any host. The first daemon of a new version does the same at its
    /// start.
    Migrate,
}

pub async fn cluster(context: &mut Context, command: ClusterCommand) -> Result<Exit, Failure> {
    match command {
        ClusterCommand::Up { local } => up(local).await,
        ClusterCommand::Restored => restored(context).await,
        ClusterCommand::Migrate => migrate(context).await,
    }
}

/// `provost cluster migrate`: brings the schema up to date, without a daemon.
async fn migrate(context: &mut Context) -> Result<Exit, Failure> {
    let config = Config::load(&context.home()?.config_file(), &[])?;
    daemon::visit(&config.settings.engine, true).await?.close().await;
    if !context.out.as_json(&json!({"is_current": true}))? {
        context.out.line("The board's schema is that of this version.")?;
    }
    Ok(Exit::Done)
}

/// `provost cluster restored`: begins a new generation of the board, in which daemons end what they ran.
async fn restored(context: &mut Context) -> Result<Exit, Failure> {
    let config = Config::load(&context.home()?.config_file(), &[])?;
    let store = daemon::visit(&config.settings.engine, false).await?;
    let noted = store.restored().await;
    store.close().await;
    let (generation, ended) = noted.map_err(|refusal| Failure::Refused(Box::new(refusal)))?;
    let noted = json!({"generation": generation, "attempts_ended": ended});
    if !context.out.as_json(&noted)? {
        context.out.line(&format!(
            "The board is in generation {generation}; {ended} attempts have ended. Start the daemons now."
        ))?;
    }
    Ok(Exit::Done)
}

/// `provost cluster up`: runs the script until it ends, and then removes all processes and files.
async fn up(local: u8) -> Result<Exit, Failure> {
    let folder = tempfile::Builder::new().prefix("provost-cluster-").tempdir_in("/tmp")?;
    let failure = folder.path().join("failure");
    #[expect(clippy::disallowed_methods, reason = "the script belongs to no attempt")]
    let mut script = Command::new("sh");
    script
        .args(["-c", UP])
        .env("provost", std::env::current_exe()?)
        .env("root", folder.path())
        .env("failure", &failure)
        .env("hosts", local.to_string())
        .env_remove(HOME_VARIABLE)
        .stdin(Stdio::null());
    for name in ATTEMPT_VARIABLES {
        script.env_remove(name);
    }
    let status = until_ended(script.spawn()?).await?;
    let why = std::fs::read_to_string(&failure).unwrap_or_default();
    // On a loaded machine, a daemon can outlive the script.
    leftovers::kill(folder.path())?;
    folder.close()?;
    if status.success() {
        return Ok(Exit::Done);
    }
    Err(Failure::Fault(format!("the cluster can't be set up: {}", why.trim())))
}

/// Waits for the script. A signal to this process is passed on, and the wait continues: the script
/// cleans up before it ends.
async fn until_ended(mut script: Child) -> std::io::Result<ExitStatus> {
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let mut signals = signals.into_iter().map(signal).collect::<std::io::Result<Vec<_>>>()?;
    let interrupted = select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv())));
    tokio::select! {
        status = script.wait() => return status,
        _ = interrupted => {}
    }
    if let Some(pid) = script.id() {
        // Ctrl-C in a terminal also reaches the script itself; a second signal does no harm.
        let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM);
    }
    script.wait().await
}
