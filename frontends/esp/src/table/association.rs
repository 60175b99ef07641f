//! SAs as the data path has them: keys, peers and counters.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use gantry_abi_xfrm::constants::{ENCAP_ESPINUDP, NO_LIMIT, extra, state};
use gantry_abi_xfrm::{Counters, Encapsulation, Limits, Mode, Sa, SaId};
use gantry_core::Gantry;
use gantry_protocols::esp::{Association, Inbound, Outbound};

use super::Refusal;
use super::suite::Keyed;
use crate::packet::ip;
use crate::udp::Way;

/// The protocol number of ESP.
const ESP: u8 = 50;
/// Bytes of the header of UDP.
const UDP: usize = 8;
/// The window of an SA that says none, in packets: that of most implementations, and enough for a burst that several threads open.
const WINDOW: u32 = 64;

/// What an SA or a policy has done, counted by the threads of the data path.
#[derive(Debug, Default)]
pub(crate) struct Use {
    pub(crate) bytes: AtomicU64,
    pub(crate) packets: AtomicU64,
    /// Seconds since 1970; 0 before the first packet.
    pub(crate) first: AtomicU64,
    pub(crate) last: AtomicU64,
}

impl Use {
    /// Goes on from the counters of an SA that was elsewhere.
    fn new(counters: &Counters) -> Self {
        let Counters { bytes, packets, use_time, .. } = *counters;
        Self { bytes: bytes.into(), packets: packets.into(), first: use_time.into(), last: use_time.into() }
    }

    /// Counts packets at a time, and says how many there were with them.
    pub(crate) fn count(&self, now: u64, packets: u64, bytes: u64) -> (u64, u64) {
        if self.first.load(Ordering::Relaxed) == 0 {
            self.first.store(now, Ordering::Relaxed);
        }
        self.last.store(now, Ordering::Relaxed);
        let packets = self.packets.fetch_add(packets, Ordering::Relaxed) + packets;
        (packets, self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes)
    }

    /// The same as XFRM has it.
    pub(crate) fn counters(&self, add_time: u64) -> Counters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters { bytes: load(&self.bytes), packets: load(&self.packets), add_time, use_time: load(&self.first) }
    }
}

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Volume after which an SA is to be replaced, and after which it ends. The thread of the daemon changes it; the others read it.
#[derive(Debug, Default)]
pub(crate) struct Volume {
    soft_bytes: AtomicU64,
    hard_bytes: AtomicU64,
    soft_packets: AtomicU64,
    hard_packets: AtomicU64,
    /// The daemon has been told of the soft limit, and of the hard one.
    told: [AtomicBool; 2],
}

/// What became of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    Soft,
    Hard,
}

impl Volume {
    fn new(limits: &Limits) -> Self {
        let volume = Self::default();
        volume.set(limits);
        volume
    }

    /// Sets other limits, of which the daemon has not been told.
    pub(super) fn set(&self, limits: &Limits) {
        let Limits { soft_bytes, hard_bytes, soft_packets, hard_packets, .. } = *limits;
        self.soft_bytes.store(soft_bytes, Ordering::Relaxed);
        self.hard_bytes.store(hard_bytes, Ordering::Relaxed);
        self.soft_packets.store(soft_packets, Ordering::Relaxed);
        self.hard_packets.store(hard_packets, Ordering::Relaxed);
        self.forget();
    }

    fn forget(&self) {
        self.told.iter().for_each(|told| told.store(false, Ordering::Relaxed));
    }

    /// Whether packets of the SA may pass no more.
    pub(crate) fn is_over(&self, used: &Use) -> bool {
        let beyond = |counter: &AtomicU64, limit: &AtomicU64| {
            let limit = limit.load(Ordering::Relaxed);
            limit != NO_LIMIT && counter.load(Ordering::Relaxed) >= limit
        };
        beyond(&used.bytes, &self.hard_bytes) || beyond(&used.packets, &self.hard_packets)
    }

    /// The limit that these packets and bytes have reached.
    fn limit(&self, (packets, bytes): (u64, u64)) -> Option<Reached> {
        // Linux takes no limit for one that is not reached; 0 is the first packet.
        let over = |limit_bytes: &AtomicU64, limit_packets: &AtomicU64| {
            bytes >= limit_bytes.load(Ordering::Relaxed) || packets >= limit_packets.load(Ordering::Relaxed)
        };
        if over(&self.hard_bytes, &self.hard_packets) {
            Some(Reached::Hard)
        } else {
            over(&self.soft_bytes, &self.soft_packets).then_some(Reached::Soft)
        }
    }

    /// The limit that these packets and bytes have reached, if the daemon has not been told of it yet.
    pub(crate) fn reached(&self, count: (u64, u64)) -> Option<Reached> {
        self.limit(count).filter(|reached| self.is_first(*reached))
    }

    /// The hard limit, which no number left under the keys is as well, if the daemon has not been told of it yet.
    pub(crate) fn exhausted(&self) -> Option<Reached> {
        Some(Reached::Hard).filter(|reached| self.is_first(*reached))
    }

    fn is_first(&self, reached: Reached) -> bool {
        !self.told[reached as usize].swap(true, Ordering::Relaxed)
    }

    /// The limit that an SA has reached. Without one, a thread that reported a limit read earlier limits: it will report the next one again.
    fn due(&self, used: &Use) -> Option<Reached> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let due = self.limit((load(&used.packets), load(&used.bytes)));
        match due {
            Some(reached) => _ = self.is_first(reached),
            None => self.forget(),
        }
        due
    }
}

/// Facts about an SA for the status.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) source: IpAddr,
    pub(crate) reqid: u32,
    /// The algorithms and the bits of their keys.
    pub(crate) algorithm: String,
    /// When it was added, in seconds since 1970.
    pub(crate) added: u64,
}

impl About {
    fn new(sa: &Sa) -> Self {
        let algorithm = match (&sa.aead, &sa.cipher, &sa.authentication) {
            (Some(aead), ..) => format!("{} {}", aead.name, aead.key.bits()),
            (None, Some(cipher), Some(authentication)) => {
                format!("{} {} {}", cipher.name, cipher.key.bits(), authentication.name)
            }
            (None, None, Some(authentication)) => authentication.name.clone(),
            _ => String::new(),
        };
        let added = if sa.counters.add_time == 0 { seconds() } else { sa.counters.add_time };
        Self { source: sa.source, reqid: sa.reqid, algorithm, added }
    }
}

/// An SA by which packets leave.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) id: SaId,
    /// The serial number, which tells this SA from an earlier or later one of its name.
    pub(crate) serial: u64,
    pub(crate) about: About,
    pub(crate) esp: Outbound,
    /// Held from when packets get their numbers until they are sent.
    pub(crate) turn: Mutex<()>,
    /// Where its packets go.
    pub(crate) way: Way,
    /// The header outside has the code point for services of the one inside.
    pub(crate) copies_services: bool,
    /// The header outside has the congestion mark of the one inside.
    pub(crate) copies_ecn: bool,
    /// What the path takes, with the headers of IP.
    pub(crate) mtu: AtomicUsize,
    pub(crate) used: Use,
    pub(crate) volume: Volume,
    pub(crate) failed: AtomicU64,
}

impl Outgoing {
    /// The largest packet that fits into the path as it is known.
    pub(crate) fn most(&self) -> usize {
        self.esp.payload_within(self.room())
    }

    /// The largest packet of ESP that fits into the path as it is known.
    pub(crate) fn room(&self) -> usize {
        let header = if self.way.to.is_ipv6() { ip::V6 } else { ip::V4 };
        self.mtu.load(Ordering::Relaxed).saturating_sub(header + UDP)
    }
}

/// An SA by which packets arrive.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) id: SaId,
    /// The serial number, which tells this SA from an earlier or later one of its name.
    pub(crate) serial: u64,
    pub(crate) about: About,
    pub(crate) esp: Inbound,
    /// Where its packets come from, as the daemon said.
    pub(crate) peer: SocketAddr,
    /// The daemon has been told that they come from elsewhere.
    pub(crate) moved: AtomicBool,
    /// The congestion mark outside counts.
    pub(crate) copies_ecn: bool,
    /// A packet gets the code point for services of the header around it.
    pub(crate) takes_services: bool,
    pub(crate) used: Use,
    pub(crate) volume: Volume,
    pub(crate) replayed: AtomicU64,
    pub(crate) forged: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// One of the two.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Out(std::sync::Arc<Outgoing>),
    In(std::sync::Arc<Incoming>),
}

/// An SA of XFRM that the data path can serve.
pub(super) struct Checked<'s> {
    pub(super) sa: &'s Sa,
    pub(super) keyed: Keyed<'s>,
    encapsulation: Encapsulation,
    /// Its packets arrive; those of other SAs leave.
    pub(super) arrives: bool,
    /// The last number according to the daemon.
    pub(super) said: u64,
}

impl<'s> Checked<'s> {
    /// `is_ours` says whether an address is one of this host's.
    ///
    /// # Errors
    /// EPROTONOSUPPORT and EOPNOTSUPP for features, ENOSYS for algorithms that the data path does not have.
    pub(super) fn of(sa: &'s Sa, is_ours: impl Fn(IpAddr) -> bool) -> Result<Self, Refusal> {
        check(sa)?;
        let Some(encapsulation) = sa.encapsulation.filter(|encapsulation| encapsulation.kind == ENCAP_ESPINUDP) else {
            return Err(Refusal::new(
                libc::EOPNOTSUPP,
                "an SA without ESP in UDP: set `encap = yes` in swanctl.conf, `encap espinudp` with ip xfrm",
            ));
        };
        let keyed = Keyed::of(sa)?;
        let (output, input) = numbers(sa);
        let arrives = sa.direction.map_or_else(|| is_ours(sa.id.destination), |direction| direction == IN);
        Ok(Self { sa, keyed, encapsulation, arrives, said: if arrives { input } else { output } })
    }

    /// Makes the SA of the data path, whose numbers begin behind `last`.
    ///
    /// # Errors
    /// EINVAL for keys.
    pub(super) fn end(self, gantry: &Gantry, last: u64, serial: u64) -> Result<End, Refusal> {
        let Self { sa, keyed: Keyed { suite, key, integrity_key }, encapsulation, .. } = self;
        let association = Association::new(sa.id.spi, suite, key, integrity_key).last_number(last);
        let association = if sa.has(state::ESN) { association.extended_numbers() } else { association };
        let unfit = |error| Refusal::new(libc::EINVAL, format!("{error}"));
        let (used, volume) = (Use::new(&sa.counters), Volume::new(&sa.limits));
        let copies_ecn = !sa.has(state::NOECN);
        if self.arrives {
            let window = said_window(sa);
            // A window of no packets would mean that replays are not looked for.
            let window = if window == 0 { WINDOW } else { window.max(32) };
            let esp = association.window(window).inbound(gantry).map_err(unfit)?;
            return Ok(End::In(std::sync::Arc::new(Incoming {
                id: sa.id,
                serial,
                about: About::new(sa),
                esp,
                peer: (sa.source, encapsulation.source_port).into(),
                moved: AtomicBool::new(false),
                copies_ecn,
                takes_services: sa.has(state::DECAP_DSCP),
                used,
                volume,
                replayed: AtomicU64::new(0),
                forged: AtomicU64::new(0),
                failed: AtomicU64::new(0),
            })));
        }
        let esp = association.outbound(gantry).map_err(unfit)?;
        Ok(End::Out(std::sync::Arc::new(Outgoing {
            id: sa.id,
            serial,
            about: About::new(sa),
            esp,
            turn: Mutex::new(()),
            way: Way { from: sa.source, to: (sa.id.destination, encapsulation.destination_port).into() },
            copies_services: sa.extra_flags & extra::DONT_ENCAP_DSCP == 0,
            copies_ecn,
            mtu: AtomicUsize::new(0),
            used,
            volume,
            failed: AtomicU64::new(0),
        })))
    }
}

/// The window in a message, in packets.
pub(super) fn said_window(sa: &Sa) -> u32 {
    sa.replay_esn.as_ref().map_or(sa.replay_window.into(), |replay| replay.window)
}

/// The last numbers in a message: sent, and received.
pub(super) fn numbers(sa: &Sa) -> (u64, u64) {
    match (&sa.replay_esn, &sa.replay) {
        (Some(replay), _) => (replay.output, replay.input),
        (None, Some(replay)) => (replay.output.into(), replay.input.into()),
        (None, None) => (0, 0),
    }
}

impl End {
    /// What it has done.
    pub(crate) fn used(&self) -> &Use {
        match self {
            End::Out(sa) => &sa.used,
            End::In(sa) => &sa.used,
        }
    }

    pub(super) fn volume(&self) -> &Volume {
        match self {
            End::Out(sa) => &sa.volume,
            End::In(sa) => &sa.volume,
        }
    }

    /// The last number that was sent or received.
    pub(super) fn last_number(&self) -> u64 {
        match self {
            End::Out(sa) => sa.esp.last_number(),
            End::In(sa) => sa.esp.last_number(),
        }
    }

    /// The limit of its volume or numbers that it has reached.
    pub(super) fn due(&self) -> Option<Reached> {
        match self {
            End::Out(sa) if sa.esp.remaining() == 0 => Some(Reached::Hard),
            _ => self.volume().due(self.used()),
        }
    }
}

/// The value of XFRMA_SA_DIR for packets that arrive.
pub(super) const IN: u8 = 1;

/// Refuses what there is not, rather than leave it out.
pub(super) fn check(sa: &Sa) -> Result<(), Refusal> {
    let refuse = |errno, what: &'static str| Err(Refusal::new(errno, what));
    if sa.id.protocol != ESP {
        return refuse(libc::EPROTONOSUPPORT, "only ESP is served, and neither AH nor IPComp");
    }
    if sa.mode != Mode::Tunnel {
        return refuse(libc::EOPNOTSUPP, "only tunnel mode is served");
    }
    if sa.mark.is_some() || sa.set_mark.is_some() || sa.interface_id != 0 {
        return refuse(libc::EOPNOTSUPP, "marks and XFRM interfaces are not served");
    }
    if sa.offload.is_some() {
        return refuse(libc::EOPNOTSUPP, "there is no network card to offload to");
    }
    if sa.tfc_padding != 0 {
        return refuse(libc::EOPNOTSUPP, "traffic flow confidentiality is not served");
    }
    if sa.extra_flags & extra::OSEQ_MAY_WRAP != 0 {
        return refuse(libc::EOPNOTSUPP, "a number is never used twice under one key");
    }
    if sa.has(state::ESN) && sa.replay_esn.is_none() {
        return refuse(libc::EINVAL, "an SA with extended numbers has XFRMA_REPLAY_ESN_VAL");
    }
    Ok(())
}
