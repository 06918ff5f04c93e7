//! How the C library gives out memory.

/// One heap for all threads. glibc would give each thread its own and let it grow by a page and a system call at a time:
/// a hundred and fifty of them before a client has its list of tools. Our threads seldom allocate at once, and small pieces
/// come from a cache that each thread has anyway.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn share_one_heap() {
    #[expect(unsafe_code, reason = "the C library has no safe door to this setting")]
    // SAFETY: `mallopt` takes two numbers and touches nothing of ours; it is called before there is a second thread, as
    // its manual asks. Where it fails, each thread has its heap as before.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Other C libraries have one already.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn share_one_heap() {}
