//! A running container, and the protocol with its supervisor. It lives as long as our end of the
//! pipe: when haft is gone, for whatever reason, the supervisor reads the end of its input, and
//! everything in the container ends.

use std::{
    fs::File,
    io::Write,
    os::fd::OwnedFd,
    path::Path,
    process::{Child, ChildStdin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::ToolError;

use super::{
    engine::{self, ContainerEngine, end_group, ended_within, is_ready},
    plan::{ContainerPlan, CoveredPath},
};
use crate::processes::closed::Closed;

/// Timeout of the supervisor's replies: it may have five hundred processes to end on a busy
/// machine.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// The kernel's limit.
const MAX_NAME_BYTES: usize = 4096;
/// After this time haft kills the engine's process itself.
const END_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct WarmContainer {
    pub(super) engine: Arc<ContainerEngine>,
    pub(super) name: String,
    /// The shell of the image.
    pub(super) shell: String,
    /// The home of this user in the image, or a directory for files if it has none.
    pub(super) home: String,
    covered: Vec<CoveredPath>,
    closed: Arc<Vec<Closed>>,
    begun: Instant,
    connection: Mutex<SupervisorConnection>,
    is_gone: AtomicBool,
    /// Number of launches that may still have processes.
    launches: Mutex<usize>,
}

/// The engine's process that carries the protocol.
struct SupervisorConnection {
    engine_process: Child,
    error_output: File,
    /// None after the end.
    input: Option<ChildStdin>,
    output: OwnedFd,
    received: Vec<u8>,
    number: u64,
}

impl WarmContainer {
    /// Creates a container and waits until its supervisor responds.
    ///
    /// # Errors
    /// Of kind `unavailable` or `not_found`, with what is missing.
    pub(super) fn start(
        engine: Arc<ContainerEngine>,
        plan: ContainerPlan,
    ) -> Result<Self, ToolError> {
        let ContainerPlan { name, image, words, covered, closed } = plan;
        let connection = SupervisorConnection::begin(&engine, &words)?;
        let mut warm = Self {
            engine,
            name,
            shell: String::new(),
            home: String::new(),
            covered,
            closed,
            begun: Instant::now(),
            connection: Mutex::new(connection),
            is_gone: AtomicBool::new(false),
            launches: Mutex::new(0),
        };
        let timeout = warm.engine.timeout;
        let is_up = warm.connection().receive("0", timeout).is_some();
        if !is_up {
            let error = warm.start_error(&image);
            warm.end();
            return Err(error);
        }
        let bash = warm.ask("find bash").filter(|found| !found.is_empty());
        warm.shell = bash.unwrap_or_else(|| "sh".to_owned());
        warm.home = warm.ask("home").unwrap_or_default();
        Ok(warm)
    }

    /// Explains why the container did not start, by asking the engine, not from its messages.
    fn start_error(&self, image: &str) -> ToolError {
        let (code, message) = {
            let mut connection = self.connection();
            connection.input = None;
            let is_over = ended_within(&connection.engine_process, END_TIMEOUT);
            let code = connection
                .engine_process
                .try_wait()
                .ok()
                .flatten()
                .and_then(|status| status.code());
            (
                code.filter(|_| is_over),
                engine::text(&mut connection.error_output).unwrap_or_default(),
            )
        };
        let message = engine::last_line(&message);
        let engine = self.engine.program.display();
        if let Err(error) = self.engine.answers() {
            return error;
        }
        if !self.engine.has_image(image) {
            return ToolError::not_found(format!("there is no image `{image}` on this machine"))
                .hint(format!(
                    "fetch it with `{engine} pull {image}` (haft fetches none by itself), or set another as `image` in [container]"
                ));
        }
        match code {
            Some(_) if !self.engine.has_shell(image) => {
                ToolError::unavailable(format!("the image `{image}` has no `sh` ({message})"))
                    .hint("set an image with a shell as `image` in [container]")
            }
            Some(_) => {
                ToolError::unavailable(format!("the container could not be created: {message}"))
                    .hint("check the settings in [container]; `haft doctor` tries them")
            }
            None => ToolError::unavailable(format!(
                "the container did not start within {} seconds",
                self.engine.timeout.as_secs()
            ))
            .hint(format!("check whether `{engine} run --rm {image} true` works")),
        }
    }

    /// Returns true when it accepts another launch.
    pub(super) fn serves(&self, max_age: Duration, closed: &[Closed]) -> bool {
        // The supervisor ends it at that age; no launch should begin just before.
        let is_young = self.begun.elapsed() < max_age / 2 || self.is_used();
        is_young
            && **self.closed == *closed
            && self.covered.iter().all(CoveredPath::holds)
            && self.lives()
    }

    fn lives(&self) -> bool {
        if self.is_gone.load(Ordering::Acquire) {
            return false;
        }
        let is_over = self.connection().engine_process.try_wait().ok().flatten().is_some();
        if is_over {
            self.is_gone.store(true, Ordering::Release);
        }
        !is_over
    }

    /// Returns true when a launch runs in it, or left something running.
    pub(super) fn is_used(&self) -> bool {
        *self.launches() > 0
    }

    pub(super) fn begin(&self) {
        *self.launches() += 1;
    }

    /// A launch has ended with all its processes. When it was the last one, processes that lost its
    /// mark are ended with the container.
    pub(super) fn finish(&self) {
        let mut launches = self.launches();
        *launches = launches.saturating_sub(1);
        if *launches == 0 && self.ask("all").is_some_and(|all| all != "0") {
            self.ask("clear");
        }
    }

    /// Returns the path of a program in the PATH of the image.
    ///
    /// # Errors
    /// When the supervisor does not respond.
    pub(super) fn find(&self, name: &str, directory: &Path) -> Result<Option<String>, ToolError> {
        // A line break would begin another request.
        if name.contains(['\n', '\r']) || name.len() > MAX_NAME_BYTES {
            return Ok(None);
        }
        let answer = if name.contains('/') {
            let path = directory.join(name).display().to_string();
            self.ask(&format!("runs {path}"))
                .map(|answer| if answer == "yes" { path } else { String::new() })
        } else {
            self.ask(&format!("find {name}"))
        };
        let found = answer.ok_or_else(|| {
            ToolError::unavailable(format!("the container `{}` does not respond", self.name))
                .hint("retry; the next command gets a new one")
        })?;
        Ok(Some(found).filter(|found| !found.is_empty()))
    }

    /// Sends a request to the supervisor. None when it does not reply: then the container is
    /// abandoned.
    pub(super) fn ask(&self, question: &str) -> Option<String> {
        if self.is_gone.load(Ordering::Acquire) {
            return None;
        }
        let answer = self.connection().ask(question);
        if answer.is_none() {
            self.is_gone.store(true, Ordering::Release);
        }
        answer
    }

    /// Ends the container with everything in it, and returns when it is gone.
    pub(super) fn end(&self) {
        self.is_gone.store(true, Ordering::Release);
        let mut connection = self.connection();
        if connection.input.take().is_some()
            && ended_within(&connection.engine_process, END_TIMEOUT)
        {
            let _ = connection.engine_process.wait();
            return;
        }
        if connection.engine_process.try_wait().ok().flatten().is_none() {
            self.engine.remove(&self.name);
            end_group(&mut connection.engine_process);
            let _ = connection.engine_process.wait();
        }
    }

    fn connection(&self) -> MutexGuard<'_, SupervisorConnection> {
        self.connection.lock()
    }

    fn launches(&self) -> MutexGuard<'_, usize> {
        self.launches.lock()
    }
}

impl Drop for WarmContainer {
    fn drop(&mut self) {
        self.end();
    }
}

impl SupervisorConnection {
    fn begin(engine: &ContainerEngine, words: &[std::ffi::OsString]) -> Result<Self, ToolError> {
        let fail = |error: std::io::Error| {
            let program = engine.program.display();
            ToolError::unavailable(format!("the container engine `{program}` cannot be started"))
                .hint("check that it is executable")
                .caused_by(error)
        };
        let (mut engine_process, error_output) = engine.start(words).map_err(fail)?;
        let input = engine_process.stdin.take();
        let output = engine_process
            .stdout
            .take()
            .ok_or_else(|| fail(std::io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self {
            engine_process,
            error_output,
            input,
            output: output.into(),
            received: Vec::new(),
            number: 0,
        })
    }

    fn ask(&mut self, question: &str) -> Option<String> {
        self.number += 1;
        let number = self.number.to_string();
        // A request is shorter than the pipe's buffer, and the supervisor reads whenever it is not
        // replying.
        writeln!(self.input.as_mut()?, "{number} {question}").ok()?;
        self.receive(&number, REPLY_TIMEOUT)
    }

    /// Returns the reply with this number; late replies to other requests are skipped.
    fn receive(&mut self, number: &str, timeout: Duration) -> Option<String> {
        let begun = Instant::now();
        loop {
            while let Some(line) = self.line() {
                if let Some((_, answer)) = line.split_once(' ').filter(|(of, _)| *of == number) {
                    return Some(answer.to_owned());
                }
            }
            let left = timeout.checked_sub(begun.elapsed())?;
            if !is_ready(&self.output, left) {
                return None;
            }
            let mut portion = [0; 1024];
            match rustix::io::read(&self.output, &mut portion) {
                Ok(0) => return None,
                Ok(read) => self.received.extend(portion.get(..read)?),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.received.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.received.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())
    }
}
