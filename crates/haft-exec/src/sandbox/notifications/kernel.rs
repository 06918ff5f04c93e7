//! The kernel interface of seccomp notifications: listening, receiving, replying, and reading the
//! memory of the calling process.

use std::{
    fs,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::{ffi::OsStringExt, fs::FileExt},
    },
    path::PathBuf,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};
use seccompiler::sock_filter;

/// A call that waits for a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeccompNotification {
    pub(super) id: u64,
    pub(super) pid: u32,
    pub(super) call: i32,
    pub(super) arguments: [u64; 6],
}

/// The peer that a program connects to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PeerAddress {
    Internet(SocketAddr),
    Path(PathBuf),
}

/// The kernel's limit for paths.
const MAX_PATH_BYTES: usize = 4096;

/// Creates a socket pair for one message between child and parent.
pub(in crate::sandbox) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Installs the filter in the child, and returns the listener.
pub(super) fn listen(program: &[sock_filter]) -> io::Result<RawFd> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    #[expect(unsafe_code, reason = "seccompiler installs filters only without a listener")]
    // SAFETY: the kernel reads the given number of instructions; both structures have C layout.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    match RawFd::try_from(listener) {
        Ok(listener) if listener >= 0 => Ok(listener),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends the listener from the child. The child's copy closes on exec.
pub(in crate::sandbox) fn send(socket: RawFd, listener: RawFd) -> io::Result<()> {
    #[expect(unsafe_code, reason = "between fork and exec there are only numbers")]
    // SAFETY: both are open in the child until it calls exec.
    let (socket, listener) =
        unsafe { (BorrowedFd::borrow_raw(socket), BorrowedFd::borrow_raw(listener)) };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let handles = [listener];
    message.push(SendAncillaryMessage::ScmRights(&handles));
    sendmsg(socket, &[IoSlice::new(b"l")], &mut message, SendFlags::empty())?;
    Ok(())
}

/// Receives a descriptor that a child has sent.
pub(in crate::sandbox) fn receive(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut message, flags)?;
    let mut handles = message.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
        _ => None,
    });
    handles.next().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Waits for a notification. False when no process is left that could cause one.
pub(super) fn wait(listener: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(listener, PollFlags::IN)];
    match poll(&mut watched, None) {
        Err(Errno::INTR) => true,
        Err(_) => false,
        Ok(_) => watched.iter().all(|handle| handle.revents().contains(PollFlags::IN)),
    }
}

/// The kernel's `seccomp_notif`.
#[repr(C)]
#[derive(Default)]
struct RawNotification {
    id: u64,
    pid: u32,
    flags: u32,
    call: i32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// `seccomp_notif_resp`.
#[repr(C)]
struct RawReply {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const IS_VALID: u64 = 0x4008_2102;
const SET_FLAGS: u64 = 0x4008_2104;
const SAME_CORE: u64 = 1;
/// Lets the kernel perform the call.
const GO_ON: u32 = 1;

/// The calling thread sleeps while we work, so we can run on its core; waking another core takes
/// longer. Since Linux 6.6; older kernels are just slower.
pub(super) fn answer_on_the_same_core(listener: &OwnedFd) {
    #[expect(unsafe_code, reason = "rustix has no such call")]
    // SAFETY: the argument is a number.
    unsafe {
        libc::ioctl(listener.as_raw_fd(), SET_FLAGS, SAME_CORE);
    }
}

/// Returns None when the calling process is gone.
pub(super) fn next(listener: &OwnedFd) -> Option<SeccompNotification> {
    let mut raw = RawNotification::default();
    #[expect(unsafe_code, reason = "rustix has no such call")]
    // SAFETY: the kernel writes one structure of this layout, which lives here and is zeroed as
    // required.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut raw) };
    let RawNotification { id, pid, call, arguments, .. } = raw;
    (result == 0).then_some(SeccompNotification { id, pid, call, arguments })
}

/// Lets the call continue, or refuses it.
pub(super) fn answer(listener: &OwnedFd, notification: &SeccompNotification, is_refused: bool) {
    let (error, flags) = if is_refused { (-libc::EPERM, 0) } else { (0, GO_ON) };
    let mut raw = RawReply { id: notification.id, value: 0, error, flags };
    #[expect(unsafe_code, reason = "rustix has no such call")]
    // SAFETY: the kernel reads one structure of this layout. An error because the calling process
    // is gone is ignored.
    unsafe {
        libc::ioctl(listener.as_raw_fd(), SEND, &raw mut raw);
    }
}

/// Replies to a call that was performed here.
pub(super) fn answer_with(
    listener: &OwnedFd,
    notification: &SeccompNotification,
    result: Result<(), Errno>,
) {
    let error = result.err().map_or(0, |errno| -errno.raw_os_error());
    let mut raw = RawReply { id: notification.id, value: 0, error, flags: 0 };
    #[expect(unsafe_code, reason = "rustix has no such call")]
    // SAFETY: as in `answer`.
    unsafe {
        libc::ioctl(listener.as_raw_fd(), SEND, &raw mut raw);
    }
}

/// Returns true when a call still waits for its reply.
pub(super) fn is_waiting(listener: &OwnedFd, notification: &SeccompNotification) -> bool {
    let id = notification.id;
    #[expect(unsafe_code, reason = "rustix has no such call")]
    // SAFETY: the kernel reads one number, which lives here.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID, &raw const id) };
    result == 0
}

/// Copies a descriptor of another process or thread.
pub(super) fn handle(pid: u32, number: u64) -> Result<OwnedFd, Errno> {
    // The thread, not the process: since Linux 6.9. Before, this works because threads almost
    // always share their descriptors.
    let owner = pidfd(pid, THREAD).or_else(|_| pidfd(leader(pid).ok_or(Errno::SRCH)?, 0))?;
    #[expect(clippy::cast_possible_truncation, reason = "the kernel uses the lower half")]
    let number = number as u32;
    #[expect(unsafe_code, reason = "rustix accepts only our own descriptors")]
    // SAFETY: the call takes numbers, and returns a new descriptor of ours.
    let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, owner.as_raw_fd(), number, 0) };
    owned(taken)
}

/// `PIDFD_THREAD`.
const THREAD: u32 = libc::O_EXCL.cast_unsigned();

fn pidfd(pid: u32, flags: u32) -> Result<OwnedFd, Errno> {
    #[expect(unsafe_code, reason = "rustix does not know the flag")]
    // SAFETY: the call takes numbers, and returns a new descriptor of ours.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) };
    owned(opened)
}

fn owned(result: libc::c_long) -> Result<OwnedFd, Errno> {
    match RawFd::try_from(result) {
        #[expect(unsafe_code, reason = "the kernel has just created this descriptor")]
        // SAFETY: a new descriptor that no other code has.
        Ok(handle) if handle >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(handle) }),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::PERM)),
    }
}

/// Returns the process of a thread.
fn leader(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Connects a socket to an address in the kernel's layout.
pub(super) fn connect(socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    let length = u32::try_from(address.len()).map_err(|_| Errno::INVAL)?;
    #[expect(unsafe_code, reason = "rustix takes only the addresses that it knows")]
    // SAFETY: the kernel reads exactly the bytes of the slice.
    let result = unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) };
    match result {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::PERM)),
    }
}

/// Returns the address of a socket with this path.
pub(super) fn unix_address(path: &str) -> Vec<u8> {
    let family = u16::try_from(libc::AF_UNIX).expect("small").to_ne_bytes();
    [&family[..], path.as_bytes(), &[0]].concat()
}

/// Returns the name in the address of a unix socket. None for other families.
pub(super) fn unix_name(address: &[u8]) -> Option<&[u8]> {
    let family = u16::from_ne_bytes(address.get(..2)?.try_into().ok()?);
    (i32::from(family) == libc::AF_UNIX).then(|| address.get(2..)).flatten()
}

/// Reads bytes from the memory of another process, at most the size of an address.
pub(super) fn bytes(pid: u32, at: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|length| *length <= 128)?];
    let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

/// Reads a string from the memory of another process, up to its zero byte.
pub(super) fn text(pid: u32, at: u64) -> Option<Vec<u8>> {
    let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut text = Vec::new();
    let mut portion = [0; 256];
    while text.len() < MAX_PATH_BYTES {
        let read = memory.read_at(&mut portion, at + text.len() as u64).ok()?;
        let portion = portion.get(..read).filter(|portion| !portion.is_empty())?;
        if let Some(end) = memchr::memchr(0, portion) {
            text.extend_from_slice(portion.get(..end)?);
            return Some(text);
        }
        text.extend_from_slice(portion);
    }
    None
}

/// Returns the path of a process's current directory, or of one that it has open.
pub(super) fn directory(pid: u32, handle: Option<RawFd>) -> Option<PathBuf> {
    let link = match handle {
        Some(handle) if handle != libc::AT_FDCWD => format!("/proc/{pid}/fd/{handle}"),
        _ => format!("/proc/{pid}/cwd"),
    };
    fs::read_link(link).ok()
}

/// Returns the program of a process.
pub(super) fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Returns the address of a socket in the memory of another process.
pub(super) fn address(pid: u32, at: u64, length: u64) -> Option<PeerAddress> {
    let mut bytes = vec![0; usize::try_from(length).ok()?.min(128)];
    let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, at).ok()?;
    address_in(&bytes)
}

fn address_in(bytes: &[u8]) -> Option<PeerAddress> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = || Some(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?));
    match family {
        libc::AF_INET => {
            let address: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(PeerAddress::Internet((Ipv4Addr::from(address), port()?).into()))
        }
        libc::AF_INET6 => {
            let address: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(PeerAddress::Internet((Ipv6Addr::from(address), port()?).into()))
        }
        libc::AF_UNIX => {
            let path = bytes.get(2..)?.split(|byte| *byte == 0).next()?;
            let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
            // An address without a path is not a file.
            (!path.as_os_str().is_empty()).then_some(PeerAddress::Path(path))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_lays_them_out() {
        let with = |family: i32, rest: &[u8]| {
            let family = u16::try_from(family).expect("small").to_ne_bytes();
            address_in(&[&family[..], rest].concat())
        };
        let four = with(libc::AF_INET, &[1, 187, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(four, Some(PeerAddress::Internet("192.0.2.1:443".parse().expect("an address"))));
        let mut rest = vec![0, 80, 0, 0, 0, 0];
        rest.extend([0; 15]);
        rest.push(1);
        let six = with(libc::AF_INET6, &rest);
        assert_eq!(six, Some(PeerAddress::Internet("[::1]:80".parse().expect("an address"))));
        let path = with(libc::AF_UNIX, b"/run/x.sock\0rest");
        assert_eq!(path, Some(PeerAddress::Path("/run/x.sock".into())));
        assert_eq!(with(libc::AF_UNIX, b"\0abstract"), None);
        assert_eq!(with(libc::AF_INET, &[1]), None);
    }

    #[test]
    fn a_text_is_read_from_the_memory_of_a_process() {
        let long = format!("/{}\0", "x".repeat(700));
        let own = std::process::id();
        let found = text(own, long.as_ptr() as u64).expect("our own memory");
        assert_eq!(found.len(), 701);
        assert_eq!(text(own, 1), None);
    }
}
