//! Finds the policy of a packet by its selector.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use gantry_abi_xfrm::{Prefix, Selector};

use crate::packet::ip::Flow;

/// The position of a policy among all policies: its priority, and the order of arrival.
pub(crate) type PolicyOrder = (u32, u32);

/// Finds the first of all selectors that match a packet. Selectors that compare the same parts of packets share a hash table, so the time
/// of a look-up or a change does not grow with the number of selectors.
#[derive(Debug)]
pub(super) struct SelectorIndex<T> {
    all: BTreeMap<PolicyOrder, T>,
    tables: HashMap<SelectorMask, HashMap<Flow, BTreeSet<PolicyOrder>>>,
}

/// The parts of a packet that a selector compares: the lengths of prefixes, and the bits of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SelectorMask {
    source_length: u8,
    destination_length: u8,
    has_protocol: bool,
    source_port_mask: u16,
    destination_port_mask: u16,
}

impl<T> Default for SelectorIndex<T> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), tables: HashMap::new() }
    }
}

impl<T> SelectorIndex<T> {
    pub(super) fn insert(&mut self, selector: &Selector, order: PolicyOrder, value: T) {
        self.all.insert(order, value);
        if let Some((mask, key)) = mask_and_key(selector) {
            self.tables.entry(mask).or_default().entry(key).or_default().insert(order);
        }
    }

    pub(super) fn remove(&mut self, selector: &Selector, order: PolicyOrder) {
        self.all.remove(&order);
        let Some((mask, key)) = mask_and_key(selector) else { return };
        let Some(table) = self.tables.get_mut(&mask) else { return };
        if let Some(orders) = table.get_mut(&key) {
            orders.remove(&order);
            if orders.is_empty() {
                table.remove(&key);
            }
        }
        if table.is_empty() {
            self.tables.remove(&mask);
        }
    }

    /// Returns the value of the first selector that matches (`xfrm_selector_match` of Linux).
    pub(super) fn first(&self, flow: &Flow) -> Option<&T> {
        let found = self.tables.iter().filter_map(|(mask, table)| table.get(&mask.apply(flow)?)?.first());
        self.all.get(found.min()?)
    }

    /// Iterates over all values in their order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.all.values()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

/// Returns the hash table of a selector, as its mask, and the key in that table. Returns `None` for a selector with an interface: it
/// matches no packet, since all packets come from the TUN device.
fn mask_and_key(selector: &Selector) -> Option<(SelectorMask, Flow)> {
    let Selector { source, destination, source_port, destination_port, protocol, interface_index, .. } = *selector;
    let mask = SelectorMask {
        source_length: source.length,
        destination_length: destination.length,
        has_protocol: protocol != 0,
        source_port_mask: source_port.mask,
        destination_port_mask: destination_port.mask,
    };
    let (source, destination) = (source.address, destination.address);
    let (source_port, destination_port) = (source_port.value, destination_port.value);
    let key = mask.apply(&Flow { source, destination, protocol, source_port, destination_port })?;
    (interface_index == 0).then_some((mask, key))
}

impl SelectorMask {
    /// Clears the parts of a flow that the mask does not compare. Returns `None` if the flow's addresses are shorter than the prefixes.
    fn apply(self, flow: &Flow) -> Option<Flow> {
        let network = |address: IpAddr, length: u8| {
            let most = if address.is_ipv4() { 32 } else { 128 };
            (length <= most).then(|| masked(Prefix { address, length }).address)
        };
        Some(Flow {
            source: network(flow.source, self.source_length)?,
            destination: network(flow.destination, self.destination_length)?,
            protocol: if self.has_protocol { flow.protocol } else { 0 },
            source_port: flow.source_port & self.source_port_mask,
            destination_port: flow.destination_port & self.destination_port_mask,
        })
    }
}

/// Clears the address bits after the prefix, as routes require.
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

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_abi_xfrm::{Family, Port};

    /// Returns whether a packet matches a selector, compared part by part. Checks that an index gives the same result.
    fn matches(selector: &Selector, flow: &Flow) -> bool {
        let port = |wanted: Port, port: u16| (wanted.value ^ port) & wanted.mask == 0;
        let is_match = selector.interface_index == 0
            && selector.destination.contains(flow.destination)
            && selector.source.contains(flow.source)
            && (selector.protocol == 0 || selector.protocol == flow.protocol)
            && port(selector.source_port, flow.source_port)
            && port(selector.destination_port, flow.destination_port);
        let mut index = SelectorIndex::default();
        index.insert(selector, (1, 1), ());
        assert_eq!(index.first(flow).is_some(), is_match, "{selector:?} {flow:?}");
        is_match
    }

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
        let port = |value| Selector { protocol: 17, source_port: Port { value, mask: 0xFFFF }, ..all[1] };
        let device = Selector { interface_index: 2, ..all[0] };
        let selectors = [&[device, tcp, Selector::any(Family::Ipv6), port(2), port(1)][..], &all].concat();
        let flows = [([10, 2, 0, 9], 17), ([10, 2, 0, 8], 17), ([11, 2, 9, 9], 17), ([10, 2, 0, 9], 6)];
        let flows = flows.map(|(destination, protocol)| flow([10, 1, 0, 1], destination, protocol, (1, 2)));
        let v6 = Flow { source: [0; 16].into(), destination: [0x20; 16].into(), ..flows[0] };
        let order = |at: usize| (3, at as u32);
        let mut index = SelectorIndex::default();
        for (at, selector) in selectors.iter().enumerate().rev() {
            index.insert(selector, order(at), at);
        }
        for gone in 0..=selectors.len() {
            for flow in flows.iter().chain([&v6]) {
                let walked = (gone..selectors.len()).find(|at| matches(&selectors[*at], flow));
                assert_eq!(index.first(flow).copied(), walked);
            }
            assert_eq!(index.values().copied().collect::<Vec<_>>(), (gone..selectors.len()).collect::<Vec<_>>());
            selectors.get(gone).inspect(|selector| index.remove(selector, order(gone)));
        }
        assert!(index.len() == 0 && index.tables.is_empty());
    }

    #[test]
    fn a_lower_priority_value_comes_first() {
        let mut index = SelectorIndex::default();
        let all = Selector::any(Family::Ipv4);
        index.insert(&all, (5, 1), "arrived first");
        index.insert(&all, (4, 2), "better priority");
        let flow = flow([10, 1, 0, 1], [10, 2, 0, 1], 6, (1, 2));
        assert_eq!(index.first(&flow), Some(&"better priority"));
        index.remove(&all, (4, 2));
        assert_eq!(index.first(&flow), Some(&"arrived first"));
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
