//! A descriptor that the runtime watches.

use std::{io, os::fd::OwnedFd};

use tokio::io::unix::AsyncFd;

pub(crate) type Watched = AsyncFd<OwnedFd>;

/// Has the runtime watch it.
///
/// # Errors
/// When there is no runtime with an eye for it.
pub(crate) fn watch(handle: OwnedFd) -> io::Result<Watched> {
    #[expect(unsafe_code, reason = "tokio leaves this promise to the caller")]
    // SAFETY: an `OwnedFd` always is the same descriptor, nobody else closes it, and it is closed only with what is
    // returned here.
    let watched = unsafe { AsyncFd::register(handle) };
    watched.map_err(io::Error::from)
}
