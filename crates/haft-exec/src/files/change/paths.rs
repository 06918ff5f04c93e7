//! Changes of names, not of content: renaming, removing, creating directories.

use std::{
    ffi::OsString,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

use haft_core::{
    ErrorKind, ToolError,
    files::{FileGrant, FileKind},
};
use rustix::{
    fs::{self, AtFlags, RenameFlags},
    io::Errno,
};

use super::{
    descend::{TreeVisitor, descend, identity, names, open},
    directories::CreatedDirectories,
    journal,
    staging_area::{HAFT_DIRECTORY, StagingArea, remove_tree},
    targets::{TargetLocation, changed_concurrently, find_target, lock_targets},
};
use crate::files::{
    locate::LastLink,
    metadata,
    root::{mount_of, same_mount},
    workspace::Workspace,
};

pub(crate) fn rename(
    workspace: &Workspace,
    from: &Path,
    to: &Path,
    replace: bool,
    grant: &FileGrant,
) -> Result<(PathBuf, PathBuf), ToolError> {
    let wanted = [(from, LastLink::Keep), (to, LastLink::Keep)];
    check_not_root(workspace, &wanted, grant)?;
    let (mut locations, _locks) = lock_targets(workspace, &wanted, grant)?;
    let (Some(to), Some(from)) = (locations.pop(), locations.pop()) else {
        return Err(ToolError::internal("two paths have two places"));
    };
    let fail = |location: &TargetLocation<'_>, error| {
        move_failure(workspace, location, &to.shown, error, grant)
    };
    let moving = kind(&from).map_err(|error| fail(&from, error))?;
    if moving == FileKind::Directory {
        AccessCheck { workspace, location: &from, new: Some(&to), grant }.check()?;
    }
    match kind(&to) {
        Ok(_) if !replace => return Err(is_taken(&to.shown)),
        Ok(there) if there == FileKind::Directory || moving == FileKind::Directory => {
            return Err(is_not_replaced(&to.shown, there));
        }
        _ => {}
    }
    let begun = journal::begin_move(grant, &from, &to)?;
    let mut made = CreatedDirectories::default();
    let moved = made.open(&to).map_err(|error| fail(&to, error)).and_then(|directory| {
        move_name(&from, &to, &directory, replace).map_err(|error| fail(&from, error))?;
        Ok(directory)
    });
    if moved.is_err() {
        made.remove();
    }
    journal::settle(begun, &moved);
    for changed in [&moved?, &from.above] {
        fs::fsync(changed).map_err(|error| fail(&to, error))?;
    }
    made.sync();
    Ok((from.shown, to.shown))
}

fn move_name(
    from: &TargetLocation<'_>,
    to: &TargetLocation<'_>,
    directory: &OwnedFd,
    replace: bool,
) -> Result<(), Errno> {
    // For two names of the same file the system keeps both and reports success.
    if replace && is_same_file(from, to) {
        let is_same_name = identity(&from.above)? == identity(directory)? && from.name == to.name;
        let unlink = || fs::unlinkat(&from.above, &from.name, AtFlags::empty());
        return if is_same_name { Ok(()) } else { unlink() };
    }
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match fs::renameat_with(&from.above, &from.name, directory, &to.name, flags) {
        // An old file system cannot do this atomically; the check just before has to suffice.
        Err(Errno::INVAL | Errno::NOSYS) if !to.path.starts_with(&from.path) => {
            fs::renameat(&from.above, &from.name, directory, &to.name)?;
        }
        moved => moved?,
    }
    Ok(())
}

fn is_same_file(from: &TargetLocation<'_>, to: &TargetLocation<'_>) -> bool {
    let identity = |location: &TargetLocation<'_>| {
        let stat = fs::statat(&location.above, &location.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((stat.st_dev, stat.st_ino))
    };
    to.missing.is_empty() && identity(from).is_some() && identity(from) == identity(to)
}

fn is_not_replaced(shown: &Path, there: FileKind) -> ToolError {
    let (shown, there) = (shown.display(), there.name());
    let message =
        format!("`{shown}` is a {there}; a directory cannot replace anything or be replaced");
    ToolError::conflict(message).hint("name the new path in full, or delete what is there first")
}

/// Refuses to move or remove the workspace or another root.
fn check_not_root(
    workspace: &Workspace,
    paths: &[(&Path, LastLink)],
    grant: &FileGrant,
) -> Result<(), ToolError> {
    for (path, last) in paths {
        let located = workspace.located(path, *last, grant)?;
        if located.path == Path::new(".") {
            let message =
                format!("`{}` is the workspace itself, or a root", located.shown.display());
            return Err(ToolError::input(message).hint("name a path inside it"));
        }
    }
    Ok(())
}

fn is_taken(shown: &Path) -> ToolError {
    ToolError::conflict(format!("`{}` already exists", shown.display()))
        .hint("choose another path, or set on_conflict to overwrite to replace a file")
}

fn move_failure(
    workspace: &Workspace,
    location: &TargetLocation<'_>,
    to: &Path,
    error: Errno,
    grant: &FileGrant,
) -> ToolError {
    let target = to.display();
    match error {
        Errno::EXIST | Errno::NOTEMPTY => is_taken(to),
        Errno::STALE => changed_concurrently(to),
        Errno::INVAL => ToolError::input(format!("`{target}` is inside the directory to move"))
            .hint("choose a path outside of it"),
        Errno::XDEV => {
            let message =
                format!("`{}` and `{target}` are on different disks", location.shown.display());
            ToolError::new(ErrorKind::Unsupported, message)
                .hint("write the content to the new path, then delete the old one")
        }
        error => workspace.failure(&location.shown, error, grant),
    }
}

pub(crate) fn remove(
    workspace: &Workspace,
    path: &Path,
    recursive: bool,
    grant: &FileGrant,
) -> Result<(PathBuf, u64), ToolError> {
    let wanted = [(path, LastLink::Keep)];
    check_not_root(workspace, &wanted, grant)?;
    let (mut locations, _locks) = lock_targets(workspace, &wanted, grant)?;
    let location = locations.pop().ok_or_else(|| ToolError::internal("one path has one place"))?;
    let shown = location.shown.clone();
    let fail = |error| workspace.failure(&shown, error, grant);
    let kind = kind(&location).map_err(fail)?;
    if kind == FileKind::Directory && recursive {
        AccessCheck { workspace, location: &location, new: None, grant }.check()?;
    } else if kind == FileKind::Directory {
        // A directory that cannot be listed may be empty: removing it shows.
        is_empty(&location).unwrap_or(true).then_some(()).ok_or_else(|| not_empty(&shown))?;
    }
    let begun = journal::begin_removal(workspace, grant, &location)?;
    let removed = match kind {
        FileKind::Directory if recursive => remove_directory(&location, workspace.lock_timeout)
            .map_err(|(removed, error)| partly(&shown, removed, fail(error))),
        FileKind::Directory => {
            match fs::unlinkat(&location.above, &location.name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => Err(not_empty(&shown)),
                done => done.map(|()| 1).map_err(fail),
            }
        }
        _ => fs::unlinkat(&location.above, &location.name, AtFlags::empty())
            .map(|()| 1)
            .map_err(fail),
    };
    journal::settle(begun, &removed);
    let removed = removed?;
    fs::fsync(&location.above).map_err(fail)?;
    Ok((location.shown, removed))
}

fn not_empty(shown: &Path) -> ToolError {
    ToolError::conflict(format!("the directory `{}` is not empty", shown.display()))
        .hint("set recursive to delete it with its contents")
}

/// Checked before the journal entry is written, so that a refusal leaves no entry.
fn is_empty(location: &TargetLocation<'_>) -> Result<bool, Errno> {
    Ok(names(&open(&location.above, &location.name)?)?.is_empty())
}

fn partly(shown: &Path, removed: u64, error: ToolError) -> ToolError {
    if removed == 0 {
        return error;
    }
    let message =
        format!("`{}` was deleted only in part, {removed} entries: {error}", shown.display());
    ToolError::new(ErrorKind::Partial, message).hint("list what is left, then decide")
}

/// Moves the directory into the staging area as a whole, then removes it there, where a crash
/// leaves it to be swept. If it cannot be removed it is moved back.
fn remove_directory(
    location: &TargetLocation<'_>,
    lock_timeout: Duration,
) -> Result<u64, (u64, Errno)> {
    let area = match StagingArea::open(location.root, lock_timeout) {
        Ok(area) if !location.path.starts_with(HAFT_DIRECTORY) => area,
        // Nothing can move into itself, and without a staging area it is removed in place.
        _ => return remove_tree(&location.above, &location.name),
    };
    let gone = OsString::from(StagingArea::name());
    match fs::renameat(&location.above, &location.name, &area.handle, &gone) {
        Err(Errno::XDEV) => return remove_tree(&location.above, &location.name),
        moved => moved.map_err(|error| (0, error))?,
    }
    remove_tree(&area.handle, &gone).inspect_err(|_| {
        let back = RenameFlags::NOREPLACE;
        let _ = fs::renameat_with(&area.handle, &gone, &location.above, &location.name, back);
    })
}

pub(crate) fn make_directory(
    workspace: &Workspace,
    path: &Path,
    grant: &FileGrant,
) -> Result<(PathBuf, bool), ToolError> {
    let located = workspace.located(path, LastLink::Follow, grant)?;
    if located.path == Path::new(".") {
        return Ok((located.shown, false));
    }
    let mut location = find_target(workspace, path, LastLink::Follow, grant)?;
    match kind(&location) {
        Ok(FileKind::Directory) => return Ok((location.shown, false)),
        Ok(kind) => {
            let message =
                format!("`{}` already exists, as a {}", location.shown.display(), kind.name());
            return Err(ToolError::conflict(message).hint("choose another path"));
        }
        Err(_) => {}
    }
    let begun = journal::begin_directories(grant, &location)?;
    location.missing.push(location.name.clone());
    let mut made = CreatedDirectories::default();
    let opened = made.open(&location).map_err(|error| match error {
        Errno::STALE => changed_concurrently(&location.shown),
        error => workspace.failure(&location.shown, error, grant),
    });
    journal::settle(begun, &opened);
    if let Err(error) = opened {
        made.remove();
        return Err(error);
    }
    made.sync();
    Ok((location.shown, made.are_new()))
}

/// Returns the kind of the target; a link counts as a link.
fn kind(location: &TargetLocation<'_>) -> Result<FileKind, Errno> {
    if !location.missing.is_empty() {
        return Err(Errno::NOENT);
    }
    let stat = fs::statat(&location.above, &location.name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(metadata::kind(fs::FileType::from_raw_mode(stat.st_mode)))
}

/// Checks that the call may access everything in a directory that is moved or removed, under its
/// new name too.
struct AccessCheck<'a> {
    workspace: &'a Workspace,
    location: &'a TargetLocation<'a>,
    new: Option<&'a TargetLocation<'a>>,
    grant: &'a FileGrant,
}

impl AccessCheck<'_> {
    fn check(mut self) -> Result<(), ToolError> {
        let top = open(&self.location.above, &self.location.name)
            .and_then(|top| same_mount(&top, mount_of(&self.location.above)?).map(|()| top))
            .map_err(|error| self.failed(Path::new(""), error))?;
        descend(top, &mut self)
    }
}

impl TreeVisitor for AccessCheck<'_> {
    type VisitError = ToolError;

    fn entry(&mut self, directory: &OwnedFd, path: &Path) -> Result<bool, ToolError> {
        for location in [Some(self.location), self.new].into_iter().flatten() {
            self.grant.check(&location.shown.join(path))?;
        }
        let name = path.file_name().unwrap_or_default();
        let stat = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| self.failed(path, error))?;
        Ok(fs::FileType::from_raw_mode(stat.st_mode).is_dir())
    }

    fn left(&mut self, _: &OwnedFd, _: &Path) -> Result<(), ToolError> {
        Ok(())
    }

    fn failed(&self, path: &Path, error: Errno) -> ToolError {
        match error {
            Errno::STALE => changed_concurrently(&self.location.shown.join(path)),
            error => self.workspace.failure(&self.location.shown.join(path), error, self.grant),
        }
    }
}
