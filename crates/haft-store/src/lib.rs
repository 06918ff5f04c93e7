//! What haft keeps: the ledger of calls, the journal of changes to files, questions and the rules that people saved, events, whole
//! outputs, sessions, todos and leases. One interface over SQLite, which is the default and
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
mod outputs;
mod place;
mod postgres;
mod rules;
mod seal;
mod sessions;
mod sqlite;
mod store;
mod todos;
mod upkeep;
mod value;
mod waiting;

pub use self::{
    address::Address,
    approvals::{Asker, Fate, Handover, Standing, Standings, StoreApprovals},
    events::{Announcement, Event, Events, Gap, News, Retention, Subscription},
    journal::{Keep, StoreJournal},
    leases::{Lease, Leases},
    ledger::{
        Anchor, Answering, Fault, Filter, Recorded, StoreLedger, Verification, flush_everything,
    },
    outputs::{OutputRetention, StoreOutputs},
    place::Place,
    rules::StoreRules,
    sessions::StoreSessions,
    store::Store,
    todos::StoreTodos,
    upkeep::{Info, newest_version, restore},
};
