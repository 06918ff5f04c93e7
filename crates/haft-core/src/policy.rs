//! The one function that says whether a call may run: layers of rules, modes, profiles and secret paths in, a
//! decision with its reason and the smallest change that would alter it out. Pure; the gate asks it, and so does
//! every capability when it opens something.

mod access_decisions;
mod findings;
mod mode;
pub(crate) mod pattern;
mod profile;
mod replay;
mod rule;
mod secrets;

use std::{fmt, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use self::mode::Actor;
pub(crate) use self::rule::suggestions;
pub use self::{
    access_decisions::AccessDecision,
    findings::{Finding, FindingKind, KnownNames},
    mode::Mode,
    profile::{Profile, Profiles},
    rule::{Action, Rule, RuleError, Source, WorkspaceRoots},
    secrets::{SecretPath, SecretPaths},
};
use crate::{Access, Effect, access::is_inside};

/// Whose words a layer holds, in the order they are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// The machine's owner. Nothing below loosens it.
    Admin,
    /// What haft comes with.
    BuiltIn,
    /// The person's own file.
    User,
    /// The workspace's file: it came with the code, so it may only narrow unless the person trusts it.
    Project,
    /// What the person said for this session, on the command line or in a client.
    Session,
}

/// One file of rules, read.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Whose it is.
    pub kind: LayerKind,
    /// Where it is written, for advice on what to change.
    pub file: Arc<str>,
    /// The mode it asks for.
    pub mode: Option<Mode>,
    /// Rules for everybody.
    pub rules: Vec<Rule>,
    /// Rules for single agents.
    pub agents: Vec<AgentRules>,
    /// For a project: the person said its `allow` rules count.
    pub trusted: bool,
}

impl LayerKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::BuiltIn => "built-in",
            Self::User => "user",
            Self::Project => "project",
            Self::Session => "session",
        }
    }
}

impl Layer {
    /// A layer that says nothing yet.
    pub fn new(kind: LayerKind, file: &str) -> Self {
        Self {
            kind,
            file: file.into(),
            mode: None,
            rules: Vec::new(),
            agents: Vec::new(),
            trusted: false,
        }
    }

    /// Whether an `allow` written here lets something run that would be asked for otherwise.
    pub fn may_grant(&self) -> bool {
        self.kind != LayerKind::Project || self.trusted
    }

    /// Whether a rule that is written here is heard at all.
    pub fn is_active(&self, rule: &Rule) -> bool {
        rule.action != Action::Allow || self.may_grant()
    }

    fn rules_for<'a>(&'a self, agent: Option<&'a str>) -> impl Iterator<Item = &'a Rule> {
        let own = self.agents.iter().filter(move |rules| Some(rules.agent.as_str()) == agent);
        self.rules.iter().chain(own.flat_map(|agent| &agent.rules))
    }
}

/// What a layer says of one agent.
#[derive(Clone, Debug)]
pub struct AgentRules {
    /// The agent's name.
    pub agent: String,
    /// The most it may do unasked.
    pub mode: Option<Mode>,
    /// The tools it has.
    pub profile: Option<String>,
    /// Rules for it, besides those for everybody.
    pub rules: Vec<Rule>,
}

/// One call, as policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct PolicyQuery<'a> {
    /// The canonical name of the tool.
    pub tool: &'a str,
    /// How far the tool can reach.
    pub effect: Effect,
    /// What the call would touch.
    pub accesses: &'a [Access],
    /// Who calls: the chain of agents, outermost first; empty when a person calls.
    pub agents: &'a [String],
    /// The profile the surface was started with.
    pub profile: Option<&'a str>,
    /// Rules that people saved when they approved earlier calls.
    pub saved: &'a [Rule],
}

/// What policy says, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Run, ask, or refuse.
    pub action: Action,
    /// Why.
    pub reason: Reason,
    /// The smallest change that would make it otherwise, ready to be carried out.
    pub change: String,
    /// Of which agent it is said, when an agent calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// What a decision rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// A written or saved rule.
    Rule(Rule),
    /// A secret path.
    Secret {
        /// The glob that makes it secret.
        glob: String,
        /// Where that is written.
        source: Source,
        /// What was to be touched.
        access: Access,
    },
    /// No rule speaks; the mode decides.
    Mode {
        /// The mode in force.
        mode: Mode,
        /// The access it would not wave through; none when it allows, or when the call touches nothing.
        access: Option<Access>,
    },
    /// The tool is not in the profile.
    Profile {
        /// Its name.
        name: String,
        /// Where it is defined; none when there is no such profile.
        source: Option<Source>,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "rule {rule}"),
            Self::Secret { glob, source, access } => {
                write!(f, "{access}: `{glob}` is a secret path ({source})")
            }
            Self::Mode { mode, access: Some(access) } => {
                write!(f, "mode `{mode}` asks before: {access}")
            }
            Self::Mode { mode: Mode::None, access: None } => {
                f.write_str("mode `none` asks before everything")
            }
            Self::Mode { mode, access: None } => write!(f, "mode `{mode}`"),
            Self::Profile { name, source: Some(source) } => {
                write!(f, "it is not in profile `{name}` ({source})")
            }
            Self::Profile { name, source: None } => write!(f, "there is no profile `{name}`"),
        }
    }
}

/// How much runs unasked where no rule speaks, and whose word that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EffectiveMode {
    /// The mode.
    pub mode: Mode,
    /// Where it is said.
    pub by: Source,
    /// What was asked for before somebody lowered it; the mode itself when nobody did.
    pub asked: Mode,
}

/// Everything that is written about who may do what.
#[derive(Clone, Debug)]
pub struct Policy {
    layers: Vec<Layer>,
    /// Named sets of tools.
    pub profiles: Profiles,
    /// Paths that stay closed.
    pub secret_paths: SecretPaths,
    /// Whether commands run in a sandbox that was tried and works.
    pub sandbox: SandboxCheck,
    /// Where the directories that tools work in lie. The gate fills in the workspace.
    pub roots: WorkspaceRoots,
}

/// Finds out whether commands run in a sandbox that works. Trying takes longer than most calls, so nobody asks before a
/// command is to be judged.
#[derive(Clone)]
pub struct SandboxCheck {
    works: Arc<dyn Fn() -> bool + Send + Sync>,
    /// A person has switched it off, and relies on how commands are read.
    is_off: bool,
}

impl SandboxCheck {
    /// Asks this, each time; it should remember what it found.
    pub fn new(works: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { works: Arc::new(works), is_off: false }
    }

    /// There is none because a person said so: how commands are read decides.
    pub fn switched_off() -> Self {
        Self { works: Arc::new(|| false), is_off: true }
    }

    pub(crate) fn works(&self) -> bool {
        (self.works)()
    }

    /// Whether commands were meant to run in a sandbox and none works: then every command is asked about.
    pub(crate) fn is_missing(&self) -> bool {
        !self.is_off && !self.works()
    }
}

impl Default for SandboxCheck {
    /// There is none.
    fn default() -> Self {
        Self::new(|| false)
    }
}

impl fmt::Debug for SandboxCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SandboxCheck")
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new([])
    }
}

impl Policy {
    /// The built-in layer with the given ones around it.
    pub fn new(layers: impl IntoIterator<Item = Layer>) -> Self {
        let mut layers: Vec<Layer> = layers.into_iter().chain([built_in_layer()]).collect();
        layers.sort_by_key(|layer| layer.kind as u8);
        Self {
            layers,
            profiles: Profiles::default(),
            secret_paths: SecretPaths::default(),
            sandbox: SandboxCheck::default(),
            roots: WorkspaceRoots::default(),
        }
    }

    /// Says what becomes of a call. Deny beats ask beats allow, whoever wrote it; where no rule speaks the mode does.
    /// In a chain of agents each one is heard and the strictest answer counts: a sub-agent has its parent's rights
    /// AND its own.
    pub fn decide(&self, question: &PolicyQuery<'_>) -> Decision {
        self.decide_by(question, by(question))
    }

    /// The same where it is known who opens what is named: of one access that cannot be told.
    fn decide_by(&self, question: &PolicyQuery<'_>, by: Actor) -> Decision {
        let voices = question.agents.iter().map(|agent| self.decide_for(question, Some(agent), by));
        let strictest = voices.reduce(|a, b| if b.action > a.action { b } else { a });
        strictest.unwrap_or_else(|| self.decide_for(question, None, by))
    }

    fn decide_for(&self, question: &PolicyQuery<'_>, agent: Option<&str>, by: Actor) -> Decision {
        let found = self
            .outside_profile(question, agent)
            .or_else(|| self.secret(question))
            .or_else(|| self.rule_that_says(Action::Deny, question, agent))
            .or_else(|| self.rule_that_says(Action::Ask, question, agent))
            .or_else(|| self.rule_that_may_say(question, agent));
        let (action, reason) = found.unwrap_or_else(|| self.allow_or_mode(question, agent, by));
        let change = self.smallest_change(action, &reason, question, (agent, by));
        Decision { action, reason, change, agent: agent.map(str::to_owned) }
    }

    fn outside_profile(
        &self,
        question: &PolicyQuery<'_>,
        agent: Option<&str>,
    ) -> Option<(Action, Reason)> {
        let names = question.profile.into_iter().chain(self.profiles_of(agent));
        names.into_iter().find_map(|name| {
            let source = match self.profiles.get(name) {
                Ok(profile) if profile.includes(question.tool) => return None,
                Ok(profile) => Some(profile.source.clone()),
                Err(_) => None,
            };
            Some((Action::Deny, Reason::Profile { name: name.to_owned(), source }))
        })
    }

    fn profiles_of<'a>(&'a self, agent: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        self.agent_rules(agent).filter_map(|rules| rules.profile.as_deref())
    }

    fn agent_rules<'a>(&'a self, agent: Option<&'a str>) -> impl Iterator<Item = &'a AgentRules> {
        let all = self.layers.iter().flat_map(|layer| &layer.agents);
        all.filter(move |rules| Some(rules.agent.as_str()) == agent)
    }

    fn secret(&self, question: &PolicyQuery<'_>) -> Option<(Action, Reason)> {
        question.accesses.iter().find_map(|access| {
            let secret = self.secret_at(access)?;
            let (glob, source) = (secret.glob.clone(), secret.source.clone());
            Some((Action::Deny, Reason::Secret { glob, source, access: access.clone() }))
        })
    }

    fn secret_at(&self, access: &Access) -> Option<&SecretPath> {
        match access {
            Access::Read(path) | Access::Write(path) => self.secret_paths.find(path, &self.roots),
            _ => None,
        }
    }

    fn rule_that_says(
        &self,
        action: Action,
        question: &PolicyQuery<'_>,
        agent: Option<&str>,
    ) -> Option<(Action, Reason)> {
        let rules = self.layers.iter().flat_map(|layer| layer.rules_for(agent));
        let mut rules = rules.filter(|rule| rule.action == action);
        let rule = rules.find(|rule| {
            rule.names_tool(question.tool)
                || question
                    .accesses
                    .iter()
                    .any(|access| rule.touches(question.tool, access, &self.roots))
        })?;
        Some((action, Reason::Rule(rule.clone())))
    }

    /// A rule that denies or asks for commands, when the words of one cannot be seen: a person looks whether it is meant.
    fn rule_that_may_say(
        &self,
        question: &PolicyQuery<'_>,
        agent: Option<&str>,
    ) -> Option<(Action, Reason)> {
        let mut rules = self.layers.iter().flat_map(|layer| layer.rules_for(agent));
        let rule = rules.find(|rule| {
            question.accesses.iter().any(|access| rule.may_meet(question.tool, access))
        })?;
        Some((Action::Ask, Reason::Rule(rule.clone())))
    }

    /// No rule asks or denies: the call runs if each of its accesses is allowed by a rule or waved through by the mode.
    fn allow_or_mode(
        &self,
        question: &PolicyQuery<'_>,
        agent: Option<&str>,
        by: Actor,
    ) -> (Action, Reason) {
        let granting = self.layers.iter().filter(|layer| layer.may_grant());
        let written = granting.flat_map(|layer| layer.rules_for(agent));
        let allows: Vec<&Rule> =
            written.chain(question.saved).filter(|rule| rule.action == Action::Allow).collect();
        // A rule for the whole tool speaks of everything but secrets, which are looked at one by one.
        let gives_secrets = question.accesses.iter().any(is_secret);
        let whole = allows.iter().find(|rule| rule.names_tool(question.tool));
        if let Some(rule) = whole.filter(|_| !gives_secrets) {
            return (Action::Allow, Reason::Rule((*rule).clone()));
        }
        let mode = self.mode_for(agent);
        if question.accesses.is_empty() {
            let action = mode.verdict_on_nothing(question.effect);
            return (action, Reason::Mode { mode, access: None });
        }
        let mut last_rule = None;
        for access in question.accesses {
            if let Some(rule) =
                allows.iter().find(|rule| rule.touches(question.tool, access, &self.roots))
            {
                last_rule = Some(*rule);
            } else if mode.verdict(access, question.effect, &self.sandbox, by) == Action::Ask {
                return (Action::Ask, Reason::Mode { mode, access: Some(access.clone()) });
            }
        }
        match last_rule {
            Some(rule) => (Action::Allow, Reason::Rule(rule.clone())),
            None => (Action::Allow, Reason::Mode { mode, access: None }),
        }
    }

    /// The mode a person asked for, by command line or file, lowered by whoever may only narrow.
    pub fn mode_for(&self, agent: Option<&str>) -> Mode {
        self.mode_and_file(agent).0
    }

    /// The same, with whose word it is.
    pub fn effective_mode(&self, agent: Option<&str>) -> EffectiveMode {
        let (mode, file, asked) = self.mode_and_file(agent);
        let by = match file {
            Some(file) => Source { file: file.clone(), line: None },
            None => Source::named("built-in"),
        };
        EffectiveMode { mode, by, asked }
    }

    /// The mode, the file that says so unless it is built in, and the mode that was asked for.
    fn mode_and_file(&self, agent: Option<&str>) -> (Mode, Option<&Arc<str>>, Mode) {
        let of = |kind: LayerKind| {
            let layers = self.layers.iter().filter(move |layer| layer.kind == kind);
            layers.filter_map(|layer| Some((layer.mode?, &layer.file)))
        };
        let asked = of(LayerKind::Session).next_back().or_else(|| of(LayerKind::User).next_back());
        let (asked, mut by) = match asked {
            Some((mode, file)) => (mode, Some(file)),
            None => (Mode::Contained, None),
        };
        let of_agent = self.layers.iter().flat_map(|layer| {
            let own = layer.agents.iter().filter(move |rules| Some(rules.agent.as_str()) == agent);
            own.filter_map(|rules| Some((rules.mode?, &layer.file)))
        });
        let mut least = asked;
        for (mode, file) in of(LayerKind::Admin).chain(of(LayerKind::Project)).chain(of_agent) {
            if mode < least {
                (least, by) = (mode, Some(file));
            }
        }
        (least, by, asked)
    }

    /// The same policy with one rule more, as if it were said for this session.
    #[must_use]
    pub fn with_rule(&self, rule: Rule) -> Self {
        let mut with = self.clone();
        let mut layer = Layer::new(LayerKind::Session, &rule.source.file);
        layer.rules.push(rule);
        with.layers.push(layer);
        with
    }

    /// All layers, in the order they are heard.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Whether something may be opened while a call runs. The gate judged what the tool named; a directory's content
    /// is judged here, path by path, where nobody can be asked any more: what would be asked for stays closed unless
    /// the same rule was already answered for an access that was granted.
    pub fn check_open(&self, question: &PolicyQuery<'_>, granted: &[Access]) -> Result<(), Reason> {
        if question.agents.is_empty() {
            return self.check_open_for(question, None, granted);
        }
        let mut voices = question.agents.iter();
        voices.try_for_each(|agent| self.check_open_for(question, Some(agent), granted))
    }

    /// Whether some rule may close a path that this tool reads or writes, by the kind of the access.
    pub(crate) fn has_path_rules(&self, tool: &str, agents: &[String], access: &Access) -> bool {
        let voices = || agents.iter().map(|agent| Some(agent.as_str())).chain([None]);
        let rules = self
            .layers
            .iter()
            .flat_map(|layer| voices().flat_map(move |agent| layer.rules_for(agent)));
        let mut closing = rules.filter(|rule| rule.action != Action::Allow);
        closing.any(|rule| rule.names_tool(tool) || rule.may_touch(tool, access))
    }

    /// Whether a path is secret, closed to commands by a rule that denies or asks, or outside of the workspace where the
    /// mode asks before that: what a command names in the workspace may lead there by a link.
    pub(crate) fn closes(&self, path: &Path, is_write: bool) -> bool {
        let path = path.to_owned();
        let access = if is_write { Access::Write(path) } else { Access::Read(path) };
        let agents = self.layers.iter().flat_map(|layer| &layer.agents).flat_map(|it| &it.rules);
        let rules = self.layers.iter().flat_map(|layer| &layer.rules).chain(agents);
        let mut closing =
            rules.filter(|rule| rule.action != Action::Allow && !rule.names_tool("bash"));
        self.secret_at(&access).is_some()
            || closing.any(|rule| rule.touches("bash", &access, &self.roots))
            || self.asks_outside(&access)
    }

    /// Whether some agent, or who is none, is asked before a path outside of the workspace, and no rule allows it.
    fn asks_outside(&self, access: &Access) -> bool {
        let (Access::Read(path) | Access::Write(path)) = access else { return false };
        let agents = self.layers.iter().flat_map(|layer| &layer.agents);
        let modes = agents.map(|rules| self.mode_for(Some(&rules.agent)));
        let least = modes.fold(self.mode_for(None), Mode::min);
        if is_inside(path) || least == Mode::All {
            return false;
        }
        let granting = self.layers.iter().filter(|layer| layer.may_grant());
        let mut allows =
            granting.flat_map(|layer| &layer.rules).filter(|rule| rule.action == Action::Allow);
        !allows.any(|rule| rule.touches("bash", access, &self.roots))
    }

    /// Whether a resolved path is secret.
    pub(crate) fn is_secret(&self, path: &Path) -> bool {
        self.secret_paths.find(path, &self.roots).is_some()
    }

    fn check_open_for(
        &self,
        question: &PolicyQuery<'_>,
        agent: Option<&str>,
        granted: &[Access],
    ) -> Result<(), Reason> {
        let closed = self.secret(question).or_else(|| {
            self.rule_that_says(Action::Deny, question, agent)
                .or_else(|| self.rule_that_says(Action::Ask, question, agent))
        });
        match closed {
            None => Ok(()),
            Some((Action::Ask, Reason::Rule(rule)))
                if granted
                    .iter()
                    .any(|access| rule.touches(question.tool, access, &self.roots)) =>
            {
                Ok(())
            }
            Some((_, reason)) => Err(reason),
        }
    }

    /// Whether an agent is shown this tool at all: not outside its profile and not denied as a whole.
    pub fn is_visible(&self, tool: &str, agents: &[String], profile: Option<&str>) -> bool {
        let question =
            PolicyQuery { tool, effect: Effect::Read, accesses: &[], agents, profile, saved: &[] };
        self.decide(&question).action != Action::Deny
    }

    /// What is written but does nothing: rules for tools that do not exist, and grants nobody trusted.
    pub fn warnings(&self, tools: &[String]) -> Vec<String> {
        let names = tools.iter().map(String::as_str);
        let mut warnings = Vec::new();
        for layer in &self.layers {
            let rules = layer.rules.iter().chain(layer.agents.iter().flat_map(|a| &a.rules));
            for rule in rules {
                if layer.kind != LayerKind::BuiltIn {
                    warnings.extend(rule.lint(names.clone()));
                }
                if !layer.is_active(rule) {
                    warnings.push(format!(
                        "{}: `{}` is not in force: a project may only narrow until you trust it; \
                         add its folder to `trust` in your own config to change that",
                        rule.source, rule.text
                    ));
                }
            }
        }
        warnings
    }

    fn smallest_change(
        &self,
        action: Action,
        reason: &Reason,
        question: &PolicyQuery<'_>,
        (agent, by): (Option<&str>, Actor),
    ) -> String {
        let own_file = self.file_of(LayerKind::User);
        match (action, reason) {
            (Action::Allow, Reason::Rule(rule)) => {
                format!("remove `{}` from `allow` ({})", rule.text, rule.source)
            }
            (Action::Allow, _) => {
                // By hand: nearly every call comes here.
                ["add `ask = [\"", question.tool, "\"]` to ", own_file].concat()
            }
            (_, Reason::Rule(rule)) => {
                format!("remove or narrow `{}` in `{}` ({})", rule.text, rule.action, rule.source)
            }
            (_, Reason::Secret { access, .. }) => {
                format!("add `{}` to `secrets.except` in {own_file}", path_text(access))
            }
            (_, Reason::Profile { name, source: Some(source) }) => {
                format!("add `{}` to profile `{name}` ({source})", question.tool)
            }
            (_, Reason::Profile { source: None, .. }) => {
                let known: Vec<&str> = self.profiles.names().collect();
                format!("use one of the profiles {}", known.join(", "))
            }
            (_, Reason::Mode { access: Some(access), .. })
                if let Some(name) = secret_name(access) =>
            {
                let rule = suggestions(question.tool, access).into_iter().next();
                let rule = rule.unwrap_or_else(|| format!("secret({name})"));
                format!("add `allow = [{rule:?}]` to {own_file}")
            }
            (_, Reason::Mode { access, .. }) => {
                let mode = self.least_mode(question, agent, by);
                let rule = match access {
                    Some(access) => suggestions(question.tool, access).into_iter().next(),
                    None => Some(question.tool.to_owned()),
                };
                match rule {
                    Some(rule) => {
                        format!("add `allow = [{rule:?}]` to {own_file}, or use `--approve {mode}`")
                    }
                    // What cannot be known is no matter for a rule.
                    None => format!("use `--approve {mode}`"),
                }
            }
        }
    }

    fn least_mode(&self, question: &PolicyQuery<'_>, agent: Option<&str>, by: Actor) -> Mode {
        let runs = |mode: &&Mode| {
            let allows =
                |access| mode.verdict(access, question.effect, &self.sandbox, by) == Action::Allow;
            mode.verdict_on_nothing(Effect::Read) == Action::Allow
                && question.accesses.iter().filter(|access| !is_secret(access)).all(allows)
                && **mode > self.mode_for(agent)
        };
        Mode::ALL.iter().find(runs).copied().unwrap_or(Mode::All)
    }

    fn file_of(&self, kind: LayerKind) -> &str {
        let layer = self.layers.iter().find(|layer| layer.kind == kind);
        layer.map_or("your config.toml", |layer| &*layer.file)
    }
}

fn is_secret(access: &Access) -> bool {
    secret_name(access).is_some()
}

fn secret_name(access: &Access) -> Option<&str> {
    match access {
        Access::Secret { name, .. } | Access::SendSecret { name, is_bound: false, .. } => {
            Some(name)
        }
        _ => None,
    }
}

/// Whether it is commands that open what is named.
fn by(question: &PolicyQuery<'_>) -> Actor {
    let is_command = |access: &Access| matches!(access, Access::Command(_));
    if question.accesses.iter().any(is_command) { Actor::Command } else { Actor::Tool }
}

/// haft's own files and git's are how a workspace tells programs what to do; changing them is worth a question.
fn built_in_layer() -> Layer {
    const ASK: &[&str] = &["write(.haft/**)", "write(**/.git/**)"];
    let mut layer = Layer::new(LayerKind::BuiltIn, "built-in");
    let rule = |text: &&str| Rule::parse(Action::Ask, text, Source::named("built-in"));
    layer.rules = ASK.iter().map(rule).collect::<Result<_, _>>().expect("the built-in rules parse");
    layer
}

fn path_text(access: &Access) -> String {
    match access {
        Access::Read(path) | Access::Write(path) => path.display().to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
