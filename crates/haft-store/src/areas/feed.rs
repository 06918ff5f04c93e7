//! The events of a store, numbered in commit order. A subscriber continues from a number, in any
//! process; it misses nothing and sees nothing twice, and learns which events were deleted before
//! it came.
//!
//! An event is written in the transaction of the change that it reports. Its number comes from a
//! row that stays locked until the commit. A sequence could give 7 and 8 to two transactions of
//! which the second commits first; a subscriber that has read 8 never asks for 7 again.

mod hub;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use haft_core::{
    BoxFuture, ErrorKind, ToolError,
    feed::{Feed, FeedEvent, FeedItem, FeedSubscription, MissedEvents},
};
use serde_json::Value as Json;
use tokio::time::Instant;

use self::hub::FeedListener;
pub(crate) use self::hub::{FeedHub, WatcherGuard};
use crate::{
    Store, StoreLocation,
    engine::{
        clock::now_ms,
        store::{EngineTransaction, Transaction},
        value::{SqlRow, Value},
    },
};

/// Increments the newest number and locks its row.
const NEXT: &str = "UPDATE event_head SET seq = seq + 1 WHERE id = 1 RETURNING seq";
const ADD: &str = "INSERT INTO events (seq, at_ms, kind, session, call_id, subject, body) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const HEAD: &str = "SELECT seq FROM event_head WHERE id = 1";
const PAGE: &str = "SELECT seq, at_ms, kind, session, call_id, subject, body FROM events \
    WHERE seq > $1 ORDER BY seq LIMIT $2";
/// The first event that is not too old. Later events stay, even if a clock that was set back dated
/// them earlier.
const FIRST_YOUNG: &str = "SELECT seq FROM events WHERE at_ms >= $1 ORDER BY seq LIMIT 1";
const FORGET: &str = "DELETE FROM events WHERE seq < $1";
/// PostgreSQL delivers the notification when the transaction commits.
const NOTIFY: &str = "SELECT pg_notify('haft_events', '')";

/// Maximum number of events read at once, which bounds the memory of a slow subscriber.
const PAGE_EVENTS: usize = 256;
/// Old events are deleted after this many announcements.
const CLEANUP_INTERVAL: u64 = 256;
/// Interval at which subscribers query without a notification, in case notifications fail.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a subscription retries while its store cannot be read: longer than a server takes to
/// restart.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits on the stored events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRetention {
    /// Maximum number of events.
    pub max_events: u64,
    /// Maximum age.
    pub max_age: Duration,
}

impl Default for EventRetention {
    fn default() -> Self {
        Self { max_events: 100_000, max_age: Duration::from_secs(30 * 86_400) }
    }
}

/// A new event.
#[derive(Clone, Copy, Debug)]
pub struct Announcement<'a> {
    /// Kind of the event, as in `approval.asked`.
    pub kind: &'a str,
    /// The session that it happened in.
    pub session: Option<&'a str>,
    /// The call that it belongs to.
    pub call: Option<&'a str>,
    /// Id of the request or rule that it happened to.
    pub subject: Option<&'a str>,
    /// Further data. Every process that can read the store can read it.
    pub body: &'a Json,
}

impl<'a> Announcement<'a> {
    /// Creates an event about a subject.
    pub fn of(kind: &'a str, subject: &'a str, body: &'a Json) -> Self {
        Self { kind, session: None, call: None, subject: Some(subject), body }
    }
}

/// The events of a store. Cheap to clone.
#[derive(Clone)]
pub struct StoreFeed(Arc<StoreLocation>);

impl StoreFeed {
    /// Creates a feed. Opens nothing.
    pub fn new(location: Arc<StoreLocation>) -> Self {
        Self(location)
    }

    /// Writes an event in a separate transaction. Returns its number.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be written.
    pub async fn announce(&self, what: &Announcement<'_>) -> Result<u64, ToolError> {
        let mut transaction = self.0.store().await?.begin().await?;
        let seq = transaction.announce(what).await?;
        transaction.commit().await?;
        Ok(seq)
    }
}

impl Feed for StoreFeed {
    fn newest(&self) -> BoxFuture<'_, Result<u64, ToolError>> {
        Box::pin(async move {
            match self.0.existing().await? {
                Some(store) => head(&store).await,
                None => Ok(0),
            }
        })
    }

    fn since(&self, seq: u64, most: usize) -> BoxFuture<'_, Result<Vec<FeedEvent>, ToolError>> {
        Box::pin(async move {
            match self.0.existing().await? {
                Some(store) => page(&store, seq, most).await,
                None => Ok(Vec::new()),
            }
        })
    }

    fn subscribe(&self, after: u64) -> Box<dyn FeedSubscription> {
        let location = self.0.clone();
        Box::new(StoreSubscription { location, after, page: VecDeque::new(), open: None })
    }
}

/// Holds at most one page of events.
struct StoreSubscription {
    location: Arc<StoreLocation>,
    after: u64,
    page: VecDeque<FeedEvent>,
    open: Option<OpenStore>,
}

struct OpenStore {
    store: Store,
    listener: FeedListener,
}

impl FeedSubscription for StoreSubscription {
    fn position(&self) -> u64 {
        self.after
    }

    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, ToolError>> {
        Box::pin(async move {
            let mut failing: Option<Instant> = None;
            loop {
                if let Some(event) = self.page.pop_front() {
                    self.after = event.seq;
                    return Ok(FeedItem::Event(event));
                }
                match self.fill_page().await {
                    Ok(Some(gap)) => return Ok(FeedItem::Missed(gap)),
                    Ok(None) if self.page.is_empty() => {
                        failing = None;
                        self.wait().await;
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let since = *failing.get_or_insert_with(Instant::now);
                        if error.kind() != ErrorKind::Unavailable || since.elapsed() > RETRY_TIMEOUT
                        {
                            return Err(error);
                        }
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            }
        })
    }
}

impl StoreSubscription {
    async fn wait(&mut self) {
        let wakeup = async {
            match &mut self.open {
                Some(open) => open.listener.changed().await,
                // No store yet: a process may create one at any time.
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let _ = tokio::time::timeout(POLL_INTERVAL, wakeup).await;
    }

    /// Fills the page. Returns a gap, if there is one.
    async fn fill_page(&mut self) -> Result<Option<MissedEvents>, ToolError> {
        let Some(store) = self.location.existing().await? else { return Ok(None) };
        let is_other = self.open.as_ref().is_some_and(|open| !open.store.is(&store));
        if is_other || self.open.is_none() {
            self.open =
                Some(OpenStore { listener: FeedListener::to(&store), store: store.clone() });
        }
        if is_other {
            // Another file replaced the store: the known numbers do not apply to it.
            return self.skip_to(head(&store).await?);
        }
        if let Some(open) = &mut self.open {
            // Before the query: an event that comes during it causes another query.
            open.listener.begin(&store);
        }
        let found = page(&store, self.after, PAGE_EVENTS).await?;
        match found.first() {
            Some(first) if first.seq > self.after + 1 => {
                let resumes_after = first.seq - 1;
                self.page = found.into();
                self.skip_to(resumes_after)
            }
            Some(_) => {
                self.page = found.into();
                Ok(None)
            }
            None => self.check_end(&store).await,
        }
    }

    async fn check_end(&mut self, store: &Store) -> Result<Option<MissedEvents>, ToolError> {
        let newest = head(store).await?;
        if newest == self.after {
            return Ok(None);
        }
        // An event may have come between the two queries.
        let found = page(store, self.after, PAGE_EVENTS).await?;
        if found.first().is_some_and(|first| first.seq == self.after + 1) {
            self.page = found.into();
            return Ok(None);
        }
        self.skip_to(newest)
    }

    fn skip_to(&mut self, seq: u64) -> Result<Option<MissedEvents>, ToolError> {
        let gap = MissedEvents { after: self.after, resumes_after: seq };
        self.after = seq;
        self.page.retain(|event| event.seq > seq);
        Ok(Some(gap))
    }
}

impl Transaction {
    /// Adds an event to this transaction. Call it last: it locks the event numbers until the
    /// commit, so all other writers of events wait. Returns its number.
    pub(crate) async fn announce(&mut self, what: &Announcement<'_>) -> Result<u64, ToolError> {
        let rows = self.query(NEXT, &[]).await?;
        let row = rows.first().ok_or_else(missing_head)?;
        let (seq, now) = (row.number(0)?, now_ms());
        let body = what.body.to_string();
        let texts = [what.session, what.call, what.subject].map(|text| text.map(kept));
        let [session, call, subject] = texts.each_ref().map(Option::as_deref);
        let values = [
            Value::number(seq),
            Value::number(now),
            Value::Text(what.kind),
            Value::maybe(session),
            Value::maybe(call),
            Value::maybe(subject),
            Value::Text(&body),
        ];
        self.execute(ADD, &values).await?;
        if seq.is_multiple_of(CLEANUP_INTERVAL) {
            self.forget_old_events(seq, now).await?;
        }
        if matches!(self.engine, EngineTransaction::Postgres(_)) {
            self.query_nothing(NOTIFY).await?;
        }
        self.has_events = true;
        Ok(seq)
    }

    async fn forget_old_events(&mut self, newest: u64, now: u64) -> Result<(), ToolError> {
        let EventRetention { max_events, max_age } = self.hub.retention();
        let max_age = u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX);
        let young = Value::number(now.saturating_sub(max_age));
        let rows = self.query(FIRST_YOUNG, &[young]).await?;
        // The event that is being added is young.
        let first_young = rows.first().map_or(Ok(newest), |row| row.number(0))?;
        let first = first_young.max(newest.saturating_sub(max_events.saturating_sub(1)));
        self.execute(FORGET, &[Value::number(first)]).await.map(|_| ())
    }
}

async fn head(store: &Store) -> Result<u64, ToolError> {
    let rows = store.query(HEAD, &[]).await?;
    rows.first().ok_or_else(missing_head)?.number(0)
}

async fn page(store: &Store, after: u64, most: usize) -> Result<Vec<FeedEvent>, ToolError> {
    let most = Value::number(u64::try_from(most).unwrap_or(u64::MAX));
    let rows = store.query(PAGE, &[Value::number(after), most]).await?;
    rows.iter().map(event).collect()
}

fn event(row: &SqlRow) -> Result<FeedEvent, ToolError> {
    let text = |column| Ok::<_, ToolError>(row.maybe_text(column)?.map(str::to_owned));
    let body = serde_json::from_str(row.text(6)?).map_err(|error| {
        ToolError::unavailable(format!("the store holds an event that is not JSON: {error}"))
            .hint("check the store with `haft store check`")
    })?;
    Ok(FeedEvent {
        seq: row.number(0)?,
        at_ms: row.number(1)?,
        kind: row.text(2)?.to_owned(),
        session: text(3)?,
        call: text(4)?,
        subject: text(5)?,
        body,
    })
}

/// Replaces NUL characters, which PostgreSQL cannot store.
fn kept(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn missing_head() -> ToolError {
    ToolError::unavailable("the store has lost the number of its newest event")
        .hint("restore a backup with `haft store restore FILE`")
}

#[cfg(test)]
mod tests;
