//! What git outside the sandbox would run or take as configuration. Mounts protect what exists of it in the repository of
//! the workspace; a command can still create it, there or in a repository of its own. So it is looked for before a command
//! and after it, and what is new is moved into quarantine below `.haft`.

mod config;
mod repository;

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{commands::Denial, files::FileGrant};
use rustix::fs::{self, AtFlags, Mode, OFlags};

use self::repository::{Place, Places};
use super::folders::{CutOff, FileStamp, Folders, Look};
use crate::{Workspace, files::root::Root};

/// Where it is put, below a root.
const QUARANTINE: &str = ".haft/quarantine";
/// As for the look before a command.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// How far the guard looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// At repositories that were there before the command: tests make their own, and take them away again.
    Known,
    /// At all.
    All,
}

/// Guards the roots of a workspace while one command runs.
pub(crate) struct GitGuard {
    workspace: Arc<Workspace>,
    folders: Arc<Folders>,
    grant: FileGrant,
    /// The look before the command.
    look: Look,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What was there before the command, by root: a person's own hooks and settings stay.
    before: Vec<Places>,
    moved: Vec<Denial>,
}

impl GitGuard {
    /// Notes what is there before a command starts.
    pub(crate) fn before(
        workspace: &Arc<Workspace>,
        folders: &Arc<Folders>,
        grant: &FileGrant,
        look: Look,
    ) -> Self {
        let roots = workspace.roots.iter().zip(&look.roots);
        let before = roots.map(|(root, folders)| repository::places(root, folders)).collect();
        Self {
            workspace: workspace.clone(),
            folders: folders.clone(),
            grant: grant.clone(),
            look,
            state: Mutex::new(State { before, moved: Vec::new() }),
        }
    }

    /// Moves away what has appeared or changed since then.
    pub(crate) fn look_again(&self, reach: Reach) {
        let mut state = self.state();
        let State { before, moved } = &mut *state;
        let look = match reach {
            Reach::Known => self.look.clone(),
            Reach::All => self.look_at_folders(moved),
        };
        for ((root, before), folders) in self.workspace.roots.iter().zip(before).zip(&look.roots) {
            for (path, place) in repository::places(root, folders) {
                let known = before.get_mut(&path);
                let is_known = known.as_ref().is_some_and(|known| known.stamp == place.stamp);
                if !place.is_harmless && !is_known {
                    moved.push(put_aside(root, &path, known));
                }
            }
        }
    }

    /// All folders as they are now; those that cannot be looked at are named.
    fn look_at_folders(&self, unseen: &mut Vec<Denial>) -> Look {
        let begun = Instant::now();
        let stop = || begun.elapsed() > LOOK_TIMEOUT;
        let (look, missed) = match self.folders.look(&self.workspace, &self.grant, &stop) {
            Ok(look) => (look.clone(), look.unreadable),
            Err(CutOff(root)) => (self.look.clone(), vec![root]),
        };
        for folder in missed {
            let refusal = not_looked_at(&folder);
            if unseen.iter().all(|known| known.what != refusal.what) {
                unseen.push(refusal);
            }
        }
        look
    }

    /// What was moved away so far, with where it lies.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        self.state().moved.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn not_looked_at(folder: &Path) -> Denial {
    let shown = folder.display();
    Denial {
        what: format!("look for git settings in `{shown}`"),
        why: "the command may have left some there that git would obey".to_owned(),
        remedy: format!("look through `{shown}` before you use git in it"),
        is_reverted: true,
    }
}

/// Moves it away and puts back what was there before the command.
fn put_aside(root: &Root, path: &Path, before: Option<&mut Place>) -> Denial {
    let why = "git outside the sandbox would run it or take it as configuration";
    let remedy = match quarantine(root, path) {
        Ok(kept) => {
            let restored = before.is_some_and(|before| restore(root, path, before));
            let restored = if restored { ", and what was there before is back" } else { "" };
            format!(
                "it was moved to `{}`{restored}; a person who wants it looks at it and moves it back",
                kept.display()
            )
        }
        Err(error) => {
            format!("it could not be moved away ({error}): remove it before you use git here")
        }
    };
    let shown = root.shown(path);
    let what = format!("leave `{}` behind", shown.display());
    Denial { what, why: why.to_owned(), remedy, is_reverted: true }
}

/// By handles, so that a command that still runs cannot lead it elsewhere by a link.
fn quarantine(root: &Root, path: &Path) -> Result<PathBuf, rustix::io::Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(rustix::io::Errno::INVAL);
    };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let from = repository::open(root, parent, directory)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let kept = Path::new(QUARANTINE).join(format!("{:x}", since.as_nanos())).join(path);
    let mut made = PathBuf::new();
    for part in kept.parent().unwrap_or(Path::new("")) {
        let below = repository::open(root, &made, directory)?;
        match fs::mkdirat(&below, part, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => made.push(part),
            Err(error) => return Err(error),
        }
    }
    let to = repository::open(root, &made, directory)?;
    match fs::renameat(&from, name, &to, name) {
        Ok(()) => Ok(root.shown(&kept)),
        // Another file system is mounted there: a name that git does not know is enough.
        Err(rustix::io::Errno::XDEV) => {
            let aside = format!("{}.quarantine-{:x}", name.to_string_lossy(), since.as_nanos());
            fs::renameat(&from, name, &from, &aside)?;
            Ok(root.shown(&parent.join(aside)))
        }
        Err(error) => Err(error),
    }
}

/// Whether a file is as it was before again.
fn restore(root: &Root, path: &Path, before: &mut Place) -> bool {
    let Some((content, mode)) = &before.content else { return false };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let Ok(file) = root.open_with(path, flags, Mode::from_raw_mode(mode & 0o777)) else {
        return false;
    };
    let is_written = std::fs::File::from(file).write_all(content).is_ok();
    if let Some(stamp) = stamp_at(root, path).filter(|_| is_written) {
        before.stamp = stamp;
    }
    is_written
}

/// What is at a path now, the link itself where it is one.
fn stamp_at(root: &Root, path: &Path) -> Option<FileStamp> {
    let (parent, name) = (path.parent()?, path.file_name()?);
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = repository::open(root, parent, directory).ok()?;
    let stat = fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileStamp::of(&stat))
}
