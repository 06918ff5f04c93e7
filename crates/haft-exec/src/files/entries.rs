//! Lists one directory.

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
    locate::{LastLink, PathLocation, locate},
    metadata,
    workspace::{LocatedPath, Workspace, not_regular},
};

/// Returns the entries of a directory, sorted, without those that the grant closes.
pub(crate) fn of(
    workspace: &Workspace,
    path: &Path,
    grant: &FileGrant,
) -> Result<Listing, ToolError> {
    let (handle, shown) = workspace.at(path, LastLink::Follow, grant, |located| {
        Ok((open_directory(located)?, located.shown.clone()))
    })?;
    let handle = handle.map_err(|kind| not_a_directory(&shown, kind))?;
    let listed = list(workspace, &handle, &shown, grant);
    listed.map_err(|error| workspace.failure(&shown, error, grant))
}

/// Opens the directory, or returns the kind of the entry if it is not one.
fn open_directory(located: &LocatedPath<'_>) -> Result<Result<OwnedFd, FileKind>, Errno> {
    match located.root.open_at(&located.path, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::NOTDIR) => {
            let handle = located.root.open_at(&located.path, OFlags::PATH)?;
            Ok(Err(metadata::of(&handle, &located.shown)?.kind))
        }
        other => other.map(Ok),
    }
}

/// Returns the error for a path that should be a directory but is not.
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

/// Some file systems do not report the kind of an entry in the listing.
pub(crate) fn kind_of(directory: &OwnedFd, entry: &rustix::fs::DirEntry) -> FileKind {
    match entry.file_type() {
        FileType::Unknown => {
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::statat(directory, entry.file_name(), flags)
                .map_or(FileKind::Device, |stat| {
                    metadata::kind(FileType::from_raw_mode(stat.st_mode))
                })
        }
        known => metadata::kind(known),
    }
}

fn leads_to_directory(workspace: &Workspace, path: &Path, grant: &FileGrant) -> bool {
    let Ok(PathLocation::Inside { root, path }) = locate(&workspace.roots, path, LastLink::Follow)
    else {
        return false;
    };
    let root = &workspace.roots[root];
    let opened = root.open_at(&path, OFlags::PATH | OFlags::DIRECTORY);
    grant.permits(&root.shown(&path)) && opened.is_ok()
}
