//! Finds the files of the workspace that programs must not see: secrets and files that rules close
//! to tools are closed to commands too. Sandbox backends cover them. The search is by name in the
//! whole workspace, including ignored files, because secrets are often ignored.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use haft_core::{
    ToolError,
    files::{FileGrant, ShouldStop},
};

use super::folders::{FolderCache, FolderScan, ScanTimeout};
use crate::{Workspace, files::root::Root};

/// Timeout of the search. When it expires the command is refused.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of mounts with which a program still starts quickly.
const MAX_CLOSED: usize = 256;

/// A closed file or directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Closed {
    pub(crate) path: PathBuf,
    pub(crate) is_directory: bool,
}

/// Scans the folders of the workspace before a command.
///
/// # Errors
/// Of kind `unavailable` when the scan was incomplete: the missing files could not be hidden.
pub(crate) fn scan(
    folders: &FolderCache,
    workspace: &Workspace,
    grant: &FileGrant,
) -> Result<FolderScan, ToolError> {
    let begun = Instant::now();
    scan_until(folders, workspace, grant, &|| begun.elapsed() > SEARCH_TIMEOUT)
}

fn scan_until(
    folders: &FolderCache,
    workspace: &Workspace,
    grant: &FileGrant,
    stop: ShouldStop<'_>,
) -> Result<FolderScan, ToolError> {
    complete(folders.scan(workspace, grant, stop))
}

/// Returns the scan if it is complete.
fn complete(scan: Result<FolderScan, ScanTimeout>) -> Result<FolderScan, ToolError> {
    let scan = scan.map_err(|ScanTimeout(root)| timed_out(&root))?;
    match scan.unreadable.iter().find(|folder| a_command_could_open(folder)) {
        Some(folder) => Err(unreadable(folder)),
        None => Ok(scan),
    }
}

/// Scans folders outside the workspace.
///
/// # Errors
/// As [`scan`].
pub(super) fn scan_outside(
    folders: &FolderCache,
    roots: &[&Root],
    grant: &FileGrant,
) -> Result<FolderScan, ToolError> {
    let begun = Instant::now();
    complete(folders.scan_roots(roots, grant, &|| begun.elapsed() > SEARCH_TIMEOUT))
}

/// Returns everything that is closed to a program, from a scan.
///
/// # Errors
/// Of kind `unavailable` when it cannot be covered, or when it is too much.
pub(crate) fn files(workspace: &Workspace, scan: &FolderScan) -> Result<Vec<Closed>, ToolError> {
    checked(found_in(&workspace.roots, scan))
}

/// Returns everything that is closed below these folders, from a scan.
pub(super) fn found_in<'a>(
    roots: impl IntoIterator<Item = &'a Root>,
    scan: &FolderScan,
) -> Vec<Closed> {
    let found = roots.into_iter().zip(&scan.roots).flat_map(|(root, folders)| {
        folders.iter().flat_map(move |(path, folder)| {
            let names = folder.closed.iter();
            names.map(move |(name, is_directory)| Closed {
                path: root.path.join(path).join(name),
                is_directory: *is_directory,
            })
        })
    });
    found.collect()
}

/// Returns the sockets of the workspace, for sandboxes that do not check connections.
pub(crate) fn sockets(workspace: &Workspace, scan: &FolderScan) -> Vec<Closed> {
    let found = workspace.roots.iter().zip(&scan.roots).flat_map(|(root, folders)| {
        folders.iter().flat_map(move |(path, folder)| {
            let names = folder.sockets.iter();
            names.map(move |name| Closed {
                path: root.path.join(path).join(name),
                is_directory: false,
            })
        })
    });
    found.collect()
}

/// Sorts the closed paths, and checks that all of them can be covered.
///
/// # Errors
/// Of kind `unavailable` when they cannot be covered, or when there are too many.
pub(super) fn checked(mut closed: Vec<Closed>) -> Result<Vec<Closed>, ToolError> {
    closed.sort_unstable();
    closed.dedup();
    if let Some(folder) = closed.iter().find_map(|closed| cannot_be_covered(&closed.path)) {
        return Err(unreadable(folder));
    }
    match closed.len() {
        0..=MAX_CLOSED => Ok(closed),
        many => Err(too_many(many, &closed)),
    }
}

/// Returns true when a command could change the mode of a folder that we cannot read: it runs as
/// the same user. A folder of another user is closed to commands as well.
fn a_command_could_open(folder: &Path) -> bool {
    let own = rustix::process::geteuid();
    match fs::symlink_metadata(folder) {
        Ok(found) => own.is_root() || found.uid() == own.as_raw(),
        // Its parent may be listed but not entered.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            folder.parent().is_some_and(a_command_could_open)
        }
        Err(_) => false,
    }
}

/// Returns the folder of a closed file that is listed but cannot be entered, so that nothing can be
/// mounted on the file.
fn cannot_be_covered(path: &Path) -> Option<&Path> {
    let error = fs::symlink_metadata(path).err()?;
    let folder = path.parent().filter(|_| error.kind() == ErrorKind::PermissionDenied)?;
    a_command_could_open(folder).then_some(folder)
}

fn unreadable(folder: &Path) -> ToolError {
    let shown = folder.display();
    ToolError::unavailable(format!(
        "the folder `{shown}` cannot be read, so secret files in it cannot be hidden from a command"
    ))
    .hint(format!("a person can run `chmod u+rx '{shown}'`, then retry"))
}

fn timed_out(root: &Path) -> ToolError {
    let message = format!(
        "the search for secret files in `{}` took longer than {} s, so they cannot be hidden from a command",
        root.display(),
        SEARCH_TIMEOUT.as_secs()
    );
    ToolError::unavailable(message)
        .hint("retry, start haft in a smaller folder with --workspace, or show a smaller one under [sandbox]")
}

fn too_many(count: usize, closed: &[Closed]) -> ToolError {
    let example = closed.first().map(|closed| closed.path.display().to_string());
    let message = format!(
        "there are {count} secret or denied files (`{}`, …), more than the {MAX_CLOSED} that a sandbox covers",
        example.unwrap_or_default()
    );
    ToolError::unavailable(message).hint(
        "say which are no secrets: a glob such as `tests/**` under secrets.except in the config; or show fewer folders under \
         [sandbox]",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_was_cut_off_is_refused_and_names_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::open(folder.path()).expect("a directory");
        let scan = |stop| scan_until(&FolderCache::default(), &workspace, &FileGrant::none(), stop);
        let whole = scan(&|| false).expect("complete");
        assert_eq!(files(&workspace, &whole).expect("few"), []);
        let error = scan(&|| true).err().expect("cut off");
        assert_eq!(error.kind(), haft_core::ErrorKind::Unavailable);
        let root = workspace.roots[0].path.display().to_string();
        assert!(error.message().contains(&root), "{error}");
    }

    #[test]
    fn an_unreadable_folder_of_our_own_could_be_opened_by_a_command() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(a_command_could_open(folder.path()));
        assert!(!a_command_could_open(&folder.path().join("gone")));
        let error = unreadable(folder.path());
        assert_eq!(error.kind(), haft_core::ErrorKind::Unavailable);
        assert!(error.next_step().contains("chmod u+rx"), "{error}");
    }

    #[test]
    fn more_than_can_be_covered_is_refused_with_a_way_out() {
        let many: Vec<Closed> = (0..=MAX_CLOSED)
            .map(|number| Closed { path: format!("/w/{number}.pem").into(), is_directory: false })
            .collect();
        let error = too_many(many.len(), &many);
        assert_eq!(error.kind(), haft_core::ErrorKind::Unavailable);
        assert!(error.message().contains("257 secret or denied files (`/w/0.pem`"), "{error}");
        assert!(error.next_step().contains("secrets.except"), "{error}");
    }
}
