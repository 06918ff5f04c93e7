//! How much all programs of one haft may take together, so that one that forks or allocates without end meets a wall
//! before the machine does. Where control groups can be had a group holds them all; otherwise each process gets limits of
//! its own. In both cases the kernel takes programs first when memory runs out.

mod group;
mod mark;

use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) use self::{
    group::{Group, Hits},
    mark::{LaunchMark, MARKED_RESOURCE},
};

/// What programs may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Processes and threads at once.
    pub processes: u64,
    /// Bytes of memory.
    pub memory: u64,
}

/// More memory than this commands get only from the config.
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

/// What holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitBackend {
    /// A control group, for all together.
    Group,
    /// Allowance of each process.
    Each,
    /// Nothing holds the number of processes of root without a control group.
    MemoryOnly,
}

impl Allowance {
    /// What would hold programs here; tried by making a group.
    pub fn held(self) -> LimitBackend {
        match Group::make(self) {
            Some(_) => LimitBackend::Group,
            None if rustix::process::getuid().is_root() => LimitBackend::MemoryOnly,
            None => LimitBackend::Each,
        }
    }
}

/// What a child accepts before it becomes a program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    processes: Option<u64>,
    memory: Option<u64>,
    mark: Option<LaunchMark>,
}

impl Bounds {
    /// For a child that a group holds there is nothing to add.
    pub(crate) fn of(allowance: Allowance, is_in_group: bool) -> Self {
        if is_in_group {
            return Self::default();
        }
        // The kernel counts all processes of a person, so those that are there already are given on top.
        let processes = tasks_now().map(|now| now + allowance.processes);
        Self { processes, memory: Some(allowance.memory), mark: None }
    }

    /// The same, and the child bears a mark.
    pub(crate) fn marked(self, mark: LaunchMark) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// In the child, for good. Nothing is allocated.
    ///
    /// # Errors
    /// When the kernel does not take a limit.
    pub(crate) fn accept(self) -> io::Result<()> {
        for (resource, most) in [
            (Resource::Nproc, self.processes),
            (Resource::Data, self.memory),
            // A memory image of a program that fails is of no use to anybody here, and may hold secrets.
            (Resource::Core, Some(0)),
        ] {
            let Some(most) = most else { continue };
            let known = getrlimit(resource).maximum;
            let most = Some(known.map_or(most, |known| known.min(most)));
            setrlimit(resource, Rlimit { current: most, maximum: most })?;
        }
        if let Some(mark) = self.mark {
            mark.put_on();
        }
        offer_first();
        Ok(())
    }
}

/// When memory runs out something has to go, and it should not be the person's editor. Not everybody may say so.
fn offer_first() {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = openat(CWD, c"/proc/self/oom_score_adj", flags, Mode::empty()) {
        let _ = rustix::io::write(&file, b"500");
    }
}

/// How many threads there are on this machine.
fn tasks_now() -> Option<u64> {
    tasks_in(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn tasks_in(load: &str) -> Option<u64> {
    load.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Asked of the kernel itself: its table of the same takes longer to be written than all else at a server's start.
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
        let told = fs::read_to_string("/proc/meminfo").expect("it is there");
        let line = told.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("a line");
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
    fn who_is_in_a_group_needs_no_limits_of_its_own() {
        let allowance = Allowance { processes: 10, memory: 1 << 30 };
        let bounds = Bounds::of(allowance, true);
        assert!(bounds.processes.is_none() && bounds.memory.is_none());
        let bounds = Bounds::of(allowance, false);
        assert!(bounds.processes.is_some_and(|most| most > 10), "on top of what is there");
        assert_eq!(bounds.memory, Some(1 << 30));
    }
}
