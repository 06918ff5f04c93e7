//! Tests of the registry, and of tools that cannot be created.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::{
    Access, Call, Power, Reply, Schema,
    policy::{Action, Layer, LayerKind, Rule, Source},
};

struct Stub(ToolSpec);

impl Stub {
    fn new(name: &str) -> Self {
        let schema = Schema::from_value(json!({"type": "object"})).expect("valid");
        Self(ToolSpec::declared("test", name, "does nothing", schema).needs([Power::Free]))
    }

    fn described(name: &str, description: &str) -> Self {
        let mut stub = Self::new(name);
        stub.0.description = description.to_owned().into();
        stub
    }
}

impl Tool for Stub {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _input: &Value) -> Result<Vec<Access>, ToolError> {
        Ok(Vec::new())
    }

    fn call(&self, _call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        Box::pin(std::future::ready(Ok(Reply::text("done"))))
    }
}

fn names(tools: &[Arc<dyn Tool>]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name()).collect()
}

#[tokio::test]
async fn tools_stay_in_the_order_they_came() {
    let registry = Registry::default();
    registry.register_all(["zeta", "alpha", "mid"].map(Stub::new)).expect("new names");
    registry.register(Stub::new("beta")).expect("a new name");
    assert_eq!(registry.names(), ["zeta", "alpha", "mid", "beta"]);
    assert_eq!(names(&registry.all().await), ["zeta", "alpha", "mid", "beta"]);
    assert!(registry.unregister("alpha"));
    assert!(!registry.unregister("alpha"));
    assert!(!registry.has("alpha") && registry.has("mid"));
    assert_eq!(registry.names(), ["zeta", "mid", "beta"]);
    assert!(registry.get("zeta").await.is_some() && registry.get("alpha").await.is_none());
}

#[test]
fn duplicates_and_bad_names_are_refused_whole() {
    let registry = Registry::default();
    registry.register(Stub::new("read")).expect("a new name");
    let error = registry.register_all(["new", "read"].map(Stub::new)).expect_err("taken");
    assert_eq!(error, RegistryError::Duplicate("read".into()));
    assert!(!registry.has("new"), "all or none");
    let twice = registry.register_all(["a", "a"].map(Stub::new));
    assert_eq!(twice, Err(RegistryError::Duplicate("a".into())));
    for bad in ["", "Read", "1x", "a-b", "a b", "ä", &"x".repeat(65)] {
        let refused = registry.register(Stub::new(bad));
        assert_eq!(refused, Err(RegistryError::BadName(bad.into())));
        assert!(registry.define(bad, || async { Err(ToolError::failed("no")) }).is_err());
    }
}

#[tokio::test]
async fn a_lazy_tool_is_created_once_and_again_after_a_refresh() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let registry = Registry::default();
    let init = || async {
        let n = MADE.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(Arc::new(Stub::described("task", &format!("made {n} times"))) as Arc<dyn Tool>)
    };
    registry.define("task", init).expect("a new name");
    assert!(registry.has("task"));
    assert_eq!(MADE.load(Ordering::SeqCst), 0, "not before its first use");
    let (first, second) = tokio::join!(registry.get("task"), registry.get("task"));
    assert!(first.is_some() && second.is_some());
    assert_eq!(MADE.load(Ordering::SeqCst), 1);
    registry.refresh("task").await;
    let again = registry.get("task").await.expect("made anew");
    assert_eq!(again.spec().description, "made 2 times");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_cannot_be_created_does_not_affect_others() {
    let registry = Registry::default();
    registry.register(Stub::new("first")).expect("a new name");
    registry.define("fails", || async { Err(ToolError::unavailable("no server")) }).expect("new");
    registry.define("panics", || async { panic!("on purpose") }).expect("new");
    registry.define("hangs", std::future::pending).expect("new");
    let liar = || async { Ok(Arc::new(Stub::new("other")) as Arc<dyn Tool>) };
    registry.define("lies", liar).expect("new");
    registry.register(Stub::new("last")).expect("a new name");

    assert_eq!(names(&registry.all().await), ["first", "last"]);
    assert_eq!(registry.names(), ["first", "last"]);
    assert!(!registry.has("fails"));
    assert_eq!(
        registry.warnings(),
        [
            "tool `fails` is omitted: no server",
            "tool `panics` is omitted: its initialisation panicked",
            "tool `hangs` is omitted: it was not ready within 30 s",
            "tool `lies` is omitted: its name is `other`",
        ]
    );
}

#[tokio::test]
async fn changes_are_announced() {
    let registry = Registry::default();
    let mut changes = registry.subscribe();
    registry.register(Stub::new("a")).expect("new");
    assert!(changes.has_changed().expect("open"));
    changes.mark_unchanged();
    registry.unregister("nothing");
    assert!(!changes.has_changed().expect("open"), "nothing changed");
    registry.unregister("a");
    assert!(changes.has_changed().expect("open"));
}

#[tokio::test]
async fn definitions_are_filled_in_or_omitted_with_a_warning() {
    let registry = Registry::default();
    registry.register(Stub::described("good", "in ${workspace} on ${date}")).expect("new");
    registry.register(Stub::described("bad", "in ${nowhere}")).expect("new");
    let workspace_info = WorkspaceInfo {
        workspace: "/w".into(),
        directory: "/w/d".into(),
        today: || "2026-11-15".to_owned(),
    };
    let definitions = registry.definitions(&workspace_info).await;
    assert_eq!(definitions.specs.len(), 1);
    assert_eq!(definitions.specs[0].description, "in /w on 2026-11-15");
    assert_eq!(
        definitions.warnings,
        ["tool `bad` is omitted: the description's variable `${nowhere}` has no value"]
    );
}

#[tokio::test]
async fn an_agent_sees_what_policy_profile_and_provider_leave_it() {
    let registry = Registry::default();
    registry.register_all(["read", "write", "bash"].map(Stub::new)).expect("new");
    let mut patch = Stub::new("patch");
    patch.0.providers = vec!["openai*".into()];
    registry.register(patch).expect("new");

    let mut layer = Layer::new(LayerKind::User, "user.toml");
    layer.rules =
        vec![Rule::parse(Action::Deny, "bash", Source::named("user.toml")).expect("a rule")];
    let mut policy = Policy::new([layer]);
    policy.profiles.add("read", &["researcher"]);
    let view = AgentView { policy: &policy, agents: &[], profile: None };
    assert_eq!(names(&registry.enabled(&view).await), ["read", "write", "patch"]);
    let researcher = AgentView { profile: Some("researcher"), ..view };
    assert_eq!(names(&registry.enabled(&researcher).await), ["read"]);

    let shown = async |provider: &str| {
        let definitions = registry.tools(provider, &view, &WorkspaceInfo::default()).await;
        definitions.specs.iter().map(|spec| spec.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(shown("openai-responses").await, ["read", "write", "patch"]);
    assert_eq!(shown("anthropic").await, ["read", "write"]);
}
