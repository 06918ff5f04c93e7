//! Where a store is, how it is opened and upgraded, and one interface over both engines. Knows no area.

pub(crate) mod address;
pub(crate) mod clock;
pub(crate) mod migrations;
pub(crate) mod moving;
pub(crate) mod packing;
pub(crate) mod place;
pub(crate) mod postgres;
pub(crate) mod sqlite;
pub(crate) mod store;
pub(crate) mod upkeep;
pub(crate) mod value;
pub(crate) mod waiting;
