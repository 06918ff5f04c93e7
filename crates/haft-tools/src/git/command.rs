//! One run of git: its words, which policy sees before it starts, the surroundings it gets, and what it says.

use std::path::{Path, PathBuf};

use haft_core::{
    Access, CommandRisk, ErrorKind, ParsedCommand, Shell, ToolError,
    commands::{FinishedProcess, Program, Streams},
};

use super::failure;

/// What of git's output is taken at most. Everything asked for here is bounded by counts as well; this is for single
/// lines and names without measure.
const MOST_BYTES: usize = 4 << 20;

/// Settings that could run or write something while git only looks, and names written as they are.
const LOOKING: &[&str] = &[
    "core.fsmonitor=false",
    "safe.bareRepository=explicit",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "diff.autoRefreshIndex=false",
    "log.showSignature=false",
];

/// These compare the work tree, whose files a repository may have filtered by programs. No setting keeps it from that.
const COMPARING: &[&str] = &["status", "diff", "blame"];

/// English words, since kinds of failure are told by them; the encoding stays UTF-8 for hooks.
const ENGLISH: &[(&str, &str)] = &[("LC_ALL", "C.UTF-8"), ("LANGUAGE", "")];

/// For looking: no lock that nobody needs, nothing fetched on the way, and a path is a path, whatever it looks like. Not
/// for changes, whose hooks would inherit it.
const QUIETLY: &[(&str, &str)] = &[
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_LITERAL_PATHSPECS", "1"),
];

/// What git is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    subcommand: &'static str,
    arguments: Vec<String>,
    looks: bool,
}

impl Run {
    /// A run that changes nothing and lets the repository run nothing.
    pub(crate) fn looking(subcommand: &'static str) -> Self {
        Self { subcommand, arguments: Vec::new(), looks: true }
    }

    /// A run as the person's own git would do it, hooks included.
    pub(crate) fn changing(subcommand: &'static str) -> Self {
        Self { subcommand, arguments: Vec::new(), looks: false }
    }

    pub(crate) fn with<T: Into<String>>(mut self, words: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(words.into_iter().map(Into::into));
        self
    }

    /// Ends the options: what follows are paths, and none means no restriction.
    pub(crate) fn paths(self, paths: &[String]) -> Self {
        self.with(["--"]).with(paths)
    }

    /// As policy and the executor see it.
    pub(crate) fn program(&self) -> Program {
        let settings = if self.looks { LOOKING } else { &[] };
        let settings = settings.iter().flat_map(|setting| ["-c", setting]);
        let words = settings.chain([self.subcommand]).map(str::to_owned);
        let arguments = words.chain(self.arguments.iter().cloned()).collect();
        Program::Direct { name: "git".to_owned(), arguments }
    }

    /// A read-only run says so itself: its settings keep the repository from running anything, which a reader of command
    /// lines cannot know of `git -c`.
    fn accesses(&self) -> impl Iterator<Item = Access> + use<> {
        let text = self.program().to_string();
        let risk = match COMPARING.contains(&self.subcommand) {
            true => CommandRisk::Repository,
            false => CommandRisk::ReadOnly,
        };
        let declared =
            self.looks.then(|| Access::Command(Box::new(ParsedCommand::new(text.clone(), risk))));
        [Access::Run(text)].into_iter().chain(declared)
    }

    /// How messages name it.
    pub(crate) fn name(&self) -> String {
        format!("git {}", self.subcommand)
    }
}

/// What a call would run, for policy. An input that no run can be made of is refused before anything starts, so it
/// touches nothing.
pub(crate) fn accesses(
    runs: Result<impl IntoIterator<Item = Run>, ToolError>,
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
    /// Runs git and takes what it says.
    ///
    /// # Errors
    /// Whatever made git fail, by its kind.
    pub(crate) async fn run(&self, run: &Run) -> Result<FinishedProcess, ToolError> {
        let finished = self.attempt(run).await?;
        match finished.status.exit_code {
            Some(0) => Ok(finished),
            _ => Err(failure::explain(&run.name(), &finished)),
        }
    }

    /// The same where failing may be an answer.
    ///
    /// # Errors
    /// When git did not come to an end by itself.
    pub(crate) async fn attempt(&self, run: &Run) -> Result<FinishedProcess, ToolError> {
        let mut launch = self.shell.launch(run.program(), self.directory);
        let quietly = if run.looks { QUIETLY } else { &[] };
        let variables = ENGLISH.iter().chain(quietly);
        launch.environment =
            variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        launch.streams = Streams::Apart;
        let started = self.shell.finish(launch, MOST_BYTES).await;
        let finished = started.map_err(|error| self.not_started(error))?;
        match finished.status.exit_code {
            Some(_) => Ok(finished),
            None => Err(failure::unfinished(&run.name(), finished.status.state)),
        }
    }

    /// The workspace itself is there, so what was not found there is git.
    fn not_started(&self, error: ToolError) -> ToolError {
        if error.kind() == ErrorKind::NotFound && self.directory == Path::new(".") {
            return ToolError::unavailable("git is not installed here, or not in the path")
                .hint("install git, or mend PATH")
                .caused_by(error);
        }
        error
    }
}

/// Asks whether this is a repository, and how deep in it git stands.
pub(crate) fn whereabouts() -> Run {
    Run::looking("rev-parse").with(["--show-prefix"])
}

/// From names as git tells them, from the top of the working tree, to names from the workspace.
pub(crate) struct Whereabouts {
    directory: PathBuf,
    prefix: PathBuf,
}

impl Whereabouts {
    pub(crate) async fn ask(git: &Git<'_>) -> Result<Self, ToolError> {
        let finished = git.run(&whereabouts()).await?;
        let prefix = String::from_utf8_lossy(&finished.out);
        let prefix = prefix.strip_suffix('\n').unwrap_or(&prefix);
        Ok(Self { directory: git.directory.to_owned(), prefix: prefix.into() })
    }

    /// The slash at the end of a directory stays.
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

/// The path so many levels above the directory, folded; what leaves the workspace keeps its `..`.
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
        let place = Whereabouts { directory: directory.into(), prefix: prefix.into() };
        assert_eq!(place.path(from_top), expected);
    }

    #[test]
    fn names_from_the_top_become_names_from_the_workspace() {
        check(".", "", "src/a.rs", "src/a.rs");
        check("tree", "", "src/a.rs", "tree/src/a.rs");
        check("tree", "", "new/", "tree/new/");
        check("tree/src", "src/", "src/a.rs", "tree/src/a.rs");
        check("tree/src", "src/", "b.rs", "tree/b.rs");
    }

    #[test]
    fn what_lies_above_the_workspace_keeps_its_dots() {
        check(".", "project/", "project/a.rs", "a.rs");
        check(".", "project/", "other/a.rs", "../other/a.rs");
        check("src", "project/src/", "other/a.rs", "../other/a.rs");
    }

    #[test]
    fn a_look_says_that_nothing_may_run_and_a_change_begins_with_its_verb() {
        let look = Run::looking("status").with(["-z"]).paths(&["-a b".to_owned()]);
        let expected = "git -c core.fsmonitor=false -c safe.bareRepository=explicit -c core.hooksPath=/dev/null \
                        -c core.quotePath=false -c diff.autoRefreshIndex=false -c log.showSignature=false status -z -- '-a b'";
        assert_eq!(look.program().to_string(), expected);
        let change = Run::changing("push").with(["origin", "HEAD"]);
        assert_eq!(change.program().to_string(), "git push origin HEAD");
    }

    #[test]
    fn only_a_read_only_run_declares_that_it_is_one() {
        let declared = |run: Run| {
            accesses(Ok([run]), []).into_iter().find_map(|access| match access {
                Access::Command(command) => Some(command.risk),
                _ => None,
            })
        };
        assert_eq!(declared(Run::looking("log")), Some(CommandRisk::ReadOnly));
        assert_eq!(declared(Run::looking("status")), Some(CommandRisk::Repository));
        assert_eq!(declared(Run::changing("commit")), None);
    }
}
