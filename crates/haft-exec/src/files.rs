//! The files of a workspace: resolving paths, reading, changing, and searching many files at once.

mod change;
mod entries;
mod find;
mod grep;
mod locate;
mod metadata;
mod not_found;
mod open_file;
pub(crate) mod root;
mod survey;
mod tree;
pub(crate) mod walk;
mod workspace;

pub use self::workspace::Workspace;
