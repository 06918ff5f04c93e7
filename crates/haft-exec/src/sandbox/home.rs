//! The part of the home directory that sandboxed programs see: toolchains, caches, git's user
//! config and the folders on PATH. Documents and other projects are not included.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use haft_core::ToolError;

use super::{
    layout::{LayoutPart, PathAccess, seen_of_home},
    machine::variable,
};
use crate::{
    Workspace,
    processes::{Variables, backend::LaunchContext},
};

/// The folders outside the workspace that the user shows to sandboxed programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownFolders {
    /// Shows the whole home except secrets, instead of only the parts that tools need.
    pub whole_home: bool,
    pub read: Vec<PathBuf>,
    /// Writable for calls that may write.
    pub write: Vec<PathBuf>,
}

impl ShownFolders {
    /// Resolves links. Leaves out folders that do not exist, the whole disk, and folders inside a
    /// folder that commands may write: those are visible anyway, and a command could put a link in
    /// their place.
    pub(crate) fn resolved(&self, workspace: &Workspace) -> Self {
        let mut writable: Vec<PathBuf> =
            workspace.roots.iter().map(|root| root.path.clone()).collect();
        let mut write = Vec::new();
        for path in parents_first(&self.write) {
            if let Some(real) = real_outside(&path, &writable) {
                writable.push(real.clone());
                write.push(real);
            }
        }
        let read = parents_first(&self.read);
        let read = read.iter().filter_map(|path| real_outside(path, &writable)).collect();
        Self { whole_home: self.whole_home, read, write }
    }

    /// Returns the parts for `read` and `write`. The `.git` of a writable folder stays read-only:
    /// its hooks and settings make other programs run something.
    pub(super) fn parts(&self, writes: bool) -> Vec<LayoutPart> {
        let access = if writes { PathAccess::Write } else { PathAccess::Read };
        let shown = |path: PathBuf, access| LayoutPart::Shown { path, access };
        let mut parts: Vec<LayoutPart> =
            self.read.iter().map(|path| shown(path.clone(), PathAccess::Read)).collect();
        for path in &self.write {
            let git = path.join(".git");
            parts.push(shown(path.clone(), access));
            if git.exists() && !git.is_symlink() {
                parts.push(shown(git, PathAccess::Read));
            }
        }
        parts
    }
}

fn parents_first(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths = paths.to_vec();
    paths.sort();
    paths
}

/// More links than this form a loop.
const MAX_LINKS: usize = 40;

/// Resolves a path, if neither it nor any link on its way is in a folder that commands may write: a
/// command that can replace a link chooses its target.
pub(super) fn real_outside(path: &Path, writable: &[PathBuf]) -> Option<PathBuf> {
    let mut rest: VecDeque<OsString> = parts_of(path).collect();
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        if writable.iter().any(|folder| next.starts_with(folder)) {
            return None;
        }
        if !fs::symlink_metadata(&next).ok()?.is_symlink() {
            real = next;
            continue;
        }
        links += 1;
        let target = fs::read_link(&next).ok().filter(|_| links <= MAX_LINKS)?;
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        parts_of(&target)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .for_each(|part| rest.push_front(part));
    }
    real.parent().is_some().then_some(real)
}

fn parts_of(path: &Path) -> impl Iterator<Item = OsString> {
    let parts = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    parts.map(|part| part.as_os_str().to_owned())
}

/// Returns the folders and files that sandboxed commands see outside the workspace and the system,
/// and whether they may write there.
///
/// # Errors
/// When the workspace is gone.
pub fn shown_places(
    workspace: &Arc<Workspace>,
    shown: &ShownFolders,
    variables: Variables,
) -> Result<Vec<(PathBuf, bool)>, ToolError> {
    let (directory, path) = workspace.directory(Path::new("."))?;
    let context = LaunchContext {
        workspace: workspace.clone(),
        directory,
        path,
        environment: variables,
        closed: Arc::default(),
        private: Arc::default(),
        shown: Arc::new(shown.resolved(workspace)),
    };
    Ok(seen_of_home(&context))
}

/// Folders and files of toolchains, relative to the home directory.
const TOOLS: &[&str] = &[
    ".asdf",
    ".bun",
    ".bundle",
    ".cabal",
    ".cache",
    ".cargo",
    ".composer",
    ".conda",
    ".config/git",
    ".config/pip",
    ".deno",
    ".dotnet",
    ".gem",
    ".ghcup",
    ".gitconfig",
    ".gradle",
    ".julia",
    ".local/bin",
    ".local/lib",
    ".local/share",
    ".m2",
    ".npm",
    ".nuget",
    ".nvm",
    ".opam",
    ".pnpm-store",
    ".pub-cache",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rye",
    ".sdkman",
    ".stack",
    ".volta",
    ".yarn",
    "anaconda3",
    "go",
    "miniconda3",
];

/// Variables that name the folder of a toolchain.
const FOLDER_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "RUSTUP_HOME",
    "VIRTUAL_ENV",
];

/// Returns the parts of the home directory that tools need, parents first. Nothing below a root: a
/// command can write there, and a link that it planted would choose what the next command sees.
pub(super) fn tools(home: &Path, context: &LaunchContext, roots: &[PathBuf]) -> Vec<LayoutPart> {
    let mut named: Vec<PathBuf> = TOOLS.iter().map(|name| home.join(name)).collect();
    let of_variables = FOLDER_VARIABLES.iter().chain(["PATH"].iter());
    let listed =
        of_variables.filter_map(|name| variable(context, name)).flat_map(|value: &OsStr| {
            let folders = std::env::split_paths(value).filter(|path| path.is_absolute());
            folders.collect::<Vec<_>>()
        });
    named.extend(listed.filter_map(|path| inside(home, &path, roots)));
    named.sort();
    named.dedup();
    let mut parts: Vec<LayoutPart> = Vec::new();
    for path in named.into_iter().filter(|path| !roots.iter().any(|root| path.starts_with(root))) {
        if !parts.iter().any(|part| shows(part, &path)) {
            parts.extend(shown(path, home, roots));
        }
    }
    parts
}

/// Returns the path below our spelling of the home directory, if it is inside and not the whole
/// directory.
fn inside(home: &Path, path: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let real = real_outside(path, roots)?;
    (real != home && real.starts_with(home) && real.is_dir()).then_some(real)
}

fn shows(part: &LayoutPart, path: &Path) -> bool {
    matches!(part, LayoutPart::Shown { path: shown, .. } if path.starts_with(shown))
}

/// Shows a link together with its target, unless the target is the home directory or a parent of
/// it.
fn shown(path: PathBuf, home: &Path, roots: &[PathBuf]) -> Vec<LayoutPart> {
    let Ok(found) = fs::symlink_metadata(&path) else { return Vec::new() };
    if !found.is_symlink() {
        return vec![LayoutPart::Shown { path, access: PathAccess::Read }];
    }
    match real_outside(&path, roots) {
        Some(real) if !home.starts_with(&real) => vec![
            LayoutPart::Shown { path: real.clone(), access: PathAccess::Read },
            LayoutPart::Link { at: path, to: real },
        ],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_that_a_command_could_replace_says_what_is_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        for name in ["w/sub", "docs", "other/deep"] {
            fs::create_dir_all(at.join(name)).expect("made");
        }
        for (name, to) in [
            ("w/planted", "../other"),
            ("through", "w/planted"),
            ("plain", "other/../docs"),
            ("twice", "plain"),
            ("circle", "circle"),
        ] {
            symlink(to, at.join(name)).expect("linked");
        }
        let check = |name: &str, expected: Option<&str>| {
            let found = real_outside(&at.join(name), &[at.join("w")]);
            assert_eq!(found, expected.map(|name| at.join(name)), "{name}");
        };
        check("docs", Some("docs"));
        check("plain", Some("docs"));
        check("twice", Some("docs"));
        check("other/./deep", Some("other/deep"));
        for refused in ["w/sub", "w/planted", "w/planted/deep", "through", "circle", "gone"] {
            check(refused, None);
        }
        assert_eq!(real_outside(Path::new("/"), &[]), None);
    }

    #[test]
    fn a_folder_below_a_writable_one_is_not_shown_by_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        for name in ["w", "data/deep", "docs"] {
            fs::create_dir_all(at.join(name)).expect("made");
        }
        let workspace = Workspace::open(&at.join("w")).expect("a folder");
        let folders = |names: &[&str]| names.iter().map(|name| at.join(name)).collect::<Vec<_>>();
        let shown = ShownFolders {
            whole_home: false,
            read: folders(&["data/deep", "docs", "w", "gone"]),
            write: folders(&["data/deep", "data"]),
        };
        let resolved = shown.resolved(&workspace);
        assert_eq!((resolved.read, resolved.write), (folders(&["docs"]), folders(&["data"])));
    }
}
