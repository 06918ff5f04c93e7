//! The real binary, each case in a fresh house: a home, a project and nothing of this machine's configuration. What
//! can be seen without a process is tested beside the code.

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
mod formats;
mod git;
mod git_guard;
mod guides;
mod home;
mod house;
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
mod site;
mod small_disk;
mod store;
mod swapped;
mod web;
mod web_memory;
