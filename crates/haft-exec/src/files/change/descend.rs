//! Visits a tree with only one open directory, so that neither its depth nor the length of its
//! paths is limited. Mounts and links are not entered.

use std::{
    ffi::{OsStr, OsString},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, Dir, Mode, OFlags},
    io::Errno,
};

use crate::files::root::{mount_of, same_mount};

/// Callbacks for the entries of a tree.
pub(super) trait TreeVisitor {
    type VisitError;

    /// Visits an entry of `directory`; `path` is relative to the top and ends with its name.
    /// Returns true to enter it.
    fn entry(&mut self, directory: &OwnedFd, path: &Path) -> Result<bool, Self::VisitError>;

    /// Called for a directory that was entered, after its contents.
    fn left(&mut self, above: &OwnedFd, path: &Path) -> Result<(), Self::VisitError>;

    /// Converts a system error about a path.
    fn failed(&self, path: &Path, error: Errno) -> Self::VisitError;
}

/// Visits everything below a directory.
pub(super) fn descend<V: TreeVisitor>(top: OwnedFd, visit: &mut V) -> Result<(), V::VisitError> {
    let mut path = PathBuf::new();
    let mount = mount_of(&top).map_err(|error| visit.failed(&path, error))?;
    let mut levels = vec![Level::new(&top).map_err(|error| visit.failed(&path, error))?];
    let mut here = top;
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.names.pop() {
            path.push(&name);
            if visit.entry(&here, &path)? {
                let below = open(&here, &name)
                    .and_then(|below| same_mount(&below, mount).map(|()| below))
                    .and_then(|below| Ok((Level::new(&below)?, below)));
                let (level, below) = below.map_err(|error| visit.failed(&path, error))?;
                levels.push(level);
                here = below;
            } else {
                path.pop();
            }
            continue;
        }
        levels.pop();
        if let Some(above) = levels.last() {
            here = above.reopen(&here).map_err(|error| visit.failed(&path, error))?;
            visit.left(&here, &path)?;
            path.pop();
        }
    }
    Ok(())
}

struct Level {
    identity: (u64, u64),
    names: Vec<OsString>,
}

impl Level {
    fn new(directory: &OwnedFd) -> Result<Self, Errno> {
        Ok(Self { identity: identity(directory)?, names: names(directory)? })
    }

    /// Reopens this directory from one below it, unless that one was moved.
    fn reopen(&self, below: &OwnedFd) -> Result<OwnedFd, Errno> {
        let above = open(below, OsStr::new(".."))?;
        if identity(&above)? == self.identity { Ok(above) } else { Err(Errno::STALE) }
    }
}

pub(super) fn identity(handle: &OwnedFd) -> Result<(u64, u64), Errno> {
    let stat = fs::fstat(handle)?;
    Ok((stat.st_dev, stat.st_ino))
}

pub(super) fn names(directory: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

pub(super) fn open(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(directory, name, flags, Mode::empty())
}
