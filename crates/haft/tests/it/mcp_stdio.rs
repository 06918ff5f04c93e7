//! `haft mcp` at a pipe, with the real process: what it makes of clients that send nonsense, too much, too fast, or
//! nothing any more.

mod client;
mod endings;
mod load;
mod messages;

pub(crate) use self::client::{Client, PATIENCE, initialize};
