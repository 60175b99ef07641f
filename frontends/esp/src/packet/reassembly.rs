//! Datagrams that the stack has fragmented to the MTU of the device. Transport mode carries them whole (RFC 4303, 3.3.4).

use std::collections::VecDeque;
use std::net::IpAddr;

use super::ip::{self, Header};
use super::transport::OutsideHeaders;
use crate::counters::Count;

/// Maximum number of datagrams that are open at once. A further datagram evicts the oldest.
const MAX_DATAGRAMS: usize = 64;
/// Milliseconds after which an open datagram is dropped. The stack hands over a datagram's fragments back to back; a later datagram may
/// have the same number.
const TIMEOUT_MS: u64 = 1000;
/// Maximum length of a datagram with its header, in bytes.
const MAX_DATAGRAM_BYTES: usize = 65_535;

/// Source, destination, protocol and number.
type DatagramKey = (IpAddr, IpAddr, u8, u32);

/// Datagrams whose first fragments have come. The stack hands over the fragments of a datagram in their order, and all
/// through the same queue.
#[derive(Debug, Default)]
pub(crate) struct Reassembly(VecDeque<OpenDatagram>);

#[derive(Debug)]
struct OpenDatagram {
    key: DatagramKey,
    /// The time of the datagram's latest fragment, in milliseconds.
    last_fragment_ms: u64,
    /// The header and the payload up to now.
    bytes: Vec<u8>,
}

impl Reassembly {
    /// Adds a fragment at the time `now` in milliseconds. `outside` describes the fragment's headers outside ESP. Returns the datagram once
    /// it is whole, with its headers outside ESP. `dropped` counts fragments that do not continue their datagram, and datagrams that are
    /// dropped before they are whole.
    pub(crate) fn add(
        &mut self,
        packet: &[u8],
        header: &Header,
        outside: OutsideHeaders,
        now: u64,
        dropped: &Count,
    ) -> Option<(Vec<u8>, OutsideHeaders)> {
        let fragment = header.fragment?;
        let fixed = if header.is_v6() { ip::V6_HEADER_BYTES } else { ip::V4_HEADER_BYTES };
        let key = (header.flow.source, header.flow.destination, outside.next_header, fragment.identification);
        while self.0.pop_front_if(|oldest| now.saturating_sub(oldest.last_fragment_ms) >= TIMEOUT_MS).is_some() {
            dropped.add(1);
        }
        let open = self.0.iter().position(|open| open.key == key).and_then(|at| self.0.remove(at));
        let mut whole = match open {
            Some(open) if open.bytes.len() == fixed + fragment.offset => open.bytes,
            open => {
                dropped.add(u64::from(open.is_some()) + u64::from(fragment.is_later()));
                if fragment.is_later() {
                    return None;
                }
                let mut whole = packet[..fixed].to_vec();
                if header.is_v6() {
                    whole[6] = outside.next_header;
                } else {
                    whole[6..8].fill(0);
                }
                whole
            }
        };
        whole.extend_from_slice(&packet[outside.length..header.packet_bytes]);
        if whole.len() > MAX_DATAGRAM_BYTES {
            dropped.add(1);
            return None;
        }
        if !fragment.is_last {
            if self.0.len() == MAX_DATAGRAMS {
                self.0.pop_front();
                dropped.add(1);
            }
            self.0.push_back(OpenDatagram { key, last_fragment_ms: now, bytes: whole });
            return None;
        }
        let total = whole.len();
        ip::write_length(&mut whole, fixed, total);
        Some((whole, OutsideHeaders { length: fixed, ..outside }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::fragment::Fragments;
    use crate::packet::ip::UDP;
    use crate::packet::ip::tests::{v4, v6};

    /// Adds packets. Returns the whole datagrams, and the number of dropped ones.
    fn reassemble(packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, u64) {
        reassemble_at(packets, 0)
    }

    /// Adds packets of which each comes `interval` milliseconds after the one before.
    fn reassemble_at(packets: &[Vec<u8>], interval: u64) -> (Vec<Vec<u8>>, u64) {
        let (mut reassembly, dropped) = (Reassembly::default(), Count::default());
        let mut now = 0;
        let add = |packet: &Vec<u8>| {
            now += interval;
            let header = Header::read(packet).unwrap();
            let (whole, outside) =
                reassembly.add(packet, &header, OutsideHeaders::of(packet).unwrap(), now, &dropped)?;
            assert_eq!(OutsideHeaders::of(&whole), Some(outside));
            Some(whole)
        };
        let whole = packets.iter().filter_map(add).collect();
        (whole, dropped.get())
    }

    fn datagram(number: u16, bytes: usize) -> Vec<u8> {
        let mut packet = v4([10, 1, 0, 1], [10, 2, 0, 1], (1701, 1701), &vec![number as u8; bytes]);
        packet[4..6].copy_from_slice(&number.to_be_bytes());
        let total = packet.len();
        ip::write_length(&mut packet, ip::V4_HEADER_BYTES, total);
        packet
    }

    fn fragments(packet: &[u8], most: usize) -> Vec<Vec<u8>> {
        let fragments = Fragments::new(packet, 20, most).unwrap();
        let write = |at| {
            let mut out = vec![0; fragments.bytes(at)];
            fragments.write(at, &mut out);
            out
        };
        (0..fragments.count()).map(write).collect()
    }

    #[test]
    fn datagrams_become_whole_even_if_they_are_interleaved() {
        let all = [datagram(1, 3000), datagram(2, 2900)];
        let [one, two] = all.each_ref().map(|whole| fragments(whole, 1400));
        assert_eq!((one.len(), two.len()), (3, 3));
        let mixed: Vec<_> = one.into_iter().zip(two).flat_map(|(one, two)| [one, two]).collect();
        assert_eq!(reassemble(&mixed), (all.to_vec(), 0));
    }

    #[test]
    fn datagrams_of_ipv6_lose_their_fragment_headers() {
        let whole = v6(&[], UDP, &[7; 92]);
        let piece = |offset: u16, more: u16, payload: &[u8]| {
            let [high, low] = (offset | more).to_be_bytes();
            let mut packet = [&whole[..40], &[UDP, 0, high, low, 0, 0, 0, 9], payload].concat();
            packet[6] = 44;
            let total = packet.len();
            ip::write_length(&mut packet, ip::V6_HEADER_BYTES, total);
            packet
        };
        let pieces = [piece(0, 1, &whole[40..88]), piece(48, 0, &whole[88..])];
        assert_eq!(reassemble(&pieces), (vec![whole.clone()], 0));
        assert_eq!(reassemble(&[piece(0, 0, &whole[40..])]), (vec![whole.clone()], 0), "a single fragment (RFC 6946)");
    }

    #[test]
    fn fragments_that_do_not_continue_a_datagram_are_dropped() {
        let parts = fragments(&datagram(1, 3000), 1400);
        let [first, second, last] = &parts[..] else { panic!("{}", parts.len()) };
        let drops = |packets: &[&Vec<u8>]| {
            let packets: Vec<_> = packets.iter().map(|packet| (*packet).clone()).collect();
            let (whole, dropped) = reassemble(&packets);
            assert!(whole.is_empty());
            dropped
        };
        assert_eq!(drops(&[second, last]), 2, "without the first");
        assert_eq!(drops(&[first, last]), 2, "with a gap");
        assert_eq!(drops(&[first, second, second, last]), 3, "twice");
        assert_eq!(drops(&[first, first]), 1, "begun anew");
        let (whole, dropped) = reassemble(&[std::slice::from_ref(first), &parts[..]].concat());
        assert_eq!((whole.len(), dropped), (1, 1), "the number of an earlier datagram");
    }

    #[test]
    fn an_old_datagram_is_not_continued_by_a_later_one_of_its_number() {
        let parts = fragments(&datagram(1, 3000), 1400);
        assert_eq!(reassemble_at(&parts, TIMEOUT_MS - 1).0.len(), 1);
        assert_eq!(
            reassemble_at(&parts, TIMEOUT_MS),
            (vec![], 3),
            "the first times out, and later ones continue nothing"
        );
    }

    #[test]
    fn open_datagrams_take_bounded_memory() {
        let firsts: Vec<_> =
            (0..MAX_DATAGRAMS as u16 + 3).map(|number| fragments(&datagram(number, 2000), 1400).remove(0)).collect();
        assert_eq!(reassemble(&firsts), (vec![], 3));
        // Later fragments that end beyond the longest packet.
        let mut parts = vec![fragments(&datagram(1, 60_000), 1400).remove(0)];
        while parts.len() < 50 {
            let mut next = parts[0].clone();
            let offset = (parts.len() * (parts[0].len() - 20) / 8) as u16;
            next[6..8].copy_from_slice(&(0x2000 | offset).to_be_bytes());
            parts.push(next);
        }
        assert!(matches!(reassemble(&parts), (whole, 1..) if whole.is_empty()));
    }
}
