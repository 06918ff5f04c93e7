//! Cost of recording: small calls through the gate, with the ledger in memory, in SQLite with early
//! replies (a read-only call is answered before its commit), and in SQLite with every reply after
//! its commit. Measured with one caller, with eight callers on two threads as fast as possible, and
//! with eight that make 5,000 calls a second together. The store also holds saved rules, which
//! every call reads. Goals: a median of at most 100 us with eight callers, and at least 5,000 calls
//! a second.
//!
//! A tool runs in a separate task, as over HTTP. "In place" means early replies as over a pipe,
//! where the tool starts on its caller's thread.
//!
//!     cargo bench -p haft-store --bench ledger [-- WORDS IN THE NAMES OF ROWS]
//!
//! With `HAFT_TEST_POSTGRES` set to the address of a server, PostgreSQL is measured too.

use std::{
    io::Write,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{
    BoxFuture, Call, CallRequest, Context, Effect, Gate, GateBuilder, Ledger, MemoryLedger,
    Registry, Remember, Reply, SavedRules, Schema, Scope, Tool, ToolError, ToolSpec,
};
use haft_store::{ReplyTiming, StoreAddress, StoreLedger, StoreLocation, StoreRules};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

const CALLS: usize = 20_000;

fn main() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut out = std::io::stdout().lock();
    // Measure only rows whose names contain these words; cargo adds further options.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    writeln!(out, "{:<44} {:>8} {:>8} {:>9}", "ledger and call", "median", "p99", "calls/s")?;
    for (callers, rate) in [(1, None), (8, None), (8, Some(5_000))] {
        for effect in [Effect::Read, Effect::Write] {
            for scenario in scenarios(folder.path(), (callers, rate), effect) {
                let pace = rate.map_or("at once".to_owned(), |rate| format!("with {rate}/s"));
                let name = format!("{}, {effect}, {callers} {pace}", scenario.name);
                if !wanted.iter().all(|word| name.contains(word)) {
                    continue;
                }
                let (mut times, whole) = measure(&runtime, &scenario, callers, rate);
                times.sort_unstable();
                let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
                let rate = times.len() as f64 / whole.as_secs_f64();
                let (median, p99) = (median.as_micros(), p99.as_micros());
                writeln!(out, "{name:<44} {median:>5} us {p99:>5} us {rate:>9.0}")?;
            }
        }
    }
    Ok(())
}

struct Scenario {
    name: &'static str,
    gate: Gate,
    rules: Option<Arc<StoreRules>>,
    calls: usize,
}

fn scenarios(folder: &Path, load: (usize, Option<u32>), effect: Effect) -> Vec<Scenario> {
    let fresh =
        |name: &str| StoreAddress::Sqlite(folder.join(format!("{name}-{load:?}-{effect}/haft.db")));
    let mut all = vec![
        Scenario {
            name: "memory",
            gate: gate(Arc::new(MemoryLedger::default()), None, effect).build(),
            rules: None,
            calls: CALLS,
        },
        stored("sqlite, early", &fresh("early"), ReplyTiming::Early, folder, effect, CALLS),
        stored(
            "sqlite, after commit",
            &fresh("after"),
            ReplyTiming::AfterCommit,
            folder,
            effect,
            CALLS,
        ),
    ];
    all.push(in_place(&fresh("in-place"), folder, effect));
    if let Some(url) = postgres() {
        let address = StoreAddress::Postgres(url);
        all.push(stored("postgres", &address, ReplyTiming::Early, folder, effect, CALLS / 10));
    }
    all
}

fn in_place(address: &StoreAddress, folder: &Path, effect: Effect) -> Scenario {
    let (gate, rules) = recorded(address, ReplyTiming::Early, folder, effect);
    let (name, gate) = ("sqlite, in place", gate.start_in_place().build());
    Scenario { name, gate, rules: Some(rules), calls: CALLS }
}

fn stored(
    name: &'static str,
    address: &StoreAddress,
    reply_timing: ReplyTiming,
    folder: &Path,
    effect: Effect,
    calls: usize,
) -> Scenario {
    let (gate, rules) = recorded(address, reply_timing, folder, effect);
    Scenario { name, gate: gate.build(), rules: Some(rules), calls }
}

fn recorded(
    address: &StoreAddress,
    reply_timing: ReplyTiming,
    folder: &Path,
    effect: Effect,
) -> (GateBuilder, Arc<StoreRules>) {
    let location = StoreLocation::new(address.clone());
    let rules = Arc::new(StoreRules::new(location.clone(), folder, &folder.join("state")));
    let ledger = Arc::new(StoreLedger::new(location, reply_timing));
    (gate(ledger, Some(rules.clone()), effect), rules)
}

fn gate(ledger: Arc<dyn Ledger>, rules: Option<Arc<StoreRules>>, effect: Effect) -> GateBuilder {
    let registry = Registry::default();
    let schema = Schema::from_value(json!({"type": "object"})).expect("a schema");
    let mut spec = ToolSpec::declared("bench", "small", "says something", schema);
    spec.effect = effect;
    registry.register(SmallTool(spec)).expect("a good name");
    let gate = Gate::builder(registry).ledger(ledger);
    match rules {
        Some(rules) => gate.saved_rules(rules),
        None => gate,
    }
}

struct SmallTool(ToolSpec);

impl Tool for SmallTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _: &serde_json::Value) -> Result<Vec<haft_core::Access>, ToolError> {
        Ok(Vec::new())
    }

    fn call(&self, _: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        Box::pin(std::future::ready(Ok(Reply::text("done"))))
    }
}

/// `rate` is the number of calls per second of all callers together; `None` for as many as
/// possible.
fn measure(
    runtime: &Runtime,
    scenario: &Scenario,
    callers: usize,
    rate: Option<u32>,
) -> (Vec<Duration>, Duration) {
    runtime.block_on(async {
        if let Some(rules) = &scenario.rules {
            let remember = Remember {
                rules: vec!["small".to_owned()],
                scope: Scope::Project,
                expires_ms: None,
            };
            rules.save("bench", "Ann", &remember).await.expect("kept");
        }
        let began = Instant::now();
        let each = scenario.calls / callers;
        let pause = rate.map(|rate| Duration::from_secs(callers as u64) / rate);
        let call = |number: usize, gate: Gate| async move {
            let mut times = Vec::with_capacity(each);
            // Callers start evenly spaced, not all at once.
            let mut clock = pause.map(|pause| {
                let first = Instant::now() + pause * number as u32 / callers as u32;
                tokio::time::interval_at(first.into(), pause)
            });
            for _ in 0..each {
                if let Some(clock) = &mut clock {
                    clock.tick().await;
                }
                let began = Instant::now();
                let input = json!({"name": "Ada"});
                let outcome =
                    gate.call(CallRequest::new("small", input, Context::new("bench"))).await;
                assert!(outcome.is_ok() && outcome.metadata.is_empty(), "{outcome:?}");
                times.push(began.elapsed());
            }
            times
        };
        let tasks: Vec<_> =
            (0..callers).map(|number| tokio::spawn(call(number, scenario.gate.clone()))).collect();
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await.expect("no panic"));
        }
        (times, began.elapsed())
    })
}

#[expect(clippy::disallowed_methods, reason = "the only access of this bench to the environment")]
fn postgres() -> Option<String> {
    std::env::var("HAFT_TEST_POSTGRES").ok().filter(|url| !url.is_empty())
}
