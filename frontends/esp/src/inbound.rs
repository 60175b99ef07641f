//! The receiving thread: reads packets from the sockets, opens them in one batch, and writes them to the TUN device.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use gantry_protocols::esp::{self, Inbound};
use gantry_protocols::{Packet, PacketError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use crate::packet::coalesce::{Group, coalesce, has_push_flag};
use crate::packet::ecn;
use crate::packet::fragment_ports::FragmentPorts;
use crate::packet::ip::{self, Flow, Header};
use crate::packet::transport;
use crate::shared::{Event, Shared};
use crate::table::{IncomingSa, InstalledPolicy, View, unix_seconds};
use crate::tun::Queue;
use crate::udp::{self, DATAGRAMS_PER_RECEIVE, MAX_DATAGRAM_BYTES, Receiver, RouterReport, Socket};
use crate::wipe::overwrite_stack;

/// Pause after a failed receive.
const RECEIVE_PAUSE: Duration = Duration::from_millis(1);
/// Bytes of an SPI and a sequence number, which every ESP packet has.
const MIN_ESP_BYTES: usize = 8;
/// The marker of IKE in place of an SPI (RFC 3948, 2.2).
const IKE_MARKER: [u8; 4] = [0; 4];

pub(crate) struct InboundPath {
    pub(crate) tun: Arc<Queue>,
    pub(crate) sockets: Vec<Arc<Socket>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) waker: Arc<EventFd>,
}

/// An ESP packet in the buffer; after opening, its content.
struct ReceivedPacket {
    sa: Arc<IncomingSa>,
    from: SocketAddr,
    /// The traffic class of the outer header.
    class: u8,
    /// The range of the packet in the buffer.
    range: Range<usize>,
    /// The protocol of the content.
    next_header: u8,
    header: Option<Header>,
}

impl ReceivedPacket {
    /// Puts the content behind an IP header again. The header gets the addresses of the SA, which the peer has authenticated. The addresses
    /// of the outer header are not authenticated; they differ only while a NAT moves the peer.
    fn rebuild_packet(&mut self, buffer: &mut Vec<u8>) {
        let sa = &self.sa;
        let ends = (sa.info.source, sa.id.destination);
        self.range = transport::rebuild_packet(buffer, self.range.clone(), self.next_header, ends, self.class);
        if sa.info.is_in_udp {
            transport::correct_checksum(&mut buffer[self.range.clone()]);
        }
    }
}

/// The working memory of a pass.
pub(crate) struct Pass {
    buffer: Vec<u8>,
    receiver: Receiver,
    /// The generation of the view whose removed SAs are released.
    generation: u64,
    burst_packets: Vec<ReceivedPacket>,
    fragment_ports: FragmentPorts,
}

impl Pass {
    pub(crate) fn new() -> Self {
        let (buffer, receiver) = (vec![0; MAX_DATAGRAM_BYTES * DATAGRAMS_PER_RECEIVE], Receiver::new());
        Self { buffer, receiver, generation: 0, burst_packets: Vec::new(), fragment_ports: FragmentPorts::default() }
    }
}

impl InboundPath {
    /// Receives until the process ends.
    ///
    /// # Errors
    /// The thread cannot wait for its sockets.
    pub(crate) fn run(self) -> io::Result<()> {
        let mut pass = Pass::new();
        loop {
            self.pass(&mut pass)?;
        }
    }

    /// Waits for packets, opens them, and hands their content to the stack.
    ///
    /// # Errors
    /// The thread cannot wait for its sockets.
    pub(crate) fn pass(&self, pass: &mut Pass) -> io::Result<()> {
        let mut fds: Vec<PollFd<'_>> =
            self.sockets.iter().map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)).collect();
        fds.push(PollFd::new(self.waker.as_fd(), PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has = |fd: &PollFd<'_>, flag| fd.revents().is_some_and(|events| events.intersects(flag));
        let ready: Vec<(bool, bool)> =
            fds.iter().map(|fd| (has(fd, PollFlags::POLLIN), has(fd, PollFlags::POLLERR))).collect();
        let _ = self.waker.read();
        let Pass { buffer, receiver, generation, burst_packets, fragment_ports } = pass;
        for (socket, (readable, reports)) in self.sockets.iter().zip(ready) {
            if reports {
                self.read_reports(socket);
            }
            if readable {
                if socket.receive(buffer, receiver).is_err() {
                    // Such an error may stem from an earlier packet, or from a lack of memory. Both pass.
                    thread::sleep(RECEIVE_PAUSE);
                    continue;
                }
                self.collect_packets(socket, buffer, receiver, burst_packets);
                self.open_packets(buffer, burst_packets, fragment_ports);
                self.deliver(buffer, burst_packets);
                burst_packets.clear();
                // Removes the packets of transport mode, which lie behind the received datagrams.
                buffer.truncate(MAX_DATAGRAM_BYTES * DATAGRAMS_PER_RECEIVE);
            }
        }
        let current = self.shared.view.generation();
        if std::mem::replace(generation, current) != current {
            // The pass may have held the last references to SAs, and so to their keys.
            overwrite_stack();
        }
        Ok(())
    }

    /// Processes the reports of routers about sent packets.
    fn read_reports(&self, socket: &Socket) {
        while let Ok(Some(report)) = socket.take_report() {
            if let RouterReport::PathMtu { peer, mtu } = report {
                self.shared.lower_path_mtu(peer, mtu);
            }
        }
    }

    /// Finds the received ESP packets, each with its SA. Passes on the messages of IKE that the kernel has merged with them.
    fn collect_packets(
        &self,
        socket: &Socket,
        buffer: &[u8],
        receiver: &Receiver,
        burst_packets: &mut Vec<ReceivedPacket>,
    ) {
        let counters = &self.shared.counters;
        let view = self.shared.view.read();
        for (at, received) in receiver.received.iter().enumerate() {
            let all = at * MAX_DATAGRAM_BYTES + received.header_bytes
                ..at * MAX_DATAGRAM_BYTES + received.bytes.min(MAX_DATAGRAM_BYTES);
            for start in all.clone().step_by(received.stride) {
                let range = start..all.end.min(start + received.stride);
                let packet = &buffer[range.clone()];
                let Some(spi) = packet.first_chunk().filter(|_| packet.len() >= MIN_ESP_BYTES) else {
                    // One byte is a NAT keep-alive (RFC 3948, 2.3).
                    counters.short.add(u64::from(packet.len() != 1));
                    continue;
                };
                if *spi == IKE_MARKER
                    && let Some(port) = socket.port
                {
                    // A datagram that was not merged arrives here only while no daemon runs, or if it is longer than its message. It is
                    // dropped, because the kernel would deliver it to this socket again.
                    if received.bytes > received.stride {
                        self.hand_to_daemon(packet, received.from, receiver.destination(at), port);
                    }
                    continue;
                }
                match view.incoming.get(&u32::from_be_bytes(*spi)) {
                    Some(sa) if sa.info.is_in_udp != socket.port.is_some() => counters.mismatched.add(1),
                    Some(sa) if sa.volume_limits.are_exceeded_by(&sa.usage) => counters.expired.add(1),
                    Some(sa) => {
                        let (from, class) = (received.from, received.class);
                        burst_packets.push(ReceivedPacket {
                            sa: sa.clone(),
                            from,
                            class,
                            range,
                            next_header: 0,
                            header: None,
                        });
                    }
                    None => counters.unknown_spi.add(1),
                }
            }
        }
    }

    /// Hands a message of IKE to the daemon.
    fn hand_to_daemon(&self, message: &[u8], from: SocketAddr, to: Option<IpAddr>, port: u16) {
        let to = match (to, from) {
            (Some(IpAddr::V6(to)), SocketAddr::V6(from)) => SocketAddrV6::new(to, port, 0, from.scope_id()).into(),
            (Some(to), _) => (to, port).into(),
            (None, _) => return self.shared.counters.undelivered.add(1),
        };
        if udp::send_with_source(message, from, to).is_err() {
            self.shared.counters.undelivered.add(1);
        }
    }

    /// Opens the packets in the buffer, and removes refused packets. Packets of transport mode move behind the others, with their IP
    /// headers.
    fn open_packets(
        &self,
        buffer: &mut Vec<u8>,
        burst_packets: &mut Vec<ReceivedPacket>,
        fragment_ports: &mut FragmentPorts,
    ) {
        if burst_packets.is_empty() {
            return;
        }
        let counters = &self.shared.counters;
        counters.received_batches.add(1);
        let (mut rest, mut at) = (&mut buffer[..], 0);
        let mut packets = Vec::with_capacity(burst_packets.len());
        for received in &*burst_packets {
            let (before, behind) = rest.split_at_mut(received.range.end - at);
            let packet = &mut before[received.range.start - at..];
            (rest, at) = (behind, received.range.end);
            let length = packet.len();
            packets.push(Packet::new(packet, 0..length));
        }
        let mut burst: Vec<(&Inbound, &mut Packet<'_>)> =
            burst_packets.iter().zip(&mut packets).map(|(received, packet)| (&received.sa.esp, packet)).collect();
        esp::open(&mut burst);
        drop(burst);
        let mut results = packets.iter().map(|packet| packet.verdict().map(|()| (packet.range(), packet.next_header)));
        burst_packets.retain_mut(|received| match results.next() {
            Some(Ok((range, next_header))) => {
                received.next_header = next_header;
                received.range = received.range.start + range.start..received.range.start + range.end;
                true
            }
            Some(Err(why)) => {
                self.count_refusal(&received.sa, why);
                false
            }
            None => false,
        });
        drop(packets);
        let (now, mut last, view) = (unix_seconds(), None, self.shared.view.read());
        for received in burst_packets {
            if received.sa.info.is_transport() {
                received.rebuild_packet(buffer);
            }
            let packet = &mut buffer[received.range.clone()];
            received.header = self.admit(&view, packet, received, now, fragment_ports, &mut last);
        }
    }

    fn count_refusal(&self, sa: &IncomingSa, error: &PacketError) {
        let counters = &self.shared.counters;
        let count = match error {
            PacketError::Replayed => {
                sa.replayed.fetch_add(1, Ordering::Relaxed);
                &counters.replayed
            }
            PacketError::Forged => {
                sa.forged.fetch_add(1, Ordering::Relaxed);
                &counters.forged
            }
            PacketError::Dummy => &counters.dummies,
            PacketError::Malformed(_) => &counters.malformed,
            _ => {
                sa.failed.fetch_add(1, Ordering::Relaxed);
                &counters.failed
            }
        };
        count.add(1);
    }

    /// Decides whether an authentic packet may go to the stack. Returns its headers, or `None`.
    fn admit<'a>(
        &self,
        view: &'a View,
        packet: &mut [u8],
        received: &ReceivedPacket,
        now: u64,
        fragment_ports: &mut FragmentPorts,
        last: &mut Option<(Flow, u32, Option<&'a InstalledPolicy>)>,
    ) -> Option<Header> {
        let (sa, counters) = (&received.sa, &self.shared.counters);
        // Without UDP there is no NAT that could move the peer, and Linux does not compare the peer's address either.
        if sa.info.is_in_udp && received.from != sa.peer() && !sa.move_notified.swap(true, Ordering::Relaxed) {
            // If the queue is full, the next packet tries again. Otherwise only an update resets the flag, perhaps already.
            if !self.shared.notify(Event::PeerMoved(sa.id, sa.serial, received.from)) {
                sa.move_notified.store(false, Ordering::Relaxed);
            }
        }
        let totals = sa.usage.count(now, 1, packet.len() as u64);
        if let Some(reached) = sa.volume_limits.take_reached(totals) {
            self.shared.notify(Event::LimitReached(sa.id, sa.serial, reached));
        }
        let Some(mut header) = Header::read(packet) else {
            counters.malformed.add(1);
            return None;
        };
        fragment_ports.fill_in(&mut header, sa.id.spi, || now);
        let policy = match last {
            Some((flow, spi, policy)) if *flow == header.flow && *spi == sa.id.spi => *policy,
            _ => last.insert((header.flow, sa.id.spi, view.admitting_policy(&header.flow, sa))).2,
        };
        let Some(policy) = policy else {
            counters.unadmitted.add(1);
            return None;
        };
        policy.usage.count(now, 1, packet.len() as u64);
        let outer_class = if sa.copies_ecn { received.class } else { received.class & 0xFC };
        let inner_class = if sa.decapsulates_dscp { received.class & 0xFC | header.class & 3 } else { header.class };
        let Some(class) = ecn::decapsulate(inner_class, outer_class) else {
            counters.congested.add(1);
            return None;
        };
        if class != header.class {
            ip::write_class(packet, class);
            header.class = class;
        }
        Some(header)
    }

    /// Hands the opened packets to the stack, consecutive TCP segments as one packet.
    fn deliver(&self, buffer: &mut [u8], burst_packets: &[ReceivedPacket]) {
        let counters = &self.shared.counters;
        let groups =
            coalesce(burst_packets.iter().map(|received| Some((&buffer[received.range.clone()], received.header?))));
        for group in groups {
            let bytes: usize = group.members.iter().map(|at| burst_packets[*at].range.len()).sum();
            match self.write_group(buffer, burst_packets, &group) {
                Ok(()) => {
                    counters.received_packets.add(group.members.len() as u64);
                    counters.received_bytes.add(bytes as u64);
                }
                Err(_) => counters.undelivered.add(group.members.len() as u64),
            }
        }
    }

    fn write_group(&self, buffer: &mut [u8], burst_packets: &[ReceivedPacket], group: &Group) -> io::Result<()> {
        let [first, .., last] = &group.members[..] else {
            let [only] = &group.members[..] else { return Ok(()) };
            let range = burst_packets[*only].range.clone();
            let is_v6 = burst_packets[*only].header.is_some_and(|header| header.is_v6());
            return self.tun.write(
                &group.finish(&mut buffer[range.clone()], false),
                is_v6,
                std::iter::once(&buffer[range]),
            );
        };
        let pushes = burst_packets[*last]
            .header
            .is_some_and(|header| has_push_flag(&buffer[burst_packets[*last].range.clone()], &header));
        let head = burst_packets[*first].range.clone();
        let is_v6 = burst_packets[*first].header.is_some_and(|header| header.is_v6());
        let offload = group.finish(&mut buffer[head.clone()], pushes);
        let pieces = group.members[1..].iter().map(|at| {
            let range = &burst_packets[*at].range;
            &buffer[range.start + group.header_bytes()..range.end]
        });
        self.tun.write(&offload, is_v6, std::iter::once(&buffer[head]).chain(pieces))
    }
}
