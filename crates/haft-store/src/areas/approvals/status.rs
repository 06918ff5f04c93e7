//! The status of requests, for processes that did not make them.

use std::path::Path;

use haft_core::{
    ApprovalDecision, ApprovalRecord, ApprovalState, Approvals, BoxFuture, CallClaim, CallResult,
    Inbox, InboxEntry, InboxListing, RequesterStatus, ToolError, feed::Feed,
};
use tokio::time::Instant;

use super::{
    LEASE_MS, RENEW_INTERVAL, StoreApprovals, next_event_of,
    rows::{self, StoredRequest},
};

/// Maximum number of requests listed: the newest.
const MAX_LISTED: u64 = 1_000;

impl StoreApprovals {
    /// Returns the approvals of the workspace of a request.
    async fn of(&self, id: &str) -> Result<Self, ToolError> {
        let (_, kept) = self.with_retries(|| self.opened(id)).await?;
        let state = self.key.parent().unwrap_or(Path::new(""));
        let of = Self::new(self.location.clone(), Path::new(&kept.workspace), state);
        Ok(Self { name: self.name.clone(), clock: self.clock, ..of })
    }

    fn inbox_entry(&self, kept: StoredRequest, ended: Option<String>) -> InboxEntry {
        let now = self.now();
        let mut record = kept.record;
        // The process that would have recorded the expiry may be gone.
        if record.state == ApprovalState::Pending && now >= record.request.expires_ms {
            record.state = ApprovalState::Expired;
        }
        let result = match (record.is_claimed, ended) {
            (false, _) => CallResult::NotRun,
            (true, Some(error)) => CallResult::Ran(Some(error).filter(|error| !error.is_empty())),
            // It was just claimed and is about to begin.
            (true, None) if kept.begun_seq == Some(0) => CallResult::NotRun,
            (true, None) => CallResult::Unknown,
        };
        let requester = requester_status(kept.lease_ms, now);
        let (workspace, taken_ms) = (kept.workspace.into(), kept.taken_ms);
        InboxEntry { record, workspace, requester, taken_ms, result }
    }

    async fn until_claimed(&self, id: &str) -> Result<CallClaim, ToolError> {
        let feed = self.feed();
        let newest = self.with_retries(|| feed.newest()).await?;
        let mut subscription = feed.subscribe(newest);
        loop {
            let (_, kept) = self.with_retries(|| self.opened(id)).await?;
            if kept.record.is_claimed {
                return Ok(CallClaim::Taken);
            }
            if kept.record.state != ApprovalState::Approved {
                return Err(haft_core::already_settled(&kept.record));
            }
            if kept.asker == self.name
                || requester_status(kept.lease_ms, self.now()) == RequesterStatus::Gone
            {
                return Ok(CallClaim::Free);
            }
            let _ = tokio::time::timeout_at(
                Instant::now() + RENEW_INTERVAL / 4,
                next_event_of(&mut subscription, id),
            )
            .await;
        }
    }
}

impl Inbox for StoreApprovals {
    fn entries(&self) -> BoxFuture<'_, Result<InboxListing, ToolError>> {
        Box::pin(async move {
            let Some(store) = self.location.existing().await? else {
                return Ok(InboxListing::default());
            };
            let rows = rows::newest(&store, MAX_LISTED).await?;
            if rows.is_empty() {
                return Ok(InboxListing::default());
            }
            let envelope = self.envelope()?;
            let mut found = InboxListing::default();
            for row in rows {
                let opened = envelope.as_ref().zip(row).and_then(|(envelope, (row, ended))| {
                    row.open(envelope)
                        .ok()
                        .map(|kept| self.inbox_entry(self.free_expired_claim(kept), ended))
                });
                match opened {
                    Some(entry) => found.entries.push(entry),
                    None => found.foreign += 1,
                }
            }
            Ok(found)
        })
    }

    fn decide<'a>(
        &'a self,
        id: &'a str,
        state: ApprovalState,
        verdict: ApprovalDecision,
    ) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>> {
        Box::pin(async move { self.of(id).await?.settle(id, state, Some(verdict)).await })
    }

    fn wait_for_claim<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<CallClaim, ToolError>> {
        Box::pin(self.until_claimed(id))
    }
}

/// A lease longer than haft gives was given before the clock was set back, and does not count.
pub(super) fn requester_status(lease_ms: u64, now: u64) -> RequesterStatus {
    let is_valid = lease_ms > now && lease_ms <= now.saturating_add(LEASE_MS);
    if is_valid { RequesterStatus::There } else { RequesterStatus::Gone }
}
