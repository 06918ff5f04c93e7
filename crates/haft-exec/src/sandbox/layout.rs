//! What a program sees of this machine, as one list that both fences are made from: the system, what tools need of the
//! home, the workspace, and private places for what is temporary. What is not in it is not there.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use haft_core::ToolError;

use super::{
    home,
    machine::{Machine, Secret},
    scratch::Scratch,
};
use crate::processes::{backend::LaunchContext, closed::Closed};

/// Later parts lie on top of earlier ones.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) parts: Vec<Part>,
    /// The directories of the person.
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A place of the machine, at its own path.
    Shown { path: PathBuf, access: Access },
    /// A link, as the machine has it there.
    Link { at: PathBuf, to: PathBuf },
    /// A directory that only programs of this session see.
    Private { at: PathBuf, source: PathBuf },
    /// Something that is covered by nothing: an empty directory or file.
    Hidden { path: PathBuf, is_directory: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Programs share memory by files there.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

impl Layout {
    /// # Errors
    /// Of kind `unavailable` when something of the workspace cannot be protected, or when the workspace is everything.
    pub(crate) fn of(
        context: &LaunchContext,
        writes: bool,
        scratch: &Scratch,
    ) -> Result<Self, ToolError> {
        let machine = Machine::seen_by(context);
        let (temporary, system) = machine.system.iter().cloned().partition(is_temporary);
        let mut layout = Self { parts: system, roots: roots(context) };
        layout.parts.push(Part::Private { at: "/tmp".into(), source: scratch.tmp() });
        layout.parts.push(Part::Private { at: SHARED_MEMORY.into(), source: scratch.shm() });
        layout.parts.extend(of_home(&machine, context));
        layout.parts.extend(context.shown.parts(writes));
        let roots = layout.roots.clone();
        if roots.iter().any(|root| root.parent().is_none()) {
            return Err(ToolError::unavailable(
                "the workspace is `/`, and no sandbox goes around a whole machine",
            )
            .hint("start haft in the folder of a project"));
        }
        // A workspace may lie where temporary things usually do.
        layout.parts.push(if roots.iter().any(|root| Path::new("/tmp").starts_with(root)) {
            Part::Private { at: "/var/tmp".into(), source: scratch.tmp() }
        } else {
            Part::Link { at: "/var/tmp".into(), to: "../tmp".into() }
        });
        // Folders on PATH may lie there, too: on top of the private places, or these would cover them.
        layout.parts.extend::<Vec<Part>>(temporary);
        let access = if writes { Access::Write } else { Access::Read };
        roots.iter().for_each(|root| layout.show(root.clone(), access));
        layout.hide_secrets(&machine.secrets);
        layout.hide_closed(&context.closed);
        if writes {
            roots.iter().try_for_each(|root| layout.protect(root))?;
        }
        Ok(layout)
    }

    /// What of a root stays as it is when the rest of it may be changed, in the order in which it is laid over it.
    ///
    /// # Errors
    /// Of kind `unavailable` when something of it cannot be protected.
    pub(crate) fn protected(root: &Path) -> Result<Vec<Part>, ToolError> {
        let mut layout = Self { parts: Vec::new(), roots: Vec::new() };
        layout.protect(root)?;
        Ok(layout.parts)
    }

    /// What programs are told to put temporary things into.
    pub(crate) fn tmp(&self) -> &'static Path {
        let is_private = |path: &str| {
            let path = Path::new(path);
            self.parts.iter().any(|part| matches!(part, Part::Private { at, .. } if at == path))
        };
        Path::new(if is_private("/var/tmp") { "/var/tmp" } else { "/tmp" })
    }

    fn show(&mut self, path: PathBuf, access: Access) {
        self.parts.push(Part::Shown { path, access });
    }

    fn shows(&self, path: &Path) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Shown { path: shown, .. } if path.starts_with(shown)))
    }

    /// Whether it is in a directory that is covered: then it is not there any more, to be covered itself.
    fn hides(&self, path: &Path) -> bool {
        self.parts.iter().any(
            |part| matches!(part, Part::Hidden { path: hidden, .. } if path.starts_with(hidden)),
        )
    }

    fn hide_secrets(&mut self, secrets: &[Secret]) {
        for Secret { named, real, is_directory } in secrets {
            // A person who works in such a place has given it.
            let is_given = self.roots.iter().any(|root| root.starts_with(named));
            if !is_given && self.shows(real) {
                let path = real.clone();
                self.parts.push(Part::Hidden { path, is_directory: *is_directory });
            }
        }
    }

    fn hide_closed(&mut self, closed: &[Closed]) {
        for Closed { path, is_directory } in closed {
            // Nothing can be laid over a link; what it leads to is shown, hidden or not there by itself.
            let is_there = fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink());
            if is_there && self.shows(path) && !self.hides(path) {
                self.parts.push(Part::Hidden { path: path.clone(), is_directory: *is_directory });
            }
        }
    }

    /// What makes other programs run something stays as it is: git's hooks and settings, and haft's own. `.git` lies on
    /// itself, because what something is mounted on can be neither renamed nor removed: with another `.git` in its
    /// place there would be other hooks.
    fn protect(&mut self, root: &Path) -> Result<(), ToolError> {
        let own = root.join(".haft");
        make_if_missing(&own, Missing::Directory)?;
        self.show(own, Access::Read);
        let git = root.join(".git");
        match fs::symlink_metadata(&git) {
            Err(_) => Ok(()),
            Ok(found) if found.is_dir() => {
                self.show(git.clone(), Access::Write);
                for (name, missing) in [("hooks", Missing::Directory), ("config", Missing::File)] {
                    let path = git.join(name);
                    make_if_missing(&path, missing)?;
                    self.show(path, Access::Read);
                }
                Ok(())
            }
            // The file that a work tree or a submodule has leads to a `.git`.
            Ok(found) if found.is_file() => {
                self.show(git, Access::Read);
                Ok(())
            }
            Ok(_) => Err(unprotectable(&git)),
        }
    }
}

/// Whether it lies where a private place is put.
fn is_temporary(part: &Part) -> bool {
    let places = ["/tmp", "/var/tmp", SHARED_MEMORY];
    matches!(part, Part::Shown { path, .. } if places.iter().any(|place| path.starts_with(place)))
}

/// What is shown of the home.
fn of_home(machine: &Machine, context: &LaunchContext) -> Vec<Part> {
    match &machine.home {
        Some(home) if context.shown.whole_home => {
            vec![Part::Shown { path: home.clone(), access: Access::Read }]
        }
        Some(home) => {
            let mut writable = roots(context);
            writable.extend(context.shown.write.iter().cloned());
            home::tools(home, context, &writable)
        }
        None => Vec::new(),
    }
}

/// The folders outside the workspace that programs see.
pub(crate) fn areas(context: &LaunchContext) -> Vec<PathBuf> {
    let machine = Machine::seen_by(context);
    let parts = machine.system.iter().cloned().chain(of_home(&machine, context));
    let shown = parts.chain(context.shown.parts(false)).filter_map(|part| match part {
        Part::Shown { path, .. } => Some(path),
        _ => None,
    });
    shown.collect()
}

/// The folders and files of the home that programs see, and whether they may write there.
pub(super) fn seen_of_home(context: &LaunchContext) -> Vec<(PathBuf, bool)> {
    let machine = Machine::seen_by(context);
    let parts = of_home(&machine, context).into_iter().chain(context.shown.parts(true));
    let shown = parts.filter_map(|part| match part {
        Part::Shown { path, access } => Some((path, access == Access::Write)),
        _ => None,
    });
    // The `.git` of a writable folder is not worth a line.
    shown.filter(|(path, _)| !path.ends_with(".git")).collect()
}

/// Of the folders outside the workspace those that are looked through for secret files.
pub(crate) fn searched(context: &LaunchContext) -> Vec<PathBuf> {
    let home = context.shown.whole_home.then(|| Machine::seen_by(context).home.clone()).flatten();
    context.shown.read.iter().chain(&context.shown.write).cloned().chain(home).collect()
}

enum Missing {
    Directory,
    File,
}

/// Nothing can be laid over what is not there, and a program could make it. Empty ones are harmless.
fn make_if_missing(path: &Path, missing: Missing) -> Result<(), ToolError> {
    let made = match missing {
        Missing::Directory => fs::DirBuilder::new().mode(0o755).create(path),
        Missing::File => fs::File::create_new(path).map(drop),
    };
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let message = format!("`{}` cannot be protected: {error}", path.display());
            Err(ToolError::unavailable(message)
                .hint("make it by hand, or run the command without writing"))
        }
        _ if path.is_symlink() => Err(unprotectable(path)),
        _ => Ok(()),
    }
}

fn unprotectable(path: &Path) -> ToolError {
    let message = format!(
        "`{}` is a link, and a sandbox cannot keep a link from being replaced",
        path.display()
    );
    ToolError::unavailable(message)
        .hint("put what it leads to in its place, or run the command without writing")
}

/// The directories of a person, parents first: what lies in another is laid on top of it.
pub(crate) fn roots(context: &LaunchContext) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> =
        context.workspace.roots.iter().map(|root| root.path.clone()).collect();
    roots.sort();
    roots.dedup();
    roots
}

/// What would lead a program to something that acts for the person.
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

/// The variables of a program behind a fence.
pub(crate) fn environment(context: &LaunchContext, tmp: &Path) -> Vec<(OsString, OsString)> {
    let stays = |name: &OsStr| !LEADING_OUT.iter().any(|out| name == *out);
    let mut all: Vec<_> =
        context.environment.iter().filter(|(name, _)| stays(name)).cloned().collect();
    all.push(("TMPDIR".into(), tmp.into()));
    all
}
