//! `bash`: runs a command to its end or in the background.

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

use super::report::{self, ProcessReport};
use crate::text::terminal;

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const MAX_TIMEOUT_MS: u64 = 600_000;
/// Maximum size of a piece of live output.
const LIVE_CHUNK_BYTES: usize = 16 << 10;
/// Maximum number of changed files in the data.
const MAX_CHANGED: usize = 100;
/// Maximum number of changed files in the text.
const MAX_CHANGED_IN_TEXT: usize = 10;
/// Maximum number of files scanned before and after a command.
const MAX_SCANNED_FILES: usize = 100_000;
/// Time limit of a scan, which delays the command. After a scan takes longer, scans are skipped for
/// a while.
const SCAN_TIMEOUT: Duration = Duration::from_millis(200);

/// The command, and how to run it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "command": "cargo test --quiet 2>&1 | tail -20", "timeout_ms": 300_000 }))]
pub struct Bash {
    /// The command line for bash.
    #[schemars(length(min = 1), extend("x-aliases" = ["cmd", "script"]))]
    pub command: String,
    /// The purpose of the command, in a few words.
    #[serde(default)]
    pub description: Option<String>,
    /// Stop the command and every process it started after this many milliseconds. In the
    /// background there is a limit only if this is given.
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_MS), extend("x-aliases" = ["timeout", "timeoutMs"]))]
    pub timeout_ms: Option<u64>,
    /// The directory to run in, relative to the workspace.
    #[serde(default = "default_workdir")]
    #[schemars(extend("x-aliases" = ["cwd", "working_dir", "workingDirectory", "directory"]))]
    #[schemars(with = "haft_core::PathInput")]
    #[schemars(extend("x-short" = "C"))]
    pub workdir: PathBuf,
    /// Return at once and leave the command running; manage it with `process`.
    #[serde(default)]
    #[schemars(extend("x-short" = "b"))]
    pub background: bool,
    /// Return after this many milliseconds, and leave the command running if it has not ended.
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_MS), extend("x-aliases" = ["yieldMs"]))]
    pub yield_ms: Option<u64>,
    /// Give the command network access.
    #[serde(default)]
    pub network: bool,
    /// Give the command a terminal.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["pty", "tty"]))]
    pub terminal: bool,
    /// Secrets for the environment, each as `GH_TOKEN=secret:NAME`. Set other variables in the
    /// command itself.
    #[serde(default)]
    #[schemars(extend("x-short" = "e"))]
    pub env: Vec<String>,
}

fn default_workdir() -> PathBuf {
    PathBuf::from(".")
}

/// How the command ran. Its output is the content of the result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BashReport {
    /// The state of the process.
    #[serde(flatten)]
    pub report: ProcessReport,
    /// Where the command ran.
    pub place: ExecutorKind,
    /// Files of the workspace that changed while the command ran, whichever process changed them;
    /// without ignored files.
    pub changed: Vec<ChangedFile>,
    /// Number of further changed files.
    #[serde(skip_serializing_if = "report::is_zero")]
    pub more_changed: usize,
    /// False when the command is still running, or when there were too many files to scan in time.
    pub changes_known: bool,
    #[serde(skip)]
    text: String,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    has_network: bool,
}

impl Output for BashReport {
    fn text(&self) -> String {
        let words = self.report.words();
        let is_plain_success =
            self.report.exit_code == Some(0) && self.report.left == 0 && self.changed.is_empty();
        let words = words + &self.change_words() + self.sandbox_words();
        let refusals = self.report.denials();
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

impl BashReport {
    /// Names the sandbox restrictions that may have caused a failure.
    fn sandbox_words(&self) -> &'static str {
        let has_failed = self.report.exit_code.is_some_and(|code| code != 0);
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
        let named = self.changed.iter().take(MAX_CHANGED_IN_TEXT).map(|changed| {
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
    variables(default_timeout = DEFAULT_TIMEOUT_MS, max_timeout = MAX_TIMEOUT_MS),
    profiles(mcp)
)]
pub async fn bash(
    input: Bash,
    shell: Shell,
    files: Option<WriteFiles>,
    _network: Option<Net>,
    progress: Progress,
    cancel: Cancel,
) -> Result<BashReport, ToolError> {
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
    let before = scan(files.as_ref());
    let process = shell.start(launch)?;
    let place = shell.kind();
    let awaited = KillOnDrop::new(process.clone());
    let timeout = Duration::from_millis(input.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS));
    let return_after = match input.background {
        true => Some(Duration::ZERO),
        false => input.yield_ms.map(Duration::from_millis),
    };
    let stopped = tokio::select! {
        biased;
        () = forward_output(&*process, &progress) => None,
        () = cancel.cancelled() => Some(KillReason::Cancelled),
        () = sleep_or_never(return_after) => {
            awaited.release();
            // A server runs without end, so only an explicit timeout limits it.
            if input.timeout_ms.is_some() {
                kill_after(process.clone(), timeout);
            }
            return bash_report(&input, place, &*process, read, None);
        }
        () = tokio::time::sleep(timeout) => Some(KillReason::ByTimeout),
    };
    if let Some(why) = stopped {
        process.kill(why).await;
    }
    drop(awaited);
    // A cancelled call must not wait for a scan.
    let after = if stopped == Some(KillReason::Cancelled) { None } else { scan(files.as_ref()) };
    let changes = after.zip(before).and_then(|(after, before)| after.changes_since(&before));
    let report = bash_report(&input, place, &*process, read, changes);
    match (stopped, process.failure()) {
        (Some(why), _) => Err(with_partial(stopped_error(&input, why), report)),
        (None, Some(failure)) => Err(with_partial(failure, report)),
        (None, None) => report,
    }
}

/// Scans the workspace, to find what the command changes. `None` when a scan takes too long.
fn scan(files: Option<&WriteFiles>) -> Option<WorkspaceScan> {
    // A command without write access cannot change anything.
    let Some(files) = files else {
        return Some(WorkspaceScan { is_complete: true, ..WorkspaceScan::default() });
    };
    let start = Instant::now();
    let scan =
        block_in_place(|| files.scan(MAX_SCANNED_FILES, &|| start.elapsed() > SCAN_TIMEOUT).ok())?;
    scan.is_complete.then_some(scan)
}

/// Returns the accesses of a call. The gate reads the script; for a read-only script it does not
/// ask for write access.
fn accesses(input: &Bash) -> Vec<Access> {
    let script = script(&input.workdir, &input.command);
    // In a terminal these programs run commands that are typed into them.
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
    // An invalid reference is refused before anything runs.
    let secrets = input.env.iter().filter_map(|text| Some(secret(text).ok()?.1));
    let secrets =
        secrets.map(|name| Access::Secret { name, command: script.clone() }).collect::<Vec<_>>();
    let run = [Access::Run(script)].into_iter();
    run.chain(interactive).chain(changes).chain(network).chain(secrets).collect()
}

/// Returns the variables for every read-only command. They keep git from running programs that the
/// configuration in the workspace names, as far as variables can.
pub fn quiet_git() -> Vec<(String, String)> {
    let settings = [("core.fsmonitor", "false"), ("safe.bareRepository", "explicit")];
    let numbered = settings.iter().enumerate().flat_map(|(index, (key, value))| {
        [
            (format!("GIT_CONFIG_KEY_{index}"), (*key).to_owned()),
            (format!("GIT_CONFIG_VALUE_{index}"), (*value).to_owned()),
        ]
    });
    let count = ("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string());
    // Writing the index runs hooks, and fetching missing objects runs programs.
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

/// Parses a variable and the name of the secret for it.
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
                .hint("name a secret; set other variables in the command, as in `A=b program`"))
        }
    }
}

/// Forwards output to the caller until the process ends.
async fn forward_output(process: &dyn Process, progress: &Progress) {
    let mut changes = process.changes();
    let mut sent = 0;
    loop {
        changes.mark_unchanged();
        let is_over = process.status().state.is_over();
        while let Ok(piece) = process.output(Stream::Out, sent, LIVE_CHUNK_BYTES) {
            if piece.bytes.is_empty() {
                break;
            }
            sent = piece.begin + piece.bytes.len() as u64;
            progress.output(&terminal::plain(&piece.bytes));
        }
        if is_over || changes.changed().await.is_err() {
            progress.end_output();
            return;
        }
    }
}

async fn sleep_or_never(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

/// Kills a background process at its timeout.
fn kill_after(process: Arc<dyn Process>, timeout: Duration) {
    tokio::spawn(async move {
        let mut changes = process.changes();
        let over =
            async { while !process.status().state.is_over() && changes.changed().await.is_ok() {} };
        if tokio::time::timeout(timeout, over).await.is_err() {
            process.kill(KillReason::ByTimeout).await;
        }
    });
}

fn bash_report(
    input: &Bash,
    place: ExecutorKind,
    process: &dyn Process,
    read: Option<&ParsedScript>,
    changes: Option<Vec<ChangedFile>>,
) -> Result<BashReport, ToolError> {
    let title = input.description.clone().unwrap_or_else(|| {
        let first = input.command.lines().next().unwrap_or_default();
        first.chars().take(80).collect()
    });
    let is_known = changes.is_some();
    let mut changed = changes.unwrap_or_default();
    let more_changed = changed.len().saturating_sub(MAX_CHANGED);
    changed.truncate(MAX_CHANGED);
    let mut report = ProcessReport::of(process);
    if report.has_failed() {
        report.refused.extend(read.into_iter().flat_map(|read| hidden_files(read, process)));
    }
    let text = report::written(process)?;
    Ok(BashReport {
        report,
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
                "the command was stopped after {} ms, with every process it started",
                input.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS)
            ),
        )
        .hint(format!(
            "allow more time with timeout_ms (up to {MAX_TIMEOUT_MS}), or run it with background=true"
        )),
        _ => ToolError::new(
            ErrorKind::Cancelled,
            "the command was cancelled, with every process it started",
        ),
    }
}

/// Returns denials for the files that the command line names and the sandbox hides.
fn hidden_files(read: &ParsedScript, process: &dyn Process) -> Vec<Denial> {
    let named = read.parts.iter().filter_map(|part| match part {
        Access::Read(path) | Access::Many { path, is_write: false, .. } => Some(path),
        _ => None,
    });
    named.filter(|path| path.is_absolute()).filter_map(|path| process.read_denial(path)).collect()
}

/// Attaches the output so far to an error.
fn with_partial(error: ToolError, report: Result<BashReport, ToolError>) -> ToolError {
    match report.and_then(|report| Ok::<_, ToolError>(report).into_reply()) {
        Ok(reply) => error.with_partial(reply),
        Err(_) => error.with_partial(Reply::text("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_git_runs_no_program_of_the_workspace() {
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
