//! haft over the Model Context Protocol: whatever is in a registry, served to any client over stdio or streamable HTTP.
//! Every call passes the gate; nothing here runs a tool, opens a file or decides anything.
//!
//! A [`Server`] is what is served, a `Connection` one client of it. Both eras of the protocol are spoken: up to 2025-11-25
//! with a handshake and requests from the server, from 2026-07-28 without either.

#![warn(missing_docs)]
#![expect(
    deprecated,
    reason = "roots, sampling and logging are deprecated, but the clients of today have them"
)]

mod approval;
mod call;
mod client;
mod connection;
mod definition;
mod files;
mod http;
mod offers;
mod orientation;
mod place;
mod progress;
mod quirks;
mod result;
mod rounds;
mod server;
mod stdio;
mod withdrawal;

/// The words of the protocol.
pub use rmcp::model;

pub use self::{
    client::Client,
    definition::{Annotations, Definition},
    http::{Http, HttpError, Listening},
    offers::{BoxFuture, Prompts, Resources},
    result::result,
    server::{Server, ServerBuilder, Structured},
};
