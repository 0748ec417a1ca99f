//! Makes the kernel enforce a box. Everything that can fail for lack of memory or of a file is done before
//! the fork ([`Ready::make`]), so that the child only makes system calls ([`Ready::enter`]).

use std::fs;
use std::io;
use std::sync::LazyLock;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::libc;
use nix::unistd::geteuid;
use seccompiler::{BpfProgram, apply_filter};

use super::{Access, Level, NEEDED, Rule, SCOPES, Sandbox, calls};

/// linux/landlock.h: ask for the version instead of making a ruleset.
const ASK_VERSION: libc::c_uint = 1;
/// linux/capability.h: the capabilities by which root could leave a box, by number. Root keeps those by
/// which it owns files and processes.
const DROPPED: [libc::c_int; 19] = [
    2,  // DAC_READ_SEARCH: open_by_handle_at(2)
    9,  // LINUX_IMMUTABLE
    12, // NET_ADMIN
    16, // SYS_MODULE
    17, // SYS_RAWIO: /proc/kcore, ports
    19, // SYS_PTRACE
    20, // SYS_PACCT
    21, // SYS_ADMIN
    22, // SYS_BOOT
    23, // SYS_NICE: the scheduling of others, and real-time of one's own
    25, // SYS_TIME
    26, // SYS_TTY_CONFIG
    27, // MKNOD
    32, // MAC_OVERRIDE
    33, // MAC_ADMIN
    34, // SYSLOG
    38, // PERFMON
    39, // BPF
    40, // CHECKPOINT_RESTORE
];

/// The version of Landlock that the kernel has; 0: none, or disabled.
pub fn probe() -> u32 {
    let nothing: *const libc::c_void = std::ptr::null();
    // SAFETY: with this flag the call takes no ruleset, and returns a number.
    let found =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, ASK_VERSION) };
    u32::try_from(found).unwrap_or(0)
}

/// Whether a process is in a box: it has `no_new_privs`, and at least `calls::FILTERS` more seccomp filters
/// than this process. Neither the process nor what it starts can undo either. A process of which `/proc`
/// shows nothing (it has ended) counts as in a box.
pub fn holds(pid: i32) -> bool {
    static OWN: LazyLock<Option<u32>> = LazyLock::new(|| status("self").map(|own| own.1));
    let (own, found) = (OWN.unwrap_or_default(), status(&pid.to_string()));
    found.is_none_or(|(has_no_new_privs, filters)| {
        has_no_new_privs && filters >= own.saturating_add(calls::FILTERS)
    })
}

/// From `/proc/PID/status` (proc_pid_status(5)): whether it has `no_new_privs`, and its number of filters.
fn status(pid: &str) -> Option<(bool, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value?.trim().parse::<u32>().ok()
    };
    Some((field("NoNewPrivs")? == 1, field("Seccomp_filters")?))
}

/// A box that is ready to be entered: the ruleset is open, and the filters are compiled.
pub struct Ready {
    ruleset: RulesetCreated,
    filters: Vec<BpfProgram>,
    is_root: bool,
}

impl Ready {
    /// Opens the paths of the rules. A path to read that does not exist is left out; any other path that
    /// can't be opened is an error. The error is a sentence without its full stop.
    pub fn make(sandbox: &Sandbox) -> Result<Self, String> {
        let cannot = |error: &dyn std::fmt::Display| format!("no sandbox can be made: {error}");
        let abi = version(sandbox.abi).ok_or_else(|| cannot(&"Landlock is too old"))?;
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))
            .map_err(|error| cannot(&error))?;
        if sandbox.abi >= SCOPES {
            ruleset = ruleset.scope(Scope::from_all(abi)).map_err(|error| cannot(&error))?;
        }
        let mut ruleset = ruleset.create().map_err(|error| cannot(&error))?;
        for rule in &sandbox.rules {
            if rule.access == Access::Read && !rule.path.exists() {
                continue;
            }
            ruleset = add(ruleset, rule, abi)
                .map_err(|error| cannot(&format!("{}: {error}", rule.path.display())))?;
        }
        let filters =
            calls::filters(sandbox.level == Level::Strict).map_err(|error| cannot(&error))?;
        Ok(Self { ruleset, filters, is_root: geteuid().is_root() })
    }

    /// Puts this thread and all that it starts into the box, for good. To be called in the child, right
    /// before its exec. Fails if the kernel enforces only a part.
    pub fn enter(self) -> io::Result<()> {
        if self.is_root {
            drop_capabilities()?;
        }
        let status = self.ruleset.restrict_self().map_err(io::Error::other)?;
        if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.filters.iter().try_for_each(|filter| apply_filter(filter)).map_err(io::Error::other)
    }
}

/// The version of Landlock whose rights the box handles: rights of later versions are not known here. `None`:
/// the version is too old.
fn version(abi: u32) -> Option<ABI> {
    Some(match abi {
        ..NEEDED => return None,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => ABI::V6,
    })
}

fn add(ruleset: RulesetCreated, rule: &Rule, abi: ABI) -> Result<RulesetCreated, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let path = PathFd::new(&rule.path).map_err(|error| text(&error))?;
    let rights = rights(rule, abi, rule.path.is_dir());
    ruleset.add_rule(PathBeneath::new(path, rights)).map_err(|error| text(&error))
}

/// The rights that a rule gives. A file only takes the rights that apply to files, or the kernel refuses.
fn rights(rule: &Rule, abi: ABI, is_folder: bool) -> BitFlags<AccessFs> {
    let rights = match rule.access {
        Access::Read => AccessFs::from_read(abi),
        Access::Write => {
            let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
            AccessFs::from_all(abi) & !devices
        }
        Access::Device => {
            let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir;
            device | (AccessFs::from_all(abi) & (AccessFs::Truncate | AccessFs::IoctlDev))
        }
    };
    if is_folder { rights } else { rights & AccessFs::from_file(abi) }
}

/// Takes the [`DROPPED`] capabilities out of the bounding set (capabilities(7)), so that root's program
/// does not get them at its exec.
fn drop_capabilities() -> io::Result<()> {
    for capability in DROPPED {
        // SAFETY: these operations take numbers.
        let (is_there, dropped) = unsafe {
            let is_there = libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0);
            (is_there == 1, libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0))
        };
        if is_there {
            Errno::result(dropped)?;
        }
    }
    Ok(())
}
