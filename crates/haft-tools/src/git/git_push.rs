//! `git_push`: one branch to the branch of the same name at a remote. There is no way here to force or to delete.

use std::path::{Path, PathBuf};

use haft_core::{Access, Net, Output, Power, Shell, ToolError, commands::FinishedProcess};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    command::{Git, Run, accesses},
    failure,
    git_status::workspace,
    names, words,
};

/// What to push.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "branch": "fix/upload" }))]
pub struct GitPush {
    /// The branch; the one at hand when left out.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["name", "ref"]))]
    pub branch: Option<String>,
    /// The name of a configured remote.
    #[serde(default = "origin")]
    pub remote: String,
    /// A directory inside the repository or worktree, relative to the workspace; the workspace itself when left out.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
}

fn origin() -> String {
    "origin".to_owned()
}

/// What was pushed.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pushed {
    /// The branch, of the same name here and there.
    pub branch: String,
    /// The remote.
    pub remote: String,
    /// What became of it there.
    pub result: PushResult,
    /// In git's words: the commits it went from and to.
    pub summary: String,
}

/// What became of a branch at the remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PushResult {
    /// It is new there.
    Created,
    /// It went on.
    Updated,
    /// It had everything already.
    UpToDate,
}

impl Output for Pushed {
    fn text(&self) -> String {
        let Self { branch, remote, summary, .. } = self;
        match self.result {
            PushResult::Created => format!("Pushed {branch} to {remote}, where it is new."),
            PushResult::Updated => format!("Pushed {branch} to {remote} ({summary})."),
            PushResult::UpToDate => format!("{remote} already has all of {branch}."),
        }
    }

    fn title(&self) -> Option<String> {
        Some(format!("Git push {} to {}", self.branch, self.remote))
    }
}

/// The line of `push --porcelain` that is about our branch: flag, refs and summary between tabs.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    flag: char,
    summary: String,
}

impl Verdict {
    fn parse(output: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(output);
        text.lines().find_map(|line| {
            let (flag, rest) = line.split_once('\t')?;
            let (_, summary) = rest.split_once('\t')?;
            let mut flags = flag.chars();
            let flag = flags.next().filter(|flag| " +-*!=".contains(*flag))?;
            flags.next().is_none().then(|| Self { flag, summary: words::name(summary) })
        })
    }
}

struct Plan {
    /// Which branch is at hand, when none is named.
    at_hand: Option<Run>,
    /// Whether the remote is one that is configured: git would take a path as well.
    address: Run,
    push: Run,
}

impl Plan {
    fn of(input: &GitPush) -> Result<Self, ToolError> {
        let remote = names::remote(&input.remote)?;
        let what = match &input.branch {
            Some(branch) => {
                let branch = names::branch(branch)?;
                names::unprotected(&branch, "pushed")?;
                format!("refs/heads/{branch}:refs/heads/{branch}")
            }
            // Under no configuration does this go to a branch of another name, as a plain name can.
            None => "HEAD".to_owned(),
        };
        let at_hand = Run::looking("symbolic-ref").with(["--quiet", "--short", "HEAD"]);
        let options = ["--porcelain", "--no-force", "--no-follow-tags", "--recurse-submodules=no"];
        Ok(Self {
            at_hand: input.branch.is_none().then_some(at_hand),
            address: Run::looking("remote").with(["get-url", "--push", "--", &remote]),
            push: Run::changing("push").with(options).with(["--", &remote, &what]),
        })
    }

    fn runs(self) -> Vec<Run> {
        self.at_hand.into_iter().chain([self.address, self.push]).collect()
    }
}

/// Pushes a branch.
#[tool(
    deadline = "5m",
    access = |input| accesses(Plan::of(input).map(Plan::runs), [Access::Any(Power::Net)])
)]
pub async fn git_push(input: GitPush, shell: Shell, _net: Net) -> Result<Pushed, ToolError> {
    let plan = Plan::of(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    let branch = match (&plan.at_hand, input.branch) {
        (Some(at_hand), None) => branch_at_hand(&git, at_hand).await?,
        (_, branch) => branch.unwrap_or_default(),
    };
    git.run(&plan.address).await?;
    let finished = git.attempt(&plan.push).await?;
    let verdict = Verdict::parse(&finished.out);
    let is_done = finished.status.exit_code == Some(0);
    let result = match verdict.as_ref().map(|verdict| verdict.flag) {
        Some('*') if is_done => PushResult::Created,
        Some('=') if is_done => PushResult::UpToDate,
        Some(' ') if is_done => PushResult::Updated,
        _ => return Err(refused(&branch, &input.remote, verdict, &finished)),
    };
    let summary = verdict.map(|verdict| verdict.summary).unwrap_or_default();
    Ok(Pushed { branch, remote: input.remote, result, summary })
}

async fn branch_at_hand(git: &Git<'_>, run: &Run) -> Result<String, ToolError> {
    let finished = git.attempt(run).await?;
    match finished.status.exit_code {
        Some(0) => {
            let branch = String::from_utf8_lossy(&finished.out).trim_end().to_owned();
            names::unprotected(&branch, "pushed").map(|()| branch)
        }
        Some(1) => Err(ToolError::conflict("no branch is at hand: HEAD is detached")
            .hint("name the branch in `branch`, or make one with `git_branch`")),
        _ => Err(failure::explain(&run.name(), &finished)),
    }
}

/// A rejection has a line of its own; without one it did not come to that.
fn refused(
    branch: &str,
    remote: &str,
    verdict: Option<Verdict>,
    finished: &FinishedProcess,
) -> ToolError {
    match verdict {
        Some(Verdict { flag: '!', summary }) if summary.starts_with("[rejected]") => {
            ToolError::conflict(format!("`{remote}` rejected the branch `{branch}`: {summary}"))
                .hint(
                    "it has commits that are not here: fetch and merge or rebase, then push again",
                )
        }
        Some(Verdict { flag: '!', summary }) => {
            let said = words::complaint(&finished.err);
            let message = format!("`{remote}` refused the branch `{branch}`: {summary}\n{said}");
            ToolError::denied(message.trim_end())
                .hint("do what the remote asks for, or ask a person to change its rules")
        }
        None if finished.status.exit_code == Some(1) && failure::is_unknown(finished) => {
            let said = failure::said(finished);
            ToolError::failed(format!("a hook refused the push: {said}"))
                .hint("mend what it complains about, then call again")
                .with_partial(failure::whole(finished))
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
        let push = Plan::of(&input).expect("a good input").push;
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
            Verdict::parse(output.as_bytes()).map(|verdict| (verdict.flag, verdict.summary))
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
            let verdict = Verdict::parse(&bytes);
            prop_assert!(verdict.is_none_or(|verdict| " +-*!=".contains(verdict.flag)));
        }
    }
}
