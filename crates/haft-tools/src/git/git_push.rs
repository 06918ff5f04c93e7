//! `git_push`: pushes one branch to the branch of the same name at a remote. It cannot force or delete.

use std::path::{Path, PathBuf};

use haft_core::{Access, Net, Output, Power, Shell, ToolError, commands::FinishedProcess};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    command::{Git, GitRun, accesses},
    display, failure,
    git_status::workspace,
    names,
};

/// The branch to push, and the remote.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "branch": "fix/upload" }))]
pub struct GitPush {
    /// The branch. Default: the current one.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["name", "ref"]))]
    pub branch: Option<String>,
    /// The name of a configured remote.
    #[serde(default = "origin")]
    pub remote: String,
    /// A directory inside the repository or worktree, relative to the workspace. Default: the
    /// workspace.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
}

fn origin() -> String {
    "origin".to_owned()
}

/// The pushed branch.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pushed {
    /// The branch, with the same name locally and at the remote.
    pub branch: String,
    /// The remote.
    pub remote: String,
    /// The result at the remote.
    pub result: PushResult,
    /// The old and new commit, as git prints them.
    pub summary: String,
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PushResult {
    /// The remote branch was created.
    Created,
    /// The remote branch was updated.
    Updated,
    /// The remote branch already had all commits.
    UpToDate,
}

impl Output for Pushed {
    fn text(&self) -> String {
        let Self { branch, remote, summary, .. } = self;
        match self.result {
            PushResult::Created => format!("Pushed {branch} to {remote}, as a new branch."),
            PushResult::Updated => format!("Pushed {branch} to {remote} ({summary})."),
            PushResult::UpToDate => format!("{remote} already has all of {branch}."),
        }
    }

    fn title(&self) -> Option<String> {
        Some(format!("Git push {} to {}", self.branch, self.remote))
    }
}

/// The line of `push --porcelain` about the branch: flag, refs and summary between tabs.
#[derive(Debug, PartialEq, Eq)]
struct PushedRef {
    flag: char,
    summary: String,
}

impl PushedRef {
    fn parse(output: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(output);
        text.lines().find_map(|line| {
            let (flag, rest) = line.split_once('\t')?;
            let (_, summary) = rest.split_once('\t')?;
            let mut flags = flag.chars();
            let flag = flags.next().filter(|flag| " +-*!=".contains(*flag))?;
            flags.next().is_none().then(|| Self { flag, summary: display::one_line(summary) })
        })
    }
}

struct PushPlan {
    /// Prints the current branch, when no branch is named.
    current: Option<GitRun>,
    /// Checks that the remote is configured: git would also accept a path.
    address: GitRun,
    push: GitRun,
}

impl PushPlan {
    fn of(input: &GitPush) -> Result<Self, ToolError> {
        let remote = names::remote(&input.remote)?;
        let what = match &input.branch {
            Some(branch) => {
                let branch = names::branch(branch)?;
                names::unprotected(&branch, "pushed")?;
                format!("refs/heads/{branch}:refs/heads/{branch}")
            }
            // Unlike a plain name, this never goes to a branch of another name by configuration.
            None => "HEAD".to_owned(),
        };
        let current = GitRun::read_only("symbolic-ref").with(["--quiet", "--short", "HEAD"]);
        let options = ["--porcelain", "--no-force", "--no-follow-tags", "--recurse-submodules=no"];
        Ok(Self {
            current: input.branch.is_none().then_some(current),
            address: GitRun::read_only("remote").with(["get-url", "--push", "--", &remote]),
            push: GitRun::changing("push").with(options).with(["--", &remote, &what]),
        })
    }

    fn runs(self) -> Vec<GitRun> {
        self.current.into_iter().chain([self.address, self.push]).collect()
    }
}

/// Pushes a branch.
#[tool(
    deadline = "5m",
    access = |input| accesses(PushPlan::of(input).map(PushPlan::runs), [Access::Any(Power::Net)])
)]
pub async fn git_push(input: GitPush, shell: Shell, _net: Net) -> Result<Pushed, ToolError> {
    let plan = PushPlan::of(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    let branch = match (&plan.current, input.branch) {
        (Some(current), None) => current_branch(&git, current).await?,
        (_, branch) => branch.unwrap_or_default(),
    };
    git.run(&plan.address).await?;
    let finished = git.attempt(&plan.push).await?;
    let pushed = PushedRef::parse(&finished.out);
    let is_done = finished.status.exit_code == Some(0);
    let result = match pushed.as_ref().map(|pushed| pushed.flag) {
        Some('*') if is_done => PushResult::Created,
        Some('=') if is_done => PushResult::UpToDate,
        Some(' ') if is_done => PushResult::Updated,
        _ => return Err(refused(&branch, &input.remote, pushed, &finished)),
    };
    let summary = pushed.map(|pushed| pushed.summary).unwrap_or_default();
    Ok(Pushed { branch, remote: input.remote, result, summary })
}

async fn current_branch(git: &Git<'_>, run: &GitRun) -> Result<String, ToolError> {
    let finished = git.attempt(run).await?;
    match finished.status.exit_code {
        Some(0) => {
            let branch = String::from_utf8_lossy(&finished.out).trim_end().to_owned();
            names::unprotected(&branch, "pushed").map(|()| branch)
        }
        Some(1) => Err(ToolError::conflict("no current branch: HEAD is detached")
            .hint("name the branch in `branch`, or create one with `git_branch`")),
        _ => Err(failure::explain(&run.name(), &finished)),
    }
}

/// Returns the error for a failed push. A rejection has its own line in the output.
fn refused(
    branch: &str,
    remote: &str,
    pushed: Option<PushedRef>,
    finished: &FinishedProcess,
) -> ToolError {
    match pushed {
        Some(PushedRef { flag: '!', summary }) if summary.starts_with("[rejected]") => {
            ToolError::conflict(format!("`{remote}` rejected the branch `{branch}`: {summary}"))
                .hint(
                    "the remote has commits that are missing here: fetch and merge or rebase, then push again",
                )
        }
        Some(PushedRef { flag: '!', summary }) => {
            let error = display::error_text(&finished.err);
            let message = format!("`{remote}` refused the branch `{branch}`: {summary}\n{error}");
            ToolError::denied(message.trim_end())
                .hint("do what the remote asks for, or ask the user to change its rules")
        }
        None if finished.status.exit_code == Some(1) && failure::is_unknown(finished) => {
            let message = failure::message_of(finished);
            ToolError::failed(format!("a hook refused the push: {message}"))
                .hint("fix what the hook reports, then call again")
                .with_partial(failure::full_output(finished))
        }
        _ => failure::explain("git push", finished),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(branch: Option<&str>, expected: &str) {
        let branch = branch.map(str::to_owned);
        let input = GitPush { branch, remote: origin(), directory: workspace() };
        let push = PushPlan::of(&input).expect("a good input").push;
        assert_eq!(push.program().to_string(), expected);
    }

    #[test]
    fn a_push_names_both_sides_and_never_forces() {
        let options = "--porcelain --no-force --no-follow-tags --recurse-submodules=no";
        let both = format!("git push {options} -- origin refs/heads/x:refs/heads/x");
        check(Some("x"), &both);
        check(None, &format!("git push {options} -- origin HEAD"));
    }

    #[test]
    fn the_line_about_the_branch_is_found() {
        let check = |line: &str| {
            let output = format!("To ../remote\n{line}\nDone\n");
            PushedRef::parse(output.as_bytes()).map(|pushed| (pushed.flag, pushed.summary))
        };
        let refs = "refs/heads/x:refs/heads/x";
        assert_eq!(
            check(&format!("*\t{refs}\t[new branch]")),
            Some(('*', "[new branch]".to_owned()))
        );
        assert_eq!(check(&format!(" \t{refs}\ta..b")), Some((' ', "a..b".to_owned())));
        assert_eq!(check("branch 'x'\tset\tup"), None);
        assert_eq!(check(""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let pushed = PushedRef::parse(&bytes);
            prop_assert!(pushed.is_none_or(|pushed| " +-*!=".contains(pushed.flag)));
        }
    }
}
