//! The same suite on both engines: a file of SQLite, and a database of a real PostgreSQL whose address `cargo xtask test`
//! hands on.

mod engines;
mod leases;
mod outages;
mod outputs;
mod sessions;
mod stores;
mod todos;
