//! Connections to sockets that are files. A mount cannot hide a socket that another program makes while a command runs, and
//! neither mounts nor Landlock see who connects. So each call of `connect` is made by us in the program's stead: its socket
//! and the address are taken once, the file is looked up as the program sees it, and exactly that file is connected to. What
//! the program changes meanwhile changes nothing, because its own call never goes on.
//!
//! A command reaches sockets that were made after it began, and those in the private folders of its session.

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
    super::layout::{Layout, Part},
    kernel::{self, Notice},
};

/// So many blocking calls of one command are waited for at once.
const MAX_WAITING: usize = 64;

/// What decides about the connections of one command.
pub(super) struct Connections {
    /// When the command began, by the clock that files are dated with.
    began: Timespec,
    /// Whether it is in a network of its own, where abstract sockets are its own too.
    is_alone: bool,
    /// Where only programs of its session make files.
    private: Vec<PathBuf>,
    waiting: Arc<AtomicUsize>,
}

/// One call, taken apart.
struct Attempt {
    socket: OwnedFd,
    to: Target,
}

enum Target {
    /// As the program says it.
    Address(Vec<u8>),
    /// The file of a socket.
    File(OwnedFd),
}

/// Why a call is not made.
#[derive(Debug)]
pub(super) enum Failure {
    Errno(Errno),
    /// A socket of another program, by its path; none for an abstract one.
    Foreign(Option<PathBuf>),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Errno(Errno::from_io_error(&error).unwrap_or(Errno::PERM))
    }
}

impl Connections {
    pub(super) fn of(layout: &Layout, is_alone: bool) -> Self {
        let private = layout.parts.iter().filter_map(|part| match part {
            Part::Private { at, .. } => Some(at.clone()),
            _ => None,
        });
        Self {
            began: rustix::time::clock_gettime(ClockId::RealtimeCoarse),
            is_alone,
            private: private.collect(),
            waiting: Arc::default(),
        }
    }

    /// Makes the call and answers it. One that goes to another program's socket is returned without an answer, so that it is
    /// noted before the program goes on.
    pub(super) fn connect(&self, listener: &Arc<OwnedFd>, notice: &Notice) -> Option<Failure> {
        let attempt = self.attempt(notice);
        // Whoever called may be gone, and its number another's: then what was read is of no meaning.
        if !kernel::is_waiting(listener, notice) {
            return None;
        }
        match attempt {
            Ok(attempt) if attempt.may_wait() => {
                self.wait(listener, notice, attempt);
                None
            }
            Ok(attempt) => {
                kernel::answer_with(listener, notice, attempt.make());
                None
            }
            Err(Failure::Errno(errno)) => {
                kernel::answer_with(listener, notice, Err(errno));
                None
            }
            Err(foreign) => Some(foreign),
        }
    }

    /// Refuses a call that [`Self::connect`] has left to its caller.
    pub(super) fn refuse(listener: &OwnedFd, notice: &Notice) {
        kernel::answer_with(listener, notice, Err(Errno::ACCESS));
    }

    fn attempt(&self, notice: &Notice) -> Result<Attempt, Failure> {
        let [socket, address, length, ..] = notice.arguments;
        let socket = kernel::handle(notice.pid, socket)?;
        let bytes = kernel::bytes(notice.pid, address, length).ok_or(Errno::FAULT)?;
        let to = match kernel::unix_name(&bytes) {
            Some([]) | None => Target::Address(bytes),
            Some([0, ..]) if self.is_alone => Target::Address(bytes),
            Some([0, ..]) => return Err(Failure::Foreign(None)),
            Some(path) => Target::File(self.file(notice.pid, path)?),
        };
        Ok(Attempt { socket, to })
    }

    /// The file of a socket that the command may connect to.
    fn file(&self, pid: u32, path: &[u8]) -> Result<OwnedFd, Failure> {
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
            false => Err(Failure::Foreign(Some(whole))),
        }
    }

    /// Programs can set every date of a file but that of its birth.
    fn is_own(&self, root: BorrowedFd<'_>, file: &OwnedFd) -> bool {
        let wanted = StatxFlags::BTIME | StatxFlags::MNT_ID;
        let Ok(found) = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted) else {
            return false;
        };
        let born = (found.stx_btime.tv_sec, i64::from(found.stx_btime.tv_nsec));
        let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let is_private = |at: &PathBuf| {
            let place = within(root, at).ok();
            let place = place
                .and_then(|place| rustix::fs::statx(place, c"", AtFlags::EMPTY_PATH, wanted).ok());
            place.is_some_and(|place| place.stx_mnt_id == found.stx_mnt_id)
        };
        (has_birth && born >= (self.began.tv_sec, self.began.tv_nsec))
            || self.private.iter().any(is_private)
    }

    /// A call that may take its time is waited for by a thread: others are answered meanwhile.
    fn wait(&self, listener: &Arc<OwnedFd>, notice: &Notice, attempt: Attempt) {
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return kernel::answer_with(listener, notice, Err(Errno::AGAIN));
        }
        let (waiting, mine, call) = (self.waiting.clone(), listener.clone(), *notice);
        let made = thread::Builder::new().name("haft-connect".to_owned()).stack_size(64 << 10);
        let made = made.spawn(move || {
            kernel::answer_with(&mine, &call, attempt.make());
            waiting.fetch_sub(1, Ordering::AcqRel);
        });
        if made.is_err() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            kernel::answer_with(listener, notice, Err(Errno::AGAIN));
        }
    }
}

const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// What a path leads to below this root, links included.
fn within(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(root, path, PLACE, Mode::empty(), ResolveFlags::IN_ROOT)
}

impl Attempt {
    fn may_wait(&self) -> bool {
        rustix::fs::fcntl_getfl(&self.socket).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
    }

    fn make(&self) -> Result<(), Errno> {
        match &self.to {
            Target::Address(address) => kernel::connect(&self.socket, address),
            Target::File(file) => {
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
        Connections { began, is_alone: true, private: Vec::new(), waiting: Arc::default() }
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
        assert!(matches!(refused, Failure::Foreign(Some(at)) if at == path));
        fs::write(folder.path().join("plain"), "").expect("written");
        let plain = folder.path().join("plain");
        let error = connections(before).file(own, plain.as_os_str().as_bytes()).expect_err("none");
        assert!(matches!(error, Failure::Errno(Errno::CONNREFUSED)), "{error:?}");
    }
}
