//! The calls in progress, by the client's request ids. Only the one who removes a call may answer
//! it, so that no call is answered twice and a cancelled call is not answered.

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
    /// Notified when a call ends and a thread waits for that.
    left: Condvar,
    is_awaited: AtomicBool,
}

/// A call in progress.
#[derive(Clone)]
pub(super) struct InflightCall {
    pub(super) id: RequestId,
    /// Distinguishes it from an earlier call with the same id.
    number: u64,
    pub(super) token: CancellationToken,
}

/// The reason why a call is refused.
pub(super) enum NotRegistered {
    /// A call with this id is in progress.
    SameId,
    TooMany,
}

impl Inflight {
    /// Registers a call, unless `most` others are in progress.
    pub(super) fn enter(&self, id: &RequestId, most: usize) -> Result<InflightCall, NotRegistered> {
        let mut calls = self.calls();
        let is_full = calls.len() >= most;
        match calls.entry(id.clone()) {
            Entry::Occupied(_) => Err(NotRegistered::SameId),
            Entry::Vacant(_) if is_full => Err(NotRegistered::TooMany),
            Entry::Vacant(free) => {
                let (number, token) =
                    (self.entered.fetch_add(1, Ordering::Relaxed), CancellationToken::new());
                free.insert((number, token.clone()));
                Ok(InflightCall { id: id.clone(), number, token })
            }
        }
    }

    /// Removes the call. Returns true if it is still to be answered. After a cancellation, its id
    /// may belong to another call.
    pub(super) fn leave(&self, call: &InflightCall) -> bool {
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

    /// Cancels a call. Returns false if there is no such call.
    pub(super) fn cancel(&self, id: &RequestId) -> bool {
        let call = self.calls().remove(id);
        call.inspect(|(_, token)| token.cancel()).is_some()
    }

    pub(super) fn cancel_all(&self) {
        self.calls().drain().for_each(|(_, (_, token))| token.cancel());
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.calls().is_empty()
    }

    /// Waits until no call is in progress, at most this long.
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
    fn a_cancelled_call_does_not_end_another_with_its_id() {
        let calls = Inflight::default();
        let enter = |id: i64| calls.enter(&RequestId::Number(id), 9).ok().expect("free");
        let first = enter(1);
        assert!(calls.cancel(&first.id) && first.token.is_cancelled());
        let second = enter(1);
        assert!(!calls.leave(&first), "no answer is expected");
        assert!(!second.token.is_cancelled() && calls.leave(&second) && !calls.leave(&second));
    }
}
