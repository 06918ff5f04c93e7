//! A caller may stop waiting for its call: a client hangs up, a future is dropped. Then the call is called off, and the
//! rest of the pipeline (stopping the tool, settling the approval, writing the record) goes on without the caller.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use tokio_util::sync::CancellationToken;

use super::Submission;
use crate::{BoxFuture, ToolError};

/// The pipeline of one call, as its caller waits for it. Gives the words of the panic if the pipeline itself breaks.
pub(super) struct DetachedPipeline {
    /// `None` when there is nothing left to hand over.
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
            return Poll::Ready(Err("it was asked again after its end".to_owned()));
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

/// What a panic said.
pub(super) fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words")
}
