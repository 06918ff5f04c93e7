//! A process from its start to its end: reads its output, notices its end, and ends it with
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
    backend::IsolatedLaunch,
    denials::LaunchDenials,
    git_guard::{GitGuard, RepositoryScope},
    log::Log,
    process_tree::ProcessTree,
    sockets,
    spawn::SpawnedProcess,
    watched::{WatchedFd, watch},
};
use crate::sandbox::NamespaceSet;

/// Number of bytes per read.
const READ_BYTES: usize = 64 << 10;
/// Timeout for the output of a program that has ended: another process may hold the pipe
/// forever.
const PIPE_TIMEOUT: Duration = Duration::from_millis(500);
/// Shorter times are not slept through: the runtime's clock is coarser.
const MIN_SLEEP: Duration = Duration::from_micros(500);
/// Time in which the processes that a leader leaves may end by themselves.
const TREE_TIMEOUT: Duration = Duration::from_millis(20);
/// Time in which a process may end after it was asked to.
const GRACE: Duration = Duration::from_millis(100);
/// Interval of checks of the git directories while a command runs.
const GIT_INTERVAL: Duration = Duration::from_secs(1);
/// A process without output for this long counts as silent.
const SILENT_AFTER: Duration = Duration::from_secs(60);

pub(crate) struct RunningProcess {
    id: String,
    command: String,
    tree: ProcessTree,
    denials: LaunchDenials,
    guard: Option<Arc<GitGuard>>,
    /// Control of the container launch, if the started process only represents it.
    isolated: Option<Arc<dyn IsolatedLaunch>>,
    /// True when the container disappeared.
    is_lost: AtomicBool,
    handle: OwnedFd,
    namespace_set: Mutex<Option<Arc<NamespaceSet>>>,
    input: Mutex<Option<Arc<WatchedFd>>>,
    reads: Stdin,
    out: Log,
    err: Log,
    begun: Instant,
    end: Mutex<ProcessEnd>,
    changes: Sender<u64>,
    is_forgotten: AtomicBool,
    /// The processes that could not be ended, with id and command.
    survivors: Mutex<Vec<(i32, String)>>,
}

/// The end of the process, as far as it is known.
#[derive(Clone, Copy, Default)]
struct ProcessEnd {
    /// Set when the process is being killed, with the reason.
    killed: Option<KillReason>,
    exit: Option<Exit>,
    /// Set when the result is final and no more output is read.
    after: Option<Duration>,
    left: usize,
}

#[derive(Clone, Copy)]
enum Exit {
    Code(i32),
    Signal(i32),
}

/// The parts of a running process.
pub(crate) struct ProcessParts {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) tree: ProcessTree,
    pub(crate) denials: LaunchDenials,
    pub(crate) guard: Option<Arc<GitGuard>>,
    pub(crate) isolated: Option<Arc<dyn IsolatedLaunch>>,
    pub(crate) reads: Stdin,
    pub(crate) logs: (Log, Log),
}

impl RunningProcess {
    /// Creates the value for a started process. Needs a runtime, which reads its output and waits
    /// for it.
    ///
    /// # Errors
    /// When the runtime cannot watch its pipes.
    pub(crate) fn watch_process(
        parts: ProcessParts,
        spawned: SpawnedProcess,
    ) -> io::Result<Arc<Self>> {
        let ProcessParts { id, command, tree, denials, guard, isolated, reads, logs } = parts;
        let (out, err) = logs;
        let ends = spawned.ends;
        let input = ends.input.map(watch).transpose()?.map(Arc::new);
        let running = Arc::new(Self {
            id,
            command,
            tree,
            denials,
            guard,
            isolated,
            is_lost: AtomicBool::new(false),
            handle: spawned.handle.try_clone()?,
            namespace_set: Mutex::new(spawned.namespace_set),
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
        let handle = watch(spawned.handle)?;
        tokio::spawn(running.clone().run(handle, out, err));
        Ok(running)
    }

    /// Reads and waits until the process has ended and its output is read.
    async fn run(self: Arc<Self>, handle: WatchedFd, out: WatchedFd, err: Option<WatchedFd>) {
        let drain = async {
            let errors = async {
                if let Some(err) = &err {
                    self.drain(err, &self.err).await;
                }
            };
            tokio::join!(self.drain(&out, &self.out), errors);
        };
        let mut drain = std::pin::pin!(drain);
        let end = async {
            tokio::select! {
                () = &mut drain => self.note_exit(&handle).await,
                () = self.note_exit(&handle) => {
                    let _ = timeout(PIPE_TIMEOUT, &mut drain).await;
                }
            }
        };
        tokio::select! {
            () = end => {}
            () = self.check_git_repeatedly() => {}
        }
        self.finish().await;
    }

    async fn drain(&self, pipe: &WatchedFd, log: &Log) {
        let mut portion = vec![0; READ_BYTES];
        while let Ok(mut ready) = pipe.readable().await {
            match rustix::io::read(pipe, &mut portion) {
                Ok(0) => return,
                Ok(read) => {
                    log.add(portion.get(..read).unwrap_or_default());
                    self.notify_change();
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                // A terminal reports its end as an error.
                Err(_) => return,
            }
        }
    }

    async fn note_exit(&self, handle: &WatchedFd) {
        loop {
            // Keep it in the process table until its tree is gone: while its id is taken, the group
            // belongs to it.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match waitid(WaitId::PidFd(handle.as_fd()), options) {
                Ok(Some(status)) => {
                    let signal = status.terminating_signal().map(Exit::Signal);
                    let code = Exit::Code(status.exit_status().unwrap_or(-1));
                    self.end().exit = Some(signal.unwrap_or(code));
                    return;
                }
                Ok(None) | Err(Errno::INTR) => {}
                // Other code has reaped it: its exit code is lost, only its end is known.
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

    /// A long command must not leave anything for long that git would run.
    async fn check_git_repeatedly(&self) {
        // Only a process that reads input may continue after its call.
        let reach =
            if self.reads == Stdin::Closed { RepositoryScope::Known } else { RepositoryScope::All };
        loop {
            tokio::time::sleep(GIT_INTERVAL).await;
            self.check_git(reach).await;
        }
    }

    async fn check_git(&self, reach: RepositoryScope) {
        if let Some(guard) = self.guard.clone() {
            let _ = tokio::task::spawn_blocking(move || guard.check_again(reach)).await;
        }
    }

    async fn finish(&self) {
        let left = match &self.isolated {
            Some(isolated) => self.end_inside(isolated.clone()).await,
            None => self.end_here().await,
        };
        if left == 0 {
            self.reap();
        }
        self.check_git(RepositoryScope::All).await;
        let mut end = self.end();
        end.left = left;
        end.after = Some(self.begun.elapsed());
        drop(end);
        *self.input() = None;
        self.notify_change();
        self.release_namespaces();
    }

    /// Ends the processes that the leader left. Returns the number that could not be ended.
    async fn end_here(&self) -> usize {
        if self.has_ended_within(TREE_TIMEOUT).await {
            return 0;
        }
        self.end_tree().await;
        let survivors = self.survivors().len();
        // A process that ends during the search does not count.
        if survivors == 0 { 0 } else { self.tree.remaining() }
    }

    /// Waits until nothing is left, up to this time: processes may be about to end by themselves,
    /// and a PID namespace ends a little later than its first process.
    async fn has_ended_within(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        loop {
            if self.tree.remaining() == 0 {
                return true;
            }
            match begun.elapsed() {
                elapsed if elapsed > limit => return false,
                elapsed if elapsed < MIN_SLEEP => tokio::task::yield_now().await,
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    async fn end_tree(&self) {
        let tree = self.tree.clone();
        let survivors = tokio::task::spawn_blocking(move || {
            tree.end();
            tree.survivors()
        });
        *self.survivors() = survivors.await.unwrap_or_default();
    }

    fn survivors(&self) -> MutexGuard<'_, Vec<(i32, String)>> {
        self.survivors.lock()
    }

    /// Removing mounts takes time, so it happens in the background.
    fn release_namespaces(&self) {
        let namespace_set = self.namespace_set.lock().take();
        // Usually other processes use it as well.
        if let Some(namespace_set) = namespace_set.and_then(Arc::into_inner) {
            tokio::task::spawn_blocking(move || drop(namespace_set));
        }
    }

    async fn end_inside(&self, isolated: Arc<dyn IsolatedLaunch>) -> usize {
        let left = || {
            let asked = isolated.clone();
            async { tokio::task::spawn_blocking(move || asked.left()).await.ok().flatten() }
        };
        let mut found = left().await;
        if found.is_some_and(|found| found > 0) {
            tokio::time::sleep(TREE_TIMEOUT).await;
            let asked = isolated.clone();
            let _ = tokio::task::spawn_blocking(move || asked.end()).await;
            found = left().await;
        }
        let ProcessEnd { killed, exit, .. } = *self.end();
        if found.is_none() && killed.is_none() && !matches!(exit, Some(Exit::Code(0))) {
            self.is_lost.store(true, Ordering::Release);
        }
        found.unwrap_or_default()
    }

    /// Reaps the process, so that its id can be reused. It is not looked up by its id afterwards.
    fn reap(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        if !matches!(waitid(WaitId::PidFd(self.handle.as_fd()), options), Ok(None)) {
            self.is_forgotten.store(true, Ordering::Release);
            self.tree.unregister();
        }
    }

    fn members(&self) -> Vec<Pid> {
        if self.is_forgotten.load(Ordering::Acquire) { Vec::new() } else { self.tree.members() }
    }

    fn notify_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn end(&self) -> MutexGuard<'_, ProcessEnd> {
        self.end.lock()
    }

    fn input(&self) -> MutexGuard<'_, Option<Arc<WatchedFd>>> {
        self.input.lock()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end().after.is_some()
    }

    /// Kills it at once, from any thread, without waiting.
    pub(crate) fn kill_now(&self, why: KillReason) {
        if self.is_forgotten.load(Ordering::Acquire) {
            return;
        }
        self.end().killed.get_or_insert(why);
        if let Some(isolated) = &self.isolated {
            isolated.end();
        }
        let _ = rustix::process::pidfd_send_signal(&self.handle, Signal::KILL);
        self.tree.end();
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
        match self.isolated.clone() {
            // The process that represents it would end at once, and leave it running.
            Some(isolated) => {
                let _ = tokio::task::spawn_blocking(move || isolated.ask_to_end()).await;
            }
            None => {
                let _ = rustix::process::kill_process_group(self.tree.leader, Signal::TERM);
            }
        }
    }

    async fn ended_within(&self, max: Duration) -> bool {
        let mut changes = self.changes.subscribe();
        let ended = async {
            while !self.is_over() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        timeout(max, ended).await.is_ok()
    }
}

impl Process for RunningProcess {
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
            (None, ..) if quiet > SILENT_AFTER => ProcessState::Silent,
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

    fn output(&self, stream: Stream, from: u64, max: usize) -> Result<OutputChunk, ToolError> {
        match stream {
            Stream::Out => self.out.read(from, max),
            Stream::Err => self.err.read(from, max),
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
                // Gives processes the chance to clean up.
                self.ask_to_end().await;
                self.ended_within(GRACE).await;
            }
            if let Some(isolated) = self.isolated.clone() {
                let _ = tokio::task::spawn_blocking(move || isolated.end()).await;
                // The process that represents it may still have output.
                self.ended_within(GRACE).await;
            }
            let _ = rustix::process::pidfd_send_signal(&self.handle, Signal::KILL);
            self.end_tree().await;
            self.ended_within(PIPE_TIMEOUT + GRACE).await;
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
        let mut all = self.denials.refused(has_succeeded);
        all.extend(self.guard.iter().flat_map(|guard| guard.denials()));
        all.extend(self.survivors().iter().map(survivor_denial));
        all
    }

    fn read_denial(&self, path: &Path) -> Option<Denial> {
        self.denials.read_denial(path)
    }

    fn listens(&self, port: u16) -> bool {
        match &self.isolated {
            Some(isolated) => {
                !self.is_over() && haft_core::block_in_place(|| isolated.listens(port))
            }
            None => self.members().iter().any(|member| sockets::is_listening(*member, port)),
        }
    }

    fn failure(&self) -> Option<ToolError> {
        let isolated = self.isolated.as_ref().filter(|_| self.is_lost.load(Ordering::Acquire))?;
        Some(isolated.lost())
    }
}

impl RunningProcess {
    fn reads_nothing(&self) -> ToolError {
        let message = format!("process `{}` does not read input (any more)", self.id);
        ToolError::conflict(message)
            .hint("start it with `background` and an open input, and write before it ends")
    }
}

/// Reports a surviving process whether or not the command succeeded.
fn survivor_denial((pid, command): &(i32, String)) -> Denial {
    Denial {
        what: format!("end process {pid} (`{command}`)"),
        why: "the command started it, and the system did not let haft end it".to_owned(),
        remedy: format!("a person can end it with `sudo kill -9 {pid}`"),
        is_reverted: true,
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        self.reap();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
