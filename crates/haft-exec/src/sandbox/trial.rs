//! Starts a sandboxed program once, with a time limit, and returns what happened. For probes and
//! tests; `processes/spawn.rs` starts the commands of tools.

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

use super::notifications::NotificationListener;
use crate::processes::backend::{ChildRestrictions, Recipe};

/// The result of a trial.
#[derive(Debug)]
pub(crate) struct TrialOutcome {
    /// `None` when a signal ended it; ours if it took too long.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Its output and error output.
    pub(crate) output: String,
    /// The denials that the kernel reported.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests read it"))]
    pub(crate) refused: Vec<Denial>,
}

/// # Errors
/// When it cannot be started with its restrictions.
pub(crate) fn run(recipe: Recipe, directory: &Path, limit: Duration) -> io::Result<TrialOutcome> {
    let Some((program, arguments)) = recipe.command.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(recipe.environment.iter().cloned());
    command.current_dir(directory);
    apply(&mut command, recipe.restrictions);
    finish(command, recipe.listening, limit)
}

/// Runs it to its end, or to the time limit.
///
/// # Errors
/// When it cannot be started.
fn finish(
    mut command: Command,
    listening: Option<NotificationListener>,
    limit: Duration,
) -> io::Result<TrialOutcome> {
    let mut output_file = File::from(rustix::fs::memfd_create("haft-trial", MemfdFlags::CLOEXEC)?);
    command.stdin(Stdio::null()).stdout(output_file.try_clone()?).stderr(output_file.try_clone()?);
    let mut child = command.spawn()?;
    let reported = listening.map(NotificationListener::begin).unwrap_or_default();
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
    output_file.rewind()?;
    output_file.read_to_end(&mut output)?;
    let output = String::from_utf8_lossy(&output).into_owned();
    Ok(TrialOutcome {
        code: status.code(),
        signal: status.signal(),
        output,
        refused: reported.all(),
    })
}

/// Makes the child apply the restrictions before exec.
pub(crate) fn apply(command: &mut Command, restrictions: ChildRestrictions) {
    #[expect(unsafe_code, reason = "only pre_exec runs code between fork and exec")]
    // SAFETY: between fork and exec only system calls are made; their inputs were prepared before,
    // and nothing is allocated or locked (errors are numbers).
    unsafe {
        command.pre_exec(move || restrictions.apply());
    }
}
