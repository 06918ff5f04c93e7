//! `git_commit`: commits named paths, all changes, or what is staged.

use std::path::{Path, PathBuf};

use haft_core::{Access, Output, Power, Shell, ToolError, WriteFiles, commands::FinishedProcess};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    FileDiffs,
    command::{Git, GitRun, accesses},
    commits, display, failure,
    git_status::{reads, workspace},
    names,
    patches::{self, DiffRuns},
};
/// The changes to commit, and the message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "message": "Retry failed uploads", "paths": ["src/upload.rs", "tests/upload.rs"] }))]
pub struct GitCommit {
    /// The message: a short first line, and if needed an empty line and more text.
    #[schemars(length(min = 1), extend("x-aliases" = ["msg", "commit_message"]))]
    pub message: String,
    /// Exactly these files and directories, relative to the workspace.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["files"]))]
    #[schemars(with = "Vec<haft_core::PathInput>")]
    pub paths: Vec<PathBuf>,
    /// Every change below the directory, including new files.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["add_all", "addAll"]))]
    #[schemars(extend("x-short" = "a"))]
    pub all: bool,
    /// Replace the last commit; refused if a remote branch has it.
    #[serde(default)]
    pub amend: bool,
    /// A directory inside the repository or worktree, relative to the workspace. Default: the
    /// workspace.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
}

/// The new commit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Committed {
    /// Full hash.
    pub hash: String,
    /// Abbreviated hash, long enough to be unique.
    pub short: String,
    /// The branch of the commit; absent when HEAD is detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// First paragraph of the message.
    pub subject: String,
    /// The changes of the commit.
    #[serde(flatten)]
    pub changes: FileDiffs,
}

impl Output for Committed {
    fn text(&self) -> String {
        let place = self.branch.as_deref().unwrap_or("no branch (HEAD is detached)");
        let subject = display::one_line(&self.subject);
        let files = self.changes.summary();
        format!("Committed {} on {place}: {subject}\n{files}", self.short)
    }

    fn title(&self) -> Option<String> {
        Some(format!("Git commit {}", self.short))
    }
}

/// All runs of a call, in order.
struct CommitPlan {
    /// Lists a remote branch with the commit to be amended.
    pushed: Option<GitRun>,
    staging: Option<Staging>,
    commit: GitRun,
    about: GitRun,
    files: GitRun,
}

/// The runs that stage files.
struct Staging {
    /// Lists the conflicts of a merge.
    unmerged: GitRun,
    /// Finds conflict markers in the files.
    markers: GitRun,
    add: GitRun,
}

impl CommitPlan {
    fn of(input: &GitCommit) -> Result<Self, ToolError> {
        check(input)?;
        let paths = names::paths(&input.directory, &input.paths)?;
        let paths: Vec<String> = paths.into_iter().map(names::literal).collect();
        let remotes = ["--count=1", "--contains=HEAD", "--format=%(refname:short)", "refs/remotes"];
        let commit = GitRun::changing("commit")
            .with(["--quiet", "--cleanup=whitespace"])
            .with(input.amend.then_some("--amend"))
            .with([format!("--message={}", input.message)]);
        let about = GitRun::read_only("log").with(commits::format(false));
        let shown =
            ["--format=", "--no-show-signature", "--no-notes", "--diff-merges=first-parent"];
        let shown = GitRun::read_only("show").with(shown);
        let none: [&Path; 0] = [];
        let head = ["HEAD".to_owned()];
        Ok(Self {
            pushed: input.amend.then(|| GitRun::read_only("for-each-ref").with(remotes)),
            staging: Staging::of(input, &paths),
            commit: commit.paths(&paths),
            about: about.with(["--max-count=1", "HEAD"]).paths(&[]),
            files: DiffRuns::new(&shown, &input.directory, &none, &head)?.counts,
        })
    }

    fn runs(self) -> Vec<GitRun> {
        let staging =
            self.staging.map(|Staging { unmerged, markers, add }| [unmerged, markers, add]);
        let staging = staging.into_iter().flatten();
        let rest = [self.commit, self.about, self.files];
        self.pushed.into_iter().chain(staging).chain(rest).collect()
    }
}

impl Staging {
    fn of(input: &GitCommit, paths: &[String]) -> Option<Self> {
        let here = [".".to_owned()];
        let paths = match (input.all, paths) {
            (true, _) => &here,
            (false, []) => return None,
            (false, paths) => paths,
        };
        let options = ["--check", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD"];
        Some(Self {
            unmerged: GitRun::read_only("ls-files").with(["--unmerged", "-z"]),
            markers: GitRun::read_only("diff").with(options).paths(&[]),
            add: GitRun::changing("add").with(["--all"]).paths(paths),
        })
    }
}

fn check(input: &GitCommit) -> Result<(), ToolError> {
    if input.message.trim().is_empty() {
        return Err(ToolError::input("message: empty").hint("describe the commit"));
    }
    if input.all && !input.paths.is_empty() {
        return Err(ToolError::input("`paths` and `all` cannot be combined")
            .hint("give `paths` for some changes, or `all` for all changes"));
    }
    Ok(())
}

/// Creates a commit.
#[tool(
    deadline = "5m",
    access = |input| {
        // Hooks may change any file.
        let writes = [Access::Any(Power::WriteFiles)];
        accesses(CommitPlan::of(input).map(CommitPlan::runs), reads(&input.paths).chain(writes))
    }
)]
pub async fn git_commit(
    input: GitCommit,
    shell: Shell,
    _write: WriteFiles,
) -> Result<Committed, ToolError> {
    let plan = CommitPlan::of(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    if let Some(pushed) = &plan.pushed {
        refuse_pushed(&git.run(pushed).await?)?;
    }
    if let Some(staging) = &plan.staging {
        stage(&git, staging, input.all).await?;
    }
    let finished = git.attempt(&plan.commit).await?;
    if finished.status.exit_code != Some(0) {
        return Err(refused(&plan, &finished));
    }
    let about = git.run(&plan.about).await?;
    let files = git.run(&plan.files).await?;
    let commit = commits::parse(&about.out).into_iter().next().ok_or_else(|| {
        ToolError::internal("git created a commit but does not list it").hint("see `git_log`")
    })?;
    Ok(Committed {
        branch: commit.current_branch(),
        hash: commit.hash,
        short: commit.short,
        subject: commit.subject,
        changes: patches::parse_counts(&files.out, git.directory),
    })
}

fn refuse_pushed(finished: &FinishedProcess) -> Result<(), ToolError> {
    let branch = String::from_utf8_lossy(&finished.out);
    match branch.trim() {
        "" => Ok(()),
        branch => Err(ToolError::conflict(format!(
            "the last commit is already in `{}`, so it cannot be amended",
            display::one_line(branch)
        ))
        .hint("create a new commit instead: call again without `amend`")),
    }
}

/// Stages the files, unless that would make a conflict look resolved.
async fn stage(git: &Git<'_>, staging: &Staging, all: bool) -> Result<(), ToolError> {
    let is_merging = !git.run(&staging.unmerged).await?.out.is_empty();
    if is_merging && !all {
        return Err(ToolError::conflict(
            "a merge has conflicts, so single paths cannot be committed",
        )
        .hint("resolve the conflicts that `git_status` lists, then commit with `all`"));
    }
    if is_merging {
        // The exit code is also not 0 for trailing spaces.
        let output = git.attempt(&staging.markers).await?.out;
        let output = String::from_utf8_lossy(&output);
        let mut places =
            output.lines().filter_map(|line| line.strip_suffix(": leftover conflict marker"));
        if let Some(place) = places.next() {
            let message = format!("a conflict marker is left at {}", display::one_line(place));
            return Err(ToolError::conflict(message)
                .hint("resolve the conflicts that `git_status` lists, then call again"));
        }
    }
    git.run(&staging.add).await.map(drop)
}

/// Returns the error for a failed commit. The exit code is 1 when there is nothing to commit or a
/// hook refuses, and greater for everything else.
fn refused(plan: &CommitPlan, finished: &FinishedProcess) -> ToolError {
    if finished.status.exit_code != Some(1) {
        return failure::explain_with_output(&plan.commit.name(), finished);
    }
    let out = String::from_utf8_lossy(&finished.out);
    let nothing = ["nothing to commit", "nothing added to commit", "no changes added to commit"];
    if nothing.iter().any(|words| out.contains(words)) {
        return ToolError::conflict("nothing to commit")
            .hint("see `git_status`; name changed files in `paths`, or set `all`");
    }
    let staged = if plan.staging.is_some() { "; the changes are staged" } else { "" };
    let message = failure::message_of(finished);
    ToolError::failed(format!("a hook refused the commit{staged}: {message}"))
        .hint("fix what the hook reports, then call again")
        .with_partial(failure::full_output(finished))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(paths: &[&str], all: bool, amend: bool) -> GitCommit {
        let paths = paths.iter().map(PathBuf::from).collect();
        GitCommit { message: "why: it's so".to_owned(), paths, all, amend, directory: workspace() }
    }

    #[track_caller]
    fn check(input: &GitCommit, expected: &[&str]) {
        let runs = CommitPlan::of(input).map(CommitPlan::runs).expect("a good input");
        let programs: Vec<String> = runs.iter().map(|run| run.program().to_string()).collect();
        let changes: Vec<&str> = programs
            .iter()
            .map(String::as_str)
            .filter(|text| !text.starts_with("git -c"))
            .collect();
        assert_eq!(changes, expected);
    }

    #[test]
    fn a_change_begins_with_its_subcommand() {
        let message = r"git commit --quiet --cleanup=whitespace '--message=why: it'\''s so' --";
        check(&input(&[], false, false), &[message]);
        check(&input(&[], true, false), &["git add --all -- .", message]);
        let paths = [
            "git add --all -- -x ':(literal)a*'".to_owned(),
            format!("{message} -x ':(literal)a*'"),
        ];
        check(&input(&["-x", "a*"], false, false), &paths.each_ref().map(String::as_str));
        let amend = message.replace("--cleanup=whitespace", "--cleanup=whitespace --amend");
        check(&input(&[], false, true), &[&amend]);
    }

    #[test]
    fn an_empty_message_and_two_selections_are_refused() {
        assert!(CommitPlan::of(&input(&["a"], true, false)).is_err());
        assert!(CommitPlan::of(&input(&["../a"], false, false)).is_err());
        let empty = GitCommit { message: " \n".to_owned(), ..input(&[], true, false) };
        assert!(CommitPlan::of(&empty).is_err());
    }
}
