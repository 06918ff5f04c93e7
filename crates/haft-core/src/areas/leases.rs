//! Leases: which process works on something, until when. A claim holds until its time is over or it
//! is released; a heartbeat extends it. Every claim has its own token, so that requests of an
//! earlier owner are refused.

use std::time::Duration;

use crate::{BoxFuture, ToolError};

/// Claims on items, visible to all processes that share a store.
pub trait Leases: Send + Sync {
    /// Claims an item by its name for a time.
    ///
    /// # Errors
    /// Of kind `conflict`, naming the owner, if it is already claimed.
    fn claim<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Lease, ToolError>>;

    /// Offers an item to [`Leases::claim_next`]. Does nothing if it already exists.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn offer<'a>(&'a self, kind: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Claims the first free item of a kind, by name; `None` if there is none.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn claim_next<'a>(
        &'a self,
        kind: &'a str,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Option<Lease>, ToolError>>;

    /// Extends the lease from now on.
    ///
    /// # Errors
    /// Of kind `conflict` if another process has claimed the item since: stop working on it.
    fn heartbeat<'a>(
        &'a self,
        lease: &'a Lease,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Checks that the lease still belongs to its owner.
    ///
    /// # Errors
    /// Of kind `conflict` if it does not.
    fn check<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Releases the item, so that it can be claimed at once.
    ///
    /// # Errors
    /// Of kind `conflict` if another process has claimed the item since; its claim stays.
    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Removes an item that is done.
    ///
    /// # Errors
    /// Of kind `conflict` if another process has claimed the item since; its claim stays.
    fn finish<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), ToolError>>;
}

/// A claim on an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The kind of item: `job`, `task` …
    pub kind: String,
    /// The name of the item.
    pub name: String,
    /// The process that claimed it.
    pub owner: String,
    /// Counts the claims of this item. A later claim has a larger number, independent of clocks.
    pub generation: u64,
    /// Proves this claim to the store.
    pub token: String,
}
