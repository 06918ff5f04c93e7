//! Never two owners, on both engines.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use haft_core::ErrorKind;
use haft_store::{Lease, Leases, Place};
use proptest::prelude::*;

use crate::stores::{Fresh, each};

const LONG: Duration = Duration::from_secs(3600);

fn leases(store: &Fresh) -> Leases {
    Leases::new(Place::new(store.address.clone()))
}

/// As if so much time had passed.
async fn pass(store: &Fresh, time: Duration) {
    let sql = format!("UPDATE leases SET until_ms = until_ms - {}", time.as_millis());
    store.tamper(&sql).await;
}

#[tokio::test]
async fn a_claim_holds_until_it_is_given_back_or_over() {
    for store in each().await {
        let (one, two) = (leases(&store), leases(&store));
        let first = one.claim("job", "a\0", "ann", LONG).await.expect("free");
        let error = two.claim("job", "a\0", "bob", LONG).await.expect_err("held");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("is ann's for 3600 s more"), "{error}");
        two.claim("task", "a\0", "bob", LONG).await.expect("another kind");
        one.check(&first).await.expect("held");
        one.release(&first).await.expect("held");
        let second = two.claim("job", "a\0", "bob", LONG).await.expect("given back");
        assert_eq!((first.turn, second.turn), (1, 2));
        for lost in [one.check(&first).await, one.release(&first).await, one.finish(&first).await] {
            assert_eq!(lost.expect_err("bob has it").kind(), ErrorKind::Conflict);
        }
        two.check(&second).await.expect("still bob's");
        two.finish(&second).await.expect("bob's");
        one.claim("job", "a\0", "ann", LONG).await.expect("gone, so free");
    }
}

#[tokio::test]
async fn who_lets_the_time_pass_loses_it_to_the_next_and_is_told_at_the_heartbeat() {
    for store in each().await {
        let leases = leases(&store);
        let first = leases.claim("job", "a", "ann", LONG).await.expect("free");
        pass(&store, LONG).await;
        leases.heartbeat(&first, LONG).await.expect("late, but nobody took it");
        assert!(leases.claim("job", "a", "bob", LONG).await.is_err());
        pass(&store, LONG).await;
        let second = leases.claim("job", "a", "bob", LONG).await.expect("over");
        let error = leases.heartbeat(&first, LONG).await.expect_err("bob's");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("the job `a` is not ann's any more"), "{error}");
        leases.heartbeat(&second, LONG).await.expect("bob's");
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_gives_nothing_away_and_holds_nothing_for_ever() {
    for store in each().await {
        let leases = leases(&store);
        let first = leases.claim("job", "a", "ann", LONG).await.expect("free");
        // To the store it is now a day earlier.
        store.tamper("UPDATE leases SET until_ms = until_ms + 86400000").await;
        assert!(leases.claim("job", "a", "bob", LONG).await.is_err());
        leases.check(&first).await.expect("still ann's");
        pass(&store, LONG).await;
        leases.claim("job", "a", "bob", LONG).await.expect("an hour is all it was given");
    }
}

#[tokio::test]
async fn of_many_things_each_is_claimed_in_order_and_done_once() {
    for store in each().await {
        let leases = leases(&store);
        assert_eq!(leases.claim_next("job", "ann", LONG).await.expect("no store"), None);
        for name in ["b", "a", "b", "c"] {
            leases.offer("job", name).await.expect("offered");
        }
        let next = async || leases.claim_next("job", "ann", LONG).await.expect("asked");
        let names: Vec<String> =
            [next().await, next().await].into_iter().flatten().map(|lease| lease.name).collect();
        assert_eq!(names, ["a", "b"]);
        let third = next().await.expect("one more");
        assert_eq!(next().await, None);
        leases.release(&third).await.expect("held");
        assert_eq!(next().await.expect("given back").turn, 2);
        pass(&store, LONG).await;
        assert_eq!(next().await.expect("over").name, "a");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_claimants_at_once_never_have_the_same_thing() {
    for store in each().await {
        let offers = leases(&store);
        for number in 0..40 {
            offers.offer("job", &format!("{number:02}")).await.expect("offered");
        }
        let done: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut tasks = tokio::task::JoinSet::new();
        for claimant in 0..8 {
            let (leases, done) = (leases(&store), done.clone());
            tasks.spawn(async move {
                let owner = format!("claimant {claimant}");
                while let Some(lease) = leases.claim_next("job", &owner, LONG).await.expect("asked")
                {
                    leases.heartbeat(&lease, LONG).await.expect("ours");
                    leases.finish(&lease).await.expect("ours");
                    done.lock().expect("no panic").push(lease.name);
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
        let done = done.lock().expect("no panic").clone();
        assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), 40, "none left");
        assert_eq!(done.len(), 40, "none twice: {done:?}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Claim(usize, usize),
    Next(usize),
    Beat(usize),
    Release(usize),
    Finish(usize),
    Pass(u64),
    SetBack(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let (who, what, time) = (0usize..3, 0usize..2, 1u64..4000);
    prop_oneof![
        3 => (who.clone(), what).prop_map(|(who, what)| Step::Claim(who, what)),
        1 => who.clone().prop_map(Step::Next),
        2 => who.clone().prop_map(Step::Beat),
        1 => who.clone().prop_map(Step::Release),
        1 => who.prop_map(Step::Finish),
        2 => time.clone().prop_map(Step::Pass),
        1 => time.prop_map(Step::SetBack),
    ]
}

/// Plays steps; at every moment at most one claimant's lease is still good, whatever the clock does.
async fn play(store: &Fresh, steps: &[Step]) {
    let leases = leases(store);
    let time = Duration::from_secs(2);
    let mut held: BTreeMap<usize, Vec<Lease>> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Claim(who, what) => {
                let claimed = leases.claim("job", &what.to_string(), &who.to_string(), time).await;
                held.entry(*who).or_default().extend(claimed);
            }
            Step::Next(who) => {
                let next = leases.claim_next("job", &who.to_string(), time).await.expect("asked");
                held.entry(*who).or_default().extend(next);
            }
            Step::Beat(who) => {
                for lease in held.get(who).into_iter().flatten() {
                    let _ = leases.heartbeat(lease, time).await;
                }
            }
            Step::Release(who) => {
                if let Some(lease) = held.entry(*who).or_default().pop() {
                    let _ = leases.release(&lease).await;
                    assert!(leases.check(&lease).await.is_err(), "given back is given back");
                }
            }
            Step::Finish(who) => {
                if let Some(lease) = held.entry(*who).or_default().pop() {
                    let _ = leases.finish(&lease).await;
                }
            }
            Step::Pass(ms) => pass(store, Duration::from_millis(*ms)).await,
            Step::SetBack(ms) => {
                store
                    .tamper(&format!(
                        "UPDATE leases SET until_ms = until_ms + {ms} WHERE until_ms > 0"
                    ))
                    .await;
            }
        }
        let mut good: BTreeMap<&str, usize> = BTreeMap::new();
        for lease in held.values().flatten() {
            if leases.check(lease).await.is_ok() {
                *good.entry(&lease.name).or_default() += 1;
            }
        }
        assert!(good.values().all(|count| *count == 1), "{step:?}: {good:?}");
    }
}

#[test]
fn whatever_happens_a_thing_has_one_owner_at_most() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    for store in runtime.block_on(each()) {
        runtime.block_on(leases(&store).offer("job", "0")).expect("offered");
        let config =
            ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let steps = prop::collection::vec(any_step(), 1..25);
        let ran = runner.run(&steps, |steps| {
            runtime.block_on(store.tamper("DELETE FROM leases"));
            runtime.block_on(play(&store, &steps));
            Ok(())
        });
        ran.expect("never two owners");
    }
}
