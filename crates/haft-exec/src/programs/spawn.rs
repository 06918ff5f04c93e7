//! From a recipe to a running process: pipes or a terminal, a session of its own, walls, and then the program. The one
//! place of this crate that runs code between fork and exec.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
};

use haft_core::commands::{Stdin, Streams};
use rustix::{
    fs::{Mode, OFlags},
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
    process::{Pid, PidfdFlags, Signal},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::fence::{Recipe, Walls};

/// As much as an unprivileged user may have: fewer turns for a program that says much.
const PIPE_SIZE: usize = 1 << 20;

/// A process that has begun, and our ends of what it reads and writes.
pub(crate) struct Born {
    pub(crate) pid: Pid,
    pub(crate) handle: OwnedFd,
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
    input: Stdio,
    out: Stdio,
    err: Stdio,
    has_terminal: bool,
}

/// Starts it. Blocks for as long as a fork takes.
///
/// # Errors
/// What the system says; of kind `NotFound` when there is no such program.
pub(crate) fn start(
    recipe: Recipe,
    directory: OwnedFd,
    input: Stdin,
    streams: Streams,
) -> io::Result<Born> {
    on_its_thread(move || fork(recipe, directory, input, streams))?
}

/// Does something on the thread that starts programs, and waits for it.
///
/// # Errors
/// When there is no such thread.
pub(crate) fn on_its_thread<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (answer, done) = mpsc::channel();
    on_the_spawning_thread(Box::new(move || {
        let _ = answer.send(job());
    }))?;
    done.recv().map_err(|_| io::Error::other("the thread that starts programs is gone"))
}

type Job = Box<dyn FnOnce() + Send>;

/// Children are told to die with the *thread* that started them, so it has to live as long as we do.
fn on_the_spawning_thread(job: Job) -> io::Result<()> {
    static QUEUE: OnceLock<Mutex<Option<mpsc::Sender<Job>>>> = OnceLock::new();
    let mut queue =
        QUEUE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let sender = match &*queue {
        Some(sender) => sender.clone(),
        None => {
            let (sender, jobs) = mpsc::channel::<Job>();
            thread::Builder::new()
                .name("haft-spawn".to_owned())
                .spawn(move || jobs.into_iter().for_each(|job| job()))?;
            queue.insert(sender).clone()
        }
    };
    sender.send(job).map_err(|_| io::Error::other("the thread that starts programs is gone"))
}

fn fork(recipe: Recipe, directory: OwnedFd, input: Stdin, streams: Streams) -> io::Result<Born> {
    let (ends, given) = connect(input, streams)?;
    let Some((program, arguments)) = recipe.command.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(recipe.environment.iter().cloned());
    command.stdin(given.input).stdout(given.out).stderr(given.err);
    settle(&mut command, directory, given.has_terminal, recipe.walls);
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
    // It cannot be gone: nobody has waited for it yet.
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::NONBLOCK)?;
    Ok(Born { pid, handle, ends })
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
            (Some(ours), theirs.into())
        }
        _ => (None, Stdio::null()),
    };
    let given = Given {
        input: input_given,
        out: out_given.into(),
        err: err_given.into(),
        has_terminal: false,
    };
    Ok((Ends { input, out, err }, given))
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
        input: theirs.try_clone()?.into(),
        out: theirs.try_clone()?.into(),
        err: theirs.into(),
        has_terminal: true,
    };
    Ok((Ends { input: Some(ours.try_clone()?), out: ours, err: None }, given))
}

/// What the child does before it becomes the program.
fn settle(command: &mut Command, directory: OwnedFd, has_terminal: bool, walls: Walls) {
    let parent = rustix::process::getpid();
    let before = move || {
        rustix::process::setsid()?;
        if has_terminal {
            // The terminal is what standard input is by now.
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(parent) {
            // We were gone before we could be watched.
            return Err(io::ErrorKind::Interrupted.into());
        }
        rustix::process::fchdir(&directory)?;
        // Last, and after the handle was used.
        walls.put_up()
    };
    #[expect(unsafe_code, reason = "std has no other door between fork and exec")]
    // SAFETY: between fork and exec only system calls are made; what they need was made before, and nothing is allocated
    // or locked (errors are numbers).
    unsafe {
        command.pre_exec(before);
    }
}
