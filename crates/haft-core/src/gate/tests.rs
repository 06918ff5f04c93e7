//! Calls through the whole gate: every stage, every way to end, and failures.

mod asking;
mod repeats;
mod rights;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use parking_lot::Mutex;

use serde_json::json;

use super::*;
use crate::{
    Attachment, BoxFuture, Call, CallEventKind, Cancel, Capability, Effect, ErrorKind,
    MemoryApprovals, MemoryLedger, MemoryOutputs, Need, Power, Preview, Progress, Remember, Schema,
    Scope, ToolSpec, Tools,
    policy::{Layer, LayerKind, Mode, Rule, Source},
};

type Body = dyn Fn(Call) -> BoxFuture<'static, Result<Reply, ToolError>> + Send + Sync;
type TestPreview = fn(&Call) -> Option<String>;
type Judge = dyn Fn(&Value) -> Vec<Access> + Send + Sync;

/// A tool built for one test.
struct Probe {
    spec: ToolSpec,
    judge: Box<Judge>,
    preview: TestPreview,
    body: Box<Body>,
}

impl Probe {
    fn new<F, Fut>(name: &str, body: F) -> Self
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, ToolError>> + Send + 'static,
    {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "where"},
                "limit": {"type": "integer", "description": "how many"},
            },
            "additionalProperties": false,
        });
        let schema = Schema::from_value(schema).expect("valid");
        Self {
            spec: ToolSpec::declared("test", name, "a probe", schema),
            judge: Box::new(|_| Vec::new()),
            preview: |_| None,
            body: Box::new(move |call| Box::pin(body(call))),
        }
    }

    fn touching(mut self, judge: impl Fn(&Value) -> Vec<Access> + Send + Sync + 'static) -> Self {
        self.judge = Box::new(judge);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
        change(&mut self.spec);
        self
    }
}

impl Tool for Probe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value) -> Result<Vec<Access>, ToolError> {
        Ok((self.judge)(input))
    }

    fn preview(&self, call: &Call) -> Option<String> {
        (self.preview)(call)
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        (self.body)(call)
    }
}

fn echo() -> Probe {
    Probe::new("echo", |call| async move { Ok(Reply::text(call.raw_input().to_string())) })
}

/// Writes to the path in its input and counts how often it ran.
fn writer(ran: &Arc<AtomicUsize>) -> Probe {
    let ran = ran.clone();
    Probe::new("write", move |call| {
        let ran = ran.clone();
        async move {
            ran.fetch_add(1, Ordering::SeqCst);
            Ok(Reply::text(call.raw_input().to_string()))
        }
    })
    .touching(|input| vec![Access::Write(input["path"].as_str().unwrap_or(".").into())])
    .with(|spec| spec.effect = Effect::Write)
}

fn builder(probes: impl IntoIterator<Item = Probe>) -> GateBuilder {
    let registry = Registry::default();
    registry.register_all(probes).expect("new names");
    let workspace_info = WorkspaceInfo { workspace: "/w".into(), ..WorkspaceInfo::default() };
    Gate::builder(registry).workspace_info(workspace_info)
}

fn user_layer(mode: Mode, rules: &[(Action, &str)]) -> Layer {
    let mut layer = Layer::new(LayerKind::User, "user.toml");
    layer.mode = Some(mode);
    let parse = |(action, text): &(Action, &str)| {
        Rule::parse(*action, text, Source::named("user.toml")).expect("a rule")
    };
    layer.rules = rules.iter().map(parse).collect();
    layer
}

fn call(tool: &str, input: impl Into<Input>) -> CallRequest {
    CallRequest::new(tool, input, Context::new("s1"))
}

fn kind(outcome: &Outcome) -> ErrorKind {
    outcome.error.as_ref().map(|error| error.kind).expect("a failed call")
}

/// An approver that gives a fixed decision and remembers the requests it saw.
struct TestApprover {
    verdict: Option<ApprovalDecision>,
    asked: Mutex<Vec<ApprovalRequest>>,
}

impl TestApprover {
    fn deciding(verdict: Option<ApprovalDecision>) -> Arc<Self> {
        Arc::new(Self { verdict, asked: Mutex::default() })
    }
}

impl ApprovalHandler for TestApprover {
    fn decide<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, Option<ApprovalDecision>> {
        self.asked.lock().push(request.clone());
        Box::pin(std::future::ready(self.verdict.clone()))
    }
}

/// An approval handler that never answers.
struct NeverAnswers;

impl ApprovalHandler for NeverAnswers {
    fn decide<'a>(
        &'a self,
        _request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, Option<ApprovalDecision>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_call_passes_and_is_recorded() {
    let ledger = Arc::new(MemoryLedger::default());
    let gate = builder([echo()]).ledger(ledger.clone()).build();
    let outcome = gate.call(call("echo", json!({"path": "a"}))).await;
    assert_eq!(outcome.content, r#"{"path":"a"}"#);
    assert_eq!((outcome.tool.as_str(), outcome.title.as_str()), ("echo", "Echo"));
    assert!(outcome.is_ok() && outcome.repairs.is_empty());
    let entries = ledger.entries();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].tool, "echo");
    assert_eq!(entries[0].input, json!({"path": "a"}));
    assert_eq!(entries[0].decision.as_ref().map(|decision| decision.action), Some(Action::Allow));
    assert_eq!(entries[0].output_sha256.len(), 64);
}

#[tokio::test]
async fn unknown_tools_get_the_nearest_names_and_other_spellings_are_repaired() {
    let gate = builder([echo()]).build();
    let outcome = gate.call(call("ehco", json!({}))).await;
    assert_eq!(kind(&outcome), ErrorKind::NotFound);
    assert!(outcome.content.contains("unknown tool `ehco`"), "{}", outcome.content);
    assert!(outcome.content.contains("did you mean `echo`?"), "{}", outcome.content);
    let outcome = gate.call(call("Echo", json!({}))).await;
    assert!(outcome.is_ok());
    assert_eq!(outcome.repairs, ["read the tool name `Echo` as `echo`"]);
}

#[tokio::test]
async fn bad_inputs_are_explained() {
    let gate = builder([echo()]).build();
    let too_deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let cases: [(Input, ErrorKind, &str); 7] = [
        (
            json!({"limit": "ten"}).into(),
            ErrorKind::Input,
            "limit: expected an integer, got \"ten\"",
        ),
        (json!({"pth": "x"}).into(), ErrorKind::Input, "for `pth`, did you mean `path`?"),
        (json!([1]).into(), ErrorKind::Input, "expected an object, got [1]"),
        ("{\"path\": \"a".to_owned().into(), ErrorKind::Input, "is not JSON: line 1"),
        ("[".repeat(100_000).into(), ErrorKind::Input, "is not JSON"),
        (json!({"path": too_deep}).into(), ErrorKind::Input, "nested deeper than 128 levels"),
        ("x".repeat(50 << 20).into(), ErrorKind::TooLarge, "52428800 bytes long"),
    ];
    for (input, expected, words) in cases {
        let outcome = gate.call(call("echo", input)).await;
        assert_eq!(kind(&outcome), expected, "{}", outcome.content);
        assert!(outcome.content.contains(words), "{words} not in {}", outcome.content);
        let error = outcome.error.expect("failed");
        assert!(!error.hint.is_empty());
    }
    assert!(gate.call(call("echo", json!({}))).await.is_ok(), "the gate lives on");
}

#[tokio::test]
async fn small_mistakes_are_repaired_and_reported() {
    let gate = builder([echo()]).build();
    let outcome = gate.call(call("echo", "{\"Limit\": \"5\",}".to_owned())).await;
    assert_eq!(outcome.content, r#"{"limit":5}"#);
    assert_eq!(outcome.repairs.len(), 3, "{:?}", outcome.repairs);
}

#[tokio::test]
async fn a_denied_call_never_runs_and_says_which_rule_for_whom() {
    let ran = Arc::default();
    let policy = Policy::new([user_layer(Mode::All, &[(Action::Deny, "write(docs/**)")])]);
    let gate = builder([writer(&ran)]).policy(policy).build();
    let mut request = call("write", json!({"path": "src/../docs/a"}));
    request.context = Context::new("s").agent("coder");
    let outcome = gate.call(request).await;
    assert_eq!(kind(&outcome), ErrorKind::Denied);
    let message = &outcome.error.expect("denied").message;
    assert_eq!(
        message,
        "`write` is denied for agent `coder`: write docs/a: rule deny `write(docs/**)` (user.toml)"
    );
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_tool_that_panics_is_an_error_and_the_process_lives_on() {
    let panics = Probe::new("panics", |_| async { panic!("on purpose") });
    let judges_badly = Probe::new("judges", |_| async { Ok(Reply::default()) })
        .touching(|_| panic!("while judging"));
    let gate = builder([panics, judges_badly, echo()]).build();
    let outcome = gate.call(call("panics", json!({}))).await;
    assert_eq!(kind(&outcome), ErrorKind::Internal);
    assert!(outcome.content.contains("`panics` panicked: on purpose"), "{}", outcome.content);
    let outcome = gate.call(call("judges", json!({}))).await;
    assert_eq!(kind(&outcome), ErrorKind::Internal);
    assert!(gate.call(call("echo", json!({}))).await.is_ok());
}

/// Counts when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Never returns; counts how often it is dropped.
fn hanging(dropped: &Arc<AtomicUsize>) -> Probe {
    let dropped = dropped.clone();
    Probe::new("hangs", move |_| {
        let guard = Dropped(dropped.clone());
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_never_returns_is_dropped_at_its_deadline() {
    let dropped = Arc::default();
    let hangs = hanging(&dropped);
    let gate = builder([hangs.with(|spec| spec.deadline = Duration::from_secs(5))]).build();
    let began = Instant::now();
    let outcome = gate.call(call("hangs", json!({}))).await;
    assert_eq!(kind(&outcome), ErrorKind::Timeout);
    assert!(outcome.content.contains("stopped after 5s"), "{}", outcome.content);
    assert_eq!(began.elapsed().as_secs(), 5, "no grace for who does not listen");
    assert_eq!(dropped.load(Ordering::SeqCst), 1);

    let mut shorter = call("hangs", json!({}));
    shorter.context.deadline = Some(Duration::from_secs(1));
    let outcome = gate.call(shorter).await;
    assert!(outcome.content.contains("stopped after 1s"), "{}", outcome.content);
}

/// Blocks its thread until it is released.
fn blocking(held: std::sync::mpsc::Receiver<()>) -> Probe {
    let held = Arc::new(Mutex::new(held));
    let blocks = Probe::new("blocks", move |_| {
        let held = held.clone();
        async move {
            let _ = held.lock().recv();
            Ok(Reply::default())
        }
    });
    blocks.with(|spec| spec.deadline = Duration::from_millis(50))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_its_thread_does_not_hold_up_the_answer() {
    let (release, held) = std::sync::mpsc::channel();
    let gate = builder([blocking(held), echo()]).build();
    let outcome = gate.call(call("blocks", json!({}))).await;
    assert_eq!(kind(&outcome), ErrorKind::Timeout);
    assert!(gate.call(call("echo", json!({}))).await.is_ok());
    release.send(()).expect("the blocked thread still listens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_left_behind_keeps_its_paths_until_it_is_gone() {
    let ran = Arc::default();
    let (release, held) = std::sync::mpsc::channel();
    let blocks = blocking(held).touching(|_| vec![Access::Any(Power::WriteFiles)]);
    let gate = builder([blocks, writer(&ran)]).build();
    assert_eq!(kind(&gate.call(call("blocks", json!({}))).await), ErrorKind::Timeout);
    let mut impatient = call("write", json!({"path": "a"}));
    impatient.context.deadline = Some(Duration::from_millis(20));
    let outcome = gate.call(impatient).await;
    assert!(outcome.content.contains("timed out waiting for another call"), "{}", outcome.content);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    release.send(()).expect("the blocked thread still listens");
    assert!(gate.call(call("write", json!({"path": "a"}))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_listens_gets_a_grace_period_and_may_return_a_partial_result() {
    let listens = Probe::new("listens", |call| async move {
        let cancel = Cancel::from_call(&call)?;
        cancel.cancelled().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(Reply::text("half of it"))
    });
    let stubborn = Probe::new("stubborn", |call| async move {
        let _ignored = Cancel::from_call(&call)?;
        std::future::pending().await
    });
    let gate = builder([listens, stubborn]).build();
    let mut request = call("listens", json!({}));
    request.context.deadline = Some(Duration::from_secs(1));
    let outcome = gate.call(request).await;
    assert_eq!(kind(&outcome), ErrorKind::Timeout);
    assert!(outcome.content.starts_with("half of it\n\nerror (timeout)"), "{}", outcome.content);

    let began = Instant::now();
    let mut request = call("stubborn", json!({}));
    request.context.deadline = Some(Duration::from_secs(1));
    assert_eq!(kind(&gate.call(request).await), ErrorKind::Timeout);
    assert_eq!(began.elapsed().as_secs(), 2, "deadline and grace");
}

#[tokio::test]
async fn a_caller_that_goes_away_cancels_the_work_but_not_the_record() {
    let dropped = Arc::default();
    let hangs = hanging(&dropped);
    let ledger = Arc::new(MemoryLedger::default());
    let gate = builder([hangs]).ledger(ledger.clone()).build();
    let mut events = gate.events().subscribe();
    let caller = tokio::spawn({
        let gate = gate.clone();
        async move { gate.call(call("hangs", json!({}))).await }
    });
    assert!(matches!(events.next().await.expect("open").kind, CallEventKind::Started { .. }));
    caller.abort();
    let CallEventKind::Finished(outcome) = events.next().await.expect("open").kind else {
        panic!("the next event is the end");
    };
    assert_eq!(kind(&outcome), ErrorKind::Cancelled);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    assert_eq!(ledger.entries()[0].error, Some(ErrorKind::Cancelled));
}

#[tokio::test]
async fn cancelling_a_call_that_waits_for_a_decision_settles_the_request() {
    let ran = Arc::default();
    let gate = builder([writer(&ran)])
        .policy(Policy::new([user_layer(Mode::Safe, &[])]))
        .handler(Arc::new(NeverAnswers))
        .build();
    let mut events = gate.events().subscribe();
    let request = call("write", json!({"path": "a"}));
    let cancel = request.context.cancel.clone();
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.call(request).await }
    });
    assert!(matches!(events.next().await.expect("open").kind, CallEventKind::ApprovalAsked(_)));
    cancel.cancel();
    assert_eq!(kind(&waiting.await.expect("ends by itself")), ErrorKind::Cancelled);
    let all = gate.approvals().list(Some(ApprovalState::Cancelled)).await.expect("in memory");
    assert_eq!(all.len(), 1);
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_it_started_does_not_start() {
    let ran = Arc::default();
    let off = |mut context: Context| {
        context.cancel.cancel();
        context.call_id = None;
        context
    };
    let open = builder([writer(&ran)]).policy(Policy::new([user_layer(Mode::All, &[])]));
    let gate = open.start_in_place().build();
    let mut request = call("write", json!({"path": "a"}));
    request.context = off(request.context);
    assert_eq!(kind(&gate.call(request).await), ErrorKind::Cancelled);

    // The same for an approval that came too late.
    let asking = builder([writer(&ran)]).policy(Policy::new([user_layer(Mode::Safe, &[])]));
    let gate = asking.start_in_place().build();
    let Submission::Pending(asked) = gate.submit(call("write", json!({"path": "a"}))).await else {
        panic!("it must need approval");
    };
    let approval = Some(ApprovalDecision::approve("ada", "console"));
    gate.approvals().settle(&asked.id, ApprovalState::Approved, approval).await.expect("pending");
    let Ok(Submission::Done(outcome)) = gate.resume(&asked.id, off(Context::new("s1"))).await
    else {
        panic!("it was decided");
    };
    assert_eq!(kind(&outcome), ErrorKind::Cancelled);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn long_content_is_truncated_once_and_stored_in_full() {
    let long: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    let text = long.clone();
    let talks = Probe::new("talks", move |_| {
        let text = text.clone();
        async move { Ok(Reply::text(text)) }
    });
    let outputs = Arc::new(MemoryOutputs::default());
    let gate = builder([talks]).outputs(outputs.clone()).build();
    let outcome = gate.call(call("talks", json!({}))).await;
    assert!(outcome.content.len() < 51 << 10);
    assert!(outcome.content.starts_with("line 0\n") && outcome.content.ends_with("line 19999\n"));
    assert!(outcome.content.contains("the full text is stored as output out_"));
    let id = outcome.output_id.expect("kept");
    assert_eq!(&*gate.outputs().read(&id).await.expect("kept"), long);
}

#[tokio::test]
async fn stored_texts_and_data_contain_no_secrets() {
    let talks = Probe::new("talks", |_| async {
        let line = "nothing to see here\n".repeat(60_000);
        let data = json!({"rows": format!("{}hunter2-hunter2", "x ".repeat(200 << 10))});
        let text = format!("{line}password is hunter2-hunter2\n{line}");
        Ok(Reply { data: Some(data), ..Reply::text(text) })
    });
    let secret = ("PW".to_owned(), "hunter2-hunter2".to_owned());
    let gate = builder([talks]).redactor(Redactor::new([secret])).build();
    let outcome = gate.call(call("talks", json!({}))).await;
    let data_id = outcome.metadata["data_output_id"].as_str().expect("kept").to_owned();
    for id in [outcome.output_id.expect("kept"), data_id] {
        let whole = gate.outputs().read(&id).await.expect("kept");
        assert!(whole.contains("[secret:PW]") && !whole.contains("hunter2"));
    }
}

#[tokio::test]
async fn large_data_and_attachments_are_omitted_with_a_note() {
    let large = Probe::new("large", |_| async {
        let attachment = |name: &str, bytes: usize| Attachment {
            mime: "image/png".into(),
            name: name.into(),
            data: "A".repeat(bytes),
        };
        Ok(Reply {
            data: Some(json!({"rows": "x".repeat(300 << 10)})),
            attachments: vec![attachment("small.png", 10), attachment("huge.png", 21 << 20)],
            ..Reply::text("done")
        })
    });
    let gate = builder([large]).build();
    let outcome = gate.call(call("large", json!({}))).await;
    assert_eq!(outcome.data, None);
    let id = outcome.metadata["data_output_id"].as_str().expect("kept").to_owned();
    assert!(gate.outputs().read(&id).await.expect("kept").len() > 300 << 10);
    assert_eq!(outcome.attachments.len(), 1);
    assert!(outcome.content.contains("too large to attach: huge.png"), "{}", outcome.content);
}

#[tokio::test]
async fn secrets_reach_neither_model_nor_ledger_nor_watchers() {
    let leaks = Probe::new("leaks", |call| async move {
        Progress::from_call(&call)?.step(1.0, None, "sending hunter2-hunter2");
        Ok(Reply {
            data: Some(json!({"token": "hunter2-hunter2"})),
            ..Reply::text("it is hunter2-hunter2").title("hunter2-hunter2")
        })
    })
    .touching(|_| vec![Access::Run("curl -u ada:hunter2-hunter2 example".into())]);
    let ledger = Arc::new(MemoryLedger::default());
    let redactor = Redactor::new([("DB".to_owned(), "hunter2-hunter2".to_owned())]);
    let policy = Policy::new([user_layer(Mode::All, &[])]);
    let gate = builder([leaks]).policy(policy).ledger(ledger.clone()).redactor(redactor).build();
    let mut events = gate.events().subscribe();
    let outcome = gate.call(call("leaks", json!({"Path": "hunter2-hunter2", "limit": "5"}))).await;
    assert_eq!(outcome.content, "it is [secret:DB]");
    let mut seen = serde_json::to_string(&outcome).expect("serialises");
    seen += &serde_json::to_string(&ledger.entries()).expect("serialises");
    for _ in 0..3 {
        seen += &serde_json::to_string(&events.next().await.expect("open")).expect("serialises");
    }
    assert!(seen.contains("\"event\":\"finished\""), "{seen}");
    assert!(!seen.contains("hunter2"), "{seen}");
}

#[tokio::test]
async fn secrets_do_not_leak_through_repairs() {
    let ledger = Arc::new(MemoryLedger::default());
    let redactor = Redactor::new([("PIN".to_owned(), "987654321".to_owned())]);
    let gate = builder([echo()]).ledger(ledger.clone()).redactor(redactor).build();
    let outcome = gate.call(call("echo", json!({"path": 987654321}))).await;
    let shown = r#"path: read [secret:PIN] as "[secret:PIN]""#;
    assert_eq!(outcome.repairs, [shown]);
    assert_eq!(ledger.entries()[0].repairs, [shown]);
}

#[tokio::test]
async fn an_entry_survives_being_written_down() {
    let ledger = Arc::new(MemoryLedger::default());
    let gate = builder([writer(&Arc::default())])
        .policy(Policy::new([user_layer(Mode::Safe, &[])]))
        .ledger(ledger.clone())
        .handler(TestApprover::deciding(Some(ApprovalDecision::approve("ada", "test"))))
        .build();
    gate.call(call("write", json!({"path": "a"}))).await;
    let entry = &ledger.entries()[0];
    let text = serde_json::to_string(entry).expect("it is plain data");
    let back: crate::LedgerEntry = serde_json::from_str(&text).expect("as it was written");
    assert_eq!(&back, entry);
    assert_eq!(entry.decision.as_ref().map(|decision| decision.action), Some(Action::Ask));
}

#[tokio::test]
async fn a_ledger_that_fails_is_not_hidden() {
    struct Full;
    impl Ledger for Full {
        fn record(&self, _entry: crate::LedgerEntry) -> BoxFuture<'_, Result<(), ToolError>> {
            Box::pin(std::future::ready(Err(ToolError::unavailable("the disk is full"))))
        }

        fn newest(
            &self,
            _most: usize,
        ) -> BoxFuture<'_, Result<Vec<crate::LedgerEntry>, ToolError>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }
    }
    let gate = builder([echo()]).ledger(Arc::new(Full)).build();
    let outcome = gate.call(call("echo", json!({}))).await;
    assert!(outcome.is_ok());
    assert_eq!(
        outcome.metadata["not_recorded"],
        "this call is not in the ledger: the disk is full"
    );
}

#[tokio::test]
async fn tools_call_tools_through_the_gate_in_the_same_name() {
    let ran = Arc::default();
    let outer = Probe::new("outer", |call| async move {
        let tools = Tools::from_call(&call)?;
        let denied = tools.call("write", json!({"path": "docs/a"})).await;
        let allowed = tools.call("write", json!({"path": "src/a"})).await;
        Ok(Reply::text(format!("{:?} {}", denied.error.map(|e| e.kind), allowed.is_ok())))
    })
    .touching(|_| vec![Access::Any(Power::Tools)])
    .with(|spec| spec.needs = vec![Need::required(Power::Tools)]);
    let ledger = Arc::new(MemoryLedger::default());
    let policy = Policy::new([user_layer(Mode::Contained, &[(Action::Deny, "write(docs/**)")])]);
    let gate = builder([outer, writer(&ran)]).policy(policy).ledger(ledger.clone()).build();
    let mut request = call("outer", json!({}));
    request.context = Context::new("s").agent("coder");
    let outcome = gate.call(request).await;
    assert_eq!(outcome.content, "Some(Denied) true");
    let entries = ledger.entries();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[1].parent.as_ref(), Some(&entries[2].call_id), "children end first");
    assert!(entries.iter().all(|entry| entry.agents == ["coder"]));
}

#[tokio::test]
async fn endless_nesting_ends() {
    let again = Probe::new("again", |call| async move {
        let inner = Tools::from_call(&call)?.call("again", json!({})).await;
        Ok(Reply::text(inner.content))
    })
    .touching(|_| vec![Access::Any(Power::Tools)]);
    let outcome = builder([again]).build().call(call("again", json!({}))).await;
    assert!(outcome.content.contains("one more than may be nested"), "{}", outcome.content);
}

#[tokio::test]
async fn a_call_without_the_power_cannot_take_the_capability() {
    let sneaky = Probe::new("sneaky", |call| async move {
        Tools::from_call(&call).map(|_| Reply::text("got it"))
    });
    let outcome = builder([sneaky]).build().call(call("sneaky", json!({}))).await;
    assert_eq!(kind(&outcome), ErrorKind::Denied);
}

#[tokio::test]
async fn a_denied_power_that_is_optional_is_withheld_instead() {
    let optional = Probe::new("optional", |call| async move {
        let tools = Option::<Tools>::from_call(&call)?;
        Ok(Reply::text(if tools.is_some() { "with" } else { "without" }))
    })
    .touching(|_| vec![Access::Any(Power::Tools)])
    .with(|spec| spec.needs = vec![Need { power: Power::Tools, optional: true }]);
    let policy = Policy::new([user_layer(Mode::All, &[(Action::Deny, "optional(tools)")])]);
    let gate = builder([optional]).policy(policy).build();
    assert_eq!(gate.call(call("optional", json!({}))).await.content, "without");
}

#[tokio::test]
async fn writers_of_one_path_run_one_after_another_and_none_is_lost() {
    let inside: Arc<AtomicUsize> = Arc::default();
    let total: Arc<AtomicUsize> = Arc::default();
    let (watch, count) = (inside.clone(), total.clone());
    let careful = Probe::new("careful", move |_| {
        let (inside, total) = (watch.clone(), count.clone());
        async move {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone on this path");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            total.fetch_add(1, Ordering::SeqCst);
            Ok(Reply::default())
        }
    })
    .touching(|_| vec![Access::Write("one".into())])
    .with(|spec| spec.effect = Effect::Write);
    let gate = builder([careful]).build();
    let outcomes = gate.run_turn((0..80).map(|_| call("careful", json!({}))).collect()).await;
    assert!(outcomes.iter().all(Outcome::is_ok), "{outcomes:?}");
    assert_eq!(total.load(Ordering::SeqCst), 80);
}

#[tokio::test]
async fn a_terminal_tool_runs_when_its_siblings_are_done() {
    let order: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let log = |name: &'static str| {
        let order = order.clone();
        Probe::new(name, move |_| {
            let order = order.clone();
            async move {
                tokio::task::yield_now().await;
                order.lock().push(name);
                Ok(Reply::text(name))
            }
        })
    };
    let end = log("complete_task").with(|spec| spec.terminal = true);
    let late = log("fail_task").with(|spec| spec.terminal = true);
    let gate = builder([log("first"), end, late, log("second")]).build();
    let names = ["complete_task", "first", "fail_task", "second"];
    let outcomes = gate.run_turn(names.map(|name| call(name, json!({}))).into()).await;
    assert_eq!(order.lock().last(), Some(&"complete_task"));
    let contents: Vec<&str> = outcomes.iter().map(|o| o.content.as_str()).collect();
    assert_eq!((contents[0], contents[1], contents[3]), ("complete_task", "first", "second"));
    assert_eq!(kind(&outcomes[2]), ErrorKind::Conflict);
}

#[tokio::test]
async fn explaining_runs_and_asks_nothing() {
    let ran = Arc::default();
    let person = TestApprover::deciding(Some(ApprovalDecision::approve("ada", "test")));
    let gate = builder([writer(&ran)])
        .policy(Policy::new([user_layer(Mode::Safe, &[])]))
        .handler(person.clone())
        .build();
    let explanation = gate.explain(call("Write", json!({"path": "a"}))).await.expect("well formed");
    assert_eq!(explanation.tool, "write");
    assert_eq!(explanation.decision.action, Action::Ask);
    assert!(explanation.confirmation.required);
    assert_eq!(explanation.repairs.len(), 1);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert!(person.asked.lock().is_empty());
}

#[tokio::test]
async fn explaining_a_denied_call_gives_the_decision() {
    let ran = Arc::default();
    let policy = Policy::new([user_layer(Mode::All, &[(Action::Deny, "write(/w/docs)")])]);
    let gate = builder([writer(&ran)]).policy(policy).build();
    let explanation =
        gate.explain(call("write", json!({"path": "docs/a"}))).await.expect("explained");
    assert_eq!(explanation.decision.action, Action::Deny);
    assert_eq!(explanation.accesses, [Access::Write("docs/a".into())]);
}

#[tokio::test]
async fn an_unknown_approval_cannot_be_claimed() {
    let approvals = MemoryApprovals::default();
    let error = approvals.claim("ask_1").await.expect_err("unknown");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

/// Reports whether it runs in its own task, before and after it has waited.
fn task_reporter() -> Probe {
    Probe::new("where", |_| async {
        let has_own_task = || tokio::task::try_id().is_some();
        let before = has_own_task();
        tokio::task::yield_now().await;
        Ok(Reply::text(format!("{before} {}", has_own_task())))
    })
}

/// Polls by hand, as a server does that has no task for the call.
fn poll_once<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> std::task::Poll<T> {
    future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[test]
fn a_call_that_need_not_wait_ends_where_it_began() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let _inside = runtime.enter();
    let panics = Probe::new("panics", |_| async { panic!("on purpose") });
    let gate = builder([echo(), panics, task_reporter()]).start_in_place().build();
    let mut done = Box::pin(gate.call(call("echo", json!({"limit": 1}))));
    let std::task::Poll::Ready(outcome) = poll_once(&mut done) else { panic!("it waited") };
    assert_eq!(outcome.content, r#"{"limit":1}"#);
    let mut broken = Box::pin(gate.call(call("panics", json!({}))));
    let std::task::Poll::Ready(outcome) = poll_once(&mut broken) else { panic!("it waited") };
    assert!(outcome.content.contains("`panics` panicked: on purpose"), "{}", outcome.content);
    // A call that has to wait continues in a task, where the deadline and cancellation reach it.
    let waits = runtime.block_on(gate.call(call("where", json!({}))));
    assert_eq!(waits.content, "false true");
}

#[tokio::test]
async fn by_default_a_tool_starts_in_its_own_task() {
    let gate = builder([task_reporter()]).build();
    assert_eq!(gate.call(call("where", json!({}))).await.content, "true true");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_began_in_place_still_has_a_deadline() {
    let waits = Probe::new("waits", |_| std::future::pending());
    let gate = builder([waits]).start_in_place().build();
    assert_eq!(kind(&gate.call(call("waits", json!({}))).await), ErrorKind::Timeout);
}

/// Keeps the progress it receives.
#[derive(Default)]
struct ProgressLog(Mutex<Vec<f64>>);

impl crate::Listener for ProgressLog {
    fn on_event(&self, what: &CallEventKind) {
        if let CallEventKind::Progress(step) = what {
            self.0.lock().push(step.done);
        }
    }
}

#[tokio::test]
async fn a_caller_gets_the_progress_of_its_own_call_only() {
    let steps = Probe::new("steps", |call| async move {
        let done = call.raw_input()["limit"].as_f64().unwrap_or_default();
        Progress::from_call(&call)?.step(done, None, "");
        Ok(Reply::default())
    });
    let gate = builder([steps]).build();
    let (first, second) = (Arc::new(ProgressLog::default()), Arc::new(ProgressLog::default()));
    for (ear, limit) in [(&first, 1), (&second, 2)] {
        let mut request = call("steps", json!({"limit": limit}));
        request.context.services.insert::<dyn crate::Listener>(ear.clone());
        assert!(gate.call(request).await.is_ok());
    }
    assert_eq!(*first.0.lock(), [1.0]);
    assert_eq!(*second.0.lock(), [2.0]);
}

#[tokio::test]
async fn services_of_the_caller_take_precedence() {
    let names =
        Probe::new("names", |call| async move { Ok(Reply::text(&*call.service::<str>()?)) });
    let gate = builder([names]).service::<str>("program".into()).build();
    assert_eq!(gate.call(call("names", json!({}))).await.content, "program");
    let mut request = call("names", json!({}));
    request.context.services.insert::<str>("caller".into());
    assert_eq!(gate.call(request).await.content, "caller");
}

#[tokio::test]
async fn data_that_only_repeats_the_content_goes_first_when_there_is_too_much() {
    #[derive(serde::Serialize, schemars::JsonSchema)]
    struct Found {
        #[schemars(extend("x-in-content" = true))]
        paths: Vec<String>,
        total: usize,
    }
    let finds = Probe::new("finds", |_| async {
        let data = json!({"paths": vec!["x".repeat(1000); 1000], "total": 1000});
        Ok(Reply { data: Some(data), ..Reply::text("many") })
    });
    let finds = finds.with(|spec| spec.output = Some(Schema::of_output::<Found>()));
    let gate = builder([finds]).build();
    let outcome = gate.call(call("finds", json!({}))).await;
    assert_eq!(outcome.data, Some(json!({"total": 1000})));
    let id = outcome.metadata["data_output_id"].as_str().expect("the whole is kept");
    let whole = gate.outputs().read(id).await.expect("readable");
    assert!(whole.len() > 1_000_000, "{}", whole.len());
}
