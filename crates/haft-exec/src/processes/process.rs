//! A process from its start to its end: its output is read whatever it does, its end is noticed, and it can be ended with
//! everything it has started.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{
    BoxFuture, ToolError,
    commands::{
        Denial, KillReason, OutputChunk, Process, ProcessState, ProcessStatus, Stdin, Stream,
    },
};
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, waitid},
};
use tokio::{
    sync::watch::{Receiver, Sender},
    time::timeout,
};

use super::{
    family::Family,
    fence::Interior,
    git_guard::{GitGuard, Reach},
    log::Log,
    sockets,
    spawn::Born,
    watched::{Watched, watch},
    wishes::Wishes,
};
use crate::sandbox::Room;

/// How much is read at a time.
const PORTION: usize = 64 << 10;
/// How long the output of a program that has ended is waited for: somebody else may hold the pipe for ever.
const LEAKED_PIPE: Duration = Duration::from_millis(500);
/// Shorter times than this are not slept through: the clock of the runtime is coarser.
const SPIN: Duration = Duration::from_micros(500);
/// How long what a leader leaves behind may take to end by itself.
const MOMENT: Duration = Duration::from_millis(20);
/// How long a process may still take after it was asked to end.
const GRACE: Duration = Duration::from_millis(100);
/// How often the git directories are looked at while a command runs.
const GIT_INTERVAL: Duration = Duration::from_secs(1);
/// So long without a word is called silence.
const SILENCE: Duration = Duration::from_secs(60);

pub(crate) struct Running {
    id: String,
    command: String,
    family: Family,
    wishes: Wishes,
    guard: Option<Arc<GitGuard>>,
    /// Where it really runs, when what we started only stands for it.
    interior: Option<Arc<dyn Interior>>,
    /// Where it ran went away.
    is_lost: AtomicBool,
    handle: OwnedFd,
    room: Mutex<Option<Arc<Room>>>,
    input: Mutex<Option<Arc<Watched>>>,
    reads: Stdin,
    out: Log,
    err: Log,
    begun: Instant,
    end: Mutex<End>,
    changes: Sender<u64>,
    is_forgotten: AtomicBool,
    /// What could not be ended, with number and command.
    survivors: Mutex<Vec<(i32, String)>>,
}

/// How it ended, as far as it has.
#[derive(Clone, Copy, Default)]
struct End {
    /// Somebody ends it, and why.
    killed: Option<KillReason>,
    exit: Option<Exit>,
    /// The result is final: nothing more is read.
    after: Option<Duration>,
    left: usize,
}

#[derive(Clone, Copy)]
enum Exit {
    Code(i32),
    Signal(i32),
}

/// What a process is made from.
pub(crate) struct Parts {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) family: Family,
    pub(crate) wishes: Wishes,
    pub(crate) guard: Option<Arc<GitGuard>>,
    pub(crate) interior: Option<Arc<dyn Interior>>,
    pub(crate) reads: Stdin,
    pub(crate) logs: (Log, Log),
}

impl Running {
    /// Takes a process in. Needs a runtime, which reads and waits from here on.
    ///
    /// # Errors
    /// When the runtime cannot watch its pipes.
    pub(crate) fn adopt(parts: Parts, born: Born) -> io::Result<Arc<Self>> {
        let Parts { id, command, family, wishes, guard, interior, reads, logs } = parts;
        let (out, err) = logs;
        let ends = born.ends;
        let input = ends.input.map(watch).transpose()?.map(Arc::new);
        let running = Arc::new(Self {
            id,
            command,
            family,
            wishes,
            guard,
            interior,
            is_lost: AtomicBool::new(false),
            handle: born.handle.try_clone()?,
            room: Mutex::new(born.room),
            input: Mutex::new(input),
            reads,
            out,
            err,
            begun: Instant::now(),
            end: Mutex::default(),
            changes: Sender::new(0),
            is_forgotten: AtomicBool::new(false),
            survivors: Mutex::default(),
        });
        let out = watch(ends.out)?;
        let err = ends.err.map(watch).transpose()?;
        let handle = watch(born.handle)?;
        tokio::spawn(running.clone().attend(handle, out, err));
        Ok(running)
    }

    /// Reads and waits until there is nothing left to read or to wait for.
    async fn attend(self: Arc<Self>, handle: Watched, out: Watched, err: Option<Watched>) {
        let drain = async {
            let complaints = async {
                if let Some(err) = &err {
                    self.drain(err, &self.err).await;
                }
            };
            tokio::join!(self.drain(&out, &self.out), complaints);
        };
        let mut drain = std::pin::pin!(drain);
        let end = async {
            tokio::select! {
                () = &mut drain => self.note_exit(&handle).await,
                () = self.note_exit(&handle) => {
                    let _ = timeout(LEAKED_PIPE, &mut drain).await;
                }
            }
        };
        tokio::select! {
            () = end => {}
            () = self.look_at_git_meanwhile() => {}
        }
        self.finish().await;
    }

    async fn drain(&self, pipe: &Watched, log: &Log) {
        let mut portion = vec![0; PORTION];
        while let Ok(mut ready) = pipe.readable().await {
            match rustix::io::read(pipe, &mut portion) {
                Ok(0) => return,
                Ok(read) => {
                    log.add(portion.get(..read).unwrap_or_default());
                    self.tell();
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                // A terminal ends with an error.
                Err(_) => return,
            }
        }
    }

    async fn note_exit(&self, handle: &Watched) {
        loop {
            // It stays in the table until its family is gone: as long as its number is taken, its group is its own.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match waitid(WaitId::PidFd(handle.as_fd()), options) {
                Ok(Some(status)) => {
                    let signal = status.terminating_signal().map(Exit::Signal);
                    let code = Exit::Code(status.exit_status().unwrap_or(-1));
                    self.end().exit = Some(signal.unwrap_or(code));
                    return;
                }
                Ok(None) | Err(Errno::INTR) => {}
                // Somebody else has waited for it: how it ended is lost, that it did is known.
                Err(_) => {
                    self.end().exit = Some(Exit::Code(-1));
                    return;
                }
            }
            match handle.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return,
            }
        }
    }

    /// A command that runs for long must not leave for long what git would run.
    async fn look_at_git_meanwhile(&self) {
        // Only what takes input may run on after its call.
        let reach = if self.reads == Stdin::Closed { Reach::Known } else { Reach::All };
        loop {
            tokio::time::sleep(GIT_INTERVAL).await;
            self.look_at_git(reach).await;
        }
    }

    async fn look_at_git(&self, reach: Reach) {
        if let Some(guard) = self.guard.clone() {
            let _ = tokio::task::spawn_blocking(move || guard.look_again(reach)).await;
        }
    }

    async fn finish(&self) {
        let left = match &self.interior {
            Some(interior) => self.end_inside(interior.clone()).await,
            None => self.end_here().await,
        };
        if left == 0 {
            self.reap();
        }
        self.look_at_git(Reach::All).await;
        let mut end = self.end();
        end.left = left;
        end.after = Some(self.begun.elapsed());
        drop(end);
        *self.input() = None;
        self.tell();
        self.leave_room();
    }

    /// Ends what its leader has left behind. Returns how many processes could not be ended.
    async fn end_here(&self) -> usize {
        if self.has_ended_within(MOMENT).await {
            return 0;
        }
        self.end_family().await;
        let survivors = self.survivors().len();
        // A process that ends while it is looked for is none.
        if survivors == 0 { 0 } else { self.family.left() }
    }

    /// Whether nothing is left after this time at most: what is about to end may do so by itself, and a PID namespace ends a
    /// little later than its first process.
    async fn has_ended_within(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        loop {
            if self.family.left() == 0 {
                return true;
            }
            match begun.elapsed() {
                elapsed if elapsed > limit => return false,
                elapsed if elapsed < SPIN => tokio::task::yield_now().await,
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    async fn end_family(&self) {
        let family = self.family.clone();
        let survivors = tokio::task::spawn_blocking(move || {
            family.end();
            family.survivors()
        });
        *self.survivors() = survivors.await.unwrap_or_default();
    }

    fn survivors(&self) -> MutexGuard<'_, Vec<(i32, String)>> {
        self.survivors.lock()
    }

    /// Taking mounts down takes time, which nobody should wait for.
    fn leave_room(&self) {
        let room = self.room.lock().take();
        // Others use it as well, mostly.
        if let Some(room) = room.and_then(Arc::into_inner) {
            tokio::task::spawn_blocking(move || drop(room));
        }
    }

    async fn end_inside(&self, interior: Arc<dyn Interior>) -> usize {
        let left = || {
            let asked = interior.clone();
            async { tokio::task::spawn_blocking(move || asked.left()).await.ok().flatten() }
        };
        let mut found = left().await;
        if found.is_some_and(|found| found > 0) {
            tokio::time::sleep(MOMENT).await;
            let asked = interior.clone();
            let _ = tokio::task::spawn_blocking(move || asked.end()).await;
            found = left().await;
        }
        let End { killed, exit, .. } = *self.end();
        if found.is_none() && killed.is_none() && !matches!(exit, Some(Exit::Code(0))) {
            self.is_lost.store(true, Ordering::Release);
        }
        found.unwrap_or_default()
    }

    /// Lets the system forget it, and its number be given to another. Nobody is looked for by that number afterwards.
    fn reap(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        if !matches!(waitid(WaitId::PidFd(self.handle.as_fd()), options), Ok(None)) {
            self.is_forgotten.store(true, Ordering::Release);
            self.family.forget();
        }
    }

    fn members(&self) -> Vec<Pid> {
        if self.is_forgotten.load(Ordering::Acquire) { Vec::new() } else { self.family.members() }
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock()
    }

    fn input(&self) -> MutexGuard<'_, Option<Arc<Watched>>> {
        self.input.lock()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end().after.is_some()
    }

    /// At once, from anywhere, without waiting for it to be gone.
    pub(crate) fn kill_now(&self, why: KillReason) {
        if self.is_forgotten.load(Ordering::Acquire) {
            return;
        }
        self.end().killed.get_or_insert(why);
        if let Some(interior) = &self.interior {
            interior.end();
        }
        let _ = rustix::process::pidfd_send_signal(&self.handle, Signal::KILL);
        self.family.end();
    }

    fn is_reading(&self) -> bool {
        self.reads != Stdin::Closed
            && self.members().iter().any(|member| {
                let call =
                    std::fs::read_to_string(format!("/proc/{}/syscall", member.as_raw_nonzero()));
                // `read` is 0 on this machine, and so is standard input.
                call.is_ok_and(|call| call.starts_with("0 0x0 "))
            })
    }

    async fn ask_to_end(&self) {
        match self.interior.clone() {
            // What stands for it would end at once, and leave it running.
            Some(interior) => {
                let _ = tokio::task::spawn_blocking(move || interior.ask_to_end()).await;
            }
            None => {
                let _ = rustix::process::kill_process_group(self.family.leader, Signal::TERM);
            }
        }
    }

    async fn ended_within(&self, most: Duration) -> bool {
        let mut changes = self.changes.subscribe();
        let ended = async {
            while !self.is_over() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        timeout(most, ended).await.is_ok()
    }
}

impl Process for Running {
    fn id(&self) -> &str {
        &self.id
    }

    fn command(&self) -> &str {
        &self.command
    }

    fn status(&self) -> ProcessStatus {
        let end = *self.end();
        let quiet = self.out.quiet().min(self.err.quiet());
        let state = match (end.after, end.killed, end.exit) {
            (None, ..) if self.is_reading() => ProcessState::WaitingForInput,
            (None, ..) if quiet > SILENCE => ProcessState::Silent,
            (None, ..) => ProcessState::Running,
            (_, Some(KillReason::ByTimeout), _) => ProcessState::KilledByTimeout,
            (_, Some(KillReason::Cancelled), _) => ProcessState::Cancelled,
            (_, Some(KillReason::OnRequest), _) => ProcessState::Killed,
            (_, None, Some(Exit::Signal(_))) => ProcessState::Signalled,
            (_, None, _) => ProcessState::Exited,
        };
        let (exit_code, signal) = match end.exit {
            Some(Exit::Code(code)) => (Some(code), None),
            Some(Exit::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        ProcessStatus {
            state,
            exit_code,
            signal,
            ms: millis(end.after.unwrap_or_else(|| self.begun.elapsed())),
            silent_ms: millis(quiet),
            bytes: self.out.total() + self.err.total(),
            survivors: end.left,
        }
    }

    fn changes(&self) -> Receiver<u64> {
        self.changes.subscribe()
    }

    fn output(&self, stream: Stream, from: u64, most: usize) -> Result<OutputChunk, ToolError> {
        match stream {
            Stream::Out => self.out.read(from, most),
            Stream::Err => self.err.read(from, most),
        }
    }

    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let input = self.input().clone().ok_or_else(|| self.reads_nothing())?;
            let mut left = bytes;
            while !left.is_empty() {
                let mut ready = input.writable().await.map_err(|_| self.reads_nothing())?;
                match rustix::io::write(input.get_ref(), left) {
                    Ok(written) => left = left.get(written..).unwrap_or_default(),
                    Err(Errno::AGAIN) => ready.clear_ready(),
                    Err(Errno::INTR) => {}
                    Err(_) => return Err(self.reads_nothing()),
                }
            }
            Ok(())
        })
    }

    fn close_input(&self) -> Result<(), ToolError> {
        match self.input().take() {
            Some(_) => Ok(()),
            None => Err(self.reads_nothing()),
        }
    }

    fn kill(&self, why: KillReason) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.is_forgotten.load(Ordering::Acquire) {
                return;
            }
            if !self.is_over() {
                self.end().killed.get_or_insert(why);
                // Those who tidy up when they are asked to may do so.
                self.ask_to_end().await;
                self.ended_within(GRACE).await;
            }
            if let Some(interior) = self.interior.clone() {
                let _ = tokio::task::spawn_blocking(move || interior.end()).await;
                // What stands for it here still has its last words.
                self.ended_within(GRACE).await;
            }
            let _ = rustix::process::pidfd_send_signal(&self.handle, Signal::KILL);
            self.end_family().await;
            self.ended_within(LEAKED_PIPE + GRACE).await;
            let survivors = self.survivors().len();
            self.end().left = survivors;
            if survivors == 0 {
                self.reap();
            }
        })
    }

    fn kill_soon(self: Arc<Self>, why: KillReason) {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move { self.kill(why).await });
            }
            Err(_) => self.kill_now(why),
        }
    }

    fn denials(&self) -> Vec<Denial> {
        let has_succeeded = matches!(self.end().exit, Some(Exit::Code(0)));
        let mut all = self.wishes.refused(has_succeeded);
        all.extend(self.guard.iter().flat_map(|guard| guard.denials()));
        all.extend(self.survivors().iter().map(survived));
        all
    }

    fn read_denial(&self, path: &Path) -> Option<Denial> {
        self.wishes.read_denial(path)
    }

    fn listens(&self, port: u16) -> bool {
        match &self.interior {
            Some(interior) => {
                !self.is_over() && haft_core::block_in_place(|| interior.listens(port))
            }
            None => self.members().iter().any(|member| sockets::is_listening(*member, port)),
        }
    }

    fn failure(&self) -> Option<ToolError> {
        let interior = self.interior.as_ref().filter(|_| self.is_lost.load(Ordering::Acquire))?;
        Some(interior.lost())
    }
}

impl Running {
    fn reads_nothing(&self) -> ToolError {
        let message = format!("process `{}` reads nothing (any more)", self.id);
        ToolError::conflict(message)
            .hint("start it with `background` and an open input, and write before it ends")
    }
}

/// A process that outlives its command is named whether or not the command has succeeded.
fn survived((pid, command): &(i32, String)) -> Denial {
    Denial {
        what: format!("end process {pid} (`{command}`)"),
        why: "the command started it, and the system did not let haft end it".to_owned(),
        remedy: format!("a person can end it with `sudo kill -9 {pid}`"),
        is_reverted: true,
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.reap();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
