//! Reads some lines of a file of any size in constant memory: the file is read block by block, and
//! only the requested lines are kept, up to a maximum length.

use std::borrow::Cow;

use haft_core::{
    ToolError,
    files::{LineIndexes, OpenFile},
};
use memchr::{memchr, memchr_iter};

use super::encoding::TextEncoding;

/// Maximum length of a line; longer ones are truncated.
pub(crate) const LINE_CHARS: usize = 2_000;
/// Maximum size of a line: a character has at most four bytes in every supported encoding.
const LINE_BYTES: usize = LINE_CHARS * 4;
const BLOCK_BYTES: usize = LineIndexes::STEP as usize;

/// The lines to read, and their limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowRequest {
    /// First line, counted from 1.
    pub(crate) first: u64,
    /// Maximum number of lines.
    pub(crate) lines: usize,
    /// Maximum number of bytes.
    pub(crate) bytes: usize,
    /// Number of bytes that a line takes in addition to its text.
    pub(crate) margin: usize,
    /// True if the lines are shown without numbers.
    pub(crate) is_plain: bool,
}

/// Lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineWindow<'a> {
    /// The lines, each with a newline, whatever ended it in the file. One text instead of one
    /// allocation per line; borrowed from the file's text where that has the same form.
    text: Cow<'a, str>,
    count: usize,
    /// Number of truncated lines.
    pub(crate) cut: usize,
    /// True when the file continues after the lines.
    pub(crate) has_more: bool,
    /// Number of lines of the file, if its end was reached.
    pub(crate) total: Option<u64>,
    /// Size of the lines with their margins.
    bytes: usize,
    /// Where each line ends in the text.
    ends: Vec<usize>,
}

/// Returns lines of a text in memory.
pub(crate) fn of_text(text: &str, request: WindowRequest) -> LineWindow<'_> {
    if let Some(window) = LineWindow::of_all(text, request) {
        return window;
    }
    let mut window = LineWindow::default();
    // Growing in steps would copy the text several times.
    window.text.to_mut().reserve(request.bytes.min(text.len() + 1));
    let mut total: u64 = 0;
    let mut is_full = false;
    let mut begin = 0;
    let ends = memchr_iter(b'\n', text.as_bytes());
    for end in ends.chain([text.len()].into_iter().filter(|_| !text.is_empty())) {
        if begin == text.len() {
            break;
        }
        total += 1;
        if total >= request.first && !is_full {
            let line = text.get(begin..end).expect("between two newlines are whole characters");
            is_full = !window.take(line.strip_suffix('\r').unwrap_or(line), false, request);
        }
        begin = end + 1;
    }
    window.has_more = is_full || request.first + (window.count as u64) <= total;
    window.total = Some(total);
    window
}

/// Reads lines of an open file in which the byte 10 is a newline. `stop` ends the search early,
/// with the lines read so far.
///
/// # Errors
/// The error of the file when it cannot be read.
pub(crate) fn of_file(
    file: &dyn OpenFile,
    form: TextEncoding,
    request: WindowRequest,
    indexes: &LineIndexes,
    stop: &dyn Fn() -> bool,
) -> Result<LineWindow<'static>, ToolError> {
    let mut blocks = FileBlocks::new(file);
    let mut passed = 0;
    if request.first > 1 {
        passed = match skip(&mut blocks, request.first - 1, indexes, stop)? {
            SkipResult::Reached => request.first - 1,
            SkipResult::EndOfFile { lines } => {
                return Ok(LineWindow { total: Some(lines), ..LineWindow::default() });
            }
        };
    }
    collect(&mut blocks, form, request, passed, stop)
}

enum SkipResult {
    Reached,
    /// The file ended first.
    EndOfFile {
        lines: u64,
    },
}

/// Skips `ends` line ends, starting from the nearest known offset, and remembers offsets on the
/// way.
fn skip(
    blocks: &mut FileBlocks<'_>,
    ends: u64,
    indexes: &LineIndexes,
    stop: &dyn Fn() -> bool,
) -> Result<SkipResult, ToolError> {
    let facts = blocks.file.metadata();
    let (offset, mut passed) = indexes.seek(facts, ends);
    blocks.go_to(offset);
    let mut is_open = false;
    while !stop() && blocks.load()? {
        let block = blocks.rest();
        let found = memchr_iter(b'\n', block).count() as u64;
        if passed + found >= ends {
            let nth = usize::try_from(ends - passed - 1).unwrap_or(usize::MAX);
            let end = memchr_iter(b'\n', block).nth(nth).unwrap_or(block.len());
            blocks.take(end + 1);
            return Ok(SkipResult::Reached);
        }
        is_open = block.last() != Some(&b'\n');
        passed += found;
        blocks.take(block.len());
        indexes.learn(facts, blocks.position(), passed);
    }
    Ok(SkipResult::EndOfFile { lines: passed + u64::from(is_open) })
}

fn collect(
    blocks: &mut FileBlocks<'_>,
    form: TextEncoding,
    request: WindowRequest,
    passed: u64,
    stop: &dyn Fn() -> bool,
) -> Result<LineWindow<'static>, ToolError> {
    let mut window = LineWindow::default();
    let mut line = PartialLine::default();
    if passed == 0 && blocks.load()? && blocks.rest().starts_with(form.mark()) {
        blocks.take(form.mark().len());
    }
    while !stop() && blocks.load()? {
        let block = blocks.rest();
        let end = memchr(b'\n', block);
        line.add(block.get(..end.unwrap_or(block.len())).unwrap_or(block));
        blocks.take(end.map_or(block.len(), |end| end + 1));
        if end.is_some() {
            if !line.finish(form, request, &mut window) {
                window.has_more = true;
                return Ok(window);
            }
            if window.count == request.lines {
                window.has_more = blocks.load()?;
                let ended = passed + window.count as u64;
                window.total = (!window.has_more).then_some(ended);
                return Ok(window);
            }
        }
    }
    if line.is_begun && !line.finish(form, request, &mut window) {
        window.has_more = true;
        return Ok(window);
    }
    window.total = Some(passed + window.count as u64);
    Ok(window)
}

impl<'a> LineWindow<'a> {
    /// Returns the whole text, if all of it is requested and it needs no change, as for most files.
    fn of_all(text: &'a str, request: WindowRequest) -> Option<Self> {
        let is_plain = text.ends_with('\n') && memchr(b'\r', text.as_bytes()).is_none();
        if request.first != 1 || !is_plain || text.len() > request.bytes {
            return None;
        }
        // Lines of code are about thirty bytes long.
        let mut ends = Vec::with_capacity((text.len() / 24).min(request.lines) + 1);
        let mut begin = 0;
        for end in memchr_iter(b'\n', text.as_bytes()) {
            if end - begin > LINE_CHARS {
                return None;
            }
            ends.push(end);
            begin = end + 1;
        }
        let count = ends.len();
        let bytes = text.len() - count + count * request.margin;
        let total = Some(count as u64);
        let fits = count <= request.lines && bytes <= request.bytes;
        fits.then(|| Self { text: text.into(), count, bytes, total, ends, ..Self::default() })
    }

    /// Takes a line if it fits. Returns false if it does not.
    fn take(&mut self, line: &str, is_cut: bool, request: WindowRequest) -> bool {
        // A line has at most as many characters as bytes.
        let cut = if line.len() <= LINE_CHARS { None } else { line.char_indices().nth(LINE_CHARS) };
        let (shown, is_long) = match cut {
            Some((end, _)) => (line.get(..end).unwrap_or(line), true),
            None => (line, is_cut),
        };
        let bytes = self.bytes + shown.len() + request.margin;
        let is_full = self.count == request.lines || (self.count > 0 && bytes > request.bytes);
        if is_full {
            return false;
        }
        self.cut += usize::from(is_long);
        self.bytes = bytes;
        self.count += 1;
        let text = self.text.to_mut();
        text.push_str(shown);
        self.ends.push(text.len());
        text.push('\n');
        true
    }

    /// Returns the number of lines.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the lines without their endings.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        let mut begin = 0;
        self.ends.iter().map(move |&end| {
            let line = self.text.get(begin..end).expect("between two ends are whole characters");
            begin = end + 1;
            line
        })
    }

    /// Returns all lines, with newlines between them.
    pub(crate) fn joined(&self) -> &str {
        self.text.strip_suffix('\n').unwrap_or(&self.text)
    }
}

/// A line that is being read from several blocks.
#[derive(Default)]
struct PartialLine {
    bytes: Vec<u8>,
    is_begun: bool,
    is_cut: bool,
}

impl PartialLine {
    fn add(&mut self, piece: &[u8]) {
        self.is_begun = true;
        let room = LINE_BYTES.saturating_sub(self.bytes.len());
        self.is_cut |= piece.len() > room;
        self.bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    fn finish(
        &mut self,
        form: TextEncoding,
        request: WindowRequest,
        window: &mut LineWindow<'_>,
    ) -> bool {
        if !self.is_cut && self.bytes.last() == Some(&b'\r') {
            self.bytes.pop();
        }
        let text = form.show(&self.bytes);
        let is_taken = window.take(&text, self.is_cut, request);
        self.bytes.clear();
        (self.is_begun, self.is_cut) = (false, false);
        is_taken
    }
}

/// Reads a file in blocks that begin at multiples of their size, so that offsets can be remembered.
struct FileBlocks<'a> {
    file: &'a dyn OpenFile,
    buffer: Vec<u8>,
    /// Offset of the buffer in the file.
    begin: u64,
    filled: usize,
    taken: usize,
}

impl<'a> FileBlocks<'a> {
    fn new(file: &'a dyn OpenFile) -> Self {
        let size = usize::try_from(file.metadata().size).unwrap_or(usize::MAX);
        // One byte more than the file distinguishes its end from a full buffer.
        let buffer = vec![0; BLOCK_BYTES.min(size.saturating_add(1))];
        Self { file, buffer, begin: 0, filled: 0, taken: 0 }
    }

    fn go_to(&mut self, offset: u64) {
        (self.begin, self.filled, self.taken) = (offset, 0, 0);
    }

    /// Reads the next block if the buffer is used up. Returns false at the end of the file.
    fn load(&mut self) -> Result<bool, ToolError> {
        if self.taken < self.filled {
            return Ok(true);
        }
        self.begin += self.filled as u64;
        (self.filled, self.taken) = (0, 0);
        while self.filled < self.buffer.len() {
            let offset = self.begin + self.filled as u64;
            let read = self.file.read_at(&mut self.buffer[self.filled..], offset)?;
            if read == 0 {
                break;
            }
            self.filled += read;
        }
        Ok(self.filled > 0)
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.taken..self.filled).unwrap_or_default()
    }

    fn take(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    fn position(&self) -> u64 {
        self.begin + self.taken as u64
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use haft_core::files::{FileKind, FileMetadata};
    use proptest::prelude::*;

    use super::*;

    struct MemoryFile {
        facts: FileMetadata,
        bytes: Vec<u8>,
    }

    impl OpenFile for MemoryFile {
        fn metadata(&self) -> &FileMetadata {
            &self.facts
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, ToolError> {
            let rest =
                self.bytes.get(usize::try_from(offset).expect("small")..).unwrap_or_default();
            // A disk may return fewer bytes than requested.
            let length = rest.len().min(buffer.len()).min(100_000);
            buffer[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        }
    }

    fn file(bytes: impl Into<Vec<u8>>) -> MemoryFile {
        let bytes = bytes.into();
        let facts = FileMetadata {
            path: PathBuf::from("a"),
            kind: FileKind::File,
            size: bytes.len() as u64,
            mode: 0,
            owner: (0, 0),
            links: 1,
            modified_ns: 0,
            changed_ns: 0,
            created_ns: None,
            device: 1,
            inode: 1,
            link_target: None,
        };
        MemoryFile { facts, bytes }
    }

    fn request(first: u64, lines: usize) -> WindowRequest {
        WindowRequest { first, lines, bytes: 50_000, margin: 0, is_plain: false }
    }

    fn window(
        file: &MemoryFile,
        request: WindowRequest,
        indexes: &LineIndexes,
    ) -> LineWindow<'static> {
        of_file(file, TextEncoding::UTF_8, request, indexes, &|| false).expect("readable")
    }

    #[test]
    fn the_second_read_starts_near_and_returns_the_same() {
        let text: String = (1..=300_000).map(|n| format!("line {n}\n")).collect();
        let file = file(text);
        let indexes = LineIndexes::default();
        for _ in 0..2 {
            let found = window(&file, request(250_000, 2), &indexes);
            assert_eq!(found.lines().collect::<Vec<_>>(), ["line 250000", "line 250001"]);
            assert!(found.has_more && found.total.is_none());
        }
        assert!(indexes.seek(&file.facts, 249_999).0 >= 4 * LineIndexes::STEP);
        let end = window(&file, request(300_000, 5), &indexes);
        assert_eq!((end.count(), end.has_more, end.total), (1, false, Some(300_000)));
        let beyond = window(&file, request(300_001, 5), &indexes);
        assert_eq!((beyond.count(), beyond.total), (0, Some(300_000)));
    }

    #[test]
    fn a_line_of_any_length_is_truncated_and_the_next_one_found() {
        let file = file(format!("{}\nnext\n", "\u{e9}".repeat(2_000_000)));
        let found = window(&file, request(1, 5), &LineIndexes::default());
        assert_eq!(found.lines().next().map(|line| line.chars().count()), Some(LINE_CHARS));
        assert_eq!((found.lines().nth(1), found.cut, found.total), (Some("next"), 1, Some(2)));
    }

    #[test]
    fn bytes_are_limited_but_one_line_is_always_returned() {
        let request = WindowRequest { first: 1, lines: 10, bytes: 5, margin: 0, is_plain: false };
        let found = of_text("0123456789\nab\n", request);
        assert_eq!((found.count(), found.has_more, found.total), (1, true, Some(2)));
    }

    proptest! {
        #[test]
        fn both_implementations_agree_with_a_simple_one(
            text in "[ab\\r\\n\u{e9}]{0,60}",
            first in 1_u64..12,
            lines in 1_usize..6,
            bytes in 1_usize..20,
            margin in 0_usize..4,
        ) {
            let request = WindowRequest { first, lines, bytes, margin, is_plain: false };
            let all: Vec<&str> = text.split_inclusive('\n').collect();
            let total = all.len() as u64;
            let whole = of_text(&text, request);
            let indexes = LineIndexes::default();
            let streamed = window(&file(text.as_bytes()), request, &indexes);
            prop_assert_eq!(&whole.text, &streamed.text);
            prop_assert_eq!(whole.has_more, streamed.has_more);
            prop_assert_eq!(whole.total, Some(total));
            prop_assert!(streamed.total.is_none_or(|seen| seen == total));
            let skipped = usize::try_from(first - 1).expect("small");
            for (line, expected) in whole.lines().zip(all.iter().skip(skipped)) {
                let expected = expected.strip_suffix('\n').unwrap_or(expected);
                prop_assert_eq!(line, expected.strip_suffix('\r').unwrap_or(expected));
            }
            let taken = whole.count() as u64;
            prop_assert_eq!(whole.has_more, first <= total && first - 1 + taken < total);
        }
    }
}
