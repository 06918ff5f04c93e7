//! A tree from its top to its leaves and back with one open directory: no depth is too deep, and no path too long. Mounts
//! and links are not gone into.

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

/// What is done with a tree.
pub(super) trait Visit {
    type Failure;

    /// Something in `directory`; `path` is relative to the top and ends with its name. True to go into it.
    fn entry(&mut self, directory: &OwnedFd, path: &Path) -> Result<bool, Self::Failure>;

    /// A directory that was gone into, when all below it has been seen.
    fn left(&mut self, above: &OwnedFd, path: &Path) -> Result<(), Self::Failure>;

    /// The system's word on a path.
    fn failed(&self, path: &Path, error: Errno) -> Self::Failure;
}

/// Shows everything below a directory to a visitor.
pub(super) fn descend<V: Visit>(top: OwnedFd, visit: &mut V) -> Result<(), V::Failure> {
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

    /// This directory again, from one below it, unless that was moved elsewhere meanwhile.
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
