//! New content on disk, complete and synced, before it has the name that people look for.

use std::{
    ffi::OsStr,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    rc::Rc,
    sync::atomic::Ordering,
};

use rustix::{
    fs::{self, AtFlags, CWD, Mode, OFlags, RenameFlags},
    io::Errno,
};

use super::{area::Area, attributes, record::State};
use crate::files::root::Root;

/// New content that has no name yet, or one in the area.
pub(super) struct Staged {
    descriptor: OwnedFd,
    name: Option<(Rc<Area>, String)>,
}

impl Staged {
    /// A file without a name, made in the directory it is meant for, so that a default access list of that directory
    /// applies; `None` where the file system knows no such files.
    pub(super) fn nameless(root: &Root, directory: &OwnedFd) -> Result<Option<Self>, Errno> {
        if root.names_all_files.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // Naming it later goes through /proc.
        if fs::accessat(CWD, "/proc/self/fd", fs::Access::EXISTS, AtFlags::empty()).is_err() {
            return Ok(None);
        }
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match fs::openat(directory, ".", flags, Mode::from_raw_mode(0o666)) {
            Ok(descriptor) => Ok(Some(Self { descriptor, name: None })),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                root.names_all_files.store(true, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A file with a name in the area.
    pub(super) fn named(area: Rc<Area>) -> Result<Self, Errno> {
        let name = Area::name();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let descriptor = fs::openat(&area.handle, &name, flags, Mode::from_raw_mode(0o666))?;
        Ok(Self { descriptor, name: Some((area, name)) })
    }

    /// A link with a name in the area.
    pub(super) fn link(area: Rc<Area>, to: &Path) -> Result<Self, Errno> {
        let name = Area::name();
        fs::symlinkat(to, &area.handle, &name)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = fs::openat(&area.handle, &name, flags, Mode::empty())?;
        Ok(Self { descriptor, name: Some((area, name)) })
    }

    /// Writes the content; `like` is the file it takes mode, owner and attributes from. `mode` goes before that.
    pub(super) fn fill(
        &self,
        bytes: &[u8],
        like: Option<&OwnedFd>,
        mode: Option<u32>,
    ) -> Result<(), Errno> {
        write_all(&self.descriptor, bytes)?;
        if let Some(like) = like {
            attributes::copy(like, &self.descriptor)?;
        }
        if let Some(mode) = mode {
            attributes::set_mode(&self.descriptor, mode)?;
        }
        fs::fsync(&self.descriptor)
    }

    pub(super) fn stat(&self) -> Result<fs::Stat, Errno> {
        fs::fstat(&self.descriptor)
    }

    pub(super) fn state(&self) -> Result<State, Errno> {
        Ok(State::of(&fs::fstat(&self.descriptor)?))
    }

    /// Whether it needs a name in the area before it can take the place of a file.
    pub(super) fn is_nameless(&self) -> bool {
        self.name.is_none()
    }

    /// Gives it the name of a file that is there, which is thereby replaced.
    pub(super) fn replace(
        &mut self,
        area: &Rc<Area>,
        directory: &OwnedFd,
        name: &OsStr,
    ) -> Result<(), Errno> {
        if self.is_nameless() {
            let own = Area::name();
            match self.give_name(&area.handle, OsStr::new(&own)) {
                // Part of another volume although it is the same mount.
                Err(Errno::XDEV) => return self.replace_beside(directory, name),
                linked => linked?,
            }
            self.name = Some((area.clone(), own));
        }
        if let Some((area, own)) = &self.name {
            fs::renameat(&area.handle, own, directory, name)?;
        }
        self.name = None;
        Ok(())
    }

    fn replace_beside(&self, directory: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        let own = format!(".haft-{}", Area::name());
        self.give_name(directory, OsStr::new(&own))?;
        let moved = fs::renameat(directory, &own, directory, name);
        if moved.is_err() {
            let _ = fs::unlinkat(directory, &own, AtFlags::empty());
        }
        moved
    }

    /// Gives it a name that must be free.
    pub(super) fn appear(&mut self, directory: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        let Some((area, own)) = &self.name else { return self.give_name(directory, name) };
        let moved = fs::renameat_with(&area.handle, own, directory, name, RenameFlags::NOREPLACE);
        match moved {
            // An old file system: the look before has to do.
            Err(Errno::INVAL | Errno::NOSYS) => fs::renameat(&area.handle, own, directory, name)?,
            moved => moved?,
        }
        self.name = None;
        Ok(())
    }

    fn give_name(&self, directory: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        let own = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        fs::linkat(CWD, own, directory, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for Staged {
    /// What did not get its name goes.
    fn drop(&mut self) {
        if let Some((area, name)) = &self.name {
            let _ = fs::unlinkat(&area.handle, name, AtFlags::empty());
        }
    }
}

pub(super) fn write_all(descriptor: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(descriptor, rest) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
