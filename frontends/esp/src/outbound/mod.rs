//! The sending thread: reads packets from the TUN device, seals them in one batch, and sends them.

mod pass;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use self::pass::{ARENA_BYTES, MAX_PASS_PACKETS, Pass, StagedPacket, State};
use crate::packet::ecn;
use crate::packet::fragment::Fragments;
use crate::packet::icmp::{self, NoticeReason};
use crate::packet::offload::Offload;
use crate::packet::segment::Segments;
use crate::shared::{Event, Shared, lock};
use crate::table::{OutgoingSa, Verdict, unix_seconds};
use crate::tun::{self, Queue};
use crate::udp::{self, Socket};
use crate::wipe::overwrite_stack;

/// Bytes that one packet of the stack may grow to with segments of the usual size. The arena grows if segments are shorter.
const MAX_EXPANDED_BYTES: usize = 80 << 10;
/// Segments (UDP_MAX_SEGMENTS) and bytes that the kernel takes in one send.
const MAX_RUN_PACKETS: usize = 64;
const MAX_RUN_BYTES: usize = 65_000;
/// Maximum number of ICMP notices to senders in a pass.
const MAX_NOTICES: u32 = 8;

pub(crate) struct OutboundPath {
    pub(crate) tun: Arc<Queue>,
    pub(crate) sockets: [Option<Arc<Socket>>; 2],
    /// The raw sockets, for SAs without UDP.
    pub(crate) raw_sockets: [Option<Arc<Socket>>; 2],
    pub(crate) shared: Arc<Shared>,
    pub(crate) waker: Arc<EventFd>,
}

impl OutboundPath {
    /// Sends until the device is gone.
    ///
    /// # Errors
    /// Errors of the device.
    pub(crate) fn run(self) -> io::Result<()> {
        let mut frame = vec![0; tun::MAX_READ_BYTES];
        let mut pass = Pass::new();
        loop {
            let mut fds =
                [PollFd::new(self.tun.as_fd(), PollFlags::POLLIN), PollFd::new(self.waker.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let _ = self.waker.read();
            let generation = pass.generation;
            pass.forget_stale_rules(&self.shared.view);
            (pass.arena_used, pass.notice_count) = (0, 0);
            while pass.staged.len() < MAX_PASS_PACKETS && pass.arena_used + MAX_EXPANDED_BYTES < ARENA_BYTES {
                let Some((offload, packet)) = self.tun.read(&mut frame)? else { break };
                self.stage_packet(&mut pass, &offload, packet);
            }
            while !pass.staged.is_empty() {
                // Holding each SA's lock from sealing to sending keeps its packets in sequence order across threads. Otherwise a whole pass
                // could be older than the peer's window.
                let sas = distinct_sas(&pass.staged);
                let send_locks: Vec<_> = sas.iter().map(|sa| lock(&sa.send_lock)).collect();
                pass.seal(&self.shared);
                self.send(&pass);
                drop(send_locks);
                // Frees the keys of SAs that have been removed during this pass.
                pass.restage_unnumbered(&self.shared);
            }
            if pass.generation != generation {
                // The pass may have held the last references to SAs, and so to their keys.
                overwrite_stack();
            }
        }
    }

    /// Puts a packet from the stack into the arena, under the SA of its policy.
    fn stage_packet(&self, pass: &mut Pass, offload: &Offload, packet: &mut [u8]) {
        let counters = &self.shared.counters;
        let Some(segments) = Segments::new(packet, offload) else { return counters.unreadable.add(1) };
        let mut header = *segments.header();
        pass.fragment_ports.fill_in(&mut header, 0, unix_seconds);
        let Some(rule) = pass.rule(&header.flow, &self.shared.view) else {
            counters.unprotected.add(1);
            return self.notify(pass, &segments, NoticeReason::Prohibited);
        };
        let sa = match &rule.verdict {
            Verdict::Block => {
                counters.unprotected.add(1);
                return self.notify(pass, &segments, NoticeReason::Prohibited);
            }
            Verdict::Protect(None) => {
                counters.without_sa.add(segments.count() as u64);
                if pass.acquire_limiter.try_request(&rule.policy, &header.flow, self.shared.uptime_ms()) {
                    self.shared.notify(Event::SaRequested(rule.policy.clone(), header.flow));
                }
                return;
            }
            Verdict::Protect(Some(sa)) => sa,
        };
        if sa.volume_limits.are_exceeded_by(&sa.usage) {
            return counters.expired.add(segments.count() as u64);
        }
        let Some(outside) = sa.outside_headers(segments.packet()) else {
            return counters.unfit.add(segments.count() as u64);
        };
        rule.policy.usage.count(unix_seconds(), segments.count() as u64, header.packet_bytes as u64);
        let most = sa.max_inner_packet_bytes();
        let class = ecn::encapsulate(header.class, sa.copies_dscp) & if sa.copies_ecn { 0xFF } else { 0xFC };
        let is_transport = sa.info.is_transport();
        if is_transport && header.fragment.is_some() {
            let now = self.shared.uptime_ms();
            let whole = pass.reassembly.add(segments.packet(), &header, outside, now, &counters.unfit);
            if let Some((whole, outside)) = whole {
                pass.stage(sa, header.flow, outside, whole.len(), class, |slot| slot.copy_from_slice(&whole));
            }
            return;
        }
        // A packet that every IPv6 link takes is fragmented behind ESP if the path is too narrow for it (RFC 8200, 5). In transport mode
        // all packets are fragmented there (RFC 4303, 3.3.4), even packets with the DF flag. A notice would lower the path MTU to the peer,
        // which the kernel knows for ESP as well, again and again.
        let may_exceed = is_transport || header.is_v6() && segments.bytes(0) <= icmp::V6_MIN_MTU;
        if segments.bytes(0) <= most || may_exceed {
            for segment in 0..segments.count() {
                pass.stage(sa, header.flow, outside, segments.bytes(segment), class, |slot| {
                    segments.write(segment, slot);
                });
            }
            return;
        }
        let whole = segments.whole().filter(|_| !header.dont_fragment);
        if let Some(fragments) = whole.and_then(|packet| Fragments::new(packet, header.ip_header_bytes, most)) {
            counters.fragmented.add(1);
            for at in 0..fragments.count() {
                pass.stage(sa, header.flow, outside, fragments.bytes(at), class, |slot| fragments.write(at, slot));
            }
        } else {
            counters.too_long.add(segments.count() as u64);
            self.notify(pass, &segments, NoticeReason::TooLong(most));
        }
    }

    /// Tells the sender of a packet why it was dropped.
    fn notify(&self, pass: &mut Pass, segments: &Segments<'_>, reason: NoticeReason) {
        if pass.notice_count < MAX_NOTICES
            && let Some(notice) = icmp::build_notice(segments.packet(), segments.header(), reason)
        {
            pass.notice_count += 1;
            // A lost notice does no harm.
            let _ = self.tun.write(&Offload::default(), segments.header().is_v6(), std::iter::once(&notice[..]));
        }
    }

    /// Sends the sealed packets: several packets to one peer in one call, if the kernel accepts that.
    fn send(&self, pass: &Pass) {
        let mut rest = &pass.staged[..];
        while let Some(first) = rest.first() {
            let count = if first.state == State::Sealed { run_length(rest) } else { 1 };
            let (packets, behind) = rest.split_at(count);
            rest = behind;
            if first.state == State::Sealed {
                self.send_run(packets, &pass.arena);
            }
        }
    }

    fn send_run(&self, run: &[StagedPacket], arena: &[u8]) {
        let [first, ..] = run else { return };
        let (sa, stride, endpoints) = (&first.sa, first.slot.len(), first.sa.endpoints());
        // Routers fragment packets without a DF flag. IPv6 has none.
        let by_routers = sa.info.is_transport() && !endpoints.to.is_ipv6();
        let is_fragmented = stride > sa.max_esp_packet_bytes() && !by_routers;
        if is_fragmented && run.len() > 1 {
            return run.iter().for_each(|staged| self.send_run(std::slice::from_ref(staged), arena));
        }
        let bytes =
            &arena[first.slot.start..first.slot.start + run.iter().map(|staged| staged.slot.len()).sum::<usize>()];
        let counters = &self.shared.counters;
        let sockets = if sa.info.is_in_udp { &self.sockets } else { &self.raw_sockets };
        let Some(socket) = &sockets[usize::from(endpoints.to.is_ipv6())] else {
            return counters.unsent.add(run.len() as u64);
        };
        let mut attempts = 0;
        loop {
            let sent = if is_fragmented || sa.may_fragment {
                socket.send_fragmentable(bytes, stride, &endpoints, first.class, by_routers)
            } else {
                socket.send(bytes, stride, &endpoints, first.class)
            };
            match sent {
                Ok(true) => break,
                // The socket is full. Further packets of the stack wait in the device's queue.
                Ok(false) => wait_until_writable(socket),
                Err(error) => {
                    attempts += 1;
                    match error.raw_os_error() {
                        Some(libc::EMSGSIZE) if !by_routers || run.len() == 1 => {
                            if let Some(mtu) = udp::path_mtu(endpoints.to) {
                                sa.path_mtu.store(mtu, Ordering::Relaxed);
                            }
                            return counters.too_long.add(run.len() as u64);
                        }
                        // Such an error may stem from an earlier packet; the kernel has not tried to send this packet.
                        Some(
                            libc::ECONNREFUSED
                            | libc::EHOSTUNREACH
                            | libc::ENETUNREACH
                            | libc::ENOPROTOOPT
                            | libc::EPROTO,
                        ) if attempts < 3 => {}
                        // A queue behind the socket is full.
                        Some(libc::ENOBUFS | libc::ENOMEM) if attempts < 100 => wait_until_writable(socket),
                        // A device that cannot compute checksums takes no segments, and no device takes segments beyond its MTU.
                        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE) if run.len() > 1 => {
                            return run.iter().for_each(|staged| self.send_run(std::slice::from_ref(staged), arena));
                        }
                        _ => return counters.unsent.add(run.len() as u64),
                    }
                }
            }
        }
        let inner: usize = run.iter().map(|staged| staged.bytes).sum();
        counters.sent_packets.add(run.len() as u64);
        counters.sent_bytes.add(inner as u64);
        counters.fragmented.add(u64::from(is_fragmented));
        let totals = sa.usage.count(unix_seconds(), run.len() as u64, inner as u64);
        if let Some(reached) = sa.volume_limits.take_reached(totals) {
            self.shared.notify(Event::LimitReached(sa.id, sa.serial, reached));
        }
    }
}

/// Returns the SAs of packets without duplicates, sorted by address so that all threads lock them in the same order.
fn distinct_sas(staged: &[StagedPacket]) -> Vec<Arc<OutgoingSa>> {
    let mut all: Vec<Arc<OutgoingSa>> = Vec::new();
    for StagedPacket { sa, .. } in staged {
        if !all.last().is_some_and(|last| Arc::ptr_eq(last, sa)) {
            all.push(sa.clone());
        }
    }
    all.sort_unstable_by_key(|sa| Arc::as_ptr(sa).addr());
    all.dedup_by(|one, other| Arc::ptr_eq(one, other));
    all
}

/// Counts the packets, from the first on, that one call sends: packets of the same SA and class with equal lengths; the last one may be
/// shorter.
fn run_length(staged: &[StagedPacket]) -> usize {
    let [first, rest @ ..] = staged else { return 0 };
    let (stride, mut bytes, mut count) = (first.slot.len(), first.slot.len(), 1);
    for next in rest {
        let fits = next.state == State::Sealed
            // A raw socket takes one packet in a send.
            && first.sa.info.is_in_udp
            && Arc::ptr_eq(&next.sa, &first.sa)
            && next.class == first.class
            && next.slot.len() <= stride
            && bytes + next.slot.len() <= MAX_RUN_BYTES;
        if !fits || count == MAX_RUN_PACKETS {
            break;
        }
        (bytes, count) = (bytes + next.slot.len(), count + 1);
        if next.slot.len() < stride {
            break;
        }
    }
    count
}

/// Waits until a socket accepts more, for at most a millisecond.
fn wait_until_writable(socket: &Socket) {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    // The next send reports errors.
    let _ = poll(&mut fds, 1_u8);
}
