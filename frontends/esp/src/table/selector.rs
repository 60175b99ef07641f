//! Matches packets against selectors.

use std::collections::HashMap;
use std::net::IpAddr;

use gantry_abi_xfrm::{Port, Prefix, Selector};

use crate::packet::ip::Flow;

/// Positions of selectors by the networks of source and destination.
type Table = HashMap<(IpAddr, IpAddr), Vec<usize>>;

/// Finds selectors by networks: those with equal prefix lengths share a hash table, so that a look-up does not grow with their number.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// By the prefix lengths of source and destination. Positions ascend.
    tables: HashMap<(u8, u8), Table>,
}

impl Index {
    /// Builds an index of selectors with ascending positions.
    pub(super) fn new<'s>(selectors: impl Iterator<Item = (usize, &'s Selector)>) -> Self {
        let mut index = Self::default();
        for (at, Selector { source, destination, .. }) in selectors {
            let table = index.tables.entry((source.length, destination.length)).or_default();
            table.entry((masked(*source).address, masked(*destination).address)).or_default().push(at);
        }
        index
    }

    /// Returns the first position whose selector matches.
    pub(super) fn first<'s>(&self, flow: &Flow, selector: impl Fn(usize) -> &'s Selector) -> Option<usize> {
        let network = |address: IpAddr, length: u8| {
            let most = if address.is_ipv4() { 32 } else { 128 };
            (length <= most).then(|| masked(Prefix { address, length }).address)
        };
        let found = self.tables.iter().filter_map(|((source, destination), table)| {
            let networks = (network(flow.source, *source)?, network(flow.destination, *destination)?);
            table.get(&networks)?.iter().copied().find(|at| matches(selector(*at), flow))
        });
        found.min()
    }
}

/// Clears the address bits behind the prefix, as routes require.
pub(crate) fn masked(prefix: Prefix) -> Prefix {
    let address = match prefix.address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.length)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.length)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    };
    Prefix { address, ..prefix }
}

/// Returns whether a packet matches a selector (`xfrm_selector_match` of Linux). One with an interface matches none, since all
/// packets come from the TUN device.
pub(super) fn matches(selector: &Selector, flow: &Flow) -> bool {
    let port = |wanted: Port, port: u16| (wanted.value ^ port) & wanted.mask == 0;
    selector.interface == 0
        && selector.destination.contains(flow.destination)
        && selector.source.contains(flow.source)
        && (selector.protocol == 0 || selector.protocol == flow.protocol)
        && port(selector.source_port, flow.source_port)
        && port(selector.destination_port, flow.destination_port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_abi_xfrm::{Family, Prefix};

    fn selector() -> Selector {
        Selector {
            source: Prefix { address: [10, 1, 0, 0].into(), length: 16 },
            destination: Prefix { address: [10, 2, 0, 0].into(), length: 24 },
            ..Selector::any(Family::Ipv4)
        }
    }

    fn flow(source: [u8; 4], destination: [u8; 4], protocol: u8, ports: (u16, u16)) -> Flow {
        let (source_port, destination_port) = ports;
        Flow { source: source.into(), destination: destination.into(), protocol, source_port, destination_port }
    }

    #[test]
    fn addresses_match_by_prefix() {
        let good = flow([10, 1, 200, 1], [10, 2, 0, 9], 6, (1, 2));
        assert!(matches(&selector(), &good));
        assert!(!matches(&selector(), &flow([10, 3, 0, 1], [10, 2, 0, 9], 6, (1, 2))));
        assert!(!matches(&selector(), &flow([10, 1, 0, 1], [10, 2, 1, 9], 6, (1, 2))));
        let of_v6 = Flow { source: [0; 16].into(), destination: [0; 16].into(), ..good };
        assert!(!matches(&selector(), &of_v6) && !matches(&Selector::any(Family::Ipv4), &of_v6));
        assert!(matches(&Selector::any(Family::Ipv6), &of_v6));
    }

    #[test]
    fn an_index_finds_the_first_of_all_matching_selectors() {
        let net = |first, length| Prefix { address: [first, 2, 0, 9].into(), length };
        let all = [(10, 32), (10, 24), (10, 0), (11, 16), (0, 0)]
            .map(|(first, length)| Selector { destination: net(first, length), ..Selector::any(Family::Ipv4) });
        let tcp = Selector { protocol: 6, ..Selector::any(Family::Ipv4) };
        let selectors = [&[tcp, Selector::any(Family::Ipv6)][..], &all].concat();
        let index = Index::new(selectors.iter().enumerate());
        for (destination, protocol) in
            [([10, 2, 0, 9], 17), ([10, 2, 0, 8], 17), ([11, 2, 9, 9], 17), ([10, 2, 0, 9], 6)]
        {
            let flow = flow([10, 1, 0, 1], destination, protocol, (1, 2));
            let walked = selectors.iter().position(|selector| matches(selector, &flow));
            assert_eq!(index.first(&flow, |at| &selectors[at]), walked);
        }
        let v6 = Flow { source: [0; 16].into(), destination: [0x20; 16].into(), ..flow([0; 4], [0; 4], 17, (1, 2)) };
        assert_eq!(index.first(&v6, |at| &selectors[at]), Some(1));
    }

    #[test]
    fn protocols_and_ports_match_if_given() {
        let web = Selector { protocol: 6, destination_port: Port { value: 443, mask: 0xFFFF }, ..selector() };
        let to = |protocol, port| flow([10, 1, 0, 1], [10, 2, 0, 1], protocol, (40_000, port));
        assert!(matches(&web, &to(6, 443)) && !matches(&web, &to(6, 442)) && !matches(&web, &to(17, 443)));
        let range = Selector { source_port: Port { value: 0x9C00, mask: 0xFF00 }, ..selector() };
        assert!(matches(&range, &to(6, 1)) && !matches(&range, &flow([10, 1, 0, 1], [10, 2, 0, 1], 6, (1, 1))));
    }

    #[test]
    fn bits_behind_a_prefix_are_cleared() {
        let masked = |text: &str, length| masked(Prefix { address: text.parse().unwrap(), length }).address.to_string();
        assert_eq!(masked("10.1.2.3", 16), "10.1.0.0");
        assert_eq!(masked("10.1.2.3", 32), "10.1.2.3");
        assert_eq!(masked("10.1.2.3", 0), "0.0.0.0");
        assert_eq!(masked("fd00:1::7", 32), "fd00:1::");
        assert_eq!(masked("fd00::7", 0), "::");
    }
}
