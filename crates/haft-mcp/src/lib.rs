//! haft over the Model Context Protocol: serves a registry to any client over stdio or streamable
//! HTTP. Every call passes the gate; nothing here runs a tool, opens a file or decides.
//!
//! A [`Server`] is shared by all clients; a `Connection` serves one client. Both eras of the
//! protocol are supported: up to 2025-11-25 with a handshake and requests from the server, from
//! 2026-07-28 without either.

#![warn(missing_docs)]
#![expect(
    deprecated,
    reason = "roots, sampling and logging are deprecated, but current clients use them"
)]

mod approval;
mod call;
mod cancel_on_drop;
mod client;
mod connection;
mod definition;
mod files;
mod http;
mod offers;
mod orientation;
mod progress;
mod quirks;
mod request_state;
mod result;
mod server;
mod stdio;
mod workspace_source;

/// The types of the protocol.
pub use rmcp::model;

pub use self::{
    client::McpClient,
    definition::{McpAnnotations, McpToolDefinition},
    http::{Http, HttpError, HttpListener},
    offers::{BoxFuture, Prompts, Resources},
    result::result,
    server::{Server, ServerBuilder, Structured},
};
