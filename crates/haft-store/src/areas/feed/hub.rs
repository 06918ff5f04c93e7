//! Wakes the subscribers of this process: at once for its own commits, and through the engine for
//! commits of other processes. The engine is watched only while there are subscribers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::{Mutex, MutexGuard, RwLock};

use tokio::sync::{Notify, watch};

use super::EventRetention;
use crate::{Store, engine::store::StoreEngine};

/// Notifies the subscribers of an open store.
#[derive(Default)]
pub(crate) struct FeedHub {
    changes: watch::Sender<u64>,
    subscribers: AtomicUsize,
    /// True if a watcher for other processes runs.
    watcher: Mutex<bool>,
    /// Notified when the last subscriber is gone.
    pub(crate) no_subscribers: Notify,
    retention: RwLock<EventRetention>,
}

impl FeedHub {
    /// Wakes all subscribers after a commit.
    pub(crate) fn notify(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    #[cfg(test)]
    pub(crate) fn is_watched(&self) -> bool {
        *self.watcher()
    }

    /// Behaves like a watcher that ends by a panic.
    #[cfg(test)]
    pub(crate) fn drop_watcher(self: &Arc<Self>) {
        drop(WatcherGuard::new(self));
    }

    fn has_subscribers(&self) -> bool {
        self.subscribers.load(Ordering::Acquire) > 0
    }

    pub(crate) fn retention(&self) -> EventRetention {
        *self.retention.read()
    }

    pub(crate) fn retain(&self, retention: EventRetention) {
        *self.retention.write() = retention;
    }

    fn watcher(&self) -> MutexGuard<'_, bool> {
        self.watcher.lock()
    }
}

/// Registration of the running watcher. However the watcher ends, with its runtime or by a panic,
/// subscribers wake and start another.
pub(crate) struct WatcherGuard {
    pub(crate) hub: Arc<FeedHub>,
    is_ended: bool,
}

impl WatcherGuard {
    fn new(hub: &Arc<FeedHub>) -> Self {
        Self { hub: hub.clone(), is_ended: false }
    }

    /// Ends the registration if there are no subscribers. Holds the lock that a new subscriber
    /// takes, so that none is left without a watcher.
    pub(crate) fn end_if_unused(&mut self) -> bool {
        let mut is_watched = self.hub.watcher();
        if self.hub.has_subscribers() {
            return false;
        }
        *is_watched = false;
        self.is_ended = true;
        true
    }
}

impl Drop for WatcherGuard {
    fn drop(&mut self) {
        if !self.is_ended {
            *self.hub.watcher() = false;
            self.hub.notify();
        }
    }
}

/// A subscriber.
pub(super) struct FeedListener {
    hub: Arc<FeedHub>,
    changes: watch::Receiver<u64>,
}

impl FeedListener {
    pub(super) fn to(store: &Store) -> Self {
        let hub = store.hub.clone();
        hub.subscribers.fetch_add(1, Ordering::AcqRel);
        Self { changes: hub.changes.subscribe(), hub }
    }

    /// Forgets earlier notifications and starts a watcher if none runs.
    pub(super) fn begin(&mut self, store: &Store) {
        self.changes.borrow_and_update();
        let is_watched = std::mem::replace(&mut *self.hub.watcher(), true);
        if is_watched {
            return;
        }
        // Without a watcher, subscribers still query from time to time.
        let guard = WatcherGuard::new(&self.hub);
        match &store.engine {
            StoreEngine::Sqlite(sqlite) => sqlite.watch(guard),
            StoreEngine::Postgres(postgres) => postgres.listen(guard),
        }
    }

    pub(super) async fn changed(&mut self) {
        // The sender lives in `hub`, so it is not closed.
        let _ = self.changes.changed().await;
    }
}

impl Drop for FeedListener {
    fn drop(&mut self) {
        if self.hub.subscribers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.hub.no_subscribers.notify_waiters();
        }
    }
}
