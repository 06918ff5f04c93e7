//! The guarded HTTP client, the only access to other machines. It is built on hyper's connections
//! instead of reqwest, because we open the socket ourselves: it connects to exactly the address
//! that was checked, and we limit every redirect, header, compressed byte and second. hyper was a
//! dependency already, so only TLS is added. HTTP/1.1, one connection per request: without idle
//! connections each request pays a handshake, but nothing needs to be kept or revalidated.
//!
//! Through a proxy, the proxy resolves the names. Addresses in URLs and names that are never public
//! are still refused here; the proxy judges everything else.
//! refused here, and everything else is for the proxy to judge.

mod address;
mod allowed;
mod cache;
mod connect;
pub(crate) mod credentials;
mod errors;
mod exchange;
mod rate_limit;
mod redirects;
mod resolve;
mod robots;
mod secrets;
mod target;
#[cfg(test)]
mod tests;
mod tls;
mod unpack;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use haft_core::{
    BoxFuture, ToolError, Vault,
    network::{NetworkClient, Request, Response, SearchEngine, UrlCheck},
};
use tokio_rustls::rustls::ClientConfig;

pub use self::{allowed::Allowed, resolve::Resolve};
use self::{cache::PageCache, credentials::Credential, rate_limit::RateLimiter, resolve::System};
use crate::Variables;

/// Maximum timeout that a caller can set.
const MAX_TIMEOUT: Duration = Duration::from_secs(120);

/// Settings of the client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NetworkSettings {
    /// Local services that are allowed anyway.
    pub allow: Vec<Allowed>,
    /// A proxy for all requests, `http://proxy.corp:3128`, with user name and password if it needs
    /// them.
    pub proxy: Option<url::Url>,
    /// PEM files with additional certificate authorities.
    pub authorities: Vec<PathBuf>,
    /// Timeout of a request that does not set one.
    pub timeout: Duration,
    /// Maximum size of a body, compressed and uncompressed.
    pub max_bytes: usize,
    /// Maximum number of requests per host and minute; 0 means unlimited.
    pub per_minute: usize,
    /// Obeys robots.txt.
    pub respects_robots: bool,
    /// Follows redirects from https to http.
    pub allows_downgrade: bool,
    /// The secrets by name, and the hosts they may be sent to.
    pub credentials: Vec<Credential>,
    /// Returns the environment variables that may hold secrets.
    pub variables: fn() -> Variables,
    /// Provides the secrets that no variable holds.
    pub vault: Option<Arc<dyn Vault>>,
    /// The search engine of `web_search`.
    pub search: SearchEngine,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            proxy: None,
            authorities: Vec::new(),
            timeout: Duration::from_secs(30),
            max_bytes: 5 << 20,
            per_minute: 0,
            respects_robots: false,
            allows_downgrade: false,
            credentials: Vec::new(),
            variables: Vec::new,
            vault: None,
            search: SearchEngine::default(),
        }
    }
}

/// The guarded client. It costs nothing until it is used.
pub struct Network {
    settings: NetworkSettings,
    resolver: Arc<dyn Resolve>,
    tls: OnceLock<Arc<ClientConfig>>,
    pace: RateLimiter,
    cache: PageCache,
    /// The robots.txt rules of visited sites, by origin.
    robots: PageCache,
}

impl Network {
    /// Creates a client with the resolver of this machine.
    pub fn new(settings: NetworkSettings) -> Self {
        Self::with_resolver(settings, Arc::new(System))
    }

    /// Creates a client with another resolver.
    pub fn with_resolver(settings: NetworkSettings, resolver: Arc<dyn Resolve>) -> Self {
        Self {
            settings,
            resolver,
            tls: OnceLock::new(),
            pace: RateLimiter::default(),
            cache: PageCache::default(),
            robots: PageCache::default(),
        }
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, ToolError> {
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let config = tls::config(&self.settings.authorities)?;
        Ok(self.tls.get_or_init(|| config).clone())
    }
}

impl NetworkClient for Network {
    fn send<'a>(
        &'a self,
        request: Request,
        permit: &'a UrlCheck<'a>,
    ) -> BoxFuture<'a, Result<Response, ToolError>> {
        Box::pin(async move {
            let limit = request.timeout.unwrap_or(self.settings.timeout).min(MAX_TIMEOUT);
            let url = request.url.clone();
            match tokio::time::timeout(limit, self.send_and_follow(request, permit)).await {
                Ok(done) => done,
                Err(_) => Err(errors::timed_out(&target::short(&url), limit)),
            }
        })
    }

    fn search(&self) -> &SearchEngine {
        &self.settings.search
    }
}
