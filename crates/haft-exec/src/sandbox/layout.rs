//! The paths of this machine that a program sees, as one list from which both backends are built:
//! the system, the parts of the home directory that tools need, the workspace, and private
//! directories for temporary files. Everything else does not exist for the program.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use haft_core::ToolError;

use super::{
    home,
    machine::{HiddenPath, Machine},
    scratch::Scratch,
};
use crate::processes::{backend::LaunchContext, closed::Closed};

/// Later parts cover earlier ones.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) parts: Vec<LayoutPart>,
    /// The directories of the user.
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LayoutPart {
    /// A path of the machine, at the same place.
    Shown { path: PathBuf, access: PathAccess },
    /// A link, as on the machine.
    Link { at: PathBuf, to: PathBuf },
    /// A directory that only programs of this session see.
    Private { at: PathBuf, source: PathBuf },
    /// A path that is covered by an empty directory or file.
    Hidden { path: PathBuf, is_directory: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathAccess {
    Read,
    Write,
}

/// Programs share memory by files in this directory.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

impl Layout {
    /// # Errors
    /// Of kind `unavailable` when a path of the workspace cannot be protected, or when the
    /// workspace is `/`.
    pub(crate) fn of(
        context: &LaunchContext,
        writes: bool,
        scratch: &Scratch,
    ) -> Result<Self, ToolError> {
        let machine = Machine::seen_by(context);
        let (temporary, system) = machine.system.iter().cloned().partition(is_temporary);
        let mut layout = Self { parts: system, roots: roots(context) };
        layout.parts.push(LayoutPart::Private { at: "/tmp".into(), source: scratch.tmp() });
        layout.parts.push(LayoutPart::Private { at: SHARED_MEMORY.into(), source: scratch.shm() });
        layout.parts.extend(of_home(&machine, context));
        layout.parts.extend(context.shown.parts(writes));
        let roots = layout.roots.clone();
        if roots.iter().any(|root| root.parent().is_none()) {
            return Err(ToolError::unavailable(
                "the workspace is `/`, and a sandbox cannot contain the whole machine",
            )
            .hint("start haft in the folder of a project"));
        }
        // A workspace may be inside the usual directory for temporary files.
        layout.parts.push(if roots.iter().any(|root| Path::new("/tmp").starts_with(root)) {
            LayoutPart::Private { at: "/var/tmp".into(), source: scratch.tmp() }
        } else {
            LayoutPart::Link { at: "/var/tmp".into(), to: "../tmp".into() }
        });
        // Folders on PATH may be inside it too: they come after the private directories, which
        // would cover them otherwise.
        layout.parts.extend::<Vec<LayoutPart>>(temporary);
        let access = if writes { PathAccess::Write } else { PathAccess::Read };
        roots.iter().for_each(|root| layout.show(root.clone(), access));
        layout.hide_secrets(&machine.secrets);
        layout.hide_closed(&context.closed);
        if writes {
            roots.iter().try_for_each(|root| layout.protect(root))?;
        }
        Ok(layout)
    }

    /// Returns the parts of a root that stay read-only when the rest may be changed, in mount
    /// order.
    ///
    /// # Errors
    /// Of kind `unavailable` when one of them cannot be protected.
    pub(crate) fn protected(root: &Path) -> Result<Vec<LayoutPart>, ToolError> {
        let mut layout = Self { parts: Vec::new(), roots: Vec::new() };
        layout.protect(root)?;
        Ok(layout.parts)
    }

    /// The directory for temporary files, for the environment of programs.
    pub(crate) fn tmp(&self) -> &'static Path {
        let is_private = |path: &str| {
            let path = Path::new(path);
            self.parts
                .iter()
                .any(|part| matches!(part, LayoutPart::Private { at, .. } if at == path))
        };
        Path::new(if is_private("/var/tmp") { "/var/tmp" } else { "/tmp" })
    }

    fn show(&mut self, path: PathBuf, access: PathAccess) {
        self.parts.push(LayoutPart::Shown { path, access });
    }

    fn shows(&self, path: &Path) -> bool {
        self.parts.iter().any(
            |part| matches!(part, LayoutPart::Shown { path: shown, .. } if path.starts_with(shown)),
        )
    }

    /// Returns true when it is in a covered directory: then it does not exist and cannot be covered
    /// itself.
    fn hides(&self, path: &Path) -> bool {
        self.parts.iter().any(
            |part| matches!(part, LayoutPart::Hidden { path: hidden, .. } if path.starts_with(hidden)),
        )
    }

    fn hide_secrets(&mut self, secrets: &[HiddenPath]) {
        for HiddenPath { named, real, is_directory } in secrets {
            // A user who works inside such a directory has released it.
            let is_given = self.roots.iter().any(|root| root.starts_with(named));
            if !is_given && self.shows(real) {
                let path = real.clone();
                self.parts.push(LayoutPart::Hidden { path, is_directory: *is_directory });
            }
        }
    }

    fn hide_closed(&mut self, closed: &[Closed]) {
        for Closed { path, is_directory } in closed {
            // A link cannot be a mount point; its target is shown, hidden or missing independently.
            let is_there = fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink());
            if is_there && self.shows(path) && !self.hides(path) {
                self.parts
                    .push(LayoutPart::Hidden { path: path.clone(), is_directory: *is_directory });
            }
        }
    }

    /// Keeps everything unchanged that makes other programs run something: git's hooks and
    /// settings, and haft's own files. `.git` is mounted on itself, because a mount point can be
    /// neither renamed nor removed: another `.git` in its place would have other hooks.
    fn protect(&mut self, root: &Path) -> Result<(), ToolError> {
        let own = root.join(".haft");
        make_if_missing(&own, Missing::Directory)?;
        self.show(own, PathAccess::Read);
        let git = root.join(".git");
        match fs::symlink_metadata(&git) {
            Err(_) => Ok(()),
            Ok(found) if found.is_dir() => {
                self.show(git.clone(), PathAccess::Write);
                for (name, missing) in [("hooks", Missing::Directory), ("config", Missing::File)] {
                    let path = git.join(name);
                    make_if_missing(&path, missing)?;
                    self.show(path, PathAccess::Read);
                }
                Ok(())
            }
            // The `.git` file of a work tree or a submodule points to a git directory.
            Ok(found) if found.is_file() => {
                self.show(git, PathAccess::Read);
                Ok(())
            }
            Ok(_) => Err(unprotectable(&git)),
        }
    }
}

/// Returns true when it is where a private directory is mounted.
fn is_temporary(part: &LayoutPart) -> bool {
    let places = ["/tmp", "/var/tmp", SHARED_MEMORY];
    matches!(part, LayoutPart::Shown { path, .. } if places.iter().any(|place| path.starts_with(place)))
}

/// Returns the visible parts of the home directory.
fn of_home(machine: &Machine, context: &LaunchContext) -> Vec<LayoutPart> {
    match &machine.home {
        Some(home) if context.shown.whole_home => {
            vec![LayoutPart::Shown { path: home.clone(), access: PathAccess::Read }]
        }
        Some(home) => {
            let mut writable = roots(context);
            writable.extend(context.shown.write.iter().cloned());
            home::tools(home, context, &writable)
        }
        None => Vec::new(),
    }
}

/// Returns the folders outside the workspace that programs see.
pub(crate) fn areas(context: &LaunchContext) -> Vec<PathBuf> {
    let machine = Machine::seen_by(context);
    let parts = machine.system.iter().cloned().chain(of_home(&machine, context));
    let shown = parts.chain(context.shown.parts(false)).filter_map(|part| match part {
        LayoutPart::Shown { path, .. } => Some(path),
        _ => None,
    });
    shown.collect()
}

/// Returns the folders and files of the home directory that programs see, and whether they may
/// write there.
pub(super) fn seen_of_home(context: &LaunchContext) -> Vec<(PathBuf, bool)> {
    let machine = Machine::seen_by(context);
    let parts = of_home(&machine, context).into_iter().chain(context.shown.parts(true));
    let shown = parts.filter_map(|part| match part {
        LayoutPart::Shown { path, access } => Some((path, access == PathAccess::Write)),
        _ => None,
    });
    // The `.git` of a writable folder is not worth a line.
    shown.filter(|(path, _)| !path.ends_with(".git")).collect()
}

/// Returns the folders outside the workspace that are searched for secret files.
pub(crate) fn searched(context: &LaunchContext) -> Vec<PathBuf> {
    let home = context.shown.whole_home.then(|| Machine::seen_by(context).home.clone()).flatten();
    context.shown.read.iter().chain(&context.shown.write).cloned().chain(home).collect()
}

enum Missing {
    Directory,
    File,
}

/// Creates a missing file or folder: only existing paths can be covered, and a program could create
/// it. Empty ones are harmless.
fn make_if_missing(path: &Path, missing: Missing) -> Result<(), ToolError> {
    let made = match missing {
        Missing::Directory => fs::DirBuilder::new().mode(0o755).create(path),
        Missing::File => fs::File::create_new(path).map(drop),
    };
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let message = format!("`{}` cannot be protected: {error}", path.display());
            Err(ToolError::unavailable(message)
                .hint("create it by hand, or run the command without writing"))
        }
        _ if path.is_symlink() => Err(unprotectable(path)),
        _ => Ok(()),
    }
}

fn unprotectable(path: &Path) -> ToolError {
    let message = format!(
        "`{}` is a link, and a sandbox cannot protect a link from being replaced",
        path.display()
    );
    ToolError::unavailable(message)
        .hint("replace it by its target, or run the command without writing")
}

/// Returns the directories of the user, parents first: a directory inside another one is mounted on
/// top of it.
pub(crate) fn roots(context: &LaunchContext) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> =
        context.workspace.roots.iter().map(|root| root.path.clone()).collect();
    roots.sort();
    roots.dedup();
    roots
}

/// Variables that would lead a program to a service that acts for the user.
const LEADING_OUT: &[&str] = &[
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "XDG_RUNTIME_DIR",
    "TMPDIR",
    "TMP",
    "TEMP",
];

/// Returns the environment of a sandboxed program.
pub(crate) fn environment(context: &LaunchContext, tmp: &Path) -> Vec<(OsString, OsString)> {
    let stays = |name: &OsStr| !LEADING_OUT.iter().any(|out| name == *out);
    let mut all: Vec<_> =
        context.environment.iter().filter(|(name, _)| stays(name)).cloned().collect();
    all.push(("TMPDIR".into(), tmp.into()));
    all
}
