//! The same suite on both engines: a file of SQLite, and a database of a real PostgreSQL whose address `cargo xtask test`
//! hands on.

mod approvals;
mod cluster;
mod contention;
mod engines;
mod events;
mod journal;
mod leases;
mod moving;
mod outages;
mod outputs;
mod recording;
mod restarts;
mod retention;
mod sessions;
mod stores;
mod todos;
mod versions;
