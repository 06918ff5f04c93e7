//! A server for the client at the other end of a pipe. The protocol is rmcp's, but tool calls do not go through its loop:
//! they are read, made and answered on one thread, because handing a message from thread to thread costs several times
//! what a small call costs. While many calls that only look wait, a second thread makes some of them. A call that has to
//! wait moves to the runtime; a call that blocks the thread is left to it while another thread takes over the pipe.

mod batch;
mod desk;
pub(crate) mod engine;
pub(crate) mod escape;
mod inflight;
mod lead;
mod message;
mod outbox;
mod pipe;
mod relay;
mod watch;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, OnceLock},
};

use self::lead::Line;
use crate::{
    connection::{Connection, Lasting},
    server::Server,
};

impl Server {
    /// Serves the client at this process's standard input and output until it is gone. Blocks this thread.
    ///
    /// # Errors
    /// When the process cannot be given the threads it needs.
    pub fn stdio(&self) -> io::Result<()> {
        static INPUT: OnceLock<io::Stdin> = OnceLock::new();
        static OUTPUT: OnceLock<io::Stdout> = OnceLock::new();
        self.over(INPUT.get_or_init(io::stdin).as_fd(), OUTPUT.get_or_init(io::stdout).as_fd())
    }

    /// The same at any two ends.
    fn over(&self, input: BorrowedFd<'static>, output: BorrowedFd<'static>) -> io::Result<()> {
        let connection = Arc::new(Connection::new(self, Lasting::Long));
        Line::new(connection, self.0.engine.clone(), input, output).serve()
    }
}

#[cfg(test)]
mod tests;
