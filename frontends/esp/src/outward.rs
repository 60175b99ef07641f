//! The thread that sends: packets from the TUN device, sealed in one batch, out of the socket.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gantry_protocols::esp::{self, Outbound};
use gantry_protocols::{Packet, Refused};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use crate::packet::ecn;
use crate::packet::fragment::Fragments;
use crate::packet::icmp::{self, Notice};
use crate::packet::ip::Flow;
use crate::packet::offload::Offload;
use crate::packet::segment::Split;
use crate::shared::{Event, Seen, Shared, lock};
use crate::table::{Outgoing, Verdict, seconds};
use crate::tun::{self, Queue};
use crate::udp::{self, Socket};

/// Packets of one pass, and bytes of them.
const PACKETS: usize = 256;
const ARENA: usize = 1 << 20;
/// What one packet of the stack becomes, with segments of the usual size. The arena grows for what has shorter ones.
const EXPANDS: usize = 80 << 10;
/// Segments that the kernel takes in one send (UDP_MAX_SEGMENTS), and bytes.
const RUN: usize = 64;
const RUN_BYTES: usize = 65_000;
/// Flows that a thread remembers.
const FLOWS: usize = 4096;
/// Milliseconds from one question for an SA to the next.
const ASK: u64 = 1000;
/// Notices to senders in a pass.
const NOTICES: u32 = 8;

/// The thread's own.
pub(crate) struct Outward {
    pub(crate) tun: Arc<Queue>,
    pub(crate) sockets: [Option<Arc<Socket>>; 2],
    pub(crate) shared: Arc<Shared>,
    pub(crate) waker: Arc<EventFd>,
}

/// A packet in the arena.
struct Staged {
    sa: Arc<Outgoing>,
    /// Its place, with what ESP adds.
    slot: Range<usize>,
    /// The packet in it.
    packet: Range<usize>,
    /// The traffic class of the header outside.
    class: u8,
    /// Sealed, it is all of the slot.
    sealed: bool,
}

/// What one pass works with.
struct Pass {
    seen: Seen,
    /// The rules of flows, as long as the view is the same.
    flows: HashMap<Flow, Option<usize>>,
    last: Option<(Flow, Option<usize>)>,
    arena: Vec<u8>,
    /// Bytes of the arena that are taken.
    used: usize,
    staged: Vec<Staged>,
    notices: u32,
}

impl Outward {
    /// Sends until the device is gone.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn run(self) -> io::Result<()> {
        let mut frame = vec![0; tun::LARGEST];
        let mut pass = Pass {
            seen: Seen::default(),
            flows: HashMap::new(),
            last: None,
            arena: vec![0; ARENA],
            used: 0,
            staged: Vec::with_capacity(2 * PACKETS),
            notices: 0,
        };
        loop {
            let mut fds =
                [PollFd::new(self.tun.as_fd(), PollFlags::POLLIN), PollFd::new(self.waker.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let _ = self.waker.read();
            if self.shared.renew(&mut pass.seen) {
                (pass.flows, pass.last) = (HashMap::new(), None);
            }
            (pass.used, pass.notices) = (0, 0);
            while pass.staged.len() < PACKETS && pass.used + EXPANDS < ARENA {
                let Some((offload, packet)) = self.tun.read(&mut frame)? else { break };
                self.take(&mut pass, &offload, packet);
            }
            if !pass.staged.is_empty() {
                // An SA has its packets sent in the order of their numbers, by one thread after the other: behind what another thread sends
                // meanwhile, a whole pass would be older than the peer's window.
                let associations = associations(&pass.staged);
                let _turns: Vec<_> = associations.iter().map(|sa| lock(&sa.turn)).collect();
                self.seal(&mut pass);
                self.send(&pass);
                // The keys of SAs that are gone meanwhile go with this.
                pass.staged.clear();
            }
        }
    }

    /// Puts what the stack handed over into the arena, under the SA of its policy.
    fn take(&self, pass: &mut Pass, offload: &Offload, packet: &mut [u8]) {
        let counters = &self.shared.counters;
        let Some(split) = Split::new(packet, offload) else { return counters.unreadable.add(1) };
        let header = *split.header();
        let Some(rule) = pass.rule(&header.flow) else {
            counters.unprotected.add(1);
            return self.notify(pass, &split, Notice::Prohibited);
        };
        let rule = &pass.seen.view.leaving[rule];
        let sa = match &rule.verdict {
            Verdict::Block => {
                counters.unprotected.add(1);
                return self.notify(pass, &split, Notice::Prohibited);
            }
            Verdict::Protect(None) => {
                counters.without_sa.add(split.segments() as u64);
                let now = self.shared.milliseconds();
                let asked = rule.policy.asked.load(Ordering::Relaxed);
                if asked == 0 || now - asked >= ASK {
                    rule.policy.asked.store(now, Ordering::Relaxed);
                    self.shared.tell(Event::Wanted(rule.policy.clone(), header.flow));
                }
                return;
            }
            Verdict::Protect(Some(sa)) => sa.clone(),
        };
        if sa.volume.is_over(&sa.used) {
            return counters.expired.add(split.segments() as u64);
        }
        rule.policy.used.count(seconds(), split.segments() as u64, header.total as u64);
        let most = sa.most();
        let class = ecn::outer(header.class, sa.copies_services) & if sa.copies_ecn { 0xFF } else { 0xFC };
        // What every link of IPv6 takes is cut behind ESP where the path is too narrow for that (RFC 8200, 5).
        if split.bytes(0) <= most || header.is_v6() && split.bytes(0) <= icmp::V6_LEAST {
            for segment in 0..split.segments() {
                let slot = pass.stage(&sa, split.bytes(segment), class);
                split.write(segment, slot);
            }
            return;
        }
        let whole = split.whole().filter(|_| !header.keeps_whole);
        if let Some(fragments) = whole.and_then(|packet| Fragments::new(packet, header.length, most)) {
            counters.fragmented.add(1);
            for at in 0..fragments.count() {
                let slot = pass.stage(&sa, fragments.bytes(at), class);
                fragments.write(at, slot);
            }
        } else {
            counters.too_long.add(split.segments() as u64);
            self.notify(pass, &split, Notice::TooLong(most));
        }
    }

    /// Tells the sender of a packet why it did not leave.
    fn notify(&self, pass: &mut Pass, split: &Split<'_>, why: Notice) {
        if pass.notices < NOTICES
            && let Some(notice) = icmp::notice(split.packet(), split.header(), why)
        {
            pass.notices += 1;
            // It is only a notice.
            let _ = self.tun.write(&Offload::default(), split.header().is_v6(), std::iter::once(&notice[..]));
        }
    }

    fn seal(&self, pass: &mut Pass) {
        let counters = &self.shared.counters;
        counters.sent_batches.add(1);
        let (mut rest, mut at) = (&mut pass.arena[..pass.used], 0);
        let mut packets = Vec::with_capacity(pass.staged.len());
        for staged in &pass.staged {
            let (slot, behind) = rest.split_at_mut(staged.slot.end - at);
            (rest, at) = (behind, staged.slot.end);
            let begin = staged.packet.start - staged.slot.start;
            packets.push(Packet::new(slot, begin..begin + staged.packet.len()));
        }
        let mut burst: Vec<(&Outbound, &mut Packet<'_>)> =
            pass.staged.iter().zip(&mut packets).map(|(staged, packet)| (&staged.sa.esp, packet)).collect();
        esp::seal(&mut burst);
        drop(burst);
        let verdicts: Vec<Result<(), Refused>> =
            packets.iter().map(|packet| packet.verdict().map_err(Clone::clone)).collect();
        for (staged, verdict) in pass.staged.iter_mut().zip(verdicts) {
            match verdict {
                Ok(()) => staged.sealed = true,
                Err(Refused::Exhausted) => {
                    counters.expired.add(1);
                    if let Some(reached) = staged.sa.volume.exhausted() {
                        self.shared.tell(Event::Reached(staged.sa.id, staged.sa.serial, reached));
                    }
                }
                Err(_) => {
                    counters.failed.add(1);
                    staged.sa.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Sends what was sealed: what one peer gets as one, where the kernel takes it so.
    fn send(&self, pass: &Pass) {
        let mut rest = &pass.staged[..];
        while let Some(first) = rest.first() {
            let run = if first.sealed { run(rest) } else { 1 };
            let (packets, behind) = rest.split_at(run);
            rest = behind;
            if first.sealed {
                self.send_run(packets, &pass.arena);
            }
        }
    }

    fn send_run(&self, run: &[Staged], arena: &[u8]) {
        let [first, ..] = run else { return };
        let (sa, stride) = (&first.sa, first.slot.len());
        let is_cut = stride > sa.room();
        if is_cut && run.len() > 1 {
            return run.iter().for_each(|staged| self.send_run(std::slice::from_ref(staged), arena));
        }
        let bytes =
            &arena[first.slot.start..first.slot.start + run.iter().map(|staged| staged.slot.len()).sum::<usize>()];
        let counters = &self.shared.counters;
        let Some(socket) = &self.sockets[usize::from(sa.way.to.is_ipv6())] else {
            return counters.unsent.add(run.len() as u64);
        };
        let mut tries = 0;
        loop {
            let sent = if is_cut {
                socket.send_cut(bytes, &sa.way, first.class)
            } else {
                socket.send(bytes, stride, &sa.way, first.class)
            };
            match sent {
                Ok(true) => break,
                // It is full. The packets wait, and the stack's behind them.
                Ok(false) => wait_for(socket),
                Err(error) => {
                    tries += 1;
                    match error.raw_os_error() {
                        Some(libc::EMSGSIZE) => {
                            if let Some(mtu) = udp::path_mtu(sa.way.to) {
                                sa.mtu.store(mtu, Ordering::Relaxed);
                            }
                            return counters.too_long.add(run.len() as u64);
                        }
                        // What an earlier packet met on its way; this one was not tried yet.
                        Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH) if tries < 3 => {}
                        // A queue behind the socket is full.
                        Some(libc::ENOBUFS | libc::ENOMEM) if tries < 100 => wait_for(socket),
                        // A device that cannot compute checksums takes no segments.
                        Some(libc::EIO | libc::EINVAL) if run.len() > 1 => {
                            return run.iter().for_each(|staged| self.send_run(std::slice::from_ref(staged), arena));
                        }
                        _ => return counters.unsent.add(run.len() as u64),
                    }
                }
            }
        }
        let inner: usize = run.iter().map(|staged| staged.packet.len()).sum();
        counters.sent_packets.add(run.len() as u64);
        counters.sent_bytes.add(inner as u64);
        counters.fragmented.add(u64::from(is_cut));
        let count = sa.used.count(seconds(), run.len() as u64, inner as u64);
        if let Some(reached) = sa.volume.reached(count) {
            self.shared.tell(Event::Reached(sa.id, sa.serial, reached));
        }
    }
}

impl Pass {
    /// The place of the rule for a flow.
    fn rule(&mut self, flow: &Flow) -> Option<usize> {
        if let Some((last, rule)) = &self.last
            && last == flow
        {
            return *rule;
        }
        if self.flows.len() >= FLOWS {
            self.flows.clear();
        }
        let rule = *self.flows.entry(*flow).or_insert_with(|| self.seen.view.rule(flow));
        self.last = Some((*flow, rule));
        rule
    }

    /// Room for a packet of so many bytes, behind the others.
    fn stage(&mut self, sa: &Arc<Outgoing>, bytes: usize, class: u8) -> &mut [u8] {
        let (head, tail) = sa.esp.growth(bytes);
        let slot = self.used..self.used + head + bytes + tail;
        let packet = slot.start + head..slot.start + head + bytes;
        self.used = slot.end;
        if self.used > self.arena.len() {
            self.arena.resize(self.used.next_power_of_two(), 0);
        }
        self.staged.push(Staged { sa: sa.clone(), slot, packet: packet.clone(), class, sealed: false });
        &mut self.arena[packet]
    }
}

/// The SAs of packets, each once, in an order that all threads have.
fn associations(staged: &[Staged]) -> Vec<Arc<Outgoing>> {
    let mut all: Vec<Arc<Outgoing>> = Vec::new();
    for Staged { sa, .. } in staged {
        if !all.last().is_some_and(|last| Arc::ptr_eq(last, sa)) {
            all.push(sa.clone());
        }
    }
    all.sort_unstable_by_key(|sa| Arc::as_ptr(sa).addr());
    all.dedup_by(|one, other| Arc::ptr_eq(one, other));
    all
}

/// How many of the packets go out together: of one SA, of one class, and as long as the first but for the last.
fn run(staged: &[Staged]) -> usize {
    let [first, rest @ ..] = staged else { return 0 };
    let (stride, mut bytes, mut count) = (first.slot.len(), first.slot.len(), 1);
    for next in rest {
        let fits = next.sealed
            && Arc::ptr_eq(&next.sa, &first.sa)
            && next.class == first.class
            && next.slot.len() <= stride
            && bytes + next.slot.len() <= RUN_BYTES;
        if !fits || count == RUN {
            break;
        }
        (bytes, count) = (bytes + next.slot.len(), count + 1);
        if next.slot.len() < stride {
            break;
        }
    }
    count
}

/// Waits until a socket takes more, or for a moment.
fn wait_for(socket: &Socket) {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    // What went wrong the next send says.
    let _ = poll(&mut fds, 1_u8);
}
