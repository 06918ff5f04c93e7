//! From names to addresses. One lookup, whose answer is judged and then connected to: nobody looks up twice.

use std::{io, net::IpAddr};

use haft_core::BoxFuture;

/// What knows the addresses of names.
pub trait Resolve: Send + Sync {
    /// All addresses of a name.
    ///
    /// # Errors
    /// When it has none, or nobody can be asked.
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// As the machine resolves names for every program.
pub(super) struct System;

impl Resolve for System {
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
