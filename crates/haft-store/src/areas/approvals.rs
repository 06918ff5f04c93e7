//! Approval requests, visible to all processes of a user: one process asks, another decides, and
//! the recorded call runs at most once, even if a process is killed in between.
//!
//! A row is not trusted, because a store may have come with a cloned repository. So a request and
//! its decision are stored in envelopes that only this user's key opens (`seal.rs`), bound to id,
//! workspace and times. An approval counts by the contents of its envelope, never by a column. The
//! envelope is also why the exact input may be stored, including secrets, which the ledger would
//! redact: the call has to run as it was shown.
//!
//! The requester holds a lease on the request and renews it while waiting. While the lease holds,
//! only the requester may run an approved call; after that any process may, once. Claiming the
//! call renews the lease until the ledger says that the call begins: a call that was claimed but
//! never began may be claimed again. That a call ran is also noted beside the key
//! (`claim_notes.rs`). The clock only decides who may go first; the first process to claim the call
//! wins.
//!
//! If the store cannot be written, the user is asked all the same: the request then lives in this
//! process only, the caller learns that, and no other process can run it.

mod claim_notes;
mod rows;
mod status;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use haft_core::{
    ApprovalDecision, ApprovalRecord, ApprovalRequest, ApprovalState, Approvals, BoxFuture,
    ErrorKind, Inbox, MemoryApprovals, RequesterStatus, ToolError, already_settled,
    feed::{Feed, FeedItem, FeedSubscription},
    no_such_request,
};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

pub(crate) use self::rows::{BEGIN, END};
use self::rows::{SealedDecision, StoredRequest};
use crate::{
    Announcement, Store, StoreAddress, StoreFeed, StoreLocation,
    engine::{clock, value::Value},
    seal::{Envelope, SealKey},
};

/// Time after which a requester that does not renew its lease counts as gone, and the renewal
/// interval.
const LEASE_MS: u64 = 6_000;
const RENEW_INTERVAL: Duration = Duration::from_millis(LEASE_MS / 3);
/// Maximum time between a decision and its call. A store restored from a backup must not run the
/// call again.
const MAX_DECISION_AGE_MS: u64 = 3_600_000;
/// Time that settled requests are kept.
const RETENTION_MS: u64 = 30 * 86_400_000;
/// Limits for retrying while a server is away: when creating a request, which can be asked in
/// memory instead, and after that.
const CREATE_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// The approval requests of a workspace, in a store. Opens nothing before the first request.
pub struct StoreApprovals {
    location: Arc<StoreLocation>,
    workspace: String,
    key: PathBuf,
    /// Identifies this requester among all requesters.
    name: String,
    is_wanted: fn() -> bool,
    clock: fn() -> u64,
    /// Requests that could not or should not be stored.
    memory: MemoryApprovals,
    troubles: Mutex<HashMap<String, String>>,
}

/// The reason why a request is not in the store, or may not be.
enum CreateError {
    NotWritten(ToolError),
    Unclear(ToolError),
}

impl StoreApprovals {
    /// Creates the requests of `workspace`. `state` is the directory of the user's key.
    pub fn new(location: Arc<StoreLocation>, workspace: &Path, state: &Path) -> Self {
        Self {
            location,
            workspace: workspace.to_string_lossy().into_owned(),
            key: state.join("rules.key"),
            name: format!("{}-{:016x}", std::process::id(), random_number()),
            is_wanted: || true,
            clock: clock::now_ms,
            memory: MemoryApprovals::default(),
            troubles: Mutex::default(),
        }
    }

    /// Sets a function that is called before each request and decides if other processes see it. A
    /// request that is refused at once does not concern them.
    #[must_use]
    pub fn only_when(mut self, is_wanted: fn() -> bool) -> Self {
        self.is_wanted = is_wanted;
        self
    }

    /// Sets another clock.
    #[doc(hidden)]
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> u64) -> Self {
        self.clock = clock;
        self
    }

    fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Returns the envelope that opens requests. `None` for a user without a key, who cannot have
    /// stored any.
    fn envelope(&self) -> Result<Option<Envelope>, ToolError> {
        Ok(SealKey::existing(&self.key)?.map(|key| key.envelope()))
    }

    async fn is_in_memory(&self, id: &str) -> bool {
        matches!(self.memory.get(id).await, Ok(Some(_)))
    }

    fn feed(&self) -> StoreFeed {
        StoreFeed::new(self.location.clone())
    }

    async fn keep(&self, request: Arc<ApprovalRequest>) -> Result<(), ToolError> {
        if !(self.is_wanted)() {
            return self.memory.create(request).await;
        }
        match self.write(&request).await {
            Ok(()) => Ok(()),
            Err(CreateError::NotWritten(error)) => {
                self.note(&request.id, &error);
                self.memory.create(request).await
            }
            // Another process may see it and run it: asked here as well, it could run twice.
            Err(CreateError::Unclear(error)) => Err(error),
        }
    }

    fn note(&self, id: &str, error: &ToolError) {
        let mut troubles = self.troubles.lock();
        // Callers read it during the call, so old entries can go.
        if troubles.len() > 1_000 {
            troubles.clear();
        }
        troubles.insert(id.to_owned(), error.to_string());
    }

    async fn write(&self, request: &ApprovalRequest) -> Result<(), CreateError> {
        let key = SealKey::made(&self.key).map_err(CreateError::NotWritten)?;
        let closed = rows::close(&key.envelope(), request, &self.workspace);
        let closed = closed.map_err(CreateError::NotWritten)?;
        let until = Instant::now() + CREATE_TIMEOUT;
        let mut is_certain = true;
        loop {
            let tried = self.write_once(request, &closed, is_certain).await;
            let error = match tried {
                Ok(()) => return Ok(()),
                Err(CreateError::NotWritten(error)) => error,
                Err(CreateError::Unclear(error)) => {
                    is_certain = false;
                    error
                }
            };
            if !self.wait_to_retry(&error, until).await {
                return Err(match is_certain {
                    true => CreateError::NotWritten(error),
                    false => CreateError::Unclear(error),
                });
            }
        }
    }

    async fn write_once(
        &self,
        request: &ApprovalRequest,
        closed: &[u8],
        is_new: bool,
    ) -> Result<(), CreateError> {
        let store = self.location.store().await.map_err(CreateError::NotWritten)?;
        if !is_new
            && rows::one(&store, &request.id).await.map_err(CreateError::NotWritten)?.is_some()
        {
            return Ok(());
        }
        let written = async {
            let mut transaction = store.begin().await?;
            let now = self.now();
            let long_ago = Value::number(now.saturating_sub(RETENTION_MS));
            transaction.execute(rows::FORGET, &[long_ago, long_ago]).await?;
            let row = [
                Value::Text(&request.id),
                Value::Text(&self.workspace),
                Value::Text(&request.call_id),
                Value::number(request.created_ms),
                Value::number(request.expires_ms),
                Value::Bytes(closed),
                Value::Text(&self.name),
                Value::number(now.saturating_add(LEASE_MS)),
            ];
            transaction.execute(rows::ADD, &row).await?;
            let body = json!({"workspace": self.workspace});
            transaction.announce(&announcement("approval.asked", request, &body)).await?;
            Ok(transaction)
        };
        let transaction = written.await.map_err(CreateError::NotWritten)?;
        // SQLite reports for certain that it wrote nothing; a server may have committed and lost
        // the connection.
        let committed = transaction.commit().await;
        committed.map_err(match self.location.address() {
            StoreAddress::Sqlite(_) => CreateError::NotWritten,
            StoreAddress::Postgres(_) => CreateError::Unclear,
        })
    }

    /// Waits before a retry, if one makes sense: a restarted server comes back.
    async fn wait_to_retry(&self, error: &ToolError, until: Instant) -> bool {
        let is_away = error.kind() == ErrorKind::Unavailable
            && matches!(self.location.address(), StoreAddress::Postgres(_))
            && Instant::now() < until;
        if is_away {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        is_away
    }

    /// Retries while the server is away. Only for operations that may run twice.
    async fn with_retries<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, ToolError>
    where
        F: Future<Output = Result<T, ToolError>>,
    {
        let until = Instant::now() + RETRY_TIMEOUT;
        loop {
            match attempt().await {
                Err(error) if self.wait_to_retry(&error, until).await => {}
                done => return done,
            }
        }
    }

    /// Returns the store and a request in it. `not_found` for one of another workspace.
    async fn kept(&self, id: &str) -> Result<(Store, StoredRequest), ToolError> {
        let (store, kept) = self.opened(id).await?;
        if kept.workspace == self.workspace { Ok((store, kept)) } else { Err(no_such_request(id)) }
    }

    /// Returns the store and a request in it, of any workspace.
    async fn opened(&self, id: &str) -> Result<(Store, StoredRequest), ToolError> {
        let store = self.location.existing().await?.ok_or_else(|| no_such_request(id))?;
        let row = rows::one(&store, id).await?.ok_or_else(|| no_such_request(id))?;
        let envelope = self.envelope()?.ok_or_else(|| rows::foreign(id))?;
        Ok((store, self.free_expired_claim(row.open(&envelope)?)))
    }

    /// Frees a call that was claimed but did not begin before its lease ended: the process that
    /// claimed it is gone, or will find its claim lost.
    fn free_expired_claim(&self, mut kept: StoredRequest) -> StoredRequest {
        let is_free = kept.begun_seq == Some(0)
            && status::requester_status(kept.lease_ms, self.now()) == RequesterStatus::Gone;
        kept.record.is_claimed &= !is_free;
        kept
    }

    async fn find(&self, id: &str) -> Result<Option<ApprovalRecord>, ToolError> {
        match self.with_retries(|| self.kept(id)).await {
            Ok((_, kept)) => Ok(Some(kept.record)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn end(
        &self,
        id: &str,
        state: ApprovalState,
        verdict: Option<ApprovalDecision>,
    ) -> Result<ApprovalRecord, ToolError> {
        // Identifies this decision, to recognize it on a retry after an unclear commit.
        let token = format!("{}-{:016x}", self.name, random_number());
        self.with_retries(|| self.end_once(id, state, verdict.as_ref(), &token)).await
    }

    async fn end_once(
        &self,
        id: &str,
        state: ApprovalState,
        verdict: Option<&ApprovalDecision>,
        token: &str,
    ) -> Result<ApprovalRecord, ToolError> {
        let (store, kept) = self.kept(id).await?;
        let is_ours = kept.decided_by.as_deref() == Some(token);
        if is_ours && kept.record.state == state {
            return Ok(kept.record);
        }
        if kept.record.state != ApprovalState::Pending {
            return Err(already_settled(&kept.record));
        }
        // A decision after the expiry does not count.
        let now = self.now();
        let is_late = matches!(state, ApprovalState::Approved | ApprovalState::Denied)
            && now >= kept.record.request.expires_ms;
        let (state, verdict) =
            if is_late { (ApprovalState::Expired, None) } else { (state, verdict) };
        let envelope = self.envelope()?.ok_or_else(|| rows::foreign(id))?;
        let decision = SealedDecision { state, verdict: verdict.cloned(), decided_ms: now };
        let closed = decision.close(&envelope, &kept)?;
        let mut transaction = store.begin().await?;
        let name = state.to_string();
        let change =
            [Value::Text(&name), Value::Bytes(&closed), Value::Text(token), Value::Text(id)];
        if transaction.execute(rows::SETTLE, &change).await? == 0 {
            drop(transaction);
            let (_, kept) = self.kept(id).await?;
            return Err(already_settled(&kept.record));
        }
        let body = json!({"state": state});
        transaction
            .announce(&announcement("approval.decided", &kept.record.request, &body))
            .await?;
        transaction.commit().await?;
        let record = ApprovalRecord { state, verdict: verdict.cloned(), ..kept.record };
        if is_late { Err(already_settled(&record)) } else { Ok(record) }
    }

    /// Waits for a decision and renews the lease.
    async fn wait(&self, id: &str) -> Result<ApprovalRecord, ToolError> {
        let feed = self.feed();
        let newest = self.with_retries(|| feed.newest()).await?;
        let mut subscription = feed.subscribe(newest);
        loop {
            let (_, kept) = self.with_retries(|| self.kept(id)).await?;
            if kept.record.state != ApprovalState::Pending {
                return Ok(kept.record);
            }
            let left = kept.record.request.expires_ms.saturating_sub(self.now());
            if left == 0 {
                match self.end(id, ApprovalState::Expired, None).await {
                    Err(error) if error.kind() == ErrorKind::Conflict => continue,
                    ended => return ended,
                }
            }
            self.renew(id).await;
            let until = Instant::now() + RENEW_INTERVAL.min(Duration::from_millis(left));
            let _ = tokio::time::timeout_at(until, next_event_of(&mut subscription, id)).await;
        }
    }

    /// Renews the lease. If that fails, the lease ends and other processes may go first.
    async fn renew(&self, id: &str) {
        let renewed = async {
            let Some(store) = self.location.existing().await? else { return Ok(()) };
            let mut transaction = store.begin().await?;
            let lease = Value::number(self.now().saturating_add(LEASE_MS));
            let lease = [lease, Value::Text(id), Value::Text(&self.name)];
            transaction.execute(rows::RENEW, &lease).await?;
            transaction.commit().await
        };
        let _: Result<(), ToolError> = renewed.await;
    }

    async fn claim_request(&self, id: &str) -> Result<ApprovalRecord, ToolError> {
        let token = format!("{}-{:016x}", self.name, random_number());
        self.with_retries(|| self.claim_once(id, &token)).await
    }

    async fn claim_once(&self, id: &str, token: &str) -> Result<ApprovalRecord, ToolError> {
        let (store, kept) = self.kept(id).await?;
        if kept.taken_by.as_deref() == Some(token) {
            return Ok(kept.record);
        }
        if kept.record.state != ApprovalState::Approved || kept.record.is_claimed {
            return Err(already_settled(&kept.record));
        }
        let now = self.now();
        if now.saturating_sub(kept.decided_ms) > MAX_DECISION_AGE_MS {
            let message = format!("approval request `{id}` was approved too long ago");
            return Err(ToolError::conflict(message).hint("make the call again"));
        }
        // With a ledger, a call counts as run from its beginning there; until then it is claimed.
        let has_ledger = self.location.has_ledger();
        let mut transaction = store.begin().await?;
        let values = [
            Value::Text(token),
            Value::number(now),
            if has_ledger { Value::number(0) } else { Value::Null },
            Value::number(now.saturating_add(LEASE_MS)),
            Value::Text(id),
            Value::Text(&self.name),
            Value::number(now),
        ];
        if transaction.execute(rows::TAKE, &values).await? == 0 {
            drop(transaction);
            let (_, kept) = self.kept(id).await?;
            return Err(match kept.record.is_claimed {
                true => already_settled(&kept.record),
                false => ToolError::conflict(format!(
                    "approval request `{id}` is approved, and the process that made it is about to run its call"
                ))
                .hint("there is nothing left to do"),
            });
        }
        let is_first = match has_ledger {
            true => claim_notes::may_be_noted(&self.key, id)?,
            false => claim_notes::note(&self.key, id, token)?,
        };
        if !is_first {
            return Err(already_settled(&ApprovalRecord { is_claimed: true, ..kept.record }));
        }
        transaction
            .announce(&announcement("approval.taken", &kept.record.request, &json!({})))
            .await?;
        transaction.commit().await?;
        Ok(ApprovalRecord { is_claimed: true, claim: Some(token.to_owned()), ..kept.record })
    }

    /// Notes beside the key that the call runs, so that it never runs again.
    async fn note_begun(&self, id: &str) -> Result<(), ToolError> {
        let (_, kept) = self.with_retries(|| self.kept(id)).await?;
        let claim = kept.taken_by.as_deref().unwrap_or_default();
        match claim_notes::note(&self.key, id, claim)? {
            true => Ok(()),
            false => Err(already_settled(&kept.record)),
        }
    }

    async fn of_workspace(
        &self,
        state: Option<ApprovalState>,
    ) -> Result<Vec<ApprovalRecord>, ToolError> {
        let all = self.entries().await?.entries.into_iter();
        let own = all.filter(|entry| entry.workspace == Path::new(&self.workspace));
        let mut records: Vec<ApprovalRecord> = own.map(|entry| entry.record).collect();
        records.extend(self.memory.list(None).await?);
        records.retain(|record| state.is_none_or(|state| record.state == state));
        records.sort_by_key(|record| (record.request.created_ms, record.request.id.clone()));
        Ok(records)
    }
}

impl Approvals for StoreApprovals {
    fn create(&self, request: Arc<ApprovalRequest>) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(self.keep(request))
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<ApprovalRecord>, ToolError>> {
        Box::pin(async move {
            match self.memory.get(id).await? {
                Some(record) => Ok(Some(record)),
                None => self.find(id).await,
            }
        })
    }

    fn list(
        &self,
        state: Option<ApprovalState>,
    ) -> BoxFuture<'_, Result<Vec<ApprovalRecord>, ToolError>> {
        Box::pin(self.of_workspace(state))
    }

    fn settle<'a>(
        &'a self,
        id: &'a str,
        state: ApprovalState,
        verdict: Option<ApprovalDecision>,
    ) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>> {
        Box::pin(async move {
            if self.is_in_memory(id).await {
                return self.memory.settle(id, state, verdict).await;
            }
            self.end(id, state, verdict).await
        })
    }

    fn settled<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>> {
        Box::pin(async move {
            if self.is_in_memory(id).await {
                return self.memory.settled(id).await;
            }
            self.wait(id).await
        })
    }

    fn claim<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>> {
        Box::pin(async move {
            if self.is_in_memory(id).await {
                return self.memory.claim(id).await;
            }
            self.claim_request(id).await
        })
    }

    fn mark_started<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            if self.is_in_memory(id).await || !self.location.has_ledger() {
                return Ok(());
            }
            self.note_begun(id).await
        })
    }

    fn local_only_reason(&self, id: &str) -> Option<String> {
        self.troubles.lock().get(id).cloned()
    }
}

/// Waits for an event of a request, or for missed events.
async fn next_event_of(subscription: &mut Box<dyn FeedSubscription>, id: &str) {
    loop {
        match subscription.next().await {
            Ok(FeedItem::Event(event)) if event.subject.as_deref() != Some(id) => {}
            Ok(_) => return,
            // The next query reports the error.
            Err(_) => return,
        }
    }
}

fn announcement<'a>(
    kind: &'a str,
    request: &'a ApprovalRequest,
    body: &'a Json,
) -> Announcement<'a> {
    Announcement {
        session: Some(&request.session),
        call: Some(&request.call_id),
        ..Announcement::of(kind, &request.id, body)
    }
}

/// Returns a random number.
fn random_number() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness, time and process id still distinguish most values; the number grants
    // nothing.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_le_bytes(bytes) ^ clock::now_ms()
}
