//! haft, the tool layer for AI agents: tools are defined once, and every call passes one gate. This
//! crate re-exports the public API of the other crates for Rust programs. The command line is in
//! the binary of this package.
//!
//! With the feature `host`, which is on by default, [`host::Host`] builds the same gate as the
//! command line:
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
//! Without that feature, build a gate from its parts:
//!
//! ```no_run
//! use std::{path::Path, sync::Arc};
//!
//! use haft::{
//!     CallRequest, Context, Gate, Network, NetworkSettings, ProcessSettings, Programs, Registry,
//!     Workspace, commands::Executor, files::Disk, network::NetworkClient,
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
//!     // Without an executor `bash` returns an error.
//!     .service::<dyn Executor>(Arc::new(Programs::new(
//!         ProcessSettings::Sandbox,
//!         workspace,
//!         || std::env::vars_os().collect(),
//!         Path::new("/var/tmp"),
//!     )))
//!     // Without a network client `web_fetch` returns an error.
//!     .service::<dyn NetworkClient>(Arc::new(Network::new(NetworkSettings::default())))
//!     .build();
//!
//! let request = CallRequest::new("read", json!({"path": "Cargo.toml"}), Context::new("my-session"));
//! let outcome = gate.call(request).await;
//! assert!(outcome.is_ok(), "{}", outcome.content);
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

// `#[tool]` generates `::haft` paths in crates that depend on this one, so this crate's own tests
// need the name too.
extern crate self as haft;

#[cfg(feature = "host")]
pub mod host;

/// Tools, calls and results in the formats of the model APIs.
pub use haft_agent::formats;
pub use haft_core::*;
/// The workspace for file tools, the executor of commands, and the network client.
pub use haft_exec::{
    Allowed, ContainerSettings, Credential, Network, NetworkSettings, ProcessSettings, Programs,
    Resolve, Variables, Workspace,
};
pub use haft_macros::tool;
/// A server for the Model Context Protocol.
pub use haft_mcp as mcp;
/// The stores on disk.
#[cfg(feature = "store")]
pub use haft_store as store;
/// haft's own tools.
pub use haft_tools as catalogue;

/// The Rust code of the guides, so that doc tests compile it.
#[cfg(all(doctest, feature = "host"))]
mod guides {
    #[doc = include_str!("../../../docs/guide/embed.md")]
    struct Embed;
    #[doc = include_str!("../../../docs/guide/write-a-tool.md")]
    struct WriteATool;
}
