//! How a container is made: its limits, what it sees of the machine, and where.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::{ErrorKind, ToolError, commands::Launch};

use super::{
    ContainerSettings,
    engine::{Engine, Kind},
    owner,
};
use crate::{
    files::root::Root,
    processes::{backend::LaunchContext, closed::Closed, environment::NON_INTERACTIVE},
    sandbox::{Access, Layout, Part, Scratch},
};

/// Where the workspace is inside.
const WORKSPACE: &str = "/workspace";
/// And the further roots, each by its name.
const ROOTS: &str = "/roots";
const RESIDENT: &str = include_str!("resident.sh");
/// What podman and Docker allow by default (from containers/common 0.50, Apache-2.0), without the calls that give a file the
/// set-user-ID or set-group-ID bit: such a file outlives its container.
const SECCOMP: &str = include_str!("seccomp.json");

/// What a container is made from.
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) image: String,
    /// Behind the engine's program.
    pub(super) words: Vec<OsString>,
    pub(super) guards: Vec<Guard>,
    /// What programs must not see, as it was then.
    pub(super) closed: Arc<Vec<Closed>>,
}

/// Something that a mount covers, as it was then: who takes its place takes the mount away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guard {
    path: PathBuf,
    /// Device and inode; none when nothing was there.
    was: Option<(u64, u64)>,
}

impl Guard {
    fn of(path: PathBuf) -> Self {
        Self { was: identity(&path), path }
    }

    pub(super) fn holds(&self) -> bool {
        identity(&self.path) == self.was
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

impl Plan {
    /// # Errors
    /// Of kind `unavailable` when something of the workspace cannot be protected or named to the engine.
    pub(super) fn of(
        settings: &ContainerSettings,
        launch: &Launch,
        context: &LaunchContext,
        engine: &Engine,
        cover: &Scratch,
    ) -> Result<Self, ToolError> {
        let name = owner::new_name();
        let mut words = Words::default();
        words.add(["run", "--rm", "--interactive", "--pull", "never", "--entrypoint", "sh"]);
        words.add(["--name", &name, "--log-driver", "none"]);
        words.add(["--label", "haft=1", "--label", &format!("haft.session={}", launch.session)]);
        words.add(["--label", &format!("haft.owner={}", owner::this())]);
        let workspace = context.workspace.roots.first().map(|root| root.path.display().to_string());
        let workspace = workspace.unwrap_or_default();
        words.add(["--label", &format!("haft.workspace={workspace}")]);
        limits(&mut words, settings);
        restrictions(&mut words, settings, launch, context, engine)?;
        if engine.takes_profile {
            words.add(["--security-opt", &format!("seccomp={}", profile(cover)?)]);
        }
        for (name, value) in NON_INTERACTIVE {
            words.add(["--env", &format!("{name}={value}")]);
        }
        let guards = mounts(&mut words, context, launch.confinement.writes, cover)?;
        words.add(["--workdir", WORKSPACE, &settings.image]);
        words.add(["-c", RESIDENT, "sh", &settings.longest.as_secs().max(1).to_string()]);
        Ok(Self {
            name,
            image: settings.image.clone(),
            words: words.0,
            guards,
            closed: context.closed.clone(),
        })
    }
}

fn limits(words: &mut Words, settings: &ContainerSettings) {
    words.add(["--memory", &settings.memory, "--memory-swap", &settings.memory]);
    words.add(["--pids-limit", &settings.pids.to_string()]);
    if let Some(cpus) = &settings.cpus {
        words.add(["--cpus", cpus]);
    }
}

fn restrictions(
    words: &mut Words,
    settings: &ContainerSettings,
    launch: &Launch,
    context: &LaunchContext,
    engine: &Engine,
) -> Result<(), ToolError> {
    words.add(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
    // The labels of a person's files stay as they are; mounts and rights keep programs in.
    words.add(["--security-opt", "label=disable"]);
    match (launch.confinement.network, &settings.network) {
        (false, _) => words.add(["--network", "none"]),
        (true, Some(network)) => words.add(["--network", network]),
        (true, None) => {}
    }
    if settings.read_only {
        words.add(["--read-only"]);
    }
    for path in &settings.tmpfs {
        // Without the word docker would let nothing there be run, and builds do.
        words.add(["--tmpfs", &format!("{path}:rw,exec,nosuid,nodev,mode=1777")]);
    }
    if engine.kind == Kind::Podman {
        // It would hand on the person's proxies, which may hold passwords.
        words.add(["--http-proxy=false"]);
        if engine.is_rootless {
            words.add(["--userns", "keep-id"]);
        }
    }
    let user = match &settings.user {
        Some(user) => user.clone(),
        None => user(context, engine)?,
    };
    words.add(["--user", &user]);
    Ok(())
}

/// The seccomp profile as a file, which engines want.
fn profile(cover: &Scratch) -> Result<String, ToolError> {
    let path = cover.nothing(true).with_file_name("seccomp.json");
    fs::write(&path, SECCOMP).map_err(|error| {
        let message = format!("`{}` cannot be written", path.display());
        ToolError::unavailable(message).hint("make room there").caused_by(error)
    })?;
    Ok(path.display().to_string())
}

/// Who owns the workspace, so that what a program writes belongs to the same.
fn user(context: &LaunchContext, engine: &Engine) -> Result<String, ToolError> {
    if engine.is_rootless {
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        return Ok(match engine.kind {
            Kind::Podman => format!("{}:{}", own.0, own.1),
            // There the person is root.
            Kind::Docker => "0:0".to_owned(),
        });
    }
    let path = context.workspace.roots.first().map(|root| root.path.as_path());
    let found = path.map(fs::metadata).transpose().ok().flatten().ok_or_else(|| {
        ToolError::unavailable("the workspace is gone").hint("start haft in a folder that is there")
    })?;
    Ok(format!("{}:{}", found.uid(), found.gid()))
}

/// The roots, and over them what of them stays as it is.
fn mounts(
    words: &mut Words,
    context: &LaunchContext,
    writes: bool,
    cover: &Scratch,
) -> Result<Vec<Guard>, ToolError> {
    let roots = &context.workspace.roots;
    let mut guards: Vec<Guard> = roots.iter().map(|root| Guard::of(root.path.clone())).collect();
    let mut protected = Vec::new();
    if writes {
        for root in roots {
            protected.extend(Layout::protected(&root.path)?);
            // One that somebody makes later has to be covered too.
            guards.push(Guard::of(root.path.join(".git")));
        }
    }
    for root in roots {
        let access = if writes { Access::Write } else { Access::Read };
        words.mount(&root.path, &target(root), access)?;
        // A root that lies in another one is seen by both ways.
        for part in &protected {
            let Part::Shown { path, access } = part else { continue };
            let Ok(below) = path.strip_prefix(&root.path) else { continue };
            words.mount(path, &target(root).join(below), *access)?;
            guards.push(Guard::of(path.clone()));
        }
        for Closed { path, is_directory } in &*context.closed {
            let Ok(below) = path.strip_prefix(&root.path) else { continue };
            // Nothing can be laid over a link.
            if path.symlink_metadata().is_ok_and(|found| !found.is_symlink()) {
                let nothing = cover.nothing(*is_directory);
                words.mount(&nothing, &target(root).join(below), Access::Read)?;
                guards.push(Guard::of(path.clone()));
            }
        }
    }
    Ok(guards)
}

fn target(root: &Root) -> PathBuf {
    match &root.name {
        None => WORKSPACE.into(),
        Some(name) => Path::new(ROOTS).join(name),
    }
}

/// What a path of this machine is called inside.
///
/// # Errors
/// Of kind `denied` when it is not there.
pub(super) fn inside(context: &LaunchContext, path: &Path) -> Result<PathBuf, ToolError> {
    let mut roots = context.workspace.roots.iter().filter_map(|root| {
        let below = path.strip_prefix(&root.path).ok()?;
        Some((root, below))
    });
    let (root, below) = roots.next().ok_or_else(|| {
        let message = format!("`{}` is not in the container", path.display());
        ToolError::new(ErrorKind::Denied, message).hint("name a directory of the workspace")
    })?;
    // A path that ends with `.` or `/` is no other directory.
    let below = below.components().filter(|part| *part != std::path::Component::CurDir);
    Ok(below.fold(target(root), |path, part| path.join(part)))
}

#[derive(Default)]
struct Words(Vec<OsString>);

impl Words {
    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.map(OsString::from));
    }

    fn mount(&mut self, source: &Path, target: &Path, access: Access) -> Result<(), ToolError> {
        let mut word = OsString::from("type=bind,source=");
        word.push(source);
        word.push(",target=");
        word.push(target);
        if access == Access::Read {
            word.push(",readonly");
        }
        // The engine splits the word at commas, and not all of them know quotes.
        let is_plain = |path: &Path| {
            !path
                .as_os_str()
                .as_encoded_bytes()
                .iter()
                .any(|byte| matches!(byte, b',' | b'"' | b'\n'))
        };
        if !is_plain(source) || !is_plain(target) {
            let message = format!("`{}` cannot be named to a container engine", source.display());
            return Err(ToolError::unavailable(message)
                .hint("rename it so that it has no comma, quote or line break"));
        }
        self.0.push("--mount".into());
        self.0.push(word);
        Ok(())
    }
}
