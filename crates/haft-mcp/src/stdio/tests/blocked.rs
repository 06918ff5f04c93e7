//! Tools that do not let go of their thread: the pipe goes on without them.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use haft_core::Reply;
use serde_json::{Value, json};

use super::{Acting, PATIENCE, by_hand::Hand, echo, gate};

/// How long a call may be held up by one that blocks: twenty times what it takes on an idle machine.
const SOON: Duration = Duration::from_secs(2);

/// Blocks its thread until it is told to go on.
struct Blocking {
    tool: Acting,
    begun: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
}

fn blocking() -> Blocking {
    let (release, released) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let (released, begin) = (Arc::new(Mutex::new(released)), Mutex::new(begin));
    let tool = Acting::new("block", move |_call| {
        let released = released.clone();
        begin.lock().send(()).expect("somebody looks");
        async move {
            let wait = released.lock();
            // A sender that is gone lets it go too, so that no thread outlives a test that failed.
            let _ = wait.recv();
            Ok(Reply::text("let go"))
        }
    });
    Blocking { tool, begun, release }
}

#[test]
fn a_call_that_blocks_holds_up_neither_the_next_one_nor_its_own_answer() {
    let Blocking { tool, begun, release } = blocking();
    let mut hand = Hand::at(gate([tool, echo()]));
    hand.call(1, "block");
    begun.recv_timeout(PATIENCE).expect("it is called");
    let begin = Instant::now();
    hand.check_alive();
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    // The next ones are not held up at all.
    for _ in 0..100 {
        hand.check_alive();
    }
    release.send(()).expect("it waits");
    let answer = hand.next();
    let text = &answer["result"]["content"][0]["text"];
    assert_eq!((&answer["id"], text), (&json!(1), &json!("let go")), "{answer}");
    hand.check_alive();
    assert_eq!(hand.end(), [] as [Value; 0], "its answer came once");
}

#[test]
fn several_calls_that_block_are_each_left_to_their_thread() {
    let Blocking { tool, begun, release } = blocking();
    let mut hand = Hand::at(gate([tool, echo()]));
    for id in 0..3 {
        hand.call(id, "block");
        begun.recv_timeout(PATIENCE).expect("it is called");
        hand.check_alive();
    }
    for _ in 0..3 {
        release.send(()).expect("one waits");
    }
    let mut ids: Vec<u64> = (0..3).filter_map(|_| hand.next()["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2]);
    hand.check_alive();
    assert_eq!(hand.end(), [] as [Value; 0]);
}

#[test]
fn what_blocks_and_is_called_off_is_not_answered_when_it_lets_go() {
    let Blocking { tool, begun, release } = blocking();
    let mut hand = Hand::at(gate([tool, echo()]));
    hand.call(1, "block");
    begun.recv_timeout(PATIENCE).expect("it is called");
    hand.call_off(1);
    hand.check_alive();
    release.send(()).expect("it waits");
    hand.check_alive();
    assert_eq!(hand.end(), [] as [Value; 0]);
}

#[test]
fn a_call_that_blocks_for_good_does_not_keep_the_process() {
    for is_first in [true, false] {
        let Blocking { tool, begun, release } = blocking();
        let mut hand = Hand::at(gate([tool, echo()]));
        if !is_first {
            hand.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "tools/list"}));
            assert_eq!(hand.next()["id"], 0);
        }
        hand.call(1, "block");
        begun.recv_timeout(PATIENCE).expect("it is called");
        hand.check_alive();
        hand.die();
        drop(release);
    }
}
