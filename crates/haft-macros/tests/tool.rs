//! Functions as tools: the content of the generated static, and calls through the gate.

// As in a crate that depends on haft-core under another name.
extern crate haft_core as renamed;

use std::{path::PathBuf, time::Duration};

use haft_core::{
    Access, Call, CallInfo, CallRequest, Capability, Context, Effect, ErrorKind, Gate, Need,
    Origin, Outcome, Output, Policy, Power, Progress, Registry, Reply, StaticTool, Tool, ToolError,
    WorkspaceInfo,
    policy::{Action, Layer, LayerKind, Mode, Rule, Source},
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Hello {
    /// The name to greet.
    name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Greeting {
    /// The number of letters in the name.
    letters: usize,
    #[serde(skip)]
    text: String,
}

impl Output for Greeting {
    fn text(&self) -> String {
        self.text.clone()
    }
}

/// The simplest tool.
#[tool]
async fn hello(Hello { name }: Hello, _progress: Progress) -> Result<Greeting, ToolError> {
    if name.is_empty() {
        return Err(ToolError::failed("name is empty"));
    }
    Ok(Greeting { letters: name.chars().count(), text: format!("hello, {name}") })
}

/// A file capability for these tests.
struct Writes;

impl Capability for Writes {
    const NEED: Need = Need::required(Power::WriteFiles);

    fn from_call(_call: &Call) -> Result<Self, ToolError> {
        Ok(Self)
    }
}

/// A network capability for these tests.
struct Net;

impl Capability for Net {
    const NEED: Need = Need::required(Power::Net);

    fn from_call(_call: &Call) -> Result<Self, ToolError> {
        Ok(Self)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Target {
    /// The path.
    path: PathBuf,
}

/// A tool with every key.
mod remove {
    use super::*;

    const LIMIT: usize = 20;

    #[tool(
        name = "remove_file",
        title = "Remove",
        group = "files",
        description = "remove.txt",
        effect = destructive,
        idempotent,
        open_world,
        terminal,
        deadline = "500ms",
        access = |input| vec![Access::Write(input.path.clone())],
        variables(limit = LIMIT, unit = if LIMIT > 9 { "many" } else { "few" }),
        providers("openai*", "anthropic"),
        static = REMOVE,
        crate = renamed,
    )]
    pub(super) async fn remove(input: Target, _files: Writes) -> Result<Reply, ToolError> {
        Ok(Reply::text(format!("removed {}", input.path.display())))
    }

    fn value(input: &Target) -> Vec<Access> {
        vec![Access::Write(input.path.clone()), Access::Fetch("docs.rs".to_owned())]
    }

    // The names in the generated code are `call`, `input` and `value`; none of them may interfere.
    #[tool(description = "remove.txt", effect = read, access = value)]
    pub(super) async fn call(input: Target, _: Writes) -> Result<Reply, ToolError> {
        Ok(Reply::text(input.path.display().to_string()))
    }
}

/// The module name decides the group of a tool, as in `files/lookup.rs`.
mod reference {
    pub(super) mod lookup {
        use crate::*;

        type Answer<T> = Result<T, ToolError>;

        #[tool]
        pub(crate) async fn lookup(
            input: Hello,
            net: Option<Net>,
            info: CallInfo,
        ) -> Answer<Reply> {
            let source = if net.is_some() { "the net" } else { "memory" };
            Ok(Reply::text(format!("{} from {source} in {}", input.name, info.session)))
        }

        #[tool(static = MATCH)]
        pub(crate) async fn r#match(_input: Hello) -> Answer<Reply> {
            Ok(Reply::default())
        }

        // The file does not exist, and the static must not exist either.
        #[tool]
        #[cfg(any())]
        pub(crate) async fn never(_input: Hello) -> Answer<Reply> {
            Ok(Reply::default())
        }
    }
}

use reference::lookup;

#[test]
fn the_signature_is_the_spec() {
    let spec = TOOL.spec();
    assert_eq!((&*spec.name, &*spec.title, &*spec.group), ("hello", "Hello", "custom"));
    assert_eq!(spec.description, "Says hello to a person.");
    assert_eq!(spec.needs, [Need::required(Power::Free)]);
    assert_eq!(spec.effect, Effect::Read);
    assert_eq!(spec.origin, Origin::Derived);
    assert_eq!(spec.deadline, haft_core::DEFAULT_DEADLINE);
    assert!(!spec.idempotent && !spec.open_world && !spec.terminal && spec.providers.is_empty());
    let names: Vec<&str> = spec.input.properties().map(|(name, _)| name).collect();
    assert_eq!(names, ["name"]);
    let output = spec.output.as_ref().expect("typed").as_value();
    assert_eq!(output["properties"]["letters"]["type"], "integer");
}

#[test]
fn the_attribute_sets_the_rest() {
    let spec = remove::REMOVE.spec();
    assert_eq!((&*spec.name, &*spec.title, &*spec.group), ("remove_file", "Remove", "files"));
    assert_eq!(spec.effect, Effect::Destructive);
    assert_eq!(spec.deadline, Duration::from_millis(500));
    assert_eq!(spec.providers, ["openai*", "anthropic"]);
    assert!(spec.idempotent && spec.open_world && spec.terminal);
    assert!(spec.output.is_none(), "a reply has no type");
    let described = WorkspaceInfo::default().describe(spec).expect("all variables");
    assert_eq!(described, "Removes at most 20 files, many. Never asks twice.");
}

#[test]
fn an_effect_is_raised_and_never_lowered() {
    assert_eq!(remove::REMOVE.spec().effect, Effect::Destructive);
    assert_eq!(remove::TOOL.spec().effect, Effect::Write, "`effect = read` beside a writer");
}

#[test]
fn needs_follow_the_arguments_in_order() {
    let optional = Need { power: Power::Net, optional: true };
    let spec = lookup::TOOL.spec();
    assert_eq!(spec.needs, [optional, Need::required(Power::Free)]);
    assert!(spec.open_world);
    assert_eq!(spec.group, "reference");
    assert!(lookup::MATCH.spec().needs.is_empty());
}

#[test]
fn names_that_are_keywords_lose_the_r_prefix() {
    let spec = lookup::MATCH.spec();
    assert_eq!((&*spec.name, &*spec.title), ("match", "Match"));
    assert_eq!(spec.description, "A tool whose name is a keyword.");
}

#[track_caller]
fn check_access(tool: &StaticTool, input: Value, expected: &[Access]) {
    assert_eq!(tool.access(&input).expect("declared"), expected);
}

#[test]
fn access_is_judged_from_the_decoded_input() {
    let write = Access::Write("a.txt".into());
    check_access(&remove::REMOVE, json!({"path": "a.txt"}), std::slice::from_ref(&write));
    let fetch = Access::Fetch("docs.rs".to_owned());
    check_access(&remove::TOOL, json!({"path": "a.txt"}), &[write, fetch]);
    let error = remove::REMOVE.access(&json!({"path": 5})).expect_err("not a path");
    assert!(error.message().starts_with("path: "), "{error}");
}

#[test]
fn by_default_access_is_the_needs_as_a_whole() {
    check_access(&lookup::TOOL, json!({"name": "x"}), &[Access::Any(Power::Net)]);
    check_access(&TOOL, json!({"name": "x"}), &[]);
    let error = TOOL.access(&json!({"name": 5})).expect_err("it does not decode");
    assert!(error.message().starts_with("name: invalid type"), "{error}");
}

#[tokio::test]
async fn the_function_is_still_a_function() {
    let input = Hello { name: "Ada".to_owned() };
    let greeting = hello(input, Progress::silent()).await.expect("greeted");
    assert_eq!(greeting.text, "hello, Ada");
    let input = Target { path: "a.txt".into() };
    assert_eq!(remove::remove(input, Writes).await.expect("removed").content, "removed a.txt");
}

async fn call(rules: &[(Action, &str)], tool: &str, input: Value) -> Outcome {
    let registry = Registry::default();
    let all = [&TOOL, &remove::REMOVE, &remove::TOOL, &lookup::TOOL, &lookup::MATCH];
    registry.register_all(all).expect("distinct names");
    let mut layer = Layer::new(LayerKind::User, "user.toml");
    layer.mode = Some(Mode::All);
    let parse = |(action, text): &(Action, &str)| {
        Rule::parse(*action, text, Source::named("user.toml")).expect("a rule")
    };
    layer.rules = rules.iter().map(parse).collect();
    let gate = Gate::builder(registry).policy(Policy::new([layer])).build();
    gate.call(CallRequest::new(tool, input, Context::new("s"))).await
}

#[tokio::test]
async fn calls_reach_the_function() {
    let outcome = call(&[], "hello", json!({"name": "Ada"})).await;
    assert_eq!(outcome.content, "hello, Ada", "{outcome:?}");
    assert_eq!(outcome.data, Some(json!({"letters": 3})));
    let outcome = call(&[], "remove_file", json!({"path": "a.txt"})).await;
    assert_eq!(outcome.content, "removed a.txt", "{outcome:?}");
}

#[tokio::test]
async fn failures_are_returned_unchanged() {
    let failed = |outcome: Outcome| outcome.error.map(|error| (error.kind, error.message));
    let unnamed = failed(call(&[], "hello", json!({"name": ""})).await);
    assert_eq!(unnamed, Some((ErrorKind::ToolFailed, "name is empty".to_owned())));
    let nameless = failed(call(&[], "hello", json!({})).await);
    assert_eq!(nameless.map(|(kind, _)| kind), Some(ErrorKind::Input));
}

#[tokio::test]
async fn an_optional_capability_is_missing_when_it_is_not_granted() {
    let input = json!({"name": "x"});
    let granted = call(&[], "lookup", input.clone()).await;
    assert_eq!(granted.content, "x from the net in s", "{granted:?}");
    let denied = call(&[(Action::Deny, "lookup(net)")], "lookup", input).await;
    assert_eq!(denied.content, "x from memory in s", "{denied:?}");
}
