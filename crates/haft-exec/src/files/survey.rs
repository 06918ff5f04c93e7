//! Scans all files of the workspace to detect changes.

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
    walk::{DirectoryWalk, FileVisitor, Start, VisitedFile},
    workspace::Workspace,
};

/// As for a search by name.
const BATCH_FILES: usize = 1024;
/// Delay before the next scan after one that took too long; otherwise every command would pay for a
/// useless scan.
const RETRY_DELAY: Duration = Duration::from_secs(300);

/// Scans all files of all roots, until there are too many or `stop` returns true.
///
/// # Errors
/// When a root cannot be opened.
pub(crate) fn survey(
    workspace: &Workspace,
    max: usize,
    grant: &FileGrant,
    stop: ShouldStop<'_>,
) -> Result<WorkspaceScan, ToolError> {
    let mut until = workspace.scan_paused_until.lock();
    if until.is_some_and(|until| Instant::now() < until) {
        return Ok(WorkspaceScan::default());
    }
    let mut all = WorkspaceScan { files: HashMap::new(), is_complete: true };
    let count = AtomicUsize::new(0);
    for root in &workspace.roots {
        let path = root.shown(std::path::Path::new(""));
        let start = Start::directory(workspace, &path, grant)?;
        let walk = DirectoryWalk {
            start: &start,
            grant,
            stop,
            globs: None,
            ignored: false,
            batch: BATCH_FILES,
        };
        let walked = walk.run(|| ScanWorker { files: Vec::new(), count: &count, max });
        all.is_complete &= walked.is_complete;
        for worker in walked.visitors {
            all.files.extend(worker.files);
        }
    }
    all.is_complete &= count.into_inner() <= max;
    *until = (!all.is_complete).then(|| Instant::now() + RETRY_DELAY);
    Ok(all)
}

/// The results of one worker.
struct ScanWorker<'a> {
    files: Vec<(PathBuf, FileStamp)>,
    /// Number of files of all workers.
    count: &'a AtomicUsize,
    max: usize,
}

impl FileVisitor for ScanWorker<'_> {
    const VISITS_LINKS: bool = true;

    fn visit(&mut self, file: &VisitedFile<'_>) -> ControlFlow<()> {
        // A file that was removed in the meantime does not count.
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
        let is_too_many = self.count.fetch_add(1, Ordering::Relaxed) >= self.max;
        if is_too_many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_scan_is_not_repeated_soon() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), "x").expect("written");
        let workspace = Workspace::open(folder.path()).expect("a directory");
        let scan = |max: usize, stop: ShouldStop<'_>| {
            survey(&workspace, max, &FileGrant::none(), stop).expect("readable")
        };
        let forget = || *workspace.scan_paused_until.lock() = None;
        let whole = scan(1, &|| false);
        assert!(whole.is_complete && whole.files.len() == 1, "{whole:?}");
        assert!(!scan(1, &|| true).is_complete, "stopped");
        assert!(!scan(1, &|| false).is_complete, "no scan is tried");
        forget();
        assert!(!scan(0, &|| false).is_complete, "too many");
        assert!(!scan(1, &|| false).is_complete, "no scan is tried");
        forget();
        assert!(scan(1, &|| false).is_complete, "tried again after a while");
    }
}
