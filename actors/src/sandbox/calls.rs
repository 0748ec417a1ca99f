//! The seccomp filters of a box: system calls that would get around the rules for files, or that no agent
//! needs, fail with EPERM. Landlock itself keeps a process from tracing processes outside of the box, and
//! from reading their memory. Pure: `kernel` applies the filters.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// Calls that fail whatever their arguments are.
const FORBIDDEN: &[libc::c_long] = &[
    // Other views of the file system, and other namespaces.
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // The keys of the user's session.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Programs in the kernel, and what shows its memory.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_syslog,
    // A ring makes calls that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const OF_THIS_MACHINE: &[libc::c_long] =
    &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_kexec_file_load];
#[cfg(not(target_arch = "x86_64"))]
const OF_THIS_MACHINE: &[libc::c_long] = &[libc::SYS_kexec_file_load];

/// Calls that change the process that their first argument names. 0 names the caller, and is allowed.
const OF_A_PROCESS: &[libc::c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
];

/// Calls whose first argument says what the second one names: a process (the value here), a group, or a user.
/// Only the caller itself, a process named 0, is allowed.
const OF_SOME: [(libc::c_long, u64); 2] = [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

/// The flags of new namespaces (clone(2)). In a user namespace of its own a process has all capabilities.
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    // CLONE_NEWTIME, the last one. Only unshare(2) takes it: in clone(2) these bits are the exit signal.
    0x80,
];
/// TIOCSTI and TIOCLINUX: they put bytes into a terminal as if typed, or select and paste (ioctl_tty(2)).
const TYPED: [u64; 2] = [0x5412, 0x541c];

/// How many filters [`filters`] returns. `kernel::holds` recognises a process in a box by this many more
/// filters than this process has.
pub const FILTERS: u32 = 2;

/// The families of sockets that [`Level::Strict`](super::Level::Strict) allows: those that belong to a
/// network namespace or to the file system. Some others reach beyond the namespace, such as `AF_VSOCK`.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The filters, in the order in which they are applied.
pub fn filters(is_strict: bool) -> Result<Vec<BpfProgram>, BackendError> {
    let clone3 = BTreeMap::from([(libc::SYS_clone3, vec![])]);
    // A filter can't see the flags of clone3(2), which are in memory. After ENOSYS the C library calls
    // clone(2), whose flags a filter can see.
    let unknown = u32::try_from(libc::ENOSYS).unwrap_or_default();
    let refused = u32::try_from(libc::EPERM).unwrap_or_default();
    let mut rules = forbidden()?;
    if is_strict {
        let other = |family: libc::c_int| {
            let family = u64::from(family.cast_unsigned());
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
        };
        let others = FAMILIES.map(other).into_iter().collect::<Result<_, _>>()?;
        rules.insert(libc::SYS_socket, vec![SeccompRule::new(others)?]);
    }
    Ok(vec![compile(clone3, unknown)?, compile(rules, refused)?])
}

/// The calls that fail with EPERM, each with the conditions on its arguments; none: always.
fn forbidden() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        FORBIDDEN.iter().chain(OF_THIS_MACHINE).map(|call| (*call, vec![])).collect();
    let flag = |flag: libc::c_int| {
        let flag = u64::from(flag.cast_unsigned());
        one(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)
    };
    for (call, flags) in [(libc::SYS_unshare, &NAMESPACES[..]), (libc::SYS_clone, &NAMESPACES[..7])]
    {
        rules.insert(call, flags.iter().map(|it| flag(*it)).collect::<Result<_, _>>()?);
    }
    let typed = |value: &u64| one(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *value);
    rules.insert(libc::SYS_ioctl, TYPED.iter().map(typed).collect::<Result<_, _>>()?);
    // The limits and the scheduling of every process but the caller, whose number is 0 in these calls.
    let unless = |argument, own| one(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, own);
    for call in OF_A_PROCESS {
        rules.insert(*call, vec![unless(0, 0)?]);
    }
    for (call, process) in OF_SOME {
        rules.insert(call, vec![unless(0, process)?, unless(1, 0)?]);
    }
    Ok(rules)
}

/// A rule with one condition.
fn one(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, length, operator, value)?])
}

/// A filter in which these calls fail with an errno and all others are allowed.
fn compile(
    mut rules: BTreeMap<i64, Vec<SeccompRule>>,
    error: u32,
) -> Result<BpfProgram, BackendError> {
    if cfg!(target_arch = "x86_64") {
        // The same calls have other numbers in the x32 ABI, which the same kernel may offer.
        const X32: i64 = 0x4000_0000;
        let again: Vec<_> = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
        rules.extend(again);
    }
    let architecture = std::env::consts::ARCH.try_into()?;
    let (other, these) = (SeccompAction::Allow, SeccompAction::Errno(error));
    SeccompFilter::new(rules, other, these, architecture)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_can_be_compiled() {
        for filters in [filters(false).unwrap(), filters(true).unwrap()] {
            assert_eq!(filters.len(), FILTERS as usize);
            assert!(filters.iter().all(|filter| filter.len() < 4096));
        }
    }
}
