//! The state of a path as the journal records it: kind, mode, and the hash of the content.

use std::{os::fd::OwnedFd, path::Path};

use haft_core::{
    ContentHash, PathState, ToolError,
    files::{FileGrant, FileKind, FileMetadata, OpenFile},
};
use rustix::{fs::OFlags, io::Errno};

use super::targets::TargetState;
use crate::files::{locate::LastLink, metadata, open_file::FileHandle, workspace::Workspace};

/// Returns the current state of a path.
pub(crate) fn path_state(
    workspace: &Workspace,
    path: &Path,
    grant: &FileGrant,
) -> Result<PathState, ToolError> {
    let found = workspace.at(path, LastLink::Keep, grant, |located| {
        let metadata = match located.root.open_at(&located.path, OFlags::PATH) {
            Ok(handle) => metadata::of(&handle, &located.shown)?,
            // The parent is a file now, so the path does not exist.
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(error),
        };
        let handle = match metadata.kind {
            FileKind::File => Some(open(&located.root.open_at(&located.path, READ)?, &metadata)?),
            _ => None,
        };
        Ok(Some((metadata, handle)))
    })?;
    match found {
        None => Ok(PathState::Missing),
        Some((metadata, Some(hash))) => Ok(of_file(&metadata, Some(hash))),
        Some((metadata, None)) => Ok(of_metadata(&metadata)),
    }
}

const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn open(handle: &OwnedFd, metadata: &FileMetadata) -> Result<ContentHash, Errno> {
    // Another process replaced the file.
    if metadata::of(handle, &metadata.path)?.kind != FileKind::File {
        return Err(Errno::AGAIN);
    }
    let mut offset = 0;
    ContentHash::of_pieces(|buffer| {
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(handle, &mut *buffer, offset))?;
        offset += read as u64;
        Ok(read)
    })
}

/// Returns the state of a locked target.
pub(super) fn of_found(found: &TargetState) -> Result<PathState, ToolError> {
    Ok(match found {
        TargetState::Missing => PathState::Missing,
        TargetState::File(handle) => of_file(handle.metadata(), Some(hash_of(handle)?)),
        TargetState::Link(metadata) => of_metadata(metadata),
        TargetState::Directory => PathState::Directory { mode: 0 },
        TargetState::Other(_) => PathState::Other,
    })
}

fn hash_of(handle: &FileHandle) -> Result<ContentHash, ToolError> {
    let mut offset = 0;
    ContentHash::of_pieces(|buffer| {
        let read = handle.read_at(buffer, offset)?;
        offset += read as u64;
        Ok(read)
    })
}

pub(super) fn of_file(metadata: &FileMetadata, hash: Option<ContentHash>) -> PathState {
    PathState::File { hash, mode: metadata.mode, size: metadata.size }
}

/// Returns the state of an entry whose content is not recorded.
pub(super) fn of_metadata(metadata: &FileMetadata) -> PathState {
    match metadata.kind {
        FileKind::File => of_file(metadata, None),
        FileKind::Link => PathState::Link { to: metadata.link_target.clone().unwrap_or_default() },
        FileKind::Directory => PathState::Directory { mode: metadata.mode },
        _ => PathState::Other,
    }
}
