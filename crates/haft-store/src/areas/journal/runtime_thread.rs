//! A thread with its own runtime, for a store on a server. Threads that change files wait for it
//! without using their own runtime.

use std::{
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use haft_core::ToolError;
use tokio::runtime::{Builder, Runtime};

use crate::{StoreAddress, StoreLocation};

/// Longer than the server may take for all statements of a change.
const JOB_TIMEOUT: Duration = Duration::from_secs(30);

type JournalJob = Box<dyn FnOnce(&Runtime, &StoreLocation) + Send>;

pub(super) struct RuntimeThread(Mutex<Sender<JournalJob>>);

impl RuntimeThread {
    pub(super) fn start(address: StoreAddress) -> Result<Self, String> {
        let (sender, jobs) = mpsc::channel::<JournalJob>();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        // A separate location: connections belong to the runtime that opened them.
        let location = StoreLocation::new(address);
        let work = move || jobs.into_iter().for_each(|job| job(&runtime, &location));
        let thread = thread::Builder::new().name("haft-journal".to_owned());
        thread.spawn(work).map_err(|error| error.to_string())?;
        Ok(Self(Mutex::new(sender)))
    }

    pub(super) fn run<T, W>(&self, work: W) -> Result<T, ToolError>
    where
        T: Send + 'static,
        W: AsyncFnOnce(&StoreLocation) -> Result<T, ToolError> + Send + 'static,
    {
        let (answer, answered) = mpsc::sync_channel(1);
        let job: JournalJob = Box::new(move |runtime, location| {
            // The caller may have timed out.
            let _ = answer.send(runtime.block_on(work(location)));
        });
        let sent = self.0.lock().send(job);
        let gone = || ToolError::unavailable("the journal writer thread has ended");
        sent.map_err(|_| gone())?;
        answered.recv_timeout(JOB_TIMEOUT).unwrap_or_else(|_| {
            Err(ToolError::unavailable("the journal's store does not respond")
                .hint("check the server with `haft store info`"))
        })
    }
}
