//! Leases: which process works on something, until when. A claim holds until its time is over or it is given back; a
//! heartbeat gives it more time. Every claim has its own token: what an earlier owner does in its name is refused.

use std::time::Duration;

use crate::{BoxFuture, ToolError};

/// Claims on things, seen by all processes that share a store.
pub trait Leases: Send + Sync {
    /// Claims a thing by its name, for so long.
    ///
    /// # Errors
    /// Of kind `conflict`, naming the owner, when it is claimed already.
    fn claim<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Lease, ToolError>>;

    /// Offers a thing to [`Leases::claim_next`]. Does nothing when it is there already.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn offer<'a>(&'a self, kind: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Claims the first free thing of a kind, by name; none when there is none.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn claim_next<'a>(
        &'a self,
        kind: &'a str,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Option<Lease>, ToolError>>;

    /// More time, from now on.
    ///
    /// # Errors
    /// Of kind `conflict` when the lease has another owner by now: stop working on it.
    fn heartbeat<'a>(
        &'a self,
        lease: &'a Lease,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Checks that the lease still is its owner's: nothing else has claimed the thing since.
    ///
    /// # Errors
    /// Of kind `conflict` when it is not.
    fn check<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Gives the thing back; it can be claimed at once.
    ///
    /// # Errors
    /// Of kind `conflict` when it has another owner by now; then it stays theirs.
    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Removes a thing that is done.
    ///
    /// # Errors
    /// Of kind `conflict` when it has another owner by now; then it stays theirs.
    fn finish<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), ToolError>>;
}

/// A claim on something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What sort of thing it is: `job`, `task` …
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The claimant.
    pub owner: String,
    /// Counts the claims of this thing. A later one has a larger number, whatever clocks say.
    pub generation: u64,
    /// Proves this claim to the store.
    pub token: String,
}
