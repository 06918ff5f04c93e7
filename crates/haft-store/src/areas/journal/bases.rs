//! Contents that the next contents of the same files may be stored as a difference from: for some
//! files, the last content stored whole, in memory. The store is asked if it still has them when
//! they are used, because another process may have deleted them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::ContentHash;

use super::difference::MIN_BYTES;

/// Maximum size of all bases. Longer files are stored whole each time; they are rarely edited.
const MAX_BYTES: usize = 2 << 20;
/// Maximum number of bases. An agent edits a few files at a time.
const MAX_FILES: usize = 32;

/// A content that is stored whole.
pub(super) struct Base {
    workspace: PathBuf,
    path: PathBuf,
    pub(super) hash: ContentHash,
    pub(super) content: Vec<u8>,
}

/// Bases by last use, the latest at the end.
#[derive(Default)]
pub(super) struct Bases(Vec<Arc<Base>>);

impl Bases {
    pub(super) fn of(&mut self, workspace: &Path, path: &Path) -> Option<Arc<Base>> {
        let base = self.take(workspace, path)?;
        self.0.push(base.clone());
        Some(base)
    }

    pub(super) fn keep(
        &mut self,
        workspace: &Path,
        path: &Path,
        hash: ContentHash,
        content: &[u8],
    ) {
        self.take(workspace, path);
        if !(MIN_BYTES..=MAX_BYTES).contains(&content.len()) {
            return;
        }
        let (workspace, path) = (workspace.to_owned(), path.to_owned());
        self.0.push(Arc::new(Base { workspace, path, hash, content: content.to_owned() }));
        let mut bytes: usize = self.0.iter().map(|base| base.content.len()).sum();
        while bytes > MAX_BYTES || self.0.len() > MAX_FILES {
            bytes -= self.0.remove(0).content.len();
        }
    }

    fn take(&mut self, workspace: &Path, path: &Path) -> Option<Arc<Base>> {
        let is_it = |base: &Arc<Base>| base.path == path && base.workspace == workspace;
        let index = self.0.iter().position(is_it)?;
        Some(self.0.remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "/here";

    fn of_length(length: usize, byte: u8) -> Vec<u8> {
        vec![byte; length]
    }

    fn keep(bases: &mut Bases, path: &str, content: &[u8]) {
        bases.keep(Path::new(HERE), Path::new(path), ContentHash::of(content), content);
    }

    #[track_caller]
    fn check(bases: &mut Bases, path: &str, expected: Option<&[u8]>) {
        let found = bases.of(Path::new(HERE), Path::new(path));
        assert!(found.as_ref().map(|base| &*base.content) == expected, "{path}");
    }

    #[test]
    fn the_last_base_of_each_file_is_kept_per_workspace() {
        let [one, two, three] = [b'1', b'2', b'3'].map(|byte| of_length(MIN_BYTES, byte));
        let mut bases = Bases::default();
        for (path, content) in [("a", &one), ("b", &two), ("a", &three)] {
            keep(&mut bases, path, content);
        }
        check(&mut bases, "a", Some(&three));
        check(&mut bases, "b", Some(&two));
        assert!(bases.of(Path::new("/there"), Path::new("a")).is_none());
        keep(&mut bases, "a", &one[1..]);
        check(&mut bases, "a", None);
    }

    #[test]
    fn the_least_recently_used_bases_are_dropped() {
        let (short, long) = (of_length(MIN_BYTES, b'x'), of_length(MAX_BYTES - MIN_BYTES, b'x'));
        let mut bases = Bases::default();
        for number in 0..MAX_FILES {
            keep(&mut bases, &number.to_string(), &short);
        }
        check(&mut bases, "0", Some(&short));
        keep(&mut bases, "more", &short);
        check(&mut bases, "1", None);
        check(&mut bases, "0", Some(&short));
        keep(&mut bases, "long", &long);
        check(&mut bases, "more", None);
        check(&mut bases, "0", Some(&short));
        keep(&mut bases, "0", &of_length(MAX_BYTES + 1, b'x'));
        check(&mut bases, "0", None);
        check(&mut bases, "long", Some(&long));
    }
}
