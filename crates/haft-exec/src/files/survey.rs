//! Every file of the workspace, looked at from outside.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use haft_core::{
    ToolError,
    files::{FileGrant, FileStamp, ShouldStop, WorkspaceScan},
};
use rustix::fs::{self, AtFlags};

use crate::files::{
    walk::{Met, Start, Visitor, Walk},
    workspace::Workspace,
};

/// As for a search by name.
const BATCH: usize = 1024;
/// After a look that took too long nobody looks again so soon: every command would pay for nothing.
const REST: Duration = Duration::from_secs(300);

/// Looks at all files of all roots, as long as there are not too many and it is not told to stop.
///
/// # Errors
/// When a root cannot be opened.
pub(crate) fn survey(
    workspace: &Workspace,
    most: usize,
    grant: &FileGrant,
    stop: ShouldStop<'_>,
) -> Result<WorkspaceScan, ToolError> {
    let mut until = workspace.too_many_until.lock();
    if until.is_some_and(|until| Instant::now() < until) {
        return Ok(WorkspaceScan::default());
    }
    let mut all = WorkspaceScan { files: HashMap::new(), is_complete: true };
    let count = AtomicUsize::new(0);
    for root in &workspace.roots {
        let path = root.shown(std::path::Path::new(""));
        let start = Start::directory(workspace, &path, grant)?;
        let walk = Walk { start: &start, grant, stop, globs: None, ignored: false, batch: BATCH };
        let walked = walk.run(|| Looked { files: Vec::new(), count: &count, most });
        all.is_complete &= walked.is_complete;
        for looked in walked.visitors {
            all.files.extend(looked.files);
        }
    }
    all.is_complete &= count.into_inner() <= most;
    *until = (!all.is_complete).then(|| Instant::now() + REST);
    Ok(all)
}

/// What one worker has looked at.
struct Looked<'a> {
    files: Vec<(PathBuf, FileStamp)>,
    /// Of all workers.
    count: &'a AtomicUsize,
    most: usize,
}

impl Visitor for Looked<'_> {
    const MEETS_LINKS: bool = true;

    fn meet(&mut self, file: &Met<'_>) -> ControlFlow<()> {
        // One that is gone by now is not there.
        if let Ok(stat) = fs::statat(file.directory, file.name, AtFlags::SYMLINK_NOFOLLOW) {
            let stamp = FileStamp {
                inode: stat.st_ino,
                size: u64::try_from(stat.st_size).unwrap_or_default(),
                modified_ns: i128::from(stat.st_mtime) * 1_000_000_000
                    + i128::from(stat.st_mtime_nsec),
                mode: stat.st_mode,
            };
            self.files.push((file.path.to_owned(), stamp));
        }
        let is_too_many = self.count.fetch_add(1, Ordering::Relaxed) >= self.most;
        if is_too_many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_was_broken_off_is_not_repeated_soon() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), "x").expect("written");
        let workspace = Workspace::open(folder.path()).expect("a directory");
        let look = |most: usize, stop: ShouldStop<'_>| {
            survey(&workspace, most, &FileGrant::none(), stop).expect("readable")
        };
        let forget = || *workspace.too_many_until.lock() = None;
        let whole = look(1, &|| false);
        assert!(whole.is_complete && whole.files.len() == 1, "{whole:?}");
        assert!(!look(1, &|| true).is_complete, "told to stop");
        assert!(!look(1, &|| false).is_complete, "nobody looks");
        forget();
        assert!(!look(0, &|| false).is_complete, "too many");
        assert!(!look(1, &|| false).is_complete, "nobody looks");
        forget();
        assert!(look(1, &|| false).is_complete, "after a while somebody does");
    }
}
