//! Approvals on both engines, seen by several processes.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haft_core::Inbox;
use haft_core::feed::{Feed, FeedItem};
use haft_core::{
    ApprovalDecision, ApprovalHandler, ApprovalRequest, ApprovalState, Approvals, BoxFuture,
    CallRequest, Context, Effect, ErrorKind, Gate, Mode, Policy, Registry, Reply, Schema, Tool,
    ToolError, ToolSpec,
    policy::{Layer, LayerKind},
};
use haft_core::{CallClaim, CallResult, RequesterStatus};
use haft_store::{StoreAddress, StoreApprovals, StoreFeed, StoreLocation};
use serde_json::{Value, json};

use crate::{
    events::TEST_TIMEOUT,
    stores::{Fresh, each},
};

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("a time")
}

pub(crate) fn request(id: &str) -> Arc<ApprovalRequest> {
    let request = json!({
        "id": id, "call_id": format!("call_{id}"), "session": "s", "agents": ["lead"], "profile": "developer",
        "tool": "bash", "title": "Run", "input": {"command": "echo hunter2-token", "n": [1, 2.5, null, "ä\u{0}"]},
        "confirmation": {"required": true, "message": "Run: echo", "type": "write"},
        "accesses": [], "preview": {"kind": "command", "text": "echo hunter2-token"}, "reason": "mode `none` asks",
        "suggestions": [{"rules": ["bash(echo *)"], "past": {"spared": 1, "asked": 2}}],
        "created_ms": now_ms(), "expires_ms": now_ms() + 600_000,
    });
    Arc::new(serde_json::from_value(request).expect("a request"))
}

/// The approvals as another process sees them.
pub(crate) fn approvals(store: &Fresh) -> StoreApprovals {
    approvals_of(store, "here")
}

fn approvals_of(store: &Fresh, workspace: &str) -> StoreApprovals {
    let folder = store.folder.path();
    let location = StoreLocation::new(store.address.clone());
    StoreApprovals::new(location, &folder.join(workspace), &folder.join("state/haft"))
}

fn approval() -> Option<ApprovalDecision> {
    Some(ApprovalDecision::approve("Ann", "terminal"))
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, work).await.expect("it is done in time")
}

#[tokio::test]
async fn one_process_asks_and_another_decides() {
    for store in each().await {
        let (asker, person) = (approvals(&store), approvals(&store));
        let asked = request("ask_1");
        asker.create(asked.clone()).await.expect("kept");
        let entry = person.entries().await.expect("read").entries.remove(0);
        assert_eq!(
            (&entry.record.request, entry.requester, entry.result),
            (&asked, RequesterStatus::There, CallResult::NotRun)
        );
        assert_eq!(entry.workspace, store.folder.path().join("here"));
        let mut verdict = ApprovalDecision::approve("Ann", "terminal");
        verdict.note = Some("go".to_owned());
        let waits = tokio::spawn(async move {
            let settled = in_time(asker.settled("ask_1")).await.expect("settled");
            (asker, settled)
        });
        let decided = person.settle("ask_1", ApprovalState::Approved, Some(verdict.clone())).await;
        let (asker, settled) = waits.await.expect("no panic");
        assert_eq!(settled, decided.expect("the first"));
        assert_eq!(
            (settled.state, settled.verdict.as_ref(), settled.is_claimed),
            (ApprovalState::Approved, Some(&verdict), false)
        );
        assert_eq!(settled.request, asked, "unchanged");
        let second =
            person.settle("ask_1", ApprovalState::Denied, None).await.expect_err("decided");
        assert_eq!(second.kind(), ErrorKind::Conflict);
        assert!(second.message().contains("already approved by Ann via terminal"), "{second}");
        let early = person.claim("ask_1").await.expect_err("the requester is there");
        assert!(early.message().contains("about to run its call"), "{early}");
        assert!(asker.claim("ask_1").await.expect("once").is_claimed);
        for again in [&asker, &person] {
            let error = again.claim("ask_1").await.expect_err("only once");
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.message().contains(", and its call was claimed"), "{error}");
        }
        assert_eq!(person.wait_for_claim("ask_1").await.expect("taken"), CallClaim::Taken);
        let entry = person.entries().await.expect("read").entries.remove(0);
        assert_eq!(entry.result, CallResult::Unknown, "nothing is in the ledger");
        let mut entry = crate::stores::change(1);
        entry.call_id = "call_ask_1".to_owned();
        haft_core::Ledger::record(&*store.ledger(), entry).await.expect("recorded");
        let entry = person.entries().await.expect("read").entries.remove(0);
        assert_eq!(entry.result, CallResult::Ran(None));
    }
}

/// Returns approvals with an approved request whose call was claimed.
async fn claimed_request(store: &Fresh, id: &str) -> StoreApprovals {
    let approvals = approvals(store);
    approvals.create(request(id)).await.expect("kept");
    approvals.settle(id, ApprovalState::Approved, approval()).await.expect("the first");
    approvals.claim(id).await.expect("once");
    approvals
}

async fn record(store: &Fresh, id: &str, decided: Value, verdict: Value, error: Value) {
    let mut entry = serde_json::to_value(crate::stores::read_call(1)).expect("JSON");
    entry["call_id"] = json!(format!("call_{id}"));
    (entry["decision"], entry["verdict"], entry["error"]) = (decided, verdict, error);
    let ledger = store.ledger();
    let entry = serde_json::from_value(entry).expect("an entry");
    haft_core::Ledger::record(&*ledger, entry).await.expect("recorded");
    ledger.flush().await.expect("written");
}

async fn fate(approvals: &StoreApprovals) -> CallResult {
    let mut entries = approvals.entries().await.expect("read").entries;
    entries.pop().expect("the newest").result
}

#[tokio::test]
async fn the_result_of_a_call_is_known_whatever_policy_says_when_it_runs() {
    let decision = |action: &str| json!({"action": action, "reason": {"mode": {"mode": "none", "access": null}}, "change": "", "agent": null});
    let verdict = || json!(approval());
    for store in each().await {
        let mut number = 0;
        for (decided, verdict, error, expected) in [
            (decision("ask"), verdict(), Value::Null, CallResult::Ran(None)),
            (
                decision("allow"),
                verdict(),
                json!("timeout"),
                CallResult::Ran(Some("timeout".to_owned())),
            ),
            (
                decision("deny"),
                Value::Null,
                json!("denied"),
                CallResult::Ran(Some("denied".to_owned())),
            ),
            (
                Value::Null,
                Value::Null,
                json!("not_found"),
                CallResult::Ran(Some("not_found".to_owned())),
            ),
        ] {
            number += 1;
            let id = format!("ask_{number}");
            let approvals = claimed_request(&store, &id).await;
            assert_eq!(fate(&approvals).await, CallResult::Unknown);
            record(&store, &id, decided, verdict, error).await;
            assert_eq!(fate(&approvals).await, expected, "{id}");
        }
    }
}

#[tokio::test]
async fn results_of_calls_before_an_update_are_migrated() {
    for store in each().await {
        claimed_request(&store, "ask_1").await;
        record(&store, "ask_1", Value::Null, Value::Null, json!("timeout")).await;
        store.make_older(7).await;
        assert_eq!(fate(&approvals(&store)).await, CallResult::Ran(Some("timeout".to_owned())));
        let approvals = claimed_request(&store, "ask_2").await;
        assert_eq!(fate(&approvals).await, CallResult::Unknown);
        record(&store, "ask_2", Value::Null, Value::Null, Value::Null).await;
        assert_eq!(fate(&approvals).await, CallResult::Ran(None));
    }
}

#[tokio::test]
async fn every_step_is_announced_once_and_in_order() {
    for store in each().await {
        let (asker, person) = (approvals(&store), approvals(&store));
        asker.create(request("ask_1")).await.expect("kept");
        asker.create(request("ask_2")).await.expect("kept");
        person.settle("ask_2", ApprovalState::Denied, None).await.expect("first");
        person.settle("ask_2", ApprovalState::Approved, approval()).await.expect_err("second");
        person.settle("ask_1", ApprovalState::Approved, approval()).await.expect("first");
        asker.claim("ask_1").await.expect("once");
        asker.claim("ask_1").await.expect_err("twice");
        let events = StoreFeed::new(StoreLocation::new(store.address.clone())).since(0, 99).await;
        let expected = events.expect("read").into_iter().map(|event| {
            assert_eq!(event.session.as_deref(), Some("s"));
            format!(
                "{} {} {}",
                event.kind,
                event.subject.unwrap_or_default(),
                event.body["state"].as_str().unwrap_or("")
            )
        });
        let expected: Vec<String> = expected.collect();
        assert_eq!(
            expected,
            [
                "approval.asked ask_1 ",
                "approval.asked ask_2 ",
                "approval.decided ask_2 denied",
                "approval.decided ask_1 approved",
                "approval.taken ask_1 ",
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_one_of_many_decides_and_only_one_claims() {
    for store in each().await {
        let asker = approvals(&store);
        for round in 0..5 {
            let id = format!("ask_{round}");
            asker.create(request(&id)).await.expect("kept");
            let people: Vec<_> = (0..8).map(|_| Arc::new(approvals(&store))).collect();
            let mut tasks = tokio::task::JoinSet::new();
            for (number, person) in people.iter().enumerate() {
                let (person, id) = (person.clone(), id.clone());
                let state =
                    if number % 2 == 0 { ApprovalState::Approved } else { ApprovalState::Denied };
                tasks.spawn(async move { person.settle(&id, state, approval()).await.is_ok() });
            }
            assert_eq!(tasks.join_all().await.into_iter().filter(|won| *won).count(), 1);
        }
        // The requester is gone, so any process may take the call up.
        asker.create(request("ask_t")).await.expect("kept");
        asker.settle("ask_t", ApprovalState::Approved, approval()).await.expect("first");
        store.tamper("UPDATE approvals SET lease_ms = 0").await;
        let takers: Vec<_> = (0..8).map(|_| Arc::new(approvals(&store))).collect();
        let mut tasks = tokio::task::JoinSet::new();
        for taker in takers {
            tasks.spawn(async move { taker.claim("ask_t").await.is_ok() });
        }
        assert_eq!(tasks.join_all().await.into_iter().filter(|won| *won).count(), 1);
    }
}

#[tokio::test]
async fn a_requester_without_a_lease_is_gone_and_its_call_is_free() {
    static NOW: AtomicU64 = AtomicU64::new(0);
    let clock = || NOW.load(Ordering::SeqCst);
    for store in each().await {
        NOW.store(now_ms(), Ordering::SeqCst);
        let (asker, person) =
            (approvals(&store).with_clock(clock), approvals(&store).with_clock(clock));
        asker.create(request("ask_1")).await.expect("kept");
        let requester_status =
            || async { person.entries().await.expect("read").entries[0].requester };
        assert_eq!(requester_status().await, RequesterStatus::There);
        NOW.fetch_add(7_000, Ordering::SeqCst);
        assert_eq!(requester_status().await, RequesterStatus::Gone);
        person.settle("ask_1", ApprovalState::Approved, approval()).await.expect("still pending");
        assert_eq!(in_time(person.wait_for_claim("ask_1")).await.expect("free"), CallClaim::Free);
        assert!(person.claim("ask_1").await.expect("free").is_claimed);
        asker.claim("ask_1").await.expect_err("it is taken, even for the requester");
    }
}

#[tokio::test]
async fn a_requester_that_goes_after_the_approval_leaves_the_call_to_others() {
    static NOW: AtomicU64 = AtomicU64::new(0);
    let clock = || NOW.load(Ordering::SeqCst);
    for store in each().await {
        NOW.store(now_ms(), Ordering::SeqCst);
        let (asker, person) =
            (approvals(&store).with_clock(clock), approvals(&store).with_clock(clock));
        asker.create(request("ask_1")).await.expect("kept");
        person.settle("ask_1", ApprovalState::Approved, approval()).await.expect("first");
        let waits = person.wait_for_claim("ask_1");
        let mut waits = std::pin::pin!(waits);
        tokio::select! {
            biased;
            over = &mut waits => panic!("the requester may still come: {over:?}"),
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
        NOW.fetch_add(7_000, Ordering::SeqCst);
        assert_eq!(in_time(waits).await.expect("free"), CallClaim::Free);
        assert!(person.claim("ask_1").await.expect("free").is_claimed);
    }
}

#[tokio::test]
async fn a_waiting_requester_renews_its_lease() {
    static NOW: AtomicU64 = AtomicU64::new(0);
    let clock = || NOW.load(Ordering::SeqCst);
    for store in each().await {
        NOW.store(now_ms(), Ordering::SeqCst);
        let (asker, person) =
            (approvals(&store).with_clock(clock), approvals(&store).with_clock(clock));
        asker.create(request("ask_1")).await.expect("kept");
        let waits = tokio::spawn(async move { asker.settled("ask_1").await });
        NOW.fetch_add(60_000, Ordering::SeqCst);
        // It renews its lease within two seconds.
        in_time(async {
            while person.entries().await.expect("read").entries[0].requester
                == RequesterStatus::Gone
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        person.settle("ask_1", ApprovalState::Denied, None).await.expect("first");
        assert_eq!(
            in_time(waits).await.expect("no panic").expect("settled").state,
            ApprovalState::Denied
        );
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_extends_no_lease_and_runs_nothing_twice() {
    static NOW: AtomicU64 = AtomicU64::new(0);
    let clock = || NOW.load(Ordering::SeqCst);
    for store in each().await {
        NOW.store(now_ms(), Ordering::SeqCst);
        let (asker, person) =
            (approvals(&store).with_clock(clock), approvals(&store).with_clock(clock));
        asker.create(request("ask_1")).await.expect("kept");
        NOW.fetch_sub(3_600_000, Ordering::SeqCst);
        let entry = person.entries().await.expect("read").entries.remove(0);
        assert_eq!(
            (entry.requester, entry.record.state),
            (RequesterStatus::Gone, ApprovalState::Pending)
        );
        person.settle("ask_1", ApprovalState::Approved, approval()).await.expect("first");
        NOW.fetch_sub(3_600_000, Ordering::SeqCst);
        assert!(person.claim("ask_1").await.expect("free").is_claimed);
        NOW.fetch_add(99_000_000, Ordering::SeqCst);
        for other in [&asker, &person] {
            assert_eq!(other.claim("ask_1").await.expect_err("once").kind(), ErrorKind::Conflict);
        }
    }
}

#[tokio::test]
async fn an_undecided_request_expires_for_all_processes() {
    for store in each().await {
        let asker = approvals(&store);
        let mut short = ApprovalRequest::clone(&request("ask_1"));
        short.expires_ms = now_ms() + 300;
        asker.create(Arc::new(short.clone())).await.expect("kept");
        let record = in_time(asker.settled("ask_1")).await.expect("settled");
        assert_eq!(record.state, ApprovalState::Expired);
        assert!(now_ms() >= short.expires_ms);
        let late = approvals(&store).settle("ask_1", ApprovalState::Approved, approval()).await;
        assert!(late.expect_err("too late").message().contains("already expired"));
        // And a request whose requester was killed before it could record the expiry.
        short.id = "ask_2".to_owned();
        asker.create(Arc::new(short)).await.expect("kept");
        let person = approvals(&store);
        let entry = person.entries().await.expect("read").entries;
        assert!(entry.iter().all(|it| it.record.state == ApprovalState::Expired));
        let late = person
            .settle("ask_2", ApprovalState::Approved, approval())
            .await
            .expect_err("too late");
        assert!(late.message().contains("already expired"), "{late}");
        person.claim("ask_2").await.expect_err("never");
        assert_eq!(
            person.get("ask_2").await.expect("read").expect("there").state,
            ApprovalState::Expired
        );
    }
}

#[tokio::test]
async fn an_old_approval_cannot_be_claimed() {
    static NOW: AtomicU64 = AtomicU64::new(0);
    let clock = || NOW.load(Ordering::SeqCst);
    for store in each().await {
        NOW.store(now_ms(), Ordering::SeqCst);
        let asker = approvals(&store).with_clock(clock);
        asker.create(request("ask_1")).await.expect("kept");
        asker.settle("ask_1", ApprovalState::Approved, approval()).await.expect("first");
        NOW.fetch_add(2 * 3_600_000, Ordering::SeqCst);
        let error = asker.claim("ask_1").await.expect_err("too old");
        assert!(error.message().contains("too long ago"), "{error}");
    }
}

#[tokio::test]
async fn a_restored_row_runs_no_call_again() {
    for store in each().await {
        let (asker, other) = (approvals(&store), approvals(&store));
        asker.create(request("ask_1")).await.expect("kept");
        asker.settle("ask_1", ApprovalState::Approved, approval()).await.expect("decided");
        asker.claim("ask_1").await.expect("taken");
        // A program that can write the store can do this.
        store.tamper("UPDATE approvals SET taken_by = NULL, taken_ms = NULL, lease_ms = 0").await;
        for approvals in [&asker, &other] {
            let error = approvals.claim("ask_1").await.expect_err("it has run");
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.message().contains("its call was claimed"), "{error}");
        }
        let untouched = "SELECT count(*) FROM approvals WHERE taken_by IS NULL";
        assert_eq!(store.number(untouched).await, 1, "and nothing was written");
    }
}

#[tokio::test]
async fn old_requests_are_deleted_when_new_ones_come() {
    static NOW: AtomicU64 = AtomicU64::new(0);
    let clock = || NOW.load(Ordering::SeqCst);
    for store in each().await {
        NOW.store(now_ms(), Ordering::SeqCst);
        let asker = approvals(&store).with_clock(clock);
        asker.create(request("ask_1")).await.expect("kept");
        asker.create(request("ask_0")).await.expect("kept");
        // A request that waits for months.
        store.tamper("UPDATE approvals SET expires_ms = 9999999999999 WHERE id = 'ask_0'").await;
        NOW.fetch_add(29 * 86_400_000, Ordering::SeqCst);
        asker.create(request("ask_2")).await.expect("kept");
        assert!(asker.get("ask_1").await.expect("read").is_some());
        NOW.fetch_add(2 * 86_400_000, Ordering::SeqCst);
        asker.create(request("ask_3")).await.expect("kept");
        assert!(asker.get("ask_1").await.expect("read").is_none());
        let waiting = "SELECT count(*) FROM approvals WHERE id = 'ask_0'";
        assert_eq!(store.number(waiting).await, 1, "it has not expired");
    }
}

#[tokio::test]
async fn a_forged_request_or_decision_does_not_count() {
    for forged in [
        "UPDATE approvals SET state = 'approved' WHERE id = 'ask_1'",
        "UPDATE approvals SET state = 'approved', verdict = (SELECT verdict FROM approvals WHERE id = 'ask_2') WHERE id = 'ask_1'",
        "UPDATE approvals SET state = 'approved', verdict = request WHERE id = 'ask_1'",
        "UPDATE approvals SET request = (SELECT request FROM approvals WHERE id = 'ask_2') WHERE id = 'ask_1'",
        "UPDATE approvals SET expires_ms = expires_ms + 9999999 WHERE id = 'ask_1'",
        "UPDATE approvals SET created_ms = created_ms + 1 WHERE id = 'ask_1'",
        "UPDATE approvals SET lease_ms = -5 WHERE id = 'ask_1'",
        // A denial turned into an approval, with the envelope of the denial.
        "UPDATE approvals SET state = 'approved' WHERE id = 'ask_3'",
        "UPDATE approvals SET state = 'approved', id = 'ask_1b' WHERE id = 'ask_1'",
    ] {
        for store in each().await {
            let asker = approvals(&store);
            for id in ["ask_1", "ask_2", "ask_3"] {
                asker.create(request(id)).await.expect("kept");
            }
            asker.settle("ask_2", ApprovalState::Approved, approval()).await.expect("first");
            asker.settle("ask_3", ApprovalState::Denied, None).await.expect("first");
            store.tamper(forged).await;
            let person = approvals(&store);
            for id in ["ask_1", "ask_3", "ask_1b"] {
                assert!(person.claim(id).await.is_err(), "{forged}: {id}");
            }
            let found = person.entries().await.expect("read");
            let approved =
                found.entries.iter().filter(|it| it.record.state == ApprovalState::Approved);
            let approved: Vec<&str> = approved.map(|it| &*it.record.request.id).collect();
            assert_eq!(approved, ["ask_2"], "{forged}");
            assert_eq!(found.foreign, 1, "{forged}");
        }
    }
}

#[tokio::test]
async fn the_request_of_another_user_or_folder_is_not_run() {
    for store in each().await {
        approvals(&store).create(request("ask_1")).await.expect("kept");
        approvals(&store)
            .settle("ask_1", ApprovalState::Approved, approval())
            .await
            .expect("first");
        store.tamper("UPDATE approvals SET lease_ms = 0").await;
        let elsewhere = approvals_of(&store, "there");
        assert_eq!(
            elsewhere.claim("ask_1").await.expect_err("not of here").kind(),
            ErrorKind::NotFound
        );
        assert!(elsewhere.get("ask_1").await.expect("read").is_none());
        assert!(elsewhere.list(None).await.expect("read").is_empty());
        assert_eq!(elsewhere.entries().await.expect("read").entries.len(), 1, "but it is seen");
        let moved = format!(
            "UPDATE approvals SET workspace = '{}'",
            store.folder.path().join("there").display()
        );
        store.tamper(&moved).await;
        assert_eq!(
            elsewhere.claim("ask_1").await.expect_err("not of here").kind(),
            ErrorKind::Denied
        );
        let folder = store.folder.path();
        let location = StoreLocation::new(store.address.clone());
        let other = StoreApprovals::new(location, &folder.join("here"), &folder.join("other/haft"));
        assert_eq!(other.entries().await.expect("read").foreign, 1);
        other.claim("ask_1").await.expect_err("no key");
    }
}

#[tokio::test]
async fn the_store_contains_no_plain_secrets() {
    let store = each().await.remove(0);
    let asker = approvals(&store);
    asker.create(request("ask_1")).await.expect("kept");
    let note = Some("hunter2-note".to_owned());
    asker
        .settle("ask_1", ApprovalState::Denied, Some(ApprovalDecision::deny("Ann", "x", note)))
        .await
        .expect("first");
    let StoreAddress::Sqlite(path) = &store.address else { panic!("a file") };
    for end in ["", "-wal"] {
        let bytes = std::fs::read(format!("{}{end}", path.display())).expect("read");
        assert!(!bytes.windows(7).any(|piece| piece == b"hunter2"), "haft.db{end}");
    }
}

#[tokio::test]
async fn reading_creates_no_store() {
    for store in each().await {
        let person = approvals(&store);
        assert!(person.entries().await.expect("nothing").entries.is_empty());
        assert!(person.list(None).await.expect("nothing").is_empty());
        assert!(person.get("ask_1").await.expect("nothing").is_none());
        assert_eq!(person.claim("ask_1").await.expect_err("nothing").kind(), ErrorKind::NotFound);
        assert!(haft_store::Store::existing(&store.address).await.expect("read").is_none());
    }
}

struct Counting(ToolSpec, Arc<AtomicUsize>);

impl Tool for Counting {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _: &Value) -> Result<Vec<haft_core::Access>, ToolError> {
        Ok(Vec::new())
    }

    fn call(&self, _: haft_core::Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(Reply::text("done"))))
    }
}

struct AlwaysApprove;

impl ApprovalHandler for AlwaysApprove {
    fn decide<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Option<ApprovalDecision>> {
        Box::pin(std::future::ready(approval()))
    }
}

/// Returns a gate that asks before every call, and the number of runs of its tool.
fn gate(
    approvals: Arc<dyn Approvals>,
    handler: Option<Arc<dyn ApprovalHandler>>,
) -> (Gate, Arc<AtomicUsize>) {
    let registry = Registry::default();
    let schema = Schema::from_value(json!({"type": "object"})).expect("a schema");
    let mut spec = ToolSpec::declared("test", "small", "says something", schema);
    spec.effect = Effect::Write;
    let ran = Arc::new(AtomicUsize::new(0));
    registry.register(Counting(spec, ran.clone())).expect("a good name");
    let mut layer = Layer::new(LayerKind::User, "test");
    layer.mode = Some(Mode::None);
    let gate = Gate::builder(registry).policy(Policy::new(vec![layer])).approvals(approvals);
    let gate = match handler {
        Some(handler) => gate.handler(handler),
        None => gate.decided_externally(),
    };
    (gate.build(), ran)
}

fn call() -> CallRequest {
    CallRequest::new("small", json!({}), Context::new("s"))
}

#[tokio::test]
async fn a_store_that_cannot_be_written_does_not_prevent_asking() {
    let folder = tempfile::tempdir().expect("a folder");
    // A directory where the file should be, and a server that does not exist.
    std::fs::create_dir_all(folder.path().join("haft.db")).expect("in the way");
    for address in [
        StoreAddress::Sqlite(folder.path().join("haft.db")),
        StoreAddress::Postgres("postgres://127.0.0.1:1/x".to_owned()),
    ] {
        let approvals = || {
            Arc::new(StoreApprovals::new(
                StoreLocation::new(address.clone()),
                Path::new("/here"),
                folder.path(),
            ))
        };
        let (asked, ran) = gate(approvals(), Some(Arc::new(AlwaysApprove)));
        let outcome = in_time(asked.call(call())).await;
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        assert!(
            outcome
                .repairs
                .iter()
                .any(|it| it.starts_with("the approval request is visible in this process only: ")),
            "{outcome:?}"
        );
        // Without a handler in this process, the call must not wait.
        let (asked, ran) = gate(approvals(), None);
        let outcome = in_time(asked.call(call())).await;
        let error = outcome.error.expect("refused");
        assert_eq!((error.kind, ran.load(Ordering::SeqCst)), (ErrorKind::ApprovalUnavailable, 0));
        assert!(error.message.contains("but no approver can see the request"), "{error:?}");
    }
}

#[tokio::test]
async fn a_request_hidden_from_others_is_not_written_and_not_an_error() {
    for store in each().await {
        let approvals = Arc::new(approvals(&store).only_when(|| false));
        let (asked, ran) = gate(approvals, Some(Arc::new(AlwaysApprove)));
        let outcome = in_time(asked.call(call())).await;
        assert!(outcome.is_ok() && outcome.repairs.is_empty(), "{outcome:?}");
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        assert!(haft_store::Store::existing(&store.address).await.expect("read").is_none());
    }
}

#[tokio::test]
async fn a_call_of_a_gate_waits_for_another_process_and_runs_once() {
    for store in each().await {
        let (asked, ran) = gate(Arc::new(approvals(&store)), None);
        let mut news = StoreFeed::new(StoreLocation::new(store.address.clone())).subscribe(0);
        let calls = tokio::spawn(async move { asked.call(call()).await });
        let id = loop {
            match in_time(news.next()).await.expect("received") {
                FeedItem::Event(event) if event.kind == "approval.asked" => {
                    break event.subject.expect("an id");
                }
                _ => {}
            }
        };
        let person = approvals(&store);
        person.settle(&id, ApprovalState::Approved, approval()).await.expect("first");
        assert_eq!(in_time(person.wait_for_claim(&id)).await.expect("taken"), CallClaim::Taken);
        let outcome = in_time(calls).await.expect("no panic");
        assert!(outcome.is_ok(), "{outcome:?}");
        // Another process that wants to run it is too late.
        let (late, never) = gate(Arc::new(approvals(&store)), None);
        let error = late.resume(&id, Context::new("x")).await.expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!((ran.load(Ordering::SeqCst), never.load(Ordering::SeqCst)), (1, 0));
    }
}

#[tokio::test]
async fn the_call_of_a_gone_requester_runs_in_another_process_as_recorded() {
    for store in each().await {
        let (asked, ran) = gate(Arc::new(approvals(&store)), None);
        let mut context = Context::new("session-7").agent("lead");
        context.profile = None;
        let answer = asked.submit(CallRequest::new("small", json!({"a": 1}), context)).await;
        let haft_core::Submission::Pending(request) = answer else { panic!("it is asked for") };
        // The requester is killed.
        drop(asked);
        store.tamper("UPDATE approvals SET lease_ms = 0").await;
        let other = Arc::new(approvals(&store));
        other.settle(&request.id, ApprovalState::Approved, approval()).await.expect("first");
        let (runs, ran_there) = gate(other, None);
        let answer = in_time(runs.resume(&request.id, Context::new("x"))).await.expect("it may");
        let haft_core::Submission::Done(outcome) = answer else { panic!("it is decided") };
        assert!(outcome.is_ok(), "{outcome:?}");
        let newest = runs.ledger().newest(1).await.expect("read").remove(0);
        assert_eq!(
            (&*newest.session, &*newest.call_id, &newest.input),
            ("session-7", &*request.call_id, &json!({"a": 1}))
        );
        assert_eq!(newest.agents, ["lead"]);
        assert_eq!((ran.load(Ordering::SeqCst), ran_there.load(Ordering::SeqCst)), (0, 1));
    }
}

/// Approvals and ledger of a process that records its calls in the same store.
fn recording(store: &Fresh) -> (StoreApprovals, haft_store::StoreLedger) {
    let folder = store.folder.path();
    let location = StoreLocation::new(store.address.clone());
    let ledger =
        haft_store::StoreLedger::new(location.clone(), haft_store::ReplyTiming::AfterCommit);
    (StoreApprovals::new(location, &folder.join("here"), &folder.join("state/haft")), ledger)
}

#[tokio::test]
async fn a_claimed_call_that_did_not_begin_is_free_again_and_begins_once() {
    for store in each().await {
        let (asker, first) = recording(&store);
        asker.create(request("ask_1")).await.expect("kept");
        asker.settle("ask_1", ApprovalState::Approved, approval()).await.expect("the first");
        let lost = asker.claim("ask_1").await.expect("once").claim.expect("a claim");
        let (person, second) = recording(&store);
        let early = person.claim("ask_1").await.expect_err("it is about to begin");
        assert_eq!(early.kind(), ErrorKind::Conflict);
        assert_eq!(fate(&person).await, CallResult::NotRun, "it has not begun");
        let person = person.with_clock(|| now_ms() + 10_000);
        assert_eq!(in_time(person.wait_for_claim("ask_1")).await.expect("free"), CallClaim::Free);
        let held = person.claim("ask_1").await.expect("free again").claim.expect("a claim");
        let mut entry = crate::stores::change(1);
        entry.call_id = "call_ask_1".to_owned();
        let begin = |ledger: haft_store::StoreLedger, claim: String| {
            let entry = entry.clone();
            async move { haft_core::Ledger::begin(&ledger, entry, Some(&claim)).await }
        };
        let late = begin(first, lost).await.expect_err("another process has it");
        assert_eq!(late.kind(), ErrorKind::Conflict, "{late}");
        let seq = begin(second, held).await.expect("committed").expect("a number");
        person.mark_started("ask_1").await.expect("noted");
        assert_eq!(fate(&person).await, CallResult::Unknown, "it began, and no end is recorded");
        for clock in [now_ms, || now_ms() + 60_000] {
            let other = recording(&store).0.with_clock(clock);
            let error = other.claim("ask_1").await.expect_err("it has begun");
            assert_eq!(error.kind(), ErrorKind::Conflict);
        }
        // A restored row does not run again.
        store.tamper("UPDATE approvals SET taken_by = NULL, begun_seq = NULL").await;
        recording(&store)
            .0
            .with_clock(|| now_ms() + 60_000)
            .claim("ask_1")
            .await
            .expect_err("noted");
        let ledger = store.ledger();
        let verified = ledger.verify(None).await.expect("read");
        assert_eq!((verified.faults.len(), verified.unended.len()), (0, 1));
        entry.begun_seq = Some(seq);
        haft_core::Ledger::record(&*ledger, entry).await.expect("recorded");
        let verified = ledger.verify(None).await.expect("read");
        assert_eq!((verified.faults.len(), verified.unended.len()), (0, 0));
        let shown = ledger.find(&haft_store::LedgerFilter::default()).await.expect("read");
        assert_eq!(shown.len(), 1, "one call, though two entries");
    }
}
