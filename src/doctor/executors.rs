//! The configuration, and whether its executors can be run.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use provost_actors::attempt::is_base;
use provost_actors::executor::{Executor, Executors, Launch, Turn};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::check::Check;
use crate::config::Config;
use crate::executors::{Registry, fake};
use crate::home::Home;

/// A program that takes longer to tell its version is not waited for.
const DEADLINE: Duration = Duration::from_secs(5);
/// The most of its answer that is read, in bytes, and shown, in characters.
const ANSWER_MAX: u64 = 4096;
const SHOWN: usize = 60;

pub async fn checks(home: &Home) -> Vec<Check> {
    let config = match Config::load(&home.config_file(), &[]) {
        Ok(config) => config,
        Err(error) => {
            let check = Check::fail("configuration", error.to_string())
                .hint("Mend it there; a daemon that runs goes on with what it has read.");
            return vec![check];
        }
    };
    let file = home.config_file();
    let message = if file.exists() {
        format!("{} can be read", file.display())
    } else {
        "there is no config.toml: all is as by default".to_owned()
    };
    let mut checks = vec![Check::ok("configuration", message)];
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let executors = Registry::new(&config, &environment).all();
    let asked = executors.iter().map(|executor| of_executor(&**executor, &environment));
    checks.extend(futures_util::future::join_all(asked).await);
    checks
}

async fn of_executor(executor: &dyn Executor, environment: &BTreeMap<String, String>) -> Check {
    let told = executor.describe();
    let name = format!("executor {}", told.name);
    let variants = match told.variants.len() {
        0 => String::new(),
        _ => format!("; variants {}", told.variants.join(", ")),
    };
    if let Some(reason) = told.unavailable_reason {
        return Check::warn(&name, format!("{reason}{variants}"))
            .hint("Install it, or mend its `command` in config.toml.");
    }
    if told.name == fake::NAME {
        return Check::ok(&name, "built in");
    }
    let launch = match executor.launch(&Turn::nowhere()) {
        Ok(launch) => launch,
        Err(reason) => return Check::warn(&name, reason).hint("Mend it in config.toml."),
    };
    let program = launch.program.display().to_string();
    match version(&launch, environment).await {
        Some(version) => Check::ok(&name, format!("{program}: {version}{variants}")),
        None => Check::ok(&name, format!("{program}, which tells no version{variants}")),
    }
}

/// The first line that the program says of its version. It runs as executors do,
/// with an environment that is made; nobody sees what else it says.
async fn version(launch: &Launch, environment: &BTreeMap<String, String>) -> Option<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a program asked for its version is no attempt's"
    )]
    let mut command = Command::new(&launch.program);
    let nowhere = tempdir()?;
    command
        .arg("--version")
        .env_clear()
        .envs(environment.iter().filter(|(name, _)| is_base(name)))
        .envs(&launch.env)
        .current_dir(&nowhere)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().ok()?;
    let group = child.id().map(|pid| Pid::from_raw(pid.cast_signed()));
    let answer = async {
        let mut said = Vec::new();
        let stdout = child.stdout.take()?;
        stdout.take(ANSWER_MAX).read_to_end(&mut said).await.ok()?;
        child.wait().await.ok()?.success().then_some(said)
    };
    let said = tokio::time::timeout(DEADLINE, answer).await.ok().flatten();
    if let Some(group) = group.filter(|_| said.is_none()) {
        // Its leader is dead or a child of ours: the number is not another's yet.
        let _ = killpg(group, Signal::SIGKILL);
    }
    let _ = std::fs::remove_dir(&nowhere);
    let said = String::from_utf8_lossy(&said?).into_owned();
    let line = said.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(SHOWN).collect())
}

/// A folder of its own to run in.
fn tempdir() -> Option<std::path::PathBuf> {
    let path = std::env::temp_dir().join(format!("provost-doctor-{}", uuid::Uuid::now_v7()));
    std::fs::create_dir(&path).ok().map(|()| path)
}
