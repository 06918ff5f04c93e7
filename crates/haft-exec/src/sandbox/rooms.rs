//! Rooms: a layout as namespaces that stay. Building one is fifty system calls, entering it three; so what the commands of
//! a session have in common (what they see, a network of their own, messages) is built once and entered by each.
//!
//! A room is used again only as long as it is what would be built now: nobody has replaced what lies in it, or taken
//! away from outside what was laid over something.

use std::{
    ffi::{CStr, CString, OsStr},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::ToolError;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx},
    io::Errno,
};

use super::{
    layout::{Layout, Part},
    mounts::{Mounts, c_path},
    notices::{pair, receive, send},
    raw::{arg, call},
    rights::Kept,
    scratch::Scratch,
};
use crate::processes::child::ChildStack;

/// As long as a look at the machine holds.
const FRESH: Duration = Duration::from_secs(2);
/// More sessions than this at once build theirs again and again, as if there were no rooms.
const MOST: usize = 32;

/// Namespaces that are built.
pub(crate) struct Room {
    parts: Vec<Part>,
    /// The rules of Landlock that fit, if some were asked for.
    pub(crate) rules: Option<Arc<OwnedFd>>,
    spaces: Vec<Space>,
    has_person: bool,
    is_alone: bool,
    root: OwnedFd,
    /// Of what may be replaced any time.
    seals: Vec<Seal>,
    /// Of the rest of the machine.
    steady_seals: Vec<Seal>,
    /// When the latter were looked at.
    looked: Mutex<Instant>,
}

struct Space {
    kind: i32,
    handle: OwnedFd,
}

/// What has to be found at a place.
struct Seal {
    source: CString,
    at: CString,
    mount: u64,
}

/// How a program gets into a room.
pub(crate) struct Inside {
    /// None where there are no mounts of one's own.
    pub(crate) room: Option<Arc<Room>>,
    /// Where it starts.
    pub(crate) directory: CString,
    /// None for a program that needs its rights to build the rest, and gives them up by itself.
    pub(crate) kept: Option<Kept>,
}

impl Inside {
    /// # Errors
    /// Of kind `input` when the path is none.
    pub(crate) fn of(room: Arc<Room>, directory: &Path) -> Result<Self, ToolError> {
        let kept = if room.has_person { Kept::NOTHING } else { Kept::over_files() };
        Ok(Self { room: Some(room), directory: c_path(directory)?, kept: Some(kept) })
    }

    /// No room: it only gives up its rights. It has to: whoever may measure processes may also read their memory, past
    /// Landlock.
    pub(crate) fn nothing() -> Self {
        Self { room: None, directory: CString::default(), kept: Some(Kept::over_files()) }
    }

    /// Whether it will be one's own person in a namespace of its own.
    pub(crate) fn enters_user_namespace(&self) -> bool {
        self.room.as_ref().is_some_and(|room| room.has_person)
    }

    /// In the child, for good. Nothing is allocated.
    ///
    /// # Errors
    /// What the kernel says; the child must not go on.
    pub(crate) fn enter(&self) -> io::Result<()> {
        if let Some(room) = &self.room {
            for space in &room.spaces {
                let handle = arg(space.handle.as_raw_fd());
                call(libc::SYS_setns, [handle, arg(space.kind), 0, 0, 0])?;
            }
            rustix::process::chdir(self.directory.as_c_str())?;
        }
        self.kept.map_or(Ok(()), Kept::alone)
    }
}

/// The rooms that are kept, the newest last.
#[derive(Default)]
pub(crate) struct Rooms {
    kept: Mutex<Vec<(String, Arc<Room>)>>,
}

impl Rooms {
    /// The room for a layout: the one that is there, or a new one.
    ///
    /// # Errors
    /// Of kind `unavailable` when the machine does not let us build it.
    pub(crate) fn room(
        &self,
        session: &str,
        (layout, scratch): (&Layout, &Scratch),
        network: bool,
        rules: impl FnOnce() -> Result<Option<OwnedFd>, ToolError>,
    ) -> Result<Arc<Room>, ToolError> {
        // Who comes at the same time waits, and finds it built.
        let mut kept = self.lock();
        let is_it = |(_, room): &(String, Arc<Room>)| {
            room.is_alone != network && room.parts == layout.parts
        };
        if let Some(place) = kept.iter().position(is_it) {
            let found = kept.remove(place);
            if found.1.is_intact() {
                let room = found.1.clone();
                kept.push(found);
                return Ok(room);
            }
        }
        let room = Arc::new(Room::build(layout, scratch, network, rules()?)?);
        kept.push((session.to_owned(), room.clone()));
        if kept.len() > MOST {
            kept.remove(0);
        }
        Ok(room)
    }

    /// The session is over: its rooms go when the last program has left them.
    pub(crate) fn forget(&self, session: &str) {
        self.lock().retain(|(owner, _)| owner != session);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, Arc<Room>)>> {
        self.kept.lock()
    }
}

impl Room {
    fn build(
        layout: &Layout,
        scratch: &Scratch,
        network: bool,
        rules: Option<OwnedFd>,
    ) -> Result<Self, ToolError> {
        let mounts = Mounts::of(layout, scratch, network)?;
        let cannot = |error: io::Error| {
            ToolError::unavailable(format!("the sandbox cannot be built: {error}"))
                .hint("run `haft doctor` to see what this machine lacks")
                .caused_by(error)
        };
        let kinds = kinds(&mounts);
        let (root, spaces) = built(&mounts, &kinds, rules.as_ref()).map_err(cannot)?;
        let seals = mounts.attached().map(|(source, at)| Seal::at(&root, source, at));
        let seals = seals.collect::<io::Result<Vec<Seal>>>().map_err(cannot)?;
        let (seals, steady_seals) = seals.into_iter().partition(|seal| seal.is_restless(layout));
        Ok(Self {
            parts: layout.parts.clone(),
            rules: rules.map(Arc::new),
            spaces,
            has_person: mounts.makes_user_namespace(),
            is_alone: mounts.is_alone(),
            root,
            seals,
            steady_seals,
            looked: Mutex::new(Instant::now()),
        })
    }

    /// Whether it is what would be built now.
    fn is_intact(&self) -> bool {
        let all_hold = |seals: &[Seal]| seals.iter().all(|seal| seal.holds(&self.root));
        if !all_hold(&self.seals) {
            return false;
        }
        let mut looked = self.looked.lock();
        if looked.elapsed() < FRESH {
            return true;
        }
        *looked = Instant::now();
        all_hold(&self.steady_seals)
    }
}

/// Which namespaces a room consists of, in the order in which they are entered: as a person one has the rights for the
/// others.
fn kinds(mounts: &Mounts) -> Vec<(i32, &'static CStr)> {
    let mut kinds = Vec::new();
    if mounts.makes_user_namespace() {
        kinds.push((libc::CLONE_NEWUSER, c"/proc/self/ns/user"));
    }
    kinds.push((libc::CLONE_NEWIPC, c"/proc/self/ns/ipc"));
    if mounts.is_alone() {
        kinds.push((libc::CLONE_NEWNET, c"/proc/self/ns/net"));
    }
    kinds.push((libc::CLONE_NEWNS, c"/proc/self/ns/mnt"));
    kinds
}

/// Has it built by a child, which hands over what it has built: the root, and the namespaces in the order of their kinds.
fn built(
    mounts: &Mounts,
    kinds: &[(i32, &'static CStr)],
    rules: Option<&OwnedFd>,
) -> io::Result<(OwnedFd, Vec<Space>)> {
    let (theirs, ours) = pair()?;
    let hand_over = |path: &CStr, flags: OFlags| -> io::Result<()> {
        let handle = openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())?;
        send(theirs.as_raw_fd(), handle.as_raw_fd())
    };
    let work = || {
        mounts.build(rules.map(AsFd::as_fd))?;
        hand_over(c"/", OFlags::PATH)?;
        kinds.iter().try_for_each(|(_, path)| hand_over(path, OFlags::RDONLY))
    };
    ChildStack::new()?.run_in_child(!mounts.makes_user_namespace(), &work)?;
    let root = receive(&ours)?;
    let space = |(kind, _): &(i32, _)| Ok(Space { kind: *kind, handle: receive(&ours)? });
    Ok((root, kinds.iter().map(space).collect::<io::Result<_>>()?))
}

impl Seal {
    fn at(root: &OwnedFd, source: &CStr, at: &CStr) -> io::Result<Self> {
        let mount = found_at(root.as_fd(), at)?.mount;
        Ok(Self { source: source.to_owned(), at: at.to_owned(), mount })
    }

    /// What is at the source lies at the place, and by the same mount as at first.
    fn holds(&self, root: &OwnedFd) -> bool {
        let found = found_at(CWD, &self.source).and_then(|source| {
            let inside = found_at(root.as_fd(), &self.at)?;
            Ok(inside.mount == self.mount && inside.file == source.file)
        });
        found.unwrap_or(false)
    }

    /// Whether somebody may replace what is there any time: a file of the workspace, or one that is a secret.
    fn is_restless(&self, layout: &Layout) -> bool {
        let at = Path::new("/").join(OsStr::from_bytes(self.at.to_bytes()));
        let is_hidden = |part: &Part| matches!(part, Part::Hidden { path, .. } if *path == at);
        layout.roots.iter().any(|root| at.starts_with(root)) || layout.parts.iter().any(is_hidden)
    }
}

struct Found {
    mount: u64,
    file: (u32, u32, u64),
}

fn found_at(directory: impl AsFd, path: &CStr) -> Result<Found, Errno> {
    let found = statx(directory, path, AtFlags::empty(), StatxFlags::MNT_ID | StatxFlags::INO)?;
    let file = (found.stx_dev_major, found.stx_dev_minor, found.stx_ino);
    Ok(Found { mount: found.stx_mnt_id, file })
}
