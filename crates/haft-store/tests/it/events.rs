//! Events on both engines: in order, once, resumable, with a report of deleted ones.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::feed::{Feed, FeedEvent, FeedItem, FeedSubscription, MissedEvents};
use haft_store::{Announcement, EventRetention, StoreAddress, StoreFeed, StoreLocation};
use serde_json::json;

use crate::stores::{Fresh, each};

/// Much longer than any step takes; only a failing test waits for it.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The events as another process sees them.
fn events(store: &Fresh) -> StoreFeed {
    StoreFeed::new(StoreLocation::new(store.address.clone()))
}

async fn announce(events: &StoreFeed, subject: &str, number: u64) -> u64 {
    let body = json!({ "number": number });
    events.announce(&Announcement::of("test", subject, &body)).await.expect("announced")
}

pub(crate) async fn next(subscription: &mut Box<dyn FeedSubscription>) -> FeedItem {
    let news = tokio::time::timeout(TEST_TIMEOUT, subscription.next()).await;
    news.expect("something happens in time").expect("it can be read")
}

pub(crate) async fn event(subscription: &mut Box<dyn FeedSubscription>) -> FeedEvent {
    match next(subscription).await {
        FeedItem::Event(event) => event,
        FeedItem::Missed(gap) => panic!("{gap:?}"),
    }
}

#[tokio::test]
async fn events_of_another_process_arrive_in_order_and_complete() {
    for store in each().await {
        let (here, there) = (events(&store), events(&store));
        let body = json!({"ä": "\u{0}x", "n": [1, 2]});
        let expected = Announcement {
            kind: "approval.asked",
            session: Some("s\u{0}1"),
            call: Some("call_1"),
            subject: Some("ask_1"),
            body: &body,
        };
        assert_eq!(there.announce(&expected).await.expect("announced"), 1);
        let mut subscription = here.subscribe(0);
        let first = event(&mut subscription).await;
        assert_eq!(
            (first.seq, &*first.kind, first.session.as_deref()),
            (1, "approval.asked", Some("s\u{fffd}1"))
        );
        assert_eq!(
            (first.call.as_deref(), first.subject.as_deref()),
            (Some("call_1"), Some("ask_1"))
        );
        assert_eq!(first.body, body);
        // And while the subscriber waits.
        let hears = tokio::spawn(async move {
            let mut heard = Vec::new();
            for _ in 0..50 {
                heard.push(event(&mut subscription).await.seq);
            }
            heard
        });
        for number in 2..=51 {
            assert_eq!(announce(&there, "a", number).await, number);
        }
        assert_eq!(hears.await.expect("no panic"), (2..=51).collect::<Vec<_>>());
        assert_eq!(here.newest().await.expect("read"), 51);
        let since: Vec<u64> =
            here.since(48, 2).await.expect("read").iter().map(|event| event.seq).collect();
        assert_eq!(since, [49, 50]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_event_of_many_writers_is_missed_or_seen_twice() {
    const WRITERS: u64 = 12;
    const EACH: u64 = 40;
    for store in each().await {
        let places = [events(&store), events(&store)];
        announce(&places[0], "first", 0).await;
        let mut listeners = tokio::task::JoinSet::new();
        for listener in 0..3 {
            let events = events(&store);
            listeners.spawn(async move {
                let mut subscription = events.subscribe(1);
                let mut seen: BTreeMap<String, Vec<u64>> = BTreeMap::new();
                for count in 0..WRITERS * EACH {
                    let event = event(&mut subscription).await;
                    assert_eq!(event.seq, count + 2, "in order, without gaps");
                    let number = event.body["number"].as_u64().expect("a number");
                    seen.entry(event.subject.expect("a subject")).or_default().push(number);
                    // This subscriber repeatedly forgets everything but its position.
                    if listener == 0 && count % 7 == 0 {
                        subscription = events.subscribe(subscription.position());
                    }
                }
                seen
            });
        }
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let events = places[(writer % 2) as usize].clone();
            writers.spawn(async move {
                for number in 0..EACH {
                    announce(&events, &writer.to_string(), number).await;
                }
            });
        }
        writers.join_all().await;
        for seen in listeners.join_all().await {
            assert_eq!(seen.len() as u64, WRITERS);
            assert!(seen.values().all(|numbers| *numbers == (0..EACH).collect::<Vec<_>>()));
        }
    }
}

#[tokio::test]
async fn a_rolled_back_event_uses_no_number() {
    let Some(store) = crate::stores::postgres().await else { return };
    let events = events(&store);
    announce(&events, "a", 1).await;
    // Without haft: a transaction that takes the next number, holds it, and rolls back.
    let StoreAddress::Postgres(url) = &store.address else { panic!("a database") };
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("reached");
    tokio::spawn(connection);
    client.batch_execute("BEGIN; UPDATE haft.event_head SET seq = seq + 1").await.expect("held");
    let other = events.clone();
    let late = tokio::spawn(async move { announce(&other, "a", 2).await });
    let mut subscription = events.subscribe(1);
    tokio::select! {
        biased;
        news = subscription.next() => panic!("nothing was committed: {news:?}"),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }
    client.batch_execute("ROLLBACK").await.expect("free");
    assert_eq!(late.await.expect("no panic"), 2, "the number was not used up");
    assert_eq!(event(&mut subscription).await.seq, 2);
}

#[tokio::test]
async fn a_late_subscriber_learns_which_events_are_gone() {
    for store in each().await {
        let retention = EventRetention { max_events: 100, max_age: Duration::from_secs(86_400) };
        let kept = StoreFeed::new(StoreLocation::with_retention(store.address.clone(), retention));
        let mut slow = kept.subscribe(0);
        announce(&kept, "a", 1).await;
        assert_eq!(event(&mut slow).await.seq, 1);
        for number in 2..=600 {
            announce(&kept, "a", number).await;
        }
        // Old events are deleted at every 256th: at 512, those up to 412.
        assert_eq!(
            next(&mut slow).await,
            FeedItem::Missed(MissedEvents { after: 1, resumes_after: 412 })
        );
        for seq in 413..=600 {
            assert_eq!(event(&mut slow).await.seq, seq);
        }
        let mut young = kept.subscribe(500);
        assert_eq!(event(&mut young).await.seq, 501, "existing events are not a gap");
    }
}

#[tokio::test]
async fn old_events_go_but_not_those_after_a_young_one() {
    for store in each().await {
        let retention = EventRetention { max_events: 100_000, max_age: Duration::from_secs(3600) };
        let kept = StoreFeed::new(StoreLocation::with_retention(store.address.clone(), retention));
        for number in 1..=200 {
            announce(&kept, "a", number).await;
        }
        // Old events, and one in between that a late clock dated too early.
        store.tamper("UPDATE events SET at_ms = 1000 WHERE seq <= 150 OR seq = 170").await;
        for number in 201..=256 {
            announce(&kept, "a", number).await;
        }
        let left: Vec<u64> =
            kept.since(0, 999).await.expect("read").iter().map(|event| event.seq).collect();
        assert_eq!(left, (151..=256).collect::<Vec<_>>(), "{:?}", store.address);
    }
}

#[tokio::test]
async fn a_subscriber_learns_that_all_events_are_gone() {
    for store in each().await {
        let events = events(&store);
        for number in 1..=5 {
            announce(&events, "a", number).await;
        }
        store.tamper("DELETE FROM events").await;
        let mut subscription = events.subscribe(2);
        assert_eq!(
            next(&mut subscription).await,
            FeedItem::Missed(MissedEvents { after: 2, resumes_after: 5 })
        );
        announce(&events, "a", 6).await;
        assert_eq!(event(&mut subscription).await.seq, 6);
    }
}

#[tokio::test]
async fn a_replaced_store_is_a_gap_and_its_events_follow() {
    let store = each().await.remove(0);
    let StoreAddress::Sqlite(path) = &store.address else { panic!("a file") };
    let here = events(&store);
    for number in 1..=5 {
        announce(&here, "a", number).await;
    }
    let mut subscription = here.subscribe(4);
    assert_eq!(event(&mut subscription).await.seq, 5);
    for end in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{}{end}", path.display())).expect("gone");
    }
    let there = events(&store);
    announce(&there, "b", 1).await;
    let expected = next(&mut subscription).await;
    assert_eq!(expected, FeedItem::Missed(MissedEvents { after: 5, resumes_after: 1 }));
    announce(&there, "b", 2).await;
    let second = event(&mut subscription).await;
    assert_eq!((second.seq, second.subject.as_deref()), (2, Some("b")));
}

#[tokio::test]
async fn a_clock_that_was_set_back_changes_no_order() {
    for store in each().await {
        let events = events(&store);
        for number in 1..=4 {
            announce(&events, "a", number).await;
        }
        store.tamper("UPDATE events SET at_ms = 9999999999999 WHERE seq = 2").await;
        announce(&events, "a", 5).await;
        let mut subscription = events.subscribe(0);
        for seq in 1..=5 {
            assert_eq!(event(&mut subscription).await.seq, seq);
        }
    }
}

#[tokio::test]
async fn waiting_subscribers_are_woken_without_polling() {
    for store in each().await {
        let (here, there) = (events(&store), events(&store));
        announce(&there, "a", 1).await;
        let mut subscription = here.subscribe(0);
        event(&mut subscription).await;
        let began = Instant::now();
        for number in 2..=41 {
            let hears = event(&mut subscription);
            let tells = async {
                // Only after the other waits.
                tokio::task::yield_now().await;
                announce(&there, "a", number).await
            };
            let (heard, expected) = tokio::join!(hears, tells);
            assert_eq!(heard.seq, expected);
        }
        // Polling happens once a second, which would take 40 s here. A notification takes a few
        // milliseconds.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_wait_that_is_dropped_loses_nothing() {
    for store in each().await {
        let (here, there) = (events(&store), events(&store));
        let mut subscription = here.subscribe(0);
        let mut seen = Vec::new();
        let began = Instant::now();
        let tells = tokio::spawn(async move {
            for number in 1..=100 {
                announce(&there, "a", number).await;
            }
        });
        // Shorter and longer than a query takes.
        for timeout in (0..).map(|round| Duration::from_micros(100 * (round % 200))) {
            if seen.len() == 100 {
                break;
            }
            assert!(began.elapsed() < TEST_TIMEOUT);
            tokio::select! {
                news = subscription.next() => match news.expect("read") {
                    FeedItem::Event(event) => seen.push(event.seq),
                    FeedItem::Missed(gap) => panic!("{gap:?}"),
                },
                () = tokio::time::sleep(timeout) => {}
            }
        }
        tells.await.expect("no panic");
        assert_eq!(seen, (1..=100).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn lost_connections_lose_no_events() {
    let Some(store) = crate::stores::postgres().await else { return };
    let StoreAddress::Postgres(url) = &store.address else { panic!("a database") };
    let (here, there) = (Arc::new(events(&store)), events(&store));
    announce(&there, "a", 1).await;
    let mut subscription = here.subscribe(0);
    for round in 1..=5 {
        assert_eq!(event(&mut subscription).await.seq, round);
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        crate::stores::run(url, cut).await;
        announce(&there, "a", round + 1).await;
    }
}
