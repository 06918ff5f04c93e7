//! The output of a program: its beginning and end in memory, the rest in an unnamed file, up to a
//! quota.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{ToolError, commands::OutputChunk};
use rustix::fs::{CWD, Mode, OFlags, openat};

/// Maximum size of the beginning and of the end in memory.
const MAX_MEMORY_BYTES: usize = 1 << 20;

pub(crate) struct Log {
    inner: Mutex<LogState>,
}

struct LogState {
    total: u64,
    head: Vec<u8>,
    tail: Tail,
    spill: SpillFile,
    last_output: Instant,
}

/// The kept output after the beginning.
enum SpillFile {
    /// Not created yet; the directory for the file, and its quota.
    Unopened {
        folder: Arc<Path>,
        quota: u64,
    },
    Open {
        file: File,
        length: u64,
        quota: u64,
    },
    /// The disk or the quota is full; the length of the kept part.
    Closed {
        file: Option<File>,
        length: u64,
    },
}

impl Log {
    pub(crate) fn new(folder: Arc<Path>, quota: u64) -> Self {
        let spill = SpillFile::Unopened { folder, quota };
        let (head, tail) = (Vec::new(), Tail::default());
        let inner = LogState { total: 0, head, tail, spill, last_output: Instant::now() };
        Self { inner: Mutex::new(inner) }
    }

    pub(crate) fn add(&self, bytes: &[u8]) {
        let mut inner = self.inner();
        inner.last_output = Instant::now();
        inner.total += bytes.len() as u64;
        let space = MAX_MEMORY_BYTES - inner.head.len();
        let (first, rest) = bytes.split_at(space.min(bytes.len()));
        inner.head.extend_from_slice(first);
        if rest.is_empty() {
            return;
        }
        inner.spill.add(rest);
        inner.tail.add(rest);
    }

    pub(crate) fn total(&self) -> u64 {
        self.inner().total
    }

    pub(crate) fn quiet(&self) -> Duration {
        self.inner().last_output.elapsed()
    }

    /// Returns up to `max` bytes from an offset; if that part was dropped, from the next offset
    /// that was kept.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn read(&self, from: u64, max: usize) -> Result<OutputChunk, ToolError> {
        let inner = self.inner();
        let (total, head) = (inner.total, inner.head.len() as u64);
        let from = from.min(total);
        let (begin, bytes) = if from < head {
            let begin = usize::try_from(from).unwrap_or(usize::MAX);
            let end = begin.saturating_add(max).min(inner.head.len());
            (from, inner.head.get(begin..end).unwrap_or_default().to_vec())
        } else if from - head < inner.spill.length() {
            (from, inner.spill.read(from - head, max)?)
        } else {
            let kept = total - inner.tail.bytes.len() as u64;
            let begin = from.max(kept);
            let skip = usize::try_from(begin - kept).unwrap_or(usize::MAX);
            (begin, inner.tail.read(skip, max))
        };
        Ok(OutputChunk { bytes, begin, total })
    }

    fn inner(&self) -> MutexGuard<'_, LogState> {
        self.inner.lock()
    }
}

/// The last bytes, in a ring buffer.
#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
    /// Index of the oldest byte, once the buffer is full.
    oldest: usize,
}

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        // Only the end of a long piece is kept.
        let bytes = bytes.get(bytes.len().saturating_sub(MAX_MEMORY_BYTES)..).unwrap_or(bytes);
        let (fills, turns) = bytes.split_at(bytes.len().min(MAX_MEMORY_BYTES - self.bytes.len()));
        self.bytes.extend_from_slice(fills);
        let (to_end, from_start) = turns.split_at(turns.len().min(MAX_MEMORY_BYTES - self.oldest));
        self.bytes[self.oldest..self.oldest + to_end.len()].copy_from_slice(to_end);
        self.bytes[..from_start.len()].copy_from_slice(from_start);
        self.oldest = (self.oldest + turns.len()) % MAX_MEMORY_BYTES;
    }

    fn read(&self, skip: usize, max: usize) -> Vec<u8> {
        let (newer, older) = self.bytes.split_at(self.oldest);
        let (first, second) =
            (older.get(skip..).unwrap_or_default(), newer.get(skip.saturating_sub(older.len())..));
        let second = second.unwrap_or_default();
        let first = first.get(..max.min(first.len())).unwrap_or(first);
        let rest = second.get(..(max - first.len()).min(second.len())).unwrap_or(second);
        [first, rest].concat()
    }
}

impl SpillFile {
    fn add(&mut self, bytes: &[u8]) {
        if let Self::Unopened { folder, quota } = self {
            *self = match unnamed_file(folder) {
                Ok(file) => Self::Open { file, length: 0, quota: *quota },
                Err(_) => Self::Closed { file: None, length: 0 },
            };
        }
        let Self::Open { file, length, quota } = self else { return };
        let space = usize::try_from(*quota - *length).unwrap_or(usize::MAX);
        let kept = bytes.get(..space.min(bytes.len())).unwrap_or(bytes);
        let is_written = file.write_all_at(kept, *length).is_ok();
        if is_written {
            *length += kept.len() as u64;
        }
        if !is_written || *length == *quota {
            let length = *length;
            let file = match std::mem::replace(self, Self::Closed { file: None, length }) {
                Self::Open { file, .. } => Some(file),
                _ => None,
            };
            *self = Self::Closed { file, length };
        }
    }

    fn length(&self) -> u64 {
        match self {
            Self::Unopened { .. } => 0,
            Self::Open { length, .. } | Self::Closed { length, .. } => *length,
        }
    }

    fn read(&self, from: u64, max: usize) -> Result<Vec<u8>, ToolError> {
        let (Self::Open { file, length, .. } | Self::Closed { file: Some(file), length }) = self
        else {
            return Ok(Vec::new());
        };
        let left = usize::try_from(length - from).unwrap_or(usize::MAX);
        let mut bytes = vec![0; max.min(left)];
        file.read_exact_at(&mut bytes, from).map_err(|error| {
            ToolError::unavailable("the output that was put on disk cannot be read")
                .caused_by(error)
        })?;
        Ok(bytes)
    }
}

/// The file disappears with this process, however it ends.
fn unnamed_file(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nowhere() -> Arc<Path> {
        Path::new("/nowhere/at/all").into()
    }

    #[track_caller]
    fn check(log: &Log, from: u64, max: usize, begin: u64, bytes: &[u8]) {
        let piece = log.read(from, max).expect("readable");
        assert_eq!((piece.begin, piece.bytes.len()), (begin, bytes.len()));
        assert!(piece.bytes == bytes, "other bytes");
    }

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8 ^ (at >> 10) as u8).collect()
    }

    #[test]
    fn everything_is_kept_up_to_the_quota_and_the_end_always() {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = pattern(6 * MAX_MEMORY_BYTES + 123);
        let log = Log::new(folder.path().into(), 2 * MAX_MEMORY_BYTES as u64);
        for piece in whole.chunks(70_001) {
            log.add(piece);
        }
        assert_eq!(log.total(), whole.len() as u64);
        check(&log, 0, 100, 0, &whole[..100]);
        check(
            &log,
            MAX_MEMORY_BYTES as u64 - 10,
            100,
            MAX_MEMORY_BYTES as u64 - 10,
            &whole[MAX_MEMORY_BYTES - 10..MAX_MEMORY_BYTES],
        );
        let middle = 2 * MAX_MEMORY_BYTES;
        check(&log, middle as u64, 5_000, middle as u64, &whole[middle..middle + 5_000]);
        let (gone, tail) = (4 * MAX_MEMORY_BYTES, whole.len() - MAX_MEMORY_BYTES);
        check(&log, gone as u64, 10, tail as u64, &whole[tail..tail + 10]);
        check(&log, whole.len() as u64 - 5, 10, whole.len() as u64 - 5, &whole[whole.len() - 5..]);
        check(&log, u64::MAX, 10, whole.len() as u64, &[]);
    }

    #[test]
    fn without_a_file_the_beginning_and_the_end_are_left() {
        let whole = pattern(4 * MAX_MEMORY_BYTES);
        let log = Log::new(nowhere(), 1 << 30);
        log.add(&whole);
        check(&log, 5, 10, 5, &whole[5..15]);
        let tail = 3 * MAX_MEMORY_BYTES;
        check(&log, MAX_MEMORY_BYTES as u64, 10, tail as u64, &whole[tail..tail + 10]);
    }

    proptest! {
        #[test]
        fn what_fits_reads_as_it_was_written(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..40), max in 1usize..500) {
            let log = Log::new(nowhere(), 0);
            let whole: Vec<u8> = pieces.concat();
            pieces.iter().for_each(|piece| log.add(piece));
            let mut read = Vec::new();
            while read.len() < whole.len() {
                let piece = log.read(read.len() as u64, max).expect("in memory");
                prop_assert_eq!(piece.begin, read.len() as u64);
                read.extend(piece.bytes);
            }
            prop_assert_eq!(read, whole);
        }
    }
}
