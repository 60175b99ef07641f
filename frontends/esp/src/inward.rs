//! The thread that receives: packets from the socket, opened in one batch, into the TUN device.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use gantry_protocols::esp::{self, Inbound};
use gantry_protocols::{Packet, Refused};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use crate::packet::coalesce::{Group, coalesce, pushes};
use crate::packet::ecn;
use crate::packet::ip::{self, Flow, Header};
use crate::shared::{Event, Seen, Shared};
use crate::table::{Incoming, Registered, View, seconds};
use crate::tun::Queue;
use crate::udp::{LARGEST, RECEIVES, Receiver, Report, Socket};

/// How long a socket that cannot receive is let be.
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes of an SPI and a number: what every packet of ESP has.
const LEAST: usize = 8;

/// The thread's own.
pub(crate) struct Inward {
    pub(crate) tun: Arc<Queue>,
    pub(crate) sockets: Vec<Arc<Socket>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) waker: Arc<EventFd>,
}

/// A packet of ESP in the buffer, and then what was in it.
struct Arrived {
    sa: Arc<Incoming>,
    from: SocketAddr,
    /// The traffic class of the header outside.
    class: u8,
    /// Where it is in the buffer.
    range: Range<usize>,
    header: Option<Header>,
}

/// What one pass works with.
pub(crate) struct Pass {
    buffer: Vec<u8>,
    receiver: Receiver,
    seen: Seen,
    arrived: Vec<Arrived>,
}

impl Pass {
    pub(crate) fn new() -> Self {
        let (buffer, receiver) = (vec![0; LARGEST * RECEIVES], Receiver::new());
        Self { buffer, receiver, seen: Seen::default(), arrived: Vec::new() }
    }
}

impl Inward {
    /// Receives until the process ends.
    ///
    /// # Errors
    /// It cannot wait for its sockets.
    pub(crate) fn run(self) -> io::Result<()> {
        let mut pass = Pass::new();
        loop {
            self.pass(&mut pass)?;
        }
    }

    /// Waits for packets, and gives the stack what is in them.
    ///
    /// # Errors
    /// It cannot wait for its sockets.
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
        let Pass { buffer, receiver, seen, arrived } = pass;
        self.shared.renew(seen);
        for (socket, (readable, reports)) in self.sockets.iter().zip(ready) {
            if reports {
                self.hear(socket);
            }
            if readable {
                if socket.receive(buffer, receiver).is_err() {
                    // What an earlier packet of ours met on its way, or that there is no memory just now: neither is the end.
                    thread::sleep(PAUSE);
                    continue;
                }
                self.find(&seen.view, buffer, receiver, arrived);
                self.open(seen, buffer, arrived);
                self.deliver(buffer, arrived);
                arrived.clear();
            }
        }
        Ok(())
    }

    /// What routers on the way say of packets that were sent.
    fn hear(&self, socket: &Socket) {
        while let Ok(Some(report)) = socket.report() {
            if let Report::Narrow { peer, mtu } = report {
                self.shared.narrow(peer, mtu);
            }
        }
    }

    /// Finds the packets of ESP in what was received, each with its SA.
    fn find(&self, view: &View, buffer: &[u8], receiver: &Receiver, arrived: &mut Vec<Arrived>) {
        let counters = &self.shared.counters;
        for (at, received) in receiver.received.iter().enumerate() {
            let all = at * LARGEST..at * LARGEST + received.bytes.min(LARGEST);
            for start in all.clone().step_by(received.stride) {
                let range = start..all.end.min(start + received.stride);
                let packet = &buffer[range.clone()];
                let Some(spi) = packet.first_chunk().filter(|_| packet.len() >= LEAST) else {
                    // One byte keeps a NAT alive (RFC 3948, 2.3).
                    counters.short.add(u64::from(packet.len() != 1));
                    continue;
                };
                match view.incoming.get(&u32::from_be_bytes(*spi)) {
                    Some(sa) if sa.volume.is_over(&sa.used) => counters.expired.add(1),
                    Some(sa) => {
                        let (from, class) = (received.from, received.class);
                        arrived.push(Arrived { sa: sa.clone(), from, class, range, header: None });
                    }
                    // What is meant for the daemon gets here as long as there is none.
                    None => counters.unknown_spi.add(u64::from(*spi != [0; 4])),
                }
            }
        }
    }

    fn open(&self, seen: &Seen, buffer: &mut [u8], arrived: &mut [Arrived]) {
        if arrived.is_empty() {
            return;
        }
        let counters = &self.shared.counters;
        counters.received_batches.add(1);
        let (mut rest, mut at) = (&mut *buffer, 0);
        let mut packets = Vec::with_capacity(arrived.len());
        for one in &*arrived {
            let (before, behind) = rest.split_at_mut(one.range.end - at);
            let packet = &mut before[one.range.start - at..];
            (rest, at) = (behind, one.range.end);
            let length = packet.len();
            packets.push(Packet::new(packet, 0..length));
        }
        let mut burst: Vec<(&Inbound, &mut Packet<'_>)> =
            arrived.iter().zip(&mut packets).map(|(one, packet)| (&one.sa.esp, packet)).collect();
        esp::open(&mut burst);
        drop(burst);
        let opened: Vec<Result<Range<usize>, Refused>> =
            packets.iter().map(|packet| packet.verdict().map(|()| packet.range()).map_err(Clone::clone)).collect();
        drop(packets);
        let (now, mut last) = (seconds(), None);
        for (one, opened) in arrived.iter_mut().zip(opened) {
            match opened {
                Ok(range) => {
                    one.range = one.range.start + range.start..one.range.start + range.end;
                    one.header = self.admit(seen, &mut buffer[one.range.clone()], one, now, &mut last);
                }
                Err(why) => self.refused(&one.sa, &why),
            }
        }
    }

    fn refused(&self, sa: &Incoming, why: &Refused) {
        let counters = &self.shared.counters;
        let count = match why {
            Refused::Replayed => {
                sa.replayed.fetch_add(1, Ordering::Relaxed);
                &counters.replayed
            }
            Refused::Forged => {
                sa.forged.fetch_add(1, Ordering::Relaxed);
                &counters.forged
            }
            Refused::Dummy => &counters.dummies,
            Refused::Malformed(_) => &counters.malformed,
            _ => {
                sa.failed.fetch_add(1, Ordering::Relaxed);
                &counters.failed
            }
        };
        count.add(1);
    }

    /// Whether an authentic packet may go to the stack; its headers.
    fn admit<'a>(
        &self,
        seen: &'a Seen,
        packet: &mut [u8],
        one: &Arrived,
        now: u64,
        last: &mut Option<(Flow, u32, Option<&'a Registered>)>,
    ) -> Option<Header> {
        let (sa, counters) = (&one.sa, &self.shared.counters);
        if one.from != sa.peer && !sa.moved.swap(true, Ordering::Relaxed) {
            self.shared.tell(Event::Moved(sa.id, sa.serial, one.from));
        }
        let count = sa.used.count(now, 1, packet.len() as u64);
        if let Some(reached) = sa.volume.reached(count) {
            self.shared.tell(Event::Reached(sa.id, sa.serial, reached));
        }
        let Some(mut header) = Header::read(packet) else {
            counters.malformed.add(1);
            return None;
        };
        let policy = match last {
            Some((flow, spi, policy)) if *flow == header.flow && *spi == sa.id.spi => *policy,
            _ => last.insert((header.flow, sa.id.spi, seen.view.admits(&header.flow, sa, &seen.own))).2,
        };
        let Some(policy) = policy else {
            counters.unadmitted.add(1);
            return None;
        };
        policy.used.count(now, 1, packet.len() as u64);
        let outer = if sa.copies_ecn { one.class } else { one.class & 0xFC };
        let own = if sa.takes_services { one.class & 0xFC | header.class & 3 } else { header.class };
        let Some(class) = ecn::inner(own, outer) else {
            counters.congested.add(1);
            return None;
        };
        if class != header.class {
            ip::write_class(packet, class);
            header.class = class;
        }
        Some(header)
    }

    /// Gives the stack what was opened: segments of TCP that follow each other as one.
    fn deliver(&self, buffer: &mut [u8], arrived: &[Arrived]) {
        let counters = &self.shared.counters;
        let groups = coalesce(arrived.iter().map(|one| Some((&buffer[one.range.clone()], one.header?))));
        for group in groups {
            let bytes: usize = group.members.iter().map(|at| arrived[*at].range.len()).sum();
            match self.write(buffer, arrived, &group) {
                Ok(()) => {
                    counters.received_packets.add(group.members.len() as u64);
                    counters.received_bytes.add(bytes as u64);
                }
                Err(_) => counters.undelivered.add(group.members.len() as u64),
            }
        }
    }

    fn write(&self, buffer: &mut [u8], arrived: &[Arrived], group: &Group) -> io::Result<()> {
        let [first, .., last] = &group.members[..] else {
            let [only] = &group.members[..] else { return Ok(()) };
            let range = arrived[*only].range.clone();
            let is_v6 = arrived[*only].header.is_some_and(|header| header.is_v6());
            return self.tun.write(
                &group.finish(&mut buffer[range.clone()], false),
                is_v6,
                std::iter::once(&buffer[range]),
            );
        };
        let pushes = arrived[*last].header.is_some_and(|header| pushes(&buffer[arrived[*last].range.clone()], &header));
        let head = arrived[*first].range.clone();
        let is_v6 = arrived[*first].header.is_some_and(|header| header.is_v6());
        let offload = group.finish(&mut buffer[head.clone()], pushes);
        let pieces = group.members[1..].iter().map(|at| {
            let range = &arrived[*at].range;
            &buffer[range.start + group.headers()..range.end]
        });
        self.tun.write(&offload, is_v6, std::iter::once(&buffer[head]).chain(pieces))
    }
}
