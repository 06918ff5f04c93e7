//! Connections to unix sockets with a path. A mount cannot hide a socket that another program
//! creates while a command runs, and neither mounts nor Landlock see connections. So we perform
//! each `connect` call instead of the program: its socket and the address are copied once, the file
//! is looked up as the program sees it, and exactly that file is connected to. Changes by the
//! program in the meantime have no effect, because its own call never continues.
//!
//! A command reaches sockets that were created after it began, and those in the private folders of
//! its session. The kernel does not say which program created a socket: a newer socket of another
//! program is reachable as well, if the command can see its folder.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags},
    io::Errno,
    time::{ClockId, Timespec},
};

use super::{
    super::layout::{Layout, LayoutPart},
    kernel::{self, SeccompNotification},
};

/// Maximum number of blocking calls of one command that are performed in parallel.
const MAX_WAITING: usize = 64;

/// Decides about the connections of one command.
pub(super) struct Connections {
    /// The start of the command, by the clock of file timestamps.
    began: Timespec,
    /// True in a separate network, where abstract sockets belong to the session too.
    has_own_network: bool,
    /// Directories in which only programs of the session create files.
    private: Vec<PathBuf>,
    waiting: Arc<AtomicUsize>,
}

/// A parsed call.
struct Attempt {
    socket: OwnedFd,
    to: ConnectTarget,
}

enum ConnectTarget {
    /// The address as the program gave it.
    Address(Vec<u8>),
    /// The file of a socket.
    File(OwnedFd),
}

/// Why a call is not performed.
#[derive(Debug)]
pub(super) enum ConnectFailure {
    Errno(Errno),
    /// A socket of another program, by its path; none for an abstract one.
    Foreign(Option<PathBuf>),
}

impl From<Errno> for ConnectFailure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<io::Error> for ConnectFailure {
    fn from(error: io::Error) -> Self {
        Self::Errno(Errno::from_io_error(&error).unwrap_or(Errno::PERM))
    }
}

impl Connections {
    pub(super) fn of(layout: &Layout, has_own_network: bool) -> Self {
        let private = layout.parts.iter().filter_map(|part| match part {
            LayoutPart::Private { at, .. } => Some(at.clone()),
            _ => None,
        });
        Self {
            began: rustix::time::clock_gettime(ClockId::RealtimeCoarse),
            has_own_network,
            private: private.collect(),
            waiting: Arc::default(),
        }
    }

    /// Performs the call and replies. A connection to another program's socket is returned without
    /// a reply, so that it is recorded before the program continues.
    pub(super) fn connect(
        &self,
        listener: &Arc<OwnedFd>,
        notification: &SeccompNotification,
    ) -> Option<ConnectFailure> {
        let attempt = self.attempt(notification);
        // The calling process may be gone and its id reused: then the copied data is meaningless.
        if !kernel::is_waiting(listener, notification) {
            return None;
        }
        match attempt {
            Ok(attempt) if attempt.may_wait() => {
                self.wait(listener, notification, attempt);
                None
            }
            Ok(attempt) => {
                kernel::answer_with(listener, notification, attempt.make());
                None
            }
            Err(ConnectFailure::Errno(errno)) => {
                kernel::answer_with(listener, notification, Err(errno));
                None
            }
            Err(foreign_socket_denial) => Some(foreign_socket_denial),
        }
    }

    /// Refuses a call that [`Self::connect`] has returned without a reply.
    pub(super) fn refuse(listener: &OwnedFd, notification: &SeccompNotification) {
        kernel::answer_with(listener, notification, Err(Errno::ACCESS));
    }

    fn attempt(&self, notification: &SeccompNotification) -> Result<Attempt, ConnectFailure> {
        let [socket, address, length, ..] = notification.arguments;
        let socket = kernel::handle(notification.pid, socket)?;
        let bytes = kernel::bytes(notification.pid, address, length).ok_or(Errno::FAULT)?;
        let to = match kernel::unix_name(&bytes) {
            Some([]) | None => ConnectTarget::Address(bytes),
            Some([0, ..]) if self.has_own_network => ConnectTarget::Address(bytes),
            Some([0, ..]) => return Err(ConnectFailure::Foreign(None)),
            Some(path) => ConnectTarget::File(self.file(notification.pid, path)?),
        };
        Ok(Attempt { socket, to })
    }

    /// Returns the file of a socket that the command may connect to.
    fn file(&self, pid: u32, path: &[u8]) -> Result<OwnedFd, ConnectFailure> {
        let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
        let path = Path::new(std::ffi::OsStr::from_bytes(path.get(..end).unwrap_or_default()));
        let root = rustix::fs::openat(CWD, format!("/proc/{pid}/root"), PLACE, Mode::empty())?;
        let whole = match path.is_absolute() {
            true => path.to_owned(),
            false => kernel::directory(pid, None).ok_or(Errno::NOENT)?.join(path),
        };
        let file = within(root.as_fd(), &whole)?;
        let found = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
            return Err(Errno::CONNREFUSED.into());
        }
        match self.is_own(root.as_fd(), &file) {
            true => Ok(file),
            false => Err(ConnectFailure::Foreign(Some(whole))),
        }
    }

    /// Returns true if the socket was created after the command began, or lies on a private mount of
    /// the session. Compares the creation time, because programs can set every other timestamp.
    fn is_own(&self, root: BorrowedFd<'_>, file: &OwnedFd) -> bool {
        let wanted = StatxFlags::BTIME | StatxFlags::MNT_ID;
        let Ok(found) = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted) else {
            return false;
        };
        let created = (found.stx_btime.tv_sec, i64::from(found.stx_btime.tv_nsec));
        let has_creation_time =
            StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let is_private = |at: &PathBuf| {
            let place = within(root, at).ok();
            let place = place
                .and_then(|place| rustix::fs::statx(place, c"", AtFlags::EMPTY_PATH, wanted).ok());
            place.is_some_and(|place| place.stx_mnt_id == found.stx_mnt_id)
        };
        (has_creation_time && created >= (self.began.tv_sec, self.began.tv_nsec))
            || self.private.iter().any(is_private)
    }

    /// A thread performs a call that may block, so that other calls are not delayed.
    fn wait(&self, listener: &Arc<OwnedFd>, notification: &SeccompNotification, attempt: Attempt) {
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return kernel::answer_with(listener, notification, Err(Errno::AGAIN));
        }
        let (waiting, own_listener, call) = (self.waiting.clone(), listener.clone(), *notification);
        let made = thread::Builder::new().name("haft-connect".to_owned()).stack_size(64 << 10);
        let made = made.spawn(move || {
            kernel::answer_with(&own_listener, &call, attempt.make());
            waiting.fetch_sub(1, Ordering::AcqRel);
        });
        if made.is_err() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            kernel::answer_with(listener, notification, Err(Errno::AGAIN));
        }
    }
}

const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens a path below this root, following links.
fn within(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(root, path, PLACE, Mode::empty(), ResolveFlags::IN_ROOT)
}

impl Attempt {
    fn may_wait(&self) -> bool {
        rustix::fs::fcntl_getfl(&self.socket).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
    }

    fn make(&self) -> Result<(), Errno> {
        match &self.to {
            ConnectTarget::Address(address) => kernel::connect(&self.socket, address),
            ConnectTarget::File(file) => {
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                kernel::connect(&self.socket, &kernel::unix_address(&path))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::net::UnixListener};

    use super::*;

    fn connections(began: Timespec) -> Connections {
        Connections { began, has_own_network: true, private: Vec::new(), waiting: Arc::default() }
    }

    #[test]
    fn only_a_socket_that_was_made_later_is_ones_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let before = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
        let _listener = UnixListener::bind(&path).expect("bound");
        let own = std::process::id();
        let later = Timespec { tv_sec: before.tv_sec + 3600, tv_nsec: 0 };
        let name = path.as_os_str().as_bytes();
        assert!(connections(before).file(own, name).is_ok());
        let refused = connections(later).file(own, name).expect_err("of another");
        assert!(matches!(refused, ConnectFailure::Foreign(Some(at)) if at == path));
        fs::write(folder.path().join("plain"), "").expect("written");
        let plain = folder.path().join("plain");
        let error = connections(before).file(own, plain.as_os_str().as_bytes()).expect_err("none");
        assert!(matches!(error, ConnectFailure::Errno(Errno::CONNREFUSED)), "{error:?}");
    }
}
