//! Maps errors of a file to messages with a next step. Decided by SQLite's codes, never by its
//! texts.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use haft_core::{ToolError, files::UnwritablePath};
use rusqlite::ErrorCode;
use rustix::{
    fs::{Access, AtFlags, CWD, accessat},
    io::Errno,
    process::geteuid,
};

use super::BUSY_TIMEOUT;

/// Maps the errors of one store.
pub(crate) struct SqliteErrors<'a>(pub(crate) &'a Path);

impl SqliteErrors<'_> {
    pub(crate) fn of(&self, error: rusqlite::Error) -> ToolError {
        let reported = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => return self.busy(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                self.damaged(&error.to_string())
            }
            Some(ErrorCode::DiskFull) => self
                .unavailable("cannot be written: the disk is full")
                .hint("free space on its disk, or use another store with --store"),
            Some(
                ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::SystemIoFailure,
            ) => self.unwritable(&error.to_string()),
            // Only haft assigns row numbers: one that is taken means that another program moved the
            // end of the chain.
            Some(ErrorCode::ConstraintViolation) => self
                .unavailable(&format!("already holds a row where a new one belongs: {error}"))
                .hint("check the ledger with `haft ledger verify`"),
            _ => self.unavailable(&format!("reported an error: {error}")),
        };
        reported.caused_by(error)
    }

    pub(crate) fn of_file(&self, error: &io::Error) -> ToolError {
        match error.kind() {
            io::ErrorKind::StorageFull => self
                .unavailable("cannot be created: the disk is full")
                .hint("free space on its disk, or use another store with --store"),
            _ => self.unwritable(&error.to_string()),
        }
    }

    pub(super) fn busy(&self) -> ToolError {
        let what = format!("is busy: another process has held it for {} s", BUSY_TIMEOUT.as_secs());
        self.unavailable(&what).hint("find the process that has it open (`fuser FILE`), then retry")
    }

    pub(crate) fn damaged(&self, how: &str) -> ToolError {
        self.unavailable(&format!("is damaged: {how}")).hint(
            "nothing was overwritten: inspect it with `haft store check`, then replace it by a backup with \
             `haft store restore FILE`, or move it away and haft creates a new one",
        )
    }

    pub(super) fn foreign(&self, what: &str) -> ToolError {
        self.unavailable(&format!("is not a haft store: {what}"))
            .hint("choose another file with --store; this one was not changed")
    }

    fn unwritable(&self, why: &str) -> ToolError {
        if let Some((reason, next_step)) = self.closed() {
            return self
                .unavailable(&format!("cannot be used: {reason}"))
                .hint(format!("{next_step}, or use another store with --store"));
        }
        self.unavailable(&format!("cannot be used: {why}"))
            .hint("fix its permissions, or use another store with --store")
    }

    /// Returns the reason and the next step if this process may not access the file or its
    /// directory. `None` if it may access both.
    fn closed(&self) -> Option<(String, String)> {
        let folder = self.0.parent().filter(|folder| !folder.as_os_str().is_empty())?;
        let is_closed = |path: &&Path| {
            let access = Access::READ_OK | Access::WRITE_OK;
            matches!(
                accessat(CWD, *path, access, AtFlags::EACCESS),
                Err(Errno::ACCESS | Errno::PERM)
            )
        };
        // A missing directory cannot be created in a parent that is not writable.
        let folders = folder.ancestors().find(|folder| folder.exists());
        let path = folders.into_iter().chain([self.0]).find(is_closed)?;
        let facts = fs::metadata(path).ok()?;
        let closed = UnwritablePath {
            path: &path.display().to_string(),
            owner: facts.uid(),
            own: geteuid().as_raw(),
            mode: facts.mode(),
            users: &fs::read_to_string("/etc/passwd").unwrap_or_default(),
        };
        Some((closed.reason(), closed.next_step()))
    }

    fn unavailable(&self, what: &str) -> ToolError {
        ToolError::unavailable(format!("the store {} {what}", self.0.display()))
    }
}
