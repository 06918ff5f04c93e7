//! Processes whose parent has ended. Usually the first process of the machine takes them in, and nobody can tell whose
//! they were; a program that wants to know takes them in itself.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

static TAKES_IN: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// From here on orphans below this process become its children. Only for a program whose main thread starts no processes
/// beside the ones that are started here: what has ended among that thread's children is waited for here.
pub(crate) fn take_in() {
    if set_child_subreaper(Some(getpid())).is_ok() {
        TAKES_IN.store(true, Ordering::Release);
    }
}

/// Those that were taken in and live; none when they are not taken in. Those that have ended are waited for and counted.
pub(crate) fn alive() -> Option<Vec<i32>> {
    if !TAKES_IN.load(Ordering::Acquire) {
        return None;
    }
    // They are given to the main thread. What we start ourselves belongs to the thread that starts it.
    let own = getpid().as_raw_nonzero();
    let listed = fs::read_to_string(format!("/proc/self/task/{own}/children")).ok()?;
    let all = listed.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
    let (ended, alive): (Vec<i32>, Vec<i32>) = all.partition(|pid| is_over(*pid));
    ENDED.fetch_add(ended.len(), Ordering::AcqRel);
    Some(alive)
}

/// How many have ended and were waited for. Each may have left a child that no look has shown yet, so nothing is known of a
/// launch's processes while this number changes.
pub(crate) fn ended() -> usize {
    ENDED.load(Ordering::Acquire)
}

/// Whether it has ended; then it is waited for.
fn is_over(pid: i32) -> bool {
    let waited = Pid::from_raw(pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    !matches!(waited, Some(Ok(None)))
}
