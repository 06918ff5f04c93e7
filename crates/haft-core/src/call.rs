//! One invocation: who calls, with what input, holding which grants. Surfaces fill in a `Context`; only the gate can
//! make a `Call` out of it.

use std::{
    any::{Any, TypeId},
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Access, Effect, Events, ParsedScript, Power, Redactor, ToolError, Tools,
    access::{is_below, is_inside},
    events::{CallEvent, CallEventKind},
    policy::{Action, Policy, PolicyQuery, Reason},
};

/// What a surface knows about the call it hands to the gate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Context {
    /// The session it belongs to.
    pub session: String,
    /// The message it came in, when a model sent it.
    pub message: Option<String>,
    /// The id the caller gave it; made by the gate when there is none.
    pub call_id: Option<String>,
    /// Who calls: the chain of agents, outermost first; empty when a person calls.
    pub agents: Vec<String>,
    /// The profile the surface was started with.
    pub profile: Option<String>,
    /// A shorter deadline than the tool's own.
    pub deadline: Option<Duration>,
    /// Nobody is watching: an approval may wait for days.
    pub unattended: bool,
    /// Whatever else the surface wants the tool to know.
    pub extra: Map<String, Value>,
    /// Calling this off stops the call.
    pub cancel: CancellationToken,
    /// What this caller alone provides, by type; found before what the program provides.
    pub services: Services,
    pub(crate) lineage: Lineage,
}

impl Context {
    /// The context of a call by a person in the given session.
    pub fn new(session: impl Into<String>) -> Self {
        Self::with_cancel(session, CancellationToken::new())
    }

    /// The same, stopped when this is called off.
    pub fn with_cancel(session: impl Into<String>, cancel: CancellationToken) -> Self {
        Self {
            session: session.into(),
            message: None,
            call_id: None,
            agents: Vec::new(),
            profile: None,
            deadline: None,
            unattended: false,
            extra: Map::new(),
            cancel,
            services: Services::default(),
            lineage: Lineage::default(),
        }
    }

    /// The same, called by an agent.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>) -> Self {
        self.agents.push(name.into());
        self
    }
}

/// Where a call made by a tool comes from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineage {
    /// The calls it is made in, outermost first.
    pub(crate) ancestors: Arc<[Arc<str>]>,
    /// The moment by which the outer call must be over.
    pub(crate) latest: Option<Instant>,
}

/// Who is calling, for tools that take it as an argument. Free: it is knowledge, not power.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallInfo {
    /// The session.
    pub session: String,
    /// The message, when a model sent the call.
    pub message: Option<String>,
    /// The call's own id.
    pub call_id: Arc<str>,
    /// The chain of agents, outermost first; empty when a person calls.
    pub agents: Vec<String>,
    /// The absolute workspace directory.
    pub workspace: PathBuf,
    /// Whatever else the surface said.
    pub extra: Map<String, Value>,
}

impl CallInfo {
    /// The agent that calls, if it is one.
    pub fn agent(&self) -> Option<&str> {
        self.agents.last().map(String::as_str)
    }
}

/// One invocation, as the tool's adapter sees it.
pub struct Call {
    pub(crate) input: Arc<Value>,
    pub(crate) info: Arc<CallInfo>,
    pub(crate) grants: Grants,
    pub(crate) services: Services,
    /// Of this caller alone.
    pub(crate) own_services: Services,
    pub(crate) sender: EventSender,
    pub(crate) cancel: CancelSignal,
    pub(crate) tools: Tools,
}

impl Call {
    /// The input, decoded. The gate has checked it against the schema already.
    ///
    /// # Errors
    /// Names the field and what it should have been.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        decode(&self.input)
    }

    /// The input as it came out of the gate's repair.
    pub fn raw_input(&self) -> &Value {
        &self.input
    }

    /// Who is calling.
    pub fn info(&self) -> &Arc<CallInfo> {
        &self.info
    }

    /// What this call may touch.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// The same as [`Call::service`], for what a call can go without.
    pub fn maybe_service<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.own_services.get::<T>().or_else(|| self.services.get::<T>())
    }

    /// Something the embedding program put behind a capability, by its type.
    ///
    /// # Errors
    /// Of kind `unavailable` when the program has not provided it.
    pub fn service<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, ToolError> {
        self.maybe_service::<T>().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            ToolError::unavailable(format!("this program provides no `{name}`"))
                .hint("add it with `Gate::builder().service(…)` where the gate is built")
        })
    }
}

/// Decodes a checked value; the slow road that finds the path is taken only when it fails.
pub(crate) fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, ToolError> {
    if let Ok(decoded) = T::deserialize(value) {
        return Ok(decoded);
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let problem = error.inner().to_string();
        let message = if path == "." { problem } else { format!("{path}: {problem}") };
        ToolError::input(message)
    })
}

/// What a call may touch: the accesses the tool named and policy or a person agreed to. Capabilities ask before they
/// open anything, because paths move between the decision and the deed.
#[derive(Clone)]
pub struct Grants(Arc<GrantsInner>);

pub(crate) struct GrantsInner {
    pub(crate) tool: Cow<'static, str>,
    pub(crate) effect: Effect,
    pub(crate) accesses: Vec<Access>,
    pub(crate) seen: Vec<ResolvedFile>,
    pub(crate) texts: Vec<ParsedScript>,
    pub(crate) withheld: Vec<Power>,
    pub(crate) caller: Arc<Context>,
    pub(crate) policy: Arc<Policy>,
    /// Whether a rule may close a path for reading, and for writing; found out when first asked.
    pub(crate) ruled: [OnceLock<bool>; 2],
}

/// A regular file that the gate came by when it resolved a path.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedFile {
    /// As the call names it.
    pub(crate) named: PathBuf,
    /// As rules are written for it.
    pub(crate) real: PathBuf,
}

impl Grants {
    pub(crate) fn new(inner: GrantsInner) -> Self {
        Self(Arc::new(inner))
    }

    /// The tool that holds them.
    pub(crate) fn tool(&self) -> &str {
        &self.0.tool
    }

    /// Everything that was agreed to.
    pub fn accesses(&self) -> &[Access] {
        &self.0.accesses
    }

    /// Where a path of this call leads, if the gate saw a regular file there.
    pub(crate) fn seen_file(&self, named: &Path) -> Option<&Path> {
        let seen = self.0.seen.iter().find(|seen| seen.named == named)?;
        Some(&seen.real)
    }

    /// What the gate's reader found in a text of this call. None when the gate has no reader.
    pub(crate) fn parsed_script(&self, text: &str) -> Option<&ParsedScript> {
        self.0.texts.iter().find(|read| read.text == text)
    }

    /// Whether the call holds any of this power.
    pub fn has(&self, power: Power) -> bool {
        power == Power::Free
            || (!self.0.withheld.contains(&power)
                && self.0.accesses.iter().any(|access| access.power() == power))
    }

    /// Whether this may be opened, run or fetched now. Paths must be resolved: workspace-relative, links followed.
    ///
    /// # Errors
    /// Of kind `denied`, naming what it is and which rule or limit closes it.
    pub fn check(&self, access: &Access) -> Result<(), ToolError> {
        let inner = &*self.0;
        if !self.covers(access) {
            let message =
                format!("`{}` asked to {access}, which this call was not granted", inner.tool);
            return Err(ToolError::denied(message).hint("name it in the arguments of the call"));
        }
        self.judge(access).map_err(|reason: Reason| {
            ToolError::denied(format!("`{}` may not {access}: {reason}", inner.tool))
                .hint("leave it out, or call a tool on it directly so that it can be asked for")
        })
    }

    /// The same without words, for walks over thousands of files: where no rule speaks of paths, only secrecy is left
    /// to ask about.
    pub(crate) fn permits(&self, path: &Path, kind: fn(PathBuf) -> Access) -> bool {
        let Self(inner) = self;
        let access = kind(PathBuf::new());
        if self.is_ruled(&access) {
            let access = kind(path.to_owned());
            return self.covers(&access) && self.judge(&access).is_ok();
        }
        let covers = |granted: &Access| match (granted, &access) {
            (Access::Read(scope), Access::Read(_)) | (Access::Write(scope), Access::Write(_)) => {
                is_below(scope, path)
            }
            (Access::Any(power), _) => *power == access.power() && is_inside(path),
            _ => false,
        };
        inner.accesses.iter().any(covers) && !inner.policy.is_secret(path)
    }

    /// The same for what programs open, whatever was granted: only rules and secrecy are asked.
    pub(crate) fn leaves_open(&self, path: &Path, kind: fn(PathBuf) -> Access) -> bool {
        if self.is_ruled(&kind(PathBuf::new())) {
            return !self.closes(&kind(path.to_owned()));
        }
        !self.0.policy.is_secret(path)
    }

    /// Whether any rule could close a path to this access.
    fn is_ruled(&self, access: &Access) -> bool {
        let Self(inner) = self;
        let slot = &inner.ruled[usize::from(access.power() == Power::WriteFiles)];
        *slot.get_or_init(|| inner.policy.has_path_rules(&inner.tool, &inner.caller.agents, access))
    }

    /// Whether [`Grants::leaves_open`] answers the same for both. Rules that ask are answered by what a call was granted.
    pub(crate) fn is_equivalent_to(&self, other: &Self, kind: fn(PathBuf) -> Access) -> bool {
        let (one, two) = (&*self.0, &*other.0);
        Arc::ptr_eq(&one.policy, &two.policy)
            && one.tool == two.tool
            && one.caller.agents == two.caller.agents
            && (!self.is_ruled(&kind(PathBuf::new())) || one.accesses == two.accesses)
    }

    /// Whether a rule or secrecy closes this, whatever was granted.
    pub(crate) fn closes(&self, access: &Access) -> bool {
        self.judge(access).is_err()
    }

    /// Whether policy would let this be done without a question, had the call named it. Where something leads on to what
    /// nobody could name beforehand: a redirect.
    pub(crate) fn would_allow(&self, access: &Access) -> bool {
        self.0.policy.decide(&self.question(access)).action == Action::Allow
    }

    fn covers(&self, access: &Access) -> bool {
        self.0.accesses.iter().any(|granted| granted.covers(access))
    }

    fn judge(&self, access: &Access) -> Result<(), Reason> {
        self.0.policy.check_open(&self.question(access), &self.0.accesses)
    }

    /// What policy is asked about one access of this call.
    fn question<'a>(&'a self, access: &'a Access) -> PolicyQuery<'a> {
        let Self(inner) = self;
        PolicyQuery {
            tool: &inner.tool,
            effect: inner.effect,
            accesses: std::slice::from_ref(access),
            agents: &inner.caller.agents,
            profile: None,
            saved: &[],
        }
    }
}

/// State of the embedding program or of one caller, by type. Capabilities take it from here; tools never see it.
#[derive(Clone, Default)]
pub struct Services(Option<Arc<Vec<Service>>>);

/// In a list, because there are a dozen at most and every call looks for some: hashing takes longer.
type Service = (TypeId, Arc<dyn Any + Send + Sync>);

impl Services {
    /// Adds one; the latest of a type counts.
    pub fn insert<T: ?Sized + Send + Sync + 'static>(&mut self, service: Arc<T>) {
        // The `Arc` itself is the stored value, so that `T` may be a trait object.
        let services = Arc::make_mut(self.0.get_or_insert_default());
        services.retain(|(kind, _)| *kind != TypeId::of::<T>());
        services.push((TypeId::of::<T>(), Arc::new(service)));
    }

    pub(crate) fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let (_, found) = self.0.as_ref()?.iter().find(|(kind, _)| *kind == TypeId::of::<T>())?;
        found.downcast_ref::<Arc<T>>().cloned()
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.as_ref().map_or(0, |services| services.len());
        write!(f, "Services({count})")
    }
}

/// A call's end of the event hub.
#[derive(Clone)]
pub(crate) struct EventSender {
    pub(crate) events: Events,
    pub(crate) info: Arc<CallInfo>,
    pub(crate) redactor: Redactor,
    /// The caller itself, if it wants to hear.
    pub(crate) listener: Option<Arc<dyn Listener>>,
}

/// A caller that hears what happens during its own call. Given in the services of its [`Context`] as `dyn Listener`.
pub trait Listener: Send + Sync {
    /// Something happened. Called on the tool's thread: it must not wait.
    fn on_event(&self, event: &CallEventKind);
}

impl EventSender {
    /// Whether anybody hears of what happens.
    pub(crate) fn is_heard(&self) -> bool {
        self.events.are_watched() || self.listener.is_some()
    }

    /// Sends what `make` makes, unless nobody watches.
    pub(crate) fn send(&self, make: impl FnOnce(&Redactor) -> CallEventKind) {
        let is_watched = self.events.are_watched();
        if !is_watched && self.listener.is_none() {
            return;
        }
        let kind = make(&self.redactor);
        if let Some(listener) = &self.listener {
            listener.on_event(&kind);
        }
        if is_watched {
            self.events.send(CallEvent {
                call: self.info.call_id.to_string(),
                session: self.info.session.clone(),
                kind,
            });
        }
    }
}

/// The call-off signal, and whether the tool asked to hear it. Who does not listen is not waited for.
#[derive(Clone, Default)]
pub(crate) struct CancelSignal {
    pub(crate) token: CancellationToken,
    heard: Arc<AtomicBool>,
}

impl CancelSignal {
    pub(crate) fn new(token: CancellationToken) -> Self {
        Self { token, heard: Arc::default() }
    }

    pub(crate) fn listen(&self) -> CancellationToken {
        self.heard.store(true, Ordering::Release);
        self.token.clone()
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.heard.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::policy::{Layer, LayerKind, Rule, Source};

    #[derive(Deserialize, Debug)]
    struct Outer {
        #[expect(dead_code, reason = "only decoding is looked at")]
        patches: Vec<Inner>,
    }

    #[derive(Deserialize, Debug)]
    struct Inner {
        #[expect(dead_code, reason = "only decoding is looked at")]
        line: u32,
    }

    #[test]
    fn decoding_names_the_path() {
        let error = decode::<Outer>(&json!({"patches": [{"line": "x"}]})).expect_err("wrong type");
        assert!(error.message().starts_with("patches[0].line: invalid type"), "{error}");
    }

    fn grants(rules: &[(Action, &str)], accesses: Vec<Access>) -> Grants {
        let mut layer = Layer::new(LayerKind::User, "user.toml");
        let parse = |(action, text): &(Action, &str)| {
            Rule::parse(*action, text, Source::named("user.toml")).expect("a rule")
        };
        layer.rules = rules.iter().map(parse).collect();
        Grants::new(GrantsInner {
            tool: "grep".into(),
            effect: Effect::Read,
            accesses,
            seen: Vec::new(),
            texts: Vec::new(),
            withheld: Vec::new(),
            caller: Arc::new(Context::new("s")),
            policy: Arc::new(Policy::new([layer])),
            ruled: Default::default(),
        })
    }

    #[test]
    fn opening_is_held_to_the_granted_scope() {
        let grants = grants(&[], vec![Access::Read("src".into())]);
        assert!(grants.check(&Access::Read("src/a.rs".into())).is_ok());
        let error = grants.check(&Access::Read("other/a.rs".into())).expect_err("outside");
        assert!(error.message().contains("read other/a.rs"), "{error}");
        assert!(grants.check(&Access::Write("src/a.rs".into())).is_err());
    }

    #[test]
    fn secret_denied_and_unasked_paths_stay_closed_inside_a_granted_directory() {
        let rules = [(Action::Deny, "read(private/**)"), (Action::Ask, "read(drafts/**)")];
        let grants = grants(&rules, vec![Access::Read(".".into())]);
        assert!(grants.check(&Access::Read("src/a.rs".into())).is_ok());
        for closed in [".env", "private/x", "drafts/x"] {
            assert!(grants.check(&Access::Read(closed.into())).is_err(), "{closed}");
            assert!(!grants.permits(Path::new(closed), Access::Read), "{closed}");
        }
        assert!(grants.permits(Path::new("src/a.rs"), Access::Read));
    }

    #[test]
    fn a_walk_is_told_the_same_as_who_opens_one_path() {
        let rule_sets: [&[(Action, &str)]; 5] = [
            &[],
            &[(Action::Deny, "read(private/**)")],
            &[(Action::Deny, "write(private/**)")],
            &[(Action::Ask, "grep(private/**)")],
            &[(Action::Deny, "gr*")],
        ];
        let scopes = [
            Access::Read(".".into()),
            Access::Read("src".into()),
            Access::Any(Power::ReadFiles),
            Access::Write(".".into()),
        ];
        for (rules, scope) in rule_sets.iter().flat_map(|r| scopes.iter().map(move |s| (r, s))) {
            let grants = grants(rules, vec![scope.clone()]);
            for path in
                ["src/a", "srcs/a", "src", ".env", "a/.ssh/x", "private/x", "/etc/x", ".", "../x"]
            {
                for kind in [Access::Read, Access::Write] {
                    let whole = grants.check(&kind(path.into())).is_ok();
                    let quick = grants.permits(Path::new(path), kind);
                    assert_eq!(quick, whole, "{rules:?} {scope} {}", kind(path.into()));
                }
            }
        }
    }

    #[test]
    fn what_was_asked_for_and_granted_is_open() {
        let rules = [(Action::Ask, "read(drafts/**)")];
        let grants = grants(&rules, vec![Access::Read("drafts".into())]);
        assert!(grants.check(&Access::Read("drafts/x".into())).is_ok());
    }

    #[test]
    fn services_are_found_by_type_even_as_trait_objects() {
        trait Greets: Send + Sync {
            fn greet(&self) -> &'static str;
        }
        struct English;
        impl Greets for English {
            fn greet(&self) -> &'static str {
                "hello"
            }
        }
        let mut services = Services::default();
        services.insert::<dyn Greets>(Arc::new(English));
        assert_eq!(services.get::<dyn Greets>().map(|found| found.greet()), Some("hello"));
        assert!(services.get::<String>().is_none());
    }
}
