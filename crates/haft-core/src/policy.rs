//! Decides whether a call may run. The input is layers of rules, modes, profiles and secret paths;
//! the output is a decision with its reason and the smallest change that would alter it. Pure. The
//! gate calls it for every call, and capabilities call it when they open something.

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

/// The kind of a layer, in order of evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// The machine's owner. No other layer can loosen it.
    Admin,
    /// The defaults of haft.
    BuiltIn,
    /// The user's own file.
    User,
    /// The workspace's file. It comes with the code, so it may only restrict unless the user trusts
    /// it.
    Project,
    /// The user's choices for this session, on the command line or in a client.
    Session,
}

/// One parsed file of rules.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The kind of the layer.
    pub kind: LayerKind,
    /// The path of the file, for hints on what to change.
    pub file: Arc<str>,
    /// The mode that the file sets.
    pub mode: Option<Mode>,
    /// Rules for all callers.
    pub rules: Vec<Rule>,
    /// Rules for single agents.
    pub agents: Vec<AgentRules>,
    /// For a project: true if the user decided that its `allow` rules count.
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

    /// Returns true if an `allow` rule in this layer can replace an approval.
    pub fn may_grant(&self) -> bool {
        self.kind != LayerKind::Project || self.trusted
    }

    /// Returns true if a rule in this layer has any effect.
    pub fn is_active(&self, rule: &Rule) -> bool {
        rule.action != Action::Allow || self.may_grant()
    }

    fn rules_for<'a>(&'a self, agent: Option<&'a str>) -> impl Iterator<Item = &'a Rule> {
        let own = self.agents.iter().filter(move |rules| Some(rules.agent.as_str()) == agent);
        self.rules.iter().chain(own.flat_map(|agent| &agent.rules))
    }
}

/// The rules of a layer for one agent.
#[derive(Clone, Debug)]
pub struct AgentRules {
    /// The agent's name.
    pub agent: String,
    /// The maximum mode of the agent.
    pub mode: Option<Mode>,
    /// The profile with the agent's tools.
    pub profile: Option<String>,
    /// Rules for the agent, in addition to those for all callers.
    pub rules: Vec<Rule>,
}

/// One call, as policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct PolicyQuery<'a> {
    /// The canonical name of the tool.
    pub tool: &'a str,
    /// The maximum effect of the tool.
    pub effect: Effect,
    /// The accesses of the call.
    pub accesses: &'a [Access],
    /// The chain of calling agents, outermost first; empty when a person calls.
    pub agents: &'a [String],
    /// The profile the surface was started with.
    pub profile: Option<&'a str>,
    /// Rules that people saved when they approved earlier calls.
    pub saved: &'a [Rule],
}

/// A policy decision and its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Allow, ask, or deny.
    pub action: Action,
    /// The reason for the action.
    pub reason: Reason,
    /// The smallest change that would alter the decision, ready to be carried out.
    pub change: String,
    /// The agent that the decision applies to, when an agent calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// The reason for a decision.
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
        /// The place where the glob is written.
        source: Source,
        /// The access to the secret path.
        access: Access,
    },
    /// No rule applies, so the mode decides.
    Mode {
        /// The effective mode.
        mode: Mode,
        /// The access that needs approval; `None` if the mode allows the call or the call touches
        /// nothing.
        access: Option<Access>,
    },
    /// The tool is not in the profile.
    Profile {
        /// The name of the profile.
        name: String,
        /// The place where it is defined; `None` if there is no such profile.
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
                write!(f, "mode `{mode}`: {access}")
            }
            Self::Mode { mode: Mode::None, access: None } => {
                f.write_str("mode `none` requires approval for every call")
            }
            Self::Mode { mode, access: None } => write!(f, "mode `{mode}`"),
            Self::Profile { name, source: Some(source) } => {
                write!(f, "not in profile `{name}` ({source})")
            }
            Self::Profile { name, source: None } => write!(f, "unknown profile `{name}`"),
        }
    }
}

/// The effective mode and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EffectiveMode {
    /// The mode.
    pub mode: Mode,
    /// The place where it is set.
    pub by: Source,
    /// The mode that was set before another layer lowered it; otherwise the same mode.
    pub asked: Mode,
}

/// All rules, modes, profiles and secret paths.
#[derive(Clone, Debug)]
pub struct Policy {
    layers: Vec<Layer>,
    /// Named sets of tools.
    pub profiles: Profiles,
    /// Paths that no tool may open.
    pub secret_paths: SecretPaths,
    /// Whether commands run in a working sandbox.
    pub sandbox: SandboxCheck,
    /// The directories that tools work in. The gate fills in the workspace.
    pub roots: WorkspaceRoots,
}

/// Checks whether commands run in a working sandbox. The check takes longer than most calls, so it
/// runs only when a command is judged.
#[derive(Clone)]
pub struct SandboxCheck {
    works: Arc<dyn Fn() -> bool + Send + Sync>,
    /// True if the user switched the sandbox off and relies on how commands are parsed.
    is_off: bool,
}

impl SandboxCheck {
    /// Calls `works` each time; it should cache its result.
    pub fn new(works: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { works: Arc::new(works), is_off: false }
    }

    /// No sandbox, by the user's choice: the parsed commands decide.
    pub fn switched_off() -> Self {
        Self { works: Arc::new(|| false), is_off: true }
    }

    pub(crate) fn works(&self) -> bool {
        (self.works)()
    }

    /// Returns true if commands were meant to run in a sandbox and none works. Every command then
    /// needs approval.
    pub(crate) fn is_missing(&self) -> bool {
        !self.is_off && !self.works()
    }
}

impl Default for SandboxCheck {
    /// No sandbox.
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
    /// Combines the given layers with the built-in one.
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

    /// Decides about a call. Deny beats ask beats allow, whichever layer has the rule. If no rule
    /// applies, the mode decides. In a chain of agents the strictest decision counts: a sub-agent
    /// has its parent's rights AND its own.
    pub fn decide(&self, query: &PolicyQuery<'_>) -> Decision {
        self.decide_by(query, by(query))
    }

    /// The same for a known actor, because a single access does not tell whether a tool or a
    /// command opens it.
    fn decide_by(&self, query: &PolicyQuery<'_>, by: Actor) -> Decision {
        let decisions = query.agents.iter().map(|agent| self.decide_for(query, Some(agent), by));
        let strictest = decisions.reduce(|a, b| if b.action > a.action { b } else { a });
        strictest.unwrap_or_else(|| self.decide_for(query, None, by))
    }

    fn decide_for(&self, query: &PolicyQuery<'_>, agent: Option<&str>, by: Actor) -> Decision {
        let found = self
            .outside_profile(query, agent)
            .or_else(|| self.secret(query))
            .or_else(|| self.rule_with_action(Action::Deny, query, agent))
            .or_else(|| self.rule_with_action(Action::Ask, query, agent))
            .or_else(|| self.rule_that_may_match(query, agent));
        let (action, reason) = found.unwrap_or_else(|| self.allow_or_mode(query, agent, by));
        let change = self.smallest_change(action, &reason, query, (agent, by));
        Decision { action, reason, change, agent: agent.map(str::to_owned) }
    }

    fn outside_profile(
        &self,
        query: &PolicyQuery<'_>,
        agent: Option<&str>,
    ) -> Option<(Action, Reason)> {
        let names = query.profile.into_iter().chain(self.profiles_of(agent));
        names.into_iter().find_map(|name| {
            let source = match self.profiles.get(name) {
                Ok(profile) if profile.includes(query.tool) => return None,
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

    fn secret(&self, query: &PolicyQuery<'_>) -> Option<(Action, Reason)> {
        query.accesses.iter().find_map(|access| {
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

    fn rule_with_action(
        &self,
        action: Action,
        query: &PolicyQuery<'_>,
        agent: Option<&str>,
    ) -> Option<(Action, Reason)> {
        let rules = self.layers.iter().flat_map(|layer| layer.rules_for(agent));
        let mut rules = rules.filter(|rule| rule.action == action);
        let rule = rules.find(|rule| {
            rule.names_tool(query.tool)
                || query.accesses.iter().any(|access| rule.touches(query.tool, access, &self.roots))
        })?;
        Some((action, Reason::Rule(rule.clone())))
    }

    /// Finds a rule that denies or asks for commands and may match a command whose words are not
    /// all known. An approver then checks whether it does.
    fn rule_that_may_match(
        &self,
        query: &PolicyQuery<'_>,
        agent: Option<&str>,
    ) -> Option<(Action, Reason)> {
        let mut rules = self.layers.iter().flat_map(|layer| layer.rules_for(agent));
        let rule = rules
            .find(|rule| query.accesses.iter().any(|access| rule.may_match(query.tool, access)))?;
        Some((Action::Ask, Reason::Rule(rule.clone())))
    }

    /// No rule asks or denies: the call runs if each of its accesses is allowed by a rule or by the
    /// mode.
    fn allow_or_mode(
        &self,
        query: &PolicyQuery<'_>,
        agent: Option<&str>,
        by: Actor,
    ) -> (Action, Reason) {
        let granting = self.layers.iter().filter(|layer| layer.may_grant());
        let written = granting.flat_map(|layer| layer.rules_for(agent));
        let allows: Vec<&Rule> =
            written.chain(query.saved).filter(|rule| rule.action == Action::Allow).collect();
        // A rule for the whole tool covers everything but secrets, which are judged one by one.
        let gives_secrets = query.accesses.iter().any(is_secret);
        let whole = allows.iter().find(|rule| rule.names_tool(query.tool));
        if let Some(rule) = whole.filter(|_| !gives_secrets) {
            return (Action::Allow, Reason::Rule((*rule).clone()));
        }
        let mode = self.mode_for(agent);
        if query.accesses.is_empty() {
            let action = mode.action_without_access(query.effect);
            return (action, Reason::Mode { mode, access: None });
        }
        let mut last_rule = None;
        for access in query.accesses {
            if let Some(rule) =
                allows.iter().find(|rule| rule.touches(query.tool, access, &self.roots))
            {
                last_rule = Some(*rule);
            } else if mode.action_for(access, query.effect, &self.sandbox, by) == Action::Ask {
                return (Action::Ask, Reason::Mode { mode, access: Some(access.clone()) });
            }
        }
        match last_rule {
            Some(rule) => (Action::Allow, Reason::Rule(rule.clone())),
            None => (Action::Allow, Reason::Mode { mode, access: None }),
        }
    }

    /// The mode that the user set, by command line or file, lowered by layers that may only
    /// restrict.
    pub fn mode_for(&self, agent: Option<&str>) -> Mode {
        self.mode_and_file(agent).0
    }

    /// The same, with its source.
    pub fn effective_mode(&self, agent: Option<&str>) -> EffectiveMode {
        let (mode, file, asked) = self.mode_and_file(agent);
        let by = match file {
            Some(file) => Source { file: file.clone(), line: None },
            None => Source::named("built-in"),
        };
        EffectiveMode { mode, by, asked }
    }

    /// Returns the mode, the file that sets it (none if built in), and the mode before it was
    /// lowered.
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

    /// Returns this policy with one more rule, as if it were set for this session.
    #[must_use]
    pub fn with_rule(&self, rule: Rule) -> Self {
        let mut with = self.clone();
        let mut layer = Layer::new(LayerKind::Session, &rule.source.file);
        layer.rules.push(rule);
        with.layers.push(layer);
        with
    }

    /// All layers, in order of evaluation.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Checks whether a path may be opened while a call runs. The gate judged the paths that the
    /// tool named; a directory's content is judged here, path by path. Approval is not possible at
    /// this point, so a path that a rule asks for is refused, unless the same rule matched an
    /// access that was granted.
    pub fn check_open(&self, query: &PolicyQuery<'_>, granted: &[Access]) -> Result<(), Reason> {
        if query.agents.is_empty() {
            return self.check_open_for(query, None, granted);
        }
        let mut agents = query.agents.iter();
        agents.try_for_each(|agent| self.check_open_for(query, Some(agent), granted))
    }

    /// Returns true if some rule may deny a path that this tool reads or writes, by the kind of the
    /// access.
    pub(crate) fn has_path_rules(&self, tool: &str, agents: &[String], access: &Access) -> bool {
        let callers = || agents.iter().map(|agent| Some(agent.as_str())).chain([None]);
        let rules = self
            .layers
            .iter()
            .flat_map(|layer| callers().flat_map(move |agent| layer.rules_for(agent)));
        let mut closing = rules.filter(|rule| rule.action != Action::Allow);
        closing.any(|rule| rule.names_tool(tool) || rule.may_touch(tool, access))
    }

    /// Returns true if a path is secret, closed to commands by a rule that denies or asks, or
    /// outside the workspace where the mode asks before that: a link in the workspace may lead
    /// there.
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

    /// Returns true if some agent, or a person, needs approval for a path outside the workspace,
    /// and no rule allows it.
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

    /// Returns true if a resolved path is secret.
    pub(crate) fn is_secret(&self, path: &Path) -> bool {
        self.secret_paths.find(path, &self.roots).is_some()
    }

    fn check_open_for(
        &self,
        query: &PolicyQuery<'_>,
        agent: Option<&str>,
        granted: &[Access],
    ) -> Result<(), Reason> {
        let closed = self.secret(query).or_else(|| {
            self.rule_with_action(Action::Deny, query, agent)
                .or_else(|| self.rule_with_action(Action::Ask, query, agent))
        });
        match closed {
            None => Ok(()),
            Some((Action::Ask, Reason::Rule(rule)))
                if granted.iter().any(|access| rule.touches(query.tool, access, &self.roots)) =>
            {
                Ok(())
            }
            Some((_, reason)) => Err(reason),
        }
    }

    /// Returns true if an agent may see this tool: it is in the agent's profile and not denied as a
    /// whole.
    pub fn is_visible(&self, tool: &str, agents: &[String], profile: Option<&str>) -> bool {
        let query =
            PolicyQuery { tool, effect: Effect::Read, accesses: &[], agents, profile, saved: &[] };
        self.decide(&query).action != Action::Deny
    }

    /// Rules without effect: rules for unknown tools, and `allow` rules of an untrusted project.
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
                        "{}: `{}` has no effect: a project may only restrict until you trust it; \
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
        query: &PolicyQuery<'_>,
        (agent, by): (Option<&str>, Actor),
    ) -> String {
        let own_file = self.file_of(LayerKind::User);
        match (action, reason) {
            (Action::Allow, Reason::Rule(rule)) => {
                format!("remove `{}` from `allow` ({})", rule.text, rule.source)
            }
            (Action::Allow, _) => {
                // Without `format!`: nearly every call reaches this line.
                ["add `ask = [\"", query.tool, "\"]` to ", own_file].concat()
            }
            (_, Reason::Rule(rule)) => {
                format!("remove or narrow `{}` in `{}` ({})", rule.text, rule.action, rule.source)
            }
            (_, Reason::Secret { access, .. }) => {
                format!("add `{}` to `secrets.except` in {own_file}", path_text(access))
            }
            (_, Reason::Profile { name, source: Some(source) }) => {
                format!("add `{}` to profile `{name}` ({source})", query.tool)
            }
            (_, Reason::Profile { source: None, .. }) => {
                let known: Vec<&str> = self.profiles.names().collect();
                format!("use one of the profiles {}", known.join(", "))
            }
            (_, Reason::Mode { access: Some(access), .. })
                if let Some(name) = secret_name(access) =>
            {
                let rule = suggestions(query.tool, access).into_iter().next();
                let rule = rule.unwrap_or_else(|| format!("secret({name})"));
                format!("add `allow = [{rule:?}]` to {own_file}")
            }
            (_, Reason::Mode { access, .. }) => {
                let mode = self.least_mode(query, agent, by);
                let rule = match access {
                    Some(access) => suggestions(query.tool, access).into_iter().next(),
                    None => Some(query.tool.to_owned()),
                };
                match rule {
                    Some(rule) => {
                        format!("add `allow = [{rule:?}]` to {own_file}, or use `--approve {mode}`")
                    }
                    // An access that is not known cannot be named in a rule.
                    None => format!("use `--approve {mode}`"),
                }
            }
        }
    }

    fn least_mode(&self, query: &PolicyQuery<'_>, agent: Option<&str>, by: Actor) -> Mode {
        let runs = |mode: &&Mode| {
            let allows =
                |access| mode.action_for(access, query.effect, &self.sandbox, by) == Action::Allow;
            mode.action_without_access(Effect::Read) == Action::Allow
                && query.accesses.iter().filter(|access| !is_secret(access)).all(allows)
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

/// Returns the actor that opens the accesses: commands or the tool itself.
fn by(query: &PolicyQuery<'_>) -> Actor {
    let is_command = |access: &Access| matches!(access, Access::Command(_));
    if query.accesses.iter().any(is_command) { Actor::Command } else { Actor::Tool }
}

/// haft's own files and git's control how programs behave in a workspace, so changing them needs
/// approval.
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
