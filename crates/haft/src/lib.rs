//! haft, the tool layer for AI agents: tools are defined once and every call passes one gate. This crate is the front
//! door for Rust programs; everything in it lives in the crates it re-exports. The command line is in the binary
//! beside it, not here.
//!
//! With the feature `host` (part of the default) one call wires a gate as the command line has it:
//!
//! ```no_run
//! use haft::{CallRequest, host::{Choices, Host}};
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), haft::ToolError> {
//! let host = Host::open(&Choices::default())?;
//! let gate = host.gate().build();
//! let request = CallRequest::new("read", json!({"path": "Cargo.toml"}), host.context("my-session"));
//! let outcome = gate.call(request).await;
//! assert!(outcome.is_ok(), "{}", outcome.content);
//! # Ok(())
//! # }
//! ```
//!
//! Without it a gate is built from its parts:
//!
//! ```no_run
//! use std::{path::Path, sync::Arc};
//!
//! use haft::{
//!     Around, CallRequest, Context, Gate, Network, NetworkSettings, Programs, Registry, Workspace,
//!     commands::Executor, files::Disk, network::Client,
//! };
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::default();
//! registry.register_all(haft::catalogue::all())?;
//! let workspace = Arc::new(Workspace::open(Path::new("."))?);
//! let gate = Gate::builder(registry)
//!     .paths(workspace.clone())
//!     .service::<dyn Disk>(workspace.clone())
//!     // Leave this out and `bash` says that there is nothing to run commands.
//!     .service::<dyn Executor>(Arc::new(Programs::new(
//!         Around::Sandbox,
//!         workspace,
//!         || std::env::vars_os().collect(),
//!         Path::new("/var/tmp"),
//!     )))
//!     // The same for `web_fetch` and the network.
//!     .service::<dyn Client>(Arc::new(Network::new(NetworkSettings::default())))
//!     .build();
//!
//! let request = CallRequest::new("read", json!({"path": "Cargo.toml"}), Context::new("my-session"));
//! let outcome = gate.call(request).await;
//! assert!(outcome.is_ok(), "{}", outcome.content);
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

// `#[tool]` writes `::haft` paths in crates that depend on this one, and so it does in this crate's own tests.
extern crate self as haft;

#[cfg(feature = "host")]
pub mod host;

/// Tools, calls and results in the words of every model API.
pub use haft_agent::formats;
pub use haft_core::*;
/// The files of a folder, for tools to work on, programs to run in it, and the way to other machines.
pub use haft_exec::{
    Allowed, ContainerSettings, Credential, Network, NetworkSettings, ProcessSettings, Programs,
    Resolve, Variables, Workspace,
};
pub use haft_macros::tool;
/// A registry as a server that speaks the Model Context Protocol.
pub use haft_mcp as mcp;
/// The ledger and the saved rules on disk.
#[cfg(feature = "store")]
pub use haft_store as store;
/// The tools haft comes with.
pub use haft_tools as catalogue;

/// The Rust code of the guides, so that doc tests compile it.
#[cfg(all(doctest, feature = "host"))]
mod guides {
    #[doc = include_str!("../../../docs/guide/embed.md")]
    struct Embed;
    #[doc = include_str!("../../../docs/guide/write-a-tool.md")]
    struct WriteATool;
}
