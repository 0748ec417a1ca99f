//! What `/proc` shows of processes (proc(5)). Every answer may be out of date when the caller gets it, so no
//! caller may send a signal because of one: `identity::Process` does that. Reads only.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};

/// The first argument of a shim.
pub const ARGUMENT: &str = "__shim";
/// The second argument of a shim that takes over from one that has died.
pub const RESCUE: &str = "rescue";

/// Some fields of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// One letter: `R`, `S`, `D`, `T`, `Z` …
    pub state: u8,
    pub ppid: i32,
    pub session: i32,
    /// Threads of the process, its first thread counted in.
    pub threads: u32,
    /// Processor time of its own and of the children it has waited for.
    pub cpu: Duration,
    /// Clock ticks after the boot. With the pid it identifies a process within one boot.
    pub start_time: u64,
}

impl Stat {
    /// `None`: no process has this pid, not even a zombie.
    pub fn of(pid: i32) -> Option<Self> {
        Self::parse(&read(pid, "stat").ok()?)
    }

    /// The command's name may hold `)` and spaces, so fields are counted from the last `)`.
    fn parse(line: &[u8]) -> Option<Self> {
        let after_name = line.iter().rposition(|&byte| byte == b')')? + 1;
        let fields: Vec<&str> =
            str::from_utf8(&line[after_name..]).ok()?.split_ascii_whitespace().collect();
        // fields[0] is the third of proc_pid_stat(5).
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = |number: usize| field(number)?.parse::<u64>().ok();
        let cpu_ticks = ticks(14)? + ticks(15)? + ticks(16)? + ticks(17)?;
        Some(Self {
            cpu: Duration::from_millis(cpu_ticks * 1000 / clock_ticks_per_second()),
            state: *field(3)?.as_bytes().first()?,
            ppid: field(4)?.parse().ok()?,
            session: field(6)?.parse().ok()?,
            threads: field(20)?.parse().ok()?,
            start_time: ticks(22)?,
        })
    }

    /// Whether its first thread has ended. Other threads may still run, or be dying.
    pub fn has_begun_to_die(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Whether all its threads have ended; it may not be reaped yet. The state `Z` alone does not say so: the
    /// kernel shows it also when the first thread has ended while others run, but then `threads` is above 1.
    pub fn is_dead(&self) -> bool {
        self.has_begun_to_die() && self.threads <= 1
    }
}

/// Whether a SIGKILL is pending for a process: the process is as good as dead, although it still shows as
/// running. `false` for one that is gone.
pub fn is_being_killed(pid: i32) -> bool {
    const KILL: u64 = 1 << (nix::libc::SIGKILL - 1);
    let status = read(pid, "status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let pending = |line: &str| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
    };
    status.lines().filter_map(pending).any(|mask| mask & KILL != 0)
}

/// The id of this boot. Start times of two boots can't be compared.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim_end().to_owned())
}

/// The pids of all processes that this PID namespace shows, those of other users included.
pub fn all() -> Vec<i32> {
    numbers_in(Path::new("/proc"))
}

/// The pids of the children, zombies included. The list may lack a child when another child dies while it is
/// read (proc_pid_task(5)). Without `CONFIG_PROC_CHILDREN` it looks at every process.
pub fn children(pid: i32) -> Vec<i32> {
    let tasks = format!("/proc/{pid}/task");
    let mut children = Vec::new();
    for thread in numbers_in(Path::new(&tasks)) {
        match fs::read_to_string(format!("{tasks}/{thread}/children")) {
            Ok(list) => {
                children
                    .extend(list.split_ascii_whitespace().filter_map(|p| p.parse::<i32>().ok()));
            }
            // A kernel without CONFIG_PROC_CHILDREN; a thread that is gone has no children.
            Err(_) if !Path::new("/proc/thread-self/children").exists() => {
                return children_by_parent(pid);
            }
            Err(_) => {}
        }
    }
    children
}

/// The real user id; `None`: the process is gone.
pub fn real_uid(pid: i32) -> Option<u32> {
    let status = read(pid, "status").ok()?;
    let status = String::from_utf8_lossy(&status);
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    uids.split_ascii_whitespace().next()?.parse().ok()
}

/// The environment that a process got at its exec: `NAME=value` entries, each ended by NUL. Empty if it
/// can't be read.
pub fn environ(pid: i32) -> Vec<u8> {
    read(pid, "environ").unwrap_or_default()
}

/// The arguments, the program's name first. The last element is normally empty, since NUL ends each
/// argument. One empty element if they can't be read.
pub fn arguments(pid: i32) -> Vec<Vec<u8>> {
    let line = read(pid, "cmdline").unwrap_or_default();
    line.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect()
}

/// Whether the process looks like a shim, of this daemon or another. Any process can imitate the arguments.
pub fn is_shim(pid: i32) -> bool {
    is_run_as(pid, ARGUMENT)
}

/// Whether the first argument after the program's name is this one.
pub fn is_run_as(pid: i32, argument: &str) -> bool {
    arguments(pid).get(1).is_some_and(|first| first == argument.as_bytes())
}

/// The name that ps(1) shows, at most 15 bytes; empty for a process that is gone.
pub fn command_name(pid: i32) -> String {
    let name = read(pid, "comm").unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// Bytes of private memory, resident minus shared: a sum over a tree would count shared pages several times.
/// `None`: the process is gone.
pub fn private_memory(pid: i32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    // Pages in all, resident, of these shared …
    let mut fields = statm.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(resident.saturating_sub(shared) * page_size() as u64)
}

/// Time since a process was started, in whole seconds, suspended time included. `start_time`: clock ticks
/// after this boot.
pub fn age(start_time: u64) -> Duration {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime = uptime.split('.').next().and_then(|secs| secs.parse().ok());
    let started = start_time / clock_ticks_per_second();
    Duration::from_secs(uptime.map_or(0, |uptime: u64| uptime.saturating_sub(started)))
}

/// How many tasks (processes and their threads) a user has now.
pub fn tasks_of(uid: u32) -> u64 {
    let owned = |pid: &i32| real_uid(*pid) == Some(uid);
    let threads = |pid: i32| Stat::of(pid).map_or(0, |stat| u64::from(stat.threads));
    all().into_iter().filter(owned).map(threads).sum()
}

/// A process other than this one whose working folder, root, program or open file is the folder or lies in
/// it; `None`: none is seen. Descriptors of other users' processes are not seen, nor are memory maps.
pub fn user_of(folder: &Path) -> Option<i32> {
    let (folder, own) = (placed(folder), std::process::id().cast_signed());
    all().into_iter().filter(|pid| *pid != own).find(|pid| uses(*pid, &folder))
}

/// A mount point at or below the folder (proc_pid_mountinfo(5)). A removal must not descend into it.
pub fn mount_below(folder: &Path) -> Option<PathBuf> {
    let (folder, mounts) = (placed(folder), fs::read_to_string("/proc/self/mountinfo").ok()?);
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    points.map(|point| PathBuf::from(unescaped(point))).find(|point| point.starts_with(&folder))
}

/// A path as the kernel shows it: links above the last component are resolved, the last one is not.
fn placed(path: &Path) -> PathBuf {
    let above = path.parent().and_then(|above| above.canonicalize().ok());
    above.zip(path.file_name()).map_or_else(|| path.to_owned(), |(above, name)| above.join(name))
}

fn uses(pid: i32, folder: &Path) -> bool {
    let leads_in = |link: PathBuf| fs::read_link(link).is_ok_and(|path| path.starts_with(folder));
    let process = PathBuf::from(format!("/proc/{pid}"));
    let open = || fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    ["cwd", "root", "exe"].iter().any(|link| leads_in(process.join(link)))
        || open().any(|entry| leads_in(entry.path()))
}

/// Undoes the octal escapes of mountinfo.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

fn children_by_parent(parent: i32) -> Vec<i32> {
    let is_child = |pid: &i32| Stat::of(*pid).is_some_and(|stat| stat.ppid == parent);
    all().into_iter().filter(is_child).collect()
}

/// Reads a file of a process. Files in `/proc` have no size, so `fs::read` would begin with a small buffer
/// and need several calls; some callers read a file of every process of the machine.
fn read(pid: i32, file: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    File::open(format!("/proc/{pid}/{file}"))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn numbers_in(dir: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests need real children")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_full_of_parentheses_and_spaces_hides_no_field() {
        let line = b"77 (a) Z 1 (b) ) S 5 77 70 0 -1 0 0 0 0 0 1 2 3 4 20 0 3 0 4242 0 0";
        let expected = Stat {
            state: b'S',
            ppid: 5,
            session: 70,
            threads: 3,
            cpu: Duration::from_millis(10 * 1000 / clock_ticks_per_second()),
            start_time: 4242,
        };
        assert_eq!(Stat::parse(line), Some(expected));
        assert_eq!(Stat::parse(&line[..40]), None);
    }

    #[test]
    fn a_dead_first_thread_is_no_dead_process() {
        let (cpu, start_time) = (Duration::ZERO, 0);
        let stat = Stat { state: b'Z', ppid: 1, session: 1, threads: 2, cpu, start_time };
        assert!(!stat.is_dead() && stat.has_begun_to_die());
        assert!(Stat { threads: 1, ..stat }.is_dead());
    }

    #[test]
    fn this_process_is_found_alive() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(all().contains(&own));
        assert!(Stat::of(own).is_some_and(|stat| !stat.is_dead()));
        assert!(!environ(own).is_empty());
        assert_eq!(boot_id().unwrap().len(), 36);
    }

    #[test]
    fn this_process_uses_something() {
        let own = i32::try_from(std::process::id()).unwrap();
        let block = vec![1_u8; 8 << 20];
        let memory = private_memory(own).unwrap();
        assert!(memory > 8 << 20, "{memory}");
        assert!(block.iter().all(|byte| *byte == 1));
        assert!(tasks_of(nix::unistd::getuid().as_raw()) > 0);
        assert!(age(Stat::of(own).unwrap().start_time) < Duration::from_hours(24));
    }

    #[test]
    fn a_process_that_works_in_a_folder_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        fs::create_dir(folder.join("below")).unwrap();
        assert_eq!(user_of(&folder), None);
        let mut child =
            Command::new("sleep").arg("600").current_dir(folder.join("below")).spawn().unwrap();
        let (within, beside) = (user_of(&folder), user_of(&folder.join("other")));
        std::os::unix::fs::symlink(&folder, folder.join("other")).unwrap();
        let by_link = user_of(&folder.join("other/below"));
        child.kill().unwrap();
        child.wait().unwrap();
        let pid = Some(child.id().cast_signed());
        assert_eq!((within, beside, by_link), (pid, None, pid));
    }

    #[test]
    fn mounts_are_found_below_a_folder_only() {
        assert_eq!(mount_below(Path::new("/proc")), Some("/proc".into()));
        assert_eq!(mount_below(tempfile::tempdir().unwrap().path()), None);
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
    }
}
