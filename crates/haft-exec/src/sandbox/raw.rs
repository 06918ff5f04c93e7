//! System calls for a child that shares its parent's memory, or has a copy of it: they allocate
//! nothing, and errors are numbers.

use std::{ffi::CStr, io};

pub(super) fn arg(number: i32) -> i64 {
    i64::from(number)
}

pub(super) fn pointer(text: &CStr) -> i64 {
    text.as_ptr() as i64
}

pub(super) fn call(number: i64, [a, b, c, d, e]: [i64; 5]) -> io::Result<i64> {
    #[expect(unsafe_code, reason = "no crate offers all of these calls without allocating")]
    // SAFETY: every address comes from a reference that outlives the call, with the length or the
    // zero byte that the call reads to; none of the calls made here writes to our memory.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
