//! `git_branch`: lists, creates, switches, renames and deletes branches.

use std::path::{Path, PathBuf};

use haft_core::{Access, Output, Power, Shell, ToolError, WriteFiles};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    command::{Git, GitRun, accesses},
    display,
    git_status::workspace,
    names,
};

/// Maximum number of branches listed.
const MAX_BRANCHES: usize = 200;

/// The fields of a branch, each followed by a zero byte.
const FORMAT: &str = "--format=%(refname)%00%(objectname:short)%00%(upstream:short)%00%(upstream:track,nobracket)%00\
                      %(HEAD)%00%(committerdate:short)%00%(contents:subject)%00";
const FIELDS: usize = 7;

/// The action, and its branch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "action": "create", "name": "fix/upload", "switch": true }))]
pub struct GitBranch {
    /// The action to carry out.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["operation", "command"]))]
    pub action: BranchAction,
    /// The branch; required for every action but list.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["branch", "branch_name", "branchName"]))]
    pub name: Option<String>,
    /// create: the commit, branch or tag where it begins. Default: HEAD.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["from", "base", "start_point", "startPoint"]))]
    pub start: Option<String>,
    /// create: also switch to it.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["checkout"]))]
    pub switch: bool,
    /// rename: the new name.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["newName", "to"]))]
    pub new_name: Option<String>,
    /// list: include remote branches, as of the last fetch.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["remotes", "all"]))]
    pub remote: bool,
    /// A directory inside the repository or worktree, relative to the workspace. Default: the
    /// workspace.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
}

/// An action on branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BranchAction {
    /// List branches.
    #[default]
    List,
    /// Create a branch.
    Create,
    /// Check out a branch.
    Switch,
    /// Rename a branch.
    Rename,
    /// Delete a merged branch.
    Delete,
}

impl BranchAction {
    fn done(self) -> &'static str {
        match self {
            Self::List => "Listed",
            Self::Create => "Created",
            Self::Switch => "Switched to",
            Self::Rename => "Renamed",
            Self::Delete => "Deleted",
        }
    }
}

/// Branches.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Branches {
    /// The action carried out.
    pub action: BranchAction,
    /// The branch of the action, by its new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The listed branches, or the changed branch.
    pub branches: Vec<Branch>,
    /// There are more branches.
    pub has_more: bool,
}

/// A branch.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Branch {
    /// Name of the branch; that of a remote branch begins with its remote.
    pub name: String,
    /// True for a remote branch.
    pub is_remote: bool,
    /// True for the current branch.
    pub is_current: bool,
    /// The commit that the branch points at.
    pub commit: String,
    /// The upstream branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// State relative to the upstream: `ahead 1, behind 2`, or `gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracking: Option<String>,
    /// Day of its last commit.
    pub date: String,
    /// Subject of its last commit.
    pub subject: String,
}

impl Output for Branches {
    fn text(&self) -> String {
        let mut lines: Vec<String> = self.branches.iter().map(Branch::line).collect();
        match &self.name {
            Some(name) => lines.insert(0, format!("{} branch {name}.", self.action.done())),
            None if lines.is_empty() => lines.push("No branches yet.".to_owned()),
            None => {}
        }
        if self.has_more {
            lines.push(format!("[more than {MAX_BRANCHES} branches; these are the newest]"));
        }
        lines.join("\n")
    }

    fn title(&self) -> Option<String> {
        let name = self.name.as_deref().unwrap_or("branches");
        Some(format!("{} {name}", self.action.done()))
    }
}

impl Branch {
    fn line(&self) -> String {
        let Self { name, commit, date, subject, .. } = self;
        let mark = if self.is_current { "*" } else { " " };
        let follows = match (&self.upstream, &self.tracking) {
            (Some(upstream), Some(tracking)) => format!(" [{upstream}: {tracking}]"),
            (Some(upstream), None) => format!(" [{upstream}]"),
            (None, _) => String::new(),
        };
        display::one_line(&format!("{mark} {name} {commit} {date}{follows} {subject}"))
    }

    fn of(fields: &[&str]) -> Option<Self> {
        let [name, commit, upstream, tracking, head, date, subject] = fields else { return None };
        // Each record also ends with a newline.
        let name = name.trim_start_matches('\n');
        let (name, is_remote) = match name.strip_prefix("refs/heads/") {
            Some(name) => (name, false),
            None => (name.strip_prefix("refs/remotes/")?, true),
        };
        let set = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Some(Self {
            name: name.to_owned(),
            is_remote,
            is_current: *head == "*",
            commit: (*commit).to_owned(),
            upstream: set(upstream),
            tracking: set(tracking),
            date: (*date).to_owned(),
            subject: (*subject).to_owned(),
        })
    }
}

/// Parses the output of `for-each-ref` in `FORMAT`.
fn parse(output: &[u8]) -> Vec<Branch> {
    let text = String::from_utf8_lossy(output);
    let fields: Vec<&str> = text.split('\0').collect();
    fields.chunks_exact(FIELDS).filter_map(Branch::of).collect()
}

/// The run that changes something, if any, and the one that lists the result.
struct BranchPlan {
    change: Option<GitRun>,
    list: GitRun,
    name: Option<String>,
}

impl BranchPlan {
    fn of(input: &GitBranch) -> Result<Self, ToolError> {
        let list = |refs: &[&str]| {
            let count = format!("--count={}", MAX_BRANCHES + 1);
            let run =
                GitRun::read_only("for-each-ref").with(["--sort=-committerdate", &count, FORMAT]);
            run.with(refs.iter().copied())
        };
        if input.action == BranchAction::List {
            let remotes = input.remote.then_some("refs/remotes");
            let refs: Vec<&str> = ["refs/heads"].into_iter().chain(remotes).collect();
            return Ok(Self { change: None, list: list(&refs), name: None });
        }
        let name = needed(input.name.as_deref(), "name")?;
        let (change, name) = match input.action {
            BranchAction::List | BranchAction::Create => (create(input, &name)?, name),
            BranchAction::Switch => (switch([]).with([&name]), name),
            BranchAction::Rename => {
                names::unprotected(&name, "renamed")?;
                let new_name = needed(input.new_name.as_deref(), "new_name")?;
                (branch(["--move"]).with(["--", &name, &new_name]), new_name)
            }
            BranchAction::Delete => {
                names::unprotected(&name, "deleted")?;
                (branch(["--delete"]).with(["--", &name]), name)
            }
        };
        let list = list(&[&format!("refs/heads/{name}")]);
        Ok(Self { change: Some(change), list, name: Some(name) })
    }

    fn runs(self) -> Vec<GitRun> {
        self.change.into_iter().chain([self.list]).collect()
    }
}

fn create(input: &GitBranch, name: &str) -> Result<GitRun, ToolError> {
    let start = input.start.as_deref().map(names::commit).transpose()?;
    let run = match input.switch {
        true => switch(["--no-track", "--create"]).with([name]),
        false => branch(["--no-track"]).with(["--", name]),
    };
    Ok(run.with(start))
}

fn branch<const N: usize>(options: [&str; N]) -> GitRun {
    GitRun::changing("branch").with(options)
}

fn switch<const N: usize>(options: [&str; N]) -> GitRun {
    let options_for_all = ["--quiet", "--no-guess", "--no-recurse-submodules"];
    GitRun::changing("switch").with(options_for_all).with(options)
}

fn needed(name: Option<&str>, field: &str) -> Result<String, ToolError> {
    let name = name.ok_or_else(|| {
        ToolError::input(format!("`{field}`: required for this action"))
            .hint(format!("give the branch in `{field}`"))
    })?;
    names::branch(name)
}

fn touched(input: &GitBranch) -> Vec<Access> {
    let writes = (input.action != BranchAction::List).then_some(Access::Any(Power::WriteFiles));
    accesses(BranchPlan::of(input).map(BranchPlan::runs), writes)
}

/// Lists and changes branches.
#[tool(deadline = "2m", access = touched)]
pub async fn git_branch(
    input: GitBranch,
    shell: Shell,
    _write: WriteFiles,
) -> Result<Branches, ToolError> {
    let plan = BranchPlan::of(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    if let Some(change) = &plan.change {
        git.run(change).await?;
    }
    let finished = git.run(&plan.list).await?;
    let mut branches = parse(&finished.out);
    let has_more = branches.len() > MAX_BRANCHES || finished.is_truncated;
    branches.truncate(MAX_BRANCHES);
    Ok(Branches { action: input.action, name: plan.name, branches, has_more })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn branches_are_read_field_by_field() {
        let output = "refs/heads/main\0abc\0origin/main\0ahead 1\0*\x002026-11-16\0first\0\n\
                      refs/remotes/origin/x\0def\0\0\0 \x002026-11-15\0second\0\n";
        let branches = parse(output.as_bytes());
        let lines: Vec<String> = branches.iter().map(Branch::line).collect();
        let expected = [
            "* main abc 2026-11-16 [origin/main: ahead 1] first",
            "  origin/x def 2026-11-15 second",
        ];
        assert_eq!(lines, expected);
        assert!(!branches[0].is_remote && branches[1].is_remote);
    }

    fn input(action: BranchAction, name: &str) -> GitBranch {
        GitBranch {
            action,
            name: Some(name.to_owned()),
            start: None,
            switch: false,
            new_name: None,
            remote: false,
            directory: workspace(),
        }
    }

    #[track_caller]
    fn check(input: &GitBranch, expected: &str) {
        let change = BranchPlan::of(input).expect("a good input").change.expect("a change");
        assert_eq!(change.program().to_string(), expected);
    }

    #[test]
    fn nothing_is_ever_forced() {
        check(&input(BranchAction::Create, "x"), "git branch --no-track -- x");
        let switched = GitBranch {
            switch: true,
            start: Some("HEAD~1".to_owned()),
            ..input(BranchAction::Create, "x")
        };
        let quietly = "git switch --quiet --no-guess --no-recurse-submodules";
        let expected = format!("{quietly} --no-track --create x 'HEAD~1'");
        check(&switched, &expected);
        check(&input(BranchAction::Switch, "x"), &format!("{quietly} x"));
        check(&input(BranchAction::Delete, "x"), "git branch --delete -- x");
        let renamed =
            GitBranch { new_name: Some("y".to_owned()), ..input(BranchAction::Rename, "x") };
        check(&renamed, "git branch --move -- x y");
    }

    #[test]
    fn missing_and_invalid_names_are_refused_and_a_list_writes_nothing() {
        for action in [BranchAction::Create, BranchAction::Switch, BranchAction::Delete] {
            assert!(BranchPlan::of(&input(action, "-D")).is_err());
            assert!(BranchPlan::of(&GitBranch { name: None, ..input(action, "x") }).is_err());
        }
        assert!(BranchPlan::of(&input(BranchAction::Rename, "x")).is_err());
        let writes =
            |action| touched(&input(action, "x")).contains(&Access::Any(Power::WriteFiles));
        assert!(writes(BranchAction::Delete) && !writes(BranchAction::List));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let zeros = bytes.iter().filter(|byte| **byte == 0).count();
            prop_assert!(parse(&bytes).len() <= (zeros + 1) / FIELDS);
        }
    }
}
