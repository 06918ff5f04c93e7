//! From a recipe to a running process: pipes or a terminal, and a thread that makes the child.

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
    birth::{Order, Stand},
    fence::Recipe,
    limits::{Allowance, Bounds, Group, LaunchMark},
};
use crate::sandbox::Room;

/// As much as an unprivileged user may have: fewer turns for a program that says much.
const PIPE_SIZE: usize = 1 << 20;
/// More threads than this start no more programs in the same time.
const MOST_THREADS: usize = 4;

/// A process that has begun, and our ends of what it reads and writes.
pub(crate) struct Born {
    pub(crate) pid: Pid,
    pub(crate) handle: OwnedFd,
    /// The room it is in. As long as somebody holds it the kernel does not take it down, which its end would have to wait
    /// for.
    pub(crate) room: Option<Arc<Room>>,
    pub(crate) ends: Ends,
}

/// All of them do not wait.
pub(crate) struct Ends {
    pub(crate) input: Option<OwnedFd>,
    pub(crate) out: OwnedFd,
    pub(crate) err: Option<OwnedFd>,
}

/// The ends that the child gets.
struct Given {
    input: OwnedFd,
    out: OwnedFd,
    err: OwnedFd,
    has_terminal: bool,
}

/// Starts programs. Children are told to die with the *thread* that made them, so its threads live as long as it does.
pub(crate) struct Spawner {
    work: Arc<Work>,
    most_threads: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads share.
struct Work {
    queue: Mutex<Queue>,
    /// Something was put into the queue, or it was closed.
    news: Condvar,
    allowance: Allowance,
    group: Option<Arc<Group>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    is_closed: bool,
}

/// A child as the thread that made it sees it.
struct Child {
    pid: Pid,
    handle: OwnedFd,
    room: Option<Arc<Room>>,
}

struct Job {
    recipe: Recipe,
    mark: LaunchMark,
    directory: OwnedFd,
    given: Given,
    answer: mpsc::Sender<io::Result<Child>>,
}

impl Spawner {
    pub(crate) fn new(allowance: Allowance) -> Self {
        let group = Group::make(allowance).map(Arc::new);
        let work = Work { queue: Mutex::default(), news: Condvar::new(), allowance, group };
        // Asked once: std reads files for it.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let most_threads = cores.min(MOST_THREADS);
        Self { work: Arc::new(work), most_threads, threads: Mutex::default() }
    }

    /// Starts it. Blocks for as long as that takes.
    ///
    /// # Errors
    /// What the system says; of kind `NotFound` when there is no such program.
    pub(crate) fn start(
        &self,
        recipe: Recipe,
        mark: LaunchMark,
        directory: OwnedFd,
        (input, streams): (Stdin, Streams),
    ) -> io::Result<Born> {
        let (ends, given) = connect(input, streams)?;
        let (answer, born) = mpsc::channel();
        self.add(Job { recipe, mark, directory, given, answer })?;
        let gone = || io::Error::other("the thread that starts programs is gone");
        let Child { pid, handle, room } = born.recv().map_err(|_| gone())??;
        Ok(Born { pid, handle, room, ends })
    }

    /// What holds all programs together, if anything does.
    pub(crate) fn group(&self) -> Option<Arc<Group>> {
        self.work.group.clone()
    }

    fn add(&self, job: Job) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let most = self.most_threads;
        let mut queue = self.work.queue();
        queue.jobs.push_back(job);
        if queue.idle < queue.jobs.len() && threads.len() < most {
            let work = self.work.clone();
            let name = "haft-spawn".to_owned();
            threads.push(thread::Builder::new().name(name).spawn(move || work.attend())?);
        }
        self.work.news.notify_one();
        Ok(())
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.work.queue().is_closed = true;
        self.work.news.notify_all();
        let mut threads = self.threads.lock();
        // A group goes only when nobody is in it.
        threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Work {
    fn attend(&self) {
        let is_in_group = self.group.as_ref().is_some_and(|group| group.enter().is_ok());
        let mut stand = None;
        while let Some(Job { recipe, mark, directory, given, answer }) = self.next() {
            let birthplace =
                self.group.as_ref().filter(|_| is_in_group).and_then(|group| group.birthplace());
            let bounds = Bounds::of(self.allowance, is_in_group).marked(mark);
            let born = order(recipe, directory, given, bounds).and_then(|order| {
                let stand = match &mut stand {
                    Some(stand) => stand,
                    none => none.insert(Stand::new()?),
                };
                let (pid, handle) = stand.bear(&order, birthplace)?;
                Ok(Child { pid, handle, room: order.walls.room() })
            });
            let _ = answer.send(born);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        queue.idle += 1;
        self.news.wait_while(&mut queue, |queue| queue.jobs.is_empty() && !queue.is_closed);
        queue.idle -= 1;
        queue.jobs.pop_front()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

fn order(recipe: Recipe, directory: OwnedFd, given: Given, bounds: Bounds) -> io::Result<Order> {
    let arguments = recipe.command.into_iter().map(Order::word).collect::<io::Result<Vec<_>>>()?;
    let variables = recipe.environment.into_iter().map(Order::variable);
    Ok(Order {
        program: arguments.first().cloned().ok_or(io::ErrorKind::InvalidInput)?,
        arguments,
        environment: variables.collect::<io::Result<_>>()?,
        directory,
        ends: [given.input, given.out, given.err],
        has_terminal: given.has_terminal,
        walls: recipe.walls,
        bounds,
    })
}

fn connect(input: Stdin, streams: Streams) -> io::Result<(Ends, Given)> {
    if let Stdin::Terminal { rows, columns } = input {
        return terminal(rows, columns);
    }
    let (out, out_given) = outlet()?;
    let (err, err_given) = match streams {
        Streams::Joined => (None, out_given.try_clone()?),
        Streams::Apart => {
            let (err, given) = outlet()?;
            (Some(err), given)
        }
    };
    let (input, input_given) = match input {
        Stdin::Open => {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&ours, true)?;
            (Some(ours), theirs)
        }
        _ => (None, nothing()?),
    };
    let given = Given { input: input_given, out: out_given, err: err_given, has_terminal: false };
    Ok((Ends { input, out, err }, given))
}

/// Who reads from it is at the end at once.
fn nothing() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Our end does not wait; theirs does.
fn outlet() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    // Refused where many pipes of this user are as large already.
    let _ = fcntl_setpipe_size(&ours, PIPE_SIZE);
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

fn terminal(rows: u16, columns: u16) -> io::Result<(Ends, Given)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, Mode::empty())?;
    tcsetwinsize(&theirs, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let given = Given {
        input: theirs.try_clone()?,
        out: theirs.try_clone()?,
        err: theirs,
        has_terminal: true,
    };
    Ok((Ends { input: Some(ours.try_clone()?), out: ours, err: None }, given))
}
