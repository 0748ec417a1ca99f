//! The checks of the configuration: whether it is valid, and whether its executors can run.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use provost_actors::executor::{Executor, Executors, Turn};

use super::check::Check;
use crate::config::{self, Config};
use crate::executors::{Registry, fake};
use crate::home::{Home, environment};

/// `daemon_path` is the `PATH` of the running daemon, if one runs: executors are looked up there, because
/// the daemon starts them. A shell with another `PATH` is a frequent reason why an agent is not found.
pub async fn checks(home: &Home, daemon_path: Option<&str>) -> Vec<Check> {
    let (name, file) = ("configuration", home.config_file());
    let config = match Config::load(&file, &[]) {
        Ok(config) => config,
        Err(error) => {
            let hint = "Fix it there; a daemon that runs keeps its old configuration.";
            return vec![Check::fail(name, error.to_string(), hint)];
        }
    };
    let message = if file.exists() {
        format!("{} is valid", file.display())
    } else {
        "there is no config.toml: all settings have their defaults".to_owned()
    };
    let mut checks = vec![Check::ok(name, message)];
    let outgoing = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    checks.extend(of_ports(&config.settings.worktrees.ports, &outgoing.unwrap_or_default()));
    let mut environment = environment();
    let registry = |environment| Registry::new(&config, home.machine(environment));
    let mut executors = registry(environment.clone());
    if let Some(path) = daemon_path {
        let own = environment.insert("PATH".to_owned(), path.to_owned()).unwrap_or_default();
        let shell = std::mem::replace(&mut executors, registry(environment.clone()));
        checks.push(of_path(&own, path, &shell.all(), &executors.all()));
    }
    let search = environment.get("PATH").map_or("", String::as_str);
    checks.extend(of_planted(&executors.machine().replaceable_folders(search)));
    let executors = executors.all();
    let asked = executors.iter().map(|executor| of_executor(&**executor, &config));
    checks.extend(futures_util::future::join_all(asked).await);
    checks
}

/// Warns if the kernel's range for outgoing connections overlaps the ports of attempts. `outgoing` is the
/// text of `ip_local_port_range` (ip(7)).
fn of_ports(configured: &str, outgoing: &str) -> Option<Check> {
    let configured = config::ports(configured)?;
    let mut bounds = outgoing.split_whitespace().map(|bound| bound.parse::<u16>().ok());
    let (first, last) = (bounds.next()??, bounds.next()??);
    (*configured.start() <= last && first <= *configured.end()).then(|| {
        let message = format!("outgoing connections may take ports from {first} to {last} too");
        let hint = "Set worktrees.ports to a range outside of it (ip_local_port_range).";
        Check::warn("ports", message, hint)
    })
}

/// Compares the folders of the daemon's `PATH` with those of this shell, and names the executors that
/// only the shell finds.
fn of_path(
    own: &str,
    daemon_path: &str,
    shell: &[Arc<dyn Executor>],
    daemon: &[Arc<dyn Executor>],
) -> Check {
    let can_run = |executor: &Arc<dyn Executor>| executor.describe().unavailable.is_none();
    let missed = shell.iter().zip(daemon).filter(|(here, there)| can_run(here) && !can_run(there));
    let missed: Vec<String> = missed.map(|(here, _)| here.describe().name).collect();
    let known: Vec<PathBuf> = std::env::split_paths(daemon_path).collect();
    let lacks = std::env::split_paths(own).filter(|folder| !known.contains(folder));
    let lacks: Vec<String> = lacks.map(|folder| folder.display().to_string()).collect();
    if lacks.is_empty() {
        return Check::ok("PATH", "the daemon looks for programs where this shell does");
    }
    let message = format!("the daemon's PATH lacks {}", lacks.join(", "));
    let hint = "Run `provost shutdown`: agents keep running, and the next command starts a \
                daemon with this shell's PATH.";
    if missed.is_empty() {
        return Check::note("PATH", message, hint);
    }
    Check::warn("PATH", format!("{message}: it does not find {}", missed.join(", ")), hint)
}

/// Warns if agents in a sandbox can write to folders of the daemon's `PATH`: a program that they put
/// there would run outside of the sandbox.
fn of_planted(folders: &[PathBuf]) -> Option<Check> {
    let list: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    (!list.is_empty()).then(|| {
        let list = list.join(", ");
        let message =
            format!("agents in a sandbox can write {list}: what they put there would run outside");
        let hint = "Take it off the daemon's PATH and run `provost shutdown`, or name narrower \
                    paths in the sandbox_write of executors.";
        Check::warn("programs", message, hint)
    })
}

/// The finding for one executor: its program, version and login. An executor that is not installed is a
/// warning only if `config.toml` names it.
async fn of_executor(executor: &dyn Executor, config: &Config) -> Check {
    let described = executor.describe();
    let name = format!("executor {}", described.name);
    let variants = match described.variants.join(", ") {
        none if none.is_empty() => none,
        variants => format!("; variants {variants}"),
    };
    if let Some(reason) = described.unavailable {
        let way = described.install.map_or_else(String::new, |way| format!(": `{way}`"));
        // Few people install all built-in executors.
        let is_wanted =
            config.executors.get(&described.name).is_some_and(|own| own.origin.is_some());
        let check = if is_wanted { Check::warn } else { Check::note };
        let hint = format!("Install it{way}, or fix its `command` in config.toml.");
        return check(&name, format!("{reason}{variants}"), &hint);
    }
    if described.name == fake::NAME {
        return Check::ok(&name, "built in");
    }
    let program = match executor.launch(&Turn::default()) {
        Ok(launch) => launch.program.display().to_string(),
        Err(reason) => return Check::warn(&name, reason, "Fix it in config.toml."),
    };
    let version = match (executor.version().await, executor.unasked_reason()) {
        (Some(version), None) => format!(": {version}"),
        (Some(version), Some(why)) => format!(": {version}; {why}"),
        (None, Some(why)) => format!("; {why}"),
        (None, None) => "; version unknown".to_owned(),
    };
    let note = described.note.map(|note| format!("; {note}")).unwrap_or_default();
    let found = format!("{program}{version}");
    match executor.is_logged_in().await {
        Some(false) => {
            let hint = "Log in with the program itself, or give it a key by `env_pass` or `env`.";
            Check::note(&name, format!("{found}; not logged in{variants}{note}"), hint)
        }
        Some(true) => Check::ok(&name, format!("{found}; logged in{variants}{note}")),
        None => Check::ok(&name, format!("{found}{variants}{note}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_outgoing_connections_may_take_are_reported() {
        assert!(of_ports("24000-31999", "32768\t60999\n").is_none());
        let found = of_ports("24000-32768", "32768\t60999\n").unwrap();
        assert!(found.message.contains("from 32768 to 60999"), "{}", found.message);
        assert!(of_ports("24000-31999", "").is_none());
    }
}
