//! Directories made for what is to lie in them; they go again when that fails.

use std::{ffi::OsString, os::fd::OwnedFd};

use rustix::{
    fs::{self, AtFlags, Mode},
    io::Errno,
};

use super::{descend::open, hold::Seat};

#[derive(Default)]
pub(super) struct Directories(Vec<(OwnedFd, OsString)>);

impl Directories {
    /// The directory of a seat, made if it is missing.
    pub(super) fn open(&mut self, seat: &Seat<'_>) -> Result<OwnedFd, Errno> {
        let mut here = open(&seat.above, ".".as_ref())?;
        for name in &seat.missing {
            let is_new = match fs::mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(error),
            };
            // A name that was missing a moment ago and is a file or a link now is somebody else's work.
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
