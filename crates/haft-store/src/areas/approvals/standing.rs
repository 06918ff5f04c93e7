//! Where requests stand, as somebody sees them who did not make them.

use std::path::PathBuf;

use haft_core::{ApprovalRecord, ApprovalState, ToolError};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    LEASE_MS, RENEWAL, StoreApprovals, heard_of,
    rows::{self, Kept},
};

/// So many are looked at: the newest.
const MOST: u64 = 1_000;

/// One request, and all that is known of it.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The request and its decision.
    pub record: ApprovalRecord,
    /// Where its call runs.
    pub workspace: PathBuf,
    /// Whether the process that asked is there.
    pub asker: Asker,
    /// When the call was taken up, in milliseconds since 1970.
    pub taken_ms: Option<u64>,
    /// What became of the call.
    pub fate: Fate,
}

/// The process that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Asker {
    /// It waits.
    There,
    /// It has not been heard of for some seconds.
    Gone,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It did not run.
    NotRun,
    /// It ran to its end, with this error if there was one.
    Ran(Option<String>),
    /// It began and its end is not in the ledger: it runs now, or its process was ended before it could say.
    Unknown,
}

/// All requests that this person may see.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    /// Oldest first.
    pub standings: Vec<Standing>,
    /// Rows that were not made by this person's haft, or were changed.
    pub foreign: usize,
}

/// Who runs an approved call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// It was taken up.
    Taken,
    /// The process that asked is gone: whoever wants may take it up.
    Free,
}

impl StoreApprovals {
    /// The newest requests of all workspaces in this store. None without a store.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    pub async fn standings(&self) -> Result<Standings, ToolError> {
        let Some(store) = self.place.existing().await? else { return Ok(Standings::default()) };
        let rows = rows::newest(&store, MOST).await?;
        if rows.is_empty() {
            return Ok(Standings::default());
        }
        let envelope = self.envelope()?;
        let mut found = Standings::default();
        for row in rows {
            let opened = envelope.as_ref().zip(row).and_then(|(envelope, (row, ended))| {
                row.open(envelope).ok().map(|kept| self.standing(self.seen_now(kept), ended))
            });
            match opened {
                Some(standing) => found.standings.push(standing),
                None => found.foreign += 1,
            }
        }
        Ok(found)
    }

    fn standing(&self, kept: Kept, ended: Option<String>) -> Standing {
        let now = self.now();
        let mut record = kept.record;
        // Nobody was left to say so.
        if record.state == ApprovalState::Pending && now >= record.request.expires_ms {
            record.state = ApprovalState::Expired;
        }
        let fate = match (record.taken_up, ended) {
            (false, _) => Fate::NotRun,
            (true, Some(error)) => Fate::Ran(Some(error).filter(|error| !error.is_empty())),
            // It was taken up just now and is about to begin.
            (true, None) if kept.begun_seq == Some(0) => Fate::NotRun,
            (true, None) => Fate::Unknown,
        };
        let asker = asker(kept.lease_ms, now);
        let (workspace, taken_ms) = (kept.workspace.into(), kept.taken_ms);
        Standing { record, workspace, asker, taken_ms, fate }
    }

    /// Waits until an approved call is taken up by who asked for it, or until they are gone.
    ///
    /// # Errors
    /// `conflict` when the request is not approved, `not_found` when there is none.
    pub async fn handed_over(&self, id: &str) -> Result<Handover, ToolError> {
        let events = self.events();
        let newest = self.persistently(|| events.newest()).await?;
        let mut news = events.subscribe(newest);
        loop {
            let (_, kept) = self.persistently(|| self.kept(id)).await?;
            if kept.record.taken_up {
                return Ok(Handover::Taken);
            }
            if kept.record.state != ApprovalState::Approved {
                return Err(haft_core::already_settled(&kept.record));
            }
            if kept.asker == self.name || asker(kept.lease_ms, self.now()) == Asker::Gone {
                return Ok(Handover::Free);
            }
            let _ = tokio::time::timeout_at(Instant::now() + RENEWAL / 4, heard_of(&mut news, id))
                .await;
        }
    }
}

/// A lease that holds longer than leases are given was given by a clock that has been set back since.
pub(super) fn asker(lease_ms: u64, now: u64) -> Asker {
    let is_there = lease_ms > now && lease_ms <= now.saturating_add(LEASE_MS);
    if is_there { Asker::There } else { Asker::Gone }
}
