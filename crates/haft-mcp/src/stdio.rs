//! A server for the client at the other end of a pipe. The protocol is rmcp's, but tool calls do not go through its loop:
//! they are read, made and answered on one thread, because handing a message from thread to thread costs several times
//! what a small call costs. A call that has to wait moves to the runtime; a call that blocks the thread is left to it while
//! another thread takes over the pipe.

mod inflight;
mod lead;
mod message;
mod outbox;
mod pipe;
mod relay;
mod watch;

use std::{io, sync::Arc};

use tokio::runtime::{Builder, Runtime};

use self::lead::Line;
use crate::{connection::Connection, server::Server};

impl Server {
    /// Serves the client at this process's standard input and output until it is gone. Blocks this thread.
    ///
    /// # Errors
    /// When the process cannot be given the threads it needs.
    pub fn stdio(&self) -> io::Result<()> {
        let runtime: &'static Runtime = Box::leak(Box::new(
            Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .thread_name("haft-mcp")
                .build()?,
        ));
        let _inside = runtime.enter();
        let line = Line::new(Arc::new(Connection::new(self)), runtime.handle().clone());
        line.serve()
    }
}
