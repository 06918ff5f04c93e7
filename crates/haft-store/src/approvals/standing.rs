//! Where requests stand, as somebody sees them who did not make them.

use std::path::PathBuf;

use haft_core::{ApprovalRecord, ApprovalState, ErrorKind, ToolError};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    LEASE_MS, RENEWAL, StoreApprovals, heard_of,
    rows::{self, Kept},
};
use crate::{Store, value::Value};

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
    /// It was taken up and is not in the ledger: it runs now, or its process was ended before it could say.
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
            match envelope.as_ref().map(|envelope| row.open(envelope)) {
                Some(Ok(kept)) => found.standings.push(self.standing(&store, kept).await?),
                _ => found.foreign += 1,
            }
        }
        Ok(found)
    }

    async fn standing(&self, store: &Store, kept: Kept) -> Result<Standing, ToolError> {
        let now = self.now();
        let mut record = kept.record;
        // Nobody was left to say so.
        if record.state == ApprovalState::Pending && now >= record.request.expires_ms {
            record.state = ApprovalState::Expired;
        }
        let fate = if record.taken_up {
            let rows = store.query(rows::ENDED, &[Value::Text(&record.request.call_id)]).await?;
            match rows.first() {
                Some(row) => Fate::Ran(row.maybe_text(0)?.map(str::to_owned)),
                None => Fate::Unknown,
            }
        } else {
            Fate::NotRun
        };
        let asker = asker(kept.lease_ms, now);
        let (workspace, taken_ms) = (kept.workspace.into(), kept.taken_ms);
        Ok(Standing { record, workspace, asker, taken_ms, fate })
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

    /// Whether a request is one that this store knows.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    pub async fn knows(&self, id: &str) -> Result<bool, ToolError> {
        match self.kept(id).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A lease that holds longer than leases are given was given by a clock that has been set back since.
fn asker(lease_ms: u64, now: u64) -> Asker {
    let is_there = lease_ms > now && lease_ms <= now.saturating_add(LEASE_MS);
    if is_there { Asker::There } else { Asker::Gone }
}
