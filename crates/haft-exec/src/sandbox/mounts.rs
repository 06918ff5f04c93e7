//! Builds the layout as a mount namespace. Landlock cannot exclude a path from what it allows, and
//! does not see connections to sockets by path: protected paths inside a workspace are read-only
//! here, and sockets of other programs are missing. We plan the mounts; a separate process, which
//! only makes system calls, builds them.

use std::{
    ffi::{CStr, CString},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use haft_core::ToolError;

use super::{
    capabilities::may_mount,
    landlock_rules,
    layout::{Layout, LayoutPart, PathAccess},
    raw::{arg, call, pointer},
    scratch::Scratch,
};

/// The steps of the process that builds the namespace, in order: namespaces, the trees to show, an
/// empty root, attaching the trees, and removing the old root.
pub(crate) struct Mounts {
    /// Without privileges over mounts a process gets them in a user namespace: its id mappings.
    user: Option<UserNamespace>,
    /// True for a separate network, in which programs reach only each other.
    has_own_network: bool,
    trees: Vec<MountTree>,
    steps: Vec<MountStep>,
}

struct UserNamespace {
    users: CString,
    groups: CString,
}

/// A part of the machine, cloned before it is covered.
struct MountTree {
    path: CString,
    attributes: u64,
    with_mounts_below: bool,
}

/// Paths are relative to the new root.
enum MountStep {
    Directory(CString),
    File(CString),
    Link {
        to: CString,
        at: CString,
    },
    Attach {
        tree: usize,
        at: CString,
    },
    /// A separate instance of pseudo-terminals.
    Terminals(CString),
}

const READ_ONLY: u64 = 1;
const NO_SET_UID: u64 = 2;
const NO_DEVICES: u64 = 4;

/// The kernel's default limit of descriptors per process is 1024.
const MAX_TREES: usize = 512;
/// Any existing directory: its contents were cloned before.
const BASE: &CStr = c"/usr";
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
const LINKS_OF_DEVICES: &[(&str, &str)] = &[
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
    ("pts/ptmx", "dev/ptmx"),
];

impl Mounts {
    /// # Errors
    /// Of kind `unavailable` when there are too many paths to show.
    pub(crate) fn of(layout: &Layout, scratch: &Scratch, network: bool) -> Result<Self, ToolError> {
        let user = if may_mount() { None } else { Some(UserNamespace::of_ourselves()) };
        let mut mounts =
            Self { user, has_own_network: !network, trees: Vec::new(), steps: Vec::new() };
        mounts.add_kernel()?;
        for part in &layout.parts {
            match part {
                LayoutPart::Shown { path, access } => {
                    let writable = if *access == PathAccess::Write { 0 } else { READ_ONLY };
                    mounts.attach(path, path, writable | NO_SET_UID | NO_DEVICES)?;
                }
                LayoutPart::Private { at, source } => {
                    mounts.attach(source, at, NO_SET_UID | NO_DEVICES)?
                }
                LayoutPart::Hidden { path, is_directory } => {
                    let nothing = scratch.nothing(*is_directory);
                    mounts.attach(&nothing, path, READ_ONLY | NO_SET_UID | NO_DEVICES)?;
                }
                LayoutPart::Link { at, to } => {
                    mounts.make_parents(at)?;
                    mounts.steps.push(MountStep::Link { to: c_path(to)?, at: below(at)? });
                }
            }
        }
        if mounts.trees.len() > MAX_TREES {
            return Err(ToolError::unavailable(format!(
                "a sandbox with {} paths is too large",
                mounts.trees.len()
            ))
            .hint("name fewer folders under [roots]"));
        }
        Ok(mounts)
    }

    pub(crate) fn makes_user_namespace(&self) -> bool {
        self.user.is_some()
    }

    /// True when it has a separate network namespace, in addition to mounts and IPC.
    pub(crate) fn has_own_network(&self) -> bool {
        self.has_own_network
    }

    /// Returns the source and target of each mount as seen from the new root; of several at one
    /// target the last one.
    pub(crate) fn attached(&self) -> impl Iterator<Item = (&CStr, &CStr)> {
        let all = self.steps.iter().filter_map(|step| match step {
            MountStep::Attach { tree, at } => {
                Some((self.trees.get(*tree)?.path.as_c_str(), at.as_c_str()))
            }
            _ => None,
        });
        let all: Vec<(&CStr, &CStr)> = all.collect();
        let is_last = move |place: usize| {
            let later = all.get(place + 1..).unwrap_or_default();
            all.get(place).copied().filter(|(_, at)| !later.iter().any(|(_, other)| other == at))
        };
        (0..self.trees.len()).filter_map(is_last)
    }

    /// Adds `/proc`, `/sys`, and the harmless part of `/dev`.
    fn add_kernel(&mut self) -> Result<(), ToolError> {
        for path in ["proc", "sys", "dev", "dev/pts", "run", "var"] {
            self.steps.push(MountStep::Directory(c_path(Path::new(path))?));
        }
        let is_ours = self.user.is_none();
        // Root can change the machine by files of `/proc` without any capability, because it owns
        // them. Other users do not own them; and bubblewrap cannot mount a new `/proc` where there
        // is only a read-only one.
        let of_processes = if is_ours { READ_ONLY } else { 0 };
        let harmless = NO_SET_UID | NO_DEVICES;
        self.attach(Path::new("/proc"), Path::new("/proc"), of_processes | harmless)?;
        self.attach(Path::new("/sys"), Path::new("/sys"), READ_ONLY | harmless)?;
        // Debugging and tracing file systems are mounted below; in a user namespace the kernel
        // requires all or nothing.
        if let Some(sys) = self.trees.last_mut() {
            sys.with_mounts_below = !is_ours;
        }
        for name in DEVICES {
            let path = Path::new("/dev").join(name);
            if path.exists() {
                self.attach(&path, &path, NO_SET_UID)?;
            }
        }
        for (to, at) in LINKS_OF_DEVICES {
            let (to, at) = (c_path(Path::new(to))?, c_path(Path::new(at))?);
            self.steps.push(MountStep::Link { to, at });
        }
        self.steps.push(MountStep::Terminals(c"dev/pts".to_owned()));
        Ok(())
    }

    fn attach(&mut self, source: &Path, at: &Path, attributes: u64) -> Result<(), ToolError> {
        self.make_parents(at)?;
        let make = if source.is_dir() { MountStep::Directory } else { MountStep::File };
        self.steps.push(make(below(at)?));
        let (tree, path) = (self.trees.len(), c_path(source)?);
        self.trees.push(MountTree { path, attributes, with_mounts_below: true });
        self.steps.push(MountStep::Attach { tree, at: below(at)? });
        Ok(())
    }

    fn make_parents(&mut self, path: &Path) -> Result<(), ToolError> {
        let parents: Vec<&Path> =
            path.ancestors().skip(1).filter(|parent| parent.parent().is_some()).collect();
        for parent in parents.into_iter().rev() {
            self.steps.push(MountStep::Directory(below(parent)?));
        }
        Ok(())
    }

    /// Builds the namespaces, in a process that exists only for this. Allocates nothing. Adds paths
    /// to `rules` that exist only now.
    ///
    /// # Errors
    /// The kernel's error; then nothing is usable.
    /// The kernel's error; then nothing is usable.
    pub(crate) fn build(&self, rules: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let with_user = if self.user.is_some() { libc::CLONE_NEWUSER } else { 0 };
        let with_network = if self.has_own_network { libc::CLONE_NEWNET } else { 0 };
        let spaces = libc::CLONE_NEWNS | libc::CLONE_NEWIPC | with_network | with_user;
        call(libc::SYS_unshare, [arg(spaces), 0, 0, 0, 0])?;
        if let Some(user) = &self.user {
            user.write_mappings()?;
        }
        if self.has_own_network {
            raise_loopback()?;
        }
        mount(None, c"/", None, libc::MS_SLAVE | libc::MS_REC, None)?;
        let mut trees: [RawFd; MAX_TREES] = [-1; MAX_TREES];
        for (handle, tree) in trees.iter_mut().zip(&self.trees) {
            *handle = tree.clone_tree()?;
        }
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        mount(Some(c"tmpfs"), BASE, Some(c"tmpfs"), flags, Some(c"mode=755,size=1m"))?;
        enter(BASE)?;
        self.steps.iter().try_for_each(|step| step.take(&trees))?;
        // From here on the new root is the root, mounted over the old one permanently: without
        // privileges over mounts and roots a program cannot look below. `pivot_root` would visit
        // every thread of the machine, and removing the old root would wait for all cores.
        mount(Some(c"."), c"/", None, libc::MS_MOVE, None)?;
        call(libc::SYS_chroot, [pointer(c"."), 0, 0, 0, 0])?;
        enter(c"/")?;
        set_attributes(libc::AT_FDCWD, c"/", READ_ONLY, 0)?;
        if let Some(rules) = rules {
            allow(rules, c"/", landlock_rules::LISTING)?;
            allow(rules, c"/dev/pts", landlock_rules::USING_DEVICES)?;
        }
        Ok(())
    }
}

/// In a new network the loopback interface exists but is down.
fn raise_loopback() -> io::Result<()> {
    let kind = arg(libc::SOCK_DGRAM | libc::SOCK_CLOEXEC);
    let socket = call(libc::SYS_socket, [arg(libc::AF_INET), kind, 0, 0, 0])?;
    // An `ifreq` structure: a name followed by flags, forty bytes long.
    let mut request = [0_u8; 40];
    let flags = u16::try_from(libc::IFF_UP).map_err(|_| io::ErrorKind::InvalidInput)?;
    request[..2].copy_from_slice(b"lo");
    request[16..18].copy_from_slice(&flags.to_ne_bytes());
    let set = i64::try_from(libc::SIOCSIFFLAGS).map_err(|_| io::ErrorKind::InvalidInput)?;
    call(libc::SYS_ioctl, [socket, set, (&raw const request) as i64, 0, 0])?;
    call(libc::SYS_close, [socket, 0, 0, 0, 0]).map(drop)
}

impl UserNamespace {
    fn of_ourselves() -> Self {
        let line = |id: u32| CString::new(format!("{id} {id} 1")).expect("digits and blanks");
        let (user, group) =
            (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { users: line(user), groups: line(group) }
    }

    fn write_mappings(&self) -> io::Result<()> {
        write(c"/proc/self/setgroups", c"deny")?;
        write(c"/proc/self/uid_map", &self.users)?;
        write(c"/proc/self/gid_map", &self.groups)
    }
}

impl MountTree {
    fn clone_tree(&self) -> io::Result<RawFd> {
        const CLONE: i32 = 1;
        let below = if self.with_mounts_below { libc::AT_RECURSIVE } else { 0 };
        let flags = CLONE | libc::O_CLOEXEC | below;
        let handle = call(
            libc::SYS_open_tree,
            [arg(libc::AT_FDCWD), pointer(&self.path), arg(flags), 0, 0],
        )?;
        let handle = RawFd::try_from(handle).map_err(|_| io::ErrorKind::InvalidData)?;
        set_attributes(handle, c"", self.attributes, libc::AT_EMPTY_PATH | below)?;
        Ok(handle)
    }
}

impl MountStep {
    fn take(&self, trees: &[RawFd]) -> io::Result<()> {
        const FROM_HANDLE: i32 = 4;
        let here = arg(libc::AT_FDCWD);
        match self {
            Self::Directory(at) => {
                unless_there(call(libc::SYS_mkdirat, [here, pointer(at), 0o755, 0, 0]))
            }
            Self::File(at) => {
                let mode = i64::from(libc::S_IFREG | 0o444);
                unless_there(call(libc::SYS_mknodat, [here, pointer(at), mode, 0, 0]))
            }
            Self::Link { to, at } => {
                unless_there(call(libc::SYS_symlinkat, [pointer(to), here, pointer(at), 0, 0]))
            }
            Self::Attach { tree, at } => {
                let handle = trees.get(*tree).copied().unwrap_or(-1);
                let arguments = [arg(handle), pointer(c""), here, pointer(at), arg(FROM_HANDLE)];
                call(libc::SYS_move_mount, arguments).map(drop)
            }
            Self::Terminals(at) => {
                let flags = libc::MS_NOSUID | libc::MS_NOEXEC;
                mount(
                    Some(c"devpts"),
                    at,
                    Some(c"devpts"),
                    flags,
                    Some(c"newinstance,ptmxmode=0666,mode=620"),
                )
            }
        }
    }
}

/// An existing entry may be in a read-only tree: any problem shows when something is mounted there.
fn unless_there(result: io::Result<i64>) -> io::Result<()> {
    match result {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EEXIST | libc::EROFS)) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

fn set_attributes(handle: RawFd, path: &CStr, set: u64, flags: i32) -> io::Result<()> {
    // Attributes to set, attributes to clear, propagation, user namespace.
    let attributes: [u64; 4] = [set, 0, 0, 0];
    let size = i64::try_from(size_of_val(&attributes)).expect("32");
    let arguments = [arg(handle), pointer(path), arg(flags), (&raw const attributes) as i64, size];
    call(libc::SYS_mount_setattr, arguments).map(drop)
}

fn allow(rules: BorrowedFd<'_>, path: &CStr, access: u64) -> io::Result<()> {
    const BENEATH: i64 = 1;
    #[repr(C, packed)]
    struct Beneath {
        access: u64,
        parent: i32,
    }
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    let parent = call(libc::SYS_openat, [arg(libc::AT_FDCWD), pointer(path), arg(flags), 0, 0])?;
    let parent = RawFd::try_from(parent).map_err(|_| io::ErrorKind::InvalidData)?;
    let beneath = Beneath { access, parent };
    let arguments = [arg(rules.as_raw_fd()), BENEATH, (&raw const beneath) as i64, 0, 0];
    call(libc::SYS_landlock_add_rule, arguments).map(drop)
}

fn mount(
    source: Option<&CStr>,
    at: &CStr,
    sort: Option<&CStr>,
    flags: u64,
    data: Option<&CStr>,
) -> io::Result<()> {
    let optional = |text: Option<&CStr>| text.map_or(0, pointer);
    let flags = i64::try_from(flags).map_err(|_| io::ErrorKind::InvalidInput)?;
    call(libc::SYS_mount, [optional(source), pointer(at), optional(sort), flags, optional(data)])
        .map(drop)
}

fn enter(path: &CStr) -> io::Result<()> {
    call(libc::SYS_chdir, [pointer(path), 0, 0, 0, 0]).map(drop)
}

fn write(path: &CStr, text: &CStr) -> io::Result<()> {
    let flags = libc::O_WRONLY | libc::O_CLOEXEC;
    let handle = call(libc::SYS_openat, [arg(libc::AT_FDCWD), pointer(path), arg(flags), 0, 0])?;
    let length = i64::try_from(text.count_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
    call(libc::SYS_write, [handle, pointer(text), length, 0, 0])?;
    call(libc::SYS_close, [handle, 0, 0, 0, 0]).map(drop)
}

fn below(path: &Path) -> Result<CString, ToolError> {
    c_path(path.strip_prefix("/").unwrap_or(path))
}

pub(super) fn c_path(path: &Path) -> Result<CString, ToolError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|error| {
        let shown = PathBuf::from(path);
        ToolError::input(format!("`{}` contains a zero byte", shown.display()))
            .hint("name another path")
            .caused_by(error)
    })
}
