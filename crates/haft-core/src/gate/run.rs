//! Stage 7: runs the tool in its own task with exactly the granted accesses, until it ends, the
//! deadline passes or the caller cancels. A panic, a hang or a blocked thread stays in that task.
//! Only a program that watches the calling thread may let the tool start on it.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    task::Poll,
    time::Duration,
};

use tokio::{
    task::{JoinError, JoinHandle},
    time::Instant,
};

use super::{CallState, Gate, GateInner, Halt, WeakGate, begin, detach};
use crate::{
    Access, BoxFuture, Call, ErrorKind, ParsedScript, Power, Reply, ToolError, Tools,
    call::{EventSender, Grants, GrantsInner, Listener, ResolvedFile},
    events::CallEventKind,
    queue::QueuePosition,
};

/// How long to wait for an aborted task before leaving it behind.
const ABORT_TIMEOUT: Duration = Duration::from_millis(200);

pub(super) async fn run(
    gate: &GateInner,
    own: &Gate,
    call_state: &mut CallState,
) -> Result<Reply, Halt> {
    // A call that was cancelled while it waited for approval, or before, does not start.
    if call_state.cancel.token.is_cancelled() {
        return Err(cancelled(call_state).into());
    }
    let deadline = deadline(call_state);
    let latest = latest_end(call_state, deadline);
    let changed = changed_paths(call_state);
    // Boxed: most calls need neither future and would reserve space for both.
    let position = match changed.is_empty() {
        true => None,
        false => Some(Box::pin(wait_for_paths(gate, call_state, changed, latest)).await?),
    };
    begin::begin(gate, call_state).await?;
    let granted = Granted::taken(call_state);
    let call = call(gate, own, call_state, granted, latest);
    call.sender.send(|_| CallEventKind::Started { tool: call_state.name().to_owned() });
    let tool = call_state.tool().clone();
    let mut work: ToolFuture = Box::pin(async move {
        // Released when the tool is really finished, not when the gate stops waiting for it.
        let _position = position;
        tool.call(call).await
    });
    if gate.starts_in_place
        && let Some(ran) = start_in_place(call_state, &mut work)
    {
        return Ok(ran?);
    }
    Ok(Box::pin(watch(gate, call_state, tokio::spawn(work), latest, deadline)).await?)
}

type ToolFuture = BoxFuture<'static, Result<Reply, ToolError>>;

/// Runs the tool until it first waits, which for most tools is their end: waking a task costs more
/// than a cached read.
fn start_in_place(
    call_state: &CallState,
    work: &mut ToolFuture,
) -> Option<Result<Reply, ToolError>> {
    // A no-op waker is enough: a tool that has to wait is polled again at once, in its own task.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut context))) {
        Ok(Poll::Ready(ran)) => Some(ran),
        Ok(Poll::Pending) => None,
        Err(panic) => Some(Err(panicked(call_state, &*panic))),
    }
}

/// Waits until no other call changes the same paths, or until the deadline.
async fn wait_for_paths(
    gate: &GateInner,
    call_state: &CallState,
    paths: Vec<PathBuf>,
    latest: Instant,
) -> Result<QueuePosition, ToolError> {
    let ancestors = &call_state.context.lineage.ancestors;
    tokio::select! {
        // Usually no other call waits: then no timer is created.
        biased;
        place = gate.queue.enter(&call_state.info.call_id, ancestors, paths) => Ok(place),
        () = tokio::time::sleep_until(latest) => {
            let name = call_state.name();
            let why =
                format!("`{name}` timed out waiting for another call that changes the same path");
            Err(ToolError::new(ErrorKind::Timeout, why))
        }
        () = call_state.cancel.token.cancelled() => Err(cancelled(call_state)),
    }
}

/// A call made by a tool ends no later than the call that made it.
fn latest_end(call_state: &CallState, deadline: Duration) -> Instant {
    let own = Instant::now() + deadline;
    call_state.context.lineage.latest.map_or(own, |outer| outer.min(own))
}

fn deadline(call_state: &CallState) -> Duration {
    let of_tool = call_state.tool().spec().deadline;
    call_state.context.deadline.map_or(of_tool, |asked| asked.min(of_tool))
}

fn changed_paths(call_state: &CallState) -> Vec<PathBuf> {
    let changed = call_state.accesses.iter().filter_map(|access| match access {
        Access::Write(path) => Some(path.clone()),
        Access::Any(Power::WriteFiles) => Some(PathBuf::from(".")),
        _ => None,
    });
    changed.collect()
}

/// The parts of the call state that the running call receives.
pub(super) struct Granted {
    accesses: Vec<Access>,
    resolved_files: Vec<ResolvedFile>,
    scripts: Vec<ParsedScript>,
}

impl Granted {
    /// Moves the parts: no later stage reads them.
    fn taken(call_state: &mut CallState) -> Self {
        Self {
            accesses: std::mem::take(&mut call_state.accesses),
            resolved_files: std::mem::take(&mut call_state.resolved_files),
            scripts: std::mem::take(&mut call_state.scripts),
        }
    }

    /// Copies the parts, for lookups and previews before the call runs.
    pub(super) fn copied(call_state: &CallState) -> Self {
        Self {
            accesses: call_state.accesses.clone(),
            resolved_files: call_state.resolved_files.clone(),
            scripts: call_state.scripts.clone(),
        }
    }
}

/// The call as the tool sees it. Previews use one too, before approval; they are read-only.
pub(super) fn call(
    gate: &GateInner,
    own: &Gate,
    call_state: &CallState,
    granted: Granted,
    latest: Instant,
) -> Call {
    let spec = call_state.tool().spec();
    let grants = Grants::new(GrantsInner {
        tool: spec.name.clone(),
        effect: spec.effect,
        accesses: granted.accesses,
        resolved_files: granted.resolved_files,
        scripts: granted.scripts,
        withheld: call_state.withheld.clone(),
        caller: call_state.context.clone(),
        policy: gate.policy.clone(),
        ruled: Default::default(),
    });
    Call {
        input: call_state.input.clone(),
        info: call_state.info.clone(),
        grants,
        services: gate.services.clone(),
        own_services: call_state.context.services.clone(),
        sender: EventSender {
            events: gate.events.clone(),
            info: call_state.info.clone(),
            redactor: gate.redactor.clone(),
            listener: call_state.context.services.get::<dyn Listener>(),
        },
        cancel: call_state.cancel.clone(),
        tools: Tools {
            gate: WeakGate::of(own),
            caller: call_state.context.clone(),
            call_id: call_state.info.call_id.clone(),
            cancel: call_state.cancel.token.clone(),
            latest,
        },
    }
}

type TaskResult = Result<Result<Reply, ToolError>, JoinError>;

async fn watch(
    gate: &GateInner,
    call_state: &CallState,
    mut task: JoinHandle<Result<Reply, ToolError>>,
    latest: Instant,
    deadline: Duration,
) -> Result<Reply, ToolError> {
    let error = tokio::select! {
        ran = &mut task => return ended(call_state, ran),
        () = tokio::time::sleep_until(latest) => timed_out(call_state, deadline),
        () = call_state.cancel.token.cancelled() => cancelled(call_state),
    };
    // A partial result that the tool returns within its grace period is better than none.
    match stop(gate, call_state, task).await {
        Some(Ok(Ok(reply))) => Err(error.with_partial(reply)),
        _ => Err(error),
    }
}

/// Cancels the tool, waits a grace period if the tool listens for cancellation, then aborts the
/// task. A task that blocks its thread cannot be aborted; it is left behind.
async fn stop(
    gate: &GateInner,
    call_state: &CallState,
    mut task: JoinHandle<Result<Reply, ToolError>>,
) -> Option<TaskResult> {
    call_state.cancel.token.cancel();
    if call_state.cancel.has_listener()
        && let Ok(ran) = tokio::time::timeout(gate.limits.grace, &mut task).await
    {
        return Some(ran);
    }
    task.abort();
    tokio::time::timeout(ABORT_TIMEOUT, task).await.ok()
}

fn ended(call_state: &CallState, ran: TaskResult) -> Result<Reply, ToolError> {
    ran.unwrap_or_else(|error| {
        let name = call_state.name();
        match error.try_into_panic() {
            Ok(panic) => Err(panicked(call_state, &*panic)),
            Err(_) => Err(ToolError::internal(format!("`{name}` was stopped by its runtime"))),
        }
    })
}

fn panicked(call_state: &CallState, panic: &(dyn Any + Send)) -> ToolError {
    let words = detach::words(panic);
    ToolError::internal(format!("`{}` panicked: {words}", call_state.name()))
}

fn timed_out(call_state: &CallState, deadline: Duration) -> ToolError {
    let message = format!("`{}` was stopped after {deadline:?}, its deadline", call_state.name());
    ToolError::new(ErrorKind::Timeout, message)
}

fn cancelled(call_state: &CallState) -> ToolError {
    ToolError::new(
        ErrorKind::Cancelled,
        format!("this call of `{}` was cancelled", call_state.name()),
    )
}
