//! A server for the client at the other end of a pipe. The protocol is rmcp's, but tool calls do not go through its loop: one
//! thread reads them, makes them and writes their answers, because handing a message from thread to thread costs several
//! times what a small call costs. A call that has to wait moves to the runtime; a call that blocks its thread keeps it, and
//! another thread goes on reading.

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

use self::session::Session;
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
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().thread_name("haft-mcp").build()?;
        // Never dropped: a call that blocks a thread of it must not keep the process.
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        let connection = Arc::new(Connection::new(self, Lasting::Long));
        Session::new(connection, runtime.handle().clone(), input, output).serve()
    }
}

#[cfg(test)]
mod tests;
