//! The feed: what has happened, numbered in the order of the commits. A subscriber goes on from a number, in whatever
//! process, misses nothing and sees nothing twice; one that comes too late is told what is gone.

use serde::Serialize;
use serde_json::Value;

use crate::{BoxFuture, ToolError};

/// The numbered events of a store.
pub trait Feed: Send + Sync {
    /// The number of the newest event; 0 when there is none, or no store.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    fn newest(&self) -> BoxFuture<'_, Result<u64, ToolError>>;

    /// At most `most` events after a number, oldest first. The first is not the next number when events are gone.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    fn since(&self, seq: u64, most: usize) -> BoxFuture<'_, Result<Vec<FeedEvent>, ToolError>>;

    /// Everything after a number, as it comes.
    fn subscribe(&self, after: u64) -> Box<dyn FeedSubscription>;
}

/// What one subscriber still has to see. It may be dropped and begun again at its position.
pub trait FeedSubscription: Send {
    /// The number of the newest event that was handed out.
    fn position(&self) -> u64;

    /// The next thing that happened. The future may be dropped at any time without losing anything. A store that cannot
    /// be read is tried again for half a minute before that is an error, and may be asked again after it.
    ///
    /// # Errors
    /// `unavailable` when the store has not been readable for so long.
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, ToolError>>;
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FeedEvent {
    /// Its number: from 1, without gaps, in the order of the commits.
    pub seq: u64,
    /// When, in milliseconds since 1970, by the clock of the process that wrote it.
    pub at_ms: u64,
    /// What sort of thing.
    pub kind: String,
    /// The session.
    pub session: Option<String>,
    /// The call.
    pub call: Option<String>,
    /// What it happened to.
    pub subject: Option<String>,
    /// Whatever else there is to say.
    pub body: Value,
}

/// What a subscriber is given.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// The next thing that happened.
    Event(FeedEvent),
    /// Something is missing here: look at the present state anew.
    Missed(MissedEvents),
}

/// Events that cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MissedEvents {
    /// The newest that was seen before.
    pub after: u64,
    /// The next that will be seen is behind this one. Smaller than `after` when another store has taken the place.
    pub resumes_after: u64,
}
