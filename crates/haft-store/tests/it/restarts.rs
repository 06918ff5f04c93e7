//! A server that is really stopped and started during work: nothing is lost, nothing happens twice,
//! and subscribers keep receiving events.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_core::Leases;
use haft_core::feed::{Feed, FeedItem};
use haft_core::{
    ApprovalDecision, ApprovalState, Approvals, CallInfo, ChangeQuery, ErrorKind, Journal, Ledger,
    NewChange, NewJournalEntry, NewMessage, OutputSource, Outputs, PathState, SessionEvent,
    Sessions, Todos,
};
use haft_store::{
    JournalRetention, LedgerFilter, OutputRetention, ReplyTiming, StoreAddress, StoreApprovals,
    StoreFeed, StoreJournal, StoreLeases, StoreLedger, StoreLocation, StoreOutputs, StoreSessions,
    StoreTodos,
};

use crate::{approvals::request, cluster::Cluster, events::TEST_TIMEOUT, stores::change};

const WORKERS: usize = 6;

/// Asks, decides and takes up until the restarts are over. Returns the confirmed requests and
/// calls.
async fn work(
    worker: usize,
    approvals: Arc<StoreApprovals>,
    is_over: Arc<AtomicBool>,
) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut taken) = (Vec::new(), Vec::new());
    for round in 0.. {
        if is_over.load(Ordering::SeqCst) && round >= 20 {
            break;
        }
        let id = format!("ask_{worker}_{round}");
        let created = approvals.create(request(&id)).await;
        if created.is_err() || approvals.local_only_reason(&id).is_some() {
            // Possibly stored, or in memory only: neither was confirmed.
            continue;
        }
        kept.push(id.clone());
        let yes = Some(ApprovalDecision::approve("Ann", "test"));
        approvals.settle(&id, ApprovalState::Approved, yes).await.expect("decided once");
        approvals.claim(&id).await.expect("taken once");
        taken.push(id.clone());
        let again = approvals.claim(&id).await.expect_err("only once");
        assert_eq!(again.kind(), ErrorKind::Conflict, "{again}");
    }
    (kept, taken)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restarted_server_loses_nothing_and_repeats_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let address = StoreAddress::Postgres(cluster.url());
    let approvals = || {
        let location = StoreLocation::new(address.clone());
        Arc::new(StoreApprovals::new(location, &folder.path().join("here"), folder.path()))
    };
    let events = StoreFeed::new(StoreLocation::new(address.clone()));
    StoreLocation::new(address.clone()).store().await.expect("it is made");
    let is_over = Arc::new(AtomicBool::new(false));
    let mut workers = tokio::task::JoinSet::new();
    let several = [approvals(), approvals()];
    for worker in 0..WORKERS {
        workers.spawn(work(worker, several[worker % 2].clone(), is_over.clone()));
    }
    let mut subscription = events.subscribe(0);
    let (done, mut is_done) = tokio::sync::oneshot::channel::<u64>();
    let listener = tokio::spawn(async move {
        let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut last = None;
        loop {
            if last.is_some_and(|last| subscription.position() >= last) {
                return seen;
            }
            tokio::select! {
                biased;
                Ok(newest) = &mut is_done, if last.is_none() => last = Some(newest),
                news = subscription.next() => match news.expect("it comes back") {
                    FeedItem::Event(event) => {
                        *seen.entry((event.kind, event.subject.unwrap_or_default())).or_default() += 1;
                    }
                    FeedItem::Missed(gap) => panic!("{gap:?}"),
                },
            }
        }
    });
    for how in ["fast", "immediate", "immediate"] {
        // Restart during work: wait for more events since the last restart.
        let before = events.newest().await.expect("read");
        let more = async {
            while events.newest().await.map_or(true, |newest| newest < before + 60) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, more).await.expect("the work goes on");
        tokio::task::block_in_place(|| cluster.restart(how));
    }
    is_over.store(true, Ordering::SeqCst);
    let results =
        tokio::time::timeout(TEST_TIMEOUT * 2, workers.join_all()).await.expect("they end");
    done.send(events.newest().await.expect("read")).expect("it listens");
    let seen = tokio::time::timeout(TEST_TIMEOUT, listener)
        .await
        .expect("it hears all")
        .expect("no panic");
    assert!(seen.values().all(|count| *count == 1), "twice: {seen:?}");
    let heard = |kind: &str| -> BTreeSet<String> {
        seen.keys().filter(|(it, _)| it == kind).map(|(_, id)| id.clone()).collect()
    };
    let kept: BTreeSet<String> = results.iter().flat_map(|(kept, _)| kept.clone()).collect();
    let taken: BTreeSet<String> = results.iter().flat_map(|(_, taken)| taken.clone()).collect();
    assert!(kept.len() >= 3 * 20, "{}", kept.len());
    assert!(kept.is_subset(&heard("approval.asked")), "what was stored was announced");
    assert_eq!((heard("approval.decided"), heard("approval.taken")), (kept, taken));
}

/// The areas whose writes are not retried, as one process has them.
struct AllAreas {
    ledger: StoreLedger,
    journal: StoreJournal,
    sessions: StoreSessions,
    todos: StoreTodos,
    outputs: StoreOutputs,
    leases: StoreLeases,
}

/// The writes that were confirmed to a worker.
#[derive(Default)]
struct Confirmed {
    calls: Vec<String>,
    changes: Vec<(u64, String)>,
    messages: Vec<(u64, String)>,
    versions: Vec<u64>,
    outputs: Vec<(String, String)>,
    turns: Vec<u64>,
}

const SHORT: Duration = Duration::from_secs(3600);

impl AllAreas {
    fn of(address: &StoreAddress) -> Arc<Self> {
        let location = StoreLocation::new(address.clone());
        let workspace = Path::new("/w");
        Arc::new(Self {
            ledger: StoreLedger::new(location.clone(), ReplyTiming::AfterCommit),
            journal: StoreJournal::new(location.clone(), JournalRetention::DEFAULT),
            sessions: StoreSessions::new(location.clone(), workspace),
            todos: StoreTodos::new(location.clone(), workspace),
            outputs: StoreOutputs::new(location.clone(), workspace, OutputRetention::default())
                .without_memory(),
            leases: StoreLeases::new(location),
        })
    }

    /// Writes once to every area.
    async fn write(&self, number: u64, confirmed: &mut Confirmed) {
        let words = format!("words {number}");
        if self.ledger.record(change(number)).await.is_ok() {
            confirmed.calls.push(format!("call_{number}"));
        }
        let mut call = CallInfo::default();
        call.call_id = words.as_str().into();
        call.workspace = "/w".into();
        let entry = NewJournalEntry {
            path: words.clone().into(),
            before: PathState::Missing,
            content: None,
            after: PathState::Missing,
            moved_from: None,
        };
        let entries = [entry];
        let new = NewChange { call: &call, tool: "write", entries: &entries, undoes: &[] };
        if let Ok(number) = tokio::task::block_in_place(|| self.journal.begin(&new)) {
            confirmed.changes.push((number, words.clone()));
        }
        let (role, author) = ("agent".to_owned(), "x".to_owned());
        let message = NewMessage { role, author, content: words.clone(), call_id: None };
        let sent = self.sessions.send("mcp-1", &message).await;
        confirmed.messages.extend(sent.map(|seq| (seq, words.clone())));
        confirmed.versions.extend(self.todos.write("s", &[], None).await);
        let kept = self.outputs.keep(words.clone(), OutputSource::default()).await;
        confirmed.outputs.extend(kept.map(|receipt| (receipt.id, words)));
        if let Ok(lease) = self.leases.claim("job", "the one", "w", SHORT).await {
            confirmed.turns.push(lease.generation);
            // Released, or still held: then there is no further claim.
            let _ = self.leases.release(&lease).await;
        }
    }

    async fn check(&self, confirmed: &Confirmed) {
        let verified = self.ledger.verify(None).await.expect("read");
        assert_eq!(verified.faults, []);
        let all = self.ledger.find(&LedgerFilter { most: 99_999, ..LedgerFilter::default() }).await;
        let all = all.expect("read").into_iter().map(|it| it.entry.call_id);
        once("calls", &confirmed.calls, all.collect());
        let all = ChangeQuery { limit: usize::MAX, ..ChangeQuery::default() };
        let all = self.journal.find(Path::new("/w"), &all).await.expect("read");
        let all = all.into_iter().map(|it| (it.number, it.call_id));
        once("changes", &confirmed.changes, all.collect());
        let history = self.sessions.history("mcp-1", 0, 99_999).await.expect("read");
        let all: Vec<(u64, String)> = history
            .events
            .into_iter()
            .filter_map(|it| match it {
                SessionEvent::Message(message) => Some((message.seq, message.content)),
                SessionEvent::Call(_) => None,
            })
            .collect();
        assert_eq!(all.len() as u64, history.session.messages, "a number and its message");
        once("messages", &confirmed.messages, all);
        let version = self.todos.read("s").await.expect("read").version;
        once("versions", &confirmed.versions, (1..=version).collect());
        for (id, words) in &confirmed.outputs {
            assert_eq!(&*self.outputs.read(id).await.expect("kept"), words);
        }
        let turns: BTreeSet<u64> = confirmed.turns.iter().copied().collect();
        assert_eq!(turns.len(), confirmed.turns.len(), "a turn belongs to one claim");
    }
}

/// Checks that every confirmed item exists, and none twice.
#[track_caller]
fn once<T: Ord + std::fmt::Debug>(what: &str, confirmed: &[T], there: Vec<T>) {
    let count = there.len();
    let there: BTreeSet<T> = there.into_iter().collect();
    assert_eq!(there.len(), count, "{what}: twice");
    let missing: Vec<&T> = confirmed.iter().filter(|it| !there.contains(it)).collect();
    assert!(missing.is_empty(), "{what}: told and not there: {missing:?}");
    assert!(confirmed.len() >= 60, "{what}: only {} were confirmed", confirmed.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_area_loses_or_repeats_confirmed_writes_over_a_server_restart() {
    let Some(cluster) = Cluster::start() else { return };
    let address = StoreAddress::Postgres(cluster.url());
    let areas = [AllAreas::of(&address), AllAreas::of(&address)];
    areas[0].sessions.mark_active("mcp-1", &[]).await.expect("noted");
    let (is_over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..4_u64 {
        let (areas, is_over) = (areas[(worker % 2) as usize].clone(), is_over.clone());
        let done = done.clone();
        workers.spawn(async move {
            let mut confirmed = Confirmed::default();
            for round in 0.. {
                if is_over.load(Ordering::SeqCst) && confirmed.messages.len() >= 20 {
                    return confirmed;
                }
                areas.write(worker * 1_000_000 + round, &mut confirmed).await;
                done.fetch_add(1, Ordering::SeqCst);
            }
            confirmed
        });
    }
    for how in ["fast", "immediate", "immediate"] {
        let before = done.load(Ordering::SeqCst);
        let more = async {
            while done.load(Ordering::SeqCst) < before + 25 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, more).await.expect("the work goes on");
        tokio::task::block_in_place(|| cluster.restart(how));
    }
    is_over.store(true, Ordering::SeqCst);
    let all = tokio::time::timeout(TEST_TIMEOUT * 2, workers.join_all()).await.expect("they end");
    let mut whole = Confirmed::default();
    for confirmed in all {
        whole.calls.extend(confirmed.calls);
        whole.changes.extend(confirmed.changes);
        whole.messages.extend(confirmed.messages);
        whole.versions.extend(confirmed.versions);
        whole.outputs.extend(confirmed.outputs);
        whole.turns.extend(confirmed.turns);
    }
    AllAreas::of(&address).check(&whole).await;
}
