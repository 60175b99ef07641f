//! SAs of the data path: keys, peers and counters.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use gantry_abi_xfrm::constants::{ENCAP_ESPINUDP, NO_LIMIT, extra, state};
use gantry_abi_xfrm::{Counters, Encapsulation, Limits, Mode, Sa, SaId, Selector};
use gantry_core::Gantry;
use gantry_protocols::esp::{self, Association, Inbound, Outbound};

use super::suite::KeyedSuite;
use super::{Refusal, check_marks};
use crate::packet::ip;
use crate::packet::transport::OutsideHeaders;
use crate::udp::Endpoints;

const ESP: u8 = 50;
/// Bytes of a UDP header.
const UDP_HEADER_BYTES: usize = 8;
/// The default replay window, in packets. Most implementations have it, and it is enough for a burst that several threads open.
const DEFAULT_REPLAY_WINDOW: u32 = 64;

/// Usage of an SA or a policy, counted by the threads of the data path.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) bytes: AtomicU64,
    pub(crate) packets: AtomicU64,
    /// Time of the first packet, in seconds since 1970; 0 before it.
    pub(crate) first_used: AtomicU64,
    /// Time of the last packet, in seconds since 1970; 0 before the first.
    pub(crate) last_used: AtomicU64,
}

impl Usage {
    /// Continues the counters of an SA that was moved here.
    fn new(counters: &Counters) -> Self {
        let Counters { bytes, packets, use_time, .. } = *counters;
        Self { bytes: bytes.into(), packets: packets.into(), first_used: use_time.into(), last_used: use_time.into() }
    }

    /// Counts packets and bytes at time `now`. Returns the totals.
    pub(crate) fn count(&self, now: u64, packets: u64, bytes: u64) -> (u64, u64) {
        if self.first_used.load(Ordering::Relaxed) == 0 {
            self.first_used.store(now, Ordering::Relaxed);
        }
        self.last_used.store(now, Ordering::Relaxed);
        let packets = self.packets.fetch_add(packets, Ordering::Relaxed) + packets;
        (packets, self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes)
    }

    /// Converts the counters to the counters of XFRM.
    pub(crate) fn counters(&self, add_time: u64) -> Counters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters { bytes: load(&self.bytes), packets: load(&self.packets), add_time, use_time: load(&self.first_used) }
    }
}

/// Returns the seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Volume limits of an SA: the soft ones ask for a rekey, the hard ones end the SA. The thread that answers the daemon changes the limits;
/// the other threads read them.
#[derive(Debug, Default)]
pub(crate) struct VolumeLimits {
    soft_bytes: AtomicU64,
    hard_bytes: AtomicU64,
    soft_packets: AtomicU64,
    hard_packets: AtomicU64,
    /// For the soft limit and for the hard limit: true if the daemon has been notified of it.
    notified: [AtomicBool; 2],
}

/// The kind of a limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitKind {
    Soft,
    Hard,
}

impl VolumeLimits {
    fn new(limits: &Limits) -> Self {
        let volume_limits = Self::default();
        volume_limits.set(limits);
        volume_limits
    }

    /// Sets new limits. The daemon will be notified when they are reached, even if it was notified of the old limits.
    pub(super) fn set(&self, limits: &Limits) {
        let Limits { soft_bytes, hard_bytes, soft_packets, hard_packets, .. } = *limits;
        self.soft_bytes.store(soft_bytes, Ordering::Relaxed);
        self.hard_bytes.store(hard_bytes, Ordering::Relaxed);
        self.soft_packets.store(soft_packets, Ordering::Relaxed);
        self.hard_packets.store(hard_packets, Ordering::Relaxed);
        self.reset_notified();
    }

    fn reset_notified(&self) {
        self.notified.iter().for_each(|notified| notified.store(false, Ordering::Relaxed));
    }

    /// Returns whether the SA must not process further packets.
    pub(crate) fn are_exceeded_by(&self, usage: &Usage) -> bool {
        let beyond = |counter: &AtomicU64, limit: &AtomicU64| {
            let limit = limit.load(Ordering::Relaxed);
            limit != NO_LIMIT && counter.load(Ordering::Relaxed) >= limit
        };
        beyond(&usage.bytes, &self.hard_bytes) || beyond(&usage.packets, &self.hard_packets)
    }

    /// Returns the limit that these totals have reached.
    fn limit_reached_by(&self, (packets, bytes): (u64, u64)) -> Option<LimitKind> {
        // Like Linux, treats a missing limit as a limit that is never reached; a limit of 0 is reached by the first packet.
        let reaches = |limit_bytes: &AtomicU64, limit_packets: &AtomicU64| {
            bytes >= limit_bytes.load(Ordering::Relaxed) || packets >= limit_packets.load(Ordering::Relaxed)
        };
        if reaches(&self.hard_bytes, &self.hard_packets) {
            Some(LimitKind::Hard)
        } else {
            reaches(&self.soft_bytes, &self.soft_packets).then_some(LimitKind::Soft)
        }
    }

    /// Returns the limit that these totals have reached, if the daemon has not been notified of it yet.
    pub(crate) fn take_reached(&self, totals: (u64, u64)) -> Option<LimitKind> {
        self.limit_reached_by(totals).filter(|reached| self.mark_notified(*reached))
    }

    /// Returns the hard limit, if the daemon has not been notified of it yet. The end of the sequence numbers counts as the hard limit.
    pub(crate) fn take_exhausted(&self) -> Option<LimitKind> {
        Some(LimitKind::Hard).filter(|reached| self.mark_notified(*reached))
    }

    fn mark_notified(&self, reached: LimitKind) -> bool {
        !self.notified[reached as usize].swap(true, Ordering::Relaxed)
    }

    /// Returns the limit that an SA has reached. After `None`, threads report the present limits again once they are reached.
    fn recheck(&self, usage: &Usage) -> Option<LimitKind> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let current = self.limit_reached_by((load(&usage.packets), load(&usage.bytes)));
        match current {
            Some(reached) => _ = self.mark_notified(reached),
            None => self.reset_notified(),
        }
        current
    }
}

/// Facts about an SA of either direction.
#[derive(Debug)]
pub(crate) struct SaInfo {
    pub(crate) source: IpAddr,
    pub(crate) reqid: u32,
    /// Tunnel or transport mode.
    pub(crate) mode: Mode,
    /// True if the SA's packets are in UDP.
    pub(crate) is_in_udp: bool,
    /// The algorithms and their key sizes in bits.
    pub(crate) algorithm: String,
    /// Time of addition, in seconds since 1970.
    pub(crate) added: u64,
}

impl SaInfo {
    fn new(sa: &Sa) -> Self {
        let algorithm = match (&sa.aead, &sa.cipher, &sa.authentication) {
            (Some(aead), ..) => format!("{} {}", aead.name, aead.key.bits()),
            (None, Some(cipher), Some(authentication)) => {
                format!("{} {} {}", cipher.name, cipher.key.bits(), authentication.name)
            }
            (None, None, Some(authentication)) => authentication.name.clone(),
            _ => String::new(),
        };
        let added = if sa.counters.add_time == 0 { unix_seconds() } else { sa.counters.add_time };
        let (source, reqid, mode) = (sa.source, sa.reqid, sa.mode);
        Self { source, reqid, mode, is_in_udp: sa.encapsulation.is_some(), algorithm, added }
    }

    pub(crate) fn is_transport(&self) -> bool {
        self.mode == Mode::Transport
    }
}

/// An SA for outgoing packets.
#[derive(Debug)]
pub(crate) struct OutgoingSa {
    pub(crate) id: SaId,
    /// The serial number, which distinguishes this SA from earlier and later ones with the same ID.
    pub(crate) serial: u64,
    pub(crate) info: SaInfo,
    pub(crate) esp: Outbound,
    /// Held from the assignment of sequence numbers until the packets are sent.
    pub(crate) send_lock: Mutex<()>,
    /// The UDP port of the peer, 0 without UDP.
    peer_port: AtomicU16,
    /// True if the DSCP is copied to the outer header.
    pub(crate) copies_dscp: bool,
    /// True if the ECN field is copied to the outer header.
    pub(crate) copies_ecn: bool,
    /// True if routers may fragment the SA's packets: the outer header then has no DF flag.
    pub(crate) may_fragment: bool,
    /// MTU of the path in bytes, IP headers included.
    pub(crate) path_mtu: AtomicUsize,
    /// Bytes to which packets are padded against an analysis of traffic (RFC 4303, 2.7), up to the path MTU.
    tfc_padding: usize,
    pub(crate) usage: Usage,
    pub(crate) volume_limits: VolumeLimits,
    pub(crate) failed: AtomicU64,
}

impl OutgoingSa {
    /// Returns the length in bytes of the largest packet whose ESP packet fits the known path MTU.
    pub(crate) fn max_inner_packet_bytes(&self) -> usize {
        let outside = if self.info.is_transport() { self.outer_header_bytes() } else { 0 };
        outside + self.esp.payload_within(self.max_esp_packet_bytes())
    }

    /// Returns the length to which a payload of ESP is padded, in bytes.
    pub(crate) fn padded_length(&self, bytes: usize) -> usize {
        if bytes < self.tfc_padding { bytes.max(self.tfc_padding.min(self.max_inner_packet_bytes())) } else { bytes }
    }

    /// Returns the headers of a packet that stay outside its ESP; `None` if the packet cannot be carried.
    pub(crate) fn outside_headers(&self, packet: &[u8]) -> Option<OutsideHeaders> {
        if self.info.is_transport() { OutsideHeaders::of(packet) } else { Some(OutsideHeaders::default()) }
    }

    /// Returns source and destination of the SA's ESP packets.
    pub(crate) fn endpoints(&self) -> Endpoints {
        Endpoints { from: self.info.source, to: (self.id.destination, self.peer_port.load(Ordering::Relaxed)).into() }
    }

    /// Returns the length in bytes of the largest ESP packet that fits the known path MTU.
    pub(crate) fn max_esp_packet_bytes(&self) -> usize {
        let header = self.outer_header_bytes() + if self.info.is_in_udp { UDP_HEADER_BYTES } else { 0 };
        self.path_mtu.load(Ordering::Relaxed).saturating_sub(header)
    }

    fn outer_header_bytes(&self) -> usize {
        if self.id.destination.is_ipv6() { ip::V6_HEADER_BYTES } else { ip::V4_HEADER_BYTES }
    }
}

/// An SA for incoming packets.
#[derive(Debug)]
pub(crate) struct IncomingSa {
    pub(crate) id: SaId,
    /// The serial number, which distinguishes this SA from earlier and later ones with the same ID.
    pub(crate) serial: u64,
    pub(crate) info: SaInfo,
    pub(crate) esp: Inbound,
    /// The UDP port of the peer according to the daemon, 0 without UDP.
    peer_port: AtomicU16,
    /// True if the daemon has been notified that packets come from another source.
    pub(crate) move_notified: AtomicBool,
    /// True if the ECN field of the outer header is applied to the packet.
    pub(crate) copies_ecn: bool,
    /// True if the DSCP of the outer header is copied to the packet.
    pub(crate) decapsulates_dscp: bool,
    pub(crate) usage: Usage,
    pub(crate) volume_limits: VolumeLimits,
    pub(crate) replayed: AtomicU64,
    pub(crate) forged: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl IncomingSa {
    /// Returns the source of the SA's packets according to the daemon.
    pub(crate) fn peer(&self) -> SocketAddr {
        (self.info.source, self.peer_port.load(Ordering::Relaxed)).into()
    }
}

/// An SA of either direction.
#[derive(Clone, Debug)]
pub(crate) enum ActiveSa {
    Out(std::sync::Arc<OutgoingSa>),
    In(std::sync::Arc<IncomingSa>),
}

/// The sockets of a data path, as far as SAs depend on them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AvailableSockets {
    /// The UDP port of ESP.
    pub(crate) udp_port: u16,
    /// True if there are raw sockets: for IPv4, and for IPv6.
    pub(crate) has_raw: [bool; 2],
}

/// An SA of XFRM that the data path can serve.
pub(super) struct SupportedSa<'s> {
    pub(super) sa: &'s Sa,
    pub(super) keyed: KeyedSuite<'s>,
    /// True if the SA is for incoming packets.
    pub(super) is_incoming: bool,
    /// The last sequence number according to the daemon.
    pub(super) daemon_sequence: u64,
}

impl<'s> SupportedSa<'s> {
    /// Checks an SA for a data path with these sockets. `is_ours` returns whether an address belongs to this host.
    ///
    /// # Errors
    /// EPROTONOSUPPORT and EOPNOTSUPP for unsupported features, ENOSYS for unsupported algorithms.
    pub(super) fn new(
        sa: &'s Sa,
        sockets: AvailableSockets,
        is_ours: impl Fn(IpAddr) -> bool,
    ) -> Result<Self, Refusal> {
        check_features(sa)?;
        let keyed = KeyedSuite::new(sa)?;
        let (output, input) = last_sequence_numbers(sa);
        let is_incoming =
            sa.direction.map_or_else(|| is_ours(sa.id.destination), |direction| direction == SA_DIRECTION_IN);
        let refuse = |text| Err(Refusal::new(libc::EOPNOTSUPP, text));
        if let Some(Encapsulation { source_port, destination_port, .. }) = sa.encapsulation {
            let own_port = if is_incoming { destination_port } else { source_port };
            if own_port != sockets.udp_port {
                let port = sockets.udp_port;
                return refuse(format!("this data path sends and receives at UDP port {port}, not {own_port}"));
            }
        } else if !sockets.has_raw[usize::from(sa.id.destination.is_ipv6())] {
            return refuse(
                "ESP without UDP needs CAP_NET_RAW: give it to the data path, or set `encap = yes`".to_owned(),
            );
        }
        Ok(Self { sa, keyed, is_incoming, daemon_sequence: if is_incoming { input } else { output } })
    }

    /// Builds the SA of the data path. Its sequence numbers begin after `last_number`.
    ///
    /// # Errors
    /// EINVAL for unusable keys.
    pub(super) fn build(self, gantry: &Gantry, last_number: u64, serial: u64) -> Result<ActiveSa, Refusal> {
        let Self { sa, keyed: KeyedSuite { suite, key, integrity_key }, .. } = self;
        let info = SaInfo::new(sa);
        let is_transport = info.is_transport();
        let mode = if is_transport { esp::Mode::Payload } else { esp::Mode::Tunnel };
        let association = Association::new(sa.id.spi, suite, key, integrity_key).mode(mode).last_number(last_number);
        let association = if sa.has_flag(state::ESN) { association.extended_numbers() } else { association };
        let unfit = |error| Refusal::new(libc::EINVAL, format!("{error}"));
        let (usage, volume_limits) = (Usage::new(&sa.counters), VolumeLimits::new(&sa.limits));
        let (from_port, to_port) = sa.encapsulation.map_or((0, 0), |udp| (udp.source_port, udp.destination_port));
        // In transport mode there is only one IP header, whose traffic class always passes.
        let copies_ecn = is_transport || !sa.has_flag(state::NOECN);
        if self.is_incoming {
            let window = replay_window(sa);
            // A window of 0 would disable the replay check.
            let window = if window == 0 { DEFAULT_REPLAY_WINDOW } else { window.max(32) };
            let esp = association.window(window).inbound(gantry).map_err(unfit)?;
            return Ok(ActiveSa::In(std::sync::Arc::new(IncomingSa {
                id: sa.id,
                serial,
                info,
                esp,
                peer_port: from_port.into(),
                move_notified: AtomicBool::new(false),
                copies_ecn,
                decapsulates_dscp: sa.has_flag(state::DECAP_DSCP),
                usage,
                volume_limits,
                replayed: AtomicU64::new(0),
                forged: AtomicU64::new(0),
                failed: AtomicU64::new(0),
            })));
        }
        let esp = association.outbound(gantry).map_err(unfit)?;
        Ok(ActiveSa::Out(std::sync::Arc::new(OutgoingSa {
            id: sa.id,
            serial,
            info,
            esp,
            send_lock: Mutex::new(()),
            peer_port: to_port.into(),
            copies_dscp: is_transport || sa.extra_flags & extra::DONT_ENCAP_DSCP == 0,
            copies_ecn,
            // In transport mode a notice to the sender would also lower the path MTU of the ESP packets, which have the same destination.
            may_fragment: is_transport || sa.has_flag(state::NOPMTUDISC),
            path_mtu: AtomicUsize::new(0),
            tfc_padding: sa.tfc_padding as usize,
            usage,
            volume_limits,
            failed: AtomicU64::new(0),
        })))
    }
}

/// Returns the replay window in a message, in packets.
pub(super) fn replay_window(sa: &Sa) -> u32 {
    sa.replay_esn.as_ref().map_or(sa.replay_window.into(), |replay| replay.window)
}

/// Returns the last sequence numbers in a message: sent, and received.
pub(super) fn last_sequence_numbers(sa: &Sa) -> (u64, u64) {
    match (&sa.replay_esn, &sa.replay) {
        (Some(replay), _) => (replay.output, replay.input),
        (None, Some(replay)) => (replay.output.into(), replay.input.into()),
        (None, None) => (0, 0),
    }
}

impl ActiveSa {
    pub(crate) fn usage(&self) -> &Usage {
        match self {
            ActiveSa::Out(sa) => &sa.usage,
            ActiveSa::In(sa) => &sa.usage,
        }
    }

    pub(super) fn volume_limits(&self) -> &VolumeLimits {
        match self {
            ActiveSa::Out(sa) => &sa.volume_limits,
            ActiveSa::In(sa) => &sa.volume_limits,
        }
    }

    /// Sets the peer's UDP port. The caller has checked that the other port is the same as before.
    pub(super) fn set_peer_port(&self, encapsulation: &Encapsulation) {
        match self {
            ActiveSa::Out(sa) => sa.peer_port.store(encapsulation.destination_port, Ordering::Relaxed),
            ActiveSa::In(sa) => {
                if sa.peer_port.swap(encapsulation.source_port, Ordering::Relaxed) != encapsulation.source_port {
                    sa.move_notified.store(false, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns the last sequence number that was sent or received.
    pub(super) fn last_number(&self) -> u64 {
        match self {
            ActiveSa::Out(sa) => sa.esp.last_number(),
            ActiveSa::In(sa) => sa.esp.last_number(),
        }
    }

    /// Returns the limit of volume or sequence numbers that the SA has reached.
    pub(super) fn recheck_limits(&self) -> Option<LimitKind> {
        match self {
            ActiveSa::Out(sa) if sa.esp.remaining() == 0 => Some(LimitKind::Hard),
            _ => self.volume_limits().recheck(self.usage()),
        }
    }
}

/// The value of XFRMA_SA_DIR for incoming packets.
pub(super) const SA_DIRECTION_IN: u8 = 1;

/// Refuses protocols other than ESP.
pub(super) fn check_protocol(sa: &Sa) -> Result<(), Refusal> {
    let text = "only ESP is supported, not AH or IPComp";
    if sa.id.protocol == ESP { Ok(()) } else { Err(Refusal::new(libc::EPROTONOSUPPORT, text)) }
}

/// The refusal of BEET and other modes.
pub(super) const UNSUPPORTED_MODE: &str = "only tunnel mode and transport mode are supported";

/// Refuses unsupported features instead of ignoring them.
pub(super) fn check_features(sa: &Sa) -> Result<(), Refusal> {
    let refuse = |errno, what: &'static str| Err(Refusal::new(errno, what));
    check_protocol(sa)?;
    if !matches!(sa.mode, Mode::Tunnel | Mode::Transport) {
        return refuse(libc::EOPNOTSUPP, UNSUPPORTED_MODE);
    }
    let is_transport = sa.mode == Mode::Transport;
    if is_transport && (sa.source.is_unspecified() || sa.id.destination.is_unspecified()) {
        return refuse(libc::EOPNOTSUPP, "an SA of transport mode needs the addresses of both ends");
    }
    if sa.encapsulation.is_some_and(|encapsulation| encapsulation.kind != ENCAP_ESPINUDP) {
        return refuse(libc::EOPNOTSUPP, "the only supported encapsulation is that in UDP (`espinudp`)");
    }
    check_marks(&[sa.mark, sa.set_mark], sa.interface_id)?;
    let Selector { source, destination, source_port, destination_port, protocol, interface_index, .. } = sa.selector;
    // All packets of transport mode have the addresses of the SA. Charon repeats these addresses in the selector.
    let is_of_ends = is_transport && source.contains(sa.source) && destination.contains(sa.id.destination);
    let narrows = !is_of_ends && source.length | destination.length != 0 || protocol != 0 || interface_index != 0;
    if narrows || source_port.mask | destination_port.mask != 0 {
        return refuse(libc::EOPNOTSUPP, "selectors of SAs are not supported: use those of policies");
    }
    if sa.has_flag(state::WILDRECV) || sa.has_flag(state::ICMP) {
        return refuse(libc::EOPNOTSUPP, "the flags `wildrecv` and `icmp` are not supported");
    }
    if sa.offload.is_some() {
        return refuse(libc::EOPNOTSUPP, "offload to a network card is not supported");
    }
    if sa.tfc_padding != 0 && is_transport {
        return refuse(libc::EINVAL, "padding for traffic flow confidentiality needs tunnel mode");
    }
    if sa.extra_flags & extra::OSEQ_MAY_WRAP != 0 {
        return refuse(libc::EOPNOTSUPP, "wrapping sequence numbers are not supported");
    }
    if sa.has_flag(state::ESN) && sa.replay_esn.is_none() {
        return refuse(libc::EINVAL, "extended sequence numbers need XFRMA_REPLAY_ESN_VAL");
    }
    Ok(())
}
