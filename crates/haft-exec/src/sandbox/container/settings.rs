//! What a person can say about containers.

use std::time::Duration;

/// Which engine makes containers, from what, and how much they may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSettings {
    /// `podman`, `docker`, or the whole path of a program that is like one of them. None: podman, or else docker.
    pub engine: Option<String>,
    /// The image. It has to be there and to have a shell.
    pub image: String,
    /// `uid` or `uid:gid`. None: whoever owns the workspace.
    pub user: Option<String>,
    /// As the engine reads it, such as `2g`. Swap is not given besides.
    pub memory: String,
    /// As the engine reads it, such as `1.5`. None: as many as there are.
    pub cpus: Option<String>,
    /// How many processes there may be in a container at once.
    pub pids: usize,
    /// The network of launches that may use one, by the engine's name for it. None: the engine's usual one. Launches that
    /// may not use one have none, whatever this says.
    pub network: Option<String>,
    /// The image cannot be changed from inside.
    pub read_only: bool,
    /// Directories in memory, which are empty at first.
    pub tmpfs: Vec<String>,
    /// No container lives longer, whatever runs in it.
    pub longest: Duration,
    /// How long the engine may take for anything it is asked for.
    pub patience: Duration,
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
            longest: Duration::from_secs(24 * 60 * 60),
            patience: Duration::from_secs(60),
        }
    }
}
