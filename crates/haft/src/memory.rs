//! How memory is given out, and given back.

use std::{ffi::c_void, fs, ops::Range, ptr};

use rustix::mm::{Advice, madvise};

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

/// Gives back the pages of the program that the start has used. The kernel maps the neighbours of each page that is touched along
/// with it, 9 MB for the parsers of arguments, files and handshakes, of which a server that waits for calls needs little.
/// They stay in the machine's cache; what is needed again is mapped again, some microseconds each.
pub(crate) fn let_go_of_the_start() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Some(text) = text_around(&maps, let_go_of_the_start as fn() as usize) else { return };
    #[expect(
        unsafe_code,
        reason = "advice about memory is unsafe, since some of it throws away what was written"
    )]
    // SAFETY: the range is one mapping of our own program that can be read and executed but not written, so it holds nothing
    // but what is in the file, and that is what the kernel puts there again.
    unsafe {
        let begin = ptr::with_exposed_provenance_mut::<c_void>(text.start);
        // Where it fails, everything stays as it is.
        let _ = madvise(begin, text.len(), Advice::LinuxDontNeed);
    }
}

/// The mapping that holds this address, if it is code from a file.
fn text_around(maps: &str, address: usize) -> Option<Range<usize>> {
    maps.lines().find_map(|line| {
        let mut parts = line.split_ascii_whitespace();
        let (begin, end) = parts.next()?.split_once('-')?;
        let range = usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let is_code = parts.next()? == "r-xp";
        let is_file = parts.nth(2)? != "0";
        (is_code && is_file && range.contains(&address)).then_some(range)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "00200000-0070f000 r--p 00000000 fe:00 11 /usr/bin/haft\n\
        0070f000-0185c000 r-xp 0050e000 fe:00 11 /usr/bin/haft\n\
        0185c000-0187a000 r-xp 00000000 00:00 0\n\
        0187a000-0188a000 rwxp 00000000 fe:00 11 /usr/bin/haft\n\
        7ffc6e0af000-7ffc6e0d0000 rw-p 00000000 00:00 0 [stack]\n";

    #[test]
    fn only_code_from_a_file_is_let_go_of() {
        assert_eq!(text_around(MAPS, 0x0070_f000), Some(0x0070_f000..0x0185_c000));
        for address in [0, 0x0070_efff, 0x0185_c000, 0x0187_a000, 0x7ffc_6e0a_f000] {
            assert_eq!(text_around(MAPS, address), None, "{address:x}");
        }
        assert_eq!(text_around("nonsense\n-\nx-y r-xp\n", 0), None);
    }

    #[test]
    fn the_program_goes_on_afterwards() {
        let maps = fs::read_to_string("/proc/self/maps").expect("it is there");
        let address = let_go_of_the_start as fn() as usize;
        assert!(text_around(&maps, address).is_some_and(|text| text.contains(&address)));
        let_go_of_the_start();
        assert_eq!("12".parse::<u8>(), Ok(12));
    }
}
