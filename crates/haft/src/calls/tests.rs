//! Tests of calls that end, and of calls that must be abandoned.

use std::{sync::mpsc, time::Duration};

use parking_lot::Mutex;

use haft_core::{
    Access, BoxFuture, Call, CallEvent, CallEventKind, Context, ErrorKind, Registry, Reply, Schema,
    Tool, ToolError, ToolSpec,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::*;
use crate::{environment::Colours, terminal::Terminal};

/// Behaviour of the tool under test.
#[derive(Clone, Copy)]
enum Behaviour {
    Answers,
    /// Never ends, but can be cancelled.
    Waits,
    /// Blocks its thread until the test ends.
    Blocks,
}

struct TestTool {
    spec: ToolSpec,
    behaviour: Behaviour,
    started: mpsc::Sender<()>,
    released: Mutex<mpsc::Receiver<()>>,
}

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _input: &Value) -> Result<Vec<Access>, ToolError> {
        Ok(Vec::new())
    }

    fn call(&self, _call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        Box::pin(async {
            let _ = self.started.send(());
            match self.behaviour {
                Behaviour::Answers => {}
                Behaviour::Waits => std::future::pending().await,
                Behaviour::Blocks => {
                    let _ = self.released.lock().recv();
                }
            }
            Ok(Reply::text("done"))
        })
    }
}

/// Grace period of calls that must not be abandoned, however busy the machine is.
const ENDLESS: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(20);

/// A call on its own thread, which it may block.
struct RunningCall {
    interrupt: UnboundedSender<()>,
    started: mpsc::Receiver<()>,
    end: mpsc::Receiver<Result<Outcome, Abandoned>>,
    /// Dropped at the end of the test, which releases a blocked tool.
    _release: mpsc::Sender<()>,
}

fn call(behaviour: Behaviour, deadline: Option<Duration>, grace: Duration) -> RunningCall {
    let (starting, started) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let (ending, end) = mpsc::channel();
    let schema = Schema::from_value(json!({"type": "object"})).expect("a schema");
    let spec = ToolSpec::declared("test", "test_tool", "Is tested.", schema);
    let registry = Registry::default();
    let test_tool = TestTool { spec, behaviour, started: starting, released: Mutex::new(released) };
    registry.register(test_tool).expect("a new name");
    let gate = Gate::builder(registry).build();
    let mut context = Context::new("test");
    context.deadline = deadline;
    let request = CallRequest::new("test_tool", json!({}), context);
    let terminal = Arc::new(Terminal::new(Colours::Unwanted, None));
    let monitor = CallMonitor::without_signals(terminal, StatusLine::Shown, grace);
    let (monitor, interrupt) = monitor.expect("a runtime");
    thread::spawn(move || {
        let abandoned = ending.clone();
        let runtime = runtime().expect("a runtime");
        let abandon = move |end| abandoned.send(Err(end)).expect("the test waits");
        let outcome = make(runtime, &gate, request, monitor, abandon).expect("a thread");
        ending.send(Ok(outcome)).expect("the test waits");
    });
    RunningCall { interrupt, started, end, _release: release }
}

impl RunningCall {
    fn interrupt(&self) {
        self.started.recv().expect("it starts");
        self.interrupt.send(()).expect("it is monitored");
    }

    #[track_caller]
    fn outcome(&self) -> Outcome {
        self.end.recv().expect("an end").unwrap_or_else(|_| panic!("it was abandoned"))
    }

    #[track_caller]
    fn stuck(&self) -> ToolError {
        match self.end.recv().expect("an end") {
            Err(Abandoned::Stuck(error)) => error,
            Err(Abandoned::AtOnce) => panic!("there was only one signal"),
            Ok(outcome) => panic!("it ended: {outcome:?}"),
        }
    }
}

#[test]
fn a_call_that_ends_is_not_disturbed() {
    assert_eq!(call(Behaviour::Answers, None, ENDLESS).outcome().content, "done");
}

#[test]
fn the_first_signal_cancels() {
    let running = call(Behaviour::Waits, None, ENDLESS);
    running.interrupt();
    let error = running.outcome().error.expect("cancelled");
    assert_eq!((error.kind, error.kind.exit_code()), (ErrorKind::Cancelled, 130));
}

#[test]
fn the_first_signal_cancels_even_a_blocking_tool() {
    let running = call(Behaviour::Blocks, None, SHORT);
    running.interrupt();
    assert_eq!(running.stuck().kind(), ErrorKind::Cancelled);
}

#[test]
fn the_second_signal_does_not_wait() {
    let running = call(Behaviour::Blocks, None, ENDLESS);
    running.interrupt();
    running.interrupt.send(()).expect("it is monitored");
    assert!(matches!(running.end.recv(), Ok(Err(Abandoned::AtOnce))));
}

#[test]
fn a_deadline_holds_whatever_the_tool_does() {
    let deadline = Some(SHORT);
    let error =
        call(Behaviour::Waits, deadline, ENDLESS).outcome().error.expect("past its deadline");
    assert_eq!(error.kind, ErrorKind::Timeout);
    let error = call(Behaviour::Blocks, deadline, SHORT).stuck();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.message().contains("`test_tool` is past its deadline"), "{error}");
}

#[test]
fn the_calls_that_a_tool_makes_do_not_shorten_its_time() {
    let schema = Schema::from_value(json!({"type": "object"})).expect("a schema");
    let spec = |name: &str, deadline| {
        let mut spec = ToolSpec::declared("test", name, "Is tested.", schema.clone());
        spec.deadline = deadline;
        spec
    };
    let registry = Registry::default();
    for (name, deadline) in [("outer", ENDLESS), ("inner", SHORT)] {
        let (started, _) = mpsc::channel();
        let (_, released) = mpsc::channel();
        let released = Mutex::new(released);
        let spec = spec(name, deadline);
        let test_tool = TestTool { spec, behaviour: Behaviour::Answers, started, released };
        registry.register(test_tool).expect("a new name");
    }
    let gate = Gate::builder(registry).build();
    let request = CallRequest::new("outer", json!({}), Context::new("test"));
    let mut call = MonitoredCall::of(&gate, &request, Arc::default());
    let started = |tool: &str| CallEvent {
        call: tool.to_owned(),
        session: "test".to_owned(),
        kind: CallEventKind::Started { tool: tool.to_owned() },
    };
    let runtime = runtime().expect("a runtime");
    let deadlines = runtime.block_on(async {
        [call.started(&started("outer")).await, call.started(&started("inner")).await]
    });
    assert_eq!(deadlines, [Some(ENDLESS), None]);
}
