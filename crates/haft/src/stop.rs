//! The reasons why a command ends without an outcome, and the one function that ends the process
//! outside of `main`.

use std::io;

use haft_core::ToolError;

pub(crate) enum Stop {
    /// An error, whose kind decides the exit code.
    Failed(ToolError),
    /// Help was requested, or the arguments do not parse. clap formats the message.
    Clap(clap::Error),
    /// Writing to standard output failed.
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
    reason = "a tool blocks the main thread, so main cannot return"
)]
pub(crate) fn leave(code: u8) -> ! {
    crate::terminal::restore_terminal();
    std::process::exit(code.into())
}
