//! From the path a tool names to the place it really is: links are followed here, by us, so that rules and warrants
//! judge the path that is then opened, and a link that leads out is seen for what it is.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use haft_core::ToolError;
use rustix::{
    fs::{self, AtFlags, FileType, OFlags},
    io::Errno,
};

use crate::files::root::Root;

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;
const LONGEST_PATH: usize = 4096;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Below a root, by plain names: no link, no dot. Whether anything is there is another question.
    Inside { root: usize, path: PathBuf },
    /// Elsewhere; absolute.
    Outside(PathBuf),
}

/// What to do with a link at the very end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastLink {
    Follow,
    Keep,
}

/// Finds where a path leads.
///
/// # Errors
/// Of kind `input` when it is no path at all or a circle of links.
pub(crate) fn locate(roots: &[Root], path: &Path, last: LastLink) -> Result<Place, ToolError> {
    look_for(roots, path, last).map(|(place, _)| place)
}

/// The same, and what was seen there if that did not take a second look.
pub(crate) fn look_for(
    roots: &[Root],
    path: &Path,
    last: LastLink,
) -> Result<(Place, Option<FileType>), ToolError> {
    check(path)?;
    let ahead = VecDeque::new();
    let mut walk = Walk { roots, last, root: 0, done: PathBuf::new(), ahead, links: 0 };
    match start(roots, path) {
        Ok((root, below)) => {
            if let Some(plain) = plain_names(&below)
                && let Look::Plain(seen) = look(&roots[root], &plain, last)
            {
                return Ok((Place::Inside { root, path: plain }, seen));
            }
            walk.root = root;
            walk.ahead.extend(below.components().filter_map(Part::of));
        }
        Err(elsewhere) => {
            if let Some(outside) = walk.enter(&elsewhere) {
                return Ok((Place::Outside(outside), None));
            }
        }
    }
    let place = walk.follow().ok_or_else(|| {
        ToolError::input(format!("`{}` is a circle of links", path.display()))
            .hint("name the file itself")
    })?;
    Ok((place, None))
}

fn check(path: &Path) -> Result<(), ToolError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&0) {
        let shown = path.display().to_string().replace('\0', "\\0");
        return Err(ToolError::input(format!("`{shown}` contains a zero byte"))
            .hint("give the path without it"));
    }
    if bytes.len() > LONGEST_PATH {
        let beginning: String = path.display().to_string().chars().take(40).collect();
        let message = format!("the path `{beginning}…` has {} bytes", bytes.len());
        return Err(ToolError::input(message)
            .hint(format!("no file system takes more than {LONGEST_PATH}")));
    }
    // A shell would have read it; here it would become a folder of that name.
    if path.components().next() == Some(Component::Normal("~".as_ref())) {
        return Err(ToolError::input(format!(
            "`{}`: `~` is not read as a home here",
            path.display()
        ))
        .hint("name a path inside the workspace; a folder that is really called `~` is `./~`"));
    }
    Ok(())
}

/// The root a path starts at, and the rest; or the absolute path that starts at none.
pub(crate) fn start(roots: &[Root], path: &Path) -> Result<(usize, PathBuf), PathBuf> {
    if path.has_root() {
        return below_a_root(roots, path).ok_or_else(|| path.to_owned());
    }
    let named = path.components().next().and_then(|first| {
        let name = first.as_os_str().to_str()?.strip_prefix('@')?;
        let root = roots.iter().position(|root| root.name.as_deref() == Some(name))?;
        Some((root, path.strip_prefix(first).ok()?.to_owned()))
    });
    Ok(named.unwrap_or_else(|| (0, path.to_owned())))
}

/// By the letters; of nested roots the inner one.
fn below_a_root(roots: &[Root], path: &Path) -> Option<(usize, PathBuf)> {
    let is_plain = path.as_os_str().as_bytes().strip_prefix(b"/").is_some_and(has_plain_names);
    let below = roots.iter().enumerate().filter_map(|(root, candidate)| {
        let rest = match is_plain {
            true => below_by_bytes(&candidate.path, path)?,
            false => path.strip_prefix(&candidate.path).ok()?,
        };
        Some((root, rest))
    });
    let (root, rest) = below.min_by_key(|(_, rest)| rest.as_os_str().len())?;
    Some((root, rest.to_owned()))
}

/// The same as `strip_prefix` for paths of plain names, for a tenth of the time: every call asks this of every root.
fn below_by_bytes<'a>(root: &Path, path: &'a Path) -> Option<&'a Path> {
    let root = root.as_os_str().as_bytes();
    let rest = path.as_os_str().as_bytes().strip_prefix(root)?;
    let rest = if rest.is_empty() || root == b"/" { rest } else { rest.strip_prefix(b"/")? };
    Some(Path::new(OsStr::from_bytes(rest)))
}

/// Whether a path is written without detours: no empty name, no dots, no slash at its ends.
fn has_plain_names(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}

/// The same path of plain names only, if that can be had without knowing the disk.
fn plain_names(path: &Path) -> Option<PathBuf> {
    if has_plain_names(path.as_os_str().as_bytes()) {
        return Some(path.to_owned());
    }
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(plain)
}

/// One question to the kernel, which is all that most paths need. A missing name ends the path: there is no link after it.
fn look(root: &Root, path: &Path, last: LastLink) -> Look {
    if path.as_os_str().is_empty() {
        return Look::Plain(None);
    }
    if is_file_below_directories(root, path) {
        return Look::Plain((last == LastLink::Follow).then_some(FileType::RegularFile));
    }
    match root.open_at(path, OFlags::PATH) {
        Ok(_) if last == LastLink::Keep => Look::Plain(None),
        Ok(handle) => match fs::fstat(handle).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(kind) if kind.is_symlink() => Look::Links,
            seen => Look::Plain(seen.ok()),
        },
        Err(Errno::LOOP) => Look::Links,
        // Missing, closed to us, a mount: whatever it is, opening it will say so.
        Err(_) => Look::Plain(None),
    }
}

/// The same for a file that is not far down, for a third of the time: nothing is opened, only what each name stands for is
/// asked. Whoever opens the path does so without links and finds what was put there meanwhile.
fn is_file_below_directories(root: &Root, path: &Path) -> bool {
    /// With more names a handle is had sooner.
    const NOT_FAR: usize = 4;
    let bytes = path.as_os_str().as_bytes();
    let kind_of = |name: &[u8]| {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = fs::statat(&root.handle, name, flags);
        found.map(|stat| FileType::from_raw_mode(stat.st_mode)).unwrap_or(FileType::Unknown)
    };
    let above = memchr::memchr_iter(b'/', bytes);
    above.clone().count() < NOT_FAR
        && above.map(|end| kind_of(&bytes[..end])).all(|kind| kind.is_dir())
        && kind_of(bytes).is_file()
}

/// What one question to the kernel tells of a path.
enum Look {
    /// No links in it; what is there, if that was seen.
    Plain(Option<FileType>),
    Links,
}

fn is_link(handle: &impl std::os::fd::AsFd) -> bool {
    fs::fstat(handle).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
}

enum Part {
    Name(OsString),
    Up,
}

impl Part {
    fn of(component: Component<'_>) -> Option<Self> {
        match component {
            Component::Normal(name) => Some(Self::Name(name.to_owned())),
            Component::ParentDir => Some(Self::Up),
            _ => None,
        }
    }

    fn name(&self) -> &OsStr {
        match self {
            Self::Name(name) => name,
            Self::Up => OsStr::new(".."),
        }
    }
}

/// A walk along a path, name by name.
struct Walk<'a> {
    roots: &'a [Root],
    last: LastLink,
    root: usize,
    done: PathBuf,
    ahead: VecDeque<Part>,
    links: usize,
}

impl Walk<'_> {
    /// `None` after too many links.
    fn follow(mut self) -> Option<Place> {
        while let Some(part) = self.ahead.pop_front() {
            let target = match part {
                Part::Name(name) => {
                    self.done.push(name);
                    let is_kept = self.last == LastLink::Keep && self.ahead.is_empty();
                    let Some(target) = (if is_kept { None } else { self.link() }) else { continue };
                    self.done.pop();
                    target
                }
                Part::Up if self.done.pop() => continue,
                Part::Up => self.roots[self.root].path.parent().unwrap_or(Path::new("/")).into(),
            };
            self.links += 1;
            if self.links > MOST_LINKS {
                return None;
            }
            if let Some(outside) = self.turn_to(&target) {
                return Some(Place::Outside(outside));
            }
        }
        Some(Place::Inside { root: self.root, path: self.done })
    }

    /// What the last name links to, if it is a link.
    fn link(&self) -> Option<PathBuf> {
        let handle = self.roots[self.root].open_at(&self.done, OFlags::PATH).ok()?;
        if !is_link(&handle) {
            return None;
        }
        let target = fs::readlinkat(&handle, "", Vec::new()).ok()?;
        Some(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    /// Goes on at a link's target; the real path when that is below no root.
    fn turn_to(&mut self, target: &Path) -> Option<PathBuf> {
        if !target.has_root() {
            self.put_ahead(target);
            return None;
        }
        if below_a_root(self.roots, target).is_some() {
            return self.enter(target);
        }
        // What comes after the target is looked up out there too: it may well be the way back.
        let whole =
            self.ahead.drain(..).fold(target.to_owned(), |path, part| path.join(part.name()));
        self.enter(&whole)
    }

    /// Goes on at an absolute path; the real path when that is below no root. It may turn out to be ours by another
    /// name: `/tmp` is a link on some machines.
    fn enter(&mut self, path: &Path) -> Option<PathBuf> {
        let (root, rest) = match below_a_root(self.roots, path) {
            Some(below) => below,
            None => {
                let real = real_path(self.roots, path, self.last);
                match below_a_root(self.roots, &real) {
                    Some(below) => below,
                    None => return Some(real),
                }
            }
        };
        (self.root, self.done) = (root, PathBuf::new());
        self.put_ahead(&rest);
        None
    }

    fn put_ahead(&mut self, path: &Path) {
        for part in path.components().rev().filter_map(Part::of) {
            self.ahead.push_front(part);
        }
    }
}

/// The real path of something elsewhere, for judging it; nothing elsewhere is opened. The part that is not there keeps
/// its names, and so does a last link that is to be kept.
fn real_path(roots: &[Root], path: &Path, last: LastLink) -> PathBuf {
    let whole = path.canonicalize().ok();
    let is_root = |path: &PathBuf| roots.iter().any(|root| root.path == *path);
    match whole {
        // A link to a root is no entry of any root: it can only mean the root.
        Some(whole)
            if last == LastLink::Follow || path.file_name().is_none() || is_root(&whole) =>
        {
            return whole;
        }
        _ => {}
    }
    let mut missing: Vec<Component<'_>> = Vec::new();
    for (ancestor, above) in path.ancestors().zip(path.ancestors().skip(1)) {
        missing.extend(ancestor.components().next_back());
        if let Ok(real) = above.canonicalize() {
            return missing.iter().rev().fold(real, |path, part| match part {
                Component::ParentDir => path.parent().map_or(path.clone(), Path::to_owned),
                Component::Normal(name) => path.join(name),
                _ => path,
            });
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_root_is_found_by_bytes_where_it_is_found_by_names() {
        let roots = ["/", "/a", "/a/b", "/ab", "/a/b c"];
        let paths = [
            "/", "/a", "/a/", "//a", "/a/b", "/a/b/", "/a//b", "/a/./b", "/a/../b", "/ab", "/a/bc",
            "/a/b/c", "/a/b c/d", "/a/b/.", "/a/b/..", "/b", "/a/...", "/a/.b",
        ];
        for path in paths {
            let is_plain = has_plain_names(&path.as_bytes()[1..]);
            let odd =
                ["/", "/a/", "//a", "/a/b/", "/a//b", "/a/./b", "/a/../b", "/a/b/.", "/a/b/.."];
            assert_eq!(is_plain, !odd.contains(&path), "{path}");
            for root in roots.map(Path::new) {
                let by_names = Path::new(path).strip_prefix(root).ok();
                if is_plain {
                    let by_bytes = below_by_bytes(root, Path::new(path));
                    assert_eq!(by_bytes.map(Path::as_os_str), by_names.map(Path::as_os_str));
                }
            }
        }
        assert_eq!(plain_names(Path::new("a/./b")), Some("a/b".into()));
        assert_eq!(plain_names(Path::new("a/b/")), Some("a/b".into()));
        assert_eq!(plain_names(Path::new("a/../b")), None);
        assert_eq!(plain_names(Path::new("")), Some("".into()));
    }

    #[test]
    fn only_a_file_below_real_directories_is_known_without_opening_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(below("a/b/c/d")).expect("made");
        for path in ["file", "a/file", "a/b/c/file", "a/b/c/d/file"] {
            std::fs::write(below(path), "x").expect("written");
        }
        symlink("file", below("link")).expect("made");
        symlink("a", below("way")).expect("made");
        rustix::fs::mknodat(
            fs::CWD,
            below("pipe"),
            FileType::Fifo,
            fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("made");
        let root = Root::open(None, folder.path()).expect("opened");
        for (path, is_known) in [
            ("file", true),
            ("a/file", true),
            ("a/b/c/file", true),
            // Too far down: a handle is had sooner.
            ("a/b/c/d/file", false),
            ("a", false),
            ("link", false),
            ("way/file", false),
            ("pipe", false),
            ("file/x", false),
            ("missing", false),
        ] {
            assert_eq!(is_file_below_directories(&root, Path::new(path)), is_known, "{path}");
            let by_handle = root.open_at(Path::new(path), OFlags::PATH).and_then(fs::fstat);
            let is_file = by_handle.is_ok_and(|it| FileType::from_raw_mode(it.st_mode).is_file());
            assert!(is_file || !is_known, "{path}");
        }
    }
}
