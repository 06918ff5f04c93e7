//! The process tree of a launch, however its processes tried to get away: groups and sessions of their own, orphans that
//! other processes have taken in, daemons. Each process bears the mark of its launch in a resource limit (`limits/mark.rs`) and
//! in its environment, is below one that does, or holds the launch's pipe.

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

/// What the members of a launch have in common.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    /// The first of them; the number of its group and session too.
    pub(crate) leader: Pid,
    /// The mark in the environment.
    pub(crate) mark: String,
    /// The mark in the limits.
    pub(crate) number: LaunchMark,
    /// The inodes of our pipes, which only members hold at the other end.
    pub(crate) pipes: Vec<u64>,
}

/// One line of the table of processes.
struct Entry {
    parent: i32,
    group: i32,
    session: i32,
    /// None of its code runs any more.
    is_over: bool,
}

/// So often a look is repeated that has found traces only.
const MOST_LOOKS: usize = 20;
/// After so many rounds without a member all are gone.
const QUIET_ROUNDS: usize = 2;
/// Rounds of looking and killing: whoever forks faster than that is caught at the next.
const MOST_ROUNDS: usize = 200;
/// A process that does not die of this (it waits for a disk) is left to the system.
const LONGEST: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

impl Family {
    /// Those that live. The leader only while it does.
    pub(crate) fn members(&self) -> Vec<Pid> {
        self.members_in(&table(0))
    }

    /// How many it has left behind, now that its leader has ended.
    pub(crate) fn left(&self) -> usize {
        // A process that forks and ends, again and again, may be another one each time somebody looks.
        for _ in 0..MOST_LOOKS {
            let ended = orphans::ended();
            let Some(alive) = orphans::alive() else {
                // Numbers go round one day, so this is for counting and not for ending.
                return self.members_in(&table(self.leader.as_raw_nonzero().get())).len();
            };
            // All that is left is below orphans, and they are ours.
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
        // Whoever is below a member is one, whatever it has done to its environment.
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
            || self.bears_mark(pid)
            || (self.holds_pipe(pid) && !is_to_be(pid, entry))
            || has_changed_its_mark(pid, entry)
    }

    fn bears_mark(&self, pid: i32) -> bool {
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

    /// Ends all of them and returns when none is left, or when the system does not let one go. Blocks.
    pub(crate) fn end(&self) {
        let begun = Instant::now();
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS && begun.elapsed() < LONGEST {
            let ended = orphans::ended();
            self.stop_at_sight();
            let members = self.members();
            let is_quiet = members.is_empty() && !has_ended_since(ended) && self.left() == 0;
            quiet = if is_quiet { quiet + 1 } else { 0 };
            // All stand still before the first one dies, or its fellows would take its place.
            for signal in [Signal::STOP, Signal::KILL] {
                for member in &members {
                    // Gone in the meantime, or not ours to kill: the next round tells.
                    let _ = kill_process(*member, signal);
                }
            }
            if !members.is_empty() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Stops each that bears the mark when it is seen, not after the whole table was read: a process that forks and ends, again
    /// and again, has another number by then.
    fn stop_at_sight(&self) {
        let own = std::process::id().cast_signed();
        let stop = |pid: i32| {
            if let Some(it) = Pid::from_raw(pid).filter(|_| pid != own && self.number.is_on(pid)) {
                let _ = kill_process(it, Signal::STOP);
            }
        };
        // What loses its parent is in a short list; the whole table takes long to read.
        orphans::alive().into_iter().flatten().for_each(stop);
        let listing = fs::read_dir("/proc").into_iter().flatten().flatten();
        listing.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).for_each(stop);
    }

    /// Those that could not be ended, each with its number and command line.
    pub(crate) fn survivors(&self) -> Vec<(i32, String)> {
        let members = self.members().into_iter().map(|pid| pid.as_raw_nonzero().get());
        members.map(|pid| (pid, command_of(pid))).collect()
    }

    /// Has [`end_all`] end it too, whatever its processes do.
    pub(crate) fn note(&self) {
        noted().push(self.clone());
    }

    /// Nothing of it is left.
    pub(crate) fn forget(&self) {
        noted().retain(|family| family.number != self.number);
    }
}

/// Whether a process that is exiting still has children. They become orphans when its exit is complete: until then no list of
/// orphans shows them.
fn has_children(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/task/{pid}/children")).is_ok_and(|children| !children.is_empty())
}

/// Whether an orphan has ended since this count, also one that lived when it was listed and ended before it was judged.
fn has_ended_since(count: usize) -> bool {
    let _ = orphans::alive();
    orphans::ended() != count
}

/// Whether an orphan that we have taken in has changed its mark. Then nobody can tell which launch it is of, so it ends with
/// the first that does.
fn has_changed_its_mark(pid: i32, entry: &Entry) -> bool {
    entry.parent == std::process::id().cast_signed()
        && orphans::alive().is_some_and(|alive| alive.contains(&pid))
        && LaunchMark::is_changed_on(pid, &noted().iter().map(|it| it.number).collect::<Vec<_>>())
}

/// Those of this process that may live.
fn noted() -> MutexGuard<'static, Vec<Family>> {
    static NOTED: Mutex<Vec<Family>> = Mutex::new(Vec::new());
    NOTED.lock()
}

/// The command line of a process, or its name when it has none.
fn command_of(pid: i32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    match words.trim() {
        "" => fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned(),
        words => words.chars().take(200).collect(),
    }
}

/// Ends everything whose mark begins like this, whoever its leader was.
pub(crate) fn end_all(beginning: &str) {
    let families = std::mem::take(&mut *noted());
    families.iter().for_each(Family::end);
    // Only a command without a sandbox can have had another program start something for it, which is then not below this
    // process. Reading the environment of every process takes longer than most commands.
    if !HAS_RUN_UNSANDBOXED.load(Ordering::Acquire) && has_no_descendants() {
        return;
    }
    let wanted = format!("{MARK}={beginning}");
    let own = std::process::id().cast_signed();
    for _ in 0..MOST_ROUNDS {
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
        std::thread::sleep(PAUSE);
    }
}

/// Notes that a command runs without a sandbox, or in a container, whose processes are not below this one.
pub(crate) fn note_unsandboxed() {
    HAS_RUN_UNSANDBOXED.store(true, Ordering::Release);
}

static HAS_RUN_UNSANDBOXED: AtomicBool = AtomicBool::new(false);

/// Returns true if no process is below this one. Only a process that takes in its orphans can know.
fn has_no_descendants() -> bool {
    let ended = orphans::ended();
    let Some(orphans) = orphans::alive() else { return false };
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return false };
    // A list that cannot be read may have names on it.
    let has_none = |thread: io::Result<fs::DirEntry>| {
        let children = thread.and_then(|thread| fs::read(thread.path().join("children")));
        children.is_ok_and(|pids| pids.is_empty())
    };
    // A child that ended just now may have left its own children to this process.
    orphans.is_empty() && threads.into_iter().all(has_none) && !has_ended_since(ended)
}

/// Whether it is a child of ours that is not yet the program it will be. Until then it has all that we have, our pipes to every
/// launch among it; whose it is shows afterwards. Somebody in this process may just start something that is none of ours.
fn is_to_be(pid: i32, entry: &Entry) -> bool {
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

/// A process that just becomes another program has none for a moment.
fn environment_of(pid: i32) -> Option<Vec<u8>> {
    for _ in 0..5 {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        // The kernel's own threads have no program either.
        let is_between =
            environment.is_empty() && fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        if !is_between {
            return Some(environment);
        }
        std::thread::sleep(PAUSE / 10);
    }
    None
}

/// The inode behind a descriptor.
pub(crate) fn inode(handle: impl AsFd) -> Option<u64> {
    rustix::fs::fstat(handle).ok().map(|stat| stat.st_ino)
}

/// The processes from a number on.
fn table(from: i32) -> HashMap<i32, Entry> {
    let Ok(listing) = fs::read_dir("/proc") else { return HashMap::new() };
    listing.flatten().filter_map(|entry| entry_of(&entry.file_name(), from)).collect()
}

fn entry_of(name: &OsStr, from: i32) -> Option<(i32, Entry)> {
    let pid: i32 = name.to_str()?.parse().ok().filter(|pid| *pid >= from)?;
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    Some((pid, parsed(&stat)?))
}

/// `PF_EXITING`. The first process of a PID namespace stays in that state until its mounts are taken down.
const EXITING: u64 = 4;

/// `pid (name) state parent group session …`; the name may hold anything, so what counts is behind its last parenthesis.
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

    /// A child is called like the thread that it comes from until it is its program.
    const NAME: &str = "half-born";
    /// It has the other end of what it waits for, too, so nothing else would end its wait if we are gone.
    const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

    /// A child that waits for us before it becomes `cat`, which then holds the pipe as its input.
    fn half_born(release: OwnedFd, input: OwnedFd) -> thread::JoinHandle<Child> {
        let named = thread::Builder::new().name(NAME.to_owned());
        let begun = named.spawn(move || {
            let mut command = Command::new("cat");
            command.stdin(input).stdout(Stdio::null()).env_clear();
            #[expect(unsafe_code, reason = "a child is held between its birth and its program")]
            // SAFETY: it makes one system call, on a descriptor that is its own.
            unsafe {
                command.pre_exec(move || {
                    let mut polled = [PollFd::new(&release, PollFlags::IN)];
                    poll(&mut polled, Some(&PATIENCE))?;
                    Ok(())
                });
            }
            command.spawn().expect("cat runs")
        });
        begun.expect("a thread")
    }

    #[test]
    fn who_holds_a_pipe_is_a_member_but_not_before_it_is_its_program() {
        let own = std::process::id().cast_signed();
        let is_called = |pid: i32| {
            fs::read(format!("/proc/{pid}/comm"))
                .is_ok_and(|it| it.trim_ascii_end() == NAME.as_bytes())
        };
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let (wait, release) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let leader = Pid::from_raw(i32::MAX).expect("not zero");
        let pipes = vec![inode(&reader).expect("it is open")];
        let family =
            Family { leader, mark: "nobody".to_owned(), number: LaunchMark::of("x"), pipes };
        let born = half_born(wait, reader);
        let child = loop {
            let mut ours = table(0).into_iter().filter(|(_, entry)| entry.parent == own);
            if let Some((child, _)) = ours.find(|(pid, _)| is_called(*pid)) {
                break child;
            }
            thread::yield_now();
        };
        let is_member = || family.members().iter().any(|it| it.as_raw_nonzero().get() == child);
        assert!(family.holds_pipe(child) && !is_member());
        rustix::io::write(&release, b"x").expect("it waits");
        let mut cat = born.join().expect("it is born");
        assert!(is_member());
        drop(writer);
        assert!(cat.wait().expect("it ends").success());
    }

    #[test]
    fn we_are_in_the_table_and_in_no_family() {
        let own = std::process::id().cast_signed();
        assert!(table(0).contains_key(&own) && table(own).contains_key(&own));
        assert!(!table(own + 1).contains_key(&own));
        let leader = Pid::from_raw(i32::MAX).expect("not zero");
        let number = LaunchMark::of("x");
        let family = Family { leader, mark: "nobody".to_owned(), number, pipes: vec![] };
        assert!(family.members().is_empty() && family.survivors().is_empty());
        family.end();
    }

    #[test]
    fn who_survives_is_named_with_its_command() {
        let mut child = Command::new("sleep").arg("4719").process_group(0).spawn().expect("runs");
        let leader = Pid::from_child(&child);
        let number = LaunchMark::of("x");
        let family = Family { leader, mark: "nobody".to_owned(), number, pipes: vec![] };
        let pid = child.id().cast_signed();
        // Until it is the program it is called as we are.
        while command_of(pid) != "sleep 4719" {
            thread::yield_now();
        }
        assert_eq!(family.survivors(), [(pid, "sleep 4719".to_owned())]);
        family.end();
        assert!(!child.wait().expect("ended").success());
        assert!(family.survivors().is_empty());
    }
}
