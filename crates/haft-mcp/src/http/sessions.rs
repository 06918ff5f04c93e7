//! The sessions of clients of the earlier era. rmcp keeps them, but forgets an answer that comes while its client is away;
//! here answers wait until their client has come back for them.

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

/// How long an answer waits for its client.
const KEPT: Duration = Duration::from_secs(300);
/// Whether a client has really got what it was sent, nobody knows: the last answers can be had again for a while. Clients
/// come back after the three seconds that they are told to wait.
const KEPT_AFTER: Duration = Duration::from_secs(10);
const MOST_KEPT_AFTER: usize = 4;
/// Events of one answer that can be had again; a call that tells of more progress loses the earliest.
const MOST_EVENTS: usize = 1_024;

#[derive(Default)]
pub(super) struct Sessions {
    pub(super) local: LocalSessionManager,
    answers: Arc<Mutex<HashMap<SessionId, Answers>>>,
}

/// The answers of one session.
#[derive(Default)]
struct Answers {
    /// By the number that the ids of their events end with.
    kept: HashMap<u64, Arc<Answer>>,
    /// Those that were sent to their end, oldest first.
    taken: VecDeque<u64>,
}

impl Answers {
    fn took(&mut self, number: u64) {
        self.taken.push_back(number);
        if self.taken.len() > MOST_KEPT_AFTER
            && let Some(oldest) = self.taken.pop_front()
        {
            self.kept.remove(&oldest);
        }
    }

    fn forget(&mut self, number: u64) {
        self.kept.remove(&number);
        self.taken.retain(|taken| *taken != number);
    }
}

type Events = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

/// What is sent in answer to one request.
#[derive(Default)]
pub(crate) struct Answer {
    sent: Mutex<Sent>,
    taken: Notify,
}

#[derive(Default)]
struct Sent {
    events: VecDeque<ServerSseMessage>,
    /// Where the client reads, if it does.
    line: Option<mpsc::UnboundedSender<ServerSseMessage>>,
    is_over: bool,
}

impl Answer {
    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock()
    }

    fn send(&self, event: ServerSseMessage) {
        let mut sent = self.sent();
        if sent.events.len() == MOST_EVENTS {
            sent.events.pop_front();
        }
        sent.events.push_back(event.clone());
        sent.line = sent.line.take().filter(|line| line.send(event).is_ok());
    }

    fn end(&self) {
        let mut sent = self.sent();
        sent.is_over = true;
        sent.line = None;
    }

    /// Lets go of whoever reads; they may come back.
    pub(crate) fn hang_up(&self) {
        self.sent().line = None;
    }

    /// Everything after the event of this id, and what is still to come. Who read before reads no more.
    fn read(self: &Arc<Self>, last: Option<&str>) -> Reader {
        let (line, events) = mpsc::unbounded_channel();
        let mut sent = self.sent();
        let is_last = |event: &ServerSseMessage| event.event_id.as_deref() == last;
        let begin = last.and_then(|_| sent.events.iter().position(is_last)).map_or(0, |at| at + 1);
        for event in sent.events.iter().skip(begin) {
            // The other end is in this very function.
            let _ = line.send(event.clone());
        }
        sent.line = Some(line).filter(|_| !sent.is_over);
        Reader { answer: self.clone(), events }
    }
}

/// One connection that reads an answer.
struct Reader {
    answer: Arc<Answer>,
    events: mpsc::UnboundedReceiver<ServerSseMessage>,
}

impl Stream for Reader {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.events.poll_recv(cx);
        if matches!(next, Poll::Ready(None)) && self.answer.sent().is_over {
            self.answer.taken.notify_one();
        }
        next
    }
}

impl Sessions {
    fn answers(&self) -> MutexGuard<'_, HashMap<SessionId, Answers>> {
        self.answers.lock()
    }

    /// Takes down what is sent until it is over, and keeps it until the client has it.
    fn keep(
        &self,
        id: &SessionId,
        number: u64,
        mut events: mpsc::Receiver<ServerSseMessage>,
    ) -> Arc<Answer> {
        let answer = Arc::new(Answer::default());
        // The first event is here already. Without its id a client that is hung up on could not come back.
        while let Ok(event) = events.try_recv() {
            answer.send(event);
        }
        self.answers().entry(id.clone()).or_default().kept.insert(number, answer.clone());
        let (answers, id, kept) = (self.answers.clone(), id.clone(), answer.clone());
        let with_session = move |then: &dyn Fn(&mut Answers)| {
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
            let is_taken = timeout(KEPT, kept.taken.notified()).await.is_ok();
            drop(kept);
            if is_taken {
                with_session(&|answers| answers.took(number));
                sleep(KEPT_AFTER).await;
            }
            with_session(&|answers| answers.forget(number));
        });
        answer
    }
}

impl SessionManager for Sessions {
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
            // So that the work behind the request can hang up.
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
            let events: Events = Box::pin(self.local.resume(id, last).await?);
            return Ok(events);
        };
        let number = number.parse().ok();
        let answer =
            number.and_then(|number: u64| self.answers().get(id)?.kept.get(&number).cloned());
        match answer {
            Some(answer) => Ok(Box::pin(answer.read(Some(&last))) as Events),
            // Already had, or too late.
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

    /// The ids that a connection reads to its end.
    async fn ids(mut reader: Reader) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(event) = poll_fn(|cx| Pin::new(&mut reader).poll_next(cx)).await {
            ids.extend(event.event_id);
        }
        ids
    }

    /// An answer with so many events that were sent while nobody read.
    fn sent(events: usize) -> Arc<Answer> {
        let answer = Arc::new(Answer::default());
        (0..events).for_each(|index| answer.send(event(index)));
        answer
    }

    #[tokio::test]
    async fn who_comes_back_reads_what_was_missed_and_nothing_twice() {
        let answer = sent(3);
        answer.end();
        for (last, expected) in [
            (None, vec!["0/0", "1/0", "2/0"]),
            (Some("0/0"), vec!["1/0", "2/0"]),
            (Some("2/0"), vec![]),
            // Never sent, or given way: all there is.
            (Some("9/0"), vec!["0/0", "1/0", "2/0"]),
        ] {
            assert_eq!(ids(answer.read(last)).await, expected, "{last:?}");
        }
    }

    #[tokio::test]
    async fn who_comes_back_in_the_middle_reads_on_and_the_earlier_connection_ends() {
        let answer = sent(1);
        let (first, second) = (answer.read(None), answer.read(Some("0/0")));
        assert_eq!(ids(first).await, ["0/0"]);
        answer.send(event(1));
        answer.end();
        assert_eq!(ids(second).await, ["1/0"]);
    }

    #[tokio::test]
    async fn after_hanging_up_everything_is_still_taken_down() {
        let answer = sent(1);
        let reader = answer.read(None);
        answer.hang_up();
        answer.send(event(1));
        answer.end();
        assert_eq!(ids(reader).await, ["0/0"]);
        assert_eq!(ids(answer.read(Some("0/0"))).await, ["1/0"]);
    }

    #[tokio::test]
    async fn whoever_is_hung_up_on_at_once_knows_where_to_come_back_to() {
        let (send, events) = mpsc::channel(1);
        send.send(event(0)).await.expect("there is room");
        let answer = Sessions::default().keep(&"session".into(), 0, events);
        let reader = answer.read(None);
        answer.hang_up();
        assert_eq!(ids(reader).await, ["0/0"]);
    }

    #[tokio::test]
    async fn the_earliest_events_of_a_talkative_call_give_way() {
        let answer = sent(MOST_EVENTS + 2);
        answer.end();
        let ids = ids(answer.read(Some("0/0"))).await;
        assert_eq!((ids.len(), ids[0].as_str()), (MOST_EVENTS, "2/0"));
    }

    struct Kept {
        sessions: Sessions,
        id: SessionId,
    }

    impl Kept {
        /// An answer that is over, of this number.
        async fn keep(&self, number: u64) -> Arc<Answer> {
            let (send, events) = mpsc::channel(1);
            let answer = self.sessions.keep(&self.id, number, events);
            send.send(event(0)).await.expect("it is taken down");
            drop(send);
            answer
        }

        async fn is_there(&self, number: u64) -> bool {
            // The task that keeps answers has its turn first.
            tokio::task::yield_now().await;
            self.sessions.answers().get(&self.id).is_some_and(|all| all.kept.contains_key(&number))
        }
    }

    fn kept() -> Kept {
        Kept { sessions: Sessions::default(), id: "session".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_its_client_but_not_for_ever() {
        let kept = kept();
        let answer = kept.keep(0).await;
        sleep(KEPT - Duration::from_secs(1)).await;
        assert!(kept.is_there(0).await);
        assert_eq!(ids(answer.read(None)).await, ["0/0"]);
        sleep(KEPT_AFTER - Duration::from_secs(1)).await;
        assert!(kept.is_there(0).await, "whether it arrived is not known");
        sleep(Duration::from_secs(2)).await;
        assert!(!kept.is_there(0).await);

        kept.keep(1).await;
        sleep(KEPT + Duration::from_secs(1)).await;
        assert!(!kept.is_there(1).await);
    }

    #[tokio::test(start_paused = true)]
    async fn of_those_that_were_taken_only_the_last_are_kept() {
        let kept = kept();
        let waiting = kept.keep(100).await;
        for number in 0..=MOST_KEPT_AFTER as u64 {
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
