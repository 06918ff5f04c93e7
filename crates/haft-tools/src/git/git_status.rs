//! `git_status`: shows the current branch and all changes since the last commit.

use std::path::{Path, PathBuf};

use haft_core::{Access, Output, Shell, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    command::{Git, GitRun, RepositoryPaths, accesses, show_prefix},
    display, names,
};

/// Maximum number of entries in each list.
const MAX_ENTRIES: usize = 200;

/// The repository, and the paths to show.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({}))]
pub struct GitStatus {
    /// A directory inside the repository or worktree, relative to the workspace. Default: the
    /// workspace. Only files below it are shown.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
    /// Only these files and directories, relative to the workspace.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["files", "path"]))]
    #[schemars(with = "Vec<haft_core::PathInput>")]
    pub paths: Vec<PathBuf>,
}

/// Returns the default directory.
pub(super) fn workspace() -> PathBuf {
    PathBuf::from(".")
}

/// The state of a repository.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RepositoryStatus {
    /// The current branch; absent when HEAD is detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The current commit; absent when there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The upstream of the current branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Number of commits that the upstream does not have.
    pub ahead: u64,
    /// Number of commits that only the upstream has.
    pub behind: u64,
    /// True if there are no changes and no untracked files.
    pub is_clean: bool,
    /// Staged changes, which the next commit would contain.
    #[schemars(extend("x-in-content" = true))]
    pub staged: Vec<GitFileChange>,
    /// Changes that are not staged.
    #[schemars(extend("x-in-content" = true))]
    pub unstaged: Vec<GitFileChange>,
    /// Untracked files; directories end in a slash.
    #[schemars(extend("x-in-content" = true))]
    pub untracked: Vec<String>,
    /// Files with merge conflicts.
    #[schemars(extend("x-in-content" = true))]
    pub conflicts: Vec<FileConflict>,
    /// Number of entries left out.
    pub left_out: usize,
}

/// A changed file.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GitFileChange {
    /// The file, relative to the workspace.
    pub path: String,
    /// The kind of change.
    pub change: ChangeKind,
    /// The old path, when it was moved or copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// The kind of change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The file is new.
    Added,
    /// Content or mode changed.
    Modified,
    /// The file was deleted.
    Deleted,
    /// The file was moved.
    Renamed,
    /// The file was copied.
    Copied,
    /// A file became a link, or the reverse.
    TypeChanged,
}

impl ChangeKind {
    fn of(letter: char) -> Option<Self> {
        Some(match letter {
            'A' => Self::Added,
            'M' => Self::Modified,
            'D' => Self::Deleted,
            'R' => Self::Renamed,
            'C' => Self::Copied,
            'T' => Self::TypeChanged,
            _ => return None,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Renamed => "renamed",
            Self::Copied => "copied",
            Self::TypeChanged => "type changed",
        }
    }
}

/// A file that both sides of a merge changed.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileConflict {
    /// The file, relative to the workspace.
    pub path: String,
    /// The changes of both sides: `both modified`, `deleted by us`.
    pub sides: String,
}

impl Output for RepositoryStatus {
    fn text(&self) -> String {
        let mut text = self.head();
        let change = |change: &GitFileChange| {
            let path = display::one_line(&change.path);
            let from = change.from.as_ref().map(|from| format!("{} -> ", display::one_line(from)));
            format!("{} {}{path}", change.change.word(), from.unwrap_or_default())
        };
        let conflict =
            |file: &FileConflict| format!("{} {}", file.sides, display::one_line(&file.path));
        section(&mut text, "Conflicts", self.conflicts.iter().map(conflict));
        section(&mut text, "Staged", self.staged.iter().map(change));
        section(&mut text, "Not staged", self.unstaged.iter().map(change));
        section(&mut text, "Untracked", self.untracked.iter().map(|path| display::one_line(path)));
        if self.is_clean {
            text.push_str("\nNo changes.");
        }
        if self.left_out > 0 {
            text.push_str(&format!("\n[{} more; give paths to see them]", self.left_out));
        }
        text
    }

    fn title(&self) -> Option<String> {
        Some("Git status".to_owned())
    }
}

fn section(text: &mut String, heading: &str, entries: impl Iterator<Item = String>) {
    let mut entries = entries.peekable();
    if entries.peek().is_some() {
        text.push_str(&format!("\n{heading}:"));
        entries.for_each(|entry| text.push_str(&format!("\n  {entry}")));
    }
}

impl RepositoryStatus {
    fn head(&self) -> String {
        let commit = self.commit.as_ref().map(|hash| hash.chars().take(10).collect::<String>());
        let mut text = match (&self.branch, commit) {
            (Some(branch), Some(commit)) => format!("On branch {branch} at {commit}"),
            (Some(branch), None) => format!("On branch {branch}, no commit yet"),
            (None, Some(commit)) => format!("HEAD is detached at {commit}"),
            (None, None) => "No branch and no commit".to_owned(),
        };
        if let Some(upstream) = &self.upstream {
            let distance = match (self.ahead, self.behind) {
                (0, 0) => format!(", up to date with {upstream}"),
                (ahead, 0) => format!(", {ahead} ahead of {upstream}"),
                (0, behind) => format!(", {behind} behind {upstream}"),
                (ahead, behind) => format!(", {ahead} ahead of and {behind} behind {upstream}"),
            };
            text.push_str(&distance);
        }
        text.push('.');
        text
    }

    /// Parses `status --porcelain=v2 -z --branch`. `path` converts paths from the top of the
    /// working tree.
    fn parse(output: &[u8], path: impl Fn(&str) -> String) -> Self {
        let text = String::from_utf8_lossy(output);
        let mut status = Self::default();
        let mut records: Vec<&str> = text.split('\0').collect();
        // Every record ends with a zero byte; text after the last one is empty or truncated.
        records.pop();
        let mut records = records.into_iter();
        while let Some(record) = records.next() {
            match record.split_once(' ') {
                Some(("#", header)) => status.header(header),
                Some(("1", fields)) => status.change(last_field(fields, 7), None),
                Some(("2", fields)) => {
                    let from = records.next().map(&path);
                    status.change(last_field(fields, 8), from);
                }
                Some(("u", fields)) => status.conflict(last_field(fields, 9)),
                Some(("?", name)) => status.untracked.push(path(name)),
                _ => {}
            }
        }
        status.rename_all(path);
        status.is_clean = status.staged.is_empty()
            && status.unstaged.is_empty()
            && status.untracked.is_empty()
            && status.conflicts.is_empty();
        status.shorten();
        status
    }

    fn header(&mut self, header: &str) {
        let set = |value: &str| Some(value.to_owned()).filter(|value| !value.starts_with('('));
        match header.split_once(' ') {
            Some(("branch.oid", hash)) => self.commit = set(hash),
            Some(("branch.head", name)) => self.branch = set(name),
            Some(("branch.upstream", name)) => self.upstream = set(name),
            Some(("branch.ab", counts)) => {
                let mut counts = counts.split(' ').map(|count| count.get(1..)?.parse().ok());
                self.ahead = counts.next().flatten().unwrap_or_default();
                self.behind = counts.next().flatten().unwrap_or_default();
            }
            _ => {}
        }
    }

    fn change(&mut self, fields: Option<(&str, &str)>, from: Option<String>) {
        let Some((codes, path)) = fields else { return };
        let mut codes = codes.chars().map(ChangeKind::of);
        let mut entry = |list: &mut Vec<GitFileChange>| {
            if let Some(change) = codes.next().flatten() {
                let is_moved = matches!(change, ChangeKind::Renamed | ChangeKind::Copied);
                let from = from.clone().filter(|_| is_moved);
                list.push(GitFileChange { path: path.to_owned(), change, from });
            }
        };
        entry(&mut self.staged);
        entry(&mut self.unstaged);
    }

    fn conflict(&mut self, fields: Option<(&str, &str)>) {
        let Some((codes, path)) = fields else { return };
        let sides = match codes {
            "DD" => "both deleted",
            "AU" => "added by us",
            "UD" => "deleted by them",
            "UA" => "added by them",
            "DU" => "deleted by us",
            "AA" => "both added",
            _ => "both modified",
        };
        self.conflicts.push(FileConflict { path: path.to_owned(), sides: sides.to_owned() });
    }

    fn rename_all(&mut self, path: impl Fn(&str) -> String) {
        let changes = self.staged.iter_mut().chain(&mut self.unstaged);
        let names = changes.map(|change| &mut change.path);
        let conflicts = self.conflicts.iter_mut().map(|conflict| &mut conflict.path);
        names.chain(conflicts).for_each(|name| *name = path(name));
    }

    fn shorten(&mut self) {
        fn shorten<T>(list: &mut Vec<T>) -> usize {
            let over = list.len().saturating_sub(MAX_ENTRIES);
            list.truncate(MAX_ENTRIES);
            over
        }
        self.left_out += shorten(&mut self.staged) + shorten(&mut self.unstaged);
        self.left_out += shorten(&mut self.untracked) + shorten(&mut self.conflicts);
    }
}

/// Returns the first field, and the field with this number, which is a path and may contain spaces.
fn last_field(fields: &str, number: usize) -> Option<(&str, &str)> {
    let path = fields.splitn(number + 1, ' ').nth(number)?;
    let (first, _) = fields.split_once(' ')?;
    Some((first, path))
}

fn status_run(input: &GitStatus) -> Result<GitRun, ToolError> {
    let paths = match input.paths.as_slice() {
        [] => vec![".".to_owned()],
        paths => names::paths(&input.directory, paths)?,
    };
    let options = [
        "--porcelain=v2",
        "-z",
        "--branch",
        "--ahead-behind",
        "--find-renames",
        "--untracked-files=normal",
        "--ignore-submodules=dirty",
    ];
    Ok(GitRun::read_only("status").with(options).paths(&paths))
}

/// Returns the read accesses for paths.
pub(super) fn reads(paths: &[PathBuf]) -> impl Iterator<Item = Access> {
    paths.iter().cloned().map(Access::Read)
}

/// Shows the state of a repository.
#[tool(
    idempotent,
    deadline = "60s",
    variables(max_entries = MAX_ENTRIES),
    access = |input| {
        accesses(status_run(input).map(|run| [show_prefix(), run]), reads(&input.paths))
    },
    profiles(reviewer)
)]
pub async fn git_status(input: GitStatus, shell: Shell) -> Result<RepositoryStatus, ToolError> {
    let run = status_run(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    let paths = RepositoryPaths::ask(&git).await?;
    let finished = git.run(&run).await?;
    Ok(RepositoryStatus::parse(&finished.out, |name| paths.path(name)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(records: &[&str], expected: &str) {
        let output: String = records.iter().map(|record| format!("{record}\0")).collect();
        let status = RepositoryStatus::parse(output.as_bytes(), str::to_owned);
        assert_eq!(status.text(), expected);
    }

    const HEAD: [&str; 2] = ["# branch.oid 0123456789abcdef", "# branch.head main"];

    #[test]
    fn a_branch_and_its_upstream_are_shown() {
        let expected =
            "On branch main at 0123456789, 2 ahead of and 1 behind origin/main.\nNo changes.";
        check(&[HEAD[0], HEAD[1], "# branch.upstream origin/main", "# branch.ab +2 -1"], expected);
        check(
            &["# branch.oid (initial)", "# branch.head main"],
            "On branch main, no commit yet.\nNo changes.",
        );
        check(
            &[HEAD[0], "# branch.head (detached)"],
            "HEAD is detached at 0123456789.\nNo changes.",
        );
    }

    #[test]
    fn every_kind_of_entry_is_shown() {
        let entries = [
            HEAD[0],
            HEAD[1],
            "1 AM N... 000000 100644 100644 0 1 a new file",
            "2 R. N... 100644 100644 100644 1 1 R100 new name",
            "old\nname",
            "1 .D N... 100644 100644 000000 1 1 gone",
            "u AA N... 000000 100644 100644 100644 0 1 2 both ways",
            "? -dash",
        ];
        let expected = "On branch main at 0123456789.\nConflicts:\n  both added both ways\n\
                        Staged:\n  added a new file\n  renamed old\\nname -> new name\n\
                        Not staged:\n  modified a new file\n  deleted gone\nUntracked:\n  -dash";
        check(&entries, expected);
    }

    #[test]
    fn long_lists_are_truncated_with_a_note() {
        let output: String = (0..250).map(|number| format!("? f{number}\0")).collect();
        let status = RepositoryStatus::parse(output.as_bytes(), str::to_owned);
        assert_eq!((status.untracked.len(), status.left_out), (MAX_ENTRIES, 50));
        assert!(status.text().ends_with("[50 more; give paths to see them]"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            records in prop::collection::vec("[#12u?!] [ -~ä\\n]{0,40}", 0..10),
            noise in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let bytes = [records.join("\0").into_bytes(), noise].concat();
            let text = RepositoryStatus::parse(&bytes, str::to_owned).text();
            prop_assert!(!text.is_empty());
        }
    }
}
