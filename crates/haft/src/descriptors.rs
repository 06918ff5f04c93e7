//! File descriptors that haft inherited from the process that started it.

use std::ffi::c_int;

/// Marks every inherited descriptor above the standard streams close-on-exec, so that no child
/// process gets it, sandboxed or not.
pub(crate) fn close_on_exec() {
    #[expect(unsafe_code, reason = "rustix has no such call")]
    // SAFETY: the call takes three numbers, and there is no other thread yet.
    let marked = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if marked != 0 {
        mark_each();
    }
}

/// Fallback for kernels before Linux 5.11.
fn mark_each() {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<c_int>().ok());
    for number in numbers.filter(|number| *number > 2) {
        #[expect(unsafe_code, reason = "the numbers belong to no owner here")]
        // SAFETY: the call takes numbers; for one that is not open it fails and changes nothing.
        unsafe {
            libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}
