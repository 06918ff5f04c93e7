//! The areas: one file for each kind of data that haft stores. Each has the types, the trait of the
//! store, and an in-memory version where a program may work without a store.

pub(crate) mod approvals;
pub mod feed;
pub(crate) mod inbox;
pub(crate) mod journal;
pub(crate) mod leases;
pub(crate) mod ledger;
pub(crate) mod outputs;
pub(crate) mod rules;
pub(crate) mod sessions;
pub(crate) mod todos;
