//! The only access of this crate to the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; zero when the clock is set before that.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    #[cfg(test)]
    let now = tests::shifted(now);
    now
}

#[cfg(test)]
pub(crate) mod tests;
