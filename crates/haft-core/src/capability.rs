//! Capabilities: what a tool takes as arguments after its input. Holding the value is holding the permission, so the
//! signature is the manifest. Files are in `files.rs`; here are the free ones and the way to other tools.

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

/// Something a tool may be handed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a capability",
    label = "a tool cannot be handed this",
    note = "every argument of a tool after the first is a capability, owned: `ReadFiles`, `WriteFiles`, \
            `Shell`, `Net`, `Progress`, `Cancel`, `CallInfo`, `Tools`, or a type of yours that implements `haft::Capability`"
)]
pub trait Capability: Sized + Send + 'static {
    /// What it is power over.
    const NEED: Need;

    /// Makes it for one call. Must not open or connect anything: that waits until it is used.
    ///
    /// # Errors
    /// When the call does not hold the power, or the program does not provide what it needs.
    fn from_call(call: &Call) -> Result<Self, ToolError>;
}

// `do_not_recommend` on every implementation: the note above names them, a second list after it is noise.

/// `None` means "not granted", and nothing else: a failure stays an error.
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

/// Tells watchers how far the work has come. Bounded and lossy: a slow watcher never slows the tool.
pub struct Progress(Option<(EventSender, Mutex<StreamRedactor>)>);

impl Progress {
    /// Goes nowhere; for calling a tool's function directly.
    pub fn silent() -> Self {
        Self(None)
    }

    /// So much is done, of so much if that is known.
    pub fn step(&self, done: f64, total: Option<f64>, message: &str) {
        if let Some((sender, _)) = &self.0 {
            sender.send(|redactor| {
                let message = redactor.text(message).into_owned();
                CallEventKind::Progress(ProgressUpdate { done, total, message })
            });
        }
    }

    /// A piece of output, as it comes. What may be the beginning of a secret waits for the next piece, or for the end.
    pub fn output(&self, text: &str) {
        self.show(|pieces| pieces.push(text));
    }

    /// No more output comes.
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

/// Hears when the call is called off. Only for work that dropping a future cannot stop (loops, blocking threads);
/// a tool that takes it is given a short grace to end by itself.
pub struct Cancel(CancellationToken);

impl Cancel {
    /// Never called off; for calling a tool's function directly.
    pub fn never() -> Self {
        Self(CancellationToken::new())
    }

    /// Whether the call was called off. Cheap enough for inner loops.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the call is called off.
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

/// Calls other tools. Each such call passes the gate like any other, in the name of the same caller.
#[derive(Clone)]
pub struct Tools {
    pub(crate) gate: WeakGate,
    /// Of the call that holds this.
    pub(crate) caller: Arc<Context>,
    pub(crate) call_id: Arc<str>,
    pub(crate) cancel: CancellationToken,
    pub(crate) latest: tokio::time::Instant,
}

impl Tools {
    /// Calls a tool and returns what became of it. Its deadline ends with this call's own.
    pub async fn call(&self, tool: &str, input: Value) -> Outcome {
        let outer = self.caller.lineage.ancestors.iter();
        let ancestors = outer.chain([&self.call_id]).cloned().collect();
        let context = Context {
            call_id: None,
            deadline: None,
            // Called off together with the outer call, but not the other way round.
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
