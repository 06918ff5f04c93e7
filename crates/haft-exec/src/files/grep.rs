//! Finds lines that match a pattern, in one file or in all files below a directory. The search
//! itself is done by ripgrep's libraries; this module chooses their input, keeps the results, and
//! stops them.

mod lines;
mod pattern;
mod stream;

use std::{
    collections::BTreeMap,
    io::{self, Read},
    ops::ControlFlow,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use haft_core::{
    ToolError,
    files::{FileGrant, FileKind, FileMatches, MatchLine, SearchFiles, SearchResult, ShouldStop},
};
use parking_lot::{Mutex, RwLock};
use regex_automata::hybrid::dfa::DFA;
use rustix::fs::{self, FileType, SeekFrom};

use self::lines::{LineCollector, keep_matches, skip_matches};
use crate::files::{
    open_file::read_up_to,
    walk::{DirectoryWalk, FileVisitor, Globs, READ, Start, VisitedFile, should_report},
    workspace::{Workspace, not_regular},
};

/// In a directory with more files, other threads take some.
const BATCH_FILES: usize = 64;
/// Maximum size of a file that is read at once; longer ones are read in blocks, so that a search
/// can be stopped.
const MAX_WHOLE_READ_BYTES: usize = 1 << 20;
/// A file with a longer line is searched byte by byte, because the line would have to be in memory
/// as a whole.
const MAX_LINE_BYTES: usize = 8 << 20;
/// Matches that span lines need the whole file in memory.
const MAX_MULTILINE_BYTES: usize = 32 << 20;

/// Searches a file, or all files below a directory.
pub(crate) fn search(
    workspace: &Workspace,
    query: &SearchFiles,
    grant: &FileGrant,
    stop: ShouldStop<'_>,
) -> Result<SearchResult, ToolError> {
    let matcher = pattern::matcher(query)?;
    let globs = query.include.as_deref().map(Globs::list).transpose()?;
    let start = Start::find(workspace, &query.path, grant)?;
    let search = SharedSearch {
        query,
        stop,
        matcher,
        automaton: OnceLock::new(),
        found: FirstMatches::default(),
        is_stopped: AtomicBool::new(false),
    };
    match start.kind {
        FileKind::File => {
            let opened = start.root.open_at(&start.path, READ);
            let handle = opened.map_err(|error| workspace.failure(&start.shown, error, grant))?;
            let mut worker = SearchWorker::new(&search);
            let _ = worker.search_file(handle, &start.shown);
            Ok(search.answer(vec![worker]))
        }
        FileKind::Directory => {
            let start = Start::directory(workspace, &query.path, grant)?;
            let globs = globs.as_ref();
            let ignored = query.ignored;
            let walk =
                DirectoryWalk { start: &start, grant, stop, globs, ignored, batch: BATCH_FILES };
            let walked = walk.run(|| SearchWorker::new(&search));
            let mut searched = search.answer(walked.visitors);
            searched.is_complete &= walked.is_complete;
            searched.unreadable += walked.unreadable;
            Ok(searched)
        }
        kind => Err(not_regular(&start.shown, kind)),
    }
}

/// The state that all workers share.
struct SharedSearch<'a> {
    query: &'a SearchFiles,
    stop: ShouldStop<'a>,
    matcher: RegexMatcher,
    /// Made for the first file that needs it.
    automaton: OnceLock<io::Result<DFA>>,
    found: FirstMatches,
    is_stopped: AtomicBool,
}

/// The files with the first matches, by path. As soon as there are more matches than are wanted,
/// files and directories behind them are skipped, so that a search for a frequent text ends early.
/// Which matches are found does not depend on the order of the walk.
#[derive(Default)]
struct FirstMatches {
    files: Mutex<(BTreeMap<PathBuf, FileMatchLines>, usize)>,
    /// No file behind this one matters.
    last: RwLock<Option<PathBuf>>,
    has_last: AtomicBool,
}

struct FileMatchLines {
    lines: Vec<MatchLine>,
    matches: usize,
}

impl FirstMatches {
    /// Returns false for a file, or a directory with all its files, behind the wanted matches.
    fn is_needed(&self, path: &Path) -> bool {
        !self.has_last.load(Ordering::Acquire)
            || self.last.read().as_deref().is_none_or(|last| path <= last)
    }

    /// Takes what a file has, and drops files behind the first `wanted` matches.
    fn add(&self, path: &Path, lines: Vec<MatchLine>, matches: usize, wanted: usize) {
        let mut files = self.files.lock();
        let (files, total) = &mut *files;
        *total += matches;
        files.insert(path.to_owned(), FileMatchLines { lines, matches });
        while let Some(last) = files.last_entry()
            && *total - last.get().matches >= wanted
        {
            *total -= last.remove().matches;
        }
        if *total >= wanted {
            *self.last.write() = files.last_key_value().map(|(path, _)| path.clone());
            self.has_last.store(true, Ordering::Release);
        }
    }
}

impl SharedSearch<'_> {
    /// One more than is shown, to know whether there are more.
    fn wanted(&self) -> usize {
        self.query.skip.saturating_add(self.query.limit).saturating_add(1)
    }

    fn automaton(&self) -> io::Result<&DFA> {
        let made = self.automaton.get_or_init(|| stream::automaton(self.query));
        made.as_ref().map_err(|error| io::Error::other(error.to_string()))
    }

    fn answer(&self, workers: Vec<SearchWorker<'_>>) -> SearchResult {
        let mut searched = SearchResult {
            is_complete: !self.is_stopped.load(Ordering::Relaxed),
            ..SearchResult::default()
        };
        for worker in workers {
            searched.searched += worker.searched;
            searched.binary += worker.binary;
            searched.unreadable += worker.unreadable;
            searched.unsearched.extend(worker.unsearched);
        }
        searched.is_complete &= searched.unsearched.is_empty();
        searched.unsearched.sort_unstable();
        searched.unsearched.truncate(SearchResult::MAX_UNSEARCHED);
        self.page(&mut searched);
        searched
    }

    /// Puts the wanted part of what was found into the answer.
    fn page(&self, searched: &mut SearchResult) {
        let query = self.query;
        let (mut skip, mut room) = (query.skip, query.limit);
        let (files, total) = std::mem::take(&mut *self.found.files.lock());
        searched.has_more = total > query.skip.saturating_add(query.limit);
        for (path, FileMatchLines { mut lines, matches }) in files {
            let skipped = skip.min(matches);
            skip -= skipped;
            skip_matches(&mut lines, skipped, query.context);
            let shown = room.min(matches - skipped);
            keep_matches(&mut lines, shown, query.context);
            room -= shown;
            if shown > 0 {
                searched.matches += shown;
                searched.files.push(FileMatches { path, lines });
            }
        }
    }
}

/// The searcher of one worker, its buffer and its results.
struct SearchWorker<'a> {
    search: &'a SharedSearch<'a>,
    /// Not shared: with a shared matcher the threads contend for its cache.
    matcher: RegexMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
    searched: usize,
    binary: usize,
    unreadable: usize,
    unsearched: Vec<PathBuf>,
}

impl FileVisitor for SearchWorker<'_> {
    const VISITS_LINKS: bool = false;
    const IN_ORDER: bool = true;

    fn needs(&self, directory: &Path) -> bool {
        self.search.found.is_needed(directory)
    }

    fn visit(&mut self, file: &VisitedFile<'_>) -> ControlFlow<()> {
        if !self.search.found.is_needed(file.path) {
            return ControlFlow::Continue(());
        }
        match file.open() {
            Ok(handle) => self.search_file(handle, file.path),
            Err(error) => {
                self.unreadable += usize::from(should_report(error));
                ControlFlow::Continue(())
            }
        }
    }
}

impl<'a> SearchWorker<'a> {
    fn new(search: &'a SharedSearch<'a>) -> Self {
        let query = search.query;
        let max = if query.is_multiline { MAX_MULTILINE_BYTES } else { MAX_LINE_BYTES };
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .multi_line(query.is_multiline)
            .before_context(query.context)
            .after_context(query.context)
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(max))
            .build();
        Self {
            search,
            matcher: search.matcher.clone(),
            searcher,
            buffer: Vec::new(),
            searched: 0,
            binary: 0,
            unreadable: 0,
            unsearched: Vec::new(),
        }
    }

    fn search_file(&mut self, handle: OwnedFd, path: &Path) -> ControlFlow<()> {
        let search = self.search;
        let new = || LineCollector {
            matcher: &search.matcher,
            line_chars: search.query.line_chars,
            enough: search.wanted() - 1,
            lines: Vec::new(),
            matches: 0,
            is_binary: false,
        };
        let mut lines = new();
        let mut result = self.find_lines(&handle, &mut lines);
        let is_stopped = || search.is_stopped.load(Ordering::Relaxed);
        if let Err(SearchFailure::TooLong) = result
            && !is_stopped()
        {
            lines = new();
            result = self.find_in_long_lines(&handle, &mut lines);
        }
        match result {
            Ok(false) => return ControlFlow::Continue(()),
            Err(SearchFailure::Unreadable) if !is_stopped() => {
                self.unreadable += 1;
                return ControlFlow::Continue(());
            }
            Err(SearchFailure::TooLong) if !is_stopped() => {
                self.unsearched.push(path.to_owned());
                // What was found before is worth showing.
                self.searched += 1;
            }
            _ => self.searched += 1,
        }
        if lines.is_binary {
            self.binary += 1;
            return ControlFlow::Continue(());
        }
        if lines.matches > 0 {
            search.found.add(path, lines.lines, lines.matches, search.wanted());
        }
        if is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// False when it is no regular file after all.
    fn find_lines(
        &mut self,
        handle: &OwnedFd,
        lines: &mut LineCollector<'_>,
    ) -> Result<bool, SearchFailure> {
        let stat = fs::fstat(handle).map_err(|_| SearchFailure::Unreadable)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Ok(false);
        }
        let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        if size <= MAX_WHOLE_READ_BYTES {
            if self.buffer.len() < size {
                self.buffer.resize(size.next_power_of_two(), 0);
            }
            let read = read_up_to(handle, &mut self.buffer[..size]);
            let read = read.map_err(|_| SearchFailure::Unreadable)?;
            let searched = self.searcher.search_slice(&self.matcher, &self.buffer[..read], lines);
            return searched.map(|()| true).map_err(|_| SearchFailure::Unreadable);
        }
        let mut reader = BlockReader::new(handle, self.search);
        let searched = self.searcher.search_reader(&self.matcher, &mut reader, lines);
        // What the searcher gives up by itself is a line, or a text of several, that is too long for its memory.
        let failure =
            if reader.has_failed { SearchFailure::Unreadable } else { SearchFailure::TooLong };
        searched.map(|()| true).map_err(|_| failure)
    }

    /// The same with lines of any length, but not with matches that span lines.
    fn find_in_long_lines(
        &self,
        handle: &OwnedFd,
        lines: &mut LineCollector<'_>,
    ) -> Result<bool, SearchFailure> {
        let query = self.search.query;
        if query.is_multiline {
            return Err(SearchFailure::TooLong);
        }
        let dfa = self.search.automaton().map_err(|_| SearchFailure::TooLong)?;
        fs::seek(handle, SeekFrom::Start(0)).map_err(|_| SearchFailure::Unreadable)?;
        let mut reader = BlockReader::new(handle, self.search);
        let searched = stream::find_lines(dfa, &mut reader, query.context, lines);
        let failure =
            if reader.has_failed { SearchFailure::Unreadable } else { SearchFailure::TooLong };
        searched.map(|()| true).map_err(|_| failure)
    }
}

/// Why a file was not searched to its end.
enum SearchFailure {
    Unreadable,
    /// A line, or a match that spans lines, would have to be in memory whole.
    TooLong,
}

/// Reads a long file in blocks, and checks before each block whether to stop.
struct BlockReader<'a> {
    handle: &'a OwnedFd,
    search: &'a SharedSearch<'a>,
    has_failed: bool,
}

impl<'a> BlockReader<'a> {
    fn new(handle: &'a OwnedFd, search: &'a SharedSearch<'a>) -> Self {
        Self { handle, search, has_failed: false }
    }
}

impl Read for BlockReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.search.stop)() {
            self.search.is_stopped.store(true, Ordering::Relaxed);
            return Err(io::Error::other("stopped"));
        }
        let read = rustix::io::read(self.handle, buffer);
        self.has_failed |= read.is_err_and(|error| error != rustix::io::Errno::INTR);
        Ok(read?)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use haft_core::{ErrorKind, files::ReadFiles};
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    fn workspace(contents: &[(&str, &[u8])]) -> (TempDir, ReadFiles) {
        let folder = TempDir::new().expect("a folder");
        for (path, content) in contents {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, content).expect("written");
        }
        let workspace = Workspace::open(folder.path()).expect("opens");
        (folder, ReadFiles::unchecked(Arc::new(workspace)))
    }

    fn for_text(pattern: &str) -> SearchFiles {
        SearchFiles {
            path: ".".into(),
            pattern: pattern.into(),
            is_literal: false,
            ignores_case: false,
            is_multiline: false,
            context: 0,
            include: None,
            skip: 0,
            limit: 1000,
            ignored: false,
            line_chars: 100,
        }
    }

    #[track_caller]
    fn run(files: &ReadFiles, query: &SearchFiles) -> SearchResult {
        files.search(query, &|| false).expect("a search")
    }

    /// Formats the result as `path:line:text`, with `-` for context lines.
    fn formatted(searched: &SearchResult) -> Vec<String> {
        let mut formatted = Vec::new();
        for file in &searched.files {
            formatted.extend(file.lines.iter().map(|line| {
                let mark = if line.is_match { ':' } else { '-' };
                format!("{}{mark}{}{mark}{}", file.path.display(), line.number, line.text)
            }));
        }
        formatted
    }

    #[track_caller]
    fn check(files: &ReadFiles, query: &SearchFiles, expected: &[&str]) {
        let searched = run(files, query);
        assert_eq!(formatted(&searched), expected, "{query:?}");
        assert!(searched.is_complete && !searched.has_more);
        let matches = expected.iter().filter(|line| line.contains(':')).count();
        assert_eq!(searched.matches, matches);
    }

    #[test]
    fn lines_have_path_and_number() {
        let (_folder, files) = workspace(&[
            ("b.txt", b"one\r\ntwo foo\r\nfoo\xff"),
            ("a/c.rs", b"fn foo() {}\n"),
            (".github/x.yml", b"foo: 1\n"),
        ]);
        let all = [
            ".github/x.yml:1:foo: 1",
            "a/c.rs:1:fn foo() {}",
            "b.txt:2:two foo",
            "b.txt:3:foo\u{fffd}",
        ];
        check(&files, &for_text("foo"), &all);
        check(&files, &for_text("FOO"), &[]);
        check(&files, &SearchFiles { ignores_case: true, ..for_text("TWO") }, &["b.txt:2:two foo"]);
        check(
            &files,
            &SearchFiles { is_literal: true, ..for_text("foo()") },
            &["a/c.rs:1:fn foo() {}"],
        );
        check(&files, &for_text("foo$"), &["b.txt:2:two foo"]);
        let query = SearchFiles { include: Some("*.rs,.github/*".into()), ..for_text("foo") };
        check(&files, &query, &all[..2]);
        check(&files, &SearchFiles { path: "a".into(), ..for_text("foo") }, &all[1..2]);
    }

    #[test]
    fn a_path_to_a_file_searches_that_file_only_even_an_ignored_one() {
        let (_folder, files) =
            workspace(&[("a/x.log", b"hit\n"), ("a/y.txt", b"hit\n"), (".gitignore", b"*.log\n")]);
        check(
            &files,
            &SearchFiles { path: "a/x.log".into(), ..for_text("hit") },
            &["a/x.log:1:hit"],
        );
        check(&files, &for_text("hit"), &["a/y.txt:1:hit"]);
        let query = SearchFiles { ignored: true, ..for_text("hit") };
        check(&files, &query, &["a/x.log:1:hit", "a/y.txt:1:hit"]);
        let query = SearchFiles { path: "a/z".into(), ..query };
        let error = files.search(&query, &|| false).expect_err("no such file");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn context_is_merged_and_the_limit_counts_matches_only() {
        let (_folder, files) = workspace(&[("f", b"1\n2 x\n3\n4 x\n5\n6\n7\n8 x\n")]);
        let query = SearchFiles { context: 1, ..for_text("x") };
        check(
            &files,
            &query,
            &["f-1-1", "f:2:2 x", "f-3-3", "f:4:4 x", "f-5-5", "f-7-7", "f:8:8 x"],
        );
        let two = run(&files, &SearchFiles { limit: 2, ..query.clone() });
        assert_eq!(formatted(&two), ["f-1-1", "f:2:2 x", "f-3-3", "f:4:4 x", "f-5-5"]);
        assert!(two.has_more && two.matches == 2);
        let three = run(&files, &SearchFiles { limit: 3, ..query });
        assert!(!three.has_more && three.matches == 3);
    }

    #[test]
    fn there_is_more_only_when_there_really_is() {
        let contents: Vec<(String, Vec<u8>)> = (0..200)
            .map(|number| (format!("d{}/{number}", number % 7), b"hit\n".to_vec()))
            .collect();
        let contents: Vec<(&str, &[u8])> =
            contents.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
        let (_folder, files) = workspace(&contents);
        for (limit, matches, has_more) in
            [(0, 0, true), (1, 1, true), (199, 199, true), (200, 200, false), (201, 200, false)]
        {
            let searched = run(&files, &SearchFiles { limit, ..for_text("hit") });
            assert_eq!((searched.matches, searched.has_more), (matches, has_more), "{limit}");
            assert_eq!(formatted(&searched).len(), matches);
            assert!(searched.files.is_sorted_by(|a, b| a.path < b.path));
        }
    }

    #[test]
    fn binary_files_are_counted_and_not_shown() {
        let mut late = b"hit\n".repeat(30_000);
        late.push(0);
        let mut very_late = b"hit\n".repeat(300_000);
        very_late.push(0);
        let (_folder, files) = workspace(&[
            ("early", b"\0hit\n"),
            ("late", &late),
            ("very_late", &very_late),
            ("text", b"hit\n"),
        ]);
        let searched = run(&files, &SearchFiles { limit: 2_000_000, ..for_text("hit") });
        assert_eq!(formatted(&searched), ["text:1:hit"]);
        assert_eq!((searched.binary, searched.searched, searched.matches), (3, 4, 1));
    }

    #[test]
    fn sixteen_bit_text_is_decoded() {
        let little: Vec<u8> =
            "\u{feff}ein hit\nzwei\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let marked = b"\xef\xbb\xbfhit\n";
        let (_folder, files) = workspace(&[("a", &little), ("b", marked)]);
        check(&files, &for_text("^hit|ein hit"), &["a:1:ein hit", "b:1:hit"]);
    }

    #[test]
    fn a_match_may_span_lines_when_asked_for() {
        let (_folder, files) = workspace(&[("f", b"fn a(\n    b,\n) {}\nfn c() {}\n")]);
        let query = SearchFiles { is_multiline: true, ..for_text("fn \\w+\\([^)]*\\)") };
        check(&files, &query, &["f:1:fn a(", "f:2:    b,", "f:3:) {}", "f:4:fn c() {}"]);
        let one = run(&files, &SearchFiles { limit: 2, ..query });
        assert!(one.has_more && one.matches == 2);
        let error = files.search(&for_text("a\\(\\n"), &|| false).expect_err("spans lines");
        assert!(error.next_step().contains("multiline"));
    }

    #[test]
    fn a_long_line_is_truncated_so_that_the_match_is_seen() {
        let line = format!("{}needle{}", "a".repeat(5_000), "b".repeat(5_000));
        let (_folder, files) = workspace(&[("f", line.as_bytes())]);
        let searched = run(&files, &for_text("needle"));
        let line = &searched.files[0].lines[0];
        assert!(line.is_truncated && line.text.contains("needle") && line.text.len() == 100);
    }

    #[test]
    fn matches_in_endless_lines_are_found_and_shown() {
        let mut endless = b"before\nx".to_vec();
        endless.resize(MAX_LINE_BYTES * 2, b'x');
        let place = MAX_LINE_BYTES + (MAX_LINE_BYTES >> 1);
        endless[place..place + 6].copy_from_slice(b"needle");
        endless.extend_from_slice(b"y\r\nneedle\r\nlast");
        let (_folder, files) = workspace(&[("endless", &endless), ("ok", b"a needle\n")]);
        let searched = run(&files, &SearchFiles { context: 1, ..for_text("nee.le") });
        assert!(searched.is_complete && searched.unsearched.is_empty());
        let lines = &searched.files[0].lines;
        let numbers: Vec<(u64, bool)> = lines.iter().map(|it| (it.number, it.is_match)).collect();
        assert_eq!(numbers, [(1, false), (2, true), (3, true), (4, false)]);
        let (long, next) = (&lines[1], &lines[2]);
        assert!(long.is_truncated && long.text.contains("xneedlex") && long.text.len() == 100);
        assert_eq!((&*next.text, next.is_truncated), ("needle", false));
        assert_eq!(searched.matches, 3);
        for (pattern, count) in
            [("^xx", 1), ("y$", 1), ("^needle$", 1), ("x.*needle.*y$", 1), ("^y", 0), ("z", 0)]
        {
            let query = SearchFiles { path: "endless".into(), ..for_text(pattern) };
            assert_eq!(run(&files, &query).matches, count, "{pattern}");
        }
        let literal = SearchFiles { is_literal: true, ..for_text("x.*needle") };
        assert_eq!(run(&files, &literal).matches, 0);
        let any_case = SearchFiles { ignores_case: true, is_literal: true, ..for_text("NEEDLEX") };
        assert_eq!(run(&files, &any_case).matches, 1);
    }

    #[test]
    fn directories_behind_the_wanted_matches_are_not_entered() {
        let found = FirstMatches::default();
        assert!(found.is_needed(Path::new("z")), "nothing is found yet");
        found.add(Path::new("d/f"), Vec::new(), 2, 3);
        assert!(found.is_needed(Path::new("z")), "one match is missing");
        found.add(Path::new("d/k"), Vec::new(), 1, 3);
        for (path, is_needed) in [
            ("", true),
            ("a", true),
            ("d", true),
            ("d/a", true),
            ("d/k/x", false),
            ("d/z", false),
            ("e", false),
        ] {
            assert_eq!(found.is_needed(Path::new(path)), is_needed, "{path}");
        }
        found.add(Path::new("a"), Vec::new(), 3, 3);
        assert!(!found.is_needed(Path::new("d")), "an earlier file has enough");
    }

    #[test]
    fn a_file_that_cannot_be_searched_is_named() {
        let endless = b"x\n".repeat(MAX_MULTILINE_BYTES);
        let (_folder, files) = workspace(&[("endless", &endless), ("ok", b"xy\n")]);
        let searched = run(&files, &SearchFiles { is_multiline: true, ..for_text("x[^z]?y") });
        assert_eq!(formatted(&searched), ["ok:1:xy"]);
        assert!(!searched.is_complete);
        assert_eq!(searched.unsearched, [Path::new("endless")]);
    }

    #[test]
    fn pages_follow_each_other_whatever_the_order_of_the_walk() {
        let contents: Vec<(String, Vec<u8>)> = (0..150)
            .map(|number| (format!("d{}/{number}", number % 7), b"hit\nno\n".repeat(number % 4)))
            .collect();
        let contents: Vec<(&str, &[u8])> =
            contents.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
        let (_folder, files) = workspace(&contents);
        let whole = run(&files, &for_text("hit"));
        let all = formatted(&whole);
        assert!(!whole.has_more && all.len() > 200);
        for limit in [1, 17, 100] {
            let mut paged = Vec::new();
            loop {
                let query = SearchFiles { skip: paged.len(), limit, ..for_text("hit") };
                let page = run(&files, &query);
                paged.extend(formatted(&page));
                if !page.has_more {
                    break;
                }
                assert_eq!(page.matches, limit);
            }
            assert_eq!(paged, all);
            let beyond = SearchFiles { skip: all.len(), limit, ..for_text("hit") };
            assert!(run(&files, &beyond).files.is_empty());
        }
    }

    #[test]
    fn long_files_are_searched_in_blocks_and_can_be_stopped() {
        let mut long = b"some line\n".repeat(MAX_WHOLE_READ_BYTES / 4);
        long.extend_from_slice(b"the needle\n");
        let (_folder, files) = workspace(&[("long", &long)]);
        let number = MAX_WHOLE_READ_BYTES / 4 + 1;
        check(&files, &for_text("needle"), &[&format!("long:{number}:the needle")]);
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) > 5;
        let query = SearchFiles { path: "long".into(), ..for_text("needle") };
        let searched = files.search(&query, &stop).expect("a search");
        assert!(!searched.is_complete && searched.files.is_empty() && searched.unreadable == 0);
    }

    #[test]
    fn only_regular_files_are_opened() {
        let (folder, files) = workspace(&[("f", b"hit\n")]);
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .expect("made");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).expect("made");
        check(&files, &for_text("hit|root"), &["f:1:hit"]);
        let query = SearchFiles { path: "pipe".into(), ..for_text("hit") };
        let error = files.search(&query, &|| false).expect_err("a pipe");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The automaton and the usual search find the same lines.
        #[test]
        fn long_lines_are_searched_as_short_ones_are(
            text in "[abß \\r\n]{0,40}",
            // Texts that are patterns: `^a$`, `a.*b`, `\\ba`, `[^a]b`, `(?i)A`.
            needle in "(\\^?[abß]{1,2}\\$?|a\\.\\*b|\\\\ba|\\[\\^a\\]b|\\(\\?i\\)A)",
            context in 0_usize..3,
            ignores_case in any::<bool>(),
        ) {
            let query = SearchFiles { context, ignores_case, ..for_text(&needle) };
            let matcher = pattern::matcher(&query).expect("a pattern");
            let new = || LineCollector {
                matcher: &matcher, line_chars: 100, enough: 1000, lines: Vec::new(), matches: 0, is_binary: false,
            };
            let mut usual = new();
            let mut searcher = SearcherBuilder::new()
                .line_number(true).before_context(context).after_context(context).build();
            searcher.search_slice(&matcher, text.as_bytes(), &mut usual).expect("a search");
            let mut streamed = new();
            let dfa = stream::automaton(&query).expect("a pattern");
            let found = stream::find_lines(&dfa, text.as_bytes(), context, &mut streamed);
            // It gives up on word borders beside letters beyond ASCII, and says so.
            let may_give_up = needle.contains("\\b") && !text.is_ascii();
            prop_assert!(found.is_ok() || may_give_up, "{found:?}");
            if found.is_ok() {
                prop_assert_eq!(streamed.lines, usual.lines);
                prop_assert_eq!(streamed.matches, usual.matches);
            }
        }

        #[test]
        fn a_search_finds_what_looking_at_each_line_finds(
            lines in proptest::collection::vec("[ab \r]{0,4}", 0..12),
            needle in "[ab]{1,2}",
            limit in 0_usize..8,
            context in 0_usize..3,
        ) {
            let (_folder, files) = workspace(&[("f", lines.join("\n").as_bytes())]);
            let query = SearchFiles { limit, context, is_literal: true, ..for_text(&needle) };
            let searched = run(&files, &query);
            let expected: Vec<u64> = (1..)
                .zip(&lines)
                .filter(|(_, line)| line.contains(&needle))
                .map(|(number, _)| number)
                .collect();
            let found = searched.files.iter().flat_map(|file| &file.lines);
            let matching: Vec<u64> = found.clone().filter(|l| l.is_match).map(|l| l.number).collect();
            prop_assert_eq!(&matching[..], &expected[..expected.len().min(limit)]);
            prop_assert_eq!(searched.has_more, expected.len() > limit);
            let numbers: Vec<u64> = found.map(|line| line.number).collect();
            prop_assert!(numbers.is_sorted_by(|a, b| a < b), "merged and never twice: {numbers:?}");
            let near = |number: &u64| matching.iter().any(|m| m.abs_diff(*number) <= context as u64);
            prop_assert!(numbers.iter().all(near));
        }
    }
}
