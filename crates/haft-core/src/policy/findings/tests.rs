//! Findings are certain: a rule that is reported as never applying never applies, and good rules
//! are not reported.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Access, Schema, Scope, policy::WorkspaceRoots};

fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, powers: &[Power]| {
        let schema = Schema::from_value(json!({"type": "object"})).expect("a schema");
        ToolSpec::declared("test", name, "A tool.", schema).needs(powers.iter().copied())
    };
    vec![
        tool("bash", &[Power::Shell]),
        tool("git_push", &[Power::Shell]),
        tool("read", &[Power::ReadFiles]),
        tool("edit", &[Power::ReadFiles, Power::WriteFiles]),
        tool("web_fetch", &[Power::Net]),
        tool("hello", &[]),
    ]
}

fn rule(action: Action, text: &str, line: usize) -> Rule {
    let source = Source { file: "f".into(), line: Some(line) };
    Rule::parse(action, text, source).expect("a rule")
}

fn layer(kind: LayerKind, rules: &[(Action, &str)]) -> Layer {
    let mut layer = Layer::new(kind, "f");
    let rules = rules.iter().enumerate();
    layer.rules = rules.map(|(place, (action, text))| rule(*action, text, place + 1)).collect();
    layer
}

fn findings(policy: &Policy, saved: &[SavedRule]) -> Vec<String> {
    let is_wide = |pattern: &str| pattern == "git *";
    let found = policy.findings(&KnownNames { tools: &tools(), saved, is_wide: &is_wide });
    found.iter().map(|it| format!("{}: {}", it.source, it.message)).collect()
}

use Action::{Allow, Ask, Deny};

#[track_caller]
fn check(rules: &[(Action, &str)], expected: &[&str]) {
    assert_eq!(findings(&Policy::new([layer(LayerKind::User, rules)]), &[]), expected);
}

#[test]
fn good_rules_are_left_alone() {
    check(
        &[
            (Allow, "write(src/**)"),
            (Allow, "bash(cargo test *)"),
            (Allow, "web_fetch(*.rs)"),
            (Ask, "git_push"),
            (Ask, "bash(git push *)"),
            (Deny, "read(private/**)"),
            (Deny, "write(src/gen/**)"),
            (Deny, "bash(cargo test --slow *)"),
        ],
        &[],
    );
}

#[test]
fn a_rule_that_never_applies_is_found_with_the_overriding_rule() {
    check(
        &[(Allow, "bash(git push origin *)"), (Deny, "bash(git *)")],
        &[
            "f:1: allow `bash(git push origin *)` never applies: deny `bash(git *)` (f:2) takes precedence",
        ],
    );
    check(
        &[(Allow, "read(private/a/**)"), (Ask, "read(private)")],
        &[
            "f:1: allow `read(private/a/**)` never applies: ask `read(private)` (f:2) takes precedence",
        ],
    );
    check(
        &[(Ask, "web_*"), (Deny, "w*")],
        &["f:1: ask `web_*` never applies: deny `w*` (f:2) takes precedence"],
    );
    check(
        &[(Allow, "write(.git/hooks/**)")],
        &[
            "f:1: allow `write(.git/hooks/**)` never applies: ask `write(**/.git/**)` (built-in) takes precedence",
        ],
    );
    // Other tools run commands too, so these rules still apply.
    check(&[(Allow, "bash(ls)"), (Deny, "bash")], &[]);
    check(&[(Allow, "read(private)"), (Deny, "read(private/a)")], &[]);
    check(&[(Allow, "read(/etc/x)"), (Deny, "read(etc)")], &[]);
    // These leave something uncovered: `a/x/y/b`, and the bare `make`.
    check(&[(Allow, "read(a/**/b)"), (Deny, "read(a/*/b)")], &[]);
    check(&[(Allow, "bash(make *)"), (Deny, "bash(make **)")], &[]);
    check(&[(Allow, "hello"), (Allow, "hello")], &["f:2: allow `hello` repeats the rule at f:1"]);
}

#[test]
fn an_agents_rule_is_overridden_by_a_general_rule_and_not_the_other_way_round() {
    let mut user = layer(LayerKind::User, &[(Deny, "bash(git *)"), (Allow, "hello")]);
    let rules = vec![rule(Allow, "bash(git log)", 8), rule(Deny, "hello", 9)];
    let agent = "bot".to_owned();
    user.agents =
        vec![super::super::AgentRules { agent, mode: None, profile: Some("no".into()), rules }];
    assert_eq!(
        findings(&Policy::new([user]), &[]),
        [
            "f:8: allow `bash(git log)` never applies: deny `bash(git *)` (f:1) takes precedence",
            "f: agent `bot` cannot use any tool: unknown profile `no`",
        ]
    );
}

#[test]
fn a_project_that_is_not_trusted_grants_nothing() {
    let project = layer(LayerKind::Project, &[(Allow, "bash"), (Deny, "hello")]);
    assert_eq!(
        findings(&Policy::new([project]), &[]),
        ["f:1: allow `bash` has no effect: a project may only restrict until you trust it"]
    );
}

#[test]
fn names_that_fit_no_tool_are_found() {
    check(&[(Deny, "helo")], &["f:1: deny `helo` matches no tool"]);
    let mut policy = Policy::default();
    let source = Source { file: "f".into(), line: Some(4) };
    policy.profiles.insert("mine", super::super::Profile::new(["read", "!wrte"], source));
    assert_eq!(findings(&policy, &[]), ["f:4: `!wrte` in profile `mine` matches no tool"]);
}

#[test]
fn what_is_too_wide_is_found() {
    for text in [
        "bash",
        "*",
        "b*",
        "bash(*)",
        "*(*)",
        "bash(git *)",
        "write(**)",
        "read(/**)",
        "web_fetch(*)",
    ] {
        let found = findings(&Policy::new([layer(LayerKind::User, &[(Allow, text)])]), &[]);
        assert!(matches!(&found[..], [one] if one.contains("is very wide")), "{text}: {found:?}");
        check(&[(Deny, text)], &[]);
    }
    for text in ["hello", "read", "web_*", "bash(git log *)", "read(/etc/**)", "write(a*)"] {
        check(&[(Allow, text)], &[]);
    }
}

#[test]
fn a_saved_rule_that_a_written_one_overrules_is_found() {
    let saved = |rule: &str| SavedRule {
        id: "rule_1".to_owned(),
        rule: rule.to_owned(),
        ..SavedRule::all_of(
            "s",
            "ada",
            &crate::Remember {
                rules: vec!["hello".to_owned()],
                scope: Scope::User,
                expires_ms: None,
            },
        )
        .expect("a rule")
        .remove(0)
    };
    let policy = Policy::new([layer(LayerKind::User, &[(Ask, "bash(git push *)")])]);
    assert_eq!(findings(&policy, &[saved("bash(git log)")]), [""; 0]);
    assert_eq!(
        findings(&policy, &[saved("bash(git push origin)")]),
        [
            "saved rule_1: allow `bash(git push origin)` never applies: ask `bash(git push *)` (f:1) takes precedence"
        ]
    );
    assert_eq!(findings(&policy, &[saved("bash(")]).len(), 1, "saved by another version, perhaps");
}

fn any_rule() -> impl Strategy<Value = String> {
    let names = vec!["bash", "read", "write", "web_fetch", "edit", "*", "e*", "git_*"];
    let argument = prop_oneof![
        "(a|b|\\*|\\*\\*|a\\*)(/(a|b|\\*|\\*\\*|a\\*|a\\?)){0,2}",
        "(git|ls|\\*|git \\*|git a \\*|git a|git \\* a|g\\*)",
        "(/a|/\\*\\*|/a/\\*|\\*\\.rs|docs\\.rs)",
    ];
    (prop::sample::select(names), prop::option::weighted(0.8, argument)).prop_map(
        |(name, argument)| match argument {
            Some(argument) => format!("{name}({argument})"),
            None => name.to_owned(),
        },
    )
}

fn any_access() -> impl Strategy<Value = Access> {
    let path = "/?(a|b|aa|\\.)(/(a|b|ab)){0,3}";
    prop_oneof![
        path.prop_map(|path| Access::Read(path.into())),
        path.prop_map(|path| Access::Write(path.into())),
        "(git|git a|git b|git a b|git b a|ls)".prop_map(Access::Run),
        "(docs\\.rs|x\\.rs|a)".prop_map(Access::Fetch),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A rule that is reported as never applying does not apply, for any tool and any access.
    #[test]
    fn a_rule_that_covers_another_applies_wherever_that_one_does(
        outer in any_rule(),
        inner in any_rule(),
        accesses in prop::collection::vec(any_access(), 8),
    ) {
        let (outer, inner) = (rule(Deny, &outer, 1), rule(Allow, &inner, 2));
        let tools = tools();
        if !covers(&outer, &inner, &tools) {
            return Ok(());
        }
        let roots = WorkspaceRoots { workspace: "/w".into(), named: Vec::new() };
        for tool in &tools {
            for access in accesses.iter().filter(|access| tool.needs_power(access.power())) {
                let speaks = |rule: &Rule| rule.touches(&tool.name, access, &roots);
                prop_assert!(!speaks(&inner) || speaks(&outer), "{} by {}", access, tool.name);
            }
            prop_assert!(!inner.names_tool(&tool.name) || outer.names_tool(&tool.name));
        }
    }
}
