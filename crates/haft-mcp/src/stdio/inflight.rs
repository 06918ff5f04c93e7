//! The calls that are being made, by the ids that the client gave them. Whoever takes a call out may answer it; so nothing
//! is answered twice, and what was cancelled is not answered at all.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(super) struct Inflight {
    calls: Mutex<HashMap<RequestId, CancellationToken>>,
    /// Somebody waits for the last one to end.
    left: Condvar,
    is_awaited: AtomicBool,
}

/// Why a call is not made.
pub(super) enum NotEntered {
    /// One of this id is being made.
    SameId,
    TooMany,
}

impl Inflight {
    /// Takes note of a call, unless so many others are being made.
    pub(super) fn enter(
        &self,
        id: &RequestId,
        most: usize,
    ) -> Result<CancellationToken, NotEntered> {
        let mut calls = self.calls();
        let is_full = calls.len() >= most;
        match calls.entry(id.clone()) {
            Entry::Occupied(_) => Err(NotEntered::SameId),
            Entry::Vacant(_) if is_full => Err(NotEntered::TooMany),
            Entry::Vacant(free) => Ok(free.insert(CancellationToken::new()).clone()),
        }
    }

    /// Whether the call is still to be answered; it is not any more after this.
    pub(super) fn leave(&self, id: &RequestId) -> bool {
        let call = self.calls().remove(id);
        if self.is_awaited.load(Ordering::Acquire) {
            self.left.notify_all();
        }
        call.is_some()
    }

    /// Cancels it. False when there is no such call.
    pub(super) fn cancel(&self, id: &RequestId) -> bool {
        let call = self.calls().remove(id);
        call.inspect(CancellationToken::cancel).is_some()
    }

    pub(super) fn cancel_all(&self) {
        self.calls().drain().for_each(|(_, call)| call.cancel());
    }

    /// Waits until nothing is being made, but not longer than this.
    pub(super) fn wait(&self, most: Duration) {
        self.is_awaited.store(true, Ordering::Release);
        self.left.wait_while_for(&mut self.calls(), |calls| !calls.is_empty(), most);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<RequestId, CancellationToken>> {
        self.calls.lock()
    }
}
