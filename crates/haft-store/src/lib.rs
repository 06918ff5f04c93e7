//! What haft keeps: the ledger of calls, the journal of changes to files and the rules that people saved. One interface over SQLite, which is the default and
//! needs nothing, and PostgreSQL; the only crate that knows SQL.

#![warn(missing_docs)]

mod address;
mod approvals;
mod clock;
mod events;
mod journal;
mod ledger;
mod migrations;
mod place;
mod postgres;
mod rules;
mod seal;
mod sqlite;
mod store;
mod upkeep;
mod value;
mod waiting;

pub use self::{
    address::Address,
    approvals::{Asker, Fate, Handover, Standing, Standings, StoreApprovals},
    events::{Announcement, Event, Events, Gap, News, Retention, Subscription},
    journal::{Keep, StoreJournal},
    ledger::{
        Anchor, Answering, Fault, Filter, Recorded, StoreLedger, Verification, flush_everything,
    },
    place::Place,
    rules::StoreRules,
    store::Store,
    upkeep::{Info, newest_version, restore},
};
