//! The thread that leads: it reads a message, makes the call if it is one, and writes the answer, without handing anything
//! to anybody as long as nothing has to wait.

use std::{
    borrow::Cow,
    future::Future,
    io,
    os::fd::BorrowedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use haft_core::{DEFAULT_DEADLINE, ErrorKind, Outcome, ToolError};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CancelledNotificationParam, ClientJsonRpcMessage, ClientRequest,
        ErrorCode, GetExtensions, GetMeta, Request, RequestId, ServerResult,
    },
    service::{Peer, RequestContext, Service},
};
use serde::de::IgnoredAny;
use tokio::{runtime::Handle, sync::Semaphore};

use super::{
    inflight::Inflight,
    message::{self, Head, Kind},
    outbox::Outbox,
    pipe::{LONGEST, Next, Pipe},
    relay::Relay,
    watch::Watch,
};
use crate::{
    connection::{Connection, Listing},
    result,
};

/// Calls that run at once; further ones wait in line.
const MOST_RUNNING: u32 = 256;
/// Calls that run or wait; further ones are refused. Some kilobytes each.
const MOST_IN_FLIGHT: usize = 16_384;
/// Answers that are collected while the next message is here already.
const BATCH: usize = 64 << 10;
/// How long calls may still take when the client has closed its end but reads on.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(10);
/// How long called-off work may take to be gone.
const GRACE: Duration = Duration::from_secs(2);

/// Ends with the line that answers.
type Work = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// One conversation over one pipe.
pub(super) struct Line {
    connection: Arc<Connection>,
    runtime: Handle,
    pipe: Mutex<Pipe>,
    outbox: Arc<Outbox>,
    /// Answers of the leader that wait for the end of a batch.
    batch: Mutex<Vec<u8>>,
    relay: Relay,
    /// Whether the client has made a request yet: rmcp gives up on one that begins with anything else.
    has_asked: AtomicBool,
    inflight: Inflight,
    running: Arc<Semaphore>,
    /// The call that the leader is with.
    current: Mutex<Option<RequestId>>,
    watch: Arc<Watch>,
    is_watched: OnceLock<()>,
    is_settled: OnceLock<()>,
    over: (Mutex<bool>, std::sync::Condvar),
}

impl Line {
    pub(super) fn new(
        connection: Arc<Connection>,
        runtime: Handle,
        input: BorrowedFd<'static>,
        output: BorrowedFd<'static>,
    ) -> Arc<Self> {
        let outbox = Outbox::new(output);
        Arc::new(Self {
            pipe: Mutex::new(Pipe::new(input)),
            relay: Relay::start(connection.clone(), outbox.clone()),
            connection,
            runtime,
            outbox,
            batch: Mutex::default(),
            has_asked: AtomicBool::new(false),
            inflight: Inflight::default(),
            running: Arc::new(Semaphore::new(MOST_RUNNING as usize)),
            current: Mutex::default(),
            watch: Arc::default(),
            is_watched: OnceLock::new(),
            is_settled: OnceLock::new(),
            over: Default::default(),
        })
    }

    /// Leads until the client is gone.
    pub(super) fn serve(self: Arc<Self>) -> io::Result<()> {
        // Not on this thread: a tool that never lets go of it would keep the process when the conversation is over.
        self.have_led(0)?;
        let (over, ended) = &self.over;
        drop(ended.wait_while(locked(over), |over| !*over));
        self.wind_up();
        Ok(())
    }

    fn lead(self: &Arc<Self>, leader: u64) {
        let _inside = self.runtime.enter();
        while self.watch.is_led_by(leader) {
            let next = {
                let mut pipe = locked(&self.pipe);
                if !pipe.is_ready() || locked(&self.batch).len() > BATCH {
                    self.flush();
                }
                pipe.next()
            };
            let line = match next {
                Ok(Next::Line(line)) => line,
                Ok(Next::TooLong) => {
                    self.refuse(None, &ErrorData::invalid_request(too_long(), None));
                    continue;
                }
                Ok(Next::End) | Err(_) => return self.end(),
            };
            if self.outbox.gone.is_cancelled() {
                return self.end();
            }
            self.watch.begin();
            self.take(&line);
            if !self.watch.end(leader) {
                self.flush();
            }
        }
    }

    fn end(&self) {
        let (over, ended) = &self.over;
        *locked(over) = true;
        ended.notify_all();
    }

    /// The client sends nothing any more. It may still want its answers.
    fn wind_up(&self) {
        self.flush();
        let is_gone = self.outbox.gone.is_cancelled() || self.outbox.is_closed().unwrap_or(true);
        if !is_gone {
            let gone = self.outbox.gone.clone();
            self.inflight.wait(LAST_WAIT);
            self.runtime.block_on(async {
                tokio::select! {
                    _ = tokio::time::timeout(LAST_WAIT, self.relay.finish()) => {}
                    () = gone.cancelled() => {}
                }
            });
        }
        self.inflight.call_off_all();
        let running = self.running.clone();
        let all = running.acquire_many(MOST_RUNNING);
        let _ = self.runtime.block_on(tokio::time::timeout(GRACE, all));
        if !is_gone {
            self.outbox.finish(LAST_WAIT);
        }
    }

    fn flush(&self) {
        let mut answers = std::mem::take(&mut *locked(&self.batch));
        self.outbox.send_here(&answers);
        if answers.capacity() <= 2 * BATCH {
            // Growing it anew for every batch would copy each answer several times.
            answers.clear();
            let mut batch = locked(&self.batch);
            if batch.is_empty() {
                *batch = answers;
            }
        }
    }

    fn reply(&self, answer: &[u8]) {
        locked(&self.batch).extend_from_slice(answer);
    }

    fn refuse(&self, id: Option<&RequestId>, error: &ErrorData) {
        self.reply(&message::error(id, error));
    }

    /// One message.
    fn take(self: &Arc<Self>, line: &[u8]) {
        let head: Head<'_> = match serde_json::from_slice(line) {
            // serde would also take a list of as many parts for a message.
            Ok(head) if line.starts_with(b"{") => head,
            Ok(_) => return self.refuse(None, &unreadable(line, "it is a list")),
            Err(error) => return self.refuse(None, &unreadable(line, &error.to_string())),
        };
        let method = head.method.as_deref();
        match head.kind() {
            Err(error) => self.refuse(None, &error),
            Ok(Kind::Request(id)) => match (method, self.relay.peer.get()) {
                (Some("tools/call"), Some(peer)) => match call_of(&head) {
                    Ok(request) => self.call(id, request, peer),
                    Err(error) => self.refuse(Some(&id), &error),
                },
                (Some("tools/list"), Some(peer)) => match serde_json::from_slice(line) {
                    Ok(ClientJsonRpcMessage::Request(list)) => {
                        self.call(id, list.request, peer);
                        self.settle();
                    }
                    _ => self.relay(line, Some(&id)),
                },
                _ => self.relay(line, Some(&id)),
            },
            Ok(Kind::Notification) if method == Some("notifications/cancelled") => {
                if !cancelled(&head).is_some_and(|id| self.inflight.call_off(&id)) {
                    self.relay(line, None);
                }
            }
            Ok(Kind::Notification | Kind::Answer) => self.relay(line, None),
        }
    }

    /// To rmcp.
    fn relay(&self, line: &[u8], id: Option<&RequestId>) {
        if id.is_some() {
            self.has_asked.store(true, Ordering::Release);
        } else if !self.has_asked.load(Ordering::Acquire) {
            return;
        }
        match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
            Ok(message) => self.relay.send(message),
            Err(error) if id.is_some() => {
                let message = format!("the request is not as the protocol has it: {error}");
                self.refuse(id, &ErrorData::invalid_params(message, None));
            }
            // A notification or an answer that nobody understands has nobody to be told.
            Err(_) => {}
        }
    }

    fn call(self: &Arc<Self>, id: RequestId, mut request: ClientRequest, peer: &Peer<RoleServer>) {
        let Some(token) = self.inflight.enter(&id) else {
            let message = format!("the id {id} is that of a call which is still being made");
            return self.refuse(None, &ErrorData::invalid_request(message, None));
        };
        if self.inflight.count() > MOST_IN_FLIGHT {
            self.inflight.leave(&id);
            return self.refuse(Some(&id), &busy());
        }
        if matches!(request, ClientRequest::CallToolRequest(_)) {
            self.keep_watch();
        }
        *locked(&self.current) = Some(id.clone());
        let mut context = RequestContext::new(id.clone(), peer.clone());
        context.ct = token;
        context.meta = std::mem::take(request.get_meta_mut());
        context.extensions = std::mem::take(request.extensions_mut());
        let connection = self.connection.clone();
        let own = id.clone();
        let work: Work = Box::pin(answer(connection, request, context));
        self.make(id, work);
        // Another thread may lead by now, with a call of its own.
        locked(&self.current).take_if(|current| *current == own);
    }

    /// As far as it goes without waiting; the rest on the runtime.
    fn make(self: &Arc<Self>, id: RequestId, mut work: Work) {
        let Ok(permit) = self.running.clone().try_acquire_owned() else {
            return self.line_up(id, work);
        };
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => {
                if self.inflight.leave(&id) {
                    self.reply(&answer);
                }
            }
            Poll::Pending => {
                let owed = Owed::new(self, id);
                self.runtime.spawn(async move {
                    owed.pay(work.await);
                    drop(permit);
                });
            }
        }
    }

    fn line_up(self: &Arc<Self>, id: RequestId, work: Work) {
        let owed = Owed::new(self, id);
        self.runtime.spawn(async move {
            let permit = owed.line.running.clone().acquire_owned().await;
            owed.pay(work.await);
            drop(permit);
        });
    }

    fn answer_later(&self, id: &RequestId, answer: Vec<u8>) {
        if self.inflight.leave(id) {
            self.outbox.send(answer);
        }
    }

    /// Once the client has its list of tools.
    fn settle(&self) {
        self.is_settled.get_or_init(|| {
            if let Some(tidy_up) = self.connection.shared.settled {
                self.flush();
                self.runtime.spawn(async move { tidy_up() });
            }
        });
    }

    /// From the first call on somebody sees to it that none holds up the others.
    fn keep_watch(self: &Arc<Self>) {
        self.is_watched.get_or_init(|| {
            let line = Arc::downgrade(self);
            // Without a thread for it, the one that leads goes on alone.
            let _ = self.watch.start(move |leader| {
                if let Some(line) = line.upgrade() {
                    line.take_over(leader);
                }
            });
        });
    }

    fn take_over(self: &Arc<Self>, leader: u64) {
        if let Some(stuck) = locked(&self.current).take() {
            let line = self.clone();
            self.runtime.spawn(async move {
                tokio::time::sleep(DEFAULT_DEADLINE + GRACE).await;
                line.answer_later(&stuck, message::answer(&stuck, Ok(left_behind())));
            });
        }
        let _ = self.have_led(leader);
    }

    fn have_led(self: &Arc<Self>, leader: u64) -> io::Result<()> {
        let line = self.clone();
        let thread = thread::Builder::new().name("haft-mcp-lead".to_owned());
        let lead = move || {
            // Nobody would hear the client any more, nor that it is gone.
            if catch_unwind(AssertUnwindSafe(|| line.lead(leader))).is_err() {
                line.inflight.call_off_all();
                line.end();
            }
        };
        thread.spawn(lead).map(drop)
    }
}

/// An answer that somebody waits for. When the work breaks instead of ending, that is the answer.
struct Owed {
    line: Arc<Line>,
    id: RequestId,
    is_paid: bool,
}

impl Owed {
    fn new(line: &Arc<Line>, id: RequestId) -> Self {
        Self { line: line.clone(), id, is_paid: false }
    }

    fn pay(mut self, answer: Vec<u8>) {
        self.is_paid = true;
        self.line.answer_later(&self.id, answer);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if !self.is_paid {
            let error = ErrorData::internal_error("the call broke off", None);
            self.line.answer_later(&self.id, message::error(Some(&self.id), &error));
        }
    }
}

async fn answer(
    connection: Arc<Connection>,
    request: ClientRequest,
    mut context: RequestContext<RoleServer>,
) -> Vec<u8> {
    let id = context.id.clone();
    if !matches!(request, ClientRequest::ListToolsRequest(_)) {
        return message::answer(&id, connection.handle_request(request, context).await);
    }
    let listing = Listing::default();
    context.extensions.insert(listing.clone());
    let result = connection.handle_request(request, context).await;
    match (&result, listing.get()) {
        (Ok(ServerResult::ListToolsResult(result)), Some((tools, structured))) => {
            message::listing(&id, result, tools, *structured)
        }
        _ => message::answer(&id, result),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn call_of(head: &Head<'_>) -> Result<ClientRequest, ErrorData> {
    let params = head.params.map_or("{}", |params| params.get());
    let mut params: CallToolRequestParams = serde_json::from_str(params).map_err(|error| {
        ErrorData::invalid_params(format!("the parameters of `tools/call`: {error}"), None)
    })?;
    let meta = params.meta.take();
    let mut request = ClientRequest::CallToolRequest(Request::new(params));
    if let Some(meta) = meta {
        *request.get_meta_mut() = meta;
    }
    Ok(request)
}

fn cancelled(head: &Head<'_>) -> Option<RequestId> {
    let params: CancelledNotificationParam = serde_json::from_str(head.params?.get()).ok()?;
    params.request_id
}

fn unreadable(line: &[u8], problem: &str) -> ErrorData {
    // What is passed over is not looked at for being UTF-8, so that comes first.
    let not_json = match std::str::from_utf8(line) {
        Ok(text) => serde_json::from_str::<IgnoredAny>(text).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    match not_json {
        None => ErrorData::invalid_request(
            format!("a message is one JSON-RPC object (batches are not spoken here): {problem}"),
            None,
        ),
        Some(problem) => ErrorData::parse_error(format!("the line is not JSON: {problem}"), None),
    }
}

fn too_long() -> Cow<'static, str> {
    format!("the message is longer than {LONGEST} bytes and was passed over").into()
}

fn busy() -> ErrorData {
    let message = format!("{MOST_IN_FLIGHT} calls are being made; wait for some to end");
    ErrorData::new(ErrorCode(-32_000), message, None)
}

/// What is said of a call that does not let go of its thread.
fn left_behind() -> ServerResult {
    let error = ToolError::new(
        ErrorKind::Timeout,
        "the call is overdue and does not let go of its thread, so it was left behind",
    );
    let error = error.hint("look at what it has done before you make it again");
    ServerResult::CallToolResult(result::of(Outcome::failed("call", &error), None))
}
