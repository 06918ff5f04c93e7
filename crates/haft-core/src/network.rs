//! The network as tools see it: the capability to contact other machines, and the trait of the
//! backend that does. Core opens no connections; `haft-exec` implements [`NetworkClient`].

use std::{sync::Arc, time::Duration};

use thiserror::Error;

use crate::{
    Access, BoxFuture, Call, Capability, ErrorKind, Grants, Need, Power, ToolError,
    access::host_of, secret_references,
};

/// The backend that contacts other machines. Every request of every tool goes through it. It
/// decides which addresses may be contacted, follows redirects, limits time and size, and inserts
/// secrets.
pub trait NetworkClient: Send + Sync {
    /// Sends a request and follows redirects. `permit` is called for every URL before it is opened,
    /// including the first.
    ///
    /// # Errors
    /// With a [`NetworkError`] as their cause, which says what happened. A response that reports a
    /// failure (404, 500) is not an error.
    fn send<'a>(
        &'a self,
        request: Request,
        permit: &'a UrlCheck<'a>,
    ) -> BoxFuture<'a, Result<Response, ToolError>>;

    /// Returns the search engine for web searches.
    fn search(&self) -> &SearchEngine;
}

/// Checks whether a URL may be opened. The URL contains no secrets.
pub type UrlCheck<'a> = dyn Fn(&str) -> Result<(), ToolError> + Send + Sync + 'a;

/// A request to send.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method: `GET`, `POST` …
    pub method: String,
    /// The URL, with http or https.
    pub url: String,
    /// Headers in addition to those that the client sends by itself.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Timeout for the whole request; the client has its own limit.
    pub timeout: Option<Duration>,
    /// The purpose of the request.
    pub purpose: Purpose,
}

impl Request {
    /// The secrets that the request would send, each with its host.
    pub fn secrets(&self) -> Vec<Access> {
        if self.purpose != Purpose::Exchange {
            return Vec::new();
        }
        // Removes the characters that a URL parser ignores.
        let url: String = self.url.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
        let query = url.split('#').next().and_then(|url| url.split_once('?'));
        let body = str::from_utf8(&self.body).unwrap_or_default();
        let texts = self.headers.iter().map(|(_, value)| value.as_str());
        let texts = texts.chain(query.map(|(_, query)| query)).chain([body]);
        let mut found: Vec<Access> = Vec::new();
        for name in texts.flat_map(secret_references) {
            let host = host_of(&url);
            let access = Access::SendSecret { name: name.to_owned(), host, is_bound: false };
            if !found.contains(&access) {
                found.push(access);
            }
        }
        found
    }
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Reading a page: robots.txt applies, and recently read pages come from the cache.
    #[default]
    Reading,
    /// Talking to a service: `secret:NAME` in headers, query and body stands for a secret.
    Exchange,
}

/// A response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status, `200`.
    pub status: u16,
    /// The final URL, without secrets.
    pub url: String,
    /// The URLs that redirected to it, without secrets and without `url`.
    pub redirects: Vec<String>,
    /// The headers in the order of arrival, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body, decompressed.
    pub body: Vec<u8>,
    /// True if the response comes from the cache.
    pub is_cached: bool,
}

impl Response {
    /// The first header with this name, which must be in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns true if the status reports success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// The search engine for web searches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchEngine {
    /// The kind of the engine.
    pub kind: EngineKind,
    /// The URL, if it is not the default one.
    pub url: Option<String>,
    /// The name of the secret with the API key.
    pub key: Option<String>,
}

/// The supported search engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The page without scripts; no key.
    #[default]
    DuckDuckGo,
    /// A self-hosted instance.
    SearXng,
    /// With a key.
    Brave,
    /// With a key.
    Tavily,
    /// With a key.
    Exa,
}

impl EngineKind {
    /// Every engine with its name in configuration files.
    pub const ALL: [(&'static str, Self); 5] = [
        ("duckduckgo", Self::DuckDuckGo),
        ("searxng", Self::SearXng),
        ("brave", Self::Brave),
        ("tavily", Self::Tavily),
        ("exa", Self::Exa),
    ];

    /// The name in configuration files.
    pub fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, kind)| *kind == self);
        known.map_or("", |(name, _)| name)
    }
}

/// The reason why a request failed: the cause of a [`ToolError`], for programs that distinguish
/// them.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkError {
    /// The host name could not be resolved.
    #[error("unknown host name")]
    Name,
    /// The address may not be contacted.
    #[error("address not allowed")]
    Address,
    /// No process listens on the port.
    #[error("connection refused")]
    Refused,
    /// The network is unreachable.
    #[error("network unreachable")]
    Unreachable,
    /// The server's certificate is not trusted.
    #[error("server certificate not trusted")]
    Untrusted,
    /// The TLS handshake failed.
    #[error("TLS handshake failed")]
    Tls,
    /// The server closed the connection early.
    #[error("connection closed early")]
    Ended,
    /// The response is not valid HTTP, or its compression is invalid.
    #[error("malformed response")]
    Malformed,
    /// The timeout passed.
    #[error("timed out")]
    Timeout,
    /// The response exceeds the size limit.
    #[error("response too large")]
    Size,
    /// The redirects do not end.
    #[error("too many redirects")]
    Redirects,
    /// The redirect leads to an address that was not permitted.
    #[error("redirect not permitted")]
    Redirect,
    /// The site's robots.txt excludes the page.
    #[error("excluded by robots.txt")]
    Robots,
    /// The secret does not exist, or is not for this host.
    #[error("secret not available")]
    Secret,
    /// The proxy refused the request.
    #[error("refused by the proxy")]
    Proxy,
}

impl NetworkError {
    /// Creates an error with this cause.
    pub fn error(self, kind: ErrorKind, message: impl Into<String>) -> ToolError {
        ToolError::new(kind, message).caused_by(self)
    }

    /// The cause of an error, if it is a network error.
    pub fn of(error: &ToolError) -> Option<Self> {
        std::error::Error::source(error)?.downcast_ref::<Self>().copied()
    }
}

/// The capability to contact other machines.
#[derive(Clone)]
pub struct Net {
    /// `None` if the program provides no client: tools that only run commands with network access
    /// need none.
    client: Option<Arc<dyn NetworkClient>>,
    grants: Option<Grants>,
}

#[diagnostic::do_not_recommend]
impl Capability for Net {
    const NEED: Need = Need::required(Power::Net);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        Ok(Self { client: call.service().ok(), grants: Some(call.grants().clone()) })
    }
}

impl Net {
    /// Reaches everything the client can reach, for calling a tool's function directly.
    pub fn unchecked(client: Arc<dyn NetworkClient>) -> Self {
        Self { client: Some(client), grants: None }
    }

    /// Sends a request that was granted. A redirect to another host is followed only if policy
    /// would allow it without approval.
    ///
    /// # Errors
    /// Of kind `denied` for anything else; otherwise as [`NetworkClient::send`].
    pub async fn send(&self, request: Request) -> Result<Response, ToolError> {
        self.check_secrets(&request)?;
        let first = request.url.clone();
        let permit = |url: &str| match &self.grants {
            None => Ok(()),
            Some(grants) if url == first => grants.check(&Access::Fetch(url.to_owned())),
            Some(grants) => check_redirect(grants, url),
        };
        self.client()?.send(request, &permit).await
    }

    /// Checks that every secret in a request was granted by name, for its host.
    fn check_secrets(&self, request: &Request) -> Result<(), ToolError> {
        let (Some(grants), Purpose::Exchange) = (&self.grants, request.purpose) else {
            return Ok(());
        };
        // The user's configuration of the search engine grants its key.
        let engine_key = self.client()?.search().key.as_deref();
        let is_engine_key = |access: &Access| match access {
            Access::SendSecret { name, .. } => Some(name.as_str()) == engine_key,
            _ => false,
        };
        let accesses = request.secrets();
        let mut asked_for = accesses.iter().filter(|access| !is_engine_key(access));
        asked_for.try_for_each(|access| grants.check(access))
    }

    /// Returns the search engine for web searches.
    ///
    /// # Errors
    /// Of kind `unavailable` if the program provides no client.
    pub fn search(&self) -> Result<&SearchEngine, ToolError> {
        Ok(self.client()?.search())
    }

    fn client(&self) -> Result<&dyn NetworkClient, ToolError> {
        self.client.as_deref().ok_or_else(|| {
            ToolError::unavailable("this program provides no network client")
                .hint("add one with `Gate::builder().service::<dyn NetworkClient>(…)`")
        })
    }
}

fn check_redirect(grants: &Grants, url: &str) -> Result<(), ToolError> {
    let access = Access::Fetch(url.to_owned());
    if grants.would_allow(&access) {
        return Ok(());
    }
    grants.check(&access).map_err(|_| {
        let message = format!("it redirects to {url}, which this call was not granted");
        NetworkError::Redirect
            .error(ErrorKind::Denied, message)
            .hint(format!("call the tool with {url} to follow the redirect"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_an_error_is_found() {
        let error = NetworkError::Refused.error(ErrorKind::Network, "connection refused by x");
        assert_eq!(NetworkError::of(&error), Some(NetworkError::Refused));
        assert_eq!(NetworkError::of(&ToolError::input("x")), None);
    }

    #[test]
    fn every_engine_has_its_name() {
        for (name, kind) in EngineKind::ALL {
            assert_eq!(kind.name(), name);
        }
    }
}
