//! Leases on both engines: an item never has two owners.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use haft_core::{ErrorKind, ToolError};
use haft_core::{Lease, Leases};
use haft_store::{StoreLeases, StoreLocation};
use proptest::prelude::*;

use crate::stores::{Fresh, each};

const LONG: Duration = Duration::from_secs(3600);

fn leases(store: &Fresh) -> StoreLeases {
    StoreLeases::new(StoreLocation::new(store.address.clone()))
}

/// Moves all leases so far into the past.
async fn pass(store: &Fresh, time: Duration) {
    let sql = format!("UPDATE leases SET until_ms = until_ms - {}", time.as_millis());
    store.tamper(&sql).await;
}

#[tokio::test]
async fn a_claim_holds_until_it_is_released_or_expires() {
    for store in each().await {
        let (one, two) = (leases(&store), leases(&store));
        let first = one.claim("job", "a\0", "ann", LONG).await.expect("free");
        let error = two.claim("job", "a\0", "bob", LONG).await.expect_err("held");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("is held by ann for 3600 s more"), "{error}");
        two.claim("task", "a\0", "bob", LONG).await.expect("another kind");
        one.check(&first).await.expect("held");
        one.release(&first).await.expect("held");
        let second = two.claim("job", "a\0", "bob", LONG).await.expect("released");
        assert_eq!((first.generation, second.generation), (1, 2));
        for lost in [one.check(&first).await, one.release(&first).await, one.finish(&first).await] {
            assert_eq!(lost.expect_err("bob has it").kind(), ErrorKind::Conflict);
        }
        two.check(&second).await.expect("still bob's");
        two.finish(&second).await.expect("bob's");
        one.claim("job", "a\0", "ann", LONG).await.expect("gone, so free");
    }
}

#[tokio::test]
async fn an_expired_lease_goes_to_the_next_and_its_heartbeat_fails() {
    for store in each().await {
        let leases = leases(&store);
        let first = leases.claim("job", "a", "ann", LONG).await.expect("free");
        pass(&store, LONG).await;
        leases.heartbeat(&first, LONG).await.expect("late, but still free");
        assert!(leases.claim("job", "a", "bob", LONG).await.is_err());
        pass(&store, LONG).await;
        let second = leases.claim("job", "a", "bob", LONG).await.expect("over");
        let error = leases.heartbeat(&first, LONG).await.expect_err("bob's");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("the job `a` is no longer held by ann"), "{error}");
        leases.heartbeat(&second, LONG).await.expect("bob's");
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_frees_nothing_and_holds_nothing_forever() {
    for store in each().await {
        let leases = leases(&store);
        let first = leases.claim("job", "a", "ann", LONG).await.expect("free");
        // For the store it is now a day earlier.
        store.tamper("UPDATE leases SET until_ms = until_ms + 86400000").await;
        assert!(leases.claim("job", "a", "bob", LONG).await.is_err());
        leases.check(&first).await.expect("still ann's");
        pass(&store, LONG).await;
        leases.claim("job", "a", "bob", LONG).await.expect("an hour is all it was given");
    }
}

#[tokio::test]
async fn claim_next_also_works_after_the_clock_was_set_back() {
    for store in each().await {
        let leases = leases(&store);
        leases.claim("job", "a", "ann", LONG).await.expect("free");
        store.tamper("UPDATE leases SET until_ms = until_ms + 86400000").await;
        assert_eq!(leases.claim_next("job", "bob", LONG).await.expect("asked"), None);
        pass(&store, LONG).await;
        let next = leases.claim_next("job", "bob", LONG).await.expect("asked");
        assert_eq!(next.expect("an hour is all it was given").generation, 2);
    }
}

#[tokio::test]
async fn items_are_claimed_in_order_and_done_once() {
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
        assert_eq!(next().await.expect("released").generation, 2);
        pass(&store, LONG).await;
        assert_eq!(next().await.expect("over").name, "a");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_claimants_never_hold_the_same_item() {
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
                    done.lock().push(lease.name);
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
        let done = done.lock().clone();
        assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), 40, "none left");
        assert_eq!(done.len(), 40, "none twice: {done:?}");
    }
}

/// Durations in minutes. Leases have one minute more than full tens and the clock moves by full
/// tens, so that no lease is about to end, however long a run takes.
const TIMES: [i64; 2] = [61, 121];

#[derive(Clone, Debug)]
enum Step {
    Offer(usize),
    Claim(usize, usize),
    Next(usize),
    Beat(usize, usize),
    Release(usize),
    Finish(usize),
    Pass(i64),
    SetBack(i64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let (what, time, which, tens) = (0usize..3, 0usize..2, 0usize..8, 1i64..14);
    prop_oneof![
        1 => what.clone().prop_map(Step::Offer),
        4 => (what, time.clone()).prop_map(|(what, time)| Step::Claim(what, time)),
        3 => time.clone().prop_map(Step::Next),
        2 => (which.clone(), time).prop_map(|(which, time)| Step::Beat(which, time)),
        1 => which.clone().prop_map(Step::Release),
        1 => which.prop_map(Step::Finish),
        4 => tens.clone().prop_map(|tens| Step::Pass(tens * 10)),
        1 => tens.prop_map(|tens| Step::SetBack(tens * 10)),
    ]
}

/// Expected state of an item.
#[derive(Clone, Debug, Default)]
struct Expected {
    turn: u64,
    given: i64,
    left: i64,
    /// Its lease, as an index into all leases ever given.
    lease: Option<usize>,
}

/// A model of the leases of a store.
struct Model<'a> {
    store: &'a Fresh,
    /// The leases of two processes.
    leases: [StoreLeases; 2],
    items: BTreeMap<String, Expected>,
    given: Vec<Lease>,
}

impl<'a> Model<'a> {
    fn new(store: &'a Fresh) -> Self {
        let leases = [leases(store), leases(store)];
        Self { store, leases, items: BTreeMap::new(), given: Vec::new() }
    }

    async fn step(&mut self, number: usize, step: &Step) {
        let leases = &self.leases[number % 2];
        match *step {
            Step::Offer(what) => {
                leases.offer("job", &what.to_string()).await.expect("offered");
                self.items.entry(what.to_string()).or_default();
            }
            Step::Claim(what, time) => {
                let (name, time) = (what.to_string(), TIMES[time]);
                let claimed =
                    leases.claim("job", &name, &format!("owner {number}"), min(time)).await;
                match self.items.get(&name) {
                    Some(item) if item.left > 0 => {
                        let owner = &self.given[item.lease.expect("held")].owner;
                        let error = claimed.expect_err("it is held").to_string();
                        assert!(error.contains(&format!("is held by {owner} for ")), "{error}");
                        self.cut_down();
                    }
                    _ => self.has_claimed(claimed.expect("it is free"), time),
                }
            }
            Step::Next(time) => {
                let (owner, time) = (format!("owner {number}"), TIMES[time]);
                let claimed = leases.claim_next("job", &owner, min(time)).await.expect("asked");
                self.cut_down();
                let free = self.items.iter().find(|(_, item)| item.left <= 0);
                let free = free.map(|(name, _)| name.clone());
                assert_eq!(claimed.as_ref().map(|lease| lease.name.clone()), free);
                claimed.into_iter().for_each(|lease| self.has_claimed(lease, time));
            }
            Step::Beat(which, time) => {
                let Some(lease) = self.given.get(which) else { return };
                let done = leases.heartbeat(lease, min(TIMES[time])).await;
                if let Some(item) = self.agreed(which, done) {
                    (item.left, item.given) = (TIMES[time], TIMES[time]);
                }
            }
            Step::Release(which) => {
                let Some(lease) = self.given.get(which) else { return };
                let done = leases.release(lease).await;
                if let Some(item) = self.agreed(which, done) {
                    (item.left, item.lease) = (-999_999, None);
                }
            }
            Step::Finish(which) => {
                let Some(lease) = self.given.get(which) else { return };
                let (done, name) = (leases.finish(lease).await, lease.name.clone());
                if self.agreed(which, done).is_some() {
                    self.items.remove(&name);
                }
            }
            Step::Pass(minutes) => {
                pass(self.store, min(minutes)).await;
                self.items.values_mut().for_each(|item| item.left -= minutes);
            }
            Step::SetBack(minutes) => {
                let later = format!("UPDATE leases SET until_ms = until_ms + {}", minutes * 60_000);
                self.store.tamper(&format!("{later} WHERE token <> ''")).await;
                let held = self.items.values_mut().filter(|item| item.lease.is_some());
                held.for_each(|item| item.left += minutes);
            }
        }
    }

    fn has_claimed(&mut self, lease: Lease, time: i64) {
        let item = self.items.entry(lease.name.clone()).or_default();
        item.turn += 1;
        assert_eq!(lease.generation, item.turn);
        (item.given, item.left, item.lease) = (time, time, Some(self.given.len()));
        self.given.push(lease);
    }

    /// Models a claim, which cuts the remaining time of each lease to the time it was given.
    fn cut_down(&mut self) {
        self.items.values_mut().for_each(|item| item.left = item.left.min(item.given));
    }

    fn holder(&mut self, which: usize) -> Option<&mut Expected> {
        self.items.values_mut().find(|item| item.lease == Some(which))
    }

    /// Returns the item if the lease is still valid; the store must agree.
    fn agreed(&mut self, which: usize, done: Result<(), ToolError>) -> Option<&mut Expected> {
        let item = self.holder(which);
        assert_eq!(done.is_ok(), item.is_some(), "{done:?}");
        item
    }

    /// Checks that exactly the expected leases are valid, of all ever given.
    async fn check(&mut self, step: &Step) {
        for which in 0..self.given.len() {
            let is_good = self.leases[which % 2].check(&self.given[which]).await.is_ok();
            let expected = self.holder(which).is_some();
            assert_eq!(is_good, expected, "{step:?}: {:?}", self.given[which]);
        }
    }
}

fn min(minutes: i64) -> Duration {
    Duration::from_secs(60 * u64::try_from(minutes).expect("it passes"))
}

async fn run_model(store: &Fresh, steps: &[Step]) {
    let mut run_model = Model::new(store);
    for (number, step) in steps.iter().enumerate() {
        run_model.step(number, step).await;
        run_model.check(step).await;
    }
}

#[test]
fn any_order_of_steps_matches_the_model() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    for store in runtime.block_on(each()) {
        runtime.block_on(leases(&store).offer("job", "0")).expect("offered");
        let config =
            ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let steps = prop::collection::vec(any_step(), 1..30);
        let ran = runner.run(&steps, |steps| {
            runtime.block_on(store.tamper("DELETE FROM leases"));
            runtime.block_on(run_model(&store, &steps));
            Ok(())
        });
        ran.expect("the model is right");
    }
}
