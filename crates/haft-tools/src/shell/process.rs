//! `process`: lists, reads, awaits, feeds and stops running commands.

use std::{sync::Arc, time::Duration};

use haft_core::{
    Access, CommandRisk, ErrorKind, Output, ParsedCommand, Power, ReadFiles, Shell, ToolError,
    commands::{KillReason, Process},
};
use haft_macros::tool;
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    report::{self, ProcessReport},
    unfinished_lines,
};

const DEFAULT_WAIT_MS: u64 = 30_000;
const MAX_WAIT_MS: u64 = 600_000;
/// Interval at which `wait` checks for ports and files, which send no notification.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The action, and its process.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "action": "wait", "id": "p1", "port": 8080 }))]
pub struct ProcessInput {
    /// `list`: all processes. `poll`: output and state of one. `write`: send input to it. `wait`: for
    /// its end, a port, a text or a file. `kill`: stop it and every process it started.
    pub action: ProcessAction,
    /// The process, by the id that `bash` and `list` return.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["process_id", "pid", "session_id"]))]
    pub id: Option<String>,
    /// For `write`: the text. End a line with a newline.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["input", "data", "chars"]))]
    pub text: Option<String>,
    /// For `write`: close the input afterwards.
    #[serde(default)]
    pub close: bool,
    /// For `poll`: the byte of the output to begin with; use `next` of the last result.
    #[serde(default)]
    pub from: u64,
    /// For `wait`: until a process accepts connections at this port.
    #[serde(default)]
    pub port: Option<u16>,
    /// For `wait`: until its output matches this regular expression.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["regex"]))]
    pub pattern: Option<String>,
    /// For `wait`: until this file exists.
    #[serde(default)]
    #[schemars(with = "Option<haft_core::PathInput>")]
    pub file: Option<std::path::PathBuf>,
    /// For `wait`: maximum time in milliseconds.
    #[serde(default = "default_wait")]
    #[schemars(range(min = 1, max = MAX_WAIT_MS), extend("x-aliases" = ["timeout", "timeoutMs"]))]
    pub timeout_ms: u64,
}

fn default_wait() -> u64 {
    DEFAULT_WAIT_MS
}

/// An action on processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessAction {
    List,
    Poll,
    Write,
    Wait,
    Kill,
}

/// The states of the processes.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Processes {
    /// The requested processes.
    pub processes: Vec<ProcessReport>,
    /// For `wait`: true if the condition was met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<bool>,
    /// For `poll` and `wait`: the value of `from` to continue reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    #[serde(skip)]
    text: String,
}

impl Output for Processes {
    fn text(&self) -> String {
        let lines = self.processes.iter().map(|report| match self.next {
            Some(next) => {
                format!("[{}; continue with from={next}]{}", report.words(), report.denials())
            }
            None => format!("{}: {} ({})", report.id, report.words(), report.command),
        });
        let lines: Vec<String> = lines.collect();
        match (self.text.trim_end(), lines.is_empty()) {
            ("", true) => "No processes in this session.".to_owned(),
            ("", false) => lines.join("\n"),
            (text, _) => format!("{text}\n{}", lines.join("\n")),
        }
    }
}

/// Manages commands that run in the background.
#[tool(
    deadline = "660s",
    access = accesses,
    variables(default_wait = DEFAULT_WAIT_MS, max_wait = MAX_WAIT_MS),
    profiles(mcp)
)]
pub async fn process(
    input: ProcessInput,
    shell: Shell,
    files: ReadFiles,
) -> Result<Processes, ToolError> {
    if input.action == ProcessAction::List {
        let known = shell.processes();
        let processes = known.iter().map(|process| ProcessReport::of(&**process)).collect();
        return Ok(Processes { processes, ..Processes::default() });
    }
    let process = shell.process(id(&input)?)?;
    let mut reached = None;
    match input.action {
        ProcessAction::Write => write(&input, &shell, &*process).await?,
        ProcessAction::Kill => process.kill(KillReason::OnRequest).await,
        ProcessAction::Wait => reached = Some(wait(&input, &process, &files).await?),
        ProcessAction::List | ProcessAction::Poll => {}
    }
    let (text, piece) = match input.action {
        ProcessAction::Poll | ProcessAction::Wait => {
            let (text, piece) = report::from(&*process, input.from)?;
            (text, Some(piece.begin))
        }
        _ => (String::new(), None),
    };
    Ok(Processes { processes: vec![ProcessReport::of(&*process)], reached, next: piece, text })
}

fn accesses(input: &ProcessInput) -> Vec<Access> {
    match (input.action, &input.file) {
        (ProcessAction::Write, _) => write_accesses(input),
        (ProcessAction::Wait, Some(file)) => {
            vec![Access::Any(Power::Free), Access::Read(file.clone())]
        }
        _ => vec![Access::Any(Power::Free)],
    }
}

/// Returns the accesses of writing a text. A shell runs the text, and the effect on another program
/// is unknown, so writing is never a read-only call.
fn write_accesses(input: &ProcessInput) -> Vec<Access> {
    let text = input.text.clone().unwrap_or_default();
    let id = input.id.as_deref().unwrap_or_default();
    let why = unreadable(&text).or_else(|| {
        let why = "it continues an unfinished line, so it cannot be judged separately";
        unfinished_lines::has_unfinished(id).then_some(why)
    });
    let (risk, known_prefixes) = match why {
        // The text may match any rule for commands.
        Some(why) => (CommandRisk::NeedsApproval(why.to_owned()), vec![String::new()]),
        None => (CommandRisk::Other, Vec::new()),
    };
    let command =
        ParsedCommand { known_prefixes, ..ParsedCommand::new(format!("process write {id}"), risk) };
    vec![Access::Run(text), Access::Command(Box::new(command))]
}

/// Returns the reason why a shell or a terminal may read a text as something else, if there is one.
fn unreadable(text: &str) -> Option<&'static str> {
    let is_control = |c: char| c.is_control() && c != '\n';
    // `!!` and `!text` recall earlier lines, and `^a^b` changes the last one.
    let recalls = |line: &str| line.starts_with('^') || line.contains('!');
    match text {
        text if text.contains(is_control) => {
            Some("it has control characters, which are commands to a terminal")
        }
        text if text.lines().any(recalls) => {
            Some("the shell may replace a part of it with its history")
        }
        text if !text.is_empty() && !haft_shell::is_complete(text) => {
            Some("its last line is not finished, so it cannot be judged")
        }
        _ => None,
    }
}

fn id(input: &ProcessInput) -> Result<&str, ToolError> {
    input.id.as_deref().ok_or_else(|| {
        ToolError::input("id: required").hint("`process` with action=list shows the ids")
    })
}

async fn write(
    input: &ProcessInput,
    shell: &Shell,
    process: &dyn Process,
) -> Result<(), ToolError> {
    if input.text.is_none() && !input.close {
        return Err(ToolError::input("text: nothing to write")
            .hint("give text, or close=true to end the input"));
    }
    if let Some(text) = &input.text {
        let write = shell.write(process, text);
        let timeout = Duration::from_millis(input.timeout_ms);
        // Remember the text first: at a timeout the shell may have read a part of it.
        unfinished_lines::note(process, text);
        tokio::time::timeout(timeout, write).await.map_err(|_| {
            let message = format!("process `{}` did not read the text in time", process.id());
            ToolError::new(ErrorKind::Timeout, message).hint("poll it, or kill it")
        })??;
    }
    if input.close { process.close_input() } else { Ok(()) }
}

/// Waits for the condition or the end of the process. Returns true if the condition was met.
async fn wait(
    input: &ProcessInput,
    process: &Arc<dyn Process>,
    files: &ReadFiles,
) -> Result<bool, ToolError> {
    let pattern = input.pattern.as_deref().map(multi_line).transpose().map_err(|error| {
        ToolError::input(format!("pattern: {error}")).hint("fix the regular expression")
    })?;
    let waits_for_end = pattern.is_none() && input.port.is_none() && input.file.is_none();
    let is_reached = |is_over: bool| -> Result<bool, ToolError> {
        if waits_for_end {
            return Ok(is_over);
        }
        let has_port = input.port.is_some_and(|port| process.listens(port));
        let has_file = input.file.as_ref().is_some_and(|file| files.metadata(file).is_ok());
        Ok(has_port || has_file || has_matched(pattern.as_ref(), &**process)?)
    };
    let mut changes = process.changes();
    let reached = async {
        loop {
            changes.mark_unchanged();
            let is_over = process.status().state.is_over();
            let is_reached = is_reached(is_over)?;
            if is_reached || is_over {
                return Ok(is_reached);
            }
            // Output and the end send a notification; ports and files need polling.
            let _ = tokio::time::timeout(POLL_INTERVAL, changes.changed()).await;
        }
    };
    let timeout = Duration::from_millis(input.timeout_ms);
    tokio::time::timeout(timeout, reached).await.unwrap_or(Ok(false))
}

/// Compiles a pattern in which `^` and `$` match at every line.
fn multi_line(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).multi_line(true).build()
}

fn has_matched(pattern: Option<&Regex>, process: &dyn Process) -> Result<bool, ToolError> {
    let Some(pattern) = pattern else { return Ok(false) };
    let text = report::written(process)?;
    Ok(pattern.is_match(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the risk of writing a text, and whether a rule for any command may match it.
    fn risk(text: &str) -> (CommandRisk, bool) {
        let input: ProcessInput =
            serde_json::from_value(json!({"action": "write", "id": "p", "text": text}))
                .expect("an input");
        let found = write_accesses(&input).into_iter().find_map(|access| match access {
            Access::Command(command) => {
                Some((command.risk.clone(), !command.known_prefixes.is_empty()))
            }
            _ => None,
        });
        found.expect("a command")
    }

    #[test]
    fn a_whole_line_is_judged_as_a_command_and_never_as_read_only() {
        for text in ["ls\n", "a=1; cat a\n", "cat <<E\nx\nE\n", ""] {
            assert_eq!(risk(text), (CommandRisk::Other, false), "{text:?}");
        }
    }

    #[test]
    fn text_that_a_terminal_or_a_history_changes_needs_approval() {
        for text in [
            "tou",
            "touch m",
            "tou\\\n",
            "echo 'a\n",
            "cat <<E\n",
            "if true\n",
            "ls |\n",
            "\u{3}",
            "ls\t\n",
            "\u{16}x\n",
            "\u{1b}[A\n",
            "\u{1b}[200~ls\n\u{1b}[201~",
            "!!\n",
            "!touch\n",
            "sudo !!\n",
            "echo a!b\n",
            "^a^b\n",
            "ls\n^a^b\n",
            "\u{12}touch\n",
            "ls\r",
            "\u{4}",
            "\u{7f}",
            "x\u{8}y\n",
            "\u{85}\n",
        ] {
            let (risk, may_meet) = risk(text);
            assert!(
                matches!(risk, CommandRisk::NeedsApproval(_)) && may_meet,
                "{text:?}: {risk:?}"
            );
        }
    }
}
