//! One run of git: its arguments, which policy sees before it starts, its environment and its
//! output.

use std::path::{Path, PathBuf};

use haft_core::{
    Access, CommandRisk, ErrorKind, ParsedCommand, Shell, ToolError,
    commands::{FinishedProcess, Program, Streams},
};

use super::failure;

/// Maximum size of git's output. The commands also limit counts; this limit is for very long lines
/// and names.
const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// Settings for read-only runs. They disable everything that could run or write something, and the
/// quoting of names.
const READ_ONLY_SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "safe.bareRepository=explicit",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "diff.autoRefreshIndex=false",
    "log.showSignature=false",
];

/// Commands that compare the work tree. The repository may filter its files with programs, and no
/// setting prevents that.
const WORK_TREE_COMMANDS: &[&str] = &["status", "diff", "blame"];

/// English messages, because the kinds of failures are derived from them. The encoding stays UTF-8
/// for hooks.
const ENGLISH_MESSAGES: &[(&str, &str)] = &[("LC_ALL", "C.UTF-8"), ("LANGUAGE", "")];

/// Variables for read-only runs: no optional locks, no fetching, and paths are never patterns. Not
/// for changes, whose hooks would inherit them.
const READ_ONLY_VARIABLES: &[(&str, &str)] = &[
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_LITERAL_PATHSPECS", "1"),
];

/// The arguments of a git command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitRun {
    subcommand: &'static str,
    arguments: Vec<String>,
    is_read_only: bool,
}

impl GitRun {
    /// A run that changes nothing and runs no program of the repository.
    pub(crate) fn read_only(subcommand: &'static str) -> Self {
        Self { subcommand, arguments: Vec::new(), is_read_only: true }
    }

    /// A run like the user's own git would do it, hooks included.
    pub(crate) fn changing(subcommand: &'static str) -> Self {
        Self { subcommand, arguments: Vec::new(), is_read_only: false }
    }

    pub(crate) fn with<T: Into<String>>(mut self, words: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(words.into_iter().map(Into::into));
        self
    }

    /// Ends the options and adds paths; without paths there is no restriction.
    pub(crate) fn paths(self, paths: &[String]) -> Self {
        self.with(["--"]).with(paths)
    }

    /// Returns the program for policy and the executor.
    pub(crate) fn program(&self) -> Program {
        let settings = if self.is_read_only { READ_ONLY_SETTINGS } else { &[] };
        let settings = settings.iter().flat_map(|setting| ["-c", setting]);
        let words = settings.chain([self.subcommand]).map(str::to_owned);
        let arguments = words.chain(self.arguments.iter().cloned()).collect();
        Program::Direct { name: "git".to_owned(), arguments }
    }

    /// Returns the accesses of the run. A read-only run is declared as such: a reader of command
    /// lines cannot know that its `git -c` settings keep the repository from running programs.
    fn accesses(&self) -> impl Iterator<Item = Access> + use<> {
        let text = self.program().to_string();
        let risk = match WORK_TREE_COMMANDS.contains(&self.subcommand) {
            true => CommandRisk::Repository,
            false => CommandRisk::ReadOnly,
        };
        let declared = self
            .is_read_only
            .then(|| Access::Command(Box::new(ParsedCommand::new(text.clone(), risk))));
        [Access::Run(text)].into_iter().chain(declared)
    }

    /// Returns the name for messages.
    pub(crate) fn name(&self) -> String {
        format!("git {}", self.subcommand)
    }
}

/// Returns the accesses of a call for policy. Invalid input has none: the call fails before
/// anything runs.
pub(crate) fn accesses(
    runs: Result<impl IntoIterator<Item = GitRun>, ToolError>,
    others: impl IntoIterator<Item = Access>,
) -> Vec<Access> {
    let runs = runs.into_iter().flatten();
    runs.flat_map(|run| run.accesses()).chain(others).collect()
}

/// Git in one directory.
pub(crate) struct Git<'a> {
    pub(crate) shell: &'a Shell,
    pub(crate) directory: &'a Path,
}

impl Git<'_> {
    /// Runs git and returns its output.
    ///
    /// # Errors
    /// The failure of git, by its kind.
    pub(crate) async fn run(&self, run: &GitRun) -> Result<FinishedProcess, ToolError> {
        let finished = self.attempt(run).await?;
        match finished.status.exit_code {
            Some(0) => Ok(finished),
            _ => Err(failure::explain(&run.name(), &finished)),
        }
    }

    /// Runs git without checking its exit code.
    ///
    /// # Errors
    /// When git did not end by itself.
    pub(crate) async fn attempt(&self, run: &GitRun) -> Result<FinishedProcess, ToolError> {
        let mut launch = self.shell.launch(run.program(), self.directory);
        let read_only = if run.is_read_only { READ_ONLY_VARIABLES } else { &[] };
        let variables = ENGLISH_MESSAGES.iter().chain(read_only);
        launch.environment =
            variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        launch.streams = Streams::Apart;
        let started = self.shell.finish(launch, MAX_OUTPUT_BYTES).await;
        let finished = started.map_err(|error| self.not_started(error))?;
        match finished.status.exit_code {
            Some(_) => Ok(finished),
            None => Err(failure::unfinished(&run.name(), finished.status.state)),
        }
    }

    /// Returns the error for a failed start. The workspace itself exists, so "not found" means git.
    fn not_started(&self, error: ToolError) -> ToolError {
        if error.kind() == ErrorKind::NotFound && self.directory == Path::new(".") {
            return ToolError::unavailable("git is not installed, or not in PATH")
                .hint("install git, or fix PATH")
                .caused_by(error);
        }
        error
    }
}

/// Returns the run that prints the directory relative to the top of the working tree. It fails
/// outside of a repository.
pub(crate) fn show_prefix() -> GitRun {
    GitRun::read_only("rev-parse").with(["--show-prefix"])
}

/// Converts paths relative to the top of the working tree, as git prints them, to paths relative to
/// the workspace.
pub(crate) struct RepositoryPaths {
    directory: PathBuf,
    prefix: PathBuf,
}

impl RepositoryPaths {
    pub(crate) async fn ask(git: &Git<'_>) -> Result<Self, ToolError> {
        let finished = git.run(&show_prefix()).await?;
        let prefix = String::from_utf8_lossy(&finished.out);
        let prefix = prefix.strip_suffix('\n').unwrap_or(&prefix);
        Ok(Self { directory: git.directory.to_owned(), prefix: prefix.into() })
    }

    /// Converts a path. A slash at the end is kept.
    pub(crate) fn path(&self, from_top: &str) -> String {
        let mut path = self.without_slash(from_top);
        if from_top.ends_with('/') {
            path.push('/');
        }
        path
    }

    fn without_slash(&self, from_top: &str) -> String {
        let inside = Path::new(from_top);
        let mut ups = 0;
        let mut ancestor = self.prefix.as_path();
        loop {
            if let Ok(rest) = inside.strip_prefix(ancestor) {
                return from_workspace(&self.directory, ups, rest);
            }
            ups += 1;
            ancestor = ancestor.parent().unwrap_or(Path::new(""));
        }
    }
}

/// Joins `rest` to the directory `ups` levels above. A path outside of the workspace keeps its
/// `..`.
fn from_workspace(directory: &Path, ups: usize, rest: &Path) -> String {
    let mut path = if directory == Path::new(".") { PathBuf::new() } else { directory.to_owned() };
    for _ in 0..ups {
        let can_pop = path.file_name().is_some();
        if can_pop {
            path.pop();
        } else {
            path.push("..");
        }
    }
    path.join(rest).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(directory: &str, prefix: &str, from_top: &str, expected: &str) {
        let paths = RepositoryPaths { directory: directory.into(), prefix: prefix.into() };
        assert_eq!(paths.path(from_top), expected);
    }

    #[test]
    fn paths_from_the_top_become_paths_from_the_workspace() {
        check(".", "", "src/a.rs", "src/a.rs");
        check("tree", "", "src/a.rs", "tree/src/a.rs");
        check("tree", "", "new/", "tree/new/");
        check("tree/src", "src/", "src/a.rs", "tree/src/a.rs");
        check("tree/src", "src/", "b.rs", "tree/b.rs");
    }

    #[test]
    fn paths_above_the_workspace_keep_their_dots() {
        check(".", "project/", "project/a.rs", "a.rs");
        check(".", "project/", "other/a.rs", "../other/a.rs");
        check("src", "project/src/", "other/a.rs", "../other/a.rs");
    }

    #[test]
    fn a_read_only_run_has_safe_settings_and_a_change_begins_with_its_subcommand() {
        let read_only = GitRun::read_only("status").with(["-z"]).paths(&["-a b".to_owned()]);
        let expected = "git -c core.fsmonitor=false -c safe.bareRepository=explicit -c core.hooksPath=/dev/null \
                        -c core.quotePath=false -c diff.autoRefreshIndex=false -c log.showSignature=false status -z -- '-a b'";
        assert_eq!(read_only.program().to_string(), expected);
        let change = GitRun::changing("push").with(["origin", "HEAD"]);
        assert_eq!(change.program().to_string(), "git push origin HEAD");
    }

    #[test]
    fn only_a_read_only_run_declares_that_it_is_one() {
        let declared = |run: GitRun| {
            accesses(Ok([run]), []).into_iter().find_map(|access| match access {
                Access::Command(command) => Some(command.risk),
                _ => None,
            })
        };
        assert_eq!(declared(GitRun::read_only("log")), Some(CommandRisk::ReadOnly));
        assert_eq!(declared(GitRun::read_only("status")), Some(CommandRisk::Repository));
        assert_eq!(declared(GitRun::changing("commit")), None);
    }
}
