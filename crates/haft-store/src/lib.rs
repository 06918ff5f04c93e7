//! What haft keeps: the ledger of calls, the rules that people saved, whole outputs, sessions, todos and leases. One interface over SQLite, which is the default and
//! needs nothing, and PostgreSQL; the only crate that knows SQL.

#![warn(missing_docs)]

mod address;
mod clock;
mod leases;
mod ledger;
mod migrations;
mod outputs;
mod place;
mod postgres;
mod rules;
mod sessions;
mod sqlite;
mod store;
mod todos;
mod upkeep;
mod value;
mod waiting;

pub use self::{
    address::Address,
    leases::{Lease, Leases},
    ledger::{
        Anchor, Answering, Fault, Filter, Recorded, StoreLedger, Verification, flush_everything,
    },
    outputs::{Retention, StoreOutputs},
    place::Place,
    rules::StoreRules,
    sessions::StoreSessions,
    store::Store,
    todos::StoreTodos,
    upkeep::{Info, newest_version, restore},
};
