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
    areas::feed::{Announcement, Retention, StoreFeed},
    areas::journal::{Keep, StoreJournal},
    areas::leases::StoreLeases,
    areas::ledger::{
        Anchor, DroppedEntries, Ending, Filter, LedgerError, LedgerRetention, Pruned, Recorded,
        ReplyTiming, StoreLedger, Verification, flush_everything,
    },
    areas::outputs::{OutputRetention, StoreOutputs},
    areas::recording::{Recording, RecordingCall, Remains},
    areas::rules::StoreRules,
    areas::sessions::StoreSessions,
    areas::todos::StoreTodos,
    engine::address::Address,
    engine::moving::{Copied, CopyStep, copy_store},
    engine::place::StoreLocation,
    engine::store::Store,
    engine::upkeep::{Info, Part, newest_version, restore},
    vault::{Existing, KeptSecret, KeyWanted, StoreVault},
};
