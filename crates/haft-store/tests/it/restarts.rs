//! A server that is really stopped and started in the middle: nothing is lost, nothing happens twice, and whoever
//! listens goes on listening.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_core::{ApprovalState, Approvals, ErrorKind, Verdict};
use haft_store::{Address, Events, News, Place, StoreApprovals};

use crate::{approvals::request, cluster::Cluster, events::PATIENCE};

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
        if created.is_err() || approvals.trouble(&id).is_some() {
            // Perhaps, or only here: then nobody was told that it is kept.
            continue;
        }
        kept.push(id.clone());
        let yes = Some(Verdict::approve("Ann", "test"));
        approvals.settle(&id, ApprovalState::Approved, yes).await.expect("decided once");
        approvals.take_up(&id).await.expect("taken once");
        taken.push(id.clone());
        let again = approvals.take_up(&id).await.expect_err("only once");
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
        let place = Place::new(address.clone());
        Arc::new(StoreApprovals::new(place, &folder.path().join("here"), folder.path()))
    };
    let events = Events::new(Place::new(address.clone()));
    Place::new(address.clone()).store().await.expect("it is made");
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
                    News::Event(event) => {
                        *seen.entry((event.kind, event.subject.unwrap_or_default())).or_default() += 1;
                    }
                    News::Gap(gap) => panic!("{gap:?}"),
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
