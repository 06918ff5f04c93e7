//! The network as tools see it: the power to talk to other machines, and the backend that really does. Core connects to
//! nothing; `haft-exec` implements [`NetworkClient`], the one guarded way out.

use std::{sync::Arc, time::Duration};

use thiserror::Error;

use crate::{
    Access, BoxFuture, Call, Capability, ErrorKind, Grants, Need, Power, ToolError,
    access::host_of, secret_references,
};

/// What talks to other machines. Every request of every tool goes through it: it decides which addresses may be
/// connected to, follows redirects, bounds time and size, and puts secrets in.
pub trait NetworkClient: Send + Sync {
    /// Sends a request and follows where it leads. `permit` is asked about every address before it is opened, the first
    /// one included.
    ///
    /// # Errors
    /// With a [`NetworkError`] as their cause, which says what happened in a word. An answer that reports a failure (404, 500)
    /// is an answer.
    fn send<'a>(
        &'a self,
        request: Request,
        permit: &'a UrlCheck<'a>,
    ) -> BoxFuture<'a, Result<Response, ToolError>>;

    /// What the web is searched with.
    fn search(&self) -> &SearchEngine;
}

/// Whether this URL may be opened. It has no secrets in it.
pub type UrlCheck<'a> = dyn Fn(&str) -> Result<(), ToolError> + Send + Sync + 'a;

/// What to ask for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET`, `POST` …
    pub method: String,
    /// With http or https.
    pub url: String,
    /// Besides those that the client sends by itself.
    pub headers: Vec<(String, String)>,
    /// What is sent along.
    pub body: Vec<u8>,
    /// How long everything together may take; the client has a limit of its own.
    pub timeout: Option<Duration>,
    /// What it is for.
    pub purpose: Purpose,
}

impl Request {
    /// The secrets that would be sent with it, each to its host. Nothing for a request that carries none.
    pub fn secrets(&self) -> Vec<Access> {
        if self.purpose != Purpose::Exchange {
            return Vec::new();
        }
        // As a parser of addresses reads it.
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

/// What a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Reading a page: the rules of the site for machines count, and what was read a moment ago is not fetched again.
    #[default]
    Reading,
    /// Talking to a service: `secret:NAME` in headers, query and body stands for a secret.
    Exchange,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status, `200`.
    pub status: u16,
    /// Where it came from at last, without secrets.
    pub url: String,
    /// Where it was asked for on the way, without secrets and without `url`.
    pub redirects: Vec<String>,
    /// In the order of arrival, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Unpacked, whole.
    pub body: Vec<u8>,
    /// It was there already.
    pub is_cached: bool,
}

impl Response {
    /// The first header of this name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether it is what was asked for, and not a report of a failure.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// What the web is searched with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchEngine {
    /// Whose words to speak.
    pub kind: EngineKind,
    /// Where it is, when that is not where it usually is.
    pub url: Option<String>,
    /// The name of the secret that opens it.
    pub key: Option<String>,
}

/// The search engines whose words are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The page without scripts; no key.
    #[default]
    DuckDuckGo,
    /// An instance of one's own.
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

/// Why a request failed: the cause of a [`ToolError`], for programs that tell them apart.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkError {
    /// Nothing is known under the name.
    #[error("the name is not known")]
    Name,
    /// The address is one that is not talked to.
    #[error("the address is closed")]
    Address,
    /// Nobody listens there.
    #[error("the connection was refused")]
    Refused,
    /// There is no way there.
    #[error("there is no way there")]
    Unreachable,
    /// The other side does not prove to be who it should be.
    #[error("the other side's certificate is not trusted")]
    Untrusted,
    /// No protected connection came about.
    #[error("no protected connection came about")]
    Tls,
    /// The other side went away in the middle.
    #[error("the connection ended early")]
    Ended,
    /// What came is no HTTP, or packed wrongly.
    #[error("the answer cannot be understood")]
    Malformed,
    /// It took too long.
    #[error("it took too long")]
    Timeout,
    /// It is more than is taken.
    #[error("the answer is too large")]
    Size,
    /// It leads on and on.
    #[error("there are too many redirects")]
    Redirects,
    /// It leads where nobody agreed to go.
    #[error("the redirect is not followed")]
    Redirect,
    /// The site does not want machines there.
    #[error("the site does not want machines there")]
    Robots,
    /// There is no secret of that name, or it is not for this address.
    #[error("the secret is not to be had")]
    Secret,
    /// The proxy does not let it through.
    #[error("the proxy does not let it through")]
    Proxy,
}

impl NetworkError {
    /// An error with this as its cause.
    pub fn error(self, kind: ErrorKind, message: impl Into<String>) -> ToolError {
        ToolError::new(kind, message).caused_by(self)
    }

    /// The fault behind an error, if it is one.
    pub fn of(error: &ToolError) -> Option<Self> {
        std::error::Error::source(error)?.downcast_ref::<Self>().copied()
    }
}

/// The power to talk to other machines.
#[derive(Clone)]
pub struct Net {
    /// None where the program provides none: whoever only runs commands with the network needs none.
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
    /// Reaches whatever the client reaches; for calling a tool's function directly.
    pub fn unchecked(client: Arc<dyn NetworkClient>) -> Self {
        Self { client: Some(client), grants: None }
    }

    /// Sends what was granted. A redirect to another host is followed only where policy would let it be asked for
    /// without a question.
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

    /// Every secret that a request would carry has to be granted by name, for its host.
    fn check_secrets(&self, request: &Request) -> Result<(), ToolError> {
        let (Some(grants), Purpose::Exchange) = (&self.grants, request.purpose) else {
            return Ok(());
        };
        // The key that a person has set for the search engine is granted by that.
        let engine_key = self.client()?.search().key.as_deref();
        let is_engine_key = |access: &Access| matches!(access, Access::SendSecret { name, .. } if Some(name.as_str()) == engine_key);
        let accesses = request.secrets();
        let mut asked_for = accesses.iter().filter(|access| !is_engine_key(access));
        asked_for.try_for_each(|access| grants.check(access))
    }

    /// What the web is searched with.
    ///
    /// # Errors
    /// Of kind `unavailable` when the program provides no client.
    pub fn search(&self) -> Result<&SearchEngine, ToolError> {
        Ok(self.client()?.search())
    }

    fn client(&self) -> Result<&dyn NetworkClient, ToolError> {
        self.client.as_deref().ok_or_else(|| {
            ToolError::unavailable("this program provides no network client")
                .hint("add one with `Gate::builder().service::<dyn Client>(…)`")
        })
    }
}

fn check_redirect(grants: &Grants, url: &str) -> Result<(), ToolError> {
    let access = Access::Fetch(url.to_owned());
    if grants.would_allow(&access) {
        return Ok(());
    }
    grants.check(&access).map_err(|_| {
        let message = format!("it leads on to {url}, which this call was not granted");
        NetworkError::Redirect
            .error(ErrorKind::Denied, message)
            .hint(format!("call the tool with {url} if that is where you want to go"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_found_behind_its_error() {
        let error = NetworkError::Refused.error(ErrorKind::Network, "nobody listens at x");
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
