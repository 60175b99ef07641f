//! The shape of selectors: the parts of a packet that they compare. Selectors of one shape share a hash table of the firewall, so the
//! time of a look-up does not grow with the number of selectors.

use gantry_abi_xfrm::{Port, Selector};

use super::rules::{self, DESTINATION, EQUAL, NETWORK, NEWSETELEM, OIF, Rule, SOURCE, TRANSPORT, mask_of, octets};
use crate::packet::ip::{GRE, ICMP, ICMPV6};
use crate::table::masked;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    is_v6: bool,
    /// The prefix length of the source.
    source_length: u8,
    /// The prefix length of the destination.
    destination_length: u8,
    /// The IP protocol; 0: any.
    protocol: u8,
    /// The bits of the source port that are compared.
    source_port_mask: u16,
    /// The bits of the destination port that are compared.
    destination_port_mask: u16,
    /// The index of the device by which packets leave; 0: any.
    interface: i32,
    /// True if the packets are later fragments, which have no ports.
    is_fragment: bool,
}

/// A part of a packet: its base and offset, and a mask of the bits that are compared.
type KeyPart = (u32, u32, Vec<u8>);

impl Shape {
    pub(super) fn of(selector: &Selector) -> Self {
        Self {
            is_v6: selector.destination.address.is_ipv6(),
            source_length: selector.source.length,
            destination_length: selector.destination.length,
            protocol: selector.protocol,
            source_port_mask: selector.source_port.mask,
            destination_port_mask: selector.destination_port.mask,
            interface: selector.interface_index,
            is_fragment: false,
        }
    }

    /// Returns the shape that later fragments of the same packets have; `None` if ports are not compared.
    pub(super) fn of_fragments(self) -> Option<Self> {
        let has_ports = self.source_port_mask | self.destination_port_mask != 0;
        has_ports.then_some(Self { source_port_mask: 0, destination_port_mask: 0, is_fragment: true, ..self })
    }

    /// Returns the key of a selector of this shape.
    pub(super) fn key(&self, selector: &Selector) -> Vec<u8> {
        let mut key = Vec::new();
        for prefix in [selector.source, selector.destination] {
            if prefix.length > 0 {
                key.extend(octets(masked(prefix).address));
            }
        }
        for (mask, Port { value, .. }) in
            [(self.source_port_mask, selector.source_port), (self.destination_port_mask, selector.destination_port)]
        {
            if mask != 0 {
                let [high, low] = (value & mask).to_be_bytes();
                key.extend(if self.is_icmp() { [low, 0, 0, 0] } else { [high, low, 0, 0] });
            }
        }
        if key.is_empty() {
            key.extend([if self.is_v6 { 0x60 } else { 0x40 }, 0, 0, 0]);
        }
        key
    }

    /// Returns the length of a key in bytes.
    pub(super) fn key_length(&self) -> usize {
        self.parts(0).iter().map(|(_, _, mask)| mask.len().next_multiple_of(4)).sum()
    }

    fn is_icmp(&self) -> bool {
        [ICMP, ICMPV6].contains(&self.protocol)
    }

    /// Returns the parts of a key. `ports` is the offset of the ports, or of the GRE key that takes their place, in the transport
    /// header.
    fn parts(&self, ports: u32) -> Vec<KeyPart> {
        let family = usize::from(self.is_v6);
        let addresses = [(SOURCE[family], self.source_length), (DESTINATION[family], self.destination_length)];
        let addresses = addresses.into_iter().filter(|(_, bits)| *bits > 0);
        let address = |((at, length), bits): ((u32, u32), u8)| (NETWORK, at, mask_of(length as usize, bits));
        let masks = (0..).zip([self.source_port_mask, self.destination_port_mask]).filter(|(_, mask)| *mask != 0);
        let port = |(at, mask): (u32, u16)| match mask.to_be_bytes() {
            [_, low] if self.is_icmp() => (TRANSPORT, at, vec![low]),
            both => (TRANSPORT, ports + 2 * at, both.to_vec()),
        };
        let parts: Vec<KeyPart> = addresses.map(address).chain(masks.map(port)).collect();
        // A set needs a key. If nothing is compared, the key is the version of IP.
        if parts.is_empty() { vec![(NETWORK, 0, vec![0xF0])] } else { parts }
    }

    /// Returns the rules that match the selectors in a set. The caller adds a verdict to each. `looks_at_interface` is false
    /// for packets that have not been routed yet.
    pub(super) fn rules(&self, set: &str, looks_at_interface: bool) -> Vec<Rule> {
        const FLAGS: [u8; 1] = [0xA0];
        /// Flags of GRE, and the offset of the GRE key (RFC 2890), for headers with a key alone and with a checksum before the key.
        const KEYS: [(u8, u32); 2] = [(0x20, 4), (0xA0, 8)];
        if self.protocol == GRE && self.source_port_mask | self.destination_port_mask != 0 {
            let of = |(flags, begin): (u8, u32)| {
                let start =
                    self.start(looks_at_interface).payload(TRANSPORT, 0, 1).mask(&FLAGS).compare(EQUAL, &[flags]);
                self.look_up(start, set, begin)
            };
            return KEYS.into_iter().map(of).collect();
        }
        vec![self.look_up(self.start(looks_at_interface), set, 0)]
    }

    fn start(&self, looks_at_interface: bool) -> Rule {
        let family = usize::from(self.is_v6);
        let mut rule = Rule::new().family(family);
        if self.protocol != 0 {
            rule = rule.protocol(self.protocol);
        }
        if self.interface != 0 && looks_at_interface {
            rule = rule.meta(OIF).compare(EQUAL, &self.interface.to_ne_bytes());
        }
        if self.is_fragment { rule.later_fragment(family) } else { rule }
    }

    fn look_up(&self, mut rule: Rule, set: &str, ports: u32) -> Rule {
        let mut word = 0;
        for (base, at, mask) in self.parts(ports) {
            rule = rule.key_part(word, base, at, &mask);
            word += mask.len().div_ceil(4) as u32;
        }
        rule.in_set(set)
    }

    /// Returns the type number by which `nft` prints the keys: six bits for each part.
    fn nft_key_type(&self) -> u32 {
        const ADDRESSES: [u32; 2] = [7, 8];
        const PORT: u32 = 13;
        const INTEGER: u32 = 4;
        let address = ADDRESSES[usize::from(self.is_v6)];
        let port = if self.is_icmp() { INTEGER } else { PORT };
        let parts = [
            (self.source_length > 0, address),
            (self.destination_length > 0, address),
            (self.source_port_mask != 0, port),
            (self.destination_port_mask != 0, port),
        ];
        let kind = parts.into_iter().filter(|(counts, _)| *counts).fold(0, |kind, (_, part)| kind << 6 | part);
        if kind == 0 { INTEGER } else { kind }
    }

    /// Returns the messages that create a set of keys. `id` distinguishes the new sets of a transaction.
    pub(super) fn set_messages<'k>(&self, name: &str, keys: impl Iterator<Item = &'k [u8]>, id: u32) -> Vec<Vec<u8>> {
        let mut all = vec![rules::new_set_message(name, self.nft_key_type(), self.key_length(), id)];
        all.extend(rules::element_messages(NEWSETELEM, name, keys));
        all
    }

    /// Returns the name of the shape, which [`parse`](Self::parse) reads.
    pub(super) fn name(&self) -> String {
        let Self {
            is_v6,
            source_length: source,
            destination_length: destination,
            protocol,
            source_port_mask: source_port,
            destination_port_mask: destination_port,
            interface,
            is_fragment,
        } = self;
        let (family, fragment) = (if *is_v6 { 6 } else { 4 }, u8::from(*is_fragment));
        format!("{family}_{source}_{destination}_{protocol}_{source_port}_{destination_port}_{interface}_{fragment}")
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        let numbers: Vec<u32> = name.split('_').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let &[family, source, destination, protocol, source_port, destination_port, interface, fragment] = &numbers[..]
        else {
            return None;
        };
        Some(Self {
            is_v6: family == 6,
            source_length: source.try_into().ok()?,
            destination_length: destination.try_into().ok()?,
            protocol: protocol.try_into().ok()?,
            source_port_mask: source_port.try_into().ok()?,
            destination_port_mask: destination_port.try_into().ok()?,
            interface: interface.try_into().ok()?,
            is_fragment: fragment == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_abi_xfrm::Family;

    #[test]
    fn a_shape_is_parsed_from_its_name() {
        let port = Port { value: 80, mask: 0xFFF0 };
        let selector =
            Selector { protocol: 6, destination_port: port, interface_index: 3, ..Selector::any(Family::Ipv6) };
        let shape = Shape::of(&selector);
        assert_eq!(Shape::parse(&shape.name()), Some(shape));
        let fragments = shape.of_fragments().unwrap();
        assert_eq!(Shape::parse(&fragments.name()), Some(fragments));
        assert_eq!(Shape::of(&Selector::any(Family::Ipv4)).of_fragments(), None);
        assert_eq!((Shape::parse("4_16_16"), Shape::parse("4_999_0_0_0_0_0_0")), (None, None));
    }
}
