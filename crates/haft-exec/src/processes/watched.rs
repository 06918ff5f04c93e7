//! A descriptor that the runtime watches.

use std::{io, os::fd::OwnedFd};

use tokio::io::unix::AsyncFd;

pub(crate) type WatchedFd = AsyncFd<OwnedFd>;

/// Registers a descriptor with the runtime.
///
/// # Errors
/// When there is no runtime with IO enabled.
pub(crate) fn watch(handle: OwnedFd) -> io::Result<WatchedFd> {
    #[expect(unsafe_code, reason = "tokio leaves this promise to the caller")]
    // SAFETY: an `OwnedFd` always refers to the same descriptor, no other code closes it, and it is
    // closed only with the returned value.
    let watched = unsafe { AsyncFd::register(handle) };
    watched.map_err(io::Error::from)
}
