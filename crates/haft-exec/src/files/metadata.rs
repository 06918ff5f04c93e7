//! Converts what the system reports about an open handle into the types of haft-core.

use std::{
    ffi::OsStr,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use haft_core::files::{FileKind, FileMetadata};
use rustix::{
    fs::{self, AtFlags, FileType, StatxFlags, StatxTimestamp},
    io::Errno,
};

/// Returns the metadata of an open file; `shown` is its path.
pub(crate) fn of(handle: &impl AsFd, shown: &Path) -> Result<FileMetadata, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = fs::statx(handle, "", flags, wanted)?;
    let file_type = FileType::from_raw_mode(found.stx_mode.into());
    let has_creation_time = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    let link_target = match file_type {
        FileType::Symlink => {
            let target = fs::readlinkat(handle, "", Vec::new())?;
            Some(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
        }
        _ => None,
    };
    Ok(FileMetadata {
        path: shown.to_owned(),
        kind: kind(file_type),
        size: found.stx_size,
        mode: u32::from(found.stx_mode) & 0o7777,
        owner: (found.stx_uid, found.stx_gid),
        links: found.stx_nlink.into(),
        modified_ns: nanoseconds(&found.stx_mtime),
        changed_ns: nanoseconds(&found.stx_ctime),
        created_ns: has_creation_time.then(|| nanoseconds(&found.stx_btime)),
        device: fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        link_target,
    })
}

pub(crate) fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        _ => FileKind::Device,
    }
}

fn nanoseconds(time: &StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}
