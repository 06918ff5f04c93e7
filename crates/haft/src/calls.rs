//! One call from the command line. It runs on the main thread: handing it to another one and waiting would cost a
//! third of the time of a small call, and on a busy machine several times that. A second thread attends to it: it
//! hears signals, draws the status line, and speaks for the call when a tool blocks the main thread for good.

mod attendant;

use std::{io, sync::Arc, thread};

use haft_core::{CallRequest, Gate, Outcome};
use tokio::runtime::{Builder, Runtime};

pub(crate) use self::attendant::{Abandoned, Attendant, Watching};
use self::attendant::{Claim, Orders};

/// The runtime of the process. It is never dropped: that would wait for whatever still blocks a thread, and the end of
/// the process does not.
pub(crate) fn runtime() -> io::Result<&'static Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(Box::leak(Box::new(runtime)))
}

/// Makes a call and waits for its end. `abandon` is called, by the other thread, when the end must not be waited for:
/// it has to end the process, since this function then never returns.
///
/// # Errors
/// When no second thread can be had; then nothing has run.
pub(crate) fn make(
    runtime: &Runtime,
    gate: &Gate,
    request: CallRequest,
    attendant: Attendant,
    abandon: impl FnOnce(Abandoned) + Send + 'static,
) -> io::Result<Outcome> {
    let claim = Arc::new(Claim::default());
    let terminal = attendant.terminal();
    let orders = Orders::of(gate, &request, claim.clone());
    thread::Builder::new().name("haft-attendant".to_owned()).spawn(move || {
        if let Some(end) = attendant.watch(orders) {
            abandon(end);
        }
    })?;
    let outcome = runtime.block_on(gate.call(request));
    if !claim.take() {
        // The other thread is speaking for this call and about to end the process.
        loop {
            thread::park();
        }
    }
    terminal.end_status();
    Ok(outcome)
}

#[cfg(test)]
mod tests;
