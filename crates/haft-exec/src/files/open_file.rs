//! An open regular file.

use std::{os::fd::OwnedFd, sync::Arc};

use haft_core::{
    ToolError,
    files::{FileMetadata, OpenFile},
};
use rustix::io::{self, Errno};

pub(crate) struct FileHandle {
    pub(crate) descriptor: OwnedFd,
    metadata: FileMetadata,
}

impl FileHandle {
    pub(crate) fn new(descriptor: OwnedFd, metadata: FileMetadata) -> Arc<Self> {
        Arc::new(Self { descriptor, metadata })
    }
}

impl OpenFile for FileHandle {
    fn metadata(&self) -> &FileMetadata {
        &self.metadata
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, ToolError> {
        loop {
            match io::pread(&self.descriptor, &mut *buffer, offset) {
                Ok(read) => return Ok(read),
                Err(Errno::INTR) => {}
                Err(error) => {
                    let path = self.metadata.path.display();
                    let message = format!("`{path}` cannot be read: {error}");
                    return Err(ToolError::failed(message).caused_by(std::io::Error::from(error)));
                }
            }
        }
    }
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_up_to(handle: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match io::read(handle, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
