//! The location of a store, opening and migrating it, and one interface to both engines.
//! Independent of the areas.

pub(crate) mod address;
pub(crate) mod clock;
pub(crate) mod copying;
pub(crate) mod location;
pub(crate) mod maintenance;
pub(crate) mod migrations;
pub(crate) mod packing;
pub(crate) mod postgres;
pub(crate) mod sqlite;
pub(crate) mod store;
pub(crate) mod value;
pub(crate) mod waiting;
