//! What acts for tools: the files of a workspace, programs, and the network. Everything that opens something on a tool's behalf is here, and
//! nothing here knows what a tool is.

mod change;
mod container;
mod entries;
mod facts;
mod find;
mod grep;
mod locate;
mod near;
mod network;
mod open_file;
mod programs;
mod root;
mod sandbox;
mod secrets;
mod survey;
mod tree;
mod walk;
mod workspace;

pub use self::{
    container::{ContainerSettings, container_verdict},
    network::{Allowed, Network, NetworkSettings, Resolve},
    programs::{
        Around, Programs, Variables,
        limits::{Allowance, Held},
    },
    sandbox::{ShownFolders, Verdict, shown_places, verdicts},
    secrets::Credential,
    workspace::Workspace,
};
