//! The same suite on both engines: SQLite files, and databases of a real PostgreSQL server whose
//! address `cargo xtask test` passes on.

mod approvals;
mod cluster;
mod contention;
mod copying;
mod engines;
mod events;
mod journal;
mod leases;
mod outages;
mod outputs;
mod recording;
mod restarts;
mod retention;
mod sessions;
mod stores;
mod todos;
mod versions;
