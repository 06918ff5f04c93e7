//! A server over streamable HTTP. rmcp speaks the protocol; here are the door and its guards: who may connect, how much
//! they may send, and how long they may take.

mod newcomers;
pub(crate) mod sessions;

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use haft_core::BoxFuture;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, combinators::BoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Bytes, Incoming},
    header::{self, HeaderMap, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;

use self::{
    newcomers::{Guest, Newcomers},
    sessions::Sessions,
};
use crate::{
    connection::{Connection, Lasting},
    server::Server,
};

/// Where the protocol is spoken.
const PATH: &str = "/mcp";
/// The largest request. A `write` of the largest file that tools take fits.
const LARGEST_BODY: usize = 32 << 20;
/// How long a client may take to send the head of a request, and then its body.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const BODY_PATIENCE: Duration = Duration::from_secs(30);
const MOST_CONNECTIONS: usize = 512;
const MOST_SESSIONS: usize = 1_000;
/// A session that nobody used for so long is over.
const SESSION_PATIENCE: Duration = Duration::from_secs(3600);

/// How a server is reached over HTTP.
#[derive(Clone, Debug)]
pub struct Http {
    address: SocketAddr,
    token: Option<String>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why a server cannot be reached over HTTP.
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpError {
    /// Others could reach it, and there is no token to tell them apart.
    NoToken(SocketAddr),
    /// The address cannot be listened on.
    Listen(SocketAddr, io::Error),
}

impl std::fmt::Display for HttpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoToken(address) => {
                write!(f, "{address} can be reached from other machines, and no token is set")
            }
            Self::Listen(address, error) => write!(f, "{address} cannot be listened on: {error}"),
        }
    }
}

impl std::error::Error for HttpError {}

impl Http {
    /// At this address. Port 0 takes a free one.
    pub fn at(address: SocketAddr) -> Self {
        let origins = ["localhost", "127.0.0.1", "[::1]"]
            .iter()
            .flat_map(|host| ["http", "https"].map(|scheme| format!("{scheme}://{host}:*")));
        let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        Self { address, token: None, hosts, origins: origins.collect() }
    }

    /// Requests must bring this as `Authorization: Bearer …`.
    #[must_use]
    pub fn token(mut self, token: Option<String>) -> Self {
        self.token = token.filter(|token| !token.is_empty());
        self
    }

    /// A further name that clients may know the server by.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        self.hosts.push(host.to_owned());
        self.origins.extend(["http", "https"].map(|scheme| format!("{scheme}://{host}:*")));
        self
    }
}

/// A server that listens.
pub struct Listening {
    listener: TcpListener,
    door: Arc<Door>,
}

struct Door {
    service: StreamableHttpService<Connection, Sessions>,
    sessions: Arc<Sessions>,
    token: Option<blake3::Hash>,
}

impl Server {
    /// Listens. Nothing is answered before [`Listening::serve`].
    ///
    /// # Errors
    /// When others could reach it and there is no token, or the address is taken.
    pub fn listen(&self, http: Http) -> BoxFuture<'_, Result<Listening, HttpError>> {
        Box::pin(self.bind(http))
    }

    async fn bind(&self, http: Http) -> Result<Listening, HttpError> {
        if !http.address.ip().is_loopback() && http.token.is_none() {
            return Err(HttpError::NoToken(http.address));
        }
        let listener = TcpListener::bind(http.address)
            .await
            .map_err(|error| HttpError::Listen(http.address, error))?;
        let mut sessions = Sessions::default();
        sessions.local.session_config.keep_alive = Some(SESSION_PATIENCE);
        let sessions = Arc::new(sessions);
        let mut hosts = http.hosts;
        hosts.push(http.address.ip().to_string());
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .with_allowed_origins(http.origins)
            .with_max_request_body_bytes(LARGEST_BODY);
        let server = self.clone();
        let service = StreamableHttpService::new(
            move || Ok(Connection::new(&server, Lasting::MaybeOneRequest)),
            sessions.clone(),
            config,
        );
        let token = http.token.map(|token| blake3::hash(token.as_bytes()));
        Ok(Listening { listener, door: Arc::new(Door { service, sessions, token }) })
    }
}

impl Listening {
    /// The address to give to clients.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}{PATH}", self.listener.local_addr()?))
    }

    /// Answers until called off. Boxed, so that all of rmcp is compiled in this crate and not once more in whoever calls.
    pub fn serve(self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(self.answer_all(stop))
    }

    async fn answer_all(self, stop: CancellationToken) {
        let newcomers = Newcomers::new(MOST_CONNECTIONS);
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // Out of descriptors: those that are open end sooner or later, and spinning would not help them.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let guest = newcomers.welcome();
            let (door, stop) = (self.door.clone(), stop.clone());
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let (door, guest) = (door.clone(), guest.clone());
                    async move { Ok::<_, Infallible>(door.answer(request, &guest).await) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_PATIENCE)
                    .serve_connection(TokioIo::new(stream), answer);
                tokio::select! {
                    // Whatever is wrong with a connection is over with it.
                    _ = connection => {}
                    () = guest.overdue() => {}
                    () = stop.cancelled() => {}
                }
            });
        }
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

impl Door {
    async fn answer(&self, request: Request<Incoming>, guest: &Guest) -> Answer {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "nothing is here; MCP is spoken at /mcp");
        }
        if !self.admits(request.headers()) {
            return unauthorized();
        }
        if !guest.admit() {
            return refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many connections; try again later",
            );
        }
        if self.would_be_too_many(&request).await {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many sessions; try again later");
        }
        let (head, body) = request.into_parts();
        let is_end = head.method == Method::DELETE;
        let mut answer = match whole(body).await {
            Ok(body) => self.service.handle(Request::from_parts(head, Full::new(body))).await,
            Err(refused) => *refused,
        };
        if is_end && answer.status() == StatusCode::ACCEPTED {
            // The session is over by now, and the Python client takes "accepted" for a failure.
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        answer
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(expected) = &self.token else { return true };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|given| given.split_once(' '));
        // Hashes are compared in constant time.
        token.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer")
                && blake3::hash(token.trim().as_bytes()) == *expected
        })
    }

    async fn would_be_too_many(&self, request: &Request<Incoming>) -> bool {
        request.method() == Method::POST
            && !request.headers().contains_key("mcp-session-id")
            && self.sessions.local.sessions.read().await.len() >= MOST_SESSIONS
    }
}

/// Read here and not further in, so that nobody can hold a request open by sending it slowly.
async fn whole(body: Incoming) -> Result<Bytes, Box<Answer>> {
    if body.size_hint().lower() > LARGEST_BODY as u64 {
        return Err(Box::new(too_large()));
    }
    match timeout(BODY_PATIENCE, Limited::new(body, LARGEST_BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Box::new(too_large())),
        Ok(Err(_)) => {
            Err(Box::new(refusal(StatusCode::BAD_REQUEST, "the body ended before its end")))
        }
        Err(_) => {
            Err(Box::new(refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive")))
        }
    }
}

fn too_large() -> Answer {
    let message = format!("the body is larger than {LARGEST_BODY} bytes");
    refusal(StatusCode::PAYLOAD_TOO_LARGE, &message)
}

fn unauthorized() -> Answer {
    let mut answer = refusal(
        StatusCode::UNAUTHORIZED,
        "a token is needed: send `Authorization: Bearer TOKEN` with the one this server was started with",
    );
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

/// What was wrong, as JSON-RPC says it: clients show that, and not the body of an HTTP error.
fn refusal(status: StatusCode, message: &str) -> Answer {
    let body = serde_json::json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": message}});
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

#[cfg(test)]
mod tests {
    use haft_core::Registry;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        time::Instant,
    };

    use super::*;

    /// The address of a server with this token.
    async fn served(token: Option<&str>) -> SocketAddr {
        let gate = haft_core::Gate::builder(Registry::default()).build();
        let http = Http::at(([127, 0, 0, 1], 0).into()).token(token.map(str::to_owned));
        let listening = Server::builder(gate).build().listen(http).await.expect("a free port");
        let address = listening.listener.local_addr().expect("it listens");
        tokio::spawn(listening.serve(CancellationToken::new()));
        address
    }

    /// What is answered to a request that is never finished, and after which time. The clock is tokio's own.
    async fn unfinished(request: &str) -> (String, Duration) {
        let address = served(None).await;
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it is taken");
        let begin = Instant::now();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer, or the end");
        (answer, begin.elapsed())
    }

    #[track_caller]
    fn check_about(waited: Duration, patience: Duration) {
        let late = waited.checked_sub(patience);
        assert!(late.is_some_and(|late| late < Duration::from_secs(1)), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_never_ends_is_hung_up_on() {
        let (answer, waited) = unfinished("POST /mcp HTTP/1.1\r\nHost: localhost\r\n").await;
        check_about(waited, newcomers::NEWCOMER_TIMEOUT);
        assert!(!answer.contains(" 200 "), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_not_waited_for() {
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{";
        let (answer, waited) = unfinished(head).await;
        check_about(waited, BODY_PATIENCE);
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }

    #[tokio::test]
    async fn half_open_connections_lock_no_client_out() {
        let address = served(Some("right")).await;
        let mut half_open = Vec::new();
        for _ in 0..MOST_CONNECTIONS + 2 * newcomers::MAX_NEWCOMERS {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            stream.write_all(b"POST /mcp HTTP/1.1\r\n").await.expect("it is taken");
            half_open.push(stream);
        }
        let request = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\nConnection: close\r\n\r\n";
        let mut client = TcpStream::connect(address).await.expect("it listens");
        client.write_all(request.as_bytes()).await.expect("it is taken");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 4"), "a wrong request, not an overload: {answer}");
        assert!(!answer.starts_with("HTTP/1.1 401"), "{answer}");
        // The oldest ones were hung up on.
        let mut rest = String::new();
        half_open[0].read_to_string(&mut rest).await.expect("the end");
        assert_eq!(rest, "");
    }

    #[tokio::test]
    async fn a_client_without_a_token_takes_no_place() {
        let newcomers = Newcomers::new(1);
        let (stranger, client) = (newcomers.welcome(), newcomers.welcome());
        assert!(client.admit() && client.admit(), "one place, taken once");
        assert!(!stranger.admit(), "the place is taken");
        drop(client);
        assert!(stranger.admit(), "it is free again");
    }
}
