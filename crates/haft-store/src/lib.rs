//! What haft keeps: the ledger of calls, the journal of changes to files, questions and the rules that people saved, events, whole
//! outputs, sessions, todos and leases, and beside the store the secrets of a person. One interface over SQLite, which is the default and
//! needs nothing, and PostgreSQL; the only crate that knows SQL.

#![warn(missing_docs)]

mod address;
mod approvals;
mod clock;
mod events;
mod journal;
mod leases;
mod ledger;
mod migrations;
mod moving;
mod outputs;
mod packing;
mod place;
mod postgres;
mod recording;
mod results;
mod rules;
mod seal;
mod sessions;
mod sqlite;
mod store;
mod todos;
mod upkeep;
mod value;
mod vault;
mod waiting;

pub use self::{
    address::Address,
    approvals::{Asker, Fate, Handover, Standing, Standings, StoreApprovals},
    events::{Announcement, Event, Events, Gap, News, Retention, Subscription},
    journal::{Keep, StoreJournal},
    leases::{Lease, Leases},
    ledger::{
        Anchor, Answering, DroppedEntries, Ending, Fault, Filter, LedgerRetention, Pruned,
        Recorded, StoreLedger, Verification, flush_everything,
    },
    moving::{Copied, CopyStep, copy_store},
    outputs::{OutputRetention, StoreOutputs},
    place::Place,
    recording::{Recording, RecordingCall, Remains},
    rules::StoreRules,
    sessions::StoreSessions,
    store::Store,
    todos::StoreTodos,
    upkeep::{Info, Part, newest_version, restore},
    vault::{Existing, KeptSecret, KeyWanted, StoreVault},
};
