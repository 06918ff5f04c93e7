//! Settings of the C library's memory allocator.

/// Makes all threads share one heap. By default glibc gives each thread its own heap, which grows
/// by one page and one system call at a time: 150 calls before a client has its list of tools. Our
/// threads seldom allocate at the same time, and small allocations come from a per-thread cache
/// anyway.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn share_one_heap() {
    #[expect(unsafe_code, reason = "no safe API offers this setting")]
    // SAFETY: `mallopt` takes two numbers and accesses no memory of ours. It is called before there
    // is a second thread, as its manual requires. If it fails, each thread keeps its own heap.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Other C libraries have a single heap already.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn share_one_heap() {}
