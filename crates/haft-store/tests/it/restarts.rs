//! A server that is really stopped and started in the middle: nothing is lost, nothing happens twice, and whoever
//! listens goes on listening.

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
    Address, Filter, Keep, OutputRetention, ReplyTiming, StoreApprovals, StoreFeed, StoreJournal,
    StoreLeases, StoreLedger, StoreLocation, StoreOutputs, StoreSessions, StoreTodos,
};

use crate::{approvals::request, cluster::Cluster, events::PATIENCE, stores::change};

const WORKERS: usize = 6;

/// Asks, decides and takes up until the restarts are over. What it was told has happened.
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
            // Perhaps, or only here: then nobody was told that it is kept.
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
async fn a_server_that_is_started_anew_loses_nothing_and_repeats_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let address = Address::Postgres(cluster.url());
    let approvals = || {
        let place = StoreLocation::new(address.clone());
        Arc::new(StoreApprovals::new(place, &folder.path().join("here"), folder.path()))
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
        // In the middle of it: some more has happened since the last time.
        let before = events.newest().await.expect("read");
        let more = async {
            while events.newest().await.map_or(true, |newest| newest < before + 60) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, more).await.expect("the work goes on");
        tokio::task::block_in_place(|| cluster.restart(how));
    }
    is_over.store(true, Ordering::SeqCst);
    let results = tokio::time::timeout(PATIENCE * 2, workers.join_all()).await.expect("they end");
    done.send(events.newest().await.expect("read")).expect("it listens");
    let seen =
        tokio::time::timeout(PATIENCE, listener).await.expect("it hears all").expect("no panic");
    assert!(seen.values().all(|count| *count == 1), "twice: {seen:?}");
    let heard = |kind: &str| -> BTreeSet<String> {
        seen.keys().filter(|(it, _)| it == kind).map(|(_, id)| id.clone()).collect()
    };
    let kept: BTreeSet<String> = results.iter().flat_map(|(kept, _)| kept.clone()).collect();
    let taken: BTreeSet<String> = results.iter().flat_map(|(_, taken)| taken.clone()).collect();
    assert!(kept.len() >= 3 * 20, "{}", kept.len());
    assert!(kept.is_subset(&heard("approval.asked")), "what was kept was told");
    assert_eq!((heard("approval.decided"), heard("approval.taken")), (kept, taken));
}

/// The rooms whose writes nobody repeats, as one process has them.
struct Rooms {
    ledger: StoreLedger,
    journal: StoreJournal,
    sessions: StoreSessions,
    todos: StoreTodos,
    outputs: StoreOutputs,
    leases: StoreLeases,
}

/// What a worker was told that it has happened, by its number.
#[derive(Default)]
struct Told {
    calls: Vec<String>,
    changes: Vec<(u64, String)>,
    messages: Vec<(u64, String)>,
    versions: Vec<u64>,
    outputs: Vec<(String, String)>,
    turns: Vec<u64>,
}

const SHORT: Duration = Duration::from_secs(3600);

impl Rooms {
    fn of(address: &Address) -> Arc<Self> {
        let place = StoreLocation::new(address.clone());
        let workspace = Path::new("/w");
        Arc::new(Self {
            ledger: StoreLedger::new(place.clone(), ReplyTiming::AfterCommit),
            journal: StoreJournal::new(place.clone(), Keep::USUAL),
            sessions: StoreSessions::new(place.clone(), workspace),
            todos: StoreTodos::new(place.clone(), workspace),
            outputs: StoreOutputs::new(place.clone(), workspace, OutputRetention::default())
                .nowhere_else(),
            leases: StoreLeases::new(place),
        })
    }

    /// One of everything.
    async fn write(&self, number: u64, told: &mut Told) {
        let words = format!("words {number}");
        if self.ledger.record(change(number)).await.is_ok() {
            told.calls.push(format!("call_{number}"));
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
            told.changes.push((number, words.clone()));
        }
        let (role, author) = ("agent".to_owned(), "x".to_owned());
        let message = NewMessage { role, author, content: words.clone(), call_id: None };
        let sent = self.sessions.send("mcp-1", &message).await;
        told.messages.extend(sent.map(|seq| (seq, words.clone())));
        told.versions.extend(self.todos.write("s", &[], None).await);
        let kept = self.outputs.keep(words.clone(), OutputSource::default()).await;
        told.outputs.extend(kept.map(|receipt| (receipt.id, words)));
        if let Ok(lease) = self.leases.claim("job", "the one", "w", SHORT).await {
            told.turns.push(lease.generation);
            // Given back, or it stays ours: then nobody has it any more.
            let _ = self.leases.release(&lease).await;
        }
    }

    async fn check(&self, told: &Told) {
        let verified = self.ledger.verify(None).await.expect("read");
        assert_eq!(verified.faults, []);
        let all = self.ledger.find(&Filter { most: 99_999, ..Filter::default() }).await;
        let all = all.expect("read").into_iter().map(|it| it.entry.call_id);
        once("calls", &told.calls, all.collect());
        let all = ChangeQuery { limit: usize::MAX, ..ChangeQuery::default() };
        let all = self.journal.find(Path::new("/w"), &all).await.expect("read");
        let all = all.into_iter().map(|it| (it.number, it.call_id));
        once("changes", &told.changes, all.collect());
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
        once("messages", &told.messages, all);
        let version = self.todos.read("s").await.expect("read").version;
        once("versions", &told.versions, (1..=version).collect());
        for (id, words) in &told.outputs {
            assert_eq!(&*self.outputs.read(id).await.expect("kept"), words);
        }
        let turns: BTreeSet<u64> = told.turns.iter().copied().collect();
        assert_eq!(turns.len(), told.turns.len(), "a turn is of one claim");
    }
}

/// All that was told is there, and nothing is there twice.
#[track_caller]
fn once<T: Ord + std::fmt::Debug>(what: &str, told: &[T], there: Vec<T>) {
    let count = there.len();
    let there: BTreeSet<T> = there.into_iter().collect();
    assert_eq!(there.len(), count, "{what}: twice");
    let missing: Vec<&T> = told.iter().filter(|it| !there.contains(it)).collect();
    assert!(missing.is_empty(), "{what}: told and not there: {missing:?}");
    assert!(told.len() >= 60, "{what}: only {} were told", told.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_room_loses_what_it_told_or_does_it_twice_when_the_server_is_started_anew() {
    let Some(cluster) = Cluster::start() else { return };
    let address = Address::Postgres(cluster.url());
    let rooms = [Rooms::of(&address), Rooms::of(&address)];
    rooms[0].sessions.saw("mcp-1", &[]).await.expect("noted");
    let (is_over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..4_u64 {
        let (rooms, is_over) = (rooms[(worker % 2) as usize].clone(), is_over.clone());
        let done = done.clone();
        workers.spawn(async move {
            let mut told = Told::default();
            for round in 0.. {
                if is_over.load(Ordering::SeqCst) && told.messages.len() >= 20 {
                    return told;
                }
                rooms.write(worker * 1_000_000 + round, &mut told).await;
                done.fetch_add(1, Ordering::SeqCst);
            }
            told
        });
    }
    for how in ["fast", "immediate", "immediate"] {
        let before = done.load(Ordering::SeqCst);
        let more = async {
            while done.load(Ordering::SeqCst) < before + 25 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, more).await.expect("the work goes on");
        tokio::task::block_in_place(|| cluster.restart(how));
    }
    is_over.store(true, Ordering::SeqCst);
    let all = tokio::time::timeout(PATIENCE * 2, workers.join_all()).await.expect("they end");
    let mut whole = Told::default();
    for told in all {
        whole.calls.extend(told.calls);
        whole.changes.extend(told.changes);
        whole.messages.extend(told.messages);
        whole.versions.extend(told.versions);
        whole.outputs.extend(told.outputs);
        whole.turns.extend(told.turns);
    }
    Rooms::of(&address).check(&whole).await;
}
