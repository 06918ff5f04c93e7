//! The attributes that a file keeps when its content is replaced: mode, owner, extended attributes,
//! and with those its access list.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{self, Gid, Mode, Uid, XattrFlags},
    io::Errno,
};

/// Mode bits that are dropped, as the kernel does on a write: a caller that changes a program must
/// not keep its set-id rights.
const DROPPED_MODE_BITS: u32 = 0o6000;
/// The kernel's maximum for one value, and for all names of one file.
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// Gives `to` exactly the attributes of `from`: a directory's default access list must not widen
/// access.
pub(super) fn copy(from: &impl AsFd, to: &OwnedFd) -> Result<(), Errno> {
    let (old, new) = (fs::fstat(from)?, fs::fstat(to)?);
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid) {
        let (user, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        fs::fchown(to, Some(user), Some(group))?;
    }
    copy_extended(from, to)?;
    // The mode comes last, because a removed access list leaves its mask behind as the group's
    // permissions.
    set_mode(to, old.st_mode)
}

pub(super) fn set_mode(file: &OwnedFd, mode: u32) -> Result<(), Errno> {
    fs::fchmod(file, Mode::from_raw_mode(mode & 0o7777 & !DROPPED_MODE_BITS))
}

fn copy_extended(from: &impl AsFd, to: &OwnedFd) -> Result<(), Errno> {
    let (wanted, given) = (names(from)?, names(to)?);
    for name in given.iter().filter(|name| !wanted.contains(name) && !is_security_label(name)) {
        fs::fremovexattr(to, name.as_c_str())?;
    }
    for name in &wanted {
        copy_one(from, to, name)?;
    }
    Ok(())
}

fn names(file: &impl AsFd) -> Result<Vec<CString>, Errno> {
    // Query the size first: nearly every file has no attributes, and then one call is enough.
    match fs::flistxattr_query(file) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    let mut names = vec![0; MAX_ATTRIBUTE_BYTES];
    let length = fs::flistxattr(file, &mut names)?;
    names.truncate(length);
    let names = names.split_inclusive(|byte| *byte == 0);
    Ok(names.filter_map(|name| Some(CStr::from_bytes_with_nul(name).ok()?.to_owned())).collect())
}

/// The machine assigns the labels of its security module.
fn is_security_label(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"security.")
}

fn copy_one(from: &impl AsFd, to: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    // A capability belongs to the old content, like `DROPPED_MODE_BITS`.
    if name == c"security.capability" {
        return Ok(());
    }
    let mut value = vec![0; MAX_ATTRIBUTE_BYTES];
    let length = fs::fgetxattr(from, name, &mut value)?;
    match fs::fsetxattr(to, name, &value[..length], XattrFlags::empty()) {
        Err(_) if is_security_label(name) => Ok(()),
        set => set,
    }
}
