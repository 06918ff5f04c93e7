//! Resolves the paths of files against the directories that the shell may be in.

use std::path::{Component, Path, PathBuf};

use super::{
    super::{Certainty, FileUse, Reach, Word, files::NamedFile},
    Walker,
};

/// Maximum number of directories that the shell may be in; with more its directory counts as
/// unknown.
const MAX_DIRECTORIES: usize = 8;

impl Walker<'_> {
    pub(super) fn file(&mut self, file: &NamedFile) {
        const FREE: &[&str] = &[
            "/dev/null",
            "/dev/stdin",
            "/dev/stdout",
            "/dev/stderr",
            "/dev/tty",
            "/dev/zero",
            "/dev/full",
            "/dev/random",
            "/dev/urandom",
        ];
        if let Some(root) = &file.word.below {
            let root = NamedFile { word: (**root).clone(), how: file.how, reach: Reach::Tree };
            return self.file(&root);
        }
        let word = &file.word;
        if self.is_remote || word.is_process || word.known().is_some_and(is_free) {
            return;
        }
        fn is_free(text: &str) -> bool {
            FREE.contains(&text)
                || text
                    .strip_prefix("/dev/fd/")
                    .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        }
        let is_user = word.has_tilde && word.text != "~" && !word.text.starts_with("~/");
        if word.certainty == Certainty::Unknown || is_user {
            return self.file_doubt(&word.text, "the file is unknown");
        }
        if self.directories.is_empty() && !is_rooted(&path_of(word)) {
            self.file_doubt(&word.text, "the directory is unknown");
        }
        let reach = match file.reach {
            Reach::Names => Reach::Names,
            _ if word.certainty == Certainty::Pattern => Reach::Pattern,
            reach => reach,
        };
        let nowhere = [PathBuf::new()];
        let directories =
            if self.directories.is_empty() { &nowhere[..] } else { &self.directories };
        let folders: Vec<&Path> = match word.is_from_top {
            true => directories.iter().flat_map(|place| tops(place)).collect(),
            false => directories.iter().map(PathBuf::as_path).collect(),
        };
        let paths: Vec<PathBuf> = folders
            .iter()
            .map(|folder| without_dots(&folder.join(path_of(word)), Parents::Kept))
            .collect();
        for path in paths {
            let file = FileUse { path, how: file.how, reach };
            if self.named.insert(file.clone()) {
                self.reading.files.push(file);
            }
        }
    }
}

/// The directories that may be the top of the repository that contains this one.
fn tops(place: &Path) -> Vec<&Path> {
    match is_rooted(place) {
        true => vec![place, Path::new("")],
        false => place.ancestors().collect(),
    }
}

pub(super) fn path_of(word: &Word) -> PathBuf {
    let text = word.text.as_str();
    if text.starts_with('~') && !word.has_tilde {
        Path::new(".").join(text)
    } else {
        PathBuf::from(text)
    }
}

pub(super) fn is_rooted(path: &Path) -> bool {
    path.is_absolute() || path.starts_with("~")
}

pub(super) fn union(one: &[PathBuf], other: &[PathBuf]) -> Vec<PathBuf> {
    if one.is_empty() || other.is_empty() {
        return Vec::new();
    }
    let mut all = one.to_vec();
    all.extend(other.iter().filter(|place| !one.contains(place)).cloned());
    if all.len() > MAX_DIRECTORIES { Vec::new() } else { all }
}

/// Returns the directory after `cd`, which the shell computes from the text: `cd link/..` stays.
pub(super) fn folded(path: &Path) -> PathBuf {
    without_dots(path, Parents::Folded)
}

/// The treatment of `..`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parents {
    /// It removes the name before it.
    Folded,
    /// It stays: after a link it leads elsewhere, and the code that resolves the path follows
    /// links.
    Kept,
}

/// Removes `.`, and puts the last `~` first.
fn without_dots(path: &Path, parents: Parents) -> PathBuf {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if parents == Parents::Folded => match parts.last() {
                Some(Component::Normal(name)) if *name != "~" => {
                    parts.pop();
                }
                Some(Component::RootDir) => {}
                _ => parts.push(part),
            },
            // `a` and then `~/b` is `~/b`.
            Component::Normal(name) if name == "~" && !is_written_out(path) => {
                parts.clear();
                parts.push(part);
            }
            other => parts.push(other),
        }
    }
    // A file of that name, not the home directory.
    let is_sign = is_written_out(path) && parts.first() == Some(&Component::Normal("~".as_ref()));
    if parts.is_empty() || is_sign {
        parts.insert(0, Component::CurDir);
    }
    parts.into_iter().collect()
}

pub(super) fn is_written_out(path: &Path) -> bool {
    path.to_string_lossy().contains("./~")
}
