//! A server over streamable HTTP. rmcp speaks the protocol; this module limits who may connect, how
//! much they may send, and how long they may take.

mod connection_limit;
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
    connection_limit::{ConnectionLimit, LimitedConnection},
    sessions::HttpSessions,
};
use crate::{
    connection::{Connection, ConnectionLifetime},
    server::Server,
};

/// The path of the endpoint.
const PATH: &str = "/mcp";
/// Maximum size of a request. Fits a `write` of the largest file that tools accept.
const MAX_BODY_BYTES: usize = 32 << 20;
/// Time limits for the head of a request, and for its body.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_CONNECTIONS: usize = 512;
const MAX_SESSIONS: usize = 1_000;
/// Time after which an unused session ends.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3600);

/// Settings of a server over HTTP.
#[derive(Clone, Debug)]
pub struct Http {
    address: SocketAddr,
    token: Option<String>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// The reason why a server cannot listen.
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpError {
    /// Other machines could reach it, and no token is set.
    NoToken(SocketAddr),
    /// The address cannot be bound.
    Listen(SocketAddr, io::Error),
}

impl std::fmt::Display for HttpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoToken(address) => {
                write!(f, "{address} can be reached from other machines, but no token is set")
            }
            Self::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
        }
    }
}

impl std::error::Error for HttpError {}

impl Http {
    /// Listens on this address. Port 0 takes a free port.
    pub fn at(address: SocketAddr) -> Self {
        let origins = ["localhost", "127.0.0.1", "[::1]"]
            .iter()
            .flat_map(|host| ["http", "https"].map(|scheme| format!("{scheme}://{host}:*")));
        let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        Self { address, token: None, hosts, origins: origins.collect() }
    }

    /// Requires `Authorization: Bearer …` with this token.
    #[must_use]
    pub fn token(mut self, token: Option<String>) -> Self {
        self.token = token.filter(|token| !token.is_empty());
        self
    }

    /// Allows a further host name in requests.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        self.hosts.push(host.to_owned());
        self.origins.extend(["http", "https"].map(|scheme| format!("{scheme}://{host}:*")));
        self
    }
}

/// A listening server.
pub struct HttpListener {
    listener: TcpListener,
    endpoint: Arc<HttpEndpoint>,
}

struct HttpEndpoint {
    service: StreamableHttpService<Connection, HttpSessions>,
    sessions: Arc<HttpSessions>,
    token: Option<blake3::Hash>,
}

impl Server {
    /// Starts to listen. Requests are answered by [`HttpListener::serve`].
    ///
    /// # Errors
    /// When other machines could reach the server without a token, or the address is taken.
    pub fn listen(&self, http: Http) -> BoxFuture<'_, Result<HttpListener, HttpError>> {
        Box::pin(self.bind(http))
    }

    async fn bind(&self, http: Http) -> Result<HttpListener, HttpError> {
        if !http.address.ip().is_loopback() && http.token.is_none() {
            return Err(HttpError::NoToken(http.address));
        }
        let listener = TcpListener::bind(http.address)
            .await
            .map_err(|error| HttpError::Listen(http.address, error))?;
        let mut sessions = HttpSessions::default();
        sessions.local.session_config.keep_alive = Some(SESSION_TIMEOUT);
        let sessions = Arc::new(sessions);
        let mut hosts = http.hosts;
        hosts.push(http.address.ip().to_string());
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .with_allowed_origins(http.origins)
            .with_max_request_body_bytes(MAX_BODY_BYTES);
        let server = self.clone();
        let service = StreamableHttpService::new(
            move || Ok(Connection::new(&server, ConnectionLifetime::MaybeOneRequest)),
            sessions.clone(),
            config,
        );
        let token = http.token.map(|token| blake3::hash(token.as_bytes()));
        Ok(HttpListener { listener, endpoint: Arc::new(HttpEndpoint { service, sessions, token }) })
    }
}

impl HttpListener {
    /// Returns the URL for clients.
    ///
    /// # Errors
    /// When the system does not return the address.
    pub fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}{PATH}", self.listener.local_addr()?))
    }

    /// Answers until cancelled. Boxed, so that rmcp is compiled in this crate and not again in the
    /// caller's.
    pub fn serve(self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(self.answer_all(stop))
    }

    async fn answer_all(self, stop: CancellationToken) {
        let limit = ConnectionLimit::new(MAX_CONNECTIONS);
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // Probably out of file descriptors: open connections will end; retrying at once
                // would not help them.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let peer = limit.register();
            let (endpoint, stop) = (self.endpoint.clone(), stop.clone());
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let (endpoint, peer) = (endpoint.clone(), peer.clone());
                    async move { Ok::<_, Infallible>(endpoint.answer(request, &peer).await) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), answer);
                tokio::select! {
                    // An error ends the connection and needs no report.
                    _ = connection => {}
                    () = peer.expired() => {}
                    () = stop.cancelled() => {}
                }
            });
        }
    }
}

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

impl HttpEndpoint {
    async fn answer(&self, request: Request<Incoming>, peer: &LimitedConnection) -> HttpResponse {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "not found; the MCP endpoint is /mcp");
        }
        if !self.is_authorized(request.headers()) {
            return unauthorized();
        }
        if !peer.admit() {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many connections; retry later");
        }
        if self.exceeds_session_limit(&request).await {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many sessions; retry later");
        }
        let (head, body) = request.into_parts();
        let is_delete = head.method == Method::DELETE;
        let mut answer = match read_body(body).await {
            Ok(body) => self.service.handle(Request::from_parts(head, Full::new(body))).await,
            Err(refused) => *refused,
        };
        if is_delete && answer.status() == StatusCode::ACCEPTED {
            // The session has ended, and the Python client treats "accepted" as a failure.
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        answer
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let Some(expected) = &self.token else { return true };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|given| given.split_once(' '));
        // blake3 compares hashes in constant time.
        token.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer")
                && blake3::hash(token.trim().as_bytes()) == *expected
        })
    }

    async fn exceeds_session_limit(&self, request: &Request<Incoming>) -> bool {
        request.method() == Method::POST
            && !request.headers().contains_key("mcp-session-id")
            && self.sessions.local.sessions.read().await.len() >= MAX_SESSIONS
    }
}

/// Reads the body here with a time limit, so that a slow sender cannot hold a request open.
async fn read_body(body: Incoming) -> Result<Bytes, Box<HttpResponse>> {
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(Box::new(too_large()));
    }
    match timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Box::new(too_large())),
        Ok(Err(_)) => Err(Box::new(refusal(StatusCode::BAD_REQUEST, "the body is incomplete"))),
        Err(_) => {
            Err(Box::new(refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive")))
        }
    }
}

fn too_large() -> HttpResponse {
    let message = format!("the body is larger than {MAX_BODY_BYTES} bytes");
    refusal(StatusCode::PAYLOAD_TOO_LARGE, &message)
}

fn unauthorized() -> HttpResponse {
    let mut answer = refusal(
        StatusCode::UNAUTHORIZED,
        "a token is required: send `Authorization: Bearer TOKEN` with the token of this server",
    );
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

/// Reports an error as JSON-RPC, because clients show that and not the body of an HTTP error.
fn refusal(status: StatusCode, message: &str) -> HttpResponse {
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

    /// Returns the address of a server with this token.
    async fn served(token: Option<&str>) -> SocketAddr {
        let gate = haft_core::Gate::builder(Registry::default()).build();
        let http = Http::at(([127, 0, 0, 1], 0).into()).token(token.map(str::to_owned));
        let listening = Server::builder(gate).build().listen(http).await.expect("a free port");
        let address = listening.listener.local_addr().expect("it listens");
        tokio::spawn(listening.serve(CancellationToken::new()));
        address
    }

    /// Returns the answer to a request that is never finished, and the time until it. The clock is
    /// tokio's.
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
    fn check_about(waited: Duration, expected: Duration) {
        let late = waited.checked_sub(expected);
        assert!(late.is_some_and(|late| late < Duration::from_secs(1)), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_never_ends_is_disconnected() {
        let (answer, waited) = unfinished("POST /mcp HTTP/1.1\r\nHost: localhost\r\n").await;
        check_about(waited, connection_limit::AUTHENTICATION_TIMEOUT);
        assert!(!answer.contains(" 200 "), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_times_out() {
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{";
        let (answer, waited) = unfinished(head).await;
        check_about(waited, BODY_TIMEOUT);
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }

    #[tokio::test]
    async fn half_open_connections_lock_no_client_out() {
        let address = served(Some("right")).await;
        let mut half_open = Vec::new();
        for _ in 0..MAX_CONNECTIONS + 2 * connection_limit::MAX_UNAUTHENTICATED {
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
        // The oldest connections were closed.
        let mut rest = String::new();
        half_open[0].read_to_string(&mut rest).await.expect("the end");
        assert_eq!(rest, "");
    }

    #[tokio::test]
    async fn a_client_without_a_token_takes_no_slot() {
        let limit = ConnectionLimit::new(1);
        let (stranger, client) = (limit.register(), limit.register());
        assert!(client.admit() && client.admit(), "one slot, taken once");
        assert!(!stranger.admit(), "the slot is taken");
        drop(client);
        assert!(stranger.admit(), "it is free again");
    }
}
