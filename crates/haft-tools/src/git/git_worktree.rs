//! `git_worktree`: lists, adds and removes worktrees.

use std::path::{Path, PathBuf};

use haft_core::{Access, Output, Shell, ToolError, WriteFiles};
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

/// The action, and its worktree.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "action": "add", "path": ".worktrees/fix", "branch": "fix/upload", "start": "main" }))]
pub struct GitWorktree {
    /// The action to carry out.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["operation", "command"]))]
    pub action: WorktreeAction,
    /// The directory of the worktree, relative to the workspace and below directory; required for
    /// add and remove.
    #[serde(default)]
    #[schemars(with = "Option<haft_core::PathInput>")]
    pub path: Option<PathBuf>,
    /// add: the branch to check out there; with start, a new branch.
    #[serde(default)]
    pub branch: Option<String>,
    /// add: the commit, branch or tag where the new branch begins.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["from", "base", "commit"]))]
    pub start: Option<String>,
    /// A directory inside the repository, relative to the workspace. Default: the workspace.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
}

/// An action on worktrees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeAction {
    /// List worktrees.
    #[default]
    List,
    /// Add a worktree.
    Add,
    /// Remove a worktree without changes.
    Remove,
}

/// Worktrees.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Worktrees {
    /// The action carried out.
    pub action: WorktreeAction,
    /// The worktree of the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// All worktrees after the action, the main one first.
    pub worktrees: Vec<Worktree>,
}

/// A worktree.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Worktree {
    /// Directory, relative to the workspace; absolute if outside of it.
    pub path: String,
    /// The branch checked out there; absent when HEAD is detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit checked out there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// True for a bare repository, without files.
    pub is_bare: bool,
    /// True if it is locked against removal.
    pub is_locked: bool,
    /// True if its directory no longer exists.
    pub is_gone: bool,
}

impl Output for Worktrees {
    fn text(&self) -> String {
        let path = self.path.as_deref().map(display::one_line).unwrap_or_default();
        let done = match self.action {
            WorktreeAction::List => None,
            WorktreeAction::Add => Some(format!("Added the worktree {path}.")),
            WorktreeAction::Remove => Some(format!("Removed the worktree {path}.")),
        };
        let lines = self.worktrees.iter().map(Worktree::line);
        done.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }

    fn title(&self) -> Option<String> {
        Some("Git worktrees".to_owned())
    }
}

impl Worktree {
    fn line(&self) -> String {
        let commit: String = self.commit.iter().flat_map(|hash| hash.chars().take(10)).collect();
        let place = match (&self.branch, self.is_bare) {
            (_, true) => "bare".to_owned(),
            (Some(branch), _) => format!("{branch} {commit}"),
            (None, _) => format!("detached {commit}"),
        };
        let notes = [(self.is_locked, " (locked)"), (self.is_gone, " (directory missing)")];
        let notes: String = notes.iter().filter(|(is, _)| *is).map(|(_, note)| *note).collect();
        display::one_line(&format!("{} {place}{notes}", self.path))
    }
}

/// Parses `worktree list --porcelain -z`: one attribute a record, an empty record between
/// worktrees.
fn parse(output: &[u8], path: impl Fn(&str) -> String) -> Vec<Worktree> {
    let text = String::from_utf8_lossy(output);
    let mut worktrees: Vec<Worktree> = Vec::new();
    for record in text.split('\0') {
        let (name, value) = record.split_once(' ').unwrap_or((record, ""));
        if name == "worktree" {
            worktrees.push(Worktree { path: path(value), ..Worktree::default() });
        }
        let Some(last) = worktrees.last_mut() else { continue };
        let branch = || value.strip_prefix("refs/heads/").unwrap_or(value).to_owned();
        match name {
            "HEAD" => last.commit = Some(value.to_owned()),
            "branch" => last.branch = Some(branch()),
            "bare" => last.is_bare = true,
            "locked" => last.is_locked = true,
            "prunable" => last.is_gone = true,
            _ => {}
        }
    }
    worktrees
}

/// Returns the absolute path of the workspace; `None` without a working tree.
fn workspace_root(output: &str, directory: &Path) -> Option<PathBuf> {
    let mut lines = output.split('\n');
    let (top, prefix) = (lines.next().filter(|top| !top.is_empty())?, lines.next()?);
    let current = Path::new(top).join(prefix);
    let levels = directory.components().filter(|part| part.as_os_str() != ".").count();
    current.components().as_path().ancestors().nth(levels).map(Path::to_owned)
}

fn from_root(root: Option<&Path>, path: &str) -> String {
    let below = root.and_then(|root| Path::new(path).strip_prefix(root).ok());
    match below {
        Some(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Some(below) => below.to_string_lossy().into_owned(),
        None => path.to_owned(),
    }
}

/// The run that changes something, if any, and those that list the result.
struct WorktreePlan {
    change: Option<GitRun>,
    current_directory: GitRun,
    list: GitRun,
}

impl WorktreePlan {
    fn of(input: &GitWorktree) -> Result<Self, ToolError> {
        let change = match input.action {
            WorktreeAction::List => None,
            WorktreeAction::Add => Some(add(input)?),
            WorktreeAction::Remove => {
                let path = new_path(input)?;
                Some(GitRun::changing("worktree").with(["remove", "--", &path]))
            }
        };
        let current_directory =
            GitRun::read_only("rev-parse").with(["--show-toplevel", "--show-prefix"]);
        let list = GitRun::read_only("worktree").with(["list", "--porcelain", "-z"]);
        Ok(Self { change, current_directory, list })
    }

    fn runs(self) -> Vec<GitRun> {
        self.change.into_iter().chain([self.current_directory, self.list]).collect()
    }
}

fn add(input: &GitWorktree) -> Result<GitRun, ToolError> {
    let path = new_path(input)?;
    let branch = input.branch.as_deref().map(names::branch).transpose()?;
    let start = input.start.as_deref().map(names::commit).transpose()?;
    let run = GitRun::changing("worktree").with(["add", "--quiet"]);
    Ok(match (branch, start) {
        (Some(branch), Some(start)) => run.with(["--no-track", "-b", &branch, "--", &path, &start]),
        (Some(branch), None) => run.with(["--", &path, &branch]),
        (None, start) => {
            let start = start.unwrap_or_else(|| "HEAD".to_owned());
            run.with(["--detach", "--", &path, &start])
        }
    })
}

/// Returns the path of the worktree relative to git's directory. It must be below it: `..` after a
/// link would lead elsewhere.
fn new_path(input: &GitWorktree) -> Result<String, ToolError> {
    let path = input.path.as_deref().ok_or_else(|| {
        ToolError::input("`path`: required for this action")
            .hint("give the directory of the worktree in `path`")
    })?;
    match names::path_in(&input.directory, path)?.as_str() {
        "." => {
            Err(ToolError::input("the directory itself cannot be added or removed as a worktree")
                .hint("name a directory below it in `path`"))
        }
        path => Ok(format!("./{path}")),
    }
}

/// Lists and changes worktrees.
#[tool(
    deadline = "2m",
    access = |input| {
        let is_list = input.action == WorktreeAction::List;
        let writes = input.path.iter().filter(|_| !is_list).cloned().map(Access::Write);
        accesses(WorktreePlan::of(input).map(WorktreePlan::runs), writes)
    }
)]
pub async fn git_worktree(
    input: GitWorktree,
    shell: Shell,
    _write: WriteFiles,
) -> Result<Worktrees, ToolError> {
    let plan = WorktreePlan::of(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    if let Some(change) = &plan.change {
        git.run(change).await?;
    }
    // Without a working tree this fails, and paths stay absolute.
    let current_directory = git.attempt(&plan.current_directory).await?;
    let root = workspace_root(&String::from_utf8_lossy(&current_directory.out), git.directory);
    let finished = git.run(&plan.list).await?;
    let worktrees = parse(&finished.out, |path| from_root(root.as_deref(), path));
    let changed = input.path.filter(|_| input.action != WorktreeAction::List);
    let path = changed.map(|path| path.to_string_lossy().into_owned());
    Ok(Worktrees { action: input.action, path, worktrees })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn worktrees_are_parsed_record_by_record() {
        let output = "worktree /w/p\0HEAD 0123456789ab\0branch refs/heads/main\0\0\
                      worktree /w/p/new\nline\0HEAD 1123456789ab\0detached\0locked why\0prunable gone\0\0\
                      worktree /elsewhere\0bare\0\0";
        let worktrees = parse(output.as_bytes(), |path| from_root(Some(Path::new("/w/p")), path));
        let lines: Vec<String> = worktrees.iter().map(Worktree::line).collect();
        let expected = [
            ". main 0123456789",
            "new\\nline detached 1123456789 (locked) (directory missing)",
            "/elsewhere bare",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_workspace_is_derived_from_the_directory_of_git() {
        for (output, directory, expected) in [
            ("/w/p\n\n", ".", Some("/w/p")),
            ("/w/p\nsub/\n", ".", Some("/w/p/sub")),
            ("/w/p/tree\nsrc/\n", "tree/src", Some("/w/p")),
            ("", ".", None),
        ] {
            let root = workspace_root(output, Path::new(directory));
            assert_eq!(root.as_deref(), expected.map(Path::new), "{output:?}");
        }
    }

    #[track_caller]
    fn check(input: &GitWorktree, expected: &str) {
        let change = WorktreePlan::of(input).expect("a good input").change.expect("a change");
        assert_eq!(change.program().to_string(), expected);
    }

    fn input(action: WorktreeAction, path: &str) -> GitWorktree {
        let path = Some(path.into());
        GitWorktree { action, path, branch: None, start: None, directory: workspace() }
    }

    #[test]
    fn paths_are_from_the_workspace_and_nothing_is_forced() {
        let add = input(WorktreeAction::Add, "-tree");
        check(&add, "git worktree add --quiet --detach -- ./-tree HEAD");
        let branch = GitWorktree { branch: Some("x".to_owned()), ..add };
        check(&branch, "git worktree add --quiet -- ./-tree x");
        let made = GitWorktree { start: Some("v1".to_owned()), ..branch };
        check(&made, "git worktree add --quiet --no-track -b x -- ./-tree v1");
        let below =
            GitWorktree { directory: "sub".into(), ..input(WorktreeAction::Remove, "sub/a") };
        check(&below, "git worktree remove -- ./a");
        let beside = GitWorktree { path: Some("a".into()), ..below };
        assert!(WorktreePlan::of(&beside).is_err());
        check(&input(WorktreeAction::Remove, "a"), "git worktree remove -- ./a");
        for bad in ["", ".", "../a", "/a", "a/../.."] {
            assert!(WorktreePlan::of(&input(WorktreeAction::Add, bad)).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            records in prop::collection::vec("(worktree|HEAD|branch|bare|locked|)( [ -~]{0,20})?", 0..20),
            noise in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let bytes = [records.join("\0").into_bytes(), noise].concat();
            let worktrees = parse(&bytes, str::to_owned);
            prop_assert!(worktrees.len() <= records.len() + 50);
            prop_assert!(worktrees.iter().all(|worktree| worktree.line().lines().count() <= 1));
        }
    }
}
