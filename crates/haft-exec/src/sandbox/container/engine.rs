//! The command line of the container engine: podman or docker. Every command has a timeout.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Seek},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use haft_core::ToolError;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::MemfdFlags,
    process::{Pid, PidfdFlags, Signal, pidfd_open},
};

use super::ContainerSettings;
use crate::processes::{Variables, environment, helper_thread::on_helper_thread};

/// The kind of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerEngineKind {
    Podman,
    Docker,
}

/// An engine that was identified.
#[derive(Debug)]
pub(super) struct ContainerEngine {
    pub(super) program: PathBuf,
    pub(super) kind: ContainerEngineKind,
    /// True when root in a container is the user outside, and other users are unmapped.
    pub(super) is_rootless: bool,
    /// True when it accepts a seccomp profile. Podman's service accepts none from Docker's command
    /// line.
    pub(super) takes_profile: bool,
    variables: Variables,
    /// Timeout of each command.
    pub(super) timeout: Duration,
}

/// The result of an engine command.
#[derive(Debug)]
pub(super) struct EngineOutput {
    /// None when it timed out, or when a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

/// Not from PATH: a sandboxed program must not choose the program that builds the sandbox.
const FOLDERS: &[&str] = &["/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin"];
/// The variables that an engine needs in addition to those of every program: the location of its
/// service, settings and storage.
const ENGINE_VARIABLES: &[&str] = &[
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "STORAGE_DRIVER",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
];
/// The engine also reads the variables that it passes on by name.
pub(super) fn check_not_its_own(variable: &str) -> Result<(), ToolError> {
    let is_own = ENGINE_VARIABLES.contains(&variable)
        || ["DOCKER_", "PODMAN_", "CONTAINER", "REGISTRY_", "XDG_", "_CONTAINERS"]
            .iter()
            .any(|beginning| variable.starts_with(beginning));
    if !is_own {
        return Ok(());
    }
    let message = format!("the variable `{variable}` has a meaning for the container engine");
    Err(ToolError::denied(message).hint("give the secret to the command under another name"))
}

/// Returns our variables that the engine gets. None of them reaches a container.
pub(super) fn variables(ours: &Variables) -> Variables {
    let is_for_engines = |name: &OsStr| ENGINE_VARIABLES.iter().any(|known| name == *known);
    let handed_on = ours
        .iter()
        .filter(|(name, _)| environment::is_inherited(name) || is_for_engines(name))
        .cloned();
    handed_on
        .map(
            |(name, value)| {
                if name == "PATH" { (name, with_system(&value)) } else { (name, value) }
            },
        )
        .collect()
}

/// Adds system folders, so that the PATH of the user does not choose the programs that the engine
/// starts for networks and mounts.
fn with_system(path: &OsStr) -> OsString {
    let mut path = path.to_owned();
    path.push(":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    path
}

impl ContainerEngine {
    /// # Errors
    /// Of kind `unavailable` when there is none, or when it is another program.
    pub(super) fn find(
        settings: &ContainerSettings,
        variables: Variables,
    ) -> Result<Self, ToolError> {
        let wanted = settings.engine.as_deref();
        let program = match wanted {
            Some(path) if path.starts_with('/') => Some(PathBuf::from(path)),
            Some(name) => installed(name),
            None => installed("podman").or_else(|| installed("docker")),
        };
        let program = program.filter(|path| path.is_file()).ok_or_else(|| missing(wanted))?;
        let timeout = settings.timeout;
        let mut engine = Self {
            program,
            kind: ContainerEngineKind::Docker,
            is_rootless: false,
            takes_profile: true,
            variables,
            timeout,
        };
        let version = engine.run(&["--version"]);
        engine.kind = match version.out.to_lowercase() {
            out if out.contains("podman") => ContainerEngineKind::Podman,
            out if out.contains("docker") => ContainerEngineKind::Docker,
            _ => return Err(engine.unknown_engine(&version)),
        };
        engine.takes_profile =
            engine.kind == ContainerEngineKind::Podman || !engine.is_served_by_podman();
        engine.is_rootless = match engine.kind {
            ContainerEngineKind::Podman => !rustix::process::geteuid().is_root(),
            ContainerEngineKind::Docker => {
                let format = "{{json .SecurityOptions}}";
                engine.run(&["info", "--format", format]).out.contains("name=rootless")
            }
        };
        Ok(engine)
    }

    /// # Errors
    /// Of kind `unavailable` when the program is gone.
    pub(super) fn check(&self) -> Result<(), ToolError> {
        if self.program.is_file() { Ok(()) } else { Err(missing(self.program.to_str())) }
    }

    fn unknown_engine(&self, answer: &EngineOutput) -> ToolError {
        let program = self.program.display();
        let message = answer.last_error_line();
        ToolError::unavailable(format!("`{program}` is neither podman nor docker ({message})"))
            .hint("name one of them as `engine` in [container], or the path of one")
    }

    /// The beginning of a command line.
    pub(super) fn words<const N: usize>(&self, words: [&str; N]) -> Vec<OsString> {
        let program = self.program.clone().into_os_string();
        [program].into_iter().chain(words.map(OsString::from)).collect()
    }

    fn command(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env_clear().envs(self.variables.iter().cloned());
        // Signals of a terminal are for haft, and the current directory may be removed while the
        // engine runs.
        command.process_group(0).current_dir("/");
        command
    }

    /// Runs a command to its end, or until the timeout.
    pub(super) fn run(&self, words: &[impl AsRef<OsStr>]) -> EngineOutput {
        self.try_run(words).unwrap_or_else(|error| EngineOutput {
            code: None,
            out: String::new(),
            err: error.to_string(),
        })
    }

    fn try_run(&self, words: &[impl AsRef<OsStr>]) -> io::Result<EngineOutput> {
        let (mut out, mut err) = (memory_file()?, memory_file()?);
        let mut command = self.command(words);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
        let mut child = on_helper_thread(move || command.spawn())??;
        let is_over = ended_within(&child, self.timeout);
        if !is_over {
            end_group(&mut child);
        }
        let code = child.wait()?.code().filter(|_| is_over);
        Ok(EngineOutput { code, out: text(&mut out)?, err: text(&mut err)? })
    }

    /// Starts a command with a pipe to its input and output. Its error output goes into the file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(&self, words: &[OsString]) -> io::Result<(Child, File)> {
        let err = memory_file()?;
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(err.try_clone()?);
        let child = on_helper_thread(move || command.spawn())??;
        Ok((child, err))
    }

    /// Removes a container with everything that runs in it.
    pub(super) fn remove(&self, name: &str) {
        let words: &[&str] = match self.kind {
            ContainerEngineKind::Podman => &["rm", "--force", "--time", "0", "--ignore", name],
            ContainerEngineKind::Docker => &["rm", "--force", name],
        };
        self.run(words);
    }

    fn is_served_by_podman(&self) -> bool {
        let format = "{{range .Server.Components}}{{.Name}} {{end}}";
        self.run(&["version", "--format", format]).out.contains("Podman")
    }

    /// Checks that the engine's service responds.
    pub(super) fn answers(&self) -> Result<(), ToolError> {
        let answer = self.run(&["version"]);
        if answer.code == Some(0) {
            return Ok(());
        }
        let program = self.program.display();
        let message = answer.last_error_line();
        Err(ToolError::unavailable(format!(
            "the container engine `{program}` does not respond ({message})"
        ))
        .hint(format!("start its service, or check `{program} version`")))
    }

    pub(super) fn has_image(&self, image: &str) -> bool {
        self.run(&["image", "inspect", image]).code == Some(0)
    }

    pub(super) fn has_shell(&self, image: &str) -> bool {
        let words = ["run", "--rm", "--pull", "never", "--network", "none", "--entrypoint", "sh"];
        let words: Vec<&str> = words.into_iter().chain([image, "-c", "exit 0"]).collect();
        // Without a shell an engine exits with 127, and behind podman's service with 125.
        self.run(&words).code == Some(0)
    }
}

impl EngineOutput {
    /// The last line of the error output, for a person.
    pub(super) fn last_error_line(&self) -> String {
        last_line(&self.err)
    }
}

pub(super) fn last_line(text: &str) -> String {
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output");
    last.trim().chars().take(300).collect()
}

fn installed(name: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

fn missing(wanted: Option<&str>) -> ToolError {
    let message = match wanted {
        Some(wanted) => format!("the container engine `{wanted}` does not exist"),
        None => "podman and docker are not installed on this machine".to_owned(),
    };
    ToolError::unavailable(message)
        .hint("install the package `podman`, or name the program as `engine` in [container]")
}

/// An unnamed file in memory: unlike a pipe it never fills up.
fn memory_file() -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create("haft-engine", MemfdFlags::CLOEXEC)?))
}

pub(super) fn text(file: &mut File) -> io::Result<String> {
    /// Maximum size of an engine's output that is read.
    const MAX_BYTES: u64 = 1 << 20;
    let mut bytes = Vec::new();
    file.rewind()?;
    Read::by_ref(file).take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn ended_within(child: &Child, limit: Duration) -> bool {
    let handle = pid(child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    handle.is_none_or(|handle| is_ready(&handle, limit))
}

/// Waits until it is readable or closed, up to a time limit.
pub(super) fn is_ready(handle: &OwnedFd, limit: Duration) -> bool {
    let begun = std::time::Instant::now();
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], left.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) => return false,
            Ok(_) | Err(_) => return true,
        }
    }
}

/// Ends the process group, which includes a wrapper of the engine.
pub(super) fn end_group(child: &mut Child) {
    if let Some(pid) = pid(child) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}
