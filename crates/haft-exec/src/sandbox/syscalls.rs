//! The seccomp program with the system calls that a sandboxed program may not make: calls that
//! access other processes, change the machine, or bypass the other mechanisms. They fail as if the
//! program lacked the permission.

mod set_id;

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use crate::processes::limits::MARKED_RESOURCE;
use haft_core::ToolError;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// The options of a seccomp program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyscallPolicy {
    pub(crate) internet: Internet,
    /// Allows unix sockets with a path. A caller that allows them has hidden those of other
    /// programs.
    pub(crate) unix: bool,
    pub(crate) namespaces: Namespaces,
    /// Allows changing the mode, owner, times and attributes of a file. Landlock does not restrict
    /// this, so where no mount is read-only it is denied everywhere.
    pub(crate) attributes: bool,
}

/// Internet sockets. Without them no other machine can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Internet {
    Allowed,
    Denied,
    /// The code that reports denied calls refuses them.
    DeniedByReport,
}

impl Internet {
    /// Returns the value for a launch.
    pub(crate) fn of(network: bool) -> Self {
        if network { Self::Allowed } else { Self::Denied }
    }
}

/// The processes that may create namespaces in the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespaces {
    /// None.
    Denied,
    /// bubblewrap, which is started in the sandbox with our privileges. The programs that it starts
    /// have none, and could create one only with a user namespace.
    WithRights,
    /// bubblewrap, which needs a user namespace itself and forbids further ones.
    WithUser,
}

type SyscallRules = BTreeMap<i64, Vec<SeccompRule>>;

const NEVER: &[i64] = &[
    // Access to other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // The kernel and the machine.
    libc::SYS_kexec_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_fanotify_init,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    // Bypasses of the other mechanisms: files by handle, calls that the kernel makes for a program,
    // user-handled page faults, keys.
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_setns,
];

/// Calls that set up mounts; bubblewrap makes them first.
const MOUNTING: &[i64] = &[
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
    OPEN_TREE_ATTR,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

const CHANGING_ATTRIBUTES: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SET_XATTR_AT,
    REMOVE_XATTR_AT,
    FILE_SET_ATTR,
];
/// From Linux 6.13 and 6.17, not yet in libc.
const SET_XATTR_AT: i64 = 463;
const REMOVE_XATTR_AT: i64 = 466;
const FILE_SET_ATTR: i64 = 469;
/// The same by `ioctl`: FS_IOC_SETFLAGS (of either size), FS_IOC_FSSETXATTR.
const ATTRIBUTES_BY_IOCTL: &[u64] = &[0x4008_6602, 0x4004_6602, 0x401c_5820];

/// From Linux 6.15, not yet in libc.
const OPEN_TREE_ATTR: i64 = 467;

const ANY_NAMESPACE: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// `CLONE_NEWTIME`; in `clone` these bits are a signal, so only `unshare` is checked for it.
const NEW_TIME: i32 = 0x80;

/// Personalities without an effect on security: the default, a query, 32 bits, and the version name
/// 2.6.
const HARMLESS_PERSONALITIES: &[u64] = &[0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// Inserts characters into a terminal as if they had been typed, or pastes the selection of a
/// console.
const TYPING: &[u64] = &[0x5412, 0x541c];

/// Returns the seccomp program for these options. Each is compiled once.
///
/// # Errors
/// Of kind `unavailable` on an unknown processor architecture.
pub(crate) fn program(calls: SyscallPolicy) -> Result<Arc<BpfProgram>, ToolError> {
    static MADE: Mutex<Vec<(SyscallPolicy, Arc<BpfProgram>)>> = Mutex::new(Vec::new());
    let mut made = MADE.lock();
    if let Some((_, program)) = made.iter().find(|(known, _)| *known == calls) {
        return Ok(program.clone());
    }
    let program = compile(calls).map_err(|error| {
        ToolError::unavailable("seccomp is not supported on this processor")
            .hint("run commands in a container")
            .caused_by(error)
    })?;
    let program = Arc::new(program);
    made.push((calls, program.clone()));
    Ok(program)
}

fn compile(calls: SyscallPolicy) -> Result<BpfProgram, seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let denied = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules(calls)?, SeccompAction::Allow, denied, arch)?;
    let behind: BpfProgram = filter.try_into()?;
    let mut program = before(&never(calls));
    program.extend(behind);
    Ok(program)
}

/// Returns the calls that are denied whatever their arguments are.
fn never(calls: SyscallPolicy) -> Vec<i64> {
    let mut never = NEVER.to_vec();
    if calls.namespaces == Namespaces::Denied {
        never.extend(MOUNTING);
    }
    if !calls.attributes {
        never.extend(CHANGING_ATTRIBUTES);
    }
    never
}

/// Returns the calls that are denied with certain arguments.
fn rules(calls: SyscallPolicy) -> Result<SyscallRules, seccompiler::Error> {
    let mut rules = SyscallRules::new();
    let closed: &[i32] = match calls.namespaces {
        Namespaces::Denied => ANY_NAMESPACE,
        Namespaces::WithRights => &[libc::CLONE_NEWUSER],
        Namespaces::WithUser => &[],
    };
    if !closed.is_empty() {
        rules.insert(
            libc::SYS_clone,
            closed.iter().map(|flag| has(*flag)).collect::<Result<_, _>>()?,
        );
        let of_unshare = closed.iter().chain([&NEW_TIME]).map(|flag| has(*flag));
        rules.insert(libc::SYS_unshare, of_unshare.collect::<Result<_, _>>()?);
    }
    let mut families: Vec<i32> = Vec::new();
    if calls.unix {
        families.push(libc::AF_UNIX);
    }
    match calls.internet {
        Internet::Allowed => families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]),
        Internet::DeniedByReport => families.extend([libc::AF_INET, libc::AF_INET6]),
        Internet::Denied => {}
    }
    let families: Vec<u64> =
        families.iter().map(|family| u64::from(family.cast_unsigned())).collect();
    let mut of_socket = none_of(0, &families)?;
    if calls.unix {
        of_socket.extend(unix_datagrams()?);
    }
    rules.insert(libc::SYS_socket, of_socket);
    // The ends of a pair can be given another destination too.
    rules.insert(libc::SYS_socketpair, unix_datagrams()?);
    if calls.attributes {
        rules.extend(set_id::by_mode()?);
    }
    rules.extend(set_id::by_creation()?);
    rules.extend(keep_mark()?);
    rules.insert(libc::SYS_personality, none_of(0, HARMLESS_PERSONALITIES)?);
    let mut closed = TYPING.to_vec();
    if !calls.attributes {
        closed.extend(ATTRIBUTES_BY_IOCTL);
    }
    let by_ioctl = closed.iter().map(|call| rule(1, SeccompCmpOp::Eq, *call));
    rules.insert(libc::SYS_ioctl, by_ioctl.collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Denies changing the resource limit that holds the mark of a launch.
fn keep_mark() -> Result<SyscallRules, seccompiler::Error> {
    let resource = u64::from(MARKED_RESOURCE.cast_unsigned());
    let is_it = |argument| condition(argument, SeccompCmpOp::Eq, resource);
    // Without a new limit the call only reads it.
    let changes = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    let change = SeccompRule::new(vec![is_it(1)?, changes])?;
    let set = SeccompRule::new(vec![is_it(0)?])?;
    Ok(SyscallRules::from([(libc::SYS_prlimit64, vec![change]), (libc::SYS_setrlimit, vec![set])]))
}

/// The kernel uses the lower half of these arguments, so that half is compared.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::Error> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?)
}

fn rule(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::Error> {
    Ok(SeccompRule::new(vec![condition(argument, operator, value)?])?)
}

fn has(flag: i32) -> Result<SeccompRule, seccompiler::Error> {
    let flag = u64::from(flag.cast_unsigned());
    rule(0, SeccompCmpOp::MaskedEq(flag), flag)
}

/// Denies unix sockets that send to any address without connecting: the address of `sendmsg` is in
/// memory, where neither a filter nor we can keep it unchanged. Raw sockets are the same under
/// another name.
fn unix_datagrams() -> Result<Vec<SeccompRule>, seccompiler::Error> {
    let of_sort = |sort: i32| {
        let family = u64::from(libc::AF_UNIX.cast_unsigned());
        let family = condition(0, SeccompCmpOp::Eq, family)?;
        let sort = u64::from(sort.cast_unsigned());
        Ok(SeccompRule::new(vec![family, condition(1, SeccompCmpOp::MaskedEq(0xf), sort)?])?)
    };
    [libc::SOCK_DGRAM, libc::SOCK_RAW].map(of_sort).into_iter().collect()
}

/// Without any rule every value is denied.
fn none_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let each = values.iter().map(|value| condition(argument, SeccompCmpOp::Ne, *value));
    Ok(vec![SeccompRule::new(each.collect::<Result<_, _>>()?)?])
}

/// Returns the instructions before the compiled rules: one for each call that is always denied (the
/// kernel checks the program for every call when it is installed, so its length costs time).
/// `clone3` has its flags in memory, where no filter sees them: it fails with "no such call", and
/// libraries use `clone`. The same holds for `openat2` and its mode, which may contain the
/// set-user-ID bit; programs use `openat`. The numbers of the x32 calls would bypass every rule.
fn before(never: &[i64]) -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP: u16 = 0x05;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ERROR: u32 = 0x0005_0000;
    let instruction = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    let number = |call: i64| u32::try_from(call).expect("numbers of calls are small");
    // Jumps count the instructions to skip: to the denial after the last call, and to the one after
    // that.
    let left = |index: usize| u8::try_from(never.len() - index).expect("far fewer calls than 255");
    let first_of_x32 = if cfg!(target_arch = "x86_64") { 0x4000_0000 } else { u32::MAX };
    let mut program = vec![
        instruction(LOAD, 0, 0),
        instruction(JUMP_IF_EQUAL, left(0) + 4, number(libc::SYS_clone3)),
        instruction(JUMP_IF_EQUAL, left(0) + 3, number(libc::SYS_openat2)),
        instruction(JUMP_IF_AT_LEAST, left(0) + 2, first_of_x32),
    ];
    let steps = never.iter().enumerate();
    program
        .extend(steps.map(|(index, call)| instruction(JUMP_IF_EQUAL, left(index), number(*call))));
    program.extend([
        instruction(JUMP, 0, 2),
        instruction(RETURN, 0, ERROR | libc::EPERM.cast_unsigned()),
        instruction(RETURN, 0, ERROR | libc::ENOSYS.cast_unsigned()),
    ]);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of the instructions before the compiled rules for a call; None when they
    /// let it continue.
    fn answer(program: &[sock_filter], call: u32) -> Option<u32> {
        let mut at = 0;
        while let Some(step) = program.get(at) {
            at += 1;
            match step.code {
                0x05 => at += step.k as usize,
                0x15 if call == step.k => at += usize::from(step.jt),
                0x35 if call >= step.k => at += usize::from(step.jt),
                0x06 => return Some(step.k & 0xffff),
                _ => {}
            }
        }
        None
    }

    #[test]
    fn each_call_gets_its_answer_and_x32_has_no_numbers_of_its_own() {
        let calls = SyscallPolicy {
            internet: Internet::Allowed,
            unix: false,
            namespaces: Namespaces::Denied,
            attributes: false,
        };
        let never = never(calls);
        let program = before(&never);
        let number = |call: i64| u32::try_from(call).expect("small");
        for call in &never {
            assert_eq!(
                answer(&program, number(*call)),
                Some(libc::EPERM.cast_unsigned()),
                "{call}"
            );
        }
        let not_there = Some(libc::ENOSYS.cast_unsigned());
        assert_eq!(answer(&program, number(libc::SYS_clone3)), not_there);
        assert_eq!(answer(&program, number(libc::SYS_openat2)), not_there);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(answer(&program, 0x4000_0000), not_there);
            assert_eq!(answer(&program, 0x4000_0000 | 521), not_there);
        }
        for call in [libc::SYS_read, libc::SYS_openat, libc::SYS_clone, libc::SYS_socket] {
            assert_eq!(answer(&program, number(call)), None, "{call}");
        }
    }
}
