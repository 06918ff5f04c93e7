//! Parses one config file. Every error names file, line and column, what was found and what was
//! expected. Every rule keeps its line number. The parent module merges the files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_core::{
    Mode, ToolError, did_you_mean, nearest,
    policy::{Action, AgentRules, Layer, LayerKind, Profile, Rule, SecretPath, Source},
};
use haft_exec::ProcessSettings;
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use super::{
    AllLimits,
    container::{self, ContainerConfig},
    journal::JournalConfig,
    keys::{self, ConfigTable},
    network::NetworkConfig,
    outputs::OutputConfig,
    sandbox::{BACKENDS, SandboxConfig, backend_named},
    store::StoreConfig,
};

const ACTIONS: [Action; 3] = [Action::Allow, Action::Ask, Action::Deny];

/// The content of one config file.
pub(super) struct ConfigFile {
    pub(super) layer: Layer,
    pub(super) profile: Option<String>,
    pub(super) profiles: Vec<(String, Profile)>,
    pub(super) secrets: Vec<SecretPath>,
    /// Globs on paths that are not secret despite matching a secret glob.
    pub(super) except: Vec<String>,
    /// Project folders whose `allow` rules count.
    pub(super) trust: Vec<PathBuf>,
    /// Additional folders that file tools may work in, by name.
    pub(super) roots: Vec<(String, PathBuf)>,
    pub(super) limits: Vec<(ConfigLimit, usize)>,
    /// Sandbox backend for commands.
    pub(super) sandbox: Option<ProcessSettings>,
    /// Folders outside the workspace that sandboxed commands can access.
    pub(super) shown: SandboxConfig,
    /// Settings of the container backend.
    pub(super) container: ContainerConfig,
    /// Network settings.
    pub(super) network: NetworkConfig,
    /// Store settings.
    pub(super) store: StoreConfig,
    pub(super) journal: JournalConfig,
    pub(super) outputs: OutputConfig,
}

impl ConfigFile {
    pub(super) fn empty(kind: LayerKind, path: &Path) -> Self {
        Self {
            layer: Layer::new(kind, &super::name_of(path)),
            profile: None,
            profiles: Vec::new(),
            secrets: Vec::new(),
            except: Vec::new(),
            trust: Vec::new(),
            roots: Vec::new(),
            limits: Vec::new(),
            sandbox: None,
            shown: SandboxConfig::default(),
            container: ContainerConfig::default(),
            network: NetworkConfig::default(),
            store: StoreConfig::default(),
            journal: JournalConfig::default(),
            outputs: OutputConfig::default(),
        }
    }
}

/// A config file's kind, name, and the directory that `~` stands for.
pub(super) struct ConfigLocation<'a> {
    kind: LayerKind,
    file: Arc<str>,
    home: Option<&'a Path>,
}

impl<'a> ConfigLocation<'a> {
    pub(super) fn new(kind: LayerKind, path: &Path, home: Option<&'a Path>) -> Self {
        Self { kind, file: super::name_of(path), home }
    }
}

/// A size or time that a file may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigLimit {
    InputBytes,
    ContentBytes,
    ContentLines,
    ApprovalWait,
    Processes,
    MemoryMb,
}

impl ConfigLimit {
    pub(super) const ALL: [(&'static str, Self); 6] = [
        ("input_bytes", Self::InputBytes),
        ("content_bytes", Self::ContentBytes),
        ("content_lines", Self::ContentLines),
        ("approval_wait_secs", Self::ApprovalWait),
        ("processes", Self::Processes),
        ("memory_mb", Self::MemoryMb),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, limit)| limit)
    }

    /// Returns the default. `None` when it depends on the machine.
    pub(super) fn default(self) -> Option<usize> {
        (self != Self::MemoryMb).then(|| self.of(&AllLimits::default()))
    }

    /// Returns the current value.
    pub(super) fn of(self, limits: &AllLimits) -> usize {
        let AllLimits { calls: limits, commands } = limits;
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        match self {
            Self::InputBytes => limits.input_bytes,
            Self::ContentBytes => limits.content_bytes,
            Self::ContentLines => limits.content_lines,
            Self::ApprovalWait => number(limits.approval_wait.as_secs()),
            Self::Processes => number(commands.processes),
            Self::MemoryMb => number(commands.memory >> 20),
        }
    }

    pub(super) fn set(self, limits: &mut AllLimits, value: usize) {
        let AllLimits { calls: limits, commands } = limits;
        match self {
            Self::InputBytes => limits.input_bytes = value,
            Self::ContentBytes => limits.content_bytes = value,
            Self::ContentLines => limits.content_lines = value,
            Self::ApprovalWait => limits.approval_wait = Duration::from_secs(value as u64),
            Self::Processes => commands.processes = value as u64,
            Self::MemoryMb => commands.memory = (value as u64).saturating_mul(1 << 20),
        }
    }

    pub(super) fn lower(self, limits: &mut AllLimits, value: usize) {
        let current = self.of(limits);
        self.set(limits, value.min(current));
    }
}

/// Parses a file's text.
///
/// # Errors
/// Of kind `input`, beginning with `file:line:column`.
pub(super) fn parse(text: &str, location: &ConfigLocation<'_>) -> Result<ConfigFile, ToolError> {
    let source = ConfigText { text, location };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        source.error(at, error.message(), "fix the TOML syntax")
    })?;
    let root = ConfigSection { source: &source, path: "", table: table.get_ref() };
    root.file()
}

/// The text of a file with its name, to report positions.
pub(super) struct ConfigText<'a> {
    text: &'a str,
    location: &'a ConfigLocation<'a>,
}

impl ConfigText<'_> {
    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    pub(super) fn error(&self, at: usize, problem: &str, hint: impl Into<String>) -> ToolError {
        let (line, column) = self.line_and_column(at);
        let message = format!("{}:{line}:{column}: {problem}", self.location.file);
        ToolError::input(message).hint(hint)
    }

    fn source(&self, at: usize) -> Source {
        Source { file: self.location.file.clone(), line: Some(self.line_and_column(at).0) }
    }

    /// Expands `~` in a path. `at` is the position of the path in the file.
    pub(super) fn path(&self, at: usize, path: &str) -> Result<String, ToolError> {
        let Some(rest) =
            path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'))
        else {
            return Ok(path.to_owned());
        };
        let home = self.location.home.and_then(Path::to_str).ok_or_else(|| {
            self.error(at, "cannot expand `~`: $HOME is not set", "write an absolute path")
        })?;
        Ok(format!("{home}{rest}"))
    }

    /// Expands `~` in a glob. Special characters in the home directory's path are escaped.
    fn glob(&self, at: usize, glob: &str) -> Result<String, ToolError> {
        // In a rule the glob still ends with a parenthesis.
        let is_end = |rest: &&str| rest.is_empty() || rest.starts_with(['/', ')']);
        let Some(rest) = glob.strip_prefix('~').filter(is_end) else { return Ok(glob.to_owned()) };
        let home = self.path(at, "~")?;
        let literal = home.chars().flat_map(|c| {
            let is_special = matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\');
            is_special.then_some('\\').into_iter().chain([c])
        });
        Ok(literal.chain(rest.chars()).collect())
    }

    fn rule(&self, action: Action, at: usize, text: &str) -> Result<Rule, ToolError> {
        let invalid = |error: String| {
            self.error(at, &error, "a rule looks like `read`, `web_*` or `write(src/**)`")
        };
        let mut rule =
            Rule::parse(action, text, self.source(at)).map_err(|e| invalid(e.to_string()))?;
        // The shell expands `~` in a command; everywhere else it starts a path.
        let of_path = text.trim().split_once('(').filter(|(name, _)| *name != "bash");
        if let Some((name, glob)) = of_path.filter(|(_, glob)| glob.starts_with('~')) {
            let expanded = format!("{name}({}", self.glob(at, glob)?);
            let written = std::mem::take(&mut rule.text);
            rule = Rule::parse(action, &expanded, self.source(at))
                .map_err(|e| invalid(e.to_string()))?;
            rule.text = written;
        }
        Ok(rule)
    }
}

/// A table of a config file.
pub(super) struct ConfigSection<'a> {
    pub(super) source: &'a ConfigText<'a>,
    /// The table's path with a trailing dot, to prefix key names with. Empty for the root.
    pub(super) path: &'a str,
    pub(super) table: &'a DeTable<'a>,
}

impl<'a> ConfigSection<'a> {
    fn file(&self) -> Result<ConfigFile, ToolError> {
        self.check_keys(&keys::ROOT)?;
        let location = self.source.location;
        let mut file = ConfigFile::empty(location.kind, Path::new(&*location.file));
        file.layer.mode = self.mode()?;
        file.layer.rules = self.rules()?;
        file.layer.agents = self.named("agents", |section, name, _| section.agent(name))?;
        file.profiles = self.named("profiles", |section, name, at| section.profile(name, at))?;
        file.profile = self.text("profile")?.map(|(_, name)| name.to_owned());
        file.trust = self.trust()?;
        file.roots = self.roots()?;
        file.limits = self.limits()?;
        file.sandbox = self.sandbox()?;
        file.shown = self.shown()?;
        file.container = self.container()?;
        file.network = self.network()?;
        file.store = self.store()?;
        file.journal = self.journal()?;
        file.outputs = self.outputs()?;
        self.secrets(&mut file)?;
        Ok(file)
    }

    fn mode(&self) -> Result<Option<Mode>, ToolError> {
        let Some((at, text)) = self.text("approve")? else { return Ok(None) };
        let mode = text.parse().map_err(|error: String| {
            let near = did_you_mean(&nearest(text, Mode::ALL.iter().map(|mode| mode.name())));
            let hint = if near.is_empty() { "write one of the modes".to_owned() } else { near };
            self.source.error(at, &format!("`{}approve`: {error}", self.path), hint)
        })?;
        Ok(Some(mode))
    }

    fn sandbox(&self) -> Result<Option<ProcessSettings>, ToolError> {
        let (section, key) = match self.sandbox_table()? {
            Some(section) => (section, "backend"),
            None => (ConfigSection { ..*self }, "sandbox"),
        };
        if let Some(value) = self.table.get("sandbox")
            && !value.get_ref().is_str()
            && !value.get_ref().is_table()
        {
            return Err(self.wrong("sandbox", value, "a string or a table"));
        }
        let backends: Vec<(&str, ProcessSettings)> =
            BACKENDS.iter().filter_map(|name| Some((*name, backend_named(name)?))).collect();
        section.word(key, &backends)
    }

    /// Returns the value that belongs to one of a few allowed words.
    pub(super) fn word<T: Clone>(
        &self,
        key: &str,
        known: &[(&str, T)],
    ) -> Result<Option<T>, ToolError> {
        let Some((at, text)) = self.text(key)? else { return Ok(None) };
        if let Some((_, meaning)) = known.iter().find(|(word, _)| *word == text) {
            return Ok(Some(meaning.clone()));
        }
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        let near = did_you_mean(&nearest(text, words.iter().copied()));
        let problem =
            format!("`{}{key}`: expected one of {}, found `{text}`", self.path, words.join(", "));
        let hint = if near.is_empty() { "write one of them".to_owned() } else { near };
        Err(self.source.error(at, &problem, hint))
    }

    fn container(&self) -> Result<ContainerConfig, ToolError> {
        let Some(table) = self.table("container")? else { return Ok(ContainerConfig::default()) };
        let section = ConfigSection { path: "container.", table, ..*self };
        section.check_keys(&keys::CONTAINER)?;
        let engine =
            section.checked("engine", "`podman`, `docker` or an absolute path", |text| {
                matches!(text, "podman" | "docker") || text.starts_with(['/', '~'])
            })?;
        let engine = match engine {
            Some((at, path)) => Some(self.source.path(at, path)?),
            None => None,
        };
        let word = |key, expected, is_it: fn(&str) -> bool| {
            Ok(section.checked(key, expected, is_it)?.map(|(_, text)| text.to_owned()))
        };
        Ok(ContainerConfig {
            engine,
            image: word("image", "the name of an image", container::is_name)?,
            user: word("user", "`uid` or `uid:gid`", container::is_user)?,
            memory: word("memory", "a size such as `2g`", container::is_size)?,
            cpus: word("cpus", "a number such as `1.5`", container::is_number)?,
            pids: section.number("pids")?,
            network: word("network", "the name of a network", container::is_name)?,
            read_only: section.flag("read_only")?,
            tmpfs: section.container_directories("tmpfs")?,
            max_age_secs: section.number("max_age_secs")?,
        })
    }

    /// Returns the text of a key if `is_it` accepts it.
    fn checked(
        &self,
        key: &str,
        expected: &str,
        is_it: impl Fn(&str) -> bool,
    ) -> Result<Option<(usize, &'a str)>, ToolError> {
        let Some((at, text)) = self.text(key)? else { return Ok(None) };
        if is_it(text) {
            return Ok(Some((at, text)));
        }
        let problem = format!("`{}{key}`: expected {expected}, found `{text}`", self.path);
        Err(self.source.error(at, &problem, format!("write {expected}")))
    }

    /// Returns the absolute paths inside a container.
    fn container_directories(&self, key: &str) -> Result<Option<Vec<String>>, ToolError> {
        if !self.table.contains_key(key) {
            return Ok(None);
        }
        let directory = |(at, text): (usize, &str)| {
            if container::is_directory(text) {
                return Ok(text.to_owned());
            }
            let problem = format!(
                "`{}{key}`: expected an absolute path without `:`, found `{text}`",
                self.path
            );
            Err(self.source.error(
                at,
                &problem,
                "write the absolute path of a directory in the container",
            ))
        };
        self.texts(key)?.into_iter().map(directory).collect::<Result<_, _>>().map(Some)
    }

    fn rules(&self) -> Result<Vec<Rule>, ToolError> {
        let mut rules = Vec::new();
        for action in ACTIONS {
            for (at, text) in self.texts(action.name())? {
                rules.push(self.source.rule(action, at, text)?);
            }
        }
        Ok(rules)
    }

    fn agent(&self, name: &str) -> Result<AgentRules, ToolError> {
        self.check_keys(&keys::AGENTS)?;
        Ok(AgentRules {
            agent: name.to_owned(),
            mode: self.mode()?,
            profile: self.text("profile")?.map(|(_, profile)| profile.to_owned()),
            rules: self.rules()?,
        })
    }

    fn profile(&self, name: &str, at: usize) -> Result<(String, Profile), ToolError> {
        self.check_keys(&keys::PROFILES)?;
        let tools = self.texts("tools")?.into_iter().map(|(_, glob)| glob);
        Ok((name.to_owned(), Profile::new(tools, self.source.source(at))))
    }

    fn trust(&self) -> Result<Vec<PathBuf>, ToolError> {
        let folder = |(at, folder): (usize, &str)| {
            let path = PathBuf::from(self.source.path(at, folder)?);
            if path.is_absolute() {
                return Ok(path);
            }
            // `.` would trust every project that the user happens to work in.
            let problem = format!("`trust`: expected an absolute path, found `{folder}`");
            Err(self.source.error(at, &problem, "write an absolute path, or start it with `~/`"))
        };
        self.texts("trust")?.into_iter().map(folder).collect()
    }

    fn roots(&self) -> Result<Vec<(String, PathBuf)>, ToolError> {
        let Some(table) = self.table("roots")? else { return Ok(Vec::new()) };
        let section = ConfigSection { path: "roots.", table, ..*self };
        let root = |(key, _): (&Spanned<_>, _)| {
            let name: &str = AsRef::<str>::as_ref(key.get_ref());
            let Some((at, folder)) = section.text(name)? else { return Ok(None) };
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || !name.chars().all(is_word) {
                let problem =
                    format!("`roots.{name}`: the name may have letters, digits, `-`, `_` and `.`");
                return Err(self.source.error(
                    at,
                    &problem,
                    "rename it; tools refer to its files as `@name/…`",
                ));
            }
            let path = PathBuf::from(self.source.path(at, folder)?);
            if path.is_absolute() {
                return Ok(Some((name.to_owned(), path)));
            }
            let problem = format!("`roots.{name}`: expected an absolute path, found `{folder}`");
            Err(self.source.error(at, &problem, "write an absolute path, or start it with `~/`"))
        };
        table.iter().filter_map(|entry| root(entry).transpose()).collect()
    }

    fn secrets(&self, file: &mut ConfigFile) -> Result<(), ToolError> {
        let Some(table) = self.table("secrets")? else { return Ok(()) };
        let section = ConfigSection { path: "secrets.", table, ..*self };
        section.check_keys(&keys::SECRETS)?;
        for (at, glob) in section.texts("paths")? {
            let glob = self.source.glob(at, glob)?;
            file.secrets.push(SecretPath { glob, source: self.source.source(at) });
        }
        for (at, glob) in section.texts("except")? {
            file.except.push(self.source.glob(at, glob)?);
        }
        Ok(())
    }

    fn limits(&self) -> Result<Vec<(ConfigLimit, usize)>, ToolError> {
        let Some(table) = self.table("limits")? else { return Ok(Vec::new()) };
        let section = ConfigSection { path: "limits.", table, ..*self };
        section.check_keys(&keys::LIMITS)?;
        let mut limits = Vec::new();
        for (name, limit) in ConfigLimit::ALL {
            limits.extend(section.number(name)?.map(|value| (limit, value)));
        }
        Ok(limits)
    }

    /// Parses the tables in a table with `read`, which receives the name and position of each.
    pub(super) fn named<T>(
        &self,
        key: &str,
        read: impl Fn(&ConfigSection<'_>, &str, usize) -> Result<T, ToolError>,
    ) -> Result<Vec<T>, ToolError> {
        let Some(tables) = self.table(key)? else { return Ok(Vec::new()) };
        let each = tables.iter().map(|(name, value)| {
            let table = self.as_table(&format!("{key}.{}", name.get_ref()), value)?;
            let path = format!("{key}.{}.", name.get_ref());
            let section = ConfigSection { source: self.source, path: &path, table };
            read(&section, name.get_ref(), name.span().start)
        });
        each.collect()
    }

    /// # Errors
    /// When a key is unknown, or the author of this file may not set it.
    pub(super) fn check_keys(&self, table: &ConfigTable) -> Result<(), ToolError> {
        let written = || self.table.iter().map(|(key, _)| key);
        let Some(unknown) = written().find(|key| table.key(key.get_ref()).is_none()) else {
            return written().try_for_each(|key| self.check_author(key, table));
        };
        let known = table.key_names();
        let near = did_you_mean(&nearest(unknown.get_ref(), known.iter().copied()));
        let hint =
            if near.is_empty() { format!("the keys here are {}", known.join(", ")) } else { near };
        let problem = format!("unknown key `{}{}`", self.path, unknown.get_ref());
        Err(self.source.error(unknown.span().start, &problem, hint))
    }

    fn check_author(
        &self,
        written: &Spanned<DeString<'_>>,
        table: &ConfigTable,
    ) -> Result<(), ToolError> {
        let key = table.key(written.get_ref());
        let Some(key) = key.filter(|key| !key.allowed_in.contains(&self.source.location.kind))
        else {
            return Ok(());
        };
        let allowed = if key.allowed_in.len() == 1 {
            "your own config"
        } else {
            "your own or an admin's config"
        };
        let problem = format!("`{}{}` is allowed only in {allowed}", self.path, key.name);
        Err(self.source.error(written.span().start, &problem, "move it there, or remove it"))
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<(usize, &'a str)>, ToolError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let text = value.get_ref().as_str().ok_or_else(|| self.wrong(key, value, "a string"))?;
        Ok(Some((value.span().start, text)))
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<(usize, &'a str)>, ToolError> {
        const EXPECTED: &str = "a list of strings";
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let items = value.get_ref().as_array().ok_or_else(|| self.wrong(key, value, EXPECTED))?;
        let text = |item: &'a Spanned<DeValue<'a>>| {
            let text = item.get_ref().as_str().ok_or_else(|| self.wrong(key, item, EXPECTED))?;
            Ok((item.span().start, text))
        };
        items.iter().map(text).collect()
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<usize>, ToolError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let digits = value.get_ref().as_integer();
        let number = digits.and_then(|n| usize::from_str_radix(n.as_str(), n.radix()).ok());
        number.map(Some).ok_or_else(|| self.wrong(key, value, "a whole number, 0 or more"))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ToolError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let flag = value.get_ref().as_bool();
        flag.map(Some).ok_or_else(|| self.wrong(key, value, "`true` or `false`"))
    }

    pub(super) fn table(&self, key: &str) -> Result<Option<&'a DeTable<'a>>, ToolError> {
        self.table.get(key).map(|value| self.as_table(key, value)).transpose()
    }

    fn as_table<'v>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'v>>,
    ) -> Result<&'v DeTable<'v>, ToolError> {
        value.get_ref().as_table().ok_or_else(|| self.wrong(key, value, "a table"))
    }

    fn wrong(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> ToolError {
        let found = self.source.text.get(value.span()).unwrap_or_default();
        let found: String = found.lines().next().unwrap_or_default().chars().take(40).collect();
        let kind = value.get_ref().type_str();
        let problem =
            format!("`{}{key}`: expected {expected}, found the {kind} `{found}`", self.path);
        self.source.error(value.span().start, &problem, format!("write {expected}"))
    }
}
