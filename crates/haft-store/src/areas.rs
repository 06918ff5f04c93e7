//! The areas: one file for each sort of thing that is kept, with its SQL. Each implements the trait that haft-core has
//! under the same name.

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
