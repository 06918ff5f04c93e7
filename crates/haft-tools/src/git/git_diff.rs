//! `git_diff`: what differs between the files, the index and revisions.

use std::path::{Path, PathBuf};

use haft_core::{Output, Shell, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    FileDiffs,
    command::{Git, Run, Whereabouts, accesses, whereabouts},
    git_status::{reads, workspace},
    names,
    patches::{self, Excerpt, MOST_LINES, Question, USUAL_LINES},
};

/// What to compare.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "from": "HEAD~1", "paths": ["src"] }))]
pub struct GitDiff {
    /// The older side: a commit, branch or tag, or a range such as `main...feature`. The index when left out.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["base", "revision", "commit", "ref"]))]
    pub from: Option<String>,
    /// The newer side: a commit, branch or tag. The files as they are when left out.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["head", "target"]))]
    pub to: Option<String>,
    /// Compare what is staged, not the files as they are.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["cached"]))]
    pub staged: bool,
    /// Only these files and directories, relative to the workspace.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["files", "path"]))]
    #[schemars(with = "Vec<haft_core::PathInput>")]
    pub paths: Vec<PathBuf>,
    /// The most lines of the patch to show.
    #[serde(default = "limit")]
    #[schemars(range(min = 1, max = MOST_LINES), extend("x-aliases" = ["max_lines", "maxLines"]))]
    pub limit: usize,
    /// A directory inside the repository or worktree, relative to the workspace; the workspace itself when left out.
    /// Only what lies below it is compared.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
}

pub(super) fn limit() -> usize {
    USUAL_LINES
}

/// What differs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Difference {
    /// How much every file differs.
    #[serde(flatten)]
    pub counts: FileDiffs,
    /// The patch, or its beginning.
    #[schemars(extend("x-in-content" = true))]
    pub patch: String,
    /// Lines of the patch that were left out.
    pub left_out: usize,
    /// Git said more than could be taken: counts may be too small.
    pub is_cut: bool,
}

impl Output for Difference {
    fn text(&self) -> String {
        if self.counts.files.is_empty() && self.patch.is_empty() {
            return "Nothing differs.".to_owned();
        }
        let summary = self.counts.summary();
        format!("{summary}\n\n{}{}", self.patch, self.note())
    }

    fn title(&self) -> Option<String> {
        Some(format!("Git diff (+{} -{})", self.counts.added, self.counts.removed))
    }
}

impl Difference {
    /// Asks git both for counts and for the patch.
    pub(super) async fn ask(
        git: &Git<'_>,
        question: &Question,
        limit: usize,
    ) -> Result<Self, ToolError> {
        let counts = git.run(&question.counts).await?;
        let patch = git.run(&question.patch).await?;
        let Excerpt { text, left_out } = patches::excerpt(&patch.out, limit);
        let is_cut = counts.is_truncated || patch.is_truncated;
        let counts = patches::parse_counts(&counts.out, git.directory);
        Ok(Self { counts, patch: text, left_out, is_cut })
    }

    fn note(&self) -> String {
        let lines = crate::text::count(self.left_out, "line");
        match (self.left_out, self.is_cut) {
            (0, false) => String::new(),
            (0, true) => "[git said more than could be taken: give paths]".to_owned(),
            (_, false) => format!("[{lines} more: give paths, or a larger limit]"),
            (_, true) => format!("[more than {lines} more: give paths]"),
        }
    }
}

fn question(input: &GitDiff) -> Result<Question, ToolError> {
    if input.to.is_some() && (input.from.is_none() || input.staged) {
        let (problem, step) = match input.staged {
            true => ("`staged` compares with the index, so there is no `to`", "leave `to` out"),
            false => ("`to` is given without `from`", "say in `from` what to compare it with"),
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
    let begun = Run::looking("diff").with(staged);
    Question::new(&begun, &input.directory, &input.paths, &revisions)
}

/// Shows what differs.
#[tool(
    idempotent,
    deadline = "60s",
    access = |input| {
        let runs = question(input).map(|asked| [whereabouts(), asked.counts, asked.patch]);
        accesses(runs, reads(&input.paths))
    },
    profiles(reviewer)
)]
pub async fn git_diff(input: GitDiff, shell: Shell) -> Result<Difference, ToolError> {
    let question = question(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    // Outside a repository `git diff` with two paths would compare them.
    Whereabouts::ask(&git).await?;
    Difference::ask(&git, &question, input.limit.min(MOST_LINES)).await
}
