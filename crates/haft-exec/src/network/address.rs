//! Which addresses are never talked to: everything that is not the open internet, in every way of writing it down. Names
//! are no matter here; what is judged is what would be connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What closes an address, in words; `None` when it is one of the open internet.
pub(super) fn closed(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => closed_v4(address),
        IpAddr::V6(address) => closed_v6(address),
    }
}

/// A range of addresses: its beginning, how many bits of it count, and what it is for.
type Range<T> = (T, u8, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// By the registry of special addresses, and two that clouds answer questions about the machine at.
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

fn closed_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    let is_in = |(start, length, _): &&Range<u32>| (bits ^ start) >> (32 - u32::from(*length)) == 0;
    V4.iter().find(is_in).map(|(_, _, what)| *what)
}

const fn v6(a: u16, b: u16, c: u16) -> u128 {
    ((a as u128) << 112) | ((b as u128) << 96) | ((c as u128) << 80)
}

/// What has an address of the other kind in it is judged by that one and is not here.
const V6: [Range<u128>; 8] = [
    (v6(0x0100, 0, 0), 64, "an address that leads nowhere"),
    (v6(0x2001, 0x0002, 0), 48, "an address for benchmarks"),
    (v6(0x2001, 0x0db8, 0), 32, "an address for documentation"),
    (v6(0x2001, 0x0010, 0), 28, "an address that names no place"),
    (v6(0x2001, 0x0020, 0), 28, "an address that names no place"),
    (v6(0x3fff, 0, 0), 20, "an address for documentation"),
    (v6(0x5f00, 0, 0), 16, "an address for routing"),
    (v6(0x2001, 0, 0), 23, "an address for protocols"),
];

fn closed_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("an address of this network");
    }
    if address.is_loopback() {
        return Some("this machine");
    }
    let embedded = embedded(address);
    if !embedded.is_empty() {
        return embedded.into_iter().find_map(closed_v4);
    }
    let bits = u128::from(address);
    let is_in =
        |(start, length, _): &&Range<u128>| (bits ^ start) >> (128 - u32::from(*length)) == 0;
    if let Some((_, _, what)) = V6.iter().find(is_in) {
        return Some(what);
    }
    match address.segments()[0] {
        first if first & 0xfe00 == 0xfc00 => Some("a private address"),
        first if first & 0xffc0 == 0xfe80 => Some("a link-local address"),
        first if first & 0xffc0 == 0xfec0 => Some("a site-local address"),
        first if first & 0xff00 == 0xff00 => Some("a multicast address"),
        // Nothing else is given out as an address of the internet.
        first if first & 0xe000 != 0x2000 => Some("an address that is not given out"),
        _ => None,
    }
}

/// The addresses of the other kind that one of this kind leads to.
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let pair = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        // Mapped, translated and the old compatible form.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0, 0, 0, 0, 0, 0, high, low] => vec![pair(high, low)],
        // NAT64 by its well-known prefix.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => vec![pair(high, low)],
        // NAT64 of one's own network: where the rest of the address lies is its owner's choice, so it is closed.
        [0x64, 0xff9b, 1, ..] => vec![Ipv4Addr::LOCALHOST],
        // 6to4.
        [0x2002, high, low, ..] => vec![pair(high, low)],
        // Teredo has its server, and its client with every bit turned.
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            vec![pair(high, low), pair(!client_high, !client_low)]
        }
        // ISATAP, under any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => vec![pair(high, low)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(addresses: &[&str], is_closed: bool) {
        for text in addresses {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(closed(address).is_some(), is_closed, "{text}: {:?}", closed(address));
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
            ],
            false,
        );
    }

    #[test]
    fn an_address_in_another_is_judged_too() {
        for (inner, is_closed) in [("127.0.0.1", true), ("10.1.2.3", true), ("8.8.8.8", false)] {
            let v4: Ipv4Addr = inner.parse().expect("an address");
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let forms = [
                format!("::ffff:{v4}"),
                format!("::ffff:0:{v4}"),
                format!("::{v4}"),
                format!("64:ff9b::{v4}"),
                format!("2002:{high:x}:{low:x}::1"),
                format!("2001:0:{high:x}:{low:x}:0:0:f7f7:f7f7"),
                format!("2001:0:808:808:0:0:{:x}:{:x}", !high, !low),
                format!("2a00:1::5efe:{v4}"),
            ];
            for form in &forms {
                check(&[form], is_closed);
            }
        }
        check(&["64:ff9b:1::8.8.8.8"], true);
    }

    proptest! {
        #[test]
        fn every_private_address_is_closed_in_every_form(bits in any::<u32>()) {
            let v4 = Ipv4Addr::from(bits);
            let is_private = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_unspecified() || v4.is_documentation();
            if is_private {
                prop_assert!(closed(v4.into()).is_some());
                prop_assert!(closed(v4.to_ipv6_mapped().into()).is_some());
                prop_assert!(closed(v4.to_ipv6_compatible().into()).is_some());
            }
        }
    }
}
