//! Changes that are about names, not content: moving, removing, making directories.

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
    area::{Area, HOME, remove_tree},
    descend::{Visit, descend, identity, names, open},
    directories::Directories,
    hold::{Seat, changed_meanwhile, hold, seat},
    journal,
};
use crate::files::{
    facts,
    locate::LastLink,
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
    let (mut seats, _locks) = hold(workspace, &wanted, grant)?;
    let (Some(to), Some(from)) = (seats.pop(), seats.pop()) else {
        return Err(ToolError::internal("two paths have two places"));
    };
    let fail = |seat: &Seat<'_>, error| move_failure(workspace, seat, &to.shown, error, grant);
    let moving = kind(&from).map_err(|error| fail(&from, error))?;
    if moving == FileKind::Directory {
        Below { workspace, seat: &from, new: Some(&to), grant }.check()?;
    }
    match kind(&to) {
        Ok(_) if !replace => return Err(is_taken(&to.shown)),
        Ok(there) if there == FileKind::Directory || moving == FileKind::Directory => {
            return Err(is_not_replaced(&to.shown, there));
        }
        _ => {}
    }
    let begun = journal::begin_move(grant, &from, &to)?;
    let mut made = Directories::default();
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
    from: &Seat<'_>,
    to: &Seat<'_>,
    directory: &OwnedFd,
    replace: bool,
) -> Result<(), Errno> {
    // Of two names for one file the system leaves both, and calls it done.
    if replace && is_same_file(from, to) {
        let is_same_name = identity(&from.above)? == identity(directory)? && from.name == to.name;
        let gone = || fs::unlinkat(&from.above, &from.name, AtFlags::empty());
        return if is_same_name { Ok(()) } else { gone() };
    }
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match fs::renameat_with(&from.above, &from.name, directory, &to.name, flags) {
        // An old file system; the look just before has to do.
        Err(Errno::INVAL | Errno::NOSYS) if !to.path.starts_with(&from.path) => {
            fs::renameat(&from.above, &from.name, directory, &to.name)?;
        }
        moved => moved?,
    }
    Ok(())
}

fn is_same_file(from: &Seat<'_>, to: &Seat<'_>) -> bool {
    let identity = |seat: &Seat<'_>| {
        let stat = fs::statat(&seat.above, &seat.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((stat.st_dev, stat.st_ino))
    };
    to.missing.is_empty() && identity(from).is_some() && identity(from) == identity(to)
}

fn is_not_replaced(shown: &Path, there: FileKind) -> ToolError {
    let (shown, there) = (shown.display(), there.name());
    let message = format!("`{shown}` is a {there}; directories replace nothing, nor are replaced");
    ToolError::conflict(message).hint("name the new path in full, or delete what is there first")
}

/// The workspace itself and further roots stay where they are.
fn check_not_root(
    workspace: &Workspace,
    paths: &[(&Path, LastLink)],
    grant: &FileGrant,
) -> Result<(), ToolError> {
    for (path, last) in paths {
        let spot = workspace.spot(path, *last, grant)?;
        if spot.path == Path::new(".") {
            let message = format!("`{}` is the workspace itself, or a root", spot.shown.display());
            return Err(ToolError::input(message).hint("name something in it"));
        }
    }
    Ok(())
}

fn is_taken(shown: &Path) -> ToolError {
    ToolError::conflict(format!("there is already something at `{}`", shown.display()))
        .hint("choose another path, or set on_conflict to overwrite to replace a file")
}

fn move_failure(
    workspace: &Workspace,
    seat: &Seat<'_>,
    to: &Path,
    error: Errno,
    grant: &FileGrant,
) -> ToolError {
    let target = to.display();
    match error {
        Errno::EXIST | Errno::NOTEMPTY => is_taken(to),
        Errno::STALE => changed_meanwhile(to),
        Errno::INVAL => ToolError::input(format!("`{target}` lies inside what is to be moved"))
            .hint("choose a path outside of it"),
        Errno::XDEV => {
            let message =
                format!("`{}` and `{target}` are on different disks", seat.shown.display());
            ToolError::new(ErrorKind::Unsupported, message)
                .hint("write the content to the new path, then delete the old one")
        }
        error => workspace.failure(&seat.shown, error, grant),
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
    let (mut seats, _locks) = hold(workspace, &wanted, grant)?;
    let seat = seats.pop().ok_or_else(|| ToolError::internal("one path has one place"))?;
    let shown = seat.shown.clone();
    let fail = |error| workspace.failure(&shown, error, grant);
    let kind = kind(&seat).map_err(fail)?;
    if kind == FileKind::Directory && recursive {
        Below { workspace, seat: &seat, new: None, grant }.check()?;
    } else if kind == FileKind::Directory {
        // What cannot be looked into may be empty all the same: then removing it tells.
        is_empty(&seat).unwrap_or(true).then_some(()).ok_or_else(|| not_empty(&shown))?;
    }
    let begun = journal::begin_removal(workspace, grant, &seat)?;
    let removed = match kind {
        FileKind::Directory if recursive => remove_directory(&seat, workspace.patience)
            .map_err(|(removed, error)| partly(&shown, removed, fail(error))),
        FileKind::Directory => match fs::unlinkat(&seat.above, &seat.name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Err(not_empty(&shown)),
            done => done.map(|()| 1).map_err(fail),
        },
        _ => fs::unlinkat(&seat.above, &seat.name, AtFlags::empty()).map(|()| 1).map_err(fail),
    };
    journal::settle(begun, &removed);
    let removed = removed?;
    fs::fsync(&seat.above).map_err(fail)?;
    Ok((seat.shown, removed))
}

fn not_empty(shown: &Path) -> ToolError {
    ToolError::conflict(format!("the directory `{}` is not empty", shown.display()))
        .hint("set recursive to delete it with all it holds")
}

/// Looked at before the journal is told, so that a refusal leaves no trace there.
fn is_empty(seat: &Seat<'_>) -> Result<bool, Errno> {
    Ok(names(&open(&seat.above, &seat.name)?)?.is_empty())
}

fn partly(shown: &Path, removed: u64, error: ToolError) -> ToolError {
    if removed == 0 {
        return error;
    }
    let message =
        format!("`{}` is not gone, but {removed} entries of it are: {error}", shown.display());
    ToolError::new(ErrorKind::Partial, message).hint("list what is left of it, then decide")
}

/// Takes the directory away as a whole, then removes it where a crash would leave it to be swept. What cannot be removed
/// comes back.
fn remove_directory(seat: &Seat<'_>, patience: Duration) -> Result<u64, (u64, Errno)> {
    let area = match Area::open(seat.root, patience) {
        Ok(area) if !seat.path.starts_with(HOME) => area,
        // Nothing moves into itself, and where there is no area it is removed in its place.
        _ => return remove_tree(&seat.above, &seat.name),
    };
    let gone = OsString::from(Area::name());
    match fs::renameat(&seat.above, &seat.name, &area.handle, &gone) {
        Err(Errno::XDEV) => return remove_tree(&seat.above, &seat.name),
        moved => moved.map_err(|error| (0, error))?,
    }
    remove_tree(&area.handle, &gone).inspect_err(|_| {
        let back = RenameFlags::NOREPLACE;
        let _ = fs::renameat_with(&area.handle, &gone, &seat.above, &seat.name, back);
    })
}

pub(crate) fn make_directory(
    workspace: &Workspace,
    path: &Path,
    grant: &FileGrant,
) -> Result<(PathBuf, bool), ToolError> {
    let spot = workspace.spot(path, LastLink::Follow, grant)?;
    if spot.path == Path::new(".") {
        return Ok((spot.shown, false));
    }
    let mut seat = seat(workspace, path, LastLink::Follow, grant)?;
    match kind(&seat) {
        Ok(FileKind::Directory) => return Ok((seat.shown, false)),
        Ok(kind) => {
            let message =
                format!("`{}` is there already, as a {}", seat.shown.display(), kind.name());
            return Err(ToolError::conflict(message).hint("choose another path"));
        }
        Err(_) => {}
    }
    let begun = journal::begin_directories(grant, &seat)?;
    seat.missing.push(seat.name.clone());
    let mut made = Directories::default();
    let opened = made.open(&seat).map_err(|error| match error {
        Errno::STALE => changed_meanwhile(&seat.shown),
        error => workspace.failure(&seat.shown, error, grant),
    });
    journal::settle(begun, &opened);
    if let Err(error) = opened {
        made.remove();
        return Err(error);
    }
    made.sync();
    Ok((seat.shown, made.are_new()))
}

/// What has the name, a link as itself.
fn kind(seat: &Seat<'_>) -> Result<FileKind, Errno> {
    if !seat.missing.is_empty() {
        return Err(Errno::NOENT);
    }
    let stat = fs::statat(&seat.above, &seat.name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(facts::kind(fs::FileType::from_raw_mode(stat.st_mode)))
}

/// A directory moves or goes with all it holds, so all it holds must be open to the call, under its new name too.
struct Below<'a> {
    workspace: &'a Workspace,
    seat: &'a Seat<'a>,
    new: Option<&'a Seat<'a>>,
    grant: &'a FileGrant,
}

impl Below<'_> {
    fn check(mut self) -> Result<(), ToolError> {
        let top = open(&self.seat.above, &self.seat.name)
            .and_then(|top| same_mount(&top, mount_of(&self.seat.above)?).map(|()| top))
            .map_err(|error| self.failed(Path::new(""), error))?;
        descend(top, &mut self)
    }
}

impl Visit for Below<'_> {
    type Failure = ToolError;

    fn entry(&mut self, directory: &OwnedFd, path: &Path) -> Result<bool, ToolError> {
        for seat in [Some(self.seat), self.new].into_iter().flatten() {
            self.grant.check(&seat.shown.join(path))?;
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
            Errno::STALE => changed_meanwhile(&self.seat.shown.join(path)),
            error => self.workspace.failure(&self.seat.shown.join(path), error, self.grant),
        }
    }
}
