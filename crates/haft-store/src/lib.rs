//! The persistent records of haft: the ledger of calls, the journal of file changes, approval
//! requests, saved rules, events, whole outputs, sessions, todo lists and leases; and, beside the
//! store, a user's secrets. One interface over SQLite, the default, which needs no setup, and
//! PostgreSQL. The only crate that knows SQL.

#![warn(missing_docs)]

mod areas;
mod engine;
mod seal;
mod vault;

pub use self::{
    areas::approvals::StoreApprovals,
    areas::feed::{Announcement, EventRetention, StoreFeed},
    areas::journal::{JournalRetention, StoreJournal},
    areas::leases::StoreLeases,
    areas::ledger::{
        Anchor, CallEnding, DroppedEntries, LedgerError, LedgerFilter, LedgerRetention, Pruned,
        RecordedEntry, ReplyTiming, StoreLedger, Verification, flush_everything,
    },
    areas::outputs::{OutputRetention, StoreOutputs},
    areas::recording::{OutcomeStatus, Recording, RecordingCall},
    areas::rules::StoreRules,
    areas::sessions::StoreSessions,
    areas::todos::StoreTodos,
    engine::address::StoreAddress,
    engine::copying::{CopyStep, CopySummary, copy_store},
    engine::location::StoreLocation,
    engine::maintenance::{StoreInfo, StorePart, newest_version, restore},
    engine::store::Store,
    vault::{Existing, KeptSecret, KeyWanted, StoreVault},
};
