//! The record of a change of several files, which describes how to revert it. It lies in the
//! staging area while names are replaced, so that the next haft reverts what a crash interrupted. A
//! repository may contain files of this form, so a record only counts if it contains numbers that
//! its author could not know beforehand.

use std::{
    ffi::OsStr,
    io::Read,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags},
    io::Errno,
};

use super::{descend::identity, stage::write_all, staging_area::StagingArea};
use crate::files::root::Root;

/// Suffix of a record's name.
pub(super) const RECORD: &str = ".undo";
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// Identifies a file in one state. It includes the modification time because inode numbers are
/// reused, and because other programs edit in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileFingerprint {
    pub(super) inode: u64,
    pub(super) size: i64,
    pub(super) modified_ns: i128,
}

impl FileFingerprint {
    pub(super) fn of(stat: &fs::Stat) -> Self {
        let modified_ns =
            i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
        Self { inode: stat.st_ino, size: stat.st_size, modified_ns }
    }

    fn at(directory: &OwnedFd, name: &OsStr) -> Result<Option<Self>, Errno> {
        match fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Self::of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// One line of a record: a change that was made, or was about to be made, to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordStep {
    /// The new content; `None` when the file was to be removed.
    pub(super) made: Option<FileFingerprint>,
    /// Name of the old file in the area; `None` when there was none.
    pub(super) backup: Option<String>,
    /// Relative to the root.
    pub(super) path: PathBuf,
}

impl RecordStep {
    fn line(&self) -> String {
        let made =
            self.made.map_or("-".to_owned(), |FileFingerprint { inode, size, modified_ns }| {
                format!("{inode}:{size}:{modified_ns}")
            });
        let backup = self.backup.as_deref().unwrap_or("-");
        let mut path = String::new();
        for byte in self.path.as_os_str().as_bytes() {
            path.push_str(&format!("{byte:02x}"));
        }
        format!("{made} {backup} {path}\n")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let made = match words.next()? {
            "-" => None,
            numbers => {
                let mut numbers = numbers.split(':');
                let inode = numbers.next()?.parse().ok()?;
                let size = numbers.next()?.parse().ok()?;
                Some(FileFingerprint { inode, size, modified_ns: numbers.next()?.parse().ok()? })
            }
        };
        let backup = words.next().filter(|name| *name != "-").map(str::to_owned);
        // Only names, never paths: a backup must be in the area.
        if backup.as_ref().is_some_and(|name| name.contains('/') || name.starts_with('.')) {
            return None;
        }
        let digits = words.next()?.as_bytes();
        let mut path = Vec::new();
        for pair in digits.chunks(2) {
            path.push(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
        }
        Some(Self { made, backup, path: PathBuf::from(OsStr::from_bytes(&path)) })
    }

    /// Restores the old file if the new one is still there. A file that another process put there
    /// since is left alone.
    pub(super) fn revert(&self, directory: &OwnedFd, area: &OwnedFd) -> Result<(), Errno> {
        let Some(name) = self.path.file_name() else { return Ok(()) };
        let now = FileFingerprint::at(directory, name)?;
        match &self.backup {
            _ if now != self.made => Ok(()),
            Some(backup) => fs::renameat(area, backup, directory, name),
            None if now.is_none() => Ok(()),
            None => fs::unlinkat(directory, name, AtFlags::empty()),
        }
    }
}

/// Writes a record and returns its name. The record and the old files are then on disk.
pub(super) fn write<'a>(
    area: &StagingArea,
    steps: impl Iterator<Item = &'a RecordStep>,
) -> Result<String, Errno> {
    let name = format!("{}{RECORD}", StagingArea::name());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let handle = fs::openat(&area.handle, &name, flags, Mode::from_raw_mode(0o600))?;
    let written = first_line(&area.handle, &handle).and_then(|mut text| {
        text.extend(steps.map(RecordStep::line));
        text.push_str("end\n");
        write_all(&handle, text.as_bytes())?;
        fs::fsync(&handle)?;
        fs::fsync(&area.handle)
    });
    if let Err(error) = written {
        let _ = fs::unlinkat(&area.handle, &name, AtFlags::empty());
        return Err(error);
    }
    Ok(name)
}

/// Binds a record to its directory and inode, numbers that no repository can know beforehand.
fn first_line(area: &OwnedFd, record: &OwnedFd) -> Result<String, Errno> {
    let ((_, area), (_, record)) = (identity(area)?, identity(record)?);
    Ok(format!("haft {area} {record}\n"))
}

/// Reverts the steps of a record. Steps that cannot be reverted are skipped.
pub(super) fn revert(root: &Root, area: &OwnedFd, name: &OsStr) {
    for step in read(area, name).unwrap_or_default() {
        let above = step.path.parent().unwrap_or(Path::new(""));
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        if let Ok(directory) = root.open_at(above, OFlags::RDONLY | OFlags::DIRECTORY) {
            let _ = step.revert(&directory, area);
            let _ = fs::fsync(&directory);
        }
    }
}

fn read(area: &OwnedFd, name: &OsStr) -> Option<Vec<RecordStep>> {
    // Open without blocking: the entry need not be a regular file.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let handle = fs::openat(area, name, flags, Mode::empty()).ok()?;
    if !FileType::from_raw_mode(fs::fstat(&handle).ok()?.st_mode).is_file() {
        return None;
    }
    let first = first_line(area, &handle).ok()?;
    let mut text = String::new();
    std::fs::File::from(handle).take(MAX_RECORD_BYTES).read_to_string(&mut text).ok()?;
    // A record without its last line was not finished, so nothing was changed after it.
    text.strip_prefix(&first)?.strip_suffix("end\n")?.lines().map(RecordStep::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_read_as_it_was_written() {
        for backup in [None, Some("7-a-1".to_owned())] {
            for made in [None, Some(FileFingerprint { inode: 42, size: 7, modified_ns: -1 })] {
                let (backup, path) = (backup.clone(), "a b/\u{e4}\n.txt".into());
                let step = RecordStep { made, backup, path };
                assert_eq!(RecordStep::parse(step.line().trim_end()), Some(step));
            }
        }
        for wrong in
            ["x - 00", "1:2 - 00", "- - zz", "- -", "", "- ../up 61", "- .. 61", "- a/b 61"]
        {
            assert_eq!(RecordStep::parse(wrong), None, "{wrong}");
        }
    }
}
