//! Why the command ends without an outcome to print: an error of ours, clap's complaint, or nobody left to read. And
//! the one way out that does not lead through `main`.

use std::io;

use haft_core::ToolError;

pub(crate) enum Stop {
    /// Something to tell, with a kind that decides the exit code.
    Failed(ToolError),
    /// Help was asked for, or the arguments do not parse; clap has the words.
    Clap(clap::Error),
    /// Standard output does not take what we write.
    Output(io::Error),
}

impl From<ToolError> for Stop {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

impl From<clap::Error> for Stop {
    fn from(error: clap::Error) -> Self {
        Self::Clap(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Ends the process while another thread is stuck in a tool. Everything else returns from `main`.
#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "the main thread is held by a tool that does not let go of it, so it cannot return"
)]
pub(crate) fn leave(code: u8) -> ! {
    crate::terminal::restore_terminal();
    std::process::exit(code.into())
}
