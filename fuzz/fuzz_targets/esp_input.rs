//! Datagrams from strangers, and from peers with keys, at the receiving thread of `gantry esp`. The stack gets exactly the packets that
//! were sealed and that a policy admits, and each packet is counted once.
//!
//! The thread, the table of SAs and the packets are the data path's own. The socket and the TUN device are in this file.

#![no_main]
#![allow(dead_code, unused_imports, reason = "the data path uses all of it")]

#[path = "../../frontends/esp/src/counters.rs"]
mod counters;
#[path = "../../frontends/esp/src/inbound.rs"]
mod inbound;
#[path = "../../frontends/esp/src/local_addresses.rs"]
mod local_addresses;
#[path = "../../frontends/esp/src/packet/mod.rs"]
mod packet;
#[path = "../../frontends/esp/src/shared.rs"]
mod shared;
#[path = "../../frontends/esp/src/table/mod.rs"]
mod table;
#[path = "../../frontends/esp/src/wipe.rs"]
mod wipe;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};

use gantry_abi_xfrm::constants::ENCAP_ESPINUDP;
use gantry_abi_xfrm::{
    Direction, Encapsulation, Family, Key, Mode, NamedAead, NamedAlgorithm, NamedAuthentication, Policy, Prefix,
    Replay, Sa, SaId, Selector, Template,
};
use gantry_core::Gantry;
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::Packet;
use gantry_protocols::esp::{self, Association, Integrity, Outbound, Suite};
use inbound::{InboundPath, Pass};
use libfuzzer_sys::fuzz_target;
use packet::ip::{Header, TCP};
use packet::offload::Offload;
use packet::segment::Segments;
use shared::Shared;
use table::{Associations, Policies};
use udp::{DATAGRAMS_PER_RECEIVE, ReceivedDatagram, Socket};

const ESP: u8 = 50;
const SPI: u32 = 0x1000;
const KEY: [u8; 36] = [7; 36];
const INTEGRITY_KEY: [u8; 32] = [9; 32];
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
/// The network of the peer; the next constant is the network of this host. Packets from the peer's network to this one may come in.
const PEER_NETWORK: [u8; 2] = [10, 2];
const OWN_NETWORK: [u8; 2] = [10, 1];

static GANTRY: LazyLock<Gantry> = LazyLock::new(|| Gantry::builder().driver(&SoftwareDriver).build());

fuzz_target!(|input: &[u8]| {
    let ends = ends();
    let (mut datagrams, mut sealed, mut count) = (Vec::new(), Vec::new(), 0);
    let mut rest = input;
    while let Some((&[kind, class, high, low], more)) = rest.split_first_chunk()
        && datagrams.len() < DATAGRAMS_PER_RECEIVE
    {
        let (content, more) = more.split_at(more.len().min(usize::from(u16::from_be_bytes([high, low]) & 0xFFF)));
        rest = more;
        let of_peer = ends.get(usize::from(kind)).map(|end| seal(end, content, class));
        let (bytes, stride) = match of_peer {
            Some(packet) => {
                sealed.push(content);
                (packet, usize::MAX)
            }
            // Pieces of equal length, as the kernel coalesces them.
            None if kind & 1 == 0 => (content.to_vec(), usize::from(class) + 1),
            None => ([&(SPI + u32::from(kind % 8)).to_be_bytes(), content].concat(), usize::MAX),
        };
        let stride = stride.min(bytes.len()).max(1);
        let is_counted = |piece: &&[u8]| piece.len() != 1 && (piece.len() < 8 || piece[..4] != [0; 4]);
        count += bytes.chunks(stride).filter(is_counted).count() as u64;
        let from = SocketAddr::new(PEER, 4500 + u16::from(kind >> 7));
        datagrams.push((ReceivedDatagram { header_bytes: 0, bytes: bytes.len(), stride, from, class }, bytes));
    }

    let (shared, stack) = receive(datagrams);
    let counters = shared.counters.all();
    let passes = ["received_packets", "received_bytes", "received_batches"];
    let sum: u64 = counters.iter().filter(|(name, ..)| !passes[1..].contains(name)).map(|(.., value)| value).sum();
    assert_eq!(sum, count, "{counters:?}");
    let mut received = 0;
    for (offload, mut packet) in stack {
        let segments = Segments::new(&mut packet, &offload).expect("the stack gets packets only");
        received += segments.count() as u64;
        for at in 0..segments.count() {
            let mut part = vec![0; segments.bytes(at)];
            segments.write(at, &mut part);
            assert!(sealed.iter().any(|content| is_part_of(&part, content)), "the packet was not sealed: {part:x?}");
            assert_eq!((&part[12..14], &part[16..18]), (&PEER_NETWORK[..], &OWN_NETWORK[..]), "no policy is for it");
        }
    }
    assert_eq!(shared.counters.received_packets.get(), received);
});

/// Returns true if a packet equals the sealed one, except for header fields that congestion marks and coalescing change.
fn is_part_of(part: &[u8], content: &[u8]) -> bool {
    let (Some(own), Some(header)) = (Header::read(part), Header::read(content)) else { return false };
    let skipped = if own.flow.protocol == TCP && own.packet_bytes - own.ip_header_bytes >= 18 { 18 } else { 0 };
    own.flow == header.flow
        && content.get(header.ip_header_bytes + skipped..header.packet_bytes)
            == Some(&part[own.ip_header_bytes + skipped..own.packet_bytes])
}

/// Lets the receiving thread take datagrams. Returns its counters, and the packets for the stack.
fn receive(datagrams: Vec<(ReceivedDatagram, Vec<u8>)>) -> (Arc<Shared>, Vec<(Offload, Vec<u8>)>) {
    let associations = associations();
    let shared = Arc::new(Shared::new(associations.view.clone()).unwrap());
    let tun = Arc::new(tun::Queue::default());
    let waker = shared.view.new_waker().unwrap();
    let own_network = IpAddr::from([OWN_NETWORK[0], OWN_NETWORK[1], 0, 0]);
    let local_addresses = local_addresses::LocalAddresses::new(std::iter::once((own_network, 16)));
    let policy = Policies::default().add(policy(), false).unwrap();
    shared.view.change(|view| {
        view.local_addresses = local_addresses;
        view.replace_policy(None, Some(&policy));
    });
    let sockets = vec![Arc::new(Socket::new(datagrams))];
    InboundPath { tun: tun.clone(), sockets, shared: shared.clone(), waker }.pass(&mut Pass::new()).unwrap();
    let stack = std::mem::take(&mut *tun.0.lock().unwrap());
    (shared, stack)
}

/// Returns the ends of the peers, which have the SPIs from [`SPI`] on.
fn ends() -> Vec<Outbound> {
    let suites = [
        (Suite::AesGcm { icv: 16 }, 20, 0),
        (Suite::AesCbc(Integrity::HmacSha256), 16, 32),
        (Suite::Null(Integrity::HmacSha1), 0, 20),
    ];
    let end = |(at, (suite, key, integrity_key)): (usize, (Suite, usize, usize))| {
        Association::new(SPI + at as u32, suite, &KEY[..key], &INTEGRITY_KEY[..integrity_key])
            .mode(esp::Mode::Payload)
            .outbound(&GANTRY)
            .unwrap()
    };
    suites.into_iter().enumerate().map(end).collect()
}

/// Returns the SAs of this host, as a daemon installs them.
fn associations() -> Associations {
    let mut associations = Associations::new(GANTRY.clone(), 4500).unwrap();
    let key = |bytes: &[u8]| Key::new(bytes);
    let aead = NamedAead { name: "rfc4106(gcm(aes))".to_owned(), key: key(&KEY[..20]), icv_bits: 128 };
    let cipher = |name: &str, bytes| Some(NamedAlgorithm { name: name.to_owned(), key: key(&KEY[..bytes]) });
    let authentication = |name: &str, bytes, icv_bits| {
        Some(NamedAuthentication { name: name.to_owned(), key: key(&INTEGRITY_KEY[..bytes]), icv_bits: Some(icv_bits) })
    };
    let algorithms = [
        (Some(aead), None, None),
        (None, cipher("cbc(aes)", 16), authentication("hmac(sha256)", 32, 128)),
        (None, cipher("ecb(cipher_null)", 0), authentication("hmac(sha1)", 20, 96)),
    ];
    for (spi, (aead, cipher, authentication)) in (SPI..).zip(algorithms) {
        let encapsulation =
            Some(Encapsulation { kind: ENCAP_ESPINUDP, source_port: 4500, destination_port: 4500, original: PEER });
        let id = SaId { destination: HERE, spi, protocol: ESP };
        let replay = Some(Replay::default());
        let sa = Sa::new(id, PEER);
        let sa = Sa { mode: Mode::Tunnel, aead, cipher, authentication, encapsulation, replay, reqid: 1, ..sa };
        associations.add(sa, false, |address| address == HERE).unwrap();
    }
    associations
}

fn policy() -> Policy {
    let network = |[a, b]: [u8; 2]| Prefix { address: [a, b, 0, 0].into(), length: 16 };
    let template = Template {
        id: SaId { destination: HERE, spi: 0, protocol: ESP },
        source: PEER,
        reqid: 1,
        mode: Mode::Tunnel,
        share: 0,
        optional: false,
        authentications: u32::MAX,
        ciphers: u32::MAX,
        compressions: u32::MAX,
    };
    let selector =
        Selector { source: network(PEER_NETWORK), destination: network(OWN_NETWORK), ..Selector::any(Family::Ipv4) };
    Policy { templates: vec![template], ..Policy::new(selector, Direction::In) }
}

/// Seals any content, as a peer with keys may do.
fn seal(end: &Outbound, content: &[u8], class: u8) -> Vec<u8> {
    let mut buffer = [&[0; 64][..], content, &[0; 64]].concat();
    let mut packet = Packet::new(&mut buffer, 64..64 + content.len());
    // Mostly IPv4, sometimes other protocols: 59 marks a dummy packet.
    packet.next_header = if class & 0xFC == 0xFC { content.first().copied().unwrap_or(59) } else { 4 };
    end.seal(&mut packet).expect("any content is sealed");
    packet.data().to_vec()
}

/// Replaces the module of routes: the thread only keeps `GuardStatus`.
mod route {
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct GuardStatus;
}

/// A TUN device that keeps its packets.
mod tun {
    use std::io;
    use std::sync::Mutex;

    use crate::packet::offload::Offload;

    #[derive(Default)]
    pub(crate) struct Queue(pub(crate) Mutex<Vec<(Offload, Vec<u8>)>>);

    impl Queue {
        pub(crate) fn write<'p>(
            &self,
            offload: &Offload,
            is_v6: bool,
            pieces: impl Iterator<Item = &'p [u8]>,
        ) -> io::Result<()> {
            let packet: Vec<u8> = pieces.flatten().copied().collect();
            assert_eq!(packet[0] >> 4 == 6, is_v6);
            self.0.lock().unwrap().push((*offload, packet));
            Ok(())
        }
    }
}

/// A socket with some datagrams.
mod udp {
    use std::io;
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::Mutex;

    use nix::sys::eventfd::EventFd;

    pub(crate) const MAX_DATAGRAM_BYTES: usize = 65_535;
    pub(crate) const DATAGRAMS_PER_RECEIVE: usize = 8;
    pub(crate) struct Socket {
        /// A descriptor that is always ready.
        ready: EventFd,
        pub(crate) port: Option<u16>,
        datagrams: Mutex<Vec<(ReceivedDatagram, Vec<u8>)>>,
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct ReceivedDatagram {
        pub(crate) header_bytes: usize,
        pub(crate) bytes: usize,
        pub(crate) stride: usize,
        pub(crate) from: SocketAddr,
        pub(crate) class: u8,
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Endpoints {
        pub(crate) from: IpAddr,
        pub(crate) to: SocketAddr,
    }

    pub(crate) enum RouterReport {
        PathMtu { peer: IpAddr, mtu: usize },
        Other,
    }

    #[derive(Default)]
    pub(crate) struct Receiver {
        pub(crate) received: Vec<ReceivedDatagram>,
    }

    impl Receiver {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        #[allow(clippy::unused_self, reason = "as the data path's own")]
        pub(crate) fn destination(&self, _: usize) -> Option<IpAddr> {
            Some(super::HERE)
        }
    }

    impl Socket {
        pub(crate) fn new(datagrams: Vec<(ReceivedDatagram, Vec<u8>)>) -> Self {
            Self { ready: EventFd::from_value(1).unwrap(), port: Some(4500), datagrams: datagrams.into() }
        }

        pub(crate) fn receive(&self, buffer: &mut [u8], into: &mut Receiver) -> io::Result<()> {
            into.received.clear();
            let all = std::mem::take(&mut *self.datagrams.lock().unwrap());
            for ((received, bytes), place) in all.into_iter().zip(buffer.chunks_exact_mut(MAX_DATAGRAM_BYTES)) {
                place[..bytes.len()].copy_from_slice(&bytes);
                into.received.push(received);
            }
            Ok(())
        }

        pub(crate) fn take_report(&self) -> io::Result<Option<RouterReport>> {
            Ok(None)
        }
    }

    impl AsFd for Socket {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.ready.as_fd()
        }
    }

    /// Accepts every message in place of the daemon.
    #[allow(clippy::unnecessary_wraps, reason = "as the data path's own")]
    pub(crate) fn send_with_source(_: &[u8], _: SocketAddr, _: SocketAddr) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn path_mtu(_: SocketAddr) -> Option<usize> {
        None
    }
}
