//! What acts for tools: today the files of a workspace. Everything that opens something on a tool's behalf is here, and
//! nothing here knows what a tool is.

mod change;
mod entries;
mod facts;
mod find;
mod grep;
mod locate;
mod near;
mod open_file;
mod root;
mod tree;
mod walk;
mod workspace;

pub use self::workspace::Workspace;
