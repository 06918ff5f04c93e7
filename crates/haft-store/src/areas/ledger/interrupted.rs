//! Calls that began and have no end in the ledger: the process that ran them, and whether it still
//! exists.

use std::{fs, sync::OnceLock};

use serde::Serialize;

/// How a call that began has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnding {
    /// This entry is its end.
    Recorded,
    /// Its process is gone and has recorded no end: the effect of the call is unknown.
    Interrupted,
    /// Its process still runs, or cannot be seen from here.
    NotRecorded,
}

/// Identifies this process on this machine: boot id, process id namespace, process id and start
/// time.
pub(super) fn this_process() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let id = std::process::id();
        format!("{} {id} {}", boot_and_pid_namespace(), started(id).unwrap_or_default())
    })
    .clone()
}

/// Returns the ending of a call of this process.
pub(super) fn ending(process: &str) -> CallEnding {
    let mut words = process.rsplitn(3, ' ');
    let (start, id, around) = (words.next(), words.next(), words.next());
    let id = id.and_then(|id| id.parse::<u32>().ok());
    match (start, id, around) {
        (Some(start), Some(id), Some(around))
            if around == boot_and_pid_namespace() && !start.is_empty() =>
        {
            match started(id) {
                Some(now) if now == start => CallEnding::NotRecorded,
                _ => CallEnding::Interrupted,
            }
        }
        _ => CallEnding::NotRecorded,
    }
}

/// Returns the boot id of the machine and the process id namespace.
fn boot_and_pid_namespace() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        format!("{} {}", boot.trim(), namespace.display())
    })
}

/// Returns the start time of a process, in ticks since the boot; `None` if there is no such
/// process.
fn started(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses may hold any character; field 22 is the twentieth after it.
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
        assert_eq!(ending(&own), CallEnding::NotRecorded, "{own}");
        let (before, start) = own.rsplit_once(' ').expect("words");
        assert_eq!(ending(&format!("{before} {start}1")), CallEnding::Interrupted);
        for unknown in ["", "x", "other pid:[1] 1 5", &format!("{before} "), &format!("x{own}")] {
            assert_eq!(ending(unknown), CallEnding::NotRecorded, "{unknown}");
        }
    }
}
