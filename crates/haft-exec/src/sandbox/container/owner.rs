//! The owner of a container. A container's name identifies the haft process that created it, so
//! that the next haft can remove the containers of processes that are gone.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    sync::atomic::{AtomicU64, Ordering},
};

use super::engine::ContainerEngine;

const NAME_PREFIX: &str = "haft";

/// Identifies a process uniquely: by boot, PID namespace, process id and start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    boot: String,
    namespace: u64,
    pid: u32,
    begun: u64,
}

/// Returns this process.
pub(super) fn this() -> String {
    let pid = std::process::id();
    let Owner { boot, namespace, begun, .. } =
        Owner::of(pid).unwrap_or(Owner { boot: "0".to_owned(), namespace: 0, pid, begun: 0 });
    format!("{boot}-{namespace}-{pid}-{begun}")
}

/// Returns an unused container name.
pub(super) fn new_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{NAME_PREFIX}-{}-{}", this(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Removes the containers whose owners are gone.
pub(super) fn sweep(engine: &ContainerEngine) {
    let words = ["ps", "--all", "--filter", "label=haft=1", "--format", "{{.Names}}"];
    let listed = engine.run(&words).out;
    let left = listed.lines().map(str::trim).filter(|name| is_left(name));
    left.for_each(|name| engine.remove(name));
}

fn is_left(name: &str) -> bool {
    let Some(owner) = Owner::named(name) else { return false };
    let Some(own) = Owner::of(std::process::id()) else { return false };
    if owner.boot != own.boot {
        return true;
    }
    // Processes of another PID namespace cannot be checked here.
    owner.namespace == own.namespace && Owner::of(owner.pid).as_ref() != Some(&owner)
}

impl Owner {
    fn of(pid: u32) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        // The 22nd field of the line, two of which come before the name's end.
        let begun = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
        Some(Self { boot, namespace, pid, begun })
    }

    fn named(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(NAME_PREFIX)?.strip_prefix('-')?.split('-');
        let mut part = || parts.next();
        let boot = part()?.to_owned();
        let (namespace, pid, begun) =
            (part()?.parse().ok()?, part()?.parse().ok()?, part()?.parse().ok()?);
        part()?.parse::<u64>().ok()?;
        Some(Self { boot, namespace, pid, begun })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_identifies_its_owner_and_only_dead_owners_are_swept() {
        let own = Owner::of(std::process::id()).expect("we live");
        let name = new_name();
        assert_eq!(Owner::named(&name).as_ref(), Some(&own));
        assert!(!is_left(&name), "we live");
        assert_ne!(name, new_name());
        let Owner { boot, namespace, pid, begun } = own;
        for (left, is_it) in [
            (format!("haft-{boot}-{namespace}-{pid}-{}-0", begun + 1), true),
            (format!("haft-{boot}-{namespace}-4194999-5-0"), true),
            (format!("haft-000000000000-{namespace}-{pid}-{begun}-0"), true),
            (format!("haft-{boot}-{}-4194999-5-0", namespace + 1), false),
            (format!("{boot}-{namespace}-4194999-5-0"), false),
            ("haft-mine".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(is_left(&left), is_it, "{left}");
        }
    }
}
