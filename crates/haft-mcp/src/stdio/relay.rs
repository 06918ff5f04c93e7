//! The part of the conversation that rmcp handles: the handshake, and all messages except tool
//! calls. This module is rmcp's transport.

use std::{
    collections::HashSet,
    convert::Infallible,
    future::ready,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId},
    serve_server,
    service::{Peer, RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::{Mutex, mpsc, watch};

use super::{message, outbox::Outbox, session::StdioSession};

/// Maximum number of messages that wait for rmcp. Beyond that, reading from the pipe waits.
const MAX_WAITING: usize = 256;

/// The session's side of the relay.
pub(super) struct Relay {
    sender: mpsc::Sender<ClientJsonRpcMessage>,
    receiver: Arc<Mutex<mpsc::Receiver<ClientJsonRpcMessage>>>,
    /// The client, after its handshake.
    peer: OnceLock<Peer<RoleServer>>,
    /// Requests that rmcp has not answered yet.
    open: watch::Sender<HashSet<RequestId>>,
    has_asked: AtomicBool,
    is_over: AtomicBool,
}

impl Default for Relay {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        Self {
            sender,
            receiver: Arc::new(Mutex::new(receiver)),
            peer: OnceLock::new(),
            open: watch::Sender::new(HashSet::new()),
            has_asked: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }
}

impl Relay {
    pub(super) fn peer(&self) -> Option<Peer<RoleServer>> {
        self.peer.get().cloned()
    }

    /// Runs the handshake. The thread that polls this reads its messages. Returns false if the
    /// client disconnected.
    pub(super) async fn introduce(&self, session: &Arc<StdioSession>) -> bool {
        while !self.is_over.load(Ordering::Acquire) {
            let end = RelayTransport {
                reader: thread::current().id(),
                session: Arc::downgrade(session),
                receiver: self.receiver.clone(),
                outbox: session.outbox().clone(),
                open: self.open.clone(),
            };
            // A failed handshake was answered with the reason; the client may try again.
            if let Ok(running) = serve_server(session.connection().clone(), end).await {
                let _ = self.peer.set(running.peer().clone());
                // rmcp's loop now runs independently; nothing waits for its end.
                tokio::spawn(running.waiting());
                return true;
            }
        }
        false
    }

    /// Returns the next message of the handshake.
    fn next(&self, session: &StdioSession) -> Option<ClientJsonRpcMessage> {
        let message = session.next_for_rmcp(self.has_asked.load(Ordering::Acquire));
        match &message {
            Some(message) => {
                self.has_asked.store(true, Ordering::Release);
                self.count(message);
            }
            None => self.is_over.store(true, Ordering::Release),
        }
        message
    }

    /// Passes a message to rmcp; waits if rmcp is far behind.
    pub(super) fn send(&self, message: ClientJsonRpcMessage) {
        self.count(&message);
        // Fails only when the conversation has ended.
        let _ = self.sender.blocking_send(message);
    }

    /// Waits until every request is answered.
    pub(super) async fn finish(&self) {
        let _ = self.open.subscribe().wait_for(HashSet::is_empty).await;
    }

    /// Counts requests that will be answered. A subscription ends only with the conversation; a
    /// cancelled request may end without an answer.
    fn count(&self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request)
                if !matches!(request.request, ClientRequest::SubscriptionsListenRequest(_)) =>
            {
                self.open.send_modify(|open| {
                    open.insert(request.id.clone());
                });
            }
            ClientJsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(sent) = &sent.notification
                    && let Some(id) = &sent.params.request_id
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

/// rmcp's side of the relay.
struct RelayTransport {
    /// The thread of the handshake. rmcp's loop, which follows it, runs on threads of the runtime.
    reader: ThreadId,
    session: Weak<StdioSession>,
    receiver: Arc<Mutex<mpsc::Receiver<ClientJsonRpcMessage>>>,
    outbox: Arc<Outbox>,
    open: watch::Sender<HashSet<RequestId>>,
}

impl Transport<RoleServer> for RelayTransport {
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
        ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        if thread::current().id() == self.reader {
            let session = self.session.upgrade()?;
            return session.relay().next(&session);
        }
        self.receiver.lock().await.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}
