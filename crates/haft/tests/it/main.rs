//! Tests of the real binary, each with a fresh fixture: a home directory, a project, and no
//! configuration of this machine. Unit tests cover what needs no process.

mod approvals;
mod calls;
mod completion;
mod containers;
mod descriptors;
#[path = "containers.rs"]
#[expect(clippy::duplicate_mod, reason = "the tests are the same for both engines")]
mod docker;
mod elsewhere;
mod equality;
mod file_commands;
mod files;
mod fixture;
mod formats;
mod git;
mod git_guard;
mod guides;
mod home;
mod init;
mod judged;
mod keeping;
mod mcp_peers;
mod mcp_stdio;
mod pages;
mod pipes;
mod policy;
mod policy_rules;
mod policy_saved;
mod policy_why;
mod reading;
mod replay;
mod sandbox_option;
mod secrets;
mod server;
mod shell;
mod small_disk;
mod store;
mod swapped;
mod web;
mod web_memory;
mod web_server;
