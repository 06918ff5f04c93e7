//! `git_log`: lists commits, newest first.

use std::path::{Path, PathBuf};

use haft_core::{Output, Shell, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Commit,
    command::{Git, GitRun, accesses},
    commits, failure,
    git_status::{reads, workspace},
    names,
};

const DEFAULT_COMMITS: usize = 20;
const MAX_COMMITS: usize = 200;

/// The commits to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "revision": "main", "paths": ["src"], "limit": 5 }))]
pub struct GitLog {
    /// Where to begin, or a range such as `main..feature`. Default: HEAD.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["range", "branch", "commit", "ref"]))]
    pub revision: Option<String>,
    /// Only commits that changed these files and directories, relative to the workspace.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["files", "path"]))]
    #[schemars(with = "Vec<haft_core::PathInput>")]
    pub paths: Vec<PathBuf>,
    /// Maximum number of commits to show.
    #[serde(default = "limit")]
    #[schemars(range(min = 1, max = MAX_COMMITS), extend("x-aliases" = ["max_count", "maxCount", "count", "n"]))]
    #[schemars(extend("x-short" = "n"))]
    pub limit: usize,
    /// Number of commits to skip.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["offset"]))]
    pub skip: u32,
    /// Only commits whose author has this in name or address.
    #[serde(default)]
    pub author: Option<String>,
    /// Only commits whose message contains this text, ignoring case.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["search", "message"]))]
    pub grep: Option<String>,
    /// Only commits after this date, such as `2026-11-01` or `2 weeks ago`.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["after"]))]
    pub since: Option<String>,
    /// Only commits before this date.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["before"]))]
    pub until: Option<String>,
    /// Show whole messages, not only their first lines.
    #[serde(default)]
    pub full: bool,
    /// A directory inside the repository or worktree, relative to the workspace. Default: the
    /// workspace.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
}

fn limit() -> usize {
    DEFAULT_COMMITS
}

/// Commits.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommitList {
    /// Newest first.
    #[schemars(extend("x-in-content" = true))]
    pub commits: Vec<Commit>,
    /// There are older commits.
    pub has_more: bool,
    #[serde(skip)]
    is_full: bool,
}

impl Output for CommitList {
    fn text(&self) -> String {
        if self.commits.is_empty() {
            return "No commits.".to_owned();
        }
        let shown = |commit: &Commit| match self.is_full {
            true => commit.paragraph(),
            false => commit.line(),
        };
        let mut lines: Vec<String> = self.commits.iter().map(shown).collect();
        if self.has_more {
            lines.push("[there are more: give a larger limit, or skip]".to_owned());
        }
        lines.join("\n")
    }

    fn title(&self) -> Option<String> {
        Some("Git log".to_owned())
    }
}

fn log_run(input: &GitLog) -> Result<GitRun, ToolError> {
    let revision = input.revision.as_deref().map(names::revision).transpose()?;
    let paths = names::paths(&input.directory, &input.paths)?;
    let mut options = vec![format!("--max-count={}", input.limit.clamp(1, MAX_COMMITS) + 1)];
    if input.skip > 0 {
        options.push(format!("--skip={}", input.skip));
    }
    let filters = [
        ("author", &input.author),
        ("grep", &input.grep),
        ("since", &input.since),
        ("until", &input.until),
    ];
    for (name, value) in filters {
        if let Some(value) = value {
            options.push(format!("--{name}={value}"));
        }
    }
    if input.grep.is_some() || input.author.is_some() {
        options.extend(["--fixed-strings", "--regexp-ignore-case"].map(str::to_owned));
    }
    let run = GitRun::read_only("log").with(commits::format(input.full)).with(options);
    Ok(run.with(revision).paths(&paths))
}

/// Lists commits.
#[tool(
    idempotent,
    deadline = "60s",
    variables(max_commits = MAX_COMMITS),
    access = |input| accesses(log_run(input).map(|run| [run]), reads(&input.paths)),
    profiles(reviewer)
)]
pub async fn git_log(input: GitLog, shell: Shell) -> Result<CommitList, ToolError> {
    let run = log_run(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    let finished = git.attempt(&run).await?;
    if finished.status.exit_code != Some(0) {
        // A repository without commits is not a failure.
        let has_no_commits = input.revision.is_none() && failure::has_no_commits(&finished);
        return match has_no_commits {
            true => Ok(CommitList { commits: Vec::new(), has_more: false, is_full: input.full }),
            false => Err(failure::explain(&run.name(), &finished)),
        };
    }
    let mut commits = commits::parse(&finished.out);
    let has_more = commits.len() > input.limit || finished.is_truncated;
    commits.truncate(input.limit);
    Ok(CommitList { commits, has_more, is_full: input.full })
}
