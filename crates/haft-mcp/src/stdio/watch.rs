//! Sees to it that one call cannot hold up all others: when the thread that reads has been with the same message for too
//! long, another one reads on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// How long one message may hold up the next. Cached files take microseconds, a slow disk's fsync some milliseconds.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(100);
/// Looks without anything to see before the watch goes to sleep: waking it for every call would cost more than the calls.
const QUIET_LOOKS: u32 = 20;

/// What the reading thread shows of itself.
#[derive(Default)]
pub(super) struct Watch {
    /// Which thread reads: the first, the second, …
    reader: AtomicU64,
    /// How many messages were begun, and how many ended.
    begun: AtomicU64,
    ended: AtomicU64,
    is_asleep: AtomicBool,
    thread: std::sync::OnceLock<Thread>,
}

impl Watch {
    /// Starts watching. `take_over` is called, on the watching thread and with the next reader's number, when the reader
    /// is stuck.
    pub(super) fn start(
        self: &Arc<Self>,
        take_over: impl Fn(u64) + Send + 'static,
    ) -> std::io::Result<()> {
        let watch = self.clone();
        let thread = thread::Builder::new().name("haft-mcp-watch".to_owned());
        let thread = thread.spawn(move || watch.look(take_over))?;
        let _ = self.thread.set(thread.thread().clone());
        Ok(())
    }

    pub(super) fn is_reader(&self, reader: u64) -> bool {
        self.reader.load(Ordering::SeqCst) == reader
    }

    /// The reader turns to a message.
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if self.is_asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// A thread is done with its message. False when another one reads by now.
    pub(super) fn end(&self, reader: u64) -> bool {
        let is_reader = self.is_reader(reader);
        if is_reader {
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
        is_reader
    }

    fn look(&self, take_over: impl Fn(u64)) {
        let mut last = (0, Instant::now());
        let mut quiet = 0;
        loop {
            let begun = self.begun.load(Ordering::SeqCst);
            let is_busy = self.ended.load(Ordering::SeqCst) < begun;
            if begun != last.0 {
                last = (begun, Instant::now());
                quiet = 0;
            } else if is_busy && last.1.elapsed() >= MESSAGE_TIMEOUT {
                // What is stuck is not waited for any more.
                self.ended.store(begun, Ordering::SeqCst);
                take_over(self.reader.fetch_add(1, Ordering::SeqCst) + 1);
            } else if !is_busy {
                quiet += 1;
            }
            if quiet >= QUIET_LOOKS {
                self.sleep(begun);
                quiet = 0;
            } else {
                thread::park_timeout(MESSAGE_TIMEOUT / 4);
            }
        }
    }

    fn sleep(&self, begun: u64) {
        self.is_asleep.store(true, Ordering::SeqCst);
        // A message that came in between has seen us awake; then we are.
        if self.begun.load(Ordering::SeqCst) == begun {
            while self.is_asleep.load(Ordering::SeqCst) {
                thread::park();
            }
        } else {
            self.is_asleep.store(false, Ordering::SeqCst);
        }
    }
}
