//! Key derivations in lanes, and where threads that derive at the same time meet.
//!
//! A derivation takes milliseconds to seconds. One that begins while others run is not late for their lanes: it joins them in the middle.
//! Where there are more threads than CPUs, a thread hands its derivation to one that runs others already, and sleeps until its key is
//! there. No thread waits for others to come, and there are no threads of Gantry's own.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::available_parallelism;

use gantry_digest::{Algorithm, Level, LevelName, Pbkdf2, pbkdf2, pbkdf2_some};

/// The device that they are counted by.
pub(crate) const LANES: &str = "lanes";

/// Iterations between two looks at who has come: about a third of a millisecond.
const SLICE: u64 = 4096;
/// Those of fewer iterations are done before another thread has woken up.
const SHORT: u64 = 4096;
/// From so many blocks on, lanes are faster than one block after the other even without instructions for the hash function.
const SEVERAL: usize = 3;

/// A password, a salt, and how often: what PBKDF2 derives a key from.
type Password<'a> = (Algorithm, &'a [u8], &'a [u8], u64);

/// The derivations of a process.
pub(crate) struct Derivations {
    meetings: [Meeting; Algorithm::ALL.len()],
    /// By algorithm: whether known answers came out.
    known: [OnceLock<bool>; Algorithm::ALL.len()],
    /// Threads that derive, whoever does it for them.
    threads: AtomicUsize,
    cpus: usize,
    level: Level,
}

impl Derivations {
    pub(crate) fn new(cpu: Option<LevelName>) -> Self {
        if let Some(level) = cpu {
            gantry_digest::limit(level);
        }
        Self {
            meetings: Default::default(),
            known: [const { OnceLock::new() }; Algorithm::ALL.len()],
            threads: AtomicUsize::new(0),
            cpus: available_parallelism().map_or(1, usize::from),
            level: Level::detect_at_most(cpu),
        }
    }

    /// Whether derivations with this hash function have passed their known-answer test.
    pub(crate) fn knows(&self, algorithm: Algorithm) -> bool {
        *self.known[algorithm as usize].get_or_init(|| passes(algorithm))
    }

    /// A thread begins to derive.
    pub(crate) fn enter(&self) -> Present<'_> {
        let others = self.threads.fetch_add(1, Relaxed);
        Present { lanes: self, is_crowded: others >= self.cpus }
    }

    /// Whether so many blocks are faster in lanes than by the host, one after the other. (Nanoseconds an iteration on a Zen 4, OpenSSL 4.0
    /// and lanes. SHA-256: 117 and 73 for one block, 462 and 129 for four. SHA-512: 373 and 429, 1,497 and 730.)
    pub(crate) fn gains(&self, algorithm: Algorithm, blocks: usize) -> bool {
        let has_instructions = match algorithm {
            Algorithm::Sha1 | Algorithm::Sha224 | Algorithm::Sha256 => self.level.sha(),
            Algorithm::Sha384 | Algorithm::Sha512 | Algorithm::Sha512_256 => self.level.sha512(),
            _ => false,
        };
        has_instructions || blocks >= SEVERAL && self.level.name() >= LevelName::Avx2
    }
}

/// Keys of five blocks that hashlib derives from "password" and "salt" in three iterations: their words of eight bytes, high byte first and
/// the last one filled up with zeros, added up bit by bit.
#[rustfmt::skip]
const KNOWN: [(Algorithm, u64); 11] = [
    (Algorithm::Md5, 0xe6701abc9b065298),
    (Algorithm::Sha1, 0xd9410efc09fbd349),
    (Algorithm::Sha224, 0x65099dbfca24650d),
    (Algorithm::Sha256, 0x400b184e9580f52c),
    (Algorithm::Sha384, 0xdde096185ef31e87),
    (Algorithm::Sha512, 0x416601b98844ae99),
    (Algorithm::Sha512_256, 0xeba79f990fdb7520),
    (Algorithm::Sha3_224, 0x4f6acb1f5a709369),
    (Algorithm::Sha3_256, 0xe86ca53a82edf62c),
    (Algorithm::Sha3_384, 0xfcc403842b1e8b43),
    (Algorithm::Sha3_512, 0xb665fd87b68104e8),
];

/// Whether known answers come out of one chain, of those of one key, and of those of many.
fn passes(algorithm: Algorithm) -> bool {
    let size = algorithm.digest_size();
    let Some((_, known)) = KNOWN.iter().find(|(known, _)| *known == algorithm) else { return false };
    let (mut one, mut five) = (vec![0; size], vec![0; 5 * size]);
    let derived = [&mut one, &mut five].map(|key| pbkdf2(algorithm, b"password", b"salt", 3, key).is_ok());
    let words = five.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_be_bytes(word)
    });
    let sum = words.fold(0, |sum, word| sum ^ word);
    let begin = |_| Pbkdf2::new(algorithm, b"password", b"salt", 3, size);
    let Ok(mut many) = (0..16).map(begin).collect::<Result<Vec<_>, _>>() else { return false };
    let done = pbkdf2_some(&mut many.iter_mut().collect::<Vec<_>>(), 3).is_ok();
    derived == [true, true]
        && sum == *known
        && done
        && five.starts_with(&one)
        && many.iter().all(|key| key.key() == Some(&one[..]))
}

/// A thread that derives, whoever does it for it.
pub(crate) struct Present<'l> {
    lanes: &'l Derivations,
    /// There are more threads than CPUs.
    is_crowded: bool,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.lanes.threads.fetch_sub(1, Relaxed);
    }
}

/// How a key was derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Derived {
    Alone,
    /// With derivations of other threads in the lanes beside it.
    Together,
}

impl Present<'_> {
    /// Derives a key with PBKDF2, if that is faster here than by the host.
    pub(crate) fn pbkdf2(&self, password: Password<'_>, output: &mut [u8]) -> Option<Derived> {
        let (algorithm, secret, salt, iterations) = password;
        let blocks = output.len().div_ceil(algorithm.digest_size());
        let is_crowded = self.is_crowded && iterations >= SHORT;
        let gains = |blocks| self.lanes.gains(algorithm, blocks);
        if !(gains(blocks) || is_crowded && gains(SEVERAL)) {
            return None;
        }
        if iterations < SHORT {
            return pbkdf2(algorithm, secret, salt, iterations, output).ok().map(|()| Derived::Alone);
        }
        let derivation = Pbkdf2::new(algorithm, secret, salt, iterations, output.len()).ok()?;
        let (derivation, derived) = self.lanes.meetings[algorithm as usize].run(derivation, is_crowded)?;
        output.copy_from_slice(derivation.key()?);
        Some(derived)
    }
}

/// Where threads meet that derive with the same hash function. A thread leads that runs derivations: its own, and those of others.
#[derive(Default)]
struct Meeting(Mutex<Members>);

#[derive(Default)]
struct Members {
    /// Threads that lead.
    leaders: usize,
    /// Derivations that leaders run.
    running: usize,
    /// Derivations that no leader has taken yet. There are none without a leader.
    waiting: Vec<Seat>,
}

/// A derivation at a meeting.
struct Seat {
    derivation: Pbkdf2,
    derived: Derived,
    /// The thread that sleeps until it is done; none is the leader itself.
    thread: Option<Sender<Turn>>,
}

/// What a thread wakes up for.
enum Turn {
    /// Its key is there.
    Done(Pbkdf2, Derived),
    /// It leads from now on: its own derivation is the first.
    Lead(Vec<Seat>),
}

impl Meeting {
    /// Derives a key on the calling thread, or where `joins` says so by one that leads already. `None` if that one panics.
    fn run(&self, derivation: Pbkdf2, joins: bool) -> Option<(Pbkdf2, Derived)> {
        let mut seat = Seat { derivation, derived: Derived::Alone, thread: None };
        let mut members = self.lock();
        if !joins || members.leaders == 0 {
            members.leaders += 1;
            members.running += 1;
            drop(members);
            return self.lead(vec![seat]);
        }
        let (thread, turn) = channel();
        seat.thread = Some(thread);
        members.waiting.push(seat);
        drop(members);
        match turn.recv().ok()? {
            Turn::Done(derivation, derived) => Some((derivation, derived)),
            Turn::Lead(seats) => self.lead(seats),
        }
    }

    /// Runs derivations until the first of them is done, which is that of the calling thread.
    fn lead(&self, seats: Vec<Seat>) -> Option<(Pbkdf2, Derived)> {
        let mut leader = Leader { meeting: self, seats };
        loop {
            leader.take_newcomers();
            let seats = &mut leader.seats;
            if seats.len() > 1 {
                for seat in &mut *seats {
                    seat.derived = Derived::Together;
                }
            }
            let mut all: Vec<&mut Pbkdf2> = seats.iter_mut().map(|seat| &mut seat.derivation).collect();
            pbkdf2_some(&mut all, SLICE).ok()?;
            let done = seats.extract_if(1.., |seat| seat.derivation.key().is_some());
            let done: Vec<Seat> = done.collect();
            self.lock().running -= done.len();
            for Seat { derivation, derived, thread } in done {
                if let Some(thread) = thread {
                    // Whoever does not listen any more wants no key.
                    let _ = thread.send(Turn::Done(derivation, derived));
                }
            }
            if seats[0].derivation.key().is_some() {
                return Some(leader.end());
            }
        }
    }

    /// What a thread holds is whole between two of its steps, whatever became of it.
    fn lock(&self) -> MutexGuard<'_, Members> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that leads. If it panics, those whose derivations it has get none.
struct Leader<'m> {
    meeting: &'m Meeting,
    seats: Vec<Seat>,
}

impl Leader<'_> {
    /// Takes those who have come, no more than its share of all.
    fn take_newcomers(&mut self) {
        let mut members = self.meeting.lock();
        let Members { leaders, running, waiting } = &mut *members;
        let share = (*running + waiting.len()).div_ceil(*leaders);
        let taken = share.saturating_sub(self.seats.len()).min(waiting.len());
        *running += taken;
        self.seats.extend(waiting.drain(..taken));
    }

    /// Its own derivation is done: another thread leads the others on, if there are any.
    fn end(mut self) -> (Pbkdf2, Derived) {
        let Seat { derivation, derived, .. } = self.seats.remove(0);
        let mut members = self.meeting.lock();
        members.running -= 1;
        if self.seats.is_empty() && members.leaders == 1 {
            // Nobody else would lead those who have come.
            self.seats = mem::take(&mut members.waiting);
            members.running += self.seats.len();
        }
        if self.seats.is_empty() {
            // Before anybody else looks: who comes from now on leads.
            members.leaders -= 1;
            drop(members);
            mem::forget(self);
            return (derivation, derived);
        }
        drop(members);
        let mut others = mem::take(&mut self.seats);
        match others[0].thread.take() {
            // Only the leader's own has none.
            None => self.seats = others,
            Some(next) => match next.send(Turn::Lead(others)) {
                Ok(()) => mem::forget(self),
                // It ended while it slept, and the others get no key.
                Err(SendError(turn)) => {
                    if let Turn::Lead(others) = turn {
                        self.seats = others;
                    }
                }
            },
        }
        (derivation, derived)
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut members = self.meeting.lock();
        members.running -= self.seats.len();
        members.leaders -= 1;
        if members.leaders == 0 {
            members.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// As if there were so many CPUs.
    fn on_cpus(cpus: usize) -> Derivations {
        Derivations { cpus, ..Derivations::new(None) }
    }

    #[test]
    fn known_answers_come_out_of_every_function_that_has_some() {
        for (algorithm, _) in KNOWN {
            assert!(passes(algorithm), "{algorithm}");
        }
        assert!(!passes(Algorithm::Blake2b256));
    }

    /// Lengths, passwords and iterations are others in each thread: some end while others have just come.
    #[test]
    fn threads_that_meet_get_the_keys_that_they_get_alone() {
        let begin = |i: u64| {
            Pbkdf2::new(Algorithm::Sha256, &i.to_be_bytes(), b"salt", 1 + 3000 * (i % 5), 7 + 20 * i as usize).unwrap()
        };
        let alone: Vec<Pbkdf2> = (0..12).map(|i| Meeting::default().run(begin(i), false).unwrap().0).collect();
        let meeting = Meeting::default();
        for round in 0..10 {
            thread::scope(|scope| {
                for (i, expected) in (0..).zip(&alone) {
                    let meeting = &meeting;
                    scope.spawn(move || {
                        let (derivation, _) = meeting.run(begin(i), i > round % 3).expect("nobody panics");
                        assert_eq!(derivation.key(), expected.key(), "{i}");
                    });
                }
            });
            let members = meeting.lock();
            assert_eq!((members.leaders, members.running, members.waiting.len()), (0, 0, 0));
        }
    }

    #[test]
    fn more_threads_than_cpus_share_lanes_and_fewer_do_not() {
        let together = |lanes: &Derivations, threads: usize| {
            let derive = |i: usize| {
                let present = lanes.enter();
                // The others are there, too, before anyone is done.
                while lanes.threads.load(Relaxed) < threads {
                    thread::yield_now();
                }
                let mut key = [0; 32];
                let iterations = 400_000 + i as u64;
                let password = (Algorithm::Sha256, &[i as u8][..], &b"salt"[..], iterations);
                present.pbkdf2(password, &mut key)
            };
            let derived = thread::scope(|scope| {
                let threads: Vec<_> = (0..threads).map(|i| scope.spawn(move || derive(i))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            derived.contains(&Some(Derived::Together))
        };
        let lanes = on_cpus(1);
        if !lanes.gains(Algorithm::Sha256, 1) && !lanes.gains(Algorithm::Sha256, SEVERAL) {
            return;
        }
        assert!(together(&lanes, 6));
        assert!(!together(&on_cpus(8), 6));
    }

    #[test]
    fn a_leader_that_panics_leaves_nobody_asleep() {
        let meeting = Meeting::default();
        let begin = || Pbkdf2::new(Algorithm::Sha1, b"", b"", 1 << 40, 20).unwrap();
        thread::scope(|scope| {
            let mut leader = {
                let mut members = meeting.lock();
                (members.leaders, members.running) = (1, 1);
                Leader {
                    meeting: &meeting,
                    seats: vec![Seat { derivation: begin(), derived: Derived::Alone, thread: None }],
                }
            };
            let others: Vec<_> = (0..3).map(|_| scope.spawn(|| meeting.run(begin(), true).is_none())).collect();
            while leader.seats.len() < 4 {
                leader.take_newcomers();
            }
            drop(leader);
            assert!(others.into_iter().all(|other| other.join().unwrap()));
        });
        let members = meeting.lock();
        assert_eq!((members.leaders, members.running), (0, 0));
    }
}
