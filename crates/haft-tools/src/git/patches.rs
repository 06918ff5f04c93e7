//! Differences from git: counts for each file, and the patch, truncated when it is long.

use std::path::Path;

use haft_core::ToolError;
use schemars::JsonSchema;
use serde::Serialize;

use super::{command::GitRun, display, names};

/// Default maximum number of lines of a patch.
pub(crate) const DEFAULT_LINES: usize = 500;
/// Maximum number of lines of a patch. The gate would truncate a longer patch at any line.
pub(crate) const MAX_LINES: usize = 1_500;
/// Maximum length of a line; a minified file has very long ones.
const MAX_LINE_CHARS: usize = 500;
/// Maximum size of a patch, so that the gate does not truncate it.
const MAX_BYTES: usize = 40 << 10;
/// Maximum number of files listed.
const MAX_FILES: usize = 300;

/// Counts of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileDiff {
    /// The file, relative to the workspace.
    pub path: String,
    /// The old path, when it was moved or copied.
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
        let path = display::one_line(&self.path);
        let path = match &self.from {
            Some(from) => format!("{} -> {path}", display::one_line(from)),
            None => path,
        };
        match (self.added, self.removed) {
            (Some(added), Some(removed)) => format!("{path} +{added} -{removed}"),
            _ => format!("{path} (binary)"),
        }
    }
}

/// Counts of every file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileDiffs {
    /// The changed files; only the first ones when there are very many.
    pub files: Vec<FileDiff>,
    /// Number of changed files.
    pub file_count: usize,
    /// Number of lines added in all files.
    pub added: u64,
    /// Number of lines removed in all files.
    pub removed: u64,
}

impl FileDiffs {
    fn add(&mut self, file: FileDiff) {
        self.file_count += 1;
        self.added = self.added.saturating_add(file.added.unwrap_or_default());
        self.removed = self.removed.saturating_add(file.removed.unwrap_or_default());
        if self.files.len() < MAX_FILES {
            self.files.push(file);
        }
    }

    /// Formats the counts, one file a line.
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

/// The two runs that show differences.
pub(crate) struct DiffRuns {
    /// Prints the counts.
    pub(crate) counts: GitRun,
    /// Prints the patch.
    pub(crate) patch: GitRun,
}

impl DiffRuns {
    /// `begun` is the subcommand with the versions to compare. Paths are converted to paths relative
    /// to the directory.
    ///
    /// # Errors
    /// `input` for paths that are not below the directory.
    pub(crate) fn new<P: AsRef<Path>>(
        begun: &GitRun,
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
        let end = |run: GitRun| run.with(revisions).paths(&paths);
        let counts = begun.clone().with(common).with(["--numstat", "-z"]);
        let prefixes = [format!("--src-prefix=a/{above}"), format!("--dst-prefix=b/{above}")];
        let patch = begun.clone().with(common).with(["--patch"]).with(prefixes);
        Ok(Self { counts: end(counts), patch: end(patch) })
    }
}

/// Parses `--numstat -z`: `added TAB removed TAB path NUL`, or an empty path, followed by both
/// paths.
pub(crate) fn parse_counts(output: &[u8], directory: &Path) -> FileDiffs {
    let text = String::from_utf8_lossy(output);
    let mut records = text.split('\0');
    let mut files = FileDiffs::default();
    let whole = |path: &str| match directory == Path::new(".") {
        true => path.to_owned(),
        false => directory.join(path).to_string_lossy().into_owned(),
    };
    while let Some(record) = records.next() {
        // With `git show` the counts begin with a line feed after the empty message.
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
    /// Number of lines left out.
    pub(crate) left_out: usize,
}

/// Returns the first lines of a patch; long lines are truncated.
pub(crate) fn excerpt(output: &[u8], max_lines: usize) -> Excerpt {
    let text = String::from_utf8_lossy(output);
    let mut excerpt = Excerpt { text: String::new(), left_out: 0 };
    let mut lines = text.trim_start_matches('\n').lines();
    for line in lines.by_ref().take(max_lines) {
        let line = display::content_line(line, MAX_LINE_CHARS);
        if excerpt.text.len() + line.len() > MAX_BYTES {
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
    fn counts_are_parsed_with_moves_and_binaries() {
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
    fn only_the_first_of_many_files_are_listed_and_all_are_counted() {
        let output: String = (0..1_000).map(|number| format!("1\t2\tf{number}\0")).collect();
        let files = parse_counts(output.as_bytes(), Path::new("."));
        assert_eq!((files.files.len(), files.file_count), (MAX_FILES, 1_000));
        assert_eq!((files.added, files.removed), (1_000, 2_000));
        assert!(files.summary().ends_with("\n  … 700 files more"), "{}", files.summary());
    }

    #[test]
    fn a_long_patch_is_truncated_and_the_missing_lines_are_counted() {
        let patch: String = (0..10).map(|number| format!("+{number}\n")).collect();
        let cut = excerpt(patch.as_bytes(), 3);
        assert_eq!(cut, Excerpt { text: "+0\n+1\n+2\n".to_owned(), left_out: 7 });
        let long = format!("+{}\n", "x".repeat(100_000)).repeat(200);
        let cut = excerpt(long.as_bytes(), 1_000);
        assert!(cut.text.len() <= MAX_BYTES && cut.text.lines().all(|line| line.ends_with('…')));
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
