//! The local services that a person has allowed: hosts, addresses and networks, each with one port
//! or all ports.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// One entry of the list: `localhost:8080`, `wiki.corp`, `10.1.0.0/16`, `[::1]:3000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    target: AllowedTarget,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AllowedTarget {
    Host(String),
    Network(IpAddr, u8),
}

impl Allowed {
    /// Returns true when this entry names the host and port: then it may resolve to any address.
    pub(super) fn names(&self, host: &str, port: u16) -> bool {
        let is_host = matches!(&self.target, AllowedTarget::Host(known) if known == host);
        is_host && self.port.is_none_or(|only| only == port)
    }

    /// Returns true when this entry contains the address.
    pub(super) fn holds(&self, address: SocketAddr) -> bool {
        let AllowedTarget::Network(network, length) = self.target else { return false };
        is_in(network, length, address.ip()) && self.port.is_none_or(|only| only == address.port())
    }
}

fn is_in(network: IpAddr, length: u8, address: IpAddr) -> bool {
    let differing = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u32::from(network) ^ u32::from(address)).leading_zeros()
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (u128::from(network) ^ u128::from(address)).leading_zeros()
        }
        _ => return false,
    };
    differing >= u32::from(length)
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no host, address or network, as in `wiki.corp:8080`, `[::1]:3000` or `10.1.0.0/16`"
            )
        };
        if let Some((network, length)) = text.split_once('/') {
            let network: IpAddr = bare(network).parse().map_err(|_| wrong())?;
            let max = if network.is_ipv4() { 32 } else { 128 };
            let length = length.parse().ok().filter(|length| *length <= max).ok_or_else(wrong)?;
            return Ok(Self { target: AllowedTarget::Network(network, length), port: None });
        }
        if let Ok(address) = bare(text).parse::<IpAddr>() {
            return Ok(Self { target: whole(address), port: None });
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { target: whole(address.ip()), port: Some(address.port()) });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        // Normalize it as a URL does, so that other notations and alphabets compare equal.
        match url::Host::parse(host.trim_end_matches('.')).map_err(|_| wrong())? {
            url::Host::Domain(host) => Ok(Self { target: AllowedTarget::Host(host), port }),
            url::Host::Ipv4(address) => Ok(Self { target: whole(address.into()), port }),
            url::Host::Ipv6(address) => Ok(Self { target: whole(address.into()), port }),
        }
    }
}

fn whole(address: IpAddr) -> AllowedTarget {
    AllowedTarget::Network(address, if address.is_ipv4() { 32 } else { 128 })
}

fn bare(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Allowed {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn hosts_are_named_with_and_without_a_port() {
        assert!(entry("wiki.corp").names("wiki.corp", 1));
        assert!(entry("Wiki.Corp.:80").names("wiki.corp", 80));
        assert!(!entry("wiki.corp:80").names("wiki.corp", 81));
        assert!(!entry("wiki.corp").names("xwiki.corp", 1));
    }

    #[test]
    fn networks_hold_addresses() {
        let holds =
            |text: &str, address: &str| entry(text).holds(address.parse().expect("an address"));
        assert!(holds("10.1.0.0/16", "10.1.255.255:80"));
        assert!(!holds("10.1.0.0/16", "10.2.0.0:80"));
        assert!(holds("0.0.0.0/0", "10.2.0.0:80") && !holds("0.0.0.0/0", "[::1]:80"));
        assert!(
            holds("127.0.0.1:8080", "127.0.0.1:8080") && !holds("127.0.0.1:8080", "127.0.0.1:80")
        );
        assert!(
            holds("[::1]:3000", "[::1]:3000")
                && holds("::1", "[::1]:9")
                && holds("fd00::/8", "[fd12::1]:9")
        );
    }

    #[test]
    fn what_is_none_of_them_is_refused() {
        for text in
            ["", "10.0.0.0/33", "fd00::/129", "a b", "host:port", "http://x", "x/24", "host:99999"]
        {
            assert!(text.parse::<Allowed>().is_err(), "{text:?}");
        }
    }
}
