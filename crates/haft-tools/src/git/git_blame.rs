//! `git_blame`: shows which commit last changed each line of a file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use haft_core::{Access, Output, Shell, ToolError};
use haft_macros::tool;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    command::{Git, GitRun, accesses},
    display,
    git_status::workspace,
    names,
};

/// Maximum number of lines at once.
const MAX_LINES: usize = 400;
/// Maximum length of a line shown.
const MAX_LINE_CHARS: usize = 300;
/// Length of an abbreviated hash.
const SHORT_HASH_CHARS: usize = 8;

/// The file and the lines.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "src/main.rs", "first_line": 10, "last_line": 30 }))]
pub struct GitBlame {
    /// The file, relative to the workspace.
    #[schemars(extend("x-aliases" = ["file", "file_path", "filePath"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// The first line.
    #[serde(default = "first")]
    #[schemars(range(min = 1), extend("x-aliases" = ["start_line", "startLine", "offset"]))]
    pub first_line: usize,
    /// The last line.
    #[serde(default)]
    #[schemars(range(min = 1), extend("x-aliases" = ["end_line", "endLine"]))]
    pub last_line: Option<usize>,
    /// A commit, branch or tag, to show the file as it was then. Default: the current file.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["commit", "ref"]))]
    pub revision: Option<String>,
    /// A directory inside the repository or worktree, relative to the workspace. Default: the
    /// workspace.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["repository", "repo", "workdir", "cwd"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub directory: PathBuf,
}

fn first() -> usize {
    1
}

/// Lines with their commits.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Blame {
    /// The file, relative to the workspace.
    pub path: String,
    /// The commits of these lines, by hash.
    pub commits: BTreeMap<String, BlamedCommit>,
    /// The lines, in order.
    #[schemars(extend("x-in-content" = true))]
    pub lines: Vec<BlamedLine>,
}

/// A commit that changed lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlamedCommit {
    /// Author of the commit.
    pub author: String,
    /// Day of the commit, in UTC.
    pub date: String,
    /// First line of the message.
    pub subject: String,
}

/// A line and the commit that last changed it.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlamedLine {
    /// Line number in the file.
    pub number: usize,
    /// Hash of the commit.
    pub commit: String,
    /// Text of the line.
    pub text: String,
}

impl Output for Blame {
    fn text(&self) -> String {
        let mut text = String::new();
        for BlamedLine { number, commit, text: line } in &self.lines {
            let about = self.commits.get(commit).cloned().unwrap_or_default();
            let (hash, author) = (short(commit), display::one_line(&about.author));
            text.push_str(&format!("{number}\t{hash} {author} {}\t{line}\n", about.date));
        }
        for (hash, about) in &self.commits {
            text.push_str(&format!("{}: {}\n", short(hash), display::one_line(&about.subject)));
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn title(&self) -> Option<String> {
        Some(format!("Git blame {}", display::one_line(&self.path)))
    }
}

fn short(hash: &str) -> &str {
    hash.get(..SHORT_HASH_CHARS).unwrap_or(hash)
}

impl Blame {
    /// Parses `blame --porcelain`: a line with the hash and the numbers, facts about a new commit,
    /// and the text of the line after a tab.
    fn parse(path: String, output: &[u8]) -> Self {
        let text = String::from_utf8_lossy(output);
        let mut blame = Self { path, ..Self::default() };
        let mut at: Option<(String, usize)> = None;
        for line in text.split('\n') {
            match (&at, line.strip_prefix('\t')) {
                (Some((commit, number)), Some(line)) => {
                    let text = display::content_line(line, MAX_LINE_CHARS);
                    let (commit, number) = (commit.clone(), *number);
                    blame.lines.push(BlamedLine { number, commit, text });
                    at = None;
                }
                (Some((commit, _)), None) => blame.fact(commit, line),
                (None, _) => at = heading(line),
            }
        }
        blame
    }

    fn fact(&mut self, commit: &str, line: &str) {
        let Some((name, value)) = line.split_once(' ') else { return };
        let about = self.commits.entry(commit.to_owned()).or_default();
        match name {
            "author" => about.author = value.to_owned(),
            "author-time" => about.date = day(value),
            "summary" => about.subject = value.to_owned(),
            _ => {}
        }
    }
}

/// Parses `hash old-number new-number …`.
fn heading(line: &str) -> Option<(String, usize)> {
    let mut words = line.split(' ');
    let hash = words.next().filter(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let number = words.nth(1)?.parse().ok()?;
    (!hash.is_empty()).then(|| (hash.to_owned(), number))
}

fn day(seconds: &str) -> String {
    let time = seconds.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(String::new, |time| time.strftime("%Y-%m-%d").to_string())
}

fn blame_run(input: &GitBlame) -> Result<GitRun, ToolError> {
    let path = names::path_in(&input.directory, &input.path)?;
    let revision = input.revision.as_deref().map(names::commit).transpose()?;
    let first = input.first_line.max(1);
    let number = match input.last_line {
        Some(last) if last < first => {
            let message = format!("last_line {last} is before first_line {first}");
            return Err(ToolError::input(message).hint("give the smaller number as first_line"));
        }
        Some(last) => (last - first).saturating_add(1).min(MAX_LINES),
        None => MAX_LINES,
    };
    let options = ["--porcelain", "--no-textconv", "--no-progress", "--encoding=UTF-8"];
    let lines = format!("-L{first},+{number}");
    let run = GitRun::read_only("blame").with(options).with([lines]);
    Ok(run.with(revision).paths(&[path]))
}

/// Shows which commits last changed the lines of a file.
#[tool(
    idempotent,
    deadline = "60s",
    variables(max_lines = MAX_LINES),
    access = |input| {
        accesses(blame_run(input).map(|run| [run]), [Access::Read(input.path.clone())])
    },
    profiles(reviewer)
)]
pub async fn git_blame(input: GitBlame, shell: Shell) -> Result<Blame, ToolError> {
    let run = blame_run(&input)?;
    let directory = names::directory(&input.directory)?;
    let git = Git { shell: &shell, directory: Path::new(&directory) };
    let finished = git.run(&run).await?;
    Ok(Blame::parse(input.path.to_string_lossy().into_owned(), &finished.out))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_have_commits_that_are_described_once() {
        let output = "aaaaaaaaaa 1 1 2\nauthor Ada\nauthor-time 1794809852\nsummary first\nfilename x\n\tone\n\
                      aaaaaaaaaa 2 2\n\t\ttwo\nbbbbbbbbbb 1 3 1\nauthor Ben\nsummary second\n\t\n";
        let blame = Blame::parse("x".to_owned(), output.as_bytes());
        let expected = "1\taaaaaaaa Ada 2026-11-16\tone\n2\taaaaaaaa Ada 2026-11-16\t\ttwo\n\
                        3\tbbbbbbbb Ben \t\naaaaaaaa: first\nbbbbbbbb: second";
        assert_eq!(blame.text(), expected);
    }

    #[test]
    fn a_range_is_limited() {
        let input = |first_line, last_line| GitBlame {
            path: "x".into(),
            first_line,
            last_line,
            revision: None,
            directory: workspace(),
        };
        let command =
            |input| blame_run(&input).map(|run| run.program().to_string()).unwrap_or_default();
        assert!(command(input(5, Some(7))).contains(" -L5,+3 -- x"));
        assert!(command(input(1, Some(usize::MAX))).contains(" -L1,+400 "));
        assert!(command(input(usize::MAX, Some(usize::MAX))).contains(",+1 "));
        assert!(blame_run(&input(7, Some(5))).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            lines in prop::collection::vec("([0-9a-f]{1,4} [0-9]{1,3} [0-9]{1,22}|author-time -?[0-9]{0,22}|\t[ -~]{0,9}|[ -~]{0,9})", 0..20),
            noise in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let bytes = [lines.join("\n").into_bytes(), noise].concat();
            let blame = Blame::parse(String::new(), &bytes);
            prop_assert!(blame.lines.len() <= lines.len() + 50);
            prop_assert!(blame.text().len() < 1 << 16);
        }
    }
}
