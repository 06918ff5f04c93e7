//! Tests of the stdio loop with tools that block their thread, wait, report steps, or detect that
//! they are dropped. One client writes lines by hand, the other is rmcp's, in both eras of the
//! protocol.

mod blocked;
mod by_hand;
mod introduced;
mod sdk;
mod together;

use std::{fs::File, os::fd::AsFd, sync::mpsc, thread, time::Duration};

use haft_core::{
    Access, BoxFuture, Call, Effect, Gate, Mode, Policy, Power, Registry, Reply, Schema, Tool,
    ToolError, ToolSpec,
    policy::{Layer, LayerKind},
};
use serde_json::{Value, json};

use crate::Server;

/// Much longer than any step takes; only a failing test waits for it.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

type ToolFn = dyn Fn(Call) -> BoxFuture<'static, Result<Reply, ToolError>> + Send + Sync;

/// A tool with the behavior of a closure.
struct TestTool {
    spec: ToolSpec,
    act: Box<ToolFn>,
}

impl TestTool {
    fn new<F>(name: &str, act: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Reply, ToolError>> + Send + 'static,
    {
        let schema = Schema::from_value(json!({"type": "object", "properties": {}}));
        let spec =
            ToolSpec::declared("a test", name, "Does what a test says.", schema.expect("a schema"));
        Self { spec: spec.needs([Power::Free]), act: Box::new(move |call| Box::pin(act(call))) }
    }

    /// A tool that needs approval.
    fn destructive(mut self) -> Self {
        self.spec.effect = Effect::Destructive;
        self
    }
}

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _input: &Value) -> Result<Vec<Access>, ToolError> {
        Ok(Vec::new())
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        (self.act)(call)
    }
}

/// Returns the requested text at once.
fn echo() -> TestTool {
    TestTool::new("echo", |call| async move {
        Ok(Reply::text(call.raw_input()["text"].as_str().unwrap_or("nothing")))
    })
}

/// Returns a gate like that of `haft mcp`, for these tools.
fn gate(tools: impl IntoIterator<Item = TestTool>) -> Gate {
    let registry = Registry::default();
    for tool in tools {
        registry.register(tool).expect("every name once");
    }
    let mut layer = Layer::new(LayerKind::Session, "test");
    layer.mode = Some(Mode::Contained);
    Gate::builder(registry).policy(Policy::new([layer])).start_in_place().build()
}

/// The client's ends of two pipes, and a signal for the end of the server.
struct ClientEnds {
    input: File,
    output: File,
    over: mpsc::Receiver<()>,
}

/// Serves this gate at two pipes.
fn serve(gate: Gate) -> ClientEnds {
    let (server_input, input) = rustix::pipe::pipe().expect("a pipe");
    let (output, server_output) = rustix::pipe::pipe().expect("a pipe");
    let (sender, over) = mpsc::channel();
    let server = Server::builder(gate).build();
    // Never closed, like the standard streams of a running process.
    let (server_input, server_output): (&'static _, &'static _) =
        (Box::leak(Box::new(server_input)), Box::leak(Box::new(server_output)));
    thread::spawn(move || {
        let served = server.over(server_input.as_fd(), server_output.as_fd());
        served.expect("it has its threads");
        let _ = sender.send(());
    });
    ClientEnds { input: input.into(), output: output.into(), over }
}
