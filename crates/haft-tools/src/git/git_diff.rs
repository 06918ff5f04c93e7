//! `git_diff`: shows differences between files, index and revisions.

use std::path::{Path, PathBuf};

use haft_core::{Output, Shell, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    FileDiffs,
    command::{Git, GitRun, RepositoryPaths, accesses, show_prefix},
    git_status::{reads, workspace},
    names,
    patches::{self, DEFAULT_LINES, DiffRuns, Excerpt, MAX_LINES},
};

/// The versions to compare.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "from": "HEAD~1", "paths": ["src"] }))]
pub struct GitDiff {
    /// The older side: a commit, branch or tag, or a range such as `main...feature`. Default: the
    /// index.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["base", "revision", "commit", "ref"]))]
    pub from: Option<String>,
    /// The newer side: a commit, branch or tag. Default: the current files.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["head", "target"]))]
    pub to: Option<String>,
    /// Compare staged changes instead of the current files.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["cached"]))]
    pub staged: bool,
    /// Only these files and directories, relative to the workspace.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["files", "path"]))]
    #[schemars(with = "Vec<haft_core::PathInput>")]
    pub paths: Vec<PathBuf>,
    /// Maximum number of lines of the patch to show.
    #[serde(default = "default_lines")]
    #[schemars(range(min = 1, max = MAX_LINES), extend("x-aliases" = ["max_lines", "maxLines"]))]
    pub limit: usize,
    /// A directory inside the repository or worktree, relative to the workspace. Default: the
    /// workspace. Only files below it are compared.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
}

pub(super) fn default_lines() -> usize {
    DEFAULT_LINES
}

/// Differences.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DiffReport {
    /// Counts for every file.
    #[serde(flatten)]
    pub counts: FileDiffs,
    /// The patch, or its beginning.
    #[schemars(extend("x-in-content" = true))]
    pub patch: String,
    /// Number of lines of the patch that were left out.
    pub left_out: usize,
    /// True if the output of git was truncated; then counts may be too small.
    pub is_cut: bool,
}

impl Output for DiffReport {
    fn text(&self) -> String {
        if self.counts.files.is_empty() && self.patch.is_empty() {
            return "No differences.".to_owned();
        }
        let summary = self.counts.summary();
        format!("{summary}\n\n{}{}", self.patch, self.note())
    }

    fn title(&self) -> Option<String> {
        Some(format!("Git diff (+{} -{})", self.counts.added, self.counts.removed))
    }
}

impl DiffReport {
    /// Runs git for counts and patch.
    pub(super) async fn ask(
        git: &Git<'_>,
        runs: &DiffRuns,
        limit: usize,
    ) -> Result<Self, ToolError> {
        let counts = git.run(&runs.counts).await?;
        let patch = git.run(&runs.patch).await?;
        let Excerpt { text, left_out } = patches::excerpt(&patch.out, limit);
        let is_cut = counts.is_truncated || patch.is_truncated;
        let counts = patches::parse_counts(&counts.out, git.directory);
        Ok(Self { counts, patch: text, left_out, is_cut })
    }

    fn note(&self) -> String {
        let lines = crate::text::count(self.left_out, "line");
        match (self.left_out, self.is_cut) {
            (0, false) => String::new(),
            (0, true) => "[the output of git was truncated: give paths]".to_owned(),
            (_, false) => format!("[{lines} more: give paths, or a larger limit]"),
            (_, true) => format!("[more than {lines} more: give paths]"),
        }
    }
}

fn diff_runs(input: &GitDiff) -> Result<DiffRuns, ToolError> {
    if input.to.is_some() && (input.from.is_none() || input.staged) {
        let (problem, step) = match input.staged {
            true => ("`to` cannot be combined with `staged`", "leave out `to`"),
            false => ("`to` is given without `from`", "give the other side in `from`"),
        };
        return Err(ToolError::input(problem).hint(step));
    }
    let from = input.from.as_deref().map(|text| match input.to {
        Some(_) => names::commit(text),
        None => names::revision(text),
    });
    let to = input.to.as_deref().map(names::commit);
    let revisions: Vec<String> = from.into_iter().chain(to).collect::<Result<_, _>>()?;
    let staged = input.staged.then_some("--cached");
    let begun = GitRun::read_only("diff").with(staged);
    DiffRuns::new(&begun, &input.directory, &input.paths, &revisions)
}

/// Shows differences.
#[tool(
    idempotent,
    deadline = "60s",
    access = |input| {
        let runs = diff_runs(input).map(|runs| [show_prefix(), runs.counts, runs.patch]);
        accesses(runs, reads(&input.paths))
    },
    profiles(reviewer)
)]
pub async fn git_diff(input: GitDiff, shell: Shell) -> Result<DiffReport, ToolError> {
    let runs = diff_runs(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    // Outside of a repository `git diff` with two paths would compare them.
    RepositoryPaths::ask(&git).await?;
    DiffReport::ask(&git, &runs, input.limit.min(MAX_LINES)).await
}
