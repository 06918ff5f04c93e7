//! Many messages at once: each is answered, and no call overtakes a change that was sent before it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
    mpsc,
};

use parking_lot::Mutex;

use haft_core::{Effect, Reply};
use serde_json::{Value, json};

use super::{TEST_TIMEOUT, TestTool, by_hand::RawClient, echo, gate};

/// Returns the lines of calls of this tool.
fn calls(ids: impl Iterator<Item = u64>, tool: &str) -> String {
    ids.map(|id| {
        let params = json!({"name": tool});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
            + "\n"
    })
    .collect()
}

#[test]
fn a_call_sees_exactly_the_changes_sent_before_it() {
    let count = Arc::new(AtomicU64::new(0));
    let (changed, seen) = (count.clone(), count);
    let mut change = TestTool::new("change", move |_| {
        let value = changed.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(Reply::text(value.to_string())) }
    });
    change.spec.effect = Effect::Write;
    let read = TestTool::new("read", move |_| {
        // Long enough for a change that does not wait to come in between.
        let before = seen.load(Ordering::SeqCst);
        for _ in 0..2_000 {
            std::hint::spin_loop();
        }
        let value = seen.load(Ordering::SeqCst);
        async move { Ok(Reply::text(if before == value { value.to_string() } else { "torn".into() })) }
    });
    let mut client = RawClient::at(gate([change, read, echo()]));
    const ROUNDS: u64 = 40;
    const READS: u64 = 16;
    for round in 0..ROUNDS {
        let first = round * (READS + 1);
        client.write(&(calls(first..=first, "change") + &calls(first + 1..=first + READS, "read")));
    }
    for _ in 0..ROUNDS * (READS + 1) {
        let answer = client.next();
        let id = answer["id"].as_u64().expect("a number");
        let text = &answer["result"]["content"][0]["text"];
        assert_eq!(*text, (id / (READS + 1) + 1).to_string(), "{answer}");
    }
    assert_eq!(client.end(), [] as [Value; 0]);
}

#[test]
fn calls_that_block_several_threads_delay_no_other() {
    let (release, released) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let (released, begin) = (Arc::new(Mutex::new(released)), Mutex::new(begin));
    let block = TestTool::new("block", move |_| {
        begin.lock().send(()).expect("the test receives it");
        // A dropped sender also releases it, so that no thread outlives a failed test.
        let _ = released.lock().recv();
        async { Ok(Reply::text("released")) }
    });
    let mut client = RawClient::at(gate([block, echo()]));
    client.write(&(calls(0..4, "block") + &calls(4..40, "echo")));
    let mut ids: Vec<u64> = (4..40).filter_map(|_| client.next()["id"].as_u64()).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(4..40), "all but those that block");
    for _ in 0..4 {
        begun.recv_timeout(TEST_TIMEOUT).expect("it is called");
    }
    client.check_alive();
    drop(release);
    let mut ids: Vec<u64> = (0..4).filter_map(|_| client.next()["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3]);
    client.check_alive();
    assert_eq!(client.end(), [] as [Value; 0]);
}

#[test]
fn a_call_cancelled_in_the_same_write_is_cancelled() {
    let wait = TestTool::new("wait", |_| async {
        std::future::pending::<()>().await;
        Ok(Reply::text("never"))
    });
    let mut client = RawClient::at(gate([wait, echo()]));
    for round in 0..50 {
        let (first, last) = (round * 20, round * 20 + 19);
        let cancellations: String = (first..=last)
            .map(|id| {
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"requestId": id}})
                .to_string()
                    + "\n"
            })
            .collect();
        client.write(&(calls(first..=last, "wait") + &cancellations));
    }
    // A call that is not cancelled would delay the end of the server, and be answered.
    client.check_alive();
    assert_eq!(client.end(), [] as [Value; 0]);
}

#[test]
fn every_burst_is_answered_completely() {
    let mut client = RawClient::at(gate([echo()]));
    for round in 0..400 {
        let ids = round * 64..round * 64 + 64;
        client.write(&calls(ids.clone(), "echo"));
        let mut answered: Vec<u64> = (0..64).filter_map(|_| client.next()["id"].as_u64()).collect();
        answered.sort_unstable();
        assert!(answered.into_iter().eq(ids), "round {round}");
    }
    assert_eq!(client.end(), [] as [Value; 0]);
}
