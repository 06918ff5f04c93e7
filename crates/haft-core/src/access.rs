//! What a call would touch, as the tool itself says from the input alone. Policy and people judge these words
//! before anything runs, and the capabilities are narrowed to them while it runs.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sort of power over the world. What a tool needs is listed in these words; the signature is the list.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Power {
    /// Nothing outside the call: progress, cancellation, who is calling.
    Free,
    /// Reading files of the workspace.
    ReadFiles,
    /// Changing files of the workspace.
    WriteFiles,
    /// Running programs.
    Shell,
    /// Talking to other machines.
    Net,
    /// Reading haft's own records: board, memory, sessions, schedules.
    ReadStore,
    /// Changing haft's own records.
    WriteStore,
    /// Calling other tools, each through the gate.
    Tools,
    /// Asking a language model.
    Model,
    /// Calling a foreign MCP server.
    Mcp,
    /// Asking a language server.
    Lsp,
    /// State of the program that embeds haft, behind a capability of its own.
    Host,
}

impl Power {
    /// The effect a tool has at least when it holds this power.
    pub fn effect(self) -> Effect {
        match self {
            Self::Free
            | Self::ReadFiles
            | Self::Net
            | Self::ReadStore
            | Self::Tools
            | Self::Model
            | Self::Lsp => Effect::Read,
            Self::WriteFiles | Self::WriteStore | Self::Host => Effect::Write,
            Self::Shell | Self::Mcp => Effect::Execute,
        }
    }

    /// Whether the power reaches things nobody here controls.
    pub fn is_open_world(self) -> bool {
        matches!(self, Self::Net | Self::Mcp | Self::Model)
    }

    /// The name on the wire, `read_files` for [`Power::ReadFiles`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::ReadFiles => "read_files",
            Self::WriteFiles => "write_files",
            Self::Shell => "shell",
            Self::Net => "net",
            Self::ReadStore => "read_store",
            Self::WriteStore => "write_store",
            Self::Tools => "tools",
            Self::Model => "model",
            Self::Mcp => "mcp",
            Self::Lsp => "lsp",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One argument of a tool's signature, as a permission: what it is power over, and whether the tool works without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Need {
    /// The power asked for.
    pub power: Power,
    /// True for `Option<Capability>`: the tool runs without it when it is not granted.
    pub optional: bool,
}

impl Need {
    /// A need the tool cannot do without.
    pub const fn required(power: Power) -> Self {
        Self { power, optional: false }
    }
}

/// How far a call reaches, from looking to doing what cannot be undone. Ordered.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Looks, changes nothing.
    Read,
    /// Changes something that can be changed back.
    Write,
    /// Runs a program.
    Execute,
    /// Changes something that cannot be brought back.
    Destructive,
}

impl Effect {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Destructive => "destructive",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing a call would touch.
///
/// Paths are workspace-relative once the gate has seen them; what lies outside stays absolute.
/// A path stands for itself and everything below it.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Access {
    /// The power as a whole; what exactly is not known before the call runs.
    Any(Power),
    /// Reads this file or below this directory.
    Read(PathBuf),
    /// Changes this file or below this directory.
    Write(PathBuf),
    /// Uses every file that fits a pattern of the shell, or that lies below a directory. A reader names them so; the gate
    /// looks which files there are before policy judges.
    Many {
        /// The pattern, or the directory.
        path: PathBuf,
        /// It is a pattern.
        is_pattern: bool,
        /// They are changed, not only read.
        is_write: bool,
    },
    /// Runs this text with a shell, or this command line.
    Run(String),
    /// Runs this one command, as a reader found it in a text that is run. Policy judges these in the text's stead.
    Command(Box<ParsedCommand>),
    /// Talks to this host or URL.
    Fetch(String),
    /// Gives a secret to a text that is run.
    Secret {
        /// Its name.
        name: String,
        /// The text for the shell.
        command: String,
    },
    /// Sends a secret to a host, in a request.
    SendSecret {
        /// Its name.
        name: String,
        /// The host.
        host: String,
        /// Whether a person has said which hosts it is for: it is sent to no other one.
        is_bound: bool,
    },
}

/// One command of a text that is run.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct ParsedCommand {
    /// Its words in one spelling, which is what rules match.
    pub text: String,
    /// How far it reaches.
    pub risk: CommandRisk,
    /// The commands that a person may want to allow together with it, narrow first. For what is unclear: the whole text
    /// that it is a piece of.
    #[serde(default, skip_serializing, rename = "widths")]
    pub rule_texts: Vec<String>,
    /// Other spellings of the same command, which rules that deny or ask match too: without assignments, without the
    /// program's folder, without options before the sub-command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spellings: Vec<String>,
    /// When some words cannot be seen in the text: what each spelling begins with for certain. The first belongs to
    /// `text`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "seen")]
    pub known_prefixes: Vec<String>,
}

impl ParsedCommand {
    /// A command of which nothing else is known.
    pub fn new(text: String, risk: CommandRisk) -> Self {
        let (rule_texts, spellings, known_prefixes) = Default::default();
        Self { text, risk, rule_texts, spellings, known_prefixes }
    }
}

/// How far a command reaches, as its reader says.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CommandRisk {
    /// It only reads and prints.
    #[serde(rename = "looks")]
    ReadOnly,
    /// It only reads and prints, but the settings of the repository that it reads may name programs to run for that. Where
    /// no sandbox holds those, it is more than looking.
    Repository,
    /// Anything else.
    #[serde(rename = "usual")]
    Other,
    /// What a person must be asked about in every mode but `all`, and why.
    #[serde(rename = "asks")]
    NeedsApproval(String),
    /// It cannot be told which commands run, and why: the text is a piece of what was to be read, not a command. To be
    /// asked about as well, and no rule for commands allows it but one that spells out a text in `rule_texts`.
    Unclear(String),
    /// It may open files that are secret or that rules close, and which. Asked about in every mode.
    Closed(String),
}

/// Reads the commands, files and addresses of a text that is run. Paths are as the text has them, but without `~`.
pub type CommandReader = Arc<dyn Fn(&str) -> Vec<Access> + Send + Sync>;

/// What a reader found in a text that is run.
#[derive(Clone, Debug)]
pub struct ParsedScript {
    /// The text.
    pub text: String,
    /// Its commands, files and addresses, and what is unclear in it.
    pub parts: Vec<Access>,
}

impl ParsedScript {
    /// Whether it does nothing but read and print.
    pub fn is_read_only(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Access::Command(command) => command.risk.is_read_only(),
            Access::Read(_) | Access::Many { is_write: false, .. } | Access::Fetch(_) => true,
            _ => false,
        })
    }
}

impl CommandRisk {
    /// Whether the command itself does nothing but read and print.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::Repository)
    }
}

impl Access {
    /// Whether a permission for `self` includes `other`.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            // No power as a whole is one over secrets: each is granted by its name.
            (Self::Any(_), Self::Secret { .. } | Self::SendSecret { .. }) => false,
            // The file powers as a whole are power over the workspace, not over the disk.
            (Self::Any(power), Self::Read(path) | Self::Write(path)) => {
                *power == other.power() && is_inside(path)
            }
            (Self::Any(power), other) => *power == other.power(),
            (Self::Read(scope), Self::Read(path)) | (Self::Write(scope), Self::Write(path)) => {
                is_below(scope, path)
            }
            (Self::Run(a), Self::Run(b)) => a == b,
            // What a person may want to allow with it is not kept in requests.
            (Self::Command(a), Self::Command(b)) => {
                a.text == b.text
                    && a.risk == b.risk
                    && a.spellings == b.spellings
                    && a.known_prefixes == b.known_prefixes
            }
            (Self::Fetch(a), Self::Fetch(b)) => host_of(a) == host_of(b),
            (Self::Secret { .. }, other) => self == other,
            (
                Self::SendSecret { name, host, .. },
                Self::SendSecret { name: other_name, host: other_host, .. },
            ) => name == other_name && host_of(host) == host_of(other_host),
            _ => false,
        }
    }

    /// The power this access is a use of.
    pub fn power(&self) -> Power {
        match self {
            Self::Any(power) => *power,
            Self::Read(_) | Self::Many { is_write: false, .. } => Power::ReadFiles,
            Self::Write(_) | Self::Many { is_write: true, .. } => Power::WriteFiles,
            Self::Run(_) | Self::Command(_) | Self::Secret { .. } => Power::Shell,
            Self::Fetch(_) | Self::SendSecret { .. } => Power::Net,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(power) => write!(f, "use {power}"),
            Self::Read(path) => write!(f, "read {}", path.display()),
            Self::Write(path) => write!(f, "write {}", path.display()),
            Self::Many { path, is_write, .. } => {
                let verb = if *is_write { "write" } else { "read" };
                write!(f, "{verb} files of {}", path.display())
            }
            Self::Run(command) => write!(f, "run {command}"),
            Self::Command(command) => match &command.risk {
                CommandRisk::NeedsApproval(why)
                | CommandRisk::Unclear(why)
                | CommandRisk::Closed(why) => {
                    write!(f, "run {} ({why})", command.text)
                }
                _ => write!(f, "run {}", command.text),
            },
            Self::Fetch(target) => write!(f, "fetch {target}"),
            Self::Secret { name, command } => write!(f, "give the secret {name} to {command}"),
            Self::SendSecret { name, host, .. } => write!(f, "send the secret {name} to {host}"),
        }
    }
}

/// The host part of a URL, or the text itself when it is a bare host; without port, in lower case.
pub(crate) fn host_of(target: &str) -> String {
    let after_scheme = target.split_once("://").map_or(target, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host_port.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host_port.split(':').next().unwrap_or_default(),
    };
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Turns the paths a tool names into the paths that rules are written for.
///
/// The lexical version here knows no symbolic links; the file executor replaces it by one that does.
pub trait ResolvePath: Send + Sync {
    /// The workspace-relative path, or the absolute one when it lies outside.
    fn resolve(&self, path: &Path) -> PathBuf;

    /// The same, but a link at the very end stands for itself.
    fn resolve_name(&self, path: &Path) -> PathBuf {
        self.resolve(path)
    }

    /// As [`ResolvePath::resolve`], and whether a regular file was seen there on the way. Who opens it next need not look
    /// again.
    fn resolve_file(&self, path: &Path) -> (PathBuf, bool) {
        (self.resolve(path), false)
    }

    /// The files and directories below a directory, resolved, of those that `enters` wants to see. None when there are too
    /// many, or when nobody can look.
    fn below(
        &self,
        _directory: &Path,
        _enters: &dyn Fn(&Path) -> SearchStep,
    ) -> Option<Vec<PathBuf>> {
        None
    }

    /// Whether files outside the workspace cannot be reached at all: then nobody is asked about them.
    fn is_confined(&self) -> bool {
        false
    }
}

/// Resolves by looking at the letters only: `.` and `..` are folded, the workspace prefix is taken off.
#[derive(Clone, Debug, Default)]
pub struct LexicalPaths {
    /// The absolute workspace directory.
    pub workspace: PathBuf,
}

impl ResolvePath for LexicalPaths {
    fn resolve(&self, path: &Path) -> PathBuf {
        let whole = fold_dots(&self.workspace.join(path));
        match whole.strip_prefix(fold_dots(&self.workspace)) {
            Ok(inside) if inside.as_os_str().is_empty() => PathBuf::from("."),
            Ok(inside) => inside.to_owned(),
            Err(_) => whole,
        }
    }
}

fn fold_dots(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                // Above the root there is only the root; above a relative start we keep the `..`,
                // so that an escape stays visible to the rules.
                let can_pop = matches!(folded.components().next_back(), Some(Component::Normal(_)));
                if can_pop {
                    folded.pop();
                } else if !folded.has_root() {
                    folded.push("..");
                }
            }
            other => folded.push(other),
        }
    }
    folded
}

/// What a search below a directory does with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStep {
    /// It is none of those that are looked for.
    Skip,
    /// It is one, and what lies below it too.
    Include,
    /// The same, and a link is followed: a pattern names something in the folder that it leads to.
    IncludeAndFollow,
}

/// Whether `path` is `scope` or lies below it. `.` is the whole workspace and nothing outside it.
pub(crate) fn is_below(scope: &Path, path: &Path) -> bool {
    // By bytes first, since walks ask this of every file: paths here are resolved, so equal names are equal bytes.
    let (outer, inner) =
        (scope.as_os_str().as_encoded_bytes(), path.as_os_str().as_encoded_bytes());
    if outer == b"." {
        return is_inside(path);
    }
    match inner.strip_prefix(outer) {
        Some([] | [b'/', ..]) if !outer.is_empty() => true,
        _ => path.starts_with(scope),
    }
}

/// Whether a resolved path lies in the workspace.
pub(crate) fn is_inside(path: &Path) -> bool {
    match path.as_os_str().as_encoded_bytes() {
        [b'/', ..] => false,
        [b'.', b'.', ..] => !path.starts_with(".."),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resolved(path: &str) -> String {
        let paths = LexicalPaths { workspace: "/w/project".into() };
        paths.resolve(Path::new(path)).display().to_string()
    }

    #[test]
    fn paths_become_workspace_relative() {
        for (given, expected) in [
            ("src/a.rs", "src/a.rs"),
            ("./src//a.rs", "src/a.rs"),
            ("src/../b.rs", "b.rs"),
            ("/w/project/src/a.rs", "src/a.rs"),
            (".", "."),
            ("", "."),
            ("../other/x", "/w/other/x"),
            ("/etc/passwd", "/etc/passwd"),
            ("../../../../etc/passwd", "/etc/passwd"),
            ("../project-two/x", "/w/project-two/x"),
        ] {
            assert_eq!(resolved(given), expected, "for {given:?}");
        }
    }

    #[test]
    fn hosts_are_found_in_urls() {
        for (given, expected) in [
            ("docs.rs", "docs.rs"),
            ("https://Docs.RS/serde", "docs.rs"),
            ("http://user:pw@host.example:8080/x?y", "host.example"),
            ("https://evil.example\\@docs.rs/", "evil.example"),
            ("https://[::1]:80/", "::1"),
            ("https://docs.rs./", "docs.rs"),
        ] {
            assert_eq!(host_of(given), expected, "for {given:?}");
        }
    }

    #[test]
    fn a_scope_covers_what_lies_below_it_and_nothing_else() {
        let src = Access::Write("src".into());
        assert!(src.covers(&Access::Write("src/a/b.rs".into())));
        assert!(!src.covers(&Access::Write("srcs/a.rs".into())));
        assert!(!src.covers(&Access::Read("src/a.rs".into())));
        let everything = Access::Read(".".into());
        assert!(everything.covers(&Access::Read("a".into())));
        assert!(!everything.covers(&Access::Read("/etc/passwd".into())));
        let all_reads = Access::Any(Power::ReadFiles);
        assert!(all_reads.covers(&Access::Read("a".into())));
        assert!(!all_reads.covers(&Access::Read("/etc/passwd".into())));
        assert!(!all_reads.covers(&Access::Write("a".into())));
        assert!(Access::Any(Power::Net).covers(&Access::Fetch("docs.rs".into())));
    }

    #[test]
    fn a_command_that_was_kept_covers_the_same_command_and_no_other() {
        let command = |text: &str, risk| {
            let rule_texts = vec!["git status".to_owned(), "git *".to_owned()];
            let command = ParsedCommand { rule_texts, ..ParsedCommand::new(text.to_owned(), risk) };
            Access::Command(Box::new(command))
        };
        let now = command("git status", CommandRisk::ReadOnly);
        let text = serde_json::to_string(&now).expect("JSON");
        let kept: Access = serde_json::from_str(&text).expect("an access");
        assert_ne!(kept, now, "what it may be allowed with is not kept");
        assert!(kept.covers(&now));
        assert!(!kept.covers(&command("git push", CommandRisk::ReadOnly)));
        assert!(!kept.covers(&command("git status", CommandRisk::Other)));
    }

    #[test]
    fn a_secret_is_granted_by_its_name_to_one_text() {
        let secret = |name: &str, command: &str| Access::Secret {
            name: name.to_owned(),
            command: command.to_owned(),
        };
        assert!(secret("A", "ls").covers(&secret("A", "ls")));
        assert!(!secret("A", "ls").covers(&secret("B", "ls")));
        assert!(!secret("A", "ls").covers(&secret("A", "ls -l")));
        assert!(!secret("A", "ls").covers(&Access::Run("ls".into())));
        assert!(!Access::Run("ls".into()).covers(&secret("A", "ls")));
        assert!(!Access::Any(Power::Shell).covers(&secret("A", "ls")));
        let sent = |name: &str, host: &str| Access::SendSecret {
            name: name.to_owned(),
            host: host.to_owned(),
            is_bound: false,
        };
        assert!(sent("A", "a.test").covers(&sent("A", "A.test")));
        assert!(!sent("A", "a.test").covers(&sent("B", "a.test")));
        assert!(!sent("A", "a.test").covers(&sent("A", "b.test")));
        assert!(!Access::Any(Power::Net).covers(&sent("A", "a.test")));
        assert!(!Access::Fetch("a.test".into()).covers(&sent("A", "a.test")));
        assert!(!secret("A", "a.test").covers(&sent("A", "a.test")));
    }

    proptest! {
        /// Whatever dots a path is made of, the result is either free of `..` below the workspace or absolute.
        #[test]
        fn no_dots_survive(parts in prop::collection::vec(prop_oneof!["\\.", "\\.\\.", "[a-c]"], 0..12)) {
            let path = resolved(&parts.join("/"));
            prop_assert!(!path.split('/').any(|part| part == ".."), "{path}");
        }
    }
}
