//! What differs, as git tells it: counts for each file, and the patch itself, cut where it gets long.

use std::path::Path;

use haft_core::ToolError;
use schemars::JsonSchema;
use serde::Serialize;

use super::{command::Run, names, words};

/// A page shows so many lines of a patch unless more are asked for.
pub(crate) const USUAL_LINES: usize = 500;
/// The gate cuts what is longer, and would not know where a line of a patch may be cut.
pub(crate) const MOST_LINES: usize = 1_500;
/// A line of a minified file says nothing after so many characters.
const LONGEST_LINE: usize = 500;
/// Lines together take at most so many bytes, for the same reason.
const MOST_BYTES: usize = 40 << 10;
/// So many files are listed.
const MOST_FILES: usize = 300;

/// How much one file differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileDiff {
    /// The file, relative to the workspace.
    pub path: String,
    /// Its former path, when it was moved or copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Lines added; absent for a binary file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Lines removed; absent for a binary file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

impl FileDiff {
    fn line(&self) -> String {
        let path = words::name(&self.path);
        let path = match &self.from {
            Some(from) => format!("{} -> {path}", words::name(from)),
            None => path,
        };
        match (self.added, self.removed) {
            (Some(added), Some(removed)) => format!("{path} +{added} -{removed}"),
            _ => format!("{path} (binary)"),
        }
    }
}

/// How much every file differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileDiffs {
    /// The files that differ, the first of them when there are very many.
    pub files: Vec<FileDiff>,
    /// How many files differ.
    pub file_count: usize,
    /// Lines added in all.
    pub added: u64,
    /// Lines removed in all.
    pub removed: u64,
}

impl FileDiffs {
    fn add(&mut self, file: FileDiff) {
        self.file_count += 1;
        self.added = self.added.saturating_add(file.added.unwrap_or_default());
        self.removed = self.removed.saturating_add(file.removed.unwrap_or_default());
        if self.files.len() < MOST_FILES {
            self.files.push(file);
        }
    }

    /// In words, one file a line.
    pub(crate) fn summary(&self) -> String {
        let Self { files, file_count, added, removed } = self;
        let mut text = format!("{}, +{added} -{removed}", crate::text::count(*file_count, "file"));
        for file in files {
            text.push_str(&format!("\n  {}", file.line()));
        }
        if let more @ 1.. = file_count.saturating_sub(files.len()) {
            text.push_str(&format!("\n  … {} more", crate::text::count(more, "file")));
        }
        text
    }
}

/// Both ways of asking what differs.
pub(crate) struct Question {
    /// Counts.
    pub(crate) counts: Run,
    /// The patch.
    pub(crate) patch: Run,
}

impl Question {
    /// `begun` is the subcommand with what is to be compared; paths are told as they lie below the directory.
    ///
    /// # Errors
    /// For paths that are not below the directory.
    pub(crate) fn new<P: AsRef<Path>>(
        begun: &Run,
        directory: &Path,
        paths: &[P],
        revisions: &[String],
    ) -> Result<Self, ToolError> {
        let paths = names::paths(directory, paths)?;
        let above = match names::directory(directory)?.as_str() {
            "." => String::new(),
            directory => format!("{directory}/"),
        };
        let common = [
            "--relative",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--find-renames",
            "--submodule=short",
            "--ignore-submodules=dirty",
        ];
        let end = |run: Run| run.with(revisions).paths(&paths);
        let counts = begun.clone().with(common).with(["--numstat", "-z"]);
        let prefixes = [format!("--src-prefix=a/{above}"), format!("--dst-prefix=b/{above}")];
        let patch = begun.clone().with(common).with(["--patch"]).with(prefixes);
        Ok(Self { counts: end(counts), patch: end(patch) })
    }
}

/// Reads `--numstat -z`: `added TAB removed TAB path NUL`, or with nothing for the path, and then both paths.
pub(crate) fn parse_counts(output: &[u8], directory: &Path) -> FileDiffs {
    let text = String::from_utf8_lossy(output);
    let mut records = text.split('\0');
    let mut files = FileDiffs::default();
    let whole = |path: &str| match directory == Path::new(".") {
        true => path.to_owned(),
        false => directory.join(path).to_string_lossy().into_owned(),
    };
    while let Some(record) = records.next() {
        // A patch of `git show` begins with a line feed after the empty message.
        let mut columns = record.trim_start_matches('\n').splitn(3, '\t');
        let (Some(added), Some(removed), Some(path)) =
            (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let (added, removed) = (added.parse().ok(), removed.parse().ok());
        let (from, path) = match path {
            "" => (records.next().map(whole), records.next().map(whole)),
            path => (None, Some(whole(path))),
        };
        let Some(path) = path.filter(|path| !path.is_empty()) else { break };
        files.add(FileDiff { path, from, added, removed });
    }
    files
}

/// The beginning of a patch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    pub(crate) text: String,
    /// How many lines were left out.
    pub(crate) left_out: usize,
}

/// The first lines of a patch, long ones cut.
pub(crate) fn excerpt(output: &[u8], most_lines: usize) -> Excerpt {
    let text = String::from_utf8_lossy(output);
    let mut excerpt = Excerpt { text: String::new(), left_out: 0 };
    let mut lines = text.trim_start_matches('\n').lines();
    for line in lines.by_ref().take(most_lines) {
        let line = words::content(line, LONGEST_LINE);
        if excerpt.text.len() + line.len() > MOST_BYTES {
            excerpt.left_out += 1;
            break;
        }
        excerpt.text.push_str(&line);
        excerpt.text.push('\n');
    }
    excerpt.left_out += lines.count();
    excerpt
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_are_read_with_moves_and_binaries() {
        let output = "\n3\t1\tsrc/a\tb\n.rs\x001\t0\t\0old\0new\0-\t-\tlogo.png\0";
        let files = parse_counts(output.as_bytes(), Path::new("."));
        let expected =
            "3 files, +4 -1\n  src/a\\tb\\n.rs +3 -1\n  old -> new +1 -0\n  logo.png (binary)";
        assert_eq!(files.summary(), expected);
        let below = parse_counts(output.as_bytes(), Path::new("tree"));
        assert_eq!(below.files[1].from.as_deref(), Some("tree/old"));
        assert_eq!(below.files[1].path, "tree/new");
    }

    #[test]
    fn of_very_many_files_the_first_are_told_and_all_are_counted() {
        let output: String = (0..1_000).map(|number| format!("1\t2\tf{number}\0")).collect();
        let files = parse_counts(output.as_bytes(), Path::new("."));
        assert_eq!((files.files.len(), files.file_count), (MOST_FILES, 1_000));
        assert_eq!((files.added, files.removed), (1_000, 2_000));
        assert!(files.summary().ends_with("\n  … 700 files more"), "{}", files.summary());
    }

    #[test]
    fn a_long_patch_is_cut_by_lines_and_says_how_many_are_missing() {
        let patch: String = (0..10).map(|number| format!("+{number}\n")).collect();
        let cut = excerpt(patch.as_bytes(), 3);
        assert_eq!(cut, Excerpt { text: "+0\n+1\n+2\n".to_owned(), left_out: 7 });
        let long = format!("+{}\n", "x".repeat(100_000)).repeat(200);
        let cut = excerpt(long.as_bytes(), 1_000);
        assert!(cut.text.len() <= MOST_BYTES && cut.text.lines().all(|line| line.ends_with('…')));
        assert_eq!(cut.text.lines().count() + cut.left_out, 200);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let zeros = bytes.iter().filter(|byte| **byte == 0).count();
            let files = parse_counts(&bytes, Path::new("."));
            prop_assert!(files.file_count <= zeros + 1);
            prop_assert!(files.summary().lines().count() == files.file_count + 1);
            let cut = excerpt(&bytes, 5);
            prop_assert!(cut.text.lines().count() <= 5);
        }
    }
}
