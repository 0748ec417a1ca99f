//! A cgroup v2 for one execution process, where the daemon may make one (cgroups(7)): it
//! enforces limits that `/proc` can only show, and no member leaves it without privilege.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A service's own process moves here: no cgroup with processes has controlled children.
const LEAF: &str = "provost-daemon";
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// The cgroup of a name below `base`, made or not.
    pub fn named(base: &Path, name: &str) -> Self {
        Self(base.join(format!("provost-{name}")))
    }

    pub fn make(&self) -> io::Result<()> {
        match fs::create_dir(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    pub fn set(&self, file: &str, value: u64) -> io::Result<()> {
        fs::write(self.0.join(file), value.to_string())
    }

    pub fn enter(&self) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), "0")
    }

    pub fn members(&self) -> Vec<i32> {
        let procs = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        procs.lines().filter_map(|line| line.parse().ok()).collect()
    }

    pub fn kill(&self) {
        // On older kernels the caller kills them one by one.
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }

    /// Lets its processes stand still, or go on. `false`: the kernel does not do it.
    pub fn freeze(&self, is_frozen: bool) -> bool {
        self.set("cgroup.freeze", u64::from(is_frozen)).is_ok()
    }

    /// Whether the kernel has killed one of its processes for lack of memory.
    pub fn was_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.is_some_and(|count| count.trim() != "0")
    }

    pub fn remove(&self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The cgroup of this process, if others may be made below it. `Err` is a sentence.
pub fn place() -> Result<PathBuf, String> {
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut place = locate(&cgroups, &mounts).ok_or("no cgroup v2 is mounted")?;
    // A service's process that was moved into the leaf.
    if place.ends_with(LEAF) {
        place.pop();
    }
    let probe = Cgroup::named(&place, &format!("probe-{}", std::process::id()));
    probe
        .make()
        .map_err(|error| format!("no cgroup can be made in {}: {error}", place.display()))?;
    probe.remove();
    Ok(place)
}

/// The controllers of limits that cgroups below one can have.
pub fn controllers(place: &Path) -> Vec<&'static str> {
    CONTROLLERS.into_iter().filter(|name| lists(place, "cgroup.controllers", name)).collect()
}

/// The [place](place) with its controllers enabled; the calling process may have to leave it.
pub fn base() -> Result<PathBuf, String> {
    let base = place()?;
    for controller in CONTROLLERS {
        let procs = || fs::read_to_string(base.join("cgroup.procs")).unwrap_or_default();
        if !enable(&base, controller) && procs().trim() == std::process::id().to_string() {
            let leaf = base.join(LEAF);
            let moved =
                fs::create_dir_all(&leaf).and_then(|()| fs::write(leaf.join("cgroup.procs"), "0"));
            if moved.is_ok() {
                enable(&base, controller);
            }
        }
    }
    Ok(base)
}

/// Lets cgroups below have a controller. `false`: not while processes are in it.
fn enable(base: &Path, controller: &str) -> bool {
    let is_there = lists(base, "cgroup.controllers", controller);
    if !is_there || lists(base, "cgroup.subtree_control", controller) {
        return true;
    }
    fs::write(base.join("cgroup.subtree_control"), format!("+{controller}")).is_ok()
}

fn lists(cgroup: &Path, file: &str, controller: &str) -> bool {
    let list = fs::read_to_string(cgroup.join(file)).unwrap_or_default();
    list.split_ascii_whitespace().any(|word| word == controller)
}

/// This process's cgroup (proc_pid_cgroup(5)) below its mount (proc_pid_mountinfo(5)).
fn locate(cgroups: &str, mounts: &str) -> Option<PathBuf> {
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let below = path.strip_prefix(root.trim_end_matches('/'))?;
        let is_v2 = kind.split(' ').next() == Some("cgroup2");
        is_v2.then(|| Path::new(point).join(below.trim_start_matches('/')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_cgroup_is_found_below_the_mount() {
        let mounts = "\
21 1 0:20 / /sys rw shared:7 - sysfs sysfs rw
30 21 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
31 21 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 master:1 - cgroup2 cgroup2 rw
";
        let cgroups = "4:memory:/a\n0::/user.slice/provost.service\n";
        let found = locate(cgroups, mounts).unwrap();
        assert_eq!(found, Path::new("/sys/fs/cgroup/unified/user.slice/provost.service"));
        let inside = mounts.replace("0:27 / ", "0:27 /user.slice ");
        let found = locate(cgroups, &inside).unwrap();
        assert_eq!(found, Path::new("/sys/fs/cgroup/unified/provost.service"));
        assert_eq!(locate("4:memory:/a\n", mounts), None);
        assert_eq!(locate(cgroups, "21 1 0:20 / /sys rw - sysfs sysfs rw\n"), None);
    }
}
