//! The container settings of the user.

use std::time::Duration;

/// The engine, the image, and the limits of containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSettings {
    /// `podman`, `docker`, or the absolute path of a compatible program. None: podman, or else
    /// docker.
    pub engine: Option<String>,
    /// The image. It must exist locally and contain a shell.
    pub image: String,
    /// `uid` or `uid:gid`. None: the owner of the workspace.
    pub user: Option<String>,
    /// Memory limit in the engine's notation, such as `2g`. No additional swap is allowed.
    pub memory: String,
    /// CPU limit in the engine's notation, such as `1.5`. None: no limit.
    pub cpus: Option<String>,
    /// Maximum number of processes in a container.
    pub pids: usize,
    /// The engine's name of the network for launches that may use one. None: the engine's default.
    /// Launches that may not use the network have none, whatever this says.
    pub network: Option<String>,
    /// Makes the image read-only.
    pub read_only: bool,
    /// Directories in memory, initially empty.
    pub tmpfs: Vec<String>,
    /// Maximum age of a container, whatever runs in it.
    pub max_age: Duration,
    /// Timeout of each engine command.
    pub timeout: Duration,
}

impl Default for ContainerSettings {
    fn default() -> Self {
        Self {
            engine: None,
            image: "debian:stable-slim".to_owned(),
            user: None,
            memory: "2g".to_owned(),
            cpus: None,
            pids: 512,
            network: None,
            read_only: true,
            tmpfs: vec!["/tmp".to_owned()],
            max_age: Duration::from_secs(24 * 60 * 60),
            timeout: Duration::from_secs(60),
        }
    }
}
