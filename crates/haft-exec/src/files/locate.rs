//! Resolves the path that a tool names. Links are followed here, so that rules and grants judge the
//! path that is then opened, and a link that leads out of the workspace is recognised.

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

/// The kernel's limit.
const MAX_LINKS: usize = 40;
const MAX_PATH_BYTES: usize = 4096;

/// The location that a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathLocation {
    /// Below a root, by plain names: no links, no dots. The entry may be missing.
    Inside { root: usize, path: PathBuf },
    /// Outside all roots; absolute.
    Outside(PathBuf),
}

/// How to treat a link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastLink {
    Follow,
    Keep,
}

/// Resolves a path.
///
/// # Errors
/// Of kind `input` when the path is invalid or a link loop.
pub(crate) fn locate(
    roots: &[Root],
    path: &Path,
    last: LastLink,
) -> Result<PathLocation, ToolError> {
    locate_and_probe(roots, path, last).map(|(place, _)| place)
}

/// Like `locate`, and also returns the file type if the lookup already determined it.
pub(crate) fn locate_and_probe(
    roots: &[Root],
    path: &Path,
    last: LastLink,
) -> Result<(PathLocation, Option<FileType>), ToolError> {
    check(path)?;
    let ahead = VecDeque::new();
    let mut walk = LinkResolver { roots, last, root: 0, done: PathBuf::new(), ahead, links: 0 };
    match start(roots, path) {
        Ok((root, below)) => {
            if let Some(plain) = plain_names(&below)
                && let PathProbe::Plain(seen) = probe(&roots[root], &plain, last)
            {
                return Ok((PathLocation::Inside { root, path: plain }, seen));
            }
            walk.root = root;
            walk.ahead.extend(below.components().filter_map(PathPart::of));
        }
        Err(elsewhere) => {
            if let Some(outside) = walk.enter(&elsewhere) {
                return Ok((PathLocation::Outside(outside), None));
            }
        }
    }
    let place = walk.follow().ok_or_else(|| {
        ToolError::input(format!("`{}` is a symbolic link loop", path.display()))
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
    if bytes.len() > MAX_PATH_BYTES {
        let beginning: String = path.display().to_string().chars().take(40).collect();
        let message = format!("the path `{beginning}…` has {} bytes", bytes.len());
        return Err(
            ToolError::input(message).hint(format!("paths have at most {MAX_PATH_BYTES} bytes"))
        );
    }
    // A shell would have expanded it; here it would create a directory with that name.
    if path.components().next() == Some(Component::Normal("~".as_ref())) {
        return Err(ToolError::input(format!("`{}`: `~` is not expanded here", path.display()))
            .hint(
                "name a path inside the workspace; a folder that is really called `~` is `./~`",
            ));
    }
    Ok(())
}

/// Returns the root where a path starts, and the rest; or the absolute path that is below no root.
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

/// Compares bytes; of nested roots the inner one wins.
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

/// Like `strip_prefix` for paths of plain names, in a tenth of the time: every call compares the
/// path with every root.
fn below_by_bytes<'a>(root: &Path, path: &'a Path) -> Option<&'a Path> {
    let root = root.as_os_str().as_bytes();
    let rest = path.as_os_str().as_bytes().strip_prefix(root)?;
    let rest = if rest.is_empty() || root == b"/" { rest } else { rest.strip_prefix(b"/")? };
    Some(Path::new(OsStr::from_bytes(rest)))
}

/// Returns true when a path has no empty names, no dots and no slash at its ends.
fn has_plain_names(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}

/// Returns the same path with plain names only, if that needs no disk access.
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

/// Asks the kernel once, which is enough for most paths. A missing name ends the path: no link can
/// follow it.
fn probe(root: &Root, path: &Path, last: LastLink) -> PathProbe {
    if path.as_os_str().is_empty() {
        return PathProbe::Plain(None);
    }
    if is_file_below_directories(root, path) {
        return PathProbe::Plain((last == LastLink::Follow).then_some(FileType::RegularFile));
    }
    match root.open_at(path, OFlags::PATH) {
        Ok(_) if last == LastLink::Keep => PathProbe::Plain(None),
        Ok(handle) => match fs::fstat(handle).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(kind) if kind.is_symlink() => PathProbe::Links,
            seen => PathProbe::Plain(seen.ok()),
        },
        Err(Errno::LOOP) => PathProbe::Links,
        // Missing, not permitted, a mount: opening it will report the error.
        Err(_) => PathProbe::Plain(None),
    }
}

/// The same for a short path, in a third of the time: it opens nothing and only asks for the type
/// of each name. Opening the path later does not follow links, so it notices a replaced entry.
fn is_file_below_directories(root: &Root, path: &Path) -> bool {
    /// With more names, opening a handle is faster.
    const MAX_PROBED_NAMES: usize = 4;
    let bytes = path.as_os_str().as_bytes();
    let kind_of = |name: &[u8]| {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = fs::statat(&root.handle, name, flags);
        found.map(|stat| FileType::from_raw_mode(stat.st_mode)).unwrap_or(FileType::Unknown)
    };
    let above = memchr::memchr_iter(b'/', bytes);
    above.clone().count() < MAX_PROBED_NAMES
        && above.map(|end| kind_of(&bytes[..end])).all(|kind| kind.is_dir())
        && kind_of(bytes).is_file()
}

/// The result of asking the kernel about a path.
enum PathProbe {
    /// The path has no links; with the file type, if it was determined.
    Plain(Option<FileType>),
    Links,
}

fn is_link(handle: &impl std::os::fd::AsFd) -> bool {
    fs::fstat(handle).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
}

enum PathPart {
    Name(OsString),
    Up,
}

impl PathPart {
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

/// Resolves a path name by name.
struct LinkResolver<'a> {
    roots: &'a [Root],
    last: LastLink,
    root: usize,
    done: PathBuf,
    ahead: VecDeque<PathPart>,
    links: usize,
}

impl LinkResolver<'_> {
    /// Returns `None` after too many links.
    fn follow(mut self) -> Option<PathLocation> {
        while let Some(part) = self.ahead.pop_front() {
            let target = match part {
                PathPart::Name(name) => {
                    self.done.push(name);
                    let is_kept = self.last == LastLink::Keep && self.ahead.is_empty();
                    let Some(target) = (if is_kept { None } else { self.link() }) else { continue };
                    self.done.pop();
                    target
                }
                PathPart::Up if self.done.pop() => continue,
                PathPart::Up => {
                    self.roots[self.root].path.parent().unwrap_or(Path::new("/")).into()
                }
            };
            self.links += 1;
            if self.links > MAX_LINKS {
                return None;
            }
            if let Some(outside) = self.follow_target(&target) {
                return Some(PathLocation::Outside(outside));
            }
        }
        Some(PathLocation::Inside { root: self.root, path: self.done })
    }

    /// Returns the target of the last name, if it is a link.
    fn link(&self) -> Option<PathBuf> {
        let handle = self.roots[self.root].open_at(&self.done, OFlags::PATH).ok()?;
        if !is_link(&handle) {
            return None;
        }
        let target = fs::readlinkat(&handle, "", Vec::new()).ok()?;
        Some(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    /// Continues at a link's target. Returns the real path when it is below no root.
    fn follow_target(&mut self, target: &Path) -> Option<PathBuf> {
        if !target.has_root() {
            self.prepend(target);
            return None;
        }
        if below_a_root(self.roots, target).is_some() {
            return self.enter(target);
        }
        // The rest of the path is resolved outside too: it may lead back in.
        let whole =
            self.ahead.drain(..).fold(target.to_owned(), |path, part| path.join(part.name()));
        self.enter(&whole)
    }

    /// Continues at an absolute path. Returns the real path when it is below no root. The path may
    /// be inside under another name: `/tmp` is a link on some machines.
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
        self.prepend(&rest);
        None
    }

    fn prepend(&mut self, path: &Path) {
        for part in path.components().rev().filter_map(PathPart::of) {
            self.ahead.push_front(part);
        }
    }
}

/// Returns the real path of an outside location, for judging it; nothing outside is opened. Missing
/// parts keep their names, and so does a last link that is to be kept.
fn real_path(roots: &[Root], path: &Path, last: LastLink) -> PathBuf {
    let whole = path.canonicalize().ok();
    let is_root = |path: &PathBuf| roots.iter().any(|root| root.path == *path);
    match whole {
        // A link to a root is not an entry of any root: it can only mean the root.
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
            // Too many names: opening a handle is faster.
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
