//! Creates a child that becomes a program. Like `posix_spawn`, the child shares our memory until it
//! calls exec, because copying the page tables takes longer than the rest of the start. In return
//! it may only make system calls, and the thread that created it is suspended until then.

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

use super::{backend::ChildRestrictions, limits::ProcessLimits};

/// Everything that a child does, prepared before it is created.
pub(crate) struct ChildCommand {
    pub(crate) program: CString,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) directory: OwnedFd,
    /// Standard input, output and error.
    pub(crate) ends: [OwnedFd; 3],
    pub(crate) has_terminal: bool,
    pub(crate) restrictions: ChildRestrictions,
    pub(crate) limits: ProcessLimits,
}

impl ChildCommand {
    /// Converts an argument of a command line.
    ///
    /// # Errors
    /// When it contains a zero byte.
    pub(crate) fn word(word: OsString) -> io::Result<CString> {
        Ok(CString::new(word.into_vec())?)
    }

    /// Converts an environment variable.
    ///
    /// # Errors
    /// When it contains a zero byte.
    pub(crate) fn variable((name, value): (OsString, OsString)) -> io::Result<CString> {
        let mut text = name.into_vec();
        text.push(b'=');
        text.append(&mut value.into_vec());
        Ok(CString::new(text)?)
    }
}

/// The input of the child: only addresses, so that it need not allocate.
struct ChildSetup<'a> {
    command: &'a ChildCommand,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    parent: Pid,
    /// The error of the child, in memory that both processes share.
    failure: &'a AtomicI32,
}

/// A task for a child that never becomes a program.
struct ChildTask<'a> {
    work: &'a dyn Fn() -> io::Result<()>,
    failure: &'a AtomicI32,
}

/// The stack of a child until it calls exec. One per thread is enough: a thread creates one child
/// at a time.
pub(crate) struct ChildStack {
    memory: *mut c_void,
}

/// Much more than needed; untouched pages cost nothing.
const STACK_BYTES: usize = 256 << 10;
/// The first page is inaccessible, so that a stack overflow is stopped instead of corrupting
/// memory; the last one holds the value that child and parent share.
const PAGE_BYTES: usize = 4096;
/// `CLONE_INTO_CGROUP`, which libc does not define.
const INTO_CGROUP: u64 = 0x2_0000_0000;

impl ChildStack {
    /// # Errors
    /// When there is no memory.
    pub(crate) fn new() -> io::Result<Self> {
        let open = ProtFlags::READ | ProtFlags::WRITE;
        #[expect(unsafe_code, reason = "a stack with a guard page needs mmap")]
        // SAFETY: the kernel chooses the address, so no mapping of ours is replaced, and its first
        // page is not used.
        let memory = unsafe {
            let memory = mmap_anonymous(ptr::null_mut(), STACK_BYTES, open, MapFlags::SHARED)?;
            mprotect(memory, PAGE_BYTES, MprotectFlags::empty())?;
            memory
        };
        Ok(Self { memory })
    }

    fn failure(&self) -> &AtomicI32 {
        #[expect(unsafe_code, reason = "child and parent share this value")]
        // SAFETY: the last page is mapped, aligned, valid as long as `self` lives, and used only
        // for this value.
        unsafe {
            &*self.memory.byte_add(STACK_BYTES - PAGE_BYTES).cast::<AtomicI32>()
        }
    }

    /// Creates the child and returns when it has called exec.
    ///
    /// # Errors
    /// The system's error; of kind `NotFound` when there is no such program. Then no child is left.
    pub(crate) fn spawn(
        &mut self,
        command: &ChildCommand,
        group: Option<&OwnedFd>,
    ) -> io::Result<(Pid, OwnedFd)> {
        let addresses = |all: &[CString]| {
            all.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>()
        };
        self.failure().store(0, Ordering::Release);
        let setup = ChildSetup {
            command,
            arguments: addresses(&command.arguments),
            environment: addresses(&command.environment),
            parent: rustix::process::getpid(),
            failure: self.failure(),
        };
        let held = block_signals()?;
        let made = match group {
            Some(group) => clone_into_group(group, &setup),
            None => self.clone_child(&setup),
        };
        restore_signals(&held);
        let (pid, handle) = made?;
        match self.failure().load(Ordering::Acquire) {
            0 => Ok((pid, handle)),
            number => {
                let _ = waitpid(Some(pid), WaitOptions::empty());
                Err(io::Error::from_raw_os_error(number))
            }
        }
    }

    /// Runs a task in a child and returns when the child has exited. The task may only make system
    /// calls; everything it sets up ends with the child unless it passes it to another process.
    ///
    /// # Errors
    /// The system's error, or the task's.
    pub(crate) fn run_in_child(
        &mut self,
        shares_memory: bool,
        work: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        self.failure().store(0, Ordering::Release);
        let task = ChildTask { work, failure: self.failure() };
        let shared = if shares_memory { libc::CLONE_VM } else { 0 };
        let flags = shared | libc::CLONE_VFORK | libc::SIGCHLD;
        let held = block_signals()?;
        #[expect(unsafe_code, reason = "std cannot spawn a child that shares memory")]
        // SAFETY: as in `clone_child`: its own stack, only system calls, and this thread is
        // suspended until it exits.
        let pid = unsafe {
            let top = self.memory.byte_add(STACK_BYTES - PAGE_BYTES);
            let task = (&raw const task).cast_mut().cast::<c_void>();
            libc::clone(run_task, top, flags, task)
        };
        let made = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        restore_signals(&held);
        made?;
        let _ = waitpid(Pid::from_raw(pid), WaitOptions::empty());
        match self.failure().load(Ordering::Acquire) {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    fn clone_child(&self, setup: &ChildSetup<'_>) -> io::Result<(Pid, OwnedFd)> {
        // Entering a user namespace affects all processes that share the memory.
        let shared =
            if setup.command.restrictions.enters_user_namespace() { 0 } else { libc::CLONE_VM };
        let flags = shared | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let mut handle: libc::c_int = -1;
        #[expect(unsafe_code, reason = "std cannot spawn a child that shares memory")]
        // SAFETY: the child runs on its own stack (below the last page), makes only system calls,
        // and never returns into our frames. This thread is suspended until the child no longer
        // uses our memory (CLONE_VFORK), so its input stays valid; no signal handler runs in it.
        let pid = unsafe {
            let top = self.memory.byte_add(STACK_BYTES - PAGE_BYTES);
            let setup = ptr::from_ref(setup).cast_mut().cast::<c_void>();
            libc::clone(setup_and_exec, top, flags, setup, &raw mut handle)
        };
        child_handle(pid, handle)
    }
}

fn child_handle(pid: libc::c_int, handle: libc::c_int) -> io::Result<(Pid, OwnedFd)> {
    let Some(pid) = Pid::from_raw(pid.max(0)) else { return Err(io::Error::last_os_error()) };
    #[expect(unsafe_code, reason = "the kernel has stored the descriptor there")]
    // SAFETY: with CLONE_PIDFD the kernel created this descriptor for us, and no other code has it.
    let handle = unsafe { OwnedFd::from_raw_fd(handle) };
    Ok((pid, handle))
}

/// Creates a child inside a control group. No library has this call, and without a wrapper the
/// child continues on the caller's stack: so it gets a copy of our memory.
fn clone_into_group(group: &OwnedFd, setup: &ChildSetup<'_>) -> io::Result<(Pid, OwnedFd)> {
    let mut handle: libc::c_int = -1;
    #[expect(unsafe_code, reason = "clone_args is plain numbers, and zero is each one's default")]
    // SAFETY: the structure consists of numbers only.
    let mut how: libc::clone_args = unsafe { std::mem::zeroed() };
    let flags = libc::CLONE_VFORK | libc::CLONE_PIDFD;
    how.flags = INTO_CGROUP | u64::from(flags.cast_unsigned());
    how.pidfd = (&raw mut handle) as u64;
    how.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    how.cgroup = u64::from(group.as_raw_fd().cast_unsigned());
    #[expect(unsafe_code, reason = "no library has this call")]
    // SAFETY: the child has a copy of our memory, makes only system calls and ends in this branch;
    // the structures that are written to live here.
    let pid = unsafe {
        match libc::syscall(libc::SYS_clone3, &raw const how, size_of_val(&how)) {
            0 => libc::_exit(setup_and_exec(ptr::from_ref(setup).cast_mut().cast())),
            pid => pid,
        }
    };
    child_handle(libc::c_int::try_from(pid).unwrap_or(-1), handle)
}

impl Drop for ChildStack {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "unmaps the memory that `new` mapped")]
        // SAFETY: it was mapped with this length, and no child uses it: the thread that creates one
        // waits until it has exited.
        let _ = unsafe { munmap(self.memory, STACK_BYTES) };
    }
}

extern "C" fn setup_and_exec(setup: *mut c_void) -> libc::c_int {
    #[expect(unsafe_code, reason = "a C function takes an address")]
    // SAFETY: `clone_child` passed this address of a reference, and its thread is suspended until
    // this child is gone.
    let setup = unsafe { &*setup.cast::<ChildSetup<'_>>().cast_const() };
    let Err(error) = setup.become_program();
    setup.failure.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Release);
    // Returning ends only the child.
    127
}

extern "C" fn run_task(task: *mut c_void) -> libc::c_int {
    #[expect(unsafe_code, reason = "a C function takes an address")]
    // SAFETY: as in `setup_and_exec`.
    let task = unsafe { &*task.cast::<ChildTask<'_>>().cast_const() };
    if let Err(error) = (task.work)() {
        task.failure.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Release);
    }
    0
}

impl ChildSetup<'_> {
    fn become_program(&self) -> io::Result<std::convert::Infallible> {
        let command = self.command;
        reset_signals();
        for (end, number) in command.ends.iter().zip(0..) {
            move_to(end.as_fd(), number)?;
        }
        close_others_on_exec()?;
        rustix::process::setsid()?;
        if command.has_terminal {
            // Standard input is the terminal now.
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        rustix::process::fchdir(&command.directory)?;
        command.limits.apply()?;
        // After this nothing can be reached by handle or by privilege.
        command.restrictions.apply()?;
        // Set it late, because a change of privileges clears it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(self.parent) {
            // The parent died before the signal was set.
            return Err(io::ErrorKind::Interrupted.into());
        }
        restore_signals(&empty_signal_set());
        #[expect(unsafe_code, reason = "std has no plain execve")]
        // SAFETY: all of these are addresses of strings that end with a zero byte, and the lists
        // end with a null.
        unsafe {
            let (arguments, environment) = (self.arguments.as_ptr(), self.environment.as_ptr());
            libc::execve(command.program.as_ptr(), arguments, environment);
        }
        Err(io::Error::last_os_error())
    }
}

/// Our descriptors are all above the first three, and close on exec.
fn move_to(end: BorrowedFd<'_>, number: libc::c_int) -> io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "rustix needs an owned descriptor, and creating one for these allocates"
    )]
    // SAFETY: the child may replace its first three descriptors.
    let moved = unsafe { libc::dup2(end.as_raw_fd(), number) };
    if moved < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Marks every descriptor above the first three close-on-exec. An embedder, or the process that
/// started ours, may have left some open without that mark, and each would lead out of the sandbox.
/// The ones that the child setup still needs stay open until then.
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
        #[expect(unsafe_code, reason = "these descriptors have no owner here")]
        // SAFETY: the call takes numbers; for a closed descriptor it fails and changes nothing.
        unsafe {
            libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok(())
}

/// Resets signals to the defaults that programs expect: none ignored (Rust ignores SIGPIPE), and no
/// handlers of ours.
fn reset_signals() {
    const LAST: libc::c_int = 31;
    for signal in (1..=LAST).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
        #[expect(unsafe_code, reason = "no crate offers this without allocating")]
        // SAFETY: the child has its own table of signals, and the default action runs no handler.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

fn empty_signal_set() -> libc::sigset_t {
    #[expect(unsafe_code, reason = "only C functions create signal sets")]
    // SAFETY: zeroes are a valid set, and the call only writes into it.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        none
    }
}

/// Until exec no signal handler of ours may run in the child, because it shares our memory.
fn block_signals() -> io::Result<libc::sigset_t> {
    #[expect(unsafe_code, reason = "std has no signals")]
    // SAFETY: both sets live here, and the mask belongs to this thread.
    unsafe {
        let (mut all, mut before) = (empty_signal_set(), empty_signal_set());
        libc::sigfillset(&raw mut all);
        match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) {
            0 => Ok(before),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }
}

fn restore_signals(mask: &libc::sigset_t) {
    #[expect(unsafe_code, reason = "std has no signals")]
    // SAFETY: the set lives as long as the call, and the mask belongs to this thread.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, ptr::from_ref(mask), ptr::null_mut());
    }
}
