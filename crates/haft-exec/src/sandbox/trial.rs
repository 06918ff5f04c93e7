//! Starting something behind restrictions once, with a time limit, to see what happens. For probing and for tests; commands of
//! tools are started by `processes/spawn.rs`.

use std::{
    fs::File,
    io::{self, Read, Seek},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use haft_core::commands::Denial;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::MemfdFlags,
    process::{Pid, PidfdFlags},
};

use super::notices::Listening;
use crate::processes::backend::{ChildRestrictions, Recipe};

/// How a trial went.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// `None` when a signal has ended it, ours for one that took too long.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// What it said and complained about.
    pub(crate) output: String,
    /// What the kernel has told us of.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests look at it"))]
    pub(crate) refused: Vec<Denial>,
}

/// # Errors
/// When it cannot be started, restrictions included.
pub(crate) fn run(recipe: Recipe, directory: &Path, limit: Duration) -> io::Result<Outcome> {
    let Some((program, arguments)) = recipe.command.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(recipe.environment.iter().cloned());
    command.current_dir(directory);
    apply(&mut command, recipe.restrictions);
    finish(command, recipe.listening, limit)
}

/// Runs it to its end, or to the limit.
///
/// # Errors
/// When it cannot be started.
fn finish(
    mut command: Command,
    listening: Option<Listening>,
    limit: Duration,
) -> io::Result<Outcome> {
    let mut said = File::from(rustix::fs::memfd_create("haft-trial", MemfdFlags::CLOEXEC)?);
    command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said.try_clone()?);
    let mut child = command.spawn()?;
    let noted = listening.map(Listening::begin).unwrap_or_default();
    let pid =
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let limit = Timespec::try_from(limit).map_err(|_| io::ErrorKind::InvalidInput)?;
    let is_over = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit))? > 0;
    if !is_over {
        child.kill()?;
    }
    let status = child.wait()?;
    let mut output = Vec::new();
    said.rewind()?;
    said.read_to_end(&mut output)?;
    let output = String::from_utf8_lossy(&output).into_owned();
    Ok(Outcome { code: status.code(), signal: status.signal(), output, refused: noted.all() })
}

/// Has the child put them up around itself before it becomes the program.
pub(crate) fn apply(command: &mut Command, restrictions: ChildRestrictions) {
    #[expect(unsafe_code, reason = "std has no other door between fork and exec")]
    // SAFETY: between fork and exec only system calls are made; what they need was made before, and nothing is allocated
    // or locked (errors are numbers).
    unsafe {
        command.pre_exec(move || restrictions.apply());
    }
}
