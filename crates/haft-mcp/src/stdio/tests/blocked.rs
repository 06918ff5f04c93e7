//! Tools that block their thread: the conversation continues.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use haft_core::Reply;
use serde_json::{Value, json};

use super::{TEST_TIMEOUT, TestTool, by_hand::RawClient, echo, gate};

/// Maximum delay of a call by one that blocks: twenty times the delay on an idle machine.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// A tool that blocks its thread until it is released.
struct Blocking {
    tool: TestTool,
    begun: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
}

fn blocking() -> Blocking {
    let (release, released) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let (released, begin) = (Arc::new(Mutex::new(released)), Mutex::new(begin));
    let tool = TestTool::new("block", move |_call| {
        let released = released.clone();
        begin.lock().send(()).expect("the test receives it");
        async move {
            let wait = released.lock();
            // A dropped sender also releases it, so that no thread outlives a failed test.
            let _ = wait.recv();
            Ok(Reply::text("released"))
        }
    });
    Blocking { tool, begun, release }
}

#[test]
fn a_blocking_call_delays_neither_the_next_one_nor_its_own_answer() {
    let Blocking { tool, begun, release } = blocking();
    let mut client = RawClient::at(gate([tool, echo()]));
    client.call(1, "block");
    begun.recv_timeout(TEST_TIMEOUT).expect("it is called");
    let begin = Instant::now();
    client.check_alive();
    assert!(begin.elapsed() < MAX_DELAY, "{:?}", begin.elapsed());
    // The next ones are not delayed at all.
    for _ in 0..100 {
        client.check_alive();
    }
    release.send(()).expect("it waits");
    let answer = client.next();
    let text = &answer["result"]["content"][0]["text"];
    assert_eq!((&answer["id"], text), (&json!(1), &json!("released")), "{answer}");
    client.check_alive();
    assert_eq!(client.end(), [] as [Value; 0], "its answer came once");
}

#[test]
fn several_blocking_calls_each_keep_their_thread() {
    let Blocking { tool, begun, release } = blocking();
    let mut client = RawClient::at(gate([tool, echo()]));
    for id in 0..3 {
        client.call(id, "block");
        begun.recv_timeout(TEST_TIMEOUT).expect("it is called");
        client.check_alive();
    }
    for _ in 0..3 {
        release.send(()).expect("one waits");
    }
    let mut ids: Vec<u64> = (0..3).filter_map(|_| client.next()["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2]);
    client.check_alive();
    assert_eq!(client.end(), [] as [Value; 0]);
}

#[test]
fn a_cancelled_blocking_call_is_not_answered_when_it_returns() {
    let Blocking { tool, begun, release } = blocking();
    let mut client = RawClient::at(gate([tool, echo()]));
    client.call(1, "block");
    begun.recv_timeout(TEST_TIMEOUT).expect("it is called");
    client.cancel(1);
    client.check_alive();
    release.send(()).expect("it waits");
    client.check_alive();
    assert_eq!(client.end(), [] as [Value; 0]);
}

#[test]
fn a_call_that_blocks_forever_does_not_keep_the_process() {
    for is_first in [true, false] {
        let Blocking { tool, begun, release } = blocking();
        let mut client = RawClient::at(gate([tool, echo()]));
        if !is_first {
            client.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "tools/list"}));
            assert_eq!(client.next()["id"], 0);
        }
        client.call(1, "block");
        begun.recv_timeout(TEST_TIMEOUT).expect("it is called");
        client.check_alive();
        client.disconnect();
        drop(release);
    }
}
