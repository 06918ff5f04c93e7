//! Finds lines that match a pattern, in one file or in all files below a directory. The search
//! itself is done by ripgrep's libraries; this module chooses their input, keeps the results, and
//! stops them.

mod lines;
mod pattern;

use std::{
    io::{self, Read},
    ops::ControlFlow,
    os::fd::OwnedFd,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use haft_core::{
    ToolError,
    files::{FileGrant, FileKind, FileMatches, MatchLine, SearchFiles, SearchResult, ShouldStop},
};
use rustix::fs::{self, FileType};

use self::lines::{LineCollector, keep_matches};
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
/// A longer line makes a file unreadable, because it would have to be in memory as a whole.
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
        found: AtomicUsize::new(0),
        has_more: AtomicBool::new(false),
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
    /// Number of matching lines in all finished files.
    found: AtomicUsize,
    /// The limit was exceeded: all workers may stop.
    has_more: AtomicBool,
    is_stopped: AtomicBool,
}

impl SharedSearch<'_> {
    fn answer(&self, workers: Vec<SearchWorker<'_>>) -> SearchResult {
        let mut searched = SearchResult {
            has_more: self.has_more.load(Ordering::Relaxed),
            is_complete: !self.is_stopped.load(Ordering::Relaxed),
            ..SearchResult::default()
        };
        for worker in workers {
            searched.searched += worker.searched;
            searched.binary += worker.binary;
            searched.unreadable += worker.unreadable;
            searched.files.extend(worker.files);
        }
        searched.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        searched.matches = self.found.load(Ordering::Relaxed).min(self.query.limit);
        searched
    }
}

/// The searcher of one worker, its buffer and its results.
struct SearchWorker<'a> {
    search: &'a SharedSearch<'a>,
    /// Not shared: with a shared matcher the threads contend for its cache.
    matcher: RegexMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
    files: Vec<FileMatches>,
    searched: usize,
    binary: usize,
    unreadable: usize,
}

impl FileVisitor for SearchWorker<'_> {
    const VISITS_LINKS: bool = false;

    fn visit(&mut self, file: &VisitedFile<'_>) -> ControlFlow<()> {
        if self.search.has_more.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
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
            files: Vec::new(),
            searched: 0,
            binary: 0,
            unreadable: 0,
        }
    }

    fn search_file(&mut self, handle: OwnedFd, path: &Path) -> ControlFlow<()> {
        let query = self.search.query;
        let found = self.search.found.load(Ordering::Relaxed);
        let mut lines = LineCollector {
            matcher: &self.search.matcher,
            line_chars: query.line_chars,
            enough: query.limit.saturating_sub(found),
            lines: Vec::new(),
            matches: 0,
            is_binary: false,
        };
        let result = self.find_lines(handle, &mut lines);
        let is_stopped = self.search.is_stopped.load(Ordering::Relaxed);
        match result {
            Ok(false) => return ControlFlow::Continue(()),
            Err(_) if !is_stopped => {
                self.unreadable += 1;
                return ControlFlow::Continue(());
            }
            _ => self.searched += 1,
        }
        if lines.is_binary {
            self.binary += 1;
            return ControlFlow::Continue(());
        }
        self.keep(path, lines.lines, lines.matches)?;
        if is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns false when it is not a regular file after all.
    fn find_lines(&mut self, handle: OwnedFd, lines: &mut LineCollector<'_>) -> io::Result<bool> {
        let stat = fs::fstat(&handle)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Ok(false);
        }
        let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        if size <= MAX_WHOLE_READ_BYTES {
            if self.buffer.len() < size {
                self.buffer.resize(size.next_power_of_two(), 0);
            }
            let read = read_up_to(&handle, &mut self.buffer[..size])?;
            self.searcher.search_slice(&self.matcher, &self.buffer[..read], lines)?;
        } else {
            let reader = BlockReader { handle, search: self.search };
            self.searcher.search_reader(&self.matcher, reader, lines)?;
        }
        Ok(true)
    }

    /// Adds the matches of a file to the result, up to the limit.
    fn keep(&mut self, path: &Path, mut lines: Vec<MatchLine>, matches: usize) -> ControlFlow<()> {
        if matches == 0 {
            return ControlFlow::Continue(());
        }
        let query = self.search.query;
        let before = self.search.found.fetch_add(matches, Ordering::Relaxed);
        let remaining = query.limit.saturating_sub(before);
        let has_more = matches > remaining;
        if has_more {
            self.search.has_more.store(true, Ordering::Relaxed);
            keep_matches(&mut lines, remaining, query.context);
        }
        if !lines.is_empty() {
            self.files.push(FileMatches { path: path.to_owned(), lines });
        }
        if has_more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Reads a long file in blocks, and checks before each block whether to stop.
struct BlockReader<'a> {
    handle: OwnedFd,
    search: &'a SharedSearch<'a>,
}

impl Read for BlockReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.search.has_more.load(Ordering::Relaxed) {
            // The other workers found enough: act as if the file ended here.
            return Ok(0);
        }
        if (self.search.stop)() {
            self.search.is_stopped.store(true, Ordering::Relaxed);
            return Err(io::Error::other("stopped"));
        }
        Ok(rustix::io::read(&self.handle, buffer)?)
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
    fn a_file_that_is_one_endless_line_does_not_fill_the_memory() {
        let endless = b"x".repeat(MAX_LINE_BYTES * 2);
        let (_folder, files) = workspace(&[("endless", &endless), ("ok", b"x\n")]);
        let searched = run(&files, &for_text("xy?$"));
        assert_eq!(formatted(&searched), ["ok:1:x"]);
        assert_eq!(searched.unreadable, 1);
    }

    #[test]
    fn long_files_are_searched_in_blocks_and_can_be_stopped() {
        let mut long = b"some line\n".repeat(MAX_WHOLE_READ_BYTES / 4);
        long.extend_from_slice(b"the needle\n");
        let (_folder, files) = workspace(&[("long", &long)]);
        let number = MAX_WHOLE_READ_BYTES / 4 + 1;
        check(&files, &for_text("needle"), &[&format!("long:{number}:the needle")]);
        let asked = AtomicUsize::new(0);
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
