//! The flows of fragments. Fragments after the first have no ports: they belong to the flow of the first fragment (RFC 4301, 7.3).

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::ip::{Flow, Header};

/// Maximum number of datagrams in the table. A further datagram evicts the oldest.
const MAX_DATAGRAMS: usize = 1024;
/// Seconds after which another datagram may have the same number (`ipfrag_time` of Linux).
const LIFETIME_SECONDS: u64 = 30;

/// A datagram: source, destination, protocol, identification, and the SPI of the SA by which the fragments arrive. The SPI of
/// outgoing fragments is 0.
type DatagramKey = (IpAddr, IpAddr, u8, u32, u32);

/// The ports of fragmented datagrams whose first fragment has passed.
#[derive(Debug, Default)]
pub(crate) struct FragmentPorts {
    table: HashMap<DatagramKey, Ports>,
    /// Datagrams in the order of arrival, each with the time of its first fragment in seconds.
    arrivals: VecDeque<(DatagramKey, u64)>,
}

#[derive(Debug)]
struct Ports {
    source: u16,
    destination: u16,
    /// Time of the first fragment, in seconds.
    first_seen: u64,
}

impl FragmentPorts {
    /// Remembers the ports of a first fragment, and fills in the ports of later fragments. `now` returns the time in seconds.
    pub(crate) fn fill_in(&mut self, header: &mut Header, spi: u32, now: impl FnOnce() -> u64) {
        let Some(fragment) = header.fragment else { return };
        let Flow { source, destination, protocol, .. } = header.flow;
        let datagram = (source, destination, protocol, fragment.identification, spi);
        let now = now();
        if !fragment.is_later() {
            let Flow { source_port, destination_port, .. } = header.flow;
            self.table.insert(datagram, Ports { source: source_port, destination: destination_port, first_seen: now });
            self.arrivals.push_back((datagram, now));
            self.evict(now);
        } else if let Some(ports) = self.table.get(&datagram).filter(|ports| now < ports.first_seen + LIFETIME_SECONDS)
        {
            (header.flow.source_port, header.flow.destination_port) = (ports.source, ports.destination);
        }
    }

    fn evict(&mut self, now: u64) {
        while self.arrivals.len() > MAX_DATAGRAMS
            || self.arrivals.front().is_some_and(|(_, seen)| now >= seen + LIFETIME_SECONDS)
        {
            let Some((datagram, seen)) = self.arrivals.pop_front() else { return };
            // A later first fragment with the same number may have replaced the ports.
            if self.table.get(&datagram).is_some_and(|ports| ports.first_seen <= seen) {
                self.table.remove(&datagram);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::ip::tests::v4;

    /// Returns the ports of a fragment of a datagram after [`FragmentPorts::fill_in`].
    fn ports_of(ports: &mut FragmentPorts, datagram: u16, offset: u16, spi: u32, now: u64) -> (u16, u16) {
        let mut packet = v4([10, 1, 0, 1], [10, 2, 0, 1], (40_000, 5060), &[7; 16]);
        packet[4..6].copy_from_slice(&datagram.to_be_bytes());
        packet[6..8].copy_from_slice(&(0x2000 | offset).to_be_bytes());
        let mut header = Header::read(&packet).unwrap();
        ports.fill_in(&mut header, spi, || now);
        (header.flow.source_port, header.flow.destination_port)
    }

    #[test]
    fn later_fragments_have_the_ports_of_their_first() {
        let mut ports = FragmentPorts::default();
        assert_eq!(ports_of(&mut ports, 7, 0, 1, 0), (40_000, 5060));
        assert_eq!(ports_of(&mut ports, 7, 3, 1, 29), (40_000, 5060));
        assert_eq!(ports_of(&mut ports, 8, 3, 1, 0), (0, 0), "of another datagram");
        assert_eq!(ports_of(&mut ports, 7, 3, 2, 0), (0, 0), "of another SA");
        assert_eq!(ports_of(&mut ports, 7, 3, 1, 30), (0, 0), "too late");
    }

    #[test]
    fn old_datagrams_are_forgotten() {
        let mut ports = FragmentPorts::default();
        for number in 0..2000 {
            ports_of(&mut ports, number, 0, 1, 0);
            ports_of(&mut ports, 5, 0, 1, 0);
        }
        assert!(ports.table.len() <= MAX_DATAGRAMS && ports.arrivals.len() <= MAX_DATAGRAMS);
        assert_eq!(ports_of(&mut ports, 1999, 3, 1, 0), (40_000, 5060));
        ports_of(&mut ports, 1, 0, 1, 40);
        assert_eq!((ports.table.len(), ports.arrivals.len()), (1, 1));
    }

    #[test]
    fn whole_packets_are_not_remembered() {
        let mut ports = FragmentPorts::default();
        let mut header = Header::read(&v4([1; 4], [2; 4], (3, 4), b"")).unwrap();
        ports.fill_in(&mut header, 0, || unreachable!());
        assert!(ports.table.is_empty());
    }
}
