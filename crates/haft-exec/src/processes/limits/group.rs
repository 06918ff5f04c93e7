//! A control group for all programs of one haft. Version 1 of control groups has a separate tree
//! for each resource, and single threads can join a group: our spawning threads join once, and
//! their children start in the group. In version 2 only whole processes can join, so each child is
//! created inside the group.

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::Allowance;

/// Prefix of the names of our groups, followed by our process id.
const NAME_PREFIX: &str = "haft-";

pub(crate) struct ControlGroup {
    kind: GroupKind,
    /// Our folders, removed on drop.
    folders: GroupFolders,
    /// The counters at the last check.
    known: Mutex<LimitHits>,
}

enum GroupKind {
    /// Threads join by writing their id to these files.
    Threads { tasks: [PathBuf; 2] },
    /// Children are created in it.
    Children { handle: OwnedFd },
}

struct GroupFolders {
    processes: PathBuf,
    memory: PathBuf,
}

/// Counts how often programs exceeded the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitHits {
    /// A process could not be created.
    pub(crate) processes: u64,
    /// A process was killed because memory was used up.
    pub(crate) memory: u64,
}

impl LimitHits {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            processes: self.processes.saturating_sub(earlier.processes),
            memory: self.memory.saturating_sub(earlier.memory),
        }
    }
}

impl ControlGroup {
    /// Creates the group. None when this user may not create one, or when there are none.
    pub(crate) fn make(allowance: Allowance) -> Option<Self> {
        let ours = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let trees = CgroupTrees { ours: &ours, mounts: &mounts };
        Self::of_threads(&trees, allowance).or_else(|_| Self::of_children(&trees, allowance)).ok()
    }

    fn of_threads(trees: &CgroupTrees<'_>, allowance: Allowance) -> io::Result<Self> {
        let folders = GroupFolders {
            processes: create_own(trees.first("pids")?)?,
            memory: create_own(trees.first("memory")?)?,
        };
        fs::write(folders.processes.join("pids.max"), allowance.processes.to_string())?;
        fs::write(folders.memory.join("memory.limit_in_bytes"), allowance.memory.to_string())?;
        let tasks = [&folders.processes, &folders.memory].map(|folder| folder.join("tasks"));
        Ok(Self { kind: GroupKind::Threads { tasks }, folders, known: Mutex::default() })
    }

    fn of_children(trees: &CgroupTrees<'_>, allowance: Allowance) -> io::Result<Self> {
        let parent = trees.second()?;
        let folder = create_own(parent)?;
        let folders = GroupFolders { processes: folder.clone(), memory: folder.clone() };
        fs::write(folder.join("pids.max"), allowance.processes.to_string())?;
        fs::write(folder.join("memory.max"), allowance.memory.to_string())?;
        let handle = fs::File::open(&folder)?.into();
        Ok(Self { kind: GroupKind::Children { handle }, folders, known: Mutex::default() })
    }

    /// Moves this thread into the group, if the version works by threads.
    ///
    /// # Errors
    /// The kernel's error; the thread must not start programs.
    pub(crate) fn enter(&self) -> io::Result<()> {
        match &self.kind {
            GroupKind::Threads { tasks } => {
                tasks.iter().try_for_each(|tasks| fs::write(tasks, "0"))
            }
            GroupKind::Children { .. } => Ok(()),
        }
    }

    /// Returns the group in which children must be created, if the version works by children.
    pub(crate) fn child_group(&self) -> Option<&OwnedFd> {
        match &self.kind {
            GroupKind::Threads { .. } => None,
            GroupKind::Children { handle } => Some(handle),
        }
    }

    /// Returns the counters of the last check.
    pub(crate) fn known_hits(&self) -> LimitHits {
        *self.known.lock()
    }

    /// Reads the counters.
    pub(crate) fn hits(&self) -> LimitHits {
        let count = |folder: &Path, file: &str, word: &str| {
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            counted(&text, word).unwrap_or_default()
        };
        let GroupFolders { processes, memory } = &self.folders;
        let of_memory = match self.kind {
            GroupKind::Threads { .. } => "memory.oom_control",
            GroupKind::Children { .. } => "memory.events",
        };
        let hits = LimitHits {
            processes: count(processes, "pids.events", "max"),
            memory: count(memory, of_memory, "oom_kill"),
        };
        *self.known.lock() = hits;
        hits
    }
}

impl Drop for GroupFolders {
    fn drop(&mut self) {
        // A group with processes in it stays, and the next haft removes it.
        for folder in [&self.processes, &self.memory] {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The trees of control groups, and our position in them.
struct CgroupTrees<'a> {
    ours: &'a str,
    mounts: &'a str,
}

impl CgroupTrees<'_> {
    /// Returns our group in the version 1 tree for this resource.
    fn first(&self, sort: &str) -> io::Result<PathBuf> {
        let mut places = self.ours.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        });
        let is_it = |sorts: &str| sorts.split(',').any(|one| one == sort);
        let place = places.find(|(sorts, _)| is_it(sorts)).map(|(_, place)| place);
        let mount = self.mounts().find(|mount| mount.kind == "cgroup" && is_it(mount.options));
        place.zip(mount).and_then(|(place, mount)| mount.place(place)).ok_or_else(none)
    }

    /// Returns our nearest ancestor in the version 2 tree whose groups can have these limits.
    fn second(&self) -> io::Result<PathBuf> {
        let place = self.ours.lines().find_map(|line| line.strip_prefix("0::")).ok_or_else(none)?;
        let mount = self.mounts().find(|mount| mount.kind == "cgroup2").ok_or_else(none)?;
        let create_own = mount.place(place).ok_or_else(none)?;
        let limits = |folder: &&Path| {
            let text = fs::read_to_string(folder.join("cgroup.subtree_control"));
            let has = |word: &str, text: &str| text.split_ascii_whitespace().any(|w| w == word);
            text.is_ok_and(|text| has("pids", &text) && has("memory", &text))
        };
        let above = create_own.ancestors().take_while(|folder| folder.starts_with(mount.at));
        above.into_iter().find(limits).map(Path::to_owned).ok_or_else(none)
    }

    fn mounts(&self) -> impl Iterator<Item = CgroupMount<'_>> {
        self.mounts.lines().filter_map(CgroupMount::read)
    }
}

/// One line of the mount table.
struct CgroupMount<'a> {
    /// The part of the tree that it shows.
    root: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> CgroupMount<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (before, behind) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let mut fields = behind.split(' ');
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        Some(Self { root, at, kind, options })
    }

    fn place(&self, place: &str) -> Option<PathBuf> {
        let below = Path::new(place).strip_prefix(self.root).ok()?;
        Some(Path::new(self.at).join(below))
    }
}

fn none() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Creates a new group in this one, and removes groups of a haft that is gone.
fn create_own(parent: PathBuf) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    sweep(&parent);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = parent.join(format!("{NAME_PREFIX}{}-{number}", std::process::id()));
    fs::create_dir(&folder)?;
    Ok(folder)
}

fn sweep(parent: &Path) {
    let Ok(listing) = fs::read_dir(parent) else { return };
    for entry in listing.flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(NAME_PREFIX)?.split('-').next());
        let owner = owner.and_then(|owner| owner.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            // The kernel does not remove a group with processes in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns the number after a word.
fn counted(text: &str, word: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == word)?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:39 /docker/x /sys/fs/cgroup/pids rw,relatime shared:5 - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn our_place_is_found_in_both_versions_of_the_trees() {
        let ours = "8:pids:/docker/x/y\n4:cpu,memory:/a\n0::/b/c\n";
        let trees = CgroupTrees { ours, mounts: MOUNTS };
        let first = |sort| trees.first(sort).expect("there");
        assert_eq!(first("pids"), Path::new("/sys/fs/cgroup/pids/y"));
        assert_eq!(first("memory"), Path::new("/sys/fs/cgroup/memory/a"));
        assert!(trees.first("cpu").is_err() && trees.second().is_err());
        let elsewhere = CgroupTrees { ours: "8:pids:/other\n", mounts: MOUNTS };
        assert!(elsewhere.first("pids").is_err(), "not shown here");
    }

    #[test]
    fn a_place_above_us_whose_groups_have_limits_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let slice = folder.path().join("user/app");
        fs::create_dir_all(slice.join("terminal")).expect("made");
        for (at, text) in [("user", "cpu\n"), ("user/app", "cpu memory pids\n")] {
            let file = folder.path().join(at).join("cgroup.subtree_control");
            fs::write(file, text).expect("written");
        }
        let mounts = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw", folder.path().display());
        let find = |ours: &str| CgroupTrees { ours, mounts: &mounts }.second();
        assert_eq!(find("0::/user/app/terminal\n").expect("found"), slice);
        assert!(find("0::/user\n").is_err());
    }

    #[test]
    fn counts_are_read() {
        assert_eq!(counted("low 0\noom 2\noom_kill 3\n", "oom_kill"), Some(3));
        assert_eq!(counted("max 7\n", "max"), Some(7));
        assert_eq!(counted("", "max"), None);
        let hits = |processes, memory| LimitHits { processes, memory };
        assert_eq!(hits(5, 1).since(hits(2, 1)), hits(3, 0));
    }
}
