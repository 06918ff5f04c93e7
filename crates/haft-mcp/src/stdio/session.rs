//! One conversation over a pipe. One thread reads a message, runs the call, and writes the answer,
//! and passes nothing to another thread as long as nothing has to wait.

use std::{
    future::Future,
    io,
    os::fd::BorrowedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use haft_core::{DEFAULT_DEADLINE, ErrorKind, Outcome, ToolError};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, ErrorCode, GetExtensions,
        GetMeta, Request, RequestId,
    },
    service::{RequestContext, Service},
};
use tokio::{runtime::Handle, sync::Semaphore};

use super::{
    inflight::{Inflight, InflightCall, NotRegistered},
    lines::{LineReader, MAX_LINE_BYTES, NextLine},
    message::{self, Head, MessageKind},
    outbox::Outbox,
    relay::Relay,
    watch::Watch,
};
use crate::{
    call::{self, CallReply},
    connection::Connection,
    definition,
    result::{self, OutcomeMeta},
};

/// Maximum number of calls that run at once; further ones wait.
const MAX_RUNNING: u32 = 256;
/// Maximum number of calls that run or wait; further ones are refused. Each takes some kilobytes.
const MAX_IN_FLIGHT: usize = 16_384;
/// Size of the answers collected for one write while further messages are in the buffer.
const MAX_UNSENT_BYTES: usize = 64 << 10;
/// Time limit for calls after the client has closed its output but still reads.
pub(super) const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for processes in the same case.
const PROCESSES_TIMEOUT: Duration = Duration::from_millis(1500);
/// Time between two attempts to end processes: calls that waited in line may have started further ones.
const STOP_INTERVAL: Duration = Duration::from_millis(250);
/// Time limit for cancelled work to end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// No process outlives the input by more than three seconds.
const _: () = assert!(
    PROCESSES_TIMEOUT.as_millis() + STOP_INTERVAL.as_millis() < 3_000
        && CANCEL_TIMEOUT.as_millis() < 3_000
);

/// The future of a request. Its output is the line of the answer.
type CallFuture = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

pub(super) struct StdioSession {
    connection: Arc<Connection>,
    runtime: Handle,
    /// Locked by the reader while it waits for the client.
    lines: Mutex<LineReader>,
    /// Answers for the next write.
    unsent: Mutex<Vec<u8>>,
    outbox: Arc<Outbox>,
    relay: Relay,
    inflight: Inflight,
    running: Arc<Semaphore>,
    /// The call that the reader runs.
    current: Mutex<Option<InflightCall>>,
    watch: Arc<Watch>,
    is_watched: OnceLock<()>,
    is_over: Mutex<bool>,
    ended: Condvar,
}

impl StdioSession {
    pub(super) fn new(
        connection: Arc<Connection>,
        runtime: Handle,
        input: BorrowedFd<'static>,
        output: BorrowedFd<'static>,
    ) -> Arc<Self> {
        Arc::new(Self {
            connection,
            runtime,
            lines: Mutex::new(LineReader::new(input)),
            unsent: Mutex::default(),
            outbox: Outbox::new(output),
            relay: Relay::default(),
            inflight: Inflight::default(),
            running: Arc::new(Semaphore::new(MAX_RUNNING as usize)),
            current: Mutex::default(),
            watch: Arc::default(),
            is_watched: OnceLock::new(),
            is_over: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Answers until the client disconnects. The calling thread only waits, because a tool that
    /// never returns would block it.
    pub(super) fn serve(self: Arc<Self>) -> io::Result<()> {
        self.start_reader(0)?;
        self.ended.wait_while(&mut self.is_over.lock(), |is_over| !*is_over);
        self.shut_down();
        Ok(())
    }

    fn start_reader(self: &Arc<Self>, number: u64) -> io::Result<()> {
        let session = self.clone();
        let work = move || {
            let read = catch_unwind(AssertUnwindSafe(|| session.read_on(number)));
            if read.is_err() {
                // Without a reader, nothing would notice messages or the end of the client.
                session.inflight.cancel_all();
                session.end();
            }
        };
        thread::Builder::new().name("haft-mcp-read".to_owned()).spawn(work).map(drop)
    }

    /// Reads messages as long as no other thread has taken over.
    fn read_on(self: &Arc<Self>, number: u64) {
        let _runtime = self.runtime.enter();
        if number == 0 && !self.introduce() {
            return self.end();
        }
        while self.watch.is_reader(number) {
            let Some(next) = self.next() else { return self.end() };
            self.watch.begin();
            match next {
                NextLine::Line(line) => self.take(&line),
                _ => self.refuse(None, &too_long()),
            }
            if !self.watch.end(number) {
                self.flush();
            }
        }
    }

    /// Runs the handshake on this thread. Until it is done, rmcp takes its messages through
    /// [`StdioSession::next_for_rmcp`]. Returns false if the client disconnected.
    fn introduce(self: &Arc<Self>) -> bool {
        self.runtime.block_on(self.relay.introduce(self))
    }

    /// Returns the next message that rmcp can read; refuses all other lines.
    pub(super) fn next_for_rmcp(&self, has_asked: bool) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = match self.next()? {
                NextLine::Line(line) => line,
                _ => {
                    self.refuse(None, &too_long());
                    continue;
                }
            };
            let head = match Head::read(&line) {
                Ok(head) => head,
                Err(error) => {
                    self.refuse(None, &error);
                    continue;
                }
            };
            // rmcp gives up on a client that does not begin with a request.
            let is_early = !has_asked
                && matches!(head.kind(), Ok(MessageKind::Notification | MessageKind::Answer));
            match self.for_rmcp(&head, &line) {
                Some(message) if !is_early => return Some(message),
                _ => {}
            }
        }
    }

    /// Returns the next line, or `None` when the conversation has ended.
    fn next(&self) -> Option<NextLine> {
        if self.unsent.lock().len() > MAX_UNSENT_BYTES {
            self.flush();
        }
        let mut lines = self.lines.lock();
        if !lines.is_ready() {
            self.flush();
        }
        let next = lines.next().unwrap_or(NextLine::CallReply);
        let is_over = matches!(next, NextLine::CallReply) || self.outbox.gone.is_cancelled();
        (!is_over).then_some(next)
    }

    fn take(self: &Arc<Self>, line: &[u8]) {
        let head = match Head::read(line) {
            Ok(head) => head,
            Err(error) => return self.refuse(None, &error),
        };
        match (head.kind(), head.method()) {
            (Ok(MessageKind::Request(id)), "tools/call") => match head.call() {
                Ok(params) => self.call(id, params),
                Err(error) => self.refuse(Some(&id), &error),
            },
            (Ok(MessageKind::Request(id)), "tools/list") => {
                if let Some(ClientJsonRpcMessage::Request(list)) = self.for_rmcp(&head, line) {
                    self.list(id, list.request);
                }
            }
            (Ok(MessageKind::Notification), "notifications/cancelled")
                if head.cancelled().is_some_and(|id| self.inflight.cancel(&id)) => {}
            (Ok(_), _) => {
                if let Some(message) = self.for_rmcp(&head, line) {
                    self.relay.send(message);
                }
            }
            (Err(error), _) => self.refuse(None, &error),
        }
    }

    /// Parses a message for rmcp; refuses one that cannot be parsed.
    fn for_rmcp(&self, head: &Head<'_>, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        let error = match serde_json::from_slice(line) {
            Ok(message) => return Some(message),
            Err(error) => error,
        };
        match head.kind() {
            Ok(MessageKind::Request(id)) => {
                let message = format!("invalid request: {error}");
                self.refuse(Some(&id), &ErrorData::invalid_params(message, None));
            }
            // A notification or an answer gets no answer.
            Ok(MessageKind::Notification | MessageKind::Answer) => {}
            Err(error) => self.refuse(None, &error),
        }
        None
    }

    fn call(self: &Arc<Self>, id: RequestId, mut params: CallToolRequestParams) {
        let Some((entered, mut context)) = self.register(&id) else { return };
        context.meta = params.meta.take().unwrap_or_default();
        let connection = self.connection.clone();
        let work: CallFuture = if connection.is_of_earlier_era(&context) {
            Box::pin(outcome(connection, params, context))
        } else {
            let request = ClientRequest::CallToolRequest(Request::new(params));
            Box::pin(answer(connection, request, context))
        };
        self.start_watch();
        *self.current.lock() = Some(entered.clone());
        self.start(entered, work);
        // Another thread may be the reader by now, with another call.
        self.current.lock().take_if(|current| current.id == id);
    }

    fn list(self: &Arc<Self>, id: RequestId, mut request: ClientRequest) {
        let Some((entered, mut context)) = self.register(&id) else { return };
        context.meta = std::mem::take(request.get_meta_mut());
        context.extensions = std::mem::take(request.extensions_mut());
        let connection = self.connection.clone();
        let work: CallFuture = if connection.is_of_earlier_era(&context) {
            Box::pin(listing(connection, context))
        } else {
            Box::pin(answer(connection, request, context))
        };
        self.start(entered, work);
    }

    /// Registers a request that is answered here. `None` if it is refused.
    fn register(&self, id: &RequestId) -> Option<(InflightCall, RequestContext<RoleServer>)> {
        let peer = self.relay.peer()?;
        match self.inflight.enter(id, MAX_IN_FLIGHT) {
            Ok(entered) => {
                let mut context = RequestContext::new(id.clone(), peer);
                context.ct = entered.token.clone();
                return Some((entered, context));
            }
            Err(NotRegistered::SameId) => {
                let message = format!("the id {id} belongs to a call in progress");
                self.refuse(None, &ErrorData::invalid_request(message, None));
            }
            Err(NotRegistered::TooMany) => self.refuse(Some(id), &busy()),
        }
        None
    }

    /// Runs a call as far as it goes without waiting; the rest runs on the runtime.
    fn start(self: &Arc<Self>, call: InflightCall, mut work: CallFuture) {
        let permit = self.running.clone().try_acquire_owned();
        if permit.is_ok()
            && let Poll::Ready(answer) = work.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            if self.inflight.leave(&call) {
                self.unsent.lock().extend_from_slice(&answer);
            }
            return;
        }
        let pending = PendingAnswer { session: self.clone(), call, is_sent: false };
        self.runtime.spawn(async move {
            let _permit = match permit {
                Ok(permit) => Ok(permit),
                Err(_) => pending.session.running.clone().acquire_owned().await,
            };
            pending.send(work.await);
        });
    }

    fn answer_later(&self, call: &InflightCall, answer: Vec<u8>) {
        if self.inflight.leave(call) {
            self.outbox.send(answer);
        }
    }

    fn refuse(&self, id: Option<&RequestId>, error: &ErrorData) {
        self.unsent.lock().extend(message::error(id, error));
    }

    fn flush(&self) {
        let unsent = std::mem::take(&mut *self.unsent.lock());
        self.outbox.send_here(unsent);
    }

    /// Starts the watch thread with the first call. It detects a blocked reader.
    fn start_watch(self: &Arc<Self>) {
        self.is_watched.get_or_init(|| {
            let session = Arc::downgrade(self);
            // Without that thread, the reader continues alone.
            let _ = self.watch.start(move |number| {
                if let Some(session) = session.upgrade() {
                    session.take_over(number);
                }
            });
        });
    }

    /// Replaces a blocked reader by another thread. The blocked call is answered in any case.
    fn take_over(self: &Arc<Self>, number: u64) {
        if let Some(stuck) = self.current.lock().take() {
            let session = self.clone();
            self.runtime.spawn(async move {
                tokio::time::sleep(DEFAULT_DEADLINE + CANCEL_TIMEOUT).await;
                session.answer_later(&stuck, message::answer(&stuck.id, &Ok(abandoned())));
            });
        }
        let _ = self.start_reader(number);
    }

    fn end(&self) {
        *self.is_over.lock() = true;
        self.ended.notify_all();
    }

    /// Ends the conversation. The client sends nothing more, but may still want its answers.
    fn shut_down(&self) {
        self.flush();
        let is_gone = self.outbox.gone.is_cancelled() || self.outbox.is_closed().unwrap_or(true);
        if !is_gone {
            let gone = self.outbox.gone.clone();
            let deadline = Instant::now() + LAST_ANSWERS_TIMEOUT;
            self.inflight.wait(PROCESSES_TIMEOUT);
            while self.inflight.is_busy() && Instant::now() < deadline {
                self.stop_processes();
                self.inflight.wait(STOP_INTERVAL);
            }
            self.runtime.block_on(async {
                tokio::select! {
                    _ = tokio::time::timeout_at(deadline.into(), self.relay.finish()) => {}
                    () = gone.cancelled() => {}
                }
            });
        }
        self.inflight.cancel_all();
        let all = self.running.acquire_many(MAX_RUNNING);
        let _ = self.runtime.block_on(async { tokio::time::timeout(CANCEL_TIMEOUT, all).await });
        // Background processes end now, not when the client has read everything.
        self.stop_processes();
        if !is_gone {
            self.outbox.finish(LAST_ANSWERS_TIMEOUT);
        }
    }

    fn stop_processes(&self) {
        if let Some(stop) = &self.connection.shared.stop_processes {
            stop();
        }
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    pub(super) fn relay(&self) -> &Relay {
        &self.relay
    }

    pub(super) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }
}

/// An answer that the client waits for. If the work panics, an error is the answer.
struct PendingAnswer {
    session: Arc<StdioSession>,
    call: InflightCall,
    is_sent: bool,
}

impl PendingAnswer {
    fn send(mut self, answer: Vec<u8>) {
        self.is_sent = true;
        self.session.answer_later(&self.call, answer);
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        if !self.is_sent {
            let error = ErrorData::internal_error("the call was interrupted", None);
            self.session.answer_later(&self.call, message::error(Some(&self.call.id), &error));
        }
    }
}

/// Runs a call of a client of the earlier era without rmcp's service, which adds nothing for it.
async fn outcome(
    connection: Arc<Connection>,
    params: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Vec<u8> {
    let id = context.id.clone();
    let result = match call::call(&connection, params, context).await {
        Ok(CallReply::Outcome { outcome, data, outcome_meta }) => {
            let mut result = result::of(*outcome, data.as_ref(), outcome_meta);
            // Only the later era has this field.
            result.result_type = None;
            Ok(result)
        }
        Ok(CallReply::Questions(_)) => {
            Err(ErrorData::internal_error("this client does not support requests in rounds", None))
        }
        Err(error) => Err(error),
    };
    message::answer(&id, &result)
}

async fn listing(connection: Arc<Connection>, context: RequestContext<RoleServer>) -> Vec<u8> {
    let id = context.id.clone();
    match connection.shown_tools(&context).await {
        Ok((tools, structured)) => message::answer(&id, &Ok(definition::list(&tools, structured))),
        Err(error) => message::error(Some(&id), &error),
    }
}

async fn answer(
    connection: Arc<Connection>,
    request: ClientRequest,
    context: RequestContext<RoleServer>,
) -> Vec<u8> {
    let id = context.id.clone();
    message::answer(&id, &connection.handle_request(request, context).await)
}

fn too_long() -> ErrorData {
    let message = format!("the message is longer than {MAX_LINE_BYTES} bytes and was skipped");
    ErrorData::invalid_request(message, None)
}

fn busy() -> ErrorData {
    let message = format!("{MAX_IN_FLIGHT} calls are in progress; wait for some to end");
    ErrorData::new(ErrorCode(-32_000), message, None)
}

/// Returns the result of a call that does not return its thread.
fn abandoned() -> rmcp::model::CallToolResult {
    let error = ToolError::new(
        ErrorKind::Timeout,
        "the call exceeded its deadline and blocks its thread, so haft no longer waits for it",
    );
    let error = error.hint("check its effects before you call it again");
    result::of(Outcome::failed("call", &error), None, OutcomeMeta::Include)
}
