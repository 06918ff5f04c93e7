//! Tests the disk, programs and the network as tools use them, with real directories, processes and
//! sockets.

mod atomic_changes;
mod bombs;
mod concurrent_writers;
mod containers;
mod crash;
#[path = "containers.rs"]
#[expect(clippy::duplicate_mod, reason = "the tests are the same for both engines")]
mod docker;
mod file_kinds;
mod grants;
mod names;
mod network;
mod not_found;
mod programs;
mod scope;
mod sweep;
mod test_workspace;
mod writing;
