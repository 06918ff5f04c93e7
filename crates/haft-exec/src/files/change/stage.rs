//! Writes and syncs new content completely before it gets its final name.

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

use super::{attributes, record::FileFingerprint, staging_area::StagingArea};
use crate::files::root::Root;

/// New content that has no name yet, or a name in the staging area.
pub(super) struct StagedFile {
    descriptor: OwnedFd,
    name: Option<(Rc<StagingArea>, String)>,
}

impl StagedFile {
    /// Creates a file without a name in its target directory, so that the directory's default
    /// access list applies. `None` when the file system does not support such files.
    pub(super) fn nameless(root: &Root, directory: &OwnedFd) -> Result<Option<Self>, Errno> {
        if root.lacks_tmpfile.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // Naming it later needs /proc.
        if fs::accessat(CWD, "/proc/self/fd", fs::Access::EXISTS, AtFlags::empty()).is_err() {
            return Ok(None);
        }
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match fs::openat(directory, ".", flags, Mode::from_raw_mode(0o666)) {
            Ok(descriptor) => Ok(Some(Self { descriptor, name: None })),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                root.lacks_tmpfile.store(true, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a file with a name in the area.
    pub(super) fn named(area: Rc<StagingArea>) -> Result<Self, Errno> {
        let name = StagingArea::name();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let descriptor = fs::openat(&area.handle, &name, flags, Mode::from_raw_mode(0o666))?;
        Ok(Self { descriptor, name: Some((area, name)) })
    }

    /// Creates a link with a name in the area.
    pub(super) fn link(area: Rc<StagingArea>, to: &Path) -> Result<Self, Errno> {
        let name = StagingArea::name();
        fs::symlinkat(to, &area.handle, &name)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = fs::openat(&area.handle, &name, flags, Mode::empty())?;
        Ok(Self { descriptor, name: Some((area, name)) })
    }

    /// Writes the content. Mode, owner and attributes come from `like`; `mode` overrides the mode.
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

    pub(super) fn state(&self) -> Result<FileFingerprint, Errno> {
        Ok(FileFingerprint::of(&fs::fstat(&self.descriptor)?))
    }

    /// Returns true when it needs a name in the area before it can replace a file.
    pub(super) fn is_nameless(&self) -> bool {
        self.name.is_none()
    }

    /// Replaces an existing file by giving this one its name.
    pub(super) fn replace(
        &mut self,
        area: &Rc<StagingArea>,
        directory: &OwnedFd,
        name: &OsStr,
    ) -> Result<(), Errno> {
        if self.is_nameless() {
            let own = StagingArea::name();
            match self.give_name(&area.handle, OsStr::new(&own)) {
                // Another volume, although it is the same mount.
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
        let own = format!(".haft-{}", StagingArea::name());
        self.give_name(directory, OsStr::new(&own))?;
        let moved = fs::renameat(directory, &own, directory, name);
        if moved.is_err() {
            let _ = fs::unlinkat(directory, &own, AtFlags::empty());
        }
        moved
    }

    /// Gives it a name that must be unused.
    pub(super) fn appear(&mut self, directory: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        let Some((area, own)) = &self.name else { return self.give_name(directory, name) };
        let moved = fs::renameat_with(&area.handle, own, directory, name, RenameFlags::NOREPLACE);
        match moved {
            // An old file system: the earlier check has to suffice.
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

impl Drop for StagedFile {
    /// Removes a file that did not get its final name.
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
