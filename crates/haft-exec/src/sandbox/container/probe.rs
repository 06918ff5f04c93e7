//! Checks whether containers work here, by using one as commands do.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::{
    ToolError,
    commands::{Confinement, Launch, Program, Stdin, Streams},
    files::FileGrant,
};

use super::{Container, ContainerSettings, engine::ContainerEngineKind};
use crate::{
    ProbeResult, Workspace,
    processes::{
        Variables,
        backend::{LaunchBackend, LaunchContext},
    },
};

/// Each exit code stands for something that should not be possible, or should be.
const SCRIPT: &str = r#"
echo x > .haft/x && exit 20
echo x > /haft-trial && exit 21
echo x > /proc/sys/kernel/ostype && exit 22
[ -e /sys/class/net/eth0 ] && exit 23
echo x > /dev/null || exit 10
echo x > made && [ -s made ] || exit 11
"#;

fn meaning(code: Option<i32>) -> &'static str {
    match code {
        Some(10) => "`/dev/null` cannot be used",
        Some(11) => "the workspace cannot be written",
        Some(20) => "`.haft` can be written",
        Some(21) => "the image can be changed",
        Some(22) => "a setting of the kernel can be written",
        Some(23) => "there is a network",
        Some(_) => "a shell does not work",
        None => "the trial timed out",
    }
}

/// Tries containers with these settings on this machine, by creating one in `folder`.
pub fn container_verdict(
    settings: &ContainerSettings,
    variables: &Variables,
    folder: &Path,
) -> ProbeResult {
    let backend = Container::new(Arc::new(settings.clone()), variables, folder);
    let (tried, mechanism) = match backend.engine() {
        Err(error) => (Err(error), "container"),
        Ok(engine) => {
            let name = match engine.kind {
                ContainerEngineKind::Podman => "podman",
                ContainerEngineKind::Docker => "docker",
            };
            (hold(&backend, settings, folder).map(|()| engine.program.clone()), name)
        }
    };
    match tried {
        Ok(program) => {
            let detail = format!("{} with the image {}", program.display(), settings.image);
            ProbeResult { mechanism, works: true, detail, advice: None }
        }
        Err(error) => ProbeResult {
            mechanism,
            works: false,
            detail: error.message().to_owned(),
            advice: Some(error.next_step().into()),
        },
    }
}

fn hold(backend: &Container, settings: &ContainerSettings, folder: &Path) -> Result<(), ToolError> {
    let workspace_dir = ContainerProbeWorkspace::make(folder)?;
    let context = workspace_dir.context()?;
    let launch = Launch {
        session: "probe".to_owned(),
        program: Program::Shell(SCRIPT.to_owned()),
        directory: PathBuf::from("."),
        environment: Vec::new(),
        secrets: Vec::new(),
        confinement: Confinement { network: false, writes: true },
        input: Stdin::Closed,
        streams: Streams::Joined,
        grant: FileGrant::none(),
    };
    let recipe = backend.recipe(&launch, &context)?;
    let words = recipe.command.get(1..).unwrap_or_default();
    let answer = backend.engine()?.run(words);
    backend.forget("probe");
    let may_change = !settings.read_only && answer.code == Some(21);
    if answer.code == Some(0) || may_change {
        return Ok(());
    }
    let message: String = answer.last_error_line();
    Err(ToolError::unavailable(format!("{} ({message})", meaning(answer.code)))
        .hint("check that the settings in [container] fit the image"))
}

/// A workspace for the probe, removed on drop.
struct ContainerProbeWorkspace(PathBuf);

impl ContainerProbeWorkspace {
    fn make(folder: &Path) -> Result<Self, ToolError> {
        let path = folder.join(format!("haft-container-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(not_tried)?;
        Ok(Self(path))
    }

    fn context(&self) -> Result<LaunchContext, ToolError> {
        let workspace = Workspace::open(&self.0).map_err(not_tried)?;
        let (directory, path) = workspace.directory(Path::new("."))?;
        let workspace = Arc::new(workspace);
        Ok(LaunchContext {
            workspace,
            directory,
            path,
            environment: Vec::new(),
            closed: Arc::default(),
            private: Arc::default(),
            shown: Arc::default(),
        })
    }
}

impl Drop for ContainerProbeWorkspace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn not_tried(error: std::io::Error) -> ToolError {
    ToolError::unavailable("the trial could not be prepared")
        .hint("make the folder of temporary files writable")
        .caused_by(error)
}
