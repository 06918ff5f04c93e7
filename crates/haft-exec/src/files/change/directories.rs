//! Directories created for new files. They are removed again when the change fails.

use std::{ffi::OsString, os::fd::OwnedFd};

use rustix::{
    fs::{self, AtFlags, Mode},
    io::Errno,
};

use super::{descend::open, targets::TargetLocation};

#[derive(Default)]
pub(super) struct CreatedDirectories(Vec<(OwnedFd, OsString)>);

impl CreatedDirectories {
    /// Opens the directory of a target, and creates it if it is missing.
    pub(super) fn open(&mut self, location: &TargetLocation<'_>) -> Result<OwnedFd, Errno> {
        let mut here = open(&location.above, ".".as_ref())?;
        for name in &location.missing {
            let is_new = match fs::mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(error),
            };
            // The name was missing a moment ago; if it is a file or a link now, another process
            // created it.
            let next = open(&here, name)
                .map_err(|error| if error == Errno::NOTDIR { Errno::STALE } else { error });
            if is_new {
                self.0.push((here, name.clone()));
            }
            here = next?;
        }
        Ok(here)
    }

    pub(super) fn sync(&self) {
        for (above, _) in &self.0 {
            let _ = fs::fsync(above);
        }
    }

    pub(super) fn remove(&self) {
        for (above, name) in self.0.iter().rev() {
            let _ = fs::unlinkat(above, name, AtFlags::REMOVEDIR);
        }
    }

    pub(super) fn are_new(&self) -> bool {
        !self.0.is_empty()
    }
}
