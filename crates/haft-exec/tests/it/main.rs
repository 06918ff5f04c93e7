//! The disk, programs and the network as tools use them, on real directories, processes and sockets.

mod bombs;
mod containers;
mod crash;
#[path = "containers.rs"]
#[expect(clippy::duplicate_mod, reason = "the tests are the same for both engines")]
mod docker;
mod many;
mod names;
mod near;
mod network;
mod place;
mod programs;
mod scope;
mod sorts;
mod sweep;
mod together;
mod warrants;
mod writing;
