//! Capabilities: the arguments of a tool after its input. Holding the value is holding the
//! permission, so the signature is the manifest. The file capabilities are in `files.rs`; this file
//! has the free ones and the access to other tools.

use std::sync::Arc;

use parking_lot::Mutex;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    Call, CallInfo, Context, Need, Outcome, Power, ToolError,
    call::{EventSender, Lineage},
    events::{CallEventKind, ProgressUpdate},
    gate::{CallRequest, WeakGate},
    redactor::StreamRedactor,
};

/// A value that a tool may take as an argument.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a capability",
    label = "a tool cannot take this argument",
    note = "every argument of a tool after the first is a capability, owned: `ReadFiles`, `WriteFiles`, \
            `Shell`, `Net`, `Progress`, `Cancel`, `CallInfo`, `Tools`, or a type of yours that implements `haft::Capability`"
)]
pub trait Capability: Sized + Send + 'static {
    /// The power that the capability needs.
    const NEED: Need;

    /// Creates the capability for one call. It must not open or connect anything before it is used.
    ///
    /// # Errors
    /// If the call does not hold the power, or the program does not provide the service.
    fn from_call(call: &Call) -> Result<Self, ToolError>;
}

// `do_not_recommend` on every implementation: the note above lists them, so a second list would be
// noise.

/// `None` only means "not granted"; a failure stays an error.
#[diagnostic::do_not_recommend]
impl<C: Capability> Capability for Option<C> {
    const NEED: Need = Need { power: C::NEED.power, optional: true };

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        if call.grants.has(C::NEED.power) { C::from_call(call).map(Some) } else { Ok(None) }
    }
}

#[diagnostic::do_not_recommend]
impl Capability for CallInfo {
    const NEED: Need = Need::required(Power::Free);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        Ok((*call.info).clone())
    }
}

/// Reports progress to watchers. Bounded and lossy: a slow watcher never slows the tool.
pub struct Progress(Option<(EventSender, Mutex<StreamRedactor>)>);

impl Progress {
    /// Discards all progress, for calling a tool's function directly.
    pub fn silent() -> Self {
        Self(None)
    }

    /// Reports how much is done, of `total` if that is known.
    pub fn step(&self, done: f64, total: Option<f64>, message: &str) {
        if let Some((sender, _)) = &self.0 {
            sender.send(|redactor| {
                let message = redactor.text(message).into_owned();
                CallEventKind::Progress(ProgressUpdate { done, total, message })
            });
        }
    }

    /// Reports a piece of output. Text that may be the beginning of a secret is held back until the
    /// next piece or the end.
    pub fn output(&self, text: &str) {
        self.show(|pieces| pieces.push(text));
    }

    /// Reports the end of the output.
    pub fn end_output(&self) {
        self.show(StreamRedactor::finish);
    }

    fn show(&self, certain: impl FnOnce(&mut StreamRedactor) -> String) {
        let Some((sender, pieces)) = self.0.as_ref().filter(|(sender, _)| sender.has_listener())
        else {
            return;
        };
        let text = certain(&mut pieces.lock());
        if !text.is_empty() {
            sender.send(|_| CallEventKind::Output { text });
        }
    }
}

#[diagnostic::do_not_recommend]
impl Capability for Progress {
    const NEED: Need = Need::required(Power::Free);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        let pieces = Mutex::new(call.sender.redactor.stream());
        Ok(Self(Some((call.sender.clone(), pieces))))
    }
}

/// Tells the tool when the call is cancelled. Only for work that dropping a future cannot stop
/// (loops, blocking threads). A tool that takes it gets a short grace period to finish.
pub struct Cancel(CancellationToken);

impl Cancel {
    /// Never cancelled, for calling a tool's function directly.
    pub fn never() -> Self {
        Self(CancellationToken::new())
    }

    /// Returns true if the call was cancelled. Cheap enough for inner loops.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the call is cancelled.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }
}

#[diagnostic::do_not_recommend]
impl Capability for Cancel {
    const NEED: Need = Need::required(Power::Free);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        Ok(Self(call.cancel.listen()))
    }
}

/// Calls other tools. Each such call passes the gate like any other, in the name of the same
/// caller.
#[derive(Clone)]
pub struct Tools {
    pub(crate) gate: WeakGate,
    /// The context of the call that holds this.
    pub(crate) caller: Arc<Context>,
    pub(crate) call_id: Arc<str>,
    pub(crate) cancel: CancellationToken,
    pub(crate) latest: tokio::time::Instant,
}

impl Tools {
    /// Calls a tool and returns its outcome. The deadline of the outer call applies too.
    pub async fn call(&self, tool: &str, input: Value) -> Outcome {
        let outer = self.caller.lineage.ancestors.iter();
        let ancestors = outer.chain([&self.call_id]).cloned().collect();
        let context = Context {
            call_id: None,
            deadline: None,
            // Cancelled together with the outer call, but not the other way round.
            cancel: self.cancel.child_token(),
            lineage: Lineage { ancestors, latest: Some(self.latest) },
            ..Context::clone(&self.caller)
        };
        self.gate.call(CallRequest::new(tool, input, context)).await
    }
}

#[diagnostic::do_not_recommend]
impl Capability for Tools {
    const NEED: Need = Need::required(Power::Tools);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        if call.grants.has(Power::Tools) {
            Ok(call.tools.clone())
        } else {
            Err(ToolError::denied("this call was not granted the power to call other tools"))
        }
    }
}
