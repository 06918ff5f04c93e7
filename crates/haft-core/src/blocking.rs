//! Blocking work of tools. [`block_in_place`] stays on the thread, because handing a cached read to
//! another thread costs more than the read; [`spawn_blocking`] uses a separate thread.

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task,
};

use crate::ToolError;

/// Runs work of a few milliseconds that must not be interrupted by cancellation: it ends before
/// another call gets its paths. On a multi-threaded runtime, other threads take over the tasks of
/// this one.
pub fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => task::block_in_place(work),
        _ => work(),
    }
}

/// Runs long work on a separate thread, so that deadlines and cancellation work. The work must
/// check a [`Cancel`](crate::Cancel) itself, since a thread cannot be dropped.
///
/// # Errors
/// Of kind `internal` if the work panics.
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
