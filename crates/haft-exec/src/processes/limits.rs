//! Limits for all programs of one haft together, so that a program that forks or allocates
//! endlessly is stopped before it harms the machine. Where control groups are available one group
//! holds all programs; otherwise each process gets its own limits. In both cases the kernel ends
//! programs first when memory runs out.

mod group;
mod mark;

use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) use self::{
    group::{ControlGroup, LimitHits},
    mark::{LaunchMark, MARKED_RESOURCE},
};

/// The limits of all programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Maximum number of processes and threads.
    pub processes: u64,
    /// Maximum memory in bytes.
    pub memory: u64,
}

/// Maximum of the default; commands get more memory only from the config.
const MAX_DEFAULT_MEMORY_BYTES: u64 = 8 << 30;

impl Default for Allowance {
    /// Enough for a build or a browser; at least half of the memory is left to other programs.
    fn default() -> Self {
        Self { processes: 2048, memory: default_memory(memory_of_machine()) }
    }
}

fn default_memory(machine: u64) -> u64 {
    (machine / 2).min(MAX_DEFAULT_MEMORY_BYTES)
}

/// The mechanism that enforces the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitBackend {
    /// A control group for all programs together.
    Group,
    /// Limits of each process.
    Each,
    /// Without a control group nothing limits the number of root's processes.
    MemoryOnly,
}

impl Allowance {
    /// Returns the mechanism that works here, by creating a group.
    pub fn mechanism(self) -> LimitBackend {
        match ControlGroup::make(self) {
            Some(_) => LimitBackend::Group,
            None if rustix::process::getuid().is_root() => LimitBackend::MemoryOnly,
            None => LimitBackend::Each,
        }
    }
}

/// The resource limits that a child sets before it becomes a program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessLimits {
    processes: Option<u64>,
    memory: Option<u64>,
    mark: Option<LaunchMark>,
}

impl ProcessLimits {
    /// A child in a control group needs no further limits.
    pub(crate) fn of(allowance: Allowance, is_in_group: bool) -> Self {
        if is_in_group {
            return Self::default();
        }
        // The kernel counts all processes of a user, so the existing ones are added.
        let processes = tasks_now().map(|now| now + allowance.processes);
        Self { processes, memory: Some(allowance.memory), mark: None }
    }

    /// Adds the mark of a launch.
    pub(crate) fn marked(self, mark: LaunchMark) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// Sets the limits in the child, permanently. Allocates nothing.
    ///
    /// # Errors
    /// When the kernel refuses a limit.
    pub(crate) fn apply(self) -> io::Result<()> {
        for (resource, max) in [
            (Resource::Nproc, self.processes),
            (Resource::Data, self.memory),
            // A core dump is useless here, and may contain secrets.
            (Resource::Core, Some(0)),
        ] {
            let Some(max) = max else { continue };
            let known = getrlimit(resource).maximum;
            let max = Some(known.map_or(max, |known| known.min(max)));
            setrlimit(resource, Rlimit { current: max, maximum: max })?;
        }
        if let Some(mark) = self.mark {
            mark.set();
        }
        prefer_for_oom_kill();
        Ok(())
    }
}

/// Makes the kernel end this process first when memory runs out, instead of the user's editor. Not
/// every user may set this.
fn prefer_for_oom_kill() {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = openat(CWD, c"/proc/self/oom_score_adj", flags, Mode::empty()) {
        let _ = rustix::io::write(&file, b"500");
    }
}

/// Returns the number of threads on this machine.
fn tasks_now() -> Option<u64> {
    tasks_in(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn tasks_in(load: &str) -> Option<u64> {
    load.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Uses a system call: the kernel's table takes longer to generate than the rest of a server's
/// start.
fn memory_of_machine() -> u64 {
    let info = rustix::system::sysinfo();
    let units = u64::from(info.mem_unit.max(1));
    info.totalram.saturating_mul(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        assert_eq!(tasks_in("0.48 1.17 1.04 2/345 12345\n"), Some(345));
        assert_eq!(tasks_in("0.48"), None);
        assert!(tasks_now().is_some_and(|tasks| tasks > 0));
        let table = fs::read_to_string("/proc/meminfo").expect("it is there");
        let line = table.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("a line");
        let kilobytes = line.trim().strip_suffix("kB").expect("a unit").trim();
        assert_eq!(memory_of_machine() >> 10, kilobytes.parse::<u64>().expect("a number"));
    }

    #[test]
    fn commands_get_half_of_the_memory_and_at_most_eight_gigabytes() {
        assert_eq!(default_memory(4 << 30), 2 << 30);
        assert_eq!(default_memory(16 << 30), 8 << 30);
        assert_eq!(default_memory(512 << 30), 8 << 30);
        assert_eq!(Allowance::default().memory, default_memory(memory_of_machine()));
    }

    #[test]
    fn a_process_in_a_group_needs_no_further_limits() {
        let allowance = Allowance { processes: 10, memory: 1 << 30 };
        let bounds = ProcessLimits::of(allowance, true);
        assert!(bounds.processes.is_none() && bounds.memory.is_none());
        let bounds = ProcessLimits::of(allowance, false);
        assert!(bounds.processes.is_some_and(|max| max > 10), "on top of what is there");
        assert_eq!(bounds.memory, Some(1 << 30));
    }
}
