//! The bubblewrap backend: a separate PID namespace and, where bubblewrap is not started in a
//! namespace set, the layout as mounts and an empty network for launches without the network. The
//! seccomp program and the Landlock scopes are applied before bubblewrap starts, so they allow what
//! it needs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use haft_core::{
    ToolError,
    commands::{ExecutorKind, Launch, Stdin},
};

use seccompiler::BpfProgram;

use super::{
    landlock_rules,
    layout::{self, Layout, LayoutPart, PathAccess},
    namespace_set::{NamespaceEntry, NamespaceSets},
    notifications, probe,
    scratch::{Scratch, Scratches},
    syscalls::{self, Internet, Namespaces, SyscallPolicy},
};
use crate::processes::{
    backend::{ChildRestrictions, LaunchBackend, LaunchContext, Recipe},
    local,
};

pub(crate) struct Bubblewrap {
    program: PathBuf,
    scratches: Scratches,
    namespace_sets: NamespaceSets,
    /// True when it is started in a namespace set; tried once.
    has_namespace_sets: OnceLock<bool>,
    /// Without root bubblewrap needs a user namespace.
    is_root: bool,
    has_scopes: bool,
}

/// Not from PATH: a sandboxed program must not choose the program that builds the sandbox.
const PROGRAM_PATHS: &[&str] =
    &["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

/// Root keeps its capabilities over files, so that it can work in folders of other users.
const KEPT_CAPABILITIES: &[&str] = &["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID"];

/// The parts of `/sys` that programs need. Making all of it read-only would take twenty mounts.
const VISIBLE_SYS: &[&str] = &["/sys/devices/system", "/sys/kernel/mm"];

/// Returns the path of bubblewrap, if it is installed.
pub(crate) fn installed() -> Option<PathBuf> {
    PROGRAM_PATHS.iter().map(PathBuf::from).find(|path| path.is_file())
}

impl Bubblewrap {
    /// # Errors
    /// Of kind `unavailable` when it is not installed.
    pub(crate) fn find(temporary: &Path) -> Result<Self, ToolError> {
        let program = installed().ok_or_else(|| {
            ToolError::unavailable("bubblewrap is not installed")
                .hint("install the package `bubblewrap`")
        })?;
        Ok(Self {
            program,
            scratches: Scratches::in_directory(temporary),
            namespace_sets: NamespaceSets::default(),
            has_namespace_sets: OnceLock::new(),
            is_root: rustix::process::geteuid().is_root(),
            has_scopes: landlock_rules::version() >= landlock_rules::NEEDED,
        })
    }

    /// Returns the restrictions, and the seccomp program that applies when calls can be reported.
    fn restrictions(
        &self,
        launch: &Launch,
    ) -> Result<(ChildRestrictions, Arc<BpfProgram>), ToolError> {
        let namespaces = if self.is_root { Namespaces::WithRights } else { Namespaces::WithUser };
        // A separate network has no abstract sockets of other programs; in the machine's network
        // only the Landlock scopes block them.
        let unix = self.has_scopes || !launch.confinement.network;
        let landlock =
            if self.has_scopes { Some(Arc::new(landlock_rules::scopes_only()?)) } else { None };
        let calls =
            SyscallPolicy { internet: Internet::Allowed, unix, namespaces, attributes: true };
        let restrictions = ChildRestrictions {
            landlock,
            // The reporting filter blocks sockets of other programs. Without it all unix sockets
            // are denied.
            seccomp: Some(syscalls::program(SyscallPolicy { unix: false, ..calls })?),
            no_new_privileges: true,
            namespaces: None,
            reporter: None,
        };
        Ok((restrictions, syscalls::program(calls)?))
    }

    /// The arguments with which bubblewrap builds everything.
    fn all_arguments(
        &self,
        launch: &Launch,
        (layout, scratch): (&Layout, &Scratch),
    ) -> Vec<OsString> {
        let mut arguments = self.namespace_arguments(launch);
        arguments.add(["--unshare-ipc"]);
        if !launch.confinement.network {
            arguments.add(["--unshare-net"]);
        }
        arguments.0.extend(places(layout, scratch));
        arguments.0
    }

    /// The arguments for a start in a namespace set, which has everything but the PID namespace.
    fn arguments_in_namespace_set(&self, launch: &Launch) -> Vec<OsString> {
        let mut arguments = self.namespace_arguments(launch);
        arguments.add(["--dev-bind", "/", "/", "--proc", "/proc", "--remount-ro", "/proc"]);
        arguments.0
    }

    fn namespace_arguments(&self, launch: &Launch) -> BwrapArguments {
        let mut arguments = BwrapArguments(vec![self.program.clone().into()]);
        arguments.add([
            "--die-with-parent",
            "--unshare-pid",
            "--unshare-uts",
            "--unshare-cgroup-try",
        ]);
        if !matches!(launch.input, Stdin::Terminal { .. }) {
            arguments.add(["--new-session"]);
        }
        arguments.add(["--cap-drop", "ALL"]);
        if self.is_root {
            KEPT_CAPABILITIES
                .iter()
                .for_each(|capability| arguments.add(["--cap-add", capability]));
        } else {
            arguments.add(["--unshare-user", "--disable-userns"]);
        }
        arguments
    }

    fn has_namespace_sets(&self) -> bool {
        *self.has_namespace_sets.get_or_init(|| probe::mounts().works)
    }
}

impl LaunchBackend for Bubblewrap {
    fn forget(&self, session: &str) {
        self.namespace_sets.forget(session);
        self.scratches.forget(session);
    }

    fn kind(&self) -> ExecutorKind {
        ExecutorKind::Sandbox
    }

    fn recipe(&self, launch: &Launch, context: &LaunchContext) -> Result<Recipe, ToolError> {
        let scratch = self.scratches.of_session(&launch.session)?;
        let layout = Layout::of(context, launch.confinement.writes, &scratch)?;
        let (mut restrictions, denying) = self.restrictions(launch)?;
        let mut arguments = if self.has_namespace_sets() {
            let network = launch.confinement.network;
            let whole = (&layout, &*scratch);
            let namespace_set =
                self.namespace_sets.namespace_set(&launch.session, whole, network, || Ok(None))?;
            restrictions.namespaces = Some(NamespaceEntry {
                kept: None,
                ..NamespaceEntry::of(namespace_set, &context.path)?
            });
            BwrapArguments(self.arguments_in_namespace_set(launch))
        } else {
            BwrapArguments(self.all_arguments(launch, (&layout, &scratch)))
        };
        arguments.add(["--chdir".into(), context.path.clone().into_os_string(), "--".into()]);
        arguments.0.extend(local::command(&launch.program, context)?);
        let environment = layout::environment(context, layout.tmp());
        let internet = Internet::of(launch.confinement.network);
        let builder = Some(self.program.clone());
        let arranged =
            notifications::prepare_reporting(Arc::new(layout), internet, builder, &denying);
        let (reporter, listening) = arranged.unzip();
        restrictions.reporter = reporter;
        let command = arguments.0;
        Ok(Recipe { command, environment, restrictions, listening, isolated: None })
    }
}

fn places(layout: &Layout, scratch: &Scratch) -> Vec<OsString> {
    let mut arguments = BwrapArguments::default();
    // Root can change the machine by files of `/proc` without any capability, because it owns them.
    arguments.add(["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]);
    arguments.add(["--dir", "/run", "--dir", "/var"]);
    for path in VISIBLE_SYS.iter().filter(|path| Path::new(path).exists()) {
        arguments.add(["--ro-bind", path, path]);
    }
    for part in &layout.parts {
        match part {
            LayoutPart::Shown { path, access } => {
                let how = if *access == PathAccess::Write { "--bind" } else { "--ro-bind" };
                arguments.bind(how, path, path);
            }
            // bubblewrap creates this one itself.
            LayoutPart::Private { at, .. } if at == Path::new(layout::SHARED_MEMORY) => {}
            LayoutPart::Private { at, source } => arguments.bind("--bind", source, at),
            LayoutPart::Hidden { path, is_directory } => {
                arguments.bind("--ro-bind", &scratch.nothing(*is_directory), path)
            }
            LayoutPart::Link { at, to } => arguments.bind("--symlink", to, at),
        }
    }
    arguments.add(["--remount-ro", "/"]);
    arguments.0
}

#[derive(Default)]
struct BwrapArguments(Vec<OsString>);

impl BwrapArguments {
    fn add<const N: usize>(&mut self, arguments: [impl Into<OsString>; N]) {
        self.0.extend(arguments.map(Into::into));
    }

    fn bind(&mut self, how: &str, source: &Path, at: &Path) {
        self.add([how.into(), source.as_os_str().to_owned(), at.as_os_str().to_owned()]);
    }
}
