//! A cgroup v2 for one execution process, where the daemon may make one (cgroups(7)). It enforces limits that
//! `/proc` can only show, and a member can't leave it without privilege.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The child cgroup that a daemon moves itself into: a cgroup that holds processes itself can't enable
/// controllers for its children (the "no internal processes" rule of cgroups(7)).
const LEAF: &str = "provost-daemon";
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// The folder of a cgroup, which may not exist yet. The manifest holds it as a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// The cgroup `provost-<name>` below `base`. Does not touch the disk.
    pub fn named(base: &Path, name: &str) -> Self {
        Self(base.join(format!("provost-{name}")))
    }

    /// Makes the folder; one that is there already is fine.
    pub fn make(&self) -> io::Result<()> {
        match fs::create_dir(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes a number into a file of the cgroup, such as `memory.max`.
    pub fn set(&self, file: &str, value: u64) -> io::Result<()> {
        fs::write(self.0.join(file), value.to_string())
    }

    /// Moves the calling process in ("0" means the writer). Its later children are members too.
    pub fn enter(&self) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), "0")
    }

    /// The pids of the members; empty when the cgroup is gone.
    pub fn members(&self) -> Vec<i32> {
        let procs = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        procs.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills all members at once, where the kernel has `cgroup.kill` (Linux 5.14).
    pub fn kill(&self) {
        // On older kernels the file is missing. The caller also kills the members one by one.
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }

    /// Freezes or thaws all members. Returns at once: the kernel freezes them soon after. `false`: the
    /// kernel has no `cgroup.freeze` (it came with Linux 5.2), or the cgroup is gone.
    pub fn freeze(&self, is_frozen: bool) -> bool {
        self.set("cgroup.freeze", u64::from(is_frozen)).is_ok()
    }

    /// Whether [`Self::freeze`] was called last to freeze it.
    pub fn is_frozen(&self) -> bool {
        fs::read_to_string(self.0.join("cgroup.freeze")).is_ok_and(|text| text.trim() == "1")
    }

    /// Whether the kernel has killed one of its processes for lack of memory.
    pub fn was_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.is_some_and(|count| count.trim() != "0")
    }

    /// Removes the folder, best effort: the kernel refuses while the cgroup has members.
    pub fn remove(&self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The cgroup of this process, if this user may make others below it: makes and removes one to find out.
/// `Err` is a sentence without its full stop.
pub fn place() -> Result<PathBuf, String> {
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut place = locate(&cgroups, &mounts).ok_or("no cgroup v2 is mounted")?;
    // This daemon, or an earlier process of the same service, has moved itself into the leaf.
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

/// Those of the controllers `memory` and `pids` that cgroups below `place` can have.
pub fn controllers(place: &Path) -> Vec<&'static str> {
    CONTROLLERS.into_iter().filter(|name| lists(place, "cgroup.controllers", name)).collect()
}

/// The [place](place) with its controllers enabled as far as possible. If this process is the only one in it,
/// the process moves into `LEAF` when a controller can't be enabled otherwise. A controller that stays
/// disabled is no error: the shim then watches the limit.
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

/// Enables a controller for the cgroups below. `false`: the kernel refuses, as it does while processes are in
/// `base` itself. `true` also when the kernel has no such controller here.
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

/// The folder of this process's cgroup: its path from `/proc/self/cgroup` (proc_pid_cgroup(5)) below the
/// mount point from `/proc/self/mountinfo` (proc_pid_mountinfo(5)). `None`: no cgroup v2, or it is not
/// mounted.
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
