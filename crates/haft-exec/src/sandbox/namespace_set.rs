//! Namespace sets: a layout as namespaces that persist. Building one takes fifty system calls,
//! entering it three; so what the commands of a session share (mounts, a separate network, IPC) is
//! built once and entered by each command.
//!
//! A namespace set is reused only while it equals what would be built now: no path in it was
//! replaced, and no mount was removed from outside.

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
    capabilities::KeptCapabilities,
    layout::{Layout, LayoutPart},
    mounts::{Mounts, c_path},
    notifications::{pair, receive, send},
    raw::{arg, call},
    scratch::Scratch,
};
use crate::processes::child::ChildStack;

/// As long as a result of `machine.rs` is valid.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of sets. With more sessions at once they are rebuilt each time.
const MAX_SETS: usize = 32;

/// A set of existing namespaces.
pub(crate) struct NamespaceSet {
    parts: Vec<LayoutPart>,
    /// The matching Landlock rules, if they were requested.
    pub(crate) rules: Option<Arc<OwnedFd>>,
    namespaces: Vec<Namespace>,
    has_user_namespace: bool,
    has_own_network: bool,
    root: OwnedFd,
    /// Checks of mounts whose source may be replaced at any time.
    mount_checks: Vec<MountCheck>,
    /// Checks of the other mounts of the machine.
    steady_checks: Vec<MountCheck>,
    /// The time of the last check of the latter.
    checked_at: Mutex<Instant>,
}

struct Namespace {
    kind: i32,
    handle: OwnedFd,
}

/// The expected state of a mount.
struct MountCheck {
    source: CString,
    at: CString,
    mount: u64,
}

/// How a program enters a namespace set.
pub(crate) struct NamespaceEntry {
    /// None where mounts are not available.
    pub(crate) namespace_set: Option<Arc<NamespaceSet>>,
    /// The directory to start in.
    pub(crate) directory: CString,
    /// None for a program that needs its capabilities to build the rest, and drops them itself.
    pub(crate) kept: Option<KeptCapabilities>,
}

impl NamespaceEntry {
    /// # Errors
    /// Of kind `input` when the path contains a zero byte.
    pub(crate) fn of(
        namespace_set: Arc<NamespaceSet>,
        directory: &Path,
    ) -> Result<Self, ToolError> {
        let kept = if namespace_set.has_user_namespace {
            KeptCapabilities::NOTHING
        } else {
            KeptCapabilities::over_files()
        };
        Ok(Self {
            namespace_set: Some(namespace_set),
            directory: c_path(directory)?,
            kept: Some(kept),
        })
    }

    /// Returns the entry without a namespace set: only drops capabilities. This is necessary,
    /// because a process that may trace others can read their memory in spite of Landlock.
    pub(crate) fn nothing() -> Self {
        Self {
            namespace_set: None,
            directory: CString::default(),
            kept: Some(KeptCapabilities::over_files()),
        }
    }

    /// Returns true when the child enters a new user namespace.
    pub(crate) fn enters_user_namespace(&self) -> bool {
        self.namespace_set.as_ref().is_some_and(|namespace_set| namespace_set.has_user_namespace)
    }

    /// Enters the namespaces in the child, permanently. Allocates nothing.
    ///
    /// # Errors
    /// The kernel's error; the child must not continue.
    pub(crate) fn enter(&self) -> io::Result<()> {
        if let Some(namespace_set) = &self.namespace_set {
            for namespace in &namespace_set.namespaces {
                let handle = arg(namespace.handle.as_raw_fd());
                call(libc::SYS_setns, [handle, arg(namespace.kind), 0, 0, 0])?;
            }
            rustix::process::chdir(self.directory.as_c_str())?;
        }
        self.kept.map_or(Ok(()), KeptCapabilities::drop_others)
    }
}

/// The existing sets, the newest last.
#[derive(Default)]
pub(crate) struct NamespaceSets {
    kept: Mutex<Vec<(String, Arc<NamespaceSet>)>>,
}

impl NamespaceSets {
    /// Returns the set for a layout: an existing or a new one.
    ///
    /// # Errors
    /// Of kind `unavailable` when the machine does not allow to build it.
    pub(crate) fn namespace_set(
        &self,
        session: &str,
        (layout, scratch): (&Layout, &Scratch),
        network: bool,
        rules: impl FnOnce() -> Result<Option<OwnedFd>, ToolError>,
    ) -> Result<Arc<NamespaceSet>, ToolError> {
        // A concurrent caller waits, and then finds it built.
        let mut kept = self.lock();
        let is_it = |(_, namespace_set): &(String, Arc<NamespaceSet>)| {
            namespace_set.has_own_network != network && namespace_set.parts == layout.parts
        };
        if let Some(place) = kept.iter().position(is_it) {
            let found = kept.remove(place);
            if found.1.is_intact() {
                let namespace_set = found.1.clone();
                kept.push(found);
                return Ok(namespace_set);
            }
        }
        let namespace_set = Arc::new(NamespaceSet::build(layout, scratch, network, rules()?)?);
        kept.push((session.to_owned(), namespace_set.clone()));
        if kept.len() > MAX_SETS {
            kept.remove(0);
        }
        Ok(namespace_set)
    }

    /// Forgets the sets of a finished session; each disappears when its last program has left it.
    pub(crate) fn forget(&self, session: &str) {
        self.lock().retain(|(owner, _)| owner != session);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, Arc<NamespaceSet>)>> {
        self.kept.lock()
    }
}

impl NamespaceSet {
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
        let (root, namespaces) = built(&mounts, &kinds, rules.as_ref()).map_err(cannot)?;
        let mount_checks = mounts.attached().map(|(source, at)| MountCheck::at(&root, source, at));
        let mount_checks = mount_checks.collect::<io::Result<Vec<MountCheck>>>().map_err(cannot)?;
        let (mount_checks, steady_checks) =
            mount_checks.into_iter().partition(|check| check.is_volatile(layout));
        Ok(Self {
            parts: layout.parts.clone(),
            rules: rules.map(Arc::new),
            namespaces,
            has_user_namespace: mounts.makes_user_namespace(),
            has_own_network: mounts.has_own_network(),
            root,
            mount_checks,
            steady_checks,
            checked_at: Mutex::new(Instant::now()),
        })
    }

    /// Returns true when it equals what would be built now.
    fn is_intact(&self) -> bool {
        let all_hold =
            |mount_checks: &[MountCheck]| mount_checks.iter().all(|check| check.holds(&self.root));
        if !all_hold(&self.mount_checks) {
            return false;
        }
        let mut checked_at = self.checked_at.lock();
        if checked_at.elapsed() < CHECK_INTERVAL {
            return true;
        }
        *checked_at = Instant::now();
        all_hold(&self.steady_checks)
    }
}

/// Returns the namespaces of a set in the order of entering: the user namespace comes first,
/// because it grants the privileges for the others.
fn kinds(mounts: &Mounts) -> Vec<(i32, &'static CStr)> {
    let mut kinds = Vec::new();
    if mounts.makes_user_namespace() {
        kinds.push((libc::CLONE_NEWUSER, c"/proc/self/ns/user"));
    }
    kinds.push((libc::CLONE_NEWIPC, c"/proc/self/ns/ipc"));
    if mounts.has_own_network() {
        kinds.push((libc::CLONE_NEWNET, c"/proc/self/ns/net"));
    }
    kinds.push((libc::CLONE_NEWNS, c"/proc/self/ns/mnt"));
    kinds
}

/// Lets a child build the set and send its parts: the root, and the namespaces in the order of
/// their kinds.
fn built(
    mounts: &Mounts,
    kinds: &[(i32, &'static CStr)],
    rules: Option<&OwnedFd>,
) -> io::Result<(OwnedFd, Vec<Namespace>)> {
    let (theirs, ours) = pair()?;
    let send_handle = |path: &CStr, flags: OFlags| -> io::Result<()> {
        let handle = openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())?;
        send(theirs.as_raw_fd(), handle.as_raw_fd())
    };
    let work = || {
        mounts.build(rules.map(AsFd::as_fd))?;
        send_handle(c"/", OFlags::PATH)?;
        kinds.iter().try_for_each(|(_, path)| send_handle(path, OFlags::RDONLY))
    };
    ChildStack::new()?.run_in_child(!mounts.makes_user_namespace(), &work)?;
    let root = receive(&ours)?;
    let namespace = |(kind, _): &(i32, _)| Ok(Namespace { kind: *kind, handle: receive(&ours)? });
    Ok((root, kinds.iter().map(namespace).collect::<io::Result<_>>()?))
}

impl MountCheck {
    fn at(root: &OwnedFd, source: &CStr, at: &CStr) -> io::Result<Self> {
        let mount = found_at(root.as_fd(), at)?.mount;
        Ok(Self { source: source.to_owned(), at: at.to_owned(), mount })
    }

    /// Checks that the target still shows the source, by the original mount.
    fn holds(&self, root: &OwnedFd) -> bool {
        let found = found_at(CWD, &self.source).and_then(|source| {
            let inside = found_at(root.as_fd(), &self.at)?;
            Ok(inside.mount == self.mount && inside.file == source.file)
        });
        found.unwrap_or(false)
    }

    /// Returns true when the path may be replaced at any time: a file of the workspace, or a
    /// secret.
    fn is_volatile(&self, layout: &Layout) -> bool {
        let at = Path::new("/").join(OsStr::from_bytes(self.at.to_bytes()));
        let is_hidden =
            |part: &LayoutPart| matches!(part, LayoutPart::Hidden { path, .. } if *path == at);
        layout.roots.iter().any(|root| at.starts_with(root)) || layout.parts.iter().any(is_hidden)
    }
}

struct PathIdentity {
    mount: u64,
    file: (u32, u32, u64),
}

fn found_at(directory: impl AsFd, path: &CStr) -> Result<PathIdentity, Errno> {
    let found = statx(directory, path, AtFlags::empty(), StatxFlags::MNT_ID | StatxFlags::INO)?;
    let file = (found.stx_dev_major, found.stx_dev_minor, found.stx_ino);
    Ok(PathIdentity { mount: found.stx_mnt_id, file })
}
