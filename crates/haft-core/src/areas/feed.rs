//! The feed: events numbered in the order of the commits. A subscriber continues from a number, in
//! any process, misses nothing and sees nothing twice. If events are no longer available, it gets a
//! gap.

use serde::Serialize;
use serde_json::Value;

use crate::{BoxFuture, ToolError};

/// The numbered events of a store.
pub trait Feed: Send + Sync {
    /// The number of the newest event; 0 if there is none, or no store.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    fn newest(&self) -> BoxFuture<'_, Result<u64, ToolError>>;

    /// Returns at most `limit` events after a number, oldest first. If events are gone, the first
    /// one does not have the next number.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    fn since(&self, seq: u64, limit: usize) -> BoxFuture<'_, Result<Vec<FeedEvent>, ToolError>>;

    /// Subscribes to all events after a number.
    fn subscribe(&self, after: u64) -> Box<dyn FeedSubscription>;
}

/// The remaining events of one subscriber. It may be dropped and created again at its position.
pub trait FeedSubscription: Send {
    /// The number of the newest event that was returned.
    fn position(&self) -> u64;

    /// Returns the next item. The future may be dropped at any time without losing anything. A
    /// store that cannot be read is retried for half a minute before this fails, and may be asked
    /// again after that.
    ///
    /// # Errors
    /// `unavailable` when the store was not readable for that time.
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, ToolError>>;
}

/// An event in a store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FeedEvent {
    /// The number of the event: from 1, without gaps, in the order of the commits.
    pub seq: u64,
    /// Time in milliseconds since 1970, by the clock of the process that wrote it.
    pub at_ms: u64,
    /// The kind of event.
    pub kind: String,
    /// The session.
    pub session: Option<String>,
    /// The call.
    pub call: Option<String>,
    /// The thing that the event is about.
    pub subject: Option<String>,
    /// Further details.
    pub body: Value,
}

/// An item of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// The next event.
    Event(FeedEvent),
    /// Events are missing: read the current state again.
    Missed(MissedEvents),
}

/// Events that are no longer available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MissedEvents {
    /// The newest event that was seen before.
    pub after: u64,
    /// The next event will be after this number. Smaller than `after` if the store was replaced by
    /// another one.
    pub resumes_after: u64,
}
