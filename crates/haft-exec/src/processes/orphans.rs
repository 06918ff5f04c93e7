//! Processes whose parent has ended. Usually the first process of the machine adopts them, and
//! their origin is lost; a program that needs to know it adopts them itself.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

static ADOPTS: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// From now on orphans below this process become its children. Only for a program whose main thread
/// starts no other processes: this code reaps the children of that thread.
pub(crate) fn adopt() {
    if set_child_subreaper(Some(getpid())).is_ok() {
        ADOPTS.store(true, Ordering::Release);
    }
}

/// Returns the living orphans that were adopted; None when they are not adopted. Reaps and counts
/// those that have ended.
pub(crate) fn alive() -> Option<Vec<i32>> {
    if !ADOPTS.load(Ordering::Acquire) {
        return None;
    }
    // They become children of the main thread. Processes that we start belong to the thread that
    // starts them.
    let own = getpid().as_raw_nonzero();
    let listed = fs::read_to_string(format!("/proc/self/task/{own}/children")).ok()?;
    let all = listed.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
    let (ended, alive): (Vec<i32>, Vec<i32>) = all.partition(|pid| is_over(*pid));
    ENDED.fetch_add(ended.len(), Ordering::AcqRel);
    Some(alive)
}

/// Returns the number of orphans that ended and were reaped. Each may have left a child that no
/// listing contained yet, so nothing is known about the processes of a launch while this number
/// changes.
pub(crate) fn ended() -> usize {
    ENDED.load(Ordering::Acquire)
}

/// Returns true when it has ended, and reaps it.
fn is_over(pid: i32) -> bool {
    let waited = Pid::from_raw(pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    !matches!(waited, Some(Ok(None)))
}
