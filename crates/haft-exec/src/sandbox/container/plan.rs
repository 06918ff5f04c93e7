//! How a container is created: its limits, the paths of the machine that it sees, and where.

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
    engine::{ContainerEngine, ContainerEngineKind},
    owner,
};
use crate::{
    files::root::Root,
    processes::{backend::LaunchContext, closed::Closed, environment::NON_INTERACTIVE},
    sandbox::{Layout, LayoutPart, PathAccess, Scratch},
};

/// The path of the workspace in the container.
const WORKSPACE: &str = "/workspace";
/// The parent directory of the additional roots, each by its name.
const ROOTS: &str = "/roots";
const SUPERVISOR: &str = include_str!("supervisor.sh");
/// The default profile of podman and Docker (from containers/common 0.50, Apache-2.0), without the
/// calls that give a file the set-user-ID or set-group-ID bit: such a file outlives its container.
const SECCOMP: &str = include_str!("seccomp.json");

/// The arguments and checks of a new container.
pub(super) struct ContainerPlan {
    pub(super) name: String,
    pub(super) image: String,
    /// The arguments after the engine's program.
    pub(super) words: Vec<OsString>,
    pub(super) covered: Vec<CoveredPath>,
    /// The closed paths at the time of creation.
    pub(super) closed: Arc<Vec<Closed>>,
}

/// The identity of a covered path at the time of creation: replacing the path removes its mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CoveredPath {
    path: PathBuf,
    /// Device and inode; none when nothing was there.
    was: Option<(u64, u64)>,
}

impl CoveredPath {
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

impl ContainerPlan {
    /// # Errors
    /// Of kind `unavailable` when a path of the workspace cannot be protected or passed to the
    /// engine.
    pub(super) fn of(
        settings: &ContainerSettings,
        launch: &Launch,
        context: &LaunchContext,
        engine: &ContainerEngine,
        cover: &Scratch,
    ) -> Result<Self, ToolError> {
        let name = owner::new_name();
        let mut words = EngineArguments::default();
        words.add(["run", "--rm", "--interactive", "--pull", "never", "--entrypoint", "sh"]);
        words.add(["--name", &name, "--log-driver", "none"]);
        words.add(["--label", "haft=1", "--label", &format!("haft.session={}", launch.session)]);
        words.add(["--label", &format!("haft.owner={}", owner::this())]);
        let workspace = context.workspace.roots.first().map(|root| root.path.display().to_string());
        let workspace = workspace.unwrap_or_default();
        words.add(["--label", &format!("haft.workspace={workspace}")]);
        limits(&mut words, settings);
        isolation(&mut words, settings, launch, context, engine)?;
        if engine.takes_profile {
            words.add(["--security-opt", &format!("seccomp={}", profile(cover)?)]);
        }
        for (name, value) in NON_INTERACTIVE {
            words.add(["--env", &format!("{name}={value}")]);
        }
        let covered = mounts(&mut words, context, launch.confinement.writes, cover)?;
        words.add(["--workdir", WORKSPACE, &settings.image]);
        words.add(["-c", SUPERVISOR, "sh", &settings.max_age.as_secs().max(1).to_string()]);
        Ok(Self {
            name,
            image: settings.image.clone(),
            words: words.0,
            covered,
            closed: context.closed.clone(),
        })
    }
}

fn limits(words: &mut EngineArguments, settings: &ContainerSettings) {
    words.add(["--memory", &settings.memory, "--memory-swap", &settings.memory]);
    words.add(["--pids-limit", &settings.pids.to_string()]);
    if let Some(cpus) = &settings.cpus {
        words.add(["--cpus", cpus]);
    }
}

fn isolation(
    words: &mut EngineArguments,
    settings: &ContainerSettings,
    launch: &Launch,
    context: &LaunchContext,
    engine: &ContainerEngine,
) -> Result<(), ToolError> {
    words.add(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
    // The labels of the user's files stay unchanged; mounts and privileges isolate programs.
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
        // Without `exec` docker would mount it noexec, and builds run programs there.
        words.add(["--tmpfs", &format!("{path}:rw,exec,nosuid,nodev,mode=1777")]);
    }
    if engine.kind == ContainerEngineKind::Podman {
        // Otherwise podman passes on the user's proxies, which may contain passwords.
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

/// Writes the seccomp profile to a file, because engines need a file.
fn profile(cover: &Scratch) -> Result<String, ToolError> {
    let path = cover.nothing(true).with_file_name("seccomp.json");
    fs::write(&path, SECCOMP).map_err(|error| {
        let message = format!("`{}` cannot be written", path.display());
        ToolError::unavailable(message).hint("free some space there").caused_by(error)
    })?;
    Ok(path.display().to_string())
}

/// The owner of the workspace, so that files that a program writes get the same owner.
fn user(context: &LaunchContext, engine: &ContainerEngine) -> Result<String, ToolError> {
    if engine.is_rootless {
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        return Ok(match engine.kind {
            ContainerEngineKind::Podman => format!("{}:{}", own.0, own.1),
            // There the user is mapped to root.
            ContainerEngineKind::Docker => "0:0".to_owned(),
        });
    }
    let path = context.workspace.roots.first().map(|root| root.path.as_path());
    let found = path.map(fs::metadata).transpose().ok().flatten().ok_or_else(|| {
        ToolError::unavailable("the workspace is gone").hint("start haft in an existing folder")
    })?;
    Ok(format!("{}:{}", found.uid(), found.gid()))
}

/// Mounts the roots, and over them the paths that stay read-only.
fn mounts(
    words: &mut EngineArguments,
    context: &LaunchContext,
    writes: bool,
    cover: &Scratch,
) -> Result<Vec<CoveredPath>, ToolError> {
    let roots = &context.workspace.roots;
    let mut covered: Vec<CoveredPath> =
        roots.iter().map(|root| CoveredPath::of(root.path.clone())).collect();
    let mut protected = Vec::new();
    if writes {
        for root in roots {
            protected.extend(Layout::protected(&root.path)?);
            // Detects a `.git` that is created later, because it has to be covered too.
            covered.push(CoveredPath::of(root.path.join(".git")));
        }
    }
    for root in roots {
        let access = if writes { PathAccess::Write } else { PathAccess::Read };
        words.mount(&root.path, &target(root), access)?;
        // A root inside another root is visible by both paths.
        for part in &protected {
            let LayoutPart::Shown { path, access } = part else { continue };
            let Ok(below) = path.strip_prefix(&root.path) else { continue };
            words.mount(path, &target(root).join(below), *access)?;
            covered.push(CoveredPath::of(path.clone()));
        }
        for Closed { path, is_directory } in &*context.closed {
            let Ok(below) = path.strip_prefix(&root.path) else { continue };
            // A link cannot be a mount point.
            if path.symlink_metadata().is_ok_and(|found| !found.is_symlink()) {
                let nothing = cover.nothing(*is_directory);
                words.mount(&nothing, &target(root).join(below), PathAccess::Read)?;
                covered.push(CoveredPath::of(path.clone()));
            }
        }
    }
    Ok(covered)
}

fn target(root: &Root) -> PathBuf {
    match &root.name {
        None => WORKSPACE.into(),
        Some(name) => Path::new(ROOTS).join(name),
    }
}

/// Returns the path in the container of a path of this machine.
///
/// # Errors
/// Of kind `denied` when it is not in the container.
pub(super) fn inside(context: &LaunchContext, path: &Path) -> Result<PathBuf, ToolError> {
    let mut roots = context.workspace.roots.iter().filter_map(|root| {
        let below = path.strip_prefix(&root.path).ok()?;
        Some((root, below))
    });
    let (root, below) = roots.next().ok_or_else(|| {
        let message = format!("`{}` is not in the container", path.display());
        ToolError::new(ErrorKind::Denied, message).hint("name a directory of the workspace")
    })?;
    // A path that ends with `.` or `/` is the same directory.
    let below = below.components().filter(|part| *part != std::path::Component::CurDir);
    Ok(below.fold(target(root), |path, part| path.join(part)))
}

#[derive(Default)]
struct EngineArguments(Vec<OsString>);

impl EngineArguments {
    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.map(OsString::from));
    }

    fn mount(&mut self, source: &Path, target: &Path, access: PathAccess) -> Result<(), ToolError> {
        let mut word = OsString::from("type=bind,source=");
        word.push(source);
        word.push(",target=");
        word.push(target);
        if access == PathAccess::Read {
            word.push(",readonly");
        }
        // The engine splits the argument at commas, and not every engine supports quotes.
        let is_plain = |path: &Path| {
            !path
                .as_os_str()
                .as_encoded_bytes()
                .iter()
                .any(|byte| matches!(byte, b',' | b'"' | b'\n'))
        };
        if !is_plain(source) || !is_plain(target) {
            let message = format!("`{}` cannot be passed to a container engine", source.display());
            return Err(ToolError::unavailable(message)
                .hint("rename it so that it has no comma, quote or line break"));
        }
        self.0.push("--mount".into());
        self.0.push(word);
        Ok(())
    }
}
