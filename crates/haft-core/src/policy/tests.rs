//! Tests of policy decisions: rules against rules, layers against layers, agents in a chain.

use proptest::prelude::*;

use super::*;
use crate::Power;

fn rule(action: Action, text: &str, file: &str, line: usize) -> Rule {
    let source = Source { file: file.into(), line: Some(line) };
    Rule::parse(action, text, source).expect("a rule")
}

fn layer(kind: LayerKind, rules: &[(Action, &str)]) -> Layer {
    let file = format!("{kind:?}.toml").to_lowercase();
    let mut layer = Layer::new(kind, &file);
    let numbered = rules.iter().enumerate();
    layer.rules = numbered.map(|(at, (action, text))| rule(*action, text, &file, at + 1)).collect();
    layer
}

fn ask(tool: &'static str, accesses: &[Access], policy: &Policy) -> Decision {
    decide_as(policy, tool, accesses, &[])
}

fn decide_as(policy: &Policy, tool: &str, accesses: &[Access], agents: &[&str]) -> Decision {
    let agents: Vec<String> = agents.iter().map(|&agent| agent.to_owned()).collect();
    let effect = accesses.iter().map(|access| access.power().effect()).max();
    policy.decide(&PolicyQuery {
        tool,
        effect: effect.unwrap_or(Effect::Read),
        accesses,
        agents: &agents,
        profile: None,
        saved: &[],
    })
}

fn write(path: &str) -> Access {
    Access::Write(path.into())
}

use Action::{Allow, Ask, Deny};

#[test]
fn deny_beats_ask_beats_allow_whoever_wrote_it() {
    let policy = Policy::new([
        layer(LayerKind::User, &[(Allow, "edit"), (Ask, "edit(docs/**)")]),
        layer(LayerKind::Project, &[(Deny, "write(docs/secret/**)")]),
    ]);
    assert_eq!(ask("edit", &[write("src/a")], &policy).action, Allow);
    assert_eq!(ask("edit", &[write("docs/a")], &policy).action, Ask);
    assert_eq!(ask("edit", &[write("docs/secret/a")], &policy).action, Deny);
    let several = [write("src/a"), write("docs/secret/a")];
    assert_eq!(ask("edit", &several, &policy).action, Deny, "one denied access denies the call");
}

#[test]
fn a_decision_carries_rule_file_line_and_the_smallest_change() {
    let policy = Policy::new([layer(LayerKind::User, &[(Allow, "read"), (Deny, "bash")])]);
    let decision = ask("bash", &[Access::Run("ls".into())], &policy);
    assert_eq!(decision.reason.to_string(), "rule deny `bash` (user.toml:2)");
    assert_eq!(decision.change, "remove or narrow `bash` in `deny` (user.toml:2)");

    let decision = ask("web_fetch", &[Access::Fetch("https://docs.rs/x".into())], &policy);
    assert_eq!(decision.reason.to_string(), "mode `contained`: fetch https://docs.rs/x");
    assert_eq!(
        decision.change,
        "add `allow = [\"web_fetch(docs.rs)\"]` to user.toml, or use `--approve all`"
    );

    let mut strict = layer(LayerKind::User, &[]);
    strict.mode = Some(Mode::Safe);
    let decision = ask("write", &[write("src/a.rs")], &Policy::new([strict]));
    assert_eq!(
        decision.change,
        "add `allow = [\"write(src/a.rs)\"]` to user.toml, or use `--approve contained`"
    );
}

#[test]
fn the_change_that_is_advised_really_alters_the_decision() {
    let fetch = [Access::Fetch("https://docs.rs/x".into())];
    let advised = layer(LayerKind::User, &[(Allow, "web_fetch(docs.rs)")]);
    assert_eq!(ask("web_fetch", &fetch, &Policy::new([advised])).action, Allow);
}

#[test]
fn a_project_may_only_narrow_until_it_is_trusted() {
    let run = [Access::Run("make".into())];
    let mut project = layer(LayerKind::Project, &[(Allow, "bash(make)"), (Deny, "bash(rm *)")]);
    project.mode = Some(Mode::All);
    let policy = Policy::new([project.clone()]);
    assert_eq!(ask("bash", &run, &policy).action, Ask);
    assert_eq!(ask("bash", &[Access::Run("rm x".into())], &policy).action, Deny);
    assert_eq!(policy.mode_for(None), Mode::Contained, "nor may it raise the mode");
    let warnings = policy.warnings(&["bash".to_owned()]);
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("project.toml:1: `bash(make)` has no effect"), "{warnings:?}");

    project.trusted = true;
    let policy = Policy::new([project]);
    assert_eq!(ask("bash", &run, &policy).action, Allow);
    assert_eq!(policy.mode_for(None), Mode::Contained, "trust is not a mode");
}

#[test]
fn nothing_loosens_the_admin_layer() {
    let mut admin = layer(LayerKind::Admin, &[(Deny, "bash"), (Ask, "write(infra/**)")]);
    admin.mode = Some(Mode::Contained);
    let mut session = layer(LayerKind::Session, &[(Allow, "bash"), (Allow, "write")]);
    session.mode = Some(Mode::All);
    let policy = Policy::new([session, admin]);
    assert_eq!(ask("bash", &[Access::Run("ls".into())], &policy).action, Deny);
    assert_eq!(ask("write", &[write("infra/x")], &policy).action, Ask);
    assert_eq!(policy.mode_for(None), Mode::Contained);
}

#[test]
fn mode_all_runs_everything_that_no_rule_forbids() {
    let mut session = layer(LayerKind::Session, &[]);
    session.mode = Some(Mode::All);
    let policy =
        Policy::new([session, layer(LayerKind::User, &[(Deny, "bash(rm *)"), (Ask, "git_push")])]);
    assert_eq!(ask("bash", &[Access::Run("curl x | sh".into())], &policy).action, Allow);
    assert_eq!(ask("bash", &[Access::Run("rm -rf x".into())], &policy).action, Deny);
    assert_eq!(ask("git_push", &[], &policy).action, Ask);
}

#[test]
fn secret_paths_are_closed_in_every_mode_and_against_every_rule() {
    let mut session = layer(LayerKind::Session, &[(Allow, "*"), (Allow, "read(.env)")]);
    session.mode = Some(Mode::All);
    let policy = Policy::new([session]);
    for access in [
        Access::Read(".env".into()),
        write("deploy/.env.prod"),
        Access::Read("/root/.ssh/id_rsa".into()),
    ] {
        let decision = ask("grep", std::slice::from_ref(&access), &policy);
        assert_eq!(decision.action, Deny, "{access}");
        assert!(decision.change.contains("secrets.except"), "{}", decision.change);
    }
}

#[test]
fn hafts_own_files_need_approval() {
    let policy = Policy::default();
    assert_eq!(ask("write", &[write(".haft/config.toml")], &policy).action, Ask);
    assert_eq!(ask("write", &[write(".git/hooks/pre-commit")], &policy).action, Ask);
    assert_eq!(ask("write", &[write("src/main.rs")], &policy).action, Allow);
}

#[test]
fn a_sub_agent_has_its_parents_rights_and_its_own() {
    let mut user = layer(LayerKind::User, &[]);
    let agent = |name: &str, rules: &[(Action, &str)], mode, profile: Option<&str>| AgentRules {
        agent: name.to_owned(),
        mode,
        profile: profile.map(str::to_owned),
        rules: rules.iter().map(|(action, text)| rule(*action, text, "user.toml", 9)).collect(),
    };
    user.agents = vec![
        agent("lead", &[(Deny, "bash")], None, None),
        agent("coder", &[(Allow, "bash")], None, None),
        agent("reader", &[], Some(Mode::Safe), Some("researcher")),
    ];
    let mut policy = Policy::new([user]);
    policy.profiles.add("read", &["researcher"]);
    let run = [Access::Run("ls".into())];
    assert_eq!(decide_as(&policy, "bash", &run, &["coder"]).action, Allow);
    let below_lead = decide_as(&policy, "bash", &run, &["lead", "coder"]);
    assert_eq!(below_lead.action, Deny);
    assert_eq!(below_lead.agent.as_deref(), Some("lead"));
    let read = [Access::Read("a".into())];
    assert_eq!(decide_as(&policy, "read", &read, &["reader"]).action, Allow);
    let outside = decide_as(&policy, "write", &[write("a")], &["reader"]);
    assert_eq!(outside.action, Deny);
    assert_eq!(outside.reason.to_string(), "not in profile `researcher` (built-in)");
    assert_eq!(decide_as(&policy, "bash", &run, &["coder", "reader"]).action, Deny);
}

#[test]
fn an_unknown_profile_denies() {
    let policy = Policy::default();
    let query = PolicyQuery {
        tool: "read",
        effect: Effect::Read,
        accesses: &[],
        agents: &[],
        profile: Some("no_such"),
        saved: &[],
    };
    let decision = policy.decide(&query);
    assert_eq!(decision.action, Deny);
    assert_eq!(decision.reason.to_string(), "unknown profile `no_such`");
}

#[test]
fn a_saved_allow_never_beats_a_written_ask_or_deny() {
    let policy =
        Policy::new([layer(LayerKind::User, &[(Ask, "bash(git push *)"), (Deny, "bash(rm *)")])]);
    let saved = [rule(Allow, "bash", "saved", 1), rule(Allow, "bash(rm x)", "saved", 2)];
    let decide = |command: &str| {
        let accesses = [Access::Run(command.to_owned())];
        let query = PolicyQuery {
            tool: "bash",
            effect: Effect::Execute,
            accesses: &accesses,
            agents: &[],
            profile: None,
            saved: &saved,
        };
        policy.decide(&query).action
    };
    assert_eq!(decide("cargo test"), Allow);
    assert_eq!(decide("git push origin"), Ask);
    assert_eq!(decide("rm x"), Deny);
}

#[test]
fn every_access_must_be_covered() {
    let policy = Policy::new([layer(LayerKind::User, &[(Allow, "bash(git push *)")])]);
    let push = Access::Run("git push origin".into());
    assert_eq!(ask("git_push", std::slice::from_ref(&push), &policy).action, Allow);
    let with_net = [push, Access::Fetch("github.example".into())];
    assert_eq!(ask("git_push", &with_net, &policy).action, Ask);
}

#[test]
fn denied_tools_and_tools_outside_the_profile_are_not_shown() {
    let policy = Policy::new([layer(LayerKind::User, &[(Deny, "bash"), (Ask, "write")])]);
    assert!(!policy.is_visible("bash", &[], None));
    assert!(policy.is_visible("write", &[], None));
    assert!(!policy.is_visible("write", &[], Some("researcher")));
}

#[test]
fn each_access_has_its_own_verdict() {
    let policy = Policy::new([layer(LayerKind::User, &[(Ask, "bash(git push *)")])]);
    let accesses =
        [Access::Run("git push origin".into()), Access::Read(".env".into()), write("src/a")];
    let query = PolicyQuery {
        tool: "bash",
        effect: Effect::Execute,
        accesses: &accesses,
        agents: &[],
        profile: None,
        saved: &[],
    };
    let verdicts = policy.access_decisions(&query);
    let shown: Vec<String> = verdicts
        .iter()
        .map(|it| format!("{} {}: {}", it.decision.action, it.access, it.decision.reason))
        .collect();
    assert_eq!(
        shown,
        [
            "ask run git push origin: rule ask `bash(git push *)` (user.toml:1)",
            "deny read .env: read .env: `.env` is a secret path (built-in)",
            "allow write src/a: mode `contained`",
        ]
    );
}

#[test]
fn a_file_that_a_command_names_is_judged_as_the_commands_alone_too() {
    let policy = Policy { sandbox: SandboxCheck::new(|| true), ..Policy::default() };
    let (text, risk, rule_texts) = ("cat /etc/hosts".into(), crate::CommandRisk::Other, Vec::new());
    let command = Access::Command(Box::new(crate::ParsedCommand {
        text,
        risk,
        rule_texts,
        spellings: Vec::new(),
        known_prefixes: Vec::new(),
    }));
    let accesses = [command, Access::Read("/etc/hosts".into())];
    let (agents, saved, effect) = (&[], &[], Effect::Execute);
    let query =
        PolicyQuery { tool: "bash", effect, accesses: &accesses, agents, profile: None, saved };
    assert_eq!(policy.decide(&query).action, Allow, "the sandbox holds it");
    let verdicts = policy.access_decisions(&query);
    assert!(verdicts.iter().all(|verdict| verdict.decision.action == Allow), "{verdicts:?}");
}

fn offers(policy: &Policy, tool: &str, accesses: &[Access]) -> Vec<Vec<String>> {
    let (agents, saved) = (&[], &[]);
    let effect = Effect::Execute;
    policy.offers(&PolicyQuery { tool, effect, accesses, agents, profile: None, saved })
}

#[test]
fn what_is_offered_covers_all_that_was_asked_about_and_nothing_else() {
    let policy = Policy::default();
    let push = Access::Run("git push origin main".into());
    let fetch = Access::Fetch("https://docs.rs/x".into());
    let both = [push.clone(), write("src/a"), fetch];
    assert_eq!(
        offers(&policy, "bash", &both),
        [
            ["bash(git push origin main)", "web_fetch(docs.rs)"],
            ["bash(git push *)", "web_fetch(docs.rs)"],
        ]
    );
    assert_eq!(offers(&policy, "bash", &[Access::Any(Power::Net)]), [["bash(net)"]]);
    assert_eq!(offers(&policy, "hello", &[]), [["hello"]]);
    let none = Vec::<Vec<String>>::new();
    assert_eq!(offers(&policy, "hello", &[write("src/a")]), none, "no approval is needed");
    // A saved rule would have no effect here, so none is offered.
    let asks = Policy::new([layer(LayerKind::User, &[(Ask, "bash(git *)")])]);
    assert_eq!(offers(&asks, "bash", &[push]), none);
}

#[test]
fn the_effective_mode_names_its_source() {
    let mut user = layer(LayerKind::User, &[]);
    user.mode = Some(Mode::All);
    let mut project = layer(LayerKind::Project, &[]);
    project.mode = Some(Mode::Safe);
    let shown = |policy: &Policy| {
        let EffectiveMode { mode, by, asked } = policy.effective_mode(None);
        format!("{mode} by {by}, asked {asked}")
    };
    assert_eq!(shown(&Policy::default()), "contained by built-in, asked contained");
    assert_eq!(shown(&Policy::new([user.clone()])), "all by user.toml, asked all");
    assert_eq!(
        shown(&Policy::new([user.clone(), project.clone()])),
        "safe by project.toml, asked all"
    );
    user.mode = Some(Mode::Safe);
    assert_eq!(
        shown(&Policy::new([user, project])),
        "safe by user.toml, asked safe",
        "no layer lowered it"
    );
}

fn any_access() -> impl Strategy<Value = Access> {
    let path = "(src|docs|\\.env|/etc|\\.\\.)(/[a-c]{1,2}){0,2}";
    prop_oneof![
        path.prop_map(|p| Access::Read(p.into())),
        path.prop_map(|p| Access::Write(p.into())),
        "(git status|rm -rf /|ls; x)".prop_map(Access::Run),
        "(docs\\.rs|evil\\.example)".prop_map(Access::Fetch),
        prop::sample::select(vec![Power::Tools, Power::Net, Power::Host, Power::WriteFiles])
            .prop_map(Access::Any),
    ]
}

fn any_rule() -> impl Strategy<Value = (Action, &'static str)> {
    let texts = vec![
        "*",
        "read",
        "write",
        "bash",
        "read(src/**)",
        "write(docs/**)",
        "bash(git status *)",
        "*(*)",
        "web_fetch(docs.rs)",
        "write(**)",
    ];
    (prop::sample::select(vec![Allow, Ask, Deny]), prop::sample::select(texts))
}

fn any_layer(kind: LayerKind) -> impl Strategy<Value = Layer> {
    let mode = prop::option::of(prop::sample::select(Mode::ALL.to_vec()));
    (prop::collection::vec(any_rule(), 0..4), mode).prop_map(move |(rules, mode)| {
        let mut layer = layer(kind, &rules);
        layer.mode = mode;
        layer
    })
}

fn any_tool() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["read", "write", "bash", "web_fetch", "hello"])
}

proptest! {
    /// An admin, project or agent layer never makes a decision less strict.
    #[test]
    fn layers_that_may_only_narrow_only_narrow(
        user in any_layer(LayerKind::User),
        project in any_layer(LayerKind::Project),
        tool in any_tool(),
        accesses in prop::collection::vec(any_access(), 0..3),
    ) {
        let without = ask(tool, &accesses, &Policy::new([user.clone()]));
        let with = ask(tool, &accesses, &Policy::new([user, project]));
        prop_assert!(with.action >= without.action, "{without:?} became {with:?}");
    }

    /// A sub-agent never has a right that its parent lacks.
    #[test]
    fn a_chain_is_as_strict_as_its_strictest_member(
        user in any_layer(LayerKind::User),
        rules in prop::collection::vec(any_rule(), 0..4),
        tool in any_tool(),
        accesses in prop::collection::vec(any_access(), 0..3),
    ) {
        let mut user = user;
        user.agents = vec![AgentRules {
            agent: "child".into(),
            mode: None,
            profile: None,
            rules: rules.iter().map(|(action, text)| rule(*action, text, "user.toml", 1)).collect(),
        }];
        let policy = Policy::new([user]);
        let parent = decide_as(&policy, tool, &accesses, &["parent"]);
        let chain = decide_as(&policy, tool, &accesses, &["parent", "child"]);
        prop_assert!(chain.action >= parent.action);
    }

    /// Deny is absolute: no other rule, mode or saved approval overrides it.
    #[test]
    fn a_deny_rule_is_never_overridden(
        layers in (any_layer(LayerKind::User), any_layer(LayerKind::Session), any_layer(LayerKind::Project)),
        tool in any_tool(),
        accesses in prop::collection::vec(any_access(), 0..3),
        saved in prop::collection::vec(any_rule(), 0..3),
    ) {
        let admin = layer(LayerKind::Admin, &[(Deny, "bash"), (Deny, "write(docs/**)")]);
        let policy = Policy::new([layers.0, layers.1, layers.2, admin]);
        let saved: Vec<Rule> = saved.iter().map(|(_, text)| rule(Allow, text, "saved", 1)).collect();
        let query = PolicyQuery {
            tool, effect: Effect::Read, accesses: &accesses, agents: &[], profile: None, saved: &saved,
        };
        let is_denied = tool == "bash"
            || accesses.iter().any(|access| matches!(access, Access::Write(path) if path.starts_with("docs")));
        if is_denied {
            prop_assert_eq!(policy.decide(&query).action, Deny);
        }
    }

    /// For any chain of agents the decision is the strictest of its members'.
    #[test]
    fn a_chain_of_any_length_decides_as_its_strictest_member(
        user in any_layer(LayerKind::User),
        project in any_layer(LayerKind::Project),
        members in prop::collection::vec(
            (prop::collection::vec(any_rule(), 0..3), prop::option::of(prop::sample::select(Mode::ALL.to_vec())), any::<bool>()),
            1..5,
        ),
        tool in any_tool(),
        accesses in prop::collection::vec(any_access(), 0..3),
    ) {
        let mut user = user;
        let names: Vec<String> = (0..members.len()).map(|number| format!("agent{number}")).collect();
        for (name, (rules, mode, is_reviewer)) in names.iter().zip(members) {
            let rules = rules.iter().map(|(action, text)| rule(*action, text, "user.toml", 1)).collect();
            let profile = is_reviewer.then(|| "reviewer".to_owned());
            user.agents.push(AgentRules { agent: name.clone(), mode, profile, rules });
        }
        let policy = Policy::new([user, project]);
        let chain: Vec<&str> = names.iter().map(String::as_str).collect();
        let strictest = chain.iter().map(|name| decide_as(&policy, tool, &accesses, &[name]).action).max();
        prop_assert_eq!(Some(decide_as(&policy, tool, &accesses, &chain).action), strictest);
    }

    /// Saved rules only replace approvals that the mode requires.
    #[test]
    fn saved_rules_alter_only_what_the_mode_asks_for(
        layers in (any_layer(LayerKind::User), any_layer(LayerKind::Session), any_layer(LayerKind::Project), any_layer(LayerKind::Admin)),
        tool in any_tool(),
        accesses in prop::collection::vec(any_access(), 0..3),
        saved in prop::collection::vec(any_rule(), 1..4),
    ) {
        let policy = Policy::new([layers.0, layers.1, layers.2, layers.3]);
        let saved: Vec<Rule> = saved.iter().map(|(_, text)| rule(Allow, text, "saved", 1)).collect();
        let query = PolicyQuery {
            tool, effect: Effect::Write, accesses: &accesses, agents: &[], profile: None, saved: &[],
        };
        let without = policy.decide(&query);
        let with = policy.decide(&PolicyQuery { saved: &saved, ..query });
        let is_asked_by_mode = without.action == Ask && matches!(without.reason, Reason::Mode { .. });
        if is_asked_by_mode {
            prop_assert!(with.action <= Ask);
        } else {
            prop_assert_eq!(with.action, without.action);
        }
    }

    /// The decisions for single accesses agree with the decision for the call.
    #[test]
    fn the_strictest_verdict_on_an_access_is_the_decision(
        layers in (any_layer(LayerKind::User), any_layer(LayerKind::Session), any_layer(LayerKind::Project)),
        tool in any_tool(),
        accesses in prop::collection::vec(any_access(), 1..4),
        agents in prop::collection::vec(prop::sample::select(vec!["a".to_owned(), "b".to_owned()]), 0..3),
        saved in prop::collection::vec(any_rule(), 0..3),
    ) {
        let policy = Policy::new([layers.0, layers.1, layers.2]);
        let saved: Vec<Rule> = saved.iter().map(|(_, text)| rule(Allow, text, "saved", 1)).collect();
        let query = PolicyQuery {
            tool, effect: Effect::Read, accesses: &accesses, agents: &agents, profile: None, saved: &saved,
        };
        let verdicts = policy.access_decisions(&query);
        prop_assert_eq!(verdicts.len(), accesses.len());
        let strictest = verdicts.iter().map(|verdict| verdict.decision.action).max();
        prop_assert_eq!(strictest, Some(policy.decide(&query).action));
    }

    /// Every offered set of rules makes the approval unnecessary.
    #[test]
    fn every_offer_makes_the_approval_unnecessary(
        user in any_layer(LayerKind::User),
        tool in any_tool(),
        accesses in prop::collection::vec(any_access(), 0..4),
    ) {
        let policy = Policy::new([user]);
        let query = PolicyQuery {
            tool, effect: Effect::Write, accesses: &accesses, agents: &[], profile: None, saved: &[],
        };
        for offer in policy.offers(&query) {
            let saved: Vec<Rule> = offer.iter().map(|text| rule(Allow, text, "saved", 1)).collect();
            let with = PolicyQuery { saved: &saved, ..query };
            prop_assert_eq!(policy.decide(&with).action, Allow, "{:?}", offer);
        }
    }

    /// A directory grant never opens a path that would not be allowed by name.
    #[test]
    fn opening_is_as_strict_as_asking(user in any_layer(LayerKind::User), access in any_access()) {
        let policy = Policy::new([user]);
        let accesses = [access];
        let query = PolicyQuery {
            tool: "grep", effect: Effect::Read, accesses: &accesses, agents: &[], profile: None, saved: &[],
        };
        if policy.decide(&query).action == Deny {
            prop_assert!(policy.check_open(&query, &[Access::Read(".".into())]).is_err());
        }
    }
}

#[test]
fn a_secret_for_a_command_needs_approval_unless_a_rule_names_it() {
    let secret = Access::Secret { name: "KEY".to_owned(), command: "gh pr list".to_owned() };
    let call = [Access::Run("gh pr list".into()), secret];
    let decided = |rules: &[(Action, &str)], mode: Mode| {
        let mut layer = layer(LayerKind::User, rules);
        layer.mode = Some(mode);
        ask("bash", &call, &Policy::new([layer]))
    };
    for mode in Mode::ALL {
        for rules in [&[][..], &[(Allow, "bash")], &[(Allow, "bash(*)"), (Allow, "*")]] {
            assert_eq!(decided(rules, *mode).action, Ask, "{mode} {rules:?}");
        }
        let named = [(Allow, "bash(gh *)"), (Allow, "secret(KEY: gh *)")];
        assert_eq!(decided(&named, *mode).action, Allow, "{mode}");
        let other = [(Allow, "bash"), (Allow, "secret(OTHER)")];
        assert_eq!(decided(&other, *mode).action, Ask, "{mode}");
        let denied = [(Allow, "secret(KEY)"), (Deny, "secret(*)")];
        assert_eq!(decided(&denied, *mode).action, Deny, "{mode}");
    }
    let change = decided(&[], Mode::All).change;
    assert_eq!(change, "add `allow = [\"secret(KEY: gh pr list)\"]` to user.toml");
}

#[test]
fn a_saved_rule_for_a_secret_names_the_secret_and_the_command() {
    let secret = Access::Secret { name: "KEY".to_owned(), command: "gh pr list".to_owned() };
    let mut layer = layer(LayerKind::User, &[(Allow, "bash(gh *)")]);
    layer.mode = Some(Mode::All);
    let policy = Policy::new([layer]);
    let accesses = [Access::Run("gh pr list".into()), secret];
    let query = PolicyQuery {
        tool: "bash",
        effect: Effect::Execute,
        accesses: &accesses,
        agents: &[],
        profile: None,
        saved: &[],
    };
    assert_eq!(policy.offers(&query), [["secret(KEY: gh pr list)"]]);
    let saved = [rule(Allow, "secret(KEY: gh pr list)", "saved", 1)];
    assert_eq!(policy.decide(&PolicyQuery { saved: &saved, ..query }).action, Allow);
}

#[test]
fn what_lies_outside_is_closed_to_links_where_the_mode_asks() {
    let with_mode = |mode: Mode, rules: &[(Action, &str)]| {
        let mut user = layer(LayerKind::User, rules);
        user.mode = Some(mode);
        Policy::new([user])
    };
    let closes = |policy: &Policy, path: &str| policy.closes(Path::new(path), false);
    for mode in [Mode::None, Mode::Safe, Mode::Contained] {
        let policy = with_mode(mode, &[]);
        assert!(closes(&policy, "/etc/passwd") && !closes(&policy, "src/a"), "{mode}");
        let allowed = with_mode(mode, &[(Allow, "read(/etc/**)")]);
        assert!(!closes(&allowed, "/etc/passwd") && closes(&allowed, "/var/x"), "{mode}");
    }
    assert!(!closes(&with_mode(Mode::All, &[]), "/etc/passwd"));
    let mut narrow = layer(LayerKind::User, &[]);
    narrow.mode = Some(Mode::All);
    let agent = "a".to_owned();
    narrow.agents.push(AgentRules {
        agent,
        mode: Some(Mode::Safe),
        profile: None,
        rules: Vec::new(),
    });
    assert!(closes(&Policy::new([narrow]), "/etc/passwd"));
}
