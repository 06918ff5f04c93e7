//! Properties of the whole gate: a saved rule never overrides a written one, and a sub-agent never
//! does what an agent above it may not.

use proptest::prelude::*;

use super::*;
use crate::{MemoryRules, policy::AgentRules};

fn block<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(future)
}

/// A written rule, for all callers or for the agent `bot`.
#[derive(Clone, Debug)]
struct TestRule {
    kind: LayerKind,
    action: Action,
    text: &'static str,
    is_for_agent: bool,
}

impl TestRule {
    fn policy(&self, mode: Mode) -> Policy {
        let source = Source { file: "written.toml".into(), line: Some(1) };
        let rule = Rule::parse(self.action, self.text, source).expect("a rule");
        let mut layer = Layer::new(self.kind, "written.toml");
        if self.is_for_agent {
            let agent = "bot".to_owned();
            layer.agents.push(AgentRules { agent, mode: None, profile: None, rules: vec![rule] });
        } else {
            layer.rules.push(rule);
        }
        Policy::new([user_layer(mode, &[]), layer])
    }
}

fn written() -> impl Strategy<Value = TestRule> {
    let kinds = vec![LayerKind::Admin, LayerKind::User, LayerKind::Project, LayerKind::Session];
    // All of them match the call that is made.
    let texts = vec!["write", "*", "w*", "write(src/**)", "write(**)", "*(src/a)", "write(/w/src)"];
    let actions = vec![Action::Ask, Action::Deny];
    let parts = (
        prop::sample::select(kinds),
        prop::sample::select(actions),
        prop::sample::select(texts),
        any::<bool>(),
    );
    parts.prop_map(|(kind, action, text, is_for_agent)| TestRule {
        kind,
        action,
        text,
        is_for_agent,
    })
}

fn remember() -> impl Strategy<Value = Remember> {
    let texts = vec!["write", "*", "write(src/a)", "write(src/**)", "*(*)", "write(**)"];
    let scopes = vec![Scope::Session, Scope::Project, Scope::User];
    (prop::sample::select(texts), prop::sample::select(scopes)).prop_map(|(text, scope)| Remember {
        rules: vec![text.to_owned()],
        scope,
        expires_ms: None,
    })
}

/// Makes the call as the agent, in a gate with these rules; `remember` is what the approver would
/// save.
fn outcome(policy: Policy, rules: &Arc<MemoryRules>, remember: Option<&Remember>) -> Outcome {
    let ran = Arc::default();
    let mut gate = builder([writer(&ran)]).policy(policy).saved_rules(rules.clone());
    if let Some(remember) = remember {
        let verdict = ApprovalDecision {
            remember: Some(remember.clone()),
            ..ApprovalDecision::approve("ada", "t")
        };
        gate = gate.handler(TestApprover::deciding(Some(verdict)));
    }
    let mut request = call("write", json!({"path": "src/a"}));
    request.context.agents = vec!["bot".to_owned()];
    block(gate.build().call(request))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Wherever the rule is written, and whether it was written before or after the approval.
    #[test]
    fn a_saved_allow_never_overrides_a_written_ask_or_deny(
        written in written(),
        remember in remember(),
        is_written_first in any::<bool>(),
    ) {
        let rules = Arc::new(MemoryRules::default());
        let lax = || Policy::new([user_layer(Mode::Safe, &[])]);
        if is_written_first {
            let first = outcome(written.policy(Mode::Safe), &rules, Some(&remember));
            prop_assert_eq!(first.is_ok(), written.action == Action::Ask);
        } else {
            prop_assert!(outcome(lax(), &rules, Some(&remember)).is_ok());
            prop_assert!(outcome(lax(), &rules, None).is_ok(), "saved, so no further approval is needed");
        }
        for mode in Mode::ALL {
            let again = outcome(written.policy(*mode), &rules, None);
            let expected = match written.action {
                Action::Deny => ErrorKind::Denied,
                _ => ErrorKind::ApprovalUnavailable,
            };
            prop_assert_eq!(kind(&again), expected, "in mode {}", mode);
        }
    }
}

#[test]
fn a_sub_agent_may_do_what_every_agent_above_it_may_and_no_more() {
    let mut layer = user_layer(Mode::Contained, &[]);
    let agent = |name: &str, action, text| AgentRules {
        agent: name.to_owned(),
        mode: None,
        profile: None,
        rules: vec![Rule::parse(action, text, Source::named("f")).expect("a rule")],
    };
    layer.agents =
        vec![agent("strict", Action::Deny, "write"), agent("free", Action::Allow, "write")];
    let policy = Policy::new([layer]);
    for (chain, runs) in [
        (&["free"][..], true),
        (&["strict"], false),
        (&["strict", "free"], false),
        (&["free", "strict"], false),
        (&["free", "other", "free"], true),
    ] {
        let ran = Arc::new(AtomicUsize::new(0));
        let gate = builder([writer(&ran)]).policy(policy.clone()).build();
        let mut request = call("write", json!({"path": "src/a"}));
        request.context.agents = chain.iter().map(ToString::to_string).collect();
        assert_eq!(block(gate.call(request)).is_ok(), runs, "{chain:?}");
        assert_eq!(ran.load(Ordering::SeqCst), usize::from(runs));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_shows_how_many_prompts_a_rule_would_have_avoided() {
    let (ran, person) =
        (Arc::default(), TestApprover::deciding(Some(ApprovalDecision::approve("ada", "t"))));
    let gate = builder([writer(&ran)])
        .policy(Policy::new([user_layer(Mode::Safe, &[])]))
        .handler(person.clone())
        .build();
    for path in ["src/a", "docs/b", "src/c", "src/a"] {
        assert!(gate.call(call("write", json!({"path": path}))).await.is_ok());
    }
    let asked = person.asked.lock();
    let shown = |request: &ApprovalRequest| -> Vec<String> {
        let offers = request.suggestions.iter();
        offers
            .map(|it| format!("{} {:?}", it.rules[0], it.past.map(|it| (it.spared, it.asked))))
            .collect()
    };
    assert_eq!(shown(&asked[0]), ["write(src/a) None", "write(src/**) None"]);
    assert_eq!(shown(&asked[3]), ["write(src/a) Some((1, 3))", "write(src/**) Some((2, 3))"]);
}

/// A ledger that does not answer.
struct Stuck;

impl Ledger for Stuck {
    fn record(&self, _: crate::LedgerEntry) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn newest(&self, _: usize) -> BoxFuture<'_, Result<Vec<crate::LedgerEntry>, ToolError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_ledger_does_not_delay_a_request() {
    let (ran, person) =
        (Arc::default(), TestApprover::deciding(Some(ApprovalDecision::approve("ada", "t"))));
    let gate = builder([writer(&ran)])
        .policy(Policy::new([user_layer(Mode::Safe, &[])]))
        .handler(person.clone())
        .ledger(Arc::new(Stuck))
        .build();
    let begin = Instant::now();
    assert!(gate.call(call("write", json!({"path": "src/a"}))).await.is_ok());
    assert!(begin.elapsed() <= Duration::from_millis(25), "{:?}", begin.elapsed());
    let asked = person.asked.lock();
    assert_eq!(asked[0].suggestions.len(), 2);
    assert_eq!(asked[0].suggestions[0].past, None);
}
