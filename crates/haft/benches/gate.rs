//! Measures the cost of the gate: the same call of `hello` as a bare function and through all
//! stages, with the allocations of each. Goal: the gate's median is at most 20 us above the bare
//! function.
//!
//!     cargo bench -p haft --bench gate

use haft::{CallRequest, Context, Gate, Input, Progress, Registry, catalogue};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

fn input() -> Value {
    json!({"name": "Ada", "times": 2})
}

fn gate() -> Gate {
    let registry = Registry::default();
    registry.register_all(catalogue::all()).expect("good names");
    Gate::builder(registry).build()
}

fn request(input: impl Into<Input>) -> CallRequest {
    CallRequest::new("hello", input, Context::new("bench"))
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// The baseline: decode and run, nothing else.
#[divan::bench]
fn bare_function(bencher: divan::Bencher<'_, '_>) {
    let runtime = one_thread();
    let input = input();
    bencher.bench_local(|| {
        let decoded = serde_json::from_value(input.clone()).expect("it fits");
        let said = catalogue::reference::hello::hello(decoded, Progress::silent());
        runtime.block_on(said).expect("it works")
    });
}

/// All stages, with stores in memory.
#[divan::bench]
fn through_the_gate(bencher: divan::Bencher<'_, '_>) {
    let (runtime, gate, input) = (one_thread(), gate(), input());
    bencher.bench_local(|| {
        let outcome = runtime.block_on(gate.call(request(input.clone())));
        assert!(outcome.is_ok());
        outcome
    });
}

/// Like a server: called from a task of a runtime with several threads.
#[divan::bench]
fn through_the_gate_on_two_threads(bencher: divan::Bencher<'_, '_>) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let runtime = runtime.expect("a runtime");
    let (gate, input) = (gate(), input());
    // A hundred calls in one task, so that the time to wake the task is not measured.
    bencher.counter(divan::counter::ItemsCount::new(100u32)).bench_local(|| {
        let (gate, input) = (gate.clone(), input.clone());
        let task = runtime.spawn(async move {
            for _ in 0..100 {
                assert!(gate.call(request(input.clone())).await.is_ok());
            }
        });
        runtime.block_on(task).expect("no panic");
    });
}

/// With the arguments as a model's text.
#[divan::bench]
fn through_the_gate_from_text(bencher: divan::Bencher<'_, '_>) {
    let (runtime, gate, text) = (one_thread(), gate(), input().to_string());
    bencher.bench_local(|| runtime.block_on(gate.call(request(text.clone()))));
}

/// A call that the policy denies.
#[divan::bench]
fn refused_by_the_gate(bencher: divan::Bencher<'_, '_>) {
    let (runtime, gate, input) = (one_thread(), gate(), input());
    bencher.bench_local(|| {
        let mut request = request(input.clone());
        request.context.profile = Some("no_such_profile".to_owned());
        runtime.block_on(gate.call(request))
    });
}
