//! The places of a git directory that make git run something or take settings from somewhere.

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
    processes::folders::{FileStamp, RootFolders},
};

/// No setting or pointer is larger; what is, is taken for dangerous.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Something that git would run or obey.
pub(super) struct Place {
    pub(super) stamp: FileStamp,
    /// It is a file of settings of which none does anything.
    pub(super) is_harmless: bool,
    /// What a file holds, and its mode, to bring it back.
    pub(super) content: Option<(Vec<u8>, u32)>,
}

/// Places by their paths below the root.
pub(super) type Places = BTreeMap<PathBuf, Place>;

/// Everything below a root that git would run or obey.
pub(super) fn places(root: &Root, folders: &RootFolders) -> Places {
    let mut found = Found { root, folders, places: Places::new() };
    for (path, folder) in folders {
        let path = Path::new(path);
        // What lies there is out of the reach of commands, what was moved away among it.
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
    found.places
}

/// Opens what is below the root without following any link.
pub(super) fn open(root: &Root, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    root.open_at(if path.as_os_str().is_empty() { Path::new(".") } else { path }, flags)
}

/// The bytes and the mode of a regular file, if it is one and not too large.
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

/// The names in a directory; none where it is none.
fn names(root: &Root, path: &Path) -> Vec<OsString> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(directory) = open(root, path, flags).and_then(Dir::new) else { return Vec::new() };
    let names =
        directory.flatten().map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()));
    names.filter(|name| name != "." && name != "..").collect()
}

struct Found<'a> {
    root: &'a Root,
    folders: &'a RootFolders,
    places: Places,
}

impl Found<'_> {
    /// The `.git` of a work tree, where it is no directory but leads to one.
    fn pointer(&mut self, tree: &Path) {
        let git = tree.join(".git");
        match self.kind(&git) {
            None | Some(FileType::Directory) => {}
            Some(FileType::RegularFile) if self.leads_to_known_directory(tree, &git) => {}
            Some(_) => self.note(&git),
        }
    }

    /// Whether the file of a submodule or worktree leads to a git directory of this root, which is looked through itself.
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

    /// What is a folder in every repository, and would lead elsewhere as a link.
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
        self.places.insert(path.to_owned(), Place { stamp, is_harmless, content });
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
            self.places.insert(path.to_owned(), Place { stamp, is_harmless: false, content });
        }
    }

    fn kind(&self, path: &Path) -> Option<FileType> {
        super::stamp_at(self.root, path).map(|stamp| stamp.kind)
    }

    fn text(&self, path: &Path) -> Option<String> {
        String::from_utf8(read(self.root, path)?.0).ok()
    }

    /// Where a path leads as seen from a folder, below the root; None when that is outside.
    fn below_root(&self, from: &Path, path: &str) -> Option<PathBuf> {
        let target = folded(&self.root.path.join(from).join(path))?;
        target.strip_prefix(&self.root.path).ok().map(Path::to_owned)
    }
}

/// The path without `.` and `..`, by its names alone: no link is followed in these places.
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
