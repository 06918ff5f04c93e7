//! One config file, read. Every fault is told with file, line and column, what stands there and what was expected;
//! every rule keeps the line it is written on. Which file counts for what is decided a floor above.

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
    Sizes,
    container::{self, ContainerWords},
    journal::JournalWords,
    keys::{self, Table},
    network::NetworkWords,
    outputs::OutputWords,
    sandbox::{BACKENDS, ShownWords, backend_named},
    store::StoreWords,
};

const ACTIONS: [Action; 3] = [Action::Allow, Action::Ask, Action::Deny];

/// What a file says.
pub(super) struct File {
    pub(super) layer: Layer,
    pub(super) profile: Option<String>,
    pub(super) profiles: Vec<(String, Profile)>,
    pub(super) secrets: Vec<SecretPath>,
    /// Globs on paths that are no secret after all.
    pub(super) except: Vec<String>,
    /// Project folders whose `allow` rules count.
    pub(super) trust: Vec<PathBuf>,
    /// Folders outside the workspace that file tools may work in, by name.
    pub(super) roots: Vec<(String, PathBuf)>,
    pub(super) limits: Vec<(Limit, usize)>,
    /// What commands run in.
    pub(super) sandbox: Option<ProcessSettings>,
    /// Folders outside the workspace that sandboxed commands see.
    pub(super) shown: ShownWords,
    /// What it says of containers.
    pub(super) container: ContainerWords,
    /// How other machines are reached.
    pub(super) network: NetworkWords,
    /// Where calls are recorded.
    pub(super) store: StoreWords,
    pub(super) journal: JournalWords,
    pub(super) outputs: OutputWords,
}

impl File {
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
            shown: ShownWords::default(),
            container: ContainerWords::default(),
            network: NetworkWords::default(),
            store: StoreWords::default(),
            journal: JournalWords::default(),
            outputs: OutputWords::default(),
        }
    }
}

/// Which file it is, and where `~` leads.
pub(super) struct Place<'a> {
    kind: LayerKind,
    file: Arc<str>,
    home: Option<&'a Path>,
}

impl<'a> Place<'a> {
    pub(super) fn new(kind: LayerKind, path: &Path, home: Option<&'a Path>) -> Self {
        Self { kind, file: super::name_of(path), home }
    }
}

/// A size or time that a file may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    InputBytes,
    ContentBytes,
    ContentLines,
    ApprovalWait,
    Processes,
    MemoryMb,
}

impl Limit {
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

    /// What holds when nobody sets it, where that is the same on every machine.
    pub(super) fn default(self) -> Option<usize> {
        (self != Self::MemoryMb).then(|| self.of(&Sizes::default()))
    }

    /// What it is now.
    pub(super) fn of(self, limits: &Sizes) -> usize {
        let Sizes { calls: limits, commands } = limits;
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

    pub(super) fn set(self, limits: &mut Sizes, value: usize) {
        let Sizes { calls: limits, commands } = limits;
        match self {
            Self::InputBytes => limits.input_bytes = value,
            Self::ContentBytes => limits.content_bytes = value,
            Self::ContentLines => limits.content_lines = value,
            Self::ApprovalWait => limits.approval_wait = Duration::from_secs(value as u64),
            Self::Processes => commands.processes = value as u64,
            Self::MemoryMb => commands.memory = (value as u64).saturating_mul(1 << 20),
        }
    }

    pub(super) fn lower(self, limits: &mut Sizes, value: usize) {
        let present = self.of(limits);
        self.set(limits, value.min(present));
    }
}

/// Reads a file's text.
///
/// # Errors
/// Of kind `input`, beginning with `file:line:column`.
pub(super) fn parse(text: &str, place: &Place<'_>) -> Result<File, ToolError> {
    let reader = Reader { text, place };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        reader.fault(at, error.message(), "mend the TOML")
    })?;
    let root = Section { reader: &reader, path: "", table: table.get_ref() };
    root.file()
}

/// The text with its place, to say where something stands.
pub(super) struct Reader<'a> {
    text: &'a str,
    place: &'a Place<'a>,
}

impl Reader<'_> {
    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    pub(super) fn fault(&self, at: usize, problem: &str, hint: impl Into<String>) -> ToolError {
        let (line, column) = self.line_and_column(at);
        let message = format!("{}:{line}:{column}: {problem}", self.place.file);
        ToolError::input(message).hint(hint)
    }

    fn source(&self, at: usize) -> Source {
        Source { file: self.place.file.clone(), line: Some(self.line_and_column(at).0) }
    }

    /// A path with `~` as the home, `at` being where it is written.
    pub(super) fn path(&self, at: usize, path: &str) -> Result<String, ToolError> {
        let Some(rest) =
            path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'))
        else {
            return Ok(path.to_owned());
        };
        let home = self.place.home.and_then(Path::to_str).ok_or_else(|| {
            self.fault(at, "`~` leads nowhere: HOME is not set", "write the whole path")
        })?;
        Ok(format!("{home}{rest}"))
    }

    /// The same for a glob, in which the home stands for itself whatever letters it has.
    fn glob(&self, at: usize, glob: &str) -> Result<String, ToolError> {
        // In a rule the glob still has its bracket.
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
        let faulty = |error: String| {
            self.fault(at, &error, "a rule looks like `read`, `web_*` or `write(src/**)`")
        };
        let mut rule =
            Rule::parse(action, text, self.source(at)).map_err(|e| faulty(e.to_string()))?;
        // In a command `~` is the shell's to read; everywhere else it begins a path.
        let of_path = text.trim().split_once('(').filter(|(name, _)| *name != "bash");
        if let Some((name, glob)) = of_path.filter(|(_, glob)| glob.starts_with('~')) {
            let expanded = format!("{name}({}", self.glob(at, glob)?);
            let written = std::mem::take(&mut rule.text);
            rule = Rule::parse(action, &expanded, self.source(at))
                .map_err(|e| faulty(e.to_string()))?;
            rule.text = written;
        }
        Ok(rule)
    }
}

/// A table of the file.
pub(super) struct Section<'a> {
    pub(super) reader: &'a Reader<'a>,
    /// With a dot at its end, so that a key can be put behind it; empty for the root.
    pub(super) path: &'a str,
    pub(super) table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    fn file(&self) -> Result<File, ToolError> {
        self.check_keys(&keys::ROOT)?;
        let place = self.reader.place;
        let mut file = File::empty(place.kind, Path::new(&*place.file));
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
            let hint = if near.is_empty() { "choose one of the modes".to_owned() } else { near };
            self.reader.fault(at, &format!("`{}approve`: {error}", self.path), hint)
        })?;
        Ok(Some(mode))
    }

    fn sandbox(&self) -> Result<Option<ProcessSettings>, ToolError> {
        let (section, key) = match self.sandbox_table()? {
            Some(section) => (section, "backend"),
            None => (Section { ..*self }, "sandbox"),
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

    /// One of a few words, and what it stands for.
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
        let problem = format!("`{}{key}`: `{text}` is none of {}", self.path, words.join(", "));
        let hint = if near.is_empty() { "choose one of them".to_owned() } else { near };
        Err(self.reader.fault(at, &problem, hint))
    }

    fn container(&self) -> Result<ContainerWords, ToolError> {
        let Some(table) = self.table("container")? else { return Ok(ContainerWords::default()) };
        let section = Section { path: "container.", table, ..*self };
        section.check_keys(&keys::CONTAINER)?;
        let engine = section.checked("engine", "`podman`, `docker` or a whole path", |text| {
            matches!(text, "podman" | "docker") || text.starts_with(['/', '~'])
        })?;
        let engine = match engine {
            Some((at, path)) => Some(self.reader.path(at, path)?),
            None => None,
        };
        let word = |key, expected, is_it: fn(&str) -> bool| {
            Ok(section.checked(key, expected, is_it)?.map(|(_, text)| text.to_owned()))
        };
        Ok(ContainerWords {
            engine,
            image: word("image", "the name of an image", container::is_name)?,
            user: word("user", "`uid` or `uid:gid`", container::is_user)?,
            memory: word("memory", "a size such as `2g`", container::is_size)?,
            cpus: word("cpus", "a number such as `1.5`", container::is_number)?,
            pids: section.number("pids")?,
            network: word("network", "the name of a network", container::is_name)?,
            read_only: section.flag("read_only")?,
            tmpfs: section.places("tmpfs")?,
            max_age_secs: section.number("max_age_secs")?,
        })
    }

    /// A text that is what it has to be.
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
        Err(self.reader.fault(at, &problem, format!("write {expected}")))
    }

    /// Whole paths inside a container.
    fn places(&self, key: &str) -> Result<Option<Vec<String>>, ToolError> {
        if !self.table.contains_key(key) {
            return Ok(None);
        }
        let place = |(at, text): (usize, &str)| {
            if container::is_place(text) {
                return Ok(text.to_owned());
            }
            let problem =
                format!("`{}{key}`: expected a whole path without `:`, found `{text}`", self.path);
            Err(self.reader.fault(at, &problem, "write the path of a directory in the container"))
        };
        self.texts(key)?.into_iter().map(place).collect::<Result<_, _>>().map(Some)
    }

    fn rules(&self) -> Result<Vec<Rule>, ToolError> {
        let mut rules = Vec::new();
        for action in ACTIONS {
            for (at, text) in self.texts(action.name())? {
                rules.push(self.reader.rule(action, at, text)?);
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
        Ok((name.to_owned(), Profile::new(tools, self.reader.source(at))))
    }

    fn trust(&self) -> Result<Vec<PathBuf>, ToolError> {
        let folder = |(at, folder): (usize, &str)| {
            let path = PathBuf::from(self.reader.path(at, folder)?);
            if path.is_absolute() {
                return Ok(path);
            }
            // `.` would trust whatever project a person happens to stand in.
            let problem = format!("`trust`: expected an absolute path, found `{folder}`");
            Err(self.reader.fault(at, &problem, "write the whole path, or begin it with `~/`"))
        };
        self.texts("trust")?.into_iter().map(folder).collect()
    }

    fn roots(&self) -> Result<Vec<(String, PathBuf)>, ToolError> {
        let Some(table) = self.table("roots")? else { return Ok(Vec::new()) };
        let section = Section { path: "roots.", table, ..*self };
        let root = |(key, _): (&Spanned<_>, _)| {
            let name: &str = AsRef::<str>::as_ref(key.get_ref());
            let Some((at, folder)) = section.text(name)? else { return Ok(None) };
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || !name.chars().all(is_word) {
                let problem =
                    format!("`roots.{name}`: the name may have letters, digits, `-`, `_` and `.`");
                return Err(self.reader.fault(at, &problem, "its files are called `@name/…`"));
            }
            let path = PathBuf::from(self.reader.path(at, folder)?);
            if path.is_absolute() {
                return Ok(Some((name.to_owned(), path)));
            }
            let problem = format!("`roots.{name}`: expected an absolute path, found `{folder}`");
            Err(self.reader.fault(at, &problem, "write the whole path, or begin it with `~/`"))
        };
        table.iter().filter_map(|entry| root(entry).transpose()).collect()
    }

    fn secrets(&self, file: &mut File) -> Result<(), ToolError> {
        let Some(table) = self.table("secrets")? else { return Ok(()) };
        let section = Section { path: "secrets.", table, ..*self };
        section.check_keys(&keys::SECRETS)?;
        for (at, glob) in section.texts("paths")? {
            let glob = self.reader.glob(at, glob)?;
            file.secrets.push(SecretPath { glob, source: self.reader.source(at) });
        }
        for (at, glob) in section.texts("except")? {
            file.except.push(self.reader.glob(at, glob)?);
        }
        Ok(())
    }

    fn limits(&self) -> Result<Vec<(Limit, usize)>, ToolError> {
        let Some(table) = self.table("limits")? else { return Ok(Vec::new()) };
        let section = Section { path: "limits.", table, ..*self };
        section.check_keys(&keys::LIMITS)?;
        let mut limits = Vec::new();
        for (name, limit) in Limit::ALL {
            limits.extend(section.number(name)?.map(|value| (limit, value)));
        }
        Ok(limits)
    }

    /// The tables of a table, each read by `read`, with its name and place.
    pub(super) fn named<T>(
        &self,
        key: &str,
        read: impl Fn(&Section<'_>, &str, usize) -> Result<T, ToolError>,
    ) -> Result<Vec<T>, ToolError> {
        let Some(tables) = self.table(key)? else { return Ok(Vec::new()) };
        let each = tables.iter().map(|(name, value)| {
            let table = self.as_table(&format!("{key}.{}", name.get_ref()), value)?;
            let path = format!("{key}.{}.", name.get_ref());
            let section = Section { reader: self.reader, path: &path, table };
            read(&section, name.get_ref(), name.span().start)
        });
        each.collect()
    }

    /// # Errors
    /// When a key is not one of the table's, or is there and the author of this file may not set it.
    pub(super) fn check_keys(&self, table: &Table) -> Result<(), ToolError> {
        let written = || self.table.iter().map(|(key, _)| key);
        let Some(unknown) = written().find(|key| table.key(key.get_ref()).is_none()) else {
            return written().try_for_each(|key| self.check_author(key, table));
        };
        let known = table.key_names();
        let near = did_you_mean(&nearest(unknown.get_ref(), known.iter().copied()));
        let hint =
            if near.is_empty() { format!("the keys here are {}", known.join(", ")) } else { near };
        let problem = format!("unknown key `{}{}`", self.path, unknown.get_ref());
        Err(self.reader.fault(unknown.span().start, &problem, hint))
    }

    fn check_author(
        &self,
        written: &Spanned<DeString<'_>>,
        table: &Table,
    ) -> Result<(), ToolError> {
        let key = table.key(written.get_ref());
        let Some(key) = key.filter(|key| !key.whose.contains(&self.reader.place.kind)) else {
            return Ok(());
        };
        let whose =
            if key.whose.len() == 1 { "your own config" } else { "your own or an admin's config" };
        let problem = format!("`{}{}` counts only in {whose}", self.path, key.name);
        Err(self.reader.fault(written.span().start, &problem, "move it there, or take it out"))
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
        let found = self.reader.text.get(value.span()).unwrap_or_default();
        let found: String = found.lines().next().unwrap_or_default().chars().take(40).collect();
        let kind = value.get_ref().type_str();
        let problem =
            format!("`{}{key}`: expected {expected}, found the {kind} `{found}`", self.path);
        self.reader.fault(value.span().start, &problem, format!("write {expected}"))
    }
}
