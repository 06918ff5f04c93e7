//! One call: the caller, the input and the grants. Surfaces fill in a `Context`; only the gate can
//! create a `Call` from it.

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

/// Information from the surface about a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Context {
    /// The session of the call.
    pub session: String,
    /// The message that contained the call, if a model sent it.
    pub message: Option<String>,
    /// The id from the caller; the gate creates one if there is none.
    pub call_id: Option<String>,
    /// The chain of calling agents, outermost first; empty when a person calls.
    pub agents: Vec<String>,
    /// The profile the surface was started with.
    pub profile: Option<String>,
    /// A shorter deadline than the tool's own.
    pub deadline: Option<Duration>,
    /// True if no person is present: a request may then wait for days.
    pub unattended: bool,
    /// Further information from the surface for the tool.
    pub extra: Map<String, Value>,
    /// Cancelling this stops the call.
    pub cancel: CancellationToken,
    /// Services for this caller only, by type. They take precedence over the program's services.
    pub services: Services,
    pub(crate) lineage: Lineage,
}

impl Context {
    /// The context of a call by a person in the given session.
    pub fn new(session: impl Into<String>) -> Self {
        Self::with_cancel(session, CancellationToken::new())
    }

    /// The same, stopped when `cancel` is cancelled.
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

/// The origin of a call made by a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineage {
    /// The calls that contain it, outermost first.
    pub(crate) ancestors: Arc<[Arc<str>]>,
    /// The deadline of the outer call.
    pub(crate) latest: Option<Instant>,
}

/// Information about the caller, for tools that take it as an argument. It grants no power.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallInfo {
    /// The session.
    pub session: String,
    /// The message that contained the call, if a model sent it.
    pub message: Option<String>,
    /// The id of the call.
    pub call_id: Arc<str>,
    /// The chain of calling agents, outermost first; empty when a person calls.
    pub agents: Vec<String>,
    /// The absolute workspace directory.
    pub workspace: PathBuf,
    /// Further information from the surface.
    pub extra: Map<String, Value>,
}

impl CallInfo {
    /// The calling agent, if an agent calls.
    pub fn agent(&self) -> Option<&str> {
        self.agents.last().map(String::as_str)
    }
}

/// One call, as the tool's adapter sees it.
pub struct Call {
    pub(crate) input: Arc<Value>,
    pub(crate) info: Arc<CallInfo>,
    pub(crate) grants: Grants,
    pub(crate) services: Services,
    /// Services for this caller only.
    pub(crate) own_services: Services,
    pub(crate) sender: EventSender,
    pub(crate) cancel: CancelSignal,
    pub(crate) tools: Tools,
}

impl Call {
    /// Decodes the input. The gate has already checked it against the schema.
    ///
    /// # Errors
    /// Names the field and the expected value.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        decode(&self.input)
    }

    /// The input after the repair stage.
    pub fn raw_input(&self) -> &Value {
        &self.input
    }

    /// Information about the caller.
    pub fn info(&self) -> &Arc<CallInfo> {
        &self.info
    }

    /// The accesses of this call.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// The same as [`Call::service`], for services that the call can do without.
    pub fn maybe_service<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.own_services.get::<T>().or_else(|| self.services.get::<T>())
    }

    /// A service that the embedding program provides for capabilities, by its type.
    ///
    /// # Errors
    /// Of kind `unavailable` if the program does not provide it.
    pub fn service<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, ToolError> {
        self.maybe_service::<T>().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            ToolError::unavailable(format!("this program provides no `{name}`"))
                .hint("add it with `Gate::builder().service(…)` where the gate is built")
        })
    }
}

/// Decodes a checked value. The slow path, which finds the position of an error, runs only on
/// failure.
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

/// The accesses of a call: those that the tool declared and policy or an approver allowed.
/// Capabilities check them before they open anything, because paths may change between the decision
/// and the access.
#[derive(Clone)]
pub struct Grants(Arc<GrantsInner>);

pub(crate) struct GrantsInner {
    pub(crate) tool: Cow<'static, str>,
    pub(crate) effect: Effect,
    pub(crate) accesses: Vec<Access>,
    pub(crate) resolved_files: Vec<ResolvedFile>,
    pub(crate) scripts: Vec<ParsedScript>,
    pub(crate) withheld: Vec<Power>,
    pub(crate) caller: Arc<Context>,
    pub(crate) policy: Arc<Policy>,
    /// Whether a rule may close a path for reading and for writing; computed at first use.
    pub(crate) ruled: [OnceLock<bool>; 2],
}

/// A regular file that the gate found when it resolved a path.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedFile {
    /// The path as the call names it.
    pub(crate) named: PathBuf,
    /// The resolved path, which rules match.
    pub(crate) real: PathBuf,
}

impl Grants {
    pub(crate) fn new(inner: GrantsInner) -> Self {
        Self(Arc::new(inner))
    }

    /// The tool of the call.
    pub(crate) fn tool(&self) -> &str {
        &self.0.tool
    }

    /// All granted accesses.
    pub fn accesses(&self) -> &[Access] {
        &self.0.accesses
    }

    /// The resolved path of a named path, if the gate saw a regular file there.
    pub(crate) fn resolved_file(&self, named: &Path) -> Option<&Path> {
        let file = self.0.resolved_files.iter().find(|file| file.named == named)?;
        Some(&file.real)
    }

    /// The parsed script of this call; `None` if the gate has no command reader.
    pub(crate) fn parsed_script(&self, text: &str) -> Option<&ParsedScript> {
        self.0.scripts.iter().find(|read| read.text == text)
    }

    /// Returns true if the call holds this power at least in part.
    pub fn has(&self, power: Power) -> bool {
        power == Power::Free
            || (!self.0.withheld.contains(&power)
                && self.0.accesses.iter().any(|access| access.power() == power))
    }

    /// Checks whether something may be opened, run or fetched now. Paths must be resolved:
    /// workspace-relative, links followed.
    ///
    /// # Errors
    /// Of kind `denied`, naming the access and the rule or limit that closes it.
    pub fn check(&self, access: &Access) -> Result<(), ToolError> {
        let inner = &*self.0;
        if !self.covers(access) {
            let message =
                format!("`{}` asked to {access}, which this call was not granted", inner.tool);
            return Err(ToolError::denied(message).hint("name it in the arguments of the call"));
        }
        self.judge(access).map_err(|reason: Reason| {
            ToolError::denied(format!("`{}` may not {access}: {reason}", inner.tool))
                .hint("omit it, or call a tool on it directly so that it can be approved")
        })
    }

    /// The same without an error message, for walks over thousands of files: where no rule has path
    /// arguments, only secret paths are checked.
    pub(crate) fn permits(&self, path: &Path, kind: fn(PathBuf) -> Access) -> bool {
        let Self(inner) = self;
        let access = kind(PathBuf::new());
        if self.has_path_rule(&access) {
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

    /// The same for files that programs open, whatever was granted: checks only rules and secret
    /// paths.
    pub(crate) fn leaves_open(&self, path: &Path, kind: fn(PathBuf) -> Access) -> bool {
        if self.has_path_rule(&kind(PathBuf::new())) {
            return !self.closes(&kind(path.to_owned()));
        }
        !self.0.policy.is_secret(path)
    }

    /// Returns true if any rule could close a path to this access.
    fn has_path_rule(&self, access: &Access) -> bool {
        let Self(inner) = self;
        let slot = &inner.ruled[usize::from(access.power() == Power::WriteFiles)];
        *slot.get_or_init(|| inner.policy.has_path_rules(&inner.tool, &inner.caller.agents, access))
    }

    /// Returns true if [`Grants::leaves_open`] gives the same answers for both. Ask rules depend on
    /// what a call was granted.
    pub(crate) fn is_equivalent_to(&self, other: &Self, kind: fn(PathBuf) -> Access) -> bool {
        let (one, two) = (&*self.0, &*other.0);
        Arc::ptr_eq(&one.policy, &two.policy)
            && one.tool == two.tool
            && one.caller.agents == two.caller.agents
            && (!self.has_path_rule(&kind(PathBuf::new())) || one.accesses == two.accesses)
    }

    /// Returns true if a rule or secret path closes this, whatever was granted.
    pub(crate) fn closes(&self, access: &Access) -> bool {
        self.judge(access).is_err()
    }

    /// Returns true if policy would allow this without approval, had the call named it. For targets
    /// that the call could not name, such as redirects.
    pub(crate) fn would_allow(&self, access: &Access) -> bool {
        self.0.policy.decide(&self.query(access)).action == Action::Allow
    }

    fn covers(&self, access: &Access) -> bool {
        self.0.accesses.iter().any(|granted| granted.covers(access))
    }

    fn judge(&self, access: &Access) -> Result<(), Reason> {
        self.0.policy.check_open(&self.query(access), &self.0.accesses)
    }

    /// The policy query for one access of this call.
    fn query<'a>(&'a self, access: &'a Access) -> PolicyQuery<'a> {
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

/// Services of the embedding program or of one caller, by type. Capabilities use them; tools never
/// see them.
#[derive(Clone, Default)]
pub struct Services(Option<Arc<Vec<Service>>>);

/// A list, because there are a dozen at most and every call looks up some: hashing takes longer.
type Service = (TypeId, Arc<dyn Any + Send + Sync>);

impl Services {
    /// Adds a service; the latest of a type counts.
    pub fn insert<T: ?Sized + Send + Sync + 'static>(&mut self, service: Arc<T>) {
        // The stored value is the `Arc` itself, so that `T` may be a trait object.
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

/// Sends the events of one call.
#[derive(Clone)]
pub(crate) struct EventSender {
    pub(crate) events: Events,
    pub(crate) info: Arc<CallInfo>,
    pub(crate) redactor: Redactor,
    /// The caller's listener, if it has one.
    pub(crate) listener: Option<Arc<dyn Listener>>,
}

/// Receives the events of the caller's own call. Given in the services of its [`Context`] as `dyn
/// Listener`.
pub trait Listener: Send + Sync {
    /// Receives an event. Called on the tool's thread: it must not wait.
    fn on_event(&self, event: &CallEventKind);
}

impl EventSender {
    /// Returns true if an event would be received.
    pub(crate) fn has_listener(&self) -> bool {
        self.events.are_watched() || self.listener.is_some()
    }

    /// Sends the event that `make` creates, unless there is no receiver.
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

/// The cancellation signal, and whether the tool listens to it. The gate does not wait for a tool
/// that does not.
#[derive(Clone, Default)]
pub(crate) struct CancelSignal {
    pub(crate) token: CancellationToken,
    is_listening: Arc<AtomicBool>,
}

impl CancelSignal {
    pub(crate) fn new(token: CancellationToken) -> Self {
        Self { token, is_listening: Arc::default() }
    }

    pub(crate) fn listen(&self) -> CancellationToken {
        self.is_listening.store(true, Ordering::Release);
        self.token.clone()
    }

    pub(crate) fn has_listener(&self) -> bool {
        self.is_listening.load(Ordering::Acquire)
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
        #[expect(dead_code, reason = "only decoding is tested")]
        patches: Vec<Inner>,
    }

    #[derive(Deserialize, Debug)]
    struct Inner {
        #[expect(dead_code, reason = "only decoding is tested")]
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
            resolved_files: Vec::new(),
            scripts: Vec::new(),
            withheld: Vec::new(),
            caller: Arc::new(Context::new("s")),
            policy: Arc::new(Policy::new([layer])),
            ruled: Default::default(),
        })
    }

    #[test]
    fn opening_is_limited_to_the_granted_scope() {
        let grants = grants(&[], vec![Access::Read("src".into())]);
        assert!(grants.check(&Access::Read("src/a.rs".into())).is_ok());
        let error = grants.check(&Access::Read("other/a.rs".into())).expect_err("outside");
        assert!(error.message().contains("read other/a.rs"), "{error}");
        assert!(grants.check(&Access::Write("src/a.rs".into())).is_err());
    }

    #[test]
    fn secret_denied_and_unapproved_paths_stay_closed_inside_a_granted_directory() {
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
    fn a_walk_and_a_single_open_get_the_same_answer() {
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
    fn approved_accesses_are_open() {
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
