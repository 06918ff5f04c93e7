//! Which files of the workspace programs must not see: what secrecy and rules close to the tools is closed to what tools
//! start. Who builds a fence covers them. They are looked for by name in the whole workspace, with what ignore files name,
//! since that is where secrets are.

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

use super::folders::{CutOff, Folders, Look};
use crate::{Workspace, files::root::Root};

/// A search that takes longer is cut off, and the command is refused.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);
/// As many mounts as a program can still be started behind in no time.
const MOST: usize = 256;

/// A file or directory that is closed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Closed {
    pub(crate) path: PathBuf,
    pub(crate) is_directory: bool,
}

/// Looks at the folders of the workspace before a command.
///
/// # Errors
/// Of kind `unavailable` when the look was incomplete: what it missed could not be hidden.
pub(crate) fn look(
    folders: &Folders,
    workspace: &Workspace,
    grant: &FileGrant,
) -> Result<Look, ToolError> {
    let begun = Instant::now();
    look_until(folders, workspace, grant, &|| begun.elapsed() > SEARCH_TIMEOUT)
}

fn look_until(
    folders: &Folders,
    workspace: &Workspace,
    grant: &FileGrant,
    stop: ShouldStop<'_>,
) -> Result<Look, ToolError> {
    complete(folders.look(workspace, grant, stop))
}

/// The look, if nothing was missed.
fn complete(look: Result<Look, CutOff>) -> Result<Look, ToolError> {
    let look = look.map_err(|CutOff(root)| cut_off(&root))?;
    match look.unreadable.iter().find(|folder| a_command_could_open(folder)) {
        Some(folder) => Err(unreadable(folder)),
        None => Ok(look),
    }
}

/// Looks at folders outside the workspace.
///
/// # Errors
/// As [`look`].
pub(super) fn look_outside(
    folders: &Folders,
    roots: &[&Root],
    grant: &FileGrant,
) -> Result<Look, ToolError> {
    let begun = Instant::now();
    complete(folders.look_at(roots, grant, &|| begun.elapsed() > SEARCH_TIMEOUT))
}

/// What is closed to a program, by what a look has found.
///
/// # Errors
/// Of kind `unavailable` when it cannot be covered, or when it is too much.
pub(crate) fn files(workspace: &Workspace, look: &Look) -> Result<Vec<Closed>, ToolError> {
    checked(found_in(&workspace.roots, look))
}

/// What is closed below these folders, by what a look has found.
pub(super) fn found_in<'a>(roots: impl IntoIterator<Item = &'a Root>, look: &Look) -> Vec<Closed> {
    let found = roots.into_iter().zip(&look.roots).flat_map(|(root, folders)| {
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

/// The sockets of the workspace, for sandboxes in which nobody decides about connections.
pub(crate) fn sockets(workspace: &Workspace, look: &Look) -> Vec<Closed> {
    let found = workspace.roots.iter().zip(&look.roots).flat_map(|(root, folders)| {
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

/// In order, if all of it can be covered.
///
/// # Errors
/// Of kind `unavailable` when it cannot be covered, or when it is too much.
pub(super) fn checked(mut closed: Vec<Closed>) -> Result<Vec<Closed>, ToolError> {
    closed.sort_unstable();
    closed.dedup();
    if let Some(folder) = closed.iter().find_map(|closed| cannot_be_covered(&closed.path)) {
        return Err(unreadable(folder));
    }
    match closed.len() {
        0..=MOST => Ok(closed),
        many => Err(too_many(many, &closed)),
    }
}

/// Whether a command could change the mode of a folder that we cannot read: it runs with our user. A folder of another
/// user is closed to commands as it is to us.
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

/// The folder of a closed file that is listed but cannot be entered, so that nothing can be mounted on the file.
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
    .hint(format!("have a person run `chmod u+rx '{shown}'`, then call again"))
}

fn cut_off(root: &Path) -> ToolError {
    let message = format!(
        "the search for secret files in `{}` took longer than {} s, so they cannot be hidden from a command",
        root.display(),
        SEARCH_TIMEOUT.as_secs()
    );
    ToolError::unavailable(message)
        .hint("call again, start haft in a smaller folder with --workspace, or show a smaller one under [sandbox]")
}

fn too_many(count: usize, closed: &[Closed]) -> ToolError {
    let example = closed.first().map(|closed| closed.path.display().to_string());
    let message = format!(
        "there are {count} secret or denied files (`{}`, …), more than the {MOST} that a sandbox covers",
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
        let look = |stop| look_until(&Folders::default(), &workspace, &FileGrant::none(), stop);
        let whole = look(&|| false).expect("complete");
        assert_eq!(files(&workspace, &whole).expect("few"), []);
        let error = look(&|| true).err().expect("cut off");
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
        let many: Vec<Closed> = (0..=MOST)
            .map(|number| Closed { path: format!("/w/{number}.pem").into(), is_directory: false })
            .collect();
        let error = too_many(many.len(), &many);
        assert_eq!(error.kind(), haft_core::ErrorKind::Unavailable);
        assert!(error.message().contains("257 secret or denied files (`/w/0.pem`"), "{error}");
        assert!(error.next_step().contains("secrets.except"), "{error}");
    }
}
