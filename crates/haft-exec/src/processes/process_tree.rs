//! The process tree of a launch, even when its processes try to escape: own process groups and
//! sessions, orphans that other processes adopted, daemons. A process belongs to it if it has the
//! mark of the launch in a resource limit (`limits/mark.rs`) or in its environment, is a descendant
//! of one that has, or holds the launch's pipe.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs, io,
    os::{
        fd::AsFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use rustix::process::{Pid, Signal, kill_process};

use super::{environment::MARK, limits::LaunchMark, orphans};

/// Identifies the processes of one launch.
#[derive(Clone, Debug)]
pub(crate) struct ProcessTree {
    /// The first process, which is also the id of its group and session.
    pub(crate) leader: Pid,
    /// The mark in the environment.
    pub(crate) mark: String,
    /// The mark in the resource limits.
    pub(crate) number: LaunchMark,
    /// The inodes of our pipes, whose other ends only processes of the tree hold.
    pub(crate) pipes: Vec<u64>,
}

/// An entry of the process table.
struct Entry {
    parent: i32,
    group: i32,
    session: i32,
    /// True when it runs no more code.
    is_over: bool,
}

/// Maximum number of attempts to count processes that keep forking.
const MAX_COUNT_ATTEMPTS: usize = 20;
/// Number of consecutive rounds without members after which all are gone.
const QUIET_ROUNDS: usize = 2;
/// Maximum number of rounds: a process that forks faster than one round is caught in the next.
const MAX_KILL_ROUNDS: usize = 200;
/// A process that survives this long (it waits for a disk) is left to the system.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
const ROUND_DELAY: Duration = Duration::from_millis(2);

impl ProcessTree {
    /// Returns the living members; the leader only while it lives.
    pub(crate) fn members(&self) -> Vec<Pid> {
        self.members_in(&table(0))
    }

    /// Counts the processes that are left after the leader has ended.
    pub(crate) fn remaining(&self) -> usize {
        // A process that forks and exits repeatedly may have another id at each check.
        for _ in 0..MAX_COUNT_ATTEMPTS {
            let ended = orphans::ended();
            let Some(alive) = orphans::alive() else {
                // Ids are reused eventually, so this is only for counting, not for killing.
                return self.members_in(&table(self.leader.as_raw_nonzero().get())).len();
            };
            // All remaining processes are descendants of orphans, which are our children.
            if alive.iter().any(|pid| self.has(*pid)) {
                return self.members().len().max(1);
            }
            if !has_ended_since(ended) {
                return 0;
            }
        }
        1
    }

    fn has(&self, pid: i32) -> bool {
        let entry = entry_of(OsStr::new(&pid.to_string()), 0);
        entry.is_some_and(|(pid, entry)| {
            (!entry.is_over || has_children(pid)) && self.is_marked(pid, &entry)
        })
    }

    fn members_in(&self, table: &HashMap<i32, Entry>) -> Vec<Pid> {
        let own = std::process::id().cast_signed();
        let mut found: HashSet<i32> = table
            .iter()
            .filter(|(pid, entry)| **pid != own && !entry.is_over && self.is_marked(**pid, entry))
            .map(|(pid, _)| *pid)
            .collect();
        // Descendants of a member are members, whatever they did to their environment.
        loop {
            let before = found.len();
            let below = table.iter().filter(|(pid, entry)| {
                !entry.is_over && **pid != own && found.contains(&entry.parent)
            });
            let below: Vec<i32> = below.map(|(pid, _)| *pid).collect();
            found.extend(below);
            if found.len() == before {
                break;
            }
        }
        found.into_iter().filter_map(Pid::from_raw).collect()
    }

    fn is_marked(&self, pid: i32, entry: &Entry) -> bool {
        let leader = self.leader.as_raw_nonzero().get();
        pid == leader
            || entry.group == leader
            || entry.session == leader
            || self.number.is_on(pid)
            || self.has_mark(pid)
            || (self.holds_pipe(pid) && !has_not_called_exec(pid, entry))
            || has_changed_mark(pid, entry)
    }

    fn has_mark(&self, pid: i32) -> bool {
        let wanted = format!("{MARK}={}", self.mark);
        let is_it = |variable: &[u8]| variable == wanted.as_bytes();
        environment_of(pid).is_some_and(|all| all.split(|byte| *byte == 0).any(is_it))
    }

    fn holds_pipe(&self, pid: i32) -> bool {
        let Ok(handles) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        let mut targets = handles.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| {
            let target = target.into_os_string().into_vec();
            self.pipes.iter().any(|inode| target == format!("pipe:[{inode}]").as_bytes())
        })
    }

    /// Ends all members. Returns when none is left, or when the system cannot end one. Blocks.
    pub(crate) fn end(&self) {
        let begun = Instant::now();
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS && begun.elapsed() < KILL_TIMEOUT {
            let ended = orphans::ended();
            self.stop_marked();
            let members = self.members();
            let is_quiet = members.is_empty() && !has_ended_since(ended) && self.remaining() == 0;
            quiet = if is_quiet { quiet + 1 } else { 0 };
            // Stop all before killing the first one, or others would replace it.
            for signal in [Signal::STOP, Signal::KILL] {
                for member in &members {
                    // It is gone, or we may not signal it: the next round shows.
                    let _ = kill_process(*member, signal);
                }
            }
            if !members.is_empty() {
                std::thread::sleep(ROUND_DELAY);
            }
        }
    }

    /// Stops each marked process as soon as it is seen, not after reading the whole table: a
    /// process that forks and exits repeatedly has another id by then.
    fn stop_marked(&self) {
        let own = std::process::id().cast_signed();
        let stop = |pid: i32| {
            if let Some(it) = Pid::from_raw(pid).filter(|_| pid != own && self.number.is_on(pid)) {
                let _ = kill_process(it, Signal::STOP);
            }
        };
        // Orphans are in a short list; reading the whole table takes long.
        orphans::alive().into_iter().flatten().for_each(stop);
        let listing = fs::read_dir("/proc").into_iter().flatten().flatten();
        listing.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).for_each(stop);
    }

    /// Returns the processes that could not be ended, with id and command line.
    pub(crate) fn survivors(&self) -> Vec<(i32, String)> {
        let members = self.members().into_iter().map(|pid| pid.as_raw_nonzero().get());
        members.map(|pid| (pid, command_of(pid))).collect()
    }

    /// Registers the tree, so that [`end_all`] ends it too.
    pub(crate) fn register(&self) {
        registered().push(self.clone());
    }

    /// Removes the tree when none of its processes is left.
    pub(crate) fn unregister(&self) {
        registered().retain(|tree| tree.number != self.number);
    }
}

/// Returns true when an exiting process still has children. They become orphans when it has exited:
/// until then no list of orphans contains them.
fn has_children(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/task/{pid}/children")).is_ok_and(|children| !children.is_empty())
}

/// Returns true when an orphan has ended since this count, including one that ended between listing
/// and checking.
fn has_ended_since(count: usize) -> bool {
    let _ = orphans::alive();
    orphans::ended() != count
}

/// Returns true when an orphan that we adopted has changed its mark. Its launch is unknown then, so
/// it ends with the first one that ends.
fn has_changed_mark(pid: i32, entry: &Entry) -> bool {
    entry.parent == std::process::id().cast_signed()
        && orphans::alive().is_some_and(|alive| alive.contains(&pid))
        && LaunchMark::is_changed_on(
            pid,
            &registered().iter().map(|it| it.number).collect::<Vec<_>>(),
        )
}

/// The trees of this process that may be alive.
fn registered() -> MutexGuard<'static, Vec<ProcessTree>> {
    static REGISTERED: Mutex<Vec<ProcessTree>> = Mutex::new(Vec::new());
    REGISTERED.lock()
}

/// Returns the command line of a process, or its name when it has none.
fn command_of(pid: i32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    match words.trim() {
        "" => fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned(),
        words => words.chars().take(200).collect(),
    }
}

/// Ends everything whose mark begins like this, including launches of other leaders.
pub(crate) fn end_all(beginning: &str) {
    let trees = std::mem::take(&mut *registered());
    trees.iter().for_each(ProcessTree::end);
    // Only an unsandboxed command can have made another program start something for it, which is
    // then not below this process. Reading the environment of every process takes longer than most
    // commands.
    if !HAS_RUN_UNSANDBOXED.load(Ordering::Acquire) && has_no_descendants() {
        return;
    }
    let wanted = format!("{MARK}={beginning}");
    let own = std::process::id().cast_signed();
    for _ in 0..MAX_KILL_ROUNDS {
        let is_it = |variable: &[u8]| variable.starts_with(wanted.as_bytes());
        let marked = table(0).into_iter().filter(|(pid, entry)| {
            *pid != own
                && !entry.is_over
                && environment_of(*pid).is_some_and(|all| all.split(|byte| *byte == 0).any(is_it))
        });
        let marked: Vec<Pid> = marked.filter_map(|(pid, _)| Pid::from_raw(pid)).collect();
        if marked.is_empty() {
            return;
        }
        for member in marked {
            let _ = kill_process(member, Signal::KILL);
        }
        std::thread::sleep(ROUND_DELAY);
    }
}

/// Notes that a command runs without a sandbox, or in a container, whose processes are not
/// descendants of this one.
pub(crate) fn note_unsandboxed() {
    HAS_RUN_UNSANDBOXED.store(true, Ordering::Release);
}

static HAS_RUN_UNSANDBOXED: AtomicBool = AtomicBool::new(false);

/// Returns true if this process has no descendants. Only a process that adopts its orphans can
/// know.
fn has_no_descendants() -> bool {
    let ended = orphans::ended();
    let Some(orphans) = orphans::alive() else { return false };
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return false };
    // An unreadable list may contain processes.
    let has_none = |thread: io::Result<fs::DirEntry>| {
        let children = thread.and_then(|thread| fs::read(thread.path().join("children")));
        children.is_ok_and(|pids| pids.is_empty())
    };
    // A child that ended just now may have left its own children to this process.
    orphans.is_empty() && threads.into_iter().all(has_none) && !has_ended_since(ended)
}

/// Returns true for a child of ours that has not called exec yet. Until then it has all our
/// descriptors, including the pipes of every launch; its owner is known afterwards. Other code in
/// this process may be starting an unrelated program.
fn has_not_called_exec(pid: i32, entry: &Entry) -> bool {
    let is_like_us = |file: &str| {
        let of = |who: &str| fs::read(format!("/proc/{who}/{file}")).ok();
        of(&pid.to_string()).is_some_and(|theirs| Some(theirs) == of("self"))
    };
    let program = |who: &str| fs::read_link(format!("/proc/{who}/exe")).ok();
    entry.parent == std::process::id().cast_signed()
        && program(&pid.to_string()).is_some_and(|theirs| Some(theirs) == program("self"))
        && is_like_us("environ")
        && is_like_us("cmdline")
}

/// The environment is empty for a moment during exec.
fn environment_of(pid: i32) -> Option<Vec<u8>> {
    for _ in 0..5 {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        // Kernel threads have no program either.
        let is_between =
            environment.is_empty() && fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        if !is_between {
            return Some(environment);
        }
        std::thread::sleep(ROUND_DELAY / 10);
    }
    None
}

/// Returns the inode of a descriptor.
pub(crate) fn inode(handle: impl AsFd) -> Option<u64> {
    rustix::fs::fstat(handle).ok().map(|stat| stat.st_ino)
}

/// Returns the processes with at least this id.
fn table(from: i32) -> HashMap<i32, Entry> {
    let Ok(listing) = fs::read_dir("/proc") else { return HashMap::new() };
    listing.flatten().filter_map(|entry| entry_of(&entry.file_name(), from)).collect()
}

fn entry_of(name: &OsStr, from: i32) -> Option<(i32, Entry)> {
    let pid: i32 = name.to_str()?.parse().ok().filter(|pid| *pid >= from)?;
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    Some((pid, parsed(&stat)?))
}

/// `PF_EXITING`. The first process of a PID namespace stays in that state until its mounts are
/// removed.
const EXITING: u64 = 4;

/// `pid (name) state parent group session …`; the name may contain any character, so the fields
/// start after its last parenthesis.
fn parsed(stat: &[u8]) -> Option<Entry> {
    let behind = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = OsStr::from_bytes(stat.get(behind + 1..)?).to_str()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let mut number = || fields.next()?.parse::<i64>().ok();
    let mut short = || number().and_then(|number| i32::try_from(number).ok());
    let (parent, group, session) = (short()?, short()?, short()?);
    let (flags, threads) = (fields.nth(2), fields.nth(10));
    let is_exiting =
        flags.and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| it & EXITING != 0);
    // The first thread of a process may end before the others.
    let has_threads = threads.and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| it > 1);
    let is_over = (is_exiting || matches!(state, "Z" | "X" | "x")) && !has_threads;
    Some(Entry { parent, group, session, is_over })
}

#[cfg(test)]
mod tests {
    use std::{
        os::{fd::OwnedFd, unix::process::CommandExt},
        process::{Child, Command, Stdio},
        thread,
    };

    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        pipe::PipeFlags,
    };

    use super::*;

    #[test]
    fn a_name_cannot_forge_the_fields_behind_it() {
        let entry = parsed(b"12 (a) Z 1 1 1 (b) S 7 8 9 0").expect("a line");
        assert_eq!((entry.parent, entry.group, entry.session, entry.is_over), (7, 8, 9, false));
        assert!(parsed(b"12 (x) Z 1 2 3").expect("a line").is_over);
        assert!(parsed(b"").is_none() && parsed(b"1 (x) S").is_none());
    }

    /// Until exec a child has the name of the thread that created it.
    const NAME: &str = "before-exec";
    /// The child also has the other end of the pipe that it waits on, so without a timeout it would
    /// wait forever if the test died.
    const TIMEOUT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

    /// Starts a child that waits for us before it becomes `cat`, which then holds the pipe as its
    /// input.
    fn start_before_exec(release: OwnedFd, input: OwnedFd) -> thread::JoinHandle<Child> {
        let named = thread::Builder::new().name(NAME.to_owned());
        let begun = named.spawn(move || {
            let mut command = Command::new("cat");
            command.stdin(input).stdout(Stdio::null()).env_clear();
            #[expect(unsafe_code, reason = "a child is held between fork and exec")]
            // SAFETY: it makes one system call, on its own descriptor.
            unsafe {
                command.pre_exec(move || {
                    let mut polled = [PollFd::new(&release, PollFlags::IN)];
                    poll(&mut polled, Some(&TIMEOUT))?;
                    Ok(())
                });
            }
            command.spawn().expect("cat runs")
        });
        begun.expect("a thread")
    }

    #[test]
    fn a_process_that_holds_a_pipe_is_a_member_after_exec() {
        let own = std::process::id().cast_signed();
        let is_called = |pid: i32| {
            fs::read(format!("/proc/{pid}/comm"))
                .is_ok_and(|it| it.trim_ascii_end() == NAME.as_bytes())
        };
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let (wait, release) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let leader = Pid::from_raw(i32::MAX).expect("not zero");
        let pipes = vec![inode(&reader).expect("it is open")];
        let tree =
            ProcessTree { leader, mark: "none".to_owned(), number: LaunchMark::of("x"), pipes };
        let starting = start_before_exec(wait, reader);
        let child = loop {
            let mut ours = table(0).into_iter().filter(|(_, entry)| entry.parent == own);
            if let Some((child, _)) = ours.find(|(pid, _)| is_called(*pid)) {
                break child;
            }
            thread::yield_now();
        };
        let is_member = || tree.members().iter().any(|it| it.as_raw_nonzero().get() == child);
        assert!(tree.holds_pipe(child) && !is_member());
        rustix::io::write(&release, b"x").expect("it waits");
        let mut cat = starting.join().expect("it is starting");
        assert!(is_member());
        drop(writer);
        assert!(cat.wait().expect("it ends").success());
    }

    #[test]
    fn this_process_is_in_the_table_and_in_no_tree() {
        let own = std::process::id().cast_signed();
        assert!(table(0).contains_key(&own) && table(own).contains_key(&own));
        assert!(!table(own + 1).contains_key(&own));
        let leader = Pid::from_raw(i32::MAX).expect("not zero");
        let number = LaunchMark::of("x");
        let tree = ProcessTree { leader, mark: "none".to_owned(), number, pipes: vec![] };
        assert!(tree.members().is_empty() && tree.survivors().is_empty());
        tree.end();
    }

    #[test]
    fn a_survivor_is_named_with_its_command() {
        let mut child = Command::new("sleep").arg("4719").process_group(0).spawn().expect("runs");
        let leader = Pid::from_child(&child);
        let number = LaunchMark::of("x");
        let tree = ProcessTree { leader, mark: "none".to_owned(), number, pipes: vec![] };
        let pid = child.id().cast_signed();
        // Until exec it has our name.
        while command_of(pid) != "sleep 4719" {
            thread::yield_now();
        }
        assert_eq!(tree.survivors(), [(pid, "sleep 4719".to_owned())]);
        tree.end();
        assert!(!child.wait().expect("ended").success());
        assert!(tree.survivors().is_empty());
    }
}
