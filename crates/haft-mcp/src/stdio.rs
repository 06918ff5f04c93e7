//! A server for the client at the other end of a pipe. The protocol is rmcp's, but tool calls
//! bypass its loop: one thread reads them, runs them and writes their answers, because handing a
//! message between threads costs several times as much as a small call. A call that has to wait
//! moves to the runtime. A call that blocks its thread keeps it, and another thread continues to
//! read.

mod inflight;
mod lines;
mod message;
mod outbox;
mod relay;
mod session;
mod watch;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, OnceLock},
};

use tokio::runtime::{Builder, Runtime};

use self::session::StdioSession;
use crate::{
    connection::{Connection, ConnectionLifetime},
    server::Server,
};

impl Server {
    /// Serves the client at the standard input and output of this process until it disconnects.
    /// Blocks the calling thread.
    ///
    /// # Errors
    /// When the process cannot create its threads.
    pub fn stdio(&self) -> io::Result<()> {
        static INPUT: OnceLock<io::Stdin> = OnceLock::new();
        static OUTPUT: OnceLock<io::Stdout> = OnceLock::new();
        self.over(INPUT.get_or_init(io::stdin).as_fd(), OUTPUT.get_or_init(io::stdout).as_fd())
    }

    /// Serves a client at two file descriptors.
    fn over(&self, input: BorrowedFd<'static>, output: BorrowedFd<'static>) -> io::Result<()> {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().thread_name("haft-mcp").build()?;
        // Never dropped: a call that blocks one of its threads must not prevent the process from
        // ending.
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        let connection = Arc::new(Connection::new(self, ConnectionLifetime::Long));
        StdioSession::new(connection, runtime.handle().clone(), input, output).serve()
    }
}

#[cfg(test)]
mod tests;
