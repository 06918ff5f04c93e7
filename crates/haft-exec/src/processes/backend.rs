//! The interface of sandbox backends. A backend turns a launch into a recipe: the real command
//! line, its variables, its directory, and the kernel restrictions. Starting, reading and ending
//! the process is the same for all backends.

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
    sandbox::{NamespaceEntry, NamespaceSet, NotificationListener, ReportingFilter, ShownFolders},
};

/// A way to run programs.
pub(crate) trait LaunchBackend: Send + Sync {
    /// Returns where this backend runs programs.
    fn kind(&self) -> ExecutorKind;

    /// Prepares a launch.
    ///
    /// # Errors
    /// Of kind `unavailable` when this machine cannot enforce what the launch asks for; it never
    /// enforces less.
    fn recipe(&self, launch: &Launch, context: &LaunchContext) -> Result<Recipe, ToolError>;

    /// Releases everything that was kept for a session that has ended.
    fn forget(&self, _session: &str) {}
}

/// The context of a launch on this machine.
pub(crate) struct LaunchContext {
    pub(crate) workspace: Arc<Workspace>,
    /// The directory to start in: opened, checked, with its real absolute path.
    pub(crate) directory: OwnedFd,
    pub(crate) path: PathBuf,
    /// The complete environment of the program, without secrets.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The closed paths of the workspace.
    pub(crate) closed: Arc<Vec<Closed>>,
    /// Folders of haft itself, which no program sees.
    pub(crate) private: Arc<Vec<PathBuf>>,
    /// Folders outside the workspace that the user shows.
    pub(crate) shown: Arc<ShownFolders>,
}

impl LaunchContext {
    /// Finds a program by name in the PATH of the environment.
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

/// The process to start.
pub(crate) struct Recipe {
    /// The absolute path of the program, and its arguments.
    pub(crate) command: Vec<OsString>,
    /// The complete environment; nothing is inherited.
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) restrictions: ChildRestrictions,
    /// Receives reports of denied calls.
    pub(crate) listening: Option<NotificationListener>,
    /// Control of the launch inside its container, when the started process only represents it
    /// here.
    pub(crate) isolated: Option<Arc<dyn IsolatedLaunch>>,
}

/// A launch whose processes may be invisible in this machine's process table. All methods wait for
/// answers, with their own deadlines.
pub(crate) trait IsolatedLaunch: Send + Sync {
    /// Asks its processes to end, so that they can clean up.
    fn ask_to_end(&self);

    /// Ends all of it and returns when none is left.
    fn end(&self);

    /// Number of living processes. None when it is unknown because the container is gone.
    fn left(&self) -> Option<usize>;

    /// Returns true when a process in it accepts connections on this port.
    fn listens(&self, port: u16) -> bool;

    /// Returns the error for a container that disappeared during the launch.
    fn lost(&self) -> ToolError;
}

/// The restrictions that a child applies to itself permanently between fork and exec. Prepared
/// before the fork, because nothing may be allocated in between.
#[derive(Default)]
pub(crate) struct ChildRestrictions {
    /// A Landlock ruleset.
    pub(crate) landlock: Option<Arc<OwnedFd>>,
    /// A seccomp program.
    pub(crate) seccomp: Option<Arc<Vec<seccompiler::sock_filter>>>,
    /// Prevents programs from gaining privileges by exec (set-uid). Landlock and seccomp need it.
    pub(crate) no_new_privileges: bool,
    /// The namespaces to enter and the privileges to keep; applied before all others. This also
    /// changes the directory.
    pub(crate) namespaces: Option<NamespaceEntry>,
    /// Does what the seccomp program does, and also reports denied calls. Where this is
    /// unsupported, the restrictions are the same.
    pub(crate) reporter: Option<ReportingFilter>,
}

impl ChildRestrictions {
    /// Returns the namespace set that the child enters.
    pub(crate) fn namespace_set(&self) -> Option<Arc<NamespaceSet>> {
        self.namespaces.as_ref()?.namespace_set.clone()
    }

    /// Returns true when the child enters a new user namespace.
    pub(crate) fn enters_user_namespace(&self) -> bool {
        self.namespaces.as_ref().is_some_and(NamespaceEntry::enters_user_namespace)
    }

    /// Applies the restrictions to this process permanently. For a child between fork and exec:
    /// makes only system calls and allocates nothing. Probes and launches both call this, so probes
    /// test what launches use.
    ///
    /// # Errors
    /// The kernel's error; the child must not continue.
    pub(crate) fn apply(&self) -> io::Result<()> {
        if let Some(namespaces) = &self.namespaces {
            // Nothing may be reached by handle after this: handles lead out of the sandbox.
            namespaces.enter()?;
        }
        if self.no_new_privileges {
            rustix::thread::set_no_new_privs(true)?;
        }
        if let Some(rules) = &self.landlock {
            restrict(rules)?;
        }
        if self.reporter.as_ref().is_some_and(ReportingFilter::begin) {
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
