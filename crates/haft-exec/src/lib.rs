//! Acts for tools: the files of a workspace, programs, and the network. Everything that opens
//! something on a tool's behalf is in this crate, and nothing in it knows what a tool is.

mod files;
mod network;
mod processes;
mod sandbox;

pub use self::{
    files::Workspace,
    network::{Allowed, Network, NetworkSettings, Resolve, credentials::Credential},
    processes::{
        ProcessSettings, Programs, Variables,
        limits::{Allowance, LimitBackend},
    },
    sandbox::{
        ProbeResult, ShownFolders,
        container::{ContainerSettings, container_verdict},
        remember_probes_in, shown_places, verdicts,
    },
};
