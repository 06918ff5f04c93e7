//! What stands around a program. A fence turns a launch into a recipe: which command line really runs, with which
//! variables, where, and behind which walls of the kernel. Starting, reading and ending it is the same for all.

use std::{
    ffi::OsString,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
};

use haft_core::{
    ToolError,
    commands::{ExecutorKind, Launch},
};

use super::closed::Closed;
use crate::{
    Workspace,
    sandbox::{Inside, Listening, Reporter, Room, ShownFolders},
};

/// A way to keep programs in.
pub(crate) trait Fence: Send + Sync {
    /// Where programs run behind this fence.
    fn place(&self) -> ExecutorKind;

    /// How a launch is really started.
    ///
    /// # Errors
    /// Of kind `unavailable` when this machine cannot hold what the launch asks for; it is never held less.
    fn recipe(&self, launch: &Launch, site: &Site) -> Result<Recipe, ToolError>;

    /// A session has ended: what was kept for it goes.
    fn forget(&self, _session: &str) {}
}

/// Where a launch happens on this machine.
pub(crate) struct Site {
    pub(crate) workspace: Arc<Workspace>,
    /// The directory to start in: opened, checked, and its real absolute path.
    pub(crate) directory: OwnedFd,
    pub(crate) path: PathBuf,
    /// The whole environment of the program, secrets removed.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// What of the workspace it must not see.
    pub(crate) closed: Arc<Vec<Closed>>,
    /// Folders of haft itself, which no program sees.
    pub(crate) private: Arc<Vec<PathBuf>>,
    /// Folders outside the workspace that the person shows.
    pub(crate) shown: Arc<ShownFolders>,
}

impl Site {
    /// Where the path of the program's environment has a program of this name.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let (_, path) = self.environment.iter().find(|(variable, _)| variable == "PATH")?;
        let is_program = |file: &PathBuf| {
            rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
        };
        if name.contains('/') {
            return Some(self.path.join(name)).filter(is_program);
        }
        std::env::split_paths(path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(is_program)
    }
}

/// What is started.
pub(crate) struct Recipe {
    /// The program, absolute, and its arguments.
    pub(crate) command: Vec<OsString>,
    /// All of it; nothing is inherited.
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) walls: Walls,
    /// What will be told of that it was refused.
    pub(crate) listening: Option<Listening>,
    /// What the launch is where it really runs, when the started process only stands for it here.
    pub(crate) interior: Option<Arc<dyn Interior>>,
}

/// A launch that runs where this machine's table of processes may not show it. All of it waits for answers, within
/// deadlines of its own.
pub(crate) trait Interior: Send + Sync {
    /// Those who tidy up when they are asked to may do so.
    fn ask_to_end(&self);

    /// Ends all of it and returns when none is left.
    fn end(&self);

    /// How many of its processes live. None when nobody can tell any more, because the place is gone.
    fn left(&self) -> Option<usize>;

    /// Whether something there accepts connections at this port.
    fn listens(&self, port: u16) -> bool;

    /// What to say when the place went away while the launch ran.
    fn lost(&self) -> ToolError;
}

/// What the child puts around itself, for good, between fork and exec. Made before the fork: nothing may be allocated
/// between the two.
#[derive(Default)]
pub(crate) struct Walls {
    /// A Landlock ruleset.
    pub(crate) landlock: Option<Arc<OwnedFd>>,
    /// A seccomp program.
    pub(crate) seccomp: Option<Arc<Vec<seccompiler::sock_filter>>>,
    /// No program below may gain rights by being started (set-uid). Both walls need it.
    pub(crate) no_new_privileges: bool,
    /// The room it enters and the rights it keeps, before all others. It changes directory by itself.
    pub(crate) inside: Option<Inside>,
    /// Denies what the seccomp program does, and tells us what will be refused. Where that cannot be had, the walls are the
    /// same.
    pub(crate) reporter: Option<Reporter>,
}

impl Walls {
    /// The room it will be in.
    pub(crate) fn room(&self) -> Option<Arc<Room>> {
        self.inside.as_ref()?.room.clone()
    }

    /// Whether it will be one's own person in a namespace of its own.
    pub(crate) fn changes_person(&self) -> bool {
        self.inside.as_ref().is_some_and(Inside::changes_person)
    }

    /// Puts them up around this process, for good. For a child between fork and exec: only system calls are made, nothing
    /// is allocated. Whoever tries a fence and whoever uses it calls this, so that what was tried is what holds.
    ///
    /// # Errors
    /// What the kernel says; the child must not go on.
    pub(crate) fn put_up(&self) -> io::Result<()> {
        if let Some(inside) = &self.inside {
            // Nothing may go by handle after this: handles lead out.
            inside.enter()?;
        }
        if self.no_new_privileges {
            rustix::thread::set_no_new_privs(true)?;
        }
        if let Some(rules) = &self.landlock {
            restrict(rules)?;
        }
        if self.reporter.as_ref().is_some_and(Reporter::begin) {
            return Ok(());
        }
        if let Some(program) = &self.seccomp {
            seccompiler::apply_filter(program)
                .map_err(|_| io::Error::from_raw_os_error(libc::EPERM))?;
        }
        Ok(())
    }
}

fn restrict(rules: &OwnedFd) -> io::Result<()> {
    #[expect(unsafe_code, reason = "no crate offers this call without allocating")]
    // SAFETY: the call takes a descriptor and a number, and reads no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
