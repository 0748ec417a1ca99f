//! The system calls that would get around the rules for files, or that no agent needs: they fail
//! with EPERM. Landlock itself keeps a process from tracing, and from reading the memory of, those
//! outside of the box.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// Those that fail whatever their arguments are.
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
    // It makes calls that no filter sees.
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

/// Those that change the process that their first argument names, or the caller if that is 0.
const OF_A_PROCESS: &[libc::c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
];

/// Those that change a process, a group or what a user has, by their first argument, which is this
/// for a process; the second one names it.
const OF_SOME: [(libc::c_long, u64); 2] = [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

/// New namespaces (clone(2)): in one of its own a process has capabilities.
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    // CLONE_NEWTIME, which only unshare(2) takes: clone(2) has the signal in these bits.
    0x80,
];
/// Puts bytes into a terminal as if they were typed, or selects and pastes (ioctl_tty(2)).
const TYPED: [u64; 2] = [0x5412, 0x541c];

/// How many filters a process in a box has at least, beside those that it had.
pub const FILTERS: u32 = 2;

/// The families of sockets that belong to a network namespace, and those of the file system. Some
/// others reach beyond it, such as `AF_VSOCK`.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The filters, in the order in which they are set.
pub fn filters(is_strict: bool) -> Result<Vec<BpfProgram>, BackendError> {
    let clone3 = BTreeMap::from([(libc::SYS_clone3, vec![])]);
    // The C library then calls clone(2), whose flags a filter can see.
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
    // The limits and the scheduling of any process but the caller, which these have as 0.
    let unless = |argument, own| one(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, own);
    for call in OF_A_PROCESS {
        rules.insert(*call, vec![unless(0, 0)?]);
    }
    for (call, process) in OF_SOME {
        rules.insert(call, vec![unless(0, process)?, unless(1, 0)?]);
    }
    Ok(rules)
}

fn one(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, length, operator, value)?])
}

fn compile(
    mut rules: BTreeMap<i64, Vec<SeccompRule>>,
    error: u32,
) -> Result<BpfProgram, BackendError> {
    if cfg!(target_arch = "x86_64") {
        // The same calls by their numbers of the x32 ABI.
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
