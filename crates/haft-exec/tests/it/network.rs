//! The guarded client with real sockets of this machine, which the tests allow.

mod addresses;
mod bad_peers;
mod pages;
mod protected;
mod redirects;
mod secrets;
pub(crate) mod server;

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_core::{
    BoxFuture, ErrorKind, ToolError,
    network::{NetworkClient, NetworkError, Purpose, Request, Response},
};
use haft_exec::{Network, NetworkSettings, Resolve};

/// A resolver for tests: each lookup of a name returns its next result, and the last one
/// repeatedly.
#[derive(Default)]
pub(crate) struct Names {
    answers: HashMap<&'static str, Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Names {
    pub(crate) fn one(name: &'static str, answers: &[&[&str]]) -> Arc<Self> {
        Self::many(&[(name, answers)])
    }

    pub(crate) fn many(names: &[(&'static str, &[&[&str]])]) -> Arc<Self> {
        let parse = |answer: &&[&str]| {
            answer.iter().map(|text| text.parse().expect("an address")).collect()
        };
        let answers =
            names.iter().map(|(name, answers)| (*name, answers.iter().map(parse).collect()));
        Arc::new(Self { answers: answers.collect(), asked: AtomicUsize::new(0) })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Acquire)
    }
}

impl Resolve for Names {
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let times = self.asked.fetch_add(1, Ordering::AcqRel);
        let answers = self.answers.get(host);
        let answer = answers.and_then(|all| all.get(times).or(all.last())).cloned();
        Box::pin(async move { answer.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

/// Settings that let the tests reach these addresses.
pub(crate) fn open_to(addresses: &[SocketAddr]) -> NetworkSettings {
    let mut settings = NetworkSettings::default();
    settings.allow =
        addresses.iter().map(|address| address.to_string().parse().expect("an entry")).collect();
    // Generous: only a failing test waits this long.
    settings.timeout = Duration::from_secs(60);
    settings
}

pub(crate) fn get(url: &str) -> Request {
    Request {
        method: "GET".to_owned(),
        url: url.to_owned(),
        purpose: Purpose::Exchange,
        ..Request::default()
    }
}

pub(crate) async fn send(client: &Network, request: Request) -> Result<Response, ToolError> {
    client.send(request, &|_| Ok(())).await
}

pub(crate) fn text(response: &Response) -> &str {
    std::str::from_utf8(&response.body).expect("UTF-8")
}

/// Returns the error of a request that must fail: the kind, the cause, the message with its next
/// step.
#[track_caller]
pub(crate) fn failure(
    result: Result<Response, ToolError>,
) -> (ErrorKind, Option<NetworkError>, String) {
    let error = result.map(|response| response.status).expect_err("it must fail");
    (error.kind(), NetworkError::of(&error), format!("{} / {}", error.message(), error.next_step()))
}
