//! The files of a workspace: where a path leads, what is there, changes, and searches of many files at once.

mod change;
mod entries;
mod facts;
mod find;
mod grep;
mod locate;
mod near;
mod open_file;
pub(crate) mod root;
mod survey;
mod tree;
pub(crate) mod walk;
mod workspace;

pub use self::workspace::Workspace;
