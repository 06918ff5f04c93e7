//! Two real processes with 16 writers each on one store: no write is lost, none is refused.
//! `benches/events.rs` does the same with 100,000 writes.

use std::{collections::HashMap, process::Command, sync::Arc};

use haft_core::feed::Feed;
use haft_core::{ApprovalState, Approvals};
use haft_store::{Announcement, StoreAddress, StoreApprovals, StoreFeed, StoreLocation};
use serde_json::json;

use crate::{approvals::request, stores::each};

const WRITERS: u64 = 16;
const EACH: u64 = 40;
/// Environment of the child process: address, folder and name.
const VARIABLES: [&str; 3] = ["HAFT_TEST_WRITE_TO", "HAFT_TEST_STATE", "HAFT_TEST_NAME"];

#[expect(clippy::disallowed_methods, reason = "the parent process passes them here")]
fn variables() -> Option<[String; 3]> {
    let [address, state, name] = VARIABLES.map(|name| std::env::var(name).ok());
    Some([address?, state?, name?])
}

/// The child process. Without the variables it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_writer() {
    let Some([address, state, name]) = variables() else { return assert!(variables().is_none()) };
    let address = StoreAddress::parse(&address, std::path::Path::new("/")).expect("an address");
    let place = StoreLocation::new(address);
    let events = StoreFeed::new(place.clone());
    let state = std::path::Path::new(&state);
    let approvals = Arc::new(StoreApprovals::new(place, &state.join("here"), state));
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (events, approvals) = (events.clone(), approvals.clone());
        let subject = format!("{name}-{writer}");
        tasks.spawn(async move {
            for number in 0..EACH {
                let body = json!({ "number": number });
                events.announce(&Announcement::of("test", &subject, &body)).await.expect("written");
                if number % 10 == 0 {
                    let id = format!("ask_{subject}_{number}");
                    approvals.create(request(&id)).await.expect("kept");
                    assert_eq!(approvals.local_only_reason(&id), None);
                    approvals.settle(&id, ApprovalState::Denied, None).await.expect("decided");
                }
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn two_processes_with_many_writers_lose_and_refuse_nothing() {
    for store in each().await {
        let address = match &store.address {
            StoreAddress::Sqlite(path) => path.display().to_string(),
            StoreAddress::Postgres(url) => url.clone(),
        };
        let state = store.folder.path().display().to_string();
        let children = ["a", "b"].map(|name| {
            let mut child = Command::new(std::env::current_exe().expect("this program"));
            child.args(["contention::child_writer", "--exact", "--nocapture"]);
            child.envs(VARIABLES.into_iter().zip([&*address, &*state, name]));
            child.spawn().expect("it runs")
        });
        for mut child in children {
            assert!(child.wait().expect("it ends").success(), "a writer was refused");
        }
        let events = StoreFeed::new(StoreLocation::new(store.address.clone()));
        let all = events.since(0, usize::MAX).await.expect("read");
        let mut next: HashMap<String, u64> = HashMap::new();
        for (place, event) in (1..).zip(&all) {
            assert_eq!(event.seq, place, "without gaps");
            if event.kind == "test" {
                let expected = next.entry(event.subject.clone().expect("a writer")).or_default();
                assert_eq!(event.body["number"], json!(*expected), "each in its order");
                *expected += 1;
            }
        }
        assert_eq!(next.len() as u64, 2 * WRITERS);
        assert!(next.values().all(|count| *count == EACH), "{next:?}");
        let asked = all.iter().filter(|event| event.kind == "approval.decided").count();
        assert_eq!(asked as u64, 2 * WRITERS * EACH / 10);
    }
}
