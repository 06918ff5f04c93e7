//! Connections that have not sent a request with a valid token yet. They are few, short-lived and never take the place
//! of a client: a peer that opens many of them pushes out its own oldest ones.

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

/// Maximum number of connections without a valid request. A client sends its head at once, so that a few are enough.
pub(super) const MAX_NEWCOMERS: usize = 64;
/// How long a connection may take until its first valid head. Clients on a slow network need well under a second.
pub(super) const NEWCOMER_TIMEOUT: Duration = Duration::from_secs(5);

/// All of them, the oldest first.
pub(super) struct Newcomers {
    waiting: Mutex<VecDeque<(u64, CancellationToken)>>,
    count: AtomicU64,
    places: Arc<Semaphore>,
}

/// One connection, from its start to its end.
pub(super) struct Guest {
    newcomers: Arc<Newcomers>,
    id: u64,
    pushed_out: CancellationToken,
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Newcomers {
    /// `max_clients` connections may have sent a valid request; newcomers are not counted there.
    pub(super) fn new(max_clients: usize) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(max_clients));
        Arc::new(Self { waiting: Mutex::default(), count: AtomicU64::new(0), places })
    }

    /// Takes a new connection in. When there are too many, the oldest one without a valid request ends.
    pub(super) fn welcome(self: &Arc<Self>) -> Arc<Guest> {
        let id = self.count.fetch_add(1, Ordering::Relaxed);
        let pushed_out = CancellationToken::new();
        let mut waiting = self.waiting();
        waiting.push_back((id, pushed_out.clone()));
        if waiting.len() > MAX_NEWCOMERS
            && let Some((_, oldest)) = waiting.pop_front()
        {
            oldest.cancel();
        }
        let place = OnceLock::new();
        Arc::new(Guest { newcomers: self.clone(), id, pushed_out, place })
    }

    fn forget(&self, id: u64) {
        self.waiting().retain(|(waiting, _)| *waiting != id);
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(u64, CancellationToken)>> {
        self.waiting.lock()
    }
}

impl Guest {
    /// Takes a client's place after a valid head. False when all places are taken.
    pub(super) fn admit(&self) -> bool {
        if self.place.get().is_some() {
            return true;
        }
        let Ok(permit) = self.newcomers.places.clone().try_acquire_owned() else { return false };
        // Requests of one connection come one after the other, so that nothing else sets it meanwhile.
        let _ = self.place.set(permit);
        self.newcomers.forget(self.id);
        true
    }

    /// Returns when the connection must end: no valid head in time, or pushed out by newer ones. Never for a client.
    pub(super) async fn overdue(&self) {
        let _ = timeout(NEWCOMER_TIMEOUT, self.pushed_out.cancelled()).await;
        if self.place.get().is_some() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.newcomers.forget(self.id);
    }
}
