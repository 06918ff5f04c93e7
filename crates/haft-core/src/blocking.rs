//! Where a tool does work that blocks its thread. `brief` stays on the thread, because handing a cached read to another
//! one costs more than the read; `lengthy` gives the thread back.

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task,
};

use crate::ToolError;

/// Work of milliseconds that must not be torn in two by a call-off: it ends before anybody else takes its paths. On a
/// runtime with several threads the others take over what this thread would have done meanwhile.
pub fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => task::block_in_place(work),
        _ => work(),
    }
}

/// Work that may take long: it goes to a thread of its own, so that deadlines and call-offs are heard. It must look at
/// a [`Cancel`](crate::Cancel) itself, since a thread cannot be dropped.
///
/// # Errors
/// Of kind `internal` when the work panics.
pub async fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ToolError::unavailable("the runtime is shutting down")),
        },
    }
}
