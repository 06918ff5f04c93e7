//! Wakes the subscribers of this process: at once for its own commits, and through the engine for
//! commits of other processes. The engine is watched only while there are subscribers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::{Mutex, MutexGuard, RwLock};

use tokio::sync::{Notify, watch};

use super::Retention;
use crate::{Store, engine::store::Engine};

/// Notifies the subscribers of an open store.
#[derive(Default)]
pub(crate) struct Hub {
    rings: watch::Sender<u64>,
    listeners: AtomicUsize,
    /// True if a watcher for other processes runs.
    lookout: Mutex<bool>,
    /// Notified when there are no subscribers left.
    pub(crate) all_gone: Notify,
    retention: RwLock<Retention>,
}

impl Hub {
    /// Wakes all subscribers after a commit.
    pub(crate) fn ring(&self) {
        self.rings.send_modify(|count| *count = count.wrapping_add(1));
    }

    #[cfg(test)]
    pub(crate) fn is_manned(&self) -> bool {
        *self.lookout()
    }

    /// Behaves like a watcher that ends by a panic.
    #[cfg(test)]
    pub(crate) fn abandon(self: &Arc<Self>) {
        drop(Post::new(self));
    }

    fn has_listeners(&self) -> bool {
        self.listeners.load(Ordering::Acquire) > 0
    }

    pub(crate) fn retention(&self) -> Retention {
        *self.retention.read()
    }

    pub(crate) fn retain(&self, retention: Retention) {
        *self.retention.write() = retention;
    }

    fn lookout(&self) -> MutexGuard<'_, bool> {
        self.lookout.lock()
    }
}

/// Registration of the running watcher. However the watcher ends, with its runtime or by a panic,
/// subscribers wake and start another.
pub(crate) struct Post {
    pub(crate) hub: Arc<Hub>,
    is_left: bool,
}

impl Post {
    fn new(hub: &Arc<Hub>) -> Self {
        Self { hub: hub.clone(), is_left: false }
    }

    /// Ends the registration if there are no subscribers. Holds the lock that a new subscriber
    /// takes, so that none is left without a watcher.
    pub(crate) fn may_go(&mut self) -> bool {
        let mut is_manned = self.hub.lookout();
        if self.hub.has_listeners() {
            return false;
        }
        *is_manned = false;
        self.is_left = true;
        true
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        if !self.is_left {
            *self.hub.lookout() = false;
            self.hub.ring();
        }
    }
}

/// A subscriber.
pub(super) struct Listening {
    hub: Arc<Hub>,
    rings: watch::Receiver<u64>,
}

impl Listening {
    pub(super) fn to(store: &Store) -> Self {
        let hub = store.hub.clone();
        hub.listeners.fetch_add(1, Ordering::AcqRel);
        Self { rings: hub.rings.subscribe(), hub }
    }

    /// Forgets earlier notifications and starts a watcher if none runs.
    pub(super) fn begin(&mut self, store: &Store) {
        self.rings.borrow_and_update();
        let is_manned = std::mem::replace(&mut *self.hub.lookout(), true);
        if is_manned {
            return;
        }
        // Without a watcher, subscribers still query from time to time.
        let post = Post::new(&self.hub);
        match &store.engine {
            Engine::Sqlite(sqlite) => sqlite.watch(post),
            Engine::Postgres(postgres) => postgres.listen(post),
        }
    }

    pub(super) async fn heard(&mut self) {
        // The sender lives in `hub`, so it is not closed.
        let _ = self.rings.changed().await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.hub.listeners.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.hub.all_gone.notify_waiters();
        }
    }
}
