//! Cancellation by dropping: when a caller stops waiting (a client disconnects, a future is
//! dropped), its call is cancelled. The rest of the pipeline (stopping the tool, settling the
//! approval, writing the record) continues without the caller.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use tokio_util::sync::CancellationToken;

use super::Submission;
use crate::{BoxFuture, ToolError};

/// The pipeline of one call, awaited by its caller. Resolves to the panic message if the pipeline
/// itself panics.
pub(super) struct DetachedPipeline {
    /// `None` once the pipeline is finished or detached.
    pipeline: Option<BoxFuture<'static, Result<Submission, ToolError>>>,
    cancel: CancellationToken,
}

impl DetachedPipeline {
    pub(super) fn new(
        pipeline: BoxFuture<'static, Result<Submission, ToolError>>,
        cancel: CancellationToken,
    ) -> Self {
        Self { pipeline: Some(pipeline), cancel }
    }
}

impl Future for DetachedPipeline {
    type Output = Result<Result<Submission, ToolError>, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(pipeline) = &mut self.pipeline else {
            return Poll::Ready(Err("polled after completion".to_owned()));
        };
        let polled = catch_unwind(AssertUnwindSafe(|| pipeline.as_mut().poll(context)));
        let answer = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(answer)) => Ok(answer),
            Err(panic) => Err(words(&*panic).to_owned()),
        };
        self.pipeline = None;
        Poll::Ready(answer)
    }
}

impl Drop for DetachedPipeline {
    fn drop(&mut self) {
        let Some(pipeline) = self.pipeline.take() else { return };
        self.cancel.cancel();
        // Without a runtime the process is ending, and the pipeline with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(pipeline);
        }
    }
}

/// Returns the message of a panic.
pub(super) fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
