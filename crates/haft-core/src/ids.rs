//! Names for calls, requests and outputs: ordered by time, and not to be guessed.

use uuid::Uuid;

/// `call_` and 32 hex digits: 48 bits of time, then randomness.
pub(crate) fn new_id(prefix: &str) -> String {
    format!("{prefix}_{}", Uuid::now_v7().simple())
}
