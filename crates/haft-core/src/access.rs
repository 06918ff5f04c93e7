//! The accesses of a call, as the tool declares them from the input alone. Policy and approvers
//! judge them before the call runs, and its capabilities are limited to them while it runs.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of power that a tool may need. A tool's signature lists its powers.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Power {
    /// Nothing outside the call: progress, cancellation, information about the caller.
    Free,
    /// Reading files of the workspace.
    ReadFiles,
    /// Changing files of the workspace.
    WriteFiles,
    /// Running programs.
    Shell,
    /// Contacting other machines.
    Net,
    /// Reading haft's own records: todos, sessions, outputs, the journal.
    ReadStore,
    /// Changing haft's own records.
    WriteStore,
    /// Calling other tools, each through the gate.
    Tools,
    /// Querying a language model.
    Model,
    /// Calling another MCP server.
    Mcp,
    /// Querying a language server.
    Lsp,
    /// State of the program that embeds haft, behind its own capability.
    Host,
}

impl Power {
    /// The minimum effect of a tool that holds this power.
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

    /// Returns true if the power reaches systems outside the user's control.
    pub fn is_open_world(self) -> bool {
        matches!(self, Self::Net | Self::Mcp | Self::Model)
    }

    /// The name in JSON, `read_files` for [`Power::ReadFiles`].
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

/// One argument of a tool's signature as a permission: the power, and whether the tool works
/// without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Need {
    /// The required power.
    pub power: Power,
    /// True for `Option<Capability>`: the tool runs without it if it is not granted.
    pub optional: bool,
}

impl Need {
    /// A power that the tool cannot work without.
    pub const fn required(power: Power) -> Self {
        Self { power, optional: false }
    }
}

/// How far a call reaches, from reading to changes that cannot be undone. Ordered.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Makes changes that can be undone.
    Write,
    /// Runs a program.
    Execute,
    /// Makes changes that cannot be undone.
    Destructive,
}

impl Effect {
    /// The name in JSON.
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

/// One thing that a call would touch.
///
/// Paths are workspace-relative after the gate has resolved them; paths outside stay absolute. A
/// path includes everything below it.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Access {
    /// The power as a whole; the details are not known before the call runs.
    Any(Power),
    /// Reads this file or below this directory.
    Read(PathBuf),
    /// Changes this file or below this directory.
    Write(PathBuf),
    /// Uses every file that matches a shell pattern or lies below a directory, as parsed from a
    /// command. The gate looks up the existing files before policy judges.
    Many {
        /// The pattern or the directory.
        path: PathBuf,
        /// True if `path` is a pattern.
        is_pattern: bool,
        /// True if the files are changed, not only read.
        is_write: bool,
    },
    /// Runs this shell script or command line.
    Run(String),
    /// Runs this command, as parsed from a script. Policy judges the commands instead of the
    /// script.
    Command(Box<ParsedCommand>),
    /// Contacts this host or URL.
    Fetch(String),
    /// Gives a secret to a script.
    Secret {
        /// The name of the secret.
        name: String,
        /// The script.
        command: String,
    },
    /// Sends a secret to a host, in a request.
    SendSecret {
        /// The name of the secret.
        name: String,
        /// The host.
        host: String,
        /// True if the user bound the secret to hosts: it is sent to no other host.
        is_bound: bool,
    },
}

/// One command of a script.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct ParsedCommand {
    /// The normalized words of the command, which rules match.
    pub text: String,
    /// The risk of the command.
    pub risk: CommandRisk,
    /// Commands that rules may allow together with it, narrowest first. For an unclear piece: the
    /// full script that contains it.
    #[serde(default, skip_serializing, rename = "widths")]
    pub rule_texts: Vec<String>,
    /// Other spellings of the same command, which deny and ask rules match too: without
    /// assignments, without the program's directory, without options before the subcommand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spellings: Vec<String>,
    /// If some words are not known from the text: the certain beginning of each spelling. The first
    /// belongs to `text`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "seen")]
    pub known_prefixes: Vec<String>,
}

impl ParsedCommand {
    /// A command with nothing but its text and risk.
    pub fn new(text: String, risk: CommandRisk) -> Self {
        let (rule_texts, spellings, known_prefixes) = Default::default();
        Self { text, risk, rule_texts, spellings, known_prefixes }
    }
}

/// The risk of a command, as judged by the parser.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CommandRisk {
    /// The command only reads and prints.
    #[serde(rename = "looks")]
    ReadOnly,
    /// The command only reads and prints, but the settings of the repository may name programs that
    /// it runs. Without a sandbox, these are a risk.
    Repository,
    /// Any other command.
    #[serde(rename = "usual")]
    Other,
    /// The command needs approval in every mode but `all`, with the reason.
    #[serde(rename = "asks")]
    NeedsApproval(String),
    /// The parser does not know which commands run, with the reason: the text is a piece of the
    /// script, not a command. It needs approval too, and no rule for commands allows it unless it
    /// spells out a text in `rule_texts`.
    Unclear(String),
    /// The command may open files that are secret or that rules close, with the reason. It needs
    /// approval in every mode.
    Closed(String),
}

/// Parses the commands, files and addresses of a script. Paths are as written in the script, but
/// without `~`.
pub type CommandReader = Arc<dyn Fn(&str) -> Vec<Access> + Send + Sync>;

/// A script and what was parsed from it.
#[derive(Clone, Debug)]
pub struct ParsedScript {
    /// The script.
    pub text: String,
    /// Its commands, files and addresses, and its unclear parts.
    pub parts: Vec<Access>,
}

impl ParsedScript {
    /// Returns true if the script only reads and prints.
    pub fn is_read_only(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Access::Command(command) => command.risk.is_read_only(),
            Access::Read(_) | Access::Many { is_write: false, .. } | Access::Fetch(_) => true,
            _ => false,
        })
    }
}

impl CommandRisk {
    /// Returns true if the command only reads and prints.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::Repository)
    }
}

impl Access {
    /// Returns true if a permission for `self` includes `other`.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            // No power as a whole includes secrets: each one is granted by name.
            (Self::Any(_), Self::Secret { .. } | Self::SendSecret { .. }) => false,
            // The file powers as a whole cover the workspace, not the disk.
            (Self::Any(power), Self::Read(path) | Self::Write(path)) => {
                *power == other.power() && is_inside(path)
            }
            (Self::Any(power), other) => *power == other.power(),
            (Self::Read(scope), Self::Read(path)) | (Self::Write(scope), Self::Write(path)) => {
                is_below(scope, path)
            }
            (Self::Run(a), Self::Run(b)) => a == b,
            // Requests do not store `rule_texts`.
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

    /// The power that this access uses.
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

/// The host of a URL, or the text itself if it is a bare host; without port, in lower case.
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

/// Resolves the paths of a tool into the paths that rules are written for.
///
/// The lexical version here does not know symbolic links; the file executor has one that does.
pub trait ResolvePath: Send + Sync {
    /// Returns the workspace-relative path, or the absolute one if it lies outside.
    fn resolve(&self, path: &Path) -> PathBuf;

    /// The same, but does not follow a final link.
    fn resolve_name(&self, path: &Path) -> PathBuf {
        self.resolve(path)
    }

    /// As [`ResolvePath::resolve`], and returns true if there is a regular file, so that the
    /// backend need not check again before opening it.
    fn resolve_file(&self, path: &Path) -> (PathBuf, bool) {
        (self.resolve(path), false)
    }

    /// Returns the resolved files and directories below a directory that `enters` includes; `None`
    /// if there are too many or the backend cannot list them.
    fn below(
        &self,
        _directory: &Path,
        _enters: &dyn Fn(&Path) -> SearchStep,
    ) -> Option<Vec<PathBuf>> {
        None
    }

    /// Returns true if files outside the workspace cannot be reached at all: then no approval is
    /// requested for them.
    fn is_confined(&self) -> bool {
        false
    }
}

/// Resolves by the text alone: removes `.` and `..` and the workspace prefix.
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
                // Above the root there is only the root. Above a relative start the `..` stays, so
                // that an escape stays visible to the rules.
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

/// The decision for an entry in a search below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStep {
    /// Skips the entry.
    Skip,
    /// Includes the entry and everything below it.
    Include,
    /// The same, and follows a link: the pattern continues in the folder it points to.
    IncludeAndFollow,
}

/// Returns true if `path` is `scope` or lies below it. `.` is the whole workspace and nothing
/// outside it.
pub(crate) fn is_below(scope: &Path, path: &Path) -> bool {
    // Compares bytes first, since walks call this for every file: paths here are resolved, so equal
    // names have equal bytes.
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

/// Returns true if a resolved path lies in the workspace.
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
    fn a_scope_covers_everything_below_it_and_nothing_else() {
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
    fn a_stored_command_covers_the_same_command_and_no_other() {
        let command = |text: &str, risk| {
            let rule_texts = vec!["git status".to_owned(), "git *".to_owned()];
            let command = ParsedCommand { rule_texts, ..ParsedCommand::new(text.to_owned(), risk) };
            Access::Command(Box::new(command))
        };
        let now = command("git status", CommandRisk::ReadOnly);
        let text = serde_json::to_string(&now).expect("JSON");
        let kept: Access = serde_json::from_str(&text).expect("an access");
        assert_ne!(kept, now, "`rule_texts` is not stored");
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
        /// Whatever dots a path contains, the result is either below the workspace without `..`, or
        /// absolute.
        #[test]
        fn no_dots_survive(parts in prop::collection::vec(prop_oneof!["\\.", "\\.\\.", "[a-c]"], 0..12)) {
            let path = resolved(&parts.join("/"));
            prop_assert!(!path.split('/').any(|part| part == ".."), "{path}");
        }
    }
}
