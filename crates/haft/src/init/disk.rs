//! Reads and replaces configuration files of other programs. A file is replaced atomically and only
//! after a backup. Symbolic links are followed, because dotfiles are often links into a repository.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use haft_core::{ErrorKind, ToolError};

/// Claude Code keeps whole conversations in its file. A larger file is not a configuration.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Attempts to find an unused file name.
const MAX_NAME_ATTEMPTS: usize = 100;

/// The current content of a file.
#[derive(Debug)]
pub(super) struct FoundConfig {
    /// Path with symbolic links resolved.
    pub(super) path: PathBuf,
    /// `None` when the file does not exist.
    pub(super) text: Option<String>,
}

/// # Errors
/// When the file exists but is not readable as text.
pub(super) fn read(path: &Path) -> Result<FoundConfig, ToolError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(FoundConfig { path: resolved(path), text: None });
        }
        Err(error) => return Err(refused("cannot be inspected", path, error)),
        Ok(_) => {}
    }
    let real = path.canonicalize().map_err(|error| {
        let message = format!("{} is a broken symbolic link: {error}", path.display());
        ToolError::not_found(message).hint("fix or remove the link, then retry")
    })?;
    let metadata = real.metadata().map_err(|error| refused("cannot be inspected", &real, error))?;
    check_type(&real, &metadata)?;
    let bytes = fs::read(&real).map_err(|error| refused("cannot be read", &real, error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("{} is not UTF-8: byte {at} is invalid", real.display());
        ToolError::new(ErrorKind::Unsupported, message).hint("save it as UTF-8, then retry")
    })?;
    Ok(FoundConfig { path: real, text: Some(text) })
}

/// Resolves the existing part of a path, so that a new file has the same path once it exists.
fn resolved(path: &Path) -> PathBuf {
    let real = |folder: &Path| {
        let rest = path.strip_prefix(folder).ok()?;
        folder.canonicalize().ok().map(|folder| folder.join(rest))
    };
    path.ancestors().skip(1).find_map(real).unwrap_or_else(|| path.to_owned())
}

fn check_type(path: &Path, metadata: &Metadata) -> Result<(), ToolError> {
    if !metadata.is_file() {
        let message = format!("{} is not a regular file", path.display());
        return Err(
            ToolError::new(ErrorKind::Unsupported, message).hint("move it away, then retry")
        );
    }
    if metadata.len() > MAX_FILE_BYTES {
        let message = format!("{} is larger than {MAX_FILE_BYTES} bytes", path.display());
        return Err(ToolError::new(ErrorKind::TooLarge, message)
            .hint("add the entry by hand; `--print` shows it"));
    }
    Ok(())
}

/// Replaces a file's content atomically: another process reads either the old or the new content.
/// Mode and owner stay.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), ToolError> {
    let present = path.metadata().ok();
    let fail = |error| refused("cannot be written", path, error);
    let (unfinished, file) = create_beside(path, present.as_ref(), |n| {
        format!(".{}.haft-{}-{n}", file_name(path), std::process::id())
    })
    .map_err(fail)?;
    let written = fill(file, text, present.as_ref()).and_then(|()| fs::rename(&unfinished, path));
    if let Err(error) = written {
        // Report the first error, not that of the cleanup.
        let _ = fs::remove_file(&unfinished);
        return Err(fail(error));
    }
    sync_folder(path);
    Ok(())
}

/// Writes a copy of `text` next to the file and returns its path. An older copy is never
/// overwritten.
pub(super) fn back_up(path: &Path, text: &str) -> Result<PathBuf, ToolError> {
    let fail = |error| refused("cannot be backed up", path, error);
    let present = path.metadata().ok();
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let (backup, file) = create_beside(path, present.as_ref(), |n| {
        let counter = if n == 0 { String::new() } else { format!("-{n}") };
        format!("{}.haft-backup-{now}{counter}", file_name(path))
    })
    .map_err(fail)?;
    fill(file, text, present.as_ref()).map_err(fail)?;
    Ok(backup)
}

/// Creates the folder of a file and returns the created folders, innermost last.
pub(super) fn make_folder_of(path: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let Some(folder) = path.parent() else { return Ok(Vec::new()) };
    let mut missing: Vec<PathBuf> =
        folder.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    missing.reverse();
    fs::create_dir_all(folder).map_err(|error| refused("cannot be created", folder, error))?;
    Ok(missing)
}

/// # Errors
/// When the file exists and cannot be removed.
pub(super) fn remove(path: &Path) -> Result<(), ToolError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(refused("cannot be removed", path, error))
        }
        _ => Ok(()),
    }
}

fn create_beside(
    path: &Path,
    like: Option<&Metadata>,
    name: impl Fn(usize) -> String,
) -> io::Result<(PathBuf, File)> {
    let mode = like.map_or(0o666, |metadata| metadata.mode() & 0o777);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let mut n = 0;
    loop {
        let sibling = path.with_file_name(name(n));
        n += 1;
        match options.open(&sibling) {
            Ok(file) => return Ok((sibling, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n < MAX_NAME_ATTEMPTS => {
            }
            Err(error) => return Err(error),
        }
    }
}

fn fill(mut file: File, text: &str, like: Option<&Metadata>) -> io::Result<()> {
    if let Some(like) = like {
        // Only a privileged process can change the owner, and only then is it needed.
        let _ = std::os::unix::fs::fchown(&file, Some(like.uid()), Some(like.gid()));
        file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o777))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Syncs the folder so that the new name survives a crash. If that fails, the file is still
/// complete.
fn sync_folder(path: &Path) {
    let folder = path.parent().and_then(|folder| File::open(folder).ok());
    let _ = folder.map(|folder| folder.sync_all());
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn refused(what: &str, path: &Path, error: io::Error) -> ToolError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Denied,
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Unavailable,
    };
    ToolError::new(kind, format!("{} {what}: {error}", path.display()))
        .hint("fix the permissions there, or add the entry by hand; `--print` shows it")
        .caused_by(error)
}
