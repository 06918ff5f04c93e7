//! A child that becomes a program. It shares our memory until it does, as `posix_spawn` has it: copying the tables of our
//! memory takes longer than all the rest of a start. In return it may do nothing but system calls, and the thread that
//! made it stands still meanwhile.

use std::{
    ffi::{CString, OsString, c_void},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    ptr,
    sync::atomic::{AtomicI32, Ordering},
};

use rustix::{
    mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap},
    process::{Pid, Signal, WaitOptions, waitpid},
};

use super::{fence::Walls, limits::Bounds};

/// What a child does, in full, before it is made.
pub(crate) struct Order {
    pub(crate) program: CString,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) directory: OwnedFd,
    /// What it reads, says and complains to.
    pub(crate) ends: [OwnedFd; 3],
    pub(crate) has_terminal: bool,
    pub(crate) walls: Walls,
    pub(crate) bounds: Bounds,
}

impl Order {
    /// A word of a command line.
    ///
    /// # Errors
    /// When it holds a zero byte.
    pub(crate) fn word(word: OsString) -> io::Result<CString> {
        Ok(CString::new(word.into_vec())?)
    }

    /// A variable.
    ///
    /// # Errors
    /// When it holds a zero byte.
    pub(crate) fn variable((name, value): (OsString, OsString)) -> io::Result<CString> {
        let mut text = name.into_vec();
        text.push(b'=');
        text.append(&mut value.into_vec());
        Ok(CString::new(text)?)
    }
}

/// What the child is given: addresses, so that it has nothing to make.
struct Given<'a> {
    order: &'a Order,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    parent: Pid,
    /// Why it could not become the program. In memory that is shared whatever else is.
    failure: &'a AtomicI32,
}

/// What a child does that never becomes a program.
struct Errand<'a> {
    work: &'a dyn Fn() -> io::Result<()>,
    failure: &'a AtomicI32,
}

/// Where a child stands until it is the program. One is enough for a thread: it makes one child at a time.
pub(crate) struct Stand {
    memory: *mut c_void,
}

/// Far more than is used; pages that nobody touches cost nothing.
const STAND: usize = 256 << 10;
/// The first page is closed, so that who needs more is stopped and does not write into something else; the last one is for
/// words between the two.
const PAGE: usize = 4096;
/// `CLONE_INTO_CGROUP`, which libc does not name.
const INTO_CGROUP: u64 = 0x2_0000_0000;

impl Stand {
    /// # Errors
    /// When there is no memory.
    pub(crate) fn new() -> io::Result<Self> {
        let open = ProtFlags::READ | ProtFlags::WRITE;
        #[expect(unsafe_code, reason = "there is no other way to memory of this sort")]
        // SAFETY: the kernel chooses the place, so nothing of ours is covered, and its first page is used by nobody.
        let memory = unsafe {
            let memory = mmap_anonymous(ptr::null_mut(), STAND, open, MapFlags::SHARED)?;
            mprotect(memory, PAGE, MprotectFlags::empty())?;
            memory
        };
        Ok(Self { memory })
    }

    fn failure(&self) -> &AtomicI32 {
        #[expect(unsafe_code, reason = "the words between child and parent lie here")]
        // SAFETY: the last page is mapped, aligned, ours as long as `self` lives, and used for this alone.
        unsafe {
            &*self.memory.byte_add(STAND - PAGE).cast::<AtomicI32>()
        }
    }

    /// Makes the child and returns when it has become the program.
    ///
    /// # Errors
    /// What the system says; of kind `NotFound` when there is no such program. Then no child is left.
    pub(crate) fn bear(
        &mut self,
        order: &Order,
        group: Option<&OwnedFd>,
    ) -> io::Result<(Pid, OwnedFd)> {
        let addresses = |all: &[CString]| {
            all.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>()
        };
        self.failure().store(0, Ordering::Release);
        let given = Given {
            order,
            arguments: addresses(&order.arguments),
            environment: addresses(&order.environment),
            parent: rustix::process::getpid(),
            failure: self.failure(),
        };
        let held = hold_signals()?;
        let made = match group {
            Some(group) => split_into(group, &given),
            None => self.split(&given),
        };
        release_signals(&held);
        let (pid, handle) = made?;
        match self.failure().load(Ordering::Acquire) {
            0 => Ok((pid, handle)),
            number => {
                let _ = waitpid(Some(pid), WaitOptions::empty());
                Err(io::Error::from_raw_os_error(number))
            }
        }
    }

    /// Has a child do something and returns when it is gone. It may do nothing but system calls; what it sets up around
    /// itself goes with it unless it has handed it to somebody.
    ///
    /// # Errors
    /// What the system says, or what the child says.
    pub(crate) fn errand(
        &mut self,
        shares_memory: bool,
        work: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        self.failure().store(0, Ordering::Release);
        let errand = Errand { work, failure: self.failure() };
        let shared = if shares_memory { libc::CLONE_VM } else { 0 };
        let flags = shared | libc::CLONE_VFORK | libc::SIGCHLD;
        let held = hold_signals()?;
        #[expect(unsafe_code, reason = "std makes children only by copying our memory")]
        // SAFETY: as in `split`: its own stack, nothing but system calls, and this thread stands still until it is gone.
        let pid = unsafe {
            let top = self.memory.byte_add(STAND - PAGE);
            let errand = (&raw const errand).cast_mut().cast::<c_void>();
            libc::clone(run_errand, top, flags, errand)
        };
        let made = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        release_signals(&held);
        made?;
        let _ = waitpid(Pid::from_raw(pid), WaitOptions::empty());
        match self.failure().load(Ordering::Acquire) {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    fn split(&self, given: &Given<'_>) -> io::Result<(Pid, OwnedFd)> {
        // Who enters a user namespace changes what the kernel thinks of all that share its memory.
        let shared = if given.order.walls.changes_person() { 0 } else { libc::CLONE_VM };
        let flags = shared | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let mut handle: libc::c_int = -1;
        #[expect(unsafe_code, reason = "std makes children only by copying our memory")]
        // SAFETY: the child runs on memory of its own (the upper end of it, below the last page), makes only system
        // calls, and never returns into frames of ours. This thread stands still until the child is gone from our
        // memory (CLONE_VFORK), so what it is given stays as it is; no handler of a signal runs in it.
        let pid = unsafe {
            let top = self.memory.byte_add(STAND - PAGE);
            let given = ptr::from_ref(given).cast_mut().cast::<c_void>();
            libc::clone(child, top, flags, given, &raw mut handle)
        };
        born(pid, handle)
    }
}

fn born(pid: libc::c_int, handle: libc::c_int) -> io::Result<(Pid, OwnedFd)> {
    let Some(pid) = Pid::from_raw(pid.max(0)) else { return Err(io::Error::last_os_error()) };
    #[expect(unsafe_code, reason = "the kernel has put its number there")]
    // SAFETY: with CLONE_PIDFD the kernel has made this descriptor for us, and nobody else knows it.
    let handle = unsafe { OwnedFd::from_raw_fd(handle) };
    Ok((pid, handle))
}

/// The same for a child that has to be born in a control group. The call for it is in no library, and without one a child
/// can only go on where we are: so it gets a copy of our memory.
fn split_into(group: &OwnedFd, given: &Given<'_>) -> io::Result<(Pid, OwnedFd)> {
    let mut handle: libc::c_int = -1;
    #[expect(
        unsafe_code,
        reason = "clone_args is plain numbers, and zero is each one's usual value"
    )]
    // SAFETY: it consists of numbers only.
    let mut how: libc::clone_args = unsafe { std::mem::zeroed() };
    let flags = libc::CLONE_VFORK | libc::CLONE_PIDFD;
    how.flags = INTO_CGROUP | u64::from(flags.cast_unsigned());
    how.pidfd = (&raw mut handle) as u64;
    how.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    how.cgroup = u64::from(group.as_raw_fd().cast_unsigned());
    #[expect(unsafe_code, reason = "no library has this call")]
    // SAFETY: the child has a copy of our memory, makes only system calls there and ends in this branch; what is written
    // to is ours and lives here.
    let pid = unsafe {
        match libc::syscall(libc::SYS_clone3, &raw const how, size_of_val(&how)) {
            0 => libc::_exit(child(ptr::from_ref(given).cast_mut().cast())),
            pid => pid,
        }
    };
    born(libc::c_int::try_from(pid).unwrap_or(-1), handle)
}

impl Drop for Stand {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "what was mapped by hand goes by hand")]
        // SAFETY: it was mapped with this length, and no child is on it: who makes one waits until it is gone.
        let _ = unsafe { munmap(self.memory, STAND) };
    }
}

extern "C" fn child(given: *mut c_void) -> libc::c_int {
    #[expect(unsafe_code, reason = "a C function is given an address")]
    // SAFETY: it is the address that `split` was given by reference, and its thread stands still until we are gone.
    let given = unsafe { &*given.cast::<Given<'_>>().cast_const() };
    let Err(error) = given.become_program();
    given.failure.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Release);
    // Returning ends the child and nothing else.
    127
}

extern "C" fn run_errand(errand: *mut c_void) -> libc::c_int {
    #[expect(unsafe_code, reason = "a C function is given an address")]
    // SAFETY: as in `child`.
    let errand = unsafe { &*errand.cast::<Errand<'_>>().cast_const() };
    if let Err(error) = (errand.work)() {
        errand.failure.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Release);
    }
    0
}

impl Given<'_> {
    fn become_program(&self) -> io::Result<std::convert::Infallible> {
        let order = self.order;
        usual_signals();
        for (end, number) in order.ends.iter().zip(0..) {
            move_to(end.as_fd(), number)?;
        }
        close_others_on_exec()?;
        rustix::process::setsid()?;
        if order.has_terminal {
            // The terminal is what standard input is by now.
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        rustix::process::fchdir(&order.directory)?;
        order.bounds.accept()?;
        // Nothing goes by handle or by right any more after this.
        order.walls.put_up()?;
        // Late, because who changes its rights is watched no more.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(self.parent) {
            // We were gone before we could be watched.
            return Err(io::ErrorKind::Interrupted.into());
        }
        release_signals(&no_signals());
        #[expect(unsafe_code, reason = "std starts programs only in its own way")]
        // SAFETY: all of these are addresses of texts that end with a zero byte, and the lists end with a null.
        unsafe {
            let (arguments, environment) = (self.arguments.as_ptr(), self.environment.as_ptr());
            libc::execve(order.program.as_ptr(), arguments, environment);
        }
        Err(io::Error::last_os_error())
    }
}

/// Ours are all above the first three, and close by themselves.
fn move_to(end: BorrowedFd<'_>, number: libc::c_int) -> io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "rustix wants an owner of the number, and has one for these only by allocating"
    )]
    // SAFETY: the first three of the child are its own to replace.
    let moved = unsafe { libc::dup2(end.as_raw_fd(), number) };
    if moved < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Marks every descriptor above the first three close-on-exec. An embedder, or the process that started ours, may have left
/// some open without that mark, and each would lead out of the sandbox. The ones that the child setup still needs stay
/// open until then.
fn close_others_on_exec() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    const LAST: libc::c_uint = libc::c_uint::MAX;
    #[expect(unsafe_code, reason = "rustix has no such call")]
    // SAFETY: the call takes three numbers and changes only the child's own table of descriptors.
    let marked =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, LAST, libc::CLOSE_RANGE_CLOEXEC) };
    if marked == 0 { Ok(()) } else { mark_one_by_one() }
}

/// The same for kernels before Linux 5.11.
fn mark_one_by_one() -> io::Result<()> {
    const HIGHEST: u64 = 1 << 20;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let end = limit.maximum.unwrap_or(HIGHEST).min(HIGHEST);
    for number in 3..libc::c_int::try_from(end).unwrap_or(libc::c_int::MAX) {
        #[expect(unsafe_code, reason = "the numbers belong to no owner here")]
        // SAFETY: the call takes numbers; for one that is not open it fails and changes nothing.
        unsafe {
            libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok(())
}

/// A program begins as every program does: no signal ignored (Rust ignores SIGPIPE), and none handled by functions that
/// are ours.
fn usual_signals() {
    const LAST: libc::c_int = 31;
    for signal in (1..=LAST).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
        #[expect(unsafe_code, reason = "no crate offers this without allocating")]
        // SAFETY: the child has a table of signals of its own, and a handler of its own for none.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

fn no_signals() -> libc::sigset_t {
    #[expect(unsafe_code, reason = "sets of signals are made by C")]
    // SAFETY: zeroes are a valid set, and the call only writes into it.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        none
    }
}

/// From here to the program none of our handlers may run in the child: it shares our memory.
fn hold_signals() -> io::Result<libc::sigset_t> {
    #[expect(unsafe_code, reason = "std has no signals")]
    // SAFETY: both sets live here, and the mask is this thread's own.
    unsafe {
        let (mut all, mut before) = (no_signals(), no_signals());
        libc::sigfillset(&raw mut all);
        match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) {
            0 => Ok(before),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }
}

fn release_signals(mask: &libc::sigset_t) {
    #[expect(unsafe_code, reason = "std has no signals")]
    // SAFETY: the set lives as long as the call, and the mask is this thread's own.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, ptr::from_ref(mask), ptr::null_mut());
    }
}
