//! The calls that are being made, by the ids that the client gave them. Whoever takes a call out may answer it; so nothing
//! is answered twice, and what was cancelled is not answered at all.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(super) struct Inflight {
    calls: Mutex<HashMap<RequestId, (u64, CancellationToken)>>,
    entered: AtomicU64,
    /// Somebody waits for the last one to end.
    left: Condvar,
    is_awaited: AtomicBool,
}

/// A call that is being made.
#[derive(Clone)]
pub(super) struct Entered {
    pub(super) id: RequestId,
    /// Tells it from an earlier call of the same id.
    number: u64,
    pub(super) token: CancellationToken,
}

/// Why a call is not made.
pub(super) enum NotEntered {
    /// One of this id is being made.
    SameId,
    TooMany,
}

impl Inflight {
    /// Takes note of a call, unless so many others are being made.
    pub(super) fn enter(&self, id: &RequestId, most: usize) -> Result<Entered, NotEntered> {
        let mut calls = self.calls();
        let is_full = calls.len() >= most;
        match calls.entry(id.clone()) {
            Entry::Occupied(_) => Err(NotEntered::SameId),
            Entry::Vacant(_) if is_full => Err(NotEntered::TooMany),
            Entry::Vacant(free) => {
                let (number, token) =
                    (self.entered.fetch_add(1, Ordering::Relaxed), CancellationToken::new());
                free.insert((number, token.clone()));
                Ok(Entered { id: id.clone(), number, token })
            }
        }
    }

    /// Whether the call is still to be answered; it is not any more after this. After it was cancelled, its id may be that
    /// of another call.
    pub(super) fn leave(&self, call: &Entered) -> bool {
        let mut calls = self.calls();
        let is_there = calls.get(&call.id).is_some_and(|(number, _)| *number == call.number);
        if is_there {
            calls.remove(&call.id);
        }
        drop(calls);
        if self.is_awaited.load(Ordering::Acquire) {
            self.left.notify_all();
        }
        is_there
    }

    /// Cancels it. False when there is no such call.
    pub(super) fn cancel(&self, id: &RequestId) -> bool {
        let call = self.calls().remove(id);
        call.inspect(|(_, token)| token.cancel()).is_some()
    }

    pub(super) fn cancel_all(&self) {
        self.calls().drain().for_each(|(_, (_, token))| token.cancel());
    }

    /// Waits until nothing is being made, but not longer than this.
    pub(super) fn wait(&self, most: Duration) {
        self.is_awaited.store(true, Ordering::Release);
        self.left.wait_while_for(&mut self.calls(), |calls| !calls.is_empty(), most);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<RequestId, (u64, CancellationToken)>> {
        self.calls.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_call_does_not_end_another_of_its_id() {
        let calls = Inflight::default();
        let enter = |id: i64| calls.enter(&RequestId::Number(id), 9).ok().expect("free");
        let first = enter(1);
        assert!(calls.cancel(&first.id) && first.token.is_cancelled());
        let second = enter(1);
        assert!(!calls.leave(&first), "nobody waits for its answer");
        assert!(!second.token.is_cancelled() && calls.leave(&second) && !calls.leave(&second));
    }
}
