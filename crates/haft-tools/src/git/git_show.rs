//! `git_show`: shows one commit, or a file as it was at a revision.

use std::path::{Path, PathBuf};

use haft_core::{Access, ErrorKind, Output, Shell, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Commit,
    command::{Git, GitRun, accesses},
    commits, display,
    git_diff::{DiffReport, default_lines},
    git_status::{reads, workspace},
    names,
    patches::{DiffRuns, MAX_LINES},
};

/// Maximum length of a line of a file.
const MAX_LINE_CHARS: usize = 2_000;
/// Maximum size of all lines; the gate would truncate a longer text.
const MAX_BYTES: usize = 40 << 10;

/// The commit, or the file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "revision": "HEAD~1" }), example = json!({ "revision": "v1.0", "file": "src/main.rs" }))]
pub struct GitShow {
    /// A commit, branch or tag.
    #[serde(default = "head")]
    #[schemars(length(min = 1), extend("x-aliases" = ["commit", "hash", "ref"]))]
    pub revision: String,
    /// Only the patch of these files and directories, relative to the workspace.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["files"]))]
    #[schemars(with = "Vec<haft_core::PathInput>")]
    pub paths: Vec<PathBuf>,
    /// Show this file as it was at the revision, instead of the commit. Relative to the workspace.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["path", "file_path"]))]
    #[schemars(with = "Option<haft_core::PathInput>")]
    pub file: Option<PathBuf>,
    /// The first line of the file to show.
    #[serde(default = "first")]
    #[schemars(range(min = 1))]
    pub offset: usize,
    /// Maximum number of lines of the patch or file to show.
    #[serde(default = "default_lines")]
    #[schemars(range(min = 1, max = MAX_LINES), extend("x-aliases" = ["max_lines", "maxLines"]))]
    #[schemars(extend("x-short" = "n"))]
    pub limit: usize,
    /// A directory inside the repository or worktree, relative to the workspace. Default: the
    /// workspace.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
}

fn head() -> String {
    "HEAD".to_owned()
}

fn first() -> usize {
    1
}

/// A commit, or a file.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ShowReport {
    /// The commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// The changes of the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<DiffReport>,
    /// The file as it was at the revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileAtRevision>,
}

/// A file as it was at a revision.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileAtRevision {
    /// The file, relative to the workspace.
    pub path: String,
    /// The requested revision.
    pub revision: String,
    /// Size in bytes; for a very large file, the size of the part that was read.
    pub bytes: usize,
    /// The first line shown.
    pub offset: usize,
    /// The lines shown.
    #[schemars(extend("x-in-content" = true))]
    pub lines: Vec<String>,
    /// There are more lines.
    pub has_more: bool,
}

impl Output for ShowReport {
    fn text(&self) -> String {
        let commit = self.commit.as_ref().map(|commit| {
            let address = display::one_line(&commit.author.email);
            format!("{}\n{} <{address}>", commit.paragraph(), commit.hash)
        });
        let difference = self.difference.as_ref().map(Output::text);
        let file = self.file.as_ref().map(FileAtRevision::text);
        [commit, difference, file].into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    fn title(&self) -> Option<String> {
        let commit = self.commit.as_ref().map(|commit| format!("Git show {}", commit.short));
        let file = || self.file.as_ref().map(|file| display::one_line(&file.path));
        commit.or_else(|| Some(format!("Git show {}", file()?)))
    }
}

impl FileAtRevision {
    fn text(&self) -> String {
        let numbered = self.lines.iter().zip(self.offset..);
        let mut text: String =
            numbered.map(|(line, number)| format!("{number}\t{line}\n")).collect();
        let (path, revision) = (display::one_line(&self.path), &self.revision);
        text.push_str(&match (self.lines.len(), self.has_more) {
            (0, _) => format!("[{path} at {revision} has no line {}]", self.offset),
            (shown, true) => {
                format!("[{path} at {revision}; continue with offset={}]", self.offset + shown)
            }
            (_, false) => format!("[{path} at {revision}, to its end]"),
        });
        text
    }

    fn of(input: &GitShow, path: &Path, content: &[u8], is_cut: bool) -> Result<Self, ToolError> {
        let path = path.to_string_lossy().into_owned();
        if content.iter().take(8_000).any(|byte| *byte == 0) {
            let message = format!("`{}` is binary at {}", display::one_line(&path), input.revision);
            return Err(ToolError::new(ErrorKind::Unsupported, message)
                .hint("`git_log` with this path shows when it changed"));
        }
        let text = String::from_utf8_lossy(content);
        let rest = text.lines().skip(input.offset.saturating_sub(1));
        let mut bytes = 0;
        let mut rest = rest.map(|line| display::content_line(line, MAX_LINE_CHARS)).peekable();
        let mut lines = Vec::new();
        while lines.len() < input.limit.min(MAX_LINES) && bytes < MAX_BYTES {
            let Some(line) = rest.next() else { break };
            bytes += line.len();
            lines.push(line);
        }
        let has_more = rest.peek().is_some() || is_cut;
        let (revision, offset) = (input.revision.clone(), input.offset);
        Ok(Self { path, revision, bytes: content.len(), offset, lines, has_more })
    }
}

/// The runs for a commit, or the one for a file.
enum ShowPlan {
    Commit { about: GitRun, diff: DiffRuns },
    File { content: GitRun },
}

impl ShowPlan {
    fn of(input: &GitShow) -> Result<Self, ToolError> {
        let revision = names::commit(&input.revision)?;
        if let Some(file) = &input.file {
            let path = names::path_in(&input.directory, file)?;
            // `./` makes it relative to the current directory, not to the top.
            let object = format!("{revision}:./{path}");
            return Ok(Self::File {
                content: GitRun::read_only("cat-file").with(["blob", &object]),
            });
        }
        // For a tag, use the commit it points at.
        let commit = format!("{revision}^0");
        let about = GitRun::read_only("log").with(commits::format(true));
        let about = about.with(["--max-count=1"]).with([&commit]).paths(&[]);
        let options =
            ["--format=", "--no-show-signature", "--no-notes", "--diff-merges=first-parent"];
        let begun = GitRun::read_only("show").with(options);
        let diff = DiffRuns::new(&begun, &input.directory, &input.paths, &[commit])?;
        Ok(Self::Commit { about, diff })
    }

    fn runs(self) -> Vec<GitRun> {
        match self {
            Self::Commit { about, diff } => vec![about, diff.counts, diff.patch],
            Self::File { content } => vec![content],
        }
    }
}

/// Shows a commit or a file.
#[tool(
    idempotent,
    deadline = "60s",
    access = |input| {
        let file = input.file.iter().cloned().map(Access::Read);
        accesses(ShowPlan::of(input).map(ShowPlan::runs), reads(&input.paths).chain(file))
    },
    profiles(reviewer)
)]
pub async fn git_show(input: GitShow, shell: Shell) -> Result<ShowReport, ToolError> {
    let plan = ShowPlan::of(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    match (plan, &input.file) {
        (ShowPlan::Commit { about, diff }, _) => {
            let commit = commits::parse(&git.run(&about).await?.out).into_iter().next();
            let difference = DiffReport::ask(&git, &diff, input.limit.min(MAX_LINES)).await?;
            Ok(ShowReport { commit, difference: Some(difference), file: None })
        }
        (ShowPlan::File { content }, path) => {
            let finished = git.run(&content).await?;
            let path = path.as_deref().unwrap_or(Path::new(""));
            let file = FileAtRevision::of(&input, path, &finished.out, finished.is_truncated)?;
            Ok(ShowReport { file: Some(file), ..ShowReport::default() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(offset: usize, limit: usize) -> GitShow {
        let (file, paths) = (Some("x".into()), Vec::new());
        GitShow { revision: head(), paths, file, offset, limit, directory: workspace() }
    }

    #[track_caller]
    fn check(offset: usize, limit: usize, content: &[u8], expected: &str) {
        let file = FileAtRevision::of(&input(offset, limit), Path::new("x"), content, false);
        assert_eq!(file.map(|file| file.text()).unwrap_or_default(), expected);
    }

    #[test]
    fn a_file_is_shown_by_lines() {
        check(1, 9, b"a\r\nb", "1\ta\n2\tb\n[x at HEAD, to its end]");
        check(2, 1, b"a\nb\nc", "2\tb\n[x at HEAD; continue with offset=3]");
        check(4, 1, b"a\n", "[x at HEAD has no line 4]");
        check(1, 9, b"a\0", "");
    }

    #[test]
    fn long_lines_are_truncated_and_the_size_is_limited() {
        let long = format!("{}\n", "x".repeat(3_000)).repeat(100);
        let file = FileAtRevision::of(&input(1, 1_000), Path::new("x"), long.as_bytes(), false);
        let file = file.expect("a text");
        assert!(file.has_more && file.lines.len() < 30, "{}", file.lines.len());
        assert_eq!(file.lines[0].chars().count(), MAX_LINE_CHARS + 1);
    }
}
