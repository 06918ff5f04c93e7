//! Prevents one call from blocking all others: when the reading thread works on one message for too
//! long, another thread continues to read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// Maximum time that one message may delay the next. Cached files take microseconds, an fsync of a
/// slow disk some milliseconds.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(100);
/// Number of idle checks before the watch sleeps: waking it for every call would cost more than the
/// calls.
const IDLE_CHECKS: u32 = 20;

/// State of the reading thread, for the watch.
#[derive(Default)]
pub(super) struct Watch {
    /// Number of the current reader: the first, the second, …
    reader: AtomicU64,
    /// Number of messages begun, and number ended.
    begun: AtomicU64,
    ended: AtomicU64,
    is_asleep: AtomicBool,
    thread: std::sync::OnceLock<Thread>,
}

impl Watch {
    /// Starts watching. When the reader is blocked, calls `take_over` on the watching thread with
    /// the number of the next reader.
    pub(super) fn start(
        self: &Arc<Self>,
        take_over: impl Fn(u64) + Send + 'static,
    ) -> std::io::Result<()> {
        let watch = self.clone();
        let thread = thread::Builder::new().name("haft-mcp-watch".to_owned());
        let thread = thread.spawn(move || watch.run(take_over))?;
        let _ = self.thread.set(thread.thread().clone());
        Ok(())
    }

    pub(super) fn is_reader(&self, reader: u64) -> bool {
        self.reader.load(Ordering::SeqCst) == reader
    }

    /// Called when the reader begins a message.
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if self.is_asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Called when a thread has finished its message. Returns false if another thread is the
    /// reader.
    pub(super) fn end(&self, reader: u64) -> bool {
        let is_reader = self.is_reader(reader);
        if is_reader {
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
        is_reader
    }

    fn run(&self, take_over: impl Fn(u64)) {
        let mut last = (0, Instant::now());
        let mut idle_checks = 0;
        loop {
            let begun = self.begun.load(Ordering::SeqCst);
            let is_busy = self.ended.load(Ordering::SeqCst) < begun;
            if begun != last.0 {
                last = (begun, Instant::now());
                idle_checks = 0;
            } else if is_busy && last.1.elapsed() >= MESSAGE_TIMEOUT {
                // Stop waiting for the blocked message.
                self.ended.store(begun, Ordering::SeqCst);
                take_over(self.reader.fetch_add(1, Ordering::SeqCst) + 1);
            } else if !is_busy {
                idle_checks += 1;
            }
            if idle_checks >= IDLE_CHECKS {
                self.sleep(begun);
                idle_checks = 0;
            } else {
                thread::park_timeout(MESSAGE_TIMEOUT / 4);
            }
        }
    }

    fn sleep(&self, begun: u64) {
        self.is_asleep.store(true, Ordering::SeqCst);
        // A message that came in between has seen the watch awake, so it must stay awake.
        if self.begun.load(Ordering::SeqCst) == begun {
            while self.is_asleep.load(Ordering::SeqCst) {
                thread::park();
            }
        } else {
            self.is_asleep.store(false, Ordering::SeqCst);
        }
    }
}
