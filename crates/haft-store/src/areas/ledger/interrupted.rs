//! Calls that began and whose end is not in the ledger: which process ran them, and whether it is still there.

use std::{fs, sync::OnceLock};

use serde::Serialize;

/// What is known of the end of a call that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its entry is the end.
    Recorded,
    /// Its process is gone and has recorded no end: what the call did is not known.
    Interrupted,
    /// It runs in a process that is there, or nothing is known of that process from here.
    NotRecorded,
}

/// Names this process among all that may run on this machine: boot, namespace of process ids, id, and start time.
pub(super) fn this_process() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let id = std::process::id();
        format!("{} {id} {}", workspace_info(), started(id).unwrap_or_default())
    })
    .clone()
}

/// What became of the call of such a process.
pub(super) fn ending(process: &str) -> Ending {
    let mut words = process.rsplitn(3, ' ');
    let (start, id, around) = (words.next(), words.next(), words.next());
    let id = id.and_then(|id| id.parse::<u32>().ok());
    match (start, id, around) {
        (Some(start), Some(id), Some(around))
            if around == workspace_info() && !start.is_empty() =>
        {
            match started(id) {
                Some(now) if now == start => Ending::NotRecorded,
                _ => Ending::Interrupted,
            }
        }
        _ => Ending::NotRecorded,
    }
}

/// The boot of the machine and the namespace in which ids of processes count.
fn workspace_info() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        format!("{} {}", boot.trim(), namespace.display())
    })
}

/// When a process started, in ticks since the boot; none when there is no such process.
fn started(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses may hold anything; field 22 is the twentieth behind it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let is_dead = matches!(fields.split(' ').next(), Some("Z" | "X"));
    fields.split(' ').nth(19).filter(|_| !is_dead).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_and_its_boot() {
        let own = this_process();
        assert_eq!(ending(&own), Ending::NotRecorded, "{own}");
        let (before, start) = own.rsplit_once(' ').expect("words");
        assert_eq!(ending(&format!("{before} {start}1")), Ending::Interrupted);
        for unknown in ["", "x", "other pid:[1] 1 5", &format!("{before} "), &format!("x{own}")] {
            assert_eq!(ending(unknown), Ending::NotRecorded, "{unknown}");
        }
    }
}
