//! The areas: one module with its SQL for each kind of record. Each implements the trait that
//! haft-core defines under the same name.

pub(crate) mod approvals;
pub(crate) mod feed;
pub(crate) mod journal;
pub(crate) mod leases;
pub(crate) mod ledger;
pub(crate) mod outputs;
pub(crate) mod recording;
pub(crate) mod results;
pub(crate) mod rules;
pub(crate) mod sessions;
pub(crate) mod todos;
