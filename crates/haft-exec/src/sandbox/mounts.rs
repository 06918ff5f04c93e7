//! The layout as a mount namespace that the child makes for itself between fork and exec. Landlock cannot take something
//! out of what it has allowed, and does not see who connects to a socket by its path: what must not be changed inside a
//! workspace is read-only here, and other programs' sockets are not here. Everything is made before the fork; the child
//! only makes calls.

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
    rules,
    scratch::Scratch,
};

/// What the child does, in this order: a namespace, the trees it will show, an empty root, the trees put into it, and
/// away with the old root and with its own rights.
pub(crate) struct Mounts {
    /// Where no namespace can be had, the child only gives up its rights. It has to: whoever may measure processes may
    /// also read their memory, past Landlock.
    has_namespace: bool,
    /// Without rights over mounts one gets them in a user namespace: the lines that say who is who in it.
    user: Option<UserNamespace>,
    trees: Vec<Tree>,
    steps: Vec<Step>,
    /// Where the program starts.
    directory: CString,
    /// The rights that stay, as bits: of those over files the ones we have.
    kept: u32,
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

/// Rights of root over files, which it needs to work in the folders of others: CHOWN, DAC_OVERRIDE, FOWNER, FSETID.
pub(crate) const KEPT_RIGHTS: &[u32] = &[0, 1, 3, 4];
const LAST_RIGHT: u32 = 63;

impl Mounts {
    /// # Errors
    /// Of kind `unavailable` when there is too much to show.
    pub(crate) fn of(
        layout: &Layout,
        scratch: &Scratch,
        directory: &Path,
    ) -> Result<Self, ToolError> {
        let mut mounts =
            Self { has_namespace: true, directory: c_path(directory)?, ..Self::none() };
        if !may_mount() {
            // A user namespace gives all rights, over nothing but itself. None of them is needed in it.
            mounts.user = Some(UserNamespace::of_ourselves());
            mounts.kept = 0;
        }
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

    /// No mounts: the child only gives up its rights.
    pub(crate) fn none() -> Self {
        let over_files = KEPT_RIGHTS.iter().fold(0, |kept, right| kept | 1_u64 << right);
        Self {
            has_namespace: false,
            user: None,
            trees: Vec::new(),
            steps: Vec::new(),
            directory: CString::default(),
            kept: u32::try_from(rights() & over_files).expect("the lowest bits"),
        }
    }

    pub(crate) fn has_namespace(&self) -> bool {
        self.has_namespace
    }

    pub(crate) fn makes_user_namespace(&self) -> bool {
        self.user.is_some()
    }

    /// `/proc`, `/sys` and `/dev`: of the last only what is harmless.
    fn add_kernel(&mut self) -> Result<(), ToolError> {
        for path in ["proc", "sys", "dev", "dev/pts", "run", "var"] {
            self.steps.push(Step::Directory(c_path(Path::new(path))?));
        }
        self.attach(Path::new("/proc"), Path::new("/proc"), READ_ONLY | NO_SET_UID | NO_DEVICES)?;
        self.attach(Path::new("/sys"), Path::new("/sys"), READ_ONLY | NO_SET_UID | NO_DEVICES)?;
        // Debugging and tracing of the kernel hang below; in a user namespace the kernel takes all or nothing.
        let is_ours = self.user.is_none();
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

    /// Does it, in the child, for good. Nothing is allocated. `rules` are completed with what only now is there.
    ///
    /// # Errors
    /// What the kernel says; the child must not go on.
    pub(crate) fn raise(&self, rules: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if self.has_namespace {
            self.move_in(rules)?;
        }
        give_up_rights(self.kept)
    }

    fn move_in(&self, rules: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let with_user = if self.user.is_some() { libc::CLONE_NEWUSER } else { 0 };
        call(libc::SYS_unshare, [arg(libc::CLONE_NEWNS | with_user), 0, 0, 0, 0])?;
        if let Some(user) = &self.user {
            user.tell()?;
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
        enter(&self.directory)
    }
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

/// A program started by root gets what is in the bounding set, whatever is taken from its parent.
fn give_up_rights(kept: u32) -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        process: i32,
    }
    for right in (0..=LAST_RIGHT).filter(|right| u64::from(kept) >> right & 1 == 0) {
        let dropped =
            call(libc::SYS_prctl, [arg(libc::PR_CAPBSET_DROP), i64::from(right), 0, 0, 0]);
        match dropped.map_err(|error| error.raw_os_error()) {
            // The first that the kernel does not know; or one who may not drop them, and who can gain none either: no
            // new privileges.
            Err(Some(libc::EINVAL | libc::EPERM)) => break,
            Err(error) => return Err(io::Error::from_raw_os_error(error.unwrap_or(libc::EPERM))),
            Ok(_) => {}
        }
    }
    let clear = arg(libc::PR_CAP_AMBIENT_CLEAR_ALL);
    call(libc::SYS_prctl, [arg(libc::PR_CAP_AMBIENT), clear, 0, 0, 0])?;
    let header = Header { version: 0x2008_0522, process: 0 };
    // Effective, permitted, inheritable; the lower 32 rights and then the upper ones.
    let rights: [u32; 6] = [kept, kept, 0, 0, 0, 0];
    let arguments = [(&raw const header) as i64, (&raw const rights) as i64, 0, 0, 0];
    call(libc::SYS_capset, arguments).map(drop)
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

fn arg(number: i32) -> i64 {
    i64::from(number)
}

fn pointer(text: &CStr) -> i64 {
    text.as_ptr() as i64
}

fn call(number: i64, [a, b, c, d, e]: [i64; 5]) -> io::Result<i64> {
    #[expect(unsafe_code, reason = "no crate offers all of these calls without allocating")]
    // SAFETY: every address comes from a reference that lives as long as the call, with the length or the zero byte the
    // call reads to; none of the calls made here writes to our memory.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Whether we may make mounts without a user namespace.
fn may_mount() -> bool {
    const SYS_ADMIN: u32 = 21;
    rights() >> SYS_ADMIN & 1 == 1
}

/// Our own, as bits.
pub(crate) fn rights() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

fn below(path: &Path) -> Result<CString, ToolError> {
    c_path(path.strip_prefix("/").unwrap_or(path))
}

fn c_path(path: &Path) -> Result<CString, ToolError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|error| {
        let shown = PathBuf::from(path);
        ToolError::input(format!("`{}` contains a zero byte", shown.display()))
            .hint("name another path")
            .caused_by(error)
    })
}
