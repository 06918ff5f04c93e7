//! Denies calls that give a file the set-user-ID or set-group-ID bit. Such a file outlives its
//! command, and a user who runs it later, outside the sandbox, runs it with the privileges of its
//! owner.

use seccompiler::{SeccompCmpOp, SeccompCondition, SeccompRule};

use super::{SyscallRules, condition};

/// The calls that change a mode, with the position of the mode.
const CHANGING: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
];

/// The calls that create a file, with the position of the mode.
const MAKING: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// The calls that may create a file, with the positions of flags and mode.
const OPENING: &[(i64, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

const BITS: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];
/// The kernel reads the mode only with one of these flags. This is the bit of `O_TMPFILE` that no
/// other flag has.
const CREATING: [i32; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// Denies changing a mode to one with such a bit.
pub(super) fn by_mode() -> Result<SyscallRules, seccompiler::Error> {
    CHANGING.iter().map(|(call, mode)| Ok((*call, with_a_bit(*mode)?))).collect()
}

/// Denies creating a file with such a bit.
pub(super) fn by_creation() -> Result<SyscallRules, seccompiler::Error> {
    let making = MAKING.iter().map(|(call, mode)| Ok((*call, with_a_bit(*mode)?)));
    let opening = OPENING.iter().map(|(call, flags, mode)| {
        let both = CREATING.iter().flat_map(|flag| BITS.map(|bit| (flag.cast_unsigned(), bit)));
        let rules = both
            .map(|(flag, bit)| Ok(SeccompRule::new(vec![has(*flags, flag)?, has(*mode, bit)?])?));
        Ok((*call, rules.collect::<Result<_, seccompiler::Error>>()?))
    });
    making.chain(opening).collect()
}

fn with_a_bit(mode: u8) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    BITS.iter().map(|bit| Ok(SeccompRule::new(vec![has(mode, *bit)?])?)).collect()
}

fn has(argument: u8, bit: u32) -> Result<SeccompCondition, seccompiler::Error> {
    let bit = u64::from(bit);
    condition(argument, SeccompCmpOp::MaskedEq(bit), bit)
}
