//! Stored results and the recordings made of them, on both engines.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_core::{
    Access, BoxFuture, Call, CallRequest, Context, ErrorKind, Gate, GateBuilder, Ledger,
    LedgerEntry, Outcome, RecordedCall, Redactor, Registry, Reply, Schema, Tool, ToolError,
    ToolSpec,
};
use haft_store::{
    OutcomeStatus, OutputRetention, Recording, ReplyTiming, StoreLedger, StoreLocation,
};
use serde_json::{Value, json};

use crate::stores::{Fresh, change, each, read_call};

/// A ledger that keeps results, as another process has it.
pub(crate) fn keeping(store: &Fresh, retention: OutputRetention) -> StoreLedger {
    let location = StoreLocation::new(store.address.clone());
    StoreLedger::keeping_results(location, ReplyTiming::Early, Path::new("/w"), retention)
}

fn hex(bytes: &[u8]) -> String {
    haft_core::sha256_hex([bytes])
}

fn outcome(tool: &str, content: &str) -> Outcome {
    let mut outcome = Outcome::failed(tool, &ToolError::failed("x"));
    outcome.error = None;
    outcome.content = content.to_owned();
    outcome.data = Some(json!({"z": 1, "a": [1.5, null, "ä\u{0}"]}));
    outcome
}

/// Records a result like the gate.
pub(crate) async fn keep_result(ledger: &StoreLedger, mut entry: LedgerEntry, content: &str) {
    let text = serde_json::to_vec(&outcome(&entry.tool, content)).expect("JSON");
    entry.result_sha256 = Some(hex(&text));
    entry.output_sha256 = hex(content.as_bytes());
    ledger.record_with(entry, text).await.expect("recorded");
}

/// A call of session `s`.
fn call(number: u64, tool: &str, input: Value) -> LedgerEntry {
    let mut entry = change(number);
    entry.session = "s".to_owned();
    entry.tool = tool.to_owned();
    entry.input = input;
    entry
}

async fn recording(store: &Fresh) -> Result<Recording, ToolError> {
    Recording::of_session(StoreLocation::new(store.address.clone()), "s").await
}

async fn next(recording: &Recording, tool: &str, input: Value) -> Result<String, ToolError> {
    recording.next(RecordedCall::new(tool, &input)).await.map(|outcome| outcome.content)
}

#[tokio::test]
async fn calls_are_answered_in_order_with_their_whole_outcome() {
    for store in each().await {
        let ledger = keeping(&store, OutputRetention::default());
        let a = || json!({"path": "a", "n": 1});
        keep_result(&ledger, call(1, "read", a()), "one").await;
        keep_result(&ledger, call(2, "read", json!({"path": "b"})), "other").await;
        keep_result(&ledger, call(3, "read", a()), "two").await;
        let mut inner = call(4, "read", a());
        inner.parent = Some("call_2".to_owned());
        keep_result(&ledger, inner, "of another call").await;
        ledger.flush().await.expect("written");
        let recording = recording(&store).await.expect("there");
        assert_eq!(recording.calls().len(), 4);
        let again = json!({"n": 1, "path": "a"});
        let whole = recording.next(RecordedCall::new("read", &again)).await.expect("the first");
        assert_eq!(whole, Outcome { ms: 1, ..outcome("read", "one") });
        assert_eq!(next(&recording, "read", a()).await.expect("the second"), "two");
        let error = next(&recording, "read", a()).await.expect_err("no third");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains("was called 2 times in session s"), "{error}");
        assert_eq!(next(&recording, "read", json!({"path": "b"})).await.expect("b"), "other");
        let error = next(&recording, "read", json!({"path": "c"})).await.expect_err("never");
        assert!(
            error.message().contains("entry 2, where `path` is \"b\" instead of \"c\""),
            "{error}"
        );
        let error = next(&recording, "bash", json!({})).await.expect_err("never");
        assert!(error.message().contains("`bash` was not called in session s"), "{error}");
        assert!(error.next_step().contains("read"), "{}", error.next_step());
    }
}

#[tokio::test]
async fn a_completed_input_is_found_by_what_was_asked() {
    for store in each().await {
        let ledger = keeping(&store, OutputRetention::default());
        keep_result(&ledger, call(1, "undo", json!({"last": 1, "changes": [4]})), "undone").await;
        let recording = recording(&store).await.expect("there");
        let input = json!({"last": 1});
        let mut asked = RecordedCall::new("undo", &input);
        assert!(recording.next(asked).await.is_err(), "other tools are not completed");
        asked.has_lookup_fields = true;
        assert_eq!(recording.next(asked).await.expect("found").content, "undone");
    }
}

#[tokio::test]
async fn the_same_result_is_kept_once_and_never_without_an_entry() {
    for store in each().await {
        let ledger = keeping(&store, OutputRetention::default());
        for number in 1..=20 {
            keep_result(&ledger, read_call(number), &"the same ".repeat(100)).await;
        }
        ledger.record(read_call(21)).await.expect("recorded");
        ledger.flush().await.expect("written");
        assert_eq!(store.number("SELECT count(*) FROM results").await, 1);
        assert_eq!(store.number("SELECT count(*) FROM call_results").await, 20);
        let lonely = "SELECT count(*) FROM call_results WHERE seq NOT IN (SELECT seq FROM ledger)";
        assert_eq!(store.number(lonely).await, 0);
        let saved =
            "SELECT count(*) FROM results WHERE packed < size / 2 AND packed = length(content)";
        assert_eq!(store.number(saved).await, 1, "it is packed");
        let other = store.ledger();
        other.record(read_call(22)).await.expect("recorded");
        assert!(!other.keeps_results());
        assert_eq!(other.verify(None).await.expect("read").faults, []);
    }
}

#[tokio::test]
async fn modified_results_are_reported_and_not_replayed() {
    for sql in [
        "UPDATE results SET content = (SELECT content FROM results WHERE size = (SELECT min(size) FROM results))",
        "UPDATE results SET packing = 9",
        "UPDATE ledger SET entry = replace(entry, 'call_2', 'call_9') WHERE seq = 2",
        "UPDATE ledger SET hash = 'x' WHERE seq = 1",
    ] {
        for store in each().await {
            let ledger = keeping(&store, OutputRetention::default());
            keep_result(&ledger, call(1, "read", json!({"path": "a"})), "a").await;
            keep_result(&ledger, call(2, "read", json!({"path": "b"})), &"b".repeat(500)).await;
            store.tamper(sql).await;
            let recording = recording(&store).await.expect("there");
            let error = next(&recording, "read", json!({"path": "b"})).await.expect_err("changed");
            assert_eq!(error.kind(), ErrorKind::Conflict, "{sql}: {error}");
            assert!(
                error.message().contains("entry 2, `read`, is not what the call returned"),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn dropped_results_are_reported_and_the_newest_stay() {
    for store in each().await {
        let small = OutputRetention { bytes: 6_000, age: Duration::from_secs(86_400) };
        let ledger = keeping(&store, small.clone());
        let part = |seed: u64| hex(&seed.to_le_bytes());
        let noise = |number: u64| (0..20).map(|at| part(number * 100 + at)).collect::<String>();
        for number in 1..=40 {
            keep_result(&ledger, call(number, "read", json!({"n": number})), &noise(number)).await;
        }
        let kept = store.number("SELECT CAST(sum(packed) AS BIGINT) FROM results").await;
        assert!((1..=7_000).contains(&kept), "{kept}");
        let recording = recording(&store).await.expect("there");
        assert_eq!(recording.calls()[0].outcome_status, OutcomeStatus::Dropped);
        let error = next(&recording, "read", json!({"n": 1})).await.expect_err("dropped");
        assert!(error.message().contains("was dropped to free space"), "{error}");
        assert!(error.next_step().contains("max_bytes"), "{}", error.next_step());
        assert_eq!(next(&recording, "read", json!({"n": 40})).await.expect("kept"), noise(40));
        // And by age.
        store.tamper("UPDATE results SET kept_ms = 1").await;
        let large = OutputRetention { bytes: 1 << 30, ..small };
        keep_result(&keeping(&store, large), call(41, "read", json!({"n": 41})), "x").await;
        assert_eq!(store.number("SELECT count(*) FROM results").await, 1);
        assert_eq!(store.number("SELECT count(*) FROM call_results").await, 1);
        assert_eq!(store.ledger().verify(None).await.expect("read").faults, []);
    }
}

#[tokio::test]
async fn an_unknown_session_is_reported_with_the_nearest() {
    for store in each().await {
        let none = recording(&store).await.err().expect("no store");
        assert_eq!(none.kind(), ErrorKind::NotFound);
        store.ledger().record(call(1, "read", json!({}))).await.expect("recorded");
        let location = StoreLocation::new(store.address.clone());
        let error = Recording::of_session(location, "t").await.err().expect("none of that name");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let recording = recording(&store).await.expect("there");
        assert_eq!(recording.calls()[0].outcome_status, OutcomeStatus::NotKept);
        let error = next(&recording, "read", json!({})).await.expect_err("not kept");
        assert!(error.next_step().contains("results = true"), "{}", error.next_step());
    }
}

/// Counts its runs.
struct Counting(ToolSpec, Arc<AtomicU64>);

impl Tool for Counting {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _: &Value) -> Result<Vec<Access>, ToolError> {
        Ok(Vec::new())
    }

    fn call(&self, _: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        let times = self.1.fetch_add(1, Ordering::SeqCst) + 1;
        Box::pin(std::future::ready(Ok(Reply::text(format!("run {times}, hunter2-token")))))
    }
}

fn gate_with(runs: &Arc<AtomicU64>) -> GateBuilder {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "description": "a number"},
        "text": {"type": "string", "description": "a text"}}});
    let schema = Schema::from_value(schema).expect("valid");
    let spec = ToolSpec::declared("test", "count_up", "a probe", schema);
    let registry = Registry::default();
    registry.register(Counting(spec, runs.clone())).expect("one of its name");
    let secret = ("TOKEN".to_owned(), "hunter2-token".to_owned());
    Gate::builder(registry).redactor(Redactor::new([secret]))
}

/// Makes the calls of an agent under test.
async fn work(gate: &Gate) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let inputs =
        [json!({"n": 1}), json!({"n": "1"}), json!({"text": "hunter2-token"}), json!({"n": "x"})];
    for (tool, input) in ["count_up", "count-up", "count_up", "count_up"].into_iter().zip(inputs) {
        outcomes.push(gate.call(CallRequest::new(tool, input, Context::new("s"))).await);
    }
    outcomes
}

#[tokio::test]
async fn a_recording_looks_like_the_tools_to_an_agent() {
    for store in each().await {
        let runs = Arc::new(AtomicU64::new(0));
        let ledger = Arc::new(keeping(&store, OutputRetention::default()));
        let real = gate_with(&runs).ledger(ledger.clone()).build();
        let then = work(&real).await;
        ledger.flush().await.expect("written");
        assert_eq!(then[1].repairs.len(), 2, "name and number are repaired: {:?}", then[1]);
        assert!(then[0].content.starts_with("run 1") && !then[3].is_ok(), "{then:?}");
        let recording = recording(&store).await.expect("there");
        let replayed = gate_with(&runs).replay_from(Arc::new(recording)).build();
        assert_eq!(work(&replayed).await, then);
        assert_eq!(runs.load(Ordering::SeqCst), 3, "nothing ran again");
        assert_eq!(store.number("SELECT count(*) FROM ledger").await, 4, "nor was recorded");
        let content = "SELECT count(*) FROM ledger WHERE entry LIKE '%hunter2-token%'";
        assert_eq!(store.number(content).await, 0);
        let more = work(&replayed).await;
        assert!(more[0].content.contains("was called 2 times in session s"), "{:?}", more[0]);
    }
}
