//! The same suite on both engines: a file of SQLite, and a database of a real PostgreSQL whose address `cargo xtask test`
//! hands on.

mod approvals;
mod cluster;
mod contention;
mod engines;
mod events;
mod journal;
mod leases;
mod outages;
mod outputs;
mod restarts;
mod sessions;
mod stores;
mod todos;
