//! Other programs' configuration on the disk: read whole, replaced in one step, and never without a copy of what was
//! there. A link is followed, because dotfiles are often links into a repository.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use haft_core::{ErrorKind, ToolError};

/// Claude Code keeps whole conversations in its file; beyond this it is not a configuration any more.
const LARGEST: u64 = 64 << 20;
/// How many names are tried before something else must be wrong.
const MOST_NAMES: usize = 100;

/// A file as it is now.
#[derive(Debug)]
pub(super) struct Found {
    /// Where it really lies.
    pub(super) path: PathBuf,
    /// None when it is not there.
    pub(super) text: Option<String>,
}

/// # Errors
/// When it is there and cannot be read as text.
pub(super) fn look(path: &Path) -> Result<Found, ToolError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Found { path: real_place(path), text: None });
        }
        Err(error) => return Err(refused("cannot be looked at", path, error)),
        Ok(_) => {}
    }
    let real = path.canonicalize().map_err(|error| {
        let message = format!("{} is a link that leads nowhere: {error}", path.display());
        ToolError::not_found(message).hint("mend or remove the link, then call again")
    })?;
    let metadata = real.metadata().map_err(|error| refused("cannot be looked at", &real, error))?;
    check_sort(&real, &metadata)?;
    let bytes = fs::read(&real).map_err(|error| refused("cannot be read", &real, error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("{} is not UTF-8: byte {at} begins no character", real.display());
        ToolError::new(ErrorKind::Unsupported, message).hint("save it as UTF-8, then call again")
    })?;
    Ok(Found { path: real, text: Some(text) })
}

/// Where something that is not there yet would really lie, so that it is known again once it is there.
fn real_place(path: &Path) -> PathBuf {
    let real = |folder: &Path| {
        let rest = path.strip_prefix(folder).ok()?;
        folder.canonicalize().ok().map(|folder| folder.join(rest))
    };
    path.ancestors().skip(1).find_map(real).unwrap_or_else(|| path.to_owned())
}

fn check_sort(path: &Path, metadata: &Metadata) -> Result<(), ToolError> {
    if !metadata.is_file() {
        let message = format!("{} is not a regular file", path.display());
        return Err(ToolError::new(ErrorKind::Unsupported, message)
            .hint("move it out of the way, then call again"));
    }
    if metadata.len() > LARGEST {
        let message = format!("{} is larger than {LARGEST} bytes", path.display());
        return Err(ToolError::new(ErrorKind::TooLarge, message)
            .hint("add the entry by hand; `--print` shows it"));
    }
    Ok(())
}

/// Puts `text` in the place of what is there, in one step: whoever reads meanwhile sees the old or the new. Mode and owner
/// stay.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), ToolError> {
    let present = path.metadata().ok();
    let fail = |error| refused("cannot be written", path, error);
    let (unfinished, file) = create_beside(path, present.as_ref(), |n| {
        format!(".{}.haft-{}-{n}", file_name(path), std::process::id())
    })
    .map_err(fail)?;
    let written = fill(file, text, present.as_ref()).and_then(|()| fs::rename(&unfinished, path));
    if let Err(error) = written {
        // What is left over would only be in the way; the error that is told is the first one.
        let _ = fs::remove_file(&unfinished);
        return Err(fail(error));
    }
    sync_folder(path);
    Ok(())
}

/// Keeps a copy of `text` beside the file and says where. Never in the place of an older copy.
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

/// Makes the folder a file lies in, and says which had to be made, the innermost last.
pub(super) fn make_folder_of(path: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let Some(folder) = path.parent() else { return Ok(Vec::new()) };
    let mut missing: Vec<PathBuf> =
        folder.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    missing.reverse();
    fs::create_dir_all(folder).map_err(|error| refused("cannot be made", folder, error))?;
    Ok(missing)
}

/// # Errors
/// When it is there and stays.
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
        let beside = path.with_file_name(name(n));
        n += 1;
        match options.open(&beside) {
            Ok(file) => return Ok((beside, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n < MOST_NAMES => {}
            Err(error) => return Err(error),
        }
    }
}

fn fill(mut file: File, text: &str, like: Option<&Metadata>) -> io::Result<()> {
    if let Some(like) = like {
        // Only a privileged caller can give a file away, and only then is there somebody to give it to.
        let _ = std::os::unix::fs::fchown(&file, Some(like.uid()), Some(like.gid()));
        file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o777))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// So that the new name survives a crash. Where a folder cannot be synced the file is still whole.
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
        .hint("mend the permissions there, or add the entry by hand; `--print` shows it")
        .caused_by(error)
}
