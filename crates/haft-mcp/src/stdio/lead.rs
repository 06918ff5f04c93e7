//! The thread that leads: it reads a message, makes the call if it is one, and writes the answer, without handing anything
//! to anybody as long as nothing has to wait. While many looks wait at the desk another thread follows it and does the same.

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
    service::{RequestContext, Service},
};
use serde::de::IgnoredAny;
use tokio::{runtime::Handle, sync::Semaphore};

use super::{
    batch::Batch,
    desk::{Desk, Help},
    engine::Engine,
    inflight::{Inflight, NotEntered},
    message::{self, Call, Head, Kind},
    outbox::Outbox,
    pipe::{LONGEST, Next},
    relay::Relay,
    watch::Watch,
};
use crate::{
    call::{self, End},
    connection::{Connection, Listing},
    result::{self, Envelope},
};

/// Calls that run at once; further ones wait in line.
const MOST_RUNNING: u32 = 256;
/// Calls that run or wait; further ones are refused. Some kilobytes each.
const MOST_IN_FLIGHT: usize = 16_384;
/// How long calls may still take when the client has closed its end but reads on.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(10);
/// How long called-off work may take to be gone.
const GRACE: Duration = Duration::from_secs(2);

/// Ends with the line that answers.
type Work = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// One conversation over one pipe.
pub(super) struct Line {
    connection: Arc<Connection>,
    engine: Engine,
    desk: Desk,
    outbox: Arc<Outbox>,
    batch: Batch,
    relay: Relay,
    /// Whether the client has made a request yet: rmcp gives up on one that begins with anything else.
    has_asked: AtomicBool,
    inflight: Inflight,
    running: Arc<Semaphore>,
    leader: Seat,
    follower: Seat,
    is_settled: OnceLock<()>,
    over: (Mutex<bool>, std::sync::Condvar),
}

/// A place for a thread that makes calls.
#[derive(Default)]
struct Seat {
    /// The call it is with.
    current: Mutex<Option<RequestId>>,
    watch: Arc<Watch>,
    is_watched: OnceLock<()>,
}

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Leader,
    Follower,
}

/// What is answered here.
enum Asked {
    Call(Box<CallToolRequestParams>),
    List(Box<ClientRequest>),
}

/// A message as far as it has to be read to know who makes it.
enum Message {
    Call(RequestId, Box<CallToolRequestParams>),
    Refused(Option<RequestId>, ErrorData),
    /// For rmcp, or nearly.
    Other(Vec<u8>),
}

/// How an introduction ends.
enum Introduced {
    /// With the conversation.
    Gone,
    /// The conversation goes on, with this message if it is here already.
    Goes(Option<(Message, Help)>),
}

impl Line {
    pub(super) fn new(
        connection: Arc<Connection>,
        engine: Engine,
        input: BorrowedFd<'static>,
        output: BorrowedFd<'static>,
    ) -> Arc<Self> {
        let outbox = Outbox::new(output);
        Arc::new(Self {
            desk: Desk::new(input),
            relay: Relay::start(connection.clone(), outbox.clone()),
            connection,
            engine,
            batch: Batch::new(outbox.clone()),
            outbox,
            has_asked: AtomicBool::new(false),
            inflight: Inflight::default(),
            running: Arc::new(Semaphore::new(MOST_RUNNING as usize)),
            leader: Seat::default(),
            follower: Seat::default(),
            is_settled: OnceLock::new(),
            over: Default::default(),
        })
    }

    /// Leads until the client is gone.
    pub(super) fn serve(self: Arc<Self>) -> io::Result<()> {
        let introduced = catch_unwind(AssertUnwindSafe(|| self.introduce()));
        let introduced = introduced.unwrap_or_else(|_| {
            self.break_off();
            Ok(Introduced::Gone)
        })?;
        self.engine.wait()?;
        let _inside = self.runtime().enter();
        if let Introduced::Goes(first) = introduced {
            self.have_made(Role::Leader, 0, first)?;
        }
        let (over, ended) = &self.over;
        drop(ended.wait_while(locked(over), |over| !*over));
        self.wind_up();
        Ok(())
    }

    /// Leads until the client has its list of tools, on this thread: the client waits for every thread that is made before, and
    /// for every one that is woken. Calls are not made here: a tool that never lets go of this thread would keep the process
    /// when the conversation is over.
    fn introduce(self: &Arc<Self>) -> io::Result<Introduced> {
        let mut inside = None;
        loop {
            let Some((message, help)) = self.next() else { return Ok(Introduced::Gone) };
            if matches!(message, Message::Call(..)) {
                return Ok(Introduced::Goes(Some((message, help))));
            }
            self.take(Role::Leader, 0, message);
            if inside.is_none() {
                // The client has its first answer, and takes a while to go on.
                self.engine.wait()?;
                inside = Some(self.runtime().enter());
                self.relay.go_on();
            }
            if self.is_settled.get().is_some() {
                return Ok(Introduced::Goes(None));
            }
        }
    }

    /// The next message for the leader. None when the conversation is over.
    fn next(&self) -> Option<(Message, Help)> {
        self.batch.keep_short();
        let next = self.desk.lead(|| self.batch.flush(), |next| self.received(next));
        let next = next.ok().flatten().filter(|_| !self.outbox.gone.is_cancelled());
        if next.is_none() {
            self.end();
        }
        next
    }

    fn lead(self: &Arc<Self>, leader: u64, mut first: Option<(Message, Help)>) {
        let _inside = self.runtime().enter();
        while self.leader.watch.is_led_by(leader) {
            let next = first.take().or_else(|| self.next());
            let Some((message, help)) = next else { return };
            if help == Help::Wanted {
                self.have_followed();
            }
            self.take(Role::Leader, leader, message);
        }
    }

    fn follow(self: &Arc<Self>, follower: u64) {
        let _inside = self.runtime().enter();
        while self.follower.watch.is_led_by(follower) {
            self.batch.keep_short();
            let Some(message) = self.desk.follow(|| self.batch.flush(), |line| self.look(line))
            else {
                return;
            };
            self.take(Role::Follower, follower, message);
        }
    }

    /// One message, by the thread of this number in its seat.
    fn take(self: &Arc<Self>, role: Role, number: u64, message: Message) {
        let seat = self.seat(role);
        seat.watch.begin();
        match message {
            Message::Call(id, params) => self.call(role, id, Asked::Call(params)),
            Message::Refused(id, error) => self.refuse(id.as_ref(), &error),
            Message::Other(line) => self.pass_on(&line),
        }
        if !seat.watch.end(number) {
            self.batch.flush();
        }
    }

    fn runtime(&self) -> &Handle {
        self.engine.made().expect("nobody goes on before it was waited for")
    }

    fn seat(&self, role: Role) -> &Seat {
        match role {
            Role::Leader => &self.leader,
            Role::Follower => &self.follower,
        }
    }

    fn break_off(&self) {
        self.inflight.call_off_all();
        self.end();
    }

    fn end(&self) {
        let (over, ended) = &self.over;
        *locked(over) = true;
        ended.notify_all();
        // Last: where a follower broke, the leader may be at the desk and wait for its client.
        self.desk.dismiss();
    }

    /// The client sends nothing any more. It may still want its answers.
    fn wind_up(&self) {
        self.batch.flush();
        let is_gone = self.outbox.gone.is_cancelled() || self.outbox.is_closed().unwrap_or(true);
        if !is_gone {
            let gone = self.outbox.gone.clone();
            self.inflight.wait(LAST_WAIT);
            self.runtime().block_on(async {
                tokio::select! {
                    _ = tokio::time::timeout(LAST_WAIT, self.relay.finish()) => {}
                    () = gone.cancelled() => {}
                }
            });
        }
        self.inflight.call_off_all();
        let running = self.running.clone();
        let all = running.acquire_many(MOST_RUNNING);
        let _ = self.runtime().block_on(tokio::time::timeout(GRACE, all));
        if !is_gone {
            self.outbox.finish(LAST_WAIT);
        }
    }

    fn refuse(&self, id: Option<&RequestId>, error: &ErrorData) {
        self.batch.add(message::error(id, error));
    }

    /// What came for the leader, and whether it is a look. None at the end.
    fn received(&self, next: Next) -> Option<(Message, bool)> {
        let line = match next {
            Next::Line(line) => line,
            Next::TooLong => {
                let error = ErrorData::invalid_request(too_long(), None);
                return Some((Message::Refused(None, error), false));
            }
            Next::End => return None,
        };
        let message = self.read(&line).unwrap_or(Message::Other(line));
        let is_look = self.is_look(&message);
        Some((message, is_look))
    }

    /// The message if it is a look, which the follower may make.
    fn look(&self, line: &[u8]) -> Option<Message> {
        self.read(line).filter(|message| self.is_look(message))
    }

    fn is_look(&self, message: &Message) -> bool {
        match message {
            Message::Call(_, params) => self.connection.only_looks(&params.name),
            _ => false,
        }
    }

    /// A call, or what is wrong with the line; none for everything else.
    fn read(&self, line: &[u8]) -> Option<Message> {
        if self.relay.peer.get().is_some()
            && let Some(Call { id, params }) = Call::read(line)
        {
            return Some(Message::Call(id, params));
        }
        let head: Head<'_> = match serde_json::from_slice(line) {
            // serde would also take a list of as many parts for a message.
            Ok(head) if line.starts_with(b"{") => head,
            Ok(_) => return Some(Message::Refused(None, unreadable(line, "it is a list"))),
            Err(error) => {
                return Some(Message::Refused(None, unreadable(line, &error.to_string())));
            }
        };
        let id = match head.kind() {
            Ok(Kind::Request(id)) => id,
            Ok(Kind::Notification | Kind::Answer) => return None,
            Err(error) => return Some(Message::Refused(None, error)),
        };
        match head.method.as_deref() {
            Some("tools/call") if self.relay.peer.get().is_some() => match call_of(&head) {
                Ok(params) => Some(Message::Call(id, params)),
                Err(error) => Some(Message::Refused(Some(id), error)),
            },
            _ => None,
        }
    }

    /// What is no call of a tool.
    fn pass_on(self: &Arc<Self>, line: &[u8]) {
        let Ok(head) = serde_json::from_slice::<Head<'_>>(line) else { return };
        let method = head.method.as_deref();
        match head.kind() {
            Ok(Kind::Request(id)) => match (method, self.relay.peer.get()) {
                (Some("tools/list"), Some(_)) => match serde_json::from_slice(line) {
                    Ok(ClientJsonRpcMessage::Request(list)) => {
                        self.call(Role::Leader, id, Asked::List(Box::new(list.request)));
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
            Err(error) => self.refuse(None, &error),
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

    fn call(self: &Arc<Self>, role: Role, id: RequestId, asked: Asked) {
        let Some(peer) = self.relay.peer.get() else { return };
        let token = match self.inflight.enter(&id, MOST_IN_FLIGHT) {
            Ok(token) => token,
            Err(NotEntered::SameId) => {
                let message = format!("the id {id} is that of a call which is still being made");
                return self.refuse(None, &ErrorData::invalid_request(message, None));
            }
            Err(NotEntered::TooMany) => return self.refuse(Some(&id), &busy()),
        };
        if matches!(asked, Asked::Call(_)) {
            self.keep_watch(role);
        }
        let current = &self.seat(role).current;
        *locked(current) = Some(id.clone());
        let mut context = RequestContext::new(id.clone(), peer.clone());
        context.ct = token;
        let connection = self.connection.clone();
        let own = id.clone();
        let work: Work = match asked {
            Asked::Call(mut params) => {
                context.meta = params.meta.take().unwrap_or_default();
                match connection.is_of_earlier_era(&context) {
                    true => Box::pin(outcome(connection, *params, context)),
                    false => {
                        let request = ClientRequest::CallToolRequest(Request::new(*params));
                        Box::pin(answer(connection, request, context))
                    }
                }
            }
            Asked::List(mut request) => {
                context.meta = std::mem::take(request.get_meta_mut());
                context.extensions = std::mem::take(request.extensions_mut());
                Box::pin(listing(connection, *request, context))
            }
        };
        self.make(id, work);
        // Another thread may sit here by now, with a call of its own.
        locked(current).take_if(|current| *current == own);
    }

    /// As far as it goes without waiting; the rest on the runtime.
    fn make(self: &Arc<Self>, id: RequestId, mut work: Work) {
        let Ok(permit) = self.running.clone().try_acquire_owned() else {
            return self.line_up(id, work);
        };
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => {
                if self.inflight.leave(&id) {
                    self.batch.add(answer);
                }
            }
            Poll::Pending => {
                let owed = Owed::new(self, id);
                self.runtime().spawn(async move {
                    owed.pay(work.await);
                    drop(permit);
                });
            }
        }
    }

    fn line_up(self: &Arc<Self>, id: RequestId, work: Work) {
        let owed = Owed::new(self, id);
        self.runtime().spawn(async move {
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
            self.batch.flush();
            if let Some(tidy_up) = self.connection.shared.settled {
                self.runtime().spawn(async move { tidy_up() });
            }
        });
    }

    /// From the first call on somebody sees to it that none holds up the others.
    fn keep_watch(self: &Arc<Self>, role: Role) {
        let seat = self.seat(role);
        seat.is_watched.get_or_init(|| {
            let line = Arc::downgrade(self);
            // Without a thread for it, the one that sits there goes on alone.
            let _ = seat.watch.start(move |number| {
                if let Some(line) = line.upgrade() {
                    line.take_over(role, number);
                }
            });
        });
    }

    fn take_over(self: &Arc<Self>, role: Role, number: u64) {
        if let Some(stuck) = locked(&self.seat(role).current).take() {
            let line = self.clone();
            self.runtime().spawn(async move {
                tokio::time::sleep(DEFAULT_DEADLINE + GRACE).await;
                line.answer_later(&stuck, message::answer(&stuck, Ok(left_behind())));
            });
        }
        let _ = self.have_made(role, number, None);
    }

    /// Another thread helps with looks, where the machine has a processor for it.
    fn have_followed(self: &Arc<Self>) {
        if thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
            let _ = self.have_made(Role::Follower, 0, None);
        }
    }

    /// A thread for one of the seats, and what a leader begins with.
    fn have_made(
        self: &Arc<Self>,
        role: Role,
        number: u64,
        first: Option<(Message, Help)>,
    ) -> io::Result<()> {
        let line = self.clone();
        let name = match role {
            Role::Leader => "haft-mcp-lead",
            Role::Follower => "haft-mcp-follow",
        };
        let work = move || {
            let made = catch_unwind(AssertUnwindSafe(|| match role {
                Role::Leader => line.lead(number, first),
                Role::Follower => line.follow(number),
            }));
            // Nobody would hear the client any more, nor that it is gone.
            if made.is_err() {
                line.break_off();
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
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

/// What is asked for by a call, without the way through rmcp's service: it has nothing to add for such a client, and takes as
/// long as a small call.
async fn outcome(
    connection: Arc<Connection>,
    params: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Vec<u8> {
    let id = context.id.clone();
    match call::call(&connection, params, context).await {
        Ok(End::Outcome { outcome, data, envelope }) => {
            message::outcome(&id, *outcome, data.as_ref(), envelope)
        }
        Ok(End::Asked(_)) => {
            let error = ErrorData::internal_error("this client cannot be asked in rounds", None);
            message::error(Some(&id), &error)
        }
        Err(error) => message::error(Some(&id), &error),
    }
}

async fn answer(
    connection: Arc<Connection>,
    request: ClientRequest,
    context: RequestContext<RoleServer>,
) -> Vec<u8> {
    let id = context.id.clone();
    message::answer(&id, connection.handle_request(request, context).await)
}

async fn listing(
    connection: Arc<Connection>,
    request: ClientRequest,
    mut context: RequestContext<RoleServer>,
) -> Vec<u8> {
    let id = context.id.clone();
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

fn call_of(head: &Head<'_>) -> Result<Box<CallToolRequestParams>, ErrorData> {
    let params = head.params.map_or("{}", |params| params.get());
    serde_json::from_str(params).map_err(|error| {
        ErrorData::invalid_params(format!("the parameters of `tools/call`: {error}"), None)
    })
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
    ServerResult::CallToolResult(result::of(Outcome::failed("call", &error), None, Envelope::Sent))
}
