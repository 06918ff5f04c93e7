//! The thread that writes deferred entries, which no caller waits for, and the flush at the end of
//! the process.

use std::{
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use haft_core::ToolError;

use super::LedgerInner;
use crate::engine::waiting::wait_for;

/// Half of the promised 50 ms: a busy machine wakes threads late.
const DELAY: Duration = Duration::from_millis(25);

/// Every ledger with such a thread.
static LEDGERS: Mutex<Vec<Weak<LedgerInner>>> = Mutex::new(Vec::new());

/// Writes the deferred entries of all ledgers of this process. Call it before the process ends;
/// without entries it only reads an empty list.
///
/// # Errors
/// The first error; the other ledgers are written all the same.
pub fn flush_everything() -> Result<(), ToolError> {
    let ledgers = LEDGERS.lock().clone();
    let flushed = ledgers.iter().filter_map(Weak::upgrade).map(|it| wait_for(it.flush()));
    flushed.fold(Ok(()), Result::and)
}

/// Starts the thread of a ledger. Returns false if that fails.
pub(super) fn start(ledger: &Arc<LedgerInner>) -> bool {
    let own = ledger.clone();
    let thread = thread::Builder::new().name("haft-ledger".to_owned());
    let is_started = thread.spawn(move || work(&own)).is_ok();
    if is_started {
        let mut ledgers = LEDGERS.lock();
        ledgers.retain(|known| known.strong_count() > 0);
        ledgers.push(Arc::downgrade(ledger));
    }
    is_started
}

fn work(ledger: &LedgerInner) {
    loop {
        let is_closed = wait(ledger);
        // The next call gets the error and tries again.
        let _ = wait_for(ledger.flush());
        if is_closed {
            return;
        }
    }
}

/// Waits until entries are due or the ledger is closed; returns true if it is closed.
fn wait(ledger: &LedgerInner) -> bool {
    let mut queue = ledger.queue();
    loop {
        let due = queue.since.map(|since| since + DELAY);
        let now = Instant::now();
        match due {
            _ if queue.is_closed => return true,
            None => ledger.wakeup.wait(&mut queue),
            Some(due) if due <= now || queue.is_long() => return false,
            Some(due) => drop(ledger.wakeup.wait_for(&mut queue, due - now)),
        }
    }
}
