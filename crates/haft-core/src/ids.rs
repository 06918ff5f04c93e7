//! Ids of calls, requests and outputs: ordered by time, and not guessable.

use std::sync::{
    LazyLock,
    atomic::{AtomicU32, Ordering},
};

use uuid::Uuid;

use crate::clock::now_ms;

/// `call_` and 32 hex digits: 48 bits of time, then random bits.
pub(crate) fn new_id(prefix: &str) -> String {
    format!("{prefix}_{}", Uuid::now_v7().simple())
}

/// The id of a call, in the same form: time, a counter, and a number for this process. It grants no
/// access, so it may be guessable; asking the kernel for random bytes would cost a small call a
/// tenth of its time.
pub(crate) fn new_call_id() -> String {
    static PROCESS: LazyLock<u64> =
        LazyLock::new(|| Uuid::now_v7().as_u64_pair().1 & 0xffff_ffff_ffff);
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("call_{:012x}{number:08x}{:012x}", now_ms(), *PROCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_time_number_and_process_in_its_name() {
        let (one, two) = (new_call_id(), new_call_id());
        assert_ne!(one, two);
        for id in [&one, &two] {
            let digits = id.strip_prefix("call_").expect("what it is");
            assert_eq!(digits.len(), 32, "{id}");
            let time = u64::from_str_radix(digits.split_at(12).0, 16).expect("digits");
            assert!(now_ms().abs_diff(time) < 60_000, "{id}");
        }
        assert_eq!(one.split_at(25).1, two.split_at(25).1, "of one process");
    }
}
