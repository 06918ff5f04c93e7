//! What has a path, in the journal's words: sort, mode, and the hash of the content.

use std::{os::fd::OwnedFd, path::Path};

use haft_core::{
    ContentHash, PathState, ToolError,
    files::{FileGrant, FileKind, FileMetadata, OpenFile},
};
use rustix::{fs::OFlags, io::Errno};

use super::hold::Found;
use crate::files::{facts, locate::LastLink, open_file::Handle, workspace::Workspace};

/// What has a path now.
pub(crate) fn image(
    workspace: &Workspace,
    path: &Path,
    grant: &FileGrant,
) -> Result<PathState, ToolError> {
    let found = workspace.at(path, LastLink::Keep, grant, |spot| {
        let facts = match spot.root.open_at(&spot.path, OFlags::PATH) {
            Ok(handle) => facts::of(&handle, &spot.shown)?,
            // A file where a directory was: below it there is nothing either.
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(error),
        };
        let handle = match facts.kind {
            FileKind::File => Some(open(&spot.root.open_at(&spot.path, READ)?, &facts)?),
            _ => None,
        };
        Ok(Some((facts, handle)))
    })?;
    match found {
        None => Ok(PathState::Missing),
        Some((facts, Some(hash))) => Ok(of_file(&facts, Some(hash))),
        Some((facts, None)) => Ok(of_facts(&facts)),
    }
}

const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn open(handle: &OwnedFd, facts: &FileMetadata) -> Result<ContentHash, Errno> {
    // What was a file a moment ago and is none now is somebody else's work.
    if facts::of(handle, &facts.path)?.kind != FileKind::File {
        return Err(Errno::AGAIN);
    }
    let mut offset = 0;
    ContentHash::of_pieces(|buffer| {
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(handle, &mut *buffer, offset))?;
        offset += read as u64;
        Ok(read)
    })
}

/// What was found at a place that is held.
pub(super) fn of_found(found: &Found) -> Result<PathState, ToolError> {
    Ok(match found {
        Found::Missing => PathState::Missing,
        Found::File(handle) => of_file(handle.metadata(), Some(hash_of(handle)?)),
        Found::Link(facts) => of_facts(facts),
        Found::Directory => PathState::Directory { mode: 0 },
        Found::Other(_) => PathState::Other,
    })
}

fn hash_of(handle: &Handle) -> Result<ContentHash, ToolError> {
    let mut offset = 0;
    ContentHash::of_pieces(|buffer| {
        let read = handle.read_at(buffer, offset)?;
        offset += read as u64;
        Ok(read)
    })
}

pub(super) fn of_file(facts: &FileMetadata, hash: Option<ContentHash>) -> PathState {
    PathState::File { hash, mode: facts.mode, size: facts.size }
}

/// What is no file whose content matters.
pub(super) fn of_facts(facts: &FileMetadata) -> PathState {
    match facts.kind {
        FileKind::File => of_file(facts, None),
        FileKind::Link => PathState::Link { to: facts.link_target.clone().unwrap_or_default() },
        FileKind::Directory => PathState::Directory { mode: facts.mode },
        _ => PathState::Other,
    }
}
