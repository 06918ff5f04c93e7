//! The thread that writes the entries nobody waits for, and the last chance for them when the process ends.

use std::{
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use haft_core::ToolError;

use super::Inner;
use crate::engine::waiting::wait_for;

/// Half of what is promised: a busy machine wakes a thread late.
const DELAY: Duration = Duration::from_millis(25);

/// Every ledger that has such a thread.
static LEDGERS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

#[derive(Default)]
pub(super) struct Latecomers {
    /// Whether there is a thread; asked for by the first entry.
    thread: OnceLock<bool>,
    news: Condvar,
    is_closed: Mutex<bool>,
}

impl Latecomers {
    /// Says that there is something to write. False when there is nobody to write it.
    pub(super) fn expect_some(&self, ledger: &Arc<Inner>) -> bool {
        let is_new = self.thread.get().is_none();
        let has_thread = *self.thread.get_or_init(|| start(ledger));
        if !is_new && has_thread {
            self.news.notify_one();
        }
        has_thread
    }

    /// The thread writes what is left and goes.
    pub(super) fn close(&self, ledger: &Inner) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        // With the lock that it waits on: a word between its look and its wait would be lost.
        let _queue = ledger.queue();
        self.news.notify_all();
    }

    fn is_closed(&self) -> bool {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what every ledger of this process still has to write. To be called before the process ends; what it costs when
/// there is nothing to write is a look at an empty list.
///
/// # Errors
/// The first failure; the other ledgers are written all the same.
pub fn flush_everything() -> Result<(), ToolError> {
    let ledgers = LEDGERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let flushed = ledgers.iter().filter_map(Weak::upgrade).map(|it| wait_for(it.flush()));
    flushed.fold(Ok(()), Result::and)
}

fn start(ledger: &Arc<Inner>) -> bool {
    let own = ledger.clone();
    let thread = thread::Builder::new().name("haft-ledger".to_owned());
    let is_started = thread.spawn(move || work(&own)).is_ok();
    if is_started {
        let mut ledgers = LEDGERS.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.retain(|known| known.strong_count() > 0);
        ledgers.push(Arc::downgrade(ledger));
    }
    is_started
}

fn work(ledger: &Arc<Inner>) {
    loop {
        let is_closed = wait(ledger);
        // A failure is told to the next call, which tries again.
        let _ = wait_for(ledger.flush());
        if is_closed {
            return;
        }
    }
}

/// Until something has waited long enough, or nobody will come any more.
fn wait(ledger: &Inner) -> bool {
    let Latecomers { news, .. } = &ledger.latecomers;
    let mut queue = ledger.queue();
    loop {
        if ledger.latecomers.is_closed() {
            return true;
        }
        let due = queue.since.map(|since| since + DELAY);
        let now = Instant::now();
        queue = match due {
            None => news.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Some(due) if due <= now || queue.is_long() => return false,
            Some(due) => {
                let waited = news.wait_timeout(queue, due - now);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}
