//! A container that runs, and the talk with its resident. It lives as long as our end of the pipe does: when haft is gone,
//! however it went, the resident reads the end, and everything in the container ends with it.

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
    engine::{self, Engine, end_group, ended_within, is_ready},
    plan::{Guard, Plan},
};
use crate::processes::closed::Closed;

/// How long the resident may take to answer: it may have five hundred processes to end on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// The kernel knows no longer ones.
const LONGEST_NAME: usize = 4096;
/// After this an end is helped along.
const ENDING: Duration = Duration::from_secs(5);

pub(super) struct Warm {
    pub(super) engine: Arc<Engine>,
    pub(super) name: String,
    /// The shell of the image.
    pub(super) shell: String,
    /// The image's for this user, or where things can be put if it has none.
    pub(super) home: String,
    guards: Vec<Guard>,
    closed: Arc<Vec<Closed>>,
    begun: Instant,
    talk: Mutex<Talk>,
    is_gone: AtomicBool,
    /// Launches of which something may run.
    launches: Mutex<usize>,
}

/// The engine's program that carries the talk.
struct Talk {
    carrier: Child,
    complaints: File,
    /// None after the end.
    input: Option<ChildStdin>,
    output: OwnedFd,
    heard: Vec<u8>,
    number: u64,
}

impl Warm {
    /// Makes a container and waits until its resident speaks.
    ///
    /// # Errors
    /// Of kind `unavailable` or `not_found`, with what is missing.
    pub(super) fn start(engine: Arc<Engine>, plan: Plan) -> Result<Self, ToolError> {
        let Plan { name, image, words, guards, closed } = plan;
        let talk = Talk::begin(&engine, &words)?;
        let mut warm = Self {
            engine,
            name,
            shell: String::new(),
            home: String::new(),
            guards,
            closed,
            begun: Instant::now(),
            talk: Mutex::new(talk),
            is_gone: AtomicBool::new(false),
            launches: Mutex::new(0),
        };
        let patience = warm.engine.patience;
        let is_up = warm.talk().hear("0", patience).is_some();
        if !is_up {
            let error = warm.not_begun(&image);
            warm.end();
            return Err(error);
        }
        let bash = warm.ask("find bash").filter(|found| !found.is_empty());
        warm.shell = bash.unwrap_or_else(|| "sh".to_owned());
        warm.home = warm.ask("home").unwrap_or_default();
        Ok(warm)
    }

    /// Why there is none, found out by asking the engine, not from its words.
    fn not_begun(&self, image: &str) -> ToolError {
        let (code, said) = {
            let mut talk = self.talk();
            talk.input = None;
            let is_over = ended_within(&talk.carrier, ENDING);
            let code = talk.carrier.try_wait().ok().flatten().and_then(|status| status.code());
            (code.filter(|_| is_over), engine::text(&mut talk.complaints).unwrap_or_default())
        };
        let said = engine::last_line(&said);
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
                ToolError::unavailable(format!("the image `{image}` has no `sh` ({said})"))
                    .hint("set an image with a shell as `image` in [container]")
            }
            Some(_) => ToolError::unavailable(format!("no container could be made: {said}")).hint(
                "see whether the engine takes the settings in [container]; `haft doctor` tries them",
            ),
            None => ToolError::unavailable(format!(
                "the container did not begin within {} seconds",
                self.engine.patience.as_secs()
            ))
            .hint(format!("see whether `{engine} run --rm {image} true` works")),
        }
    }

    /// Whether a launch may go into it.
    pub(super) fn serves(&self, longest: Duration, closed: &[Closed]) -> bool {
        // The resident ends it at that age; nobody should begin just before.
        let is_young = self.begun.elapsed() < longest / 2 || self.is_used();
        is_young && **self.closed == *closed && self.guards.iter().all(Guard::holds) && self.lives()
    }

    fn lives(&self) -> bool {
        if self.is_gone.load(Ordering::Acquire) {
            return false;
        }
        let is_over = self.talk().carrier.try_wait().ok().flatten().is_some();
        if is_over {
            self.is_gone.store(true, Ordering::Release);
        }
        !is_over
    }

    /// Whether something runs in it, asked for or left.
    pub(super) fn is_used(&self) -> bool {
        *self.launches() > 0
    }

    pub(super) fn begin(&self) {
        *self.launches() += 1;
    }

    /// A launch has ended with all it started. What got away from its mark has nobody to belong to when it was the last.
    pub(super) fn finish(&self) {
        let mut launches = self.launches();
        *launches = launches.saturating_sub(1);
        if *launches == 0 && self.ask("all").is_some_and(|all| all != "0") {
            self.ask("clear");
        }
    }

    /// Where the path of the image has a program.
    ///
    /// # Errors
    /// When nobody answers.
    pub(super) fn find(&self, name: &str, directory: &Path) -> Result<Option<String>, ToolError> {
        // A line break would begin another question.
        if name.contains(['\n', '\r']) || name.len() > LONGEST_NAME {
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
            ToolError::unavailable(format!("the container `{}` does not answer", self.name))
                .hint("call again; the next command gets a new one")
        })?;
        Ok(Some(found).filter(|found| !found.is_empty()))
    }

    /// What the resident says. None when it does not: then the container is given up.
    pub(super) fn ask(&self, question: &str) -> Option<String> {
        if self.is_gone.load(Ordering::Acquire) {
            return None;
        }
        let answer = self.talk().ask(question);
        if answer.is_none() {
            self.is_gone.store(true, Ordering::Release);
        }
        answer
    }

    /// Ends it and everything in it, and returns when it is gone.
    pub(super) fn end(&self) {
        self.is_gone.store(true, Ordering::Release);
        let mut talk = self.talk();
        if talk.input.take().is_some() && ended_within(&talk.carrier, ENDING) {
            let _ = talk.carrier.wait();
            return;
        }
        if talk.carrier.try_wait().ok().flatten().is_none() {
            self.engine.remove(&self.name);
            end_group(&mut talk.carrier);
            let _ = talk.carrier.wait();
        }
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock()
    }

    fn launches(&self) -> MutexGuard<'_, usize> {
        self.launches.lock()
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        self.end();
    }
}

impl Talk {
    fn begin(engine: &Engine, words: &[std::ffi::OsString]) -> Result<Self, ToolError> {
        let fail = |error: std::io::Error| {
            let program = engine.program.display();
            ToolError::unavailable(format!("the container engine `{program}` cannot be started"))
                .hint("check that it is executable")
                .caused_by(error)
        };
        let (mut carrier, complaints) = engine.start(words).map_err(fail)?;
        let input = carrier.stdin.take();
        let output =
            carrier.stdout.take().ok_or_else(|| fail(std::io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { carrier, complaints, input, output: output.into(), heard: Vec::new(), number: 0 })
    }

    fn ask(&mut self, question: &str) -> Option<String> {
        self.number += 1;
        let number = self.number.to_string();
        // A question is shorter than a pipe is long, and the resident reads whenever it does not answer.
        writeln!(self.input.as_mut()?, "{number} {question}").ok()?;
        self.hear(&number, PATIENCE)
    }

    /// The answer with this number; those that came too late for others are passed over.
    fn hear(&mut self, number: &str, patience: Duration) -> Option<String> {
        let begun = Instant::now();
        loop {
            while let Some(line) = self.line() {
                if let Some((_, answer)) = line.split_once(' ').filter(|(of, _)| *of == number) {
                    return Some(answer.to_owned());
                }
            }
            let left = patience.checked_sub(begun.elapsed())?;
            if !is_ready(&self.output, left) {
                return None;
            }
            let mut portion = [0; 1024];
            match rustix::io::read(&self.output, &mut portion) {
                Ok(0) => return None,
                Ok(read) => self.heard.extend(portion.get(..read)?),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.heard.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())
    }
}
