//! SAs and policies, as the daemon and `ip xfrm` see them: the SAD and SPD (RFC 4301, 4.4).
//!
//! | file | content |
//! |---|---|
//! | `association.rs` | SAs of the data path |
//! | `suite.rs` | algorithms of SAs |
//! | `sequences.rs` | sequence numbers used under keys of removed SAs |
//! | `update.rs` | updates of SAs that have keys |
//! | `selector.rs` | finds policies by selectors |
//! | `view.rs`, `shared_view.rs` | the view that the threads of the data path use |
//! | `policies.rs` | policies by selector or index |

mod association;
mod policies;
mod selector;
mod sequences;
mod shared_view;
mod suite;
#[cfg(test)]
pub(crate) mod tests;
mod update;
mod view;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gantry_abi_xfrm::constants::state;
use gantry_abi_xfrm::{AllocSpi, Mark, Replay, ReplayEsn, Sa, SaId, Stats};
use gantry_core::Gantry;

use crate::udp::path_mtu;
pub(crate) use association::{ActiveSa, IncomingSa, LimitKind, OutgoingSa, SaInfo, Usage, unix_seconds};
use association::{AvailableSockets, SupportedSa};
pub(crate) use policies::{Policies, needs_sa, passes_unprotected};
pub(crate) use selector::{PolicyOrder, masked};
use sequences::{Fingerprint, SequenceHistory};
pub(crate) use shared_view::{SharedView, new_event_fd};
use update::check_update;
pub(crate) use view::{InstalledPolicy, OutgoingRule, Verdict, View, required_template, sa_addresses};

/// The refusal of a request: the error number that Linux would give, and a text for programs that ask for one (NETLINK_EXT_ACK).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) errno: i32,
    pub(crate) text: Cow<'static, str>,
}

impl Refusal {
    pub(crate) fn new(errno: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Self { errno, text: text.into() }
    }
}

/// Refuses marks and XFRM interfaces. Packets of a policy with a mark need the SA with the same mark, and a TUN device hands over packets
/// without their marks. XFRM interfaces hand their packets to the kernel's own XFRM.
fn check_marks(marks: &[Option<Mark>], interface_id: u32) -> Result<(), Refusal> {
    let text = if marks.iter().any(|mark| is_mark(*mark)) {
        "marks are not supported: the data path does not see those of packets"
    } else if interface_id != 0 {
        "XFRM interfaces are not supported: their packets go to the kernel's own XFRM"
    } else {
        return Ok(());
    };
    Err(Refusal::new(libc::EOPNOTSUPP, text))
}

/// Returns whether a mark differs from the mark of SAs and policies that set none.
fn is_mark(mark: Option<Mark>) -> bool {
    mark.is_some_and(|Mark { value, mask }| value | mask != 0)
}

/// The lowest SPI that may be assigned: lower ones are reserved (RFC 4303, 2.1).
const MIN_SPI: u32 = 256;
/// The time that an SPI waits for its keys: the value that charon sets in Linux (`xfrm_acq_expires`).
const LARVAL_TIMEOUT: Duration = Duration::from_secs(165);
/// Maximum number of SAs. Each takes some kilobytes.
const MAX_SAS: usize = 65_536;

/// An SA, or an SPI that is reserved for one.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The SA as the daemon gave it, with its keys.
    pub(crate) sa: Sa,
    /// `None` while the SA has an SPI but no keys.
    pub(crate) active: Option<ActiveSa>,
    /// The serial number, which distinguishes this SA from earlier and later ones with the same ID. SAs that
    /// arrive later have higher numbers.
    pub(crate) serial: u64,
    /// The fingerprint of the SA's key.
    fingerprint: Option<Fingerprint>,
    /// The last sequence number; `None` until the SA is removed.
    last_number: Option<u64>,
    /// The time from which the SA's age counts.
    pub(crate) added: Instant,
    /// True if the daemon has been notified of the soft limit. Other SAs are then preferred.
    is_dying: bool,
}

impl Entry {
    /// Looks up the path MTU to the peer.
    pub(crate) fn update_path_mtu(&self) {
        if let Some(ActiveSa::Out(sa)) = &self.active {
            // Without a route, assumes the minimum link MTU of IPv6.
            sa.path_mtu.store(path_mtu(sa.endpoints().to).unwrap_or(1280), Ordering::Relaxed);
        }
    }

    fn set_dying(&mut self, is_dying: bool, view: &SharedView) {
        if let Some(ActiveSa::Out(sa)) = &self.active
            && self.is_dying != is_dying
        {
            view.change(|view| view.set_preference(sa, is_dying));
        }
        self.is_dying = is_dying;
    }

    /// Returns the SA in its current state.
    pub(crate) fn snapshot(&self) -> Sa {
        let mut sa = self.sa.clone();
        let Some(active) = &self.active else { return sa };
        sa.counters = active.usage().counters(sa.counters.add_time);
        sa.last_used = Some(active.usage().last_used.load(Ordering::Relaxed)).filter(|seconds| *seconds > 0);
        let last = self.last_number.unwrap_or_else(|| active.last_number());
        let (output, input) = if matches!(active, ActiveSa::Out(_)) { (last, 0) } else { (0, last) };
        // The replay window is reported as if all its packets had arrived.
        if let Some(esn) = &mut sa.replay_esn {
            let bitmap = vec![u32::MAX; esn.bitmap.len()];
            *esn = ReplayEsn { output, input, window: esn.window, bitmap };
        } else {
            sa.replay = Some(Replay { output: output as u32, input: input as u32, bitmap: u32::MAX });
        }
        if let ActiveSa::In(incoming) = active {
            let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as u32;
            let (replay, integrity_failed) = (load(&incoming.replayed), load(&incoming.forged));
            sa.stats = Stats { replay_window: 0, replay, integrity_failed };
        }
        sa
    }
}

#[derive(Debug)]
pub(crate) struct Associations {
    gantry: Gantry,
    pub(crate) sockets: AvailableSockets,
    entries: HashMap<SaId, Entry>,
    /// SAs for incoming packets, and reserved SPIs. Incoming packets are matched by SPI alone.
    by_spi: HashMap<u32, SaId>,
    /// The number of SAs that send under each key.
    sender_counts: HashMap<Fingerprint, usize>,
    last_serial: u64,
    sequences: SequenceHistory,
    /// The view that the threads of the data path use.
    pub(crate) view: Arc<SharedView>,
}

impl Associations {
    /// Creates an empty table for a data path that uses the UDP port `port` and raw sockets.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn new(gantry: Gantry, port: u16) -> io::Result<Self> {
        Ok(Self {
            gantry,
            sockets: AvailableSockets { udp_port: port, has_raw: [true; 2] },
            entries: HashMap::new(),
            by_spi: HashMap::new(),
            sender_counts: HashMap::new(),
            last_serial: 0,
            sequences: SequenceHistory::new()?,
            view: Arc::default(),
        })
    }

    /// Reserves an SPI for an SA whose keys will follow.
    ///
    /// # Errors
    /// ENOENT if none is free in the range, EPROTONOSUPPORT for AH and IPComp.
    pub(crate) fn allocate(&mut self, request: &AllocSpi) -> Result<Sa, Refusal> {
        // If this request is refused for IPComp, charon goes on without IPComp.
        association::check_protocol(&request.sa)?;
        check_marks(&[request.sa.mark], request.sa.interface_id)?;
        let (lowest, highest) = (request.lowest.max(MIN_SPI), request.highest);
        let none = || Refusal::new(libc::ENOENT, "no SPI is free in the range");
        let range = u64::from(highest).checked_sub(lowest.into()).ok_or_else(none)? + 1;
        self.check_room()?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| Refusal::new(libc::EAGAIN, "the system has no random bytes"))?;
        // Takes the first free SPI from a random start. One of 65,536 SPIs is free, because there are fewer SAs.
        let start = u64::from_ne_bytes(random) % range;
        let mut spis = (0..range.min(1 << 16)).map(|at| lowest + ((start + at) % range) as u32);
        let is_free = |spi: &u32| {
            !self.by_spi.contains_key(spi) && !self.entries.contains_key(&SaId { spi: *spi, ..request.sa.id })
        };
        let spi = spis.find(is_free).ok_or_else(none)?;
        let mut sa = request.sa.clone();
        sa.id.spi = spi;
        self.insert(sa.clone(), None);
        Ok(sa)
    }

    /// Adds an SA, gives keys to a reserved SPI, or changes limits and port of an existing SA.
    ///
    /// # Errors
    /// EEXIST and ESRCH as on Linux, EEXIST for a key that is in use, and the errors of [`SupportedSa`].
    pub(crate) fn add(&mut self, mut sa: Sa, is_update: bool, is_ours: impl Fn(IpAddr) -> bool) -> Result<(), Refusal> {
        suite::fill_in_tag_length(&mut sa);
        let existing = self.entries.get(&sa.id);
        match existing {
            None if is_update => return Err(Refusal::new(libc::ESRCH, "there is no such SA")),
            Some(_) if !is_update => return Err(Refusal::new(libc::EEXIST, "the SA exists already")),
            Some(Entry { active: Some(_), .. }) => return self.update(&sa),
            _ => {}
        }
        self.check_room()?;
        let supported = SupportedSa::new(&sa, self.sockets, is_ours)?;
        let fingerprint = self.sequences.fingerprint(&supported);
        let last_number = if supported.is_incoming {
            if self.by_spi.get(&sa.id.spi).is_some_and(|id| *id != sa.id) {
                return Err(Refusal::new(libc::EEXIST, "another SA has this SPI"));
            }
            self.sequences.received.last_received(fingerprint, supported.daemon_sequence)
        } else {
            if supported.keyed.has_nonces() && self.sender_counts.contains_key(&fingerprint) {
                let text = "another SA sends under this key: sequence numbers would repeat (RFC 4106, 3)";
                return Err(Refusal::new(libc::EEXIST, text));
            }
            self.sequences.sent.last_sent(fingerprint, supported.daemon_sequence)?
        };
        let active = supported.build(&self.gantry, last_number, self.last_serial + 1)?;
        if let ActiveSa::Out(outgoing) = &active
            && self.view.read().has_other_peer(outgoing)
        {
            let text = "another peer behind the same NAT uses transport mode with this reqid (RFC 3948, 5.2)";
            return Err(Refusal::new(libc::EEXIST, text));
        }
        self.insert(sa, Some((active, fingerprint)));
        Ok(())
    }

    /// Changes the limits and the peer's port of an SA that has keys. The age of the SA still counts from its addition, as on Linux.
    fn update(&mut self, sa: &Sa) -> Result<(), Refusal> {
        let Some(entry) = self.entries.get_mut(&sa.id) else { return Ok(()) };
        let Some(active) = &entry.active else { return Ok(()) };
        check_update(&entry.sa, active, sa)?;
        (entry.sa.limits, entry.sa.encapsulation) = (sa.limits, sa.encapsulation);
        if let Some(encapsulation) = &sa.encapsulation {
            active.set_peer_port(encapsulation);
        }
        active.volume_limits().set(&sa.limits);
        entry.set_dying(false, &self.view);
        Ok(())
    }

    fn check_room(&self) -> Result<(), Refusal> {
        let full = self.entries.len() >= MAX_SAS;
        if full { Err(Refusal::new(libc::ENOBUFS, "too many SAs")) } else { Ok(()) }
    }

    fn insert(&mut self, mut sa: Sa, keyed: Option<(ActiveSa, Fingerprint)>) {
        // An SA that was moved here keeps its age.
        let now = unix_seconds();
        let age = if sa.counters.add_time == 0 { 0 } else { now.saturating_sub(sa.counters.add_time) };
        sa.counters.add_time = now - age;
        let added = Instant::now();
        let added = added.checked_sub(Duration::from_secs(age)).unwrap_or(added);
        if sa.has_flag(state::ESN) || sa.replay_esn.is_some() {
            sa.replay = None;
        }
        self.last_serial += 1;
        let (active, fingerprint) = keyed.unzip();
        let id = sa.id;
        let entry =
            Entry { active, serial: self.last_serial, fingerprint, last_number: None, added, is_dying: false, sa };
        match (&entry.active, fingerprint) {
            (Some(ActiveSa::Out(_)), Some(fingerprint)) => {
                *self.sender_counts.entry(fingerprint).or_default() += 1;
                // The SPI may have been reserved for this SA.
                self.free_spi(&id);
            }
            _ => _ = self.by_spi.insert(id.spi, id),
        }
        entry.update_path_mtu();
        if let Some(active) = &entry.active {
            self.view.change(|view| view.add(active));
        }
        self.entries.insert(id, entry);
    }

    fn free_spi(&mut self, id: &SaId) {
        if self.by_spi.get(&id.spi) == Some(id) {
            self.by_spi.remove(&id.spi);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, id: &SaId) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// Removes an SA. Afterwards no thread gets a sequence number of the SA. Its keys are zeroized once the last thread has released it.
    pub(crate) fn remove(&mut self, id: &SaId) -> Option<Entry> {
        let mut entry = self.entries.remove(id)?;
        self.free_spi(id);
        if let (Some(ActiveSa::Out(_)), Some(fingerprint)) = (&entry.active, entry.fingerprint)
            && let Some(count) = self.sender_counts.get_mut(&fingerprint)
        {
            *count -= 1;
            if *count == 0 {
                self.sender_counts.remove(&fingerprint);
            }
        }
        if let Some(active) = &entry.active {
            self.view.change(|view| view.remove(active));
            self.view.release_removed_sas();
        }
        let (numbers, last) = match &entry.active {
            Some(ActiveSa::Out(sa)) => (&mut self.sequences.sent, sa.esp.close()),
            Some(ActiveSa::In(sa)) => (&mut self.sequences.received, sa.esp.close()),
            None => return Some(entry),
        };
        entry.last_number = Some(last);
        if let Some(fingerprint) = entry.fingerprint {
            numbers.record(fingerprint, last);
        }
        Some(entry)
    }

    /// Returns all SAs in the order of arrival.
    pub(crate) fn all(&self) -> Vec<&Entry> {
        let mut all: Vec<_> = self.entries.values().collect();
        all.sort_unstable_by_key(|entry| entry.serial);
        all
    }

    /// Applies the limits of all SAs: marks SAs that are to be rekeyed, and removes expired SAs and SPIs that got no keys in time.
    /// Returns all of them, each with the limit that it has reached.
    pub(crate) fn enforce_all_limits(&mut self, now: Instant) -> Vec<(Sa, LimitKind)> {
        let (mut expirations, mut ended) = (Vec::new(), Vec::new());
        for entry in self.entries.values_mut() {
            let limits = &entry.sa.limits;
            let age = now.saturating_duration_since(entry.added).as_secs();
            let first_used =
                entry.active.as_ref().map_or(0, |active| active.usage().first_used.load(Ordering::Relaxed));
            // Limits of use count from the first packet.
            let seconds_since_first_use = if first_used == 0 { 0 } else { unix_seconds().saturating_sub(first_used) };
            let is_past = |add_seconds: u64, use_seconds: u64| {
                (add_seconds > 0 && age >= add_seconds)
                    || (use_seconds > 0 && first_used > 0 && seconds_since_first_use >= use_seconds)
            };
            let is_larval = entry.active.is_none() && age >= LARVAL_TIMEOUT.as_secs();
            // Threads report volume limits, too, but their events may be dropped.
            let reached = entry.active.as_ref().and_then(ActiveSa::recheck_limits);
            if is_larval
                || reached == Some(LimitKind::Hard)
                || is_past(limits.hard_add_seconds, limits.hard_use_seconds)
            {
                ended.push(entry.sa.id);
            } else if !entry.is_dying
                && (reached.is_some() || is_past(limits.soft_add_seconds, limits.soft_use_seconds))
            {
                entry.set_dying(true, &self.view);
                expirations.push((entry.snapshot(), LimitKind::Soft));
            }
        }
        let ended = ended.iter().filter_map(|id| self.remove(id));
        expirations.extend(ended.map(|entry| (entry.snapshot(), LimitKind::Hard)));
        expirations
    }

    /// Handles a thread's report that an SA has reached a limit. Ignores reports about an earlier SA with the same ID, which has
    /// another serial number. Returns the notifications for the daemon.
    pub(crate) fn handle_limit_report(&mut self, id: &SaId, serial: u64, reported: LimitKind) -> Vec<(Sa, LimitKind)> {
        let mut expirations = Vec::new();
        let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.serial == serial) else { return expirations };
        let reached = entry.active.as_ref().and_then(ActiveSa::recheck_limits);
        // If the hard limit was reached after a report of the soft limit, the daemon is notified of both.
        if reported == LimitKind::Soft && reached == Some(LimitKind::Hard) && !entry.is_dying {
            entry.set_dying(true, &self.view);
            expirations.push((entry.snapshot(), LimitKind::Soft));
        }
        expirations.extend(self.enforce_limits(id));
        expirations
    }

    /// Marks an SA that has reached its soft limit; removes an SA that has reached its hard limit or has no sequence
    /// numbers left.
    pub(crate) fn enforce_limits(&mut self, id: &SaId) -> Option<(Sa, LimitKind)> {
        let entry = self.entries.get_mut(id)?;
        match entry.active.as_ref()?.recheck_limits()? {
            LimitKind::Soft if entry.is_dying => None,
            LimitKind::Soft => {
                entry.set_dying(true, &self.view);
                Some((entry.snapshot(), LimitKind::Soft))
            }
            LimitKind::Hard => Some((self.remove(id)?.snapshot(), LimitKind::Hard)),
        }
    }
}
