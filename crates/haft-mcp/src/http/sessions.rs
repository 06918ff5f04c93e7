//! The sessions of clients of the earlier era. rmcp keeps the sessions, but forgets an answer that
//! is ready while its client is disconnected; here answers wait until the client has read them.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use futures_core::Stream;
use rmcp::{
    model::{ClientJsonRpcMessage, GetExtensions, ServerJsonRpcMessage},
    transport::streamable_http_server::{
        SessionId, SessionManager,
        session::{
            ServerSseMessage,
            local::{
                LocalSessionManager, LocalSessionManagerError, SessionError, SessionTransport,
            },
        },
    },
};
use tokio::{
    sync::{Notify, mpsc},
    time::{sleep, timeout},
};

/// Time that an answer waits for its client.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(300);
/// Time and number that read answers can be read again, because the server does not know if the
/// client received them. Clients reconnect after three seconds, as instructed.
const REREAD_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REREADABLE: usize = 4;
/// Maximum number of events of one answer that can be read again; a call with more progress loses
/// the earliest.
const MAX_EVENTS: usize = 1_024;

#[derive(Default)]
pub(super) struct HttpSessions {
    pub(super) local: LocalSessionManager,
    answers: Arc<Mutex<HashMap<SessionId, SessionAnswers>>>,
}

/// The answers of one session.
#[derive(Default)]
struct SessionAnswers {
    /// By the number at the end of their event ids.
    kept: HashMap<u64, Arc<AnswerStream>>,
    /// Numbers of answers that were sent completely, the oldest first.
    read_answers: VecDeque<u64>,
}

impl SessionAnswers {
    fn mark_read(&mut self, number: u64) {
        self.read_answers.push_back(number);
        if self.read_answers.len() > MAX_REREADABLE
            && let Some(oldest) = self.read_answers.pop_front()
        {
            self.kept.remove(&oldest);
        }
    }

    fn forget(&mut self, number: u64) {
        self.kept.remove(&number);
        self.read_answers.retain(|read| *read != number);
    }
}

type EventStream = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

/// The events sent in answer to one request.
#[derive(Default)]
pub(crate) struct AnswerStream {
    sent: Mutex<Sent>,
    was_read: Notify,
}

#[derive(Default)]
struct Sent {
    events: VecDeque<ServerSseMessage>,
    /// The connection of the client, if there is one.
    connection: Option<mpsc::UnboundedSender<ServerSseMessage>>,
    is_over: bool,
}

impl AnswerStream {
    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock()
    }

    fn send(&self, event: ServerSseMessage) {
        let mut sent = self.sent();
        if sent.events.len() == MAX_EVENTS {
            sent.events.pop_front();
        }
        sent.events.push_back(event.clone());
        sent.connection =
            sent.connection.take().filter(|connection| connection.send(event).is_ok());
    }

    fn end(&self) {
        let mut sent = self.sent();
        sent.is_over = true;
        sent.connection = None;
    }

    /// Closes the connection that reads; the client may reconnect.
    pub(crate) fn disconnect(&self) {
        self.sent().connection = None;
    }

    /// Reads all events after the one with this id, and future ones. Ends an earlier connection.
    fn read(self: &Arc<Self>, last: Option<&str>) -> Reader {
        let (connection, events) = mpsc::unbounded_channel();
        let mut sent = self.sent();
        let is_last = |event: &ServerSseMessage| event.event_id.as_deref() == last;
        let begin = last.and_then(|_| sent.events.iter().position(is_last)).map_or(0, |at| at + 1);
        for event in sent.events.iter().skip(begin) {
            // The receiver is alive in this function.
            let _ = connection.send(event.clone());
        }
        sent.connection = Some(connection).filter(|_| !sent.is_over);
        Reader { answer: self.clone(), events }
    }
}

/// One connection that reads an answer.
struct Reader {
    answer: Arc<AnswerStream>,
    events: mpsc::UnboundedReceiver<ServerSseMessage>,
}

impl Stream for Reader {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.events.poll_recv(cx);
        if matches!(next, Poll::Ready(None)) && self.answer.sent().is_over {
            self.answer.was_read.notify_one();
        }
        next
    }
}

impl HttpSessions {
    fn answers(&self) -> MutexGuard<'_, HashMap<SessionId, SessionAnswers>> {
        self.answers.lock()
    }

    /// Records the events of an answer until it ends, and keeps them until the client has read
    /// them.
    fn keep(
        &self,
        id: &SessionId,
        number: u64,
        mut events: mpsc::Receiver<ServerSseMessage>,
    ) -> Arc<AnswerStream> {
        let answer = Arc::new(AnswerStream::default());
        // The first event is here already. Without its id, a client that is disconnected could not
        // resume.
        while let Ok(event) = events.try_recv() {
            answer.send(event);
        }
        self.answers().entry(id.clone()).or_default().kept.insert(number, answer.clone());
        let (answers, id, kept) = (self.answers.clone(), id.clone(), answer.clone());
        let with_session = move |then: &dyn Fn(&mut SessionAnswers)| {
            let mut answers = answers.lock();
            if let Some(of_session) = answers.get_mut(&id) {
                then(of_session);
            }
        };
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                kept.send(event);
            }
            kept.end();
            let is_read = timeout(UNREAD_TIMEOUT, kept.was_read.notified()).await.is_ok();
            drop(kept);
            if is_read {
                with_session(&|answers| answers.mark_read(number));
                sleep(REREAD_TIMEOUT).await;
            }
            with_session(&|answers| answers.forget(number));
        });
        answer
    }
}

impl SessionManager for HttpSessions {
    type Error = LocalSessionManagerError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.local.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.answers().remove(id);
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let session = self.local.sessions.read().await.get(id).cloned();
        let session =
            session.ok_or_else(|| LocalSessionManagerError::SessionNotFound(id.clone()))?;
        let receiver = session.establish_request_wise_channel().await?;
        let number = receiver.http_request_id.unwrap_or_default();
        let answer = self.keep(id, number, receiver.inner);
        let reader = answer.read(None);
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            // Lets the work behind the request close the connection.
            request.request.extensions_mut().insert(answer);
        }
        session.push_message(message, receiver.http_request_id).await?;
        Ok(reader)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let Some((_, number)) = last.split_once('/') else {
            let events: EventStream = Box::pin(self.local.resume(id, last).await?);
            return Ok(events);
        };
        let number = number.parse().ok();
        let answer =
            number.and_then(|number: u64| self.answers().get(id)?.kept.get(&number).cloned());
        match answer {
            Some(answer) => Ok(Box::pin(answer.read(Some(&last))) as EventStream),
            // Already read, or expired.
            None => Err(SessionError::InvalidEventId.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use rmcp::model::{NumberOrString, ServerResult};

    use super::*;

    fn event(index: usize) -> ServerSseMessage {
        let message =
            ServerJsonRpcMessage::response(ServerResult::empty(()), NumberOrString::Number(1));
        ServerSseMessage::new(format!("{index}/0"), message)
    }

    /// Returns the ids that a connection reads until its end.
    async fn ids(mut reader: Reader) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(event) = poll_fn(|cx| Pin::new(&mut reader).poll_next(cx)).await {
            ids.extend(event.event_id);
        }
        ids
    }

    /// Returns an answer with events that were sent without a reader.
    fn sent(events: usize) -> Arc<AnswerStream> {
        let answer = Arc::new(AnswerStream::default());
        (0..events).for_each(|index| answer.send(event(index)));
        answer
    }

    #[tokio::test]
    async fn a_reconnected_client_reads_missed_events_once() {
        let answer = sent(3);
        answer.end();
        for (last, expected) in [
            (None, vec!["0/0", "1/0", "2/0"]),
            (Some("0/0"), vec!["1/0", "2/0"]),
            (Some("2/0"), vec![]),
            // Never sent, or dropped: all there is.
            (Some("9/0"), vec!["0/0", "1/0", "2/0"]),
        ] {
            assert_eq!(ids(answer.read(last)).await, expected, "{last:?}");
        }
    }

    #[tokio::test]
    async fn a_reconnection_continues_and_ends_the_earlier_connection() {
        let answer = sent(1);
        let (first, second) = (answer.read(None), answer.read(Some("0/0")));
        assert_eq!(ids(first).await, ["0/0"]);
        answer.send(event(1));
        answer.end();
        assert_eq!(ids(second).await, ["1/0"]);
    }

    #[tokio::test]
    async fn events_are_still_recorded_after_a_disconnection() {
        let answer = sent(1);
        let reader = answer.read(None);
        answer.disconnect();
        answer.send(event(1));
        answer.end();
        assert_eq!(ids(reader).await, ["0/0"]);
        assert_eq!(ids(answer.read(Some("0/0"))).await, ["1/0"]);
    }

    #[tokio::test]
    async fn a_client_disconnected_at_once_has_an_event_id_to_resume_from() {
        let (send, events) = mpsc::channel(1);
        send.send(event(0)).await.expect("there is room");
        let answer = HttpSessions::default().keep(&"session".into(), 0, events);
        let reader = answer.read(None);
        answer.disconnect();
        assert_eq!(ids(reader).await, ["0/0"]);
    }

    #[tokio::test]
    async fn the_earliest_events_of_a_long_answer_are_dropped() {
        let answer = sent(MAX_EVENTS + 2);
        answer.end();
        let ids = ids(answer.read(Some("0/0"))).await;
        assert_eq!((ids.len(), ids[0].as_str()), (MAX_EVENTS, "2/0"));
    }

    struct Kept {
        sessions: HttpSessions,
        id: SessionId,
    }

    impl Kept {
        /// Stores a completed answer with this number.
        async fn keep(&self, number: u64) -> Arc<AnswerStream> {
            let (send, events) = mpsc::channel(1);
            let answer = self.sessions.keep(&self.id, number, events);
            send.send(event(0)).await.expect("it is recorded");
            drop(send);
            answer
        }

        async fn is_there(&self, number: u64) -> bool {
            // Lets the task that keeps answers run first.
            tokio::task::yield_now().await;
            self.sessions.answers().get(&self.id).is_some_and(|all| all.kept.contains_key(&number))
        }
    }

    fn kept() -> Kept {
        Kept { sessions: HttpSessions::default(), id: "session".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_its_client_but_not_forever() {
        let kept = kept();
        let answer = kept.keep(0).await;
        sleep(UNREAD_TIMEOUT - Duration::from_secs(1)).await;
        assert!(kept.is_there(0).await);
        assert_eq!(ids(answer.read(None)).await, ["0/0"]);
        sleep(REREAD_TIMEOUT - Duration::from_secs(1)).await;
        assert!(kept.is_there(0).await, "it may not have arrived");
        sleep(Duration::from_secs(2)).await;
        assert!(!kept.is_there(0).await);

        kept.keep(1).await;
        sleep(UNREAD_TIMEOUT + Duration::from_secs(1)).await;
        assert!(!kept.is_there(1).await);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_last_read_answers_are_kept() {
        let kept = kept();
        let waiting = kept.keep(100).await;
        for number in 0..=MAX_REREADABLE as u64 {
            ids(kept.keep(number).await.read(None)).await;
            kept.is_there(number).await;
        }
        assert!(!kept.is_there(0).await && kept.is_there(1).await);
        assert!(kept.is_there(100).await, "it was not taken");
        drop(waiting);
        kept.sessions.close_session(&kept.id).await.expect("it closes");
        assert!(!kept.is_there(100).await);
    }
}
