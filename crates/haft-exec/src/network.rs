//! The one way out to other machines, and what guards it. Built on hyper's connections, not on reqwest: here the address
//! that was judged is the one that is connected to, because we open the socket ourselves; every redirect, header, packed
//! byte and second is ours to bound; and hyper is there already, so that only TLS comes on top. HTTP/1.1, a connection for
//! each request: nothing idle is kept, which costs a handshake and saves the memory and the doubt.
//!
//! Through a proxy the names are the proxy's to resolve. Then addresses in URLs and names that are never public are still
//! refused here, and everything else is for the proxy to judge.

mod address;
mod allowed;
mod cache;
mod connect;
pub(crate) mod credentials;
mod exchange;
mod fault;
mod journey;
mod pace;
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
use self::{cache::Cache, credentials::Credential, pace::Pace, resolve::System};
use crate::Variables;

/// However long somebody wants to wait.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(120);

/// What the client may do, and how it goes out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NetworkSettings {
    /// Local services that are open all the same.
    pub allow: Vec<Allowed>,
    /// A proxy for everything, `http://proxy.corp:3128`, with a name and password in it if it wants them.
    pub proxy: Option<url::Url>,
    /// Files with certificates of further authorities.
    pub authorities: Vec<PathBuf>,
    /// How long a request may take when it does not say.
    pub timeout: Duration,
    /// The longest body, packed and unpacked.
    pub most_bytes: usize,
    /// How often a host may be asked in a minute; 0 for as often as anybody likes.
    pub per_minute: usize,
    /// What sites want machines to leave alone is left alone.
    pub respects_robots: bool,
    /// A redirect may lead from https to http.
    pub may_unprotect: bool,
    /// Secrets by name, and where they may be sent.
    pub credentials: Vec<Credential>,
    /// Where secrets are.
    pub variables: fn() -> Variables,
    /// And where they are when no variable holds them.
    pub vault: Option<Arc<dyn Vault>>,
    /// What the web is searched with.
    pub search: SearchEngine,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            proxy: None,
            authorities: Vec::new(),
            timeout: Duration::from_secs(30),
            most_bytes: 5 << 20,
            per_minute: 0,
            respects_robots: false,
            may_unprotect: false,
            credentials: Vec::new(),
            variables: Vec::new,
            vault: None,
            search: SearchEngine::default(),
        }
    }
}

/// The guarded client. Costs nothing until it is used.
pub struct Network {
    settings: NetworkSettings,
    resolver: Arc<dyn Resolve>,
    tls: OnceLock<Arc<ClientConfig>>,
    pace: Pace,
    cache: Cache,
    /// The rules of sites that were looked at, by origin.
    robots: Cache,
}

impl Network {
    /// A client that resolves names as this machine does.
    pub fn new(settings: NetworkSettings) -> Self {
        Self::with_resolver(settings, Arc::new(System))
    }

    /// The same with names resolved by somebody else.
    pub fn with_resolver(settings: NetworkSettings, resolver: Arc<dyn Resolve>) -> Self {
        Self {
            settings,
            resolver,
            tls: OnceLock::new(),
            pace: Pace::default(),
            cache: Cache::default(),
            robots: Cache::default(),
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
            let limit = request.timeout.unwrap_or(self.settings.timeout).min(LONGEST_TIMEOUT);
            let url = request.url.clone();
            match tokio::time::timeout(limit, self.travel(request, permit)).await {
                Ok(done) => done,
                Err(_) => Err(fault::overdue(&target::short(&url), limit)),
            }
        })
    }

    fn search(&self) -> &SearchEngine {
        &self.settings.search
    }
}
