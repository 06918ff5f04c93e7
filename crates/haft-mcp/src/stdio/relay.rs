//! The part of the conversation that rmcp leads: the handshake, and whatever is not a tool call. To it this is a transport.

use std::{
    collections::HashSet,
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, OnceLock, PoisonError},
    task::{Context, Poll, Waker},
};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId},
    serve_server,
    service::{Peer, RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    runtime::Handle,
    sync::{Mutex, mpsc, watch},
};

use super::{message, outbox::Outbox};
use crate::connection::Connection;

/// Messages that wait for rmcp. Beyond that the pipe waits, and with it the client.
const MOST_WAITING: usize = 256;

/// Our end.
pub(super) struct Relay {
    sender: mpsc::Sender<ClientJsonRpcMessage>,
    /// The client, once it has introduced itself.
    pub(super) peer: Arc<OnceLock<Peer<RoleServer>>>,
    /// Requests that rmcp has not answered yet.
    open: watch::Sender<HashSet<RequestId>>,
    /// Until the client has introduced itself, which is driven by the thread that reads: a switch to another one for every
    /// message would be half the time that a client waits for its list of tools.
    introduction: std::sync::Mutex<Option<Introduction>>,
}

type Introduction = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Relay {
    /// Starts the conversation.
    pub(super) fn start(connection: Arc<Connection>, outbox: Arc<Outbox>) -> Self {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        let peer = Arc::new(OnceLock::new());
        let open = watch::Sender::new(HashSet::new());
        let end = End { receiver: Arc::new(Mutex::new(receiver)), outbox, open: open.clone() };
        let introduction: Introduction = Box::pin(converse(connection, end, peer.clone()));
        Self { sender, peer, open, introduction: std::sync::Mutex::new(Some(introduction)) }
    }

    /// Hands a message over; waits when rmcp is far behind.
    pub(super) fn send(&self, message: ClientJsonRpcMessage) {
        self.count(&message);
        // What rmcp does with any other first request needs a runtime.
        let is_answered_without = matches!(&message, ClientJsonRpcMessage::Request(request)
                if matches!(request.request, ClientRequest::InitializeRequest(_)));
        // It only fails when the conversation is over.
        let _ = self.sender.blocking_send(message);
        if is_answered_without || Handle::try_current().is_ok() {
            self.go_on();
        }
    }

    /// Goes on with the introduction. Where there is no runtime yet, as far as the answer.
    pub(super) fn go_on(&self) {
        let mut introduction = self.introduction.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody has to wake it: it waits for messages only, and they come from here.
        let mut context = Context::from_waker(Waker::noop());
        if introduction.as_mut().is_some_and(|it| it.as_mut().poll(&mut context).is_ready()) {
            *introduction = None;
        }
    }

    /// Waits until every request is answered.
    pub(super) async fn finish(&self) {
        let _ = self.open.subscribe().wait_for(HashSet::is_empty).await;
    }

    /// Requests that will be answered. A subscription ends with the conversation, not before; what is called off may end
    /// without a word.
    fn count(&self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request)
                if !matches!(request.request, ClientRequest::SubscriptionsListenRequest(_)) =>
            {
                self.open.send_modify(|open| {
                    open.insert(request.id.clone());
                });
            }
            ClientJsonRpcMessage::Notification(told) => {
                if let ClientNotification::CancelledNotification(told) = &told.notification
                    && let Some(id) = &told.params.request_id
                {
                    self.open.send_modify(|open| {
                        open.remove(id);
                    });
                }
            }
            _ => {}
        }
    }
}

async fn converse(connection: Arc<Connection>, end: End, peer: Arc<OnceLock<Peer<RoleServer>>>) {
    loop {
        match serve_server(connection.clone(), end.clone()).await {
            Ok(running) => {
                let _ = peer.set(running.peer().clone());
                // From here on rmcp goes its own way; nobody waits for its end.
                tokio::spawn(running.waiting());
                return;
            }
            // A handshake that failed was answered with the reason; the client may try again.
            Err(_) if !end.receiver.lock().await.is_closed() => {}
            Err(_) => return,
        }
    }
}

/// rmcp's end.
#[derive(Clone)]
struct End {
    receiver: Arc<Mutex<mpsc::Receiver<ClientJsonRpcMessage>>>,
    outbox: Arc<Outbox>,
    open: watch::Sender<HashSet<RequestId>>,
}

impl Transport<RoleServer> for End {
    type Error = Infallible;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.outbox.send(message::line(&item));
        let answered = match &item {
            JsonRpcMessage::Response(answer) => Some(&answer.id),
            JsonRpcMessage::Error(answer) => answer.id.as_ref(),
            _ => None,
        };
        if let Some(id) = answered {
            self.open.send_modify(|open| {
                open.remove(id);
            });
        }
        // What comes after an answer may be a task. Until there is a runtime for it nobody goes on; whoever makes one does.
        poll_fn(|_| match Handle::try_current() {
            Ok(_) => Poll::Ready(Ok(())),
            Err(_) => Poll::Pending,
        })
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.receiver.lock().await.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}
