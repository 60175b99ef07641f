//! The flows of fragments. Fragments after the first have no ports: they belong to the flow of the first fragment (RFC 4301, 7.3).

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::ip::{Flow, Header};

/// Maximum number of datagrams in the table. A further datagram evicts the oldest.
const MOST: usize = 1024;
/// Seconds after which another datagram may have the same number (`ipfrag_time` of Linux).
const SECONDS: u64 = 30;

/// A datagram: source, destination, protocol and number, and the SPI of the SA of its fragments, which is 0 for outgoing
/// fragments.
type Datagram = (IpAddr, IpAddr, u8, u32, u32);

/// The ports of fragmented datagrams whose first fragment has passed.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    table: HashMap<Datagram, Ports>,
    /// Datagrams in the order of arrival, each with its time.
    order: VecDeque<(Datagram, u64)>,
}

#[derive(Debug)]
struct Ports {
    source: u16,
    destination: u16,
    /// Time of the first fragment, in seconds.
    first_seen: u64,
}

impl Datagrams {
    /// Remembers the ports of a first fragment, and fills in the ports of later fragments. `now` returns the time in seconds.
    pub(crate) fn complete(&mut self, header: &mut Header, spi: u32, now: impl FnOnce() -> u64) {
        let Some(fragment) = header.fragment else { return };
        let Flow { source, destination, protocol, .. } = header.flow;
        let datagram = (source, destination, protocol, fragment.datagram, spi);
        let now = now();
        if !fragment.is_later() {
            let Flow { source_port, destination_port, .. } = header.flow;
            self.table.insert(datagram, Ports { source: source_port, destination: destination_port, first_seen: now });
            self.order.push_back((datagram, now));
            self.forget(now);
        } else if let Some(ports) = self.table.get(&datagram).filter(|ports| now < ports.first_seen + SECONDS) {
            (header.flow.source_port, header.flow.destination_port) = (ports.source, ports.destination);
        }
    }

    fn forget(&mut self, now: u64) {
        while self.order.len() > MOST || self.order.front().is_some_and(|(_, seen)| now >= seen + SECONDS) {
            let Some((datagram, seen)) = self.order.pop_front() else { return };
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

    /// Returns the ports of a fragment of a datagram after [`Datagrams::complete`].
    fn ports(datagrams: &mut Datagrams, datagram: u16, offset: u16, spi: u32, now: u64) -> (u16, u16) {
        let mut packet = v4([10, 1, 0, 1], [10, 2, 0, 1], (40_000, 5060), &[7; 16]);
        packet[4..6].copy_from_slice(&datagram.to_be_bytes());
        packet[6..8].copy_from_slice(&(0x2000 | offset).to_be_bytes());
        let mut header = Header::read(&packet).unwrap();
        datagrams.complete(&mut header, spi, || now);
        (header.flow.source_port, header.flow.destination_port)
    }

    #[test]
    fn later_fragments_have_the_ports_of_their_first() {
        let mut datagrams = Datagrams::default();
        assert_eq!(ports(&mut datagrams, 7, 0, 1, 0), (40_000, 5060));
        assert_eq!(ports(&mut datagrams, 7, 3, 1, 29), (40_000, 5060));
        assert_eq!(ports(&mut datagrams, 8, 3, 1, 0), (0, 0), "of another datagram");
        assert_eq!(ports(&mut datagrams, 7, 3, 2, 0), (0, 0), "of another SA");
        assert_eq!(ports(&mut datagrams, 7, 3, 1, 30), (0, 0), "too late");
    }

    #[test]
    fn old_datagrams_are_forgotten() {
        let mut datagrams = Datagrams::default();
        for number in 0..2000 {
            ports(&mut datagrams, number, 0, 1, 0);
            ports(&mut datagrams, 5, 0, 1, 0);
        }
        assert!(datagrams.table.len() <= MOST && datagrams.order.len() <= MOST);
        assert_eq!(ports(&mut datagrams, 1999, 3, 1, 0), (40_000, 5060));
        ports(&mut datagrams, 1, 0, 1, 40);
        assert_eq!((datagrams.table.len(), datagrams.order.len()), (1, 1));
    }

    #[test]
    fn whole_packets_are_not_remembered() {
        let mut datagrams = Datagrams::default();
        let mut header = Header::read(&v4([1; 4], [2; 4], (3, 4), b"")).unwrap();
        datagrams.complete(&mut header, 0, || unreachable!());
        assert!(datagrams.table.is_empty());
    }
}
