//! Which packets a selector is for.

use gantry_abi_xfrm::{Port, Selector};

use crate::packet::ip::Flow;

/// Whether a packet is one of a selector's (`xfrm_selector_match` of Linux). Its interface does not count: packets come from one.
pub(super) fn matches(selector: &Selector, flow: &Flow) -> bool {
    let port = |wanted: Port, port: u16| (wanted.value ^ port) & wanted.mask == 0;
    selector.destination.contains(flow.destination)
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
    fn addresses_count_as_far_as_the_prefix_says() {
        let good = flow([10, 1, 200, 1], [10, 2, 0, 9], 6, (1, 2));
        assert!(matches(&selector(), &good));
        assert!(!matches(&selector(), &flow([10, 3, 0, 1], [10, 2, 0, 9], 6, (1, 2))));
        assert!(!matches(&selector(), &flow([10, 1, 0, 1], [10, 2, 1, 9], 6, (1, 2))));
        let of_v6 = Flow { source: [0; 16].into(), destination: [0; 16].into(), ..good };
        assert!(!matches(&selector(), &of_v6) && !matches(&Selector::any(Family::Ipv4), &of_v6));
        assert!(matches(&Selector::any(Family::Ipv6), &of_v6));
    }

    #[test]
    fn protocols_and_ports_count_where_they_are_said() {
        let web = Selector { protocol: 6, destination_port: Port { value: 443, mask: 0xFFFF }, ..selector() };
        let to = |protocol, port| flow([10, 1, 0, 1], [10, 2, 0, 1], protocol, (40_000, port));
        assert!(matches(&web, &to(6, 443)) && !matches(&web, &to(6, 442)) && !matches(&web, &to(17, 443)));
        let range = Selector { source_port: Port { value: 0x9C00, mask: 0xFF00 }, ..selector() };
        assert!(matches(&range, &to(6, 1)) && !matches(&range, &flow([10, 1, 0, 1], [10, 2, 0, 1], 6, (1, 1))));
    }
}
