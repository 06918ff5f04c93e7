//! `haft mcp` over a pipe, with the real process: clients that send invalid messages, too many, too
//! fast, or disappear.

mod client;
mod endings;
mod load;
mod messages;

pub(crate) use self::client::{Client, TIMEOUT, initialize};
