//! Resolves names. The result of the one lookup is checked and then connected to, so there is no
//! second lookup.

use std::{io, net::IpAddr};

use haft_core::BoxFuture;

/// A resolver of host names.
pub trait Resolve: Send + Sync {
    /// Returns all addresses of a name.
    ///
    /// # Errors
    /// When it has none, or no resolver is reachable.
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system resolver.
pub(super) struct System;

impl Resolve for System {
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
