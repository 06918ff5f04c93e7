//! The calls that the kernel reports, and the positions of their paths.

use std::os::fd::RawFd;
use std::sync::{Arc, LazyLock};

use seccompiler::sock_filter;

use super::{super::syscalls::Internet, kernel::SeccompNotification};

/// The arguments of a call that contain a path: the base directory (if it has one) and the path.
type PathArguments = (Option<usize>, usize);

/// The calls that change a path.
const CHANGING: &[(i64, &[PathArguments])] = &[
    (libc::SYS_mkdirat, &[(Some(0), 1)]),
    (libc::SYS_unlinkat, &[(Some(0), 1)]),
    (libc::SYS_renameat, &[(Some(0), 1), (Some(2), 3)]),
    (libc::SYS_renameat2, &[(Some(0), 1), (Some(2), 3)]),
    (libc::SYS_linkat, &[(Some(2), 3)]),
    (libc::SYS_symlinkat, &[(Some(1), 2)]),
    (libc::SYS_mknodat, &[(Some(0), 1)]),
    (libc::SYS_truncate, &[(None, 0)]),
    (libc::SYS_fchmodat, &[(Some(0), 1)]),
    (libc::SYS_fchownat, &[(Some(0), 1)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, &[(None, 0)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, &[(None, 0)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rmdir, &[(None, 0)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, &[(None, 0)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, &[(None, 0), (None, 1)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_link, &[(None, 1)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_symlink, &[(None, 1)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, &[(None, 0)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, &[(None, 0)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chown, &[(None, 0)]),
];

/// The calls that open files, with the positions of directory, path and flags.
const OPENING: &[(i64, Option<usize>, usize, usize)] = &[
    (libc::SYS_openat, Some(0), 1, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, None, 0, 1),
];
const CHANGES: i32 = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;

type FilterProgram = LazyLock<Arc<Vec<sock_filter>>>;

/// Returns the filter for this kind of network.
pub(super) fn program(internet: Internet) -> Arc<Vec<sock_filter>> {
    static ALLOWED: FilterProgram = LazyLock::new(|| Arc::new(write(Internet::Allowed)));
    static DENIED: FilterProgram = LazyLock::new(|| Arc::new(write(Internet::Denied)));
    static BY_REPORT: FilterProgram = LazyLock::new(|| Arc::new(write(Internet::DeniedByReport)));
    match internet {
        Internet::Allowed => ALLOWED.clone(),
        Internet::Denied => DENIED.clone(),
        Internet::DeniedByReport => BY_REPORT.clone(),
    }
}

const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
const REPORT: u32 = 0x7fc0_0000;
const ALLOW: u32 = 0x7fff_0000;

fn write(internet: Internet) -> Vec<sock_filter> {
    let mut program = vec![step(LOAD, 0, 0, 0)];
    for (call, ..) in CHANGING {
        program.extend([step(JUMP_IF_EQUAL, 0, 1, number(*call)), step(RETURN, 0, 0, REPORT)]);
    }
    for (call, _, _, flags) in OPENING {
        program.extend([
            step(JUMP_IF_EQUAL, 0, 6, number(*call)),
            step(LOAD, 0, 0, argument(*flags)),
            step(JUMP_IF_SET, 2, 0, CHANGES.cast_unsigned()),
            step(JUMP_IF_SET, 0, 2, libc::O_RDWR.cast_unsigned()),
            // Shells open their terminal with this flag; programs that write to files do not set
            // it.
            step(JUMP_IF_SET, 1, 0, libc::O_NONBLOCK.cast_unsigned()),
            step(RETURN, 0, 0, REPORT),
            step(RETURN, 0, 0, ALLOW),
        ]);
    }
    program
        .extend([step(JUMP_IF_EQUAL, 0, 1, number(libc::SYS_connect)), step(RETURN, 0, 0, REPORT)]);
    if internet == Internet::DeniedByReport {
        program.extend([
            step(JUMP_IF_EQUAL, 0, 5, number(libc::SYS_socket)),
            step(LOAD, 0, 0, argument(0)),
            step(JUMP_IF_EQUAL, 1, 0, libc::AF_INET.cast_unsigned()),
            step(JUMP_IF_EQUAL, 0, 1, libc::AF_INET6.cast_unsigned()),
            step(RETURN, 0, 0, REPORT),
            step(RETURN, 0, 0, ALLOW),
        ]);
    }
    program.push(step(RETURN, 0, 0, ALLOW));
    program
}

/// Joins two filters: the second checks what the first allows.
pub(super) fn after(first: &[sock_filter], second: &[sock_filter]) -> Vec<sock_filter> {
    let mut joined: Vec<sock_filter> = first.to_vec();
    for (place, step) in joined.iter_mut().enumerate() {
        if step.code == RETURN && step.k == ALLOW {
            let to_second = u32::try_from(first.len() - place - 1).expect("programs are short");
            *step = self::step(JUMP, 0, 0, to_second);
        }
    }
    joined.extend_from_slice(second);
    joined
}

fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn number(call: i64) -> u32 {
    u32::try_from(call).expect("numbers of calls are small")
}

/// Returns the offset of the lower half of an argument in the filter's input.
fn argument(index: usize) -> u32 {
    let upper_first = cfg!(target_endian = "big");
    u32::try_from(16 + 8 * index + 4 * usize::from(upper_first)).expect("six arguments")
}

/// Returns true when a call creates an internet socket.
pub(super) fn opens_internet(notification: &SeccompNotification) -> bool {
    i64::from(notification.call) == libc::SYS_socket
}

/// Returns the address and its length of a `connect` call.
pub(super) fn address_of(notification: &SeccompNotification) -> Option<(u64, u64)> {
    let [_, address, length, ..] = notification.arguments;
    (i64::from(notification.call) == libc::SYS_connect).then_some((address, length))
}

/// Returns the paths that a call would change: each with its base directory, if it is not the
/// current one.
pub(super) fn paths_of(notification: &SeccompNotification) -> [Option<(Option<RawFd>, u64)>; 2] {
    let call = i64::from(notification.call);
    let at = |index: usize| notification.arguments.get(index).copied().unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "the kernel uses the lower half")]
    let place = |(directory, path): PathArguments| {
        (directory.map(|index| at(index) as u32 as RawFd), at(path))
    };
    if let Some((_, directory, path, _)) = OPENING.iter().find(|(known, ..)| *known == call) {
        return [Some(place((*directory, *path))), None];
    }
    let known = CHANGING.iter().find(|(known, _)| *known == call);
    let mut paths = known.map(|(_, places)| *places).unwrap_or_default().iter().copied().map(place);
    [paths.next(), paths.next()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true when the filter reports a call with these arguments.
    fn reports(internet: Internet, call: i64, arguments: [u32; 3]) -> bool {
        answer(&write(internet), call, arguments) == REPORT
    }

    fn answer(program: &[sock_filter], call: i64, arguments: [u32; 3]) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = program.get(at).expect("it ends with an answer");
            at += 1;
            let is_met = match step.code {
                LOAD if step.k == 0 => {
                    loaded = number(call);
                    continue;
                }
                LOAD => {
                    loaded = arguments[(step.k as usize - 16) / 8];
                    continue;
                }
                RETURN => return step.k,
                JUMP => {
                    at += step.k as usize;
                    continue;
                }
                JUMP_IF_EQUAL => loaded == step.k,
                _ => loaded & step.k != 0,
            };
            at += usize::from(if is_met { step.jt } else { step.jf });
        }
    }

    #[test]
    fn what_changes_something_is_reported_and_what_reads_is_not() {
        let write = libc::O_WRONLY.cast_unsigned();
        assert!(reports(Internet::DeniedByReport, libc::SYS_openat, [0, 0, write]));
        assert!(reports(
            Internet::Allowed,
            libc::SYS_openat,
            [0, 0, libc::O_CREAT.cast_unsigned()]
        ));
        assert!(!reports(Internet::DeniedByReport, libc::SYS_openat, [write, write, 0]));
        let both = libc::O_RDWR;
        assert!(reports(Internet::Allowed, libc::SYS_openat, [0, 0, both.cast_unsigned()]));
        let terminal = both | libc::O_NONBLOCK;
        assert!(!reports(Internet::Allowed, libc::SYS_openat, [0, 0, terminal.cast_unsigned()]));
        let made = terminal | libc::O_CREAT;
        assert!(reports(Internet::Allowed, libc::SYS_openat, [0, 0, made.cast_unsigned()]));
        for (call, _) in CHANGING {
            assert!(reports(Internet::Allowed, *call, [0; 3]), "{call}");
        }
        for call in [libc::SYS_read, libc::SYS_write, libc::SYS_execve, libc::SYS_statx] {
            assert!(!reports(Internet::DeniedByReport, call, [write; 3]), "{call}");
        }
    }

    #[test]
    fn what_one_program_allows_the_next_is_asked_about() {
        const DENY: u32 = 0x0005_0001;
        let denying = [
            step(LOAD, 0, 0, 0),
            step(JUMP_IF_EQUAL, 0, 1, number(libc::SYS_read)),
            step(RETURN, 0, 0, ALLOW),
            step(JUMP_IF_EQUAL, 0, 1, number(libc::SYS_truncate)),
            step(RETURN, 0, 0, DENY),
            step(RETURN, 0, 0, ALLOW),
        ];
        let joined = after(&denying, &write(Internet::Allowed));
        for (call, expected) in [
            (libc::SYS_read, ALLOW),
            (libc::SYS_truncate, DENY),
            (libc::SYS_mkdirat, REPORT),
            (libc::SYS_write, ALLOW),
        ] {
            assert_eq!(answer(&joined, call, [0; 3]), expected, "{call}");
        }
    }

    #[test]
    fn the_network_is_reported_where_there_is_none() {
        let (four, six) = (libc::AF_INET.cast_unsigned(), libc::AF_INET6.cast_unsigned());
        for family in [four, six] {
            assert!(reports(Internet::DeniedByReport, libc::SYS_socket, [family, 0, 0]));
            for elsewhere in [Internet::Allowed, Internet::Denied] {
                assert!(!reports(elsewhere, libc::SYS_socket, [family, 0, 0]));
            }
        }
        assert!(!reports(
            Internet::DeniedByReport,
            libc::SYS_socket,
            [libc::AF_UNIX.cast_unsigned(), 0, 0]
        ));
        for internet in [Internet::Allowed, Internet::Denied, Internet::DeniedByReport] {
            assert!(reports(internet, libc::SYS_connect, [0; 3]));
        }
    }

    #[test]
    fn the_paths_of_a_call_are_found() {
        let notification = |call: i64| SeccompNotification {
            id: 1,
            pid: 1,
            call: i32::try_from(call).expect("small"),
            arguments: [u64::from(u32::MAX), 11, 7, 13, 0, 0],
        };
        let at_here = Some((Some(-1), 11));
        assert_eq!(paths_of(&notification(libc::SYS_openat)), [at_here, None]);
        assert_eq!(paths_of(&notification(libc::SYS_renameat2)), [at_here, Some((Some(7), 13))]);
        assert_eq!(
            paths_of(&notification(libc::SYS_truncate)),
            [Some((None, u64::from(u32::MAX))), None]
        );
        assert_eq!(paths_of(&notification(libc::SYS_read)), [None, None]);
    }
}
