//! What one directory holds.

use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use haft_core::{
    ToolError,
    files::{DirectoryEntry, FileGrant, FileKind, Listing},
};
use rustix::{
    fs::{Dir, FileType, OFlags},
    io::Errno,
};

use crate::files::{
    facts,
    locate::{LastLink, Place, locate},
    workspace::{Spot, Workspace, not_regular},
};

/// The entries of a directory, sorted, without what the warrant closes.
pub(crate) fn of(
    workspace: &Workspace,
    path: &Path,
    grant: &FileGrant,
) -> Result<Listing, ToolError> {
    let (handle, shown) = workspace.at(path, LastLink::Follow, grant, |spot| {
        Ok((open_directory(spot)?, spot.shown.clone()))
    })?;
    let handle = handle.map_err(|kind| not_a_directory(&shown, kind))?;
    let listed = list(workspace, &handle, &shown, grant);
    listed.map_err(|error| workspace.failure(&shown, error, grant))
}

/// The directory, or the sort of thing it is instead.
fn open_directory(spot: &Spot<'_>) -> Result<Result<OwnedFd, FileKind>, Errno> {
    match spot.root.open_at(&spot.path, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::NOTDIR) => {
            let handle = spot.root.open_at(&spot.path, OFlags::PATH)?;
            Ok(Err(facts::of(&handle, &spot.shown)?.kind))
        }
        other => other.map(Ok),
    }
}

/// What is said to somebody who wants a directory and names something else.
pub(crate) fn not_a_directory(shown: &Path, kind: FileKind) -> ToolError {
    match kind {
        FileKind::File => {
            let message = format!("`{}` is a file, not a directory", shown.display());
            ToolError::input(message).hint("name its directory, or use `read` for the file")
        }
        kind => not_regular(shown, kind),
    }
}

fn list(
    workspace: &Workspace,
    handle: &OwnedFd,
    shown: &Path,
    grant: &FileGrant,
) -> Result<Listing, Errno> {
    let mut listing = Listing { path: shown.to_owned(), ..Listing::default() };
    for entry in Dir::read_from(handle)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let path = if shown == Path::new(".") { name.into() } else { shown.join(name) };
        if !grant.permits(&path) {
            listing.closed += 1;
            continue;
        }
        let kind = kind_of(handle, &entry);
        let is_directory = kind == FileKind::Directory
            || (kind == FileKind::Link && leads_to_directory(workspace, &path, grant));
        let name = name.to_string_lossy().into_owned();
        listing.entries.push(DirectoryEntry { name, kind, is_directory });
    }
    listing.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(listing)
}

/// Some file systems do not say in the listing what an entry is.
pub(crate) fn kind_of(directory: &OwnedFd, entry: &rustix::fs::DirEntry) -> FileKind {
    match entry.file_type() {
        FileType::Unknown => {
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::statat(directory, entry.file_name(), flags)
                .map_or(FileKind::Device, |stat| facts::kind(FileType::from_raw_mode(stat.st_mode)))
        }
        known => facts::kind(known),
    }
}

fn leads_to_directory(workspace: &Workspace, path: &Path, grant: &FileGrant) -> bool {
    let Ok(Place::Inside { root, path }) = locate(&workspace.roots, path, LastLink::Follow) else {
        return false;
    };
    let root = &workspace.roots[root];
    let opened = root.open_at(&path, OFlags::PATH | OFlags::DIRECTORY);
    grant.permits(&root.shown(&path)) && opened.is_ok()
}
