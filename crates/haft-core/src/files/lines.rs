//! Remembers line positions in large files, so that a second read far into one is immediate.

use std::sync::Arc;

use parking_lot::Mutex;

use super::FileMetadata;

/// Maximum number of remembered files; the least recently used one is dropped first.
const MAX_FILES: usize = 64;

/// The known positions in one state of one file: the number of line ends before each multiple of
/// [`LineIndexes::STEP`].
#[derive(Debug, Default, Clone)]
struct LineIndex {
    ended_before: Vec<u64>,
}

/// Line positions of files that were read, by identity and state.
#[derive(Default)]
pub struct LineIndexes(Mutex<Vec<(Arc<FileMetadata>, LineIndex)>>);

impl LineIndexes {
    /// The distance between two remembered positions, in bytes.
    pub const STEP: u64 = 512 << 10;

    /// Returns the last remembered position with fewer than `ends` line ends before it, as (offset,
    /// line ends before it). Reading on from there finds the line end with that number.
    pub fn seek(&self, metadata: &FileMetadata, ends: u64) -> (u64, u64) {
        let mut files = self.0.lock();
        let Some(found) = files.iter().position(|(known, _)| known.is_same_state(metadata)) else {
            return (0, 0);
        };
        let used = files.remove(found);
        let ended = &used.1.ended_before;
        let at = ended.partition_point(|ended| *ended < ends).checked_sub(1);
        let place = at.map_or((0, 0), |at| ((at as u64 + 1) * Self::STEP, ended[at]));
        files.push(used);
        place
    }

    /// Remembers the number of line ends before `offset`, a multiple of the step. Positions must be
    /// added in order, because gaps are not filled.
    pub fn learn(&self, metadata: &FileMetadata, offset: u64, ended: u64) {
        let number = offset / Self::STEP;
        let mut files = self.0.lock();
        let found = files.iter().position(|(known, _)| known.is_same_state(metadata));
        let found = found.unwrap_or_else(|| {
            let same_file = |known: &FileMetadata| {
                (known.device, known.inode) == (metadata.device, metadata.inode)
            };
            files.retain(|(known, _)| !same_file(known));
            if files.len() == MAX_FILES {
                files.remove(0);
            }
            files.push((Arc::new(metadata.clone()), LineIndex::default()));
            files.len() - 1
        });
        let ended_before = &mut files[found].1.ended_before;
        if ended_before.len() as u64 + 1 == number {
            ended_before.push(ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileKind;

    fn metadata(inode: u64, modified_ns: i128) -> FileMetadata {
        FileMetadata {
            path: "a".into(),
            kind: FileKind::File,
            size: 10 * LineIndexes::STEP,
            mode: 0,
            owner: (0, 0),
            links: 1,
            modified_ns,
            changed_ns: 0,
            created_ns: None,
            device: 1,
            inode,
            link_target: None,
        }
    }

    #[test]
    fn a_line_end_is_searched_from_the_nearest_position_before_it() {
        let indexes = LineIndexes::default();
        let file = metadata(1, 0);
        assert_eq!(indexes.seek(&file, 50), (0, 0));
        for (step, ended) in [(1, 10), (2, 20), (3, 20), (4, 45)] {
            indexes.learn(&file, step * LineIndexes::STEP, ended);
        }
        for (ends, step, ended) in
            [(1, 0, 0), (10, 0, 0), (11, 1, 10), (20, 1, 10), (21, 3, 20), (99, 4, 45)]
        {
            assert_eq!(indexes.seek(&file, ends), (step * LineIndexes::STEP, ended), "{ends}");
        }
    }

    #[test]
    fn a_changed_file_is_forgotten_and_gaps_are_ignored() {
        let indexes = LineIndexes::default();
        indexes.learn(&metadata(1, 0), LineIndexes::STEP, 10);
        indexes.learn(&metadata(1, 0), 3 * LineIndexes::STEP, 99);
        assert_eq!(indexes.seek(&metadata(1, 0), 100), (LineIndexes::STEP, 10));
        assert_eq!(indexes.seek(&metadata(1, 1), 100), (0, 0));
        indexes.learn(&metadata(1, 1), LineIndexes::STEP, 11);
        assert_eq!(indexes.seek(&metadata(1, 0), 100), (0, 0), "the old state is forgotten");
    }

    #[test]
    fn memory_is_bounded() {
        let indexes = LineIndexes::default();
        for inode in 0..1_000 {
            indexes.learn(&metadata(inode, 0), LineIndexes::STEP, 1);
        }
        assert_eq!(indexes.0.lock().len(), MAX_FILES);
    }
}
