//! The state of a path as four columns.

use std::{
    ffi::OsStr,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use haft_core::{ContentHash, PathState, ToolError};

use crate::engine::value::{SqlRow, Value};

const MISSING: u64 = 0;
const FILE: u64 = 1;
const LINK: u64 = 2;
const DIRECTORY: u64 = 3;
const OTHER: u64 = 4;

/// A path state as stored.
pub(super) struct PathColumns {
    kind: u64,
    mode: u64,
    size: u64,
    /// Hash of a file's content, or target of a link.
    what: Option<Vec<u8>>,
}

impl PathColumns {
    pub(super) fn of(path_state: &PathState) -> Self {
        let plain = |kind, mode: u32| Self { kind, mode: mode.into(), size: 0, what: None };
        match path_state {
            PathState::Missing => plain(MISSING, 0),
            PathState::File { hash, mode, size } => {
                let what = hash.map(|ContentHash(hash)| hash.to_vec());
                Self { kind: FILE, mode: (*mode).into(), size: *size, what }
            }
            PathState::Link { to } => Self { what: Some(bytes(to)), ..plain(LINK, 0) },
            PathState::Directory { mode } => plain(DIRECTORY, *mode),
            PathState::Other => plain(OTHER, 0),
        }
    }

    pub(super) fn values(&self) -> [Value<'_>; 4] {
        let what = self.what.as_deref().map_or(Value::Null, Value::Bytes);
        [Value::number(self.kind), Value::number(self.mode), Value::number(self.size), what]
    }
}

/// Reads the path state from four columns, starting at `first`.
pub(super) fn path_state(row: &SqlRow, first: usize) -> Result<PathState, ToolError> {
    let mode = || Ok::<u32, ToolError>(u32::try_from(row.number(first + 1)?).unwrap_or(0o600));
    Ok(match row.number(first)? {
        MISSING => PathState::Missing,
        FILE => {
            let hash = row.maybe_bytes(first + 3)?.map(hash).transpose()?;
            PathState::File { hash, mode: mode()?, size: row.number(first + 2)? }
        }
        LINK => PathState::Link { to: path(row.bytes(first + 3)?) },
        DIRECTORY => PathState::Directory { mode: mode()? },
        _ => PathState::Other,
    })
}

fn hash(bytes: &[u8]) -> Result<ContentHash, ToolError> {
    let hash = bytes.try_into().map_err(|_| {
        ToolError::unavailable("the journal holds an invalid hash")
            .hint("check the store with `haft store check`")
    });
    hash.map(ContentHash)
}

pub(super) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

pub(super) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().to_owned().into_vec()
}
