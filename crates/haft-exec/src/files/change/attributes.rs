//! What a file keeps when its content is replaced: mode, owner, extended attributes, and with those its access list.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{self, Gid, Mode, Uid, XattrFlags},
    io::Errno,
};

/// The kernel takes these bits away when a program is written to; whoever changes what runs with another's rights must
/// not keep the rights.
const NOT_KEPT: u32 = 0o6000;
/// The most the kernel takes as one value, and as all names of one file.
const LARGEST: usize = 64 << 10;

/// Gives `to` what `from` has, and nothing else: a directory's default access list must not open what was closed.
pub(super) fn copy(from: &impl AsFd, to: &OwnedFd) -> Result<(), Errno> {
    let (old, new) = (fs::fstat(from)?, fs::fstat(to)?);
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid) {
        let (user, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        fs::fchown(to, Some(user), Some(group))?;
    }
    copy_extended(from, to)?;
    // Last, because an access list that goes leaves its mask behind as the group's rights.
    set_mode(to, old.st_mode)
}

pub(super) fn set_mode(file: &OwnedFd, mode: u32) -> Result<(), Errno> {
    fs::fchmod(file, Mode::from_raw_mode(mode & 0o7777 & !NOT_KEPT))
}

fn copy_extended(from: &impl AsFd, to: &OwnedFd) -> Result<(), Errno> {
    let (wanted, given) = (names(from)?, names(to)?);
    for name in given.iter().filter(|name| !wanted.contains(name) && !is_the_machines(name)) {
        fs::fremovexattr(to, name.as_c_str())?;
    }
    for name in &wanted {
        copy_one(from, to, name)?;
    }
    Ok(())
}

fn names(file: &impl AsFd) -> Result<Vec<CString>, Errno> {
    // Asked for with no buffer first: nearly every file has none, and the answer is then one call.
    match fs::flistxattr_query(file) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    let mut names = vec![0; LARGEST];
    let length = fs::flistxattr(file, &mut names)?;
    names.truncate(length);
    let names = names.split_inclusive(|byte| *byte == 0);
    Ok(names.filter_map(|name| Some(CStr::from_bytes_with_nul(name).ok()?.to_owned())).collect())
}

/// Labels of the machine's security module are given by the machine.
fn is_the_machines(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"security.")
}

fn copy_one(from: &impl AsFd, to: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    // Rights bound to the old content, as with NOT_KEPT.
    if name == c"security.capability" {
        return Ok(());
    }
    let mut value = vec![0; LARGEST];
    let length = fs::fgetxattr(from, name, &mut value)?;
    match fs::fsetxattr(to, name, &value[..length], XattrFlags::empty()) {
        Err(_) if is_the_machines(name) => Ok(()),
        set => set,
    }
}
