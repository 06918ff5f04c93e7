//! One conversation over one pipe. A thread reads a message, makes the call if it is one, and writes the answer, without
//! handing anything to another thread as long as nothing has to wait.

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
    inflight::{Entered, Inflight, NotEntered},
    lines::{Lines, MAX_LINE_BYTES, Next},
    message::{self, Head, Kind},
    outbox::Outbox,
    relay::Relay,
    watch::Watch,
};
use crate::{
    call::{self, End},
    connection::Connection,
    definition,
    result::{self, Envelope},
};

/// Calls that run at once; further ones wait in line.
const MAX_RUNNING: u32 = 256;
/// Calls that run or wait; further ones are refused. Some kilobytes each.
const MAX_IN_FLIGHT: usize = 16_384;
/// Answers that are collected for one write while further messages are here already.
const MAX_UNSENT_BYTES: usize = 64 << 10;
/// Time for calls that still run when the client has closed its end but reads on.
pub(super) const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_millis(1500);
/// Time that cancelled work may take to end. More than the gate's own grace.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(1300);
/// No command outlives its client for longer.
const _: () = assert!(LAST_ANSWERS_TIMEOUT.as_millis() + CANCEL_TIMEOUT.as_millis() < 3_000);
/// Time for the client to read the last answers, when nothing runs any more.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Ends with the line that answers.
type Work = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

pub(super) struct Session {
    connection: Arc<Connection>,
    runtime: Handle,
    /// Held by the reader while it waits for the client.
    lines: Mutex<Lines>,
    /// Answers for the next write.
    unsent: Mutex<Vec<u8>>,
    outbox: Arc<Outbox>,
    relay: Relay,
    inflight: Inflight,
    running: Arc<Semaphore>,
    /// The call that the reader is making.
    current: Mutex<Option<Entered>>,
    watch: Arc<Watch>,
    is_watched: OnceLock<()>,
    is_over: Mutex<bool>,
    ended: Condvar,
}

impl Session {
    pub(super) fn new(
        connection: Arc<Connection>,
        runtime: Handle,
        input: BorrowedFd<'static>,
        output: BorrowedFd<'static>,
    ) -> Arc<Self> {
        Arc::new(Self {
            connection,
            runtime,
            lines: Mutex::new(Lines::new(input)),
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

    /// Answers until the client is gone. The calling thread only waits: a tool that never returns would keep it.
    pub(super) fn serve(self: Arc<Self>) -> io::Result<()> {
        self.start_reader(0)?;
        self.ended.wait_while(&mut self.is_over.lock(), |is_over| !*is_over);
        self.wind_up();
        Ok(())
    }

    fn start_reader(self: &Arc<Self>, number: u64) -> io::Result<()> {
        let session = self.clone();
        let work = move || {
            let read = catch_unwind(AssertUnwindSafe(|| session.read_on(number)));
            if read.is_err() {
                // No thread would hear the client any more, nor that it is gone.
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
                Next::Line(line) => self.take(&line),
                _ => self.refuse(None, &too_long()),
            }
            if !self.watch.end(number) {
                self.flush();
            }
        }
    }

    /// The handshake, on this thread: until it is over, rmcp takes its messages through [`Session::next_for_rmcp`]. False when
    /// the client went away before.
    fn introduce(self: &Arc<Self>) -> bool {
        self.runtime.block_on(self.relay.introduce(self))
    }

    /// The next message that rmcp can read; other lines are refused here.
    pub(super) fn next_for_rmcp(&self, has_asked: bool) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = match self.next()? {
                Next::Line(line) => line,
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
            // rmcp gives up on a client that begins with anything but a request.
            let is_early =
                !has_asked && matches!(head.kind(), Ok(Kind::Notification | Kind::Answer));
            match self.for_rmcp(&head, &line) {
                Some(message) if !is_early => return Some(message),
                _ => {}
            }
        }
    }

    /// The next line. None when the conversation is over.
    fn next(&self) -> Option<Next> {
        if self.unsent.lock().len() > MAX_UNSENT_BYTES {
            self.flush();
        }
        let mut lines = self.lines.lock();
        if !lines.is_ready() {
            self.flush();
        }
        let next = lines.next().unwrap_or(Next::End);
        let is_over = matches!(next, Next::End) || self.outbox.gone.is_cancelled();
        (!is_over).then_some(next)
    }

    fn take(self: &Arc<Self>, line: &[u8]) {
        let head = match Head::read(line) {
            Ok(head) => head,
            Err(error) => return self.refuse(None, &error),
        };
        match (head.kind(), head.method()) {
            (Ok(Kind::Request(id)), "tools/call") => match head.call() {
                Ok(params) => self.call(id, params),
                Err(error) => self.refuse(Some(&id), &error),
            },
            (Ok(Kind::Request(id)), "tools/list") => {
                if let Some(ClientJsonRpcMessage::Request(list)) = self.for_rmcp(&head, line) {
                    self.list(id, list.request);
                }
            }
            (Ok(Kind::Notification), "notifications/cancelled")
                if head.cancelled().is_some_and(|id| self.inflight.cancel(&id)) => {}
            (Ok(_), _) => {
                if let Some(message) = self.for_rmcp(&head, line) {
                    self.relay.send(message);
                }
            }
            (Err(error), _) => self.refuse(None, &error),
        }
    }

    /// The message as rmcp reads it; one that it cannot read is refused.
    fn for_rmcp(&self, head: &Head<'_>, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        let error = match serde_json::from_slice(line) {
            Ok(message) => return Some(message),
            Err(error) => error,
        };
        match head.kind() {
            Ok(Kind::Request(id)) => {
                let message = format!("the request is not as the protocol has it: {error}");
                self.refuse(Some(&id), &ErrorData::invalid_params(message, None));
            }
            // A notification or an answer gets no answer.
            Ok(Kind::Notification | Kind::Answer) => {}
            Err(error) => self.refuse(None, &error),
        }
        None
    }

    fn call(self: &Arc<Self>, id: RequestId, mut params: CallToolRequestParams) {
        let Some((entered, mut context)) = self.enter(&id) else { return };
        context.meta = params.meta.take().unwrap_or_default();
        let connection = self.connection.clone();
        let work: Work = if connection.is_of_earlier_era(&context) {
            Box::pin(outcome(connection, params, context))
        } else {
            let request = ClientRequest::CallToolRequest(Request::new(params));
            Box::pin(answer(connection, request, context))
        };
        self.keep_watch();
        *self.current.lock() = Some(entered.clone());
        self.make(entered, work);
        // Another thread may read by now, and make a call of its own.
        self.current.lock().take_if(|current| current.id == id);
    }

    fn list(self: &Arc<Self>, id: RequestId, mut request: ClientRequest) {
        let Some((entered, mut context)) = self.enter(&id) else { return };
        context.meta = std::mem::take(request.get_meta_mut());
        context.extensions = std::mem::take(request.extensions_mut());
        let connection = self.connection.clone();
        let work: Work = if connection.is_of_earlier_era(&context) {
            Box::pin(listing(connection, context))
        } else {
            Box::pin(answer(connection, request, context))
        };
        self.make(entered, work);
    }

    /// Takes note of a request that is answered here. None when it is refused.
    fn enter(&self, id: &RequestId) -> Option<(Entered, RequestContext<RoleServer>)> {
        let peer = self.relay.peer()?;
        match self.inflight.enter(id, MAX_IN_FLIGHT) {
            Ok(entered) => {
                let mut context = RequestContext::new(id.clone(), peer);
                context.ct = entered.token.clone();
                return Some((entered, context));
            }
            Err(NotEntered::SameId) => {
                let message = format!("the id {id} is that of a call which is still being made");
                self.refuse(None, &ErrorData::invalid_request(message, None));
            }
            Err(NotEntered::TooMany) => self.refuse(Some(id), &busy()),
        }
        None
    }

    /// As far as it goes without waiting; the rest on the runtime.
    fn make(self: &Arc<Self>, call: Entered, mut work: Work) {
        let permit = self.running.clone().try_acquire_owned();
        if permit.is_ok()
            && let Poll::Ready(answer) = work.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            if self.inflight.leave(&call) {
                self.unsent.lock().extend_from_slice(&answer);
            }
            return;
        }
        let owed = Owed { session: self.clone(), call, is_paid: false };
        self.runtime.spawn(async move {
            let _permit = match permit {
                Ok(permit) => Ok(permit),
                Err(_) => owed.session.running.clone().acquire_owned().await,
            };
            owed.pay(work.await);
        });
    }

    fn answer_later(&self, call: &Entered, answer: Vec<u8>) {
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

    /// From the first call on a thread sees to it that none holds up the others.
    fn keep_watch(self: &Arc<Self>) {
        self.is_watched.get_or_init(|| {
            let session = Arc::downgrade(self);
            // Without a thread for it the reader goes on alone.
            let _ = self.watch.start(move |number| {
                if let Some(session) = session.upgrade() {
                    session.take_over(number);
                }
            });
        });
    }

    /// The reader is stuck in a call: another thread reads on, and the call is answered in any case.
    fn take_over(self: &Arc<Self>, number: u64) {
        if let Some(stuck) = self.current.lock().take() {
            let session = self.clone();
            self.runtime.spawn(async move {
                tokio::time::sleep(DEFAULT_DEADLINE + CANCEL_TIMEOUT).await;
                session.answer_later(&stuck, message::answer(&stuck.id, &Ok(left_behind())));
            });
        }
        let _ = self.start_reader(number);
    }

    fn end(&self) {
        *self.is_over.lock() = true;
        self.ended.notify_all();
    }

    /// The client sends nothing any more. It may still want its answers.
    fn wind_up(&self) {
        self.flush();
        let is_gone = self.outbox.gone.is_cancelled() || self.outbox.is_closed().unwrap_or(true);
        if !is_gone {
            let gone = self.outbox.gone.clone();
            let latest = Instant::now() + LAST_ANSWERS_TIMEOUT;
            self.inflight.wait(LAST_ANSWERS_TIMEOUT);
            self.runtime.block_on(async {
                tokio::select! {
                    _ = tokio::time::timeout_at(latest.into(), self.relay.finish()) => {}
                    () = gone.cancelled() => {}
                }
            });
        }
        self.inflight.cancel_all();
        let all = self.running.acquire_many(MAX_RUNNING);
        let _ = self.runtime.block_on(async { tokio::time::timeout(CANCEL_TIMEOUT, all).await });
        // Processes in the background end now, not when the client has read everything.
        if let Some(stop) = &self.connection.shared.stop_processes {
            stop();
        }
        if !is_gone {
            self.outbox.finish(LAST_WRITE_TIMEOUT);
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

/// An answer that the client waits for. When the work panics instead of ending, that is the answer.
struct Owed {
    session: Arc<Session>,
    call: Entered,
    is_paid: bool,
}

impl Owed {
    fn pay(mut self, answer: Vec<u8>) {
        self.is_paid = true;
        self.session.answer_later(&self.call, answer);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if !self.is_paid {
            let error = ErrorData::internal_error("the call broke off", None);
            self.session.answer_later(&self.call, message::error(Some(&self.call.id), &error));
        }
    }
}

/// A call of a client of the earlier era, without the way through rmcp's service, which has nothing to add for it.
async fn outcome(
    connection: Arc<Connection>,
    params: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Vec<u8> {
    let id = context.id.clone();
    let result = match call::call(&connection, params, context).await {
        Ok(End::Outcome { outcome, data, envelope }) => {
            let mut result = result::of(*outcome, data.as_ref(), envelope);
            // Only the later era has it.
            result.result_type = None;
            Ok(result)
        }
        Ok(End::Asked(_)) => {
            Err(ErrorData::internal_error("this client cannot be asked in rounds", None))
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
    let message = format!("the message is longer than {MAX_LINE_BYTES} bytes and was passed over");
    ErrorData::invalid_request(message, None)
}

fn busy() -> ErrorData {
    let message = format!("{MAX_IN_FLIGHT} calls are being made; wait for some to end");
    ErrorData::new(ErrorCode(-32_000), message, None)
}

/// What is said of a call that does not let go of its thread.
fn left_behind() -> rmcp::model::CallToolResult {
    let error = ToolError::new(
        ErrorKind::Timeout,
        "the call is overdue and does not let go of its thread, so it was left behind",
    );
    let error = error.hint("look at what it has done before you make it again");
    result::of(Outcome::failed("call", &error), None, Envelope::Sent)
}
