//! Processes whose parent has ended. Usually the first process of the machine takes them in, and nobody can tell whose
//! they were; a program that wants to know takes them in itself.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

static TAKES_IN: AtomicBool = AtomicBool::new(false);

/// From here on orphans below this process become its children. Only for a program whose main thread starts no processes
/// beside the ones that are started here: what has ended among that thread's children is waited for here.
pub(crate) fn take_in() {
    if set_child_subreaper(Some(getpid())).is_ok() {
        TAKES_IN.store(true, Ordering::Release);
    }
}

/// What one look has found.
pub(crate) struct TakenIn {
    pub(crate) alive: Vec<i32>,
    /// Some had ended. Where processes end others may have begun that this look has not seen.
    pub(crate) has_buried: bool,
}

/// Those that were taken in; none when they are not.
pub(crate) fn taken_in() -> Option<TakenIn> {
    if !TAKES_IN.load(Ordering::Acquire) {
        return None;
    }
    // They are given to the main thread. What we start ourselves belongs to the thread that starts it.
    let own = getpid().as_raw_nonzero();
    let listed = fs::read_to_string(format!("/proc/self/task/{own}/children")).ok()?;
    let all = listed.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
    let (buried, alive): (Vec<i32>, Vec<i32>) = all.partition(|pid| is_over(*pid));
    Some(TakenIn { alive, has_buried: !buried.is_empty() })
}

/// Whether it has ended; then it is waited for.
fn is_over(pid: i32) -> bool {
    let waited = Pid::from_raw(pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    !matches!(waited, Some(Ok(None)))
}
