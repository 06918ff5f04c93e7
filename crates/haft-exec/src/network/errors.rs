//! Error messages with a next step. The structure of an error decides which one applies, never its
//! text.

use std::{io, time::Duration};

use haft_core::{ErrorKind, ToolError, network::NetworkError};
use tokio_rustls::rustls;

pub(super) fn unknown_name(host: &str) -> ToolError {
    NetworkError::Name
        .error(ErrorKind::Network, format!("the name {host} cannot be resolved"))
        .hint("check the spelling of the host, and whether this machine has a network")
}

pub(super) fn address_blocked(host: &str, port: u16, what: &str) -> ToolError {
    let message = format!("{host} is {what}, which is blocked");
    NetworkError::Address.error(ErrorKind::Denied, message).hint(format!(
        "to allow this service, add `{host}:{port}` to `allow` under [network] in your own config"
    ))
}

pub(super) fn timed_out(shown: &str, limit: Duration) -> ToolError {
    NetworkError::Timeout
        .error(ErrorKind::Timeout, format!("{shown} did not respond completely within {limit:?}"))
        .hint("give the call a longer timeout, up to 120 seconds, or try again later")
}

pub(super) fn connect_timed_out(place: &str, limit: Duration) -> ToolError {
    NetworkError::Timeout
        .error(ErrorKind::Timeout, format!("no connection to {place} within {limit:?}"))
        .hint("the host may be down or a firewall may drop the packets; try again later")
}

pub(super) fn too_large(shown: &str, limit: usize) -> ToolError {
    NetworkError::Size
        .error(ErrorKind::TooLarge, format!("{shown} responds with more than {limit} bytes"))
        .hint("ask for a part of it, or raise `max_bytes` under [network] in your own config")
}

pub(super) fn head_too_large(shown: &str) -> ToolError {
    NetworkError::Size
        .error(ErrorKind::TooLarge, format!("the response headers of {shown} are too long"))
        .hint("the service is faulty; use another of its addresses")
}

pub(super) fn malformed(shown: &str, what: &str) -> ToolError {
    NetworkError::Malformed
        .error(ErrorKind::Network, format!("invalid response from {shown}: {what}"))
        .hint("check that an HTTP service runs at this address and port, and http against https")
}

/// For errors while connecting, reading and writing.
pub(super) fn io(place: &str, error: &io::Error) -> ToolError {
    if let Some(inner) = error.get_ref()
        && let Some(inner) = inner.downcast_ref::<rustls::Error>()
    {
        return tls(place, inner);
    }
    let (fault, what, hint) = match error.kind() {
        io::ErrorKind::ConnectionRefused => (
            NetworkError::Refused,
            "connection refused",
            "check the port, and whether the service runs",
        ),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => (
            NetworkError::Unreachable,
            "network unreachable",
            "check whether this machine has a network",
        ),
        io::ErrorKind::TimedOut => {
            (NetworkError::Timeout, "it does not respond", "try again later")
        }
        _ => (
            NetworkError::Ended,
            "the connection ended before the response was complete",
            "try again; if it persists, the service is faulty",
        ),
    };
    let kind = if fault == NetworkError::Timeout { ErrorKind::Timeout } else { ErrorKind::Network };
    fault.error(kind, format!("{place}: {what}")).hint(hint)
}

pub(super) fn tls(place: &str, error: &rustls::Error) -> ToolError {
    match error {
        rustls::Error::InvalidCertificate(why) => NetworkError::Untrusted
            .error(ErrorKind::Network, format!("cannot verify {place}: {}", reason(why)))
            .hint(
                "if it is a service of your own, name the certificate of its authority under `ca` in [network] of your \
                 own config; otherwise do not trust it",
            ),
        _ => NetworkError::Tls
            .error(ErrorKind::Network, format!("{place}: the TLS handshake failed: {error}"))
            .hint("check that the port speaks https, or use http if it does not"),
    }
}

fn reason(why: &rustls::CertificateError) -> &'static str {
    use rustls::CertificateError as Why;
    match why {
        Why::Expired | Why::ExpiredContext { .. } => "its certificate has expired",
        Why::NotValidYet | Why::NotValidYetContext { .. } => "its certificate is not valid yet",
        Why::NotValidForName | Why::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        Why::Revoked => "its certificate was revoked",
        Why::UnknownIssuer => "its certificate is signed by an unknown authority",
        _ => "its certificate cannot be accepted",
    }
}

pub(super) fn http(shown: &str, error: &hyper::Error) -> ToolError {
    if error.is_parse_too_large() {
        return head_too_large(shown);
    }
    if error.is_parse() || error.is_parse_status() {
        return malformed(shown, "it is not HTTP");
    }
    if error.is_incomplete_message() {
        return io(shown, &io::ErrorKind::UnexpectedEof.into());
    }
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            return io(shown, inner);
        }
        source = inner.source();
    }
    malformed(shown, "its body violates HTTP")
}
