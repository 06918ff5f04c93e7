//! A mark on the processes of a launch that survives everything a daemon does to detach: two forks,
//! a new session, closed descriptors, an empty environment. It is a resource limit, which children
//! inherit and which no unprivileged process can raise. Linux has not enforced the limit of file
//! locks since 2.4.25, so its value can carry a number. A process may still lower its own limit;
//! the sandbox's seccomp program refuses that. Without a sandbox such a process is recognised by a
//! limit that is neither ours nor that of a launch.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
};

/// The number in the limits of the processes of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchMark(u64);

/// `RLIMIT_LOCKS`, which rustix does not define.
pub(crate) const MARKED_RESOURCE: i32 = 10;
/// Its name in `/proc/PID/limits`.
const LINE: &str = "Max file locks";

impl LaunchMark {
    /// Returns the number for a launch with a unique name. The keys of the hash are random.
    pub(crate) fn of(name: &str) -> Self {
        // Above every limit that a user would set, and below "unlimited".
        Self(RandomState::new().hash_one(name) >> 1 | 1 << 62)
    }

    /// Sets the mark in the child. Allocates nothing. If the hard limit is lower already (haft runs
    /// inside another haft) nothing changes: the processes keep the mark of the outer launch.
    pub(super) fn set(self) {
        let limit = libc::rlimit64 { rlim_cur: self.0, rlim_max: self.0 };
        #[expect(unsafe_code, reason = "rustix does not have this limit")]
        // SAFETY: the call reads one structure that lives here and writes nothing.
        unsafe {
            let none = std::ptr::null_mut::<libc::rlimit64>();
            libc::syscall(libc::SYS_prlimit64, 0, MARKED_RESOURCE, &raw const limit, none);
        }
    }

    /// Returns true when a process has this mark. Every user may read the limits of a process.
    pub(crate) fn is_on(self, pid: i32) -> bool {
        fs::read_to_string(format!("/proc/{pid}/limits")).is_ok_and(|limits| self.is_in(&limits))
    }

    fn is_in(self, limits: &str) -> bool {
        values_in(limits).any(|value| value.parse() == Ok(self.0))
    }

    /// Returns true when a descendant of this process has changed its mark: it has none of these,
    /// and not our own limit.
    pub(crate) fn is_changed_on(pid: i32, known: &[Self]) -> bool {
        let limits = |who: &str| fs::read_to_string(format!("/proc/{who}/limits")).ok();
        let (Some(theirs), Some(ours)) = (limits(&pid.to_string()), limits("self")) else {
            return false;
        };
        Self::is_changed_in(&theirs, &ours, known)
    }

    fn is_changed_in(theirs: &str, ours: &str, known: &[Self]) -> bool {
        !values_in(theirs).eq(values_in(ours)) && !known.iter().any(|mark| mark.is_in(theirs))
    }
}

/// Returns the soft and the hard limit of file locks in a table of limits.
fn values_in(limits: &str) -> impl Iterator<Item = &str> {
    let line = limits.lines().find_map(|line| line.strip_prefix(LINE));
    line.into_iter().flat_map(str::split_ascii_whitespace).take(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_from_the_kernels_table() {
        let mark = LaunchMark(4_611_686_018_427_387_999);
        let table = |value: &str| {
            format!(
                "Limit   Soft Limit  Hard Limit  Units\nMax pending signals {value} {value} signals\n\
                 Max file locks            {value}  {value} locks\n"
            )
        };
        assert!(mark.is_in(&table("4611686018427387999")));
        assert!(!mark.is_in(&table("unlimited")) && !mark.is_in(&table("7")) && !mark.is_in(""));
        let others = "Max pending signals 4611686018427387999 4611686018427387999 signals\n";
        assert!(!mark.is_in(others));
    }

    #[test]
    fn a_mark_that_was_changed_is_none_that_we_know() {
        let table = |value: &str| format!("Max file locks            {value}  {value} locks\n");
        let known = [LaunchMark(4_611_686_018_427_387_999)];
        let is_changed =
            |value: &str| LaunchMark::is_changed_in(&table(value), &table("unlimited"), &known);
        assert!(is_changed("5"));
        assert!(!is_changed("unlimited") && !is_changed("4611686018427387999"));
    }

    #[test]
    fn no_two_marks_are_the_same_and_we_bear_none() {
        let (one, other) = (LaunchMark::of("p1."), LaunchMark::of("p2."));
        assert_ne!(one, other);
        assert!(!one.is_on(std::process::id().cast_signed()));
    }
}
