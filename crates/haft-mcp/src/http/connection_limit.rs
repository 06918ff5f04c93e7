//! Limits connections that have not sent a request with a valid token yet. They are few,
//! short-lived and never take the slot of a client: a peer that opens many of them evicts its own
//! oldest ones.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Maximum number of connections without a valid request. A client sends its head at once, so a few
/// are enough.
pub(super) const MAX_UNAUTHENTICATED: usize = 64;
/// Time limit for the first valid head. Clients on a slow network need well under a second.
pub(super) const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(5);

/// All connections without a valid request, the oldest first.
pub(super) struct ConnectionLimit {
    waiting: Mutex<VecDeque<(u64, CancellationToken)>>,
    count: AtomicU64,
    client_slots: Arc<Semaphore>,
}

/// One connection, from its start to its end.
pub(super) struct LimitedConnection {
    limit: Arc<ConnectionLimit>,
    id: u64,
    evicted: CancellationToken,
    slot: OnceLock<OwnedSemaphorePermit>,
}

impl ConnectionLimit {
    /// `max_clients` limits the connections that have sent a valid request; others do not count
    /// there.
    pub(super) fn new(max_clients: usize) -> Arc<Self> {
        let client_slots = Arc::new(Semaphore::new(max_clients));
        Arc::new(Self { waiting: Mutex::default(), count: AtomicU64::new(0), client_slots })
    }

    /// Registers a new connection. If there are too many, the oldest one without a valid request is
    /// closed.
    pub(super) fn register(self: &Arc<Self>) -> Arc<LimitedConnection> {
        let id = self.count.fetch_add(1, Ordering::Relaxed);
        let evicted = CancellationToken::new();
        let mut waiting = self.waiting();
        waiting.push_back((id, evicted.clone()));
        if waiting.len() > MAX_UNAUTHENTICATED
            && let Some((_, oldest)) = waiting.pop_front()
        {
            oldest.cancel();
        }
        let slot = OnceLock::new();
        Arc::new(LimitedConnection { limit: self.clone(), id, evicted, slot })
    }

    fn forget(&self, id: u64) {
        self.waiting().retain(|(waiting, _)| *waiting != id);
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(u64, CancellationToken)>> {
        self.waiting.lock()
    }
}

impl LimitedConnection {
    /// Takes a client slot after a valid head. Returns false if all slots are taken.
    pub(super) fn admit(&self) -> bool {
        if self.slot.get().is_some() {
            return true;
        }
        let Ok(permit) = self.limit.client_slots.clone().try_acquire_owned() else { return false };
        // Requests of one connection are sequential, so no other request sets it at the same time.
        let _ = self.slot.set(permit);
        self.limit.forget(self.id);
        true
    }

    /// Returns when the connection must end: no valid head in time, or evicted by newer ones. Never
    /// returns for a client.
    pub(super) async fn expired(&self) {
        let _ = timeout(AUTHENTICATION_TIMEOUT, self.evicted.cancelled()).await;
        if self.slot.get().is_some() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for LimitedConnection {
    fn drop(&mut self) {
        self.limit.forget(self.id);
    }
}
