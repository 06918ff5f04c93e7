//! `bash`: a command, to its end or to the background.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{
    Access, Cancel, CommandRisk, ErrorKind, Net, Output, ParsedCommand, ParsedScript, Power,
    Progress, Reply, Return, Shell, ToolError, WriteFiles, block_in_place,
    commands::{
        Denial, ExecutorKind, KillOnDrop, KillReason, Process, Program, Stdin, Stream, script,
    },
    files::{ChangedFile, FileChange, WorkspaceScan},
    secret_reference,
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::report::{self, Standing};
use crate::text::terminal;

const USUAL_TIMEOUT: u64 = 120_000;
const LONGEST_TIMEOUT: u64 = 600_000;
/// How large a piece of live output is at most.
const LIVE: usize = 16 << 10;
/// So many changed files are named.
const MOST_CHANGED: usize = 100;
/// And so many in the text.
const NAMED: usize = 10;
/// So many files are looked at before and after.
const MOST_FILES: usize = 100_000;
/// For so long a command waits for a look; then there is none for a while.
const LONGEST_SURVEY: Duration = Duration::from_millis(200);

/// What to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "command": "cargo test --quiet 2>&1 | tail -20", "timeout_ms": 300_000 }))]
pub struct Bash {
    /// A command line for bash.
    #[schemars(length(min = 1), extend("x-aliases" = ["cmd", "script"]))]
    pub command: String,
    /// What it is for, in a few words.
    #[serde(default)]
    pub description: Option<String>,
    /// After so many milliseconds it is stopped, with all it has started. In the background only when it is given.
    #[serde(default)]
    #[schemars(range(min = 1, max = LONGEST_TIMEOUT), extend("x-aliases" = ["timeout", "timeoutMs"]))]
    pub timeout_ms: Option<u64>,
    /// The directory to run in, relative to the workspace.
    #[serde(default = "here")]
    #[schemars(extend("x-aliases" = ["cwd", "working_dir", "workingDirectory", "directory"]))]
    #[schemars(with = "haft_core::PathInput")]
    #[schemars(extend("x-short" = "C"))]
    pub workdir: PathBuf,
    /// Return at once and leave it running; `process` looks after it.
    #[serde(default)]
    #[schemars(extend("x-short" = "b"))]
    pub background: bool,
    /// After so many milliseconds return, and leave it running if it still does.
    #[serde(default)]
    #[schemars(range(min = 1, max = LONGEST_TIMEOUT), extend("x-aliases" = ["yieldMs"]))]
    pub yield_ms: Option<u64>,
    /// It needs the network.
    #[serde(default)]
    pub network: bool,
    /// It needs a terminal.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["pty", "tty"]))]
    pub terminal: bool,
    /// Secrets for its environment, each as `GH_TOKEN=secret:NAME`. Other variables stand in the command itself.
    #[serde(default)]
    #[schemars(extend("x-short" = "e"))]
    pub env: Vec<String>,
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

/// How it went. What was written is the content of the answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Ran {
    /// How the process stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// Where it ran.
    pub place: ExecutorKind,
    /// The files of the workspace that are not as they were before, whoever changed them; without those that ignore files
    /// name.
    pub changed: Vec<ChangedFile>,
    /// How many more there are.
    #[serde(skip_serializing_if = "report::is_zero")]
    pub more_changed: usize,
    /// False when the command still runs, or when there were too many files to look at in time.
    pub changes_known: bool,
    #[serde(skip)]
    text: String,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    has_network: bool,
}

impl Output for Ran {
    fn text(&self) -> String {
        let words = self.standing.words();
        let is_plain_success = self.standing.exit_code == Some(0)
            && self.standing.left == 0
            && self.changed.is_empty();
        let words = words + &self.change_words() + self.fence_words();
        let refusals = self.standing.denials();
        match (self.text.trim_end(), is_plain_success) {
            ("", true) => format!("[no output; {words}]"),
            ("", false) => format!("[{words}]{refusals}"),
            (text, true) => text.to_owned(),
            (text, false) => format!("{text}\n[{words}]{refusals}"),
        }
    }

    fn title(&self) -> Option<String> {
        Some(self.title.clone())
    }
}

impl Ran {
    /// Whoever sees a command fail should know what it could not do.
    fn fence_words(&self) -> &'static str {
        let has_failed = self.standing.exit_code.is_some_and(|code| code != 0);
        match (self.place, self.has_network) {
            (ExecutorKind::Sandbox, false) if has_failed => {
                "; sandboxed: no network, writes only in the workspace"
            }
            (ExecutorKind::Sandbox, true) if has_failed => {
                "; sandboxed: writes only in the workspace"
            }
            (ExecutorKind::Container, false) if has_failed => {
                "; in a container: no network, the workspace is /workspace, writes only there and in /tmp"
            }
            (ExecutorKind::Container, true) if has_failed => {
                "; in a container: the workspace is /workspace, writes only there and in /tmp"
            }
            _ => "",
        }
    }

    fn change_words(&self) -> String {
        let named = self.changed.iter().take(NAMED).map(|changed| {
            let sign = match changed.change {
                FileChange::Created => '+',
                FileChange::Modified => '~',
                FileChange::Deleted => '-',
            };
            format!("{sign}{}", changed.path)
        });
        let named: Vec<String> = named.collect();
        let more = self.changed.len() + self.more_changed - named.len();
        match (named.is_empty(), more) {
            (true, _) => String::new(),
            (false, 0) => format!("; changed: {}", named.join(" ")),
            (false, more) => format!("; changed: {} and {more} more", named.join(" ")),
        }
    }
}

/// Runs a command.
#[tool(
    deadline = "660s",
    access = accesses,
    variables(usual_timeout = USUAL_TIMEOUT, longest_timeout = LONGEST_TIMEOUT),
    profiles(mcp)
)]
pub async fn bash(
    input: Bash,
    shell: Shell,
    files: Option<WriteFiles>,
    _network: Option<Net>,
    progress: Progress,
    cancel: Cancel,
) -> Result<Ran, ToolError> {
    let mut launch = shell.launch(Program::Shell(input.command.clone()), &input.workdir);
    launch.secrets = input.env.iter().map(|text| secret(text)).collect::<Result<_, _>>()?;
    let read = shell.parsed_script(&launch);
    if read.is_some_and(ParsedScript::is_read_only) {
        launch.environment.extend(quiet_git());
    }
    launch.input = match (input.terminal, input.background || input.yield_ms.is_some()) {
        (true, _) => Stdin::Terminal { rows: 24, columns: 120 },
        (false, true) => Stdin::Open,
        (false, false) => Stdin::Closed,
    };
    let before = survey(files.as_ref());
    let process = shell.start(launch)?;
    let place = shell.place();
    let awaited = KillOnDrop::new(process.clone());
    let timeout = Duration::from_millis(input.timeout_ms.unwrap_or(USUAL_TIMEOUT));
    let patience = match input.background {
        true => Some(Duration::ZERO),
        false => input.yield_ms.map(Duration::from_millis),
    };
    let stopped = tokio::select! {
        biased;
        () = watch(&*process, &progress) => None,
        () = cancel.cancelled() => Some(KillReason::Cancelled),
        () = after(patience) => {
            awaited.release();
            // A server has no end; only who says when it must be over means it.
            if input.timeout_ms.is_some() {
                limit(process.clone(), timeout);
            }
            return ran(&input, place, &*process, read, None);
        }
        () = tokio::time::sleep(timeout) => Some(KillReason::ByTimeout),
    };
    if let Some(why) = stopped {
        process.kill(why).await;
    }
    drop(awaited);
    // Who calls off does not wait for more.
    let after = if stopped == Some(KillReason::Cancelled) { None } else { survey(files.as_ref()) };
    let changes = after.zip(before).and_then(|(after, before)| after.changes_since(&before));
    let ran = ran(&input, place, &*process, read, changes);
    match (stopped, process.failure()) {
        (Some(why), _) => Err(with_partial(stopped_error(&input, why), ran)),
        (None, Some(failure)) => Err(with_partial(failure, ran)),
        (None, None) => ran,
    }
}

/// Looked at before and after, for what the command has changed. None when there is not enough time for all files.
fn survey(files: Option<&WriteFiles>) -> Option<WorkspaceScan> {
    // Who may change nothing has changed nothing.
    let Some(files) = files else {
        return Some(WorkspaceScan { is_complete: true, ..WorkspaceScan::default() });
    };
    let begun = Instant::now();
    let survey =
        block_in_place(|| files.scan(MOST_FILES, &|| begun.elapsed() > LONGEST_SURVEY).ok())?;
    survey.is_complete.then_some(survey)
}

/// The gate reads the text. Where it only looks, the power to change files is not asked for.
fn accesses(input: &Bash) -> Vec<Access> {
    let script = script(&input.workdir, &input.command);
    // In a terminal these take commands from whoever writes to them.
    let is_interactive = input.terminal && haft_shell::read(&script).commands.iter().any(is_pager);
    let interactive = is_interactive.then(|| {
        let text = format!("{script} (in a terminal)");
        let (rule_texts, spellings, known_prefixes) = (Vec::new(), Vec::new(), Vec::new());
        let risk = CommandRisk::Other;
        Access::Command(Box::new(ParsedCommand {
            text,
            risk,
            rule_texts,
            spellings,
            known_prefixes,
        }))
    });
    let changes = [Access::Any(Power::WriteFiles)];
    let network = input.network.then_some(Access::Any(Power::Net));
    // What is no reference is refused before anything runs.
    let secrets = input.env.iter().filter_map(|text| Some(secret(text).ok()?.1));
    let secrets =
        secrets.map(|name| Access::Secret { name, command: script.clone() }).collect::<Vec<_>>();
    let run = [Access::Run(script)].into_iter();
    run.chain(interactive).chain(changes).chain(network).chain(secrets).collect()
}

/// Variables that every text gets which only looks: a workspace must not name programs for git to run, as far as
/// variables keep it from that.
pub fn quiet_git() -> Vec<(String, String)> {
    let settings = [("core.fsmonitor", "false"), ("safe.bareRepository", "explicit")];
    let numbered = settings.iter().enumerate().flat_map(|(index, (key, value))| {
        [
            (format!("GIT_CONFIG_KEY_{index}"), (*key).to_owned()),
            (format!("GIT_CONFIG_VALUE_{index}"), (*value).to_owned()),
        ]
    });
    let count = ("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string());
    // Hooks run when an index is written, and programs when something missing is fetched.
    let variables =
        [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", "none")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    numbered.chain([count]).chain(variables).collect()
}

fn is_pager(command: &haft_shell::Command) -> bool {
    let name = command.words.first().map_or("", |word| word.text.as_str());
    let name = name.rsplit('/').next().unwrap_or_default();
    matches!(name, "less" | "more" | "man" | "git" | "whatis" | "apropos" | "jq" | "yq")
}

/// A variable, and the name of the secret that it is to hold.
fn secret(text: &str) -> Result<(String, String), ToolError> {
    let (variable, value) = text.split_once('=').unwrap_or((text, ""));
    let mut letters = variable.chars();
    let is_variable = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    match secret_reference(value).filter(|_| is_variable) {
        Some(name) => Ok((variable.to_owned(), name.to_owned())),
        None => {
            let shown: String = variable.chars().take(80).collect();
            Err(ToolError::input(format!("env: {shown:?} is not given as VARIABLE=secret:NAME"))
                .hint("name a secret; other variables are written into the command, as in `A=b program`"))
        }
    }
}

/// Hands on what is written until it is over.
async fn watch(process: &dyn Process, progress: &Progress) {
    let mut changes = process.changes();
    let mut told = 0;
    loop {
        changes.mark_unchanged();
        let is_over = process.status().state.is_over();
        while let Ok(piece) = process.output(Stream::Out, told, LIVE) {
            if piece.bytes.is_empty() {
                break;
            }
            told = piece.begin + piece.bytes.len() as u64;
            progress.output(&terminal::plain(&piece.bytes));
        }
        if is_over || changes.changed().await.is_err() {
            progress.end_output();
            return;
        }
    }
}

async fn after(patience: Option<Duration>) {
    match patience {
        Some(patience) => tokio::time::sleep(patience).await,
        None => std::future::pending().await,
    }
}

/// Nobody waits for it any more, but its time is still limited.
fn limit(process: Arc<dyn Process>, timeout: Duration) {
    tokio::spawn(async move {
        let mut changes = process.changes();
        let over =
            async { while !process.status().state.is_over() && changes.changed().await.is_ok() {} };
        if tokio::time::timeout(timeout, over).await.is_err() {
            process.kill(KillReason::ByTimeout).await;
        }
    });
}

fn ran(
    input: &Bash,
    place: ExecutorKind,
    process: &dyn Process,
    read: Option<&ParsedScript>,
    changes: Option<Vec<ChangedFile>>,
) -> Result<Ran, ToolError> {
    let title = input.description.clone().unwrap_or_else(|| {
        let first = input.command.lines().next().unwrap_or_default();
        first.chars().take(80).collect()
    });
    let is_known = changes.is_some();
    let mut changed = changes.unwrap_or_default();
    let more_changed = changed.len().saturating_sub(MOST_CHANGED);
    changed.truncate(MOST_CHANGED);
    let mut standing = Standing::of(process);
    if standing.has_failed() {
        standing.refused.extend(read.into_iter().flat_map(|read| unread(read, process)));
    }
    let text = report::written(process)?;
    Ok(Ran {
        standing,
        place,
        changed,
        more_changed,
        changes_known: is_known,
        text,
        title,
        has_network: input.network,
    })
}

fn stopped_error(input: &Bash, why: KillReason) -> ToolError {
    match why {
        KillReason::ByTimeout => ToolError::new(
            ErrorKind::Timeout,
            format!(
                "the command was stopped after {} ms, with all it had started",
                input.timeout_ms.unwrap_or(USUAL_TIMEOUT)
            ),
        )
        .hint(format!(
            "give it more time with timeout_ms (up to {LONGEST_TIMEOUT}), or run it with background=true"
        )),
        _ => ToolError::new(ErrorKind::Cancelled, "the command was called off, with all it had started"),
    }
}

/// Files that the command line names and that are kept from it.
fn unread(read: &ParsedScript, process: &dyn Process) -> Vec<Denial> {
    let named = read.parts.iter().filter_map(|part| match part {
        Access::Read(path) | Access::Many { path, is_write: false, .. } => Some(path),
        _ => None,
    });
    named.filter(|path| path.is_absolute()).filter_map(|path| process.read_denial(path)).collect()
}

/// Half an output beats none.
fn with_partial(error: ToolError, ran: Result<Ran, ToolError>) -> ToolError {
    match ran.and_then(|ran| Ok::<_, ToolError>(ran).into_reply()) {
        Ok(reply) => error.with_partial(reply),
        Err(_) => error.with_partial(Reply::text("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_that_only_looks_runs_no_program_of_the_workspace() {
        let settings = quiet_git();
        let has = |name: &str, value: &str| settings.contains(&(name.to_owned(), value.to_owned()));
        assert!(has("GIT_CONFIG_COUNT", "2"));
        assert!(has("GIT_CONFIG_KEY_0", "core.fsmonitor") && has("GIT_CONFIG_VALUE_0", "false"));
        assert!(has("GIT_CONFIG_KEY_1", "safe.bareRepository"));
        assert!(has("GIT_CONFIG_VALUE_1", "explicit"));
        assert!(has("GIT_OPTIONAL_LOCKS", "0") && has("GIT_NO_LAZY_FETCH", "1"));
        assert!(has("GIT_ALLOW_PROTOCOL", "none"));
    }
}
