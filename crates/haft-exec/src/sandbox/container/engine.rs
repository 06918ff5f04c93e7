//! The program that makes containers: podman or docker, by their command line. Every command has a deadline.

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

/// Which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Podman,
    Docker,
}

/// A program that was asked what it is.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) program: PathBuf,
    pub(super) kind: Kind,
    /// Root inside is the person outside, and others are nobody.
    pub(super) is_rootless: bool,
    /// It takes a seccomp profile. Podman's service takes none from Docker's command line.
    pub(super) takes_profile: bool,
    variables: Variables,
    /// How long each command may take.
    pub(super) patience: Duration,
}

/// How a command of the engine ended.
#[derive(Debug)]
pub(super) struct Answer {
    /// None when its time was over, or when a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

/// Not the path of anybody's environment: what builds a wall must not come from who stands behind it.
const FOLDERS: &[&str] = &["/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin"];
/// What an engine needs besides what every program gets: where its own service, settings and storage are.
const OF_ENGINES: &[&str] = &[
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
/// A variable that the engine hands on by its name it reads itself, too.
pub(super) fn check_not_its_own(variable: &str) -> Result<(), ToolError> {
    let is_own = OF_ENGINES.contains(&variable)
        || ["DOCKER_", "PODMAN_", "CONTAINER", "REGISTRY_", "XDG_", "_CONTAINERS"]
            .iter()
            .any(|beginning| variable.starts_with(beginning));
    if !is_own {
        return Ok(());
    }
    let message = format!("the variable `{variable}` means something to what runs containers");
    Err(ToolError::denied(message).hint("give the secret to the command under another name"))
}

/// Of our variables those that the engine gets. None of them reaches a container.
pub(super) fn variables(ours: &Variables) -> Variables {
    let is_for_engines = |name: &OsStr| OF_ENGINES.iter().any(|known| name == *known);
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

/// What an engine starts to make networks and mounts is where a person's path may not lead.
fn with_system(path: &OsStr) -> OsString {
    let mut path = path.to_owned();
    path.push(":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    path
}

impl Engine {
    /// # Errors
    /// Of kind `unavailable` when there is none, or when it is something else.
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
        let patience = settings.patience;
        let mut engine = Self {
            program,
            kind: Kind::Docker,
            is_rootless: false,
            takes_profile: true,
            variables,
            patience,
        };
        let version = engine.run(&["--version"]);
        engine.kind = match version.out.to_lowercase() {
            out if out.contains("podman") => Kind::Podman,
            out if out.contains("docker") => Kind::Docker,
            _ => return Err(engine.stranger(&version)),
        };
        engine.takes_profile = engine.kind == Kind::Podman || !engine.is_served_by_podman();
        engine.is_rootless = match engine.kind {
            Kind::Podman => !rustix::process::geteuid().is_root(),
            Kind::Docker => {
                let format = "{{json .SecurityOptions}}";
                engine.run(&["info", "--format", format]).out.contains("name=rootless")
            }
        };
        Ok(engine)
    }

    /// # Errors
    /// Of kind `unavailable` when the program is not there any more.
    pub(super) fn check(&self) -> Result<(), ToolError> {
        if self.program.is_file() { Ok(()) } else { Err(missing(self.program.to_str())) }
    }

    fn stranger(&self, answer: &Answer) -> ToolError {
        let program = self.program.display();
        let said = answer.last_words();
        ToolError::unavailable(format!("`{program}` is neither podman nor docker ({said})"))
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
        // A terminal's signals are for haft, and a directory may go while the engine stands in it.
        command.process_group(0).current_dir("/");
        command
    }

    /// Runs a command to its end, or as long as there is patience.
    pub(super) fn run(&self, words: &[impl AsRef<OsStr>]) -> Answer {
        self.try_run(words).unwrap_or_else(|error| Answer {
            code: None,
            out: String::new(),
            err: error.to_string(),
        })
    }

    fn try_run(&self, words: &[impl AsRef<OsStr>]) -> io::Result<Answer> {
        let (mut out, mut err) = (scrap()?, scrap()?);
        let mut command = self.command(words);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
        let mut child = on_helper_thread(move || command.spawn())??;
        let is_over = ended_within(&child, self.patience);
        if !is_over {
            end_group(&mut child);
        }
        let code = child.wait()?.code().filter(|_| is_over);
        Ok(Answer { code, out: text(&mut out)?, err: text(&mut err)? })
    }

    /// Starts a command that is talked to. What it complains about goes into the file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(&self, words: &[OsString]) -> io::Result<(Child, File)> {
        let err = scrap()?;
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(err.try_clone()?);
        let child = on_helper_thread(move || command.spawn())??;
        Ok((child, err))
    }

    /// Removes a container, whatever runs in it.
    pub(super) fn remove(&self, name: &str) {
        let words: &[&str] = match self.kind {
            Kind::Podman => &["rm", "--force", "--time", "0", "--ignore", name],
            Kind::Docker => &["rm", "--force", name],
        };
        self.run(words);
    }

    fn is_served_by_podman(&self) -> bool {
        let format = "{{range .Server.Components}}{{.Name}} {{end}}";
        self.run(&["version", "--format", format]).out.contains("Podman")
    }

    /// Whether there is a service behind it that answers.
    pub(super) fn answers(&self) -> Result<(), ToolError> {
        let answer = self.run(&["version"]);
        if answer.code == Some(0) {
            return Ok(());
        }
        let program = self.program.display();
        let said = answer.last_words();
        Err(ToolError::unavailable(format!(
            "the container engine `{program}` does not answer ({said})"
        ))
        .hint(format!("start its service, or see what `{program} version` says")))
    }

    pub(super) fn has_image(&self, image: &str) -> bool {
        self.run(&["image", "inspect", image]).code == Some(0)
    }

    pub(super) fn has_shell(&self, image: &str) -> bool {
        let words = ["run", "--rm", "--pull", "never", "--network", "none", "--entrypoint", "sh"];
        let words: Vec<&str> = words.into_iter().chain([image, "-c", "exit 0"]).collect();
        // When it is not there an engine ends with 127, and behind podman's service with 125.
        self.run(&words).code == Some(0)
    }
}

impl Answer {
    /// What it complained about last, for a person.
    pub(super) fn last_words(&self) -> String {
        last_line(&self.err)
    }
}

pub(super) fn last_line(text: &str) -> String {
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    last.trim().chars().take(300).collect()
}

fn installed(name: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

fn missing(wanted: Option<&str>) -> ToolError {
    let message = match wanted {
        Some(wanted) => format!("the container engine `{wanted}` is not there"),
        None => "there is neither podman nor docker on this machine".to_owned(),
    };
    ToolError::unavailable(message)
        .hint("install the package `podman`, or name the program as `engine` in [container]")
}

/// A file without a name, in memory: unlike a pipe it never fills up.
fn scrap() -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create("haft-engine", MemfdFlags::CLOEXEC)?))
}

pub(super) fn text(file: &mut File) -> io::Result<String> {
    /// Nobody reads more of an engine's words.
    const MOST: u64 = 1 << 20;
    let mut bytes = Vec::new();
    file.rewind()?;
    Read::by_ref(file).take(MOST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn ended_within(child: &Child, limit: Duration) -> bool {
    let handle = pid(child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    handle.is_none_or(|handle| is_ready(&handle, limit))
}

/// Whether something can be read from it, or it is over, within a time.
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

/// The wrapper of an engine too, if it has one.
pub(super) fn end_group(child: &mut Child) {
    if let Some(pid) = pid(child) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}
