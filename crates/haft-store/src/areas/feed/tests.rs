//! Tests within one process: when the watcher for other processes runs.

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::StoreAddress;

fn location(folder: &TempDir) -> Arc<StoreLocation> {
    StoreLocation::new(StoreAddress::Sqlite(folder.path().join("haft.db")))
}

async fn until(condition: impl Fn() -> bool) {
    let deadline = tokio::time::timeout(Duration::from_secs(60), async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    });
    deadline.await.expect("it happens in time");
}

#[tokio::test]
async fn the_watcher_runs_only_while_there_are_subscribers() {
    let folder = tempfile::tempdir().expect("a folder");
    let location = location(&folder);
    let events = StoreFeed::new(location.clone());
    let nothing = json!({});
    events.announce(&Announcement::of("x", "a", &nothing)).await.expect("announced");
    let hub = location.store().await.expect("open").hub;
    assert!(!hub.is_watched());
    let mut first = events.subscribe(0);
    first.next().await.expect("the first event");
    assert!(hub.is_watched());
    let mut second = events.subscribe(0);
    second.next().await.expect("the first event");
    drop(first);
    assert!(hub.is_watched());
    drop(second);
    until(|| !hub.is_watched()).await;
    // The next subscriber starts it again.
    let mut third = events.subscribe(0);
    third.next().await.expect("the first event");
    assert!(hub.is_watched());
}

#[tokio::test]
async fn a_watcher_that_ended_is_started_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let location = location(&folder);
    let events = StoreFeed::new(location.clone());
    let nothing = json!({});
    events.announce(&Announcement::of("x", "a", &nothing)).await.expect("announced");
    let hub = location.store().await.expect("open").hub;
    let mut listener = events.subscribe(0);
    listener.next().await.expect("the first event");
    hub.drop_watcher();
    assert!(!hub.is_watched());
    tokio::select! {
        biased;
        news = listener.next() => panic!("nothing happened: {news:?}"),
        () = until(|| hub.is_watched()) => {}
    }
}

#[tokio::test]
async fn a_new_subscription_of_no_store_makes_none_and_waits_for_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let events = StoreFeed::new(location(&folder));
    assert_eq!(events.newest().await.expect("nothing"), 0);
    assert!(events.since(0, 9).await.expect("nothing").is_empty());
    let mut early = events.subscribe(0);
    tokio::select! {
        biased;
        news = early.next() => panic!("nothing happened: {news:?}"),
        () = tokio::task::yield_now() => {}
    }
    assert!(!folder.path().join("haft.db").exists());
    let body = json!({"n": 1});
    StoreFeed::new(location(&folder))
        .announce(&Announcement::of("x", "a", &body))
        .await
        .expect("announced");
    let FeedItem::Event(event) = early.next().await.expect("received") else { panic!("a gap") };
    assert_eq!((event.seq, event.body), (1, body));
}
