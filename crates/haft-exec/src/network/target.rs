//! Parses the URL of a request, and resolves the addresses that it may connect to.

use std::net::{IpAddr, SocketAddr};

use haft_core::{ErrorKind, ToolError, network::NetworkError};
use url::{Host, Url};

use super::{Network, address, errors};

const MAX_URL_BYTES: usize = 8 << 10;
/// Maximum length of a URL in a message.
const MAX_SHOWN_CHARS: usize = 200;

/// Ports that browsers block too: their services speak another protocol and could interpret a
/// request as commands.
const BLOCKED_PORTS: [u16; 82] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666,
    6667, 6668, 6669, 6697,
];

/// Names that are never public, for requests that a proxy resolves.
const LOCAL_NAMES: [&str; 6] =
    ["localhost", "local", "internal", "lan", "home.arpa", "localdomain"];

/// Parses a URL and checks everything that can be checked without resolving its name.
pub(super) fn parse(text: &str) -> Result<Url, ToolError> {
    let refuse = |problem: &str, hint: &str| {
        Err(ToolError::input(format!("url: {} {problem}", short(text))).hint(hint))
    };
    if text.len() > MAX_URL_BYTES {
        return refuse("is longer than 8192 bytes", "send long data in the body of a POST");
    }
    let Ok(url) = Url::parse(text) else {
        return refuse("is not a URL", "write the full URL, as in https://example.org/page");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refuse(
            "is neither http nor https",
            "only these two are fetched; files are read with `read`",
        );
    }
    if !url.username().is_empty() || url.password().is_some() {
        let hint =
            "leave them out; `http_request` sends an Authorization header with `secret:NAME`";
        return refuse("has a user name or password in it", hint);
    }
    if url.host_str().is_none_or(|host| host.trim_matches('.').is_empty()) {
        return refuse("has no host", "write the full URL, as in https://example.org/page");
    }
    Ok(url)
}

/// The host for resolving, comparing and certificates: lower case, without a trailing dot.
pub(super) fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_end_matches('.').to_owned()
}

pub(super) fn port(url: &Url) -> u16 {
    url.port_or_known_default().unwrap_or(0)
}

/// The host, and the port if it is not the default one.
pub(super) fn authority(url: &Url) -> String {
    url.port().map_or_else(|| host(url), |port| format!("{}:{port}", host(url)))
}

/// A URL for messages: on one line and not too long.
pub(super) fn short(url: &str) -> String {
    let plain = url.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut shown: String = plain.clone().take(MAX_SHOWN_CHARS).collect();
    if plain.count() > MAX_SHOWN_CHARS {
        shown.push('\u{2026}');
    }
    shown
}

impl Network {
    /// Returns the addresses to connect to, after checking each one. One blocked address blocks the
    /// name: a name with public and private addresses is an attack.
    pub(super) async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, ToolError> {
        let (name, port) = (host(url), port(url));
        let is_named = self.settings.allow.iter().any(|allowed| allowed.names(&name, port));
        let found: Vec<IpAddr> = match url.host() {
            Some(Host::Ipv4(address)) => vec![address.into()],
            Some(Host::Ipv6(address)) => vec![address.into()],
            _ => self.resolver.addresses(&name).await.map_err(|_| errors::unknown_name(&name))?,
        };
        if found.is_empty() {
            return Err(errors::unknown_name(&name));
        }
        let found: Vec<SocketAddr> =
            found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        for address in &found {
            self.judge(*address, &name, is_named)?;
        }
        Ok(found)
    }

    fn judge(&self, address: SocketAddr, name: &str, is_named: bool) -> Result<(), ToolError> {
        if is_named || self.settings.allow.iter().any(|allowed| allowed.holds(address)) {
            return Ok(());
        }
        let port = address.port();
        if let Some(what) = address::block_reason(address.ip()) {
            return Err(errors::address_blocked(name, port, what));
        }
        if BLOCKED_PORTS.contains(&port) {
            return Err(port_blocked(name, port));
        }
        Ok(())
    }

    /// Checks a URL whose name a proxy will resolve.
    pub(super) fn judge_unresolved(&self, url: &Url) -> Result<(), ToolError> {
        let (name, port) = (host(url), port(url));
        let address = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::from(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::from(address)),
            _ => None,
        };
        let is_named = self.settings.allow.iter().any(|allowed| allowed.names(&name, port));
        if let Some(address) = address {
            return self.judge(SocketAddr::new(address, port), &name, is_named);
        }
        if is_named {
            return Ok(());
        }
        let is_local = |local: &&str| {
            name.strip_suffix(*local).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if !name.contains('.') || LOCAL_NAMES.iter().any(is_local) {
            return Err(errors::address_blocked(&name, port, "a name of the local network"));
        }
        if BLOCKED_PORTS.contains(&port) {
            return Err(port_blocked(&name, port));
        }
        Ok(())
    }
}

fn port_blocked(name: &str, port: u16) -> ToolError {
    let message = format!("port {port} of {name} is not an http port");
    NetworkError::Address.error(ErrorKind::Denied, message).hint(format!(
        "use another port, or add `{name}:{port}` to `allow` under [network] in your own config"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_urls_of_http_are_taken() {
        for text in [
            "",
            "x",
            "example.org",
            "/a",
            "ftp://example.org/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/plain,x",
            "http://",
            "http://user@example.org/",
            "http://a:b@example.org/",
            "https://:80/",
            "gopher://example.org",
            "http://./",
            "http://exa mple.org/",
            "http://[::1",
            "ws://example.org",
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Input, "{text}");
        }
        assert!(parse(&format!("http://example.org/{}", "x".repeat(9_000))).is_err());
        assert!(
            parse("HTTPS://Example.ORG./x")
                .is_ok_and(|url| host(&url) == "example.org" && port(&url) == 443)
        );
    }

    #[test]
    fn messages_stay_short_and_on_one_line() {
        assert_eq!(short("http://x/\r\na"), "http://x/\u{fffd}\u{fffd}a");
        assert_eq!(short(&"x".repeat(500)).chars().count(), MAX_SHOWN_CHARS + 1);
    }
}
