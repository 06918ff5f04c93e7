//! Runs one call from the command line on the main thread: passing it to another thread would add a
//! third to the time of a short call, and several times that on a busy machine. A second thread
//! handles signals, draws the status line, and ends the process when a tool blocks the main thread.

mod monitor;

use std::{io, sync::Arc, thread};

use haft_core::{CallRequest, Gate, Outcome};
use tokio::runtime::{Builder, Runtime};

pub(crate) use self::monitor::{Abandoned, CallMonitor, StatusLine};
use self::monitor::{MonitoredCall, ReportClaim};

/// Creates the runtime of the process. It is never dropped, because that would wait for blocked
/// threads; the end of the process does not.
pub(crate) fn runtime() -> io::Result<&'static Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(Box::leak(Box::new(runtime)))
}

/// Makes a call and waits for its end. If the call must be abandoned, the second thread calls
/// `abandon`, which has to end the process, because this function then never returns.
///
/// # Errors
/// When the second thread cannot be started. No tool has run then.
pub(crate) fn make(
    runtime: &Runtime,
    gate: &Gate,
    request: CallRequest,
    monitor: CallMonitor,
    abandon: impl FnOnce(Abandoned) + Send + 'static,
) -> io::Result<Outcome> {
    let claim = Arc::new(ReportClaim::default());
    let terminal = monitor.terminal();
    let call = MonitoredCall::of(gate, &request, claim.clone());
    thread::Builder::new().name("haft-monitor".to_owned()).spawn(move || {
        if let Some(end) = monitor.watch(call) {
            abandon(end);
        }
    })?;
    let outcome = runtime.block_on(gate.call(request));
    if !claim.take() {
        // The other thread reports this call and is about to end the process.
        loop {
            thread::park();
        }
    }
    terminal.end_status();
    Ok(outcome)
}

#[cfg(test)]
mod tests;
