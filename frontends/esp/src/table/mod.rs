//! SAs and policies, as the daemon and `ip xfrm` have them: what Linux has as SAD and SPD (RFC 4301, 4.4).
//!
//! | file | content |
//! |---|---|
//! | `association.rs` | SAs as the data path has them |
//! | `suite.rs` | their algorithms |
//! | `used.rs` | numbers that are used up under keys |
//! | `update.rs` | updates of SAs that have keys |
//! | `selector.rs` | which packets a selector is for |
//! | `view.rs` | what the threads of the data path look at |
//! | `policies.rs` | policies by their names |

mod association;
mod policies;
mod selector;
mod suite;
#[cfg(test)]
mod tests;
mod update;
mod used;
mod view;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gantry_abi_xfrm::constants::state;
use gantry_abi_xfrm::{AllocSpi, Replay, ReplayEsn, Sa, SaId, Stats};
use gantry_core::Gantry;

use crate::udp::path_mtu;
use association::Checked;
pub(crate) use association::{About, End, Incoming, Outgoing, Reached, Use, seconds};
pub(crate) use policies::Policies;
use update::check_update;
use used::{Fingerprint, Used};
pub(crate) use view::{Registered, Verdict, View, template};

/// Why a request is refused: the number that Linux would give, and a text for programs that ask for one (NETLINK_EXT_ACK).
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

/// SPIs that may be given out: those below are reserved (RFC 4303, 2.1).
const LOWEST: u32 = 256;
/// How long an SPI waits for its keys: what charon sets in Linux (`xfrm_acq_expires`).
const LARVAL: Duration = Duration::from_secs(165);
/// SAs that there may be. Each takes some kilobytes.
const MOST: usize = 65_536;

/// An SA.
#[derive(Debug)]
pub(crate) struct Entry {
    /// As the daemon gave it, with its keys.
    pub(crate) sa: Sa,
    /// `None`: it has an SPI and no keys yet.
    pub(crate) end: Option<End>,
    /// The serial number, which tells this SA from an earlier or later one of its name; also its place in the order of arrival.
    pub(crate) serial: u64,
    /// The fingerprint of its key.
    key: Option<Fingerprint>,
    /// The last number, once the SA was taken out.
    last: Option<u64>,
    pub(crate) added: Instant,
    /// The daemon has been told that it is to be replaced; others are preferred.
    pub(crate) is_dying: bool,
}

impl Entry {
    /// Looks up what the path to the peer takes.
    pub(crate) fn find_path(&self) {
        if let Some(End::Out(sa)) = &self.end {
            // Where there is no route yet, what every link takes.
            sa.mtu.store(path_mtu(sa.way.to).unwrap_or(1280), Ordering::Relaxed);
        }
    }

    /// The SA as it is now.
    pub(crate) fn snapshot(&self) -> Sa {
        let mut sa = self.sa.clone();
        let Some(end) = &self.end else { return sa };
        sa.counters = end.used().counters(sa.counters.add_time);
        sa.last_used = Some(end.used().last.load(Ordering::Relaxed)).filter(|seconds| *seconds > 0);
        let last = self.last.unwrap_or_else(|| end.last_number());
        let (output, input) = if matches!(end, End::Out(_)) { (last, 0) } else { (0, last) };
        // What has come within the window is not said number by number: as if all had.
        if let Some(esn) = &mut sa.replay_esn {
            let bitmap = vec![u32::MAX; esn.bitmap.len()];
            *esn = ReplayEsn { output, input, window: esn.window, bitmap };
        } else {
            sa.replay = Some(Replay { output: output as u32, input: input as u32, bitmap: u32::MAX });
        }
        if let End::In(incoming) = end {
            let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as u32;
            let (replay, integrity_failed) = (load(&incoming.replayed), load(&incoming.forged));
            sa.stats = Stats { replay_window: 0, replay, integrity_failed };
        }
        sa
    }
}

/// The SAs.
#[derive(Debug)]
pub(crate) struct Associations {
    gantry: Gantry,
    entries: HashMap<SaId, Entry>,
    serial: u64,
    used: Used,
}

impl Associations {
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn new(gantry: Gantry) -> io::Result<Self> {
        Ok(Self { gantry, entries: HashMap::new(), serial: 0, used: Used::new()? })
    }

    /// Reserves an SPI for an SA whose keys are to come.
    ///
    /// # Errors
    /// ENOENT if none is free in the range.
    pub(crate) fn allocate(&mut self, request: &AllocSpi) -> Result<Sa, Refusal> {
        let (lowest, highest) = (request.lowest.max(LOWEST), request.highest);
        let none = || Refusal::new(libc::ENOENT, "no SPI is free in the range");
        let range = u64::from(highest).checked_sub(lowest.into()).ok_or_else(none)? + 1;
        self.has_room()?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| Refusal::new(libc::EAGAIN, "the system has no random bytes"))?;
        // From a random place on, the first that is free.
        let start = u64::from_ne_bytes(random) % range;
        let free = (0..range.min(1 << 16)).map(|at| lowest + ((start + at) % range) as u32);
        let spi = free.into_iter().find(|spi| self.of_spi(*spi).next().is_none()).ok_or_else(none)?;
        let mut sa = request.sa.clone();
        sa.id.spi = spi;
        self.insert(sa.clone(), None);
        Ok(sa)
    }

    /// Adds an SA, or gives keys to an SPI that was reserved, or replaces what may change of one that is there.
    ///
    /// # Errors
    /// EEXIST and ESRCH as Linux has them, EEXIST for a key that is in use, and those of [`Checked`].
    pub(crate) fn add(&mut self, mut sa: Sa, update: bool, is_ours: impl Fn(IpAddr) -> bool) -> Result<(), Refusal> {
        suite::complete(&mut sa);
        let known = self.entries.get(&sa.id);
        match known {
            None if update => return Err(Refusal::new(libc::ESRCH, "there is no such SA")),
            Some(_) if !update => return Err(Refusal::new(libc::EEXIST, "there is such an SA")),
            Some(Entry { end: Some(_), .. }) => return self.change(&sa),
            _ => {}
        }
        self.has_room()?;
        let checked = Checked::of(&sa, is_ours)?;
        let key = self.used.fingerprint(&checked);
        let others = || self.entries.values().filter(|entry| entry.sa.id != sa.id);
        let last = if checked.arrives {
            // The SPI alone names the SA of an arriving packet.
            let is_taken = |entry: &Entry| entry.sa.id.spi == sa.id.spi && !matches!(entry.end, Some(End::Out(_)));
            if others().any(is_taken) {
                return Err(Refusal::new(libc::EEXIST, "another SA has this SPI"));
            }
            self.used.arrived.arrived(key, checked.said)
        } else {
            let is_taken = |entry: &Entry| entry.key == Some(key) && matches!(entry.end, Some(End::Out(_)));
            if checked.keyed.has_nonces() && others().any(is_taken) {
                let text = "another SA sends under this key, and numbers would be used twice (RFC 4106, 3)";
                return Err(Refusal::new(libc::EEXIST, text));
            }
            self.used.sent.behind(key, checked.said)?
        };
        let end = checked.end(&self.gantry, last, self.serial + 1)?;
        self.insert(sa, Some((end, key)));
        Ok(())
    }

    /// Changes the limits of an SA that has its keys. Time counts from when it was added, as in Linux.
    fn change(&mut self, sa: &Sa) -> Result<(), Refusal> {
        let Some(entry) = self.entries.get_mut(&sa.id) else { return Ok(()) };
        let Some(end) = &entry.end else { return Ok(()) };
        check_update(&entry.sa, end, sa)?;
        entry.sa.limits = sa.limits;
        end.volume().set(&sa.limits);
        entry.is_dying = false;
        Ok(())
    }

    fn has_room(&self) -> Result<(), Refusal> {
        let full = self.entries.len() >= MOST;
        if full { Err(Refusal::new(libc::ENOBUFS, "there are as many SAs as there may be")) } else { Ok(()) }
    }

    fn insert(&mut self, mut sa: Sa, keyed: Option<(End, Fingerprint)>) {
        // The age of an SA that was elsewhere counts.
        let now = seconds();
        let age = if sa.counters.add_time == 0 { 0 } else { now.saturating_sub(sa.counters.add_time) };
        sa.counters.add_time = now - age;
        let added = Instant::now();
        let added = added.checked_sub(Duration::from_secs(age)).unwrap_or(added);
        if sa.has(state::ESN) || sa.replay_esn.is_some() {
            sa.replay = None;
        }
        self.serial += 1;
        let (end, key) = keyed.unzip();
        let entry = Entry { end, serial: self.serial, key, last: None, added, is_dying: false, sa };
        self.entries.insert(entry.sa.id, entry);
    }

    fn of_spi(&self, spi: u32) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(move |entry| entry.sa.id.spi == spi)
    }

    pub(crate) fn get(&self, id: &SaId) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// Takes an SA out. Its numbers end at once, for all threads; its keys are zeroized when the last thread is done with them.
    pub(crate) fn remove(&mut self, id: &SaId) -> Option<Entry> {
        let mut entry = self.entries.remove(id)?;
        let (numbers, last) = match &entry.end {
            Some(End::Out(sa)) => (&mut self.used.sent, sa.esp.close()),
            Some(End::In(sa)) => (&mut self.used.arrived, sa.esp.close()),
            None => return Some(entry),
        };
        entry.last = Some(last);
        if let Some(key) = entry.key {
            numbers.note(key, last);
        }
        Some(entry)
    }

    /// In the order of arrival.
    pub(crate) fn all(&self) -> Vec<&Entry> {
        let mut all: Vec<_> = self.entries.values().collect();
        all.sort_unstable_by_key(|entry| entry.serial);
        all
    }

    /// What time has done: SAs that are to be replaced, which are marked so, and SAs that are no more, which are taken out.
    pub(crate) fn age(&mut self, now: Instant) -> Vec<(Sa, Reached)> {
        let (mut told, mut ended) = (Vec::new(), Vec::new());
        for entry in self.entries.values_mut() {
            let limits = &entry.sa.limits;
            let age = now.saturating_duration_since(entry.added).as_secs();
            let first = entry.end.as_ref().map_or(0, |end| end.used().first.load(Ordering::Relaxed));
            let idle = if first == 0 { 0 } else { seconds().saturating_sub(first) };
            let past = |add: u64, used: u64| (add > 0 && age >= add) || (used > 0 && first > 0 && idle >= used);
            let is_larval = entry.end.is_none() && age >= LARVAL.as_secs();
            // Threads tell of volume, as far as there is room for events.
            let due = entry.end.as_ref().and_then(End::due);
            if is_larval || due == Some(Reached::Hard) || past(limits.hard_add_seconds, limits.hard_use_seconds) {
                ended.push(entry.sa.id);
            } else if !entry.is_dying && (due.is_some() || past(limits.soft_add_seconds, limits.soft_use_seconds)) {
                entry.is_dying = true;
                told.push((entry.snapshot(), Reached::Soft));
            }
        }
        let ended = ended.iter().filter_map(|id| self.remove(id));
        told.extend(ended.map(|entry| (entry.snapshot(), Reached::Hard)));
        told
    }

    /// Looks after an SA that had reached a limit when a thread saw it. An SA of its name with another serial number is another one.
    pub(crate) fn reached(&mut self, id: &SaId, serial: u64, seen: Reached) -> Vec<(Sa, Reached)> {
        let mut told = Vec::new();
        let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.serial == serial) else { return told };
        let due = entry.end.as_ref().and_then(End::due);
        // The hard limit may have been reached meanwhile. The daemon learns of both.
        if seen == Reached::Soft && due == Some(Reached::Hard) && !entry.is_dying {
            entry.is_dying = true;
            told.push((entry.snapshot(), Reached::Soft));
        }
        told.extend(self.due(id));
        told
    }

    /// Marks an SA that has reached its soft limit, and takes one out that has reached its hard limit or has no number left.
    pub(crate) fn due(&mut self, id: &SaId) -> Option<(Sa, Reached)> {
        let entry = self.entries.get_mut(id)?;
        match entry.end.as_ref()?.due()? {
            Reached::Soft if entry.is_dying => None,
            Reached::Soft => {
                entry.is_dying = true;
                Some((entry.snapshot(), Reached::Soft))
            }
            Reached::Hard => Some((self.remove(id)?.snapshot(), Reached::Hard)),
        }
    }

    /// What the threads of the data path look at. Of SAs that do the same, the one that came last is preferred, but for those that are to be
    /// replaced (`xfrm_state_look_at` of Linux).
    pub(crate) fn view(&self, policies: &Policies) -> View {
        let mut incoming = HashMap::new();
        let mut outgoing = Vec::new();
        for entry in self.all() {
            match &entry.end {
                Some(End::In(sa)) => _ = incoming.insert(sa.id.spi, sa.clone()),
                Some(End::Out(sa)) => outgoing.push((entry, sa)),
                None => {}
            }
        }
        outgoing.sort_unstable_by_key(|(entry, _)| (entry.is_dying, u64::MAX - entry.serial));
        View::new(incoming, outgoing.into_iter().map(|(_, sa)| sa.clone()).collect(), policies.all())
    }
}
