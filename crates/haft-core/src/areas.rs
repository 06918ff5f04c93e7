//! The areas: one file for each sort of thing that haft keeps. Each has the types, the trait of what keeps them, and where
//! a program may do without a store, a version in memory.

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
