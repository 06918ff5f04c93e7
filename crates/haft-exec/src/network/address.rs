//! The addresses that the client never connects to: everything outside the public internet, in
//! every notation. Names do not matter here; the address of the connection is checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns why an address is blocked; `None` for a public address.
pub(super) fn block_reason(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => v4_block_reason(address),
        IpAddr::V6(address) => v6_block_reason(address),
    }
}

/// A range of addresses: its beginning, the number of significant bits, and a description.
type Range<T> = (T, u8, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// From the registry of special addresses, plus two addresses of cloud metadata services.
const V4: [Range<u32>; 19] = [
    (v4(0, 0, 0, 0), 8, "an address of this network"),
    (v4(10, 0, 0, 0), 8, "a private address"),
    (v4(100, 64, 0, 0), 10, "an address behind a carrier's router"),
    (v4(127, 0, 0, 0), 8, "this machine"),
    (v4(168, 63, 129, 16), 32, "a cloud's metadata service"),
    (v4(169, 254, 0, 0), 16, "a link-local address, where clouds have their metadata"),
    (v4(172, 16, 0, 0), 12, "a private address"),
    (v4(192, 0, 0, 0), 24, "an address for protocols"),
    (v4(192, 0, 2, 0), 24, "an address for documentation"),
    (v4(192, 31, 196, 0), 24, "an address for name servers"),
    (v4(192, 52, 193, 0), 24, "an address for relays"),
    (v4(192, 88, 99, 0), 24, "an address of old relays"),
    (v4(192, 168, 0, 0), 16, "a private address"),
    (v4(192, 175, 48, 0), 24, "an address for name servers"),
    (v4(198, 18, 0, 0), 15, "an address for benchmarks"),
    (v4(198, 51, 100, 0), 24, "an address for documentation"),
    (v4(203, 0, 113, 0), 24, "an address for documentation"),
    (v4(224, 0, 0, 0), 4, "a multicast address"),
    (v4(240, 0, 0, 0), 4, "a reserved or broadcast address"),
];

fn v4_block_reason(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    let is_in = |(start, length, _): &&Range<u32>| (bits ^ start) >> (32 - u32::from(*length)) == 0;
    V4.iter().find(is_in).map(|(_, _, what)| *what)
}

const fn v6(a: u16, b: u16, c: u16) -> u128 {
    ((a as u128) << 112) | ((b as u128) << 96) | ((c as u128) << 80)
}

/// From the registry of special addresses. Old relays (2002::/16) and the well-known prefix of
/// translators are checked by the address that they embed.
const V6: [Range<u128>; 9] = [
    (v6(0x0100, 0, 0), 64, "a discard-only address"),
    (v6(0x2001, 0, 0), 23, "an address for protocols"),
    (v6(0x2001, 0x0db8, 0), 32, "an address for documentation"),
    (v6(0x3fff, 0, 0), 20, "an address for documentation"),
    (v6(0x5f00, 0, 0), 16, "an address for routing"),
    (v6(0xfc00, 0, 0), 7, "a private address"),
    (v6(0xfe80, 0, 0), 10, "a link-local address"),
    (v6(0xfec0, 0, 0), 10, "a site-local address"),
    (v6(0xff00, 0, 0), 8, "a multicast address"),
];

fn v6_block_reason(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("an address of this network");
    }
    if address.is_loopback() {
        return Some("this machine");
    }
    match embedded(address) {
        // Only another notation for that address, or a translation to it.
        Embedded::Same(inner) => v4_block_reason(inner),
        Embedded::Within(inner) => v4_block_reason(inner).or_else(|| range_block_reason(address)),
        Embedded::Nothing => range_block_reason(address),
    }
}

fn range_block_reason(address: Ipv6Addr) -> Option<&'static str> {
    let bits = u128::from(address);
    let is_in =
        |(start, length, _): &&Range<u128>| (bits ^ start) >> (128 - u32::from(*length)) == 0;
    if let Some((_, _, what)) = V6.iter().find(is_in) {
        return Some(what);
    }
    // No other range is assigned as public: neither the compatible form nor prefixes for local
    // translation.
    (bits >> 125 != 1).then_some("an unassigned address")
}

/// The IPv4 address that an IPv6 address embeds.
enum Embedded {
    Nothing,
    /// It is equivalent to that address.
    Same(Ipv4Addr),
    /// It leads to that address through another network.
    Within(Ipv4Addr),
}

fn embedded(address: Ipv6Addr) -> Embedded {
    let pair = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        // Mapped, and NAT64 by its well-known prefix.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Embedded::Same(pair(high, low))
        }
        // 6to4.
        [0x2002, high, low, ..] => Embedded::Within(pair(high, low)),
        // ISATAP, with any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Embedded::Within(pair(high, low)),
        _ => Embedded::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(addresses: &[&str], is_blocked: bool) {
        for text in addresses {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(
                block_reason(address).is_some(),
                is_blocked,
                "{text}: {:?}",
                block_reason(address)
            );
        }
    }

    #[test]
    fn what_is_not_the_internet_is_closed() {
        check(
            &[
                "0.0.0.0",
                "0.1.2.3",
                "10.0.0.1",
                "10.255.255.255",
                "100.64.0.1",
                "100.100.100.200",
                "100.127.255.255",
                "127.0.0.1",
                "127.255.255.254",
                "168.63.129.16",
                "169.254.169.254",
                "172.16.0.1",
                "172.31.255.255",
                "192.0.0.192",
                "192.0.2.7",
                "192.88.99.1",
                "192.168.1.1",
                "198.18.0.1",
                "198.19.255.255",
                "198.51.100.1",
                "203.0.113.9",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
                "::",
                "::1",
                "fc00::1",
                "fd00:ec2::254",
                "fdff::1",
                "fe80::1",
                "febf::1",
                "fec0::1",
                "ff02::1",
                "2001:db8::1",
                "2001:2::1",
                "2001:10::1",
                "2001:20::1",
                "3fff::1",
                "5f00::1",
                "100::1",
                "4000::1",
                "200::1",
                "2001:0:808:808::f7f7:f7f7",
                "2001:1ff:ffff::1",
                "::8.8.8.8",
                "::ffff:0:8.8.8.8",
                "64:ff9b:1::8.8.8.8",
                "64:ff9b:0:0:0:1:808:808",
                // Blocked themselves, whatever address they embed.
                "fd00::5efe:8.8.8.8",
                "fe80::5efe:8.8.8.8",
                "fe80::200:5efe:808:808",
                "2001:db8::5efe:8.8.8.8",
                "2002:7f00:1::1",
                "2002:a00:1:0:0:5efe:808:808",
                "3fff:fff:ffff::1",
                "feff::1",
            ],
            true,
        );
    }

    #[test]
    fn the_internet_is_open() {
        check(
            &[
                "1.1.1.1",
                "8.8.8.8",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.1",
                "169.253.255.255",
                "172.15.255.255",
                "172.32.0.0",
                "192.0.1.1",
                "192.167.255.255",
                "192.169.0.0",
                "198.17.255.255",
                "198.20.0.0",
                "223.255.255.255",
                "2606:4700:4700::1111",
                "2a00:1450::1",
                "2001:4860:4860::8888",
                "2001:200::1",
                "3ffe::1",
                "2002:808:808::1",
                "192.0.1.0",
                "192.0.3.0",
                "198.51.99.255",
                "203.0.114.0",
            ],
            false,
        );
    }

    #[test]
    fn an_address_in_another_is_judged_too() {
        for (inner, is_blocked) in [("127.0.0.1", true), ("10.1.2.3", true), ("8.8.8.8", false)] {
            let v4: Ipv4Addr = inner.parse().expect("an address");
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let forms = [
                format!("::ffff:{v4}"),
                format!("64:ff9b::{v4}"),
                format!("2002:{high:x}:{low:x}::1"),
                format!("2a00:1::5efe:{v4}"),
            ];
            for form in &forms {
                check(&[form], is_blocked);
            }
        }
    }

    proptest! {
        #[test]
        fn every_private_address_is_closed_in_every_form(bits in any::<u32>()) {
            let v4 = Ipv4Addr::from(bits);
            let is_private = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_unspecified() || v4.is_documentation();
            if is_private {
                prop_assert!(block_reason(v4.into()).is_some());
                prop_assert!(block_reason(v4.to_ipv6_mapped().into()).is_some());
                prop_assert!(block_reason(v4.to_ipv6_compatible().into()).is_some());
            }
        }
    }
}
