//! Many messages at once: each is answered, and no call overtakes a change that was sent before it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
    mpsc,
};

use parking_lot::Mutex;

use haft_core::{Effect, Reply};
use serde_json::{Value, json};

use super::{Acting, PATIENCE, by_hand::Hand, echo, gate};

/// Calls of this tool, as they stand on the line.
fn calls(ids: impl Iterator<Item = u64>, tool: &str) -> String {
    ids.map(|id| {
        let params = json!({"name": tool});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
            + "\n"
    })
    .collect()
}

#[test]
fn what_was_sent_after_a_change_sees_it_and_what_was_sent_before_does_not() {
    let count = Arc::new(AtomicU64::new(0));
    let (changed, seen) = (count.clone(), count);
    let mut change = Acting::new("change", move |_| {
        let value = changed.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(Reply::text(value.to_string())) }
    });
    change.spec.effect = Effect::Write;
    let look = Acting::new("look", move |_| {
        // Long enough for a change that does not wait to come in between.
        let before = seen.load(Ordering::SeqCst);
        for _ in 0..2_000 {
            std::hint::spin_loop();
        }
        let value = seen.load(Ordering::SeqCst);
        async move { Ok(Reply::text(if before == value { value.to_string() } else { "torn".into() })) }
    });
    let mut hand = Hand::at(gate([change, look, echo()]));
    const ROUNDS: u64 = 40;
    const LOOKS: u64 = 16;
    for round in 0..ROUNDS {
        let first = round * (LOOKS + 1);
        hand.write(&(calls(first..=first, "change") + &calls(first + 1..=first + LOOKS, "look")));
    }
    for _ in 0..ROUNDS * (LOOKS + 1) {
        let answer = hand.next();
        let id = answer["id"].as_u64().expect("a number");
        let text = &answer["result"]["content"][0]["text"];
        assert_eq!(*text, (id / (LOOKS + 1) + 1).to_string(), "{answer}");
    }
    assert_eq!(hand.end(), [] as [Value; 0]);
}

#[test]
fn calls_that_block_several_threads_hold_up_no_other() {
    let (release, released) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let (released, begin) = (Arc::new(Mutex::new(released)), Mutex::new(begin));
    let block = Acting::new("block", move |_| {
        begin.lock().send(()).expect("somebody looks");
        // A sender that is gone lets it go too, so that no thread outlives a test that failed.
        let _ = released.lock().recv();
        async { Ok(Reply::text("let go")) }
    });
    let mut hand = Hand::at(gate([block, echo()]));
    hand.write(&(calls(0..4, "block") + &calls(4..40, "echo")));
    let mut ids: Vec<u64> = (4..40).filter_map(|_| hand.next()["id"].as_u64()).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(4..40), "all but those that block");
    for _ in 0..4 {
        begun.recv_timeout(PATIENCE).expect("it is called");
    }
    hand.check_alive();
    drop(release);
    let mut ids: Vec<u64> = (0..4).filter_map(|_| hand.next()["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3]);
    hand.check_alive();
    assert_eq!(hand.end(), [] as [Value; 0]);
}

#[test]
fn what_is_called_off_in_the_same_breath_is_called_off() {
    let wait = Acting::new("wait", |_| async {
        std::future::pending::<()>().await;
        Ok(Reply::text("never"))
    });
    let mut hand = Hand::at(gate([wait, echo()]));
    for round in 0..50 {
        let (first, last) = (round * 20, round * 20 + 19);
        let off: String = (first..=last)
            .map(|id| {
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"requestId": id}})
                .to_string()
                    + "\n"
            })
            .collect();
        hand.write(&(calls(first..=last, "wait") + &off));
    }
    // Whatever was not called off would keep the server until its patience is over, and be answered.
    hand.check_alive();
    assert_eq!(hand.end(), [] as [Value; 0]);
}

#[test]
fn every_burst_is_answered_to_its_end() {
    let mut hand = Hand::at(gate([echo()]));
    for round in 0..400 {
        let ids = round * 64..round * 64 + 64;
        hand.write(&calls(ids.clone(), "echo"));
        let mut answered: Vec<u64> = (0..64).filter_map(|_| hand.next()["id"].as_u64()).collect();
        answered.sort_unstable();
        assert!(answered.into_iter().eq(ids), "round {round}");
    }
    assert_eq!(hand.end(), [] as [Value; 0]);
}
