//! The sending thread: reads packets from the TUN device, seals them in one batch, and sends them.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gantry_protocols::esp::{self, Outbound};
use gantry_protocols::{Packet, PacketError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use crate::acquire_limiter::AcquireLimiter;
use crate::packet::ecn;
use crate::packet::fragment::Fragments;
use crate::packet::fragment_ports::FragmentPorts;
use crate::packet::icmp::{self, NoticeReason};
use crate::packet::ip::Flow;
use crate::packet::offload::Offload;
use crate::packet::reassembly::Reassembly;
use crate::packet::segment::Segments;
use crate::packet::transport::OutsideHeaders;
use crate::shared::{Event, Shared, lock};
use crate::table::{OutgoingRule, OutgoingSa, SharedView, Verdict, unix_seconds};
use crate::tun::{self, Queue};
use crate::udp::{self, Socket};
use crate::wipe::overwrite_stack;

/// Packets and bytes of one pass of the sending loop.
const MAX_PASS_PACKETS: usize = 256;
const ARENA_BYTES: usize = 1 << 20;
/// Bytes that one packet of the stack may grow to with segments of the usual size. The arena grows if segments are shorter.
const MAX_EXPANDED_BYTES: usize = 80 << 10;
/// Segments (UDP_MAX_SEGMENTS) and bytes that the kernel takes in one send.
const MAX_RUN_PACKETS: usize = 64;
const MAX_RUN_BYTES: usize = 65_000;
/// Flows that a thread remembers.
const MAX_FLOWS: usize = 4096;
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

/// A packet in the arena.
struct StagedPacket {
    sa: Arc<OutgoingSa>,
    /// The range of the packet in the arena, with room for the growth by ESP.
    slot: Range<usize>,
    /// The payload of ESP within the slot.
    payload: Range<usize>,
    /// Bytes of the packet, including the headers that stay outside ESP.
    bytes: usize,
    /// The protocol of the payload in transport mode.
    next_header: u8,
    /// The traffic class of the outer header.
    class: u8,
    /// True if the packet is sealed, and so fills the slot.
    is_sealed: bool,
}

/// The working memory of a pass.
struct Pass {
    /// The rules of flows, valid for this generation of the view.
    generation: u64,
    rules_by_flow: HashMap<Flow, Option<Arc<OutgoingRule>>>,
    last: Option<(Flow, Option<Arc<OutgoingRule>>)>,
    acquire_limiter: AcquireLimiter,
    fragment_ports: FragmentPorts,
    reassembly: Reassembly,
    arena: Vec<u8>,
    /// Bytes of the arena in use.
    arena_used: usize,
    staged: Vec<StagedPacket>,
    notice_count: u32,
}

impl OutboundPath {
    /// Sends until the device is gone.
    ///
    /// # Errors
    /// Errors of the device.
    pub(crate) fn run(self) -> io::Result<()> {
        let mut frame = vec![0; tun::MAX_READ_BYTES];
        let mut pass = Pass {
            generation: 0,
            rules_by_flow: HashMap::new(),
            last: None,
            acquire_limiter: AcquireLimiter::default(),
            fragment_ports: FragmentPorts::default(),
            reassembly: Reassembly::default(),
            arena: vec![0; ARENA_BYTES],
            arena_used: 0,
            staged: Vec::with_capacity(2 * MAX_PASS_PACKETS),
            notice_count: 0,
        };
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
            if !pass.staged.is_empty() {
                // Holding each SA's lock from sealing to sending keeps its packets in sequence order across threads. Otherwise a whole pass
                // could be older than the peer's window.
                let sas = distinct_sas(&pass.staged);
                let _send_locks: Vec<_> = sas.iter().map(|sa| lock(&sa.send_lock)).collect();
                self.seal(&mut pass);
                self.send(&pass);
                // Frees the keys of SAs that have been removed during this pass.
                pass.staged.clear();
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
                pass.stage(sa, outside, whole.len(), class, |slot| slot.copy_from_slice(&whole));
            }
            return;
        }
        // A packet that every IPv6 link takes is fragmented behind ESP if the path is too narrow for it (RFC 8200, 5). In transport mode
        // all packets are fragmented there (RFC 4303, 3.3.4), even packets with the DF flag. A notice would lower the path MTU to the peer,
        // which the kernel knows for ESP as well, again and again.
        let may_exceed = is_transport || header.is_v6() && segments.bytes(0) <= icmp::V6_MIN_MTU;
        if segments.bytes(0) <= most || may_exceed {
            for segment in 0..segments.count() {
                pass.stage(sa, outside, segments.bytes(segment), class, |slot| segments.write(segment, slot));
            }
            return;
        }
        let whole = segments.whole().filter(|_| !header.dont_fragment);
        if let Some(fragments) = whole.and_then(|packet| Fragments::new(packet, header.ip_header_bytes, most)) {
            counters.fragmented.add(1);
            for at in 0..fragments.count() {
                pass.stage(sa, outside, fragments.bytes(at), class, |slot| fragments.write(at, slot));
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

    fn seal(&self, pass: &mut Pass) {
        let counters = &self.shared.counters;
        counters.sent_batches.add(1);
        let (mut rest, mut at) = (&mut pass.arena[..pass.arena_used], 0);
        let mut packets = Vec::with_capacity(pass.staged.len());
        for staged in &pass.staged {
            let (slot, behind) = rest.split_at_mut(staged.slot.end - at);
            (rest, at) = (behind, staged.slot.end);
            let begin = staged.payload.start - staged.slot.start;
            let mut packet = Packet::new(slot, begin..begin + staged.payload.len());
            packet.next_header = staged.next_header;
            packets.push(packet);
        }
        let mut burst: Vec<(&Outbound, &mut Packet<'_>)> =
            pass.staged.iter().zip(&mut packets).map(|(staged, packet)| (&staged.sa.esp, packet)).collect();
        esp::seal(&mut burst);
        drop(burst);
        for (staged, packet) in pass.staged.iter_mut().zip(&packets) {
            match packet.verdict() {
                Ok(()) => staged.is_sealed = true,
                Err(PacketError::Exhausted) => {
                    counters.expired.add(1);
                    if let Some(reached) = staged.sa.volume_limits.take_exhausted() {
                        self.shared.notify(Event::LimitReached(staged.sa.id, staged.sa.serial, reached));
                    }
                }
                Err(_) => {
                    counters.failed.add(1);
                    staged.sa.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Sends the sealed packets: several packets to one peer in one call, if the kernel accepts that.
    fn send(&self, pass: &Pass) {
        let mut rest = &pass.staged[..];
        while let Some(first) = rest.first() {
            let count = if first.is_sealed { run_length(rest) } else { 1 };
            let (packets, behind) = rest.split_at(count);
            rest = behind;
            if first.is_sealed {
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

impl Pass {
    /// Forgets the rules of flows if the view has changed.
    fn forget_stale_rules(&mut self, view: &SharedView) {
        let generation = view.generation();
        if self.generation != generation {
            (self.generation, self.rules_by_flow, self.last) = (generation, HashMap::new(), None);
        }
    }

    /// Returns the rule for a flow.
    fn rule(&mut self, flow: &Flow, view: &SharedView) -> Option<Arc<OutgoingRule>> {
        self.forget_stale_rules(view);
        if let Some((last, rule)) = &self.last
            && last == flow
        {
            return rule.clone();
        }
        if self.rules_by_flow.len() >= MAX_FLOWS {
            self.rules_by_flow.clear();
        }
        let rule =
            self.rules_by_flow.entry(*flow).or_insert_with(|| view.read().outgoing_rule(flow).map(Arc::new)).clone();
        self.last = Some((*flow, rule.clone()));
        rule
    }

    /// Appends a packet to the arena, without the headers that stay outside ESP. `write` writes the packet with these headers, which has
    /// `bytes` bytes.
    fn stage(
        &mut self,
        sa: &Arc<OutgoingSa>,
        outside: OutsideHeaders,
        bytes: usize,
        class: u8,
        write: impl FnOnce(&mut [u8]),
    ) {
        let OutsideHeaders { length, next_header } = outside;
        let padded = sa.padded_length(bytes - length);
        let (head, tail) = sa.esp.overhead(padded);
        let begin = self.arena_used + head;
        let payload = begin..begin + padded;
        let slot = self.arena_used..payload.end + tail;
        let needed = slot.end.max(begin + bytes);
        if needed > self.arena.len() {
            self.arena.resize(needed.next_power_of_two(), 0);
        }
        write(&mut self.arena[begin..begin + bytes]);
        if length > 0 {
            self.arena.copy_within(begin + length..begin + bytes, begin);
        }
        self.arena[begin + bytes - length..payload.end].fill(0);
        self.arena_used = slot.end;
        self.staged.push(StagedPacket { sa: sa.clone(), slot, payload, bytes, next_header, class, is_sealed: false });
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
        let fits = next.is_sealed
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
