//! Calls that end by themselves, and calls that do not.

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

/// What the tool under test does when it is called.
#[derive(Clone, Copy)]
enum Habit {
    Answers,
    /// Never ends, but gives way.
    Waits,
    /// Holds its thread until the test is over.
    Blocks,
}

struct Subject {
    spec: ToolSpec,
    habit: Habit,
    started: mpsc::Sender<()>,
    released: Mutex<mpsc::Receiver<()>>,
}

impl Tool for Subject {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _input: &Value) -> Result<Vec<Access>, ToolError> {
        Ok(Vec::new())
    }

    fn call(&self, _call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        Box::pin(async {
            let _ = self.started.send(());
            match self.habit {
                Habit::Answers => {}
                Habit::Waits => std::future::pending().await,
                Habit::Blocks => {
                    let _ = self.released.lock().recv();
                }
            }
            Ok(Reply::text("done"))
        })
    }
}

/// For calls that must not be left behind, however busy the machine is.
const ENDLESS: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(20);

/// A call on a thread of its own, which it may block.
struct Running {
    interrupt: UnboundedSender<()>,
    started: mpsc::Receiver<()>,
    end: mpsc::Receiver<Result<Outcome, Abandoned>>,
    /// Dropped at the end of the test, which lets a blocked tool go.
    _release: mpsc::Sender<()>,
}

fn call(habit: Habit, deadline: Option<Duration>, patience: Duration) -> Running {
    let (starting, started) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let (ending, end) = mpsc::channel();
    let schema = Schema::from_value(json!({"type": "object"})).expect("a schema");
    let spec = ToolSpec::declared("test", "subject", "Is tested.", schema);
    let registry = Registry::default();
    let subject = Subject { spec, habit, started: starting, released: Mutex::new(released) };
    registry.register(subject).expect("a new name");
    let gate = Gate::builder(registry).build();
    let mut context = Context::new("test");
    context.deadline = deadline;
    let request = CallRequest::new("subject", json!({}), context);
    let terminal = Arc::new(Terminal::new(Colours::Unwanted, None));
    let attendant = Attendant::deaf(terminal, Watching::Yes, patience);
    let (attendant, interrupt) = attendant.expect("a runtime");
    thread::spawn(move || {
        let abandoned = ending.clone();
        let runtime = runtime().expect("a runtime");
        let abandon = move |end| abandoned.send(Err(end)).expect("the test waits");
        let outcome = make(runtime, &gate, request, attendant, abandon).expect("a thread");
        ending.send(Ok(outcome)).expect("the test waits");
    });
    Running { interrupt, started, end, _release: release }
}

impl Running {
    fn interrupt(&self) {
        self.started.recv().expect("it starts");
        self.interrupt.send(()).expect("it is attended");
    }

    #[track_caller]
    fn outcome(&self) -> Outcome {
        self.end.recv().expect("an end").unwrap_or_else(|_| panic!("it was abandoned"))
    }

    #[track_caller]
    fn stuck(&self) -> ToolError {
        match self.end.recv().expect("an end") {
            Err(Abandoned::Stuck(error)) => error,
            Err(Abandoned::AtOnce) => panic!("nobody said so twice"),
            Ok(outcome) => panic!("it ended: {outcome:?}"),
        }
    }
}

#[test]
fn a_call_that_ends_is_not_disturbed() {
    assert_eq!(call(Habit::Answers, None, ENDLESS).outcome().content, "done");
}

#[test]
fn the_first_signal_calls_off() {
    let running = call(Habit::Waits, None, ENDLESS);
    running.interrupt();
    let error = running.outcome().error.expect("called off");
    assert_eq!((error.kind, error.kind.exit_code()), (ErrorKind::Cancelled, 130));
}

#[test]
fn the_first_signal_calls_off_even_what_blocks() {
    let running = call(Habit::Blocks, None, SHORT);
    running.interrupt();
    assert_eq!(running.stuck().kind(), ErrorKind::Cancelled);
}

#[test]
fn the_second_signal_does_not_wait() {
    let running = call(Habit::Blocks, None, ENDLESS);
    running.interrupt();
    running.interrupt.send(()).expect("it is attended");
    assert!(matches!(running.end.recv(), Ok(Err(Abandoned::AtOnce))));
}

#[test]
fn a_deadline_holds_whatever_the_tool_does() {
    let deadline = Some(SHORT);
    let error = call(Habit::Waits, deadline, ENDLESS).outcome().error.expect("overdue");
    assert_eq!(error.kind, ErrorKind::Timeout);
    let error = call(Habit::Blocks, deadline, SHORT).stuck();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.message().contains("`subject` is overdue"), "{error}");
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
        let subject = Subject { spec, habit: Habit::Answers, started, released };
        registry.register(subject).expect("a new name");
    }
    let gate = Gate::builder(registry).build();
    let request = CallRequest::new("outer", json!({}), Context::new("test"));
    let mut orders = Orders::of(&gate, &request, Arc::default());
    let started = |tool: &str| CallEvent {
        call: tool.to_owned(),
        session: "test".to_owned(),
        kind: CallEventKind::Started { tool: tool.to_owned() },
    };
    let runtime = runtime().expect("a runtime");
    let deadlines = runtime.block_on(async {
        [orders.started(&started("outer")).await, orders.started(&started("inner")).await]
    });
    assert_eq!(deadlines, [Some(ENDLESS), None]);
}
