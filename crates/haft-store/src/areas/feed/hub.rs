//! Who waits for events in this process, and what wakes them: a commit of our own at once, those of other processes by
//! whatever the engine has for that. It runs only while somebody waits.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::{Mutex, MutexGuard, RwLock};

use tokio::sync::{Notify, watch};

use super::Retention;
use crate::{Store, engine::store::Engine};

/// The bell of an open store.
#[derive(Default)]
pub(crate) struct Hub {
    rings: watch::Sender<u64>,
    listeners: AtomicUsize,
    /// Whether somebody looks out for other processes.
    lookout: Mutex<bool>,
    /// Said when nobody listens any more.
    pub(crate) all_gone: Notify,
    retention: RwLock<Retention>,
}

impl Hub {
    /// Something was committed.
    pub(crate) fn ring(&self) {
        self.rings.send_modify(|count| *count = count.wrapping_add(1));
    }

    #[cfg(test)]
    pub(crate) fn is_manned(&self) -> bool {
        *self.lookout()
    }

    /// As a lookout does that ends by a panic.
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

/// The place of whoever looks out. However it is left, with its runtime or by a panic, those who listen are told, and look
/// for another.
pub(crate) struct Post {
    pub(crate) hub: Arc<Hub>,
    is_left: bool,
}

impl Post {
    fn new(hub: &Arc<Hub>) -> Self {
        Self { hub: hub.clone(), is_left: false }
    }

    /// Leaves when nobody listens. Under the lock that a new listener takes, so that none is left alone.
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

/// One who listens.
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

    /// From here on every ring is heard; and somebody looks out.
    pub(super) fn begin(&mut self, store: &Store) {
        self.rings.borrow_and_update();
        let is_manned = std::mem::replace(&mut *self.hub.lookout(), true);
        if is_manned {
            return;
        }
        // Without it those who listen look for themselves now and then.
        let post = Post::new(&self.hub);
        match &store.engine {
            Engine::Sqlite(sqlite) => sqlite.watch(post),
            Engine::Postgres(postgres) => postgres.listen(post),
        }
    }

    pub(super) async fn heard(&mut self) {
        // The sender lives in the hub that we hold.
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
