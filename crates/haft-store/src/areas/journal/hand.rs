//! A thread with a runtime of its own, for a store that is a server. Whoever changes files waits for it on their own thread,
//! whatever runtime that thread belongs to.

use std::{
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use haft_core::ToolError;
use tokio::runtime::{Builder, Runtime};

use crate::{Address, StoreLocation};

/// Longer than the server may take for all the words of a change.
const LONGEST: Duration = Duration::from_secs(30);

type Job = Box<dyn FnOnce(&Runtime, &StoreLocation) + Send>;

pub(super) struct Hand(Mutex<Sender<Job>>);

impl Hand {
    pub(super) fn start(address: Address) -> Result<Self, String> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        // A place of its own: connections belong to the runtime that opened them.
        let place = StoreLocation::new(address);
        let work = move || jobs.into_iter().for_each(|job| job(&runtime, &place));
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
        let job: Job = Box::new(move |runtime, place| {
            // Who waits no longer has told so.
            let _ = answer.send(runtime.block_on(work(place)));
        });
        let sent = self.0.lock().send(job);
        let gone = || ToolError::unavailable("the thread that writes the journal is gone");
        sent.map_err(|_| gone())?;
        answered.recv_timeout(LONGEST).unwrap_or_else(|_| {
            Err(ToolError::unavailable("the store of the journal does not answer")
                .hint("see whether the server runs, with `haft store info`"))
        })
    }
}
