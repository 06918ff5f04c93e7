//! The paths of a git directory that make git run something or read settings from elsewhere.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::Read,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStringExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Dir, FileType, OFlags},
    io::Errno,
};

use super::config;
use crate::{
    files::root::Root,
    processes::folders::{RootFolders, StatStamp},
};

/// No setting or pointer is larger; a larger file counts as dangerous.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A path that git would run or obey.
pub(super) struct GuardedPath {
    pub(super) stamp: StatStamp,
    /// True for a settings file in which no setting has an effect.
    pub(super) is_harmless: bool,
    /// The content and mode of a file, to restore it.
    pub(super) content: Option<(Vec<u8>, u32)>,
}

/// Guarded paths by path below the root.
pub(super) type GuardedPaths = BTreeMap<PathBuf, GuardedPath>;

/// Returns everything below a root that git would run or obey.
pub(super) fn guarded_paths(root: &Root, folders: &RootFolders) -> GuardedPaths {
    let mut found = PathFinder { root, folders, guarded_paths: GuardedPaths::new() };
    for (path, folder) in folders {
        let path = Path::new(path);
        // Commands cannot reach anything in there, including quarantined files.
        if path.starts_with(".haft") {
            continue;
        }
        if folder.has_git {
            found.pointer(path);
        }
        if folder.is_git {
            found.directory(path);
        }
    }
    found.guarded_paths
}

/// Opens a path below the root without following links.
pub(super) fn open(root: &Root, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    root.open_at(if path.as_os_str().is_empty() { Path::new(".") } else { path }, flags)
}

/// Returns the content and mode of a regular file that is not too large.
fn read(root: &Root, path: &Path) -> Option<(Vec<u8>, u32)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = std::fs::File::from(open(root, path, flags).ok()?);
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_FILE_BYTES).then_some((bytes, metadata.mode()))
}

/// Returns the names in a directory; none if it is not one.
fn names(root: &Root, path: &Path) -> Vec<OsString> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(directory) = open(root, path, flags).and_then(Dir::new) else { return Vec::new() };
    let names =
        directory.flatten().map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()));
    names.filter(|name| name != "." && name != "..").collect()
}

struct PathFinder<'a> {
    root: &'a Root,
    folders: &'a RootFolders,
    guarded_paths: GuardedPaths,
}

impl PathFinder<'_> {
    /// Checks the `.git` of a work tree that is a file or link instead of a directory.
    fn pointer(&mut self, tree: &Path) {
        let git = tree.join(".git");
        match self.kind(&git) {
            None | Some(FileType::Directory) => {}
            Some(FileType::RegularFile) if self.leads_to_known_directory(tree, &git) => {}
            Some(_) => self.note(&git),
        }
    }

    /// Returns true when the file of a submodule or worktree points to a git directory of this
    /// root, which is checked itself.
    fn leads_to_known_directory(&self, tree: &Path, git: &Path) -> bool {
        let Some(text) = self.text(git) else { return false };
        let Some(target) = text.strip_prefix("gitdir:") else { return false };
        let target = self.below_root(tree, target.trim());
        target
            .and_then(|target| self.folders.get(target.as_os_str()))
            .is_some_and(|folder| folder.is_git)
    }

    fn directory(&mut self, git: &Path) {
        let is_worktree = git.parent().and_then(Path::file_name) == Some(OsStr::new("worktrees"));
        self.note_unless(&git.join("commondir"), |_, text| {
            is_worktree && text.trim_end() == "../.."
        });
        self.note_unless(&git.join("gitdir"), |found, text| {
            is_worktree && found.below_root(git, text.trim_end()).is_some()
        });
        let objects = git.join("objects");
        self.note_unless(&git.join("objects/info/alternates"), |found, text| {
            text.lines().all(|line| found.below_root(&objects, line).is_some())
        });
        // `exec` lines are run by the next `git rebase --continue`.
        self.note_unless(&git.join("rebase-merge/git-rebase-todo"), |_, text| {
            let runs = |line: &str| matches!(line.split_whitespace().next(), Some("exec" | "x"));
            !text.lines().any(runs)
        });
        for name in ["info/attributes", "info/grafts"] {
            self.note(&git.join(name));
        }
        self.links(git);
        for folder in ["hooks", "remotes", "branches"] {
            for name in names(self.root, &git.join(folder)) {
                let is_sample = Path::new(&name).extension() == Some(OsStr::new("sample"));
                if folder != "hooks" || !is_sample {
                    self.note(&git.join(folder).join(name));
                }
            }
        }
        for name in ["config", "config.worktree"] {
            self.settings(&git.join(name), git);
        }
    }

    /// Checks names that are folders in every repository, and would lead elsewhere as links.
    fn links(&mut self, git: &Path) {
        for folder in [
            "hooks",
            "info",
            "objects",
            "objects/info",
            "modules",
            "worktrees",
            "remotes",
            "branches",
            "rebase-merge",
        ] {
            let path = git.join(folder);
            if self.kind(&path).is_some_and(|kind| kind != FileType::Directory) {
                self.note(&path);
            }
        }
    }

    fn settings(&mut self, path: &Path, git: &Path) {
        let Some(stamp) = super::stamp_at(self.root, path) else { return };
        let content = read(self.root, path);
        let text = content.as_ref().and_then(|(bytes, _)| std::str::from_utf8(bytes).ok());
        let stays_inside = |value: &str| self.below_root(git, value).is_some();
        let is_harmless = text.is_some_and(|text| config::is_harmless(text, stays_inside));
        self.guarded_paths.insert(path.to_owned(), GuardedPath { stamp, is_harmless, content });
    }

    fn note_unless(&mut self, path: &Path, is_harmless: impl Fn(&Self, &str) -> bool) {
        if self.kind(path).is_some()
            && !self.text(path).is_some_and(|text| is_harmless(self, &text))
        {
            self.note(path);
        }
    }

    fn note(&mut self, path: &Path) {
        if let Some(stamp) = super::stamp_at(self.root, path) {
            let content = read(self.root, path);
            self.guarded_paths
                .insert(path.to_owned(), GuardedPath { stamp, is_harmless: false, content });
        }
    }

    fn kind(&self, path: &Path) -> Option<FileType> {
        super::stamp_at(self.root, path).map(|stamp| stamp.kind)
    }

    fn text(&self, path: &Path) -> Option<String> {
        String::from_utf8(read(self.root, path)?.0).ok()
    }

    /// Resolves a path relative to a folder; None when it leaves the root.
    fn below_root(&self, from: &Path, path: &str) -> Option<PathBuf> {
        let target = folded(&self.root.path.join(from).join(path))?;
        target.strip_prefix(&self.root.path).ok().map(Path::to_owned)
    }
}

/// Removes `.` and `..` from the path lexically: links are not followed here.
fn folded(path: &Path) -> Option<PathBuf> {
    let mut folded = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                if !folded.pop() {
                    return None;
                }
            }
            std::path::Component::CurDir => {}
            other => folded.push(other),
        }
    }
    Some(folded)
}
