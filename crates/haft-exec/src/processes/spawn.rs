//! Turns a recipe into a running process: creates pipes or a terminal, and spawns the child on a
//! thread.

use std::{
    collections::VecDeque,
    io,
    os::fd::OwnedFd,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use haft_core::commands::{Stdin, Streams};
use rustix::{
    fs::{Mode, OFlags},
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
    process::Pid,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::{
    backend::Recipe,
    child::{ChildCommand, ChildStack},
    limits::{Allowance, ControlGroup, LaunchMark, ProcessLimits},
};
use crate::sandbox::NamespaceSet;

/// The maximum for an unprivileged user: fewer wakeups for a program with much output.
const PIPE_SIZE: usize = 1 << 20;
/// More threads do not start more programs in the same time.
const MAX_THREADS: usize = 4;

/// A started process, and our ends of its input and output.
pub(crate) struct SpawnedProcess {
    pub(crate) pid: Pid,
    pub(crate) handle: OwnedFd,
    /// The namespace set that it runs in. While it is held the kernel does not remove it, which the
    /// end of the process would have to wait for.
    pub(crate) namespace_set: Option<Arc<NamespaceSet>>,
    pub(crate) ends: ParentEnds,
}

/// Our ends, all non-blocking.
pub(crate) struct ParentEnds {
    pub(crate) input: Option<OwnedFd>,
    pub(crate) out: OwnedFd,
    pub(crate) err: Option<OwnedFd>,
}

/// The child's ends.
struct ChildEnds {
    input: OwnedFd,
    out: OwnedFd,
    err: OwnedFd,
    has_terminal: bool,
}

/// Starts programs. Children are set to die with the *thread* that created them, so its threads
/// live as long as it does.
pub(crate) struct Spawner {
    work: Arc<SharedWork>,
    max_threads: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The state that the threads share.
struct SharedWork {
    queue: Mutex<JobQueue>,
    /// Notified when a job was added to the queue, or the queue was closed.
    changed: Condvar,
    allowance: Allowance,
    group: Option<Arc<ControlGroup>>,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<SpawnJob>,
    idle: usize,
    is_closed: bool,
}

/// The result of the spawning thread.
struct SpawnedChild {
    pid: Pid,
    handle: OwnedFd,
    namespace_set: Option<Arc<NamespaceSet>>,
}

struct SpawnJob {
    recipe: Recipe,
    mark: LaunchMark,
    directory: OwnedFd,
    child_ends: ChildEnds,
    answer: mpsc::Sender<io::Result<SpawnedChild>>,
}

impl Spawner {
    pub(crate) fn new(allowance: Allowance) -> Self {
        let group = ControlGroup::make(allowance).map(Arc::new);
        let work =
            SharedWork { queue: Mutex::default(), changed: Condvar::new(), allowance, group };
        // Read once, because std reads files for it.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let max_threads = cores.min(MAX_THREADS);
        Self { work: Arc::new(work), max_threads, threads: Mutex::default() }
    }

    /// Starts a program. Blocks until it has started.
    ///
    /// # Errors
    /// The system's error; of kind `NotFound` when there is no such program.
    pub(crate) fn start(
        &self,
        recipe: Recipe,
        mark: LaunchMark,
        directory: OwnedFd,
        (input, streams): (Stdin, Streams),
    ) -> io::Result<SpawnedProcess> {
        let (ends, child_ends) = connect(input, streams)?;
        let (answer, spawned) = mpsc::channel();
        self.add(SpawnJob { recipe, mark, directory, child_ends, answer })?;
        let gone = || io::Error::other("the thread that starts programs is gone");
        let SpawnedChild { pid, handle, namespace_set } = spawned.recv().map_err(|_| gone())??;
        Ok(SpawnedProcess { pid, handle, namespace_set, ends })
    }

    /// Returns the control group of all programs, if there is one.
    pub(crate) fn group(&self) -> Option<Arc<ControlGroup>> {
        self.work.group.clone()
    }

    fn add(&self, job: SpawnJob) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let max = self.max_threads;
        let mut queue = self.work.queue();
        queue.jobs.push_back(job);
        if queue.idle < queue.jobs.len() && threads.len() < max {
            let work = self.work.clone();
            let name = "haft-spawn".to_owned();
            threads.push(thread::Builder::new().name(name).spawn(move || work.run_worker())?);
        }
        self.work.changed.notify_one();
        Ok(())
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.work.queue().is_closed = true;
        self.work.changed.notify_all();
        let mut threads = self.threads.lock();
        // A group can only be removed when it is empty.
        threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl SharedWork {
    fn run_worker(&self) {
        let is_in_group = self.group.as_ref().is_some_and(|group| group.enter().is_ok());
        let mut stack = None;
        while let Some(SpawnJob { recipe, mark, directory, child_ends, answer }) = self.next() {
            let child_group =
                self.group.as_ref().filter(|_| is_in_group).and_then(|group| group.child_group());
            let limits = ProcessLimits::of(self.allowance, is_in_group).marked(mark);
            let spawned = command(recipe, directory, child_ends, limits).and_then(|command| {
                let stack = match &mut stack {
                    Some(stack) => stack,
                    none => none.insert(ChildStack::new()?),
                };
                let (pid, handle) = stack.spawn(&command, child_group)?;
                Ok(SpawnedChild {
                    pid,
                    handle,
                    namespace_set: command.restrictions.namespace_set(),
                })
            });
            let _ = answer.send(spawned);
        }
    }

    fn next(&self) -> Option<SpawnJob> {
        let mut queue = self.queue();
        queue.idle += 1;
        self.changed.wait_while(&mut queue, |queue| queue.jobs.is_empty() && !queue.is_closed);
        queue.idle -= 1;
        queue.jobs.pop_front()
    }

    fn queue(&self) -> MutexGuard<'_, JobQueue> {
        self.queue.lock()
    }
}

fn command(
    recipe: Recipe,
    directory: OwnedFd,
    child_ends: ChildEnds,
    limits: ProcessLimits,
) -> io::Result<ChildCommand> {
    let arguments =
        recipe.command.into_iter().map(ChildCommand::word).collect::<io::Result<Vec<_>>>()?;
    let variables = recipe.environment.into_iter().map(ChildCommand::variable);
    Ok(ChildCommand {
        program: arguments.first().cloned().ok_or(io::ErrorKind::InvalidInput)?,
        arguments,
        environment: variables.collect::<io::Result<_>>()?,
        directory,
        ends: [child_ends.input, child_ends.out, child_ends.err],
        has_terminal: child_ends.has_terminal,
        restrictions: recipe.restrictions,
        limits,
    })
}

fn connect(input: Stdin, streams: Streams) -> io::Result<(ParentEnds, ChildEnds)> {
    if let Stdin::Terminal { rows, columns } = input {
        return terminal(rows, columns);
    }
    let (out, out_given) = output_pipe()?;
    let (err, err_given) = match streams {
        Streams::Joined => (None, out_given.try_clone()?),
        Streams::Apart => {
            let (err, child_ends) = output_pipe()?;
            (Some(err), child_ends)
        }
    };
    let (input, input_given) = match input {
        Stdin::Open => {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&ours, true)?;
            (Some(ours), theirs)
        }
        _ => (None, empty_input()?),
    };
    let child_ends =
        ChildEnds { input: input_given, out: out_given, err: err_given, has_terminal: false };
    Ok((ParentEnds { input, out, err }, child_ends))
}

/// A reader sees the end of input at once.
fn empty_input() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Our end is non-blocking, the child's end blocks.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    // Fails when this user already has many pipes of that size.
    let _ = fcntl_setpipe_size(&ours, PIPE_SIZE);
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

fn terminal(rows: u16, columns: u16) -> io::Result<(ParentEnds, ChildEnds)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, Mode::empty())?;
    tcsetwinsize(&theirs, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let child_ends = ChildEnds {
        input: theirs.try_clone()?,
        out: theirs.try_clone()?,
        err: theirs,
        has_terminal: true,
    };
    Ok((ParentEnds { input: Some(ours.try_clone()?), out: ours, err: None }, child_ends))
}
