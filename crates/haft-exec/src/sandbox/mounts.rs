//! The layout as a mount namespace. Landlock cannot take something out of what it has allowed, and does not see who connects
//! to a socket by its path: what must not be changed inside a workspace is read-only here, and other programs' sockets are
//! not here. It is planned by us and built by a process of its own, which only makes calls.

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
    layout::{Access, Layout, Part},
    raw::{arg, call, pointer},
    rights::may_mount,
    rules,
    scratch::Scratch,
};

/// What the one who builds it does, in this order: namespaces, the trees it will show, an empty root, the trees put into
/// it, and away with the old root.
pub(crate) struct Mounts {
    /// Without rights over mounts one gets them in a user namespace: the lines that say who is who in it.
    user: Option<UserNamespace>,
    /// Whether there is no network but its own, in which programs reach each other and nobody else.
    is_alone: bool,
    trees: Vec<Tree>,
    steps: Vec<Step>,
}

struct UserNamespace {
    users: CString,
    groups: CString,
}

/// A part of the machine, taken before it is covered.
struct Tree {
    path: CString,
    attributes: u64,
    with_mounts_below: bool,
}

/// Paths are relative to the new root.
enum Step {
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
    /// Terminals of its own.
    Terminals(CString),
}

const READ_ONLY: u64 = 1;
const NO_SET_UID: u64 = 2;
const NO_DEVICES: u64 = 4;

/// The kernel's limit of descriptors of a process is 1024 by default.
const MOST_TREES: usize = 512;
/// Anything that is there: what it holds was taken before.
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
    /// Of kind `unavailable` when there is too much to show.
    pub(crate) fn of(layout: &Layout, scratch: &Scratch, network: bool) -> Result<Self, ToolError> {
        let user = if may_mount() { None } else { Some(UserNamespace::of_ourselves()) };
        let mut mounts = Self { user, is_alone: !network, trees: Vec::new(), steps: Vec::new() };
        mounts.add_kernel()?;
        for part in &layout.parts {
            match part {
                Part::Shown { path, access } => {
                    let writable = if *access == Access::Write { 0 } else { READ_ONLY };
                    mounts.attach(path, path, writable | NO_SET_UID | NO_DEVICES)?;
                }
                Part::Private { at, source } => {
                    mounts.attach(source, at, NO_SET_UID | NO_DEVICES)?
                }
                Part::Hidden { path, is_directory } => {
                    let nothing = scratch.nothing(*is_directory);
                    mounts.attach(&nothing, path, READ_ONLY | NO_SET_UID | NO_DEVICES)?;
                }
                Part::Link { at, to } => {
                    mounts.make_parents(at)?;
                    mounts.steps.push(Step::Link { to: c_path(to)?, at: below(at)? });
                }
            }
        }
        if mounts.trees.len() > MOST_TREES {
            return Err(ToolError::unavailable(format!(
                "a sandbox of {} places is too large",
                mounts.trees.len()
            ))
            .hint("name fewer folders under [roots]"));
        }
        Ok(mounts)
    }

    pub(crate) fn makes_user_namespace(&self) -> bool {
        self.user.is_some()
    }

    /// The namespaces it consists of besides mounts and messages.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// What lies where, as seen from the new root: the last one where several do.
    pub(crate) fn attached(&self) -> impl Iterator<Item = (&CStr, &CStr)> {
        let all = self.steps.iter().filter_map(|step| match step {
            Step::Attach { tree, at } => {
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

    /// `/proc`, `/sys` and `/dev`: of the last only what is harmless.
    fn add_kernel(&mut self) -> Result<(), ToolError> {
        for path in ["proc", "sys", "dev", "dev/pts", "run", "var"] {
            self.steps.push(Step::Directory(c_path(Path::new(path))?));
        }
        let is_ours = self.user.is_none();
        // Root needs no right but being the owner to change the machine by files of `/proc`. Others do not own them; and
        // bubblewrap may not make another `/proc` for its processes where there is only a read-only one.
        let of_processes = if is_ours { READ_ONLY } else { 0 };
        let harmless = NO_SET_UID | NO_DEVICES;
        self.attach(Path::new("/proc"), Path::new("/proc"), of_processes | harmless)?;
        self.attach(Path::new("/sys"), Path::new("/sys"), READ_ONLY | harmless)?;
        // Debugging and tracing of the kernel hang below; in a user namespace the kernel takes all or nothing.
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
            self.steps.push(Step::Link { to, at });
        }
        self.steps.push(Step::Terminals(c"dev/pts".to_owned()));
        Ok(())
    }

    fn attach(&mut self, source: &Path, at: &Path, attributes: u64) -> Result<(), ToolError> {
        self.make_parents(at)?;
        let make = if source.is_dir() { Step::Directory } else { Step::File };
        self.steps.push(make(below(at)?));
        let (tree, path) = (self.trees.len(), c_path(source)?);
        self.trees.push(Tree { path, attributes, with_mounts_below: true });
        self.steps.push(Step::Attach { tree, at: below(at)? });
        Ok(())
    }

    fn make_parents(&mut self, path: &Path) -> Result<(), ToolError> {
        let parents: Vec<&Path> =
            path.ancestors().skip(1).filter(|parent| parent.parent().is_some()).collect();
        for parent in parents.into_iter().rev() {
            self.steps.push(Step::Directory(below(parent)?));
        }
        Ok(())
    }

    /// Does it, in a process that is there for nothing else. Nothing is allocated. `rules` are completed with what only now
    /// is there.
    ///
    /// # Errors
    /// What the kernel says; then there is nothing to use.
    pub(crate) fn build(&self, rules: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let with_user = if self.user.is_some() { libc::CLONE_NEWUSER } else { 0 };
        let with_network = if self.is_alone { libc::CLONE_NEWNET } else { 0 };
        let spaces = libc::CLONE_NEWNS | libc::CLONE_NEWIPC | with_network | with_user;
        call(libc::SYS_unshare, [arg(spaces), 0, 0, 0, 0])?;
        if let Some(user) = &self.user {
            user.tell()?;
        }
        if self.is_alone {
            raise_loopback()?;
        }
        mount(None, c"/", None, libc::MS_SLAVE | libc::MS_REC, None)?;
        let mut trees: [RawFd; MOST_TREES] = [-1; MOST_TREES];
        for (handle, tree) in trees.iter_mut().zip(&self.trees) {
            *handle = tree.take()?;
        }
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        mount(Some(c"tmpfs"), BASE, Some(c"tmpfs"), flags, Some(c"mode=755,size=1m"))?;
        enter(BASE)?;
        self.steps.iter().try_for_each(|step| step.take(&trees))?;
        // From here on the new root is the root, and lies on the old one for good: who has no right over mounts and roots
        // cannot look below. `pivot_root` would visit every thread of the machine, and taking the old one away would wait
        // for all cores.
        mount(Some(c"."), c"/", None, libc::MS_MOVE, None)?;
        call(libc::SYS_chroot, [pointer(c"."), 0, 0, 0, 0])?;
        enter(c"/")?;
        set_attributes(libc::AT_FDCWD, c"/", READ_ONLY, 0)?;
        if let Some(rules) = rules {
            allow(rules, c"/", rules::LISTING)?;
            allow(rules, c"/dev/pts", rules::USING_DEVICES)?;
        }
        Ok(())
    }
}

/// The way to oneself is there in a new network, and shut.
fn raise_loopback() -> io::Result<()> {
    let kind = arg(libc::SOCK_DGRAM | libc::SOCK_CLOEXEC);
    let socket = call(libc::SYS_socket, [arg(libc::AF_INET), kind, 0, 0, 0])?;
    // A name, and flags behind it: `ifreq`, which is forty bytes long.
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

    fn tell(&self) -> io::Result<()> {
        write(c"/proc/self/setgroups", c"deny")?;
        write(c"/proc/self/uid_map", &self.users)?;
        write(c"/proc/self/gid_map", &self.groups)
    }
}

impl Tree {
    fn take(&self) -> io::Result<RawFd> {
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

impl Step {
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

/// What is there already may lie in a tree that is read-only: whatever is wrong shows when something is put there.
fn unless_there(result: io::Result<i64>) -> io::Result<()> {
    match result {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EEXIST | libc::EROFS)) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

fn set_attributes(handle: RawFd, path: &CStr, set: u64, flags: i32) -> io::Result<()> {
    // What to set, what to clear, propagation, a user namespace.
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
