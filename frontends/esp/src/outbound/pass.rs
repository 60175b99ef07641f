//! One pass of the sending thread: the packets that it has read, in an arena, each under the SA of its policy.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gantry_protocols::esp::{self, Outbound};
use gantry_protocols::{Packet, PacketError};

use crate::acquire_limiter::AcquireLimiter;
use crate::packet::fragment_ports::FragmentPorts;
use crate::packet::ip::Flow;
use crate::packet::reassembly::Reassembly;
use crate::packet::transport::OutsideHeaders;
use crate::shared::{Event, Shared};
use crate::table::{OutgoingRule, OutgoingSa, SharedView, Verdict};

/// Packets and bytes of one pass.
pub(super) const MAX_PASS_PACKETS: usize = 256;
pub(super) const ARENA_BYTES: usize = 1 << 20;
/// Flows that a thread remembers.
const MAX_FLOWS: usize = 4096;

/// A packet in the arena.
pub(super) struct StagedPacket {
    pub(super) sa: Arc<OutgoingSa>,
    flow: Flow,
    /// The range of the packet in the arena, with room for the growth by ESP.
    pub(super) slot: Range<usize>,
    /// The payload of ESP within the slot.
    payload: Range<usize>,
    outside: OutsideHeaders,
    /// Bytes of the packet, including the headers that stay outside ESP.
    pub(super) bytes: usize,
    /// The traffic class of the outer header.
    pub(super) class: u8,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The payload is plaintext.
    Staged,
    /// The packet fills its slot.
    Sealed,
    /// The SA had no number for the packet, so the payload is still plaintext.
    Unnumbered,
    Failed,
}

/// The working memory of a pass.
pub(super) struct Pass {
    /// The rules of flows, valid for this generation of the view.
    pub(super) generation: u64,
    rules_by_flow: HashMap<Flow, Option<Arc<OutgoingRule>>>,
    last: Option<(Flow, Option<Arc<OutgoingRule>>)>,
    pub(super) acquire_limiter: AcquireLimiter,
    pub(super) fragment_ports: FragmentPorts,
    pub(super) reassembly: Reassembly,
    pub(super) arena: Vec<u8>,
    /// Bytes of the arena in use.
    pub(super) arena_used: usize,
    pub(super) staged: Vec<StagedPacket>,
    pub(super) notice_count: u32,
}

impl Pass {
    pub(super) fn new() -> Self {
        Self {
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
        }
    }

    /// Forgets the rules of flows if the view has changed.
    pub(super) fn forget_stale_rules(&mut self, view: &SharedView) {
        let generation = view.generation();
        if self.generation != generation {
            (self.generation, self.rules_by_flow, self.last) = (generation, HashMap::new(), None);
        }
    }

    /// Returns the rule for a flow.
    pub(super) fn rule(&mut self, flow: &Flow, view: &SharedView) -> Option<Arc<OutgoingRule>> {
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
    pub(super) fn stage(
        &mut self,
        sa: &Arc<OutgoingSa>,
        flow: Flow,
        outside: OutsideHeaders,
        bytes: usize,
        class: u8,
        write: impl FnOnce(&mut [u8]),
    ) {
        let OutsideHeaders { length, .. } = outside;
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
        let (sa, state) = (sa.clone(), State::Staged);
        self.staged.push(StagedPacket { sa, flow, slot, payload, outside, bytes, class, state });
    }

    /// Seals all packets in one batch.
    pub(super) fn seal(&mut self, shared: &Shared) {
        shared.counters.sent_batches.add(1);
        let (mut rest, mut at) = (&mut self.arena[..self.arena_used], 0);
        let mut packets = Vec::with_capacity(self.staged.len());
        for staged in &self.staged {
            let (_, behind) = rest.split_at_mut(staged.slot.start - at);
            let (slot, behind) = behind.split_at_mut(staged.slot.len());
            (rest, at) = (behind, staged.slot.end);
            let begin = staged.payload.start - staged.slot.start;
            let mut packet = Packet::new(slot, begin..begin + staged.payload.len());
            packet.next_header = staged.outside.next_header;
            packets.push(packet);
        }
        let mut burst: Vec<(&Outbound, &mut Packet<'_>)> =
            self.staged.iter().zip(&mut packets).map(|(staged, packet)| (&staged.sa.esp, packet)).collect();
        esp::seal(&mut burst);
        drop(burst);
        for (staged, packet) in self.staged.iter_mut().zip(&packets) {
            staged.state = match packet.verdict() {
                Ok(()) => State::Sealed,
                Err(PacketError::Exhausted) => State::Unnumbered,
                Err(_) => {
                    shared.counters.failed.add(1);
                    staged.sa.failed.fetch_add(1, Ordering::Relaxed);
                    State::Failed
                }
            }
        }
    }

    /// Drops all packets, except those without a number if another SA has replaced theirs: they are staged again under that SA. An SA
    /// may be deleted after its packets were staged.
    pub(super) fn restage_unnumbered(&mut self, shared: &Shared) {
        self.staged.retain(|staged| staged.state == State::Unnumbered);
        if self.staged.is_empty() {
            return;
        }
        for StagedPacket { sa, flow, payload, outside, bytes, class, .. } in std::mem::take(&mut self.staged) {
            let rule = self.rule(&flow, &shared.view);
            if let Some(Verdict::Protect(Some(next))) = rule.as_ref().map(|rule| &rule.verdict)
                && can_replace(next, &sa)
            {
                let payload = self.arena[payload][..bytes - outside.length].to_vec();
                self.stage(next, flow, outside, bytes, class, |slot| slot[outside.length..].copy_from_slice(&payload));
                continue;
            }
            shared.counters.expired.add(1);
            if let Some(reached) = sa.volume_limits.take_exhausted() {
                shared.notify(Event::LimitReached(sa.id, sa.serial, reached));
            }
        }
    }
}

/// Returns true if `next` is another SA than `previous` with the same peer and form of packets, and may still send. The flow may belong to
/// another peer by now, which must not get the packets.
fn can_replace(next: &Arc<OutgoingSa>, previous: &Arc<OutgoingSa>) -> bool {
    let parts = |sa: &OutgoingSa| (sa.id.destination, sa.info.reqid, sa.info.mode, sa.copies_dscp, sa.copies_ecn);
    !Arc::ptr_eq(next, previous) && parts(next) == parts(previous) && !next.volume_limits.are_exceeded_by(&next.usage)
}

#[cfg(test)]
mod tests {
    use gantry_abi_xfrm::{Direction, Mode, Policy, Sa};

    use super::*;
    use crate::table::tests::transport::{between, transport_policy, transport_sa};
    use crate::table::tests::{FAR, NEAR, flow, gantry, id, install, policy, sa};
    use crate::table::{ActiveSa, Associations, Policies};

    const INNER: [u8; 24] = [0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 1, 9, 10, 1, 2, 9, 0, 1, 0, 2];

    struct Gateway {
        mode: Mode,
        associations: Associations,
        shared: Shared,
        pass: Pass,
    }

    fn new_policy(mode: Mode) -> Policy {
        if mode == Mode::Transport { transport_policy(Direction::Out) } else { policy(Direction::Out, 100, 0) }
    }

    fn new_sa(mode: Mode, spi: u32) -> Sa {
        if mode == Mode::Transport { transport_sa(FAR, spi) } else { sa(FAR, spi) }
    }

    impl Gateway {
        /// Builds a gateway with a policy and the SA 0x1001.
        fn new(mode: Mode) -> Self {
            let associations = Associations::new(gantry(), 4500).unwrap();
            install(&associations, &mut Policies::default(), new_policy(mode));
            let shared = Shared::new(associations.view.clone()).unwrap();
            let mut gateway = Self { mode, associations, shared, pass: Pass::new() };
            gateway.add(0x1001);
            gateway
        }

        fn add(&mut self, spi: u32) {
            self.associations.add(new_sa(self.mode, spi), false, |address| address == NEAR).unwrap();
        }

        fn stage(&mut self) {
            let flow = if self.mode == Mode::Transport { between(NEAR, FAR) } else { flow(true, 17) };
            let rule = self.pass.rule(&flow, &self.shared.view).unwrap();
            let Verdict::Protect(Some(sa)) = &rule.verdict else { panic!("the policy has no SA") };
            let outside = sa.outside_headers(&INNER).unwrap();
            self.pass.stage(sa, flow, outside, INNER.len(), 0, |slot| slot.copy_from_slice(&INNER));
        }

        /// Seals the packets. Returns SPI and number of the sealed packets.
        fn seal(&mut self) -> Vec<(u32, u32)> {
            self.pass.seal(&self.shared);
            let sealed = self.pass.staged.iter().filter(|staged| staged.state == State::Sealed);
            let word = |esp: &[u8], at: usize| u32::from_be_bytes(*esp[at..].first_chunk().unwrap());
            sealed.map(|staged| &self.pass.arena[staged.slot.clone()]).map(|esp| (word(esp, 0), word(esp, 4))).collect()
        }

        /// Opens a packet of the SA 0x1002 as its receiver. Returns the payload and its protocol.
        fn open(&self, esp: &[u8]) -> (Vec<u8>, u8) {
            let mut receiver = Associations::new(gantry(), 4500).unwrap();
            receiver.add(new_sa(self.mode, 0x1002), false, |address| address == FAR).unwrap();
            let Some(ActiveSa::In(sa)) = receiver.get(&id(FAR, 0x1002)).unwrap().active.clone() else {
                panic!("the SA is not incoming")
            };
            let mut esp = esp.to_vec();
            let length = esp.len();
            let mut packet = Packet::new(&mut esp, 0..length);
            sa.esp.open(&mut packet).unwrap();
            (packet.data().to_vec(), packet.next_header)
        }
    }

    #[test]
    fn packets_of_a_deleted_sa_leave_by_the_sa_that_replaced_it() {
        for (mode, payload, protocol) in [(Mode::Tunnel, &INNER[..], 4), (Mode::Transport, &INNER[20..], 17)] {
            let mut gateway = Gateway::new(mode);
            gateway.stage();
            gateway.stage();
            gateway.add(0x1002);
            gateway.stage();
            gateway.associations.remove(&id(FAR, 0x1001)).unwrap();
            assert_eq!(gateway.seal(), [(0x1002, 1)]);
            gateway.pass.restage_unnumbered(&gateway.shared);
            assert_eq!(gateway.seal(), [(0x1002, 2), (0x1002, 3)]);
            for staged in &gateway.pass.staged {
                assert_eq!(gateway.open(&gateway.pass.arena[staged.slot.clone()]), (payload.to_vec(), protocol));
                assert_eq!(staged.bytes, INNER.len());
            }
            gateway.pass.restage_unnumbered(&gateway.shared);
            assert!(gateway.pass.staged.is_empty());
            assert_eq!(gateway.shared.counters.expired.get(), 0);
        }
    }

    #[test]
    fn packets_of_a_deleted_sa_without_a_replacement_are_counted() {
        let mut gateway = Gateway::new(Mode::Tunnel);
        gateway.stage();
        gateway.associations.remove(&id(FAR, 0x1001)).unwrap();
        assert_eq!(gateway.seal(), []);
        gateway.pass.restage_unnumbered(&gateway.shared);
        assert!(gateway.pass.staged.is_empty());
        assert_eq!(gateway.shared.counters.expired.get(), 1);
    }

    #[test]
    fn packets_of_a_deleted_sa_do_not_go_to_another_peer() {
        let mut gateway = Gateway::new(Mode::Tunnel);
        gateway.stage();
        let mut other = policy(Direction::Out, 50, 0);
        other.templates[0].reqid = 8;
        install(&gateway.associations, &mut Policies::default(), other);
        let other = Sa { reqid: 8, ..sa(FAR, 0x1002) };
        gateway.associations.add(other, false, |address| address == NEAR).unwrap();
        gateway.associations.remove(&id(FAR, 0x1001)).unwrap();
        assert_eq!(gateway.seal(), []);
        gateway.pass.restage_unnumbered(&gateway.shared);
        assert!(gateway.pass.staged.is_empty());
        assert_eq!(gateway.shared.counters.expired.get(), 1);
        gateway.stage();
        assert_eq!(gateway.seal(), [(0x1002, 1)], "new packets do");
    }

    /// An SA at its last number is still the SA of its policy.
    #[test]
    fn packets_of_an_exhausted_sa_are_not_staged_under_it_again() {
        let mut gateway = Gateway::new(Mode::Tunnel);
        gateway.stage();
        gateway.pass.staged[0].sa.esp.close();
        assert_eq!(gateway.seal(), []);
        gateway.pass.restage_unnumbered(&gateway.shared);
        assert!(gateway.pass.staged.is_empty());
        assert!(matches!(gateway.shared.take_events()[..], [Event::LimitReached(..)]));
    }
}
