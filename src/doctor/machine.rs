//! The checks of the machine: git, the kernel, limits, control groups, sandboxes, the clock.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use provost_actors::event::Timestamp;
use provost_actors::process::cgroup;
use provost_actors::process::network;
use provost_actors::sandbox;
use provost_actors::workspace::git;

use super::check::Check;
use crate::home::Home;

/// The oldest versions that work.
const GIT: (u32, u32) = (2, 31);
const LINUX: (u32, u32) = (5, 3);
/// From this version on, the kernel has openat2(2) and close_range(2), which are used if they exist.
const LINUX_GOOD: (u32, u32) = (5, 9);
/// The daemon needs about ten descriptors for an attempt.
const FILES_LOW: u64 = 4096;
const PROCESSES_LOW: u64 = 1024;
const GIT_DEADLINE: Duration = Duration::from_secs(5);
/// 2020, in milliseconds since 1970: an earlier time means that the clock was never set.
const EARLIEST: i64 = 1_577_836_800_000;

/// All checks of the machine. Only git is run; nothing is changed.
pub async fn checks(home: &Home) -> Vec<Check> {
    let mut checks = vec![
        git_version().await,
        kernel(),
        limits(),
        temporary_folder(),
        clock(home),
        control_groups(),
        sandbox(),
    ];
    checks.extend(systemd());
    checks
}

async fn git_version() -> Check {
    let name = "git";
    let hint = format!("Install git {}.{} or later.", GIT.0, GIT.1);
    let asked = git::run(Path::new("/"), &["--version"]);
    let said = match tokio::time::timeout(GIT_DEADLINE, asked).await {
        Ok(Ok(said)) => said,
        Ok(Err(error)) => return Check::fail(name, error.to_string(), &hint),
        Err(_) => return Check::fail(name, "it does not answer", "See which program `git` is."),
    };
    match said.split(' ').nth(2).and_then(version) {
        Some(found) if found >= GIT => Check::ok(name, said),
        Some(_) => Check::fail(name, said, &hint),
        None => Check::warn(name, format!("its version is unknown: {said}"), ""),
    }
}

fn kernel() -> Check {
    let name = "kernel";
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let shown = format!("Linux {}", release.trim());
    match version(&release) {
        Some(found) if found < LINUX => {
            Check::fail(name, shown, "Linux 5.3 or later is needed, for pidfd_open(2).")
        }
        Some(found) if found < LINUX_GOOD => {
            Check::note(name, format!("{shown}, without openat2 or close_range"), "")
        }
        Some(_) => Check::ok(name, shown),
        None => Check::warn(name, format!("its version is unknown: {shown}"), ""),
    }
}

/// The first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The hard limits of open files and processes: the daemon raises its soft limits up to them.
fn limits() -> Check {
    let hard = |resource| getrlimit(resource).map_or(u64::MAX, |(_, hard)| hard);
    let (files, processes) = (hard(Resource::RLIMIT_NOFILE), hard(Resource::RLIMIT_NPROC));
    let shown = |limit: u64| {
        if limit == u64::MAX { "no limit".to_owned() } else { limit.to_string() }
    };
    let message = format!("open files {}, processes {}", shown(files), shown(processes));
    if files < FILES_LOW || processes < PROCESSES_LOW {
        let hint = "Raise them (`ulimit -n`, `ulimit -u`, or LimitNOFILE= and LimitNPROC=).";
        return Check::warn("limits", message, hint);
    }
    Check::ok("limits", message)
}

fn temporary_folder() -> Check {
    let path = std::env::temp_dir();
    let mode = nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK;
    match nix::unistd::access(&path, mode) {
        Ok(()) => Check::ok("tmpdir", path.display().to_string()),
        Err(error) => {
            let message = format!("{}: {error}", path.display());
            Check::warn("tmpdir", message, "Set TMPDIR to a writable folder: agents need one.")
        }
    }
}

/// Warns about a clock that was never set, or was set back since the database was last written.
fn clock(home: &Home) -> Check {
    let (name, now) = ("clock", Timestamp::now());
    let changed = fs::metadata(home.database()).and_then(|found| found.modified()).ok();
    let ahead = changed.and_then(|at| at.elapsed().err()).map(|error| error.duration());
    match ahead {
        _ if now.millis() < EARLIEST => {
            Check::warn(name, format!("it says {now}"), "Set it: ages are computed from it.")
        }
        Some(ahead) if ahead > Duration::from_mins(1) => {
            let message = format!("it was set back: the database is {} s newer", ahead.as_secs());
            Check::note(name, message, "Ages depend on the clock; order does not.")
        }
        _ => Check::ok(name, now.to_string()),
    }
}

/// Whether the kernel can enforce limits of memory and processes (cgroups(7)).
fn control_groups() -> Check {
    const WATCHED: &str = "limits of memory, and of root's processes, are enforced by polling";
    let name = "cgroups";
    match cgroup::place() {
        Ok(place) => match cgroup::controllers(&place).as_slice() {
            [] => Check::note(name, format!("writable, without controllers: {WATCHED}"), ""),
            controllers => Check::ok(name, format!("writable; {}", controllers.join(", "))),
        },
        Err(reason) => {
            let hint = "With systemd, Delegate=yes in the daemon's unit.";
            Check::note(name, format!("{reason}: {WATCHED}"), hint)
        }
    }
}

/// What the machine must allow for network namespaces, as a hint.
const NAMESPACES: &str = "User namespaces have to be allowed: user.max_user_namespaces, \
     kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns.";

/// Which levels of sandboxes the kernel can enforce.
fn sandbox() -> Check {
    let (name, abi) = ("sandbox", sandbox::abi());
    let hint = "It takes Linux 6.2 or later with `landlock` among its security modules \
                (/sys/kernel/security/lsm). Until then, agents that are to run in one don't start: \
                choose their variant `unsafe`, or write sandbox = \"none\" for them in config.toml.";
    match sandbox::obstacle() {
        Some(obstacle) => Check::warn(name, format!("none can be had: {obstacle}"), hint),
        None if abi < sandbox::SCOPES => {
            let shown = format!("workspace, by Landlock ABI {abi}, which does not hold signals");
            Check::note(name, shown, "Linux 6.12 or later holds them too.")
        }
        None => match network::obstacle("/proc/self/exe".as_ref()) {
            None => {
                let shown = format!("workspace and strict, by Landlock ABI {abi}, seccomp");
                Check::ok(name, format!("{shown} and network namespaces"))
            }
            Some(obstacle) => {
                let shown = format!("workspace, by Landlock ABI {abi} and seccomp; not strict");
                Check::note(name, format!("{shown}: {obstacle}"), NAMESPACES)
            }
        },
    }
}

/// The note for a daemon in a unit of systemd, which by default kills all processes of a service that is
/// stopped (systemd.kill(5)).
fn systemd() -> Option<Check> {
    std::env::var_os("INVOCATION_ID")?;
    let hint = "The daemon's unit needs KillMode=process, or its agents end with it, and \
                Delegate=yes for limits.";
    Some(Check::note("systemd", "this runs in a unit of systemd", hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("2.47.3"), Some((2, 47)));
        assert_eq!(version("6.18.0-rc1+"), Some((6, 18)));
        assert!(version("2.9.0") < version("2.31.0"));
        assert_eq!(version("unknown"), None);
    }
}
