//! Where lines begin in large files, remembered at a few places, so that the second look deep into one is immediate.

use std::sync::Arc;

use parking_lot::Mutex;

use super::FileMetadata;

/// Files that are remembered; the one not used for longest goes first.
const MOST_FILES: usize = 64;

/// What is known of one state of one file: how many lines end before each multiple of [`LineIndexes::STEP`].
#[derive(Debug, Default, Clone)]
struct Index {
    ended_before: Vec<u64>,
}

/// Line numbers of files that were read, by identity and state.
#[derive(Default)]
pub struct LineIndexes(Mutex<Vec<(Arc<FileMetadata>, Index)>>);

impl LineIndexes {
    /// The distance between two places that are remembered, in bytes.
    pub const STEP: u64 = 512 << 10;

    /// The last remembered place with fewer than `ends` line ends before it, as (offset, line ends before it). Looking
    /// on from there one meets the line end of that number.
    pub fn seek(&self, facts: &FileMetadata, ends: u64) -> (u64, u64) {
        let mut files = self.0.lock();
        let Some(found) = files.iter().position(|(known, _)| known.is_same_state(facts)) else {
            return (0, 0);
        };
        let used = files.remove(found);
        let ended = &used.1.ended_before;
        let at = ended.partition_point(|ended| *ended < ends).checked_sub(1);
        let place = at.map_or((0, 0), |at| ((at as u64 + 1) * Self::STEP, ended[at]));
        files.push(used);
        place
    }

    /// Remembers how many lines end before `offset`, a multiple of the step. Gaps are not filled: places must come in
    /// order from the last known one.
    pub fn learn(&self, facts: &FileMetadata, offset: u64, ended: u64) {
        let number = offset / Self::STEP;
        let mut files = self.0.lock();
        let found = files.iter().position(|(known, _)| known.is_same_state(facts));
        let found = found.unwrap_or_else(|| {
            let same_file =
                |known: &FileMetadata| (known.device, known.inode) == (facts.device, facts.inode);
            files.retain(|(known, _)| !same_file(known));
            if files.len() == MOST_FILES {
                files.remove(0);
            }
            files.push((Arc::new(facts.clone()), Index::default()));
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
    fn a_line_end_is_sought_from_the_nearest_place_before_it() {
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
    fn a_changed_file_is_another_one_and_gaps_are_not_believed() {
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
        assert_eq!(indexes.0.lock().len(), MOST_FILES);
    }
}
