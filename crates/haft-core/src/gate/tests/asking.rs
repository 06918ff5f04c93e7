//! Approval requests: when a call needs one, what it shows, and what a decision does.

use super::*;
use crate::{CommandRisk, ParsedCommand};

#[tokio::test]
async fn without_an_approver_the_call_is_refused() {
    let ran = Arc::default();
    let policy = || Policy::new([user_layer(Mode::Safe, &[])]);
    let gate = builder([writer(&ran)]).policy(policy()).build();
    let outcome = gate.call(call("write", json!({"path": "a"}))).await;
    assert_eq!(kind(&outcome), ErrorKind::ApprovalUnavailable);
    let hint = outcome.error.expect("failed").hint;
    assert!(hint.contains("allow = [\"write(a)\"]"), "{hint}");

    let closed =
        builder([writer(&ran)]).policy(policy()).handler(TestApprover::deciding(None)).build();
    let outcome = closed.call(call("write", json!({"path": "a"}))).await;
    assert_eq!(kind(&outcome), ErrorKind::ApprovalUnavailable);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_approval_runs_exactly_what_was_shown() {
    let ran = Arc::default();
    let person = TestApprover::deciding(Some(ApprovalDecision::approve("ada", "test")));
    let ledger = Arc::new(MemoryLedger::default());
    let gate = builder([writer(&ran)])
        .policy(Policy::new([user_layer(Mode::Safe, &[])]))
        .handler(person.clone())
        .ledger(ledger.clone())
        .build();
    let outcome = gate.call(call("write", "{'path': 'src/a.rs',}".to_owned())).await;
    assert!(outcome.is_ok(), "{}", outcome.content);
    let asked = person.asked.lock();
    assert_eq!(asked.len(), 1);
    assert_eq!(outcome.content, asked[0].input.to_string());
    assert_eq!(asked[0].accesses, [Access::Write("src/a.rs".into())]);
    assert_eq!(asked[0].confirmation.message, "Write: write src/a.rs");
    assert_eq!(asked[0].confirmation.effect, Effect::Write);
    let offered: Vec<&[String]> = asked[0].suggestions.iter().map(|it| &*it.rules).collect();
    assert_eq!(offered, [["write(src/a.rs)"], ["write(src/**)"]]);
    assert_eq!(asked[0].suggestions[0].past, None, "nothing is recorded yet");
    assert!(asked[0].reason.contains("mode `safe`: "), "{}", asked[0].reason);
    assert_eq!(ledger.entries()[0].verdict.as_ref().map(|v| v.by.as_str()), Some("ada"));
}

#[tokio::test]
async fn the_approver_sees_the_previewed_change() {
    let previews: [(TestPreview, Preview); 3] = [
        (|call| Some(format!("-{}", call.raw_input()["path"])), Preview::Diff("-\"a\"".into())),
        (|_| None, Preview::Input("{\n  \"path\": \"a\"\n}".into())),
        (|_| panic!("no access_lookup"), Preview::Input("{\n  \"path\": \"a\"\n}".into())),
    ];
    for (preview, expected) in previews {
        let ran = Arc::new(AtomicUsize::new(0));
        let person = TestApprover::deciding(Some(ApprovalDecision::deny("ada", "test", None)));
        let probe = Probe { preview, ..writer(&ran) };
        let policy = Policy::new([user_layer(Mode::Safe, &[])]);
        let gate = builder([probe]).policy(policy).handler(person.clone()).build();
        gate.call(call("write", json!({"path": "a"}))).await;
        let asked = person.asked.lock();
        assert_eq!(asked[0].preview, expected);
        assert_eq!(ran.load(Ordering::SeqCst), 0);
    }
}

/// Paths as the file executor gives them: confined, with a link that leads out of the workspace.
struct ConfinedPaths;

impl crate::ResolvePath for ConfinedPaths {
    fn resolve(&self, path: &std::path::Path) -> std::path::PathBuf {
        if path.ends_with("link") { "/etc/passwd".into() } else { path.to_owned() }
    }

    fn resolve_name(&self, path: &std::path::Path) -> std::path::PathBuf {
        path.to_owned()
    }

    fn is_confined(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn no_approval_is_requested_for_paths_that_file_tools_cannot_reach() {
    let ran = Arc::new(AtomicUsize::new(0));
    let person = TestApprover::deciding(Some(ApprovalDecision::approve("ada", "test")));
    let shell = echo()
        .touching(|_| vec![Access::Read("/etc/passwd".into())])
        .with(|spec| *spec = spec.clone().needs([Power::Shell]));
    let policy = Policy::new([user_layer(Mode::None, &[])]);
    let gate = builder([writer(&ran), shell])
        .policy(policy)
        .paths(Arc::new(ConfinedPaths))
        .handler(person.clone())
        .build();
    for (path, words) in [
        ("link", "`link` leads to `/etc/passwd`, outside the workspace /w"),
        ("/etc/x", "`/etc/x` is outside the workspace /w"),
    ] {
        let outcome = gate.call(call("write", json!({"path": path}))).await;
        assert_eq!(kind(&outcome), ErrorKind::Denied);
        assert!(outcome.content.contains(words), "{}", outcome.content);
    }
    assert_eq!(person.asked.lock().len(), 0);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let outcome = gate.call(call("echo", json!({}))).await;
    assert!(outcome.is_ok(), "a command may be approved: {}", outcome.content);
}

#[tokio::test]
async fn a_link_that_is_meant_itself_is_judged_as_itself() {
    let ledger = Arc::new(MemoryLedger::default());
    let remover = writer(&Arc::default()).with(|spec| spec.keeps_links = true);
    // Like every program with a reader for commands: policy judges what is in them.
    let gate = builder([remover])
        .policy(Policy::new([user_layer(Mode::All, &[])]))
        .paths(Arc::new(ConfinedPaths))
        .command_reader(Arc::new(|_| Vec::new()))
        .ledger(ledger.clone())
        .build();
    let outcome = gate.call(call("write", json!({"path": "link"}))).await;
    assert!(outcome.is_ok(), "{}", outcome.content);
    assert_eq!(ledger.entries()[0].accesses, [Access::Write("link".into())]);
}

#[tokio::test]
async fn a_text_is_read_once_and_the_tool_gets_what_was_read() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let shell = Probe::new("shell", |call| async move {
        let text = call.raw_input()["path"].as_str().unwrap_or_default();
        let read = call.grants().parsed_script(text).expect("it was read");
        let writes = call.grants().has(Power::WriteFiles);
        Ok(Reply::text(format!("looks: {}, writes: {writes}", read.is_read_only())))
    })
    .touching(|input| {
        let text = input["path"].as_str().unwrap_or_default();
        vec![Access::Run(text.into()), Access::Any(Power::WriteFiles)]
    })
    .with(|spec| {
        let writing = Need { power: Power::WriteFiles, optional: true };
        spec.needs = vec![Need::required(Power::Shell), writing];
    });
    let reader = move |text: &str| {
        counted.fetch_add(1, Ordering::SeqCst);
        let risk = if text == "ls" { CommandRisk::ReadOnly } else { CommandRisk::Other };
        vec![Access::Command(Box::new(ParsedCommand::new(text.to_owned(), risk)))]
    };
    let gate = builder([shell])
        .policy(Policy::new([user_layer(Mode::All, &[])]))
        .command_reader(Arc::new(reader))
        .build();
    for (text, expected) in
        [("ls", "looks: true, writes: false"), ("make", "looks: false, writes: true")]
    {
        assert_eq!(gate.call(call("shell", json!({"path": text}))).await.content, expected);
    }
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_denial_carries_its_note_to_the_model() {
    let ran = Arc::default();
    let no = ApprovalDecision::deny("ada", "test", Some("use the staging folder".to_owned()));
    let gate = builder([writer(&ran)])
        .policy(Policy::new([user_layer(Mode::Safe, &[])]))
        .handler(TestApprover::deciding(Some(no)))
        .build();
    let outcome = gate.call(call("write", json!({"path": "a"}))).await;
    assert_eq!(kind(&outcome), ErrorKind::ApprovalDenied);
    assert!(outcome.content.contains("ada denied"), "{}", outcome.content);
    assert!(outcome.content.contains("use the staging folder"), "{}", outcome.content);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_approval_request_expires() {
    let ran = Arc::default();
    let gate = builder([writer(&ran)])
        .policy(Policy::new([user_layer(Mode::Safe, &[])]))
        .handler(Arc::new(NeverAnswers))
        .build();
    let began = Instant::now();
    let outcome = gate.call(call("write", json!({"path": "a"}))).await;
    assert_eq!(kind(&outcome), ErrorKind::ApprovalExpired);
    assert_eq!(began.elapsed().as_secs(), 600);
    let all = gate.approvals().list(None).await.expect("in memory");
    assert_eq!(all[0].state, ApprovalState::Expired);
}

#[tokio::test]
async fn the_first_decision_wins_and_the_second_is_a_conflict() {
    let ran = Arc::default();
    let gate = builder([writer(&ran)])
        .policy(Policy::new([user_layer(Mode::Safe, &[])]))
        .decided_externally()
        .build();
    let mut events = gate.events().subscribe();
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.call(call("write", json!({"path": "a"}))).await }
    });
    let id = loop {
        match events.next().await.expect("still connected").kind {
            CallEventKind::ApprovalAsked(request) => break request.id.clone(),
            _ => continue,
        }
    };
    let approvals = gate.approvals();
    let approval = ApprovalDecision::approve("ada", "console");
    approvals.settle(&id, ApprovalState::Approved, Some(approval)).await.expect("the first");
    let no = ApprovalDecision::deny("bob", "console", None);
    let second = approvals.settle(&id, ApprovalState::Denied, Some(no)).await.expect_err("late");
    assert_eq!(second.kind(), ErrorKind::Conflict);
    assert!(second.message().contains("already approved by ada via console"), "{second}");
    assert!(waiting.await.expect("not cancelled").is_ok());
    let again = gate.resume(&id, Context::new("s")).await.expect_err("it has run already");
    assert_eq!(again.kind(), ErrorKind::Conflict);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_pending_call_runs_once_after_approval() {
    let ran = Arc::default();
    let gate = builder([writer(&ran)]).policy(Policy::new([user_layer(Mode::Safe, &[])])).build();
    let Submission::Pending(request) = gate.submit(call("write", json!({"path": "a"}))).await
    else {
        panic!("it must need approval");
    };
    let again = gate.resume(&request.id, Context::new("other")).await.expect("known");
    assert!(matches!(again, Submission::Pending(_)), "not decided yet");
    assert_eq!(ran.load(Ordering::SeqCst), 0);

    let approval = Some(ApprovalDecision::approve("ada", "console"));
    let approvals = gate.approvals();
    approvals.settle(&request.id, ApprovalState::Approved, approval).await.expect("pending");
    let Ok(Submission::Done(outcome)) = gate.resume(&request.id, Context::new("other")).await
    else {
        panic!("it was decided");
    };
    assert!(outcome.is_ok(), "{}", outcome.content);
    let twice = gate.resume(&request.id, Context::new("other")).await.expect_err("only once");
    assert_eq!(twice.kind(), ErrorKind::Conflict);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    let unknown = gate.resume("ask_nothing", Context::new("s")).await.expect_err("unknown");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_denial_holds_even_when_the_rules_have_changed_since() {
    let ran = Arc::default();
    let approvals = Arc::new(MemoryApprovals::default());
    let gate_in = |mode| {
        let policy = Policy::new([user_layer(mode, &[])]);
        builder([writer(&ran)]).policy(policy).approvals(approvals.clone()).build()
    };
    let asking = gate_in(Mode::Safe);
    let Submission::Pending(request) = asking.submit(call("write", json!({"path": "a"}))).await
    else {
        panic!("it must need approval");
    };
    let no = Some(ApprovalDecision::deny("ada", "console", None));
    approvals.settle(&request.id, ApprovalState::Denied, no).await.expect("pending");
    let free = gate_in(Mode::All);
    let Ok(Submission::Done(outcome)) = free.resume(&request.id, Context::new("s")).await else {
        panic!("it was decided");
    };
    assert_eq!(kind(&outcome), ErrorKind::ApprovalDenied);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_saved_rule_is_not_asked_for_again_in_its_session() {
    let ran = Arc::default();
    let mut approval = ApprovalDecision::approve("ada", "test");
    let rules = vec!["write(src/**)".to_owned()];
    approval.remember = Some(Remember { rules, scope: Scope::Session, expires_ms: None });
    let person = TestApprover::deciding(Some(approval));
    let gate = builder([writer(&ran)])
        .policy(Policy::new([user_layer(Mode::Safe, &[])]))
        .handler(person.clone())
        .build();
    for path in ["src/a", "src/b", "other"] {
        assert!(gate.call(call("write", json!({"path": path}))).await.is_ok());
    }
    let other_session = CallRequest::new("write", json!({"path": "src/c"}), Context::new("s2"));
    assert!(gate.call(other_session).await.is_ok());
    let asked: Vec<_> = person.asked.lock().iter().map(|r| r.input.clone()).collect();
    assert_eq!(
        asked,
        [json!({"path": "src/a"}), json!({"path": "other"}), json!({"path": "src/c"})]
    );
}

/// A path that leads elsewhere after another process has replaced it by a link.
struct Swapped(std::sync::atomic::AtomicBool);

impl crate::ResolvePath for Swapped {
    fn resolve(&self, path: &std::path::Path) -> std::path::PathBuf {
        match self.0.load(Ordering::SeqCst) {
            true => ".git/hooks/pre-commit".into(),
            false => path.to_owned(),
        }
    }
}

#[tokio::test]
async fn an_approved_call_that_would_touch_something_else_needs_approval_again() {
    let ran = Arc::default();
    let paths = Arc::new(Swapped(false.into()));
    let policy = Policy::new([user_layer(Mode::Safe, &[])]);
    let gate = builder([writer(&ran)]).policy(policy).paths(paths.clone()).build();
    let Submission::Pending(first) = gate.submit(call("write", json!({"path": "a"}))).await else {
        panic!("it must need approval");
    };
    let approval = || Some(ApprovalDecision::approve("ada", "console"));
    let approvals = gate.approvals();
    approvals.settle(&first.id, ApprovalState::Approved, approval()).await.expect("pending");
    paths.0.store(true, Ordering::SeqCst);
    let resumed = gate.resume(&first.id, Context::new("other")).await.expect("known");
    let Submission::Pending(second) = resumed else {
        panic!("this access was not shown: {resumed:?}")
    };
    assert_ne!(second.id, first.id);
    assert_eq!(second.accesses, [Access::Write(".git/hooks/pre-commit".into())]);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    approvals.settle(&second.id, ApprovalState::Approved, approval()).await.expect("pending");
    let Ok(Submission::Done(outcome)) = gate.resume(&second.id, Context::new("other")).await else {
        panic!("it was shown and approved");
    };
    assert!(outcome.is_ok(), "{}", outcome.content);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

/// A ledger with no space for new entries.
struct Full;

impl crate::Ledger for Full {
    fn begin<'a>(
        &'a self,
        _: crate::LedgerEntry,
        _: Option<&'a str>,
    ) -> crate::BoxFuture<'a, Result<Option<u64>, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::unavailable("the disk is full"))))
    }

    fn record(&self, _: crate::LedgerEntry) -> crate::BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn newest(&self, _: usize) -> crate::BoxFuture<'_, Result<Vec<crate::LedgerEntry>, ToolError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

#[tokio::test]
async fn a_changing_call_does_not_run_when_its_start_cannot_be_recorded() {
    let ran = Arc::default();
    let policy = Policy::new([user_layer(Mode::All, &[])]);
    let gate = builder([writer(&ran), echo()]).policy(policy).ledger(Arc::new(Full)).build();
    let outcome = gate.call(call("write", json!({"path": "a"}))).await;
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    assert!(outcome.content.contains("the disk is full"), "{}", outcome.content);
    assert!(outcome.content.contains("haft store check"), "{}", outcome.content);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}
