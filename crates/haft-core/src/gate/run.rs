//! Stage 7: the tool runs, in a task of its own, holding exactly what was granted, until it ends, the deadline passes
//! or the caller calls it off. Whatever it does (panic, hang, block its thread) stays in that task; only where the
//! program has another thread to see after it, the tool may begin on its caller's.

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

use super::{CallState, Gate, Halt, Inner, WeakGate, begin, handover};
use crate::{
    Access, BoxFuture, Call, ErrorKind, ParsedScript, Power, Reply, ToolError, Tools,
    call::{EventSender, Grants, GrantsInner, Listener, ResolvedFile},
    events::CallEventKind,
    queue::QueuePosition,
};

/// After the task was told to go, this long it may take to be gone; then it is left behind.
const LAST_WAIT: Duration = Duration::from_millis(200);

pub(super) async fn run(gate: &Inner, own: &Gate, flight: &mut CallState) -> Result<Reply, Halt> {
    // Called off while somebody decided, or before it began: then it does not begin.
    if flight.cancel.token.is_cancelled() {
        return Err(called_off(flight).into());
    }
    let deadline = deadline(flight);
    let latest = latest_end(flight, deadline);
    let changed = changed_paths(flight);
    // Boxed, and what comes last here too: most calls need neither, and would carry room for both.
    let place = match changed.is_empty() {
        true => None,
        false => Some(Box::pin(line_up(gate, flight, changed, latest)).await?),
    };
    begin::begin(gate, flight).await?;
    let granted = Granted::taken(flight);
    let call = call(gate, own, flight, granted, latest);
    call.sender.send(|_| CallEventKind::Started { tool: flight.name().to_owned() });
    let tool = flight.tool().clone();
    let mut work: Work = Box::pin(async move {
        // Given up when the tool is really gone, not when we stop waiting for it.
        let _place = place;
        tool.call(call).await
    });
    if gate.starts_in_place
        && let Some(ran) = start_in_place(flight, &mut work)
    {
        return Ok(ran?);
    }
    Ok(Box::pin(watch(gate, flight, tokio::spawn(work), latest, deadline)).await?)
}

type Work = BoxFuture<'static, Result<Reply, ToolError>>;

/// As far as the tool gets without waiting, which for most is to its end: waking a task costs more than a cached read.
fn start_in_place(flight: &CallState, work: &mut Work) -> Option<Result<Reply, ToolError>> {
    // Nobody is woken: a tool that has to wait is asked again at once, in its own task.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut context))) {
        Ok(Poll::Ready(ran)) => Some(ran),
        Ok(Poll::Pending) => None,
        Err(panic) => Some(Err(panicked(flight, &*panic))),
    }
}

/// Waits for whoever changes the same paths, but not for ever.
async fn line_up(
    gate: &Inner,
    flight: &CallState,
    paths: Vec<PathBuf>,
    latest: Instant,
) -> Result<QueuePosition, ToolError> {
    let ancestors = &flight.context.lineage.ancestors;
    tokio::select! {
        // Usually nobody is in line: then no clock is set.
        biased;
        place = gate.queue.enter(&flight.info.call_id, ancestors, paths) => Ok(place),
        () = tokio::time::sleep_until(latest) => {
            let name = flight.name();
            let why = format!("`{name}` waited too long for another call that changes the same path");
            Err(ToolError::new(ErrorKind::Timeout, why))
        }
        () = flight.cancel.token.cancelled() => Err(called_off(flight)),
    }
}

/// A call made by a tool ends no later than the call it is made in.
fn latest_end(flight: &CallState, deadline: Duration) -> Instant {
    let own = Instant::now() + deadline;
    flight.context.lineage.latest.map_or(own, |outer| outer.min(own))
}

fn deadline(flight: &CallState) -> Duration {
    let of_tool = flight.tool().spec().deadline;
    flight.context.deadline.map_or(of_tool, |asked| asked.min(of_tool))
}

fn changed_paths(flight: &CallState) -> Vec<PathBuf> {
    let changed = flight.accesses.iter().filter_map(|access| match access {
        Access::Write(path) => Some(path.clone()),
        Access::Any(Power::WriteFiles) => Some(PathBuf::from(".")),
        _ => None,
    });
    changed.collect()
}

/// What a call holds of what the gate found.
pub(super) struct Granted {
    accesses: Vec<Access>,
    seen: Vec<ResolvedFile>,
    texts: Vec<ParsedScript>,
}

impl Granted {
    /// For good: nobody else asks for it.
    fn taken(flight: &mut CallState) -> Self {
        Self {
            accesses: std::mem::take(&mut flight.accesses),
            seen: std::mem::take(&mut flight.seen),
            texts: std::mem::take(&mut flight.texts),
        }
    }

    /// For who only looks before the call runs.
    pub(super) fn copied(flight: &CallState) -> Self {
        Self {
            accesses: flight.accesses.clone(),
            seen: flight.seen.clone(),
            texts: flight.texts.clone(),
        }
    }
}

/// The call as the tool sees it. A preview is made from one too, before anybody has agreed: it only looks.
pub(super) fn call(
    gate: &Inner,
    own: &Gate,
    flight: &CallState,
    granted: Granted,
    latest: Instant,
) -> Call {
    let spec = flight.tool().spec();
    let grants = Grants::new(GrantsInner {
        tool: spec.name.clone(),
        effect: spec.effect,
        accesses: granted.accesses,
        seen: granted.seen,
        texts: granted.texts,
        withheld: flight.withheld.clone(),
        caller: flight.context.clone(),
        policy: gate.policy.clone(),
        ruled: Default::default(),
    });
    Call {
        input: flight.input.clone(),
        info: flight.info.clone(),
        grants,
        services: gate.services.clone(),
        own_services: flight.context.services.clone(),
        sender: EventSender {
            events: gate.events.clone(),
            info: flight.info.clone(),
            redactor: gate.redactor.clone(),
            listener: flight.context.services.get::<dyn Listener>(),
        },
        cancel: flight.cancel.clone(),
        tools: Tools {
            gate: WeakGate::of(own),
            caller: flight.context.clone(),
            call_id: flight.info.call_id.clone(),
            cancel: flight.cancel.token.clone(),
            latest,
        },
    }
}

type Ran = Result<Result<Reply, ToolError>, JoinError>;

async fn watch(
    gate: &Inner,
    flight: &CallState,
    mut task: JoinHandle<Result<Reply, ToolError>>,
    latest: Instant,
    deadline: Duration,
) -> Result<Reply, ToolError> {
    let error = tokio::select! {
        ran = &mut task => return ended(flight, ran),
        () = tokio::time::sleep_until(latest) => overdue(flight, deadline),
        () = flight.cancel.token.cancelled() => called_off(flight),
    };
    // What the tool can still say within its grace is worth having: half a result beats none.
    match stop(gate, flight, task).await {
        Some(Ok(Ok(reply))) => Err(error.with_partial(reply)),
        _ => Err(error),
    }
}

/// Signals, waits a grace if anybody listens, drops. A task that blocks its thread cannot be dropped; it is left to
/// itself rather than waited for.
async fn stop(
    gate: &Inner,
    flight: &CallState,
    mut task: JoinHandle<Result<Reply, ToolError>>,
) -> Option<Ran> {
    flight.cancel.token.cancel();
    if flight.cancel.is_heard()
        && let Ok(ran) = tokio::time::timeout(gate.limits.grace, &mut task).await
    {
        return Some(ran);
    }
    task.abort();
    tokio::time::timeout(LAST_WAIT, task).await.ok()
}

fn ended(flight: &CallState, ran: Ran) -> Result<Reply, ToolError> {
    ran.unwrap_or_else(|error| {
        let name = flight.name();
        match error.try_into_panic() {
            Ok(panic) => Err(panicked(flight, &*panic)),
            Err(_) => Err(ToolError::internal(format!("`{name}` was stopped by its runtime"))),
        }
    })
}

fn panicked(flight: &CallState, panic: &(dyn Any + Send)) -> ToolError {
    let words = handover::words(panic);
    ToolError::internal(format!("`{}` panicked: {words}", flight.name()))
}

fn overdue(flight: &CallState, deadline: Duration) -> ToolError {
    let message = format!("`{}` was stopped after {deadline:?}, its deadline", flight.name());
    ToolError::new(ErrorKind::Timeout, message)
}

fn called_off(flight: &CallState) -> ToolError {
    ToolError::new(ErrorKind::Cancelled, format!("this call of `{}` was called off", flight.name()))
}
