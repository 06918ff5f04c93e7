//! Every file of the workspace, looked at from outside.

use std::{collections::HashMap, ops::ControlFlow, path::PathBuf};

use haft_core::{
    ToolError,
    files::{Stamp, Stop, Survey, Warrant},
};
use rustix::fs::{self, AtFlags};

use crate::{
    walk::{Met, Start, Visitor, Walk},
    workspace::Workspace,
};

/// As for a search by name.
const BATCH: usize = 1024;

/// Looks at all files of all roots, as long as it is not told to stop.
///
/// # Errors
/// When a root cannot be opened.
pub(crate) fn survey(
    workspace: &Workspace,
    warrant: &Warrant,
    stop: Stop<'_>,
) -> Result<Survey, ToolError> {
    let mut all = Survey { files: HashMap::new(), is_complete: true };
    for root in &workspace.roots {
        let path = root.shown(std::path::Path::new(""));
        let start = Start::directory(workspace, &path, warrant)?;
        let walk = Walk { start: &start, warrant, stop, globs: None, ignored: false, batch: BATCH };
        let walked = walk.run(Looked::default);
        all.is_complete &= walked.is_complete;
        for looked in walked.visitors {
            all.files.extend(looked.0);
        }
    }
    Ok(all)
}

#[derive(Default)]
struct Looked(Vec<(PathBuf, Stamp)>);

impl Visitor for Looked {
    const MEETS_LINKS: bool = true;

    fn meet(&mut self, file: &Met<'_>) -> ControlFlow<()> {
        // One that is gone by now is not there.
        if let Ok(stat) = fs::statat(file.directory, file.name, AtFlags::SYMLINK_NOFOLLOW) {
            let stamp = Stamp {
                inode: stat.st_ino,
                size: u64::try_from(stat.st_size).unwrap_or_default(),
                modified_ns: i128::from(stat.st_mtime) * 1_000_000_000
                    + i128::from(stat.st_mtime_nsec),
                mode: stat.st_mode,
            };
            self.0.push((file.path.to_owned(), stamp));
        }
        ControlFlow::Continue(())
    }
}
