//! `process`: the commands that run on: looked at, waited for, written to, ended.

use std::{sync::Arc, time::Duration};

use haft_core::{
    Access, CommandRisk, ErrorKind, Output, ParsedCommand, Power, ReadFiles, Shell, ToolError,
    commands::{KillReason, Process as Running},
};
use haft_macros::tool;
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    pieces,
    report::{self, Standing},
};

const USUAL_WAIT: u64 = 30_000;
const LONGEST_WAIT: u64 = 600_000;
/// Ports and files tell nobody when they come, so they are asked.
const GLANCE: Duration = Duration::from_millis(50);

/// What to do with which process.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "action": "wait", "id": "p1", "port": 8080 }))]
pub struct Process {
    /// `list` all; `poll` one for its output and state; `write` to its input; `wait` for its end, a port, a text or a
    /// file; `kill` it with all it has started.
    pub action: Action,
    /// Which process, as `bash` and `list` say.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["process_id", "pid", "session_id"]))]
    pub id: Option<String>,
    /// For `write`: the text. A line needs its newline.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["input", "data", "chars"]))]
    pub text: Option<String>,
    /// For `write`: no more will come.
    #[serde(default)]
    pub close: bool,
    /// For `poll`: the byte of the output to begin with; `next` of the last answer.
    #[serde(default)]
    pub from: u64,
    /// For `wait`: until something in it accepts connections at this port.
    #[serde(default)]
    pub port: Option<u16>,
    /// For `wait`: until its output matches this regular expression.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["regex"]))]
    pub pattern: Option<String>,
    /// For `wait`: until this file is there.
    #[serde(default)]
    #[schemars(with = "Option<haft_core::PathInput>")]
    pub file: Option<std::path::PathBuf>,
    /// For `wait`: at most so many milliseconds.
    #[serde(default = "usual_wait")]
    #[schemars(range(min = 1, max = LONGEST_WAIT), extend("x-aliases" = ["timeout", "timeoutMs"]))]
    pub timeout_ms: u64,
}

fn usual_wait() -> u64 {
    USUAL_WAIT
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    List,
    Poll,
    Write,
    Wait,
    Kill,
}

/// How it stands now.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Processes {
    /// The processes that were asked about.
    pub processes: Vec<Standing>,
    /// For `wait`: whether what was waited for has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<bool>,
    /// For `poll` and `wait`: where to go on reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    #[serde(skip)]
    text: String,
}

impl Output for Processes {
    fn text(&self) -> String {
        let lines = self.processes.iter().map(|standing| match self.next {
            Some(next) => {
                format!("[{}; go on with from={next}]{}", standing.words(), standing.denials())
            }
            None => format!("{}: {} ({})", standing.id, standing.words(), standing.command),
        });
        let lines: Vec<String> = lines.collect();
        match (self.text.trim_end(), lines.is_empty()) {
            ("", true) => "No process of this session is known.".to_owned(),
            ("", false) => lines.join("\n"),
            (text, _) => format!("{text}\n{}", lines.join("\n")),
        }
    }
}

/// Looks after commands that run in the background.
#[tool(
    deadline = "660s",
    access = accesses,
    variables(usual_wait = USUAL_WAIT, longest_wait = LONGEST_WAIT),
    profiles(mcp)
)]
pub async fn process(
    input: Process,
    shell: Shell,
    files: ReadFiles,
) -> Result<Processes, ToolError> {
    if input.action == Action::List {
        let known = shell.processes();
        let processes = known.iter().map(|process| Standing::of(&**process)).collect();
        return Ok(Processes { processes, ..Processes::default() });
    }
    let process = shell.process(id(&input)?)?;
    let mut reached = None;
    match input.action {
        Action::Write => write(&input, &shell, &*process).await?,
        Action::Kill => process.kill(KillReason::OnRequest).await,
        Action::Wait => reached = Some(wait(&input, &process, &files).await?),
        Action::List | Action::Poll => {}
    }
    let (text, piece) = match input.action {
        Action::Poll | Action::Wait => {
            let (text, piece) = report::from(&*process, input.from)?;
            (text, Some(piece.begin))
        }
        _ => (String::new(), None),
    };
    Ok(Processes { processes: vec![Standing::of(&*process)], reached, next: piece, text })
}

fn accesses(input: &Process) -> Vec<Access> {
    match (input.action, &input.file) {
        (Action::Write, _) => written(input),
        (Action::Wait, Some(file)) => vec![Access::Any(Power::Free), Access::Read(file.clone())],
        _ => vec![Access::Any(Power::Free)],
    }
}

/// What is written to a shell, it runs; what other programs make of it only they know, so that writing is more than
/// looking whatever the text is.
fn written(input: &Process) -> Vec<Access> {
    let text = input.text.clone().unwrap_or_default();
    let id = input.id.as_deref().unwrap_or_default();
    let why = unreadable(&text).or_else(|| {
        let why = "it continues a line that was begun before, so it cannot be read by itself";
        pieces::is_open(id).then_some(why)
    });
    let (risk, known_prefixes) = match why {
        // Any rule for commands may be meant.
        Some(why) => (CommandRisk::NeedsApproval(why.to_owned()), vec![String::new()]),
        None => (CommandRisk::Other, Vec::new()),
    };
    let command =
        ParsedCommand { known_prefixes, ..ParsedCommand::new(format!("process write {id}"), risk) };
    vec![Access::Run(text), Access::Command(Box::new(command))]
}

/// Why a text does not say what a shell or a terminal makes of it, if it does not.
fn unreadable(text: &str) -> Option<&'static str> {
    let is_control = |c: char| c.is_control() && c != '\n';
    // `!!` and `!text` are earlier lines, and `^a^b` changes the last one.
    let recalls = |line: &str| line.starts_with('^') || line.contains('!');
    match text {
        text if text.contains(is_control) => {
            Some("its control characters are commands to a terminal")
        }
        text if text.lines().any(recalls) => {
            Some("the history of a shell may stand for a part of it")
        }
        text if !text.is_empty() && !haft_shell::is_complete(text) => {
            Some("the line is not finished, so it cannot be read")
        }
        _ => None,
    }
}

fn id(input: &Process) -> Result<&str, ToolError> {
    input.id.as_deref().ok_or_else(|| {
        ToolError::input("id: say which process").hint("`process` with action=list names them")
    })
}

async fn write(input: &Process, shell: &Shell, process: &dyn Running) -> Result<(), ToolError> {
    if input.text.is_none() && !input.close {
        return Err(ToolError::input("text: there is nothing to write")
            .hint("give text, or close=true to end the input"));
    }
    if let Some(text) = &input.text {
        let write = shell.write(process, text);
        let patience = Duration::from_millis(input.timeout_ms);
        // Noted first: a part of it may have been read when the rest was not.
        pieces::note(process, text);
        tokio::time::timeout(patience, write).await.map_err(|_| {
            let message = format!("process `{}` did not read what was written", process.id());
            ToolError::new(ErrorKind::Timeout, message).hint("poll it, or kill it")
        })??;
    }
    if input.close { process.close_input() } else { Ok(()) }
}

/// Whether it came in time. The end of the process ends every wait.
async fn wait(
    input: &Process,
    process: &Arc<dyn Running>,
    files: &ReadFiles,
) -> Result<bool, ToolError> {
    let pattern = input.pattern.as_deref().map(of_lines).transpose().map_err(|error| {
        ToolError::input(format!("pattern: {error}")).hint("mend the regular expression")
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
            // Output and the end come by themselves; the rest is looked for.
            let _ = tokio::time::timeout(GLANCE, changes.changed()).await;
        }
    };
    let patience = Duration::from_millis(input.timeout_ms);
    tokio::time::timeout(patience, reached).await.unwrap_or(Ok(false))
}

/// `^` and `$` are the ends of lines: an output has many.
fn of_lines(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).multi_line(true).build()
}

fn has_matched(pattern: Option<&Regex>, process: &dyn Running) -> Result<bool, ToolError> {
    let Some(pattern) = pattern else { return Ok(false) };
    let text = report::written(process)?;
    Ok(pattern.is_match(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The risk of writing a text, and whether a rule for any command may speak of it.
    fn risk(text: &str) -> (CommandRisk, bool) {
        let input: Process =
            serde_json::from_value(json!({"action": "write", "id": "p", "text": text}))
                .expect("an input");
        let found = written(&input).into_iter().find_map(|access| match access {
            Access::Command(command) => {
                Some((command.risk.clone(), !command.known_prefixes.is_empty()))
            }
            _ => None,
        });
        found.expect("a command")
    }

    #[test]
    fn a_whole_line_is_judged_as_a_command_and_never_as_looking() {
        for text in ["ls\n", "a=1; cat a\n", "cat <<E\nx\nE\n", ""] {
            assert_eq!(risk(text), (CommandRisk::Other, false), "{text:?}");
        }
    }

    #[test]
    fn what_a_terminal_or_a_history_changes_is_asked_about() {
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
