//! Where the process begins. Not at the standard library's own door, which asks the kernel for a table of all our memory to find the
//! end of the main thread's stack: 0.14 ms of every start, a fifth of what `true` takes, for a better last word when that
//! stack overflows. The rest of what it does is done here.

use std::{ffi::c_int, panic::catch_unwind, process::ExitCode};

use rustix::{
    fs::{Mode, OFlags, open},
    io::{Errno, fcntl_getfd},
    stdio,
};

use crate::stop::leave;

/// What the standard library makes of a panic on the main thread.
const PANICKED: u8 = 101;

#[expect(unsafe_code, reason = "the C library looks for the program by this name")]
// SAFETY: it is the one `main` of the program, with a signature that C allows.
#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    keep_standard_streams();
    ignore_broken_pipes();
    // It also writes what is left in the buffer of standard output.
    leave(catch_unwind(crate::run).map_or(PANICKED, number))
}

/// A file that is opened while one of the first three is closed would get its number, and our words with it.
fn keep_standard_streams() {
    for stream in [stdio::stdin(), stdio::stdout(), stdio::stderr()] {
        if fcntl_getfd(stream) == Err(Errno::BADF)
            && let Ok(nothing) = open("/dev/null", OFlags::RDWR, Mode::empty())
        {
            // The lowest number that is free, which is the one that was closed.
            std::mem::forget(nothing);
        }
    }
}

/// Who stops reading is told of by an error.
fn ignore_broken_pipes() {
    #[expect(unsafe_code, reason = "no safe door to this is stable")]
    // SAFETY: no handler is set, there is no other thread yet, and nobody has set another one before.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// The standard library tells nobody the number of its exit codes.
fn number(code: ExitCode) -> u8 {
    (0..u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(u8::MAX)
}
