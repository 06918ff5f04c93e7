//! The location of a store. The store is opened when it is first needed, and opened again when its
//! file was removed or replaced: after `git clean`, haft must not write into a deleted file.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::ToolError;

use crate::{EventRetention, Store, StoreAddress, engine::sqlite::IfMissing};

/// An address and, once it is open, the store there.
pub struct StoreLocation {
    address: StoreAddress,
    retention: EventRetention,
    open: Mutex<Option<Store>>,
    /// True if this process records calls here, with an entry before each call that changes
    /// something.
    has_ledger: AtomicBool,
    /// Held while opening, so that the process opens the store once.
    opening: tokio::sync::Mutex<()>,
}

impl StoreLocation {
    /// Creates a location. Opens nothing.
    pub fn new(address: StoreAddress) -> Arc<Self> {
        Self::with_retention(address, EventRetention::default())
    }

    /// Creates a location with a limit on the stored events. Opens nothing.
    pub fn with_retention(address: StoreAddress, retention: EventRetention) -> Arc<Self> {
        let (open, opening) = (Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Self { address, retention, open, has_ledger: AtomicBool::new(false), opening })
    }

    pub(crate) fn has_ledger(&self) -> bool {
        self.has_ledger.load(Ordering::Relaxed)
    }

    pub(crate) fn note_ledger(&self) {
        self.has_ledger.store(true, Ordering::Relaxed);
    }

    /// Returns the address.
    pub fn address(&self) -> &StoreAddress {
        &self.address
    }

    /// Returns the store. Creates it if there is none.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn store(&self) -> Result<Store, ToolError> {
        let opened = self.opened(IfMissing::Create).await?;
        opened.ok_or_else(|| ToolError::internal(format!("the store {} is gone", self.address)))
    }

    /// Returns the store if there is one.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn existing(&self) -> Result<Option<Store>, ToolError> {
        self.opened(IfMissing::ReturnNone).await
    }

    async fn opened(&self, if_missing: IfMissing) -> Result<Option<Store>, ToolError> {
        if let Some(store) = self.current() {
            return Ok(Some(store));
        }
        if if_missing == IfMissing::ReturnNone && !self.may_exist() {
            return Ok(None);
        }
        let _opening = self.opening.lock().await;
        if let Some(store) = self.current() {
            return Ok(Some(store));
        }
        let store = match if_missing {
            IfMissing::Create => Some(Store::open(&self.address).await?),
            IfMissing::ReturnNone => Store::existing(&self.address).await?,
        };
        if let Some(store) = &store {
            store.hub.retain(self.retention);
        }
        self.open_store().clone_from(&store);
        Ok(store)
    }

    fn current(&self) -> Option<Store> {
        let mut open_store = self.open_store();
        if open_store.as_ref().is_some_and(|store| !store.is_in_place()) {
            *open_store = None;
        }
        open_store.clone()
    }

    fn may_exist(&self) -> bool {
        match &self.address {
            // Not `exists`: opening must report a path that cannot be inspected, instead of
            // ignoring it.
            StoreAddress::Sqlite(path) => path
                .symlink_metadata()
                .map_or_else(|e| e.kind() != std::io::ErrorKind::NotFound, |_| true),
            StoreAddress::Postgres(_) => true,
        }
    }

    fn open_store(&self) -> MutexGuard<'_, Option<Store>> {
        self.open.lock()
    }
}
